/* Records out of one partition: a run of them, or one, or only its key or value.
 *
 *   start ─► fetch ─► read on an I/O thread ─► enough? ─yes─► answer
 *              ▲          (records into JSON)      │
 *              └────────────── more is there ──────┘                                            */
#include "base/util.h"
#include "broker/records.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include "rest/record_text.h"
#include "rest/topic_view.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LIMIT = 100, LIMIT_MAX = 10000, BYTES = 1 << 20, BYTES_MAX = 8 << 20, WAIT_MAX_MS = 30000, TURNS_MAX = 256 };
enum want { WANT_RUN, WANT_ONE, WANT_VALUE, WANT_KEY };

struct job {
    struct broker_fetch fetch;
    struct broker_fetch_ask ask;
    struct broker_records records;
    struct broker_offsets offsets; struct broker_offsets_part part;    /* timestamp= */
    struct rest_call *call;
    struct ot_arena rows;                      /* of one turn */
    struct ot_str topic;
    int32_t partition;
    enum want want;
    struct rest_record_form form;
    bool read_committed, fetching, reading_more, lines;
    int64_t offset, last;                      /* next to read; last=N or -1 */
    int64_t limit, max_bytes, max_wait_ms;
    uint32_t count, turns;
    size_t bytes;
    int64_t log_start_offset, high_watermark;
    bool found, value_null;
};

static void fetch(struct job *job);

static void out_of_range(struct job *job)
{
    char extra[120];
    snprintf(extra, sizeof(extra), "\"log_start_offset\":%" PRId64 ",\"high_watermark\":%" PRId64, job->log_start_offset, job->high_watermark);
    rest_problem_more(job->call, OT_ERR_OFFSET_OUT_OF_RANGE, extra, NULL, "offset %" PRId64 " is not in [%" PRId64 ", %" PRId64 ")", job->offset, job->log_start_offset,
        job->high_watermark);
}

/* ---- answering */

static void finish_run(struct job *job)
{
    struct rest_json *out = &job->call->out;
    if (job->lines) {
        rest_header_int(job->call, "Ottla-Next-Offset", job->offset);
        rest_header_int(job->call, "Ottla-High-Watermark", job->high_watermark);
        rest_reply_raw(job->call, 200, "application/x-ndjson");
        return;
    }
    rest_json_close(out, ']');
    rest_json_big(out, "next_offset", job->offset);
    rest_json_big_or_null(out, "log_start_offset", job->log_start_offset);
    rest_json_big_or_null(out, "high_watermark", job->high_watermark);
    rest_json_close(out, '}');
    rest_reply_json(job->call, 200);
}

static void finish(struct job *job)
{
    struct rest_call *call = job->call;
    ot_arena_free(&job->rows);
    if (job->want == WANT_RUN) {
        finish_run(job);
    } else if (!job->found) {
        rest_problem(call, OT_ERR_RESOURCE_NOT_FOUND, "there is no record at this offset: it was compacted away, marks the end of a transaction, or is not committed");
    } else if (job->want == WANT_ONE) {
        rest_reply_json(call, 200);
    } else if (job->value_null) {
        rest_reply_empty(call, 204);
    } else {
        char *name = ot_arena_alloc(&call->arena, 400);
        if (name != NULL) snprintf(name, 400, "attachment; filename=\"%.*s-%d-%.20s.bin\"", (int)job->topic.bytes, job->topic.data, job->partition, call->uri.segments[6].data);
        rest_header(call, "Content-Disposition", name);
        rest_reply_raw(call, 200, "application/octet-stream");
    }
}

static void fail(struct job *job, enum ot_err err)
{
    ot_arena_free(&job->rows);
    if (err == OT_ERR_OFFSET_OUT_OF_RANGE) out_of_range(job);
    else rest_problem(job->call, err, "%s", ot_err_text(err));
}

/* ---- reading; on an I/O thread, which has the call for itself meanwhile */

static bool each_record(struct broker_records *records, const struct broker_record_view *record)
{
    struct job *job = OT_CONTAINER(records, struct job, records);
    struct rest_json *out = &job->call->out;
    if (job->want == WANT_RUN) {
        if (job->count > 0 && (job->count >= job->limit || job->bytes + record->size_bytes > (size_t)job->max_bytes)) {
            job->reading_more = false;
            return false;
        }
        const size_t from = out->bytes;
        out->comma = out->comma && !job->lines;
        rest_record_write(out, record, &job->form, -1);
        if (job->lines) {
            rest_one_line(out, from);
            rest_json_put(out, "\n", 1);
        }
        job->count++;
        job->bytes += record->size_bytes;
        return true;
    }
    job->reading_more = false;
    job->found = record->offset == records->from_offset;
    if (!job->found) return false;
    const struct ot_blob blob = job->want == WANT_KEY ? record->key : record->value;
    job->value_null = blob.null;
    if (job->want == WANT_ONE) rest_record_write(out, record, &job->form, -1);
    else if (!blob.null) rest_json_put(out, (const char *)blob.data, blob.bytes);
    return false;
}

static int64_t wait_left_ms(const struct job *job)
{
    return job->count > 0 ? 0 : OT_MAX(job->max_wait_ms - (ot_clock_boot_us() - job->call->started_us) / 1000, 0);
}

static bool wants_more(const struct job *job)
{
    return job->reading_more && (job->want != WANT_RUN || job->count < job->limit) && job->turns < TURNS_MAX && !rest_json_failed(&job->call->out) && !job->call->stopping;
}

static void records_read(struct broker_call *broker_call)
{
    struct job *job = OT_CONTAINER(broker_call, struct job, records.call);
    const enum ot_err err = job->records.error;
    broker_fetch_release(&job->fetch);
    const bool moved = job->records.next_offset > job->offset;
    job->offset = job->records.next_offset;
    if (err != OT_OK && job->count == 0) fail(job, err);           /* else: what was good is told, the next request meets the fault */
    else if (err == OT_OK && wants_more(job) && moved && job->offset < job->high_watermark) fetch(job);
    else if (err == OT_OK && job->want == WANT_RUN && job->count == 0 && wait_left_ms(job) > 0 && job->turns < TURNS_MAX && !job->call->stopping) fetch(job);
    else finish(job);
}

static void fetched(struct broker_call *broker_call)
{
    struct job *job = OT_CONTAINER(broker_call, struct job, fetch.call);
    const struct broker_fetch_row *row = job->fetch.row_count > 0 ? &job->fetch.rows[0] : NULL;
    const enum ot_err err = job->fetch.error != OT_OK ? job->fetch.error : row == NULL ? OT_OK : row->error;
    job->fetching = false;
    if (err == OT_OK && row != NULL && row->high_watermark >= 0) {
        job->log_start_offset = row->log_start_offset;
        job->high_watermark = row->high_watermark;
    }
    if (err != OT_OK || row == NULL || row->read.bytes == 0) {
        broker_fetch_release(&job->fetch);
        if (err != OT_OK && job->count == 0) fail(job, err);
        else finish(job);
        return;
    }
    job->reading_more = true;
    job->records = (struct broker_records){ .call = { .home = job->call->home, .done = records_read }, .row = row, .from_offset = job->offset,
        .pool = job->call->server->setup.body_pool, .each = each_record };
    broker_records_read(job->call->broker, &job->records);
}

static void cancel(struct rest_call *call)
{
    struct job *job = call->state;
    if (job->fetching) broker_fetch_cancel(&job->fetch);
}

static void fetch(struct job *job)
{
    struct rest_call *call = job->call;
    const int32_t bytes = (int32_t)OT_MAX(OT_MIN(job->max_bytes - (int64_t)job->bytes, (int64_t)BYTES), (int64_t)4096);
    ot_arena_reset(&job->rows);
    job->turns++;
    job->ask = (struct broker_fetch_ask){ .topic = job->topic, .partition = job->partition, .offset = job->offset, .log_start_offset = -1, .leader_epoch = -1, .last_epoch = -1,
        .max_bytes = bytes };
    job->fetch = (struct broker_fetch){ .call = { .home = call->home, .done = fetched }, .api_version = 18, .replica_id = -1, .replica_epoch = -1,
        .max_wait_ms = (int32_t)wait_left_ms(job), .min_bytes = 1, .max_bytes = bytes, .read_committed = job->read_committed, .session_id = 0, .session_epoch = -1,
        .asks = &job->ask, .ask_count = 1, .arena = &job->rows,
        .client = { .client_id = ot_str_of("rest"), .software_name = { .null = true }, .software_version = { .null = true }, .address = ot_str_of(call->peer),
            .listener = ot_str_of("REST") } };
    job->fetching = true;
    broker_fetch(call->broker, &job->fetch);
}

/* ---- starting */

/* The job of a call; NULL: answered. */
static struct job *job_new(struct rest_call *call, enum want want)
{
    static const char *const isolations[] = { "read_uncommitted", "read_committed" };
    struct broker_view_topic topic;
    struct broker_partition_state state;
    int32_t index = 0;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_partition_find(call, view, &topic, &index);
    broker_view_give(view);
    if (!found) return NULL;
    struct job *job = ot_arena_alloc(&call->arena, sizeof(*job));
    struct broker_partition *partition = broker_partition_find(call->broker, rest_param(call, 0), index);
    if (job == NULL || partition == NULL) {
        broker_partition_put(partition);
        if (job == NULL) rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        else rest_problem(call, OT_ERR_NOT_LEADER_OR_FOLLOWER, "this broker does not lead the partition");
        return NULL;
    }
    broker_partition_state(partition, &state);
    broker_partition_put(partition);
    *job = (struct job){ .call = call, .topic = rest_param(call, 0), .partition = index, .want = want, .last = -1, .limit = 1, .max_bytes = BYTES,
        .log_start_offset = state.log_start_offset, .high_watermark = state.high_watermark };
    ot_arena_init(&job->rows, 1 << 20);
    job->read_committed = rest_query_choice(call, "isolation", isolations, 2, 0) == 1;
    rest_record_form_read(call, &job->form);
    call->state = job;
    call->cancel = cancel;
    return job;
}

static void begin_run(struct job *job)
{
    struct rest_json *out = &job->call->out;
    if (job->lines) {
        fetch(job);
        return;
    }
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", job->topic);
    rest_json_int(out, "partition", job->partition);
    rest_json_open(out, "records", '[');
    fetch(job);
}

static void time_found(struct broker_call *broker_call)
{
    struct job *job = OT_CONTAINER(broker_call, struct job, offsets.call);
    if (job->part.error != OT_OK) {
        fail(job, job->part.error);
        return;
    }
    job->offset = job->part.offset >= 0 ? job->part.offset : job->high_watermark;      /* later than every record: what is yet to come */
    begin_run(job);
}

static void find_time(struct job *job, int64_t timestamp_ms)
{
    job->part = (struct broker_offsets_part){ .topic = job->topic, .partition = job->partition, .current_leader_epoch = -1, .at = timestamp_ms };
    job->offsets = (struct broker_offsets){ .call = { .home = job->call->home, .done = time_found }, .kind = BROKER_LIST_OFFSETS, .api_version = 11,
        .read_committed = job->read_committed, .timeout_ms = (int32_t)job->call->timeout_ms, .parts = &job->part, .part_count = 1 };
    broker_offsets(job->call->broker, &job->offsets);
}

/* offset=, a number, "earliest" or "latest". */
static int64_t asked_offset(struct job *job)
{
    const struct ot_str text = rest_query_text(job->call, "offset");
    if (text.null || ot_str_equal(text, ot_str_of("earliest"))) return job->log_start_offset;
    if (ot_str_equal(text, ot_str_of("latest"))) return job->high_watermark;
    return rest_query_int(job->call, "offset", 0, INT64_MAX, 0);
}

void rest_records_fetch(struct rest_call *call)
{
    struct job *job = job_new(call, WANT_RUN);
    if (job == NULL) return;
    const char *const from[] = { "offset", "timestamp", "last" };
    uint32_t given = 0;
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(from); i++) given += rest_query(call, from[i]) != NULL;
    if (given > 1) rest_fault_query(call, "offset", "offset, timestamp and last exclude each other");
    job->lines = call->format == REST_FORMAT_NDJSON;
    job->limit = rest_query_int(call, "limit", 1, LIMIT_MAX, LIMIT);
    job->max_bytes = rest_query_int(call, "max_bytes", 1, BYTES_MAX, BYTES);
    job->max_wait_ms = rest_query_int(call, "max_wait_ms", 0, WAIT_MAX_MS, 0);
    call->granted_us = job->max_wait_ms * 1000;
    job->last = rest_query_int(call, "last", 1, LIMIT_MAX, -1);
    job->offset = asked_offset(job);
    const int64_t timestamp_ms = rest_query_time(call, "timestamp", -1);
    if (rest_faulty(call)) return;
    if (job->last > 0) {
        job->offset = OT_MAX(job->log_start_offset, job->high_watermark - job->last);
        job->limit = OT_MAX(job->limit, job->last);
    }
    if (timestamp_ms >= 0) find_time(job, timestamp_ms);
    else begin_run(job);
}

static void one(struct rest_call *call, enum want want)
{
    int64_t offset = 0;
    if (!rest_param_int(call, 2, "offset", 0, INT64_MAX, &offset)) return;
    struct job *job = job_new(call, want);
    if (job == NULL || rest_faulty(call)) return;
    job->offset = offset;
    if (offset < job->log_start_offset || offset >= job->high_watermark) out_of_range(job);
    else fetch(job);
}

void rest_record_get(struct rest_call *call) { one(call, WANT_ONE); }
void rest_record_value(struct rest_call *call) { one(call, WANT_VALUE); }
void rest_record_key(struct rest_call *call) { one(call, WANT_KEY); }
