/* Produce and Fetch through the door: order, silence, file ranges to the byte, waiting and leaving. */
#include "client.h"

#include "base/wire/api_versions_request.h"
#include "base/wire/api_versions_response.h"
#include "base/wire/fetch_request.h"
#include "base/wire/fetch_response.h"
#include "base/wire/metadata_request.h"
#include "base/wire/metadata_response.h"
#include "base/wire/produce_request.h"
#include "base/wire/produce_response.h"

/* ---- produce */

struct batch { struct ot_produce_request request; struct ot_produce_request_topic_produce_data topic; struct ot_produce_request_partition_produce_data part; uint8_t bytes[2000]; };

static void batch_fill(struct batch *batch, int16_t version, const char *topic, int32_t partition, int16_t acks, uint8_t first, uint32_t bytes)
{
    memset(batch->bytes, 0x55, sizeof batch->bytes);
    batch->bytes[0] = first;
    ot_produce_request_defaults(&batch->request);
    memset(&batch->topic, 0, sizeof batch->topic);
    if (version < 13) batch->topic.name = ot_str_of(topic);
    else memset(batch->topic.topic_id.bytes, topic[0] == 'a' ? 1 : 2, 16);
    batch->part = (struct ot_produce_request_partition_produce_data){ .index = partition, .records = { batch->bytes, bytes, false } };
    batch->topic.partition_data.items = &batch->part;
    batch->topic.partition_data.count = 1;
    batch->request.acks = acks;
    batch->request.timeout_ms = 1500;
    batch->request.topic_data.items = &batch->topic;
    batch->request.topic_data.count = 1;
}

static void every_version_of_produce_tells_what_it_can(void **state)
{
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 3; version <= 13; version++) {
        struct batch batch;
        struct ot_produce_response response;
        batch_fill(&batch, version, "a", 0, version % 2 == 0 ? -1 : 1, (uint8_t)(version - 3), 100);
        exchange(fd, OT_API_PRODUCE, version, &batch.request, &response);
        assert_int_equal(response.responses.count, 1);
        const struct ot_produce_response_partition_produce_response *part = &response.responses.items[0].partition_responses.items[0];
        assert_int_equal(part->error_code, 0);
        assert_int_equal(part->base_offset, version - 3);
        assert_int_equal(part->log_append_time_ms, 1234);
        assert_int_equal(part->log_start_offset, version >= 5 ? 7 : -1);
        assert_true(part->error_message.null || version < 8);
        if (version >= 13) assert_int_equal(response.responses.items[0].topic_id.bytes[5], 1);
        else assert_str(response.responses.items[0].name, "a");
    }
    assert_int_equal(fake.out_of_order, 0);
    assert_int_equal(fake.appended_bytes, 1100);
    assert_int_equal(fake.last_produce.acks, 1);
    assert_int_equal(fake.last_produce.timeout_ms, 1500);
    assert_int_equal(fake.last_produce.api_version, 13);
    close(fd);
    door_stop();
}

static void errors_carry_text_records_and_the_current_leader(void **state)
{
    struct batch batch;
    struct ot_produce_response response;
    (void)state;
    door_start();
    const int fd = client();
    fake.produce_error = OT_ERR_INVALID_RECORD;
    for (int16_t version = 7; version <= 8; version++) {
        batch_fill(&batch, version, "a", 0, 1, 0, 100);
        exchange(fd, OT_API_PRODUCE, version, &batch.request, &response);
        const struct ot_produce_response_partition_produce_response *part = &response.responses.items[0].partition_responses.items[0];
        assert_int_equal(part->error_code, OT_ERR_INVALID_RECORD);
        assert_int_equal(part->base_offset, -1);
        assert_int_equal(part->record_errors.count, version >= 8 ? 2 : 0);
        if (version < 8) continue;
        assert_int_equal(part->record_errors.items[1].batch_index, 5);
        assert_str(part->record_errors.items[0].batch_index_error_message, "no key");
        assert_str(part->error_message, "record 3 has no key");
    }
    fake.produce_error = OT_ERR_NOT_LEADER_OR_FOLLOWER;
    fake.leader_elsewhere = 2;
    fake.other_host = "other.example";
    for (int16_t version = 9; version <= 10; version++) {
        batch_fill(&batch, version, "a", 0, 1, 0, 100);
        exchange(fd, OT_API_PRODUCE, version, &batch.request, &response);
        const struct ot_produce_response_partition_produce_response *part = &response.responses.items[0].partition_responses.items[0];
        assert_int_equal(part->error_code, OT_ERR_NOT_LEADER_OR_FOLLOWER);
        assert_int_equal(part->current_leader.leader_id, version >= 10 ? 2 : -1);
        assert_int_equal(response.node_endpoints.count, version >= 10 ? 1 : 0);
        if (version < 10) continue;
        assert_str(response.node_endpoints.items[0].host, "other.example");
        assert_int_equal(response.node_endpoints.items[0].port, 9192);
        assert_int_equal(part->current_leader.leader_epoch, 9);
    }
    fake.produce_error = OT_OK;
    batch_fill(&batch, 13, "zz", 0, 1, 0, 100);
    memset(batch.topic.topic_id.bytes, 99, 16);
    exchange(fd, OT_API_PRODUCE, 13, &batch.request, &response);
    assert_int_equal(response.responses.items[0].partition_responses.items[0].error_code, OT_ERR_UNKNOWN_TOPIC_ID);
    close(fd);
    door_stop();
}

static void acks_0_is_not_answered_and_an_error_closes(void **state)
{
    struct batch batch;
    struct ot_metadata_request request;
    struct ot_metadata_response response;
    (void)state;
    door_start();
    const int fd = client();
    for (int i = 0; i < 3; i++) {
        batch_fill(&batch, 9, "a", 0, 0, (uint8_t)i, 100);
        ask(fd, OT_API_PRODUCE, 9, &batch.request);
    }
    ot_metadata_request_defaults(&request);
    exchange(fd, OT_API_METADATA, 12, &request, &response);        /* the next answer is this one */
    assert_int_equal(fake.appended, 3);
    batch_fill(&batch, 9, "a", 5, 0, 0, 100);
    ask(fd, OT_API_PRODUCE, 9, &batch.request);
    hear_end(fd);
    close(fd);
    door_stop();
}

static void produce_requests_overlap_in_order_even_when_they_are_queued_late(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        door_start();
        fake.late_queued = late == 1;
        fake.hold_produce = true;
        const int fd = client();
        int32_t correlation[200];
        for (int i = 0; i < 200; i++) {
            struct batch batch;
            batch_fill(&batch, 9, "a", 0, -1, (uint8_t)i, 50);
            correlation[i] = ask(fd, OT_API_PRODUCE, 9, &batch.request);
        }
        until(&fake.held_produce_count, 200);          /* none of them was answered, all are in work */
        assert_int_equal(fake_now(&fake.out_of_order), 0);
        fake_release();                                /* newest first */
        for (int i = 0; i < 200; i++) {
            struct ot_produce_response response;
            hear(fd, OT_API_PRODUCE, 9, correlation[i], &response);
            assert_int_equal(response.responses.items[0].partition_responses.items[0].base_offset, i);
        }
        close(fd);
        door_stop();
    }
}

static void other_requests_wait_for_what_was_sent_before_them(void **state)
{
    struct batch batch;
    struct ot_metadata_request request;
    struct ot_metadata_response metadata;
    struct ot_produce_response produced;
    (void)state;
    door_start();
    fake.hold_produce = true;
    const int fd = client();
    batch_fill(&batch, 9, "a", 0, -1, 0, 50);
    const int32_t first = ask(fd, OT_API_PRODUCE, 9, &batch.request);
    until(&fake.held_produce_count, 1);
    ot_metadata_request_defaults(&request);
    struct ot_metadata_request_metadata_request_topic topic = { .name = ot_str_of("made-meanwhile") };
    request.topics.items = &topic;
    request.topics.count = 1;
    request.allow_auto_topic_creation = false;
    const int32_t second = ask(fd, OT_API_METADATA, 12, &request);
    pthread_mutex_lock(&fake.mutex);                   /* whatever happens now, Metadata must see it: it is worked on after the answer */
    (void)fake_topic("made-meanwhile", 1);
    pthread_mutex_unlock(&fake.mutex);
    fake_release();
    hear(fd, OT_API_PRODUCE, 9, first, &produced);
    hear(fd, OT_API_METADATA, 12, second, &metadata);
    assert_int_equal(metadata.topics.items[0].error_code, 0);
    close(fd);
    door_stop();
}

/* ---- fetch */

static uint8_t file_byte(uint64_t pos) { return (uint8_t)((pos * 2654435761u) >> 13); }

static void file_make(uint32_t bytes)
{
    char path[] = "/tmp/ottla-door-XXXXXX";
    uint8_t *data = malloc(bytes);
    fake.file = mkstemp(path);
    assert_true(fake.file >= 0);
    unlink(path);
    for (uint32_t i = 0; i < bytes; i++) data[i] = file_byte(i);
    assert_int_equal(pwrite(fake.file, data, bytes, 0), bytes);
    free(data);
}

struct poll { struct ot_fetch_request request; struct ot_fetch_request_fetch_topic topics[2]; struct ot_fetch_request_fetch_partition parts[4]; };

/* a-0, b-0, b-1, b-2 */
static void poll_fill(struct poll *poll, int16_t version)
{
    ot_fetch_request_defaults(&poll->request);
    memset(poll->topics, 0, sizeof poll->topics);
    for (int i = 0; i < 4; i++) {
        poll->parts[i] = (struct ot_fetch_request_fetch_partition){ .partition = i == 0 ? 0 : i - 1, .current_leader_epoch = -1, .fetch_offset = 10 + i,
            .last_fetched_epoch = -1, .log_start_offset = -1, .partition_max_bytes = 1000 + i, .high_watermark = INT64_MAX };
    }
    for (int i = 0; i < 2; i++) {
        if (version < 13) poll->topics[i].topic = ot_str_of(i == 0 ? "a" : "b");
        else memset(poll->topics[i].topic_id.bytes, i + 1, 16);
    }
    poll->topics[0].partitions.items = &poll->parts[0];
    poll->topics[0].partitions.count = 1;
    poll->topics[1].partitions.items = &poll->parts[1];
    poll->topics[1].partitions.count = 3;
    poll->request.max_wait_ms = 500;
    poll->request.min_bytes = 1;
    poll->request.topics.items = poll->topics;
    poll->request.topics.count = 2;
}

static void file_ranges_arrive_as_the_encoder_would_have_written_them(void **state)
{
    (void)state;
    door_start();
    file_make(300000);
    const int fd = client();
    static const uint32_t sizes[] = { 0, 1, 3, 127, 128, 20000, 250000 };
    for (int16_t version = 4; version <= 18; version++) {
        for (size_t i = 0; i < OT_ARRAY_COUNT(sizes); i++) {
            struct poll poll;
            struct ot_fetch_response response;
            uint32_t bytes = 0;
            int32_t told = 0;
            fake.fetch_bytes = sizes[i];
            fake.aborted = i % 3 == 0 ? -1 : (int32_t)i % 3;
            poll_fill(&poll, version);
            const int32_t correlation = ask(fd, OT_API_FETCH, version, &poll.request);
            const uint8_t *frame = hear_frame(fd, &bytes);
            struct ot_reader in = ot_reader_over(frame, bytes);
            assert_int_equal(ot_wire_response_header_decode(ot_api_find(OT_API_FETCH), version, &in, &door.arena, &told, NULL), OT_OK);
            assert_int_equal(told, correlation);
            const uint8_t *body = in.at;
            const size_t body_bytes = ot_reader_left(&in);
            assert_int_equal(ot_wire_decode_all(&ot_fetch_response_message, version, &in, &door.arena, &response, NULL), OT_OK);
            assert_int_equal(response.responses.count, 2);
            assert_int_equal(response.responses.items[1].partitions.count, 3);
            for (int t = 0; t < 2; t++) {
                for (int32_t p = 0; p < response.responses.items[t].partitions.count; p++) {
                    const struct ot_fetch_response_partition_data *part = &response.responses.items[t].partitions.items[p];
                    assert_int_equal(part->partition_index, p);
                    assert_int_equal(part->high_watermark, 100 + t + p);
                    assert_int_equal(part->log_start_offset, version >= 5 ? 5 : -1);
                    assert_int_equal(part->aborted_transactions.count, fake.aborted);
                    assert_int_equal(part->records.bytes, sizes[i]);
                    assert_false(part->records.null);
                    for (uint32_t b = 0; b < sizes[i]; b++) {
                        if (part->records.data[b] != file_byte((uint64_t)p * 10 + b)) fail_msg("v%d: byte %u of partition %d differs", version, b, p);
                    }
                }
            }
            /* to the byte: what was decoded, written by the encoder with the records in memory */
            uint8_t *again = malloc(body_bytes);
            struct ot_writer out = ot_writer_over(again, body_bytes);
            assert_int_equal(ot_fetch_response_encode(&response, version, &out, NULL), OT_OK);
            assert_int_equal(out.at - again, body_bytes);
            assert_memory_equal(again, body, body_bytes);
            free(again);
            ot_arena_reset(&door.arena);
        }
    }
    assert_int_equal(fake.last_fetch.asks[0].partition, 0);
    close(fd);
    door_stop();
}

static void what_is_asked_reaches_the_broker(void **state)
{
    struct poll poll;
    struct ot_fetch_response response;
    (void)state;
    door_start();
    const int fd = client();
    struct ot_fetch_request_forgotten_topic forgotten = { .topic = ot_str_of("b") };
    int32_t gone[] = { 1, 2 };
    poll_fill(&poll, 12);
    forgotten.partitions = (struct ot_i32_array){ gone, 2 };
    poll.request.forgotten_topics_data.items = &forgotten;
    poll.request.forgotten_topics_data.count = 1;
    poll.request.isolation_level = 1;
    poll.request.session_id = 77;
    poll.request.session_epoch = 3;
    poll.request.max_bytes = 4096;
    poll.request.rack_id = ot_str_of("r2");
    fake.hold_fetch = true;
    const int32_t correlation = ask(fd, OT_API_FETCH, 12, &poll.request);
    until(&fake.held_fetch_count, 1);
    pthread_mutex_lock(&fake.mutex);
    const struct broker_fetch *seen = fake.held_fetch[0];
    assert_int_equal(seen->ask_count, 4);
    assert_str(seen->asks[3].topic, "b");
    assert_int_equal(seen->asks[3].partition, 2);
    assert_int_equal(seen->asks[3].offset, 13);
    assert_int_equal(seen->asks[3].max_bytes, 1003);
    assert_int_equal(seen->forgotten_count, 2);
    assert_int_equal(seen->forgotten[1].partition, 2);
    assert_true(seen->read_committed);
    assert_int_equal(seen->session_id, 77);
    assert_int_equal(seen->session_epoch, 3);
    assert_int_equal(seen->max_wait_ms, 500);
    assert_int_equal(seen->max_bytes, 4096);
    assert_int_equal(seen->replica_id, -1);
    assert_str(seen->rack, "r2");
    assert_str(seen->client.client_id, "test-client");
    pthread_mutex_unlock(&fake.mutex);
    fake_release();
    hear(fd, OT_API_FETCH, 12, correlation, &response);
    assert_int_equal(response.session_id, 77);
    close(fd);
    door_stop();
}

static void errors_of_a_fetch_are_told_where_the_version_has_a_place(void **state)
{
    struct poll poll;
    struct ot_fetch_response response;
    (void)state;
    door_start();
    const int fd = client();
    fake.fetch_error = OT_ERR_INVALID_FETCH_SESSION_EPOCH;
    for (int16_t version = 7; version <= 18; version++) {
        poll_fill(&poll, version);
        exchange(fd, OT_API_FETCH, version, &poll.request, &response);
        assert_int_equal(response.error_code, 71);
        assert_int_equal(response.responses.count, 0);
    }
    fake.fetch_error = OT_OK;
    fake.row_error = OT_ERR_NOT_LEADER_OR_FOLLOWER;
    fake.leader_elsewhere = 2;
    fake.other_host = "other.example";
    for (int16_t version = 11; version <= 16; version++) {
        poll_fill(&poll, version);
        exchange(fd, OT_API_FETCH, version, &poll.request, &response);
        const struct ot_fetch_response_partition_data *part = &response.responses.items[1].partitions.items[2];
        assert_int_equal(part->error_code, OT_ERR_NOT_LEADER_OR_FOLLOWER);
        assert_int_equal(part->high_watermark, -1);
        assert_int_equal(part->current_leader.leader_id, version >= 12 ? 2 : -1);
        assert_int_equal(response.node_endpoints.count, version >= 16 ? 1 : 0);
        assert_int_equal(part->records.bytes, 0);
        assert_false(part->records.null);
    }
    close(fd);
    door_stop();
}

static void a_client_that_leaves_cancels_its_long_poll(void **state)
{
    struct poll poll;
    (void)state;
    door_start();
    file_make(10000);
    fake.fetch_bytes = 900;
    fake.hold_fetch = true;
    const int fd = client();
    poll_fill(&poll, 12);
    ask(fd, OT_API_FETCH, 12, &poll.request);
    ask(fd, OT_API_FETCH, 12, &poll.request);
    until(&fake.held_fetch_count, 2);
    close(fd);
    until(&fake.cancelled, 2);
    door_stop();                           /* the answers went nowhere: pins and buffers are back */
}

/* Three of them hold all that requests in work on a loop may hold, with three bytes for each topic without a name. */
static void what_needs_little_is_begun_whatever_large_polls_hold(void **state)
{
    enum { TOPICS = 900000, POLLS = 4 };
    struct ot_fetch_request_fetch_topic *topics = calloc(TOPICS, sizeof *topics);
    struct ot_fetch_response response;
    struct ot_metadata_request metadata;
    struct ot_metadata_response cluster;
    struct poll poll;
    int32_t correlations[POLLS];
    (void)state;
    door_start();
    fake.hold_fetch = true;
    const int greedy = client(), elsewhere = client(), other = client();       /* the first and the last share a loop */
    poll_fill(&poll, 12);
    poll.request.topics = (struct ot_fetch_request_fetch_topic_array){ topics, TOPICS };
    for (int i = 0; i < POLLS; i++) correlations[i] = ask(greedy, OT_API_FETCH, 12, &poll.request);
    until(&fake.held_fetch_count, 3);
    ot_metadata_request_defaults(&metadata);
    for (int i = 0; i < 10; i++) {
        exchange(elsewhere, OT_API_METADATA, 12, &metadata, &cluster);
        exchange(other, OT_API_METADATA, 12, &metadata, &cluster);
    }
    assert_int_equal(fake_now(&fake.held_fetch_count), 3);     /* the fourth waits for one of them */
    fake_release();
    until(&fake.held_fetch_count, 1);
    fake_release();
    for (int i = 0; i < POLLS; i++) hear(greedy, OT_API_FETCH, 12, correlations[i], &response);
    free(topics);
    close(greedy);
    close(elsewhere);
    close(other);
    door_stop();
}

static void a_stop_answers_long_polls_at_once(void **state)
{
    struct poll poll;
    struct ot_fetch_response response;
    (void)state;
    door_start();
    fake.hold_fetch = true;
    const int fd = client();
    poll_fill(&poll, 12);
    const int32_t correlation = ask(fd, OT_API_FETCH, 12, &poll.request);
    until(&fake.held_fetch_count, 1);
    rpc_kafka_server_stop(door.server, 10000);
    hear(fd, OT_API_FETCH, 12, correlation, &response);
    hear_end(fd);
    close(fd);
    door_stop();
}

static void a_reader_that_stops_reading_gives_back_its_pins_when_it_leaves(void **state)
{
    (void)state;
    door_start();
    file_make(300000);
    fake.fetch_bytes = 250000;
    for (int round = 0; round < 10; round++) {
        const int fd = client();
        for (int i = 0; i < 5; i++) {
            struct poll poll;
            poll_fill(&poll, 12);
            ask(fd, OT_API_FETCH, 12, &poll.request);
        }
        uint8_t some[5000];
        assert_true(hear_bytes(fd, some, (size_t)(1 + round * 400)));
        close(fd);
    }
    door_stop();
}

static void many_connections_at_once(void **state)
{
    enum { CLIENTS = 40, ROUNDS = 25 };
    int fds[CLIENTS];
    int32_t correlation[CLIENTS][2];
    (void)state;
    door_start();
    file_make(20000);
    fake.fetch_bytes = 5000;
    for (int i = 0; i < CLIENTS; i++) fds[i] = client();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            struct batch batch;
            struct poll poll;
            batch_fill(&batch, 9, "b", i % 3, 1, 0, 1500);
            poll_fill(&poll, 12);
            correlation[i][0] = ask(fds[i], OT_API_PRODUCE, 9, &batch.request);
            correlation[i][1] = ask(fds[i], OT_API_FETCH, 12, &poll.request);
        }
        for (int i = 0; i < CLIENTS; i++) {
            struct ot_produce_response produced;
            struct ot_fetch_response fetched;
            hear(fds[i], OT_API_PRODUCE, 9, correlation[i][0], &produced);
            hear(fds[i], OT_API_FETCH, 12, correlation[i][1], &fetched);
            assert_int_equal(fetched.responses.items[1].partitions.items[2].records.bytes, 5000);
        }
        ot_arena_reset(&door.arena);
    }
    assert_int_equal(fake_now(&fake.produces), CLIENTS * ROUNDS);
    for (int i = 0; i < CLIENTS; i++) close(fds[i]);
    door_stop();
}

TEST_MAIN(cmocka_unit_test(every_version_of_produce_tells_what_it_can), cmocka_unit_test(errors_carry_text_records_and_the_current_leader),
    cmocka_unit_test(acks_0_is_not_answered_and_an_error_closes), cmocka_unit_test(produce_requests_overlap_in_order_even_when_they_are_queued_late),
    cmocka_unit_test(other_requests_wait_for_what_was_sent_before_them), cmocka_unit_test(file_ranges_arrive_as_the_encoder_would_have_written_them),
    cmocka_unit_test(what_is_asked_reaches_the_broker), cmocka_unit_test(errors_of_a_fetch_are_told_where_the_version_has_a_place),
    cmocka_unit_test(a_client_that_leaves_cancels_its_long_poll), cmocka_unit_test(a_stop_answers_long_polls_at_once),
    cmocka_unit_test(what_needs_little_is_begun_whatever_large_polls_hold),
    cmocka_unit_test(a_reader_that_stops_reading_gives_back_its_pins_when_it_leaves), cmocka_unit_test(many_connections_at_once))
