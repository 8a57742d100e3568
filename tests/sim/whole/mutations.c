/* What --wrap puts in between the objects: a bug of the broker that none of the parts shows alone. */
#include "coordinator/bug.h"
#include "engine/producers.h"

struct broker_partition;
struct broker_follow;
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
