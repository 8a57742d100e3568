/* Two or three brokers' peers in one process: hello with and without a secret, calls, addresses; requests to the coordinator as bytes; the list of voters. */
#include "testing.h"

#include "base/log.h"
#include "base/net/address.h"
#include "base/util.h"
#include "base/wire/api_versions_request.h"
#include "base/wire/api_versions_response.h"
#include "base/wire/apis.h"
#include "broker/peer_ask.h"
#include "broker/room.h"
#include "broker/voters.h"

#include <string.h>
#include <sys/select.h>

/* ---- hello: both sides as functions */

static struct broker_peers *peers_of(int32_t id, const char *secret, const char *cluster)
{
    static struct ot_pool *pool;
    struct broker_peers *peers = NULL;
    if (pool == NULL) pool = ot_pool_new("peers", 16 << 20, 0);
    const struct broker_peer_setup setup = { .pool = pool, .host = "127.0.0.1", .port = 7000 + id, .secret = secret, .secret_bytes = (uint32_t)strlen(secret) };
    assert_int_equal(broker_peers_new(&setup, id, &peers), OT_OK);
    if (cluster[0] != 0) broker_peers_cluster(peers, ot_str_of(cluster));
    return peers;
}

struct talk { struct broker_peers *client, *server; struct broker_peer peer; struct broker *broker; struct broker_hello hello; uint8_t memory[OT_LINK_GREET_BYTES]; int rounds; };
static int16_t theirs_min, theirs_max;         /* of PeerAsk, at the server */

static uint32_t versions_told(uint8_t *out, uint32_t cap_bytes)
{
    const struct ot_api *api = ot_api_find(OT_API_API_VERSIONS);
    struct ot_api_versions_response_api_version keys[] = { { .api_key = OT_API_FETCH, .max_version = 17 }, { .api_key = OT_API_PEER_HELLO }, { .api_key = OT_API_PEER_ASK, .min_version = theirs_min, .max_version = theirs_max },
        { .api_key = 10099, .min_version = 7, .max_version = 9 } };
    struct ot_api_versions_response response;
    struct ot_writer writer = ot_writer_over(out, cap_bytes);
    ot_api_versions_response_defaults(&response);
    response.api_keys = (struct ot_api_versions_response_api_version_array){ keys, OT_ARRAY_COUNT(keys) };
    assert_int_equal(ot_wire_response_header_encode(api, 0, 1, &writer), OT_OK);
    assert_int_equal(ot_wire_encode(api->response, 0, &response, &writer, NULL), OT_OK);
    return (uint32_t)(writer.at - out);
}


/* Runs the greeting to its end; what the client makes of it. change: called on each request and answer before it is handed over. */
static enum ot_err greet(struct talk *talk, void (*change)(struct ot_peer_hello_request *request, struct ot_peer_hello_response *response))
{
    const struct ot_api *api = ot_api_find(OT_API_PEER_HELLO);
    uint8_t said[2048], heard[2048];
    uint32_t said_bytes = 0, heard_bytes = 0;
    memset(talk->memory, 0, sizeof talk->memory);              /* as a link does */
    for (talk->rounds = 0; talk->rounds < 5; talk->rounds++) {
        enum ot_err err = broker_peer_greet(&talk->peer, talk->memory, talk->rounds == 0 ? NULL : heard, heard_bytes, said, sizeof said, &said_bytes);
        if (err != OT_OK || said_bytes == 0) return err;
        struct ot_wire_request_header header;
        struct ot_peer_hello_request request;
        struct ot_peer_hello_response response;
        struct ot_arena arena;
        ot_arena_init(&arena, 65536);
        struct ot_reader in = ot_reader_over(said, said_bytes);
        assert_int_equal(ot_wire_request_header_decode(&in, &arena, &header, NULL), OT_OK);
        if (header.key == OT_API_API_VERSIONS) {
            assert_true(talk->hello.done);
            heard_bytes = versions_told(heard, sizeof heard);
            ot_arena_free(&arena);
            continue;
        }
        assert_int_equal(ot_wire_decode_all(api->request, 0, &in, &arena, &request, NULL), OT_OK);
        if (change != NULL) change(&request, NULL);
        enum ot_err refused = broker_peer_hello(talk->broker, &talk->hello, &request, &response);
        assert_int_equal(refused != OT_OK, response.error_code != 0);
        if (change != NULL) change(NULL, &response);
        struct ot_writer out = ot_writer_over(heard, sizeof heard);
        assert_int_equal(ot_wire_response_header_encode(api, 0, 1, &out), OT_OK);
        assert_int_equal(ot_wire_encode(api->response, 0, &response, &out, NULL), OT_OK);
        heard_bytes = (uint32_t)(out.at - heard);
        ot_arena_free(&arena);
    }
    fail_msg("a greeting without end");
    return OT_OK;
}

static enum ot_err meet(const char *secret_of_client, const char *secret_of_server, const char *cluster_of_client, const char *cluster_of_server, int32_t expected,
    bool *done_out, void (*change)(struct ot_peer_hello_request *, struct ot_peer_hello_response *))
{
    struct talk *talk = calloc(1, sizeof *talk);
    talk->broker = calloc(1, sizeof *talk->broker);
    talk->client = peers_of(1, secret_of_client, cluster_of_client);
    talk->server = talk->broker->peers = peers_of(2, secret_of_server, cluster_of_server);
    talk->peer = (struct broker_peer){ .peers = talk->client, .id = expected, .host = "127.0.0.1", .port = 7002 };
    enum ot_err err = greet(talk, change);
    *done_out = talk->hello.done;
    if (talk->hello.done) {
        assert_int_equal(talk->hello.node_id, 1);
        char host[BROKER_PEER_HOST_BYTES];
        struct ot_link_setup setup;
        assert_int_equal(broker_peer_link(talk->broker, 1, host, &setup), OT_OK);      /* it said where it is */
        assert_int_equal(setup.port, 7001);
    }
    broker_peers_free(talk->client);
    broker_peers_free(talk->server);
    free(talk->broker);
    free(talk);
    return err;
}

static const char secret[] = "correct horse battery staple";

static void brokers_that_know_the_same_secret_meet(void **state)
{
    (void)state;
    bool done;
    assert_int_equal(meet(secret, secret, "c", "c", 2, &done, NULL), OT_OK);
    assert_true(done);
    assert_int_equal(meet("", "", "", "c", 2, &done, NULL), OT_OK);        /* no secret; one that is blank yet */
    assert_true(done);
}

static void brokers_that_do_not_are_refused_by_both_sides(void **state)
{
    (void)state;
    bool done;
    const char *const pairs[][2] = { { secret, "another secret, as long" }, { secret, "" }, { "", secret } };
    for (size_t i = 0; i < OT_ARRAY_COUNT(pairs); i++) {
        assert_int_not_equal(meet(pairs[i][0], pairs[i][1], "c", "c", 2, &done, NULL), OT_OK);
        assert_false(done && pairs[i][1][0] != 0);
    }
}

static void strangers_and_doubles_are_refused(void **state)
{
    (void)state;
    bool done;
    assert_int_not_equal(meet(secret, secret, "c", "d", 2, &done, NULL), OT_OK);       /* another cluster */
    assert_false(done);
    assert_int_not_equal(meet(secret, secret, "c", "c", 3, &done, NULL), OT_OK);       /* another broker at that address */
    assert_false(done);
}

static uint8_t kept_proof[BROKER_PROOF_BYTES];
static void keep_proof(struct ot_peer_hello_request *request, struct ot_peer_hello_response *response)
{
    (void)response;
    if (request != NULL && request->proof.bytes == BROKER_PROOF_BYTES) memcpy(kept_proof, request->proof.data, BROKER_PROOF_BYTES);
}
static void replay_proof(struct ot_peer_hello_request *request, struct ot_peer_hello_response *response)
{
    (void)response;
    if (request != NULL && request->proof.bytes > 0) request->proof = (struct ot_blob){ .data = kept_proof, .bytes = BROKER_PROOF_BYTES };
}
static void reflect(struct ot_peer_hello_request *request, struct ot_peer_hello_response *response)        /* the server's own proof as the client's */
{
    static uint8_t theirs[BROKER_PROOF_BYTES];
    if (response != NULL && response->proof.bytes == BROKER_PROOF_BYTES) memcpy(theirs, response->proof.data, BROKER_PROOF_BYTES);
    if (request != NULL && request->proof.bytes > 0) request->proof = (struct ot_blob){ .data = theirs, .bytes = BROKER_PROOF_BYTES };
}
static void lie_about_place(struct ot_peer_hello_request *request, struct ot_peer_hello_response *response)
{
    (void)response;
    if (request != NULL) request->port = 9;
}
static void no_proof(struct ot_peer_hello_request *request, struct ot_peer_hello_response *response)
{
    (void)response;
    if (request != NULL) request->proof = (struct ot_blob){ 0 };
}

static void old_reflected_and_changed_proofs_do_not_serve(void **state)
{
    (void)state;
    bool done;
    assert_int_equal(meet(secret, secret, "c", "c", 2, &done, keep_proof), OT_OK);
    void (*const attacks[])(struct ot_peer_hello_request *, struct ot_peer_hello_response *) = { replay_proof, reflect, lie_about_place, no_proof };
    for (size_t i = 0; i < OT_ARRAY_COUNT(attacks); i++) {
        assert_int_not_equal(meet(secret, secret, "c", "c", 2, &done, attacks[i]), OT_OK);
        assert_false(done);
    }
}

/* ---- versions */

static void a_peer_is_asked_in_the_highest_version_that_both_know(void **state)
{
    (void)state;
    const struct { int16_t min, max, asked; } cases[] = { { 0, 0, 0 }, { 0, 1, 1 }, { 0, 9, 1 }, { 1, 5, 1 } };
    struct talk *talk = calloc(1, sizeof *talk);
    talk->broker = calloc(1, sizeof *talk->broker);
    talk->client = peers_of(1, secret, "c");
    talk->server = talk->broker->peers = peers_of(2, secret, "c");
    broker_peers_address(talk->client, 2, ot_str_of("127.0.0.1"), 7002, false);
    struct broker_peer *peer = broker_peers_find(talk->client, 2);
    assert_int_equal(broker_peers_version(talk->client, 2, OT_API_PEER_ASK), 0);       /* it has not said anything yet */
    assert_int_equal(broker_peers_version(talk->client, 9, OT_API_PEER_ASK), 0);
    for (size_t i = 0; i < OT_ARRAY_COUNT(cases); i++) {
        theirs_min = cases[i].min;
        theirs_max = cases[i].max;
        memset(&talk->hello, 0, sizeof talk->hello);
        talk->peer = (struct broker_peer){ .peers = talk->client, .id = 2, .host = "127.0.0.1", .port = 7002 };
        assert_int_equal(greet(talk, NULL), OT_OK);
        assert_int_equal(talk->peer.versions[OT_API_PEER_ASK - OT_API_PEER_HELLO], cases[i].asked);
        assert_int_equal(talk->peer.versions[OT_API_PEER_REST - OT_API_PEER_HELLO], 0);        /* it did not speak of it */
        atomic_store(&peer->versions[OT_API_PEER_ASK - OT_API_PEER_HELLO], talk->peer.versions[OT_API_PEER_ASK - OT_API_PEER_HELLO]);
        assert_int_equal(broker_peers_version(talk->client, 2, OT_API_PEER_ASK), cases[i].asked);
    }
    broker_peers_free(talk->client);
    broker_peers_free(talk->server);
    free(talk->broker);
    free(talk);
}

/* The ranges have nothing in common: the connection is none, and the log says so once, however often it is tried. */
static void a_peer_without_a_common_version_is_told_once_and_not_used(void **state)
{
    (void)state;
    struct talk *talk = calloc(1, sizeof *talk);
    talk->broker = calloc(1, sizeof *talk->broker);
    talk->client = peers_of(1, secret, "c");
    talk->server = talk->broker->peers = peers_of(2, secret, "c");
    talk->peer = (struct broker_peer){ .peers = talk->client, .id = 2, .host = "127.0.0.1", .port = 7002 };
    theirs_min = 2;
    theirs_max = 5;
    FILE *log = tmpfile();
    assert_non_null(log);
    ot_log_setup(OT_LOG_INFO, OT_LOG_TEXT, fileno(log));
    for (int i = 0; i < 2; i++) {
        memset(&talk->hello, 0, sizeof talk->hello);
        assert_int_equal(greet(talk, NULL), OT_ERR_UNSUPPORTED_VERSION);
    }
    ot_log_setup(OT_LOG_INFO, OT_LOG_TEXT, 2);
    theirs_min = 0;
    assert_int_equal(talk->peer.versions[OT_API_PEER_ASK - OT_API_PEER_HELLO], 0);
    char said[4096] = "";
    rewind(log);
    assert_true(fread(said, 1, sizeof said - 1, log) > 0);
    fclose(log);
    const char *first = strstr(said, "no_common_version");
    assert_non_null(first);
    assert_non_null(strstr(first, "node=2 request=PeerAsk theirs=2-5 ours=0-1"));
    assert_null(strstr(first + 1, "no_common_version"));
    broker_peers_free(talk->client);
    broker_peers_free(talk->server);
    free(talk->broker);
    free(talk);
}

/* ---- requests to the coordinator */

static struct ot_arena arena;

static struct coord_request back_in(int16_t version, const struct coord_request *request, int32_t sender, enum ot_err expected)
{
    struct ot_peer_ask_request wire, again;
    struct coord_request out = { 0 };
    uint8_t *bytes = ot_arena_alloc(&arena, 65536);
    assert_int_equal(broker_peer_ask_write(request, &arena, &wire), OT_OK);
    struct ot_writer writer = ot_writer_over(bytes, 65536);
    assert_int_equal(ot_wire_encode(ot_api_find(OT_API_PEER_ASK)->request, version, &wire, &writer, NULL), OT_OK);
    struct ot_reader in = ot_reader_over(bytes, (size_t)(writer.at - bytes));
    assert_int_equal(ot_wire_decode_all(ot_api_find(OT_API_PEER_ASK)->request, version, &in, &arena, &again, NULL), OT_OK);
    assert_int_equal(broker_peer_ask_read(&again, sender, &arena, &out), expected);
    return out;
}

static struct coord_request back(const struct coord_request *request, int32_t sender, enum ot_err expected) { return back_in(0, request, sender, expected); }

static void a_registration_says_its_levels_in_any_version_and_its_release_and_markers_where_there_is_room(void **state)
{
    (void)state;
    ot_arena_init(&arena, 1 << 20);
    struct coord_request ask = { .ask = COORD_ASK_REGISTER, .if_version = -1, .u.register_ = { .broker_id = 7, .rack = { .null = true }, .levels = { 1, 5 }, .release = ot_str_of("9.1"),
        .stopped_epoch = 41 } };
    for (int16_t version = 0; version <= ot_api_find(OT_API_PEER_ASK)->version_max; version++) {
        struct coord_request out = back_in(version, &ask, 7, OT_OK);
        assert_int_equal(out.u.register_.levels.min, 1);
        assert_int_equal(out.u.register_.levels.max, 5);
        assert_true(version == 0 ? out.u.register_.release.null : ot_str_equal(out.u.register_.release, ot_str_of("9.1")));
        assert_int_equal(out.u.register_.stopped_epoch, version == 0 ? 0 : 41);
    }
    struct coord_request raise = back(&(struct coord_request){ .ask = COORD_ASK_LEVEL, .if_version = -1, .u.level = { 2 } }, 7, OT_OK);
    assert_int_equal(raise.u.level.level, 2);
    back(&(struct coord_request){ .ask = COORD_ASK_LEVEL, .if_version = -1, .u.level = { 0 } }, 7, OT_ERR_MALFORMED);
    ot_arena_free(&arena);
}

static void every_request_survives_the_way(void **state)
{
    (void)state;
    ot_arena_init(&arena, 1 << 24);
    const struct ot_uuid id = { { 1, 2, 3 } }, dirs[2] = { { { 4 } }, { { 5 } } };
    const struct coord_endpoint endpoints[1] = { { ot_str_of("PLAINTEXT"), { .null = true }, 9092, ot_str_of("PLAINTEXT") } };
    struct coord_request out = back(&(struct coord_request){ .ask = COORD_ASK_REGISTER, .if_version = -1, .u.register_ = { 7, id, dirs, 2, COORD_BOOT_PROCESS_CRASH, 0, endpoints, 1,
        ot_str_of("r1") } }, 7, OT_OK);
    assert_int_equal(out.u.register_.dir_count, 2);
    assert_int_equal(out.u.register_.dir_ids[1].bytes[0], 5);
    assert_true(out.u.register_.endpoints[0].host.null);
    assert_true(ot_str_equal(out.u.register_.rack, ot_str_of("r1")));
    out = back(&(struct coord_request){ .ask = COORD_ASK_HEARTBEAT, .if_version = -1, .u.heartbeat = { 7, 11, 12, true, false } }, 7, OT_OK);
    assert_true(out.u.heartbeat.want_fence && !out.u.heartbeat.want_shutdown && out.u.heartbeat.applied_version == 12);
    const int32_t brokers[2] = { 3, 1 };
    const struct coord_assignment assignment = { 0, brokers, 2 };
    const struct coord_config_change config = { ot_str_of("cleanup.policy"), ot_str_of("compact") };
    out = back(&(struct coord_request){ .ask = COORD_ASK_CREATE_TOPIC, .validate_only = true, .if_version = -1, .u.topic = { .name = ot_str_of("t"), .partition_count = 1,
        .replication_factor = -1, .assignments = &assignment, .assignment_count = 1, .configs = &config, .config_count = 1, .internal = true, .created_ms = 5 } }, 7, OT_OK);
    assert_true(out.validate_only && out.u.topic.internal && out.u.topic.assignments[0].brokers[1] == 1 && out.u.topic.created_ms == 5);
    assert_true(ot_str_equal(out.u.topic.configs[0].value, ot_str_of("compact")));
    out = back(&(struct coord_request){ .ask = COORD_ASK_CONFIGS, .if_version = 9, .u.configs = { .scope = { .kind = COORD_SCOPE_GROUP, .name = ot_str_of("g") },
        .topic = { .null = true }, .changes = &(struct coord_config_change){ ot_str_of("k"), { .null = true } }, .change_count = 1 } }, 7, OT_OK);
    assert_true(out.if_version == 9 && out.u.configs.scope.kind == COORD_SCOPE_GROUP && out.u.configs.changes[0].value.null && out.u.configs.topic.null);
    struct coord_member members[2] = { { 1, 4 }, { 2, 5 } };
    struct coord_alter item = { .topic_id = id, .partition = 3, .leader_epoch = 4, .partition_epoch = 5, .members = members, .member_count = 2, .handover = COORD_GIVES_UP };
    struct coord_request alter = { .ask = COORD_ASK_ALTER, .if_version = -1, .u.alter = { 7, 1, 2, 3, &item, 1 } };
    out = back(&alter, 7, OT_OK);
    assert_true(out.u.alter.count == 1 && out.u.alter.items[0].members[1].broker_epoch == 5 && out.u.alter.items[0].handover == COORD_GIVES_UP && out.u.alter.sequence == 3);
    out = back(&(struct coord_request){ .ask = COORD_ASK_REASSIGN, .if_version = -1, .u.reassign = { id, 1, NULL, 0 } }, 7, OT_OK);
    assert_null(out.u.reassign.target);
    out = back(&(struct coord_request){ .ask = COORD_ASK_REASSIGN, .if_version = -1, .u.reassign = { id, 1, brokers, 2 } }, 7, OT_OK);
    assert_true(out.u.reassign.count == 2 && out.u.reassign.target[0] == 3);
    out = back(&(struct coord_request){ .ask = COORD_ASK_VOTERS, .if_version = -1, .u.voters = { .add = true, .id = 4, .dir_id = id, .host = ot_str_of("h"), .port = 1 } }, 7, OT_OK);
    assert_true(out.u.voters.add && !out.u.voters.remove && out.u.voters.dir_id.bytes[2] == 3);
    struct coord_lost losses[2] = { { .topic_id = id, .partition = 3, .partition_epoch = 4 }, { .topic_id = id, .partition = 5, .partition_epoch = 6 } };
    out = back(&(struct coord_request){ .ask = COORD_ASK_LOST, .if_version = -1, .u.lost = { 7, 9, losses, 2 } }, 7, OT_OK);
    assert_true(out.u.lost.broker_epoch == 9 && out.u.lost.count == 2 && out.u.lost.items[1].partition == 5 && out.u.lost.items[1].partition_epoch == 6);
    out = back(&(struct coord_request){ .ask = COORD_ASK_ELECT, .if_version = -1, .u.elect = { .topic_id = id, .partition = 3, .candidate = 2, .partition_epoch = 9,
        .loss = COORD_LOSS_CRASH, .loss_from = 77, .answers = members, .answer_count = 2 } }, 7, OT_OK);
    assert_true(out.u.elect.candidate == 2 && out.u.elect.partition_epoch == 9 && out.u.elect.loss == COORD_LOSS_CRASH && out.u.elect.loss_from == 77);
    assert_true(out.u.elect.answer_count == 2 && out.u.elect.answers[1].broker_epoch == 5);
    back(&(struct coord_request){ .ask = COORD_ASK_ELECT }, 7, OT_ERR_MALFORMED);
    back(&(struct coord_request){ .ask = COORD_ASK_ELECT, .u.elect = { .loss = (enum coord_loss)9 } }, 7, OT_ERR_MALFORMED);
    struct coord_report reports[3] = { { id, 3, 4, 5, COORD_DURABLE_ALL, OT_OK }, { id, 6, 7, 8, COORD_DURABLE_LEADER, OT_OK }, { id, 9, 10, 11, COORD_DURABLE_NONE, OT_OK } };
    for (uint32_t count = 1; count <= 3; count++) {
        out = back_in((int16_t)(count % 2), &(struct coord_request){ .ask = COORD_ASK_DURABLE, .if_version = -1, .u.durable = { 7, 12, reports, count } }, 7, OT_OK);
        assert_true(out.u.durable.broker_epoch == 12 && out.u.durable.count == count);
        for (uint32_t i = 0; i < count; i++) assert_memory_equal(&out.u.durable.items[i], &reports[i], sizeof *reports);
    }
    reports[2].class_ = (enum coord_durable)3;
    back(&(struct coord_request){ .ask = COORD_ASK_DURABLE, .u.durable = { 7, 12, reports, 3 } }, 7, OT_ERR_MALFORMED);
    struct coord_prefer preferred[2] = { { .topic_id = id, .partition = 3 }, { .topic_id = id, .partition = 5 } };
    out = back(&(struct coord_request){ .ask = COORD_ASK_PREFER, .if_version = -1, .u.prefer = { preferred, 2 } }, 7, OT_OK);
    assert_true(out.u.prefer.count == 2 && out.u.prefer.items[1].partition == 5 && ot_uuid_equal(&out.u.prefer.items[1].topic_id, &id));
    back(&(struct coord_request){ .ask = COORD_ASK_PREFER, .u.prefer = { preferred, 0 } }, 7, OT_ERR_MALFORMED);
    item.handover = (enum coord_handover)3;
    back(&alter, 7, OT_ERR_MALFORMED);
    for (int32_t meant = -1; meant <= 3; meant += 2) {
        out = back(&(struct coord_request){ .ask = COORD_ASK_RESIGN, .if_version = -1, .u.resign = { meant } }, 7, OT_OK);
        assert_int_equal(out.u.resign.node_id, meant);
    }
    const enum coord_ask plain[] = { COORD_ASK_READ, COORD_ASK_FENCE, COORD_ASK_UNREGISTER, COORD_ASK_RESIGN, COORD_ASK_DELETE_TOPIC, COORD_ASK_CREATE_PARTITIONS };
    for (size_t i = 0; i < OT_ARRAY_COUNT(plain); i++) assert_int_equal(back(&(struct coord_request){ .ask = plain[i], .if_version = -1 }, 7, OT_OK).ask, plain[i]);
    ot_arena_free(&arena);
}

static void nobody_speaks_for_another_broker_and_nothing_is_missing(void **state)
{
    (void)state;
    ot_arena_init(&arena, 1 << 24);
    back(&(struct coord_request){ .ask = COORD_ASK_REGISTER, .u.register_ = { .broker_id = 7 } }, 8, OT_ERR_MALFORMED);
    back(&(struct coord_request){ .ask = COORD_ASK_HEARTBEAT, .u.heartbeat = { .broker_id = 7 } }, 8, OT_ERR_MALFORMED);
    back(&(struct coord_request){ .ask = COORD_ASK_ALTER, .u.alter = { .broker_id = 7 } }, 8, OT_ERR_MALFORMED);
    back(&(struct coord_request){ .ask = COORD_ASK_DURABLE, .u.durable = { .broker_id = 7, .items = &(struct coord_report){ .partition = 1 }, .count = 1 } }, 8, OT_ERR_MALFORMED);
    back(&(struct coord_request){ .ask = COORD_ASK_LOST, .u.lost = { .broker_id = 7 } }, 8, OT_ERR_MALFORMED);
    back(&(struct coord_request){ .ask = COORD_ASK_CREATE_TOPIC, .u.topic = { .name = { .null = true } } }, 8, OT_ERR_MALFORMED);
    for (int ask = -128; ask < 128; ask++) {
        struct ot_peer_ask_request empty;
        struct coord_request out;
        ot_peer_ask_request_defaults(&empty);
        empty.ask = (int8_t)ask;
        assert_int_equal(broker_peer_ask_read(&empty, 1, &arena, &out), ask == COORD_ASK_READ || ask == COORD_ASK_RESIGN ? OT_OK : OT_ERR_MALFORMED);
    }
    ot_arena_free(&arena);
}

static void answers_come_back_by_name(void **state)
{
    (void)state;
    ot_arena_init(&arena, 1 << 20);
    struct coord_alter items[2] = { { .error = OT_ERR_INELIGIBLE_REPLICA }, { .error = OT_OK, .leader_epoch = 3, .partition_epoch = 4 } }, asked[2] = { { .partition = 0 } };
    struct coord_request done = { .ask = COORD_ASK_ALTER, .error = OT_OK, .version = 77, .may_stop = true, .session_us = 9000000, .u.alter = { .items = items, .count = 2 } };
    struct coord_request mine = { .ask = COORD_ASK_ALTER, .u.alter = { .items = asked, .count = 2 } };
    struct ot_peer_ask_response wire;
    assert_int_equal(broker_peer_answer_write(&done, &arena, &wire), OT_OK);
    assert_int_equal(broker_peer_answer_read(&wire, &mine), OT_OK);
    assert_true(mine.version == 77 && mine.may_stop && mine.session_us == 9000000 && asked[0].error == OT_ERR_INELIGIBLE_REPLICA && asked[1].error == OT_OK && asked[1].partition_epoch == 4);
    wire.items.count = 1;
    assert_int_equal(broker_peer_answer_read(&wire, &mine), OT_ERR_MALFORMED);
    struct coord_request refused = { .ask = COORD_ASK_READ, .error = OT_ERR_MISMATCH, .text = "words" }, asked_too = { .ask = COORD_ASK_READ };
    assert_int_equal(broker_peer_answer_write(&refused, &arena, &wire), OT_OK);
    assert_int_equal(broker_peer_answer_read(&wire, &asked_too), OT_OK);
    assert_int_equal(asked_too.error, OT_ERR_MISMATCH);
    assert_string_equal(asked_too.text, "words");
    wire.error = ot_str_of("OF_A_LATER_VERSION");
    assert_int_equal(broker_peer_answer_read(&wire, &asked_too), OT_OK);
    assert_int_equal(asked_too.error, OT_ERR_UNKNOWN_SERVER_ERROR);
    ot_arena_free(&arena);
}

/* A coordinator that knows of one report a request looks at the first and says nothing of the others; who sends one alone is answered as ever. */
static void several_reports_are_understood_on_both_sides_of_an_upgrade(void **state)
{
    (void)state;
    ot_arena_init(&arena, 1 << 20);
    struct coord_report theirs[2] = { { .error = OT_ERR_FENCED_LEADER_EPOCH }, { .error = OT_OK } }, ours[2] = { { .partition = 1, .error = OT_ERR_CLOSED }, { .partition = 2, .error = OT_ERR_CLOSED } };
    struct coord_request done = { .ask = COORD_ASK_DURABLE, .error = OT_OK, .u.durable = { .items = theirs, .count = 2 } };
    struct coord_request mine = { .ask = COORD_ASK_DURABLE, .u.durable = { .items = ours, .count = 2 } };
    struct ot_peer_ask_response wire;
    assert_int_equal(broker_peer_answer_write(&done, &arena, &wire), OT_OK);
    assert_int_equal(wire.items.count, 2);
    assert_int_equal(broker_peer_answer_read(&wire, &mine), OT_OK);
    assert_true(mine.error == OT_OK && ours[0].error == OT_ERR_FENCED_LEADER_EPOCH && ours[1].error == OT_OK);
    wire.items.count = 0;                      /* the older one */
    assert_int_equal(broker_peer_answer_read(&wire, &mine), OT_OK);
    assert_true(mine.error == OT_OK && ours[0].error == OT_OK && ours[1].error == OT_ERR_UNSUPPORTED_VERSION);
    wire.items.count = 1;
    assert_int_equal(broker_peer_answer_read(&wire, &mine), OT_ERR_MALFORMED);
    done.u.durable.count = mine.u.durable.count = 1;
    done.error = OT_ERR_FENCED_LEADER_EPOCH;
    assert_int_equal(broker_peer_answer_write(&done, &arena, &wire), OT_OK);
    assert_int_equal(wire.items.count, 0);
    assert_int_equal(broker_peer_answer_read(&wire, &mine), OT_OK);
    assert_int_equal(mine.error, OT_ERR_FENCED_LEADER_EPOCH);
    ot_arena_free(&arena);
}

/* ---- where they are */

static int32_t port_of(struct broker *broker, int32_t id)
{
    char host[BROKER_PEER_HOST_BYTES];
    struct ot_link_setup setup;
    assert_int_equal(broker_peer_link(broker, id, host, &setup), OT_OK);
    return setup.port;
}

static void a_hello_does_not_move_a_peer_that_is_reached(void **state)
{
    (void)state;
    char why[200];
    int fds[OT_NET_SOCKETS_MAX];
    uint32_t count = 0;
    uint16_t port = 0;
    struct broker *broker = calloc(1, sizeof *broker);
    struct broker_peers *peers = broker->peers = peers_of(1, "", "c");
    assert_int_equal(ot_net_listen("127.0.0.1", 0, 5, fds, &count, &port, why, sizeof why), OT_OK);
    broker_peers_address(peers, 2, ot_str_of("127.0.0.1"), 1, true);
    assert_int_equal(port_of(broker, 2), 1);
    broker_peers_address(peers, 2, ot_str_of("127.0.0.1"), port, true);
    assert_int_equal(port_of(broker, 2), port);
    struct broker_peer *peer = peers->all[0];
    const struct ot_link_setup setup = { .host = "127.0.0.1", .port = port, .pool = peers->pool, .keep = true };      /* without a greeting it is up when TCP is */
    assert_int_equal(ot_link_open(peers->links, &setup, &peer->links[BROKER_PEER_MESSAGES]), OT_OK);
    for (int i = 0; i < 10000 && broker_peers_up(peers) == 0; i++) {
        struct timeval pause = { .tv_usec = 1000 };
        select(0, NULL, NULL, NULL, &pause);
    }
    assert_int_equal(broker_peers_up(peers), 1);
    broker_peers_address(peers, 2, ot_str_of("127.0.0.1"), 9, true);
    assert_int_equal(port_of(broker, 2), port);
    assert_int_equal(peer->other_port, 9);
    assert_int_equal(broker_peers_up(peers), 1);
    broker_peers_free(peers);
    for (uint32_t i = 0; i < count; i++) close(fds[i]);
    free(broker);
}

/* ---- calls that are alone on their connection, to somebody who takes connections and says nothing */

enum { ALONE = BROKER_PEER_LANES + 1 };
struct alone {
    struct broker *broker;
    struct ot_exec *home;
    struct ot_task task;
    struct ot_arena arena;
    struct ot_peer_ask_request request;
    struct { struct broker_peer_call call; struct ot_peer_ask_response response; } calls[ALONE];
    _Atomic uint32_t done, busy, closed, late;
    int64_t deadline_us;
    bool abort;
};

static void alone_done(struct broker_peer_call *call)
{
    struct alone *alone = OT_CONTAINER(call->arena, struct alone, arena);
    alone->busy += call->error == OT_ERR_BUSY;
    alone->closed += call->error == OT_ERR_CLOSED;
    alone->late += call->error == OT_ERR_REQUEST_TIMED_OUT;
    broker_peer_call_end(call);
    alone->done++;
}

static void alone_run(struct ot_task *task)
{
    struct alone *alone = OT_CONTAINER(task, struct alone, task);
    for (int i = 0; i < ALONE; i++) {
        alone->calls[i].call = (struct broker_peer_call){ .node_id = 2, .api = OT_API_PEER_ASK, .request = &alone->request, .response = &alone->calls[i].response, .arena = &alone->arena,
            .deadline_us = ot_exec_now_us(alone->home) + alone->deadline_us, .home = alone->home, .done = alone_done, .alone = true };
        broker_peer_call(alone->broker, &alone->calls[i].call);
    }
    for (int i = 0; alone->abort && i < ALONE; i++) broker_peer_call_abort(alone->broker, &alone->calls[i].call);      /* of one that was refused: nothing */
}

static void alone_round(struct alone *alone, bool abort, int64_t deadline_us)
{
    alone->done = alone->busy = alone->closed = alone->late = 0;
    alone->abort = abort;
    alone->deadline_us = deadline_us;
    alone->task.run = alone_run;
    ot_exec_post(alone->home, &alone->task);
    for (int i = 0; i < 60000 && alone->done < ALONE; i++) {
        struct timeval pause = { .tv_usec = 1000 };
        select(0, NULL, NULL, NULL, &pause);
    }
    assert_int_equal(alone->done, ALONE);
    assert_int_equal(alone->busy, 1);          /* so many connections there are to one peer; the one too many is told so */
}

static void calls_that_are_alone_end_and_leave_room(void **state)
{
    (void)state;
    char why[200];
    int fds[OT_NET_SOCKETS_MAX];
    uint32_t count = 0;
    uint16_t port = 0;
    struct ot_exec_thread *thread = NULL;
    struct alone *alone = calloc(1, sizeof *alone);
    alone->broker = calloc(1, sizeof *alone->broker);
    struct broker_peers *peers = alone->broker->peers = peers_of(1, "", "c");
    assert_int_equal(ot_exec_thread_start("home", &thread), OT_OK);
    alone->home = ot_exec_thread_exec(thread);
    ot_arena_init(&alone->arena, 1 << 20);
    ot_peer_ask_request_defaults(&alone->request);
    assert_int_equal(ot_net_listen("127.0.0.1", 0, 128, fds, &count, &port, why, sizeof why), OT_OK);
    broker_peers_address(peers, 2, ot_str_of("127.0.0.1"), port, true);
    alone_round(alone, true, 60000000);        /* nobody wants them any more: long before they are due */
    assert_int_equal(alone->closed, ALONE - 1);
    alone_round(alone, false, 100000);         /* and their connections are free again */
    assert_int_equal(alone->late + alone->closed, ALONE - 1);
    alone_round(alone, true, 60000000);
    broker_peers_free(peers);
    ot_exec_thread_stop(thread);
    ot_arena_free(&alone->arena);
    for (uint32_t i = 0; i < count; i++) close(fds[i]);
    free(alone->broker);
    free(alone);
}

/* ---- the list */

static void voters_are_read_as_they_are_written(void **state)
{
    (void)state;
    struct coord_listed_voter voters[COORD_VOTERS_MAX];
    char hosts[COORD_VOTERS_MAX][BROKER_VOTER_HOST_BYTES], why[200];
    assert_int_equal(broker_voters_parse("1@a:9093, 2@[::1]:9094 ,30@10.0.0.1:1", voters, hosts, why, sizeof why), 3);
    assert_true(voters[2].id == 30 && voters[1].port == 9094 && ot_str_equal(voters[1].host, ot_str_of("::1")) && ot_str_equal(voters[0].host, ot_str_of("a")));
    assert_int_equal(broker_voters_parse(NULL, voters, hosts, why, sizeof why), 0);
    assert_int_equal(broker_voters_parse("", voters, hosts, why, sizeof why), 0);
    const char *const bad[] = { "a:9093", "1@", "1@a", "1@:9093", "1@a:0", "@a:1", "x@a:1", "1@a:1,1@b:1", "99999999999@a:1", "1@a:1 2@b:1",
        "1@a:1,2@a:1,3@a:1,4@a:1,5@a:1,6@a:1,7@a:1,8@a:1,9@a:1,10@a:1" };
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) assert_int_equal(broker_voters_parse(bad[i], voters, hosts, why, sizeof why), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brokers_that_know_the_same_secret_meet), cmocka_unit_test(brokers_that_do_not_are_refused_by_both_sides),
        cmocka_unit_test(strangers_and_doubles_are_refused), cmocka_unit_test(old_reflected_and_changed_proofs_do_not_serve),
        cmocka_unit_test(a_peer_is_asked_in_the_highest_version_that_both_know), cmocka_unit_test(a_peer_without_a_common_version_is_told_once_and_not_used),
        cmocka_unit_test(a_registration_says_its_levels_in_any_version_and_its_release_and_markers_where_there_is_room), cmocka_unit_test(every_request_survives_the_way),
        cmocka_unit_test(nobody_speaks_for_another_broker_and_nothing_is_missing),
        cmocka_unit_test(answers_come_back_by_name), cmocka_unit_test(several_reports_are_understood_on_both_sides_of_an_upgrade), cmocka_unit_test(a_hello_does_not_move_a_peer_that_is_reached), cmocka_unit_test(calls_that_are_alone_end_and_leave_room), cmocka_unit_test(voters_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
