/* Log directories: locks, identity, checkpoints, the clean marker, placement, a failing directory. */
#include "testing.h"
#include "log_fixture.h"

struct st { char dirs[3][300]; const char *paths[3]; struct fx fx; };

static int setup(void **state)
{
    struct st *st = malloc(sizeof *st);
    fx_init(&st->fx);
    for (int i = 0; i < 3; i++) {
        snprintf(st->dirs[i], sizeof st->dirs[i], "%.200s/a/b/d%d", st->fx.root, i);
        st->paths[i] = st->dirs[i];
    }
    *state = st;
    return 0;
}

static int teardown(void **state)
{
    struct st *st = *state;
    eng_store_close(st->fx.store);
    temp_dir_remove(st->fx.root);
    free(st);
    return 0;
}

static enum ot_err open_dirs(struct st *st, uint32_t count, struct eng_store **out, uint32_t *bad)
{
    struct eng_store_config config = { .dirs = st->paths, .dir_count = count, .files_max = 100 };
    return eng_store_open(&st->fx.fault.io, &config, out, bad);
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static bool has_file(const char *dir, const char *name)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

static void missing_directories_are_made_and_synced_and_locked(void **state)
{
    struct st *st = *state;
    struct eng_store *second = NULL;
    uint32_t bad = 0;
    assert_int_equal(open_dirs(st, 2, &st->fx.store, &bad), OT_OK);
    assert_true(has_file(st->dirs[1], ".lock"));
    assert_true(st->fx.fault.counts[OT_IO_CALL_SYNC_DIR] >= 4);            /* a, b, d0, d1: each name in its parent */
    assert_int_equal(open_dirs(st, 2, &second, &bad), OT_ERR_LOCKED);
    assert_int_equal(bad, 0);
    assert_null(second);
}

/* As a start leaves them that was killed between making them and syncing that they are there. */
static void directories_that_are_there_are_synced_by_the_first_who_locks_them(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0;
    char path[300];
    static const char *const parts[] = { "/a", "/a/b", "/a/b/d0" };
    for (size_t i = 0; i < OT_ARRAY_COUNT(parts); i++) {
        snprintf(path, sizeof path, "%.200s%s", st->fx.root, parts[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    assert_int_equal(open_dirs(st, 1, &st->fx.store, &bad), OT_OK);
    assert_true(st->fx.fault.counts[OT_IO_CALL_SYNC_DIR] >= 3);            /* root, a, b */
    eng_store_close(st->fx.store);
    st->fx.store = NULL;
    uint64_t before = st->fx.fault.counts[OT_IO_CALL_SYNC_DIR];
    assert_int_equal(open_dirs(st, 1, &st->fx.store, &bad), OT_OK);
    assert_int_equal(st->fx.fault.counts[OT_IO_CALL_SYNC_DIR], before);    /* once */
}

static void identity_is_written_once_and_a_damaged_one_is_told(void **state)
{
    struct st *st = *state;
    struct eng_store_meta meta, read;
    uint32_t bad = 0;
    assert_int_equal(open_dirs(st, 1, &st->fx.store, &bad), OT_OK);
    assert_int_equal(eng_store_meta(st->fx.store, 0, &read), OT_OK);
    assert_false(read.present);
    meta = (struct eng_store_meta){ .node_id = 7, .cluster_id = "kPhK1pE0Q1e3jVyA9qzYQg" };
    ot_uuid_random(&meta.directory_id);
    assert_int_equal(eng_store_format(st->fx.store, 0, &meta), OT_OK);
    assert_int_equal(eng_store_meta(st->fx.store, 0, &read), OT_OK);
    assert_true(read.present);
    assert_int_equal(read.node_id, 7);
    assert_string_equal(read.cluster_id, meta.cluster_id);
    assert_true(ot_uuid_equal(&read.directory_id, &meta.directory_id));
    static const char *const damaged[] = { "", "version=2\nnode.id=7\ncluster.id=x\n", "version=1\nnode.id=seven\ncluster.id=x\n", "version=1\nnode.id=7\n",
        "version=1\nnode.id=7\ncluster.id=x\ndirectory.id=short\n" };
    ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, open("/dev/null", O_WRONLY));
    for (size_t i = 0; i < OT_ARRAY_COUNT(damaged); i++) {
        put_file(st->dirs[0], "meta.properties", damaged[i]);
        assert_int_equal(eng_store_meta(st->fx.store, 0, &read), OT_ERR_CORRUPT);
        assert_false(read.present);
    }
    put_file(st->dirs[0], "meta.properties", "#\n#Tue Nov 25 10:00:00 UTC 2025\ncluster.id=abc\nversion=1\ndirectory.id=AAAAAAAAQACAAAAAAAAAAQ\nnode.id=1\n");    /* as Kafka writes it */
    assert_int_equal(eng_store_meta(st->fx.store, 0, &read), OT_OK);
    assert_int_equal(read.node_id, 1);
}

struct rows { uint32_t count; char topics[8][64]; int32_t partitions[8]; int64_t offsets[8]; };
static void take(void *arg, const struct eng_checkpoint_row *row)
{
    struct rows *rows = arg;
    snprintf(rows->topics[rows->count], 64, "%s", row->topic);
    rows->partitions[rows->count] = row->partition;
    rows->offsets[rows->count++] = row->offset;
}

static void checkpoints_come_back_as_they_were_written(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0;
    struct rows rows = { 0 };
    char path[500], text[200] = "";
    assert_int_equal(open_dirs(st, 1, &st->fx.store, &bad), OT_OK);
    for (int kind = ENG_CHECKPOINT_RECOVERY; kind <= ENG_CHECKPOINT_HIGH_WATERMARK; kind++) {
        assert_int_equal(eng_store_checkpoint_load(st->fx.store, 0, (enum eng_checkpoint)kind, take, &rows), OT_OK);
        assert_int_equal(rows.count, 0);
    }
    const struct eng_checkpoint_row out[] = { { "a-topic.x", 0, 5 }, { "b", 12, INT64_MAX } };
    assert_int_equal(eng_store_checkpoint_write(st->fx.store, 0, ENG_CHECKPOINT_HIGH_WATERMARK, out, 2, false), OT_OK);
    assert_int_equal(eng_store_checkpoint_load(st->fx.store, 0, ENG_CHECKPOINT_HIGH_WATERMARK, take, &rows), OT_OK);
    assert_int_equal(rows.count, 2);
    assert_string_equal(rows.topics[0], "a-topic.x");
    assert_int_equal(rows.partitions[1], 12);
    assert_int_equal(rows.offsets[1], INT64_MAX);
    snprintf(path, sizeof path, "%s/replication-offset-checkpoint", st->dirs[0]);
    FILE *file = fopen(path, "r");
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_string_equal(text, "0\n2\na-topic.x 0 5\nb 12 9223372036854775807\n");
}

static void a_damaged_checkpoint_gives_no_row_at_all(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0;
    static const char *const damaged[] = { "", "1\n0\n", "0\n2\na 0 5\n", "0\n1\na 0 5\nb 0 6\n", "0\n1\na 0\n", "0\n1\n 0 5\n", "0\n1\na 0 5x\n", "0\n1\na 99999999999 5\n",
        "0\n1\na 0 -5\n", "0\nx\n", "0\n1\na 0 99999999999999999999\n" };
    assert_int_equal(open_dirs(st, 1, &st->fx.store, &bad), OT_OK);
    for (size_t i = 0; i < OT_ARRAY_COUNT(damaged); i++) {
        struct rows rows = { 0 };
        put_file(st->dirs[0], "recovery-point-offset-checkpoint", damaged[i]);
        assert_int_equal(eng_store_checkpoint_load(st->fx.store, 0, ENG_CHECKPOINT_RECOVERY, take, &rows), OT_ERR_CORRUPT);
        assert_int_equal(rows.count, 0);
    }
}

static void a_failed_write_leaves_the_old_checkpoint(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0;
    struct eng_checkpoint_row row = { "a", 0, 5 };
    assert_int_equal(open_dirs(st, 1, &st->fx.store, &bad), OT_OK);
    assert_int_equal(eng_store_checkpoint_write(st->fx.store, 0, ENG_CHECKPOINT_START, &row, 1, true), OT_OK);
    row.offset = 9;
    for (uint64_t n = 1; n < 50; n++) {
        struct rows rows = { 0 };
        ot_io_fault_at(&st->fx.fault, OT_IO_CALL_ANY, n, OT_ERR_NO_SPACE);
        enum ot_err err = eng_store_checkpoint_write(st->fx.store, 0, ENG_CHECKPOINT_START, &row, 1, true);
        bool fired = st->fx.fault.fired;
        ot_io_fault_at(&st->fx.fault, OT_IO_CALL_ANY, 0, OT_OK);
        assert_int_equal(eng_store_checkpoint_load(st->fx.store, 0, ENG_CHECKPOINT_START, take, &rows), OT_OK);
        assert_true(rows.offsets[0] == 9 || (err != OT_OK && rows.offsets[0] == 5));
        if (!fired) {
            assert_int_equal(err, OT_OK);
            assert_true(n > 3);
            return;
        }
        row.offset = 5;
        assert_int_equal(eng_store_checkpoint_write(st->fx.store, 0, ENG_CHECKPOINT_START, &row, 1, true), OT_OK);
        row.offset = 9;
    }
    fail_msg("it never ended");
}

static void the_clean_marker_is_taken_once(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0;
    bool clean = true;
    int64_t epoch = 0;
    assert_int_equal(open_dirs(st, 1, &st->fx.store, &bad), OT_OK);
    assert_int_equal(eng_store_take_clean(st->fx.store, 0, &clean, &epoch), OT_OK);
    assert_false(clean);
    assert_int_equal(eng_store_leave_clean(st->fx.store, 0, 42), OT_OK);
    assert_true(has_file(st->dirs[0], ".kafka_cleanshutdown"));
    uint64_t syncs = st->fx.fault.counts[OT_IO_CALL_SYNC_DIR];
    assert_int_equal(eng_store_see_clean(st->fx.store, 0, &clean, &epoch), OT_OK);
    assert_true(clean && epoch == 42 && has_file(st->dirs[0], ".kafka_cleanshutdown"));
    assert_int_equal(eng_store_take_clean(st->fx.store, 0, &clean, &epoch), OT_OK);
    assert_true(clean);
    assert_int_equal(epoch, 42);
    assert_int_equal(st->fx.fault.counts[OT_IO_CALL_SYNC_DIR], syncs + 1); /* gone for good */
    assert_int_equal(eng_store_take_clean(st->fx.store, 0, &clean, &epoch), OT_OK);
    assert_false(clean);
    put_file(st->dirs[0], ".kafka_cleanshutdown", "");                     /* an old Kafka's marker is empty */
    assert_int_equal(eng_store_take_clean(st->fx.store, 0, &clean, &epoch), OT_OK);
    assert_true(clean);
    assert_int_equal(epoch, -1);
}

static uint32_t told;
static void tell(void *arg, uint32_t dir) { *(uint32_t *)arg = dir; told++; }

static void a_failing_directory_leaves_the_rest_serving(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0, which = 99, home = 99;
    struct eng_log *log = NULL;
    struct eng_recovery recovery;
    assert_int_equal(open_dirs(st, 2, &st->fx.store, &bad), OT_OK);
    eng_store_on_offline(st->fx.store, tell, &which);
    ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, open("/dev/null", O_WRONLY));
    told = 0;
    eng_store_fail_dir(st->fx.store, 0, OT_ERR_IO, "flush");
    eng_store_fail_dir(st->fx.store, 0, OT_ERR_IO, "flush");
    assert_int_equal(told, 1);
    assert_int_equal(which, 0);
    assert_true(eng_store_dir_offline(st->fx.store, 0));
    assert_false(eng_store_dir_offline(st->fx.store, 1));
    for (int i = 0; i < 5; i++) {
        assert_int_equal(eng_store_place(st->fx.store, 0, &home), OT_OK);
        assert_int_equal(home, 1);
    }
    char path[400];
    snprintf(path, sizeof path, "%s/orders-0", st->dirs[0]);
    struct eng_log_open how = { .dir_path = path, .store_dir = 0, .config = st->fx.config };
    assert_int_equal(eng_log_open(st->fx.store, &how, &log, &recovery), OT_ERR_IO);
    eng_store_fail_dir(st->fx.store, 1, OT_ERR_IO, "flush");
    assert_int_equal(eng_store_place(st->fx.store, 0, &home), OT_ERR_IO);
}

static void a_directory_that_cannot_be_made_starts_offline(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0;
    put_file(st->fx.root, "plain", "x");
    snprintf(st->dirs[1], sizeof st->dirs[1], "%.200s/plain/d", st->fx.root);
    ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, open("/dev/null", O_WRONLY));
    assert_int_equal(open_dirs(st, 2, &st->fx.store, &bad), OT_OK);
    assert_int_equal(bad, 1);
    assert_true(eng_store_dir_offline(st->fx.store, 1));
}

static void placement_evens_out_the_count(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0, homes[3] = { 0 };
    assert_int_equal(open_dirs(st, 3, &st->fx.store, &bad), OT_OK);
    for (int i = 0; i < 30; i++) {
        uint32_t dir = 0;
        assert_int_equal(eng_store_place(st->fx.store, 0, &dir), OT_OK);
        eng_store_count_partition(st->fx.store, dir, 1);
        homes[dir]++;
    }
    for (int i = 0; i < 3; i++) assert_int_equal(homes[i], 10);
}

static void placement_avoids_what_it_is_told_to_unless_nothing_else_is_left(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0, dir = 0;
    assert_int_equal(open_dirs(st, 2, &st->fx.store, &bad), OT_OK);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(eng_store_place(st->fx.store, 1, &dir), OT_OK);
        assert_int_equal(dir, 1);
        eng_store_count_partition(st->fx.store, dir, 1);
    }
    assert_int_equal(eng_store_place(st->fx.store, 3, &dir), OT_OK);
    assert_int_equal(dir, 0);                  /* it has fewer */
}

struct found { uint32_t count; char names[8][80]; };
static void find(void *arg, uint32_t dir, const char *topic, int32_t partition)
{
    struct found *found = arg;
    (void)dir;
    snprintf(found->names[found->count++], 80, "%s/%d", topic, partition);
}

static void the_scan_finds_partitions_and_clears_what_is_being_deleted(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0;
    struct found found = { 0 };
    static const char *const folders[] = { "orders-0", "orders-12", "my-topic.x_y-3", "orders-00", "orders-x", "lost+found", "-5", "orders-1.0123456789abcdef0123456789abcdef-delete",
        "orders-1.0123456789abcdef0123456789abcdef-future", "orders-99999999999" };
    char path[500];
    assert_int_equal(open_dirs(st, 1, &st->fx.store, &bad), OT_OK);
    for (size_t i = 0; i < OT_ARRAY_COUNT(folders); i++) {
        snprintf(path, sizeof path, "%s/%s", st->dirs[0], folders[i]);
        assert_int_equal(mkdir(path, 0755), 0);
    }
    snprintf(path, sizeof path, "%s/%s", st->dirs[0], folders[7]);
    put_file(path, "00000000000000000000.log", "x");
    assert_int_equal(eng_store_scan(st->fx.store, 0, find, &found), OT_OK);
    assert_int_equal(found.count, 3);
    assert_string_equal(found.names[0], "my-topic.x_y/3");
    assert_string_equal(found.names[1], "orders/0");
    assert_string_equal(found.names[2], "orders/12");
    assert_false(has_file(st->dirs[0], folders[7]));
    assert_true(has_file(st->dirs[0], folders[8]));
}

static void topic_ids_are_read(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0;
    struct ot_uuid id;
    char path[500];
    assert_int_equal(open_dirs(st, 1, &st->fx.store, &bad), OT_OK);
    snprintf(path, sizeof path, "%s/orders-0", st->dirs[0]);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(eng_store_topic_id(st->fx.store, 0, "orders", 0, &id), OT_ERR_NOT_FOUND);
    put_file(path, "partition.metadata", "version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ");
    assert_int_equal(eng_store_topic_id(st->fx.store, 0, "orders", 0, &id), OT_OK);
    assert_int_equal(id.bytes[15], 1);
    static const char *const damaged[] = { "", "version: 1\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ", "version: 0\ntopic_id: AAAA", "version: 0" };
    for (size_t i = 0; i < OT_ARRAY_COUNT(damaged); i++) {
        put_file(path, "partition.metadata", damaged[i]);
        assert_int_equal(eng_store_topic_id(st->fx.store, 0, "orders", 0, &id), OT_ERR_CORRUPT);
    }
}

static void the_reserve_takes_and_gives_space(void **state)
{
    struct st *st = *state;
    uint32_t bad = 0;
    struct stat stat;
    char path[500];
    assert_int_equal(open_dirs(st, 1, &st->fx.store, &bad), OT_OK);
    snprintf(path, sizeof path, "%s/ottla.reserve", st->dirs[0]);
    assert_int_equal(eng_store_reserve_hold(st->fx.store, 0, 1 << 20), OT_OK);
    assert_int_equal(lstat(path, &stat), 0);
    assert_true((int64_t)stat.st_blocks * 512 >= 1 << 20);                 /* real blocks, not a hole */
    assert_int_equal(eng_store_reserve_hold(st->fx.store, 0, 2 << 20), OT_OK);
    assert_int_equal(eng_store_reserve_hold(st->fx.store, 0, 1 << 20), OT_OK);
    assert_int_equal(lstat(path, &stat), 0);
    assert_int_equal(stat.st_size, 1 << 20);
    eng_store_reserve_release(st->fx.store, 0);
    assert_int_equal(lstat(path, &stat), -1);
    eng_store_reserve_release(st->fx.store, 0);
}

#define STORE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_MAIN(
    STORE_TEST(missing_directories_are_made_and_synced_and_locked),
    STORE_TEST(directories_that_are_there_are_synced_by_the_first_who_locks_them),
    STORE_TEST(identity_is_written_once_and_a_damaged_one_is_told),
    STORE_TEST(checkpoints_come_back_as_they_were_written),
    STORE_TEST(a_damaged_checkpoint_gives_no_row_at_all),
    STORE_TEST(a_failed_write_leaves_the_old_checkpoint),
    STORE_TEST(the_clean_marker_is_taken_once),
    STORE_TEST(a_failing_directory_leaves_the_rest_serving),
    STORE_TEST(a_directory_that_cannot_be_made_starts_offline),
    STORE_TEST(placement_evens_out_the_count), STORE_TEST(placement_avoids_what_it_is_told_to_unless_nothing_else_is_left),
    STORE_TEST(the_scan_finds_partitions_and_clears_what_is_being_deleted),
    STORE_TEST(topic_ids_are_read),
    STORE_TEST(the_reserve_takes_and_gives_space))
