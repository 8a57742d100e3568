/* Produce and fetch allocate nothing once the loops are warm; and every allocation of the door and of the connections fails once: the client gets an answer or the end of
 * its connection, never silence, and all memory comes back. */
#include "client.h"

#include "alloc_fault.h"
#include "base/wire/fetch_request.h"
#include "base/wire/metadata_request.h"
#include "base/wire/metadata_response.h"
#include "base/wire/produce_request.h"

static uint8_t frames[3][512];
static size_t frame_bytes[3];

/* Requests are encoded once, so that only the door can allocate. */
static void frames_make(void)
{
    static const int16_t keys[] = { OT_API_PRODUCE, OT_API_FETCH, OT_API_METADATA }, versions[] = { 9, 12, 12 };
    uint8_t records[100] = { 0 };
    struct ot_produce_request_partition_produce_data part = { .index = 0, .records = { records, sizeof records, false } };
    struct ot_produce_request_topic_produce_data topic = { .name = ot_str_of("a"), .partition_data.items = &part, .partition_data.count = 1 };
    struct ot_fetch_request_fetch_partition poll_part = { .partition = 0, .current_leader_epoch = -1, .last_fetched_epoch = -1, .log_start_offset = -1,
        .partition_max_bytes = 1000, .high_watermark = INT64_MAX };
    struct ot_fetch_request_fetch_topic poll_topic = { .topic = ot_str_of("a"), .partitions.items = &poll_part, .partitions.count = 1 };
    struct ot_produce_request produce;
    struct ot_fetch_request fetch;
    struct ot_metadata_request metadata;
    ot_produce_request_defaults(&produce);
    ot_fetch_request_defaults(&fetch);
    ot_metadata_request_defaults(&metadata);
    produce.acks = 1;
    produce.topic_data.items = &topic;
    produce.topic_data.count = 1;
    fetch.topics.items = &poll_topic;
    fetch.topics.count = 1;
    metadata.topics.count = -1;
    const void *const bodies[] = { &produce, &fetch, &metadata };
    for (int i = 0; i < 3; i++) {
        const struct ot_api *api = ot_api_find(keys[i]);
        const struct ot_wire_request_header header = { .api = api, .key = keys[i], .version = versions[i], .correlation_id = i, .client_id = ot_str_of("c") };
        struct ot_writer out = ot_writer_over(frames[i], sizeof frames[i]);
        ot_write_u32(&out, 0);
        assert_int_equal(ot_wire_request_header_encode(&header, &out), OT_OK);
        assert_int_equal(ot_wire_encode(api->request, versions[i], bodies[i], &out, NULL), OT_OK);
        frame_bytes[i] = (size_t)(out.at - frames[i]);
        ot_store_u32(frames[i], (uint32_t)frame_bytes[i] - 4);
    }
}

/* The answer is read and dropped; false: the connection ended instead. */
static bool hear_any(int fd)
{
    static uint8_t sink[65536];
    uint8_t head[4];
    if (!hear_bytes(fd, head, 4)) return false;
    assert_in_range(ot_load_u32(head), 4, sizeof sink);
    return hear_bytes(fd, sink, ot_load_u32(head));
}

static void file_make(void)
{
    char path[] = "/tmp/ottla-door-XXXXXX", bytes[2000];
    memset(bytes, 'r', sizeof bytes);
    fake.file = mkstemp(path);
    assert_true(fake.file >= 0);
    unlink(path);
    assert_int_equal(write(fake.file, bytes, sizeof bytes), sizeof bytes);
    fake.fetch_bytes = 900;
}

static void produce_and_fetch_allocate_nothing_once_warm(void **state)
{
    (void)state;
    frames_make();
    door_start();
    file_make();
    const int fd = client();
    uint64_t before = 0;
    for (int i = 0; i < 2000; i++) {
        if (i == 200) before = alloc_count();
        say(fd, frames[i % 2], frame_bytes[i % 2]);
        assert_true(hear_any(fd));
    }
    assert_int_equal(alloc_count(), before);
    close(fd);
    door_stop();
}

static void a_start_without_memory_says_so_and_leaves_nothing(void **state)
{
    (void)state;
    fake_init();
    struct ot_pool *requests = ot_pool_new("requests", 1u << 20, 0), *answers = ot_pool_new("answers", 1u << 20, 0);
    const struct rpc_kafka_setup setup = { .request_pool = requests, .response_pool = answers };
    for (uint64_t n = 1;; n++) {
        struct rpc_kafka_server *server = NULL;
        const int64_t live = alloc_live();
        alloc_fail_at(n);
        const enum ot_err err = rpc_kafka_server_start(fake_pointer(), &setup, &server);
        const bool fired = alloc_fired();
        assert_int_equal(err, fired ? OT_ERR_NO_MEMORY : OT_OK);
        rpc_kafka_server_free(server);
        assert_int_equal(alloc_live(), live);
        if (!fired) break;
    }
    fake_free();
    ot_pool_free(requests);
    ot_pool_free(answers);
}

static void a_request_without_memory_ends_in_an_answer_or_in_the_end(void **state)
{
    (void)state;
    frames_make();
    bool fired = true;
    for (uint64_t n = 1; fired && n < 200; n++) {
        door_start();                      /* cold each time: free lists and pools are empty */
        file_make();
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
        patience(pair[0]);
        alloc_fail_at(n);
        if (rpc_kafka_server_adopt(door.server, pair[1]) == OT_OK) {
            for (int i = 0; i < 3; i++) (void)send(pair[0], frames[i], frame_bytes[i], MSG_NOSIGNAL);
            for (int i = 0; i < 3 && hear_any(pair[0]); i++) {}
        }
        fired = alloc_fired();
        const int other = client();        /* and nobody else suffers */
        say(other, frames[2], frame_bytes[2]);
        assert_true(hear_any(other));
        close(other);
        close(pair[0]);
        door_stop();
    }
    assert_false(fired);
}

TEST_MAIN(cmocka_unit_test(produce_and_fetch_allocate_nothing_once_warm), cmocka_unit_test(a_start_without_memory_says_so_and_leaves_nothing),
    cmocka_unit_test(a_request_without_memory_ends_in_an_answer_or_in_the_end))
