/* Every batch vector but the sequences, which need producer state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "batch_vectors.h"
#include "vectors.h"

struct tally {
    const char *kind;
    int seen, wrong;
};

static void each(void *arg, int number, json_t *line)
{
    struct tally *tally = arg;
    char why[512] = "";
    const char *kind = json_string_value(json_object_get(line, "kind"));
    if (kind == NULL || strcmp(kind, tally->kind) != 0) {
        return;
    }
    tally->seen++;
    if (!batch_vector_check(line, why, sizeof(why)) && tally->wrong++ < 20) {
        print_error("line %d: %s\n", number, why);
    }
}

static void all_of(const char *kind, int count)
{
    struct tally tally = {kind, 0, 0};
    (void)vectors_each("batches", each, &tally);
    assert_int_equal(tally.wrong, 0);
    if (getenv("OTTLA_VECTORS") == NULL) {
        assert_int_equal(tally.seen, count);
    }
}

static void valid_batches_are_read_and_built_again(void **state)
{
    (void)state;
    all_of("valid", 127);
}
static void control_batches_are_read_and_built_again(void **state)
{
    (void)state;
    all_of("control", 7);
}
static void legacy_message_sets_are_read(void **state)
{
    (void)state;
    all_of("legacy", 40);
}
static void invalid_batches_are_refused_with_kafkas_code(void **state)
{
    (void)state;
    all_of("invalid", 332);
}
static void odd_but_accepted_batches_are_taken(void **state)
{
    (void)state;
    all_of("accepted", 125);
}
static void bombs_are_met_within_the_pool(void **state)
{
    (void)state;
    all_of("bomb", 14);
}

static void a_window_of_eleven_bytes_reads_the_same(void **state)
{
    (void)state;
    batch_vectors_window(11);
    all_of("valid", 127);
    all_of("control", 7);
    all_of("legacy", 40);
    all_of("accepted", 125);
    all_of("invalid", 332);
    batch_vectors_window(0);
}

static void nothing_is_left_in_the_pool(void **state)
{
    (void)state;
    struct ot_pool *pool = batch_vectors_pool();
    assert_true(ot_pool_used_bytes(pool) <= BATCH_VECTORS_POOL_BYTES / 2); /* what the context keeps for reuse */
    batch_vectors_free();                                                  /* asserts that every buffer came back */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_batches_are_read_and_built_again),
        cmocka_unit_test(control_batches_are_read_and_built_again),
        cmocka_unit_test(legacy_message_sets_are_read),
        cmocka_unit_test(invalid_batches_are_refused_with_kafkas_code),
        cmocka_unit_test(odd_but_accepted_batches_are_taken),
        cmocka_unit_test(bombs_are_met_within_the_pool),
        cmocka_unit_test(a_window_of_eleven_bytes_reads_the_same),
        cmocka_unit_test(nothing_is_left_in_the_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
