/* Disk space: a warning threshold and a refusing one per log directory, looked at once a second and after each ENOSPC.
 *
 * Refused is produce alone; reads, DeleteRecords, deletions, retention and restart go on. The reserve file keeps room for them. */
#include "broker/core.h"
#include "base/log.h"

static enum broker_dir_space judge(const struct broker_config *config, uint64_t free_bytes, enum broker_dir_space before)
{
    uint64_t refuse = (uint64_t)config->ottla_disk_free_refuse_bytes, warn = (uint64_t)config->ottla_disk_free_warn_bytes;
    if (before == BROKER_SPACE_REFUSE) refuse += refuse / 16;      /* so that it does not flap at the edge */
    if (free_bytes <= refuse) return BROKER_SPACE_REFUSE;
    return free_bytes <= warn ? BROKER_SPACE_WARN : BROKER_SPACE_OK;
}

/* A fast writer must not run through the reserve between two looks: what was appended since counts. */
bool broker_space_refuses(struct broker_core *core, uint32_t dir)
{
    if (atomic_load_explicit(&core->dir_space[dir], memory_order_relaxed) == BROKER_SPACE_REFUSE) return true;
    uint64_t free_bytes = atomic_load_explicit(&core->dir_free_bytes[dir], memory_order_relaxed);
    uint64_t appended = atomic_load_explicit(&core->dir_appended_bytes[dir], memory_order_relaxed);
    uint64_t refuse = (uint64_t)broker_config_current(core->config)->ottla_disk_free_refuse_bytes;
    return free_bytes > 0 && appended > 0 && free_bytes <= refuse + appended;
}

void broker_space_check(struct broker_core *core)
{
    static const char *const words[] = { "ok", "low", "refusing" };
    const struct broker_config *config = broker_config_current(core->config);
    for (uint32_t dir = 0; dir < eng_store_dir_count(core->store) && dir < BROKER_DIRS_MAX; dir++) {
        struct ot_io_space space;
        if (eng_store_dir_offline(core->store, dir)) continue;
        atomic_store(&core->dir_appended_bytes[dir], 0);       /* before the look: what comes between counts twice, never not at all */
        if (core->io->ops->space(core->io, eng_store_dir_path(core->store, dir), &space) != OT_OK) continue;
        enum broker_dir_space before = (enum broker_dir_space)atomic_load(&core->dir_space[dir]);
        enum broker_dir_space now = judge(config, space.free_bytes, before);
        atomic_store(&core->dir_free_bytes[dir], space.free_bytes);
        atomic_store(&core->dir_space[dir], (int)now);
        if (now != before)
            ot_log(now == BROKER_SPACE_OK ? OT_LOG_INFO : now == BROKER_SPACE_WARN ? OT_LOG_WARN : OT_LOG_ERROR, "disk", "space",
                "log_dir=%s state=%s free_bytes=%llu", eng_store_dir_path(core->store, dir), words[now], (unsigned long long)space.free_bytes);
        if (now == BROKER_SPACE_REFUSE) eng_store_reserve_release(core->store, dir);
        else if (now == BROKER_SPACE_OK && config->ottla_disk_reserve_bytes > 0)
            ot_ignore(eng_store_reserve_hold(core->store, dir, (uint64_t)config->ottla_disk_reserve_bytes), "without a reserve the thresholds still hold");
    }
}
