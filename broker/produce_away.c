#include "broker/produce_away.h"

#include "base/wire/apis.h"
#include "base/wire/produce_request.h"
#include "base/wire/produce_response.h"
#include "broker/room.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 12, TRIES = 2 };
#define ARENA_BYTES (16u << 20)
#define GRACE_US 2000000                       /* more than the leader is given */
#define FOLLOW_US 1000000                      /* so long the metadata may take to follow a change of leaders */
#define LOOK_US 20000

struct place { int32_t leader; bool todo; uint32_t own; };     /* of one part: who it was sent to; its index among the own ones */
struct broker_produce_everywhere {
    struct broker *broker;
    struct broker_produce *of, own;            /* own: what this broker leads; parts are copies */
    struct place *places;
    struct asking *asked;                      /* under way */
    uint32_t open, tries;
    struct ot_timer timer;
    int64_t follow_until_us;
    bool cancelled;
    struct ot_arena arena;
};
struct asking {
    struct broker_peer_call call;
    struct broker_produce_everywhere *all;
    struct asking *next;
    int32_t leader;
    struct ot_arena arena;
    struct ot_produce_response response;
};

static void round_begin(struct broker_produce_everywhere *all);

static void end(struct broker_produce_everywhere *all)
{
    struct broker_produce *of = all->of;
    ot_arena_free(&all->arena);
    free(all);
    of->call.done(&of->call);
}

/* Where the parts belong by now; false: nowhere else than before. */
static bool moved(const struct broker_produce_everywhere *all, bool take)
{
    bool any = false;
    const struct broker_view *view = broker_view_take(all->broker);
    for (uint32_t i = 0; i < all->of->part_count; i++) {
        int32_t leader = -1;
        if (!all->places[i].todo) continue;
        const bool known = broker_view_leader(view, all->of->parts[i].topic, all->of->parts[i].partition, &leader);
        if (!known || (leader < 0 && all->broker->peers == NULL)) leader = all->broker->node_id;       /* what is not there, or why nobody leads it, is told here */
        any |= leader >= 0 && leader != all->places[i].leader;
        if (take) all->places[i].leader = leader;
    }
    broker_view_give(view);
    return any;
}

static bool stale(enum ot_err error)
{
    return error == OT_ERR_NOT_LEADER_OR_FOLLOWER || error == OT_ERR_LEADER_NOT_AVAILABLE || error == OT_ERR_FENCED_LEADER_EPOCH;
}

/* It was appended where then leadership, the disk or the broker went away: sent once more it might be there twice, and told as refused it might be there all the same. */
static void look_for_unsure(struct broker_produce_part *part)
{
    if (part->error == OT_OK || part->base_offset < 0) return;
    part->base_offset = part->append_time_ms = part->log_start_offset = -1;
    if (part->error == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION) return;
    part->error = OT_ERR_REQUEST_TIMED_OUT;
    snprintf(part->text, sizeof part->text, "the leader changed or failed after the records were appended; whether they are kept is not known");
}

static void look(struct ot_timer *timer)
{
    struct broker_produce_everywhere *all = OT_CONTAINER(timer, struct broker_produce_everywhere, timer);
    struct ot_exec *home = all->of->call.home;
    if (all->cancelled) end(all);
    else if (moved(all, false) || ot_exec_now_us(home) >= all->follow_until_us) round_begin(all);
    else ot_exec_timer_set(home, &all->timer, ot_exec_now_us(home) + LOOK_US);
}

static void settle(struct broker_produce_everywhere *all)
{
    bool again = false;
    if (--all->open > 0) return;
    for (uint32_t i = 0; i < all->of->part_count; i++) {
        if (all->places[i].todo) look_for_unsure(&all->of->parts[i]);
        all->places[i].todo = all->places[i].todo && all->tries < TRIES && stale(all->of->parts[i].error);
        again |= all->places[i].todo;
    }
    if (!again || all->cancelled) {
        end(all);
        return;
    }
    struct ot_exec *home = all->of->call.home;
    all->timer.fired = look;
    all->follow_until_us = ot_exec_now_us(home) + FOLLOW_US;
    ot_exec_timer_set(home, &all->timer, ot_exec_now_us(home) + LOOK_US);
}

/* ---- what this broker leads */

static void result(struct broker_produce_part *to, const struct broker_produce_part *from)
{
    to->error = from->error;
    to->base_offset = from->base_offset;
    to->append_time_ms = from->append_time_ms;
    to->log_start_offset = from->log_start_offset;
    to->leader_id = from->leader_id;
    to->leader_epoch = from->leader_epoch;
    to->verdict = from->verdict;
    memcpy(to->text, from->text, sizeof to->text);
}

static void own_answered(struct broker_call *call)
{
    struct broker_produce_everywhere *all = OT_CONTAINER(call, struct broker_produce_everywhere, own.call);
    for (uint32_t i = 0; i < all->of->part_count; i++)
        if (all->places[i].todo && all->places[i].leader == all->broker->node_id) result(&all->of->parts[i], &all->own.parts[all->places[i].own]);
    settle(all);
}

static void nothing(struct broker_produce *produce) { (void)produce; }

/* False: no memory. */
static bool ask_here(struct broker_produce_everywhere *all)
{
    struct broker_produce_part *parts = ot_arena_array(&all->arena, all->of->part_count, sizeof *parts);
    uint32_t count = 0;
    if (parts == NULL) return false;
    for (uint32_t i = 0; i < all->of->part_count; i++) {
        const struct broker_produce_part *part = &all->of->parts[i];
        if (!all->places[i].todo || all->places[i].leader != all->broker->node_id) continue;
        all->places[i].own = count;
        parts[count++] = (struct broker_produce_part){ .topic = part->topic, .topic_id = part->topic_id, .partition = part->partition, .records = part->records,
            .records_bytes = part->records_bytes };
    }
    if (count == 0) return true;
    all->own = *all->of;
    all->own.call = (struct broker_call){ .home = all->of->call.home, .done = own_answered };
    all->own.parts = parts;
    all->own.part_count = count;
    all->own.queued = nothing;
    all->open++;
    (void)broker_produce(all->broker, &all->own);
    return true;
}

/* ---- what others lead */

static void take(struct broker_produce_part *part, const struct ot_produce_response_partition_produce_response *from)
{
    part->error = (enum ot_err)from->error_code;
    part->base_offset = from->base_offset;
    part->append_time_ms = from->log_append_time_ms;
    part->log_start_offset = from->log_start_offset;
    part->text[0] = 0;
    if (!from->error_message.null) snprintf(part->text, sizeof part->text, "%.*s", (int)OT_MIN(from->error_message.bytes, (uint32_t)sizeof part->text - 1), from->error_message.data);
    if (part->error != OT_OK) part->append_time_ms = part->log_start_offset = -1;
}

static void silent(struct broker_produce_part *part, const struct broker_peer_call *call, int32_t leader)
{
    part->base_offset = part->append_time_ms = part->log_start_offset = -1;
    part->error = call->link.sent ? OT_ERR_REQUEST_TIMED_OUT : call->error == OT_ERR_NO_MEMORY || call->error == OT_ERR_BUSY ? call->error : OT_ERR_LEADER_NOT_AVAILABLE;
    snprintf(part->text, sizeof part->text, call->link.sent ? "broker %d leads the partition and has not answered; whether the records are written is not known"
        : "broker %d leads the partition and was not reached", leader);
}

static void answered(struct broker_peer_call *call)
{
    struct asking *asking = OT_CONTAINER(call, struct asking, call);
    struct broker_produce_everywhere *all = asking->all;
    const struct ot_produce_response *response = &asking->response;
    struct asking **at = &all->asked;
    int32_t k = 0;
    for (uint32_t i = 0; i < all->of->part_count; i++) {       /* in the order asked: each part is a topic of its own */
        struct broker_produce_part *part = &all->of->parts[i];
        if (!all->places[i].todo || all->places[i].leader != asking->leader) continue;
        const bool good = call->error == OT_OK && k < response->responses.count && response->responses.items[k].partition_responses.count == 1
            && response->responses.items[k].partition_responses.items[0].index == part->partition;
        if (good) take(part, &response->responses.items[k].partition_responses.items[0]);
        else silent(part, call, asking->leader);
        k++;
    }
    broker_peer_call_end(call);
    while (*at != asking) at = &(*at)->next;
    *at = asking->next;
    ot_arena_free(&asking->arena);
    free(asking);
    settle(all);
}

static bool fill(const struct broker_produce_everywhere *all, int32_t leader, struct ot_arena *arena, struct ot_produce_request *out)
{
    const uint32_t max = all->of->part_count;
    struct ot_produce_request_topic_produce_data *topics = ot_arena_array(arena, max, sizeof *topics);
    struct ot_produce_request_partition_produce_data *parts = ot_arena_array(arena, max, sizeof *parts);
    if (topics == NULL || parts == NULL) return false;
    ot_produce_request_defaults(out);
    out->acks = all->of->acks == 0 ? 1 : all->of->acks;        /* there is no answer to 0, and a call that nobody answers is never over */
    out->timeout_ms = all->of->timeout_ms;
    out->topic_data.items = topics;
    for (uint32_t i = 0; i < max; i++) {
        const struct broker_produce_part *part = &all->of->parts[i];
        if (!all->places[i].todo || all->places[i].leader != leader) continue;
        const int32_t at = out->topic_data.count++;
        ot_produce_request_topic_produce_data_defaults(&topics[at]);
        ot_produce_request_partition_produce_data_defaults(&parts[at]);
        topics[at].name = part->topic;
        topics[at].partition_data.items = &parts[at];
        topics[at].partition_data.count = 1;
        parts[at].index = part->partition;
        parts[at].records = (struct ot_blob){ .data = part->records, .bytes = part->records_bytes };
    }
    return true;
}

static bool ask(struct broker_produce_everywhere *all, int32_t leader)
{
    struct asking *asking = calloc(1, sizeof *asking);
    struct ot_produce_request request;
    if (asking == NULL) return false;
    ot_arena_init(&asking->arena, ARENA_BYTES);
    if (!fill(all, leader, &asking->arena, &request)) {
        ot_arena_free(&asking->arena);
        free(asking);
        return false;
    }
    asking->all = all;
    asking->leader = leader;
    asking->next = all->asked;
    all->asked = asking;
    asking->call = (struct broker_peer_call){ .node_id = leader, .api = OT_API_PRODUCE, .version = VERSION, .request = &request, .response = &asking->response,
        .arena = &asking->arena, .deadline_us = ot_exec_now_us(all->of->call.home) + (int64_t)all->of->timeout_ms * 1000 + GRACE_US, .home = all->of->call.home, .done = answered,
        .alone = true };
    all->open++;
    broker_peer_call(all->broker, &asking->call);
    return true;
}

static void fail(struct broker_produce_everywhere *all, int32_t leader, enum ot_err error)
{
    for (uint32_t i = 0; i < all->of->part_count; i++) {
        struct broker_produce_part *part = &all->of->parts[i];
        if (!all->places[i].todo || all->places[i].leader != leader) continue;
        part->error = error;
        part->base_offset = part->append_time_ms = part->log_start_offset = -1;
        snprintf(part->text, sizeof part->text, "%s", ot_err_text(error));
    }
}

static void settle_run(struct ot_timer *timer) { settle(OT_CONTAINER(timer, struct broker_produce_everywhere, timer)); }

static void round_begin(struct broker_produce_everywhere *all)
{
    const int32_t own = all->broker->node_id;
    (void)moved(all, true);
    all->tries++;
    all->open = 1;
    fail(all, -1, OT_ERR_LEADER_NOT_AVAILABLE);
    if (!ask_here(all)) fail(all, own, OT_ERR_NO_MEMORY);
    for (uint32_t i = 0; i < all->of->part_count; i++) {
        const int32_t leader = all->places[i].leader;
        bool first = all->places[i].todo && leader >= 0 && leader != own;
        for (const struct asking *one = all->asked; first && one != NULL; one = one->next) first = one->leader != leader;
        if (first && !ask(all, leader)) fail(all, leader, OT_ERR_NO_MEMORY);
    }
    all->timer.fired = settle_run;             /* later: done never runs before the call returned */
    ot_exec_timer_set(all->of->call.home, &all->timer, ot_exec_now_us(all->of->call.home));
}

struct broker_produce_everywhere *broker_produce_anywhere(struct broker *broker, struct broker_produce *produce)
{
    struct broker_produce_everywhere *all = calloc(1, sizeof *all);
    if (all == NULL) return NULL;
    ot_arena_init(&all->arena, ARENA_BYTES);
    all->places = ot_arena_array(&all->arena, OT_MAX(produce->part_count, 1u), sizeof *all->places);
    if (all->places == NULL) {
        ot_arena_free(&all->arena);
        free(all);
        return NULL;
    }
    all->broker = broker;
    all->of = produce;
    for (uint32_t i = 0; i < produce->part_count; i++) all->places[i] = (struct place){ .leader = INT32_MIN, .todo = true };
    round_begin(all);
    return all;
}

void broker_produce_anywhere_cancel(struct broker_produce_everywhere *all)
{
    all->cancelled = true;
    for (struct asking *one = all->asked; one != NULL; one = one->next) broker_peer_call_abort(all->broker, &one->call);
}
