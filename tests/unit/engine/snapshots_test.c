#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/batch.h"
#include "engine/snapshots.h"
#include "base/io_fault.h"
#include "base/util.h"
#include "temp_dir.h"
#include "vectors.h"

struct bench { char dir[200]; struct eng_producers *producers; };

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    temp_dir_make(bench->dir, sizeof bench->dir);
    assert_int_equal(eng_producers_new(100, INT64_MAX, &bench->producers), OT_OK);
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    eng_producers_free(bench->producers);
    temp_dir_remove(bench->dir);
    free(bench);
    return 0;
}

/* ---- format ---- */

static int64_t number(json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void entry_equals(const struct eng_snapshot_entry *entry, json_t *json)
{
    assert_int_equal(entry->producer_id, number(json, "producerId"));
    assert_int_equal(entry->epoch, number(json, "epoch"));
    assert_int_equal(entry->last_sequence, number(json, "lastSequence"));
    assert_int_equal(entry->last_offset, number(json, "lastOffset"));
    assert_int_equal(entry->offset_delta, number(json, "offsetDelta"));
    assert_int_equal(entry->timestamp_ms, number(json, "timestamp"));
    assert_int_equal(entry->coordinator_epoch, number(json, "coordinatorEpoch"));
    assert_int_equal(entry->txn_first_offset, number(json, "currentTxnFirstOffset"));
}

static void snapshot_line(void *arg, int line, json_t *object)
{
    (void)line;
    if (strcmp(json_string_value(json_object_get(object, "name")), "ProducerSnapshot") != 0) return;
    uint8_t framed[4096], encoded[4096];
    size_t bytes = vectors_hex(object, "framed", framed, sizeof framed);
    json_t *json = json_object_get(object, "json"), *entries = json_object_get(json, "producerEntries");
    struct eng_snapshot snapshot;
    assert_int_equal(eng_snapshot_parse(framed, bytes, &snapshot), OT_ERR_CORRUPT);        /* the vectors' checksums are any number */
    assert_int_equal(snapshot.crc_stored, number(json, "crc"));
    assert_int_equal(snapshot.entry_count, json_array_size(entries));
    assert_false(snapshot.has_items);
    struct ot_writer writer = ot_writer_over(encoded, sizeof encoded);
    eng_snapshot_write_head(&writer, snapshot.crc_stored, snapshot.entry_count);
    for (uint32_t i = 0; i < snapshot.entry_count; i++) {
        struct eng_snapshot_entry entry;
        eng_snapshot_next_entry(&snapshot, &entry);
        entry_equals(&entry, json_array_get(entries, i));
        eng_snapshot_write_entry(&writer, &entry);
    }
    assert_int_equal(writer.at - writer.start, bytes);
    assert_memory_equal(encoded, framed, bytes);
    for (size_t cut = 0; cut < bytes; cut++) assert_int_equal(eng_snapshot_parse(framed, cut, &snapshot), OT_ERR_SHORT);
    ot_store_u32(framed + 2, ot_crc32c(0, framed + 6, bytes - 6));
    assert_int_equal(eng_snapshot_parse(framed, bytes, &snapshot), OT_OK);
    (*(int *)arg)++;
}

static void snapshots_equal_the_vectors(void **state)
{
    int seen = 0;
    (void)state;
    (void)vectors_each("handed", snapshot_line, &seen);
    assert_true(seen >= 3);
}

static void an_empty_snapshot_is_kafkas_to_the_byte(void **state)
{
    struct bench *bench = *state;
    uint8_t data[ENG_SNAPSHOT_HEAD_BYTES], zeros[4] = { 0 }, expected[ENG_SNAPSHOT_HEAD_BYTES] = { 0, 1 };
    assert_int_equal(eng_producers_snapshot_bytes(bench->producers), sizeof data);
    struct ot_writer writer = ot_writer_over(data, sizeof data);
    assert_int_equal(eng_producers_snapshot(bench->producers, &writer), OT_OK);
    ot_store_u32(expected + 2, ot_crc32c(0, zeros, 4));
    assert_memory_equal(data, expected, sizeof data);
}

/* ---- names and files ---- */

static void names_have_twenty_digits(void **state)
{
    char name[ENG_SNAPSHOT_NAME_BYTES];
    int64_t offset;
    (void)state;
    eng_snapshots_name(1587, name);
    assert_string_equal(name, "00000000000000001587.snapshot");
    assert_true(eng_snapshots_parse_name(name, &offset));
    assert_int_equal(offset, 1587);
    eng_snapshots_name(INT64_MAX, name);
    assert_true(eng_snapshots_parse_name(name, &offset));
    assert_int_equal(offset, INT64_MAX);
    static const char *const others[] = { "", "1587.snapshot", "00000000000000001587.snapshot.tmp", "00000000000000001587.snapshot.deleted",
        "00000000000000001587.log", "0000000000000000158x.snapshot", "09223372036854775808.snapshot", "99999999999999999999.snapshot",
        "000000000000000015870.snapshot", "00000000000000001587" };
    for (size_t i = 0; i < OT_ARRAY_COUNT(others); i++) assert_false(eng_snapshots_parse_name(others[i], &offset));
}

static void write_at(struct bench *bench, int64_t offset, int32_t sequence)
{
    uint8_t data[256];
    struct eng_batch_info info = { .magic = 2, .producer_id = 7, .base_offset = offset, .base_sequence = sequence, .record_count = 1, .max_timestamp = 5 };
    eng_producers_reset(bench->producers);
    assert_int_equal(eng_producers_replay(bench->producers, &info, NULL), OT_OK);
    struct ot_writer writer = ot_writer_over(data, sizeof data);
    assert_int_equal(eng_producers_snapshot(bench->producers, &writer), OT_OK);
    struct ot_blob blob = { data, (uint32_t)(writer.at - data), false };
    assert_int_equal(eng_snapshots_write(ot_io_real(), bench->dir, offset, &blob, false), OT_OK);
}

static void lists(struct bench *bench, const char *expected)
{
    int64_t *offsets;
    uint32_t count;
    char text[256] = "";
    assert_int_equal(eng_snapshots_list(ot_io_real(), bench->dir, &offsets, &count), OT_OK);
    for (uint32_t i = 0; i < count; i++) (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%lld ", (long long)offsets[i]);
    assert_string_equal(text, expected);
    free(offsets);
}

static void file_at(struct bench *bench, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", bench->dir, name);
    assert_int_equal(ot_io_replace_file(ot_io_real(), path, text, strlen(text), false), OT_OK);
}

static void the_newest_sound_one_in_range_is_loaded(void **state)
{
    struct bench *bench = *state;
    int64_t from;
    struct eng_producer_view view;
    for (int64_t offset = 10; offset <= 40; offset += 10) write_at(bench, offset, (int32_t)offset);
    file_at(bench, "00000000000000000025.snapshot", "damaged");
    file_at(bench, "00000000000000000026.log", "no snapshot");
    assert_int_equal(eng_snapshots_load(ot_io_real(), bench->dir, 0, 29, bench->producers, 0, &from), OT_OK);
    assert_int_equal(from, 20);
    assert_true(eng_producers_find(bench->producers, 7, false, &view));
    assert_int_equal(view.last_sequence, 20);
    lists(bench, "10 20 30 40 ");                              /* the damaged one is gone */
    assert_int_equal(eng_snapshots_load(ot_io_real(), bench->dir, 0, INT64_MAX, bench->producers, 0, &from), OT_OK);
    assert_int_equal(from, 40);
    assert_int_equal(eng_snapshots_load(ot_io_real(), bench->dir, 20, 20, bench->producers, 0, &from), OT_OK);
    assert_int_equal(from, 20);
    assert_int_equal(eng_snapshots_load(ot_io_real(), bench->dir, 41, 60, bench->producers, 0, &from), OT_OK);
    assert_int_equal(from, 41);
    assert_int_equal(eng_producers_list(bench->producers, NULL, 0), 0);
    assert_int_equal(eng_snapshots_load(ot_io_real(), bench->dir, 3, 9, bench->producers, 0, &from), OT_OK);
    assert_int_equal(from, 3);
}

static void deletion_keeps_the_one_at_the_offset(void **state)
{
    struct bench *bench = *state;
    for (int64_t offset = 10; offset <= 50; offset += 10) write_at(bench, offset, 0);
    assert_int_equal(eng_snapshots_delete_above(ot_io_real(), bench->dir, 40), OT_OK);
    lists(bench, "10 20 30 40 ");
    assert_int_equal(eng_snapshots_delete_below(ot_io_real(), bench->dir, 20), OT_OK);
    lists(bench, "20 30 40 ");
    assert_int_equal(eng_snapshots_delete_below(ot_io_real(), bench->dir, 99), OT_OK);
    lists(bench, "");
}

static void retention_keeps_those_of_segments_and_the_one_at_the_end(void **state)
{
    struct bench *bench = *state;
    const int64_t bases[] = { 20, 40 };
    for (int64_t offset = 10; offset <= 60; offset += 10) write_at(bench, offset, 0);
    assert_int_equal(eng_snapshots_retain(ot_io_real(), bench->dir, bases, 0), OT_OK);
    lists(bench, "10 20 30 40 50 60 ");
    assert_int_equal(eng_snapshots_retain(ot_io_real(), bench->dir, bases, 2), OT_OK);
    lists(bench, "20 40 60 ");
    assert_int_equal(eng_snapshots_retain(ot_io_real(), bench->dir, (const int64_t[]){ 40, 70 }, 2), OT_OK);
    lists(bench, "40 ");
}

static void a_missing_folder_is_an_error(void **state)
{
    struct bench *bench = *state;
    char path[256];
    int64_t from;
    (void)snprintf(path, sizeof path, "%s/none", bench->dir);
    assert_int_equal(eng_snapshots_load(ot_io_real(), path, 0, 10, bench->producers, 0, &from), OT_ERR_NOT_FOUND);
}

/* Every call to the disk fails once while the newest of two is loaded: an error or the newest, never a deleted sound file. */
static void a_failing_disk_deletes_no_snapshot(void **state)
{
    struct bench *bench = *state;
    struct ot_io_fault fault;
    uint64_t at = 1;
    write_at(bench, 10, 0);
    write_at(bench, 20, 0);
    for (;; at++) {
        int64_t from = -1;
        ot_io_fault_init(&fault, ot_io_real());
        ot_io_fault_at(&fault, OT_IO_CALL_ANY, at, OT_ERR_IO);
        enum ot_err err = eng_snapshots_load(&fault.io, bench->dir, 0, 30, bench->producers, 0, &from);
        assert_int_equal(fault.open_fds, 0);
        if (!fault.fired) break;
        assert_true(err == OT_ERR_IO || (err == OT_OK && from == 20));
        lists(bench, "10 20 ");
    }
    assert_true(at > 3);
    for (at = 1;; at++) {
        struct ot_blob blob = { (const uint8_t *)"new", 3, false };
        ot_io_fault_init(&fault, ot_io_real());
        ot_io_fault_at(&fault, OT_IO_CALL_ANY, at, OT_ERR_NO_SPACE);
        enum ot_err err = eng_snapshots_write(&fault.io, bench->dir, 30, &blob, true);
        assert_int_equal(fault.open_fds, 0);
        if (!fault.fired) break;
        assert_int_equal(err, OT_ERR_NO_SPACE);
    }
    lists(bench, "10 20 30 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        cmocka_unit_test(snapshots_equal_the_vectors), T(an_empty_snapshot_is_kafkas_to_the_byte), cmocka_unit_test(names_have_twenty_digits),
        T(the_newest_sound_one_in_range_is_loaded), T(deletion_keeps_the_one_at_the_offset), T(retention_keeps_those_of_segments_and_the_one_at_the_end),
        T(a_missing_folder_is_an_error), T(a_failing_disk_deletes_no_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
