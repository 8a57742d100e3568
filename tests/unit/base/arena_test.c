#include "testing.h"

#include "base/arena.h"

static void memory_is_zeroed_aligned_and_distinct(void **state)
{
    (void)state;
    struct ot_arena arena;
    ot_arena_init(&arena, 1 << 20);
    uint8_t *before = NULL;
    for (size_t bytes = 0; bytes < 300; bytes += 7) {
        uint8_t *p = ot_arena_alloc(&arena, bytes);
        assert_non_null(p);
        assert_ptr_not_equal(p, before);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < bytes; i++) assert_int_equal(p[i], 0);
        memset(p, 0xff, bytes);
        before = p;
    }
    ot_arena_reset(&arena);
    const uint8_t *again = ot_arena_alloc(&arena, 1000); /* what others have dirtied is zeroed too */
    for (size_t i = 0; i < 1000; i++) assert_int_equal(again[i], 0);
    ot_arena_free(&arena);
}

static void at_the_cap_it_answers_null_and_stays_usable(void **state)
{
    (void)state;
    struct ot_arena arena;
    ot_arena_init(&arena, 10000);
    assert_null(ot_arena_alloc(&arena, 10001));
    assert_null(ot_arena_alloc(&arena, SIZE_MAX));
    size_t got = 0;
    while (ot_arena_alloc(&arena, 500) != NULL) got += 512;
    assert_true(arena.used_bytes <= 10000);
    assert_in_range(got, 8000, 10000); /* the cap is nearly all for the caller */
    ot_arena_reset(&arena);
    assert_non_null(ot_arena_alloc(&arena, 500));
    ot_arena_free(&arena);
}

static void a_wanted_array_that_overflows_is_refused(void **state)
{
    (void)state;
    struct ot_arena arena;
    ot_arena_init(&arena, 1 << 20);
    assert_null(ot_arena_array(&arena, SIZE_MAX / 2, 3));
    assert_null(ot_arena_array(&arena, (size_t)1 << 33, (size_t)1 << 33));
    assert_non_null(ot_arena_array(&arena, 10, 3));
    ot_arena_free(&arena);
}

static void the_callers_block_is_used_first_and_never_freed(void **state)
{
    (void)state;
    uint8_t first[1024 + 3];
    struct ot_arena arena;
    ot_arena_init_with(&arena, first + 3, 1024, 100000);
    uint8_t *p = ot_arena_alloc(&arena, 512);
    assert_true(p >= first && p < first + sizeof(first));
    assert_int_equal(arena.used_bytes, 0);
    assert_non_null(ot_arena_alloc(&arena, 2000)); /* beyond it: allocated */
    assert_true(arena.used_bytes >= 2000);
    ot_arena_reset(&arena);
    assert_int_equal(arena.used_bytes, 0);
    assert_ptr_equal(ot_arena_alloc(&arena, 512), p);
    ot_arena_free(&arena);
    uint8_t tiny[4];
    ot_arena_init_with(&arena, tiny, sizeof(tiny), 0);
    assert_null(ot_arena_alloc(&arena, 1));
    ot_arena_free(&arena);
}

static void reset_keeps_the_first_block_only(void **state)
{
    (void)state;
    struct ot_arena arena;
    ot_arena_init(&arena, 1 << 20);
    void *p = ot_arena_alloc(&arena, 100);
    for (int i = 0; i < 100; i++) assert_non_null(ot_arena_alloc(&arena, 3000));
    ot_arena_reset(&arena);
    assert_int_equal(arena.used_bytes, 4096);
    assert_ptr_equal(ot_arena_alloc(&arena, 100), p);
    ot_arena_free(&arena);
    ot_arena_free(&arena);
}

static void a_mark_is_gone_back_to_as_often_as_one_likes(void **state)
{
    (void)state;
    struct ot_arena arena;
    uint8_t room[512];
    ot_arena_init_with(&arena, room, sizeof(room), 1 << 20);
    char *kept = ot_arena_str(&arena, ot_str_of("kept"));
    const struct ot_arena_mark mark = ot_arena_mark(&arena);
    uint8_t *first = NULL;
    for (int round = 0; round < 3; round++) {
        uint8_t *p = ot_arena_alloc(&arena, 64);
        if (round == 0) first = p;
        assert_ptr_equal(p, first);
        for (int i = 0; i < 64; i++) assert_int_equal(p[i], 0);
        memset(p, 7, 64);
        for (int i = 0; i < 200; i++) assert_non_null(ot_arena_alloc(&arena, 3000));      /* at the cap if nothing came back */
        ot_arena_rewind(&arena, &mark);
        assert_int_equal(arena.used_bytes, 0);
        assert_string_equal(kept, "kept");
    }
    ot_arena_free(&arena);
}

static void texts_are_copied_with_a_zero(void **state)
{
    (void)state;
    struct ot_arena arena;
    ot_arena_init(&arena, 1 << 20);
    assert_string_equal(ot_arena_str(&arena, (struct ot_str){"topicX", 5, false}), "topic");
    assert_string_equal(ot_arena_str(&arena, ot_str_of(NULL)), "");
    ot_arena_free(&arena);
}

TEST_MAIN(cmocka_unit_test(memory_is_zeroed_aligned_and_distinct), cmocka_unit_test(at_the_cap_it_answers_null_and_stays_usable),
    cmocka_unit_test(a_wanted_array_that_overflows_is_refused), cmocka_unit_test(the_callers_block_is_used_first_and_never_freed),
    cmocka_unit_test(reset_keeps_the_first_block_only), cmocka_unit_test(texts_are_copied_with_a_zero),
    cmocka_unit_test(a_mark_is_gone_back_to_as_often_as_one_likes))
