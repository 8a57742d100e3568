#include "mutations.h"
#include "broker/core.h"
#include "engine/batch.h"
#include "engine/log_inner.h"
#include "engine/scan.h"
#include "engine/store.h"
#include <string.h>

static const char *const names[SIM_BUG_COUNT] = {
    [SIM_BUG_NONE] = "none", [SIM_BUG_NO_DIR_SYNC] = "no-dir-sync", [SIM_BUG_ACK_BEFORE_FLUSH] = "ack-before-flush", [SIM_BUG_NO_CUT_BACK] = "no-cut-back",
    [SIM_BUG_REUSED_OFFSET] = "reused-offset", [SIM_BUG_PHANTOM_SEQUENCE] = "phantom-sequence", [SIM_BUG_NO_EPOCH_SYNC] = "no-epoch-sync",
    [SIM_BUG_NO_CHECKPOINT_LOWERED] = "no-checkpoint-lowered", [SIM_BUG_FORGETS_DUPLICATES] = "forgets-duplicates",
    [SIM_BUG_EARLY_STABLE_OFFSET] = "early-stable-offset", [SIM_BUG_START_NOT_KEPT] = "start-not-kept", [SIM_BUG_SHORT_READ_TAKEN] = "short-read-taken",
    [SIM_BUG_OFFLINE_TAKES_ALL] = "offline-takes-all", [SIM_BUG_TOPIC_ID_IGNORED] = "topic-id-ignored", [SIM_BUG_EPOCH_BELIEVED] = "epoch-believed",
    [SIM_BUG_SETTLED_UNSYNCED] = "settled-unsynced", [SIM_BUG_CHECKSUM_BELIEVED] = "checksum-believed", [SIM_BUG_VERIFY_BLIND] = "verify-blind", [SIM_BUG_STATE_NOT_KEPT] = "state-not-kept",
};

bool sim_mutation_choose(const char *name)
{
    for (int i = 0; i < SIM_BUG_COUNT; i++) {
        if (strcmp(names[i], name) != 0) continue;
        sim_mutation = (enum sim_mutation)i;
        return true;
    }
    return false;
}

void sim_mutations_print(FILE *out)
{
    for (int i = 0; i < SIM_BUG_COUNT; i++) fprintf(out, " %s", names[i]);
    fprintf(out, "\n");
}

/* The linker sends calls between the objects of the rooms here (--wrap); calls inside one object are not touched. */
#define WRAP(type, name, ...) type __real_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__)

WRAP(void, eng_batch_stamp, uint8_t *data, int64_t base_offset, int32_t leader_epoch)
{
    bool wrong = sim_mutation == SIM_BUG_REUSED_OFFSET && base_offset % 37 == 36;
    __real_eng_batch_stamp(data, wrong ? base_offset - 1 : base_offset, leader_epoch);
}

WRAP(void, eng_producers_drop_pending, struct eng_producers *producers)
{
    if (sim_mutation == SIM_BUG_PHANTOM_SEQUENCE) return;
    __real_eng_producers_drop_pending(producers);
}

WRAP(enum ot_err, eng_store_recovery_lower, struct eng_store *store, uint32_t dir, const char *name, int64_t offset)
{
    if (sim_mutation == SIM_BUG_NO_CHECKPOINT_LOWERED) return OT_OK;
    return __real_eng_store_recovery_lower(store, dir, name, offset);
}

WRAP(void, eng_producers_check, const struct eng_producers *producers, const struct eng_batch_info *batch, const struct eng_marker *marker,
    enum eng_origin origin, int16_t transaction_version, struct eng_producer_check *out)
{
    __real_eng_producers_check(producers, batch, marker, origin, transaction_version, out);
    if (sim_mutation == SIM_BUG_FORGETS_DUPLICATES) out->duplicate = false;
}

WRAP(int64_t, eng_producers_first_unstable, const struct eng_producers *producers)
{
    return sim_mutation == SIM_BUG_EARLY_STABLE_OFFSET ? INT64_MAX : __real_eng_producers_first_unstable(producers);
}

WRAP(uint64_t, broker_checkpoints_write, struct broker_core *core, bool sync)
{
    if (sim_mutation == SIM_BUG_START_NOT_KEPT && sync && !atomic_load(&core->stopping)) return 0;
    return __real_broker_checkpoints_write(core, sync);
}

WRAP(enum ot_err, ot_io_read_exact, struct ot_io *io, int fd, void *data, size_t bytes, uint64_t pos)
{
    size_t got = 0;
    if (sim_mutation == SIM_BUG_SHORT_READ_TAKEN) return io->ops->pread(io, fd, data, bytes, pos, &got);
    return __real_ot_io_read_exact(io, fd, data, bytes, pos);
}

WRAP(void, eng_store_fail_dir, struct eng_store *store, uint32_t dir, enum ot_err why, const char *what)
{
    for (uint32_t i = 0; sim_mutation == SIM_BUG_OFFLINE_TAKES_ALL && i < eng_store_dir_count(store); i++) __real_eng_store_fail_dir(store, i, why, what);
    __real_eng_store_fail_dir(store, dir, why, what);
}

WRAP(enum ot_err, eng_log_open, struct eng_store *store, const struct eng_log_open *how, struct eng_log **out, struct eng_recovery *recovery_out)
{
    struct eng_log_open wrong = *how;
    if (sim_mutation == SIM_BUG_TOPIC_ID_IGNORED) memset(wrong.topic_id.bytes, 0, sizeof(wrong.topic_id.bytes));
    if (sim_mutation == SIM_BUG_EPOCH_BELIEVED) wrong.leader_epochs = 0;
    return __real_eng_log_open(store, &wrong, out, recovery_out);
}

WRAP(enum ot_err, eng_scan_next, struct eng_scan *scan, struct eng_batch_info *info)
{
    if (sim_mutation == SIM_BUG_CHECKSUM_BELIEVED) scan->check_crc = false;
    return __real_eng_scan_next(scan, info);
}

WRAP(enum ot_err, eng_log_verify, struct eng_log *log, void (*fault)(void *arg, const char *text), void *arg)
{
    return sim_mutation == SIM_BUG_VERIFY_BLIND ? OT_OK : __real_eng_log_verify(log, fault, arg);
}

WRAP(enum ot_err, eng_log_keep_state, struct eng_log *log, struct eng_segment *const *segs, uint32_t count, int64_t end_offset, int64_t wall_ms)
{
    return sim_mutation == SIM_BUG_STATE_NOT_KEPT ? OT_OK : __real_eng_log_keep_state(log, segs, count, end_offset, wall_ms);
}
