/* Disk space: a warning threshold and a refusing one per log directory, looked at once a second and after each ENOSPC.
 *
 * Refused is produce alone; reads, DeleteRecords, deletions, retention and restart go on. The reserve file keeps room for them;
 * only the background thread (and the start) looks and touches it. */
#include "broker/core.h"
#include "base/log.h"
#include <stdio.h>

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

/* Free space as the thresholds see it: what the reserve gave back is not there for producers, else giving it back would let them take it. */
static uint64_t for_producers(struct broker_core *core, uint32_t dir, uint64_t free_bytes, uint64_t reserve_bytes)
{
    if (core->reserve_held[dir]) return free_bytes;
    return free_bytes > reserve_bytes ? free_bytes - reserve_bytes : 0;
}

/* The reserve goes only when the disk is as good as full: then deletions, the journal and a restart live on it. */
static void keep_reserve(struct broker_core *core, uint32_t dir, enum broker_dir_space now, uint64_t free_bytes, uint64_t reserve_bytes)
{
    if (core->reserve_held[dir] && free_bytes < reserve_bytes / 4) {
        eng_store_reserve_release(core->store, dir);
        core->reserve_held[dir] = false;
        ot_log(OT_LOG_WARN, "disk", "reserve_released", "log_dir=%s bytes=%llu", eng_store_dir_path(core->store, dir), (unsigned long long)reserve_bytes);
    } else if (!core->reserve_held[dir] && now != BROKER_SPACE_REFUSE && reserve_bytes > 0) {
        core->reserve_held[dir] = eng_store_reserve_hold(core->store, dir, reserve_bytes) == OT_OK;
    }
}

static bool reserve_lies_there(struct broker_core *core, uint32_t dir)
{
    char path[4200];
    struct ot_io_stat stat;
    snprintf(path, sizeof(path), "%s/ottla.reserve", eng_store_dir_path(core->store, dir));
    return core->io->ops->stat(core->io, path, &stat) == OT_OK;
}

static void check_dir(struct broker_core *core, uint32_t dir, bool first)
{
    static const char *const words[] = { "ok", "low", "refusing" };
    const struct broker_config *config = broker_config_current(core->config);
    uint64_t reserve_bytes = (uint64_t)config->ottla_disk_reserve_bytes;
    struct ot_io_space space;
    atomic_store(&core->dir_appended_bytes[dir], 0);           /* before the look: what comes between counts twice, never not at all */
    if (core->io->ops->space(core->io, eng_store_dir_path(core->store, dir), &space) != OT_OK) return;
    if (first) core->reserve_held[dir] = reserve_lies_there(core, dir);
    /* a start is as careful as one who refused before: it does not know better */
    enum broker_dir_space before = first ? BROKER_SPACE_REFUSE : (enum broker_dir_space)atomic_load(&core->dir_space[dir]);
    uint64_t free_bytes = for_producers(core, dir, space.free_bytes, reserve_bytes);
    enum broker_dir_space now = judge(config, free_bytes, before);
    atomic_store(&core->dir_free_bytes[dir], free_bytes);
    atomic_store(&core->dir_space[dir], (int)now);
    if (now != (first ? BROKER_SPACE_OK : before))
        ot_log(now == BROKER_SPACE_OK ? OT_LOG_INFO : now == BROKER_SPACE_WARN ? OT_LOG_WARN : OT_LOG_ERROR, "disk", "space",
            "log_dir=%s state=%s free_bytes=%llu reserve_bytes=%llu reserve=%s", eng_store_dir_path(core->store, dir), words[now], (unsigned long long)space.free_bytes,
            (unsigned long long)reserve_bytes, core->reserve_held[dir] ? "held" : "part_of_free");
    keep_reserve(core, dir, now, space.free_bytes, reserve_bytes);
}

void broker_space_check(struct broker_core *core)
{
    for (uint32_t dir = 0; dir < eng_store_dir_count(core->store) && dir < BROKER_DIRS_MAX; dir++) {
        if (eng_store_dir_offline(core->store, dir)) continue;
        check_dir(core, dir, !core->space_looked[dir]);
        core->space_looked[dir] = true;
    }
}
