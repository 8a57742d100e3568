/* AlterReplicaLogDirs: in which directory replicas shall lie. They lie where they were made; asking for that place succeeds. */
#include "rpc/kafka/request.h"

#include "base/wire/alter_replica_log_dirs_request.h"
#include "base/wire/alter_replica_log_dirs_response.h"

typedef struct ot_alter_replica_log_dirs_response_alter_replica_log_dir_topic_result topic_row;

static bool topic_answer(struct rpc_request *request, struct ot_str path, const struct ot_alter_replica_log_dirs_request_alter_replica_log_dir_topic *topic, topic_row *to)
{
    *to = (topic_row){ .topic_name = topic->name, .partitions.count = topic->partitions.count };
    to->partitions.items = rpc_alloc(request, (size_t)topic->partitions.count, sizeof *to->partitions.items);
    if (to->partitions.items == NULL && topic->partitions.count > 0) return false;
    for (int32_t i = 0; i < topic->partitions.count; i++) {
        const int32_t index = topic->partitions.items[i];
        const enum ot_err error = broker_replica_dir_check(request->server->broker, path, topic->name, index);
        to->partitions.items[i] = (struct ot_alter_replica_log_dirs_response_alter_replica_log_dir_partition_result){ .partition_index = index, .error_code = ot_err_kafka(error) };
        if (request->error == OT_OK) request->error = error;
    }
    return true;
}

RPC_HANDLER(alter_replica_log_dirs)
{
    const struct ot_alter_replica_log_dirs_request *asked = body;
    struct ot_alter_replica_log_dirs_response response;
    size_t most = 0;
    ot_alter_replica_log_dirs_response_defaults(&response);
    for (int32_t i = 0; i < asked->dirs.count; i++) most += (size_t)asked->dirs.items[i].topics.count;
    response.results.items = rpc_alloc(request, most, sizeof(topic_row));
    bool enough = response.results.items != NULL || most == 0;
    for (int32_t i = 0; i < asked->dirs.count && enough; i++) {
        for (int32_t j = 0; j < asked->dirs.items[i].topics.count && enough; j++)
            enough = topic_answer(request, asked->dirs.items[i].path, &asked->dirs.items[i].topics.items[j], &response.results.items[response.results.count++]);
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "too much in one request");
}
