/* Transactions at the Kafka door: every version of every request, over the real coordinator's machine. */
#include "client.h"

#include "base/wire/add_offsets_to_txn_request.h"
#include "base/wire/add_offsets_to_txn_response.h"
#include "base/wire/add_partitions_to_txn_request.h"
#include "base/wire/add_partitions_to_txn_response.h"
#include "base/wire/describe_transactions_request.h"
#include "base/wire/describe_transactions_response.h"
#include "base/wire/end_txn_request.h"
#include "base/wire/end_txn_response.h"
#include "base/wire/init_producer_id_request.h"
#include "base/wire/init_producer_id_response.h"
#include "base/wire/list_transactions_request.h"
#include "base/wire/list_transactions_response.h"
#include "base/wire/txn_offset_commit_request.h"
#include "base/wire/txn_offset_commit_response.h"
#include "base/wire/write_txn_markers_request.h"
#include "base/wire/write_txn_markers_response.h"
#include "broker/transactions.h"

static int fd;
static int begin(void **state) { (void)state; door_start(); fd = client(); return 0; }
static int end(void **state) { (void)state; close(fd); door_stop(); return 0; }

static struct ot_init_producer_id_response init(int16_t version, const char *id, int32_t timeout_ms)
{
    struct ot_init_producer_id_request request;
    struct ot_init_producer_id_response response;
    ot_init_producer_id_request_defaults(&request);
    request.transactional_id = ot_str_of(id);
    request.transaction_timeout_ms = timeout_ms;
    exchange(fd, OT_API_INIT_PRODUCER_ID, version, &request, &response);
    return response;
}

static int16_t add_old(int16_t version, const char *id, int64_t producer_id, int16_t epoch, const char *topic, int32_t partition)
{
    int32_t partitions[] = { partition };
    struct ot_add_partitions_to_txn_request_add_partitions_to_txn_topic topics[] = { { .name = ot_str_of(topic), .partitions = { partitions, 1 } } };
    struct ot_add_partitions_to_txn_request request;
    struct ot_add_partitions_to_txn_response response;
    ot_add_partitions_to_txn_request_defaults(&request);
    request.v3_and_below_transactional_id = ot_str_of(id);
    request.v3_and_below_producer_id = producer_id;
    request.v3_and_below_producer_epoch = epoch;
    request.v3_and_below_topics.items = topics;
    request.v3_and_below_topics.count = 1;
    exchange(fd, OT_API_ADD_PARTITIONS_TO_TXN, version, &request, &response);
    assert_int_equal(response.results_by_topic_v3_and_below.count, 1);
    assert_int_equal(response.results_by_topic_v3_and_below.items[0].results_by_partition.items[0].partition_index, partition);
    return response.results_by_topic_v3_and_below.items[0].results_by_partition.items[0].partition_error_code;
}

static struct ot_end_txn_response finish(int16_t version, const char *id, int64_t producer_id, int16_t epoch, bool commit)
{
    struct ot_end_txn_request request;
    struct ot_end_txn_response response;
    ot_end_txn_request_defaults(&request);
    request.transactional_id = ot_str_of(id);
    request.producer_id = producer_id;
    request.producer_epoch = epoch;
    request.committed = commit;
    exchange(fd, OT_API_END_TXN, version, &request, &response);
    return response;
}

static void a_transaction_in_every_version(void **state)
{
    (void)state;
    for (int16_t version = 0; version <= 5; version++) {
        char id[16];
        (void)snprintf(id, sizeof id, "id-%d", version);
        const struct ot_init_producer_id_response made = init(version, id, 60000);
        assert_int_equal(made.error_code, 0);
        assert_int_equal(made.producer_epoch, 0);
        assert_int_equal(add_old(OT_MIN(version, 3), id, made.producer_id, 0, "b", 2), 0);
        struct ot_end_txn_response ended = finish(version, id, made.producer_id, 0, true);
        assert_int_equal(ended.error_code, 0);
        assert_int_equal(ended.producer_id, version >= 5 ? made.producer_id : -1);
        assert_int_equal(ended.producer_epoch, version >= 5 ? 1 : -1);
        ended = finish(version, id, made.producer_id, 0, true);        /* repeated: T3 */
        assert_int_equal(ended.error_code, 0);
        assert_int_equal(finish(version, id, made.producer_id, 0, false).error_code, OT_ERR_INVALID_TXN_STATE);
    }
}

static void a_fenced_producer_is_told_in_its_own_words(void **state)
{
    (void)state;
    const struct ot_init_producer_id_response made = init(4, "x", 60000);
    assert_int_equal(init(0, "x", 60000).producer_epoch, 1);
    for (int16_t version = 0; version <= 5; version++) {
        const int16_t told = version < 2 ? OT_ERR_INVALID_PRODUCER_EPOCH : OT_ERR_PRODUCER_FENCED;
        assert_int_equal(finish(version, "x", made.producer_id, 0, true).error_code, told);
        assert_int_equal(add_old(OT_MIN(version, 3), "x", made.producer_id, 0, "a", 0), told);
        struct ot_add_offsets_to_txn_request request;
        struct ot_add_offsets_to_txn_response response;
        ot_add_offsets_to_txn_request_defaults(&request);
        request.transactional_id = ot_str_of("x");
        request.group_id = ot_str_of("group");
        request.producer_id = made.producer_id;
        request.producer_epoch = 0;
        exchange(fd, OT_API_ADD_OFFSETS_TO_TXN, OT_MIN(version, 4), &request, &response);
        assert_int_equal(response.error_code, told);
        request.producer_epoch = 1;
        exchange(fd, OT_API_ADD_OFFSETS_TO_TXN, OT_MIN(version, 4), &request, &response);
        assert_int_equal(response.error_code, 0);
    }
    struct ot_init_producer_id_request request;
    struct ot_init_producer_id_response response;
    ot_init_producer_id_request_defaults(&request);
    request.transactional_id = ot_str_of("x");
    request.transaction_timeout_ms = 1000;
    request.producer_id = made.producer_id + 5;
    request.producer_epoch = 0;
    exchange(fd, OT_API_INIT_PRODUCER_ID, 3, &request, &response);
    assert_int_equal(response.error_code, OT_ERR_INVALID_PRODUCER_EPOCH);
    exchange(fd, OT_API_INIT_PRODUCER_ID, 4, &request, &response);
    assert_int_equal(response.error_code, OT_ERR_PRODUCER_FENCED);
    assert_int_equal(response.producer_id, -1);
}

/* A partition that does not exist would be in the transaction, and the one that gets the offsets would not. */
static void offsets_join_a_transaction_once_their_partition_is_known(void **state)
{
    (void)state;
    const struct ot_init_producer_id_response made = init(4, "early", 60000);
    struct ot_add_offsets_to_txn_request request;
    struct ot_add_offsets_to_txn_response response;
    ot_add_offsets_to_txn_request_defaults(&request);
    request.transactional_id = ot_str_of("early");
    request.group_id = ot_str_of("group");
    request.producer_id = made.producer_id;
    request.producer_epoch = made.producer_epoch;
    fake.shards_unknown = true;
    exchange(fd, OT_API_ADD_OFFSETS_TO_TXN, 4, &request, &response);
    assert_int_equal(response.error_code, OT_ERR_COORDINATOR_NOT_AVAILABLE);
    fake.shards_unknown = false;
    exchange(fd, OT_API_ADD_OFFSETS_TO_TXN, 4, &request, &response);
    assert_int_equal(response.error_code, 0);
}

static void bad_words_are_refused(void **state)
{
    (void)state;
    assert_int_equal(init(1, "", 1000).error_code, OT_ERR_INVALID_REQUEST);
    assert_int_equal(init(1, "t", 0).error_code, OT_ERR_INVALID_TRANSACTION_TIMEOUT);
    assert_int_equal(init(1, "t", 900001).error_code, OT_ERR_INVALID_TRANSACTION_TIMEOUT);
    const struct ot_init_producer_id_response made = init(1, "t", 1000);
    assert_int_equal(add_old(3, "", made.producer_id, 0, "a", 0), OT_ERR_INVALID_REQUEST);
    assert_int_equal(add_old(3, "t", made.producer_id, 0, "a", 1), OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(add_old(3, "t", made.producer_id, 0, "nowhere", 0), OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(add_old(3, "u", made.producer_id, 0, "a", 0), OT_ERR_INVALID_PRODUCER_ID_MAPPING);
    assert_int_equal(finish(3, "", 1, 1, true).error_code, OT_ERR_INVALID_REQUEST);
    assert_int_equal(finish(3, "t", made.producer_id, 0, true).error_code, OT_ERR_INVALID_TXN_STATE);
}

static void one_unknown_partition_keeps_the_others_out(void **state)
{
    (void)state;
    const struct ot_init_producer_id_response made = init(4, "t", 1000);
    int32_t partitions[] = { 0, 9 };
    struct ot_add_partitions_to_txn_request_add_partitions_to_txn_topic topics[] = { { .name = ot_str_of("b"), .partitions = { partitions, 2 } } };
    struct ot_add_partitions_to_txn_request request;
    struct ot_add_partitions_to_txn_response response;
    ot_add_partitions_to_txn_request_defaults(&request);
    request.v3_and_below_transactional_id = ot_str_of("t");
    request.v3_and_below_producer_id = made.producer_id;
    request.v3_and_below_topics.items = topics;
    request.v3_and_below_topics.count = 1;
    exchange(fd, OT_API_ADD_PARTITIONS_TO_TXN, 3, &request, &response);
    const struct ot_add_partitions_to_txn_response_add_partitions_to_txn_topic_result *row = response.results_by_topic_v3_and_below.items;
    assert_int_equal(row->results_by_partition.items[0].partition_error_code, OT_ERR_OPERATION_NOT_ATTEMPTED);
    assert_int_equal(row->results_by_partition.items[1].partition_error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
}

static void brokers_ask_for_many_at_once(void **state)
{
    (void)state;
    const struct ot_init_producer_id_response one = init(4, "one", 1000), two = init(4, "two", 1000);
    int32_t partitions[] = { 0, 1 };
    struct ot_add_partitions_to_txn_request_add_partitions_to_txn_topic topics[] = { { .name = ot_str_of("b"), .partitions = { partitions, 2 } } };
    struct ot_add_partitions_to_txn_request_add_partitions_to_txn_transaction all[] = {
        { .transactional_id = ot_str_of("one"), .producer_id = one.producer_id, .topics = { topics, 1 } },
        { .transactional_id = ot_str_of("one"), .producer_id = one.producer_id, .verify_only = true, .topics = { topics, 1 } },
        { .transactional_id = ot_str_of("two"), .producer_id = two.producer_id, .verify_only = true, .topics = { topics, 1 } },
        { .transactional_id = ot_str_of("two"), .producer_id = two.producer_id, .producer_epoch = 4, .verify_only = true, .topics = { topics, 1 } } };
    for (int16_t version = 4; version <= 5; version++) {
        struct ot_add_partitions_to_txn_request request;
        struct ot_add_partitions_to_txn_response response;
        ot_add_partitions_to_txn_request_defaults(&request);
        request.transactions.items = all;
        request.transactions.count = 4;
        exchange(fd, OT_API_ADD_PARTITIONS_TO_TXN, version, &request, &response);
        assert_int_equal(response.error_code, 0);
        assert_int_equal(response.results_by_transaction.count, 4);
        static const enum ot_err told[] = { OT_OK, OT_OK, OT_ERR_TRANSACTION_ABORTABLE, OT_ERR_PRODUCER_FENCED };
        for (int i = 0; i < 4; i++) {
            const int16_t expected = ot_err_kafka(i == 2 && version == 4 ? OT_ERR_INVALID_TXN_STATE : told[i]);
            assert_str(response.results_by_transaction.items[i].transactional_id, i < 2 ? "one" : "two");
            for (int j = 0; j < 2; j++)
                assert_int_equal(response.results_by_transaction.items[i].topic_results.items[0].results_by_partition.items[j].partition_error_code, expected);
        }
    }
}

static void a_request_of_very_many_refusals_is_answered(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    int32_t partitions[] = { 0 };
    struct ot_add_partitions_to_txn_request_add_partitions_to_txn_topic topics[] = { { .name = ot_str_of("-"), .partitions = { partitions, 1 } } };
    struct ot_add_partitions_to_txn_request_add_partitions_to_txn_transaction *all = calloc(COUNT, sizeof *all);
    struct ot_add_partitions_to_txn_request request;
    struct ot_add_partitions_to_txn_response response;
    for (int i = 0; i < COUNT; i++) {
        all[i].transactional_id = ot_str_of("x");
        all[i].topics.items = topics;
        all[i].topics.count = 1;
    }
    ot_add_partitions_to_txn_request_defaults(&request);
    request.transactions.items = all;
    request.transactions.count = COUNT;
    exchange(fd, OT_API_ADD_PARTITIONS_TO_TXN, 5, &request, &response);
    assert_int_equal(response.results_by_transaction.count, COUNT);
    free(all);
}

static void descriptions_and_lists(void **state)
{
    (void)state;
    const struct ot_init_producer_id_response one = init(4, "orders-1", 1000);
    (void)init(4, "orders-2", 2000);
    (void)init(4, "billing", 2000);
    assert_int_equal(add_old(3, "orders-1", one.producer_id, 0, "b", 1), 0);
    assert_int_equal(add_old(3, "orders-1", one.producer_id, 0, "a", 0), 0);
    assert_int_equal(add_old(3, "orders-1", one.producer_id, 0, "b", 0), 0);
    struct ot_str ids[] = { ot_str_of("orders-1"), ot_str_of("nobody"), ot_str_of("billing") };
    struct ot_describe_transactions_request ask_describe;
    struct ot_describe_transactions_response described;
    ot_describe_transactions_request_defaults(&ask_describe);
    ask_describe.transactional_ids.items = ids;
    ask_describe.transactional_ids.count = 3;
    exchange(fd, OT_API_DESCRIBE_TRANSACTIONS, 0, &ask_describe, &described);
    assert_int_equal(described.transaction_states.count, 3);
    const struct ot_describe_transactions_response_transaction_state *row = &described.transaction_states.items[0];
    assert_str(row->transaction_state, "Ongoing");
    assert_int_equal(row->transaction_timeout_ms, 1000);
    assert_int_equal(row->producer_id, one.producer_id);
    assert_int_equal(row->topics.count, 2);
    assert_str(row->topics.items[0].topic, "a");
    assert_int_equal(row->topics.items[1].partitions.count, 2);
    assert_int_equal(row->topics.items[1].partitions.items[1], 1);
    assert_int_equal(described.transaction_states.items[1].error_code, OT_ERR_TRANSACTIONAL_ID_NOT_FOUND);
    assert_str(described.transaction_states.items[2].transaction_state, "Empty");
    for (int16_t version = 0; version <= 2; version++) {
        struct ot_list_transactions_request request;
        struct ot_list_transactions_response response;
        ot_list_transactions_request_defaults(&request);
        exchange(fd, OT_API_LIST_TRANSACTIONS, version, &request, &response);
        assert_int_equal(response.transaction_states.count, 3);
        struct ot_str states[] = { ot_str_of("Ongoing"), ot_str_of("ongoing"), ot_str_of("What") };
        request.state_filters.items = states;
        request.state_filters.count = 3;
        exchange(fd, OT_API_LIST_TRANSACTIONS, version, &request, &response);
        assert_int_equal(response.transaction_states.count, 1);
        assert_str(response.transaction_states.items[0].transactional_id, "orders-1");
        assert_int_equal(response.unknown_state_filters.count, 2);
        request.state_filters.count = 0;
        int64_t producers[] = { 5, one.producer_id };
        request.producer_id_filters.items = producers;
        request.producer_id_filters.count = 2;
        exchange(fd, OT_API_LIST_TRANSACTIONS, version, &request, &response);
        assert_int_equal(response.transaction_states.count, 1);
        request.producer_id_filters.count = 0;
        if (version >= 1) {
            request.duration_filter = 3600000;
            exchange(fd, OT_API_LIST_TRANSACTIONS, version, &request, &response);
            assert_int_equal(response.transaction_states.count, 0);
            request.duration_filter = -1;
        }
        if (version < 2) continue;
        request.transactional_id_pattern = ot_str_of("orders-.*");
        exchange(fd, OT_API_LIST_TRANSACTIONS, version, &request, &response);
        assert_int_equal(response.transaction_states.count, 2);
        request.transactional_id_pattern = ot_str_of("orders");
        exchange(fd, OT_API_LIST_TRANSACTIONS, version, &request, &response);
        assert_int_equal(response.transaction_states.count, 0);
        request.transactional_id_pattern = ot_str_of("(");
        exchange(fd, OT_API_LIST_TRANSACTIONS, version, &request, &response);
        assert_int_equal(response.error_code, OT_ERR_INVALID_REGULAR_EXPRESSION);
    }
}

static void markers_go_where_they_are_told(void **state)
{
    (void)state;
    int32_t partitions[] = { 1, 7 };
    struct ot_write_txn_markers_request_writable_txn_marker_topic topics[] = { { .name = ot_str_of("b"), .partition_indexes = { partitions, 2 } } };
    struct ot_write_txn_markers_request_writable_txn_marker markers[] = { { .producer_id = 40, .producer_epoch = 3, .transaction_result = true, .coordinator_epoch = 6,
        .topics = { topics, 1 } } };
    for (int16_t version = 1; version <= 2; version++) {
        struct ot_write_txn_markers_request request;
        struct ot_write_txn_markers_response response;
        ot_write_txn_markers_request_defaults(&request);
        markers[0].transaction_version = version == 2 ? 2 : 0;
        request.markers.items = markers;
        request.markers.count = 1;
        exchange(fd, OT_API_WRITE_TXN_MARKERS, version, &request, &response);
        assert_int_equal(response.markers.count, 1);
        assert_int_equal(response.markers.items[0].producer_id, 40);
        assert_int_equal(response.markers.items[0].topics.items[0].partitions.items[0].error_code, 0);
        assert_int_equal(response.markers.items[0].topics.items[0].partitions.items[1].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        const struct broker_marker *last = fake_last_marker();
        assert_true(last->commit);
        assert_int_equal(last->producer_epoch, 3);
        assert_int_equal(last->coordinator_epoch, 6);
        assert_int_equal(last->version, version == 2 ? 2 : 0);
    }
}

static void the_answer_of_end_txn_5_is_this(void **state)
{
    (void)state;
    const struct ot_init_producer_id_response made = init(5, "t", 1000);
    assert_int_equal(add_old(3, "t", made.producer_id, 0, "a", 0), 0);
    struct ot_end_txn_request request;
    uint32_t bytes = 0;
    ot_end_txn_request_defaults(&request);
    request.transactional_id = ot_str_of("t");
    request.producer_id = made.producer_id;
    request.committed = true;
    const int32_t correlation = ask(fd, OT_API_END_TXN, 5, &request);
    const uint8_t *frame = hear_frame(fd, &bytes);
    static const uint8_t rest[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0xe8, 0, 1, 0 };
    assert_int_equal(bytes, 4 + sizeof rest);
    assert_int_equal(ot_load_i32(frame), correlation);
    assert_memory_equal(frame + 4, rest, sizeof rest);
}

static void offsets_join_the_transaction(void **state)
{
    (void)state;
    const struct ot_init_producer_id_response made = init(5, "t", 1000);
    for (int16_t version = 0; version <= 6; version++) {
        struct ot_txn_offset_commit_request_txn_offset_commit_request_partition parts[] = { { .partition_index = 0, .committed_offset = 10 + version, .committed_leader_epoch = -1,
            .committed_metadata = ot_str_of("m") }, { .partition_index = 1, .committed_offset = 3, .committed_leader_epoch = -1, .committed_metadata = { .null = true } } };
        struct ot_txn_offset_commit_request_txn_offset_commit_request_topic topics[2] = { { .name = ot_str_of("b"), .partitions = { parts, 2 } },
            { .name = ot_str_of("nowhere"), .partitions = { parts, 1 } } };
        struct ot_txn_offset_commit_request request;
        struct ot_txn_offset_commit_response response;
        char group[16];
        (void)snprintf(group, sizeof group, "group-%.*s", version + 1, "abcdefgh");
        memset(topics[0].topic_id.bytes, 2, 16);               /* the fake's second topic */
        memset(topics[1].topic_id.bytes, 99, 16);
        ot_txn_offset_commit_request_defaults(&request);
        request.transactional_id = ot_str_of("t");
        request.group_id = ot_str_of(group);
        request.producer_id = made.producer_id;
        request.producer_epoch = 0;
        request.topics.items = topics;
        request.topics.count = 2;
        exchange(fd, OT_API_TXN_OFFSET_COMMIT, version, &request, &response);
        assert_int_equal(response.topics.count, 2);
        const int16_t first = response.topics.items[0].partitions.items[0].error_code;
        if (version < 5) {                                     /* AddOffsetsToTxn did not come before */
            assert_int_equal(first, version < 4 ? OT_ERR_INVALID_TXN_STATE : OT_ERR_TRANSACTION_ABORTABLE);
            struct ot_add_offsets_to_txn_request add;
            struct ot_add_offsets_to_txn_response added;
            ot_add_offsets_to_txn_request_defaults(&add);
            add.transactional_id = ot_str_of("t");
            add.group_id = ot_str_of(group);
            add.producer_id = made.producer_id;
            exchange(fd, OT_API_ADD_OFFSETS_TO_TXN, OT_MIN(version, 4), &add, &added);
            assert_int_equal(added.error_code, 0);
            exchange(fd, OT_API_TXN_OFFSET_COMMIT, version, &request, &response);
        }
        assert_int_equal(response.topics.items[0].partitions.items[0].error_code, 0);
        assert_int_equal(response.topics.items[0].partitions.items[1].partition_index, 1);
        assert_int_equal(response.topics.items[1].partitions.items[0].error_code, version < 6 ? OT_ERR_UNKNOWN_TOPIC_OR_PARTITION : OT_ERR_UNKNOWN_TOPIC_ID);
        request.producer_epoch = 7;
        exchange(fd, OT_API_TXN_OFFSET_COMMIT, version, &request, &response);
        assert_int_equal(response.topics.items[0].partitions.items[0].error_code, OT_ERR_INVALID_PRODUCER_EPOCH);
        request.group_id = ot_str_of("");
        exchange(fd, OT_API_TXN_OFFSET_COMMIT, version, &request, &response);
        assert_int_equal(response.topics.items[0].partitions.items[0].error_code, OT_ERR_INVALID_GROUP_ID);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    static const struct CMUnitTest tests[] = { T(a_transaction_in_every_version), T(a_fenced_producer_is_told_in_its_own_words),
        T(offsets_join_a_transaction_once_their_partition_is_known), T(bad_words_are_refused),
        T(one_unknown_partition_keeps_the_others_out), T(brokers_ask_for_many_at_once), T(a_request_of_very_many_refusals_is_answered), T(descriptions_and_lists),
        T(markers_go_where_they_are_told), T(the_answer_of_end_txn_5_is_this), T(offsets_join_the_transaction) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
