#include "testing.h"

#include "base/err.h"

static const enum ot_err all[] = {
#define X(name, kafka, http, grpc, retriable, text) OT_ERR_##name,
    OT_KAFKA_ERRORS(X) OT_HOUSE_ERRORS(X)
#undef X
};

static void every_row_is_found_by_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(all); i++) {
        enum ot_err found = OT_ERR_BUSY;
        assert_true(ot_err_by_name(ot_err_name(all[i]), &found));
        assert_int_equal(found, all[i]);
    }
    enum ot_err untouched = OT_ERR_BUSY;
    assert_false(ot_err_by_name("NO_SUCH_ERROR", &untouched));
    assert_int_equal(untouched, OT_ERR_BUSY);
}

static void a_kafka_error_goes_out_under_its_own_code(void **state)
{
    (void)state;
    assert_int_equal(ot_err_kafka(OT_OK), 0);
    assert_int_equal(ot_err_kafka(OT_ERR_UNKNOWN_SERVER_ERROR), -1);
    assert_int_equal(ot_err_kafka(OT_ERR_NOT_LEADER_OR_FOLLOWER), 6);
    for (size_t i = 0; i < OT_ARRAY_COUNT(all); i++) {
        if ((int)all[i] < OT_ERR_HOUSE_FIRST) assert_int_equal(ot_err_kafka(all[i]), (int)all[i]);
    }
}

static void a_house_error_goes_out_under_a_code_that_clients_know(void **state)
{
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(all); i++) {
        const int16_t code = ot_err_kafka(all[i]);
        assert_true(code >= -1 && code < 1000);
        assert_true(code != 0 || all[i] == OT_OK); /* an error never looks like success */
        assert_string_not_equal(ot_err_name((enum ot_err)code), "");
    }
    assert_int_equal(ot_err_kafka(OT_ERR_IO), 56);
}

static void http_and_grpc_numbers_are_in_range(void **state)
{
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(all); i++) {
        const int http = ot_err_http(all[i]), grpc = ot_err_grpc(all[i]);
        if (all[i] == OT_OK) {
            assert_int_equal(http, 200);
            assert_int_equal(grpc, 0);
        } else {
            assert_true(http >= 400 && http < 600);
            assert_true(grpc > 0 && grpc <= 16);
        }
    }
}

static void an_unknown_number_is_an_unknown_server_error(void **state)
{
    (void)state;
    const int unknown[] = {-2, -32768, 137, 500, OT_ERR_HOUSE_FIRST, OT_ERR_HOUSE_END, 32767};
    for (size_t i = 0; i < OT_ARRAY_COUNT(unknown); i++) {
        assert_string_equal(ot_err_name((enum ot_err)unknown[i]), "UNKNOWN_SERVER_ERROR");
        assert_int_equal(ot_err_kafka((enum ot_err)unknown[i]), -1);
    }
}

static void texts_are_short_and_for_people(void **state)
{
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(all); i++) {
        const char *text = ot_err_text(all[i]);
        const size_t bytes = strlen(text);
        assert_in_range(bytes, 2, 100);
        assert_true(text[0] >= 'a' && text[0] <= 'z');
        assert_true(text[bytes - 1] != '.' && text[bytes - 1] != ' ');
        for (size_t j = 0; j < i; j++) assert_string_not_equal(text, ot_err_text(all[j])); /* each says something of its own */
    }
}

static void fail_a_fact(void *arg)
{
    OT_ASSERT(arg != NULL);
}

static void a_failed_assertion_stops_the_process(void **state)
{
    (void)state;
    assert_true(test_aborts(fail_a_fact, NULL));
    assert_false(test_aborts(fail_a_fact, state));
}

TEST_MAIN(cmocka_unit_test(every_row_is_found_by_its_name), cmocka_unit_test(a_kafka_error_goes_out_under_its_own_code),
    cmocka_unit_test(a_house_error_goes_out_under_a_code_that_clients_know), cmocka_unit_test(http_and_grpc_numbers_are_in_range),
    cmocka_unit_test(an_unknown_number_is_an_unknown_server_error), cmocka_unit_test(texts_are_short_and_for_people),
    cmocka_unit_test(a_failed_assertion_stops_the_process))
