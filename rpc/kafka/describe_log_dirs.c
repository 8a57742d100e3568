/* DescribeLogDirs: replicas and their sizes by directory; v4 and later with the room of its file system (trap M10). */
#include "rpc/kafka/request.h"

#include "base/wire/describe_log_dirs_request.h"
#include "base/wire/describe_log_dirs_response.h"

#include <string.h>

typedef struct ot_describe_log_dirs_response_describe_log_dirs_topic topic_row;
typedef struct ot_describe_log_dirs_response_describe_log_dirs_partition partition_row;

/* Which replicas were asked for: NULL for all. In the order of the broker's rows. */
struct filter { bool *wanted; };

static int compare(struct ot_str topic, int32_t partition, const struct broker_dir_replica *replica)
{
    const struct ot_str other = ot_str_of(replica->topic);
    const uint32_t bytes = OT_MIN(topic.bytes, other.bytes);
    const int names = bytes == 0 ? 0 : memcmp(topic.data, other.data, bytes);
    if (names != 0 || topic.bytes != other.bytes) return names != 0 ? names : topic.bytes < other.bytes ? -1 : 1;
    return partition < replica->partition ? -1 : partition > replica->partition;
}

/* Within a directory rows are sorted by topic and partition. */
static void mark(const struct broker_replica_dirs *found, const struct broker_replica_dir *dir, struct ot_str topic, int32_t partition, bool *wanted)
{
    for (uint32_t low = dir->first, high = dir->first + dir->count; low < high;) {
        const uint32_t mid = low + (high - low) / 2;
        const int order = compare(topic, partition, &found->replicas[mid]);
        if (order == 0) {
            wanted[mid] = true;
            return;
        }
        if (order < 0) high = mid;
        else low = mid + 1;
    }
}

static bool filter_fill(struct rpc_request *request, struct filter *filter)
{
    const struct ot_describe_log_dirs_request *asked = request->body;
    const struct broker_replica_dirs *found = &request->call.replica_dirs;
    filter->wanted = NULL;
    if (asked->topics.count < 0) return true;
    filter->wanted = rpc_alloc(request, (size_t)found->replica_count + 1, sizeof *filter->wanted);
    for (int32_t i = 0; i < asked->topics.count && filter->wanted != NULL; i++) {
        for (int32_t j = 0; j < asked->topics.items[i].partitions.count; j++) {
            for (uint32_t dir = 0; dir < found->dir_count; dir++)
                mark(found, &found->dirs[dir], asked->topics.items[i].topic, asked->topics.items[i].partitions.items[j], filter->wanted);
        }
    }
    return filter->wanted != NULL;
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
        if (filter->wanted != NULL && !filter->wanted[dir->first + i]) continue;
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
    struct filter filter = { NULL };
    response->results.count = (int32_t)found->dir_count;
    response->results.items = rpc_alloc(request, found->dir_count, sizeof *response->results.items);
    bool enough = found->error == OT_OK && response->results.items != NULL && filter_fill(request, &filter);
    for (uint32_t i = 0; i < found->dir_count && enough; i++) {
        struct ot_describe_log_dirs_response_describe_log_dirs_result *to = &response->results.items[i];
        *to = (struct ot_describe_log_dirs_response_describe_log_dirs_result){ .error_code = ot_err_kafka(found->dirs[i].error), .log_dir = ot_str_of(found->dirs[i].path),
            .total_bytes = found->dirs[i].total_bytes, .usable_bytes = found->dirs[i].usable_bytes };
        enough = topics_fill(request, &filter, &found->dirs[i], to);
    }
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
