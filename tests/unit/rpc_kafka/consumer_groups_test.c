/* The group APIs of the new protocol byte for byte, in every version, over the real state machine (fake_groups.c knows the topic orders with three partitions). */
#include "client.h"

#include "base/wire/consumer_group_describe_request.h"
#include "base/wire/consumer_group_describe_response.h"
#include "base/wire/consumer_group_heartbeat_request.h"
#include "base/wire/consumer_group_heartbeat_response.h"
#include "base/wire/describe_configs_request.h"
#include "base/wire/describe_configs_response.h"
#include "base/wire/enums.h"

static void beat(int fd, int16_t version, const char *group, const char *member, int32_t epoch, struct ot_consumer_group_heartbeat_response *response)
{
    struct ot_consumer_group_heartbeat_request request;
    struct ot_str names[] = {ot_str_of("orders")};
    ot_consumer_group_heartbeat_request_defaults(&request);
    request.group_id = ot_str_of(group);
    request.member_id = ot_str_of(member);
    request.member_epoch = epoch;
    if (epoch == 0) {
        request.rebalance_timeout_ms = 60000;
        request.subscribed_topic_names = (struct ot_str_array){names, 1};
        request.topic_partitions.count = 0;
    }
    exchange(fd, OT_API_CONSUMER_GROUP_HEARTBEAT, version, &request, response);
}

static void describe(int fd, int16_t version, const char *group, struct ot_consumer_group_describe_response *response)
{
    struct ot_consumer_group_describe_request request;
    struct ot_str names[] = {ot_str_of(group)};
    ot_consumer_group_describe_request_defaults(&request);
    request.group_ids = (struct ot_str_array){names, 1};
    request.include_authorized_operations = true;
    exchange(fd, OT_API_CONSUMER_GROUP_DESCRIBE, version, &request, response);
    assert_int_equal(response->groups.count, 1);
}

static void a_member_lives_in_every_version(void **state)
{
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 1; version++) {
        struct ot_consumer_group_heartbeat_response beaten;
        struct ot_consumer_group_describe_response described;
        const char *group = version == 0 ? "g0" : "g1";
        beat(fd, version, group, version == 0 ? "" : "mine", 0, &beaten);
        assert_int_equal(beaten.error_code, 0);
        assert_int_equal(beaten.member_epoch, 2);
        assert_int_equal(beaten.heartbeat_interval_ms, 5000);
        assert_int_equal(beaten.member_id.bytes, version == 0 ? 22 : 4);       /* version 0 lets the server choose */
        assert_non_null(beaten.assignment);
        assert_int_equal(beaten.assignment->topic_partitions.count, 1);
        assert_int_equal(beaten.assignment->topic_partitions.items[0].partitions.count, 3);
        char member[64];
        (void)snprintf(member, sizeof member, "%.*s", (int)beaten.member_id.bytes, beaten.member_id.data);
        beat(fd, version, group, member, 2, &beaten);
        assert_int_equal(beaten.error_code, 0);
        assert_null(beaten.assignment);
        beat(fd, version, group, member, 9, &beaten);
        assert_int_equal(beaten.error_code, OT_ERR_FENCED_MEMBER_EPOCH);
        assert_true(beaten.error_message.bytes > 0);
        describe(fd, version, group, &described);
        assert_int_equal(described.groups.items[0].error_code, 0);
        assert_str(described.groups.items[0].group_state, "Stable");
        assert_str(described.groups.items[0].assignor_name, "uniform");
        assert_int_equal(described.groups.items[0].authorized_operations, 328);
        assert_int_equal(described.groups.items[0].members.count, 1);
        assert_str(described.groups.items[0].members.items[0].assignment.topic_partitions.items[0].topic_name, "orders");
        if (version >= 1) assert_int_equal(described.groups.items[0].members.items[0].member_type, 1);
        beat(fd, version, group, member, -1, &beaten);
        assert_int_equal(beaten.error_code, 0);
        assert_int_equal(beaten.member_epoch, -1);
        describe(fd, version, group, &described);
        assert_str(described.groups.items[0].group_state, "Empty");
    }
    close(fd);
    door_stop();
}

static void what_is_refused_has_words(void **state)
{
    (void)state;
    door_start();
    const int fd = client();
    struct ot_consumer_group_heartbeat_response beaten;
    struct ot_consumer_group_describe_response described;
    beat(fd, 1, "g", "", 0, &beaten);
    assert_int_equal(beaten.error_code, OT_ERR_INVALID_REQUEST);
    assert_str(beaten.error_message, "MemberId can't be empty.");
    beat(fd, 1, "nobody", "m", 3, &beaten);
    assert_int_equal(beaten.error_code, OT_ERR_GROUP_ID_NOT_FOUND);
    describe(fd, 1, "nobody", &described);
    assert_int_equal(described.groups.items[0].error_code, OT_ERR_GROUP_ID_NOT_FOUND);
    assert_str(described.groups.items[0].error_message, "Group nobody not found.");
    fake.group_error = OT_ERR_COORDINATOR_LOAD_IN_PROGRESS;
    beat(fd, 1, "g", "m", 0, &beaten);
    assert_int_equal(beaten.error_code, OT_ERR_COORDINATOR_LOAD_IN_PROGRESS);
    describe(fd, 1, "g", &described);
    assert_int_equal(described.groups.items[0].error_code, OT_ERR_COORDINATOR_LOAD_IN_PROGRESS);
    fake.group_error = OT_OK;
    close(fd);
    door_stop();
}

static void a_group_tells_its_own_configs_and_the_servers(void **state)
{
    (void)state;
    door_start();
    const int fd = client();
    struct ot_describe_configs_request request;
    struct ot_describe_configs_request_describe_configs_resource resource = {.resource_type = OT_CONFIG_RESOURCE_GROUP, .resource_name = ot_str_of("patient"),
        .configuration_keys = {NULL, -1}};
    struct ot_describe_configs_response response;
    ot_describe_configs_request_defaults(&request);
    request.resources.items = &resource;
    request.resources.count = 1;
    request.include_synonyms = true;
    exchange(fd, OT_API_DESCRIBE_CONFIGS, 4, &request, &response);
    assert_int_equal(response.results.items[0].error_code, 0);
    assert_int_equal(response.results.items[0].configs.count, 3);
    assert_str(response.results.items[0].configs.items[1].name, "consumer.heartbeat.interval.ms");
    assert_str(response.results.items[0].configs.items[1].value, "5000");
    assert_str(response.results.items[0].configs.items[2].value, "50000");
    assert_int_equal(response.results.items[0].configs.items[2].config_source, OT_CONFIG_SOURCE_GROUP_CONFIG);
    assert_int_equal(response.results.items[0].configs.items[2].synonyms.count, 2);
    close(fd);
    door_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_lives_in_every_version),
        cmocka_unit_test(what_is_refused_has_words),
        cmocka_unit_test(a_group_tells_its_own_configs_and_the_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
