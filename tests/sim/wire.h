/* A follower's fetch as the bytes that a link carries, served by another core in this process. */
#ifndef OT_SIM_WIRE_H
#define OT_SIM_WIRE_H

#include "base/wire/apis.h"
#include "base/wire/fetch_request.h"
#include "base/wire/fetch_response.h"
#include "base/wire/frame.h"
#include "broker/core.h"
#include "broker/fetch.h"
#include "disk.h"
#include "spans.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_wire_test {                         /* what a test does to all of its fetches, and hears of them */
    uint64_t lift;                             /* leaders that lie: offsets of batches are so much higher */
    bool forgetful, full;                      /* leaders know no session that there was; have no room for one */
    uint32_t unheard;                          /* so many answers' high watermarks come to nothing */
    uint32_t named, forgotten, sessions;       /* named, forgotten: partitions, by requests of fetches; sessions: requests that begin one */
};
struct sim_wire {
    void (*served)(struct sim_wire *wire, struct ot_buf *answer);      /* the caller's reference; size in front, as a link gives it. On the leader's home */
    struct sim_wire_test *test;                /* NULL: there is none */
    struct sim_disk *disk; struct ot_pool *pool;
    struct broker_fetch fetch;
    struct broker_fetch_ask *asks, *forgotten;
    struct ot_arena arena, rows;
    char client_id[32];
};

static inline void sim_wire_init(struct sim_wire *wire, void (*served)(struct sim_wire *wire, struct ot_buf *answer))
{
    *wire = (struct sim_wire){ .served = served };
    ot_arena_init(&wire->arena, 1u << 20);
    ot_arena_init(&wire->rows, 8u << 20);
}

static inline void sim_wire_free(struct sim_wire *wire)
{
    ot_arena_free(&wire->arena);
    ot_arena_free(&wire->rows);
}

/* False: the leader's disk failed under it. */
static inline bool sim_wire_records(struct sim_wire *wire, const struct broker_fetch_row *row, struct ot_blob *out)
{
    uint8_t *data = ot_arena_alloc(&wire->rows, row->read.bytes + 1);
    size_t bytes = sim_spans_copy(sim_disk_io(wire->disk), &row->read, data, row->read.bytes);
    if (bytes >= 8 && wire->test != NULL) ot_store_u64(data, ot_load_u64(data) + wire->test->lift);       /* the CRC is not over the offset */
    *out = (struct ot_blob){ data, (uint32_t)bytes, false };
    return bytes == row->read.bytes;
}

static inline void sim_wire_fetched(struct broker_call *call)
{
    struct sim_wire *wire = OT_CONTAINER(call, struct sim_wire, fetch.call);
    struct broker_fetch *fetch = &wire->fetch;
    struct ot_fetch_response response;
    struct ot_fetch_response_fetchable_topic_response *topics = ot_arena_array(&wire->rows, fetch->row_count + 1, sizeof *topics);
    struct ot_fetch_response_partition_data *parts = ot_arena_array(&wire->rows, fetch->row_count + 1, sizeof *parts);
    bool whole = true;
    ot_fetch_response_defaults(&response);
    response.error_code = ot_err_kafka(fetch->error);
    response.session_id = wire->test != NULL && wire->test->full ? 0 : fetch->session_id_out;
    response.responses.items = topics;
    response.responses.count = (int32_t)fetch->row_count;
    for (uint32_t i = 0; i < fetch->row_count; i++) {
        const struct broker_fetch_row *row = &fetch->rows[i];
        ot_fetch_response_fetchable_topic_response_defaults(&topics[i]);
        ot_fetch_response_partition_data_defaults(&parts[i]);
        topics[i].topic_id = row->topic_id;
        topics[i].partitions.items = &parts[i];
        topics[i].partitions.count = 1;
        parts[i].partition_index = row->partition;
        parts[i].error_code = ot_err_kafka(row->error);
        parts[i].high_watermark = row->high_watermark;
        if (wire->test != NULL && wire->test->unheard > 0 && row->error == OT_OK) {
            parts[i].high_watermark = 0;
            wire->test->unheard--;
        }
        parts[i].log_start_offset = row->log_start_offset;
        parts[i].diverging_epoch.epoch = row->diverging_epoch;
        parts[i].diverging_epoch.end_offset = row->diverging_end_offset;
        whole = sim_wire_records(wire, row, &parts[i].records) && whole;
    }
    struct ot_buf *buf = NULL;
    if (whole) {
        const size_t bytes = ot_fetch_response_size(&response, 18) + 16;
        buf = ot_buf_new_forced(wire->pool, bytes);
        struct ot_writer out = ot_writer_over(buf->data, bytes);
        enum ot_err err = ot_wire_response_header_encode(ot_api_find(OT_API_FETCH), 18, 7, &out);
        if (err == OT_OK) err = ot_fetch_response_encode(&response, 18, &out, NULL);
        OT_ASSERT(err == OT_OK);
        buf->bytes = (uint32_t)(out.at - out.start);
    }
    broker_fetch_release(fetch);
    free(wire->asks);
    free(wire->forgotten);
    wire->served(wire, buf);
}

static inline void sim_wire_asks(struct sim_wire *wire, const struct ot_fetch_request *request)
{
    uint32_t count = 0;
    for (int32_t t = 0; t < request->topics.count; t++) count += (uint32_t)request->topics.items[t].partitions.count;
    wire->asks = calloc(count + 1, sizeof *wire->asks);
    for (int32_t t = 0; t < request->topics.count; t++) {
        for (int32_t p = 0; p < request->topics.items[t].partitions.count; p++) {
            const struct ot_fetch_request_fetch_partition *part = &request->topics.items[t].partitions.items[p];
            struct broker_fetch_ask *ask = &wire->asks[wire->fetch.ask_count++];
            *ask = (struct broker_fetch_ask){ .topic_id = request->topics.items[t].topic_id, .topic = { .null = true }, .partition = part->partition, .offset = part->fetch_offset,
                .log_start_offset = part->log_start_offset, .leader_epoch = part->current_leader_epoch, .last_epoch = part->last_fetched_epoch, .max_bytes = part->partition_max_bytes,
                .high_watermark = part->high_watermark, .flushed_end = -1 };
            for (int32_t i = 0; i < part->_tags.count; i++)
                if (part->_tags.items[i].tag == 10000) ask->flushed_end = (int64_t)ot_load_u64(part->_tags.items[i].data.data);
        }
    }
    wire->fetch.asks = wire->asks;
}

static inline void sim_wire_session(struct sim_wire *wire, const struct ot_fetch_request *request)
{
    struct sim_wire_test *test = wire->test;
    uint32_t count = 0;
    for (int32_t t = 0; t < request->forgotten_topics_data.count; t++) count += (uint32_t)request->forgotten_topics_data.items[t].partitions.count;
    wire->forgotten = calloc(count + 1, sizeof *wire->forgotten);
    for (int32_t t = 0; t < request->forgotten_topics_data.count; t++) {
        const struct ot_fetch_request_forgotten_topic *topic = &request->forgotten_topics_data.items[t];
        for (int32_t p = 0; p < topic->partitions.count; p++)
            wire->forgotten[wire->fetch.forgotten_count++] = (struct broker_fetch_ask){ .topic_id = topic->topic_id, .topic = { .null = true }, .partition = topic->partitions.items[p] };
    }
    wire->fetch.forgotten = wire->forgotten;
    wire->fetch.session_id = test != NULL && test->forgetful && request->session_epoch > 0 ? request->session_id ^ 1 : request->session_id;
    wire->fetch.session_epoch = request->session_epoch;
    if (test == NULL) return;
    test->named += wire->fetch.ask_count;
    test->forgotten += count;
    test->sessions += request->session_epoch == 0;
}

/* The request's reference passes over. served(NULL): nothing can be read there. */
static inline void sim_wire_serve(struct sim_wire *wire, struct ot_buf *bytes, struct broker *leader, struct ot_exec *home, struct sim_disk *disk, struct ot_pool *pool)
{
    struct ot_wire_request_header header;
    struct ot_wire_error error;
    struct ot_fetch_request request;
    struct ot_reader in = ot_reader_over(bytes->data + 4, bytes->bytes - 4);
    enum ot_err err = ot_wire_request_header_decode(&in, &wire->arena, &header, &error);
    OT_ASSERT(err == OT_OK && header.key == OT_API_FETCH);
    err = ot_fetch_request_decode(&request, header.version, &in, &wire->arena, &error);
    OT_ASSERT(err == OT_OK);
    wire->disk = disk;
    wire->pool = pool;
    wire->fetch = (struct broker_fetch){ .call = { .home = home, .done = sim_wire_fetched }, .api_version = header.version, .replica_id = request.replica_state.replica_id,
        .replica_epoch = request.replica_state.replica_epoch, .follower = true, .max_wait_ms = request.max_wait_ms, .min_bytes = request.min_bytes, .max_bytes = request.max_bytes,
        .arena = &wire->rows };
    (void)snprintf(wire->client_id, sizeof wire->client_id, "%.*s", (int)header.client_id.bytes, header.client_id.data);
    wire->fetch.client.client_id = ot_str_of(wire->client_id);
    sim_wire_asks(wire, &request);
    sim_wire_session(wire, &request);
    ot_buf_unref(bytes);                       /* what was decoded lies in the arena, but for bytes that nobody reads later */
    broker_fetch(leader, &wire->fetch);
}

#endif
