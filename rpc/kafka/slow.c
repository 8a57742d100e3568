/* What took long, and where: read and not begun, handled, waited for. */
#include "rpc/kafka/request.h"

#include <stdio.h>

/* How long it was meant to wait: a fetch for data, a member for the others of its group. */
static int64_t granted_us(const struct rpc_request *request)
{
    switch (request->row->key) {
    case OT_API_FETCH: return request->call.fetch.max_wait_ms * INT64_C(1000);
    case OT_API_JOIN_GROUP:
    case OT_API_SYNC_GROUP: return INT64_MAX;
    default: return 0;
    }
}

static void copy(char *out, size_t out_bytes, struct ot_str text)
{
    snprintf(out, out_bytes, "%.*s", text.null ? 0 : (int)OT_MIN((size_t)text.bytes, out_bytes - 1), text.null ? "" : text.data);
}

void rpc_slow_look(struct rpc_request *request, int64_t now_us)
{
    struct rpc_kafka_server *server = request->server;
    const int64_t threshold_ms = server->slow == NULL ? -1 : broker_config(server->broker)->ottla_slow_request_ms;
    if (!broker_slow_is(threshold_ms, now_us - request->reply->received_us)) return;
    const bool parked = request->parked_us > 0;
    const int64_t waited_us = parked ? now_us - request->parked_us : 0;
    struct broker_slow_request note = { .door = "kafka", .version = request->header.version, .request_bytes = request->reply->bytes,
        .answer_bytes = ot_reply_bytes(request->reply), .queued_us = OT_MAX(request->begun_us - request->reply->received_us, 0), .waited_us = waited_us,
        .handled_us = (parked ? request->parked_us : now_us) - request->begun_us };
    if (!broker_slow_is(threshold_ms, note.queued_us + note.handled_us + OT_MAX(waited_us - OT_MIN(granted_us(request), waited_us), 0))) return;
    snprintf(note.operation, sizeof(note.operation), "%s", request->header.api->name);
    snprintf(note.result, sizeof(note.result), "%s", ot_err_name(request->error));
    snprintf(note.address, sizeof(note.address), "%s", ot_conn_peer_host(request->conn));
    copy(note.client_id, sizeof(note.client_id), request->header.client_id);
    broker_slow_note(server->slow, &note);
}
