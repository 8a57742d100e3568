/* Elections at an operator's word, and what an unclean one would lose. A preferred election moves a leadership within the ISR; an unclean one makes a replica the leader that may lack
 * committed records, which is why it wants accept_data_loss said out loud. */
#include "broker/moves.h"
#include "rest/handlers.h"
#include "rest/hop.h"
#include "rest/rows.h"
#include "rest/topic_view.h"
#include <stdio.h>
#include <string.h>

enum { ITEMS_MAX = 10000, REPLICAS_MAX = 64 };

struct candidate { int32_t broker, last_epoch; int64_t log_end, high_watermark; };     /* -1: it did not say */
struct item {
    struct ot_str topic; int32_t partition;
    int32_t old_leader, new_leader;            /* -1: none */
    int64_t log_end, high_watermark, lost_start, lost_end;     /* unclean; -1: not known */
};
struct election {
    struct broker_moves moves;
    struct rest_call *call;
    bool unclean, dry_run, one, all;
    struct item *items;
};

/* ---- who could lead, by what the replicas say */

static bool among(struct broker_view_ids ids, int32_t id)
{
    for (int32_t i = 0; i < ids.count; i++)
        if (ids.ids[i] == id) return true;
    return false;
}

static void ask_here(struct rest_call *call, const struct broker_view_topic *topic, int32_t index, struct candidate *out)
{
    struct broker_partition_state state;
    struct broker_partition *partition = broker_partition_find_id(call->broker, &topic->id, index);
    if (partition == NULL) return;
    broker_partition_state(partition, &state);
    broker_partition_put(partition);
    if (!state.open) return;
    out->last_epoch = state.last_epoch;
    out->log_end = state.log_end_offset;
    out->high_watermark = state.high_watermark;
}

static void ask_there(const struct rest_rows *rows, const struct broker_view_topic *topic, int32_t index, struct candidate *out)
{
    const json_t *list = rows == NULL ? NULL : json_object_get(rest_rows_place(rows, out->broker, topic->name, index), "replica_state"), *one;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)list, i, one) {
        if (rest_row_int(one, "broker") != out->broker) continue;
        out->last_epoch = (int32_t)rest_row_int(one, "last_epoch");
        out->log_end = rest_row_int(one, "log_end_offset");
        out->high_watermark = rest_row_int(one, "high_watermark");
    }
}

/* The live replicas; how many. */
static uint32_t candidates_of(struct rest_call *call, const struct broker_view_topic *topic, const struct broker_view_partition *row, const struct rest_rows *rows,
    struct candidate out[static REPLICAS_MAX])
{
    uint32_t count = 0;
    for (int32_t i = 0; i < row->replicas.count && count < REPLICAS_MAX; i++) {
        if (among(row->offline, row->replicas.ids[i])) continue;
        struct candidate *one = &out[count++];
        *one = (struct candidate){ row->replicas.ids[i], -1, -1, -1 };
        if (one->broker == broker_node_id(call->broker)) ask_here(call, topic, row->index, one);
        else ask_there(rows, topic, row->index, one);
    }
    return count;
}

/* The longest log of the latest epoch; NULL: nobody said anything. */
static const struct candidate *longest(const struct candidate *list, uint32_t count)
{
    const struct candidate *best = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].log_end < 0) continue;
        const bool later = best != NULL && (list[i].last_epoch > best->last_epoch || (list[i].last_epoch == best->last_epoch && list[i].log_end > best->log_end));
        if (best == NULL || later) best = &list[i];
    }
    return best;
}

/* The one that the operator named, else the longest. */
static const struct candidate *chosen(const struct broker_move *move, const struct candidate *list, uint32_t count)
{
    for (uint32_t i = 0; move->named && i < count; i++)
        if (list[i].broker == move->leader) return &list[i];
    return move->named ? NULL : longest(list, count);
}

/* From where on records may be missing once it leads: its end, if it was the last leader or wrote in that one's epoch; else its log may differ lower, down to what it knows to be
 * committed. Up to the end of the longest log that anybody has; -1: those that do not answer may have more. */
static void lost_with(const struct candidate *one, const struct candidate *list, uint32_t count, const struct broker_view_partition *row, int64_t *start_out, int64_t *end_out)
{
    const bool latest = one->broker == row->last_leader || (row->last_leader_epoch >= 0 && one->last_epoch >= row->last_leader_epoch);
    bool all_told = row->offline.count == 0;
    int64_t end = one->log_end;
    for (uint32_t i = 0; i < count; i++) {
        all_told &= list[i].log_end >= 0;
        end = OT_MAX(end, list[i].log_end);
    }
    *start_out = latest ? one->log_end : OT_MAX(one->high_watermark, 0);
    *end_out = end > *start_out || all_told ? OT_MAX(end, *start_out) : -1;
    if (one->log_end < 0) *start_out = *end_out = -1;
}

static void write_range(struct rest_json *out, const char *key, int64_t start, int64_t end, bool exact)
{
    if (start < 0) {
        rest_json_null(out, key);
        return;
    }
    rest_json_open(out, key, '{');
    rest_json_big(out, "start", start);
    rest_json_big_or_null(out, "end", end);
    rest_json_bool(out, "exact", exact);
    rest_json_close(out, '}');
}

/* ---- the answer of an election */

static void id_or_null(struct rest_json *out, const char *key, int32_t id)
{
    if (id < 0) rest_json_null(out, key);
    else rest_json_int(out, key, id);
}

static void write_item(struct election *election, uint32_t at)
{
    struct rest_json *out = &election->call->out;
    const struct item *item = &election->items[at];
    const struct broker_move *move = &election->moves.moves[at];
    const bool unclean = election->unclean && move->error == OT_OK;
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", item->topic);
    rest_json_int(out, "partition", item->partition);
    id_or_null(out, "old_leader", item->old_leader);
    id_or_null(out, "new_leader", move->error == OT_OK ? item->new_leader : -1);
    rest_json_big_or_null(out, "log_end_offset", unclean ? item->log_end : -1);
    rest_json_big_or_null(out, "last_known_high_watermark", unclean ? item->high_watermark : -1);
    write_range(out, "lost", unclean ? item->lost_start : -1, item->lost_end, false);
    rest_item_error(out, move->error, move->text);
    rest_json_close(out, '}');
}

static bool is_shown(const struct election *election, uint32_t at) { return !election->all || election->moves.moves[at].error != OT_ERR_ELECTION_NOT_NEEDED; }

static void reply(struct election *election)
{
    struct rest_call *call = election->call;
    struct rest_json *out = &call->out;
    const struct broker_moves *moves = &election->moves;
    uint32_t failed = 0, shown = 0;
    enum ot_err error = OT_OK;
    bool alike = true;
    for (uint32_t i = 0; i < moves->count; i++) {
        if (!is_shown(election, i)) continue;
        shown++;
        failed += moves->moves[i].error != OT_OK;
        if (error == OT_OK) error = moves->moves[i].error;
        alike &= moves->moves[i].error == error;
    }
    if (failed > 0 && failed == shown && alike) {              /* one answer for all of them */
        const struct broker_move *move = moves->moves;
        while (move->error != error) move++;
        rest_problem(call, error, "%.*s-%d: %s", (int)OT_MIN(move->topic.bytes, 100u), move->topic.data, move->partition, move->text[0] != 0 ? move->text : ot_err_text(error));
        return;
    }
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "type", election->unclean ? "unclean" : "preferred");
    rest_json_bool(out, "dry_run", election->dry_run);
    rest_json_open(out, "items", '[');
    for (uint32_t i = 0; i < moves->count; i++)
        if (is_shown(election, i)) write_item(election, i);
    rest_json_close(out, ']');
    rest_json_close(out, '}');
    rest_reply_json(call, failed > 0 ? 207 : 200);
}

static void elected(struct broker_call *broker_call)
{
    struct election *election = OT_CONTAINER(broker_call, struct election, moves.call);
    const struct broker_view *view = broker_view_take(election->call->broker);
    for (uint32_t i = 0; i < election->moves.count; i++) (void)broker_view_leader(view, election->items[i].topic, election->items[i].partition, &election->items[i].new_leader);
    broker_view_give(view);
    reply(election);
}

/* ---- what is asked */

/* Somebody named a leader that cannot be it. */
static void refuse_named(struct broker_move *move, const struct broker_view_partition *row)
{
    const bool replica = among(row->replicas, move->leader);
    move->error = replica ? OT_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE : OT_ERR_REPLICA_NOT_AVAILABLE;
    (void)snprintf(move->text, sizeof move->text, replica ? "Broker %d does not live." : "Broker %d holds no replica of the partition.", move->leader);
}

static void judge(struct election *election, const struct broker_view *view, uint32_t at, const struct rest_rows *rows)
{
    struct item *item = &election->items[at];
    struct broker_move *move = &election->moves.moves[at];
    struct candidate list[REPLICAS_MAX] = { 0 };
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[8192];
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    const enum broker_election kind = election->unclean ? BROKER_ELECT_UNCLEAN : BROKER_ELECT_PREFERRED;
    move->error = election->dry_run ? broker_elect(view, kind, item->topic, item->partition, &arena, move->text)
        : broker_elect_named(view, kind, item->topic, item->partition, &arena, move->text);
    item->old_leader = item->new_leader = -1;
    item->log_end = item->high_watermark = item->lost_start = item->lost_end = -1;
    if (broker_view_topic(view, item->topic, &topic) && broker_view_partition(view, &topic.id, item->partition, &arena, &row)) {
        item->old_leader = row.leader;
        if (!election->unclean && row.replicas.count > 0) item->new_leader = broker_preferred(view, &row);
        const uint32_t count = election->unclean && row.leader < 0 ? candidates_of(election->call, &topic, &row, rows, list) : 0;
        const struct candidate *best = chosen(move, list, count);
        if (move->error == OT_OK && move->named && best == NULL) refuse_named(move, &row);
        if (best != NULL) {
            item->new_leader = best->broker;
            item->log_end = best->log_end;
            for (uint32_t i = 0; i < count; i++) item->high_watermark = OT_MAX(item->high_watermark, list[i].high_watermark);
            lost_with(best, list, count, &row, &item->lost_start, &item->lost_end);
        }
    }
    ot_arena_free(&arena);
}

static void start(struct election *election, const struct rest_rows *rows)
{
    const struct broker_view *view = broker_view_take(election->call->broker);
    for (uint32_t i = 0; i < election->moves.count; i++) judge(election, view, i, rows);
    broker_view_give(view);
    if (election->dry_run) {
        reply(election);
        return;
    }
    election->moves.call.home = election->call->home;
    election->moves.call.done = elected;
    election->moves.timeout_ms = (int32_t)election->call->timeout_ms;
    broker_moves(election->call->broker, &election->moves);
}

static void gathered(struct rest_gather *gather)
{
    struct rest_rows rows;
    const bool told = rest_rows_places(&rows, gather);
    start(gather->arg, told ? &rows : NULL);
    rest_rows_free(&rows);
}

static void begin(struct election *election)
{
    struct rest_call *call = election->call;
    if (election->unclean && election->moves.count > 0 && rest_gather_wanted(call)) rest_gather(call, "/v1/partitions?state=offline&limit=1000", election, gathered);
    else start(election, NULL);
}

static struct election *election_new(struct rest_call *call, uint32_t count)
{
    struct election *election = ot_arena_alloc(&call->arena, sizeof(*election));
    if (election == NULL) goto fail;
    *election = (struct election){ .call = call };
    election->items = ot_arena_array(&call->arena, OT_MAX(count, 1u), sizeof(*election->items));
    election->moves.moves = ot_arena_array(&call->arena, OT_MAX(count, 1u), sizeof(*election->moves.moves));
    if (election->items == NULL || election->moves.moves == NULL) goto fail;
    return election;
fail:
    rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
    return NULL;
}

/* leader: -1: nobody is named */
static void add(struct election *election, struct ot_str topic, int32_t partition, int64_t leader)
{
    election->items[election->moves.count] = (struct item){ .topic = topic, .partition = partition };
    election->moves.moves[election->moves.count++] = (struct broker_move){ .kind = election->unclean ? BROKER_MOVE_ELECT_UNCLEAN : BROKER_MOVE_ELECT_PREFERRED, .topic = topic,
        .partition = partition, .named = leader >= 0, .leader = (int32_t)leader };
}

/* Only an unclean election has a choice. */
static void check_leader(struct rest_call *call, bool unclean, int64_t leader, const char *pointer)
{
    if (leader >= 0 && !unclean) rest_fault_add(&call->faults, pointer, "only an unclean election takes it: a preferred one goes to the first replica");
}

struct body { struct ot_str type; bool accepts, dry_run; json_t *partitions; };

/* False: there are faults. */
static bool check_body(struct rest_call *call, const struct body *body, bool *unclean_out)
{
    *unclean_out = ot_str_equal(body->type, ot_str_of("unclean"));
    if (!*unclean_out && !ot_str_equal(body->type, ot_str_of("preferred"))) rest_fault_add(&call->faults, "/type", "is neither preferred nor unclean");
    if (*unclean_out && !body->accepts) rest_fault_add(&call->faults, "/accept_data_loss", "an unclean election may lose committed records: it wants true here");
    return call->faults.count == 0;
}

static void read_partitions(struct election *election, const struct body *body)
{
    struct rest_call *call = election->call;
    size_t i;
    json_t *one;
    json_array_foreach(body->partitions, i, one) {
        char pointer[REST_POINTER_MAX];
        struct ot_str topic = { .null = true };
        int64_t partition = -1, leader = -1;
        const struct rest_member members[] = {
            { .name = "topic", .kind = REST_TEXT, .required = true, .out = &topic },
            { .name = "partition", .kind = REST_INT, .required = true, .out = &partition, .min = 0, .max = INT32_MAX },
            { .name = "leader", .kind = REST_INT, .out = &leader, .min = 0, .max = INT32_MAX },
        };
        rest_pointer_index(pointer, "/partitions", i);
        if (!json_is_object(one)) rest_fault_add(&call->faults, pointer, "must be an object");
        else if (rest_members(one, pointer, members, OT_ARRAY_COUNT(members), &call->faults)) add(election, topic, (int32_t)partition, leader);
        check_leader(call, election->unclean, leader, pointer);
    }
}

/* Every partition that may need one: those that do not are not told. What does not fit takes another request. */
static void take_all(struct election *election)
{
    struct rest_call *call = election->call;
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[8192];
    bool fits = true;
    election->all = true;
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    const struct broker_view *view = broker_view_take(call->broker);
    for (struct ot_str after = { .null = true }; fits && broker_view_next_topic(view, after, &topic); after = topic.name) {
        const char *name = NULL;
        for (int32_t i = 0; fits && i < topic.partition_count; i++) {
            ot_arena_reset(&arena);
            if (!broker_view_partition(view, &topic.id, i, &arena, &row) || row.replicas.count == 0) continue;
            if (election->unclean ? row.leader >= 0 : row.leader == broker_preferred(view, &row)) continue;
            if (name == NULL) name = ot_arena_str(&call->arena, topic.name);
            fits = name != NULL && election->moves.count < ITEMS_MAX;
            if (fits) add(election, ot_str_of(name), i, -1);
        }
    }
    broker_view_give(view);
    ot_arena_free(&arena);
}

void rest_elections_start(struct rest_call *call)
{
    json_t *json = rest_body_object(call, REST_VALUES_SMALL * 4);
    struct body body = { .type = { .null = true }, .dry_run = true };
    bool unclean = false;
    if (json == NULL) return;
    const struct rest_member members[] = {
        { .name = "type", .kind = REST_TEXT, .required = true, .out = &body.type },
        { .name = "partitions", .kind = REST_ARRAY, .nullable = true, .out = &body.partitions, .min = 1, .max = ITEMS_MAX },
        { .name = "accept_data_loss", .kind = REST_BOOL, .out = &body.accepts },
        { .name = "dry_run", .kind = REST_BOOL, .required = true, .out = &body.dry_run },
    };
    rest_members(json, "", members, OT_ARRAY_COUNT(members), &call->faults);
    if (call->faults.count == 0) (void)check_body(call, &body, &unclean);
    struct election *election = rest_faulty(call) ? NULL : election_new(call, body.partitions == NULL ? ITEMS_MAX : (uint32_t)json_array_size(body.partitions));
    if (election == NULL) return;
    election->unclean = unclean;
    election->dry_run = body.dry_run;
    if (body.partitions != NULL) read_partitions(election, &body);
    else take_all(election);
    if (!rest_faulty(call)) begin(election);
}

void rest_partition_election(struct rest_call *call)
{
    json_t *json = rest_body_object(call, REST_VALUES_SMALL);
    struct body body = { .type = { .null = true }, .dry_run = true };
    struct broker_view_topic topic;
    int32_t index = 0;
    int64_t leader = -1;
    bool unclean = false;
    if (json == NULL) return;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_partition_find(call, view, &topic, &index);
    const char *name = found ? ot_arena_str(&call->arena, topic.name) : NULL;
    broker_view_give(view);
    if (!found) return;
    const struct rest_member members[] = {
        { .name = "type", .kind = REST_TEXT, .required = true, .out = &body.type },
        { .name = "accept_data_loss", .kind = REST_BOOL, .out = &body.accepts },
        { .name = "dry_run", .kind = REST_BOOL, .required = true, .out = &body.dry_run },
        { .name = "leader", .kind = REST_INT, .out = &leader, .min = 0, .max = INT32_MAX },
    };
    rest_members(json, "", members, OT_ARRAY_COUNT(members), &call->faults);
    if (call->faults.count == 0 && check_body(call, &body, &unclean)) check_leader(call, unclean, leader, "/leader");
    struct election *election = rest_faulty(call) ? NULL : election_new(call, 1);
    if (election == NULL) return;
    election->unclean = unclean;
    election->dry_run = body.dry_run;
    add(election, ot_str_of(name == NULL ? "" : name), index, leader);
    begin(election);
}

/* ---- GET /v1/unclean-election */

enum { PAGES = 'u', LIMIT = 1000 };

static void find_default(void *arg, const struct broker_config_value *value)
{
    if (strcmp(value->row->key, "unclean.leader.election.enable") == 0) *(bool *)arg = value->value != NULL && strcmp(value->value, "true") == 0;
}

static void write_overrides(struct rest_json *out, const struct broker_view *view)
{
    struct broker_view_topic topic;
    struct broker_view_config own;
    rest_json_open(out, "overrides", '[');
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (struct ot_str at = { .null = true }; broker_view_next_topic_config(view, &topic.id, at, &own); at = own.name) {
            if (!ot_str_equal(own.name, ot_str_of("unclean.leader.election.enable"))) continue;
            rest_json_open(out, NULL, '{');
            rest_json_str(out, "topic", topic.name);
            rest_json_bool(out, "enabled", ot_str_equal(own.value, ot_str_of("true")));
            rest_json_close(out, '}');
        }
    }
    rest_json_close(out, ']');
}

/* What JSON has beside the list: the policy, and who did not answer. NULL: no memory. */
static const char *beside(struct rest_call *call, const struct broker_view *view, const struct rest_gather *gather)
{
    struct rest_json out;
    bool enabled = false;
    const char *partial = gather == NULL ? NULL : rest_gather_extra(gather);
    broker_config_describe(broker_config_store(call->broker), broker_node_id(call->broker), find_default, &enabled);
    rest_json_init(&out, REST_ANSWER_MAX);
    rest_json_bool(&out, "default", enabled);
    write_overrides(&out, view);
    if (partial != NULL) {
        rest_json_put(&out, ",", 1);
        rest_json_put(&out, partial, strlen(partial));
    }
    const char *text = rest_json_failed(&out) ? NULL : ot_arena_str(&call->arena, (struct ot_str){ out.data, (uint32_t)out.bytes, false });
    rest_json_free(&out);
    return text;
}

struct leaderless { const struct broker_view_topic *topic; const struct broker_view_partition *row; const struct candidate *list, *best; uint32_t count; };

static void write_partition(struct rest_json *out, const struct leaderless *of)
{
    rest_json_str(out, "topic", of->topic->name);
    rest_json_int(out, "partition", of->row->index);
    id_or_null(out, "last_leader", of->row->last_leader);
    rest_json_big_or_null(out, "last_leader_epoch", of->row->last_leader_epoch);
    rest_ids_write(out, "replicas", of->row->replicas);
    rest_ids_write(out, "elr", of->row->elr);
    rest_ids_write(out, "offline", of->row->offline);
}

static void write_candidate(struct rest_json *out, const struct leaderless *of, const struct candidate *one)
{
    id_or_null(out, "broker", one->broker);
    rest_json_bool(out, "would_be_chosen", one == of->best);
    rest_json_big_or_null(out, "last_epoch", one->last_epoch);
    rest_json_big_or_null(out, "log_end_offset", one->log_end);
    rest_json_big_or_null(out, "high_watermark", one->high_watermark);
}

/* As columns: a row for each candidate, and one for a partition that has none. */
static void write_rows(struct rest_call *call, const struct leaderless *of)
{
    static const struct candidate nobody = { -1, -1, -1, -1 };
    struct rest_json *out = &call->out;
    for (uint32_t i = 0; i < OT_MAX(of->count, 1u); i++) {
        const struct candidate *one = of->count == 0 ? &nobody : &of->list[i];
        int64_t start, end;
        lost_with(one, of->list, of->count, of->row, &start, &end);
        rest_list_item(call);
        rest_json_open(out, NULL, '{');
        write_partition(out, of);
        write_candidate(out, of, one);
        rest_json_big_or_null(out, "lost_start", start);
        rest_json_big_or_null(out, "lost_end", end);
        rest_json_close(out, '}');
    }
}

static void write_leaderless(struct rest_call *call, const struct leaderless *of)
{
    struct rest_json *out = &call->out;
    rest_list_item(call);
    rest_json_open(out, NULL, '{');
    write_partition(out, of);
    rest_json_open(out, "candidates", '[');
    for (uint32_t i = 0; i < of->count; i++) {
        int64_t start, end;
        lost_with(&of->list[i], of->list, of->count, of->row, &start, &end);
        rest_json_open(out, NULL, '{');
        write_candidate(out, of, &of->list[i]);
        write_range(out, "lost", start, end, false);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_close(out, '}');
}

static void write_view(struct rest_call *call, const struct rest_gather *gather, const struct rest_rows *rows)
{
    const struct rest_place after_place = rest_place_of(call->list.after);
    const bool columns = call->format == REST_FORMAT_CSV || call->format == REST_FORMAT_TABLE;
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[8192];
    char last[300] = "";
    uint32_t given = 0;
    bool more = false;
    int64_t leaderless = 0;
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    const struct broker_view *view = broker_view_take(call->broker);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count; i++) {
            struct candidate list[REPLICAS_MAX];
            ot_arena_reset(&arena);
            if (!broker_view_partition(view, &topic.id, i, &arena, &row) || row.leader >= 0) continue;
            leaderless++;
            if (rest_place_passed(&after_place, topic.name, i)) continue;
            more |= given == call->list.limit;
            if (given == call->list.limit) continue;
            given++;
            const uint32_t count = candidates_of(call, &topic, &row, rows, list);
            const struct leaderless of = { &topic, &row, list, longest(list, count), count };
            if (columns) write_rows(call, &of);
            else write_leaderless(call, &of);
            snprintf(last, sizeof(last), "%d:%.*s", i, (int)topic.name.bytes, topic.name.data);
        }
    }
    const char *extra = beside(call, view, gather);
    broker_view_give(view);
    ot_arena_free(&arena);
    if (extra == NULL) call->out.failed = true;
    rest_list_reply(call, PAGES, more ? ot_str_of(last) : (struct ot_str){ .null = true }, leaderless, extra);
}

static void told(struct rest_gather *gather)
{
    struct rest_rows rows;
    const bool good = rest_rows_places(&rows, gather);
    write_view(gather->call, gather, good ? &rows : NULL);
    rest_rows_free(&rows);
}

void rest_unclean_view(struct rest_call *call)
{
    if (!rest_list_begin(call, PAGES, false)) return;
    call->list.items_name = "leaderless";
    call->list.total_name = "leaderless_count";
    if (rest_query_text(call, "limit").null) call->list.limit = LIMIT;
    if (rest_gather_wanted(call)) rest_gather(call, rest_place_target(call, "state=offline"), NULL, told);
    else write_view(call, NULL, NULL);
}
