/* Every handed message vector, and each of them with too little memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "vectors.h"
#include "wire_vectors.h"

static void check(void *arg, int line, json_t *object)
{
    struct wire_json_why why = {""};
    (void)arg;
    if (!wire_vector_check(object, &why)) fail_msg("line %d: %s", line, why.text);
}

static void check_arena(void *arg, int line, json_t *object)
{
    struct wire_json_why why = {""};
    (void)arg;
    if (!wire_vector_check_arena(object, &why)) fail_msg("line %d: %s", line, why.text);
}

static void every_message_decodes_compares_and_encodes_to_the_same_bytes(void **state)
{
    (void)state;
    assert_true(vectors_each("handed", check, NULL) > 0);
}

static void too_little_memory_is_refused_at_every_size(void **state)
{
    (void)state;
    assert_true(vectors_each("handed", check_arena, NULL) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_decodes_compares_and_encodes_to_the_same_bytes),
        cmocka_unit_test(too_little_memory_is_refused_at_every_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
