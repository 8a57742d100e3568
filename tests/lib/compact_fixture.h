/* A log with keys in it, compacted, and read back as a consumer would. Include after testing.h. Keys and values are short texts. */
#ifndef OT_TESTS_COMPACT_FIXTURE_H
#define OT_TESTS_COMPACT_FIXTURE_H

#include "engine/compact.h"
#include "log_fixture.h"

#define CX_RECORDS_MAX 4096

struct cx {
    struct fx fx;
    struct ot_pool *pool;
    struct eng_decode *decode;
    struct eng_encode *encode;
    struct eng_compact how;
    struct eng_compacted done;
    struct eng_producer_last producers[64];
    int32_t sequence[16];
    enum eng_codec codec;
    bool append_time;
};
struct cx_record { int64_t offset, timestamp; char key[24], value[48]; bool null_value; };
struct cx_log { struct cx_record list[CX_RECORDS_MAX]; uint32_t count, empty_batches, markers; };

__attribute__((unused)) static void cx_init(struct cx *cx)
{
    memset(cx, 0, sizeof *cx);
    fx_init(&cx->fx);
    cx->fx.config.segment_bytes = 2000;
    cx->fx.config.index_interval_bytes = 100;
    cx->fx.config.compact_enabled = true;
    cx->fx.config.delete_enabled = false;
    assert_non_null(cx->pool = ot_pool_new("compact test", 64 << 20, 0));
    assert_int_equal(eng_decode_new(cx->pool, &(struct eng_decode_limits){ 0 }, &cx->decode), OT_OK);
    assert_int_equal(eng_encode_new(&cx->encode), OT_OK);
    cx->how = (struct eng_compact){ .rules = { .max_lag_ms = INT64_MAX, .delete_retention_ms = 1000 }, .limit_offset = INT64_MAX, .wall_ms = FX_NOW, .map_bytes = 1 << 20,
        .load_factor = 0.9, .buffer_bytes = 64 << 10, .hash_seed = { 1, 2 }, .decode = cx->decode, .encode = cx->encode };
    fx_open(&cx->fx, 0, false);
}

__attribute__((unused)) static void cx_free(struct cx *cx)
{
    fx_free(&cx->fx);
    eng_encode_free(cx->encode);
    eng_decode_free(cx->decode);
    ot_pool_free(cx->pool);
}

__attribute__((unused)) static void cx_completed(void *arg, const struct eng_completed_txn *txn)
{
    struct cx *cx = arg;
    assert_int_equal(eng_log_add_aborted(cx->fx.log, txn), OT_OK);
    eng_producers_advance(eng_log_producers(cx->fx.log), INT64_MAX);
}

__attribute__((unused)) static void cx_roll(struct cx *cx)
{
    struct eng_producers *producers = eng_log_producers(cx->fx.log);
    size_t bytes = eng_producers_snapshot_bytes(producers);
    uint8_t *data = malloc(bytes);
    struct ot_writer writer = ot_writer_over(data, bytes);
    assert_int_equal(eng_producers_snapshot(producers, &writer), OT_OK);
    assert_int_equal(eng_log_roll(cx->fx.log, &(struct ot_blob){ data, (uint32_t)bytes, false }, FX_NOW), OT_OK);
    free(data);
}

/* As the lane does it: queue, roll when full, write, commit. */
__attribute__((unused)) static void cx_append(struct cx *cx, const uint8_t *data, size_t data_bytes)
{
    struct eng_batch_info info;
    struct eng_marker marker = { 0 };
    uint32_t written = 0;
    assert_int_equal(eng_batch_parse(data, data_bytes, &info), OT_OK);
    if (info.control) eng_batch_marker(data, &info, &marker);
    struct eng_append_batch batch = { .data = data, .bytes = (uint32_t)data_bytes, .base_offset = info.base_offset, .last_offset = eng_batch_last_offset(&info),
        .max_timestamp = info.max_timestamp, .max_timestamp_offset = eng_batch_last_offset(&info) };
    if (eng_log_fits(cx->fx.log, &batch, 1, FX_NOW) == 0) cx_roll(cx);
    assert_int_equal(eng_producers_pend(eng_log_producers(cx->fx.log), &info, batch.base_offset, batch.last_offset, info.control ? &marker : NULL, FX_NOW), OT_OK);
    assert_int_equal(eng_log_append(cx->fx.log, &batch, 1, FX_NOW, &written), OT_OK);
    assert_int_equal(written, 1);
    eng_producers_commit(eng_log_producers(cx->fx.log), eng_log_end_offset(cx->fx.log), cx_completed, cx);
}

/* "k1=a k2=b k3 =c": records of one batch; without "=" a tombstone, with an empty key a record without key. producer -1: none. Returns its base offset. */
__attribute__((unused)) static int64_t cx_send(struct cx *cx, const char *text, int64_t producer, bool transactional)
{
    struct eng_sink sink;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    int64_t base = fields.base_offset = eng_log_end_offset(cx->fx.log);
    char copy[1024], *rest = copy, *word;
    fields.leader_epoch = 0;
    fields.codec = cx->codec;
    fields.append_time = cx->append_time ? cx->fx.next_timestamp : -1;
    fields.producer_id = producer;
    fields.producer_epoch = producer < 0 ? -1 : 0;
    fields.base_sequence = producer < 0 ? -1 : cx->sequence[producer % 16];
    fields.transactional = transactional;
    snprintf(copy, sizeof copy, "%s", text);
    eng_sink_malloc(&sink, 1 << 20);
    assert_int_equal(eng_batch_build_begin(&builder, &fields, cx->encode, &sink), OT_OK);
    while ((word = strsep(&rest, " ")) != NULL) {
        char *value = strchr(word, '=');
        struct ot_blob key = { (uint8_t *)word, (uint32_t)(value == NULL ? strlen(word) : (size_t)(value - word)), false };
        struct ot_blob blob = { (uint8_t *)(value == NULL ? NULL : value + 1), value == NULL ? 0 : (uint32_t)strlen(value + 1), value == NULL };
        if (key.bytes == 0) key.null = true;
        struct eng_record_header header = { { (const uint8_t *)"h", 1, false }, { (const uint8_t *)"v", 1, false } };
        assert_int_equal(eng_batch_build_next(&builder, cx->fx.next_timestamp++, key, blob, &header, 1), OT_OK);
    }
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    if (producer >= 0) cx->sequence[producer % 16] += builder.record_count;
    cx_append(cx, sink.data + builder.start, sink.bytes - builder.start);
    eng_sink_free(&sink);
    return base;
}

__attribute__((unused)) static int64_t cx_put(struct cx *cx, const char *text) { return cx_send(cx, text, -1, false); }

__attribute__((unused)) static int64_t cx_end(struct cx *cx, int64_t producer, bool commit)
{
    uint8_t data[ENG_MARKER_BYTES];
    int64_t offset = eng_log_end_offset(cx->fx.log);
    size_t bytes = eng_batch_build_marker(data, producer, 0, 0, 0, commit, cx->fx.next_timestamp++);
    eng_batch_stamp(data, offset, 0);
    cx_append(cx, data, bytes);
    return offset;
}

__attribute__((unused)) static enum ot_err cx_try_compact(struct cx *cx)
{
    int64_t flushed;
    cx->how.producers = cx->producers;
    cx->how.producer_count = eng_producers_last(eng_log_producers(cx->fx.log), cx->producers, 64);
    enum ot_err err = eng_log_flush(cx->fx.log, &flushed);
    return err == OT_OK ? eng_log_compact(cx->fx.log, &cx->how, &cx->done) : err;
}

__attribute__((unused)) static void cx_compact(struct cx *cx)
{
    assert_int_equal(cx_try_compact(cx), OT_OK);
}

__attribute__((unused)) static void cx_read_record(struct cx_log *log, const struct eng_record *record)
{
    assert_true(log->count < CX_RECORDS_MAX);
    struct cx_record *to = &log->list[log->count++];
    memset(to, 0, sizeof *to);
    to->offset = record->offset;
    to->timestamp = record->timestamp;
    to->null_value = record->value.null;
    assert_true(record->key.bytes < sizeof to->key && record->value.bytes < sizeof to->value);
    if (record->key.bytes > 0) memcpy(to->key, record->key.data, record->key.bytes);
    if (record->value.bytes > 0) memcpy(to->value, record->value.data, record->value.bytes);
    assert_true(record->header_count <= 1);
}

__attribute__((unused)) static void cx_read_batch(struct cx *cx, struct cx_log *log, const struct eng_batch_piece *piece)
{
    struct eng_batch_info info;
    struct eng_record_iter iter;
    struct eng_record record;
    assert_int_equal(eng_batch_parse(piece->data, piece->bytes, &info), OT_OK);
    assert_int_equal(eng_batch_check_crc(piece->data, &info), OT_OK);
    if (info.magic >= 2 && info.record_count == 0) log->empty_batches++;
    if (info.control) {
        log->markers += info.record_count > 0;
        return;
    }
    assert_int_equal(eng_record_open(&iter, cx->decode, piece->data, piece->bytes, 0), OT_OK);
    enum ot_err err;
    while ((err = eng_record_next(&iter, &record)) == OT_OK) cx_read_record(log, &record);
    assert_int_equal(err, OT_ERR_NOT_FOUND);
}

/* Everything that lies in the log, aborted records too; each read begins behind the last batch of the one before. */
__attribute__((unused)) static struct cx_log *cx_read(struct cx *cx)
{
    static struct cx_log log;
    int64_t at = eng_log_start_offset(cx->fx.log), end = eng_log_end_offset(cx->fx.log);
    memset(&log, 0, sizeof log);
    while (at < end) {
        struct eng_read how = { .offset = at, .limit_offset = end, .max_bytes = 700, .min_one = true, .may_block = true };
        struct eng_read_result result;
        assert_int_equal(eng_log_read(cx->fx.log, &how, &result), OT_OK);
        if (result.bytes == 0) break;
        uint8_t *data = malloc(result.bytes);
        uint32_t got = 0;
        for (uint32_t i = 0; i < result.span_count; i++) {
            assert_int_equal(pread(result.spans[i].fd, data + got, result.spans[i].bytes, (off_t)result.spans[i].pos), (ssize_t)result.spans[i].bytes);
            got += result.spans[i].bytes;
        }
        result.pin->release(result.pin);
        struct ot_reader cursor = ot_reader_over(data, got);
        struct eng_batch_piece piece;
        int64_t before = at;
        while (eng_batch_split(&cursor, &piece) == OT_OK) {
            struct eng_batch_info info;
            assert_int_equal(eng_batch_parse(piece.data, piece.bytes, &info), OT_OK);
            assert_true(eng_batch_last_offset(&info) >= at);
            cx_read_batch(cx, &log, &piece);
            at = eng_batch_last_offset(&info) + 1;
        }
        assert_true(at > before);
        free(data);
    }
    return &log;
}

/* "0:k1=a 3:k2=b 4:k3": what a reader of everything is given. */
__attribute__((unused)) static const char *cx_text(const struct cx_log *log)
{
    static char text[65536];
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < log->count; i++) {
        const struct cx_record *record = &log->list[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64 ":%s%s%s", i == 0 ? "" : " ", record->offset, record->key, record->null_value ? "" : "=", record->value);
        assert_true(used < sizeof text);
    }
    return text;
}

__attribute__((unused)) static const char *cx_all(struct cx *cx) { return cx_text(cx_read(cx)); }

/* Fill the active segment up so that what was sent so far lies in sealed ones. */
__attribute__((unused)) static void cx_seal(struct cx *cx) { cx_roll(cx); (void)cx_put(cx, "active=1"); }

#endif
