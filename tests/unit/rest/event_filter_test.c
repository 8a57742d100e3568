/* Which events name a broker. */
#include "testing.h"
#include "rest/event_filter.h"
#include <string.h>

static bool names(int64_t broker, const char *event)
{
    const struct rest_event_filter filter = { .types = UINT64_MAX, .topic = { .null = true }, .group = { .null = true }, .partition = -1, .broker = broker, .since_ms = -1 };
    struct rest_event out;
    return rest_event_passes(&filter, (struct ot_blob){ (const uint8_t *)event, (uint32_t)strlen(event), false }, &out);
}

static void of_a_changed_isr_those_are_named_who_left_or_joined_and_the_leader(void **state)
{
    static const char shrink[] = "{\"type\":\"isr_shrink\",\"topic\":\"t\",\"partition\":0,\"broker\":3,\"removed\":[3,4],\"from\":[1,2,3,4],\"leader\":1,\"isr\":[1,2],\"osr\":[3,4]}";
    static const char expand[] = "{\"type\":\"isr_expand\",\"topic\":\"t\",\"partition\":0,\"broker\":4,\"added\":[4],\"from\":[1,2],\"leader\":1,\"isr\":[1,2,4],\"osr\":[3]}";
    (void)state;
    assert_true(names(1, shrink));
    assert_true(names(3, shrink));
    assert_true(names(4, shrink));
    assert_false(names(2, shrink));            /* it was in sync before and after */
    assert_true(names(4, expand));
    assert_false(names(2, expand));
    assert_false(names(3, expand));
}

static void whoever_led_or_coordinated_is_named(void **state)
{
    (void)state;
    assert_true(names(1, "{\"type\":\"leader_changed\",\"topic\":\"t\",\"partition\":0,\"broker\":2,\"from\":1,\"leader\":2}"));
    assert_true(names(1, "{\"type\":\"coordinator_changed\",\"broker\":2,\"from\":1}"));
}

static void a_reassignment_names_all_its_replicas(void **state)
{
    static const char cancelled[] = "{\"type\":\"reassignment_cancelled\",\"topic\":\"t\",\"partition\":0,\"from\":[1,2],\"to\":[1,2],\"adding\":[],\"removing\":[]}";
    (void)state;
    assert_true(names(2, cancelled));
    assert_false(names(4, cancelled));
    assert_true(names(4, "{\"type\":\"reassignment_begun\",\"topic\":\"t\",\"partition\":0,\"from\":[1,2],\"to\":[1,4],\"adding\":[4],\"removing\":[2]}"));
}

static void numbers_of_something_else_name_nobody(void **state)
{
    (void)state;
    assert_false(names(3, "{\"type\":\"partitions_added\",\"topic\":\"t\",\"partitions\":6,\"from\":3}"));
    assert_false(names(1, "{\"type\":\"features_changed\",\"from\":1,\"to\":2}"));
    assert_true(names(1, "{\"type\":\"gap\",\"from_version\":7,\"to_version\":9}"));           /* nobody knows whom it hides */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_changed_isr_those_are_named_who_left_or_joined_and_the_leader),
        cmocka_unit_test(whoever_led_or_coordinated_is_named),
        cmocka_unit_test(a_reassignment_names_all_its_replicas),
        cmocka_unit_test(numbers_of_something_else_name_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
