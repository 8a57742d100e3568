/* Records into batches and out of them again: partitions, rounds, codecs, what a reader may not see, damage. */
#include "testing.h"

#include "base/io.h"
#include "broker/broker.h"
#include "broker/records.h"
#include "engine/batch_build.h"

#include <pthread.h>

enum { COUNT = 300 };

struct house {
    char root[300];
    struct ot_exec_pool *io;
    struct ot_exec_thread *background, *coord, *door;
    struct ot_pool *decode, *bodies;
    struct broker_config_store *config;
    struct broker *broker;
    struct ot_arena arena;
};
static struct house house;
static const struct broker_listener listener = { "PLAINTEXT", "127.0.0.1", NULL, 9092, 0, "PLAINTEXT" };

static int set_up(void **state)
{
    char text[300];
    (void)state;
    ot_guard_install();
    temp_dir_make(house.root, sizeof house.root);
    assert_int_equal(broker_config_store_new(&house.config), OT_OK);
    assert_int_equal(broker_config_set(house.config, BROKER_SOURCE_FLAG, "test", "log.dirs", house.root, text, sizeof text), OT_OK);
    assert_int_equal(broker_config_set(house.config, BROKER_SOURCE_FLAG, "test", "ottla.disk.reserve.bytes", "0", text, sizeof text), OT_OK);
    assert_int_equal(ot_exec_pool_start("io", 2, &house.io), OT_OK);
    assert_int_equal(ot_exec_thread_start("background", &house.background), OT_OK);
    assert_int_equal(ot_exec_thread_start("coord", &house.coord), OT_OK);
    assert_int_equal(ot_exec_thread_start("door", &house.door), OT_OK);
    house.decode = ot_pool_new("decode", 64 << 20, 0);
    house.bodies = ot_pool_new("rest", 16 << 20, 0);
    struct broker_setup setup = { .io = ot_io_real(), .config = house.config, .io_exec = ot_exec_pool_exec(house.io), .flush_exec = ot_exec_pool_exec(house.io),
        .background_exec = ot_exec_thread_exec(house.background), .coord_exec = ot_exec_thread_exec(house.coord), .decode_pool = house.decode,
        .listeners = &listener, .listener_count = 1 };
    assert_int_equal(broker_open(&setup, &house.broker), OT_OK);
    ot_arena_init(&house.arena, 32 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ot_arena_free(&house.arena);
    broker_stop(house.broker);
    broker_close(house.broker);
    ot_exec_thread_stop(house.door);
    ot_exec_thread_stop(house.coord);
    ot_exec_thread_stop(house.background);
    ot_exec_pool_stop(house.io);
    ot_pool_free(house.decode);
    ot_pool_free(house.bodies);
    broker_config_store_free(house.config);
    temp_dir_remove(house.root);
    return 0;
}

/* ---- reading a run of batches in memory as if a fetch had found it */

struct seen { int64_t offset; char key[16], value[400]; bool key_null; uint32_t header_count; };
struct reading {
    struct broker_records records;
    struct broker_fetch_row row;
    struct seen seen[COUNT * 2]; uint32_t count, stop_after;
    pthread_mutex_t mutex; pthread_cond_t changed; bool done;
};

static bool each(struct broker_records *records, const struct broker_record_view *record)
{
    struct reading *reading = OT_CONTAINER(records, struct reading, records);
    if (reading->count == reading->stop_after) return false;
    struct seen *seen = &reading->seen[reading->count++];
    seen->offset = record->offset;
    seen->key_null = record->key.null;
    snprintf(seen->key, sizeof seen->key, "%.*s", (int)record->key.bytes, record->key.bytes == 0 ? "" : (const char *)record->key.data);
    snprintf(seen->value, sizeof seen->value, "%.*s", (int)record->value.bytes, record->value.bytes == 0 ? "" : (const char *)record->value.data);
    struct ot_reader cursor = ot_reader_over(record->headers.data, record->headers.bytes);
    for (struct broker_record_header header; broker_record_headers(&cursor, &header);) seen->header_count++;
    assert_int_equal(seen->header_count, record->header_count);
    return true;
}

static void done(struct broker_call *call)
{
    struct reading *reading = OT_CONTAINER(OT_CONTAINER(call, struct broker_records, call), struct reading, records);
    pthread_mutex_lock(&reading->mutex);
    reading->done = true;
    pthread_cond_signal(&reading->changed);
    pthread_mutex_unlock(&reading->mutex);
}

static struct reading *read_back(const uint8_t *data, uint32_t bytes, int64_t from, uint32_t stop_after, const struct eng_aborted *aborted, int32_t aborted_count)
{
    static struct reading reading;
    reading = (struct reading){ .stop_after = stop_after, .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    reading.row = (struct broker_fetch_row){ .aborted = aborted, .aborted_count = aborted_count,
        .read = { .spans = { { .memory = data, .fd = -1, .bytes = bytes } }, .span_count = 1, .bytes = bytes } };
    reading.records = (struct broker_records){ .call = { .home = ot_exec_thread_exec(house.door), .done = done }, .row = &reading.row, .from_offset = from,
        .pool = house.bodies, .each = each };
    broker_records_read(house.broker, &reading.records);
    pthread_mutex_lock(&reading.mutex);
    while (!reading.done) pthread_cond_wait(&reading.changed, &reading.mutex);
    pthread_mutex_unlock(&reading.mutex);
    return &reading;
}

static struct ot_blob blob(const char *text) { return (struct ot_blob){ (const uint8_t *)text, text == NULL ? 0 : (uint32_t)strlen(text), text == NULL }; }

/* ---- */

static void records_come_back_through_every_codec(void **state)
{
    static const char *const codecs[] = { NULL, "none", "gzip", "snappy", "lz4", "zstd" };
    const struct broker_record_header headers[] = { { ot_str_of("h"), blob("v") }, { ot_str_of("n"), blob(NULL) } };
    (void)state;
    for (size_t c = 0; c < OT_ARRAY_COUNT(codecs); c++) {
        struct broker_record records[] = { { .timestamp_ms = 5, .key = blob("k"), .value = blob("one"), .headers = headers, .header_count = 2 },
            { .timestamp_ms = 6, .key = blob(NULL), .value = blob("two") }, { .timestamp_ms = 7, .key = blob(""), .value = blob(NULL) } };
        struct broker_records_round round;
        ot_arena_reset(&house.arena);
        assert_int_equal(broker_records_rounds(records, 3, 1 << 20, &house.arena), 1);
        assert_int_equal(broker_records_pack(house.broker, ot_str_of("t"), records, 3, 0, ot_str_of(codecs[c]), house.bodies, 1 << 20, &house.arena, &round), OT_OK);
        assert_int_equal(round.part_count, 1);
        const struct reading *got = read_back(round.parts[0].records, round.parts[0].records_bytes, 0, COUNT, NULL, -1);
        assert_int_equal(got->records.error, OT_OK);
        assert_int_equal(got->count, 3);
        assert_int_equal(got->records.next_offset, 3);
        assert_string_equal(got->seen[0].value, "one");
        assert_int_equal(got->seen[0].header_count, 2);
        assert_true(got->seen[1].key_null && !got->seen[2].key_null);
        ot_buf_unref(round.buf);
    }
}

/* Nobody wants it any more: after the batch that it is told in nothing is looked at, and nothing at all when it was told before. */
static bool each_cancels(struct broker_records *records, const struct broker_record_view *record)
{
    (void)record;
    OT_CONTAINER(records, struct reading, records)->count++;
    atomic_store(&records->cancelled, true);
    return true;
}

static void what_nobody_wants_is_not_read(void **state)
{
    static struct reading reading;
    static uint8_t data[8192];
    uint32_t bytes = 0;
    (void)state;
    for (uint32_t batch = 0; batch < 2; batch++) {
        struct broker_record records[] = { { .key = blob(NULL), .value = blob("one") }, { .key = blob(NULL), .value = blob("two") } };
        struct broker_records_round round;
        ot_arena_reset(&house.arena);
        assert_int_equal(broker_records_rounds(records, 2, 1 << 20, &house.arena), 1);
        assert_int_equal(broker_records_pack(house.broker, ot_str_of("t"), records, 2, 0, ot_str_of("none"), house.bodies, 1 << 20, &house.arena, &round), OT_OK);
        memcpy(data + bytes, round.parts[0].records, round.parts[0].records_bytes);
        ot_store_u64(data + bytes, batch * 2);
        bytes += round.parts[0].records_bytes;
        ot_buf_unref(round.buf);
    }
    assert_int_equal(read_back(data, bytes, 0, COUNT, NULL, -1)->records.next_offset, 4);
    for (uint32_t before = 0; before < 2; before++) {
        reading = (struct reading){ .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
        reading.row = (struct broker_fetch_row){ .aborted_count = -1, .read = { .spans = { { .memory = data, .fd = -1, .bytes = bytes } }, .span_count = 1, .bytes = bytes } };
        reading.records = (struct broker_records){ .call = { .home = ot_exec_thread_exec(house.door), .done = done }, .row = &reading.row, .pool = house.bodies,
            .each = each_cancels, .cancelled = before == 1 };
        broker_records_read(house.broker, &reading.records);
        pthread_mutex_lock(&reading.mutex);
        while (!reading.done) pthread_cond_wait(&reading.changed, &reading.mutex);
        pthread_mutex_unlock(&reading.mutex);
        assert_int_equal(reading.records.error, OT_ERR_CANCELLED);
        assert_int_equal(reading.count, before == 1 ? 0 : 2);
        assert_int_equal(reading.records.next_offset, before == 1 ? 0 : 2);
    }
}

static void an_unknown_codec_is_refused(void **state)
{
    struct broker_record record = { .value = blob("x"), .key = blob(NULL) };
    struct broker_records_round round;
    (void)state;
    assert_false(broker_records_codec_known(ot_str_of("zip")));
    assert_true(broker_records_codec_known((struct ot_str){ .null = true }));
    assert_int_equal(broker_records_pack(house.broker, ot_str_of("t"), &record, 1, 0, ot_str_of("zip"), house.bodies, 1 << 20, &house.arena, &round),
        OT_ERR_UNSUPPORTED_COMPRESSION_TYPE);
}

static void rounds_keep_order_and_bounds(void **state)
{
    static struct broker_record records[COUNT];
    static char values[COUNT][200];
    int32_t next[3] = { 0, 1, 2 };
    (void)state;
    ot_arena_reset(&house.arena);
    for (int i = 0; i < COUNT; i++) {
        snprintf(values[i], sizeof values[i], "%0150d", i);
        records[i] = (struct broker_record){ .timestamp_ms = 1, .key = blob(NULL), .value = blob(values[i]), .partition = i % 3 };
    }
    const uint32_t rounds = broker_records_rounds(records, COUNT, 4000, &house.arena);
    assert_in_range(rounds, 4, 20);
    for (uint32_t r = 0; r < rounds; r++) {
        struct broker_records_round round;
        assert_int_equal(broker_records_pack(house.broker, ot_str_of("t"), records, COUNT, r, ot_str_of("none"), house.bodies, 1 << 20, &house.arena, &round), OT_OK);
        assert_int_equal(round.part_count, 3);
        for (uint32_t p = 0; p < round.part_count; p++) {
            assert_in_range(round.parts[p].records_bytes, 61, 4000);
            const struct reading *got = read_back(round.parts[p].records, round.parts[p].records_bytes, 0, COUNT, NULL, -1);
            for (uint32_t k = 0; k < got->count; k++, next[p] += 3) assert_string_equal(got->seen[k].value, values[next[p]]);
        }
        for (int i = 0; i < COUNT; i++)
            if (records[i].round == r) assert_int_equal(round.parts[records[i].part].partition, records[i].partition);
        ot_buf_unref(round.buf);
    }
    for (int p = 0; p < 3; p++) assert_int_equal(next[p], COUNT + p);
}

static void a_record_above_the_bound_has_a_batch_to_itself(void **state)
{
    static char large[5000];
    memset(large, 'x', sizeof large - 1);
    struct broker_record records[] = { { .value = blob("a"), .key = blob(NULL) }, { .value = blob(large), .key = blob(NULL) }, { .value = blob("b"), .key = blob(NULL) } };
    (void)state;
    ot_arena_reset(&house.arena);
    assert_int_equal(broker_records_rounds(records, 3, 1000, &house.arena), 3);
    assert_int_equal(records[1].round, 1);
}

static void keys_decide_and_others_take_turns(void **state)
{
    _Atomic uint32_t turn = 0;
    (void)state;
    assert_int_equal(broker_records_partition(blob("21"), 1000, &turn), (int32_t)((uint32_t)-973932308 & 0x7fffffff) % 1000);
    assert_int_equal(broker_records_partition(blob("abc"), 1000, &turn), 479470107 % 1000);
    for (int i = 0; i < 7; i++) assert_int_equal(broker_records_partition(blob(NULL), 3, &turn), i % 3);
}

/* Two producers: 7 aborts offsets 0-1, 8 commits 2-3; then their markers; then 7 again, committed. */
static uint32_t transactions(uint8_t *out, uint32_t cap)
{
    static const struct { int64_t producer; const char *value; bool marker, commit; } rows[] = { { 7, "lost", false, false }, { 8, "kept", false, false },
        { 7, NULL, true, false }, { 8, NULL, true, true }, { 7, "later", false, false }, { 7, NULL, true, true }, { -1, "plain", false, false } };
    struct eng_sink sink;
    int64_t offset = 0;
    eng_sink_over(&sink, out, cap);
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        if (rows[i].marker) {
            uint8_t marker[ENG_MARKER_BYTES];
            const size_t bytes = eng_batch_build_marker(marker, rows[i].producer, 0, 0, 0, rows[i].commit, 1);
            ot_store_u64(marker, (uint64_t)offset);
            assert_int_equal(eng_sink_write(&sink, marker, bytes), OT_OK);
        } else {
            struct eng_batch_fields fields = eng_batch_fields_default();
            struct eng_batch_builder builder;
            fields.base_offset = offset;
            fields.producer_id = rows[i].producer;
            fields.producer_epoch = rows[i].producer < 0 ? -1 : 0;
            fields.base_sequence = rows[i].producer < 0 ? -1 : 0;
            fields.transactional = rows[i].producer >= 0;
            assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &sink), OT_OK);
            assert_int_equal(eng_batch_build_next(&builder, 1, blob(NULL), blob(rows[i].value), NULL, 0), OT_OK);
            assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
        }
        offset++;
    }
    return (uint32_t)sink.bytes;
}

static void aborted_records_and_markers_are_not_seen(void **state)
{
    uint8_t data[2000];
    const uint32_t bytes = transactions(data, sizeof data);
    const struct eng_aborted aborted[] = { { 7, 0 } };
    (void)state;
    const struct reading *got = read_back(data, bytes, 0, COUNT, aborted, 1);
    assert_int_equal(got->records.error, OT_OK);
    assert_int_equal(got->count, 3);
    assert_string_equal(got->seen[0].value, "kept");
    assert_string_equal(got->seen[1].value, "later");
    assert_string_equal(got->seen[2].value, "plain");
    assert_int_equal(got->records.next_offset, 7);
    got = read_back(data, bytes, 0, COUNT, NULL, -1);          /* read_uncommitted sees all but the markers */
    assert_int_equal(got->count, 4);
    assert_string_equal(got->seen[0].value, "lost");
}

static void a_reader_begins_and_stops_where_it_wants(void **state)
{
    struct broker_record records[] = { { .value = blob("a"), .key = blob(NULL) }, { .value = blob("b"), .key = blob(NULL) }, { .value = blob("c"), .key = blob(NULL) } };
    struct broker_records_round round;
    (void)state;
    ot_arena_reset(&house.arena);
    assert_int_equal(broker_records_rounds(records, 3, 1000, &house.arena), 1);
    assert_int_equal(broker_records_pack(house.broker, ot_str_of("t"), records, 3, 0, ot_str_of("zstd"), house.bodies, 1 << 20, &house.arena, &round), OT_OK);
    const struct reading *got = read_back(round.parts[0].records, round.parts[0].records_bytes, 1, 1, NULL, -1);
    assert_int_equal(got->count, 1);
    assert_string_equal(got->seen[0].value, "b");
    assert_int_equal(got->records.next_offset, 2);             /* c was shown and not taken */
    ot_buf_unref(round.buf);
}

static void damage_is_an_error_and_a_cut_tail_is_not(void **state)
{
    uint8_t data[2000];
    const uint32_t bytes = transactions(data, sizeof data);
    (void)state;
    const struct reading *got = read_back(data, bytes - 5, 0, COUNT, NULL, -1);
    assert_int_equal(got->records.error, OT_OK);
    assert_int_equal(got->count, 3);
    for (uint32_t at = 12; at < 130; at++) {
        uint8_t broken[2000];
        memcpy(broken, data, bytes);
        broken[at] ^= 0x40;
        got = read_back(broken, bytes, 0, COUNT, NULL, -1);
        assert_true(got->count <= 4);
        if (at >= 21 && at < 60) assert_int_equal(got->records.error, OT_ERR_CORRUPT_MESSAGE);     /* under the CRC of the first batch */
    }
}

static void a_full_pool_is_told(void **state)
{
    struct broker_record record = { .value = blob("x"), .key = blob(NULL) };
    struct broker_records_round round;
    struct ot_pool *tiny = ot_pool_new("tiny", 16, 0);
    uint8_t data[2000];
    const uint32_t bytes = transactions(data, sizeof data);
    (void)state;
    ot_arena_reset(&house.arena);
    assert_int_equal(broker_records_pack(house.broker, ot_str_of("t"), &record, 1, 0, ot_str_of("none"), tiny, 1 << 20, &house.arena, &round), OT_ERR_NO_MEMORY);
    struct ot_pool *kept = house.bodies;
    house.bodies = tiny;
    assert_int_equal(read_back(data, bytes, 0, COUNT, NULL, -1)->records.error, OT_ERR_NO_MEMORY);
    house.bodies = kept;
    assert_int_equal(ot_pool_used_bytes(tiny), 0);
    ot_pool_free(tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back_through_every_codec),
        cmocka_unit_test(what_nobody_wants_is_not_read),
        cmocka_unit_test(an_unknown_codec_is_refused),
        cmocka_unit_test(rounds_keep_order_and_bounds),
        cmocka_unit_test(a_record_above_the_bound_has_a_batch_to_itself),
        cmocka_unit_test(keys_decide_and_others_take_turns),
        cmocka_unit_test(aborted_records_and_markers_are_not_seen),
        cmocka_unit_test(a_reader_begins_and_stops_where_it_wants),
        cmocka_unit_test(damage_is_an_error_and_a_cut_tail_is_not),
        cmocka_unit_test(a_full_pool_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
