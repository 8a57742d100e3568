/* What administrators ask beyond topics: configuration changes, directories, elections, reassignments, quorum, features, telemetry, quotas, credentials. */
#include "client.h"

#include "base/wire/alter_client_quotas_request.h"
#include "base/wire/alter_client_quotas_response.h"
#include "base/wire/alter_configs_request.h"
#include "base/wire/alter_configs_response.h"
#include "base/wire/alter_partition_reassignments_request.h"
#include "base/wire/alter_partition_reassignments_response.h"
#include "base/wire/alter_replica_log_dirs_request.h"
#include "base/wire/alter_replica_log_dirs_response.h"
#include "base/wire/api_versions_request.h"
#include "base/wire/api_versions_response.h"
#include "base/wire/describe_client_quotas_request.h"
#include "base/wire/describe_client_quotas_response.h"
#include "base/wire/describe_configs_request.h"
#include "base/wire/describe_configs_response.h"
#include "base/wire/describe_log_dirs_request.h"
#include "base/wire/describe_log_dirs_response.h"
#include "base/wire/describe_producers_request.h"
#include "base/wire/describe_producers_response.h"
#include "base/wire/describe_quorum_request.h"
#include "base/wire/describe_quorum_response.h"
#include "base/wire/describe_topic_partitions_request.h"
#include "base/wire/describe_topic_partitions_response.h"
#include "base/wire/describe_user_scram_credentials_request.h"
#include "base/wire/describe_user_scram_credentials_response.h"
#include "base/wire/elect_leaders_request.h"
#include "base/wire/elect_leaders_response.h"
#include "base/wire/get_telemetry_subscriptions_request.h"
#include "base/wire/get_telemetry_subscriptions_response.h"
#include "base/wire/incremental_alter_configs_request.h"
#include "base/wire/incremental_alter_configs_response.h"
#include "base/wire/list_config_resources_request.h"
#include "base/wire/list_config_resources_response.h"
#include "base/wire/list_partition_reassignments_request.h"
#include "base/wire/list_partition_reassignments_response.h"
#include "base/wire/push_telemetry_request.h"
#include "base/wire/push_telemetry_response.h"
#include "base/wire/update_features_request.h"
#include "base/wire/update_features_response.h"

static void config_changes_keep_their_order_and_each_resource_has_one_result(void **state)
{
    struct ot_incremental_alter_configs_request_alterable_config keys[] = { { .name = ot_str_of("cleanup.policy"), .config_operation = 2, .value = ot_str_of("compact") },
        { .name = ot_str_of("retention.ms"), .config_operation = 1, .value.null = true } },
        odd[] = { { .name = ot_str_of("retention.ms"), .config_operation = 7, .value = ot_str_of("1") } };
    struct ot_incremental_alter_configs_request_alter_configs_resource resources[] = {
        { .resource_type = 3, .resource_name = ot_str_of("x") }, { .resource_type = 2, .resource_name = ot_str_of("nope"), .configs = { keys, 2 } },
        { .resource_type = 2, .resource_name = ot_str_of("b"), .configs = { odd, 1 } }, { .resource_type = 4, .resource_name = ot_str_of("seven") },
        { .resource_type = 4, .resource_name = ot_str_of("") }, { .resource_type = 4, .resource_name = ot_str_of("99999999999") },
        { .resource_type = 16, .resource_name = ot_str_of("all-of-java") }, { .resource_type = 32, .resource_name = ot_str_of("patient") },
        { .resource_type = 2, .resource_name = ot_str_of("b"), .configs = { keys, 2 } } };
    static const int16_t errors[] = { OT_ERR_INVALID_REQUEST, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, OT_ERR_INVALID_REQUEST, OT_ERR_INVALID_REQUEST, 0, OT_ERR_INVALID_REQUEST, 0, 0, 0 };
    struct ot_incremental_alter_configs_request request;
    struct ot_incremental_alter_configs_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 1; version++) {
        ot_incremental_alter_configs_request_defaults(&request);
        request.resources.items = resources;
        request.resources.count = OT_ARRAY_COUNT(resources);
        request.validate_only = version == 1;
        fake.item_count = 0;
        exchange(fd, OT_API_INCREMENTAL_ALTER_CONFIGS, version, &request, &response);
        assert_int_equal(response.responses.count, OT_ARRAY_COUNT(resources));
        for (size_t i = 0; i < OT_ARRAY_COUNT(resources); i++) {
            assert_int_equal(response.responses.items[i].error_code, errors[i]);
            assert_int_equal(response.responses.items[i].resource_type, resources[i].resource_type);
            assert_true(ot_str_equal(response.responses.items[i].resource_name, resources[i].resource_name));
            assert_int_equal(response.responses.items[i].error_message.null, errors[i] == 0);
        }
        assert_int_equal(fake.item_count, 5);          /* the others never reached the broker */
        assert_int_equal(fake.last_item.kind, BROKER_ALTER_TOPIC_CONFIG);
        assert_int_equal(fake.last_item.config_count, 2);
        assert_int_equal(fake.last_item.validate_only, version == 1);
        assert_false(fake.last_item.replace_all);
    }
    close(fd);
    door_stop();
}

static void alter_configs_replaces_the_whole_set(void **state)
{
    struct ot_alter_configs_request_alterable_config keys[] = { { .name = ot_str_of("retention.ms"), .value = ot_str_of("5") } };
    struct ot_alter_configs_request_alter_configs_resource resources[] = { { .resource_type = 4, .resource_name = ot_str_of("1"), .configs = { keys, 1 } } };
    struct ot_alter_configs_request request;
    struct ot_alter_configs_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 2; version++) {
        ot_alter_configs_request_defaults(&request);
        request.resources.items = resources;
        request.resources.count = 1;
        exchange(fd, OT_API_ALTER_CONFIGS, version, &request, &response);
        assert_int_equal(response.responses.count, 1);
        assert_int_equal(response.responses.items[0].error_code, 0);
        assert_int_equal(fake.last_item.kind, BROKER_ALTER_BROKER_CONFIG);
        assert_int_equal(fake.last_item.broker_id, 1);
        assert_true(fake.last_item.replace_all);
        assert_non_null(fake.last_item.ops);           /* all SET: a null value is no removal */
    }
    close(fd);
    door_stop();
}

static void resources_are_listed_by_type(void **state)
{
    struct ot_list_config_resources_request request;
    struct ot_list_config_resources_response response;
    int8_t types[] = { 2, 9 };
    (void)state;
    door_start();
    const int fd = client();
    ot_list_config_resources_request_defaults(&request);
    exchange(fd, OT_API_LIST_CONFIG_RESOURCES, 0, &request, &response);
    assert_int_equal(response.config_resources.count, 1);       /* v0 knows nothing but subscriptions to client metrics */
    assert_str(response.config_resources.items[0].resource_name, "all-of-java");
    exchange(fd, OT_API_LIST_CONFIG_RESOURCES, 1, &request, &response);
    assert_int_equal(response.config_resources.count, 7);       /* a group that has something of its own among them */
    assert_int_equal(response.config_resources.items[6].resource_type, 16);
    request.resource_types = (struct ot_i8_array){ types, 1 };
    exchange(fd, OT_API_LIST_CONFIG_RESOURCES, 1, &request, &response);
    assert_int_equal(response.config_resources.count, 3);
    assert_str(response.config_resources.items[2].resource_name, "b");
    request.resource_types.count = 2;
    exchange(fd, OT_API_LIST_CONFIG_RESOURCES, 1, &request, &response);
    assert_int_equal(response.error_code, OT_ERR_UNSUPPORTED_VERSION);
    close(fd);
    door_stop();
}

static void directories_tell_sizes_and_room_and_only_what_was_asked(void **state)
{
    int32_t partitions[] = { 2, 7 };
    struct ot_describe_log_dirs_request_describable_log_dir_topic topics[] = { { .topic = ot_str_of("b"), .partitions = { partitions, 2 } } };
    struct ot_describe_log_dirs_request request;
    struct ot_describe_log_dirs_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 1; version <= 5; version++) {
        ot_describe_log_dirs_request_defaults(&request);
        request.topics.count = -1;
        exchange(fd, OT_API_DESCRIBE_LOG_DIRS, version, &request, &response);
        assert_int_equal(response.results.count, 2);
        assert_str(response.results.items[0].log_dir, "/d/0");
        assert_int_equal(response.results.items[0].topics.count, 2);
        assert_int_equal(response.results.items[0].topics.items[1].partitions.count, 2);
        assert_int_equal(response.results.items[0].topics.items[1].partitions.items[1].partition_size, 30);
        assert_int_equal(response.results.items[0].total_bytes, version >= 4 ? 1000 : -1);
        assert_int_equal(response.results.items[0].usable_bytes, version >= 4 ? 400 : -1);
        assert_int_equal(response.results.items[1].error_code, OT_ERR_KAFKA_STORAGE_ERROR);
        request.topics.items = topics;
        request.topics.count = 1;
        exchange(fd, OT_API_DESCRIBE_LOG_DIRS, version, &request, &response);
        assert_int_equal(response.results.items[0].topics.count, 1);
        assert_int_equal(response.results.items[0].topics.items[0].partitions.count, 1);
        assert_int_equal(response.results.items[0].topics.items[0].partitions.items[0].partition_index, 2);
    }
    close(fd);
    door_stop();
}

static void partitions(int fd, struct ot_describe_topic_partitions_request_topic_request *topics, int32_t count, int32_t limit, const char *cursor, int32_t at,
    struct ot_describe_topic_partitions_response *response)
{
    struct ot_describe_topic_partitions_request request;
    const struct ot_describe_topic_partitions_request_cursor from = { .topic_name = ot_str_of(cursor == NULL ? "" : cursor), .partition_index = at };
    ot_describe_topic_partitions_request_defaults(&request);
    request.topics.items = topics;
    request.topics.count = count;
    request.response_partition_limit = limit;
    if (cursor != NULL) request.cursor = &from;
    exchange(fd, OT_API_DESCRIBE_TOPIC_PARTITIONS, 0, &request, response);
}

/* Following the cursor, with any limit, tells every partition once. */
static void the_cursor_leads_through_all_partitions(void **state)
{
    struct ot_describe_topic_partitions_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int32_t limit = -1; limit <= 7; limit++) {
        char cursor[300] = "";
        int32_t at = 0, seen = 0, rounds = 0;
        for (bool more = true; more; rounds++) {
            assert_true(rounds <= 6);
            partitions(fd, NULL, 0, limit, rounds == 0 ? NULL : cursor, at, &response);
            int32_t here = 0;
            for (int32_t i = 0; i < response.topics.count; i++) here += response.topics.items[i].partitions.count;
            assert_true(here <= OT_MAX(limit, 1) && here > 0);
            seen += here;
            more = response.next_cursor != NULL;
            if (!more) break;
            snprintf(cursor, sizeof cursor, "%.*s", (int)response.next_cursor->topic_name.bytes, response.next_cursor->topic_name.data);
            at = response.next_cursor->partition_index;
        }
        assert_int_equal(seen, 6);
    }
    close(fd);
    door_stop();
}

static void named_partitions_come_sorted_once_and_odd_cursors_are_refused(void **state)
{
    struct ot_describe_topic_partitions_request_topic_request topics[] = { { .name = ot_str_of("b") }, { .name = ot_str_of("nope") }, { .name = ot_str_of("a") },
        { .name = ot_str_of("b") }, { .name = ot_str_of("bad name") } };
    struct ot_describe_topic_partitions_response response;
    (void)state;
    door_start();
    const int fd = client();
    partitions(fd, topics, 5, 2000, NULL, 0, &response);
    assert_int_equal(response.topics.count, 4);
    assert_str(response.topics.items[0].name, "a");
    assert_str(response.topics.items[1].name, "b");
    assert_int_equal(response.topics.items[1].partitions.count, 3);
    assert_int_equal(response.topics.items[1].partitions.items[2].error_code, OT_ERR_LEADER_NOT_AVAILABLE);
    assert_int_equal(response.topics.items[2].error_code, OT_ERR_INVALID_TOPIC_EXCEPTION);
    assert_int_equal(response.topics.items[3].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    partitions(fd, topics, 1, 2, "b", 2, &response);
    assert_int_equal(response.topics.items[0].partitions.count, 1);
    assert_null(response.next_cursor);
    partitions(fd, topics, 1, 2, "b", 2000000000, &response);
    assert_int_equal(response.topics.items[0].partitions.count, 0);
    partitions(fd, topics, 1, 2, "b", -1, &response);
    assert_int_equal(response.topics.items[0].error_code, OT_ERR_INVALID_REQUEST);
    partitions(fd, topics, 1, 2, "a", 0, &response);           /* not among those asked for */
    assert_int_equal(response.topics.items[0].error_code, OT_ERR_INVALID_REQUEST);
    partitions(fd, NULL, 0, 2, "aa", 5, &response);            /* gone meanwhile: on with the next */
    assert_str(response.topics.items[0].name, "b");
    assert_int_equal(response.topics.items[0].partitions.items[0].partition_index, 0);
    close(fd);
    door_stop();
}

static void producers_are_told_by_every_replica(void **state)
{
    int32_t indexes[] = { 0, 9 };
    struct ot_describe_producers_request_topic_request topics[] = { { .name = ot_str_of("a"), .partition_indexes = { indexes, 2 } },
        { .name = ot_str_of("bad name"), .partition_indexes = { indexes, 1 } } };
    struct ot_describe_producers_request request;
    struct ot_describe_producers_response response;
    (void)state;
    door_start();
    const int fd = client();
    ot_describe_producers_request_defaults(&request);
    request.topics.items = topics;
    request.topics.count = 2;
    exchange(fd, OT_API_DESCRIBE_PRODUCERS, 0, &request, &response);
    assert_int_equal(response.topics.items[0].partitions.items[0].active_producers.count, 2);
    assert_int_equal(response.topics.items[0].partitions.items[0].active_producers.items[1].current_txn_start_offset, 55);
    assert_int_equal(response.topics.items[0].partitions.items[1].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(response.topics.items[1].partitions.items[0].error_code, OT_ERR_INVALID_TOPIC_EXCEPTION);
    fake.leader_elsewhere = 2;
    fake.parts_elsewhere = 9;                  /* UNKNOWN_TOPIC_OR_PARTITION of a partition that there is would be asked again and again */
    exchange(fd, OT_API_DESCRIBE_PRODUCERS, 0, &request, &response);
    assert_int_equal(response.topics.items[0].partitions.items[1].error_code, OT_ERR_NOT_LEADER_OR_FOLLOWER);
    assert_int_equal(response.topics.items[0].partitions.items[0].error_code, 0);
    assert_int_equal(response.topics.items[0].partitions.items[0].active_producers.count, 2);
    close(fd);
    door_stop();
}

static void elections_are_not_needed_where_the_leader_is_the_one_to_be(void **state)
{
    int32_t indexes[] = { 0, 2, 9 };
    struct ot_elect_leaders_request_topic_partitions topics[] = { { .topic = ot_str_of("b"), .partitions = { indexes, 3 } } };
    struct ot_elect_leaders_request request;
    struct ot_elect_leaders_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 2; version++) {
        ot_elect_leaders_request_defaults(&request);
        request.topic_partitions.items = topics;
        request.topic_partitions.count = 1;
        exchange(fd, OT_API_ELECT_LEADERS, version, &request, &response);
        const struct ot_elect_leaders_response_partition_result *rows = response.replica_election_results.items[0].partition_result.items;
        assert_int_equal(rows[0].error_code, OT_ERR_ELECTION_NOT_NEEDED);
        assert_int_equal(rows[1].error_code, OT_ERR_PREFERRED_LEADER_NOT_AVAILABLE);       /* the fake's partition 2 has no leader */
        assert_int_equal(rows[2].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        request.topic_partitions.count = -1;
        exchange(fd, OT_API_ELECT_LEADERS, version, &request, &response);
        assert_int_equal(response.replica_election_results.count, 3);
        assert_int_equal(response.replica_election_results.items[0].partition_result.count, 0);
        assert_int_equal(response.replica_election_results.items[2].partition_result.count, 1);
        if (version == 0) continue;
        request.election_type = 1;
        exchange(fd, OT_API_ELECT_LEADERS, version, &request, &response);
        assert_int_equal(response.replica_election_results.items[2].partition_result.items[0].error_code, OT_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE);
        request.election_type = 5;
        exchange(fd, OT_API_ELECT_LEADERS, version, &request, &response);
        assert_int_equal(response.error_code, OT_ERR_INVALID_REQUEST);
        assert_int_equal(response.replica_election_results.count, 0);
    }
    close(fd);
    door_stop();
}

/* Kafka's controller looks itself. Here the broker that is asked does, so it has to know what was decided before. */
static void an_election_of_all_looks_at_what_was_decided_before_it_was_asked(void **state)
{
    int32_t indexes[] = { 0 };
    struct ot_elect_leaders_request_topic_partitions topics[] = { { .topic = ot_str_of("b"), .partitions = { indexes, 1 } } };
    struct ot_elect_leaders_request request;
    struct ot_elect_leaders_response response;
    (void)state;
    door_start();
    const int fd = client();
    ot_elect_leaders_request_defaults(&request);
    request.topic_partitions.items = topics;
    request.topic_partitions.count = 1;
    exchange(fd, OT_API_ELECT_LEADERS, 2, &request, &response);
    assert_int_equal(fake.reads, 0);           /* those that are named are the coordinator's to judge */
    fake.topic_to_be = "late";                 /* this broker has not heard of it yet */
    request.topic_partitions.count = -1;
    exchange(fd, OT_API_ELECT_LEADERS, 2, &request, &response);
    assert_int_equal(fake.reads, 1);
    assert_int_equal(response.error_code, 0);
    assert_int_equal(response.replica_election_results.count, 4);
    int32_t rows = -1;
    for (int32_t i = 0; i < 4; i++) {
        const struct ot_elect_leaders_response_replica_election_result *one = &response.replica_election_results.items[i];
        if (ot_str_equal(one->topic, ot_str_of("late"))) rows = one->partition_result.count;
    }
    assert_int_equal(rows, 1);
    fake.read_error = OT_ERR_REQUEST_TIMED_OUT;
    exchange(fd, OT_API_ELECT_LEADERS, 2, &request, &response);
    assert_int_equal(response.error_code, OT_ERR_REQUEST_TIMED_OUT);
    assert_int_equal(response.replica_election_results.count, 0);
    exchange(fd, OT_API_ELECT_LEADERS, 0, &request, &response);        /* no room for an error */
    assert_int_equal(response.replica_election_results.count, 4);
    close(fd);
    door_stop();
}

static void reassignments_are_checked_as_kafka_checks_them(void **state)
{
    int32_t same[] = { 1 }, none_such[] = { 99 }, twice[] = { 1, 1 }, minus[] = { -1 };
    struct ot_alter_partition_reassignments_request_reassignable_partition rows[] = { { .partition_index = 0, .replicas = { same, 1 } },
        { .partition_index = 0, .replicas = { none_such, 1 } }, { .partition_index = 0, .replicas = { twice, 2 } }, { .partition_index = 0, .replicas = { NULL, 0 } },
        { .partition_index = 0, .replicas = { NULL, -1 } }, { .partition_index = 9, .replicas = { same, 1 } }, { .partition_index = 0, .replicas = { minus, 1 } } };
    static const int16_t errors[] = { 0, OT_ERR_INVALID_REPLICA_ASSIGNMENT, OT_ERR_INVALID_REPLICA_ASSIGNMENT, OT_ERR_INVALID_REPLICA_ASSIGNMENT,
        0 /* the coordinator knows */, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, OT_ERR_INVALID_REPLICA_ASSIGNMENT };
    struct ot_alter_partition_reassignments_request_reassignable_topic topics[] = { { .name = ot_str_of("b"), .partitions = { rows, OT_ARRAY_COUNT(rows) } } };
    struct ot_alter_partition_reassignments_request request;
    struct ot_alter_partition_reassignments_response response;
    struct ot_list_partition_reassignments_request list;
    struct ot_list_partition_reassignments_response listed;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 1; version++) {
        ot_alter_partition_reassignments_request_defaults(&request);
        request.topics.items = topics;
        request.topics.count = 1;
        request.allow_replication_factor_change = version == 0;
        exchange(fd, OT_API_ALTER_PARTITION_REASSIGNMENTS, version, &request, &response);
        assert_int_equal(response.error_code, 0);
        for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) assert_int_equal(response.responses.items[0].partitions.items[i].error_code, errors[i]);
    }
    ot_list_partition_reassignments_request_defaults(&list);
    exchange(fd, OT_API_LIST_PARTITION_REASSIGNMENTS, 0, &list, &listed);
    assert_int_equal(listed.error_code, 0);
    assert_int_equal(listed.topics.count, 0);
    close(fd);
    door_stop();
}

/* However often a topic is named, and with what between: each mention has rows of its own. */
static void moves_of_a_topic_that_is_named_twice_are_told_twice(void **state)
{
    enum { MANY = 400 };
    int32_t one[] = { 1 }, many[MANY] = { 0 };
    struct ot_list_partition_reassignments_request_list_partition_reassignments_topics topics[] = { { .name = ot_str_of("b"), .partition_indexes = { one, 1 } },
        { .name = ot_str_of("nowhere"), .partition_indexes = { one, 1 } }, { .name = ot_str_of("b"), .partition_indexes = { many, MANY } }, { .name = ot_str_of("b"), .partition_indexes = { one, 1 } } };
    static const int32_t counts[] = { 1, MANY, 1 };
    struct ot_list_partition_reassignments_request request;
    struct ot_list_partition_reassignments_response response;
    (void)state;
    door_start();
    const int fd = client();
    fake.moving = true;
    for (int all = 0; all < 2; all++) {
        ot_list_partition_reassignments_request_defaults(&request);
        request.topics.items = topics;
        request.topics.count = all ? -1 : (int32_t)OT_ARRAY_COUNT(topics);
        exchange(fd, OT_API_LIST_PARTITION_REASSIGNMENTS, 0, &request, &response);
        assert_int_equal(response.error_code, 0);
        assert_int_equal(response.topics.count, 3);                /* of all: a, b and the internal one */
        for (int32_t t = 0; t < 3; t++) {
            if (!all) assert_int_equal(response.topics.items[t].partitions.count, counts[t]);
            for (int32_t i = 0; i < response.topics.items[t].partitions.count; i++) {
                const struct ot_list_partition_reassignments_response_ongoing_partition_reassignment *row = &response.topics.items[t].partitions.items[i];
                assert_int_equal(row->partition_index, all ? i : t == 1 ? 0 : 1);
                assert_int_equal(row->replicas.count, 2);
                assert_int_equal(row->replicas.items[0], 7);
                assert_int_equal(row->adding_replicas.items[0], 7);
                assert_int_equal(row->removing_replicas.items[0], 1);
            }
        }
    }
    fake.moving = false;
    close(fd);
    door_stop();
}

static void the_quorum_is_this_broker(void **state)
{
    struct ot_describe_quorum_request_partition_data rows[] = { { .partition_index = 0 }, { .partition_index = 1 } };
    struct ot_describe_quorum_request_topic_data topics[] = { { .topic_name = ot_str_of("__cluster_metadata"), .partitions = { rows, 1 } } };
    struct ot_describe_quorum_request request;
    struct ot_describe_quorum_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 2; version++) {
        ot_describe_quorum_request_defaults(&request);
        request.topics.items = topics;
        request.topics.count = 1;
        topics[0].partitions.count = 1;
        exchange(fd, OT_API_DESCRIBE_QUORUM, version, &request, &response);
        const struct ot_describe_quorum_response_partition_data *row = &response.topics.items[0].partitions.items[0];
        assert_int_equal(row->error_code, 0);
        assert_int_equal(row->leader_id, 1);
        assert_int_equal(row->high_watermark, 43);
        assert_int_equal(row->current_voters.count, 1);
        assert_int_equal(row->current_voters.items[0].log_end_offset, 43);
        assert_int_equal(row->current_voters.items[0].replica_directory_id.bytes[0], version >= 2 ? 8 : 0);
        assert_int_equal(response.nodes.count, version >= 2 ? 1 : 0);
        if (version >= 2) assert_int_equal(response.nodes.items[0].listeners.items[0].port, 9093);
        topics[0].partitions.count = 2;
        exchange(fd, OT_API_DESCRIBE_QUORUM, version, &request, &response);
        assert_int_equal(response.topics.items[0].partitions.items[0].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    }
    close(fd);
    door_stop();
}

static void the_quorum_tells_who_is_behind(void **state)
{
    struct ot_describe_quorum_request_partition_data part = { .partition_index = 0 };
    struct ot_describe_quorum_request_topic_data topic = { .topic_name = ot_str_of("__cluster_metadata"), .partitions = { &part, 1 } };
    struct ot_describe_quorum_request request = { .topics = { &topic, 1 } };
    struct ot_describe_quorum_response response;
    (void)state;
    door_start();
    fake.other_host = "other.example";
    const int fd = client();
    for (int16_t version = 0; version <= 2; version++) {
        exchange(fd, OT_API_DESCRIBE_QUORUM, version, &request, &response);
        const struct ot_describe_quorum_response_partition_data *row = &response.topics.items[0].partitions.items[0];
        assert_int_equal(row->current_voters.count, 1);
        assert_int_equal(row->observers.count, 1);
        assert_int_equal(row->observers.items[0].replica_id, 2);
        assert_int_equal(row->observers.items[0].log_end_offset, 40);
        assert_int_equal(row->observers.items[0].last_fetch_timestamp, version >= 1 ? 900 : -1);
        assert_int_equal(row->observers.items[0].last_caught_up_timestamp, -1);
        assert_int_equal(row->current_voters.items[0].last_caught_up_timestamp, version >= 1 ? 1000 : -1);
        assert_false(fake_peers.here);                     /* a client's: the coordinator is asked, wherever it runs */
    }
    fake.other_host = NULL;
    close(fd);
    door_stop();
}

static void our_own_feature_is_raised_by_the_coordinator_and_alone(void **state)
{
    struct ot_update_features_request_feature_update_key keys[] = { { .feature = ot_str_of("ottla.version"), .max_version_level = 2, .upgrade_type = 1 },
        { .feature = ot_str_of("group.version"), .max_version_level = 1, .upgrade_type = 1 } };
    struct ot_update_features_request request;
    struct ot_update_features_response response;
    (void)state;
    door_start();
    const int fd = client();
    ot_update_features_request_defaults(&request);
    request.feature_updates.items = keys;
    request.feature_updates.count = 2;
    exchange(fd, OT_API_UPDATE_FEATURES, 2, &request, &response);
    assert_int_equal(response.error_code, 42);         /* INVALID_REQUEST */
    request.feature_updates.count = 1;
    fake.raise_error = OT_ERR_INVALID_UPDATE_VERSION;
    exchange(fd, OT_API_UPDATE_FEATURES, 2, &request, &response);
    assert_int_equal(response.error_code, 95);
    assert_str(response.error_message, "The update failed for all features since the following feature had an error: broker 2");
    fake.raise_error = OT_OK;
    request.validate_only = true;
    exchange(fd, OT_API_UPDATE_FEATURES, 2, &request, &response);
    assert_int_equal(response.error_code, 0);
    assert_int_equal(fake.raised, 0);
    request.validate_only = false;
    exchange(fd, OT_API_UPDATE_FEATURES, 2, &request, &response);
    assert_int_equal(response.error_code, 0);
    assert_int_equal(fake.raised, 2);
    keys[0].max_version_level = 1;             /* where it is: nobody is asked */
    fake.raise_error = OT_ERR_INVALID_UPDATE_VERSION;
    exchange(fd, OT_API_UPDATE_FEATURES, 2, &request, &response);
    assert_int_equal(response.error_code, 0);
    fake.raise_error = OT_OK;
    close(fd);
    door_stop();
}

static void features_stay_at_their_level(void **state)
{
    struct ot_update_features_request_feature_update_key keys[] = { { .feature = ot_str_of("transaction.version"), .max_version_level = 2, .upgrade_type = 1 } };
    struct ot_update_features_request request;
    struct ot_update_features_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 2; version++) {
        ot_update_features_request_defaults(&request);
        request.feature_updates.items = keys;
        request.feature_updates.count = 1;
        keys[0].max_version_level = 2;
        keys[0].upgrade_type = 1;
        exchange(fd, OT_API_UPDATE_FEATURES, version, &request, &response);
        assert_int_equal(response.error_code, 0);
        assert_true(response.error_message.null);
        assert_int_equal(response.results.count, version <= 1 ? 1 : 0);
        for (int16_t level = -1; level <= 3; level++) {
            if (level == 2) continue;
            keys[0].max_version_level = level;
            keys[0].upgrade_type = 1;
            exchange(fd, OT_API_UPDATE_FEATURES, version, &request, &response);
            assert_int_equal(response.error_code, OT_ERR_INVALID_UPDATE_VERSION);
            assert_false(response.error_message.null);
            if (version == 0 || level < 0 || level > 2) continue;
            keys[0].upgrade_type = 2;          /* a downgrade that is asked for as such */
            exchange(fd, OT_API_UPDATE_FEATURES, version, &request, &response);
            assert_int_equal(response.error_code, 0);
            assert_int_equal(fake.last_item.kind, BROKER_ALTER_BROKER_CONFIG);
            assert_int_equal(fake.last_item.broker_id, -1);
        }
    }
    close(fd);
    door_stop();
}

static void a_subscription_is_described_with_what_it_says_and_what_it_leaves_open(void **state)
{
    struct ot_describe_configs_request_describe_configs_resource resources[] = { { .resource_type = 16, .resource_name = ot_str_of("all-of-java") },
        { .resource_type = 16, .resource_name = ot_str_of("nobody") }, { .resource_type = 16, .resource_name = ot_str_of("") } };
    struct ot_describe_configs_request request;
    struct ot_describe_configs_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (size_t i = 0; i < OT_ARRAY_COUNT(resources); i++) resources[i].configuration_keys.count = -1;
    ot_describe_configs_request_defaults(&request);
    request.resources.items = resources;
    request.resources.count = OT_ARRAY_COUNT(resources);
    request.include_synonyms = true;
    exchange(fd, OT_API_DESCRIBE_CONFIGS, 4, &request, &response);
    assert_int_equal(response.results.items[0].configs.count, 3);
    assert_str(response.results.items[0].configs.items[0].name, "interval.ms");
    assert_str(response.results.items[0].configs.items[0].value, "60000");
    assert_int_equal(response.results.items[0].configs.items[0].config_source, 7);
    assert_int_equal(response.results.items[0].configs.items[0].config_type, 3);
    assert_int_equal(response.results.items[0].configs.items[0].synonyms.count, 2);
    assert_int_equal(response.results.items[1].configs.count, 3);
    assert_str(response.results.items[1].configs.items[0].value, "300000");
    assert_int_equal(response.results.items[1].configs.items[0].config_source, 5);
    assert_int_equal(response.results.items[2].error_code, OT_ERR_INVALID_REQUEST);
    close(fd);
    door_stop();
}

static void introduce(int fd, const char *software)
{
    struct ot_api_versions_request ask;
    struct ot_api_versions_response answer;
    ot_api_versions_request_defaults(&ask);
    ask.client_software_name = ot_str_of(software);
    ask.client_software_version = ot_str_of("1");
    exchange(fd, OT_API_API_VERSIONS, 3, &ask, &answer);
    assert_int_equal(answer.error_code, 0);
}

static void clients_push_what_they_are_asked_for(void **state)
{
    struct ot_get_telemetry_subscriptions_request ask;
    struct ot_get_telemetry_subscriptions_response subscription;
    struct ot_push_telemetry_request push;
    struct ot_push_telemetry_response pushed;
    char text[200];
    (void)state;
    door_start();
    const int fd = client();
    ot_get_telemetry_subscriptions_request_defaults(&ask);
    exchange(fd, OT_API_GET_TELEMETRY_SUBSCRIPTIONS, 0, &ask, &subscription);
    assert_false(ot_uuid_is_zero(&subscription.client_instance_id));
    assert_int_equal(subscription.requested_metrics.count, 0);     /* nobody asks this software for anything */
    assert_int_equal(subscription.push_interval_ms, 300000);
    const int32_t old = subscription.subscription_id;
    introduce(fd, "apache-kafka-java");
    ask.client_instance_id = subscription.client_instance_id;
    exchange(fd, OT_API_GET_TELEMETRY_SUBSCRIPTIONS, 0, &ask, &subscription);
    assert_true(ot_uuid_equal(&ask.client_instance_id, &subscription.client_instance_id));
    assert_int_equal(subscription.requested_metrics.count, 2);
    assert_str(subscription.requested_metrics.items[0], "org.apache.kafka.producer.");
    assert_str(subscription.requested_metrics.items[1], "org.apache.kafka.consumer.");
    assert_int_equal(subscription.push_interval_ms, 60000);
    assert_int_not_equal(subscription.subscription_id, old);
    ot_push_telemetry_request_defaults(&push);
    push.client_instance_id = subscription.client_instance_id;
    push.subscription_id = old;
    push.metrics = (struct ot_blob){ (const uint8_t *)text, 5, false };
    exchange(fd, OT_API_PUSH_TELEMETRY, 0, &push, &pushed);
    assert_int_equal(pushed.error_code, OT_ERR_UNKNOWN_SUBSCRIPTION_ID);
    push.subscription_id = subscription.subscription_id;
    exchange(fd, OT_API_PUSH_TELEMETRY, 0, &push, &pushed);
    assert_int_equal(pushed.error_code, 0);
    exchange(fd, OT_API_PUSH_TELEMETRY, 0, &push, &pushed);
    assert_int_equal(pushed.error_code, OT_ERR_THROTTLING_QUOTA_EXCEEDED);
    push.terminating = true;
    exchange(fd, OT_API_PUSH_TELEMETRY, 0, &push, &pushed);
    assert_int_equal(pushed.error_code, 0);
    exchange(fd, OT_API_PUSH_TELEMETRY, 0, &push, &pushed);
    assert_int_equal(pushed.error_code, OT_ERR_INVALID_REQUEST);
    memset(&push.client_instance_id, 7, sizeof push.client_instance_id);
    push.compression_type = 9;
    exchange(fd, OT_API_PUSH_TELEMETRY, 0, &push, &pushed);
    assert_int_equal(pushed.error_code, OT_ERR_UNSUPPORTED_COMPRESSION_TYPE);
    close(fd);
    door_stop();
}

static void replicas_stay_in_their_directory(void **state)
{
    int32_t indexes[] = { 0, 9 };
    struct ot_alter_replica_log_dirs_request_alter_replica_log_dir_topic topics[] = { { .name = ot_str_of("b"), .partitions = { indexes, 2 } } };
    struct ot_alter_replica_log_dirs_request_alter_replica_log_dir dirs[] = { { .path = ot_str_of("/d/0"), .topics = { topics, 1 } },
        { .path = ot_str_of("/d/x"), .topics = { topics, 1 } } };
    struct ot_alter_replica_log_dirs_request request;
    struct ot_alter_replica_log_dirs_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 1; version <= 2; version++) {
        ot_alter_replica_log_dirs_request_defaults(&request);
        request.dirs.items = dirs;
        request.dirs.count = 2;
        exchange(fd, OT_API_ALTER_REPLICA_LOG_DIRS, version, &request, &response);
        assert_int_equal(response.results.count, 2);
        assert_int_equal(response.results.items[0].partitions.items[0].error_code, 0);
        assert_int_equal(response.results.items[0].partitions.items[1].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(response.results.items[1].partitions.items[0].error_code, OT_ERR_LOG_DIR_NOT_FOUND);
    }
    close(fd);
    door_stop();
}

static void there_are_no_quotas_and_none_is_taken(void **state)
{
    struct ot_describe_client_quotas_request_component_data components[] = { { .entity_type = ot_str_of("user"), .match_type = 0, .match = ot_str_of("u") },
        { .entity_type = ot_str_of("ip"), .match_type = 1, .match.null = true } };
    struct ot_alter_client_quotas_request_entity_data entity[] = { { .entity_type = ot_str_of("user"), .entity_name.null = true } };
    struct ot_alter_client_quotas_request_op_data ops[] = { { .key = ot_str_of("consumer_byte_rate"), .value = 5, .remove = false } };
    struct ot_alter_client_quotas_request_entry_data entries[] = { { .entity = { entity, 1 }, .ops = { ops, 1 } } };
    struct ot_describe_client_quotas_request ask;
    struct ot_describe_client_quotas_response found;
    struct ot_alter_client_quotas_request alter;
    struct ot_alter_client_quotas_response altered;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 1; version++) {
        ot_describe_client_quotas_request_defaults(&ask);
        ask.components.items = components;
        ask.components.count = 1;
        exchange(fd, OT_API_DESCRIBE_CLIENT_QUOTAS, version, &ask, &found);
        assert_int_equal(found.error_code, 0);
        assert_int_equal(found.entries.count, 0);
        ask.components.count = 2;
        exchange(fd, OT_API_DESCRIBE_CLIENT_QUOTAS, version, &ask, &found);
        assert_int_equal(found.error_code, OT_ERR_INVALID_REQUEST);
        assert_int_equal(found.entries.count, -1);
        ot_alter_client_quotas_request_defaults(&alter);
        alter.entries.items = entries;
        alter.entries.count = 1;
        ops[0].remove = false;
        exchange(fd, OT_API_ALTER_CLIENT_QUOTAS, version, &alter, &altered);
        assert_int_equal(altered.entries.items[0].error_code, OT_ERR_INVALID_REQUEST);
        assert_true(altered.entries.items[0].entity.items[0].entity_name.null);
        ops[0].remove = true;
        exchange(fd, OT_API_ALTER_CLIENT_QUOTAS, version, &alter, &altered);
        assert_int_equal(altered.entries.items[0].error_code, 0);
    }
    close(fd);
    door_stop();
}

static void there_are_no_credentials(void **state)
{
    struct ot_describe_user_scram_credentials_request_user_name users[] = { { .name = ot_str_of("bob") }, { .name = ot_str_of("al") }, { .name = ot_str_of("bob") }, { .name = ot_str_of("") } };
    struct ot_describe_user_scram_credentials_request request;
    struct ot_describe_user_scram_credentials_response response;
    (void)state;
    door_start();
    const int fd = client();
    ot_describe_user_scram_credentials_request_defaults(&request);
    request.users.count = -1;
    exchange(fd, OT_API_DESCRIBE_USER_SCRAM_CREDENTIALS, 0, &request, &response);
    assert_int_equal(response.results.count, 0);
    request.users.items = users;
    request.users.count = 4;
    exchange(fd, OT_API_DESCRIBE_USER_SCRAM_CREDENTIALS, 0, &request, &response);
    assert_int_equal(response.error_code, 0);
    assert_int_equal(response.results.count, 3);
    assert_str(response.results.items[1].user, "al");
    assert_int_equal(response.results.items[1].error_code, OT_ERR_RESOURCE_NOT_FOUND);
    assert_str(response.results.items[2].user, "bob");
    assert_int_equal(response.results.items[2].error_code, OT_ERR_DUPLICATE_RESOURCE);
    close(fd);
    door_stop();
}

TEST_MAIN(cmocka_unit_test(config_changes_keep_their_order_and_each_resource_has_one_result), cmocka_unit_test(alter_configs_replaces_the_whole_set),
    cmocka_unit_test(resources_are_listed_by_type), cmocka_unit_test(directories_tell_sizes_and_room_and_only_what_was_asked),
    cmocka_unit_test(the_cursor_leads_through_all_partitions), cmocka_unit_test(named_partitions_come_sorted_once_and_odd_cursors_are_refused),
    cmocka_unit_test(producers_are_told_by_every_replica), cmocka_unit_test(elections_are_not_needed_where_the_leader_is_the_one_to_be),
    cmocka_unit_test(an_election_of_all_looks_at_what_was_decided_before_it_was_asked),
    cmocka_unit_test(reassignments_are_checked_as_kafka_checks_them), cmocka_unit_test(moves_of_a_topic_that_is_named_twice_are_told_twice),
        cmocka_unit_test(the_quorum_is_this_broker), cmocka_unit_test(the_quorum_tells_who_is_behind), cmocka_unit_test(features_stay_at_their_level), cmocka_unit_test(our_own_feature_is_raised_by_the_coordinator_and_alone),
    cmocka_unit_test(a_subscription_is_described_with_what_it_says_and_what_it_leaves_open),
    cmocka_unit_test(clients_push_what_they_are_asked_for), cmocka_unit_test(replicas_stay_in_their_directory),
    cmocka_unit_test(there_are_no_quotas_and_none_is_taken), cmocka_unit_test(there_are_no_credentials))
