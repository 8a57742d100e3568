/* Nanoseconds for decoding and encoding the messages of the hot path: the best of several rounds. */
#include "base/wire/fetch_request.h"
#include "base/wire/fetch_response.h"
#include "base/wire/metadata_response.h"
#include "base/wire/produce_request.h"
#include "base/wire/produce_response.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS         7
#define TURNS          20000
#define PARTITIONS_MAX 1000

static uint8_t wire[1 << 20], again[1 << 20], memory[1 << 20];
static struct ot_fetch_response_partition_data fetched[PARTITIONS_MAX];

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static size_t encode(const struct ot_wire_message *message, int16_t version, const void *record, uint8_t *out, size_t bytes)
{
    struct ot_writer writer = ot_writer_over(out, bytes);
    if (ot_wire_encode(message, version, record, &writer, NULL) != OT_OK) {
        exit(1);
    }
    return (size_t)(writer.at - out);
}

static void decode(const struct ot_wire_message *message, int16_t version, size_t bytes, void *record)
{
    struct ot_arena arena;
    struct ot_reader reader = ot_reader_over(wire, bytes);
    ot_arena_init_with(&arena, memory, sizeof memory, sizeof memory);
    if (ot_wire_decode_all(message, version, &reader, &arena, record, NULL) != OT_OK) {
        exit(1);
    }
}

static void measure(const char *what, const struct ot_wire_message *message, int16_t version, const void *record, int turns)
{
    size_t bytes = encode(message, version, record, wire, sizeof wire);
    void *copy = malloc(message->structs[message->root].bytes);
    double best[2] = {1e18, 1e18};
    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = now_ns();
        for (int i = 0; i < turns; i++) {
            decode(message, version, bytes, copy);
        }
        int64_t middle = now_ns();
        for (int i = 0; i < turns; i++) {
            (void)encode(message, version, copy, again, sizeof again);
        }
        double took[2] = {(double)(middle - start) / turns, (double)(now_ns() - middle) / turns};
        for (int i = 0; i < 2; i++) {
            best[i] = took[i] < best[i] ? took[i] : best[i];
        }
    }
    printf("%s_decode %.0f ns\n%s_encode %.0f ns\n", what, best[0], what, best[1]);
    free(copy);
}

static void measure_produce(void)
{
    static uint8_t records[100];
    struct ot_produce_request_partition_produce_data partition = {.records = {records, sizeof records, false}};
    struct ot_produce_request_topic_produce_data topic = {.name = ot_str_of("orders"), .partition_data = {&partition, 1}};
    struct ot_produce_request request;
    ot_produce_request_defaults(&request);
    request.acks = -1;
    request.topic_data.items = &topic;
    request.topic_data.count = 1;
    measure("produce_request_v9_1_partition", &ot_produce_request_message, 9, &request, TURNS * 10);
    topic.name = ot_str_of("");
    topic.topic_id.bytes[0] = 7;
    measure("produce_request_v13_1_partition", &ot_produce_request_message, 13, &request, TURNS * 10);
    struct ot_produce_response_partition_produce_response answer;
    ot_produce_response_partition_produce_response_defaults(&answer);
    answer.base_offset = 41;
    struct ot_produce_response_topic_produce_response topic_answer = {.topic_id.bytes[0] = 7, .partition_responses = {&answer, 1}};
    struct ot_produce_response response;
    ot_produce_response_defaults(&response);
    response.responses.items = &topic_answer;
    response.responses.count = 1;
    measure("produce_response_v13_1_partition", &ot_produce_response_message, 13, &response, TURNS * 10);
}

static void measure_fetch(int32_t partitions)
{
    static struct ot_fetch_request_fetch_partition asked[PARTITIONS_MAX];
    char what[64];
    for (int32_t i = 0; i < partitions; i++) {
        ot_fetch_request_fetch_partition_defaults(&asked[i]);
        asked[i].partition = i;
        asked[i].current_leader_epoch = 3;
        asked[i].fetch_offset = i * 1000;
        asked[i].partition_max_bytes = 1048576;
        ot_fetch_response_partition_data_defaults(&fetched[i]);
        fetched[i].partition_index = i;
        fetched[i].high_watermark = fetched[i].last_stable_offset = 5;
        fetched[i].aborted_transactions.count = -1;
        fetched[i].records = (struct ot_blob){wire, 0, false};
    }
    struct ot_fetch_request_fetch_topic topic = {.topic_id.bytes[0] = 7, .partitions = {asked, partitions}};
    struct ot_fetch_request request;
    ot_fetch_request_defaults(&request);
    request.topics.items = &topic;
    request.topics.count = 1;
    (void)snprintf(what, sizeof what, "fetch_request_v17_%d_partitions", partitions);
    measure(what, &ot_fetch_request_message, 17, &request, TURNS * 10 / partitions);
    struct ot_fetch_response_fetchable_topic_response topic_answer = {.topic_id.bytes[0] = 7, .partitions = {fetched, partitions}};
    struct ot_fetch_response response;
    ot_fetch_response_defaults(&response);
    response.responses.items = &topic_answer;
    response.responses.count = 1;
    (void)snprintf(what, sizeof what, "fetch_response_v17_%d_partitions", partitions);
    measure(what, &ot_fetch_response_message, 17, &response, TURNS * 10 / partitions);
}

int main(void)
{
    measure_produce();
    measure_fetch(1);
    measure_fetch(PARTITIONS_MAX);
    return 0;
}
