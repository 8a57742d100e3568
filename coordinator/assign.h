/* The server-side assignors of consumer groups (KIP-848): who should own which partition.
 *
 * shape   topics have indexes, and all their partitions one numbering: those of topic 0, then those of topic 1, … An assignment is an array of that
 *         length with the index of the owner, or -1: so a partition has one owner at most, whatever goes wrong.
 * result  every partition of a topic that somebody subscribed to has an owner who subscribed to it.
 *         RANGE: members in order (static ones by instance id, then the others by member id) take a stretch of each topic, without regard to what they had.
 *         UNIFORM: as equal as the subscriptions allow, then as few moves as possible. Racks are no input, as in Kafka since 4.0: only a change of them
 *         starts a new assignment (the metadata hash of a group).
 * errors  NO_MEMORY: the arena is at its cap; owner_out means nothing then
 * bounds  time grows with partitions + subscriptions (times their logarithm), memory with the same; at most 16 rounds where subscriptions differ
 * thread  no state; any thread */
#ifndef OT_COORDINATOR_ASSIGN_H
#define OT_COORDINATOR_ASSIGN_H

#include "base/arena.h"

enum coord_assignor { COORD_ASSIGN_UNIFORM, COORD_ASSIGN_RANGE };

struct coord_assign_topic { struct ot_uuid id; int32_t partition_count; };
struct coord_assign_member {
    struct ot_str id, instance_id;                             /* instance_id null: dynamic */
    const uint32_t *topics; uint32_t topic_count;              /* subscribed, ascending, each once */
};
struct coord_assign_in {
    const struct coord_assign_topic *topics; uint32_t topic_count;
    const struct coord_assign_member *members; uint32_t member_count;
    const int32_t *current;                                    /* the owner of each partition until now; NULL: none has one */
};
uint32_t coord_assign_partition_count(const struct coord_assign_in *in);       /* of all topics: the length of both arrays */
OT_MUST_CHECK enum ot_err coord_assign(enum coord_assignor assignor, const struct coord_assign_in *in, struct ot_arena *arena, int32_t *owner_out);

const char *coord_assignor_name(enum coord_assignor assignor);
bool coord_assignor_by_name(struct ot_str name, enum coord_assignor *out);

/* Private to the assignors: subscriptions that differ. */
OT_MUST_CHECK enum ot_err coord_assign_uneven(const struct coord_assign_in *in, struct ot_arena *arena, int32_t *owner_out);

#endif
