#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/dump.h"
#include "segment_files.h"
#include "temp_dir.h"

struct bench { char dir[200]; char text[1 << 16]; size_t text_bytes; struct eng_dump_summary summary; };

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    temp_dir_make(bench->dir, sizeof bench->dir);
    FILE *nowhere = fopen("/dev/null", "w");
    assert_non_null(nowhere);
    assert_int_equal(segment_files_write(bench->dir, nowhere), 0);
    (void)fclose(nowhere);
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    temp_dir_remove(bench->dir);
    free(bench);
    return 0;
}

static void put(void *arg, const char *text, size_t bytes)
{
    struct bench *bench = arg;
    assert_true(bench->text_bytes + bytes < sizeof bench->text);
    memcpy(bench->text + bench->text_bytes, text, bytes);
    bench->text_bytes += bytes;
}

static void row_add(void *arg, const struct eng_dump_row *row)
{
    struct bench *bench = arg;
    eng_dump_text(row, put, bench);
    put(bench, "\n", 1);
    bench->text[bench->text_bytes] = '\0';
}

static struct eng_dump_options options_of(struct bench *bench)
{
    struct eng_dump_options options = eng_dump_options_default();
    options.row = row_add;
    options.arg = bench;
    bench->text_bytes = 0;
    bench->text[0] = '\0';
    bench->summary = (struct eng_dump_summary){ 0 };
    return options;
}

static void path_of(struct bench *bench, const char *leaf, char *out, size_t bytes)
{
    (void)snprintf(out, bytes, "%s/%s", bench->dir, leaf);
}

static enum ot_err dump(struct bench *bench, const char *leaf, bool records, int64_t from, int64_t to)
{
    char path[300];
    struct eng_dump_options options = options_of(bench);
    options.records = records;
    options.from_offset = from;
    options.to_offset = to;
    path_of(bench, leaf, path, sizeof path);
    return eng_dump_file(ot_io_real(), path, &options, &bench->summary);
}

static uint64_t verify(struct bench *bench)
{
    struct eng_dump_options options = options_of(bench);
    options.faults_only = true;
    assert_int_equal(eng_dump_verify(ot_io_real(), bench->dir, &options, &bench->summary), OT_OK);
    return bench->summary.faults;
}

static void says(struct bench *bench, const char *text)
{
    if (strstr(bench->text, text) == NULL) fail_msg("'%s' is not in:\n%s", text, bench->text);
}

/* Reads a file, lets change() at it, writes it back. */
static void edit(struct bench *bench, const char *leaf, size_t pos, const void *bytes, size_t count, size_t new_size)
{
    char path[300], *data;
    size_t size;
    path_of(bench, leaf, path, sizeof path);
    assert_int_equal(ot_io_read_file(ot_io_real(), path, 1 << 20, &data, &size), OT_OK);
    char *room = calloc(1, OT_MAX(size, new_size) + 1);
    assert_non_null(room);
    memcpy(room, data, size);
    if (count > 0) memcpy(room + pos, bytes, count);
    assert_int_equal(ot_io_replace_file(ot_io_real(), path, room, new_size == 0 ? size : new_size, false), OT_OK);
    free(room);
    free(data);
}

#define LOG "00000000000000000000.log"
#define INDEX "00000000000000000000.index"
#define TIMES "00000000000000000000.timeindex"
#define TXN "00000000000000000000.txnindex"
#define SNAPSHOT "00000000000000000075.snapshot"

static void sound_files_have_no_fault(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(verify(bench), 0);
    assert_int_equal(bench->summary.files, 6);
    assert_int_equal(bench->summary.records, 75);
    assert_int_equal(bench->summary.batches, 48);
    assert_string_equal(bench->text, "");
}

static void a_log_is_shown_as_kafkas_tool_shows_it(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(dump(bench, LOG, true, 24, 26), OT_OK);
    const char *first = strchr(bench->text, '\n') + 1;
    assert_memory_equal(first, "baseOffset: 24 lastOffset: 24 count: 1 baseSequence: -1 lastSequence: -1 producerId: 2 producerEpoch: 1 partitionLeaderEpoch: 3 "
        "isTransactional: true isControl: true deleteHorizonMs: none position: 1461", 190);
    says(bench, "\n| offset: 24 CreateTime: 1750000000000 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 5\n");
    says(bench, "\n| offset: 25 CreateTime: 1750000000025 keySize: 3 valueSize: 17 sequence: 2 headerKeys: [] key: key payload: value value value\n");
    assert_null(strstr(bench->text, "| offset: 23"));
    assert_null(strstr(bench->text, "| offset: 26"));
    assert_int_equal(bench->summary.faults, 0);
}

static void unknown_names_are_refused(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(dump(bench, "00000000000000000000.txt", false, 0, 9), OT_ERR_MALFORMED);
    assert_int_equal(dump(bench, "0.log", false, 0, 9), OT_ERR_MALFORMED);
    assert_int_equal(dump(bench, "log", false, 0, 9), OT_ERR_MALFORMED);
    assert_int_equal(dump(bench, "00000000000000000001.log", false, 0, 9), OT_ERR_NOT_FOUND);
    struct eng_dump_options options = options_of(bench);
    assert_int_equal(eng_dump_verify(ot_io_real(), "/", &options, &bench->summary), OT_ERR_MALFORMED);
}

static void a_wrong_checksum_is_named_and_the_rest_is_read(void **state)
{
    struct bench *bench = *state;
    edit(bench, LOG, 193 + 70, "X", 1, 0);                     /* in the records of the batch at position 193 */
    assert_int_equal(dump(bench, LOG, true, 0, INT64_MAX), OT_OK);
    says(bench, "position: 193 fault: checksum of the batch at offset 3 is wrong");
    says(bench, "| offset: 6 ");
    says(bench, "| offset: 73 ");
    assert_int_equal(bench->summary.faults, 1);
    assert_int_equal(bench->summary.batches, 48);
    assert_true(verify(bench) >= 1);
}

static void a_wrong_length_does_not_hide_what_follows(void **state)
{
    struct bench *bench = *state;
    edit(bench, LOG, 193 + 8, "\x7f\0\0\0", 4, 0);
    assert_int_equal(dump(bench, LOG, false, 0, INT64_MAX), OT_OK);
    says(bench, "position: 193 fault: 115 bytes are no whole batch, a sound one follows");
    assert_int_equal(bench->summary.batches, 47);
    edit(bench, LOG, 193 + 8, "\0\0\0\x60", 4, 0);             /* too short: the next header is looked for inside */
    assert_int_equal(dump(bench, LOG, false, 0, INT64_MAX), OT_OK);
    assert_int_equal(bench->summary.faults, 2);
    says(bench, "baseOffset: 6 ");
}

static void tails_are_named_by_what_they_are(void **state)
{
    struct bench *bench = *state;
    edit(bench, LOG, 0, "", 0, 4548 + 5000);
    assert_int_equal(verify(bench), 1);
    says(bench, "position: 4548 fault: 5000 bytes are no whole batch (all zero: a preallocated tail)");
    edit(bench, LOG, 0, "", 0, 4548 - 3);
    assert_true(verify(bench) >= 2);                           /* the cut batch; and the snapshot is ahead of the log */
    says(bench, "fault: 75 bytes are no whole batch\n");
    says(bench, "00000000000000000075.snapshot is above the end of the log, offset 74");
    edit(bench, INDEX, 0, "", 0, 16 * 8 + 800);
    (void)verify(bench);
    says(bench, "entry of zeros: the file was not cut to its true size");
}

static void index_entries_must_name_their_batch(void **state)
{
    struct bench *bench = *state;
    edit(bench, INDEX, 7, "\xc2", 1, 0);                       /* first entry: offset 5 at 193 */
    assert_int_equal(verify(bench), 1);
    says(bench, ".index position: 0 fault: offset 5 at position 194: the log has the batch up to offset 5 at position 193");
    edit(bench, INDEX, 7, "\xc1", 1, 0);
    edit(bench, INDEX, 3, "\x04", 1, 0);
    assert_int_equal(verify(bench), 1);
    edit(bench, INDEX, 3, "\x05\0\0\0\xc1\0\0\0\x04", 9, 0);   /* the second one steps back */
    assert_true(verify(bench) >= 2);
    says(bench, "offset 4 at position 508 does not follow 5 at 193");
    edit(bench, TIMES, 7, "\x06", 1, 0);
    (void)verify(bench);
    says(bench, ".timeindex position: 0 fault: timestamp ");
}

static void index_entries_behind_the_log_are_named(void **state)
{
    struct bench *bench = *state;
    uint8_t entry[12];
    ot_store_u32(entry, 1000);
    ot_store_u32(entry + 4, 100000);
    edit(bench, INDEX, 16 * 8, entry, 8, 17 * 8);
    ot_store_u64(entry, 1760000000000);
    ot_store_u32(entry + 8, 1000);
    edit(bench, TIMES, 9 * 12, entry, 12, 10 * 12);
    assert_int_equal(verify(bench), 2);
    says(bench, ".index position: 128 fault: 1 entries are about nothing in the log");
    says(bench, ".timeindex position: 108 fault: 1 entries are about nothing in the log");
}

static void the_transaction_index_must_be_what_the_log_aborts(void **state)
{
    struct bench *bench = *state;
    edit(bench, TXN, 34 + 9, "\x07", 1, 0);
    assert_int_equal(verify(bench), 1);
    says(bench, "producer 2 aborted offsets 28 to 33 (stable 30): here stands producer 7, 28 to 33 (30)");
    edit(bench, TXN, 34 + 9, "\x02", 1, 12 * 34);
    assert_int_equal(verify(bench), 1);
    says(bench, "producer 3 aborted offsets 66 to 72 (stable 73): here stands producer -1");
    edit(bench, TXN, 0, "", 0, 12 * 34 - 1);
    (void)verify(bench);
    says(bench, "fault: 33 bytes behind the last whole entry");
    edit(bench, TXN, 1, "\x05", 1, 0);
    (void)verify(bench);
    says(bench, "fault: version 5 is not known");
}

static void a_snapshot_must_agree_with_the_log(void **state)
{
    struct bench *bench = *state;
    char path[300], *data;
    size_t size;
    edit(bench, SNAPSHOT, 10 + 13, "\x63", 1, 0);              /* last sequence of the first producer */
    assert_int_equal(verify(bench), 1);
    says(bench, "position: 2 fault: checksum ");
    path_of(bench, SNAPSHOT, path, sizeof path);
    assert_int_equal(ot_io_read_file(ot_io_real(), path, 1 << 20, &data, &size), OT_OK);
    uint8_t crc[4];
    ot_store_u32(crc, ot_crc32c(0, data + 6, size - 6));
    free(data);
    edit(bench, SNAPSHOT, 2, crc, 4, 0);
    assert_int_equal(verify(bench), 1);
    says(bench, "producer 1 is at epoch 1, sequence 99 here; the log says 1, 18");
}

static void the_epoch_checkpoint_must_agree_with_the_batches(void **state)
{
    struct bench *bench = *state;
    edit(bench, "leader-epoch-checkpoint", 10, "0", 1, 0);     /* epoch 3 from 20 instead of 21: no batch begins at 20 */
    assert_int_equal(verify(bench), 0);
    edit(bench, "leader-epoch-checkpoint", 10, "9", 1, 0);     /* from 29 */
    assert_int_equal(verify(bench), 1);
    says(bench, "leader-epoch-checkpoint has epoch 0 for offset 21, the batch there has 3");
    edit(bench, "leader-epoch-checkpoint", 2, "9", 1, 0);
    assert_int_equal(verify(bench), 1);
    says(bench, "fault: line 5 is not as it must be");
}

static void checkpoints_and_properties_are_shown(void **state)
{
    struct bench *bench = *state;
    char path[300];
    static const char *const rows = "0\n2\norders 0 17\npay.ments 11 9223372036854775807\n", *const bad = "0\n2\norders 0 17\n", *const worse = "0\n1\norders x 17\n";
    path_of(bench, "recovery-point-offset-checkpoint", path, sizeof path);
    assert_int_equal(ot_io_replace_file(ot_io_real(), path, rows, strlen(rows), false), OT_OK);
    assert_int_equal(dump(bench, "recovery-point-offset-checkpoint", false, 0, 0), OT_OK);
    says(bench, "\ntopic: orders partition: 0 offset: 17\ntopic: pay.ments partition: 11 offset: 9223372036854775807\n");
    assert_int_equal(bench->summary.faults, 0);
    assert_int_equal(ot_io_replace_file(ot_io_real(), path, bad, strlen(bad), false), OT_OK);
    assert_int_equal(dump(bench, "recovery-point-offset-checkpoint", false, 0, 0), OT_OK);
    says(bench, "fault: 1 rows where 2 are announced");
    assert_int_equal(ot_io_replace_file(ot_io_real(), path, worse, strlen(worse), false), OT_OK);
    assert_int_equal(dump(bench, "recovery-point-offset-checkpoint", false, 0, 0), OT_OK);
    says(bench, "fault: line 3 is not as it must be");
    path_of(bench, "partition.metadata", path, sizeof path);
    assert_int_equal(ot_io_replace_file(ot_io_real(), path, "version: 0\ntopic_id: x=\n", 24, false), OT_OK);
    assert_int_equal(dump(bench, "partition.metadata", false, 0, 0), OT_OK);
    says(bench, "\nkey: version value: 0\nkey: topic_id value: x=\n");
}

static void text_never_commands_the_terminal(void **state)
{
    struct bench *bench = *state;
    struct eng_dump_row row = { .kind = ENG_DUMP_RECORD, .field_count = 3, .fields = {
        { "a", ENG_DUMP_BYTES, 0, { (const uint8_t *)"\x1b[2J\\\xc3\xa4\x7f", 8, false } },
        { "b", ENG_DUMP_BYTES, 0, { (const uint8_t *)"\xff\xc3\xa4", 3, false } },
        { "c", ENG_DUMP_BYTES, 0, { (const uint8_t *)"\xc2\x9b" "1", 3, false } } } };
    bench->text_bytes = 0;
    row_add(bench, &row);
    assert_string_equal(bench->text, "| a: \\x1b[2J\\\\\xc3\xa4\\x7f b: \\xff\\xc3\\xa4 c: \\xc2\\x9b1\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(sound_files_have_no_fault), T(a_log_is_shown_as_kafkas_tool_shows_it), T(unknown_names_are_refused), T(a_wrong_checksum_is_named_and_the_rest_is_read),
        T(a_wrong_length_does_not_hide_what_follows), T(tails_are_named_by_what_they_are), T(index_entries_must_name_their_batch),
        T(index_entries_behind_the_log_are_named), T(the_transaction_index_must_be_what_the_log_aborts), T(a_snapshot_must_agree_with_the_log),
        T(the_epoch_checkpoint_must_agree_with_the_batches), T(checkpoints_and_properties_are_shown), T(text_never_commands_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
