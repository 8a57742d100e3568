#include "broker/replica_dirs.h"
#include "broker/core.h"
#include "broker/view.h"
#include <stdlib.h>
#include <string.h>

static int by_place(const void *a, const void *b)
{
    const struct broker_dir_replica *left = a, *right = b;
    if (left->dir != right->dir) return left->dir < right->dir ? -1 : 1;
    const int names = strcmp(left->topic, right->topic);
    return names != 0 ? names : left->partition < right->partition ? -1 : left->partition > right->partition;
}

static bool dirs_fill(struct broker_core *core, struct broker_replica_dirs *ask)
{
    ask->dir_count = eng_store_dir_count(core->store);
    ask->dirs = ot_arena_array(ask->arena, OT_MAX(ask->dir_count, 1u), sizeof *ask->dirs);
    if (ask->dirs == NULL) return false;
    for (uint32_t i = 0; i < ask->dir_count; i++) {
        struct ot_io_space space;
        struct broker_replica_dir *dir = &ask->dirs[i];
        *dir = (struct broker_replica_dir){ .path = eng_store_dir_path(core->store, i), .total_bytes = -1, .usable_bytes = -1 };
        if (eng_store_dir_offline(core->store, i)) {
            dir->error = OT_ERR_KAFKA_STORAGE_ERROR;
        } else if (core->io->ops->space(core->io, dir->path, &space) == OT_OK) {
            dir->total_bytes = (int64_t)OT_MIN(space.total_bytes, (uint64_t)INT64_MAX);
            dir->usable_bytes = (int64_t)OT_MIN(space.free_bytes, (uint64_t)INT64_MAX);
        }
    }
    return true;
}

static bool replica_fill(struct broker_replica_dirs *ask, struct broker_partition *partition, const struct broker_topic **named)
{
    struct broker_dir_replica *to = &ask->replicas[ask->replica_count];
    pthread_mutex_lock(&partition->mutex);
    struct eng_log *log = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN ? partition->log : NULL;
    const uint32_t dir = partition->store_dir;
    pthread_mutex_unlock(&partition->mutex);
    if (log == NULL || dir >= ask->dir_count || ask->dirs[dir].error != OT_OK) return true;
    const bool same = *named == partition->topic && ask->replica_count > 0;
    to->topic = same ? ask->replicas[ask->replica_count - 1].topic : ot_arena_str(ask->arena, ot_str_of(partition->topic->name));
    to->partition = partition->index;
    to->dir = dir;
    to->size_bytes = eng_log_size_bytes(log);
    *named = partition->topic;
    ask->replica_count++;
    return to->topic != NULL;
}

static bool replicas_fill(struct broker_core *core, struct broker_replica_dirs *ask)
{
    uint32_t count = 0;
    const struct broker_topic *named = NULL;
    struct broker_partition **partitions = broker_partitions_copy(core, &count);
    if (partitions == NULL && count > 0) return false;
    ask->replicas = ot_arena_array(ask->arena, OT_MAX(count, 1u), sizeof *ask->replicas);
    bool enough = ask->replicas != NULL;
    for (uint32_t i = 0; i < count; i++) {
        enough = enough && replica_fill(ask, partitions[i], &named);
        broker_partition_put(partitions[i]);
    }
    free(partitions);
    return enough;
}

static void done_run(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

static void look_run(struct ot_task *task)
{
    struct broker_replica_dirs *ask = OT_CONTAINER(task, struct broker_replica_dirs, io_task);
    struct broker_core *core = broker_core_of(ask->broker);
    ask->dir_count = ask->replica_count = 0;
    ask->error = dirs_fill(core, ask) && replicas_fill(core, ask) ? OT_OK : OT_ERR_NO_MEMORY;
    if (ask->error == OT_OK && ask->replica_count > 0) qsort(ask->replicas, ask->replica_count, sizeof *ask->replicas, by_place);
    for (uint32_t i = 0; ask->error == OT_OK && i < ask->replica_count; i++) {
        struct broker_replica_dir *dir = &ask->dirs[ask->replicas[i].dir];
        if (dir->count++ == 0) dir->first = i;
    }
    ask->call.task.run = done_run;
    ot_exec_post(ask->call.home, &ask->call.task);
}

void broker_replica_dirs(struct broker *broker, struct broker_replica_dirs *ask)
{
    ask->broker = broker;
    ask->io_task.run = look_run;
    ot_exec_post(broker_core_of(broker)->io_exec, &ask->io_task);
}

static enum ot_err find_dir(const struct eng_store *store, struct ot_str path, uint32_t *dir_out)
{
    for (uint32_t i = 0; i < eng_store_dir_count(store); i++) {
        if (!ot_str_equal(path, ot_str_of(eng_store_dir_path(store, i)))) continue;
        *dir_out = i;
        return eng_store_dir_offline(store, i) ? OT_ERR_KAFKA_STORAGE_ERROR : OT_OK;
    }
    return OT_ERR_LOG_DIR_NOT_FOUND;
}

/* No replica of it is here; Kafka's tool comes again where one is on its way. */
static bool is_elsewhere(struct broker *broker, struct ot_str topic, int32_t partition)
{
    int32_t leader;
    const struct broker_view *view = broker_view_take(broker);
    const bool known = broker_view_leader(view, topic, partition, &leader);
    broker_view_give(view);
    return known;
}

enum ot_err broker_replica_dir_check(struct broker *broker, struct ot_str path, struct ot_str topic, int32_t partition)
{
    struct broker_core *core = broker_core_of(broker);
    uint32_t dir = 0;
    enum ot_err err = find_dir(core->store, path, &dir);
    if (err != OT_OK) return err;
    struct broker_partition *found = broker_partition_find(broker, topic, partition);
    if (found == NULL) return is_elsewhere(broker, topic, partition) ? OT_ERR_REPLICA_NOT_AVAILABLE : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    pthread_mutex_lock(&found->mutex);
    err = found->log != NULL && found->store_dir == dir ? OT_OK : OT_ERR_OPERATION_NOT_ATTEMPTED;
    pthread_mutex_unlock(&found->mutex);
    broker_partition_put(found);
    return err;
}
