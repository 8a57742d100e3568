/* How far each broker has the cluster's metadata. The coordinator knows it, from their heartbeats: another broker asks it, for two seconds at most. */
#ifndef OT_BROKER_QUORUM_H
#define OT_BROKER_QUORUM_H

#include "broker/call.h"

struct broker_quorum_row {
    int32_t id;
    bool votes;
    int64_t log_end;                           /* one past the version that it has applied; -1 not known */
    int64_t fetched_ms, caught_up_ms;          /* wall times: heard of last; heard of last with all that was committed then. -1 not known */
};
struct broker_quorum {
    struct broker_call call;
    struct ot_arena *arena;                    /* of what is answered */
    bool here;                                 /* nobody else is asked */
    /* answered. When the coordinator did not answer: what this broker sees, in which only its own row is known */
    enum ot_err error;                         /* NO_MEMORY */
    int32_t leader, term;
    int64_t high_watermark;                    /* one past the last version */
    struct broker_quorum_row *rows; uint32_t row_count;        /* by id */
    struct broker_quorum_asking *asking;       /* own */
};
void broker_quorum(struct broker *broker, struct broker_quorum *quorum);       /* on home; done never runs before this returns */

#endif
