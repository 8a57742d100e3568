/* DescribeLogDirs: replicas and their sizes by directory; v4 and later with the room of its file system (trap M10). */
#include "rpc/kafka/request.h"

#include "base/map.h"
#include "base/wire/describe_log_dirs_request.h"
#include "base/wire/describe_log_dirs_response.h"

#include <string.h>

typedef struct ot_describe_log_dirs_response_describe_log_dirs_topic topic_row;
typedef struct ot_describe_log_dirs_response_describe_log_dirs_partition partition_row;

enum { NAME_BYTES_MAX = 249 };
struct filter { bool all; struct ot_map wanted; /* name and number of partitions */ };

static size_t key_of(char key[static NAME_BYTES_MAX + 4], struct ot_str name, int32_t partition)
{
    if (name.bytes > NAME_BYTES_MAX) return 0;
    memcpy(key, &partition, sizeof partition);
    if (name.bytes > 0) memcpy(key + 4, name.data, name.bytes);
    return 4 + (size_t)name.bytes;
}

static bool filter_fill(const struct ot_describe_log_dirs_request *asked, struct filter *filter)
{
    char key[NAME_BYTES_MAX + 4];
    filter->all = asked->topics.count < 0;
    for (int32_t i = 0; i < asked->topics.count; i++) {
        for (int32_t j = 0; j < asked->topics.items[i].partitions.count; j++) {
            const size_t bytes = key_of(key, asked->topics.items[i].topic, asked->topics.items[i].partitions.items[j]);
            if (bytes > 0 && ot_map_put(&filter->wanted, key, bytes, filter) != OT_OK) return false;
        }
    }
    return true;
}

static bool passes(const struct filter *filter, const struct broker_dir_replica *replica)
{
    char key[NAME_BYTES_MAX + 4];
    if (filter->all) return true;
    const size_t bytes = key_of(key, ot_str_of(replica->topic), replica->partition);
    return bytes > 0 && ot_map_get(&filter->wanted, key, bytes) != NULL;
}

/* The replicas of one directory, which come by topic. */
static bool topics_fill(struct rpc_request *request, const struct filter *filter, const struct broker_replica_dir *dir, struct ot_describe_log_dirs_response_describe_log_dirs_result *to)
{
    const struct broker_dir_replica *replicas = request->call.replica_dirs.replicas + dir->first;
    partition_row *partitions = rpc_alloc(request, dir->count, sizeof *partitions);
    topic_row *topics = rpc_alloc(request, dir->count, sizeof *topics), *topic = NULL;
    int32_t at = 0;
    if (dir->count > 0 && (partitions == NULL || topics == NULL)) return false;
    to->topics.items = topics;
    for (uint32_t i = 0; i < dir->count; i++) {
        if (!passes(filter, &replicas[i])) continue;
        const struct ot_str name = ot_str_of(replicas[i].topic);
        if (topic == NULL || !ot_str_equal(topic->name, name)) {
            topic = &topics[to->topics.count++];
            *topic = (topic_row){ .name = name, .partitions.items = &partitions[at] };
        }
        topic->partitions.count++;
        partitions[at++] = (partition_row){ .partition_index = replicas[i].partition, .partition_size = (int64_t)replicas[i].size_bytes };
    }
    return true;
}

static bool answer_fill(struct rpc_request *request, struct ot_describe_log_dirs_response *response)
{
    const struct broker_replica_dirs *found = &request->call.replica_dirs;
    struct filter filter = { .all = false };
    ot_map_init(&filter.wanted);
    response->results.count = (int32_t)found->dir_count;
    response->results.items = rpc_alloc(request, found->dir_count, sizeof *response->results.items);
    bool enough = found->error == OT_OK && response->results.items != NULL && filter_fill(request->body, &filter);
    for (uint32_t i = 0; i < found->dir_count && enough; i++) {
        struct ot_describe_log_dirs_response_describe_log_dirs_result *to = &response->results.items[i];
        *to = (struct ot_describe_log_dirs_response_describe_log_dirs_result){ .error_code = ot_err_kafka(found->dirs[i].error), .log_dir = ot_str_of(found->dirs[i].path),
            .total_bytes = found->dirs[i].total_bytes, .usable_bytes = found->dirs[i].usable_bytes };
        enough = topics_fill(request, &filter, &found->dirs[i], to);
    }
    ot_map_free(&filter.wanted);
    return enough;
}

static void describe_log_dirs_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct ot_describe_log_dirs_response response;
    ot_describe_log_dirs_response_defaults(&response);
    if (answer_fill(request, &response)) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

RPC_HANDLER(describe_log_dirs)
{
    (void)body;
    rpc_call_init(request, describe_log_dirs_done);
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    request->call.replica_dirs.arena = &request->arena;
    broker_replica_dirs(request->server->broker, &request->call.replica_dirs);
}
