/* Log.Fetch: one partition, once, waiting for data as long as asked. */
#include "rpc/grpc/door.h"

struct fetch_own {
    struct broker_fetch fetch;
    struct broker_fetch_ask asked;
    struct rpcg_fetch_ask ask;
    struct rpcg_row row;
    bool fetching;
};
const size_t rpcg_own_fetch = sizeof(struct fetch_own);

#define BYTES_DEFAULT (1 << 20)
#define BYTES_MAX (64 << 20)               /* a window's worth, so that an answer is a few slices */

static void row_ready(struct rpcg_row *row)
{
    struct rpcg_call *call = row->call;
    struct fetch_own *own = call->own;
    const struct broker_fetch_row *read = row->row;
    if (row->error == OT_ERR_CANCELLED) {
        rpcg_end(call, GRPC_STATUS_UNAVAILABLE, "the server is stopping: fetch again");
        rpcg_row_free(row);
    } else if (row->error != OT_OK) {
        const struct rpcg_error error = rpcg_error_of(call->server, row->error, NULL, own->ask.topic, own->ask.partition, -1, -1);
        rpcg_fail(call, &error);
        rpcg_row_free(row);
    } else {
        const struct rpcg_row_head head = { .at = { own->ask.topic, own->ask.partition, row->next_offset, read->high_watermark, read->last_stable_offset,
            read->log_start_offset, 0 }, .aborted = read->aborted, .aborted_count = own->ask.format == RPCG_FORMAT_BATCHES ? read->aborted_count : 0 };
        rpcg_reply(call, rpcg_row_message(row, &head));
    }
    broker_fetch_release(&own->fetch);
    rpcg_release(call);
}

static void fetch_done(struct broker_call *broker_call)
{
    struct fetch_own *own = OT_CONTAINER(broker_call, struct fetch_own, fetch.call);
    struct rpcg_call *call = own->row.call;
    struct broker_fetch *fetch = &own->fetch;
    const struct broker_fetch_row *row = fetch->row_count > 0 ? &fetch->rows[0] : NULL;
    const enum ot_err err = fetch->error != OT_OK ? fetch->error : row == NULL ? OT_ERR_UNKNOWN_SERVER_ERROR : row->error;
    own->fetching = false;
    if (err == OT_OK && !call->cancelled) {
        own->row.row = row;
        rpcg_row_prepare(&own->row);
        return;
    }
    const struct rpcg_error error = rpcg_error_of(call->server, err == OT_OK ? OT_ERR_REQUEST_TIMED_OUT : err, NULL, own->ask.topic, own->ask.partition,
        row == NULL ? -1 : row->leader_id, row == NULL ? -1 : row->leader_epoch);
    rpcg_fail(call, &error);
    broker_fetch_release(fetch);
    rpcg_release(call);
}

void rpcg_fetch_cancel(struct rpcg_call *call, bool draining)
{
    struct fetch_own *own = call->own;
    if (own == NULL) return;
    if (own->fetching) broker_fetch_cancel(&own->fetch);       /* what is there is the answer, and it is a good one */
    else if (!draining || own->row.waiting) rpcg_row_cancel(&own->row);
}

void rpcg_fetch_start(struct rpcg_call *call)
{
    struct fetch_own *own = call->own;
    const char *why = NULL;
    const enum ot_err err = rpcg_fetch_decode(call->body, &own->ask, &why);
    if (err != OT_OK) {
        rpcg_fail_text(call, OT_ERR_INVALID_REQUEST, why);
        return;
    }
    const struct rpcg_fetch_ask *ask = &own->ask;
    const int32_t bytes_max = OT_MIN(ask->max_bytes > 0 ? ask->max_bytes : BYTES_DEFAULT, BYTES_MAX);
    /* the answer should be under way before the caller gives up */
    const int32_t left_ms = rpcg_time_left_ms(call, INT32_MAX);
    own->asked = (struct broker_fetch_ask){ .topic = ask->topic, .partition = ask->partition, .offset = ask->offset, .log_start_offset = -1,
        .leader_epoch = ask->leader_epoch, .last_epoch = -1, .max_bytes = bytes_max };
    own->row = (struct rpcg_row){ .call = call, .from_offset = ask->offset, .format = ask->format, .bytes_max = (uint32_t)bytes_max, .ready = row_ready };
    own->fetch = (struct broker_fetch){ .call = { .home = &call->server->exec, .done = fetch_done }, .client = rpcg_client(call), .api_version = 17, .replica_id = -1,
        .replica_epoch = -1, .max_wait_ms = OT_MIN(ask->max_wait_ms, left_ms - OT_MIN(left_ms / 10, 50)), .min_bytes = OT_MAX(ask->min_bytes, 1), .max_bytes = bytes_max,
        .read_committed = ask->read_committed, .session_id = 0, .session_epoch = -1, .rack = { .null = true }, .asks = &own->asked, .ask_count = 1, .arena = &call->arena };
    own->fetching = true;
    rpcg_hold(call);
    broker_fetch(call->server->broker, &own->fetch);
}
