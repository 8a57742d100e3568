/* The hashes, checksums, varints and ids of misc.jsonl.gz; the assignors in it belong to groups. */
#include "testing.h"

#include "misc_vectors.h"
#include "vectors.h"

static void check(void *arg, int number, json_t *object)
{
    int *tally = arg;
    char why[200] = "";
    const int kind = misc_kind(object);
    if (kind < 0) return;
    if (!misc_vector_check(object, why, sizeof(why))) fail_msg("line %d: %s", number, why);
    tally[kind]++;
}

static void every_misc_vector_agrees(void **state)
{
    (void)state;
    static const int want[] = {200, 100, 20, 60, 57, 20}; /* in the order of misc_kinds */
    int tally[OT_ARRAY_COUNT(misc_kinds)] = {0};
    OT_STATIC_ASSERT(OT_ARRAY_COUNT(want) == OT_ARRAY_COUNT(misc_kinds), "a count for each kind");
    vectors_each("misc", check, tally);
    for (size_t i = 0; i < OT_ARRAY_COUNT(want); i++) assert_int_equal(tally[i], want[i]);
}

/* A check that finds nothing wrong with a wrong line would be worth nothing. */
static void a_wrong_misc_vector_is_noticed(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"kind\":\"murmur2\",\"key\":\"\",\"murmur2\":275646682,\"partition\":{\"1\":0}}",
        "{\"kind\":\"murmur2\",\"key\":\"\",\"murmur2\":275646681,\"partition\":{\"100\":82}}",
        "{\"kind\":\"murmur2\",\"key\":\"e\",\"murmur2\":1}",
        "{\"kind\":\"murmur2\"}",
        "{\"kind\":\"coordinator-partition\",\"id\":\"a\",\"hash\":97,\"partitions\":50,\"partition\":46}",
        "{\"kind\":\"coordinator-partition\",\"id\":\"a\",\"hash\":98,\"partitions\":50,\"partition\":47}",
        "{\"kind\":\"coordinator-partition\",\"id\":\"a\",\"hash\":97,\"partitions\":0,\"partition\":47}",
        "{\"kind\":\"share-coordinator-partition\",\"key\":\"a\",\"statePartition\":46}",
        "{\"kind\":\"crc32c\",\"data\":\"00\",\"crc\":1}",
        "{\"kind\":\"varint\",\"value\":1,\"varlong\":\"01\",\"varint\":\"02\"}",
        "{\"kind\":\"varint\",\"value\":1}",
        "{\"kind\":\"uuid\",\"hex\":\"00000000000000000000000000000001\",\"text\":\"AAAAAAAAAAAAAAAAAAAAAg\"}",
        "{\"kind\":\"uuid\",\"hex\":\"00\",\"text\":\"A\"}",
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(lines); i++) {
        json_error_t error;
        char why[200] = "";
        json_t *object = json_loads(lines[i], 0, &error);
        assert_non_null(object);
        assert_false(misc_vector_check(object, why, sizeof(why)));
        assert_string_not_equal(why, "");
        json_decref(object);
    }
}

TEST_MAIN(cmocka_unit_test(every_misc_vector_agrees), cmocka_unit_test(a_wrong_misc_vector_is_noticed))
