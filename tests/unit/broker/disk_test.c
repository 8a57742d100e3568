/* Partitions and the disk under them when it is full, failing or damaged. */
#include "core_fixture.h"
#include "base/io_fault.h"
#include "base/metrics.h"
#include <pthread.h>
#include <time.h>

#define LOG_FILE "/sim/a/t-0/00000000000000000000.log"

static void set_disk(struct core_fixture *f, struct sim_faults faults) { sim_disk_faults(f->disk, &faults); }

static void open_one(struct core_fixture *f, int32_t epoch)
{
    fixture_apply(f, "t", 7, 0, 1, 1, epoch, "fsync");
    run(f);
    assert_int_equal(f->open_err, OT_OK);
}

static enum ot_err put_bytes(struct core_fixture *f, int32_t partition, uint32_t value_bytes)
{
    struct produce_call call;
    produce(f, &call, partition, -1, -1, 0, value_bytes);
    run(f);
    assert_true(call.done);
    return call.part.error;
}

static enum ot_err put(struct core_fixture *f, int32_t partition) { return put_bytes(f, partition, 10); }

struct deletion { struct broker_offsets offsets; struct broker_offsets_part part; };
static void deletion_done(struct broker_call *call) { (void)call; }

static enum ot_err delete_below(struct core_fixture *f, int64_t offset)
{
    struct deletion ask = { .part = { .topic = ot_str_of("t"), .current_leader_epoch = -1, .at = offset } };
    ask.offsets = (struct broker_offsets){ .call = { .home = f->home, .done = deletion_done }, .kind = BROKER_DELETE_RECORDS, .parts = &ask.part, .part_count = 1 };
    broker_offsets(f->broker, &ask.offsets);
    run(f);
    return ask.part.error;
}

static int64_t row_on_disk(struct core_fixture *f, const char *file)
{
    char *data = NULL;
    long long offset = -1;
    if (ot_io_read_file(sim_disk_io(f->disk), file, 4096, &data, NULL) != OT_OK) return -1;
    (void)sscanf(data, "0\n1\nt 0 %lld", &offset);
    free(data);
    return offset;
}

static int64_t start_on_disk(struct core_fixture *f) { return row_on_disk(f, "/sim/a/log-start-offset-checkpoint"); }

/* What is appended from now on is not synced, and its torn end after a crash is no failing disk. */
static void a_log_that_lost_its_end_lowers_its_recovery_point_at_once(void **state)
{
    struct core_fixture *f = *state;
    open_one(f, 1);
    for (int i = 0; i < 3; i++) assert_int_equal(put(f, 0), OT_OK);
    fixture_stop(f);
    assert_int_equal(row_on_disk(f, "/sim/a/recovery-point-offset-checkpoint"), 3);
    assert_int_equal(sim_disk_io(f->disk)->ops->unlink(sim_disk_io(f->disk), LOG_FILE), OT_OK);
    fixture_start(f);
    open_one(f, 2);
    assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 0);
    assert_int_equal(row_on_disk(f, "/sim/a/recovery-point-offset-checkpoint"), 0);
}

static void deleted_records_are_not_confirmed_before_their_checkpoint_is_on_disk(void **state)
{
    struct core_fixture *f = *state;
    open_one(f, 1);
    assert_int_equal(put(f, 0), OT_OK);
    assert_int_equal(put(f, 0), OT_OK);
    set_disk(f, (struct sim_faults){ .capacity_bytes = sim_disk_used_bytes(f->disk) });        /* and there is no reserve */
    assert_int_equal(delete_below(f, 1), OT_ERR_KAFKA_STORAGE_ERROR);
    assert_int_not_equal(start_on_disk(f), 1);
    set_disk(f, (struct sim_faults){ 0 });
    assert_int_equal(delete_below(f, 1), OT_OK);               /* asked again: nothing to delete, and the writing is done */
    assert_int_equal(start_on_disk(f), 1);
    set_disk(f, (struct sim_faults){ .name_error = 1 });
    assert_int_equal(delete_below(f, 2), OT_ERR_KAFKA_STORAGE_ERROR);
    assert_true(eng_store_dir_offline(f->store, 0));           /* a disk that takes no small file */
    set_disk(f, (struct sim_faults){ 0 });
}

static void deleted_records_find_room_in_the_reserve(void **state)
{
    struct core_fixture *f = *state;
    open_one(f, 1);
    assert_int_equal(put(f, 0), OT_OK);
    assert_int_equal(eng_store_reserve_hold(f->store, 0, 65536), OT_OK);
    set_disk(f, (struct sim_faults){ .capacity_bytes = sim_disk_used_bytes(f->disk) });
    assert_int_equal(delete_below(f, 1), OT_OK);
    assert_int_equal(start_on_disk(f), 1);
}

static void a_directory_whose_log_did_not_close_whole_is_not_called_clean(void **state)
{
    struct core_fixture *f = *state;
    open_one(f, 1);
    assert_int_equal(put(f, 0), OT_OK);
    run(f);
    assert_true(broker_core_stop(&f->broker->core, 8000));
    set_disk(f, (struct sim_faults){ .sync_error = 1 });       /* from now on: what the close writes is not synced */
    fixture_close(f);
    assert_int_equal(f->unclean, 1);
    set_disk(f, (struct sim_faults){ 0 });
    fixture_start(f);
    open_one(f, 2);
    fixture_stop(f);
    assert_int_equal(f->unclean, 0);
    fixture_start(f);
}

/* A bad batch with good ones behind it: recovery has to keep the cut bytes aside, and there is no room. */
static void a_log_opened_on_a_full_disk_takes_records_again_when_there_is_room(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call call;
    open_one(f, 1);
    for (int i = 0; i < 4; i++) assert_int_equal(put_bytes(f, 0, 12000), OT_OK);
    uint64_t batch_bytes = eng_log_size_bytes(fixture_partition(f, 0)->log) / 4;
    fixture_stop(f);
    assert_int_equal(sim_disk_io(f->disk)->ops->unlink(sim_disk_io(f->disk), "/sim/a/recovery-point-offset-checkpoint"), OT_OK);
    assert_true(sim_disk_flip(f->disk, LOG_FILE, 2 * batch_bytes + 70, 1));
    set_disk(f, (struct sim_faults){ .capacity_bytes = sim_disk_used_bytes(f->disk) });
    fixture_start(f);
    fixture_apply(f, "t", 7, 0, 1, 1, 2, "fsync");
    run(f);
    struct broker_partition *partition = fixture_partition(f, 0);
    assert_true(eng_log_full(partition->log));
    assert_int_equal(eng_log_end_offset(partition->log), 2);
    assert_int_not_equal(put(f, 0), OT_OK);
    broker_core_start(&f->broker->core);
    set_disk(f, (struct sim_faults){ 0 });
    pass_ms(f, 15000);
    assert_false(eng_log_read_only(partition->log));
    assert_int_equal(put(f, 0), OT_OK);
    assert_int_equal(eng_log_end_offset(partition->log), 3);
    fetch_begin(f, &call, 0, -1);
    fetch_add(&call, "t", 0, 0);
    broker_fetch(f->broker, &call.fetch);
    run(f);
    assert_int_equal(call.fetch.rows[0].high_watermark, 3);
    assert_true(call.fetch.rows[0].read.bytes > 2 * batch_bytes);
    fetch_end(&call);
    struct ot_io_stat stat;
    assert_int_equal(sim_disk_io(f->disk)->ops->stat(sim_disk_io(f->disk), "/sim/a/t-0/00000000000000000002.cut", &stat), OT_OK);
    assert_int_equal(stat.bytes, 2 * batch_bytes);
}

static void it_is_deleted_as_any_other_after_it_healed(void **state)
{
    struct core_fixture *f = *state;
    struct ot_uuid id = fixture_id(7);
    struct ot_io_stat stat;
    a_log_opened_on_a_full_disk_takes_records_again_when_there_is_room(state);
    broker_topic_remove(f->broker, &id, false);
    run(f);
    assert_int_equal(sim_disk_io(f->disk)->ops->stat(sim_disk_io(f->disk), "/sim/a/t-0", &stat), OT_ERR_NOT_FOUND);
    fixture_apply(f, "t", 8, 0, 1, 1, 1, "fsync");
    run(f);
    assert_int_equal(put(f, 0), OT_OK);
}

/* A bit of the leader epoch, which no checksum covers. */
static void a_leader_epoch_above_every_one_there_was_is_written_anew(void **state)
{
    struct core_fixture *f = *state;
    for (int clean = 0; clean < 2; clean++) {
        open_one(f, 3 + clean * 10);
        for (int i = 0; i < 2; i++) assert_int_equal(put(f, 0), OT_OK);
        uint64_t bytes = eng_log_size_bytes(fixture_partition(f, 0)->log);
        int64_t end = eng_log_end_offset(fixture_partition(f, 0)->log);
        fixture_stop(f);
        if (clean) assert_int_equal(ot_io_replace_file(sim_disk_io(f->disk), "/sim/a/.kafka_cleanshutdown", "{}", 2, true), OT_OK);
        uint64_t batch_bytes = bytes / (uint64_t)end;
        assert_true(sim_disk_flip(f->disk, LOG_FILE, bytes - batch_bytes + 12, 6));        /* epoch | 0x40000000 */
        fixture_start(f);
        if (clean) {
            int64_t epoch;
            assert_int_equal(eng_store_take_clean(f->store, 0, &f->broker->core.clean[0], &epoch), OT_OK);
            assert_true(f->broker->core.clean[0]);
        }
        open_one(f, 4 + clean * 10);
        struct eng_log *log = fixture_partition(f, 0)->log;
        assert_int_equal(eng_log_end_offset(log), end);
        assert_int_equal(eng_epochs_latest(eng_log_epochs(log)), 3 + clean * 10);
        assert_int_equal(put(f, 0), OT_OK);                    /* and is not fenced */
        uint8_t epoch[4];
        int fd;
        assert_int_equal(sim_disk_io(f->disk)->ops->open(sim_disk_io(f->disk), LOG_FILE, OT_IO_READ, &fd), OT_OK);
        assert_int_equal(ot_io_read_exact(sim_disk_io(f->disk), fd, epoch, 4, bytes - batch_bytes + 12), OT_OK);
        sim_disk_io(f->disk)->ops->close(sim_disk_io(f->disk), fd);
        assert_int_equal(ot_load_i32(epoch), 3 + clean * 10);
    }
}

/* Base offset and record count of the last batch, below the recovery point, where recovery looks at no checksum. */
static void a_batch_that_reaches_over_the_noted_end_is_not_believed(void **state)
{
    static const uint64_t at[] = { 6, 7, 0, 25, 26 };
    struct core_fixture *f = *state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(at); i++) {
        int32_t partition = (int32_t)i;
        char path[100];
        fixture_apply(f, "t", 7, partition, 1, 1, 1, "fsync");
        run(f);
        for (int k = 0; k < 4; k++) assert_int_equal(put(f, partition), OT_OK);
        uint64_t bytes = eng_log_size_bytes(fixture_partition(f, partition)->log);
        fixture_stop(f);
        snprintf(path, sizeof path, "/sim/a/t-%d/00000000000000000000.log", partition);
        assert_true(sim_disk_flip(f->disk, path, bytes - bytes / 4 + at[i], at[i] == 7 ? 4 : 3));
        fixture_start(f);
        fixture_apply(f, "t", 7, partition, 1, 1, 2, "fsync");
        run(f);
        assert_int_equal(atomic_load(&fixture_partition(f, partition)->stage), BROKER_PARTITION_OFFLINE);
        fixture_stop(f);
        fixture_start(f);
    }
}

static void count_fault(void *arg, const char *text)
{
    (void)text;
    ++*(int *)arg;
}

/* Recovery cut the log and took entries out of its indexes. Another crash may not bring them back: batches of other places have their offsets by then, below the recovery point. */
static void index_entries_of_cut_batches_do_not_come_back(void **state)
{
    static const uint32_t sizes[] = { 3000, 7000, 5000, 5000, 5000 };      /* the last ones lie where the cut ones lay: the last entry is true, one before it is not */
    struct core_fixture *f = *state;
    char path[100];
    for (int i = 0; i < 24; i++) {
        fixture_apply(f, "t", 7, i, 1, 1, 1, "fsync");
        run(f);
        for (int k = 0; k < 8; k++) assert_int_equal(put_bytes(f, i, 5000), OT_OK);
    }
    uint64_t batch_bytes = eng_log_size_bytes(fixture_partition(f, 0)->log) / 8;
    fixture_stop(f);
    assert_int_equal(sim_disk_io(f->disk)->ops->unlink(sim_disk_io(f->disk), "/sim/a/recovery-point-offset-checkpoint"), OT_OK);
    for (int i = 0; i < 24; i++) {
        snprintf(path, sizeof path, "/sim/a/t-%d/00000000000000000000.log", i);
        assert_true(sim_disk_flip(f->disk, path, 2 * batch_bytes + 100, 0));
    }
    fixture_start(f);
    for (int i = 0; i < 24; i++) {
        fixture_apply(f, "t", 7, i, 1, 1, 2, "fsync");
        run(f);
        assert_int_equal(eng_log_end_offset(fixture_partition(f, i)->log), 2);
        for (size_t k = 0; k < OT_ARRAY_COUNT(sizes); k++) assert_int_equal(put_bytes(f, i, sizes[k]), OT_OK);
    }
    assert_int_equal(broker_checkpoints_write(&f->broker->core, true), 0);
    sim_disk_power_off_after(f->disk, 0);
    fixture_stop(f);
    sim_disk_crash_machine(f->disk);
    fixture_start(f);
    for (int i = 0; i < 24; i++) {
        int faults = 0;
        fixture_apply(f, "t", 7, i, 1, 1, 3, "fsync");
        run(f);
        assert_int_equal(eng_log_end_offset(fixture_partition(f, i)->log), 7);
        assert_int_equal(eng_log_verify(fixture_partition(f, i)->log, count_fault, &faults), OT_OK);
        assert_int_equal(faults, 0);
    }
}

/* A machine crash took partition.metadata, which was never synced, and left the records: they may be those of a topic of that name that was deleted. */
static void records_of_nobody_are_not_taken_for_those_of_a_topic_of_that_name(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call call;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    produce(f, &call, 0, 1, -1, 0, 10);
    run(f);
    sim_disk_power_off_after(f->disk, 0);      /* nothing is written any more: as in a crash */
    fixture_stop(f);
    sim_disk_crash_process(f->disk);
    assert_int_equal(sim_disk_io(f->disk)->ops->unlink(sim_disk_io(f->disk), "/sim/a/t-0/partition.metadata"), OT_OK);
    fixture_start(f);
    fixture_apply(f, "t", 8, 0, 1, 1, 1, "replicated");
    run(f);
    assert_int_equal(f->open_err, OT_OK);
    assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 0);
    assert_int_equal(put(f, 0), OT_OK);
}

/* The topic was deleted and made again while its directory was offline. */
static void of_two_folders_of_one_name_the_topics_own_is_opened(void **state)
{
    struct core_fixture *f = *state;
    struct ot_uuid old = fixture_id(7);
    fixture_stop(f);
    f->two_dirs = true;
    fixture_start(f);
    open_one(f, 1);
    assert_int_equal(put(f, 0), OT_OK);
    uint32_t first = fixture_partition(f, 0)->store_dir;
    sim_disk_break_dir(f->disk, first == 0 ? "/sim/a" : "/sim/b");
    eng_store_fail_dir(f->store, first, OT_ERR_IO, "the test");
    run(f);
    broker_topic_remove(f->broker, &old, false);
    run(f);
    fixture_apply(f, "t", 8, 0, 1, 1, 1, "fsync");
    run(f);
    for (int i = 0; i < 3; i++) assert_int_equal(put(f, 0), OT_OK);
    fixture_stop(f);
    sim_disk_break_dir(f->disk, NULL);
    fixture_start(f);
    fixture_apply(f, "t", 8, 0, 1, 1, 2, "fsync");
    run(f);
    assert_int_equal(fixture_partition(f, 0)->store_dir, 1 - first);
    assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 3);
}

/* Old configs are freed when nobody can hold them any more, and one that says the same as before is none. */
static void a_changed_config_leaves_a_bounded_number_of_old_ones(void **state)
{
    struct core_fixture *f = *state;
    struct ot_uuid id = fixture_id(7);
    open_one(f, 1);
    broker_core_start(&f->broker->core);
    for (int i = 0; i < 500; i++) {
        struct broker_topic_config config;
        char text[24];
        const char *keys[] = { "retention.ms" }, *values[] = { text };
        snprintf(text, sizeof text, "%d", 100000 + i / 2);
        broker_topic_config_effective(f->config, keys, values, 1, &config);
        broker_partition_configure(f->broker, &id, &config);
        snprintf(text, sizeof text, "%d", 200000 + i / 2);
        assert_int_equal(broker_config_apply_dynamic(f->config, -1, "log.retention.ms", text), OT_OK);
        pass_ms(f, 1000);
    }
    uint32_t count = 0;
    for (const struct broker_topic_config_node *node = fixture_partition(f, 0)->topic->configs; node != NULL; node = node->next) count++;
    assert_in_range(count, 2, BROKER_CONFIG_GRACE_TICKS / 2 + 3);
    assert_in_range(broker_config_kept(f->config), 2, BROKER_CONFIG_KEEP_TICKS / 2 + 10);
    assert_int_equal(atomic_load(&fixture_partition(f, 0)->topic->config)->retention_ms, 100249);
    assert_int_equal(broker_config_current(f->config)->log_retention_ms, 200249);
}

/* ---- a disk that lets others go between ---- */

/* The simulator's disk. While `fail` stands, the directory fails and everybody is told when a folder is listed; while `led_elsewhere` does, a write takes so long that another broker leads by its end, and
 * this one is heard again. */
struct slow_disk { struct ot_io io; struct ot_io_ops ops; struct core_fixture *f; bool fail, led_elsewhere; };
static struct slow_disk *slow_of(struct ot_io *io) { return OT_CONTAINER(io, struct slow_disk, io); }

#define PASS(type, name, args, ...) static type slow_##name args { struct ot_io *under = sim_disk_io(slow_of(io)->f->disk); return under->ops->name(__VA_ARGS__); }
PASS(enum ot_err, open, (struct ot_io *io, const char *path, int flags, int *fd_out), under, path, flags, fd_out)
PASS(void, close, (struct ot_io *io, int fd), under, fd)
PASS(enum ot_err, pread, (struct ot_io *io, int fd, void *data, size_t bytes, uint64_t pos, size_t *got), under, fd, data, bytes, pos, got)
PASS(enum ot_err, fdatasync, (struct ot_io *io, int fd), under, fd)
PASS(enum ot_err, sync_dir, (struct ot_io *io, const char *path), under, path)
PASS(enum ot_err, sync_all, (struct ot_io *io, const char *path), under, path)
PASS(enum ot_err, truncate, (struct ot_io *io, int fd, uint64_t bytes), under, fd, bytes)
PASS(enum ot_err, preallocate, (struct ot_io *io, int fd, uint64_t pos, uint64_t bytes, bool keep), under, fd, pos, bytes, keep)
PASS(enum ot_err, fstat, (struct ot_io *io, int fd, struct ot_io_stat *out), under, fd, out)
PASS(enum ot_err, stat, (struct ot_io *io, const char *path, struct ot_io_stat *out), under, path, out)
PASS(enum ot_err, rename, (struct ot_io *io, const char *from, const char *to), under, from, to)
PASS(enum ot_err, unlink, (struct ot_io *io, const char *path), under, path)
PASS(enum ot_err, mkdir, (struct ot_io *io, const char *path), under, path)
PASS(enum ot_err, rmdir, (struct ot_io *io, const char *path), under, path)
PASS(enum ot_err, space, (struct ot_io *io, const char *path, struct ot_io_space *out), under, path, out)
PASS(enum ot_err, map, (struct ot_io *io, int fd, uint64_t bytes, bool writable, void **out), under, fd, bytes, writable, out)
PASS(void, unmap, (struct ot_io *io, void *map, uint64_t bytes), under, map, bytes)
PASS(bool, is_cached, (struct ot_io *io, int fd, uint64_t pos, uint64_t bytes), under, fd, pos, bytes)
PASS(void, drop_cache, (struct ot_io *io, int fd, uint64_t pos, uint64_t bytes), under, fd, pos, bytes)
PASS(void, will_need, (struct ot_io *io, int fd, uint64_t pos, uint64_t bytes), under, fd, pos, bytes)
PASS(enum ot_err, lock, (struct ot_io *io, const char *path, int *fd_out), under, path, fd_out)

static enum ot_err slow_pwritev(struct ot_io *io, int fd, const struct iovec *iov, int count, uint64_t pos, size_t *out)
{
    struct slow_disk *slow = slow_of(io);
    struct core_fixture *f = slow->f;
    if (slow->led_elsewhere) {
        slow->led_elsewhere = false;
        sim_sched_wake(f->sched, sim_sched_now_us(f->sched) + 12000000);
        fixture_apply(f, "t", 7, 0, 2, 1, -2, "replicated");
        broker_lease_renew(f->broker, sim_sched_now_us(f->sched), 0);
    }
    return sim_disk_io(f->disk)->ops->pwritev(sim_disk_io(f->disk), fd, iov, count, pos, out);
}

static enum ot_err slow_list(struct ot_io *io, const char *path, void (*each)(void *, const struct ot_io_entry *), void *arg)
{
    struct slow_disk *slow = slow_of(io);
    if (slow->fail) {
        slow->fail = false;
        eng_store_fail_dir(slow->f->store, 0, OT_ERR_IO, "the test");
        run_only(slow->f, slow->f->background);
    }
    return sim_disk_io(slow->f->disk)->ops->list(sim_disk_io(slow->f->disk), path, each, arg);
}

static void slow_begin(struct slow_disk *slow, struct core_fixture *f)
{
    *slow = (struct slow_disk){ .f = f, .ops = { slow_open, slow_close, slow_pwritev, slow_pread, slow_fdatasync, slow_sync_dir, slow_truncate, slow_preallocate, slow_fstat, slow_stat,
        slow_rename, slow_unlink, slow_mkdir, slow_rmdir, slow_list, slow_space, slow_map, slow_unmap, slow_is_cached, slow_drop_cache, slow_will_need, slow_lock, slow_sync_all } };
    slow->io.ops = &slow->ops;
    fixture_stop(f);
    f->disk_under = &slow->io;
    fixture_start(f);
}

static void slow_end(struct core_fixture *f)
{
    fixture_stop(f);
    f->disk_under = NULL;
    fixture_start(f);
}

static void under_a_strict_lease_a_write_that_took_longer_is_not_acknowledged_by_the_next_one(void **state)
{
    struct core_fixture *f = *state;
    struct slow_disk slow;
    struct produce_call call;
    fixture_set(f, "ottla.leader.lease", "strict");
    slow_begin(&slow, f);
    fixture_apply(f, "t", 7, 0, 2, 1, 1, "replicated");
    run(f);
    broker_lease_renew(f->broker, sim_sched_now_us(f->sched), 0);
    slow.led_elsewhere = true;
    produce(f, &call, 0, 1, -1, 0, 10);
    run(f);
    assert_false(slow.led_elsewhere);
    assert_true(call.done);
    assert_int_equal(call.part.error, OT_ERR_REQUEST_TIMED_OUT);
    assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 1);
    slow_end(f);
}

/* Told were only the partitions that had their log by then. */
static void a_directory_that_fails_while_a_partition_of_it_opens_takes_that_one_offline_too(void **state)
{
    struct core_fixture *f = *state;
    struct slow_disk slow;
    for (int i = 0; i < 2; i++) {
        fixture_apply(f, "t", 7, i, 1, 1, 1, "fsync");
        run(f);
        assert_int_equal(put(f, i), OT_OK);
    }
    slow_begin(&slow, f);
    fixture_apply(f, "t", 7, 0, 1, 1, 2, "fsync");
    run(f);
    slow.fail = true;
    fixture_apply(f, "t", 7, 1, 1, 1, 2, "fsync");
    run(f);
    assert_false(slow.fail);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(atomic_load(&fixture_partition(f, i)->stage), BROKER_PARTITION_OFFLINE);
        assert_int_equal(put(f, i), OT_ERR_KAFKA_STORAGE_ERROR);
    }
    slow_end(f);
}

/* ---- two writers of the checkpoint files ---- */

/* While `f` is set, whoever is about to write the log starts, with the rows that he has read, lets another writer go first, if that one can. */
static struct { struct core_fixture *f; pthread_t other; pthread_mutex_t mutex; pthread_cond_t changed; bool other_done; } slow_writer;

static void *write_too(void *arg)
{
    struct core_fixture *f = arg;
    (void)broker_checkpoints_write(&f->broker->core, true);
    pthread_mutex_lock(&slow_writer.mutex);
    slow_writer.other_done = true;
    pthread_cond_signal(&slow_writer.changed);
    pthread_mutex_unlock(&slow_writer.mutex);
    return NULL;
}

static void let_other_go_first(struct core_fixture *f)
{
    struct timespec until;
    slow_writer.f = NULL;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 300000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    eng_log_set_start(fixture_partition(f, 0)->log, 2);
    assert_int_equal(pthread_create(&slow_writer.other, NULL, write_too, f), 0);
    pthread_mutex_lock(&slow_writer.mutex);
    for (int waited = 0; !slow_writer.other_done && waited == 0;) waited = pthread_cond_timedwait(&slow_writer.changed, &slow_writer.mutex, &until);      /* it should not get through */
    pthread_mutex_unlock(&slow_writer.mutex);
}

enum ot_err __real_eng_store_checkpoint_write(struct eng_store *store, uint32_t dir, enum eng_checkpoint kind, const struct eng_checkpoint_row *rows, uint32_t count, bool sync);
enum ot_err __wrap_eng_store_checkpoint_write(struct eng_store *store, uint32_t dir, enum eng_checkpoint kind, const struct eng_checkpoint_row *rows, uint32_t count, bool sync);
enum ot_err __wrap_eng_store_checkpoint_write(struct eng_store *store, uint32_t dir, enum eng_checkpoint kind, const struct eng_checkpoint_row *rows, uint32_t count, bool sync)
{
    if (slow_writer.f != NULL && kind == ENG_CHECKPOINT_START) let_other_go_first(slow_writer.f);
    return __real_eng_store_checkpoint_write(store, dir, kind, rows, count, sync);
}

static void a_slow_writer_of_the_checkpoints_does_not_put_back_a_log_start(void **state)
{
    struct core_fixture *f = *state;
    pthread_mutex_init(&slow_writer.mutex, NULL);
    pthread_cond_init(&slow_writer.changed, NULL);
    open_one(f, 1);
    for (int i = 0; i < 3; i++) assert_int_equal(put(f, 0), OT_OK);
    assert_int_equal(delete_below(f, 1), OT_OK);
    slow_writer.f = f;
    (void)broker_checkpoints_write(&f->broker->core, true);
    pthread_join(slow_writer.other, NULL);
    assert_int_equal(start_on_disk(f), 2);
}

/* ---- what is counted ---- */

static double gauge(struct core_fixture *f, enum ot_metric metric, const char *label)
{
    const char *labels[] = { label };
    struct ot_series *series = ot_series_get(f->metrics, metric, label == NULL ? NULL : labels);
    double value = ot_metric_info(metric)->type == OT_METRIC_GAUGE ? ot_series_value(series) : (double)ot_series_total(series);
    ot_series_release(f->metrics, series);
    return value;
}

static void ignore(void *arg, const struct ot_metric_reading *reading) { (void)arg, (void)reading; }

static void who_waits_and_what_is_damaged_is_counted(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call waits;
    struct fetch_call parked;
    fixture_stop(f);
    f->metrics = ot_metrics_new(1000);
    fixture_start(f);
    open_one(f, 1);
    produce(f, &waits, 0, -1, -1, 0, 10);
    fetch_begin(f, &parked, 0, -1);
    fetch_add(&parked, "t", 0, 0);
    broker_fetch(f->broker, &parked.fetch);
    ot_metrics_each(f->metrics, ignore, NULL);
    assert_true(gauge(f, OT_METRIC_purgatory_requests, "produce") == 1);
    assert_true(gauge(f, OT_METRIC_purgatory_requests, "fetch") == 1);
    run(f);
    assert_true(waits.done && parked.done);
    fetch_end(&parked);
    ot_metrics_each(f->metrics, ignore, NULL);
    assert_true(gauge(f, OT_METRIC_purgatory_requests, "produce") == 0);
    assert_true(gauge(f, OT_METRIC_purgatory_requests, "fetch") == 0);
    assert_true(gauge(f, OT_METRIC_log_corrupt_batches_total, NULL) == 0);
    assert_int_equal(put(f, 0), OT_OK);
    fixture_stop(f);
    assert_int_equal(sim_disk_io(f->disk)->ops->unlink(sim_disk_io(f->disk), "/sim/a/recovery-point-offset-checkpoint"), OT_OK);
    assert_true(sim_disk_flip(f->disk, LOG_FILE, 70, 1));
    fixture_start(f);
    open_one(f, 2);
    assert_true(gauge(f, OT_METRIC_log_corrupt_batches_total, NULL) == 1);
    fixture_stop(f);
    ot_metrics_free(f->metrics);
    f->metrics = NULL;
    fixture_start(f);
}

static void assert_counted(const struct core_fixture *f, uint32_t total, uint32_t open, uint32_t failed)
{
    struct broker_core *core = &f->broker->core;
    assert_int_equal(atomic_load(&core->partitions_total), total);
    assert_int_equal(atomic_load(&core->partitions_open), open);
    assert_int_equal(atomic_load(&core->partitions_failed), failed);
}

/* /readyz waits until open and failed ones are all there are: what went must not stand for what is being opened. */
static void partitions_that_go_are_counted_no_more(void **state)
{
    struct core_fixture *f = *state;
    struct ot_uuid id = fixture_id(7);
    for (int32_t partition = 0; partition < 3; partition++) fixture_apply(f, "t", 7, partition, 1, 1, 1, "fsync");
    assert_counted(f, 3, 0, 0);
    run(f);
    assert_counted(f, 3, 3, 0);
    broker_partition_remove(f->broker, &id, 2, false);
    assert_counted(f, 2, 2, 0);
    run(f);
    eng_store_fail_dir(f->store, 0, OT_ERR_IO, "the test");
    run(f);
    assert_counted(f, 2, 0, 2);
    broker_partition_remove(f->broker, &id, 1, false);
    run(f);
    assert_counted(f, 1, 0, 1);
}

/* ---- one sync for all partitions ---- */

static void restart_on(struct core_fixture *f, struct ot_io *io, uint32_t sync_each_max, int32_t epoch)
{
    run(f);
    sim_disk_power_off_after(f->disk, 0);      /* kill -9: what the close would write is not written */
    fixture_close(f);
    sim_disk_crash_process(f->disk);
    f->disk_under = io;
    f->sync_each_max = sync_each_max;
    fixture_start(f);
    open_one(f, epoch);
}

/* After a kill; where the file system was not synced as a whole, or that failed or takes too long, each partition is by itself. */
static void a_server_that_was_killed_syncs_once_for_all_its_partitions(void **state)
{
    struct core_fixture *f = *state;
    static struct ot_io_fault fault;
    open_one(f, 1);
    assert_int_equal(put(f, 0), OT_OK);
    for (int round = 0; round < 4; round++) {
        ot_io_fault_init(&fault, sim_disk_io(f->disk));
        if (round == 1) ot_io_fault_at(&fault, OT_IO_CALL_SYNC_ALL, 1, OT_ERR_IO);
        assert_int_equal(sim_disk_io(f->disk)->ops->unlink(sim_disk_io(f->disk), "/sim/a/recovery-point-offset-checkpoint"), round == 0 ? OT_ERR_NOT_FOUND : OT_OK);
        f->sync_wait_ms = round == 3 ? 1 : 0;                 /* and the thread that should do it does not come to it */
        restart_on(f, &fault.io, round == 2 ? 1 : 0, 2 + round);
        assert_int_equal(fault.counts[OT_IO_CALL_SYNC_ALL], round == 2 ? 0 : 1);
        assert_int_equal(eng_log_flushed_end(fixture_partition(f, 0)->log), 1);
        if (round == 0) assert_int_equal(fault.counts[OT_IO_CALL_FDATASYNC], 0);
        else assert_true(fault.counts[OT_IO_CALL_FDATASYNC] >= 1);
        (void)broker_checkpoints_write(&f->broker->core, true);
    }
    f->sync_wait_ms = 0;
    restart_on(f, NULL, 0, 9);
}

static struct ot_task *held;
static bool hold(const char *name, struct ot_task *task)
{
    assert_string_equal(name, "settle");
    held = task;
    return true;
}
static bool no_thread(const char *name, struct ot_task *task)
{
    (void)name, (void)task;
    return false;
}

/* As on a file system where a sync does not come back: nobody else's thread is in it, and the partition serves. It may come back when all is long over. */
static void a_sync_that_was_given_up_on_holds_no_thread_that_flushes(void **state)
{
    struct core_fixture *f = *state;
    open_one(f, 1);
    assert_int_equal(put(f, 0), OT_OK);
    f->sync_wait_ms = 1;
    for (int round = 0; round < 2; round++) {
        f->apart = round == 0 ? hold : no_thread;
        restart_on(f, NULL, 0, 2 + round);
        assert_int_equal(eng_log_flushed_end(fixture_partition(f, 0)->log), 1 + round);
        assert_int_equal(put(f, 0), OT_OK);                    /* flushes go on */
        assert_true(round == 0 ? held != NULL : held == NULL);
        if (held != NULL) held->run(held);
        held = NULL;
    }
    f->apart = NULL;
    f->sync_wait_ms = 0;
}

static void an_interval_too_long_for_any_clock_is_one_that_never_ends(void **state)
{
    struct core_fixture *f = *state;
    fixture_stop(f);
    fixture_set(f, "log.retention.check.interval.ms", "9223372036854775807");
    fixture_start(f);
    broker_core_start(&f->broker->core);
    pass_ms(f, 40000);                                         /* the first look is soon after the start */
    assert_true(f->broker->core.retention_due_us > sim_sched_now_us(f->sched) + INT64_C(86400000000));
}

static void retention_looks_first_when_it_is_told_to(void **state)
{
    struct core_fixture *f = *state;
    const int64_t minute_us = 60000000;
    struct { const char *delay_ms, *interval_ms; int64_t due_us; } cases[] = {
        {"30000", "300000", minute_us / 2}, {"120000", "300000", 2 * minute_us}, {"120000", "60000", minute_us}, {"9223372036854775807", "9223372036854775807", INT64_MAX / 2000 * 1000} };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fixture_stop(f);
        fixture_set(f, "log.initial.task.delay.ms", cases[i].delay_ms);
        fixture_set(f, "log.retention.check.interval.ms", cases[i].interval_ms);
        fixture_start(f);
        const int64_t start_us = sim_sched_now_us(f->sched);
        broker_core_start(&f->broker->core);
        assert_int_equal(f->broker->core.retention_due_us, start_us + cases[i].due_us);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(deleted_records_are_not_confirmed_before_their_checkpoint_is_on_disk),
        TEST(a_log_that_lost_its_end_lowers_its_recovery_point_at_once),
        TEST(deleted_records_find_room_in_the_reserve),
        TEST(a_directory_whose_log_did_not_close_whole_is_not_called_clean),
        TEST(a_log_opened_on_a_full_disk_takes_records_again_when_there_is_room),
        TEST(it_is_deleted_as_any_other_after_it_healed),
        TEST(a_leader_epoch_above_every_one_there_was_is_written_anew),
        TEST(a_batch_that_reaches_over_the_noted_end_is_not_believed),
        TEST(index_entries_of_cut_batches_do_not_come_back),
        TEST(records_of_nobody_are_not_taken_for_those_of_a_topic_of_that_name),
        TEST(of_two_folders_of_one_name_the_topics_own_is_opened),
        TEST(a_changed_config_leaves_a_bounded_number_of_old_ones),
        TEST(a_directory_that_fails_while_a_partition_of_it_opens_takes_that_one_offline_too),
        TEST(a_slow_writer_of_the_checkpoints_does_not_put_back_a_log_start),
        TEST(who_waits_and_what_is_damaged_is_counted),
        TEST(partitions_that_go_are_counted_no_more),
        TEST(under_a_strict_lease_a_write_that_took_longer_is_not_acknowledged_by_the_next_one),
        TEST(a_server_that_was_killed_syncs_once_for_all_its_partitions),
        TEST(a_sync_that_was_given_up_on_holds_no_thread_that_flushes),
        TEST(an_interval_too_long_for_any_clock_is_one_that_never_ends),
        TEST(retention_looks_first_when_it_is_told_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
