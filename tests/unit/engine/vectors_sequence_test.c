#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sequence_vectors.h"
#include "vectors.h"

static void check_line(void *arg, int line, json_t *object)
{
    char why[256] = "";
    if (strcmp(json_string_value(json_object_get(object, "kind")), "sequence") != 0) return;
    if (!vectors_sequence_line(object, why, sizeof why)) fail_msg("line %d: %s", line, why);
    (*(int *)arg)++;
}

static void every_sequence_ends_as_in_kafka(void **state)
{
    int seen = 0;
    (void)state;
    (void)vectors_each("batches", check_line, &seen);
    if (getenv("OTTLA_VECTORS") == NULL) assert_int_equal(seen, 18);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_sequence_ends_as_in_kafka) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
