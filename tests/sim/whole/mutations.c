/* What --wrap puts in between the objects: a bug of the broker that none of the parts shows alone. */
#include "coordinator/bug.h"
#include "engine/producers.h"

struct broker;
struct broker_core;
struct broker_partition;
struct broker_follow;
struct eng_log;
static bool following;

bool __real_broker_follow_run(struct broker_partition *partition, struct broker_follow *follow);
bool __wrap_broker_follow_run(struct broker_partition *partition, struct broker_follow *follow);
enum ot_err __real_eng_producers_pend(struct eng_producers *producers, const struct eng_batch_info *batch, int64_t base_offset, int64_t last_offset, const struct eng_marker *marker, int64_t wall_ms);
enum ot_err __wrap_eng_producers_pend(struct eng_producers *producers, const struct eng_batch_info *batch, int64_t base_offset, int64_t last_offset, const struct eng_marker *marker, int64_t wall_ms);

bool __wrap_broker_follow_run(struct broker_partition *partition, struct broker_follow *follow)
{
    following = true;
    bool appended = __real_broker_follow_run(partition, follow);
    following = false;
    return appended;
}

/* A follower keeps the records of its leader's producers, and not what they say of them. */
enum ot_err __wrap_eng_producers_pend(struct eng_producers *producers, const struct eng_batch_info *batch, int64_t base_offset, int64_t last_offset, const struct eng_marker *marker, int64_t wall_ms)
{
    if (COORD_BUG(FOLLOWER_FORGETS) && following) {
        return OT_OK;
    }
    return __real_eng_producers_pend(producers, batch, base_offset, last_offset, marker, wall_ms);
}

bool __real_broker_tails_settled(struct broker *broker);
bool __wrap_broker_tails_settled(struct broker *broker);
bool __wrap_broker_tails_settled(struct broker *broker) { return COORD_BUG(STOPS_AT_ONCE) || __real_broker_tails_settled(broker); }

/* The lane's look: the door's is in its own file. */
bool __real_broker_lease_over(const struct broker_core *core, int64_t now_us);
bool __wrap_broker_lease_over(const struct broker_core *core, int64_t now_us);
bool __wrap_broker_lease_over(const struct broker_core *core, int64_t now_us) { return !COORD_BUG(LEASE_LOOKED_AT_ONCE) && __real_broker_lease_over(core, now_us); }

bool __real_broker_follow_note(struct broker_partition *partition, const struct broker_follow *follow);
bool __wrap_broker_follow_note(struct broker_partition *partition, const struct broker_follow *follow);
bool __wrap_broker_follow_note(struct broker_partition *partition, const struct broker_follow *follow)
{
    following = true;
    bool now = __real_broker_follow_note(partition, follow);
    following = false;
    return now;
}

void __real_eng_log_set_start(struct eng_log *log, int64_t log_start_offset);
void __wrap_eng_log_set_start(struct eng_log *log, int64_t log_start_offset);
void __wrap_eng_log_set_start(struct eng_log *log, int64_t log_start_offset)
{
    if (!COORD_BUG(START_NOT_FOLLOWED) || !following) {
        __real_eng_log_set_start(log, log_start_offset);
    }
}

/* synced: because somebody waits to hear of it. */
uint64_t __real_broker_checkpoints_write(struct broker_core *core, bool sync);
uint64_t __wrap_broker_checkpoints_write(struct broker_core *core, bool sync);
uint64_t __wrap_broker_checkpoints_write(struct broker_core *core, bool sync) { return COORD_BUG(DELETED_COMES_BACK) && sync ? 0 : __real_broker_checkpoints_write(core, sync); }
