/* Requests of groups and transactions. */
#include "rpc/grpc/decode.h"
#include "rpc/grpc/messages.h"

/* ---- transactions */

struct producer { bool there, fits; int64_t id; int32_t epoch; };

/* Of a Producer whose sequence is not used. */
static void producer_decode(struct ot_reader *outer, struct ot_blob body, struct producer *out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    *out = (struct producer){ .there = true };
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->id = rpcg_field_int(&reader, &field);
        else if (field.number == 2) out->epoch = rpcg_field_i32(&reader, &field);
    }
    out->fits = out->id >= 0 && out->epoch >= 0 && out->epoch <= INT16_MAX;
    if (reader.err != OT_OK) ot_reader_fail(outer, reader.err);
}

enum ot_err rpcg_init_decode(struct ot_blob body, struct rpcg_init_ask *out, const char **why_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    struct producer producer = { .fits = true };
    *out = (struct rpcg_init_ask){ .transactional_id = ot_str_of(""), .producer_id = -1, .producer_epoch = -1 };
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->transactional_id = rpcg_field_str(&reader, &field);
        else if (field.number == 2) out->timeout_ms = rpcg_field_i32(&reader, &field);
        else if (field.number == 3) producer_decode(&reader, rpcg_field_bytes(&reader, &field), &producer);
    }
    if (reader.err != OT_OK) return rpcg_decode_ended(&reader, why_out);
    *why_out = NULL;
    if (out->transactional_id.bytes > RPCG_NAME_BYTES_MAX) return rpcg_decode_refuse(why_out, "transactional_id has 255 bytes at most");
    if (out->timeout_ms < 0) return rpcg_decode_refuse(why_out, "transaction_timeout_ms is negative");
    if (!producer.fits) return rpcg_decode_refuse(why_out, "producer is out of range");
    if (out->transactional_id.bytes == 0 && (producer.there || out->timeout_ms > 0))
        return rpcg_decode_refuse(why_out, "producer and transaction_timeout_ms are of a transactional_id");
    if (!producer.there) return OT_OK;
    out->has_producer = true;
    out->producer_id = producer.id;
    out->producer_epoch = (int16_t)producer.epoch;
    return OT_OK;
}

enum ot_err rpcg_end_txn_decode(struct ot_blob body, struct rpcg_end_txn_ask *out, const char **why_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    struct producer producer = { 0 };
    *out = (struct rpcg_end_txn_ask){ .transactional_id = ot_str_of("") };
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->transactional_id = rpcg_field_str(&reader, &field);
        else if (field.number == 2) producer_decode(&reader, rpcg_field_bytes(&reader, &field), &producer);
        else if (field.number == 3) out->commit = rpcg_field_int(&reader, &field) != 0;
    }
    if (reader.err != OT_OK) return rpcg_decode_ended(&reader, why_out);
    *why_out = NULL;
    if (out->transactional_id.bytes == 0) return rpcg_decode_refuse(why_out, "transactional_id is empty");
    if (out->transactional_id.bytes > RPCG_NAME_BYTES_MAX) return rpcg_decode_refuse(why_out, "transactional_id has 255 bytes at most");
    if (!producer.there) return rpcg_decode_refuse(why_out, "there is no producer");
    if (!producer.fits) return rpcg_decode_refuse(why_out, "producer is out of range");
    out->producer_id = producer.id;
    out->producer_epoch = (int16_t)producer.epoch;
    return OT_OK;
}

/* ---- offsets of groups */

static bool offset_decode(struct ot_reader *outer, struct ot_blob body, struct rpcg_group_offset *out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    int32_t epoch = 0;
    *out = (struct rpcg_group_offset){ .topic = ot_str_of(""), .metadata = ot_str_of("") };
    while (rpcg_field_next(&reader, &field)) {
        switch (field.number) {
        case 1: out->topic = rpcg_field_str(&reader, &field); break;
        case 2: out->partition = rpcg_field_i32(&reader, &field); break;
        case 3: out->offset = rpcg_field_int(&reader, &field); break;
        case 4: epoch = rpcg_field_i32(&reader, &field); break;
        case 5: out->metadata = rpcg_field_str(&reader, &field); break;
        default: break;
        }
    }
    if (reader.err != OT_OK) ot_reader_fail(outer, reader.err);
    out->leader_epoch = (int32_t)((uint32_t)epoch - 1u);
    return out->topic.bytes > 0 && out->partition >= 0 && out->offset >= 0 && out->leader_epoch >= -1;
}

static bool member_decode(struct ot_reader *outer, struct ot_blob body, struct rpcg_commit_ask *out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    out->generation = 0;
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->member_id = rpcg_field_str(&reader, &field);
        else if (field.number == 2) out->generation = rpcg_field_i32(&reader, &field);
        else if (field.number == 3) out->instance_id = rpcg_field_str(&reader, &field);
    }
    if (reader.err != OT_OK) ot_reader_fail(outer, reader.err);
    if (out->instance_id.bytes == 0) out->instance_id = (struct ot_str){ .null = true };
    return out->generation >= 0;
}

static const char *commit_check(const struct rpcg_commit_ask *commit, bool parts_ok, bool member_ok, const struct producer *producer)
{
    const uint32_t max = RPCG_NAME_BYTES_MAX;
    if (commit->group.bytes == 0) return "group is empty";
    if (commit->group.bytes > max || commit->member_id.bytes > max || commit->instance_id.bytes > max || commit->transactional_id.bytes > max)
        return "group, member_id, instance_id and transactional_id have 255 bytes at most";
    if (commit->part_count == 0) return "there are no offsets";
    if (!parts_ok) return "an offset has no topic, or a negative number";
    if (!member_ok) return "the epoch of the member is negative";
    if (producer->there == commit->transactional_id.null) return "a transaction has both: transactional_id and producer";
    return producer->fits ? NULL : "producer is out of range";
}

enum ot_err rpcg_commit_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_commit_ask *out, const char **why_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    struct producer producer = { .fits = true };
    bool parts_ok = true, member_ok = true;
    const uint32_t count = rpcg_decode_count(body, 2);
    *out = (struct rpcg_commit_ask){ .group = ot_str_of(""), .member_id = ot_str_of(""), .instance_id = { .null = true }, .generation = -1, .transactional_id = { .null = true },
        .producer_id = -1, .producer_epoch = -1 };
    *why_out = "too many offsets";
    if (count > 0 && (out->parts = ot_arena_array(arena, count, sizeof *out->parts)) == NULL) return OT_ERR_NO_MEMORY;
    while (rpcg_field_next(&reader, &field)) {
        switch (field.number) {
        case 1: out->group = rpcg_field_str(&reader, &field); break;
        case 2: parts_ok &= offset_decode(&reader, rpcg_field_bytes(&reader, &field), &out->parts[out->part_count++]); break;
        case 3: member_ok = member_decode(&reader, rpcg_field_bytes(&reader, &field), out); break;
        case 4: out->transactional_id = rpcg_field_str(&reader, &field); break;
        case 5: producer_decode(&reader, rpcg_field_bytes(&reader, &field), &producer); break;
        default: break;
        }
    }
    if (out->transactional_id.bytes == 0) out->transactional_id = (struct ot_str){ .null = true };
    if (reader.err != OT_OK) return rpcg_decode_ended(&reader, why_out);
    *why_out = commit_check(out, parts_ok, member_ok, &producer);
    if (*why_out != NULL) return OT_ERR_INVALID_REQUEST;
    if (!producer.there) return OT_OK;
    out->producer_id = producer.id;
    out->producer_epoch = (int16_t)producer.epoch;
    return OT_OK;
}

enum ot_err rpcg_committed_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_committed_ask *out, const char **why_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    bool parts_ok = true;
    const uint32_t count = rpcg_decode_count(body, 2);
    *out = (struct rpcg_committed_ask){ .group = ot_str_of("") };
    *why_out = "too many partitions";
    if (count > 0 && (out->parts = ot_arena_array(arena, count, sizeof *out->parts)) == NULL) return OT_ERR_NO_MEMORY;
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->group = rpcg_field_str(&reader, &field);
        else if (field.number == 2) parts_ok &= offset_decode(&reader, rpcg_field_bytes(&reader, &field), &out->parts[out->part_count++]);
        else if (field.number == 3) out->require_stable = rpcg_field_int(&reader, &field) != 0;
    }
    if (reader.err != OT_OK) return rpcg_decode_ended(&reader, why_out);
    *why_out = NULL;
    if (out->group.bytes == 0) return rpcg_decode_refuse(why_out, "group is empty");
    if (out->group.bytes > RPCG_NAME_BYTES_MAX) return rpcg_decode_refuse(why_out, "group has 255 bytes at most");
    return parts_ok ? OT_OK : rpcg_decode_refuse(why_out, "a partition has no topic, or a negative number");
}

/* ---- consume */

enum { TOPIC_BYTES_MAX = 249 };

static const char *join_check(const struct rpcg_join_ask *join, int32_t start, int64_t isolation, int64_t format)
{
    if (join->group.bytes == 0) return "group is empty";
    if (join->topic_count == 0 && join->pattern.bytes == 0) return "there are no topics, and no topic_pattern";
    if (join->topic_count > 0 && join->pattern.bytes > 0) return "there are topics and a topic_pattern: one of them";
    if (start < 0 || start > RPCG_START_TIMESTAMP || start == RPCG_START_OFFSET) return "start is latest, earliest or a timestamp";
    if (join->start == RPCG_START_TIMESTAMP && join->timestamp_ms < 0) return "timestamp_ms is negative";
    if (isolation < 0 || isolation > 2) return "isolation_level is none of the values of IsolationLevel";
    if (format < 0 || format > 2) return "format is none of the values of PayloadFormat";
    if (join->max_bytes < 0 || join->max_unacknowledged_bytes < 0 || join->rebalance_timeout_ms < 0)
        return "max_bytes, max_unacknowledged_bytes and rebalance_timeout_ms are not negative";
    const uint32_t max = RPCG_NAME_BYTES_MAX;
    if (join->member_id.bytes > max || join->instance_id.bytes > max || join->group.bytes > max || join->rack.bytes > max)
        return "group, member_id, instance_id and rack have 255 bytes at most";
    for (uint32_t i = 0; i < join->topic_count; i++)
        if (join->topics[i].bytes > TOPIC_BYTES_MAX) return "a topic has 249 bytes at most";
    return NULL;
}

static const char *join_decode(struct ot_reader *outer, struct ot_blob body, struct ot_arena *arena, struct rpcg_join_ask *out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    int32_t start = 0;
    int64_t isolation = 0, format = 0;
    const struct ot_str none = ot_str_of("");
    const uint32_t count = rpcg_decode_count(body, 2);
    *out = (struct rpcg_join_ask){ none, none, none, none, none, none, .start = RPCG_START_LATEST };
    if (count > 0 && (out->topics = ot_arena_array(arena, count, sizeof *out->topics)) == NULL) return "too many topics";
    while (rpcg_field_next(&reader, &field)) {
        switch (field.number) {
        case 1: out->group = rpcg_field_str(&reader, &field); break;
        case 2: out->topics[out->topic_count++] = rpcg_field_str(&reader, &field); break;
        case 3: out->pattern = rpcg_field_str(&reader, &field); break;
        case 4: start = rpcg_field_i32(&reader, &field); break;
        case 5: out->timestamp_ms = rpcg_field_int(&reader, &field); break;
        case 6: isolation = rpcg_field_i32(&reader, &field); break;
        case 7: format = rpcg_field_i32(&reader, &field); break;
        case 8: out->max_bytes = rpcg_field_i32(&reader, &field); break;
        case 9: out->max_unacknowledged_bytes = rpcg_field_int(&reader, &field); break;
        case 10: out->rebalance_timeout_ms = rpcg_field_i32(&reader, &field); break;
        case 11: out->member_id = rpcg_field_str(&reader, &field); break;
        case 12: out->instance_id = rpcg_field_str(&reader, &field); break;
        case 13: out->assignor = rpcg_field_str(&reader, &field); break;
        case 14: out->rack = rpcg_field_str(&reader, &field); break;
        default: break;
        }
    }
    if (reader.err != OT_OK) ot_reader_fail(outer, reader.err);
    if (start > 0 && start <= RPCG_START_TIMESTAMP) out->start = (enum rpcg_start)start;
    out->read_committed = isolation == 2;
    out->format = format == RPCG_FORMAT_BATCHES ? RPCG_FORMAT_BATCHES : RPCG_FORMAT_RECORDS;
    return join_check(out, start, isolation, format);
}

static void position_decode(struct ot_reader *outer, struct ot_blob body, struct rpcg_consume_position *out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    *out = (struct rpcg_consume_position){ .topic = ot_str_of("") };
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->topic = rpcg_field_str(&reader, &field);
        else if (field.number == 2) out->partition = rpcg_field_i32(&reader, &field);
        else if (field.number == 3) out->next_offset = rpcg_field_int(&reader, &field);
        else if (field.number == 4) out->assignment_id = rpcg_field_int(&reader, &field);
    }
    if (reader.err != OT_OK) ot_reader_fail(outer, reader.err);
}

enum ot_err rpcg_consume_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_consume_ask *out, const char **why_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    const char *join_why = NULL;
    const uint32_t count = rpcg_decode_count(body, 2);
    *out = (struct rpcg_consume_ask){ .has_join = false };
    *why_out = "too many acknowledgements in one request";
    if (count > 0 && (out->positions = ot_arena_array(arena, count, sizeof *out->positions)) == NULL) return OT_ERR_NO_MEMORY;
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) {
            out->has_join = true;
            join_why = join_decode(&reader, rpcg_field_bytes(&reader, &field), arena, &out->join);
        } else if (field.number == 2) {
            position_decode(&reader, rpcg_field_bytes(&reader, &field), &out->positions[out->position_count++]);
        }
    }
    if (reader.err != OT_OK) return rpcg_decode_ended(&reader, why_out);
    *why_out = NULL;
    return join_why == NULL ? OT_OK : rpcg_decode_refuse(why_out, join_why);
}
