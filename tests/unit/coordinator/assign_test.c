#include "testing.h"

#include "base/util.h"
#include "coordinator/assign.h"

enum { TOPICS = 12, MEMBERS = 24, PARTS = 40 };
struct world {
    struct coord_assign_topic topics[TOPICS];
    struct coord_assign_member members[MEMBERS];
    uint32_t subscribed[MEMBERS][TOPICS];
    char ids[MEMBERS][8];
    int32_t current[TOPICS * PARTS], got[TOPICS * PARTS], again[TOPICS * PARTS];
    struct coord_assign_in in;
    struct ot_arena arena;
};

static void draw_members(struct world *w, struct ot_rng *rng, bool same, bool some_static)
{
    for (uint32_t i = 0; i < w->in.member_count; i++) {
        struct coord_assign_member *m = &w->members[i];
        (void)snprintf(w->ids[i], sizeof(w->ids[i]), "m%02u", (uint32_t)ot_rng_below(rng, 90));
        m->id = ot_str_of(w->ids[i]);
        m->instance_id = some_static && ot_rng_chance(rng, 0.4) ? ot_str_of(w->ids[i]) : ot_str_of(NULL);
        for (uint32_t t = 0; t < w->in.topic_count; t++)
            if (same || ot_rng_chance(rng, 0.5)) w->subscribed[i][m->topic_count++] = t;
        m->topics = w->subscribed[i];
    }
}

static void draw(struct world *w, struct ot_rng *rng, bool same, bool some_static)
{
    memset(w, 0, sizeof(*w));
    ot_arena_init(&w->arena, 1 << 22);
    w->in = (struct coord_assign_in){w->topics, 1 + (uint32_t)ot_rng_below(rng, TOPICS), w->members, 1 + (uint32_t)ot_rng_below(rng, MEMBERS), w->current};
    for (uint32_t t = 0; t < w->in.topic_count; t++) {
        w->topics[t].partition_count = 1 + (int32_t)ot_rng_below(rng, PARTS);
        w->topics[t].id.bytes[15] = (uint8_t)(t + 1);
    }
    draw_members(w, rng, same, some_static);
    for (uint32_t p = 0; p < coord_assign_partition_count(&w->in); p++)
        w->current[p] = ot_rng_chance(rng, 0.3) ? -1 : (int32_t)ot_rng_below(rng, w->in.member_count);
}

static bool subscribed(const struct world *w, uint32_t member, uint32_t topic)
{
    for (uint32_t k = 0; k < w->members[member].topic_count; k++)
        if (w->members[member].topics[k] == topic) return true;
    return false;
}

/* What no assignment may break: a topic that somebody wants is owned whole, by those who want it. */
static void check_owners(const struct world *w, uint32_t *loads)
{
    memset(loads, 0, MEMBERS * sizeof(*loads));
    for (uint32_t t = 0, p = 0; t < w->in.topic_count; t++) {
        bool wanted = false;
        for (uint32_t i = 0; i < w->in.member_count; i++) wanted = wanted || subscribed(w, i, t);
        for (int32_t k = 0; k < w->topics[t].partition_count; k++, p++) {
            assert_int_equal(w->got[p] >= 0, wanted);
            if (!wanted) continue;
            assert_true((uint32_t)w->got[p] < w->in.member_count);
            assert_true(subscribed(w, (uint32_t)w->got[p], t));
            loads[w->got[p]]++;
        }
    }
}

static void check_level(const struct world *w, const uint32_t *loads)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < w->in.member_count; i++) {
        least = OT_MIN(least, loads[i]);
        most = OT_MAX(most, loads[i]);
    }
    assert_true(most - least <= 1);
}

/* As many stay as quotas allow: everybody keeps what is within them, and larger quotas go to those who need them. */
static void check_kept(const struct world *w)
{
    uint32_t had[MEMBERS] = {0}, kept = 0, may = 0, total = coord_assign_partition_count(&w->in);
    for (uint32_t p = 0; p < total; p++) {
        if (w->current[p] >= 0) had[w->current[p]]++;
        kept += w->current[p] >= 0 && w->current[p] == w->got[p];
    }
    const uint32_t share = total / w->in.member_count;
    uint32_t larger = total % w->in.member_count;
    for (uint32_t i = 0; i < w->in.member_count; i++) {
        may += OT_MIN(had[i], share);
        if (had[i] <= share || larger == 0) continue;
        may++;
        larger--;
    }
    assert_int_equal(kept, may);
}

static void uniform_with_like_subscriptions_is_level_and_moves_the_least(void **state)
{
    (void)state;
    static struct world w;
    struct ot_rng rng;
    uint32_t loads[MEMBERS];
    ot_rng_seed(&rng, 1);
    for (int i = 0; i < 2000; i++) {
        draw(&w, &rng, true, false);
        assert_int_equal(coord_assign(COORD_ASSIGN_UNIFORM, &w.in, &w.arena, w.got), OT_OK);
        check_owners(&w, loads);
        check_level(&w, loads);
        check_kept(&w);
        w.in.current = w.got;
        assert_int_equal(coord_assign(COORD_ASSIGN_UNIFORM, &w.in, &w.arena, w.again), OT_OK);
        assert_memory_equal(w.got, w.again, coord_assign_partition_count(&w.in) * sizeof(*w.got));
        ot_arena_free(&w.arena);
    }
}

/* No member could take a partition of a topic from another who has two more, and a second look moves nothing. */
static void uniform_with_unlike_subscriptions_is_level_within_each_topic(void **state)
{
    (void)state;
    static struct world w;
    struct ot_rng rng;
    uint32_t loads[MEMBERS];
    ot_rng_seed(&rng, 2);
    for (int i = 0; i < 2000; i++) {
        draw(&w, &rng, false, false);
        assert_int_equal(coord_assign(COORD_ASSIGN_UNIFORM, &w.in, &w.arena, w.got), OT_OK);
        check_owners(&w, loads);
        for (uint32_t t = 0, p = 0; t < w.in.topic_count; t++) {
            for (int32_t k = 0; k < w.topics[t].partition_count; k++, p++)
                for (uint32_t m = 0; m < w.in.member_count; m++)
                    if (subscribed(&w, m, t)) assert_true(loads[w.got[p]] <= loads[m] + 1);
        }
        w.in.current = w.got;
        assert_int_equal(coord_assign(COORD_ASSIGN_UNIFORM, &w.in, &w.arena, w.again), OT_OK);
        assert_memory_equal(w.got, w.again, coord_assign_partition_count(&w.in) * sizeof(*w.got));
        ot_arena_free(&w.arena);
    }
}

static void range_gives_each_topic_in_stretches_static_members_first(void **state)
{
    (void)state;
    static struct world w;
    struct ot_rng rng;
    uint32_t loads[MEMBERS];
    ot_rng_seed(&rng, 3);
    for (int i = 0; i < 500; i++) {
        draw(&w, &rng, i % 2 == 0, true);
        assert_int_equal(coord_assign(COORD_ASSIGN_RANGE, &w.in, &w.arena, w.got), OT_OK);
        check_owners(&w, loads);
        for (uint32_t t = 0, p = 0; t < w.in.topic_count; t++) {
            for (int32_t k = 1; k < w.topics[t].partition_count; k++) {
                const int32_t before = w.got[p + (uint32_t)k - 1], after = w.got[p + (uint32_t)k];
                if (before < 0 || before == after) continue;
                const struct coord_assign_member *a = &w.members[before], *b = &w.members[after];
                if (a->instance_id.null == b->instance_id.null) assert_true(strcmp(a->id.data, b->id.data) <= 0);
                else assert_true(b->instance_id.null);
            }
            p += (uint32_t)w.topics[t].partition_count;
        }
        ot_arena_free(&w.arena);
    }
}

static void too_little_memory_is_an_error_and_no_crash(void **state)
{
    (void)state;
    static struct world w;
    struct ot_rng rng;
    ot_rng_seed(&rng, 4);
    for (int i = 0; i < 60; i++) {
        draw(&w, &rng, i % 3 == 0, false);
        struct ot_arena tight;
        ot_arena_init(&tight, 64);
        const enum ot_err err = coord_assign(i % 2 == 0 ? COORD_ASSIGN_UNIFORM : COORD_ASSIGN_RANGE, &w.in, &tight, w.got);
        assert_true(err == OT_OK || err == OT_ERR_NO_MEMORY);
        ot_arena_free(&tight);
        ot_arena_free(&w.arena);
    }
}

static void nobody_or_nothing_is_fine(void **state)
{
    (void)state;
    static struct world w;
    struct ot_rng rng;
    ot_rng_seed(&rng, 5);
    draw(&w, &rng, true, false);
    w.in.member_count = 0;
    assert_int_equal(coord_assign(COORD_ASSIGN_UNIFORM, &w.in, &w.arena, w.got), OT_OK);
    assert_int_equal(w.got[0], -1);
    w.in.member_count = 1;
    w.in.topic_count = 0;
    assert_int_equal(coord_assign(COORD_ASSIGN_RANGE, &w.in, &w.arena, w.got), OT_OK);
    enum coord_assignor assignor;
    assert_true(coord_assignor_by_name(ot_str_of("range"), &assignor));
    assert_string_equal(coord_assignor_name(assignor), "range");
    assert_false(coord_assignor_by_name(ot_str_of("sticky"), &assignor));
    ot_arena_free(&w.arena);
}

TEST_MAIN(cmocka_unit_test(uniform_with_like_subscriptions_is_level_and_moves_the_least),
    cmocka_unit_test(uniform_with_unlike_subscriptions_is_level_within_each_topic),
    cmocka_unit_test(range_gives_each_topic_in_stretches_static_members_first), cmocka_unit_test(too_little_memory_is_an_error_and_no_crash),
    cmocka_unit_test(nobody_or_nothing_is_fine))
