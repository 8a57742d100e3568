/* Where partitions are led and kept: what elections and reassignments may ask, by the committed state. What passes here is the coordinator's to decide (moves.h).
 *
 * Any thread; the view is held by the caller. Of the arena nothing is kept. text gets words for error_message, "" when the error's own do. */
#ifndef OT_BROKER_PLACEMENT_H
#define OT_BROKER_PLACEMENT_H

#include "broker/call.h"
#include "broker/view.h"

enum broker_election { BROKER_ELECT_PREFERRED, BROKER_ELECT_UNCLEAN };
/* OK: to be asked for. ELECTION_NOT_NEEDED: the partition has the leader that would be elected. PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE: it cannot
 * lead now. UNKNOWN_TOPIC_OR_PARTITION. */
OT_MUST_CHECK enum ot_err broker_elect(const struct broker_view *view, enum broker_election election, struct ot_str topic, int32_t partition,
    struct ot_arena *arena, char text[static BROKER_TEXT_MAX]);

/* The same of one that somebody names: whether a preferred election is needed, and can be, is the coordinator's to say, for this view may be behind. */
OT_MUST_CHECK enum ot_err broker_elect_named(const struct broker_view *view, enum broker_election election, struct ot_str topic, int32_t partition,
    struct ot_arena *arena, char text[static BROKER_TEXT_MAX]);

/* Whom a preferred election makes the leader: the first replica; while that one lives and is in maintenance, or whoever leads is, the first in sync that is not; the present leader when there is none. */
int32_t broker_preferred(const struct broker_view *view, const struct broker_view_partition *row);
/* Is another one in sync that is there and does not step back itself? */
bool broker_another_could_lead(const struct broker_view *view, const struct broker_view_partition *row, int32_t id);

/* count below 0: cancel a reassignment. OK: to be asked for. *same_out: by this view, which may be behind, there is nothing to do; the coordinator says it for good.
 * INVALID_REPLICA_ASSIGNMENT: no such broker, one twice, none at all. */
OT_MUST_CHECK enum ot_err broker_reassign(const struct broker_view *view, struct ot_str topic, int32_t partition, const int32_t *replicas, int32_t count,
    bool factor_may_change, struct ot_arena *arena, bool *same_out, char text[static BROKER_TEXT_MAX]);

#endif
