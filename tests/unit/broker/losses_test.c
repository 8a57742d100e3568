/* The loss ledger: what is noted, before what, and what is kept. */
#include "cluster_fixture.h"

#include "broker/losses_inner.h"

#define META "/sim/a"

static struct core_fixture *of(struct cluster *c, int32_t id) { return &c->nodes[id - 1].f; }
static struct broker_core *core_of(struct cluster *c, int32_t id) { return &of(c, id)->broker->core; }

static int setup(void **state)
{
    cluster_setup(state);
    for (int32_t id = 1; id <= NODES; id++) assert_int_equal(broker_losses_open(sim_disk_io(of(*state, id)->disk), META, &core_of(*state, id)->losses), OT_OK);
    return 0;
}

static int teardown(void **state)
{
    struct broker_losses *losses[NODES];
    for (int32_t id = 1; id <= NODES; id++) losses[id - 1] = core_of(*state, id)->losses;
    cluster_teardown(state);
    for (int i = 0; i < NODES; i++) broker_losses_close(losses[i]);
    return 0;
}

struct seen { struct broker_loss all[8]; char folders[8][256]; uint32_t count; };

static void see(void *arg, const struct broker_loss *loss)
{
    struct seen *seen = arg;
    assert_true(seen->count < OT_ARRAY_COUNT(seen->all));
    snprintf(seen->folders[seen->count], sizeof seen->folders[0], "%s", loss->folder);
    seen->all[seen->count++] = *loss;
}

static struct seen seen_at(struct cluster *c, int32_t id)
{
    struct seen seen = { .count = 0 };
    const uint32_t count = broker_losses_each(of(c, id)->broker, 0, 100, see, &seen);
    assert_int_equal(count, seen.count);
    return seen;
}

static void put(struct cluster *c, int32_t leader, int count, int16_t acks)
{
    for (int i = 0; i < count; i++) {
        static struct produce_call call;
        cluster_put(c, leader, &call, acks, -1, 0);
        cluster_pass(c, 700);
        assert_true(call.done);
        assert_int_equal(call.part.error, OT_OK);
    }
}

/* Broker 1 has three records more than the others, all of them acknowledged; 2 leads by an election that gave them up. */
static void part(struct cluster *c, int16_t acks)
{
    c->row.min_isr = 1;
    cluster_apply(c);
    cluster_pass(c, 200);
    put(c, 1, 5, -1);
    c->cut[2][1] = c->cut[3][1] = c->cut[1][2] = c->cut[1][3] = true;
    cluster_pass(c, 600);                      /* no fetch waits any more */
    c->mute = acks > 0;                        /* so that they stay in the isr */
    if (acks < 0) cluster_pass(c, 5000);       /* else they have left it */
    put(c, 1, 3, acks);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 1)->log), 8);
    c->cut[2][1] = c->cut[3][1] = c->cut[1][2] = c->cut[1][3] = c->mute = false;
}

static void give_up(struct cluster *c)
{
    c->row.loss_version = 9;
    c->row.loss_epoch = c->row.leader_epoch;
    c->row.loss = COORD_LOSS_UNCLEAN;
    c->row.loss_from = 5;
    c->row.loss_leader = 2;
    cluster_lead(c, 2, 2);
}

static void what_an_election_gives_up_is_noted_by_who_leads_and_by_who_is_cut(void **state)
{
    struct cluster *c = *state;
    part(c, -1);
    give_up(c);
    cluster_pass(c, 3000);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 1)->log), 5);
    struct seen seen = seen_at(c, 2);
    assert_int_equal(seen.count, 1);
    assert_true(seen.all[0].kind == BROKER_LOSS_ELECTION && seen.all[0].from == 5 && seen.all[0].end == -1 && seen.all[0].leader_epoch == 2 && seen.all[0].last_epoch == 1);
    assert_string_equal(seen.all[0].reason, "unclean");
    seen = seen_at(c, 1);
    assert_int_equal(seen.count, 1);
    const struct broker_loss *cut = &seen.all[0];
    assert_true(cut->kind == BROKER_LOSS_CUT && cut->from == 5 && cut->end == 8 && cut->high_watermark == 8 && cut->leader_epoch == 2);
    assert_true(cut->epoch_count == 1 && cut->epochs[0].epoch == 1 && cut->epochs[0].start == 5);
    assert_string_equal(cut->topic, "t");
    assert_true(cut->kept == BROKER_LOSS_KEPT_ALL && cut->kept_bytes == cut->cut_bytes && cut->kept_end == 8);
    struct ot_io_stat stat;
    char path[300];
    snprintf(path, sizeof path, "%s/%020d.log", seen.folders[0], 5);
    assert_int_equal(sim_disk_io(of(c, 1)->disk)->ops->stat(sim_disk_io(of(c, 1)->disk), path, &stat), OT_OK);
    assert_int_equal(stat.bytes, cut->kept_bytes);
    assert_int_equal(seen_at(c, 3).count, 0);  /* it had nothing of it */
}

static void below_its_high_watermark_a_cut_is_noted_whoever_made_it(void **state)
{
    struct cluster *c = *state;
    part(c, -1);
    cluster_lead(c, 2, 2);                     /* no election that says so: that should not be, and is told all the more */
    cluster_pass(c, 3000);
    struct seen seen = seen_at(c, 1);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.all[0].reason, "divergence");
    assert_int_equal(seen_at(c, 2).count, 0);
}

static void what_was_never_committed_is_no_entry(void **state)
{
    struct cluster *c = *state;
    part(c, 1);
    cluster_lead(c, 2, 6);
    cluster_pass(c, 3000);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 1)->log), 5);
    assert_int_equal(seen_at(c, 1).count, 0);
}

static void count_one(void *arg, const struct ot_io_entry *entry) { (void)entry; ++*(uint32_t *)arg; }

static uint32_t kept_folders(struct cluster *c, int32_t id)
{
    struct ot_io *io = sim_disk_io(of(c, id)->disk);
    uint32_t count = 0;
    assert_int_equal(io->ops->list(io, "/sim/a/__ottla_lost", count_one, &count), OT_OK);
    return count;
}

static void nothing_is_cut_before_it_is_noted(void **state)
{
    struct cluster *c = *state;
    part(c, -1);
    struct broker_losses *good = core_of(c, 1)->losses, *bad;
    assert_int_equal(broker_losses_open(sim_disk_io(of(c, 1)->disk), "/nowhere/at/all", &bad), OT_OK);
    core_of(c, 1)->losses = bad;
    give_up(c);
    cluster_pass(c, 3000);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 1)->log), 8);
    assert_int_equal(kept_folders(c, 1), 0);   /* it is tried again and again: no copy stays of each */
    core_of(c, 1)->losses = good;
    broker_losses_close(bad);
    cluster_pass(c, 3000);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 1)->log), 5);
    assert_int_equal(seen_at(c, 1).count, 1);
    assert_int_equal(kept_folders(c, 1), 1);
}

static void what_is_kept_has_a_bound(void **state)
{
    struct cluster *c = *state;
    fixture_set(of(c, 1), "ottla.loss.keep.partition.bytes", "200");
    part(c, -1);
    give_up(c);
    cluster_pass(c, 3000);
    struct seen seen = seen_at(c, 1);
    assert_true(seen.count == 1 && seen.all[0].kept == BROKER_LOSS_KEPT_PART && seen.all[0].kept_bytes > 0 && seen.all[0].kept_bytes <= 200 && seen.all[0].kept_end == 6);
}

static void nothing_is_kept_where_nothing_may_be(void **state)
{
    struct cluster *c = *state;
    fixture_set(of(c, 1), "ottla.loss.keep.bytes", "0");
    part(c, -1);
    give_up(c);
    cluster_pass(c, 3000);
    struct seen seen = seen_at(c, 1);
    assert_true(seen.count == 1 && seen.all[0].kept == BROKER_LOSS_KEPT_NO_ROOM && seen.all[0].kept_bytes == 0 && seen.all[0].from == 5 && seen.all[0].end == 8);
    assert_string_equal(seen.folders[0], "");
}

static struct broker_loss one(int64_t from)
{
    return (struct broker_loss){ .kind = BROKER_LOSS_CUT, .reason = "divergence", .topic = "orders", .topic_id = fixture_id(3), .partition = 4, .from = from, .end = from + 10, .high_watermark = 7,
        .leader_epoch = 5, .last_epoch = 4, .epochs = { { 3, from }, { 4, from + 2 } }, .epoch_count = 2, .wall_ms = 1700000000000, .cut_bytes = 99, .kept_bytes = 50, .kept_end = from + 5,
        .kept = BROKER_LOSS_KEPT_PART, .folder = "/sim/a" };
}

static void entries_outlive_a_power_cut_and_a_damaged_one_costs_itself_alone(void **state)
{
    struct cluster *c = *state;
    struct sim_disk *disk = of(c, 3)->disk;
    struct broker_losses **losses = &core_of(c, 3)->losses;
    for (int64_t from = 0; from < 3; from++) {
        struct broker_loss loss = one(from);
        assert_int_equal(broker_loss_note(*losses, &loss), OT_OK);
        assert_int_equal(broker_loss_note(*losses, &loss), OT_OK);     /* the same again is no second one */
    }
    struct broker_loss_counts counts;
    broker_losses_counts(*losses, &counts);
    assert_true(counts.entries == 3 && counts.kept_bytes == 150 && counts.noted[BROKER_LOSS_CUT] == 3);
    struct ot_io *io = sim_disk_io(disk);
    char *data;
    size_t bytes;
    assert_int_equal(ot_io_read_file(io, META "/losses/00000000000000000002.loss", 65536, &data, &bytes), OT_OK);
    free(data);
    for (size_t pos = 0; pos < bytes; pos++) {
        assert_true(sim_disk_flip(disk, META "/losses/00000000000000000002.loss", pos, 3));
        broker_losses_close(*losses);
        assert_int_equal(broker_losses_open(io, META, losses), OT_OK);
        assert_int_equal(seen_at(c, 3).count, 2);
        assert_true(sim_disk_flip(disk, META "/losses/00000000000000000002.loss", pos, 3));
    }
    broker_losses_close(*losses);
    assert_int_equal(broker_losses_open(io, META, losses), OT_OK);
    struct seen seen = seen_at(c, 3);
    assert_int_equal(seen.count, 3);
    for (uint32_t i = 0; i < 3; i++) {         /* oldest first */
        struct broker_loss was = one((int64_t)i);
        assert_true(seen.all[i].number == i + 1 && seen.all[i].from == was.from && seen.all[i].end == was.end && seen.all[i].kept_end == was.kept_end && seen.all[i].kept == was.kept);
        assert_true(seen.all[i].epoch_count == 2 && seen.all[i].epochs[1].epoch == 4 && seen.all[i].epochs[1].start == was.from + 2 && seen.all[i].cut_bytes == 99);
        assert_string_equal(seen.all[i].topic, "orders");
        assert_string_equal(seen.folders[i], "/sim/a");
    }
}

/* The crash came between the copy and its entry: the next start finds a whole log, and the copy beside it. */
static void what_recovery_kept_is_noted_by_a_later_start_when_a_crash_came_between(void **state)
{
    struct cluster *c = *state;
    struct ot_io *io = sim_disk_io(of(c, 1)->disk);
    const struct eng_recovery whole = { .cut_offset = -1 };
    struct ot_io_stat stat;
    char path[300];
    cluster_apply(c);
    cluster_pass(c, 200);
    struct broker_partition *partition = cluster_part(c, 1);
    broker_loss_of_recovery(partition, partition->log, &whole);
    assert_int_equal(seen_at(c, 1).count, 0);
    for (int first = 9; first >= 5; first -= 4) {
        snprintf(path, sizeof path, "%s/%020d.cut", eng_log_dir_path(partition->log), first);
        assert_int_equal(ot_io_replace_file(io, path, "batches", 7, true), OT_OK);
    }
    for (int start = 0; start < 2; start++) {  /* it is told once */
        broker_loss_of_recovery(partition, partition->log, &whole);
        const struct seen seen = seen_at(c, 1);
        assert_int_equal(seen.count, 1);
        const struct broker_loss *loss = &seen.all[0];
        assert_true(loss->kind == BROKER_LOSS_RECOVERY && loss->from == 5 && loss->end == -1 && loss->kept == BROKER_LOSS_KEPT_ALL && loss->kept_bytes == 14 && loss->cut_bytes == 14);
        assert_int_equal(io->ops->stat(io, path, &stat), OT_ERR_NOT_FOUND);
        char kept[300];
        snprintf(kept, sizeof kept, "%s/%020d.log", seen.folders[0], 5);
        assert_int_equal(io->ops->stat(io, kept, &stat), OT_OK);
    }
}

static void what_somebody_removed_takes_no_room(void **state)
{
    struct cluster *c = *state;
    struct broker_losses **losses = &core_of(c, 3)->losses;
    struct broker_loss loss = one(1);
    loss.folder = "/sim/a/gone";
    assert_int_equal(broker_loss_note(*losses, &loss), OT_OK);
    broker_losses_close(*losses);
    assert_int_equal(broker_losses_open(sim_disk_io(of(c, 3)->disk), META, losses), OT_OK);
    struct seen seen = seen_at(c, 3);
    assert_true(seen.count == 1 && seen.all[0].kept == BROKER_LOSS_KEPT_GONE && seen.all[0].kept_bytes == 0);
}

static void old_entries_go_but_not_those_that_keep_something(void **state)
{
    struct cluster *c = *state;
    struct broker_losses *losses = core_of(c, 3)->losses;
    struct broker_loss_counts counts;
    for (int64_t from = 0; from < BROKER_LOSSES_MAX + 3; from++) {
        struct broker_loss loss = one(from);
        if (from >= 2) loss.kept_bytes = 0;
        assert_int_equal(broker_loss_note(losses, &loss), OT_OK);
    }
    broker_losses_counts(losses, &counts);
    assert_int_equal(counts.entries, BROKER_LOSSES_MAX);
    assert_int_equal(counts.kept_bytes, 100);  /* what lies there counts against the bound */
    struct seen seen = { .count = 0 };
    broker_losses_each(of(c, 3)->broker, 0, 3, see, &seen);
    assert_true(seen.all[0].from == 0 && seen.all[1].from == 1 && seen.all[2].from == 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_an_election_gives_up_is_noted_by_who_leads_and_by_who_is_cut), TEST(below_its_high_watermark_a_cut_is_noted_whoever_made_it), TEST(what_was_never_committed_is_no_entry),
        TEST(nothing_is_cut_before_it_is_noted), TEST(what_is_kept_has_a_bound), TEST(nothing_is_kept_where_nothing_may_be),
        TEST(entries_outlive_a_power_cut_and_a_damaged_one_costs_itself_alone), TEST(what_somebody_removed_takes_no_room),
        TEST(what_recovery_kept_is_noted_by_a_later_start_when_a_crash_came_between),
        TEST(old_entries_go_but_not_those_that_keep_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
