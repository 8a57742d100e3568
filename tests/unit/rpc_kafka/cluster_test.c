/* Metadata, topics, offsets, configuration and what is refused without security; the advertised address. */
#include "client.h"

#include "base/wire/create_acls_request.h"
#include "base/wire/create_acls_response.h"
#include "base/wire/create_partitions_request.h"
#include "base/wire/create_partitions_response.h"
#include "base/wire/create_topics_request.h"
#include "base/wire/create_topics_response.h"
#include "base/wire/delete_acls_request.h"
#include "base/wire/delete_acls_response.h"
#include "base/wire/delete_records_request.h"
#include "base/wire/delete_records_response.h"
#include "base/wire/delete_topics_request.h"
#include "base/wire/delete_topics_response.h"
#include "base/wire/describe_acls_request.h"
#include "base/wire/describe_acls_response.h"
#include "base/wire/describe_cluster_request.h"
#include "base/wire/describe_cluster_response.h"
#include "base/wire/describe_configs_request.h"
#include "base/wire/describe_configs_response.h"
#include "base/wire/find_coordinator_request.h"
#include "base/wire/find_coordinator_response.h"
#include "base/wire/init_producer_id_request.h"
#include "base/wire/init_producer_id_response.h"
#include "base/wire/list_offsets_request.h"
#include "base/wire/list_offsets_response.h"
#include "base/wire/metadata_request.h"
#include "base/wire/metadata_response.h"
#include "base/wire/offset_for_leader_epoch_request.h"
#include "base/wire/offset_for_leader_epoch_response.h"
#include "base/wire/sasl_authenticate_request.h"
#include "base/wire/sasl_authenticate_response.h"
#include "base/wire/sasl_handshake_request.h"
#include "base/wire/sasl_handshake_response.h"
#include "rpc/kafka/request.h"

#include <arpa/inet.h>
#include <netinet/in.h>

/* ---- metadata */

static void metadata(int fd, int16_t version, struct ot_metadata_request_metadata_request_topic *topics, int32_t count, bool create, struct ot_metadata_response *response)
{
    struct ot_metadata_request request;
    ot_metadata_request_defaults(&request);
    request.topics.items = topics;
    request.topics.count = count;
    if (version >= 4) request.allow_auto_topic_creation = create;
    exchange(fd, OT_API_METADATA, version, &request, response);
}

static void partitions_that_do_not_fit_are_not_left_out(void **state)
{
    struct ot_metadata_request_metadata_request_topic topic = { .name = ot_str_of("wide") };
    struct ot_metadata_request request;
    struct ot_metadata_response response;
    (void)state;
    door_start();
    (void)fake_topic("wide", 250000);
    int fd = client();
    ot_metadata_request_defaults(&request);
    request.topics.items = &topic;
    request.topics.count = 1;
    ask(fd, OT_API_METADATA, 12, &request);
    hear_end(fd);                              /* more than a request about named topics may take: rather no answer than one that shows fewer partitions */
    close(fd);
    fd = client();
    topic.name = ot_str_of("b");
    metadata(fd, 12, &topic, 1, false, &response);
    assert_int_equal(response.topics.items[0].partitions.count, 3);
    close(fd);
    door_stop();
}

static void null_means_all_and_empty_means_none_but_in_v0(void **state)
{
    struct ot_metadata_response response;
    (void)state;
    door_start();
    const int fd = client();
    metadata(fd, 0, NULL, 0, true, &response);
    assert_int_equal(response.topics.count, 3);
    for (int16_t version = 1; version <= 13; version++) {
        metadata(fd, version, NULL, -1, true, &response);
        assert_int_equal(response.topics.count, 3);
        assert_str(response.topics.items[0].name, "__in");         /* in the order of names */
        assert_true(response.topics.items[0].is_internal);
        assert_str(response.topics.items[2].name, "b");
        assert_int_equal(response.topics.items[2].partitions.count, 3);
        assert_int_equal(response.topics.items[2].partitions.items[1].leader_id, 1);
        assert_int_equal(response.topics.items[2].partitions.items[1].leader_epoch, version >= 7 ? 3 : -1);
        assert_int_equal(response.topics.items[2].partitions.items[2].error_code, OT_ERR_LEADER_NOT_AVAILABLE);
        assert_int_equal(response.topics.items[2].topic_id.bytes[3], version >= 10 ? 2 : 0);
        if (version >= 2) assert_str(response.cluster_id, "AAECAwQFBgcICQoLDA0ODw");
        metadata(fd, version, NULL, 0, true, &response);
        assert_int_equal(response.topics.count, 0);
        assert_int_equal(response.brokers.count, 1);
    }
    close(fd);
    door_stop();
}

static void the_answering_broker_is_listed_and_the_controller_too_or_it_is_none(void **state)
{
    struct ot_metadata_response response;
    (void)state;
    door_start();
    const int fd = client();
    metadata(fd, 9, NULL, 0, true, &response);
    assert_int_equal(response.controller_id, 1);
    assert_str(response.brokers.items[0].rack, "r1");
    fake.controller_id = 2;                /* not listed on this listener */
    metadata(fd, 9, NULL, 0, true, &response);
    assert_int_equal(response.controller_id, -1);
    fake.other_host = "other.example";
    metadata(fd, 9, NULL, 0, true, &response);
    assert_int_equal(response.brokers.count, 2);
    assert_int_equal(response.controller_id, 2);
    assert_str(response.brokers.items[1].host, "other.example");
    fake.other_host = NULL;
    fake.no_brokers = true;                /* not registered yet */
    metadata(fd, 9, NULL, 0, true, &response);
    assert_int_equal(response.brokers.count, 1);
    assert_int_equal(response.brokers.items[0].node_id, 1);
    fake.no_brokers = false;
    close(fd);
    door_stop();
}

static void unknown_topics_are_named_with_their_error(void **state)
{
    struct ot_metadata_request_metadata_request_topic topics[4] = { { .name = ot_str_of("nope") }, { .name = ot_str_of("b") }, { .name = ot_str_of("bad name") },
        { .name.null = true, .topic_id = { { 9 } } } };
    struct ot_metadata_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 4; version <= 13; version++) {
        metadata(fd, version, topics, version >= 12 ? 4 : 3, false, &response);
        assert_int_equal(response.topics.items[0].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_str(response.topics.items[0].name, "nope");
        assert_int_equal(response.topics.items[1].error_code, 0);
        assert_int_equal(response.topics.items[2].error_code, OT_ERR_INVALID_TOPIC_EXCEPTION);
        if (version < 12) continue;
        assert_int_equal(response.topics.items[3].error_code, OT_ERR_UNKNOWN_TOPIC_ID);
        assert_true(response.topics.items[3].name.null);
    }
    topics[0] = (struct ot_metadata_request_metadata_request_topic){ .name.null = true };
    memset(topics[0].topic_id.bytes, 2, 16);
    metadata(fd, 12, topics, 1, false, &response);
    assert_str(response.topics.items[0].name, "b");
    metadata(fd, 10, topics, 1, false, &response);     /* ids are for v12 and later */
    assert_int_equal(response.topics.items[0].error_code, OT_ERR_INVALID_REQUEST);
    assert_int_equal(fake.admins, 0);
    close(fd);
    door_stop();
}

static void a_topic_is_made_when_asked_and_allowed_and_is_there_at_once(void **state)
{
    struct ot_metadata_request_metadata_request_topic topics[3] = { { .name = ot_str_of("fresh") }, { .name = ot_str_of("fresh") }, { .name = ot_str_of("a") } };
    struct ot_metadata_response response;
    char text[200];
    (void)state;
    door_start();
    const int fd = client();
    metadata(fd, 4, topics, 3, false, &response);
    assert_int_equal(response.topics.items[0].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    metadata(fd, 4, topics, 3, true, &response);
    for (int i = 0; i < 3; i++) assert_int_equal(response.topics.items[i].error_code, 0);
    assert_int_equal(response.topics.items[0].partitions.count, 1);
    assert_int_equal(fake.admins, 1);
    assert_int_equal(fake.last_item.partition_count, -1);          /* the broker's defaults */
    topics[0].name = ot_str_of("__consumer_offsets");              /* made by who needs it, with its own configuration */
    metadata(fd, 9, topics, 1, true, &response);
    assert_int_equal(response.topics.items[0].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    topics[0].name = ot_str_of("fresh-3");
    metadata(fd, 3, topics, 1, true, &response);                   /* before v4 always allowed */
    assert_int_equal(response.topics.items[0].error_code, 0);
    assert_int_equal(broker_config_set(fake.config, BROKER_SOURCE_FLAG, "test", "auto.create.topics.enable", "false", text, sizeof text), OT_OK);
    topics[0].name = ot_str_of("fresh-4");
    metadata(fd, 12, topics, 1, true, &response);
    assert_int_equal(response.topics.items[0].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(fake.admins, 2);
    close(fd);
    door_stop();
}

static void everybody_may_do_everything_without_an_authorizer(void **state)
{
    struct ot_metadata_request request;
    struct ot_metadata_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 8; version <= 11; version++) {
        ot_metadata_request_defaults(&request);
        request.topics.count = -1;
        request.include_topic_authorized_operations = true;
        request.include_cluster_authorized_operations = version <= 10;
        exchange(fd, OT_API_METADATA, version, &request, &response);
        assert_int_equal(response.topics.items[0].topic_authorized_operations, 3576);
        assert_int_equal(response.cluster_authorized_operations, version <= 10 ? 8096 : INT32_MIN);
    }
    close(fd);
    door_stop();
}

/* ---- advertised address (A1), over TCP */

static int tcp_client(const char *host, uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, host, &to.sin_addr);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    patience(fd);
    return fd;
}

static void a_client_is_told_the_address_it_reached_or_the_configured_one(void **state)
{
    struct rpc_kafka_listener listeners[2] = { { .name = "PLAINTEXT" }, { .name = "NAMED", .advertised_host = "kafka.example", .advertised_port = 19092 } };
    uint16_t ports[2];
    char text[200];
    (void)state;
    fake_init();
    for (int i = 0; i < 2; i++)
        assert_int_equal(ot_net_listen(i == 0 ? "127.0.0.1" : "127.0.0.2", 0, 50, listeners[i].fds, &listeners[i].fd_count, &ports[i], text, sizeof text), OT_OK);
    door_start_with(listeners, 2);
    for (int i = 0; i < 2; i++) {
        const int fd = tcp_client(i == 0 ? "127.0.0.1" : "127.0.0.2", ports[i]);
        struct ot_metadata_response response;
        metadata(fd, 9, NULL, 0, true, &response);
        assert_str(response.brokers.items[0].host, i == 0 ? "127.0.0.1" : "kafka.example");
        assert_int_equal(response.brokers.items[0].port, i == 0 ? ports[0] : 19092);
        struct ot_find_coordinator_request find;
        struct ot_find_coordinator_response found;
        ot_find_coordinator_request_defaults(&find);
        find.key = ot_str_of("g");
        exchange(fd, OT_API_FIND_COORDINATOR, 1, &find, &found);
        assert_str(found.host, i == 0 ? "127.0.0.1" : "kafka.example");
        close(fd);
    }
    door_stop();
}

static void a_client_behind_the_gateway_of_our_container_is_told_localhost(void **state)
{
    struct ot_metadata_response response;
    (void)state;
    door_start();
    (void)snprintf(door.server->gateway, sizeof door.server->gateway, "local");        /* the address of a socket pair's other end */
    int fd = client();
    metadata(fd, 9, NULL, 0, true, &response);
    assert_str(response.brokers.items[0].host, "localhost");
    close(fd);
    (void)snprintf(door.server->gateway, sizeof door.server->gateway, "172.17.0.1");   /* somebody else */
    fd = client();
    metadata(fd, 9, NULL, 0, true, &response);
    assert_str(response.brokers.items[0].host, "local");
    close(fd);
    door_stop();
}

/* ---- topics */

static void create_topics_answers_each_item_once(void **state)
{
    int32_t one[] = { 1 };
    struct ot_create_topics_request_creatable_replica_assignment assignments[2] = { { 0, { one, 1 }, { 0 } }, { 1, { one, 1 }, { 0 } } };
    struct ot_create_topics_request_creatable_topic_config configs[2] = { { ot_str_of("retention.ms"), ot_str_of("12345"), { 0 } },
        { ot_str_of("cleanup.policy"), ot_str_of("compact"), { 0 } } };
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 2; version <= 7; version++) {
        char name[16];
        (void)snprintf(name, sizeof name, "new-%d", version);
        struct ot_create_topics_request_creatable_topic topics[4] = {
            { .name = ot_str_of(name), .num_partitions = -1, .replication_factor = -1, .assignments.items = assignments, .assignments.count = 2, .configs.items = configs, .configs.count = 2 },
            { .name = ot_str_of("a"), .num_partitions = 1, .replication_factor = 1 }, { .name = ot_str_of("many"), .num_partitions = 1, .replication_factor = 3 },
            { .name = ot_str_of("bad name"), .num_partitions = 1, .replication_factor = 1 } };
        struct ot_create_topics_request request;
        struct ot_create_topics_response response;
        ot_create_topics_request_defaults(&request);
        request.topics.items = topics;
        request.topics.count = 4;
        exchange(fd, OT_API_CREATE_TOPICS, version, &request, &response);
        static const int16_t errors[] = { 0, 36, 38, 17 };
        assert_int_equal(response.topics.count, 4);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(response.topics.items[i].error_code, errors[i]);
            assert_true(response.topics.items[i].error_message.null == (errors[i] == 0));
        }
        assert_str(response.topics.items[2].error_message, "3 replicas, 1 broker");
        assert_int_equal(ot_uuid_is_zero(&response.topics.items[0].topic_id), version < 7);
        if (version < 5) continue;
        assert_int_equal(response.topics.items[0].num_partitions, 1);
        assert_int_equal(response.topics.items[1].num_partitions, -1);
        bool seen = false, defaulted = false;
        for (int32_t i = 0; i < response.topics.items[0].configs.count; i++) {
            const struct ot_create_topics_response_creatable_topic_configs *config = &response.topics.items[0].configs.items[i];
            if (ot_str_equal(config->name, ot_str_of("retention.ms"))) {
                assert_str(config->value, "12345");
                assert_int_equal(config->config_source, 1);
                seen = true;
            }
            if (ot_str_equal(config->name, ot_str_of("segment.bytes"))) {
                assert_int_equal(config->config_source, 5);
                defaulted = true;
            }
        }
        assert_true(seen && defaulted);
    }
    close(fd);
    door_stop();
}

static void topics_go_by_name_or_id_and_each_is_answered(void **state)
{
    struct ot_delete_topics_request request;
    struct ot_delete_topics_response response;
    struct ot_str names[2] = { ot_str_of("a"), ot_str_of("nope") };
    (void)state;
    door_start();
    const int fd = client();
    ot_delete_topics_request_defaults(&request);
    request.topic_names = (struct ot_str_array){ names, 2 };
    exchange(fd, OT_API_DELETE_TOPICS, 5, &request, &response);
    assert_int_equal(response.responses.count, 2);
    assert_int_equal(response.responses.items[0].error_code, 0);
    assert_int_equal(response.responses.items[1].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_str(response.responses.items[1].name, "nope");
    assert_false(response.responses.items[1].error_message.null);
    struct ot_delete_topics_request_delete_topic_state topics[4] = { { .name.null = true }, { .name.null = true }, { .name = ot_str_of("x") }, { .name.null = true } };
    memset(topics[0].topic_id.bytes, 2, 16);           /* b */
    memset(topics[1].topic_id.bytes, 77, 16);          /* nobody */
    memset(topics[2].topic_id.bytes, 3, 16);           /* both name and id */
    ot_delete_topics_request_defaults(&request);
    request.topics.items = topics;
    request.topics.count = 4;
    exchange(fd, OT_API_DELETE_TOPICS, 6, &request, &response);
    assert_int_equal(response.responses.count, 4);
    assert_int_equal(response.responses.items[0].error_code, 0);
    assert_str(response.responses.items[0].name, "b");
    assert_int_equal(response.responses.items[0].topic_id.bytes[0], 2);
    assert_int_equal(response.responses.items[1].error_code, OT_ERR_UNKNOWN_TOPIC_ID);
    assert_true(response.responses.items[1].name.null);
    assert_int_equal(response.responses.items[2].error_code, OT_ERR_INVALID_REQUEST);
    assert_int_equal(response.responses.items[3].error_code, OT_ERR_INVALID_REQUEST);
    assert_int_equal(fake.topic_count, 1);
    close(fd);
    door_stop();
}

static void partitions_are_added(void **state)
{
    int32_t one[] = { 1 };
    struct ot_create_partitions_request_create_partitions_assignment placed = { .broker_ids = { one, 1 } };
    struct ot_create_partitions_request_create_partitions_topic topics[2] = { { .name = ot_str_of("a"), .count = 2 }, { .name = ot_str_of("b"), .count = 2 } };
    struct ot_create_partitions_request request;
    struct ot_create_partitions_response response;
    (void)state;
    door_start();
    const int fd = client();
    topics[0].assignments.items = &placed;
    topics[0].assignments.count = 1;
    topics[1].assignments.count = -1;
    ot_create_partitions_request_defaults(&request);
    request.topics.items = topics;
    for (int16_t version = 0; version <= 3; version++) {
        topics[0].count = 2 + version;
        request.topics.count = 1;
        exchange(fd, OT_API_CREATE_PARTITIONS, version, &request, &response);
        assert_int_equal(response.results.items[0].error_code, 0);
        assert_int_equal(fake.last_item.assignment_count, 1);
        request.topics.count = 2;
        exchange(fd, OT_API_CREATE_PARTITIONS, version, &request, &response);
        assert_int_equal(response.results.items[1].error_code, OT_ERR_INVALID_PARTITIONS);
        assert_int_equal(fake.topics[0].partition_count, 2 + version);
    }
    close(fd);
    door_stop();
}

/* ---- offsets */

static void special_times_exist_from_the_version_that_brought_them(void **state)
{
    static const int16_t from[] = { 0, 1, 1, 7, 8, 9, 11 };        /* by -time */
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 1; version <= 11; version++) {
        struct ot_list_offsets_request_list_offsets_partition parts[9];
        struct ot_list_offsets_request_list_offsets_topic topic = { .name = ot_str_of("b"), .partitions.items = parts, .partitions.count = 9 };
        struct ot_list_offsets_request request;
        struct ot_list_offsets_response response;
        for (int32_t i = 0; i < 9; i++) parts[i] = (struct ot_list_offsets_request_list_offsets_partition){ .partition_index = i % 3, .current_leader_epoch = -1, .timestamp = -i };
        parts[8].partition_index = 8;
        parts[8].timestamp = 5;
        ot_list_offsets_request_defaults(&request);
        request.replica_id = -1;
        request.topics.items = &topic;
        request.topics.count = 1;
        exchange(fd, OT_API_LIST_OFFSETS, version, &request, &response);
        assert_int_equal(response.topics.items[0].partitions.count, 9);
        for (int32_t i = 0; i < 8; i++) {
            const struct ot_list_offsets_response_list_offsets_partition_response *part = &response.topics.items[0].partitions.items[i];
            const bool known = i <= 6 && version >= from[i];
            assert_int_equal(part->partition_index, i % 3);
            assert_int_equal(part->error_code, known ? 0 : OT_ERR_UNSUPPORTED_VERSION);
            assert_int_equal(part->offset, known ? 40 - i : -1);
            assert_int_equal(part->timestamp, known ? 1700000000000 : -1);
            assert_int_equal(part->leader_epoch, known && version >= 4 ? 4 : -1);
        }
        assert_int_equal(response.topics.items[0].partitions.items[8].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    }
    close(fd);
    door_stop();
}

static void epochs_and_low_watermarks_are_told(void **state)
{
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 2; version <= 4; version++) {
        struct ot_offset_for_leader_epoch_request_offset_for_leader_partition parts[2] = { { .partition = 2, .current_leader_epoch = -1, .leader_epoch = 3 },
            { .partition = 7, .current_leader_epoch = -1, .leader_epoch = 3 } };
        struct ot_offset_for_leader_epoch_request_offset_for_leader_topic topic = { .topic = ot_str_of("b"), .partitions.items = parts, .partitions.count = 2 };
        struct ot_offset_for_leader_epoch_request request;
        struct ot_offset_for_leader_epoch_response response;
        ot_offset_for_leader_epoch_request_defaults(&request);
        request.topics.items = &topic;
        request.topics.count = 1;
        exchange(fd, OT_API_OFFSET_FOR_LEADER_EPOCH, version, &request, &response);
        assert_int_equal(response.topics.items[0].partitions.items[0].partition, 2);
        assert_int_equal(response.topics.items[0].partitions.items[0].end_offset, 43);
        assert_int_equal(response.topics.items[0].partitions.items[0].leader_epoch, 4);
        assert_int_equal(response.topics.items[0].partitions.items[1].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(response.topics.items[0].partitions.items[1].end_offset, -1);
    }
    for (int16_t version = 0; version <= 2; version++) {
        struct ot_delete_records_request_delete_records_partition parts[2] = { { .partition_index = 1, .offset = -1 }, { .partition_index = 9, .offset = 3 } };
        struct ot_delete_records_request_delete_records_topic topic = { .name = ot_str_of("b"), .partitions.items = parts, .partitions.count = 2 };
        struct ot_delete_records_request request;
        struct ot_delete_records_response response;
        ot_delete_records_request_defaults(&request);
        request.topics.items = &topic;
        request.topics.count = 1;
        exchange(fd, OT_API_DELETE_RECORDS, version, &request, &response);
        assert_int_equal(response.topics.items[0].partitions.items[0].low_watermark, 39);
        assert_int_equal(response.topics.items[0].partitions.items[1].low_watermark, -1);
        assert_int_equal(response.topics.items[0].partitions.items[1].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    }
    close(fd);
    door_stop();
}

static void producer_ids_are_given_and_transactions_refused_for_good(void **state)
{
    struct ot_init_producer_id_request request;
    struct ot_init_producer_id_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 5; version++) {
        ot_init_producer_id_request_defaults(&request);
        request.transactional_id = none();
        exchange(fd, OT_API_INIT_PRODUCER_ID, version, &request, &response);
        assert_int_equal(response.error_code, 0);
        assert_int_equal(response.producer_id, 5000 + version);
        assert_int_equal(response.producer_epoch, 0);
        request.transactional_id = ot_str_of("t");
        exchange(fd, OT_API_INIT_PRODUCER_ID, version, &request, &response);
        assert_int_not_equal(response.error_code, 0);
        assert_false(ot_err_retriable((enum ot_err)response.error_code));
        assert_int_equal(response.producer_id, -1);
        request.transactional_id = ot_str_of("");
        exchange(fd, OT_API_INIT_PRODUCER_ID, version, &request, &response);
        assert_int_equal(response.error_code, OT_ERR_INVALID_REQUEST);
        if (version < 3) continue;
        request.transactional_id = none();
        request.producer_id = 4;
        exchange(fd, OT_API_INIT_PRODUCER_ID, version, &request, &response);
        assert_int_equal(response.error_code, OT_ERR_INVALID_REQUEST);     /* an id without its epoch */
    }
    ot_init_producer_id_request_defaults(&request);
    request.transactional_id = none();
    fake.id_error = OT_ERR_COORDINATOR_NOT_AVAILABLE;
    exchange(fd, OT_API_INIT_PRODUCER_ID, 4, &request, &response);
    fake.id_error = OT_OK;
    assert_int_equal(response.error_code, OT_ERR_COORDINATOR_LOAD_IN_PROGRESS);        /* there is none to look for */
    close(fd);
    door_stop();
}

/* ---- configuration and cluster */

static void configs(int fd, int16_t version, int8_t type, const char *name, struct ot_str *keys, int32_t key_count, bool more, struct ot_describe_configs_response *response)
{
    struct ot_describe_configs_request_describe_configs_resource resource = { .resource_type = type, .resource_name = ot_str_of(name), .configuration_keys = { keys, key_count } };
    struct ot_describe_configs_request request;
    ot_describe_configs_request_defaults(&request);
    request.resources.items = &resource;
    request.resources.count = 1;
    request.include_synonyms = more;
    request.include_documentation = more && version >= 3;
    exchange(fd, OT_API_DESCRIBE_CONFIGS, version, &request, response);
    assert_int_equal(response->results.count, 1);
}

static const struct ot_describe_configs_response_describe_configs_resource_result *config_of(const struct ot_describe_configs_response *response, const char *key)
{
    for (int32_t i = 0; i < response->results.items[0].configs.count; i++) {
        if (ot_str_equal(response->results.items[0].configs.items[i].name, ot_str_of(key))) return &response->results.items[0].configs.items[i];
    }
    fail_msg("%s is missing", key);
    return NULL;
}

static void configuration_is_told_with_source_synonyms_type_and_text(void **state)
{
    struct ot_describe_configs_response response;
    struct ot_str keys[2] = { ot_str_of("retention.ms"), ot_str_of("no.such.key") };
    (void)state;
    door_start();
    const int fd = client();
    fake.topics[0].keys[0] = "retention.ms";
    fake.topics[0].values[0] = "777";
    fake.topics[0].config_count = 1;
    for (int16_t version = 1; version <= 4; version++) {
        configs(fd, version, 2, "a", NULL, -1, true, &response);
        assert_int_equal(response.results.items[0].error_code, 0);
        const struct ot_describe_configs_response_describe_configs_resource_result *retention = config_of(&response, "retention.ms");
        assert_str(retention->value, "777");
        assert_int_equal(retention->config_source, 1);
        assert_false(retention->read_only);
        assert_true(retention->synonyms.count >= 2);
        assert_str(retention->synonyms.items[0].name, "retention.ms");
        assert_int_equal(retention->config_type, version >= 3 ? 5 : 0);
        assert_true(version < 3 || retention->documentation.bytes > 0);
        assert_int_equal(config_of(&response, "cleanup.policy")->config_type, version >= 3 ? 7 : 0);
        configs(fd, version, 2, "a", keys, 2, false, &response);
        assert_int_equal(response.results.items[0].configs.count, 1);
        assert_int_equal(response.results.items[0].configs.items[0].synonyms.count, 0);
        configs(fd, version, 4, "1", NULL, -1, true, &response);
        assert_true(config_of(&response, "log.dirs")->read_only);
        assert_str(config_of(&response, "num.partitions")->value, "1");
        assert_int_equal(config_of(&response, "ottla.network.threads")->config_source, 4);     /* set when the test began */
        configs(fd, version, 4, "6", NULL, -1, true, &response);
        assert_int_equal(response.results.items[0].error_code, OT_ERR_INVALID_REQUEST);
        assert_false(response.results.items[0].error_message.null);
        configs(fd, version, 2, "nope", NULL, -1, true, &response);
        assert_int_equal(response.results.items[0].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        configs(fd, version, 2, "bad name", NULL, -1, true, &response);
        assert_int_equal(response.results.items[0].error_code, OT_ERR_INVALID_TOPIC_EXCEPTION);
        configs(fd, version, 64, "x", NULL, -1, true, &response);
        assert_int_equal(response.results.items[0].error_code, OT_ERR_INVALID_REQUEST);
    }
    close(fd);
    door_stop();
}

static void the_cluster_is_described_to_those_who_ask_for_brokers(void **state)
{
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 2; version++) {
        struct ot_describe_cluster_request request;
        struct ot_describe_cluster_response response;
        ot_describe_cluster_request_defaults(&request);
        request.include_cluster_authorized_operations = true;
        exchange(fd, OT_API_DESCRIBE_CLUSTER, version, &request, &response);
        assert_str(response.cluster_id, "AAECAwQFBgcICQoLDA0ODw");
        assert_int_equal(response.controller_id, 1);
        assert_int_equal(response.brokers.count, 1);
        assert_int_equal(response.cluster_authorized_operations, 8096);
        if (version < 1) continue;
        request.endpoint_type = 2;
        exchange(fd, OT_API_DESCRIBE_CLUSTER, version, &request, &response);
        assert_int_equal(response.error_code, OT_ERR_MISMATCHED_ENDPOINT_TYPE);
        request.endpoint_type = 7;
        exchange(fd, OT_API_DESCRIBE_CLUSTER, version, &request, &response);
        assert_int_equal(response.error_code, OT_ERR_UNSUPPORTED_ENDPOINT_TYPE);
    }
    close(fd);
    door_stop();
}

static void coordinators_of_many_groups_are_found_among_many_brokers(void **state)
{
    static char names[500][32];
    static struct ot_str keys[500];
    struct ot_find_coordinator_request request;
    struct ot_find_coordinator_response response;
    (void)state;
    door_start();
    fake.crowd = 50;
    fake.coordinator = 149;
    const int fd = client();
    for (int i = 0; i < 500; i++) {
        (void)snprintf(names[i], sizeof names[i], "group-%d", i);
        keys[i] = ot_str_of(names[i]);
    }
    ot_find_coordinator_request_defaults(&request);
    request.coordinator_keys.items = keys;
    request.coordinator_keys.count = 500;
    exchange(fd, OT_API_FIND_COORDINATOR, 4, &request, &response);
    assert_int_equal(response.coordinators.count, 500);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(response.coordinators.items[i].error_code, 0);
        assert_int_equal(response.coordinators.items[i].node_id, 149);
        assert_str(response.coordinators.items[i].host, "far.example.com");
    }
    close(fd);
    door_stop();
}

static void find_coordinator_names_this_broker(void **state)
{
    struct ot_str keys[2] = { ot_str_of("g1"), ot_str_of("g2") };
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 6; version++) {
        struct ot_find_coordinator_request request;
        struct ot_find_coordinator_response response;
        for (int8_t type = 0; type <= (version >= 1 ? 3 : 0); type++) {
            ot_find_coordinator_request_defaults(&request);
            request.key_type = type;
            if (version <= 3) request.key = keys[0];
            else request.coordinator_keys = (struct ot_str_array){ keys, 2 };
            exchange(fd, OT_API_FIND_COORDINATOR, version, &request, &response);
            const int16_t error = type <= 1 ? 0 : OT_ERR_INVALID_REQUEST;
            if (version <= 3) {
                assert_int_equal(response.error_code, error);
                assert_int_equal(response.node_id, error == 0 ? 1 : -1);
                continue;
            }
            assert_int_equal(response.coordinators.count, 2);
            for (int i = 0; i < 2; i++) {
                assert_str(response.coordinators.items[i].key, i == 0 ? "g1" : "g2");
                assert_int_equal(response.coordinators.items[i].error_code, error);
                assert_int_equal(response.coordinators.items[i].node_id, error == 0 ? 1 : -1);
            }
        }
    }
    close(fd);
    door_stop();
}

static void security_answers_are_those_of_kafka_without_it(void **state)
{
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 1; version++) {
        struct ot_sasl_handshake_request request;
        struct ot_sasl_handshake_response response;
        ot_sasl_handshake_request_defaults(&request);
        request.mechanism = ot_str_of("PLAIN");
        exchange(fd, OT_API_SASL_HANDSHAKE, version, &request, &response);
        assert_int_equal(response.error_code, 34);
        assert_int_equal(response.mechanisms.count, 0);
    }
    struct ot_sasl_authenticate_request token;
    struct ot_sasl_authenticate_response told;
    ot_sasl_authenticate_request_defaults(&token);
    exchange(fd, OT_API_SASL_AUTHENTICATE, 2, &token, &told);
    assert_int_equal(told.error_code, 34);
    for (int16_t version = 1; version <= 3; version++) {
        struct ot_describe_acls_request describe;
        struct ot_describe_acls_response described;
        ot_describe_acls_request_defaults(&describe);
        exchange(fd, OT_API_DESCRIBE_ACLS, version, &describe, &described);
        assert_int_equal(described.error_code, 54);
        struct ot_create_acls_request_acl_creation creations[2] = { { .resource_name = ot_str_of("x"), .principal = ot_str_of("User:a"), .host = ot_str_of("*") } };
        creations[0].resource_pattern_type = 3;
        creations[1] = creations[0];
        struct ot_create_acls_request create;
        struct ot_create_acls_response created;
        ot_create_acls_request_defaults(&create);
        create.creations.items = creations;
        create.creations.count = 2;
        exchange(fd, OT_API_CREATE_ACLS, version, &create, &created);
        assert_int_equal(created.results.count, 2);
        assert_int_equal(created.results.items[1].error_code, 54);
        struct ot_delete_acls_request_delete_acls_filter filters[2] = { { .pattern_type_filter = 3 }, { .pattern_type_filter = 3 } };
        struct ot_delete_acls_request delete;
        struct ot_delete_acls_response deleted;
        ot_delete_acls_request_defaults(&delete);
        delete.filters.items = filters;
        delete.filters.count = 2;
        exchange(fd, OT_API_DELETE_ACLS, version, &delete, &deleted);
        assert_int_equal(deleted.filter_results.count, 2);
        assert_int_equal(deleted.filter_results.items[0].error_code, 54);
    }
    close(fd);
    door_stop();
}

TEST_MAIN(cmocka_unit_test(null_means_all_and_empty_means_none_but_in_v0), cmocka_unit_test(the_answering_broker_is_listed_and_the_controller_too_or_it_is_none),
    cmocka_unit_test(partitions_that_do_not_fit_are_not_left_out), cmocka_unit_test(unknown_topics_are_named_with_their_error), cmocka_unit_test(a_topic_is_made_when_asked_and_allowed_and_is_there_at_once),
    cmocka_unit_test(everybody_may_do_everything_without_an_authorizer), cmocka_unit_test(a_client_is_told_the_address_it_reached_or_the_configured_one),
    cmocka_unit_test(a_client_behind_the_gateway_of_our_container_is_told_localhost),
    cmocka_unit_test(create_topics_answers_each_item_once), cmocka_unit_test(topics_go_by_name_or_id_and_each_is_answered), cmocka_unit_test(partitions_are_added),
    cmocka_unit_test(special_times_exist_from_the_version_that_brought_them), cmocka_unit_test(epochs_and_low_watermarks_are_told),
    cmocka_unit_test(producer_ids_are_given_and_transactions_refused_for_good), cmocka_unit_test(configuration_is_told_with_source_synonyms_type_and_text),
    cmocka_unit_test(the_cluster_is_described_to_those_who_ask_for_brokers), cmocka_unit_test(find_coordinator_names_this_broker),
    cmocka_unit_test(coordinators_of_many_groups_are_found_among_many_brokers),
    cmocka_unit_test(security_answers_are_those_of_kafka_without_it))
