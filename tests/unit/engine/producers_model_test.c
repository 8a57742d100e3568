/* Random work against a model that keeps every batch and reads all of them again for each question. Seeds: OTTLA_SEEDS (default 20000), OTTLA_SEED for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/batch.h"
#include "engine/producers.h"
#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRODUCERS 4
#define STEPS 120
#define WALL_MS 1750000000000

struct past { struct eng_batch_info info; struct eng_marker marker; bool has_marker; int64_t base, last; };

struct world {
    struct ot_rng rng;
    struct eng_producers *live;
    struct past log[STEPS];
    uint32_t count, committed;             /* batches queued and committed; the first `committed` of them are in the log */
    int64_t high_watermark;
    struct eng_completed_txn done[STEPS];
    uint32_t done_count;
    uint64_t seed;
};

static int64_t end_after(const struct world *world, uint32_t count)
{
    return count == 0 ? 0 : world->log[count - 1].last + 1;
}

/* ---- the model: what the first `count` batches say of one producer ---- */

struct told { bool known; int16_t epoch; int32_t coordinator_epoch; int64_t open_since; const struct past *recent[STEPS]; uint32_t recent_count; };

static struct told tell(const struct world *world, uint32_t count, int64_t producer_id)
{
    struct told told = { .epoch = -1, .coordinator_epoch = -1, .open_since = -1 };
    for (uint32_t i = 0; i < count; i++) {
        const struct past *past = &world->log[i];
        if (past->info.producer_id != producer_id) continue;
        if (past->info.producer_epoch != told.epoch) told.recent_count = 0;
        told.known = true;
        told.epoch = past->info.producer_epoch;
        if (past->has_marker) {
            told.coordinator_epoch = past->marker.coordinator_epoch;
            told.open_since = -1;
        } else {
            told.recent[told.recent_count++] = past;
            if (past->info.transactional && told.open_since < 0) told.open_since = past->base;
        }
    }
    return told;
}

static int32_t last_sequence(const struct eng_batch_info *info)
{
    int64_t last = (int64_t)info->base_sequence + info->last_offset_delta;
    return info->base_sequence < 0 ? -1 : (int32_t)(last > INT32_MAX ? last - INT32_MAX - 1 : last);
}

static const struct past *duplicate_of(const struct told *told, const struct eng_batch_info *info)
{
    if (info->producer_epoch != told->epoch) return NULL;
    for (uint32_t back = 1; back <= 5 && back <= told->recent_count; back++) {
        const struct past *past = told->recent[told->recent_count - back];
        if (past->info.base_sequence == info->base_sequence && past->info.last_offset_delta == info->last_offset_delta) return past;
    }
    return NULL;
}

static enum ot_err expect_data(const struct told *told, const struct eng_batch_info *info)
{
    if (info->producer_epoch < told->epoch) return OT_ERR_INVALID_PRODUCER_EPOCH;
    if (told->known && info->producer_epoch > told->epoch && info->base_sequence != 0) return OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    if (told->known && info->producer_epoch == told->epoch) {
        int64_t last = told->recent_count == 0 ? -1 : last_sequence(&told->recent[told->recent_count - 1]->info);
        int64_t next = last == INT32_MAX ? 0 : last + 1;
        if (info->base_sequence != next) return OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    }
    return told->open_since >= 0 && !info->transactional ? OT_ERR_INVALID_TXN_STATE : OT_OK;
}

static enum ot_err expect_marker(const struct told *told, const struct eng_batch_info *info, const struct eng_marker *marker, int16_t version)
{
    bool repeat = info->producer_epoch == told->epoch && told->open_since < 0;
    if (info->producer_epoch < told->epoch) return OT_ERR_INVALID_PRODUCER_EPOCH;
    if (version == 2 && info->producer_epoch == told->epoch && !repeat) return OT_ERR_INVALID_PRODUCER_EPOCH;
    return marker->coordinator_epoch < told->coordinator_epoch ? OT_ERR_TRANSACTION_COORDINATOR_FENCED : OT_OK;
}

static int64_t expect_first_unstable(const struct world *world)
{
    for (uint32_t i = 0; i < world->committed; i++) {          /* the first batch that opened a transaction which is not over and replicated */
        const struct past *opener = &world->log[i];
        if (opener->has_marker || !opener->info.transactional || tell(world, i, opener->info.producer_id).open_since >= 0) continue;
        const struct past *end = NULL;
        for (uint32_t j = i + 1; j < world->committed && end == NULL; j++) {
            if (world->log[j].has_marker && world->log[j].info.producer_id == opener->info.producer_id) end = &world->log[j];
        }
        if (end == NULL || end->last >= world->high_watermark) return opener->base;
    }
    return INT64_MAX;
}

/* ---- random work ---- */

static struct eng_batch_info random_batch(struct world *world, const struct told *told, int64_t producer_id)
{
    struct ot_rng *rng = &world->rng;
    struct eng_batch_info info = { .magic = 2, .producer_id = producer_id, .max_timestamp = WALL_MS - (int64_t)ot_rng_below(rng, 1000) };
    info.last_offset_delta = (int32_t)ot_rng_below(rng, 4);
    info.record_count = info.last_offset_delta + 1;
    info.transactional = told->open_since >= 0 ? ot_rng_below(rng, 10) != 0 : ot_rng_below(rng, 3) == 0;
    info.producer_epoch = told->epoch < 0 ? (int16_t)ot_rng_below(rng, 3) : told->epoch;
    if (ot_rng_below(rng, 8) == 0) info.producer_epoch = (int16_t)(info.producer_epoch + (int16_t)ot_rng_below(rng, 3) - 1);
    if (info.producer_epoch < 0) info.producer_epoch = 0;
    int64_t last = told->recent_count == 0 ? -1 : last_sequence(&told->recent[told->recent_count - 1]->info);
    info.base_sequence = !told->known && ot_rng_below(rng, 2) == 0 ? INT32_MAX - 3 : last == INT32_MAX ? 0 : (int32_t)(last + 1);
    uint64_t mischief = ot_rng_below(rng, 10);
    if (mischief == 0) info.base_sequence = (int32_t)ot_rng_below(rng, 8);
    if (mischief == 1) info.base_sequence = 0;
    if (mischief <= 3 && told->recent_count > 0) {             /* something sent before */
        const struct past *past = told->recent[ot_rng_below(rng, told->recent_count)];
        info.base_sequence = past->info.base_sequence;
        info.last_offset_delta = past->info.last_offset_delta;
    }
    return info;
}

static void check_equals(const struct world *world, const struct eng_producers *producers, const struct told *told, const struct eng_batch_info *info,
    const struct eng_marker *marker, int16_t version, struct eng_producer_check *check)
{
    eng_producers_check(producers, info, marker, marker == NULL ? ENG_ORIGIN_CLIENT : ENG_ORIGIN_COORDINATOR, version, check);
    const struct past *old = marker == NULL ? duplicate_of(told, info) : NULL;
    enum ot_err expected = old != NULL ? OT_OK : marker == NULL ? expect_data(told, info) : expect_marker(told, info, marker, version);
    if (check->error != expected || check->duplicate != (old != NULL)) fail_msg("seed %llu: got %s (%s), expected %s", (unsigned long long)world->seed,
        ot_err_name(check->error), check->text, ot_err_name(expected));
    if (old == NULL) return;
    assert_int_equal(check->duplicate_base_offset, old->base);
    assert_int_equal(check->duplicate_last_offset, old->last);
}

static void one_append(struct world *world)
{
    int64_t producer_id = (int64_t)ot_rng_below(&world->rng, PRODUCERS);
    struct told told = tell(world, world->count, producer_id);
    struct past next = { .has_marker = ot_rng_below(&world->rng, 5) == 0, .base = end_after(world, world->count) };
    struct eng_producer_check check;
    int16_t version = (int16_t)(1 + ot_rng_below(&world->rng, 2));
    next.info = random_batch(world, &told, producer_id);
    if (next.has_marker) {
        next.info.control = next.info.transactional = true;
        next.info.base_sequence = -1;
        next.info.last_offset_delta = 0;
        if (version == 2) next.info.producer_epoch++;
        next.marker = (struct eng_marker){ true, ot_rng_below(&world->rng, 2) == 0, told.coordinator_epoch + (int32_t)ot_rng_below(&world->rng, 4) - 1 };
    }
    next.last = next.base + next.info.last_offset_delta;
    const struct eng_marker *marker = next.has_marker ? &next.marker : NULL;
    check_equals(world, world->live, &told, &next.info, marker, version, &check);
    if (check.error != OT_OK || check.duplicate) return;
    assert_int_equal(eng_producers_pend(world->live, &next.info, next.base, next.last, marker, WALL_MS), OT_OK);
    next.info.base_offset = next.base;
    world->log[world->count++] = next;
}

static void completed(void *arg, const struct eng_completed_txn *txn)
{
    struct world *world = arg;
    world->done[world->done_count++] = *txn;
}

static void one_step(struct world *world)
{
    uint64_t what = ot_rng_below(&world->rng, 12);
    if (what < 8) {
        one_append(world);
    } else if (what < 10) {
        world->committed += (uint32_t)ot_rng_below(&world->rng, world->count - world->committed + 1);
        eng_producers_commit(world->live, end_after(world, world->committed), completed, world);
    } else if (what == 10) {
        int64_t end = end_after(world, world->committed);
        world->high_watermark += (int64_t)ot_rng_below(&world->rng, (uint64_t)(end - world->high_watermark) + 1);
        eng_producers_advance(world->live, world->high_watermark);
    } else if (ot_rng_below(&world->rng, 3) == 0) {
        world->count = world->committed;
        eng_producers_drop_pending(world->live);
    }
    assert_int_equal(eng_producers_first_unstable(world->live), expect_first_unstable(world));
}

/* ---- a snapshot somewhere in the log and a replay of the rest give the same state ---- */

static void replay(const struct world *world, struct eng_producers *producers, uint32_t from, uint32_t to, struct eng_completed_txn *done, uint32_t *done_count)
{
    for (uint32_t i = from; i < to; i++) {
        struct eng_completed_txn txn;
        assert_int_equal(eng_producers_replay_completed(producers, &world->log[i].info, world->log[i].has_marker ? &world->log[i].marker : NULL, &txn), OT_OK);
        if (txn.producer_id >= 0 && done != NULL) done[(*done_count)++] = txn;
    }
}

static int compare_views(const void *left, const void *right)
{
    const struct eng_producer_view *a = left, *b = right;
    return (a->producer_id > b->producer_id) - (a->producer_id < b->producer_id);
}

static uint32_t views(const struct eng_producers *producers, struct eng_producer_view *out)
{
    memset(out, 0, PRODUCERS * sizeof *out);
    uint32_t count = eng_producers_list(producers, out, PRODUCERS);
    assert_true(count <= PRODUCERS);
    qsort(out, count, sizeof *out, compare_views);
    return count;
}

static void reborn_equals_live(struct world *world)
{
    uint32_t middle = (uint32_t)ot_rng_below(&world->rng, world->committed + 1), done_count = 0;
    struct eng_producers *first, *second;
    assert_int_equal(eng_producers_new(PRODUCERS, INT64_MAX, &first), OT_OK);
    assert_int_equal(eng_producers_new(PRODUCERS, INT64_MAX, &second), OT_OK);
    struct eng_completed_txn done[STEPS];
    replay(world, first, 0, middle, done, &done_count);
    size_t bytes = eng_producers_snapshot_bytes(first);
    uint8_t *data = malloc(bytes);
    assert_non_null(data);
    struct ot_writer writer = ot_writer_over(data, bytes);
    assert_int_equal(eng_producers_snapshot(first, &writer), OT_OK);
    assert_int_equal(eng_producers_load(second, data, bytes, WALL_MS), OT_OK);
    replay(world, second, middle, world->committed, done, &done_count);
    free(data);
    assert_int_equal(done_count, world->done_count);
    for (uint32_t i = 0; i < done_count; i++) {
        assert_int_equal(done[i].producer_id, world->done[i].producer_id);
        assert_int_equal(done[i].first_offset, world->done[i].first_offset);
        assert_int_equal(done[i].last_offset, world->done[i].last_offset);
        assert_int_equal(done[i].last_stable_offset, world->done[i].last_stable_offset);
        assert_int_equal(done[i].aborted, world->done[i].aborted);
    }
    eng_producers_drop_pending(world->live);
    world->count = world->committed;
    struct eng_producer_view ours[PRODUCERS], theirs[PRODUCERS];
    assert_int_equal(views(world->live, ours), views(second, theirs));
    for (int i = 0; i < PRODUCERS; i++) {
        assert_int_equal(ours[i].producer_id, theirs[i].producer_id);
        assert_int_equal(ours[i].last_timestamp_ms, theirs[i].last_timestamp_ms);
        assert_int_equal(ours[i].current_txn_first_offset, theirs[i].current_txn_first_offset);
        assert_int_equal(ours[i].epoch, theirs[i].epoch);
        assert_int_equal(ours[i].last_sequence, theirs[i].last_sequence);
        assert_int_equal(ours[i].coordinator_epoch, theirs[i].coordinator_epoch);
    }
    world->high_watermark = end_after(world, world->committed);
    eng_producers_advance(second, world->high_watermark);
    assert_int_equal(eng_producers_first_unstable(second), expect_first_unstable(world));
    for (int i = 0; i < 40; i++) {                             /* whatever comes next, both answer alike */
        int64_t producer_id = (int64_t)ot_rng_below(&world->rng, PRODUCERS);
        struct told told = tell(world, world->count, producer_id);
        struct eng_batch_info info = random_batch(world, &told, producer_id);
        struct eng_producer_check check;
        check_equals(world, world->live, &told, &info, NULL, 0, &check);
        check_equals(world, second, &told, &info, NULL, 0, &check);
    }
    eng_producers_free(first);
    eng_producers_free(second);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void state_equals_a_model_that_reads_the_whole_log(void **state)
{
    (void)state;
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    uint64_t first = from_environment("OTTLA_SEED", 0), seeds = getenv("OTTLA_SEED") != NULL ? 1 : from_environment("OTTLA_SEEDS", 20000);
    uint64_t appended = 0, completions = 0;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        memset(world, 0, sizeof *world);
        world->seed = seed;
        ot_rng_seed(&world->rng, seed);
        assert_int_equal(eng_producers_new(PRODUCERS, INT64_MAX, &world->live), OT_OK);
        for (int i = 0; i < STEPS; i++) one_step(world);
        appended += world->count;
        completions += world->done_count;
        reborn_equals_live(world);
        eng_producers_free(world->live);
    }
    free(world);
    assert_true(seeds < 100 || (appended > seeds * 20 && completions > seeds));        /* the work was not all refused */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(state_equals_a_model_that_reads_the_whole_log) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
