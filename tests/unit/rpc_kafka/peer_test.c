/* The listener for other brokers: hello first, then their own requests and Kafka's; and that clients' listeners know nothing of those. */
#include "client.h"

#include "base/wire/add_raft_voter_request.h"
#include "base/wire/add_raft_voter_response.h"
#include "base/wire/api_versions_request.h"
#include "base/wire/api_versions_response.h"
#include "base/wire/metadata_request.h"
#include "base/wire/metadata_response.h"
#include "base/wire/peer_ask_request.h"
#include "base/wire/peer_ask_response.h"
#include "base/wire/peer_log_ends_request.h"
#include "base/wire/peer_log_ends_response.h"
#include "base/wire/peer_hello_request.h"
#include "base/wire/peer_hello_response.h"
#include "base/wire/peer_lag_request.h"
#include "base/wire/peer_lag_response.h"
#include "base/wire/peer_message_request.h"
#include "base/wire/peer_message_response.h"
#include "base/wire/peer_rest_request.h"
#include "base/wire/peer_rest_response.h"
#include "base/wire/remove_raft_voter_request.h"
#include "base/wire/remove_raft_voter_response.h"
#include "base/wire/unregister_broker_request.h"
#include "base/wire/unregister_broker_response.h"
#include <poll.h>

static void start(bool peer)
{
    fake_init();
    door.peer = peer;
    door_start_with(NULL, 0);
    fake_peers = (struct fake_peers){ 0 };
}

static void hello(int fd, const char *proof, struct ot_peer_hello_response *response)
{
    struct ot_peer_hello_request request;
    ot_peer_hello_request_defaults(&request);
    request.node_id = 3;
    request.host = ot_str_of("127.0.0.1");
    request.proof = (struct ot_blob){ .data = (const uint8_t *)proof, .bytes = (uint32_t)strlen(proof) };
    exchange(fd, OT_API_PEER_HELLO, 0, &request, response);
}

static void a_peer_that_said_hello_is_heard(void **state)
{
    (void)state;
    start(true);
    const int fd = client();
    struct ot_peer_hello_response said;
    hello(fd, "friend", &said);
    assert_int_equal(said.error_code, 0);
    struct ot_peer_message_request message;
    struct ot_peer_message_response taken;
    ot_peer_message_request_defaults(&message);
    message.message = (struct ot_blob){ .data = (const uint8_t *)"12345", .bytes = 5 };
    exchange(fd, OT_API_PEER_MESSAGE, 0, &message, &taken);
    assert_int_equal(taken.error_code, 0);
    assert_int_equal(fake_peers.from, 3);
    assert_int_equal(fake_peers.bytes, 5);
    struct ot_peer_ask_request asked;
    struct ot_peer_ask_response answer;
    ot_peer_ask_request_defaults(&asked);
    asked.ask = 9;
    exchange(fd, OT_API_PEER_ASK, 0, &asked, &answer);
    assert_str(answer.error, "NOT_CONTROLLER");
    assert_int_equal(answer.leader, 7);
    assert_int_equal(fake_peers.ask, 9);
    struct ot_peer_log_ends_request_partition rows[2] = { { .partition = 5 }, { .partition = 6 } };
    struct ot_peer_log_ends_request which;
    struct ot_peer_log_ends_response ends;
    ot_peer_log_ends_request_defaults(&which);
    which.partitions.items = rows;
    which.partitions.count = 2;
    exchange(fd, OT_API_PEER_LOG_ENDS, 0, &which, &ends);
    assert_true(ends.broker_epoch == 7 && ends.partitions.count == 2 && ends.partitions.items[1].log_end == 6);
    struct ot_metadata_request metadata;       /* what Kafka has is served too */
    struct ot_metadata_response cluster;
    ot_metadata_request_defaults(&metadata);
    exchange(fd, OT_API_METADATA, 12, &metadata, &cluster);
    assert_true(cluster.brokers.count > 0);
    close(fd);
    door_stop();
}

static void requests_of_the_rest_api_are_answered_and_let_go(void **state)
{
    (void)state;
    start(true);
    const int fd = client();
    struct ot_peer_hello_response said;
    struct ot_peer_rest_request request;
    struct ot_peer_rest_response response;
    hello(fd, "friend", &said);
    ot_peer_rest_request_defaults(&request);
    request.target = ot_str_of("/v1/topics");
    request.timeout_ms = 200;
    exchange(fd, OT_API_PEER_REST, 0, &request, &response);
    assert_int_equal(response.status, 200);
    assert_int_equal(response.body.bytes, request.target.bytes);
    assert_memory_equal(response.body.data, request.target.data, request.target.bytes);
    assert_int_equal(fake_peers.from, 3);
    request.timeout_ms = 999;                  /* one that waits is told when who asked is gone */
    ask(fd, OT_API_PEER_REST, 0, &request);
    until(&fake_peers.asked, 2);
    close(fd);
    door_stop();
    assert_int_equal(fake_peers.cancelled, 1);
    assert_int_equal(fake_peers.released, 2);
}

static void lag_is_told_in_the_order_asked(void **state)
{
    (void)state;
    start(true);
    const int fd = client();
    struct ot_peer_hello_response said;
    struct ot_peer_lag_request_partition parts[] = { { .index = 0, .offset = 40 }, { .index = 1, .offset = 2 } };
    struct ot_peer_lag_request_topic topics[] = { { .name = ot_str_of("t"), .partitions = { parts, 2 } }, { .name = ot_str_of("u"), .partitions = { parts, 1 } } };
    struct ot_peer_lag_request request = { .topics = { topics, 2 } };
    struct ot_peer_lag_response response;
    hello(fd, "friend", &said);
    exchange(fd, OT_API_PEER_LAG, 0, &request, &response);
    assert_true(fake_peers.here);              /* never asked on */
    assert_int_equal(response.parts.count, 3);
    assert_int_equal(response.parts.items[0].error_code, 0);
    assert_int_equal(response.parts.items[0].all_records, 10);
    assert_int_equal(response.parts.items[0].high_watermark, 50);
    assert_int_equal(response.parts.items[1].error_code, ot_err_kafka(OT_ERR_NOT_LEADER_OR_FOLLOWER));
    assert_int_equal(response.parts.items[2].committed_ms, 7);
    close(fd);
    door_stop();
}

static void who_said_nothing_is_not(void **state)
{
    (void)state;
    start(true);
    const int16_t keys[] = { OT_API_PEER_MESSAGE, OT_API_PEER_ASK, OT_API_PEER_LAG, OT_API_PEER_LOG_ENDS, OT_API_PEER_REST, OT_API_METADATA, OT_API_FETCH, OT_API_CREATE_TOPICS };
    for (size_t i = 0; i < OT_ARRAY_COUNT(keys); i++) {
        const int fd = client();
        ask_bytes(fd, keys[i], ot_api_find(keys[i])->version_max, "", 0);
        hear_end(fd);
        close(fd);
    }
    assert_int_equal(fake_peers.from, 0);
    const int fd = client();                   /* and a hello that is refused is an answer and the end */
    struct ot_peer_hello_response said;
    hello(fd, "stranger", &said);
    assert_int_equal(said.error_code, ot_err_kafka(OT_ERR_CLUSTER_AUTHORIZATION_FAILED));
    hear_end(fd);
    close(fd);
    door_stop();
}

static bool lists(const struct ot_api_versions_response *response, int16_t key)
{
    for (int32_t i = 0; i < response->api_keys.count; i++) {
        if (response->api_keys.items[i].api_key == key) return true;
    }
    return false;
}

/* Those of the first four that were closed, as bits; waits until there are so many. */
static uint32_t closed_of(const int *fds, int wanted)
{
    uint32_t closed = 0;
    struct pollfd open[4];
    for (int i = 0; i < 4; i++) open[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
    while (__builtin_popcount(closed) < wanted && poll(open, 4, 10000) > 0) {
        for (int i = 0; i < 4; i++) {
            char byte;
            if (open[i].revents == 0) continue;
            assert_int_equal(recv(fds[i], &byte, 1, 0), 0);
            open[i].fd = -1;
            closed |= 1u << i;
        }
    }
    return closed;
}

/* Of each loop: which of the first four those are depends on how soon a loop has closed one, and is given the next. */
static void of_too_many_strangers_the_oldest_go(void **state)
{
    struct ot_peer_hello_response said;
    int fds[6];
    (void)state;
    door.strangers_max = 4;                    /* two on each loop */
    start(true);
    door.strangers_max = 0;
    for (int i = 0; i < 6; i++) fds[i] = client();
    const uint32_t closed = closed_of(fds, 2);
    assert_int_equal(__builtin_popcount(closed), 2);
    for (int i = 0; i < 6; i++) {
        if ((closed >> i & 1) != 0) continue;
        hello(fds[i], "friend", &said);
        assert_int_equal(said.error_code, 0);
    }
    for (int i = 0; i < 6; i++) close(fds[i]);
    door_stop();
}

static void a_listener_for_clients_knows_nothing_of_peers(void **state)
{
    (void)state;
    struct ot_api_versions_request request;
    struct ot_api_versions_response response;
    ot_api_versions_request_defaults(&request);
    request.client_software_name = request.client_software_version = ot_str_of("x");
    for (int peer = 0; peer < 2; peer++) {
        start(peer == 1);
        const int fd = client();
        exchange(fd, OT_API_API_VERSIONS, 3, &request, &response);
        assert_true(lists(&response, OT_API_FETCH));
        assert_int_equal(lists(&response, OT_API_PEER_HELLO), peer);
        close(fd);
        const int16_t keys[] = { OT_API_PEER_HELLO, OT_API_PEER_MESSAGE, OT_API_PEER_ASK, OT_API_PEER_LAG, OT_API_PEER_LOG_ENDS, OT_API_PEER_REST };
        for (size_t i = 0; peer == 0 && i < OT_ARRAY_COUNT(keys); i++) {
            const int other = client();
            ask_bytes(other, keys[i], 0, "", 0);
            hear_end(other);
            close(other);
        }
        door_stop();
    }
}

static void voters_are_added_and_removed_in_every_version(void **state)
{
    (void)state;
    start(false);
    const int fd = client();
    struct ot_add_raft_voter_request_listener place = { .name = ot_str_of("PEER"), .host = ot_str_of("h"), .port = 7 };
    struct ot_add_raft_voter_request add;
    struct ot_add_raft_voter_response added;
    for (int16_t version = 0; version <= 1; version++) {
        ot_add_raft_voter_request_defaults(&add);
        add.voter_id = 4;
        add.cluster_id = none();
        add.listeners.items = &place;
        add.listeners.count = version;         /* none: as it registered */
        exchange(fd, OT_API_ADD_RAFT_VOTER, version, &add, &added);
        assert_int_equal(added.error_code, 0);
        assert_true(added.error_message.null && fake_peers.add && fake_peers.voter == 4 && fake_peers.port == 7 * version);
        add.cluster_id = ot_str_of("another");
        exchange(fd, OT_API_ADD_RAFT_VOTER, version, &add, &added);
        assert_int_equal(added.error_code, ot_err_kafka(OT_ERR_INCONSISTENT_CLUSTER_ID));
    }
    struct ot_remove_raft_voter_request gone;
    struct ot_remove_raft_voter_response removed;
    ot_remove_raft_voter_request_defaults(&gone);
    gone.voter_id = 9;
    gone.cluster_id = none();
    exchange(fd, OT_API_REMOVE_RAFT_VOTER, 0, &gone, &removed);
    assert_int_equal(removed.error_code, ot_err_kafka(OT_ERR_VOTER_NOT_FOUND));
    assert_false(fake_peers.add);
    close(fd);
    door_stop();
}

struct counted { uint64_t sent, requests, connections; };

static void add_counted(void *arg, const struct ot_metric_reading *reading)
{
    struct counted *out = arg;
    if (reading->metric == OT_METRIC_sent_bytes_total) out->sent += reading->total;
    if (reading->metric == OT_METRIC_requests_total) out->requests += reading->total;
    if (reading->metric == OT_METRIC_connections_accepted_total) out->connections += reading->total;
}

/* A client has its answer before the loop has counted it. */
static struct counted count_once_told(struct rpc_kafka_server *peers, struct rpc_kafka_server *clients, uint64_t least)
{
    struct ot_net_stats to_peers, to_clients = { 0 };
    struct counted out;
    for (int i = 0; i < 10000; i++) {
        out = (struct counted){ 0 };
        ot_metrics_each(door.metrics, add_counted, &out);
        ot_net_stats(rpc_kafka_server_net(peers), &to_peers);
        if (clients != NULL) ot_net_stats(rpc_kafka_server_net(clients), &to_clients);
        if (out.sent >= least && out.sent == to_peers.bytes_out + to_clients.bytes_out && (clients == NULL || out.requests > 0)) return out;
        struct timeval pause = { .tv_usec = 1000 };
        select(0, NULL, NULL, NULL, &pause);
    }
    fail_msg("%llu bytes counted, %llu sent to peers and %llu to clients", (unsigned long long)out.sent, (unsigned long long)to_peers.bytes_out, (unsigned long long)to_clients.bytes_out);
    return out;
}

static void ask_once(int fd)
{
    struct ot_metadata_request metadata;
    struct ot_metadata_response cluster;
    ot_metadata_request_defaults(&metadata);
    exchange(fd, OT_API_METADATA, 12, &metadata, &cluster);
}

/* Two doors, one metric: neither writes over what the other counted, and what is about clients stays so. */
static void what_peers_are_sent_is_counted_with_what_clients_are_sent(void **state)
{
    (void)state;
    start(true);
    struct rpc_kafka_server *peers = door.server;
    const int peer = client();
    struct ot_peer_hello_response said;
    hello(peer, "friend", &said);
    ask_once(peer);
    const struct counted first = count_once_told(peers, NULL, 1);
    assert_int_equal(first.requests, 0);
    assert_int_equal(first.connections, 0);
    const struct rpc_kafka_setup setup = { .request_pool = door.requests, .response_pool = door.answers, .io = ot_io_real(), .io_exec = ot_exec_pool_exec(fake.pool), .metrics = door.metrics };
    assert_int_equal(rpc_kafka_server_start(fake_pointer(), &setup, &door.server), OT_OK);
    const int one = client();
    ask_once(one);
    ask_once(peer);
    const struct counted second = count_once_told(peers, door.server, first.sent + 1);
    assert_int_equal(second.requests, 1);
    assert_int_equal(second.connections, 1);
    close(peer);
    close(one);
    rpc_kafka_server_stop(peers, 10000);
    rpc_kafka_server_free(peers);
    door_stop();
}

static void brokers_are_forgotten_in_kafkas_words(void **state)
{
    struct ot_unregister_broker_request ask = { .broker_id = 9 };
    struct ot_unregister_broker_response answer;
    (void)state;
    start(false);
    const int fd = client();
    exchange(fd, OT_API_UNREGISTER_BROKER, 0, &ask, &answer);
    assert_int_equal(answer.error_code, ot_err_kafka(OT_ERR_BROKER_ID_NOT_REGISTERED));
    assert_true(ot_str_equal(answer.error_message, ot_str_of("broker 9")));
    ask.broker_id = 4;
    exchange(fd, OT_API_UNREGISTER_BROKER, 0, &ask, &answer);
    assert_int_equal(answer.error_code, 0);
    assert_true(answer.error_message.null);
    close(fd);
    door_stop();
}

TEST_MAIN(cmocka_unit_test(brokers_are_forgotten_in_kafkas_words), cmocka_unit_test(voters_are_added_and_removed_in_every_version), cmocka_unit_test(a_peer_that_said_hello_is_heard),
        cmocka_unit_test(requests_of_the_rest_api_are_answered_and_let_go),
        cmocka_unit_test(lag_is_told_in_the_order_asked), cmocka_unit_test(who_said_nothing_is_not), cmocka_unit_test(of_too_many_strangers_the_oldest_go),
        cmocka_unit_test(what_peers_are_sent_is_counted_with_what_clients_are_sent), cmocka_unit_test(a_listener_for_clients_knows_nothing_of_peers))
