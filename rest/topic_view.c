#include "rest/topic_view.h"
#include "rest/rows.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define SCRATCH(arena) \
    uint8_t arena##_room[8192]; \
    struct ot_arena arena; \
    ot_arena_init_with(&arena, arena##_room, sizeof(arena##_room), 256 << 10)

uint32_t rest_partition_flags(const struct broker_view_partition *row)
{
    uint32_t flags = 0;
    if (row->leader < 0) flags |= REST_PART_OFFLINE;
    if (row->isr.count < row->replicas.count) flags |= REST_PART_UNDER_REPLICATED;
    if (row->isr.count < row->min_isr) flags |= REST_PART_UNDER_MIN_ISR;
    if (row->isr.count == row->min_isr && row->replicas.count > row->min_isr) flags |= REST_PART_AT_MIN_ISR;
    if (row->leader >= 0 && row->replicas.count > 0 && row->leader != row->replicas.ids[0]) flags |= REST_PART_NOT_PREFERRED;
    return flags;
}

int32_t rest_partition_spare_for_writes(const struct broker_view_partition *row)
{
    return row->leader < 0 ? 0 : OT_MAX(row->isr.count - OT_MAX(row->min_isr, 1), 0);
}

int32_t rest_partition_spare_for_data(const struct broker_view_partition *row) { return OT_MAX(row->isr.count + row->elr.count - 1, 0); }

const char *rest_partition_state_name(uint32_t flags)
{
    return (flags & REST_PART_OFFLINE) != 0 ? "offline" : (flags & REST_PART_UNDER_MIN_ISR) != 0 ? "under_min_isr"
        : (flags & REST_PART_UNDER_REPLICATED) != 0 ? "under_replicated" : "online";
}

const char *rest_topic_state_name(const struct rest_topic_sum *sum)
{
    return sum->offline > 0 ? "offline" : sum->under_min_isr > 0 ? "under_min_isr" : sum->under_replicated > 0 ? "under_replicated" : "online";
}

static void add_size(const struct rest_call *call, const struct broker_view_topic *topic, int32_t index, struct rest_topic_sum *out)
{
    struct broker_partition_state state;
    struct broker_partition *partition = broker_partition_find_id(call->broker, &topic->id, index);
    if (partition == NULL) return;
    broker_partition_state(partition, &state);
    broker_partition_put(partition);
    if (call->arrived && !state.leader) return;                /* one copy counts */
    out->size_bytes += (int64_t)state.size_bytes;
    if (state.high_watermark > state.log_start_offset) out->records_estimate += state.high_watermark - state.log_start_offset;
}

void rest_topic_sum(const struct rest_call *call, const struct broker_view *view, const struct broker_view_topic *topic, bool sizes, struct rest_topic_sum *out)
{
    struct broker_view_partition row;
    SCRATCH(arena);
    *out = (struct rest_topic_sum){ .spare_for_writes = -1, .spare_for_data = -1 };
    for (int32_t i = 0; i < topic->partition_count; i++) {
        ot_arena_reset(&arena);
        if (!broker_view_partition(view, &topic->id, i, &arena, &row)) continue;
        const uint32_t flags = rest_partition_flags(&row);
        out->offline += (flags & REST_PART_OFFLINE) != 0;
        out->under_replicated += (flags & REST_PART_UNDER_REPLICATED) != 0;
        out->under_min_isr += (flags & REST_PART_UNDER_MIN_ISR) != 0;
        out->at_min_isr += (flags & REST_PART_AT_MIN_ISR) != 0;
        out->not_preferred += (flags & REST_PART_NOT_PREFERRED) != 0;
        out->osr_replicas += row.replicas.count - row.isr.count;
        const int32_t writes = rest_partition_spare_for_writes(&row), data = rest_partition_spare_for_data(&row);
        out->spare_for_writes = out->spare_for_writes < 0 ? writes : OT_MIN(out->spare_for_writes, writes);
        out->spare_for_data = out->spare_for_data < 0 ? data : OT_MIN(out->spare_for_data, data);
        if (i == 0) out->replication_factor = row.replicas.count;
        if (sizes) add_size(call, topic, i, out);
    }
    ot_arena_free(&arena);
}

void rest_topic_share_take(struct rest_topic_sum *sum, const struct rest_topic_share *share)
{
    sum->size_bytes = share == NULL ? -1 : share->size_bytes;
    sum->records_estimate = share == NULL ? -1 : share->records_estimate;
    sum->rates_known = true;
    sum->bytes_in = share == NULL || !share->rates_known ? (double)NAN : share->bytes_in;
    sum->bytes_out = share == NULL || !share->rates_known ? (double)NAN : share->bytes_out;
}

/* ---- writing */

void rest_ids_write(struct rest_json *out, const char *key, struct broker_view_ids ids)
{
    rest_json_open(out, key, '[');
    for (int32_t i = 0; i < ids.count; i++) rest_json_int(out, NULL, ids.ids[i]);
    rest_json_close(out, ']');
}

static bool has_id(struct broker_view_ids ids, int32_t id)
{
    for (int32_t i = 0; i < ids.count; i++)
        if (ids.ids[i] == id) return true;
    return false;
}

void rest_osr_write(struct rest_json *out, const char *key, const struct broker_view_partition *row)
{
    rest_json_open(out, key, '[');
    for (int32_t i = 0; i < row->replicas.count; i++)
        if (!has_id(row->isr, row->replicas.ids[i])) rest_json_int(out, NULL, row->replicas.ids[i]);
    rest_json_close(out, ']');
}

static void write_effective(void *arg, const struct broker_config_value *value)
{
    if (value->row->honoured) rest_json_text(arg, value->row->key, value->value);
}

static void write_overrides(struct rest_json *out, const struct broker_view *view, const struct broker_view_topic *topic)
{
    struct broker_view_config own;
    struct ot_str at = { .null = true };
    rest_json_open(out, "overrides", '{');
    while (broker_view_next_topic_config(view, &topic->id, at, &own)) {
        rest_json_str_key(out, own.name);
        rest_json_str(out, NULL, own.value);
        at = own.name;
    }
    rest_json_close(out, '}');
}

void rest_topic_write(struct rest_call *call, const char *key, const struct broker_view *view, const struct broker_view_topic *topic, const struct rest_topic_sum *sum,
    bool effective)
{
    struct rest_json *out = &call->out;
    double in = 0, from = 0;
    rest_json_open(out, key, '{');
    rest_json_str(out, "topic", topic->name);
    rest_json_uuid(out, "topic_id", &topic->id);
    rest_json_bool(out, "internal", topic->internal);
    rest_json_int(out, "partitions", topic->partition_count);
    rest_json_int(out, "replication_factor", sum->replication_factor);
    rest_json_time(out, "created_at", topic->created_ms);
    rest_json_text(out, "state", rest_topic_state_name(sum));
    rest_json_int(out, "offline", sum->offline);
    rest_json_int(out, "under_replicated", sum->under_replicated);
    rest_json_int(out, "under_min_isr", sum->under_min_isr);
    rest_json_int(out, "at_min_isr", sum->at_min_isr);
    rest_json_int(out, "not_preferred", sum->not_preferred);
    rest_json_int(out, "spare_for_writes", OT_MAX(sum->spare_for_writes, 0));
    rest_json_int(out, "spare_for_data", OT_MAX(sum->spare_for_data, 0));
    rest_json_big_or_null(out, "size_bytes", sum->size_bytes);
    rest_json_big_or_null(out, "records_estimate", sum->records_estimate);
    if (!call->no_rates && (sum->rates_known ? (in = sum->bytes_in, from = sum->bytes_out, true) : rest_topic_rates(call, topic->name, &in, &from))) {
        rest_json_real(out, "bytes_in_per_second", in);
        rest_json_real(out, "bytes_out_per_second", from);
    } else {
        rest_json_null(out, "bytes_in_per_second");
        rest_json_null(out, "bytes_out_per_second");
    }
    write_overrides(out, view, topic);
    if (effective) {
        rest_json_open(out, "effective", '{');
        rest_topic_config_each(call, view, topic, write_effective, out);
        rest_json_close(out, '}');
    }
    rest_json_close(out, '}');
}

/* null where cleanup.policy has no compact. */
static void write_compaction(struct rest_json *out, const struct broker_partition_state *state)
{
    static const char *const states[] = { "idle", "running", "uncleanable" };
    if (!state->compacts || !state->open) {
        rest_json_null(out, "compaction");
        return;
    }
    rest_json_open(out, "compaction", '{');
    rest_json_text(out, "state", states[state->compacting ? 1 : state->uncleanable ? 2 : 0]);
    rest_json_big(out, "first_dirty_offset", state->first_dirty);
    rest_json_big(out, "clean_bytes", (int64_t)state->clean_bytes);
    rest_json_big(out, "dirty_bytes", (int64_t)state->dirty_bytes);
    rest_json_time(out, "last_at", state->cleaned_ms == 0 ? -1 : state->cleaned_ms);
    rest_json_text(out, "error", state->cleaner_error == OT_OK ? NULL : ot_err_name(state->cleaner_error));
    rest_json_big_or_null(out, "damaged_offset", state->damaged_offset);
    rest_json_close(out, '}');
}

static void write_isr_change(struct rest_json *out, struct broker_partition *partition)
{
    struct broker_isr_change change;
    broker_partition_isr_change(partition, &change);
    if (change.at_ms == 0) {
        rest_json_null(out, "last_isr_change");
        return;
    }
    rest_json_open(out, "last_isr_change", '{');
    rest_json_time(out, "at", change.at_ms);
    rest_json_text(out, "type", change.expand ? "expand" : "shrink");
    rest_json_text(out, "reason", change.reason);
    rest_json_int(out, "broker", change.broker);
    rest_ids_write(out, "from", (struct broker_view_ids){ change.ids, change.from_count });
    rest_ids_write(out, "to", (struct broker_view_ids){ change.ids + change.from_count, change.to_count });
    rest_json_close(out, '}');
}

static void write_local(struct rest_json *out, struct broker_partition *partition, const struct broker_partition_state *state)
{
    rest_json_text(out, "durability", broker_durability_name(state->effective_durability));
    rest_json_big_or_null(out, "log_start_offset", state->open ? state->log_start_offset : -1);
    rest_json_big_or_null(out, "high_watermark", state->open ? state->high_watermark : -1);
    rest_json_big_or_null(out, "last_stable_offset", state->open ? state->last_stable_offset : -1);
    rest_json_big_or_null(out, "log_end_offset", state->open ? state->log_end_offset : -1);
    rest_json_big(out, "size_bytes", (int64_t)state->size_bytes);
    write_compaction(out, state);
    write_isr_change(out, partition);
}

static void write_unknown(struct rest_json *out)
{
    static const char *const members[] = { "durability", "log_start_offset", "high_watermark", "last_stable_offset", "log_end_offset", "size_bytes", "compaction", "last_isr_change" };
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(members); i++) rest_json_null(out, members[i]);
}

static void copy_or_null(struct rest_json *out, const char *key, const json_t *object)
{
    if (object != NULL) rest_json_copy(out, key, object);
    else rest_json_null(out, key);
}

/* The newest that any of its replicas has seen: a leader that began again has forgotten it, and there may be no leader. Texts in RFC 3339 sort as times. */
static const json_t *last_change(const struct rest_rows *rows, struct ot_str topic, const struct broker_view_partition *row)
{
    const json_t *last = NULL;
    const char *last_at = "";
    for (int32_t i = 0; i < row->replicas.count; i++) {
        const json_t *change = json_object_get(rest_rows_place(rows, row->replicas.ids[i], topic, row->index), "last_isr_change");
        const char *at = json_string_value(json_object_get(change, "at"));
        if (at == NULL || strcmp(at, last_at) < 0 || (strcmp(at, last_at) == 0 && row->replicas.ids[i] != row->leader)) continue;
        last = change;
        last_at = at;
    }
    return last;
}

/* As its leader told it. */
static void write_told(struct rest_json *out, const struct rest_rows *rows, struct ot_str topic, const struct broker_view_partition *row)
{
    static const char *const numbers[] = { "log_start_offset", "high_watermark", "last_stable_offset", "log_end_offset", "size_bytes" };
    const json_t *told = rest_rows_place(rows, row->leader, topic, row->index);
    rest_json_text(out, "durability", json_string_value(json_object_get(told, "durability")));
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(numbers); i++) rest_json_big_or_null(out, numbers[i], rest_row_int(told, numbers[i]));
    copy_or_null(out, "compaction", json_object_get(told, "compaction"));
    copy_or_null(out, "last_isr_change", last_change(rows, topic, row));
}

/* The replica of that broker as the broker told it: within the row of a partition, or the row itself. */
static const json_t *replica_of(const json_t *row, int32_t id)
{
    const json_t *list = json_object_get(row, "replica_state");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (rest_row_int(json_array_get(list, i), "broker") == id) return json_array_get(list, i);
    return list == NULL ? row : NULL;
}

/* What the leader says of another replica. */
static const json_t *entry_of(const json_t *row, int32_t id)
{
    const json_t *list = json_object_get(row, "replica_state");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (rest_row_int(json_array_get(list, i), "broker") == id) return json_array_get(list, i);
    return NULL;
}

static void write_replica_told(struct rest_json *out, const struct rest_rows *rows, struct ot_str topic, const struct broker_view_partition *row, int32_t id)
{
    const json_t *own = replica_of(rest_rows_place(rows, id, topic, row->index), id), *leader = replica_of(rest_rows_place(rows, row->leader, topic, row->index), row->leader);
    const json_t *known = entry_of(rest_rows_place(rows, row->leader, topic, row->index), id);
    const int64_t end = rest_row_int(own, "log_end_offset"), leader_end = rest_row_int(leader, "log_end_offset");
    const bool leads = id == row->leader;
    rest_json_int(out, "broker", id);
    rest_json_text(out, "role", leads ? "leader" : "follower");
    rest_json_bool(out, "in_sync", has_id(row->isr, id));
    const bool by_leader = !leads && rest_row_int(known, "lag") >= 0;
    rest_json_big_or_null(out, "log_end_offset", end >= 0 ? end : rest_row_int(known, "log_end_offset"));
    rest_json_big_or_null(out, "high_watermark", rest_row_int(own, "high_watermark"));
    rest_json_big_or_null(out, "last_epoch", rest_row_int(own, "last_epoch"));
    /* as the leader counts it; else by two ends, which were looked at one after the other */
    rest_json_big_or_null(out, "lag", by_leader ? rest_row_int(known, "lag") : end < 0 || leader_end < 0 ? -1 : OT_MAX(leader_end - end, 0));
    rest_json_big_or_null(out, "caught_up_ms_ago", leads && end >= 0 ? 0 : rest_row_int(known, "caught_up_ms_ago"));
    rest_json_big_or_null(out, "last_fetch_ms_ago", leads ? -1 : rest_row_int(known, "last_fetch_ms_ago"));
    rest_json_text(out, "log_dir", own == NULL ? NULL : json_string_value(json_object_get(own, "log_dir")));
    rest_json_big_or_null(out, "size_bytes", rest_row_int(own, "size_bytes"));
}

/* What is known here: of the own replica, and, where the partition is led here, of its followers. */
enum { FOLLOWERS_MAX = 64 };
struct known { struct broker_partition_state state; bool here; struct broker_follower followers[FOLLOWERS_MAX]; uint32_t count; };

static struct broker_partition *look(struct rest_call *call, const struct broker_view_topic *topic, int32_t index, struct known *out)
{
    struct broker_partition *partition = broker_partition_find_id(call->broker, &topic->id, index);
    out->here = partition != NULL;
    out->count = 0;
    if (partition == NULL) return NULL;
    broker_partition_state(partition, &out->state);
    out->count = OT_MIN(broker_partition_followers(partition, out->followers, FOLLOWERS_MAX), (uint32_t)FOLLOWERS_MAX);
    return partition;
}

static void write_replica(struct rest_json *out, const struct broker_view_partition *row, const struct known *known, int32_t here, int32_t id)
{
    const struct broker_partition_state *own = known->here && id == here ? &known->state : NULL;
    const bool leads = id == row->leader, open = own != NULL && own->open;
    const struct broker_follower *follower = NULL;
    for (uint32_t i = 0; i < known->count; i++)
        if (known->followers[i].broker_id == id) follower = &known->followers[i];
    rest_json_int(out, "broker", id);
    rest_json_text(out, "role", leads ? "leader" : "follower");
    rest_json_bool(out, "in_sync", has_id(row->isr, id));
    rest_json_big_or_null(out, "log_end_offset", open ? own->log_end_offset : follower != NULL ? follower->log_end_offset : -1);
    rest_json_big_or_null(out, "high_watermark", open ? own->high_watermark : -1);
    rest_json_big_or_null(out, "last_epoch", open ? own->last_epoch : -1);
    rest_json_big_or_null(out, "lag", own != NULL && leads ? 0 : follower != NULL ? follower->lag : -1);
    rest_json_big_or_null(out, "caught_up_ms_ago", own != NULL && leads ? 0 : follower != NULL ? follower->caught_up_ms_ago : -1);
    rest_json_big_or_null(out, "last_fetch_ms_ago", follower != NULL ? follower->fetched_ms_ago : -1);
    rest_json_text(out, "log_dir", own != NULL ? own->log_dir : NULL);
    rest_json_big_or_null(out, "size_bytes", own != NULL ? (int64_t)own->size_bytes : -1);
}

static void write_replicas(struct rest_call *call, struct ot_str topic, const struct broker_view_partition *row, const struct known *known)
{
    struct rest_json *out = &call->out;
    rest_json_open(out, "replica_state", '[');
    for (int32_t i = 0; i < row->replicas.count; i++) {
        rest_json_open(out, NULL, '{');
        if (call->rows != NULL) write_replica_told(out, call->rows, topic, row, row->replicas.ids[i]);
        else write_replica(out, row, known, broker_node_id(call->broker), row->replicas.ids[i]);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
}

void rest_replica_write(struct rest_call *call, const struct broker_view_topic *topic, const struct broker_view_partition *row, int32_t id)
{
    struct rest_json *out = &call->out;
    struct known known;
    struct broker_partition *partition = look(call, topic, row->index, &known);
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", topic->name);
    rest_json_int(out, "partition", row->index);
    rest_json_bool(out, "preferred", row->replicas.count > 0 && row->replicas.ids[0] == id);
    if (call->rows != NULL) write_replica_told(out, call->rows, topic->name, row, id);
    else write_replica(out, row, &known, broker_node_id(call->broker), id);
    rest_json_close(out, '}');
    broker_partition_put(partition);
}

static void write_unclean(void *arg, const struct broker_config_value *value)
{
    struct rest_json *out = arg;
    if (strcmp(value->row->key, "unclean.leader.election.enable") != 0) return;
    rest_json_open(out, "unclean_leader_election", '{');
    rest_json_bool(out, "enabled", value->value != NULL && strcmp(value->value, "true") == 0);
    rest_json_text(out, "source", rest_config_source_name(value->source));
    rest_json_close(out, '}');
}

void rest_partition_write(struct rest_call *call, const struct broker_view *view, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    struct rest_json *out = &call->out;
    struct known known;
    struct broker_partition *partition = look(call, topic, row->index, &known);
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", topic->name);
    rest_json_int(out, "partition", row->index);
    rest_json_text(out, "state", rest_partition_state_name(rest_partition_flags(row)));
    if (row->leader >= 0) rest_json_int(out, "leader", row->leader);
    else rest_json_null(out, "leader");
    if (row->successor >= 0) rest_json_int(out, "successor", row->successor);
    else rest_json_null(out, "successor");
    rest_json_int(out, "leader_epoch", row->leader_epoch);
    rest_json_int(out, "partition_epoch", row->partition_epoch);
    rest_json_int(out, "preferred_leader", row->replicas.count > 0 ? row->replicas.ids[0] : -1);
    rest_ids_write(out, "replicas", row->replicas);
    rest_ids_write(out, "isr", row->isr);
    rest_osr_write(out, "osr", row);
    rest_ids_write(out, "elr", row->elr);
    rest_ids_write(out, "offline", row->offline);
    rest_json_int(out, "min_insync_replicas", row->min_isr);
    rest_json_int(out, "spare_for_writes", rest_partition_spare_for_writes(row));
    rest_json_int(out, "spare_for_data", rest_partition_spare_for_data(row));
    if (call->rows != NULL) write_told(out, call->rows, topic->name, row);
    else if (partition != NULL) write_local(out, partition, &known.state);
    else write_unknown(out);
    if (row->adding.count + row->removing.count > 0) {
        rest_json_open(out, "reassignment", '{');
        rest_ids_write(out, "adding", row->adding);
        rest_ids_write(out, "removing", row->removing);
        rest_json_close(out, '}');
    } else {
        rest_json_null(out, "reassignment");
    }
    rest_topic_config_each(call, view, topic, write_unclean, out);
    write_replicas(call, topic->name, row, &known);
    rest_json_close(out, '}');
    broker_partition_put(partition);
}

/* ---- finding */

int32_t rest_partition_leader(struct broker *broker, const struct ot_uuid *topic_id, int32_t index)
{
    struct broker_view_partition row;
    SCRATCH(arena);
    const struct broker_view *view = broker_view_take(broker);
    const int32_t leader = broker_view_partition(view, topic_id, index, &arena, &row) ? row.leader : -1;
    broker_view_give(view);
    ot_arena_free(&arena);
    return leader;
}

bool rest_topic_find(struct rest_call *call, const struct broker_view *view, struct broker_view_topic *out)
{
    const struct ot_str name = rest_param(call, 0);
    if (broker_view_topic(view, name, out)) return true;
    rest_problem_more(call, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, NULL, "GET /v1/topics", "there is no topic '%.*s'", (int)OT_MIN(name.bytes, 249u), name.data);
    return false;
}

bool rest_partition_find(struct rest_call *call, const struct broker_view *view, struct broker_view_topic *topic, int32_t *index_out)
{
    int64_t index = 0;
    if (!rest_param_int(call, 1, "partition", 0, INT32_MAX, &index) || !rest_topic_find(call, view, topic)) return false;
    *index_out = (int32_t)index;
    if (index < topic->partition_count) return true;
    rest_problem(call, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "topic '%.*s' has partitions 0 to %d", (int)topic->name.bytes, topic->name.data, topic->partition_count - 1);
    return false;
}

/* ---- configs */

void rest_topic_config_each(struct rest_call *call, const struct broker_view *view, const struct broker_view_topic *topic,
    void (*each)(void *arg, const struct broker_config_value *value), void *arg)
{
    const char *const *keys = NULL, *const *values = NULL;
    SCRATCH(arena);
    const uint32_t count = broker_view_topic_configs(view, &topic->id, &arena, &keys, &values);
    broker_topic_config_describe(broker_config_store(call->broker), keys, values, count, each, arg);
    ot_arena_free(&arena);
}

const char *rest_config_source_name(enum broker_config_source source)
{
    static const char *const names[] = { "built_in", "file", "environment", "flag", "cluster_default", "broker_dynamic", "topic" };
    return names[source];
}

const char *rest_config_type_name(enum broker_config_type type)
{
    static const char *const names[] = { "boolean", "int", "long", "double", "string", "list", "string", "password" };
    return names[type];
}

void rest_config_write(struct rest_json *out, const struct broker_config_value *value)
{
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "name", value->row->key);
    rest_json_text(out, "value", value->value);
    rest_json_text(out, "type", rest_config_type_name(value->row->type));
    rest_json_text(out, "source", rest_config_source_name(value->source));
    rest_json_text(out, "origin", value->origin != NULL && value->origin[0] != 0 ? value->origin : NULL);
    rest_json_bool(out, "read_only", value->row->change == BROKER_CONFIG_RESTART);
    rest_json_bool(out, "sensitive", value->row->sensitive);
    rest_json_bool(out, "honoured", value->row->honoured);
    rest_json_open(out, "synonyms", '[');
    for (uint32_t i = 0; i < value->synonym_count; i++) {
        rest_json_open(out, NULL, '{');
        rest_json_text(out, "source", rest_config_source_name(value->synonyms[i].source));
        rest_json_text(out, "name", value->synonyms[i].name);
        rest_json_text(out, "value", value->row->sensitive ? NULL : value->synonyms[i].value);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_close(out, '}');
}

/* ---- changes */

static void changed(struct broker_call *broker_call)
{
    struct rest_change *change = OT_CONTAINER(broker_call, struct rest_change, admin.call);
    struct rest_call *call = change->call;
    const struct broker_admin_item *item = &change->item;
    if (item->error == OT_OK) {
        rest_wrote(call, item->version_out);
        change->then(change);
    } else {
        char text[BROKER_TEXT_MAX];
        snprintf(text, sizeof(text), "%s", item->text[0] != 0 ? item->text : ot_err_text(item->error));
        rest_problem(call, item->error, "%s", text);
    }
}

struct rest_change *rest_change_new(struct rest_call *call, enum broker_admin_kind kind, struct ot_str topic)
{
    struct rest_change *change = ot_arena_alloc(&call->arena, sizeof(*change));
    if (change == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return NULL;
    }
    change->call = call;
    change->item = (struct broker_admin_item){ .kind = kind, .topic = topic, .partition_count = -1, .replication_factor = -1, .if_version = -1, .broker_id = -1,
        .validate_only = rest_validate_only(call) };
    return change;
}

void rest_change_start(struct rest_change *change, void (*then)(struct rest_change *change))
{
    struct rest_call *call = change->call;
    change->then = then;
    change->admin = (struct broker_admin){ .call = { .home = call->home, .done = changed }, .timeout_ms = (int32_t)call->timeout_ms, .items = &change->item, .item_count = 1 };
    broker_admin(call->broker, &change->admin);
}
