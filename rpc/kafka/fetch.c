/* Fetch: the answer is header bytes with holes, into which the file ranges go as they are.
 *
 *   int32 size | header | ... partition ... records length | [file spans] | ... partition ... | [file spans] | ...
 *
 * The encoder writes all but the records and says where they belong (ot_wire_splices); pins go over to the output queue, which sends by sendfile. */
#include "rpc/kafka/leader_hint.h"
#include "rpc/kafka/request.h"

#include "base/log.h"
#include "base/wire/fetch_request.h"
#include "base/wire/fetch_response.h"

#include <string.h>

enum { TAG_FLUSHED_END = 10000 };

void rpc_fetch_cancel(struct rpc_request *request) { broker_fetch_cancel(&request->call.fetch); }

static bool same_topic(const struct broker_fetch_row *a, const struct broker_fetch_row *b, bool by_id)
{
    return by_id ? ot_uuid_equal(&a->topic_id, &b->topic_id) : ot_str_equal(a->topic, b->topic);
}

static bool aborted_fill(struct rpc_request *request, const struct broker_fetch_row *row, struct ot_fetch_response_partition_data *out)
{
    out->aborted_transactions.count = row->aborted_count;
    if (row->aborted_count <= 0) return true;
    out->aborted_transactions.items = rpc_alloc(request, (size_t)row->aborted_count, sizeof *out->aborted_transactions.items);
    if (out->aborted_transactions.items == NULL) return false;
    for (int32_t i = 0; i < row->aborted_count; i++) {
        out->aborted_transactions.items[i].producer_id = row->aborted[i].producer_id;
        out->aborted_transactions.items[i].first_offset = row->aborted[i].first_offset;
    }
    return true;
}

static bool row_fill(struct rpc_request *request, const struct broker_fetch_row *row, struct ot_fetch_response_partition_data *out)
{
    const int16_t version = request->header.version;
    *out = (struct ot_fetch_response_partition_data){ .partition_index = row->partition, .error_code = ot_err_kafka(row->error), .high_watermark = row->high_watermark,
        .last_stable_offset = row->last_stable_offset, .log_start_offset = row->log_start_offset, .diverging_epoch = { .epoch = -1, .end_offset = -1 },
        .current_leader = { .leader_id = -1, .leader_epoch = -1 }, .snapshot_id = { .end_offset = -1, .epoch = -1 },
        .preferred_read_replica = version >= 11 ? row->preferred_replica : -1,
        .records = { .data = NULL, .bytes = row->read.bytes } };
    if (row->read.bytes == 0) out->records.data = (const uint8_t *)"";     /* empty, not promised */
    if (version >= 12) {
        out->diverging_epoch.epoch = row->diverging_epoch;
        out->diverging_epoch.end_offset = row->diverging_end_offset;
        if (row->leader_id >= 0) {
            out->current_leader.leader_id = row->leader_id;
            out->current_leader.leader_epoch = row->leader_epoch;
        }
    }
    return aborted_fill(request, row, out);
}

/* Rows of one topic that follow each other become one topic of the answer. */
static bool rows_fill(struct rpc_request *request, struct ot_fetch_response *response)
{
    const struct broker_fetch *fetch = &request->call.fetch;
    const bool by_id = request->header.version >= 13;
    struct ot_fetch_response_partition_data *parts = rpc_alloc(request, fetch->row_count, sizeof *parts);
    uint32_t topic_count = 0;
    for (uint32_t i = 0; i < fetch->row_count; i++) topic_count += i == 0 || !same_topic(&fetch->rows[i - 1], &fetch->rows[i], by_id) ? 1u : 0u;
    struct ot_fetch_response_fetchable_topic_response *topics = rpc_alloc(request, topic_count, sizeof *topics), *topic = topics;
    if (fetch->row_count > 0 && (parts == NULL || topics == NULL)) return false;
    for (uint32_t i = 0; i < fetch->row_count; i++) {
        const struct broker_fetch_row *row = &fetch->rows[i];
        if (i == 0 || !same_topic(&fetch->rows[i - 1], row, by_id)) {
            if (i > 0) topic++;
            topic->topic = row->topic;
            topic->topic_id = row->topic_id;
            topic->partitions.items = &parts[i];
        }
        topic->partitions.count++;
        if (!row_fill(request, row, &parts[i])) return false;
        if (request->error == OT_OK) request->error = row->error;
    }
    response->responses.items = topics;
    response->responses.count = (int32_t)topic_count;
    return true;
}

/* v16+: where the leaders named in the answer are. */
static void endpoints_fill(struct rpc_request *request, const struct broker_view *view, struct ot_fetch_response *response)
{
    const struct broker_fetch *fetch = &request->call.fetch;
    struct ot_fetch_response_node_endpoint *rows = NULL;
    struct broker_view_broker broker;
    int32_t count = 0;
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &request->arena, &broker); after = broker.id) {
        bool named = false;
        for (uint32_t i = 0; i < fetch->row_count && !named; i++) named = fetch->rows[i].leader_id == broker.id;
        if (!named) continue;
        struct ot_fetch_response_node_endpoint *more = rpc_alloc(request, (size_t)count + 1, sizeof *more);
        if (more == NULL) return;
        for (int32_t i = 0; i < count; i++) more[i] = rows[i];
        rows = more;
        if (!rpc_advertised_of(request, &broker, &rows[count].host, &rows[count].port)) continue;
        rows[count].node_id = broker.id;
        rows[count++].rack = broker.rack;
    }
    response->node_endpoints.items = rows;
    response->node_endpoints.count = count;
}

/* Header bytes up to the records, the records' spans, and so on. */
static void parts_add(struct rpc_request *request, struct ot_buf *buf, const struct ot_wire_splices *splices)
{
    struct broker_fetch *fetch = &request->call.fetch;
    struct broker_fetch_row *row = fetch->rows;
    uint32_t at = 0;
    for (uint32_t i = 0; i < splices->count; i++) {
        while (row->read.bytes == 0) row++;            /* splices come in the order of the rows */
        const uint32_t pos = (uint32_t)splices->items[i].pos;
        ot_reply_memory(request->reply, buf->data + at, pos - at, NULL);
        at = pos;
        for (uint32_t j = 0; j < row->read.span_count; j++) {
            const bool last = j + 1 == row->read.span_count;
            ot_reply_span(request->reply, &row->read.spans[j], last ? row->read.pin : NULL);
            if (last) row->read.pin = NULL;            /* handed on */
        }
        row++;
    }
    ot_reply_memory(request->reply, buf->data + at, buf->bytes - at, buf);
}

static enum ot_err fetch_send(struct rpc_request *request, const struct ot_fetch_response *response)
{
    const struct broker_fetch *fetch = &request->call.fetch;
    const struct ot_api *api = request->header.api;
    const int16_t version = request->header.version;
    const size_t header_bytes = ot_wire_response_header_bytes(api, version), body_bytes = ot_fetch_response_size(response, version);
    struct ot_wire_splices splices = { .items = rpc_alloc(request, (size_t)fetch->row_count + 1, sizeof(struct ot_wire_splice)), .cap = fetch->row_count };
    const size_t memory_bytes = 4 + header_bytes + body_bytes;
    uint64_t bytes = header_bytes + body_bytes;
    for (uint32_t i = 0; i < fetch->row_count; i++) bytes += fetch->rows[i].read.bytes;
    if (splices.items == NULL) return OT_ERR_NO_MEMORY;
    if (body_bytes == 0) return OT_ERR_MALFORMED;
    if (bytes > INT32_MAX) return OT_ERR_TOO_LARGE;
    struct ot_buf *buf = ot_buf_new_forced(request->server->response_pool, memory_bytes);
    if (buf == NULL) return OT_ERR_NO_MEMORY;
    struct ot_writer out = ot_writer_over(buf->data, memory_bytes);
    ot_write_u32(&out, (uint32_t)bytes);
    enum ot_err err = ot_wire_response_header_encode(api, version, request->header.correlation_id, &out);
    if (err == OT_OK) err = ot_fetch_response_encode(response, version, &out, &splices);
    if (err != OT_OK) {
        ot_buf_unref(buf);
        return err;
    }
    OT_ASSERT(out.needed == memory_bytes);
    buf->bytes = (uint32_t)memory_bytes;
    parts_add(request, buf, &splices);
    return OT_OK;
}

static void fetch_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct broker_fetch *fetch = &request->call.fetch;
    struct ot_fetch_response response;
    enum ot_err err = OT_ERR_NO_MEMORY;
    bool moved = false;
    ot_fetch_response_defaults(&response);
    request->error = fetch->error;
    if (request->header.version >= 7) {
        response.error_code = ot_err_kafka(fetch->error);
        response.session_id = fetch->session_id_out;
    }
    for (uint32_t i = 0; i < fetch->row_count && request->header.version >= 12; i++) {
        struct broker_fetch_row *row = &fetch->rows[i];
        const struct ot_str topic = request->header.version >= 13 ? (struct ot_str){ .null = true } : row->topic;
        moved |= rpc_leader_hint(request->server->broker, &request->arena, row->error, topic, &row->topic_id, row->partition, &row->leader_id, &row->leader_epoch);
    }
    const struct broker_view *view = moved && request->header.version >= 16 ? broker_view_take(request->server->broker) : NULL;
    if (view != NULL) endpoints_fill(request, view, &response);
    if (rows_fill(request, &response)) err = fetch_send(request, &response);
    if (view != NULL) broker_view_give(view);
    broker_fetch_release(fetch);
    if (err == OT_OK) {
        rpc_respond_added(request);
        return;
    }
    ot_log(OT_LOG_ERROR, "kafka", "answer_failed", "api=Fetch version=%d error=%s", request->header.version, ot_err_name(err));
    rpc_reject(request, "its answer could not be made");
}

/* What a member says of itself, on the peer listener: it is the one that said hello there. */
static bool is_follower(const struct rpc_request *request)
{
    const struct broker_hello *hello = request->door->hello;
    return hello != NULL && hello->done && request->call.fetch.replica_id >= 0 && request->call.fetch.replica_id == hello->node_id;
}

/* Our own tagged field: how far the follower's disk has it. */
static int64_t flushed_end(const struct ot_fetch_request_fetch_partition *part)
{
    for (int32_t i = 0; i < part->_tags.count; i++)
        if (part->_tags.items[i].tag == TAG_FLUSHED_END && part->_tags.items[i].data.bytes == 8) return (int64_t)ot_load_u64(part->_tags.items[i].data.data);
    return -1;
}

static bool asks_fill(struct rpc_request *request, const struct ot_fetch_request *asked)
{
    struct broker_fetch *fetch = &request->call.fetch;
    const bool by_id = request->header.version >= 13;
    size_t count = 0, gone = 0;
    for (int32_t i = 0; i < asked->topics.count; i++) count += (size_t)asked->topics.items[i].partitions.count;
    for (int32_t i = 0; i < asked->forgotten_topics_data.count; i++) gone += (size_t)asked->forgotten_topics_data.items[i].partitions.count;
    struct broker_fetch_ask *asks = rpc_alloc(request, count, sizeof *asks), *forgotten = rpc_alloc(request, gone, sizeof *forgotten), *ask = asks;
    if ((asks == NULL && count > 0) || (forgotten == NULL && gone > 0)) return false;
    for (int32_t i = 0; i < asked->topics.count; i++) {
        const struct ot_fetch_request_fetch_topic *topic = &asked->topics.items[i];
        for (int32_t j = 0; j < topic->partitions.count; j++) {
            const struct ot_fetch_request_fetch_partition *part = &topic->partitions.items[j];
            *ask = (struct broker_fetch_ask){ .topic = topic->topic, .topic_id = topic->topic_id, .partition = part->partition, .offset = part->fetch_offset,
                .log_start_offset = part->log_start_offset, .leader_epoch = part->current_leader_epoch, .last_epoch = part->last_fetched_epoch,
                .max_bytes = part->partition_max_bytes, .flushed_end = flushed_end(part), .high_watermark = part->high_watermark };
            ask->topic.null = by_id;
            ask++;
        }
    }
    fetch->asks = asks;
    fetch->ask_count = (uint32_t)count;
    for (int32_t i = 0, at = 0; i < asked->forgotten_topics_data.count; i++) {
        const struct ot_fetch_request_forgotten_topic *topic = &asked->forgotten_topics_data.items[i];
        for (int32_t j = 0; j < topic->partitions.count; j++, at++) {
            forgotten[at] = (struct broker_fetch_ask){ .topic = topic->topic, .topic_id = topic->topic_id, .partition = topic->partitions.items[j] };
            forgotten[at].topic.null = by_id;
        }
    }
    fetch->forgotten = forgotten;
    fetch->forgotten_count = (uint32_t)gone;
    return true;
}

RPC_HANDLER(fetch)
{
    const struct ot_fetch_request *asked = body;
    struct broker_fetch *fetch = &request->call.fetch;
    const int16_t version = request->header.version;
    if (!asks_fill(request, asked)) {
        rpc_reject(request, "too many partitions in one request");
        return;
    }
    request->arena.cap_bytes = OT_MAX(request->arena.cap_bytes, (size_t)RPC_ARENA_MAX_BYTES);      /* a session may answer more than was asked */
    rpc_call_init(request, fetch_done);
    fetch->client = rpc_client(request);
    fetch->api_version = version;
    fetch->replica_id = version >= 15 ? asked->replica_state.replica_id : asked->replica_id;
    fetch->replica_epoch = version >= 15 ? asked->replica_state.replica_epoch : -1;
    fetch->follower = is_follower(request);
    fetch->max_wait_ms = request->door->ending ? 0 : asked->max_wait_ms;
    fetch->min_bytes = asked->min_bytes;
    fetch->max_bytes = asked->max_bytes;
    fetch->read_committed = asked->isolation_level == 1;
    fetch->session_id = asked->session_id;
    fetch->session_epoch = asked->session_epoch;
    fetch->rack = asked->rack_id;
    fetch->arena = &request->arena;
    broker_fetch(request->server->broker, fetch);
}
