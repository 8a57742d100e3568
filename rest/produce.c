/* Records from JSON, text, bytes or lines into partitions, whoever leads them, round by round: one batch for each partition at a time, so that order is kept. */
#include "base/util.h"
#include "broker/produce_away.h"
#include "broker/records.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include "rest/topic_view.h"
#include <stdio.h>
#include <string.h>

enum { RECORDS_MAX = 100000, HEADERS_MAX = 1000 };

struct result { enum ot_err error; int64_t offset, timestamp_ms; const char *text; };
struct job {
    struct broker_produce produce;
    struct broker_produce_everywhere *all;     /* under way, or NULL */
    struct broker_records_round current;
    struct rest_call *call;
    struct ot_str topic, codec;
    int32_t partition_count, fixed_partition;  /* fixed: -1 none */
    int64_t now_ms;
    int16_t acks;
    struct broker_record *records; uint32_t count;
    struct result *results;
    uint32_t round, rounds;
};

/* ---- reading bodies */

static void *taken(struct rest_call *call, size_t count, size_t bytes)
{
    void *memory = ot_arena_array(&call->arena, OT_MAX(count, 1u), bytes);
    if (memory == NULL) rest_fault_add(&call->faults, "", "takes more memory than there is");
    return memory;
}

static struct ot_blob blob_of(struct ot_str text) { return (struct ot_blob){ (const uint8_t *)text.data, text.bytes, text.null }; }

static void read_json(struct rest_call *call, json_t *value, struct ot_blob *out)
{
    struct rest_json text;
    rest_json_init(&text, REST_ANSWER_MAX);
    rest_json_copy(&text, NULL, value);
    uint8_t *data = rest_json_failed(&text) ? NULL : taken(call, text.bytes, 1);
    if (data != NULL) memcpy(data, text.data, text.bytes);
    *out = (struct ot_blob){ data, (uint32_t)text.bytes, data == NULL };
    rest_json_free(&text);
}

/* {"string":…} | {"json":…} | {"base64":…} | null */
static void read_data(struct rest_call *call, json_t *data, const char *pointer, struct ot_blob *out)
{
    *out = (struct ot_blob){ .null = true };
    if (data == NULL || json_is_null(data)) return;
    json_t *value = json_is_object(data) && json_object_size(data) == 1 ? json_object_iter_value(json_object_iter(data)) : NULL;
    const char *kind = value == NULL ? "" : json_object_iter_key(json_object_iter(data));
    size_t bytes = 0;
    if (value != NULL && strcmp(kind, "json") == 0) {
        read_json(call, value, out);
    } else if (json_is_string(value) && strcmp(kind, "string") == 0) {
        *out = blob_of(rest_json_string(value));
    } else if (json_is_string(value) && strcmp(kind, "base64") == 0) {
        uint8_t *decoded = taken(call, json_string_length(value), 1);
        if (decoded != NULL && !rest_base64_decode(rest_json_string(value), decoded, &bytes)) rest_fault_add(&call->faults, pointer, "is not base64 with padding");
        *out = (struct ot_blob){ decoded, (uint32_t)bytes, decoded == NULL };
    } else {
        rest_fault_add(&call->faults, pointer, "must be null or have one member: string, json or base64");
    }
}

static void read_headers(struct rest_call *call, json_t *list, const char *pointer, struct broker_record *out)
{
    const size_t count = list == NULL ? 0 : json_array_size(list);
    struct broker_record_header *headers = count == 0 ? NULL : taken(call, count, sizeof(*headers));
    for (size_t i = 0; headers != NULL && i < count && call->faults.count < REST_FAULTS_MAX; i++) {
        char place[REST_POINTER_MAX];
        json_t *value = NULL;
        const struct rest_member members[] = {
            { .name = "name", .kind = REST_TEXT, .required = true, .out = &headers[i].key },
            { .name = "value", .kind = REST_ANY, .out = &value },
        };
        rest_pointer_index(place, pointer, i);
        rest_members(json_array_get(list, i), place, members, 2, &call->faults);
        rest_pointer_join(place, place, "value", 5);
        read_data(call, value, place, &headers[i].value);
    }
    out->headers = headers;
    out->header_count = headers == NULL ? 0 : (uint32_t)count;
}

static void read_record(struct job *job, json_t *object, uint32_t index)
{
    struct rest_call *call = job->call;
    struct broker_record *record = &job->records[index];
    char pointer[REST_POINTER_MAX], place[REST_POINTER_MAX];
    json_t *key = NULL, *value = NULL, *headers = NULL;
    int64_t timestamp = job->now_ms, partition = job->fixed_partition;
    const struct rest_member members[] = {
        { .name = "key", .kind = REST_ANY, .out = &key },
        { .name = "value", .kind = REST_ANY, .out = &value },
        { .name = "headers", .kind = REST_ARRAY, .nullable = true, .out = &headers, .max = HEADERS_MAX },
        { .name = "timestamp_ms", .kind = REST_INT, .nullable = true, .out = &timestamp, .min = 0, .max = INT64_MAX },
        { .name = "partition", .kind = REST_INT, .nullable = true, .out = &partition, .min = 0, .max = INT32_MAX },
    };
    rest_pointer_index(pointer, "/records", index);
    rest_members(object, pointer, members, OT_ARRAY_COUNT(members), &call->faults);
    rest_pointer_join(place, pointer, "key", 3);
    read_data(call, key, place, &record->key);
    rest_pointer_join(place, pointer, "value", 5);
    read_data(call, value, place, &record->value);
    rest_pointer_join(place, pointer, "headers", 7);
    read_headers(call, headers, place, record);
    if (partition >= job->partition_count) {
        rest_pointer_join(place, pointer, "partition", 9);
        rest_fault_add(&call->faults, place, "must be between 0 and %d", job->partition_count - 1);
    }
    if (job->fixed_partition >= 0 && partition != job->fixed_partition) rest_fault_add(&call->faults, pointer, "names another partition than the path");
    record->timestamp_ms = timestamp;
    record->partition = (int32_t)partition;
}

static void read_acks(struct job *job, json_t *acks)
{
    const char *text = json_string_value(acks);
    if (acks == NULL) return;
    if (text != NULL && (strcmp(text, "all") == 0 || strcmp(text, "-1") == 0)) job->acks = -1;
    else if (text != NULL && (strcmp(text, "1") == 0 || strcmp(text, "0") == 0)) job->acks = (int16_t)(text[0] - '0');
    else if (json_is_integer(acks) && json_integer_value(acks) >= -1 && json_integer_value(acks) <= 1) job->acks = (int16_t)json_integer_value(acks);
    else rest_fault_add(&job->call->faults, "/acks", "must be \"all\", 1 or 0");
}

static bool alloc_records(struct job *job, uint32_t count)
{
    job->records = taken(job->call, count, sizeof(*job->records));
    job->results = taken(job->call, count, sizeof(*job->results));
    job->count = count;
    return job->records != NULL && job->results != NULL;
}

/* False: answered. */
static bool read_json_body(struct job *job)
{
    struct rest_call *call = job->call;
    json_t *body = rest_body_object(call, REST_JSON_VALUES_MAX), *acks = NULL, *records = NULL;
    if (body == NULL) return false;
    const struct rest_member members[] = {
        { .name = "acks", .kind = REST_ANY, .out = &acks },
        { .name = "compression", .kind = REST_TEXT, .nullable = true, .out = &job->codec },
        { .name = "records", .kind = REST_ARRAY, .required = true, .out = &records, .min = 1, .max = RECORDS_MAX },
    };
    rest_members(body, "", members, OT_ARRAY_COUNT(members), &call->faults);
    read_acks(job, acks);
    if (!broker_records_codec_known(job->codec)) rest_fault_add(&call->faults, "/compression", "must be none, gzip, snappy, lz4 or zstd");
    const char *const shortcuts[] = { "key", "partition", "acks" };
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(shortcuts); i++)
        if (rest_query(call, shortcuts[i]) != NULL) rest_fault_query(call, shortcuts[i], "goes with bodies that are no JSON; in JSON it is a member");
    const uint32_t count = records == NULL ? 0 : (uint32_t)OT_MIN(json_array_size(records), (size_t)RECORDS_MAX);
    if (call->faults.count == 0 && alloc_records(job, count))
        for (uint32_t i = 0; i < count && call->faults.count < REST_FAULTS_MAX; i++) read_record(job, json_array_get(records, i), i);
    return !rest_faulty(call);
}

static void read_value(struct job *job, uint32_t index, const uint8_t *data, size_t bytes, struct ot_blob key, int64_t partition)
{
    job->records[index] = (struct broker_record){ .timestamp_ms = job->now_ms, .key = key, .value = { data, (uint32_t)bytes, false }, .partition = (int32_t)partition };
}

static uint32_t count_lines(const uint8_t *data, size_t bytes)
{
    uint32_t count = 0;
    for (const uint8_t *at = data, *end = data + bytes; at < end;) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        count += stop > at;
        at = stop + 1;
    }
    return count;
}

static void read_lines(struct job *job, const uint8_t *data, size_t bytes, struct ot_blob key, int64_t partition)
{
    const uint32_t count = count_lines(data, bytes);
    uint32_t index = 0;
    if (count == 0 || count > RECORDS_MAX) {
        rest_fault_add(&job->call->faults, "", "must have 1 to %d lines", RECORDS_MAX);
        return;
    }
    if (!alloc_records(job, count)) return;
    for (const uint8_t *at = data, *end = data + bytes; at < end;) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        if (stop > at) read_value(job, index++, at, (size_t)(stop - at), key, partition);
        at = stop + 1;
    }
}

/* text/plain, bytes, lines. False: answered. */
static bool read_plain_body(struct job *job)
{
    static const char *const acks[] = { "all", "1", "0" };
    static const int16_t acks_values[] = { -1, 1, 0 };
    struct rest_call *call = job->call;
    const uint8_t *data = call->body == NULL ? (const uint8_t *)"" : call->body->data;
    const size_t bytes = call->body == NULL ? 0 : call->body->bytes;
    const struct ot_blob key = blob_of(rest_query_text(call, "key"));
    const int64_t partition = job->fixed_partition >= 0 ? job->fixed_partition : rest_query_int(call, "partition", 0, job->partition_count - 1, -1);
    job->acks = acks_values[rest_query_choice(call, "acks", acks, 3, 0)];
    if (call->body_kind == REST_BODY_IS_LINES) read_lines(job, data, bytes, key, partition);
    else if (alloc_records(job, 1)) read_value(job, 0, data, bytes, key, partition);
    return !rest_faulty(call);
}

/* ---- answering */

static void reply(struct job *job)
{
    struct rest_json *out = &job->call->out;
    uint32_t failed = 0, alike = 0;
    for (uint32_t i = 0; i < job->count; i++) {
        failed += job->results[i].error != OT_OK;
        alike += job->results[i].error != OT_OK && job->results[i].error == job->results[0].error;
    }
    if (failed > 0 && alike == job->count) {
        rest_problem(job->call, job->results[0].error, "%s", job->results[0].text);
        return;
    }
    rest_json_open(out, NULL, '{');
    rest_json_open(out, "items", '[');
    for (uint32_t i = 0; i < job->count; i++) {
        const struct result *result = &job->results[i];
        rest_json_open(out, NULL, '{');
        rest_json_int(out, "partition", job->records[i].partition);
        rest_json_big_or_null(out, "offset", result->error == OT_OK ? result->offset : -1);
        rest_json_big_or_null(out, "timestamp_ms", result->error == OT_OK ? result->timestamp_ms : -1);
        rest_item_error(out, result->error, result->text);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_int(out, "failed", failed);
    rest_json_close(out, '}');
    rest_reply_json(job->call, failed > 0 ? 207 : 200);
}

/* ---- rounds */

static void next_round(struct job *job);

static void keep_results(struct job *job)
{
    for (uint32_t i = 0; i < job->count; i++) {
        struct broker_record *record = &job->records[i];
        if (record->round != job->round) continue;
        const struct broker_produce_part *part = &job->current.parts[record->part];
        struct result *result = &job->results[i];
        result->error = part->error;
        result->offset = part->base_offset < 0 ? -1 : part->base_offset + record->delta;
        result->timestamp_ms = part->append_time_ms >= 0 ? part->append_time_ms : record->timestamp_ms;
        result->text = part->text[0] != 0 ? part->text : ot_err_text(part->error);
    }
}

static void round_done(struct broker_call *broker_call)
{
    struct job *job = OT_CONTAINER(broker_call, struct job, produce.call);
    keep_results(job);                         /* the parts stay in the arena: their texts are good until the answer is sent */
    ot_buf_unref(job->current.buf);
    job->all = NULL;
    job->round++;
    next_round(job);
}

static void cancel(struct rest_call *call)
{
    struct job *job = call->state;
    if (job->all != NULL) broker_produce_anywhere_cancel(job->all);
}

static void fail_rest(struct job *job, enum ot_err err)
{
    if (job->round == 0) {
        rest_problem(job->call, err, "the records could not be packed: %s", ot_err_text(err));
        return;
    }
    for (uint32_t i = 0; i < job->count; i++)
        if (job->records[i].round >= job->round) job->results[i] = (struct result){ .error = err, .text = ot_err_text(err) };
    reply(job);
}

static void next_round(struct job *job)
{
    struct rest_call *call = job->call;
    if (job->round == job->rounds) {
        reply(job);
        return;
    }
    enum ot_err err = broker_records_pack(call->broker, job->topic, job->records, job->count, job->round, job->codec, call->server->setup.body_pool, REST_ANSWER_MAX,
        &call->arena, &job->current);
    if (err == OT_OK && call->stopping) {
        ot_buf_unref(job->current.buf);
        err = OT_ERR_CLOSED;
    }
    if (err != OT_OK) {
        fail_rest(job, err);
        return;
    }
    if (job->round + 1 == job->rounds) rest_body_drop(call);
    job->produce = (struct broker_produce){ .call = { .home = call->home, .done = round_done }, .buf = job->current.buf, .acks = job->acks,
        .timeout_ms = (int32_t)call->timeout_ms, .api_version = 13, .transactional_id = { .null = true }, .origin = ENG_ORIGIN_CLIENT,
        .parts = job->current.parts, .part_count = job->current.part_count,
        .client = { .client_id = ot_str_of("rest"), .software_name = { .null = true }, .software_version = { .null = true }, .address = ot_str_of(call->peer),
            .listener = ot_str_of("REST") } };
    job->all = broker_produce_anywhere(call->broker, &job->produce);
    if (job->all != NULL) return;
    ot_buf_unref(job->current.buf);
    fail_rest(job, OT_ERR_NO_MEMORY);
}

/* ---- starting */

static struct job *job_new(struct rest_call *call)
{
    struct broker_view_topic topic;
    const struct ot_str name = rest_param(call, 0);
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_topic_find(call, view, &topic);
    broker_view_give(view);
    struct job *job = found ? ot_arena_alloc(&call->arena, sizeof(*job)) : NULL;
    if (job == NULL) {
        if (found) rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return NULL;
    }
    job->call = call;
    job->topic = name;
    job->codec.null = true;
    job->partition_count = topic.partition_count;
    job->fixed_partition = -1;
    job->now_ms = ot_clock_wall_ms();
    job->acks = -1;
    call->state = job;
    call->cancel = cancel;
    return job;
}

static void produce(struct job *job)
{
    struct rest_call *call = job->call;
    if (!(call->body_kind == REST_BODY_IS_JSON ? read_json_body(job) : read_plain_body(job))) return;
    for (uint32_t i = 0; i < job->count; i++)
        if (job->records[i].partition < 0)
            job->records[i].partition = broker_records_partition(job->records[i].key, job->partition_count, &call->server->round_robin);
    const int32_t batch_max = broker_records_batch_max(call->broker, job->topic);
    job->rounds = broker_records_rounds(job->records, job->count, (size_t)OT_MAX(batch_max, 1024), &call->arena);
    if (job->rounds == 0) rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the records");
    else next_round(job);
}

void rest_produce_topic(struct rest_call *call)
{
    struct job *job = job_new(call);
    if (job != NULL) produce(job);
}

void rest_produce_partition(struct rest_call *call)
{
    int64_t partition = 0;
    if (!rest_param_int(call, 1, "partition", 0, INT32_MAX, &partition)) return;
    struct job *job = job_new(call);
    if (job == NULL) return;
    job->fixed_partition = (int32_t)partition;
    if (partition < job->partition_count) produce(job);
    else rest_problem(call, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "the topic has partitions 0 to %d", job->partition_count - 1);
}
