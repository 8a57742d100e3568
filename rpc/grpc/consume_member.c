/* The member behind a Consume stream: heartbeats of KIP-848 to the group, and what it is given and gives up. */
#include "rpc/grpc/consume.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>

#define BEAT_US_MAX 1000000                /* a heartbeat costs little from here, and a member hears of a rebalance by its own heartbeat only */
#define OLDER_US 20000                     /* how often a stream looks whether an older one of its member has ended */
#define GROUP_MARGIN_MS 10000              /* the group's patience beyond ours, so that a commit at the last moment still counts */

enum { EPOCH_LEAVE = -1, EPOCH_LEAVE_STATIC = -2 };

/* ---- parts */

struct consume_part *rpcg_consume_part(struct rpcg_consume *own, int64_t assignment_id)
{
    uint32_t at = own->part_hint < own->part_count ? own->part_hint : 0;
    for (uint32_t i = 0; i < own->part_count; i++, at = at + 1 < own->part_count ? at + 1 : 0) {
        if (own->parts[at].assignment_id != assignment_id) continue;
        own->part_hint = at;               /* who asks for one asks for it again, or for the one behind it */
        return &own->parts[at];
    }
    return NULL;
}

void rpcg_consume_deliveries_drop(struct rpcg_consume *own, int64_t assignment_id)
{
    for (uint32_t i = own->delivery_count; i-- > 0;) {
        if (own->deliveries[i].assignment_id != assignment_id) continue;
        own->unacknowledged -= own->deliveries[i].bytes;
        own->deliveries[i] = own->deliveries[--own->delivery_count];
    }
}

void rpcg_consume_part_drop(struct rpcg_consume *own, struct consume_part *part)
{
    rpcg_consume_deliveries_drop(own, part->assignment_id);
    *part = own->parts[--own->part_count];
    own->tell_assignment = true;
}

void rpcg_consume_lost(struct rpcg_consume *own)
{
    while (own->part_count > 0) rpcg_consume_part_drop(own, &own->parts[own->part_count - 1]);
    own->target_count = 0;
    own->epoch = 0;
    own->beat_us = 0;
}

static struct consume_topic *topic_of(struct rpcg_consume *own, const struct ot_uuid *id)
{
    struct broker_view_topic row;
    struct consume_topic *topic = own->topics;
    while (topic != NULL && !ot_uuid_equal(&topic->id, id)) topic = topic->next;
    if (topic != NULL) return topic;
    const struct broker_view *view = broker_view_take(own->call->server->broker);
    if (broker_view_topic_by_id(view, id, &row) && row.name.bytes < sizeof topic->name && (topic = calloc(1, sizeof *topic)) != NULL) {
        topic->id = *id;
        topic->bytes = row.name.bytes;
        memcpy(topic->name, row.name.data, row.name.bytes);
        topic->next = own->topics;
        own->topics = topic;
    }
    broker_view_give(view);
    return topic;
}

/* Topics that no partition is left of. */
static void topics_sweep(struct rpcg_consume *own)
{
    for (struct consume_topic *topic = own->topics; topic != NULL; topic = topic->next) topic->used = false;
    for (uint32_t i = 0; i < own->part_count; i++) own->parts[i].topic->used = true;
    for (struct consume_topic **link = &own->topics; *link != NULL;) {
        struct consume_topic *topic = *link;
        if (topic->used) {
            link = &topic->next;
            continue;
        }
        *link = topic->next;
        free(topic);
    }
}

static bool part_room(struct rpcg_consume *own)
{
    if (own->part_count < own->part_cap) return true;
    const uint32_t cap = own->part_cap == 0 ? 16 : own->part_cap * 2;
    struct consume_part *more = own->part_count >= CONSUME_PARTS_MAX ? NULL : realloc(own->parts, cap * sizeof *more);
    if (more == NULL) return false;
    own->parts = more;
    own->part_cap = cap;
    return true;
}

static int place_order(const void *a, const void *b)
{
    const struct consume_place *one = a, *other = b;
    const int order = memcmp(&one->topic_id, &other->topic_id, sizeof one->topic_id);
    return order != 0 ? order : (one->partition > other->partition) - (one->partition < other->partition);
}

static bool in_target(const struct rpcg_consume *own, const struct consume_part *part)
{
    const struct consume_place place = { part->topic->id, part->partition };
    return own->target_count > 0 && bsearch(&place, own->target, own->target_count, sizeof place, place_order) != NULL;
}

static void revoke(struct rpcg_consume *own, struct consume_part *part, int64_t now_us)
{
    if (part->stage == CONSUME_REVOKING) return;
    const bool untouched = part->stage != CONSUME_ACTIVE;
    part->stage = CONSUME_REVOKING;
    part->revoke_us = untouched ? now_us : now_us + (int64_t)own->join.rebalance_timeout_ms * 1000;
    own->tell_assignment = true;
}

/* What the group gave, against what is here. A topic that this broker does not know yet is looked for again with the next heartbeat. */
static void reconcile(struct rpcg_consume *own, int64_t now_us)
{
    bool *have = own->target_count == 0 ? NULL : calloc(own->target_count, sizeof *have);
    for (uint32_t i = 0; i < own->part_count; i++)
        if (!in_target(own, &own->parts[i])) revoke(own, &own->parts[i], now_us);
    if (have == NULL) return;              /* no memory: nothing is taken up before the next heartbeat */
    for (uint32_t i = 0; i < own->part_count; i++) {
        const struct consume_place place = { own->parts[i].topic->id, own->parts[i].partition };
        const struct consume_place *found = bsearch(&place, own->target, own->target_count, sizeof place, place_order);
        if (found != NULL) have[found - own->target] = true;
    }
    for (uint32_t i = 0; i < own->target_count; i++) {
        struct consume_topic *topic = have[i] ? NULL : topic_of(own, &own->target[i].topic_id);
        if (topic == NULL || !part_room(own)) continue;
        own->parts[own->part_count++] = (struct consume_part){ .topic = topic, .partition = own->target[i].partition, .assignment_id = ++own->assignment_ids, .next = -1,
            .acked = -1, .committed = -1, .told = -1 };
    }
    free(have);
}

static bool topic_gone(const struct rpcg_consume *own, const struct consume_part *part)
{
    struct broker_view_topic row;
    const struct broker_view *view = broker_view_take(own->call->server->broker);
    const bool gone = !broker_view_topic_by_id(view, &part->topic->id, &row);
    broker_view_give(view);
    return gone;
}

void rpcg_consume_revoke_step(struct rpcg_consume *own, int64_t now_us)
{
    bool some = false;
    for (uint32_t i = own->part_count; i-- > 0;) {
        struct consume_part *part = &own->parts[i];
        if (part->stage != CONSUME_REVOKING) continue;
        const bool committed = part->committed >= part->acked, all = part->acked == part->next && part->told >= part->committed;
        if (!(committed && (all || now_us >= part->revoke_us)) && !topic_gone(own, part)) continue;
        rpcg_consume_part_drop(own, part);
        some = true;
    }
    if (!some) return;
    topics_sweep(own);
    own->beat_us = 0;                      /* the group waits for it */
}

/* ---- heartbeats */

static bool target_take(struct rpcg_consume *own, const struct ot_consumer_group_heartbeat_response_assignment *assignment)
{
    uint32_t count = 0;
    for (int32_t i = 0; i < assignment->topic_partitions.count; i++) count += (uint32_t)OT_MAX(assignment->topic_partitions.items[i].partitions.count, 0);
    struct consume_place *more = count > CONSUME_PARTS_MAX ? NULL : realloc(own->target, OT_MAX(count, 1u) * sizeof *more);
    if (more == NULL) return false;
    own->target = more;
    own->target_count = 0;
    for (int32_t i = 0; i < assignment->topic_partitions.count; i++) {
        const struct ot_consumer_group_heartbeat_response_topic_partitions *topic = &assignment->topic_partitions.items[i];
        for (int32_t k = 0; k < topic->partitions.count; k++) own->target[own->target_count++] = (struct consume_place){ topic->topic_id, topic->partitions.items[k] };
    }
    if (own->target_count > 0) qsort(own->target, own->target_count, sizeof *own->target, place_order);
    return true;
}

static void beat_ok(struct rpcg_consume *own, int64_t now_us)
{
    const struct ot_consumer_group_heartbeat_response *answer = &own->response;
    if (own->last_sent == 0) own->joined = own->tell_assignment = true;
    if (own->epoch != answer->member_epoch) own->tell_assignment = true;
    own->epoch = answer->member_epoch;
    if (own->beat_us != 0) own->beat_us = now_us + OT_MIN((int64_t)answer->heartbeat_interval_ms * 1000, (int64_t)BEAT_US_MAX);
    if (answer->assignment != NULL && !target_take(own, answer->assignment)) {
        rpcg_consume_fail(own, OT_ERR_NO_MEMORY, "more partitions are assigned to this member than one stream takes: let more members join");
        return;
    }
    reconcile(own, now_us);
}

static void beat_done(struct broker_call *broker_call)
{
    struct rpcg_consume *own = OT_CONTAINER(broker_call, struct rpcg_consume, beat.call);
    struct rpcg_call *call = own->call;
    const enum ot_err err = broker_group_error(&own->beat);
    const char *text = own->beat.error == OT_OK ? own->beat.ask.text : NULL;
    const int64_t now_us = ot_clock_boot_us();
    own->beating = false;
    if (own->leaving) {
        own->state = CONSUME_LEFT;         /* who could not say so is missed by the group after its session timeout */
    } else if (err == OT_OK) {
        beat_ok(own, now_us);
    } else if (err == OT_ERR_UNKNOWN_MEMBER_ID || err == OT_ERR_FENCED_MEMBER_EPOCH) {
        if (own->last_sent == 0) rpcg_consume_fail(own, err, text);
        else rpcg_consume_lost(own);
    } else if (err == OT_ERR_COORDINATOR_LOAD_IN_PROGRESS || err == OT_ERR_COORDINATOR_NOT_AVAILABLE) {
        own->beat_us = now_us + CONSUME_AGAIN_US;
    } else {
        rpcg_consume_fail(own, err, text);
    }
    rpcg_consume_step(own);
    rpcg_release(call);
}

static bool owned_fill(struct rpcg_consume *own)
{
    struct ot_consumer_group_heartbeat_request_topic_partitions_array *list = &own->request.topic_partitions;
    uint32_t topics = 0;
    for (const struct consume_topic *topic = own->topics; topic != NULL; topic = topic->next) topics++;
    list->items = ot_arena_array(&own->beat_arena, topics, sizeof *list->items);
    int32_t *partitions = ot_arena_array(&own->beat_arena, own->part_count, sizeof *partitions);
    list->count = 0;
    if ((list->items == NULL && topics > 0) || (partitions == NULL && own->part_count > 0)) return false;
    for (const struct consume_topic *topic = own->topics; topic != NULL; topic = topic->next) {
        int32_t count = 0;
        for (uint32_t i = 0; i < own->part_count; i++)
            if (own->parts[i].topic == topic) partitions[count++] = own->parts[i].partition;
        if (count == 0) continue;
        list->items[list->count].topic_id = topic->id;
        list->items[list->count++].partitions = (struct ot_i32_array){ partitions, count };
        partitions += count;
    }
    return true;
}

static bool beat(struct rpcg_consume *own, int32_t epoch)
{
    struct rpcg_call *call = own->call;
    struct ot_consumer_group_heartbeat_request *request = &own->request;
    const struct rpcg_join_ask *join = &own->join;
    ot_arena_reset(&own->beat_arena);
    ot_consumer_group_heartbeat_request_defaults(request);
    request->group_id = join->group;
    request->member_id = ot_str_of(own->member_id);
    request->member_epoch = own->last_sent = epoch;
    if (join->instance_id.bytes > 0) request->instance_id = join->instance_id;
    if (epoch == 0) {
        request->rebalance_timeout_ms = join->rebalance_timeout_ms + GROUP_MARGIN_MS;
        if (join->rack.bytes > 0) request->rack_id = join->rack;
        if (join->assignor.bytes > 0) request->server_assignor = join->assignor;
        if (join->pattern.bytes > 0) request->subscribed_topic_regex = join->pattern;
        else request->subscribed_topic_names = (struct ot_str_array){ join->topics, (int32_t)join->topic_count };
    }
    if (epoch >= 0 && !owned_fill(own)) return false;
    rpcg_group_init(call, &own->beat, GROUP_ASK_CONSUMER_HEARTBEAT, join->group, ot_str_of(own->host), &own->beat_arena);
    own->beat.call.done = beat_done;
    own->beat.ask.version = 1;
    own->beat.ask.request = request;
    own->beat.ask.response = &own->response;
    own->beating = true;
    own->beat_us = INT64_MAX;              /* who wants one sooner says so by 0 */
    rpcg_hold(call);
    broker_group(call->server->broker, &own->beat);
    return true;
}

void rpcg_consume_leave(struct rpcg_consume *own)
{
    own->leaving = true;
    if (own->superseded || own->epoch <= 0) own->state = CONSUME_LEFT;
    else if (!beat(own, own->join.instance_id.bytes > 0 ? EPOCH_LEAVE_STATIC : EPOCH_LEAVE)) own->state = CONSUME_LEFT;
}

/* ---- joining */

static void topic_made(struct broker_call *broker_call)
{
    struct rpcg_consume *own = OT_CONTAINER(broker_call, struct rpcg_consume, groups_topic.call);
    struct rpcg_call *call = own->call;
    own->making_topic = false;
    own->topic_ok = true;
    if (own->groups_topic.error != OT_OK) rpcg_consume_fail(own, own->groups_topic.error, NULL);
    rpcg_consume_step(own);
    rpcg_release(call);
}

static bool same_text(struct ot_str a, struct ot_str b) { return a.bytes > 0 && ot_str_equal(a, b); }

/* An older stream of this member ends first, with what it has to commit; a static member waits for its own farewell. */
static bool older_waits(struct rpcg_consume *own)
{
    bool waits = false;
    for (struct rpcg_consume *other = own->call->server->consumers, *next; other != NULL; other = next) {
        next = other->next;
        if (other == own || other->state != CONSUME_JOINED || !ot_str_equal(other->join.group, own->join.group)) continue;
        const bool same = strcmp(other->member_id, own->member_id) == 0;
        if (!same && !(same_text(other->join.instance_id, own->join.instance_id) && rpcg_consume_closing(other))) continue;
        waits = true;
        if (!same || other->superseded) continue;
        other->superseded = true;
        rpcg_consume_step(other);
        waits = other->state == CONSUME_JOINED;
    }
    return waits;
}

bool rpcg_consume_member_step(struct rpcg_consume *own, int64_t now_us)
{
    if (own->state == CONSUME_WAITS) {
        if (own->making_topic) return false;
        own->making_topic = !own->topic_ok && rpcg_group_topic_make(own->call, &own->groups_topic, topic_made);
        if (own->making_topic) rpcg_hold(own->call);
        own->topic_ok |= !own->making_topic;
        if (own->making_topic || older_waits(own)) return false;
        own->state = CONSUME_JOINED;
        own->beat_us = 0;
    }
    if (!own->beating && now_us >= own->beat_us && !beat(own, own->epoch)) rpcg_consume_fail(own, OT_ERR_NO_MEMORY, NULL);
    return own->epoch > 0;
}

/* What is due already is not waited for: its turn comes with the end of what is under way. */
int64_t rpcg_consume_member_due_us(const struct rpcg_consume *own, int64_t now_us)
{
    int64_t due_us = own->beating || own->state != CONSUME_JOINED ? INT64_MAX : own->beat_us;
    if (own->state == CONSUME_WAITS && !own->making_topic) due_us = now_us + OLDER_US;
    for (uint32_t i = 0; i < own->part_count; i++) {
        const struct consume_part *part = &own->parts[i];
        const int64_t part_us = part->stage == CONSUME_REVOKING ? part->revoke_us : part->again_us;
        if (part_us > now_us) due_us = OT_MIN(due_us, part_us);
    }
    return due_us;
}

void rpcg_consume_member_free(struct rpcg_consume *own)
{
    own->part_count = 0;
    topics_sweep(own);
    free(own->parts);
    free(own->target);
    ot_arena_free(&own->beat_arena);
}
