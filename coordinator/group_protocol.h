/* What Kafka's consumers put into their opaque bytes (protocol type "consumer"): topics that they want, partitions that they were given. Read for views, expiry and the
 * timeline only; the machine never depends on it, and bytes that cannot be read say nothing. */
#ifndef OT_COORDINATOR_GROUP_PROTOCOL_H
#define OT_COORDINATOR_GROUP_PROTOCOL_H

#include "base/arena.h"

bool group_subscription_has(struct ot_blob subscription, struct ot_str topic);
bool group_subscription_equal(struct ot_blob a, struct ot_blob b);     /* the same bytes, or the same topics in others */
/* How many partitions an assignment has, and how many of them were not in the one before. False: it cannot be read, or is too much to compare. */
bool group_assignment_moved(struct ot_blob before, struct ot_blob after, uint32_t *partitions_out, uint32_t *moved_out);

#endif
