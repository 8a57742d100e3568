#include "mutations.h"
#include "broker/core.h"
#include "engine/batch.h"
#include "engine/store.h"
#include <string.h>

static const char *const names[SIM_BUG_COUNT] = {
    [SIM_BUG_NONE] = "none", [SIM_BUG_NO_DIR_SYNC] = "no-dir-sync", [SIM_BUG_ACK_BEFORE_FLUSH] = "ack-before-flush", [SIM_BUG_NO_CUT_BACK] = "no-cut-back",
    [SIM_BUG_REUSED_OFFSET] = "reused-offset", [SIM_BUG_PHANTOM_SEQUENCE] = "phantom-sequence", [SIM_BUG_NO_EPOCH_SYNC] = "no-epoch-sync",
    [SIM_BUG_NO_CHECKPOINT_LOWERED] = "no-checkpoint-lowered", [SIM_BUG_FORGETS_DUPLICATES] = "forgets-duplicates",
    [SIM_BUG_EARLY_STABLE_OFFSET] = "early-stable-offset", [SIM_BUG_START_NOT_KEPT] = "start-not-kept", [SIM_BUG_SHORT_READ_TAKEN] = "short-read-taken",
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
