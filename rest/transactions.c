/* Transactions: what their coordinators know, and the end of one that hangs. */
#include "broker/transactions.h"
#include "rest/call.h"
#include "rest/handlers.h"
#include "rest/merge.h"
#include <stdlib.h>
#include <string.h>

/* By the numbers of enum ot_transaction_state; the last two are never seen. */
static const char *const states[] = { "empty", "ongoing", "prepare_commit", "prepare_abort", "complete_commit", "complete_abort", "dead", "prepare_epoch_fence" };

struct job {
    struct rest_call *call;
    struct broker_txn_list list;
    struct broker_txn abort;
    struct ot_str id;
    int state;                                 /* -1: all */
    int64_t longer_than_ms, producer_id, now_ms;
    bool aborts, validate_only;
};

static struct job *job_new(struct rest_call *call)
{
    struct job *job = ot_arena_alloc(&call->arena, sizeof *job);
    if (job == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return NULL;
    }
    job->call = call;
    job->now_ms = ot_exec_wall_ms(call->home);
    job->list = (struct broker_txn_list){ .call = { .home = call->home }, .arena = &call->arena };
    return job;
}

static void write_partitions(struct rest_json *out, const struct broker_txn_row *row)
{
    rest_json_open(out, "partitions", '[');
    for (uint32_t i = 0; i < row->place_count; i++) {
        rest_json_open(out, NULL, '{');
        rest_json_str(out, "topic", row->places[i].topic);
        rest_json_int(out, "partition", row->places[i].partition);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
}

static void write_members(struct rest_json *out, const struct broker_txn_row *row, int64_t now_ms)
{
    rest_json_str(out, "transactional_id", row->id);
    rest_json_text(out, "state", states[row->state]);
    rest_json_big(out, "producer_id", row->producer_id);
    rest_json_int(out, "producer_epoch", row->producer_epoch);
    rest_json_int(out, "timeout_ms", row->timeout_ms);
    rest_json_big_or_null(out, "started_ms", row->start_ms);
    rest_json_big_or_null(out, "age_ms", row->start_ms < 0 ? -1 : OT_MAX(now_ms - row->start_ms, 0));
    rest_json_big(out, "updated_ms", row->update_ms);
    rest_json_int(out, "transaction_version", row->version);
    rest_json_int(out, "coordinator_partition", row->coordinator_partition);
}

/* ---- the list */

static bool wants(const struct broker_txn_list *list, const struct coord_txn_view *view, int64_t wall_ms)
{
    const struct job *job = list->wants_arg;
    const struct ot_str prefix = job->call->list.prefix;
    if (job->state >= 0 && (int)view->state != job->state) return false;
    if (job->producer_id >= 0 && view->producer_id != job->producer_id) return false;
    if (job->longer_than_ms >= 0 && !(coord_txn_view_is_open(view) && view->start_ms >= 0 && wall_ms - view->start_ms > job->longer_than_ms)) return false;
    return prefix.bytes <= view->id.bytes && (prefix.bytes == 0 || memcmp(prefix.data, view->id.data, prefix.bytes) == 0);
}

static int order(struct ot_str a, struct ot_str b)
{
    const int bytes = memcmp(a.data, b.data, OT_MIN(a.bytes, b.bytes));
    return bytes != 0 ? bytes : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static int by_id(const void *a, const void *b)
{
    const struct broker_txn_row *const *one = a, *const *two = b;
    return order((*one)->id, (*two)->id);
}

static void listed(struct broker_call *broker_call)
{
    struct job *job = OT_CONTAINER(broker_call, struct job, list.call);
    struct rest_call *call = job->call;
    const uint32_t count = job->list.row_count;
    const struct broker_txn_row **rows = ot_arena_array(&call->arena, OT_MAX(count, 1u), sizeof(const struct broker_txn_row *));
    const enum ot_err err = job->list.error == OT_OK && rows == NULL ? OT_ERR_NO_MEMORY : job->list.error;
    if (err != OT_OK) {
        rest_problem(call, err, "%s", ot_err_text(err));
        return;
    }
    uint32_t at = 0;
    for (const struct broker_txn_row *row = job->list.rows; row != NULL; row = row->next) rows[at++] = row;
    if (count > 0) qsort(rows, count, sizeof *rows, by_id);
    uint32_t first = 0;
    while (first < count && !call->list.after.null && order(rows[first]->id, call->list.after) <= 0) first++;
    const uint32_t end = OT_MIN(count, first + call->list.limit);
    for (uint32_t i = first; i < end; i++) {
        rest_list_item(call);
        rest_json_open(&call->out, NULL, '{');
        write_members(&call->out, rows[i], job->now_ms);
        rest_json_int(&call->out, "partition_count", rows[i]->place_count);
        rest_json_close(&call->out, '}');
    }
    rest_list_reply(call, 'x', end < count && end > first ? rows[end - 1]->id : (struct ot_str){ .null = true }, count, NULL);
}

void rest_transactions_list(struct rest_call *call)
{
    static const struct rest_merging by_name = { .kind = 'x', .keys = { "transactional_id" }, .token = "0" };
    if (rest_merge_list(call, &by_name)) return;
    struct job *job = job_new(call);
    if (job == NULL) return;
    job->state = rest_query_choice(call, "state", states, 6, -1);
    job->longer_than_ms = rest_query_int(call, "longer_than_ms", 0, INT64_MAX, -1);
    job->producer_id = rest_query_int(call, "producer_id", 0, INT64_MAX, -1);
    if (!rest_list_begin(call, 'x', false)) return;
    job->list.wants = wants;
    job->list.wants_arg = job;
    job->list.call.done = listed;
    broker_txn_list(call->broker, &job->list);
}

/* ---- one */

static void described(struct broker_call *broker_call)
{
    struct job *job = OT_CONTAINER(broker_call, struct job, list.call);
    struct rest_call *call = job->call;
    struct rest_json *out = &call->out;
    const struct broker_txn_row *row = job->list.rows;
    enum ot_err err = job->list.error != OT_OK ? job->list.error : row == NULL ? OT_ERR_NO_MEMORY : row->error;
    if (err != OT_OK) {
        rest_problem(call, err, "%s", ot_err_text(err));
        return;
    }
    if (job->validate_only && row->state != OT_TRANSACTION_STATE_ONGOING && row->state != OT_TRANSACTION_STATE_PREPARE_ABORT) {
        rest_problem(call, OT_ERR_CONCURRENT_TRANSACTIONS, "no transaction of this id is open: it is %s", states[row->state]);
        return;
    }
    rest_json_open(out, NULL, '{');
    write_members(out, row, job->now_ms);
    write_partitions(out, row);
    if (job->aborts) {
        rest_json_bool(out, "validate_only", job->validate_only);
        rest_json_bool(out, "applied", !job->validate_only);
    }
    rest_json_close(out, '}');
    rest_reply_json(call, 200);
}

static void describe(struct job *job)
{
    job->list.ids = &job->id;
    job->list.id_count = 1;
    job->list.with_places = true;
    job->list.call.done = described;
    broker_txn_list(job->call->broker, &job->list);
}

void rest_transaction_get(struct rest_call *call)
{
    struct job *job = job_new(call);
    if (job == NULL) return;
    job->id = rest_param(call, 0);
    describe(job);
}

/* ---- abort */

static void aborted(struct broker_call *broker_call)
{
    struct job *job = OT_CONTAINER(broker_call, struct job, abort.call);
    const enum ot_err err = job->abort.request.error;
    if (err == OT_OK) describe(job);
    else if (err == OT_ERR_INVALID_TXN_STATE) rest_problem_more(job->call, OT_ERR_CONCURRENT_TRANSACTIONS, NULL, "GET /v1/transactions/{id}", "no transaction of this id is open, or it is being committed");
    else rest_problem(job->call, err, "%s", ot_err_text(err));
}

void rest_transaction_abort(struct rest_call *call)
{
    struct job *job = job_new(call);
    if (job == NULL) return;
    job->id = rest_param(call, 0);
    job->aborts = true;
    job->validate_only = rest_validate_only(call);
    if (rest_faulty(call)) return;
    if (job->validate_only) {
        describe(job);
        return;
    }
    job->abort = (struct broker_txn){ .call = { .home = call->home, .done = aborted }, .request = coord_txn_request_default(COORD_TXN_ABORT, job->id) };
    broker_txn(call->broker, &job->abort);
}
