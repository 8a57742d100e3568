/* A voter's files: what comes back from every prefix, every damage, and a failure at every call. */
#include "testing.h"

#include "base/io_fault.h"
#include "base/log.h"
#include "base/util.h"
#include "broker/journal.h"
#include "memory_io.h"

#define DIR_PATH "/meta"
enum { STATES = 12 };

struct bench {
    struct memory_io *disk;
    struct ot_io *io;
    struct coord_pages *pages;
    struct broker_journal journal;
    struct coord_value value;                  /* as accepted last */
    uint64_t hashes[STATES + 1], ends[STATES + 1];         /* state hash and journal end after each change; [0] after FORMAT */
    int states;
    char text[400];
};

static const struct coord_format format = { .cluster_id = { "a-cluster", 9, false }, .node_id = 3, .dir_id = { { 5 } }, .founding_hash = 77 };

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    bench->disk = malloc(sizeof *bench->disk);
    memory_io_init(bench->disk);
    bench->io = &bench->disk->io;
    bench->pages = coord_pages_new(16 << 20);
    coord_value_init(&bench->value, bench->pages);
    bench->journal.fd = bench->journal.term_fd = -1;
    ot_log_set_level(NULL, OT_LOG_ERROR);
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    broker_journal_close(&bench->journal);
    coord_value_drop(&bench->value);
    coord_pages_free(bench->pages);
    memory_io_free(bench->disk);
    free(bench->disk);
    free(bench);
    return 0;
}

static enum ot_err open_image(struct bench *bench, struct coord_disk_image *image)
{
    coord_image_init(image, bench->pages);
    enum ot_err err = broker_journal_open(&bench->journal, bench->io, DIR_PATH, image, bench->text, sizeof bench->text);
    if (err != OT_OK) {
        assert_non_null(strstr(bench->text, "meta"));
    }
    return err;
}

static enum ot_err write_term(struct bench *bench, int32_t term)
{
    return broker_journal_write(&bench->journal, &(struct coord_record){ .kind = COORD_RECORD_TERM, .u.term = { term, 3 } }, true);
}

/* One more state: a cluster row first (the check of rows wants one), then rows that grow; every third is larger than a block. */
static enum ot_err accept(struct bench *bench, bool commit)
{
    static uint8_t room[65536];
    struct coord_delta delta = { .data = room, .cap_bytes = sizeof room };
    struct coord_value next = coord_value_share(&bench->value);
    struct coord_edit edit = { &next, &delta };
    struct ot_coord_cluster_row cluster;
    ot_coord_cluster_row_defaults(&cluster);
    cluster.cluster_id = ot_str_of("a-cluster");
    cluster.next_producer_id = bench->states;
    assert_int_equal(coord_cluster_put(&edit, &cluster), OT_OK);
    char name[16], text[1200];
    memset(text, 'x', sizeof text);
    for (int i = 0; i < (bench->states % 3 == 2 ? 12 : 1); i++) {
        snprintf(name, sizeof name, "k%d.%d", bench->states, i);
        struct coord_scope scope = { .kind = COORD_SCOPE_CLUSTER };
        assert_int_equal(coord_config_put(&edit, &scope, ot_str_of(name), (struct ot_str){ text, sizeof text, false }), OT_OK);
    }
    next.stamp = (struct coord_stamp){ 1, bench->value.stamp.version + 1 };
    struct coord_record record = { .kind = COORD_RECORD_ACCEPT, .u.accept = { .stamp = next.stamp, .base = bench->value.stamp, .state_hash = next.state_hash,
        .voters = { 3 }, .voter_count = 1, .delta = coord_blob(delta.data, delta.bytes) } };
    enum ot_err err = broker_journal_write(&bench->journal, &record, true);
    if (err == OT_OK && commit) {
        err = broker_journal_write(&bench->journal, &(struct coord_record){ .kind = COORD_RECORD_COMMIT, .u.commit = next.stamp }, false);
    }
    if (err != OT_OK) {
        coord_value_drop(&next);
        return err;
    }
    coord_value_drop(&bench->value);
    bench->value = next;
    bench->states++;
    if (bench->states <= STATES) {
        bench->hashes[bench->states] = next.state_hash;
        bench->ends[bench->states] = bench->journal.end_pos;
    }
    return OT_OK;
}

static void found(struct bench *bench)
{
    struct coord_disk_image image;
    assert_int_equal(open_image(bench, &image), OT_OK);
    assert_true(image.blank);
    assert_int_equal(broker_journal_write(&bench->journal, &(struct coord_record){ .kind = COORD_RECORD_FORMAT, .u.format = format }, true), OT_OK);
    assert_int_equal(write_term(bench, 1), OT_OK);
    bench->ends[0] = bench->journal.end_pos;
    coord_image_free(&image);
}

static void fill(struct bench *bench, int states)
{
    found(bench);
    for (int i = 0; i < states; i++) {
        assert_int_equal(accept(bench, i % 4 == 3), OT_OK);
    }
}

static struct memory_file *file_of(struct bench *bench, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, DIR_PATH "/%s", name);
    return memory_find(bench->disk, path);
}

/* Hash of what the image says was accepted last: that is what a sole voter goes on with. */
static uint64_t final_hash(struct coord_disk_image *image)
{
    return image->has_accepted ? image->accepted.state_hash : image->committed.state_hash;
}

static void reopen(struct bench *bench, struct coord_disk_image *image)
{
    broker_journal_close(&bench->journal);
    if (open_image(bench, image) != OT_OK) {
        fail_msg("%s", bench->text);
    }
}

/* ---- */

static void what_was_written_comes_back(void **state)
{
    struct bench *bench = *state;
    struct coord_disk_image image;
    fill(bench, STATES);
    reopen(bench, &image);
    assert_false(image.blank);
    assert_false(image.unsure);
    assert_int_equal(image.format.node_id, 3);
    assert_true(ot_str_equal(image.format.cluster_id, format.cluster_id));
    assert_int_equal(image.term.term, 1);
    assert_int_equal(image.term.voted_for, 3);
    assert_true(final_hash(&image) == bench->hashes[STATES]);
    assert_int_equal(bench->journal.end_pos, bench->ends[STATES]);
    coord_image_free(&image);
    assert_int_equal(accept(bench, false), OT_OK);             /* and it goes on */
    reopen(bench, &image);
    assert_true(final_hash(&image) == bench->value.state_hash);
    coord_image_free(&image);
}

static void a_journal_cut_anywhere_gives_the_last_whole_state(void **state)
{
    struct bench *bench = *state;
    fill(bench, STATES);
    struct memory_file *file = file_of(bench, "meta.journal");
    size_t bytes = file->bytes;
    uint8_t *whole = memcpy(malloc(bytes), file->data, bytes);
    for (size_t cut = bench->ends[0]; cut <= bytes; cut += 1024) {
        struct coord_disk_image image;
        int expected = 0;
        broker_journal_close(&bench->journal);
        file->bytes = cut;
        for (int i = 1; i <= STATES; i++) {
            expected = bench->ends[i] <= cut || (i % 4 == 0 && bench->ends[i] - BROKER_JOURNAL_BLOCK <= cut) ? i : expected;   /* a COMMIT may lack */
        }
        assert_int_equal(open_image(bench, &image), OT_OK);
        assert_true(expected == 0 ? image.committed.row_count == 0 && !image.has_accepted : final_hash(&image) == bench->hashes[expected]);
        assert_int_equal(image.unsure, bench->journal.end_pos != cut);
        assert_int_equal(file->bytes, bench->journal.end_pos);     /* the torn end is gone */
        coord_image_free(&image);
        memcpy(file->data, whole, bytes);
        file->bytes = bytes;
    }
    free(whole);
}

static void blocks_of_the_last_record_may_be_missing_in_any_combination(void **state)
{
    struct bench *bench = *state;
    fill(bench, 3);                            /* the third is several blocks long */
    struct memory_file *file = file_of(bench, "meta.journal");
    size_t bytes = file->bytes, from = bench->ends[2];
    uint32_t blocks = (uint32_t)((bytes - from) / BROKER_JOURNAL_BLOCK);
    assert_in_range(blocks, 3, 8);
    uint8_t *whole = memcpy(malloc(bytes), file->data, bytes);
    for (uint32_t kept = 0; kept < (1u << blocks); kept++) {
        struct coord_disk_image image;
        broker_journal_close(&bench->journal);
        for (uint32_t i = 0; i < blocks; i++) {
            if ((kept >> i & 1) == 0) {
                memset(file->data + from + i * BROKER_JOURNAL_BLOCK, 0, BROKER_JOURNAL_BLOCK);
            }
        }
        bool is_whole = kept == (1u << blocks) - 1;
        assert_int_equal(open_image(bench, &image), OT_OK);
        assert_true(final_hash(&image) == bench->hashes[is_whole ? 3 : 2]);
        assert_int_equal(image.unsure, !is_whole);
        coord_image_free(&image);
        assert_true(memory_resize(file, bytes));
        memcpy(file->data, whole, bytes);
    }
    free(whole);
}

static void rot_in_the_last_record_leaves_the_voter_unsure(void **state)
{
    struct bench *bench = *state;
    struct coord_disk_image image;
    fill(bench, 2);
    broker_journal_close(&bench->journal);
    file_of(bench, "meta.journal")->data[bench->ends[1] + 50] ^= 4;
    assert_int_equal(open_image(bench, &image), OT_OK);
    assert_true(image.unsure);
    assert_true(final_hash(&image) == bench->hashes[1]);
    coord_image_free(&image);
}

static void rot_before_good_records_is_never_taken_for_a_torn_end(void **state)
{
    struct bench *bench = *state;
    fill(bench, 6);
    struct memory_file *file = file_of(bench, "meta.journal");
    for (int i = 0; i < 6; i++) {
        for (size_t at = 0; at < 60; at += 7) {
            struct coord_disk_image image;
            size_t pos = (i == 0 ? 0 : bench->ends[i - 1]) + at;
            broker_journal_close(&bench->journal);
            file->data[pos] ^= 0x10;
            assert_int_equal(open_image(bench, &image), OT_ERR_CORRUPT);
            assert_non_null(strstr(bench->text, "meta.journal"));
            coord_image_free(&image);
            file->data[pos] ^= 0x10;
        }
    }
}

static void a_whole_record_in_the_wrong_place_is_refused(void **state)
{
    struct bench *bench = *state;
    struct coord_disk_image image;
    fill(bench, 5);
    broker_journal_close(&bench->journal);
    struct memory_file *file = file_of(bench, "meta.journal");
    memcpy(file->data + bench->ends[3], file->data + bench->ends[0], BROKER_JOURNAL_BLOCK);     /* an old block where the last record was */
    assert_int_equal(open_image(bench, &image), OT_ERR_CORRUPT);
    coord_image_free(&image);
}

static void one_good_copy_of_the_term_is_enough_and_the_newer_counts(void **state)
{
    struct bench *bench = *state;
    struct coord_disk_image image;
    fill(bench, 1);
    assert_int_equal(write_term(bench, 2), OT_OK);
    struct memory_file *file = file_of(bench, "meta.term");
    uint8_t old[BROKER_JOURNAL_BLOCK];
    memcpy(old, file->data + BROKER_JOURNAL_BLOCK, sizeof old);
    assert_int_equal(write_term(bench, 5), OT_OK);
    memcpy(file->data + BROKER_JOURNAL_BLOCK, old, sizeof old);        /* the second copy was not written yet */
    reopen(bench, &image);
    assert_int_equal(image.term.term, 5);
    coord_image_free(&image);
    memset(file->data, 0xff, 2 * BROKER_JOURNAL_BLOCK);
    broker_journal_close(&bench->journal);
    assert_int_equal(open_image(bench, &image), OT_ERR_CORRUPT);       /* a forgotten promise */
    assert_non_null(strstr(bench->text, "meta.term"));
    coord_image_free(&image);
}

/* It died between the two copies, came back and acted on the one, and lost that one in the middle of the next promise. */
static void a_promise_that_was_read_once_is_not_forgotten(void **state)
{
    struct bench *bench = *state;
    struct coord_disk_image image;
    uint8_t old[BROKER_JOURNAL_BLOCK];
    fill(bench, 1);
    for (int32_t copy = 0; copy < 2; copy++) {
        uint8_t *data = file_of(bench, "meta.term")->data;
        memcpy(old, data, sizeof old);
        assert_int_equal(write_term(bench, 7 + copy), OT_OK);
        data = file_of(bench, "meta.term")->data;
        memcpy(data + (size_t)(1 - copy) * BROKER_JOURNAL_BLOCK, old, sizeof old);
        reopen(bench, &image);
        assert_int_equal(image.term.term, 7 + copy);
        coord_image_free(&image);
        memset(file_of(bench, "meta.term")->data + (size_t)copy * BROKER_JOURNAL_BLOCK, 0xff, 100);
        reopen(bench, &image);
        assert_int_equal(image.term.term, 7 + copy);
        coord_image_free(&image);
    }
}

static void a_lost_journal_beside_a_term_is_never_a_blank_voter(void **state)
{
    struct bench *bench = *state;
    struct coord_disk_image image;
    fill(bench, 2);
    broker_journal_close(&bench->journal);
    assert_int_equal(bench->io->ops->unlink(bench->io, DIR_PATH "/meta.journal"), OT_OK);
    assert_int_equal(open_image(bench, &image), OT_ERR_CORRUPT);
    coord_image_free(&image);
}

static void a_founding_cut_short_is_begun_again(void **state)
{
    struct bench *bench = *state;
    struct coord_disk_image image;
    found(bench);
    broker_journal_close(&bench->journal);
    file_of(bench, "meta.term")->bytes = 100;  /* the first TERM was torn */
    assert_int_equal(open_image(bench, &image), OT_OK);
    assert_false(image.blank);
    assert_int_equal(image.term.term, 0);
    coord_image_free(&image);
    broker_journal_close(&bench->journal);
    assert_int_equal(bench->io->ops->unlink(bench->io, DIR_PATH "/meta.term"), OT_OK);
    file_of(bench, "meta.journal")->bytes = 1000;      /* FORMAT was torn */
    assert_int_equal(open_image(bench, &image), OT_OK);
    assert_true(image.blank);
    coord_image_free(&image);
}

static void take_snapshot(struct bench *bench, const struct broker_journal_mark *mark, struct coord_snapshot *snapshot, char *name)
{
    assert_int_equal(broker_snapshot_write(bench->io, DIR_PATH, &bench->value, name, snapshot), OT_OK);
    (void)mark;
}

static void a_snapshot_takes_the_place_of_the_journal_before_it(void **state)
{
    struct bench *bench = *state;
    struct coord_disk_image image;
    struct coord_snapshot snapshot;
    char name[40];
    fill(bench, 5);
    struct broker_journal_mark mark = broker_journal_mark(&bench->journal);
    take_snapshot(bench, &mark, &snapshot, name);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(accept(bench, i == 1), OT_OK);        /* the journal goes on while the file is written */
    }
    uint64_t before = bench->journal.end_pos;
    assert_int_equal(broker_journal_switch(&bench->journal, &format, &snapshot, &mark), OT_OK);
    assert_true(bench->journal.end_pos < before);
    assert_int_equal(accept(bench, false), OT_OK);
    reopen(bench, &image);
    assert_false(image.unsure);
    assert_int_equal(image.format.node_id, 3);
    assert_true(final_hash(&image) == bench->hashes[9]);
    coord_image_free(&image);
    assert_int_equal(accept(bench, false), OT_OK);
    mark = broker_journal_mark(&bench->journal);
    take_snapshot(bench, &mark, &snapshot, name);
    assert_int_equal(broker_journal_switch(&bench->journal, &format, &snapshot, &mark), OT_OK);
    assert_null(file_of(bench, "meta.snapshot.5"));            /* the older one went */
    assert_non_null(file_of(bench, "meta.snapshot.10"));
    reopen(bench, &image);
    assert_true(image.committed.state_hash == bench->hashes[10]);
    coord_image_free(&image);
}

static void a_damaged_or_missing_snapshot_is_said_so(void **state)
{
    struct bench *bench = *state;
    struct coord_disk_image image;
    struct coord_snapshot snapshot;
    char name[40];
    fill(bench, 5);
    struct broker_journal_mark mark = broker_journal_mark(&bench->journal);
    take_snapshot(bench, &mark, &snapshot, name);
    assert_int_equal(broker_journal_switch(&bench->journal, &format, &snapshot, &mark), OT_OK);
    struct memory_file *file = file_of(bench, name);
    for (size_t at = 0; at < file->bytes; at += 97) {
        broker_journal_close(&bench->journal);
        file->data[at] ^= 1;
        assert_int_equal(open_image(bench, &image), OT_ERR_CORRUPT);
        assert_non_null(strstr(bench->text, "meta.snapshot.5"));
        coord_image_free(&image);
        file->data[at] ^= 1;
    }
    broker_journal_close(&bench->journal);
    assert_int_equal(bench->io->ops->unlink(bench->io, DIR_PATH "/meta.snapshot.5"), OT_OK);
    assert_int_equal(open_image(bench, &image), OT_ERR_CORRUPT);
    assert_non_null(strstr(bench->text, "missing"));
    coord_image_free(&image);
}

/* Everything once more, with call n failing: what was reported written is there afterwards, and nothing is in between. */
static bool run_with_failure(struct bench *bench, struct ot_io_fault *fault, uint64_t n, enum ot_err with)
{
    struct coord_snapshot snapshot;
    char name[40];
    int safe = 0;
    found(bench);
    assert_int_equal(accept(bench, true), OT_OK);
    assert_int_equal(accept(bench, false), OT_OK);
    ot_io_fault_init(fault, bench->io);
    ot_io_fault_at(fault, OT_IO_CALL_ANY, n, with);
    fault->sticky = with == OT_ERR_IO;         /* power off; a full disk has room again at the next call */
    bench->journal.io = &fault->io;
    safe = bench->states;
    struct broker_journal_mark mark = broker_journal_mark(&bench->journal);
    bool wrote = broker_snapshot_write(&fault->io, DIR_PATH, &bench->value, name, &snapshot) == OT_OK;
    safe += accept(bench, false) == OT_OK;
    if (wrote) {
        ot_ignore(broker_journal_switch(&bench->journal, &format, &snapshot, &mark), "either journal is whole");
    }
    safe += accept(bench, false) == OT_OK;
    safe += accept(bench, true) == OT_OK;
    bool fired = fault->fired;
    ot_io_fault_at(fault, OT_IO_CALL_ANY, 0, OT_OK);
    struct coord_disk_image image;
    broker_journal_close(&bench->journal);
    if (open_image(bench, &image) != OT_OK) {
        fail_msg("call %d: %s", (int)n, bench->text);
    }
    bool same = final_hash(&image) == bench->hashes[safe];
    bool next = image.has_accepted && image.accepted.stamp.version == safe + 1;        /* written, and the failure came before it was said so */
    assert_true(same || next);
    coord_image_free(&image);
    return fired;
}

static void a_failure_at_any_call_loses_nothing_that_was_reported(void **state)
{
    static const enum ot_err kinds[] = { OT_ERR_IO, OT_ERR_NO_SPACE };
    for (int kind = 0; kind < 2; kind++) {
        bool fired = true;
        for (uint64_t n = 1; fired; n++) {
            struct bench *bench = *state;
            struct ot_io_fault fault;
            fired = run_with_failure(bench, &fault, n, kinds[kind]);
            teardown(state);
            setup(state);
            assert_true(n < 500);
        }
    }
}

static void make_room(void *arg) { ot_io_fault_at(arg, OT_IO_CALL_ANY, 0, OT_OK); }

static void a_full_disk_gets_its_reserve_back_once(void **state)
{
    struct bench *bench = *state;
    struct ot_io_fault fault;
    struct coord_disk_image image;
    fill(bench, 2);
    ot_io_fault_init(&fault, bench->io);
    ot_io_fault_at(&fault, OT_IO_CALL_PWRITEV, 1, OT_ERR_NO_SPACE);
    fault.sticky = true;
    bench->journal.io = &fault.io;
    bench->journal.make_room = make_room;
    bench->journal.make_room_arg = &fault;
    assert_int_equal(accept(bench, false), OT_OK);
    ot_io_fault_at(&fault, OT_IO_CALL_PWRITEV, 1, OT_ERR_NO_SPACE);
    fault.sticky = true;
    bench->journal.make_room = NULL;
    uint64_t end = bench->journal.end_pos;
    assert_int_equal(accept(bench, false), OT_ERR_NO_SPACE);
    assert_int_equal(bench->journal.end_pos, end);
    ot_io_fault_at(&fault, OT_IO_CALL_ANY, 0, OT_OK);
    assert_int_equal(accept(bench, false), OT_OK);             /* and goes on when there is room */
    reopen(bench, &image);
    assert_false(image.unsure);
    assert_true(final_hash(&image) == bench->hashes[4]);
    coord_image_free(&image);
}

static void after_a_failed_sync_nothing_is_written_any_more(void **state)
{
    struct bench *bench = *state;
    struct ot_io_fault fault;
    fill(bench, 2);
    ot_io_fault_init(&fault, bench->io);
    ot_io_fault_at(&fault, OT_IO_CALL_FDATASYNC, 1, OT_ERR_IO);
    bench->journal.io = &fault.io;
    assert_int_equal(accept(bench, false), OT_ERR_IO);
    uint64_t writes = fault.counts[OT_IO_CALL_PWRITEV];
    assert_int_equal(accept(bench, false), OT_ERR_IO);
    assert_int_equal(write_term(bench, 9), OT_ERR_IO);
    assert_int_equal(fault.counts[OT_IO_CALL_PWRITEV], writes);
    bench->journal.io = bench->io;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_was_written_comes_back),
        TEST(a_journal_cut_anywhere_gives_the_last_whole_state),
        TEST(blocks_of_the_last_record_may_be_missing_in_any_combination),
        TEST(rot_in_the_last_record_leaves_the_voter_unsure),
        TEST(rot_before_good_records_is_never_taken_for_a_torn_end),
        TEST(a_whole_record_in_the_wrong_place_is_refused),
        TEST(one_good_copy_of_the_term_is_enough_and_the_newer_counts),
        TEST(a_promise_that_was_read_once_is_not_forgotten),
        TEST(a_lost_journal_beside_a_term_is_never_a_blank_voter),
        TEST(a_founding_cut_short_is_begun_again),
        TEST(a_snapshot_takes_the_place_of_the_journal_before_it),
        TEST(a_damaged_or_missing_snapshot_is_said_so),
        TEST(a_failure_at_any_call_loses_nothing_that_was_reported),
        TEST(a_full_disk_gets_its_reserve_back_once),
        TEST(after_a_failed_sync_nothing_is_written_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
