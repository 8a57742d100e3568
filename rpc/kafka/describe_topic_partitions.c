/* DescribeTopicPartitions (KIP-966): topics in the order of their names, so many partitions at a time; a cursor says where to go on. */
#include "rpc/kafka/request.h"

#include "base/wire/describe_topic_partitions_request.h"
#include "base/wire/describe_topic_partitions_response.h"

#include <stdlib.h>
#include <string.h>

#define TOPIC_OPERATIONS 3576              /* see metadata.c */

typedef struct ot_describe_topic_partitions_response_describe_topic_partitions_response_topic topic_row;
typedef struct ot_describe_topic_partitions_response_describe_topic_partitions_response_partition partition_row;
typedef struct ot_describe_topic_partitions_response_cursor cursor_row;

struct answer {
    struct rpc_request *request;
    const struct ot_describe_topic_partitions_request *asked;
    const struct broker_view *view;
    topic_row *rows; int32_t count, cap;
    int32_t left;                          /* partitions that may still be told */
    cursor_row *next;
    bool failed;
};

static int compare(struct ot_str a, struct ot_str b)
{
    const uint32_t bytes = OT_MIN(a.bytes, b.bytes);
    const int order = bytes == 0 ? 0 : memcmp(a.data, b.data, bytes);
    return order != 0 ? order : a.bytes < b.bytes ? -1 : a.bytes > b.bytes;
}

static int by_name(const void *a, const void *b) { return compare(*(const struct ot_str *)a, *(const struct ot_str *)b); }

static struct ot_i32_array ids(struct broker_view_ids from) { return (struct ot_i32_array){ (int32_t *)(uintptr_t)from.ids, from.count }; }    /* encoding only reads */

static bool stop_at(struct answer *answer, struct ot_str topic, int32_t partition)
{
    answer->next = rpc_alloc(answer->request, 1, sizeof *answer->next);
    if (answer->next == NULL) answer->failed = true;
    else *answer->next = (cursor_row){ .topic_name = topic, .partition_index = partition };
    return false;
}

static void partition_fill(struct answer *answer, const struct broker_view_topic *topic, int32_t index, partition_row *to)
{
    struct broker_view_partition from;
    if (!broker_view_partition(answer->view, &topic->id, index, &answer->request->arena, &from)) {
        *to = (partition_row){ .error_code = ot_err_kafka(OT_ERR_LEADER_NOT_AVAILABLE), .partition_index = index, .leader_id = -1, .leader_epoch = -1 };
        return;
    }
    *to = (partition_row){ .error_code = ot_err_kafka(from.leader < 0 ? OT_ERR_LEADER_NOT_AVAILABLE : OT_OK), .partition_index = index, .leader_id = from.leader,
        .leader_epoch = from.leader_epoch, .replica_nodes = ids(from.replicas), .isr_nodes = ids(from.isr), .eligible_leader_replicas = ids(from.elr),
        .offline_replicas = ids(from.offline) };
}

static topic_row *row_add(struct answer *answer, struct ot_str name, enum ot_err error)
{
    if (answer->count == answer->cap) {
        const int32_t cap = OT_MAX(answer->cap * 2, 16);
        topic_row *rows = rpc_alloc(answer->request, (size_t)cap, sizeof *rows);
        if (rows == NULL) {
            answer->failed = true;
            return NULL;
        }
        if (answer->count > 0) memcpy(rows, answer->rows, (size_t)answer->count * sizeof *rows);
        answer->rows = rows;
        answer->cap = cap;
    }
    topic_row *row = &answer->rows[answer->count++];
    *row = (topic_row){ .error_code = ot_err_kafka(error), .name = name, .topic_authorized_operations = TOPIC_OPERATIONS };
    return row;
}

/* One topic; false: the answer ends here. */
static bool topic_add(struct answer *answer, const struct broker_view_topic *topic)
{
    const struct ot_describe_topic_partitions_request_cursor *cursor = answer->asked->cursor;
    if (answer->left == 0) return stop_at(answer, topic->name, 0);
    const int32_t first = cursor != NULL && compare(cursor->topic_name, topic->name) == 0 ? OT_MIN(cursor->partition_index, topic->partition_count) : 0;
    const int32_t count = OT_MIN(topic->partition_count - first, answer->left);
    topic_row *row = row_add(answer, topic->name, OT_OK);
    if (row == NULL) return false;
    row->topic_id = topic->id;
    row->is_internal = topic->internal;
    row->partitions.items = rpc_alloc(answer->request, (size_t)count, sizeof *row->partitions.items);
    if (row->partitions.items == NULL && count > 0) {
        answer->failed = true;
        return false;
    }
    for (; row->partitions.count < count; row->partitions.count++) {
        partition_fill(answer, topic, first + row->partitions.count, &row->partitions.items[row->partitions.count]);
    }
    answer->left -= count;
    return first + count >= topic->partition_count || stop_at(answer, topic->name, first + count);
}

static void all_fill(struct answer *answer)
{
    const struct ot_describe_topic_partitions_request_cursor *cursor = answer->asked->cursor;
    struct broker_view_topic topic;
    struct ot_str after = { .null = true };
    if (cursor != NULL && broker_view_topic(answer->view, cursor->topic_name, &topic) && !topic_add(answer, &topic)) return;
    if (cursor != NULL && cursor->topic_name.bytes > 0) after = cursor->topic_name;
    for (; broker_view_next_topic(answer->view, after, &topic); after = topic.name) {
        if (!topic_add(answer, &topic)) return;
    }
}

static void named_fill(struct answer *answer, const struct ot_str *names, int32_t count)
{
    const struct ot_describe_topic_partitions_request_cursor *cursor = answer->asked->cursor;
    struct broker_view_topic topic;
    for (int32_t i = 0; i < count && !answer->failed; i++) {
        if (i > 0 && ot_str_equal(names[i], names[i - 1])) continue;
        if (cursor != NULL && compare(names[i], cursor->topic_name) < 0) continue;
        if (broker_view_topic(answer->view, names[i], &topic)) {
            if (!topic_add(answer, &topic)) return;
        } else {
            const enum ot_err invalid = broker_topic_name_check(names[i]), error = invalid != OT_OK ? invalid : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
            if (row_add(answer, names[i], error) == NULL) return;
            if (answer->request->error == OT_OK) answer->request->error = error;
        }
    }
}

/* The cursor must be one that an answer to this request could have given. */
static bool cursor_valid(const struct ot_describe_topic_partitions_request *asked, const struct ot_str *names)
{
    if (asked->cursor == NULL) return true;
    if (asked->cursor->partition_index < 0) return false;
    for (int32_t i = 0; i < asked->topics.count; i++) {
        if (ot_str_equal(names[i], asked->cursor->topic_name)) return true;
    }
    return asked->topics.count == 0;
}

static void refuse_all(struct answer *answer, const struct ot_str *names)
{
    answer->request->error = OT_ERR_INVALID_REQUEST;
    for (int32_t i = 0; i < answer->asked->topics.count && !answer->failed; i++) {
        topic_row *row = row_add(answer, names[i], OT_ERR_INVALID_REQUEST);
        if (row != NULL) row->topic_authorized_operations = INT32_MIN;
    }
}

static struct ot_str *names_of(struct rpc_request *request, const struct ot_describe_topic_partitions_request *asked)
{
    struct ot_str *names = rpc_alloc(request, (size_t)asked->topics.count + 1, sizeof *names);
    for (int32_t i = 0; i < asked->topics.count && names != NULL; i++) names[i] = asked->topics.items[i].name;
    if (names != NULL && asked->topics.count > 1) qsort(names, (size_t)asked->topics.count, sizeof *names, by_name);
    return names;
}

RPC_HANDLER(describe_topic_partitions)
{
    const struct ot_describe_topic_partitions_request *asked = body;
    struct ot_describe_topic_partitions_response response;
    ot_describe_topic_partitions_response_defaults(&response);
    request->arena.cap_bytes = RPC_ARENA_MAX_BYTES;        /* the limit of partitions bounds it */
    const struct ot_str *names = names_of(request, asked);
    const struct broker_view *view = broker_view_take(request->server->broker);
    struct answer answer = { .request = request, .asked = asked, .view = view, .failed = names == NULL,
        .left = OT_MAX(OT_MIN(asked->response_partition_limit, broker_config(request->server->broker)->max_request_partition_size_limit), 1) };
    if (!answer.failed && !cursor_valid(asked, names)) refuse_all(&answer, names);
    else if (!answer.failed && asked->topics.count == 0) all_fill(&answer);
    else if (!answer.failed) named_fill(&answer, names, asked->topics.count);
    response.topics.items = answer.rows;
    response.topics.count = answer.count;
    response.next_cursor = answer.next;
    if (answer.failed) rpc_reject(request, "no memory for its answer");
    else rpc_respond(request, &response);
    broker_view_give(view);
}
