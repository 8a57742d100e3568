#include "batches.h"

#include <string.h>

enum { KEY_BYTES = 8 };

struct ot_buf *batch_of(struct ot_pool *pool, struct record record, int64_t offset, int64_t wall_ms, const struct batch_producer *producer)
{
    struct eng_sink sink;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    uint8_t key[KEY_BYTES], value[300];
    ot_store_u64(key, record.id);
    memset(value, 'a' + (int)(record.id % 26), sizeof value);
    fields.base_offset = offset;
    fields.leader_epoch = record.epoch;
    if (producer != NULL) {
        fields.producer_id = producer->id;
        fields.producer_epoch = producer->epoch;
        fields.base_sequence = producer->sequence;
    }
    eng_sink_pool(&sink, pool, 1u << 16);
    CHECK(eng_batch_build_begin(&builder, &fields, NULL, &sink) == OT_OK);
    CHECK(eng_batch_build_next(&builder, wall_ms, (struct ot_blob){ key, KEY_BYTES, false }, (struct ot_blob){ value, (uint32_t)(record.id * 31 % sizeof value), false }, NULL, 0) == OT_OK);
    CHECK(eng_batch_build_finish(&builder) == OT_OK);
    return eng_sink_take(&sink);
}

struct record batch_record(const struct eng_batch_piece *piece, const struct eng_batch_info *info)
{
    struct eng_record_iter iter;
    struct eng_record record;
    CHECK(eng_batch_check_crc(piece->data, info) == OT_OK);
    CHECK(eng_record_open(&iter, NULL, piece->data, piece->bytes, 0) == OT_OK && eng_record_next(&iter, &record) == OT_OK && record.key.bytes == KEY_BYTES);
    return (struct record){ info->partition_leader_epoch, ot_load_u64(record.key.data) };
}
