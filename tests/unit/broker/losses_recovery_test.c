/* What a start finds to be gone gets into the ledger, wherever the next crash comes. */
#include "core_fixture.h"

#include "broker/losses_inner.h"

#define LOG_FILE "/sim/a/t-0/00000000000000000000.log"
#define POINT_FILE "/sim/a/recovery-point-offset-checkpoint"

static struct ot_io *io_of(struct core_fixture *f) { return sim_disk_io(f->disk); }

static struct broker_losses *open_ledger(struct core_fixture *f, const char *path)
{
    struct broker_losses *losses;
    assert_int_equal(broker_losses_open(io_of(f), path, &losses), OT_OK);
    f->broker->core.losses = losses;
    return losses;
}

static void open_one(struct core_fixture *f, int32_t epoch)
{
    fixture_apply(f, "t", 7, 0, 1, 1, epoch, "fsync");
    run(f);
}

/* Batches of equal size. Answers how many bytes one has. */
static uint64_t put(struct core_fixture *f, int count, uint32_t value_bytes)
{
    open_one(f, 1);
    for (int i = 0; i < count; i++) {
        struct produce_call call;
        produce(f, &call, 0, -1, -1, 0, value_bytes);
        run(f);
        assert_true(call.done);
        assert_int_equal(call.part.error, OT_OK);
    }
    return eng_log_size_bytes(fixture_partition(f, 0)->log) / (uint64_t)count;
}

struct seen { struct broker_loss last; char folder[256]; uint32_t count; };

static void see(void *arg, const struct broker_loss *loss)
{
    struct seen *seen = arg;
    seen->last = *loss;
    snprintf(seen->folder, sizeof seen->folder, "%s", loss->folder);
    seen->count++;
}

static struct seen seen_in(struct core_fixture *f)
{
    struct seen seen = { .count = 0 };
    (void)broker_losses_each(f->broker, 0, 100, see, &seen);
    return seen;
}

struct sum { struct core_fixture *f; const char *folder, *suffix; uint64_t bytes; };

static void add(void *arg, const struct ot_io_entry *entry)
{
    struct sum *sum = arg;
    struct ot_io_stat stat;
    char path[400];
    if (strstr(entry->name, sum->suffix) == NULL) return;
    snprintf(path, sizeof path, "%s/%s", sum->folder, entry->name);
    assert_int_equal(io_of(sum->f)->ops->stat(io_of(sum->f), path, &stat), OT_OK);
    sum->bytes += stat.bytes;
}

static uint64_t bytes_in(struct core_fixture *f, const char *folder, const char *suffix)
{
    struct sum sum = { f, folder, suffix, 0 };
    assert_int_equal(io_of(f)->ops->list(io_of(f), folder, add, &sum), OT_OK);
    return sum.bytes;
}

/* The last life ended without a clean marker and without its checkpoint; the third of four batches is damaged. Answers the size of a batch. */
static uint64_t damage(struct core_fixture *f)
{
    const uint64_t bytes = put(f, 4, 100);
    fixture_stop(f);
    assert_int_equal(io_of(f)->ops->unlink(io_of(f), POINT_FILE), OT_OK);
    assert_int_equal(io_of(f)->ops->sync_dir(io_of(f), "/sim/a"), OT_OK);
    assert_true(sim_disk_flip(f->disk, LOG_FILE, 2 * bytes + 70, 1));
    return bytes;
}

/* A start that dies at its n-th call to the disk. False: it came to its end. */
static bool start_that_dies(struct core_fixture *f, uint64_t calls, bool machine)
{
    fixture_start(f);
    struct broker_losses *losses = open_ledger(f, "/sim/a");
    sim_disk_power_off_after(f->disk, calls);
    open_one(f, 2);
    const bool died = sim_disk_is_off(f->disk);
    sim_disk_power_off_after(f->disk, 0);
    fixture_stop(f);
    broker_losses_close(losses);
    (machine ? sim_disk_crash_machine : sim_disk_crash_process)(f->disk);
    return died;
}

static void end(void **state, struct broker_losses *losses)
{
    fixture_teardown(state);
    broker_losses_close(losses);
}

static void what_recovery_cut_is_noted_once_wherever_the_next_crash_comes(void **state)
{
    for (int machine = 0; machine < 2; machine++) {
        bool died = true;
        for (uint64_t calls = 0; died; calls++) {
            assert_int_equal(fixture_setup(state), 0);
            struct core_fixture *f = *state;
            const uint64_t bytes = damage(f);
            died = start_that_dies(f, calls, machine);
            fixture_start(f);
            struct broker_losses *losses = open_ledger(f, "/sim/a");
            open_one(f, 3);
            assert_int_equal(f->open_err, OT_OK);
            assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 2);
            const struct seen seen = seen_in(f);
            /* this disk may have a name that was moved in both folders when the power goes, and then it is told twice */
            if (seen.count == 0 || (seen.count > 1 && !machine)) fail_msg("%u entries, the start before died at call %llu", seen.count, (unsigned long long)calls);
            assert_true(seen.last.kind == BROKER_LOSS_RECOVERY && seen.last.from == 2 && seen.last.kept == BROKER_LOSS_KEPT_ALL);
            assert_true(seen.last.kept_bytes >= 2 * bytes);
            assert_int_equal(bytes_in(f, seen.folder, ".log"), seen.last.kept_bytes);
            assert_int_equal(bytes_in(f, "/sim/a/t-0", ".cut"), 0);
            assert_true(calls > 20 || died);
            end(state, losses);
        }
    }
}

static void what_cannot_be_noted_stays_beside_the_log(void **state)
{
    assert_int_equal(fixture_setup(state), 0);
    struct core_fixture *f = *state;
    const uint64_t bytes = damage(f);
    fixture_start(f);
    struct broker_losses *losses = open_ledger(f, "/nowhere/at/all");
    open_one(f, 2);
    assert_int_equal(bytes_in(f, "/sim/a/t-0", ".cut"), 2 * bytes);
    fixture_stop(f);
    broker_losses_close(losses);
    fixture_start(f);
    losses = open_ledger(f, "/sim/a");
    open_one(f, 3);
    assert_int_equal(seen_in(f).count, 1);
    assert_int_equal(bytes_in(f, "/sim/a/t-0", ".cut"), 0);
    end(state, losses);
}

static void what_a_full_disk_left_in_the_log_is_noted_when_it_is_cut(void **state)
{
    assert_int_equal(fixture_setup(state), 0);
    struct core_fixture *f = *state;
    const uint64_t bytes = put(f, 4, 12000);
    fixture_stop(f);
    assert_int_equal(io_of(f)->ops->unlink(io_of(f), POINT_FILE), OT_OK);
    assert_true(sim_disk_flip(f->disk, LOG_FILE, 2 * bytes + 70, 1));
    sim_disk_faults(f->disk, &(struct sim_faults){ .capacity_bytes = sim_disk_used_bytes(f->disk) });
    fixture_start(f);
    struct broker_losses *losses = open_ledger(f, "/sim/a");
    open_one(f, 2);
    assert_true(eng_log_full(fixture_partition(f, 0)->log));
    assert_int_equal(seen_in(f).count, 0);     /* nothing is cut yet */
    broker_core_start(&f->broker->core);
    sim_disk_faults(f->disk, &(struct sim_faults){ 0 });
    pass_ms(f, 15000);
    assert_false(eng_log_read_only(fixture_partition(f, 0)->log));
    const struct seen seen = seen_in(f);
    assert_true(seen.count == 1 && seen.last.from == 2 && seen.last.kept_bytes == 2 * bytes);
    assert_int_equal(bytes_in(f, seen.folder, ".log"), 2 * bytes);
    assert_int_equal(bytes_in(f, "/sim/a/t-0", ".cut"), 0);
    end(state, losses);
}

/* The disk lost what it had synced: whoever leads with such a log gives these offsets out again. */
static void records_that_were_on_disk_and_are_gone_are_noted(void **state)
{
    for (int machine = 0; machine < 2; machine++) {
        bool died = true;
        for (uint64_t calls = 0; died; calls++) {
            assert_int_equal(fixture_setup(state), 0);
            struct core_fixture *f = *state;
            (void)put(f, 3, 100);
            fixture_stop(f);
            assert_int_equal(io_of(f)->ops->unlink(io_of(f), LOG_FILE), OT_OK);
            assert_int_equal(io_of(f)->ops->sync_dir(io_of(f), "/sim/a/t-0"), OT_OK);
            died = start_that_dies(f, calls, machine);
            fixture_start(f);
            struct broker_losses *losses = open_ledger(f, "/sim/a");
            open_one(f, 3);
            assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 0);
            const struct seen seen = seen_in(f);
            if (seen.count == 0) fail_msg("no entry, the start before died at call %llu", (unsigned long long)calls);
            assert_true(seen.last.kind == BROKER_LOSS_RECOVERY && seen.last.from == 0 && seen.last.end == 3 && seen.last.high_watermark == 3 && seen.last.kept == BROKER_LOSS_KEPT_NOTHING);
            end(state, losses);
        }
    }
}

/* The only replica leads from what the power cut left of its log, since version 9 of the metadata. */
static void lead_alone(struct core_fixture *f, int32_t leader_epoch, const char *durability)
{
    const struct coord_partition state = { .replicas = { 1 }, .replica_count = 1, .isr = 1, .leader = 1, .leader_epoch = leader_epoch, .partition_epoch = leader_epoch, .min_isr = 1, .last_leader = -1,
        .last_leader_epoch = -1, .durable_since = -1, .last_members = 1, .loss_version = 9, .loss_epoch = 3, .loss_leader = 1, .loss = COORD_LOSS_CRASH, .loss_from = -1 };
    const struct broker_partition_row row = { .topic = "t", .topic_id = fixture_id(7), .partition = 0, .partition_epoch = leader_epoch, .leader = 1, .leader_epoch = leader_epoch, .min_isr = 1,
        .isr = state.replicas, .isr_count = 1, .replicas = state.replicas, .replica_count = 1, .state = &state };
    struct broker_topic_config config;
    const char *keys[] = { "ottla.durability" }, *values[] = { durability };
    broker_topic_config_effective(f->config, keys, values, 1, &config);
    broker_partition_apply(f->broker, &row, &config, f->home, fixture_opened, f);
    run(f);
    assert_int_equal(f->open_err, OT_OK);
}

/* The start after a power cut, epoch 4, is killed before it wrote the entry; the next one, epoch 6, is that of a killed process. */
static void a_sole_replica_whose_start_was_killed_notes_what_it_may_have_lost_at_the_next_one(void **state)
{
    static const struct { const char *durability; int64_t settled; uint32_t entries; } cases[] = { { "replicated", 8, 1 }, { "replicated", 9, 0 }, { "replicated", -1, 0 }, { "fsync", 8, 0 } };
    for (size_t i = 0; i < OT_ARRAY_COUNT(cases); i++) {
        assert_int_equal(fixture_setup(state), 0);
        struct core_fixture *f = *state;
        (void)put(f, 3, 100);
        fixture_stop(f);
        fixture_start(f);
        struct broker_losses *losses = open_ledger(f, "/sim/a");
        if (cases[i].settled >= 0) assert_int_equal(broker_loss_settled(losses, cases[i].settled), OT_OK);
        broker_losses_close(losses);
        losses = open_ledger(f, "/sim/a");
        lead_alone(f, 6, cases[i].durability);
        const struct seen seen = seen_in(f);
        assert_int_equal(seen.count, cases[i].entries);
        assert_true(seen.count == 0 || (seen.last.kind == BROKER_LOSS_ELECTION && seen.last.from == 3 && seen.last.leader_epoch == 4 && seen.last.last_epoch == 3));
        end(state, losses);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_recovery_cut_is_noted_once_wherever_the_next_crash_comes),
        cmocka_unit_test(what_cannot_be_noted_stays_beside_the_log),
        cmocka_unit_test(what_a_full_disk_left_in_the_log_is_noted_when_it_is_cut),
        cmocka_unit_test(records_that_were_on_disk_and_are_gone_are_noted),
        cmocka_unit_test(a_sole_replica_whose_start_was_killed_notes_what_it_may_have_lost_at_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
