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
    const struct broker_config *config = broker_config_current(core->config);
    for (uint32_t i = 0; i < count; i++) {
        struct ot_io_space space;
        out[i] = (struct broker_log_dir){ .path = eng_store_dir_path(core->store, i), .offline = eng_store_dir_offline(core->store, i) };
        if (out[i].offline || core->io->ops->space(core->io, out[i].path, &space) != OT_OK) continue;
        out[i].has_space = true;
        out[i].total_bytes = space.total_bytes;
        out[i].free_bytes = space.free_bytes;
        out[i].space = out[i].free_bytes < (uint64_t)config->ottla_disk_free_refuse_bytes ? BROKER_LOG_DIR_REFUSES
            : out[i].free_bytes < (uint64_t)config->ottla_disk_free_warn_bytes ? BROKER_LOG_DIR_LOW : BROKER_LOG_DIR_OK;
    }
    struct gathering gathering = { out, count };
    broker_partitions_each(broker, add_partition, &gathering);
    return there;
}
