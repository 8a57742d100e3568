/* The map of keys: what was put is found, growing forgets nothing, and the limit holds. */
#include "testing.h"
#include "engine/compact_map.h"
#include <stdio.h>

static const uint64_t seed[2] = { 11, 22 };

static struct eng_compact_hash hash_of(const struct eng_compact_map *map, uint32_t key)
{
    char text[24];
    int bytes = snprintf(text, sizeof text, "key-%u", key);
    return eng_compact_map_hash(map, text, (size_t)bytes);
}

static void growing_forgets_nothing(void **state)
{
    struct eng_compact_map map;
    (void)state;
    assert_int_equal(eng_compact_map_init(&map, 64 << 20, 0.9, UINT64_MAX, seed), OT_OK);
    eng_compact_map_clear(&map, 1000);
    for (uint32_t i = 0; i < 600000; i++) {
        struct eng_compact_hash hash = hash_of(&map, i % 300000);
        assert_true(eng_compact_map_put(&map, &hash, 1000 + (int64_t)i));
    }
    for (uint32_t i = 0; i < 300000; i++) {
        struct eng_compact_hash hash = hash_of(&map, i);
        assert_int_equal(eng_compact_map_get(&map, &hash), 1000 + 300000 + (int64_t)i);
    }
    struct eng_compact_hash other = hash_of(&map, 300000);
    assert_int_equal(eng_compact_map_get(&map, &other), -1);
    eng_compact_map_clear(&map, 5);
    for (uint32_t i = 0; i < 1000; i++) {
        struct eng_compact_hash hash = hash_of(&map, i);
        assert_int_equal(eng_compact_map_get(&map, &hash), -1);
    }
    eng_compact_map_free(&map);
}

static void a_full_map_says_so_and_takes_known_keys(void **state)
{
    struct eng_compact_map map;
    uint32_t count = 0;
    (void)state;
    assert_int_equal(eng_compact_map_init(&map, 8 << 20, 0.9, UINT64_MAX, seed), OT_OK);
    eng_compact_map_clear(&map, 0);
    for (;; count++) {
        struct eng_compact_hash hash = hash_of(&map, count);
        if (!eng_compact_map_put(&map, &hash, count)) break;
        assert_true(map.slot_count <= map.slots_max);
    }
    assert_true(count > 350000);           /* of 524288 slots; Kafka has 314572 places in as much memory */
    assert_true(eng_compact_map_fill(&map) > 0.99);
    struct eng_compact_hash known = hash_of(&map, 7);
    assert_true(eng_compact_map_put(&map, &known, count));
    assert_int_equal(eng_compact_map_get(&map, &known), count);
    for (uint32_t i = 8; i < count; i++) {
        struct eng_compact_hash hash = hash_of(&map, i);
        assert_int_equal(eng_compact_map_get(&map, &hash), i);
    }
    eng_compact_map_free(&map);
}

static void few_keys_take_little(void **state)
{
    struct eng_compact_map map;
    (void)state;
    assert_int_equal(eng_compact_map_init(&map, 128 << 20, 0.9, 10, seed), OT_OK);
    assert_true(map.slot_count < 100);
    eng_compact_map_free(&map);
}

static void an_offset_too_far_away_ends_the_pass(void **state)
{
    struct eng_compact_map map;
    (void)state;
    assert_int_equal(eng_compact_map_init(&map, 1 << 20, 0.9, 100, seed), OT_OK);
    eng_compact_map_clear(&map, 0);
    struct eng_compact_hash hash = hash_of(&map, 1);
    assert_true(eng_compact_map_put(&map, &hash, INT64_C(4294967000)));
    assert_int_equal(eng_compact_map_get(&map, &hash), INT64_C(4294967000));
    assert_false(eng_compact_map_put(&map, &hash, INT64_C(4294967296)));
    eng_compact_map_free(&map);
}

/* SipHash itself: seeds and lengths all count. */
static void every_byte_and_the_seed_count(void **state)
{
    struct eng_compact_map one, two;
    (void)state;
    const uint64_t other[2] = { 11, 23 };
    assert_int_equal(eng_compact_map_init(&one, 1 << 20, 0.9, 100, seed), OT_OK);
    assert_int_equal(eng_compact_map_init(&two, 1 << 20, 0.9, 100, other), OT_OK);
    uint8_t key[40] = { 0 };
    for (size_t bytes = 0; bytes < sizeof key; bytes++) {
        struct eng_compact_hash a = eng_compact_map_hash(&one, key, bytes), b = eng_compact_map_hash(&one, key, bytes + (bytes + 1 < sizeof key));
        if (bytes + 1 < sizeof key) assert_memory_not_equal(&a, &b, sizeof a);
        b = eng_compact_map_hash(&two, key, bytes);
        assert_memory_not_equal(&a, &b, sizeof a);
        if (bytes == 0) continue;
        key[bytes - 1] = 1;
        b = eng_compact_map_hash(&one, key, bytes);
        assert_memory_not_equal(&a, &b, sizeof a);
        key[bytes - 1] = 0;
    }
    eng_compact_map_free(&one);
    eng_compact_map_free(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(growing_forgets_nothing),
        cmocka_unit_test(a_full_map_says_so_and_takes_known_keys),
        cmocka_unit_test(few_keys_take_little),
        cmocka_unit_test(an_offset_too_far_away_ends_the_pass),
        cmocka_unit_test(every_byte_and_the_seed_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
