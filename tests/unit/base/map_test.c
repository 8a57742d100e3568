#include "testing.h"

#include "base/map.h"
#include "base/util.h"

static void what_is_put_is_got_replaced_and_removed(void **state)
{
    (void)state;
    struct ot_map map;
    int a, b;
    ot_map_init(&map);
    assert_null(ot_map_get(&map, "k", 1));
    assert_null(ot_map_remove(&map, "k", 1));
    assert_int_equal(ot_map_put(&map, "k", 1, &a), OT_OK);
    assert_int_equal(ot_map_put(&map, "", 0, &b), OT_OK);
    assert_int_equal(ot_map_put(&map, "k\0x", 3, &b), OT_OK);
    assert_ptr_equal(ot_map_get(&map, "k", 1), &a);
    assert_ptr_equal(ot_map_get(&map, NULL, 0), &b);
    assert_int_equal(ot_map_put(&map, "k", 1, &b), OT_OK);
    assert_int_equal(map.count, 3);
    assert_ptr_equal(ot_map_get(&map, "k", 1), &b);
    assert_ptr_equal(ot_map_remove(&map, "k", 1), &b);
    assert_null(ot_map_get(&map, "k", 1));
    assert_ptr_equal(ot_map_get(&map, "k\0x", 3), &b);
    assert_int_equal(map.count, 2);
    ot_map_free(&map);
    ot_map_free(&map);
}

static void order_is_of_insertion_until_something_is_removed(void **state)
{
    (void)state;
    struct ot_map map;
    int values[100];
    ot_map_init(&map);
    for (uint32_t i = 0; i < 100; i++) assert_int_equal(ot_map_put(&map, &i, sizeof(i), &values[i]), OT_OK);
    for (uint32_t i = 0; i < 100; i++) assert_ptr_equal(map.entries[i].value, &values[i]);
    const uint32_t ten = 10;
    ot_map_remove(&map, &ten, sizeof(ten));
    assert_ptr_equal(map.entries[10].value, &values[99]); /* the last one takes the place */
    assert_int_equal(map.count, 99);
    ot_map_free(&map);
}

/* The fullest slot table has as many free slots as entries, so removals shift long runs. */
static void it_agrees_with_an_array_over_many_random_steps(void **state)
{
    (void)state;
    enum { KEYS = 300 };
    static uintptr_t model[KEYS];
    struct ot_map map;
    struct ot_rng rng;
    ot_map_init(&map);
    ot_rng_seed(&rng, 3);
    uint32_t live = 0;
    for (uintptr_t step = 1; step < 60000; step++) {
        const uint16_t key = (uint16_t)ot_rng_below(&rng, KEYS);
        if (ot_rng_chance(&rng, 0.5)) {
            assert_int_equal(ot_map_put(&map, &key, sizeof(key), (void *)step), OT_OK);
            live += model[key] == 0;
            model[key] = step;
        } else {
            assert_ptr_equal(ot_map_remove(&map, &key, sizeof(key)), (void *)model[key]);
            live -= model[key] != 0;
            model[key] = 0;
        }
        const uint16_t other = (uint16_t)ot_rng_below(&rng, KEYS);
        assert_ptr_equal(ot_map_get(&map, &other, sizeof(other)), (void *)model[other]);
        assert_int_equal(map.count, live);
    }
    for (uint16_t key = 0; key < KEYS; key++) assert_ptr_equal(ot_map_get(&map, &key, sizeof(key)), (void *)model[key]);
    ot_map_free(&map);
}

TEST_MAIN(cmocka_unit_test(what_is_put_is_got_replaced_and_removed),
    cmocka_unit_test(order_is_of_insertion_until_something_is_removed),
    cmocka_unit_test(it_agrees_with_an_array_over_many_random_steps))
