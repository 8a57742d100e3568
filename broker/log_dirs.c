#include "broker/log_dirs.h"
#include "broker/core.h"
#include <string.h>

struct gathering { struct broker_log_dir *rows; uint32_t count; };

static void add_partition(void *arg, struct broker_partition *partition)
{
    struct gathering *gathering = arg;
    struct broker_partition_state state;
    broker_partition_state(partition, &state);
    for (uint32_t i = 0; i < gathering->count; i++) {
        if (state.log_dir == NULL || strcmp(gathering->rows[i].path, state.log_dir) != 0) continue;
        gathering->rows[i].log_bytes += state.size_bytes;
        gathering->rows[i].replicas++;
    }
}

uint32_t broker_log_dirs(struct broker *broker, struct broker_log_dir *out, uint32_t max)
{
    struct broker_core *core = broker_core_of(broker);
    const uint32_t there = eng_store_dir_count(core->store), count = OT_MIN(there, max);
    for (uint32_t i = 0; i < count; i++) {
        struct ot_io_space space;
        out[i] = (struct broker_log_dir){ .path = eng_store_dir_path(core->store, i), .offline = eng_store_dir_offline(core->store, i) };
        if (out[i].offline || core->io->ops->space(core->io, out[i].path, &space) != OT_OK) continue;
        out[i].has_space = true;
        out[i].total_bytes = space.total_bytes;
        out[i].free_bytes = space.free_bytes;
        /* as produce is judged: the reserve, what a full disk said, and how it was before count too */
        const int judged = i < BROKER_DIRS_MAX ? atomic_load(&core->dir_space[i]) : BROKER_SPACE_OK;
        out[i].space = i < BROKER_DIRS_MAX && broker_space_refuses(core, i) ? BROKER_LOG_DIR_REFUSES : judged == BROKER_SPACE_WARN ? BROKER_LOG_DIR_LOW : BROKER_LOG_DIR_OK;
    }
    struct gathering gathering = { out, count };
    broker_partitions_each(broker, add_partition, &gathering);
    return there;
}
