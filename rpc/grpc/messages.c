#include "rpc/grpc/messages.h"

#include "rpc/grpc/decode.h"

/* ---- produce */

static void header_decode(struct ot_reader *outer, struct ot_blob body, struct broker_record_header *out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    bool null_value = false;
    *out = (struct broker_record_header){ .key = ot_str_of("") };
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->key = rpcg_field_str(&reader, &field);
        else if (field.number == 2) out->value = rpcg_field_bytes(&reader, &field);
        else if (field.number == 3) null_value = rpcg_field_int(&reader, &field) != 0;
    }
    if (null_value) out->value = (struct ot_blob){ .null = true };
    if (reader.err != OT_OK) ot_reader_fail(outer, reader.err);
}

static enum ot_err record_decode(struct ot_reader *outer, struct ot_blob body, int64_t now_ms, struct ot_arena *arena, struct broker_record *out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    const uint32_t header_count = rpcg_decode_count(body, 5);
    struct broker_record_header *headers = header_count > 0 ? ot_arena_array(arena, header_count, sizeof *headers) : NULL;
    bool tombstone = false, empty_key = false;
    *out = (struct broker_record){ .headers = headers };
    if (header_count > 0 && headers == NULL) return OT_ERR_NO_MEMORY;
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 2) out->timestamp_ms = rpcg_field_int(&reader, &field);
        else if (field.number == 3) out->key = rpcg_field_bytes(&reader, &field);
        else if (field.number == 4) out->value = rpcg_field_bytes(&reader, &field);
        else if (field.number == 5) header_decode(&reader, rpcg_field_bytes(&reader, &field), &headers[out->header_count++]);
        else if (field.number == 6) tombstone = rpcg_field_int(&reader, &field) != 0;
        else if (field.number == 7) empty_key = rpcg_field_int(&reader, &field) != 0;
    }
    if (out->timestamp_ms == 0) out->timestamp_ms = now_ms;
    if (out->key.bytes == 0) out->key = (struct ot_blob){ .data = (const uint8_t *)"", .null = !empty_key };
    if (out->value.data == NULL) out->value.data = (const uint8_t *)"";
    if (tombstone) out->value = (struct ot_blob){ .null = true };
    if (reader.err != OT_OK) ot_reader_fail(outer, reader.err);
    return OT_OK;
}

static void producer_decode(struct ot_reader *outer, struct ot_blob body, struct rpcg_produce_ask *out, bool *fits_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    out->has_producer = true;
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->producer_id = rpcg_field_int(&reader, &field);
        else if (field.number == 3) out->producer_sequence = rpcg_field_i32(&reader, &field);
        else if (field.number == 2) {
            const int32_t epoch = rpcg_field_i32(&reader, &field);
            *fits_out = epoch >= 0 && epoch <= INT16_MAX;
            out->producer_epoch = (int16_t)epoch;
        }
    }
    if (reader.err != OT_OK) ot_reader_fail(outer, reader.err);
}

static enum ot_err produce_check(const struct rpcg_produce_ask *ask, int64_t acks, int64_t codec, bool producer_fits, const char **why_out)
{
    if (ask->topic.bytes == 0) return rpcg_decode_refuse(why_out, "topic is empty");
    if (ask->transactional_id.bytes > RPCG_NAME_BYTES_MAX) return rpcg_decode_refuse(why_out, "transactional_id has 255 bytes at most");
    if (acks < 0 || acks > 3) return rpcg_decode_refuse(why_out, "acks is none of the values of Acks");
    if (codec < 0 || codec > 4) return rpcg_decode_refuse(why_out, "compression is none of the values of Compression");
    if (ask->timeout_ms < 0) return rpcg_decode_refuse(why_out, "timeout_ms is negative");
    if (!ask->batches.null && ask->record_count > 0) return rpcg_decode_refuse(why_out, "there are records and record_batches: one of them");
    if (ask->batches.null && ask->record_count == 0) return rpcg_decode_refuse(why_out, "there are no records");
    if (ask->partition < -1) return rpcg_decode_refuse(why_out, "partition is negative");
    if (ask->partition == -1 && !ask->batches.null) return rpcg_decode_refuse(why_out, "partition -1 is for records, not for record_batches");
    if (!ask->has_producer && !ask->transactional_id.null && ask->batches.null) return rpcg_decode_refuse(why_out, "records of a transaction have a producer");
    if (!ask->has_producer) return OT_OK;
    if (!ask->batches.null) return rpcg_decode_refuse(why_out, "record_batches name their producer themselves");
    if (ask->partition == -1) return rpcg_decode_refuse(why_out, "a producer's sequence counts one partition: name it");
    if (!producer_fits || ask->producer_id < 0 || ask->producer_sequence < 0) return rpcg_decode_refuse(why_out, "producer is out of range");
    return OT_OK;
}

enum ot_err rpcg_produce_decode(struct ot_blob body, int64_t now_ms, struct ot_arena *arena, struct rpcg_produce_ask *out, const char **why_out)
{
    static const int16_t acks_of[] = { -1, -1, 1, 0 };
    static const char *const codecs[] = { "none", "gzip", "snappy", "lz4", "zstd" };
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    int64_t acks = 0, codec = 0;
    bool producer_fits = true;
    const uint32_t record_count = rpcg_decode_count(body, 7);
    *out = (struct rpcg_produce_ask){ .topic = ot_str_of(""), .transactional_id = { .null = true }, .batches = { .null = true } };
    if (record_count > 0 && (out->records = ot_arena_array(arena, record_count, sizeof *out->records)) == NULL) return *why_out = "too many records in one request", OT_ERR_NO_MEMORY;
    while (rpcg_field_next(&reader, &field)) {
        switch (field.number) {
        case 1: out->topic = rpcg_field_str(&reader, &field); break;
        case 2: out->partition = rpcg_field_i32(&reader, &field); break;
        case 3: acks = rpcg_field_i32(&reader, &field); break;
        case 4: out->timeout_ms = rpcg_field_i32(&reader, &field); break;
        case 5: out->transactional_id = rpcg_field_str(&reader, &field); break;
        case 6: producer_decode(&reader, rpcg_field_bytes(&reader, &field), out, &producer_fits); break;
        case 7:
            if (record_decode(&reader, rpcg_field_bytes(&reader, &field), now_ms, arena, &out->records[out->record_count++]) == OT_OK) break;
            return *why_out = "too many headers in one request", OT_ERR_NO_MEMORY;
        case 8: codec = rpcg_field_i32(&reader, &field); break;
        case 9: out->id = rpcg_field_int(&reader, &field); break;
        case 15: out->batches = rpcg_field_bytes(&reader, &field); break;
        default: break;
        }
    }
    if (out->transactional_id.bytes == 0) out->transactional_id = (struct ot_str){ .null = true };
    if (out->batches.bytes == 0) out->batches = (struct ot_blob){ .null = true };
    if (reader.err != OT_OK) return rpcg_decode_ended(&reader, why_out);
    *why_out = NULL;
    const enum ot_err err = produce_check(out, acks, codec, producer_fits, why_out);
    if (err != OT_OK) return err;
    out->acks = acks_of[acks];
    out->codec = codecs[codec];
    return OT_OK;
}

/* ---- fetch and subscribe */

static bool isolation_ok(int64_t value, bool *committed_out)
{
    *committed_out = value == 2;
    return value >= 0 && value <= 2;
}

static bool format_ok(int64_t value, enum rpcg_format *out)
{
    *out = value == RPCG_FORMAT_BATCHES ? RPCG_FORMAT_BATCHES : RPCG_FORMAT_RECORDS;
    return value >= 0 && value <= 2;
}

enum ot_err rpcg_fetch_decode(struct ot_blob body, struct rpcg_fetch_ask *out, const char **why_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    int64_t isolation = 0, format = 0;
    *out = (struct rpcg_fetch_ask){ .topic = ot_str_of(""), .leader_epoch = -1 };
    while (rpcg_field_next(&reader, &field)) {
        switch (field.number) {
        case 1: out->topic = rpcg_field_str(&reader, &field); break;
        case 2: out->partition = rpcg_field_i32(&reader, &field); break;
        case 3: out->offset = rpcg_field_int(&reader, &field); break;
        case 4: out->max_wait_ms = rpcg_field_i32(&reader, &field); break;
        case 5: out->min_bytes = rpcg_field_i32(&reader, &field); break;
        case 6: out->max_bytes = rpcg_field_i32(&reader, &field); break;
        case 7: isolation = rpcg_field_i32(&reader, &field); break;
        case 8: format = rpcg_field_i32(&reader, &field); break;
        case 9: out->leader_epoch = (int32_t)((uint32_t)rpcg_field_i32(&reader, &field) - 1u); break;
        default: break;
        }
    }
    if (reader.err != OT_OK) return rpcg_decode_ended(&reader, why_out);
    *why_out = NULL;
    if (out->topic.bytes == 0) return rpcg_decode_refuse(why_out, "topic is empty");
    if (out->partition < 0) return rpcg_decode_refuse(why_out, "partition is negative");
    if (out->max_wait_ms < 0 || out->min_bytes < 0 || out->max_bytes < 0) return rpcg_decode_refuse(why_out, "max_wait_ms, min_bytes and max_bytes are not negative");
    if (out->leader_epoch < -1) return rpcg_decode_refuse(why_out, "leader_epoch_plus_one is negative");
    if (!isolation_ok(isolation, &out->read_committed)) return rpcg_decode_refuse(why_out, "isolation_level is none of the values of IsolationLevel");
    if (!format_ok(format, &out->format)) return rpcg_decode_refuse(why_out, "format is none of the values of PayloadFormat");
    return OT_OK;
}

static bool subscribe_part_decode(struct ot_reader *outer, struct ot_blob body, struct rpcg_subscribe_part *out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    int32_t start = 0;
    *out = (struct rpcg_subscribe_part){ .topic = ot_str_of("") };
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->topic = rpcg_field_str(&reader, &field);
        else if (field.number == 2) out->partition = rpcg_field_i32(&reader, &field);
        else if (field.number == 3) start = rpcg_field_i32(&reader, &field);
        else if (field.number == 4) out->offset = rpcg_field_int(&reader, &field);
        else if (field.number == 5) out->timestamp_ms = rpcg_field_int(&reader, &field);
    }
    if (reader.err != OT_OK) ot_reader_fail(outer, reader.err);
    out->start = start <= 0 || start > RPCG_START_TIMESTAMP ? RPCG_START_LATEST : (enum rpcg_start)start;
    return start >= 0 && start <= RPCG_START_TIMESTAMP;
}

enum ot_err rpcg_subscribe_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_subscribe_ask *out, const char **why_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    int64_t isolation = 0, format = 0;
    bool starts_ok = true;
    const uint32_t count = rpcg_decode_count(body, 1);
    *out = (struct rpcg_subscribe_ask){ .parts = NULL };
    *why_out = "too many partitions";
    if (count > 0 && (out->parts = ot_arena_array(arena, count, sizeof *out->parts)) == NULL) return OT_ERR_NO_MEMORY;
    while (rpcg_field_next(&reader, &field)) {
        switch (field.number) {
        case 1: starts_ok &= subscribe_part_decode(&reader, rpcg_field_bytes(&reader, &field), &out->parts[out->part_count++]); break;
        case 2: isolation = rpcg_field_i32(&reader, &field); break;
        case 3: format = rpcg_field_i32(&reader, &field); break;
        case 4: out->max_bytes = rpcg_field_i32(&reader, &field); break;
        case 5: out->heartbeat_ms = rpcg_field_i32(&reader, &field); break;
        default: break;
        }
    }
    if (reader.err != OT_OK) return rpcg_decode_ended(&reader, why_out);
    *why_out = NULL;
    if (out->part_count == 0) return rpcg_decode_refuse(why_out, "there are no partitions");
    if (!starts_ok) return rpcg_decode_refuse(why_out, "start is none of the values of Start");
    for (uint32_t i = 0; i < out->part_count; i++) {
        if (out->parts[i].topic.bytes == 0) return rpcg_decode_refuse(why_out, "topic is empty");
        if (out->parts[i].partition < -1) return rpcg_decode_refuse(why_out, "partition is negative");
        if (out->parts[i].start == RPCG_START_TIMESTAMP && out->parts[i].timestamp_ms < 0) return rpcg_decode_refuse(why_out, "timestamp_ms is negative");
    }
    if (out->max_bytes < 0 || out->heartbeat_ms < 0) return rpcg_decode_refuse(why_out, "max_bytes and heartbeat_interval_ms are not negative");
    if (!isolation_ok(isolation, &out->read_committed)) return rpcg_decode_refuse(why_out, "isolation_level is none of the values of IsolationLevel");
    if (!format_ok(format, &out->format)) return rpcg_decode_refuse(why_out, "format is none of the values of PayloadFormat");
    return OT_OK;
}

/* ---- the small ones */

static bool offsets_part_decode(struct ot_reader *outer, struct ot_blob body, struct rpcg_offsets_part *out)
{
    static const int64_t special[] = { -1, -1, -2, 0, -3 };
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    int32_t spec = 0;
    int64_t timestamp_ms = 0;
    *out = (struct rpcg_offsets_part){ .topic = ot_str_of(""), .leader_epoch = -1 };
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->topic = rpcg_field_str(&reader, &field);
        else if (field.number == 2) out->partition = rpcg_field_i32(&reader, &field);
        else if (field.number == 3) spec = rpcg_field_i32(&reader, &field);
        else if (field.number == 4) timestamp_ms = rpcg_field_int(&reader, &field);
        else if (field.number == 5) out->leader_epoch = (int32_t)((uint32_t)rpcg_field_i32(&reader, &field) - 1u);
    }
    if (reader.err != OT_OK) ot_reader_fail(outer, reader.err);
    if (spec < 0 || spec > 4 || (spec == 3 && timestamp_ms < 0) || out->topic.bytes == 0 || out->partition < 0 || out->leader_epoch < -1) return false;
    out->at = spec == 3 ? timestamp_ms : special[spec];
    return true;
}

enum ot_err rpcg_offsets_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_offsets_ask *out, const char **why_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    int64_t isolation = 0;
    bool parts_ok = true;
    const uint32_t count = rpcg_decode_count(body, 1);
    *out = (struct rpcg_offsets_ask){ .parts = NULL };
    *why_out = "too many partitions";
    if (count > 0 && (out->parts = ot_arena_array(arena, count, sizeof *out->parts)) == NULL) return OT_ERR_NO_MEMORY;
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) parts_ok &= offsets_part_decode(&reader, rpcg_field_bytes(&reader, &field), &out->parts[out->part_count++]);
        else if (field.number == 2) isolation = rpcg_field_i32(&reader, &field);
    }
    if (reader.err != OT_OK) return rpcg_decode_ended(&reader, why_out);
    *why_out = NULL;
    if (out->part_count == 0) return rpcg_decode_refuse(why_out, "there are no partitions");
    if (!parts_ok) return rpcg_decode_refuse(why_out, "a partition has no topic, a negative number or time, or a spec that is none of the values of OffsetSpec");
    if (!isolation_ok(isolation, &out->read_committed)) return rpcg_decode_refuse(why_out, "isolation_level is none of the values of IsolationLevel");
    return OT_OK;
}

enum ot_err rpcg_metadata_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_metadata_ask *out, const char **why_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    const uint32_t count = rpcg_decode_count(body, 1);
    *out = (struct rpcg_metadata_ask){ .topics = NULL };
    *why_out = "too many topics";
    if (count > 0 && (out->topics = ot_arena_array(arena, count, sizeof *out->topics)) == NULL) return OT_ERR_NO_MEMORY;
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->topics[out->topic_count++] = rpcg_field_str(&reader, &field);
        else if (field.number == 2) out->create = rpcg_field_int(&reader, &field) != 0;
    }
    return rpcg_decode_ended(&reader, why_out);
}

enum ot_err rpcg_health_decode(struct ot_blob body, struct rpcg_health_ask *out, const char **why_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    *out = (struct rpcg_health_ask){ .service = ot_str_of("") };
    while (rpcg_field_next(&reader, &field))
        if (field.number == 1) out->service = rpcg_field_str(&reader, &field);
    return rpcg_decode_ended(&reader, why_out);
}

enum ot_err rpcg_reflect_decode(struct ot_blob body, struct rpcg_reflect_ask *out, const char **why_out)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    *out = (struct rpcg_reflect_ask){ .host = ot_str_of(""), .name = ot_str_of("") };
    while (rpcg_field_next(&reader, &field)) {
        if (field.number == 1) out->host = rpcg_field_str(&reader, &field);
        if (field.number < RPCG_REFLECT_FILE || field.number > RPCG_REFLECT_LIST) continue;
        out->kind = (enum rpcg_reflect)field.number;           /* a oneof: the last one counts */
        if (field.number == RPCG_REFLECT_EXTENSION) (void)rpcg_field_bytes(&reader, &field);
        else out->name = rpcg_field_str(&reader, &field);
    }
    return rpcg_decode_ended(&reader, why_out);
}
