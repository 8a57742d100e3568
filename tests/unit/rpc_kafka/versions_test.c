/* Version negotiation (traps N), refusals, and every served version fed with the golden requests. */
#include "client.h"

#include "base/wire/api_versions_request.h"
#include "base/wire/api_versions_response.h"
#include "base/wire/metadata_request.h"
#include "base/wire/metadata_response.h"
#include "vectors.h"
#include "wire_vectors.h"

static void ask_versions(int fd, int16_t version, const char *name, const char *software_version, struct ot_api_versions_response *response)
{
    struct ot_api_versions_request request;
    ot_api_versions_request_defaults(&request);
    if (version >= 3) {
        request.client_software_name = ot_str_of(name);
        request.client_software_version = ot_str_of(software_version);
    }
    exchange(fd, OT_API_API_VERSIONS, version, &request, response);
}

static const struct ot_api_versions_response_api_version *key_of(const struct ot_api_versions_response *response, int16_t key)
{
    for (int32_t i = 0; i < response->api_keys.count; i++) {
        if (response->api_keys.items[i].api_key == key) return &response->api_keys.items[i];
    }
    return NULL;
}

static void an_unknown_version_of_apiversions_is_answered_in_layout_0(void **state)
{
    static const int16_t versions[] = { 6, 99, 32767, -1 };
    (void)state;
    door_start();
    const int fd = client();
    for (size_t i = 0; i < OT_ARRAY_COUNT(versions); i++) {
        struct ot_api_versions_response response;
        const int32_t correlation = ask_bytes(fd, OT_API_API_VERSIONS, versions[i], "\0junk", 5);
        hear(fd, OT_API_API_VERSIONS, 0, correlation, &response);
        assert_int_equal(response.error_code, 35);
        assert_int_equal(key_of(&response, OT_API_API_VERSIONS)->max_version, 5);
    }
    struct ot_api_versions_response response;
    ask_versions(fd, 3, "good", "1", &response);       /* the connection lives on */
    assert_int_equal(response.error_code, 0);
    close(fd);
    door_stop();
}

static void the_answer_of_apiversions_0_is_this_to_the_byte(void **state)
{
    (void)state;
    door_start();
    const int fd = client();
    uint32_t bytes = 0;
    door.correlation = 0x01020303;
    ask_bytes(fd, OT_API_API_VERSIONS, 0, NULL, 0);
    const uint8_t *frame = hear_frame(fd, &bytes);
    /* correlation id, error 0, count, then key, min, max */
    static const uint8_t head[] = { 1, 2, 3, 4, 0, 0, 0, 0, 0, 58, 0, 0, 0, 0, 0, 13, 0, 1, 0, 4, 0, 18, 0, 2, 0, 1, 0, 11, 0, 3, 0, 0, 0, 13 };
    assert_int_equal(bytes, 10 + 58 * 6);
    assert_memory_equal(frame, head, sizeof head);
    close(fd);
    door_stop();
}

static void ranges_are_those_of_kafka(void **state)
{
    static const struct { int16_t key, min, max; } ranges[] = {
        { OT_API_PRODUCE, 0, 13 }, { OT_API_FETCH, 4, 18 }, { OT_API_LIST_OFFSETS, 1, 11 }, { OT_API_METADATA, 0, 13 }, { OT_API_FIND_COORDINATOR, 0, 6 },
        { OT_API_SASL_HANDSHAKE, 0, 1 }, { OT_API_API_VERSIONS, 0, 5 }, { OT_API_CREATE_TOPICS, 2, 7 }, { OT_API_DELETE_TOPICS, 1, 6 }, { OT_API_DELETE_RECORDS, 0, 2 },
        { OT_API_INIT_PRODUCER_ID, 0, 5 }, { OT_API_OFFSET_FOR_LEADER_EPOCH, 2, 4 }, { OT_API_DESCRIBE_ACLS, 1, 3 }, { OT_API_CREATE_ACLS, 1, 3 },
        { OT_API_DELETE_ACLS, 1, 3 }, { OT_API_DESCRIBE_CONFIGS, 1, 4 }, { OT_API_SASL_AUTHENTICATE, 0, 2 }, { OT_API_CREATE_PARTITIONS, 0, 3 },
        { OT_API_DESCRIBE_CLUSTER, 0, 2 },
        { OT_API_ALTER_CONFIGS, 0, 2 }, { OT_API_ALTER_REPLICA_LOG_DIRS, 1, 2 }, { OT_API_DESCRIBE_LOG_DIRS, 1, 5 }, { OT_API_ELECT_LEADERS, 0, 2 },
        { OT_API_INCREMENTAL_ALTER_CONFIGS, 0, 1 }, { OT_API_ALTER_PARTITION_REASSIGNMENTS, 0, 1 }, { OT_API_LIST_PARTITION_REASSIGNMENTS, 0, 0 },
        { OT_API_DESCRIBE_CLIENT_QUOTAS, 0, 1 }, { OT_API_ALTER_CLIENT_QUOTAS, 0, 1 }, { OT_API_DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0 },
        { OT_API_DESCRIBE_QUORUM, 0, 2 }, { OT_API_UPDATE_FEATURES, 0, 2 }, { OT_API_DESCRIBE_PRODUCERS, 0, 0 }, { OT_API_GET_TELEMETRY_SUBSCRIPTIONS, 0, 0 },
        { OT_API_PUSH_TELEMETRY, 0, 0 }, { OT_API_LIST_CONFIG_RESOURCES, 0, 1 }, { OT_API_DESCRIBE_TOPIC_PARTITIONS, 0, 0 },
        { OT_API_OFFSET_COMMIT, 2, 10 }, { OT_API_OFFSET_FETCH, 1, 10 }, { OT_API_JOIN_GROUP, 0, 9 }, { OT_API_HEARTBEAT, 0, 4 }, { OT_API_LEAVE_GROUP, 0, 5 },
        { OT_API_SYNC_GROUP, 0, 5 }, { OT_API_DESCRIBE_GROUPS, 0, 6 }, { OT_API_LIST_GROUPS, 0, 5 }, { OT_API_DELETE_GROUPS, 0, 3 }, { OT_API_OFFSET_DELETE, 0, 0 },
        { OT_API_CONSUMER_GROUP_HEARTBEAT, 0, 1 }, { OT_API_CONSUMER_GROUP_DESCRIBE, 0, 1 },
        { OT_API_ADD_PARTITIONS_TO_TXN, 0, 5 }, { OT_API_ADD_OFFSETS_TO_TXN, 0, 4 }, { OT_API_END_TXN, 0, 5 }, { OT_API_WRITE_TXN_MARKERS, 1, 2 },
        { OT_API_DESCRIBE_TRANSACTIONS, 0, 0 }, { OT_API_LIST_TRANSACTIONS, 0, 2 }, { OT_API_TXN_OFFSET_COMMIT, 0, 6 },
        { OT_API_ADD_RAFT_VOTER, 0, 1 }, { OT_API_REMOVE_RAFT_VOTER, 0, 0 }, { OT_API_UNREGISTER_BROKER, 0, 0 } };
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 5; version++) {
        struct ot_api_versions_response response;
        ask_versions(fd, version, "good", "1", &response);
        assert_int_equal(response.error_code, 0);
        assert_int_equal(response.api_keys.count, OT_ARRAY_COUNT(ranges));
        for (size_t i = 0; i < OT_ARRAY_COUNT(ranges); i++) {
            const struct ot_api_versions_response_api_version *key = key_of(&response, ranges[i].key);
            assert_non_null(key);
            assert_int_equal(key->min_version, ranges[i].min);
            assert_int_equal(key->max_version, ranges[i].max);
        }
    }
    close(fd);
    door_stop();
}

static void produce_12_comes_with_transaction_version_2_and_minimum_0_only_from_v4(void **state)
{
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 3; version <= 5; version++) {
        struct ot_api_versions_response response;
        ask_versions(fd, version, "good", "1", &response);
        assert_int_equal(response.finalized_features.count, 4);
        assert_str(response.finalized_features.items[0].name, "metadata.version");
        assert_int_equal(response.finalized_features.items[0].max_version_level, 33);
        assert_str(response.finalized_features.items[1].name, "transaction.version");
        assert_int_equal(response.finalized_features.items[1].max_version_level, 2);
        assert_str(response.finalized_features.items[2].name, "group.version");
        assert_int_equal(response.finalized_features.items[2].max_version_level, 1);
        assert_str(response.finalized_features.items[3].name, "ottla.version");
        assert_int_equal(response.finalized_features.items[3].max_version_level, 1);
        assert_int_equal(response.finalized_features_epoch, 42);
        assert_int_equal(response.supported_features.count, version >= 4 ? 4 : 2);     /* those with minimum 0 are not told before */
        assert_int_equal(response.supported_features.items[0].min_version, 7);
        if (version >= 4) assert_int_equal(response.supported_features.items[1].min_version, 0);
    }
    close(fd);
    door_stop();
}

static void odd_software_names_get_invalid_request_and_no_close(void **state)
{
    static const char *const odd[][2] = { { "bad name", "1" }, { "ok", "1 0" }, { "", "1" }, { "ok", "" }, { "-lead", "1" }, { "ok", "1\xc3\xa9" }, { "trail.", "1" } };
    static const char *const fine[][2] = { { "librdkafka", "2.3.0" }, { "apache-kafka-java", "4.4.0" }, { "x", "0" }, { "a.b-c", "v1.0-rc.2" } };
    struct ot_api_versions_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (size_t i = 0; i < OT_ARRAY_COUNT(odd); i++) {
        ask_versions(fd, 3, odd[i][0], odd[i][1], &response);
        assert_int_equal(response.error_code, 42);
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(fine); i++) {
        ask_versions(fd, 4, fine[i][0], fine[i][1], &response);
        assert_int_equal(response.error_code, 0);
    }
    close(fd);
    door_stop();
}

static void a_client_that_means_another_cluster_or_node_is_sent_back(void **state)
{
    struct ot_api_versions_request request;
    struct ot_api_versions_response response;
    (void)state;
    door_start();
    const int fd = client();
    ot_api_versions_request_defaults(&request);
    request.client_software_name = request.client_software_version = ot_str_of("1");
    request.cluster_id = ot_str_of("AAECAwQFBgcICQoLDA0ODw");
    request.node_id = 1;
    exchange(fd, OT_API_API_VERSIONS, 5, &request, &response);
    assert_int_equal(response.error_code, 0);
    request.node_id = 3;
    exchange(fd, OT_API_API_VERSIONS, 5, &request, &response);
    assert_int_equal(response.error_code, OT_ERR_REBOOTSTRAP_REQUIRED);
    request.node_id = -1;
    request.cluster_id = ot_str_of("somewhere-else-entirely");
    exchange(fd, OT_API_API_VERSIONS, 5, &request, &response);
    assert_int_equal(response.error_code, OT_ERR_REBOOTSTRAP_REQUIRED);
    close(fd);
    door_stop();
}

static void add_refused(void *arg, const struct ot_metric_reading *reading)
{
    if (reading->metric == OT_METRIC_requests_refused_total) *(uint64_t *)arg += reading->total;
}

static void what_is_not_served_closes_behind_the_answers_and_is_counted(void **state)
{
    static const struct { int16_t key, version; } refused[] = { { OT_API_METADATA, 14 }, { OT_API_FETCH, 3 }, { OT_API_PRODUCE, 2 }, { OT_API_FETCH, 19 },
        { OT_API_INIT_PRODUCER_ID, 6 }, { OT_API_JOIN_GROUP, 10 }, { 999, 0 }, { -1, 0 }, { OT_API_METADATA, -1 } };
    (void)state;
    door_start();
    for (size_t i = 0; i < OT_ARRAY_COUNT(refused); i++) {
        const int fd = client();
        struct ot_api_versions_request request;
        struct ot_api_versions_response response;
        ot_api_versions_request_defaults(&request);
        const int32_t correlation = ask(fd, OT_API_API_VERSIONS, 0, &request);
        ask_bytes(fd, refused[i].key, refused[i].version, "\0\0\0\0\0\0\0\0", 8);
        hear(fd, OT_API_API_VERSIONS, 0, correlation, &response);
        hear_end(fd);
        close(fd);
    }
    uint64_t count = 0;
    ot_metrics_each(door.metrics, add_refused, &count);
    assert_int_equal(count, OT_ARRAY_COUNT(refused));
    door_stop();
}

static void what_cannot_be_read_closes_only_its_connection(void **state)
{
    static const struct { const char *bytes; size_t count; } raw[] = { { "\0\0\0\2\0\3", 6 }, { "\0\0\0\1\0", 5 }, { "\0\0\0\x0b\0\3\0\1\0\0\0\7\0\1x", 15 },
        { "\0\0\0\x0e\0\3\0\1\0\0\0\7\xff\xff\x7f\xff\xff\xff", 18 }, { "GET / HTTP/1.1\r\n\r\n", 18 } };
    (void)state;
    door_start();
    const int other = client();
    for (size_t i = 0; i < OT_ARRAY_COUNT(raw); i++) {
        const int fd = client();
        say(fd, raw[i].bytes, raw[i].count);
        hear_end(fd);
        close(fd);
    }
    struct ot_api_versions_response response;
    ask_versions(other, 0, "", "", &response);
    assert_int_equal(response.error_code, 0);
    close(other);
    door_stop();
}

static void bytes_behind_a_request_are_ignored(void **state)
{
    struct ot_metadata_response response;
    (void)state;
    door_start();
    const int fd = client();
    /* null topics, no creation, no operations, no tags, and what librdkafka 2.16 adds */
    hear(fd, OT_API_METADATA, 13, ask_bytes(fd, OT_API_METADATA, 13, "\0\0\0\0\1\0\0", 7), &response);
    assert_int_equal(response.topics.count, 3);
    close(fd);
    door_stop();
}

static void unknown_tags_are_ignored(void **state)
{
    struct ot_metadata_request request;
    struct ot_metadata_response response;
    struct ot_wire_tag tags[] = { { 5, { (const uint8_t *)"five", 4, false } }, { 1u << 20, { (const uint8_t *)"y", 1, false } } };
    (void)state;
    door_start();
    const int fd = client();
    ot_metadata_request_defaults(&request);
    request.topics.count = 0;
    request._tags = (struct ot_wire_tags){ tags, 2 };
    exchange(fd, OT_API_METADATA, 12, &request, &response);
    assert_int_equal(response.brokers.count, 1);
    close(fd);
    door_stop();
}

/* ---- the golden requests: whatever they hold, each is answered in its version, or its connection ends; nothing breaks or hangs */

struct golden { uint32_t asked, answered, silent, closed; };

static void golden_one(void *arg, int line, json_t *object)
{
    struct golden *golden = arg;
    const json_t *api_field = json_object_get(object, "api");
    const char *type = json_string_value(json_object_get(object, "type"));
    (void)line;
    if (!json_is_integer(api_field) || strcmp(type, "request") != 0) return;
    const int16_t key = (int16_t)json_integer_value(api_field), version = (int16_t)json_integer_value(json_object_get(object, "version"));
    const struct ot_api *api = ot_api_find(key);
    static const int16_t served[] = { 0, 1, 2, 3, 10, 17, 18, 19, 20, 21, 22, 23, 29, 30, 31, 32, 36, 37, 60 };
    bool here = false;
    for (size_t i = 0; i < OT_ARRAY_COUNT(served); i++) here |= served[i] == key;
    if (!here || api == NULL || version < api->version_min || version > ot_api_version_max(api, false)) return;
    size_t bytes = 0;
    uint8_t *body = wire_vector_hex(object, "hex", &bytes);
    const int fd = client();
    const int32_t correlation = ask_bytes(fd, key, version, body, bytes);
    golden->asked++;
    uint8_t head[4];
    if (key == OT_API_PRODUCE && json_integer_value(json_object_get(json_object_get(object, "json"), "acks")) == 0) {
        shutdown(fd, SHUT_WR);             /* no answer is due: the next thing is the end */
        hear_end(fd);
        golden->silent++;
    } else if (hear_bytes(fd, head, 4)) {
        const uint32_t size = ot_load_u32(head);
        uint8_t *frame = malloc(size);
        void *response = malloc(api->response->structs[api->response->root].bytes);
        struct ot_wire_error error = { "", "" };
        int32_t told = 0;
        assert_true(hear_bytes(fd, frame, size));
        struct ot_reader in = ot_reader_over(frame, size);
        assert_int_equal(ot_wire_response_header_decode(api, version, &in, &door.arena, &told, &error), OT_OK);
        assert_int_equal(told, correlation);
        if (ot_wire_decode_all(api->response, version, &in, &door.arena, response, &error) != OT_OK)
            fail_msg("%s v%d: %s: %s", api->name, version, error.field, error.reason);
        golden->answered++;
        free(frame);
        free(response);
    } else {
        golden->closed++;
    }
    close(fd);
    free(body);
    ot_arena_reset(&door.arena);
}

static void every_golden_request_of_a_served_version_is_answered_in_its_version(void **state)
{
    struct golden golden = { 0 };
    (void)state;
    door_start();
    vectors_each("handed", golden_one, &golden);
    assert_true(golden.asked >= 3 * 80);
    assert_int_equal(golden.answered + golden.silent, golden.asked);
    assert_int_equal(golden.closed, 0);
    door_stop();
}

TEST_MAIN(cmocka_unit_test(an_unknown_version_of_apiversions_is_answered_in_layout_0), cmocka_unit_test(the_answer_of_apiversions_0_is_this_to_the_byte),
    cmocka_unit_test(ranges_are_those_of_kafka), cmocka_unit_test(produce_12_comes_with_transaction_version_2_and_minimum_0_only_from_v4),
    cmocka_unit_test(odd_software_names_get_invalid_request_and_no_close), cmocka_unit_test(a_client_that_means_another_cluster_or_node_is_sent_back),
    cmocka_unit_test(what_is_not_served_closes_behind_the_answers_and_is_counted), cmocka_unit_test(what_cannot_be_read_closes_only_its_connection),
    cmocka_unit_test(bytes_behind_a_request_are_ignored), cmocka_unit_test(unknown_tags_are_ignored), cmocka_unit_test(every_golden_request_of_a_served_version_is_answered_in_its_version))
