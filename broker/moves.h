/* Leaders and replicas moved at somebody's word. Reassignments and unclean elections are one request to the coordinator each, answered once this broker has applied it; preferred
 * elections go many in one, and each is answered when the leader has handed over, or has not: PREFERRED_LEADER_NOT_AVAILABLE (the preferred one did not get all records within
 * REPLICA_HANDOVER_US), REQUEST_TIMED_OUT (it may still do so). */
#ifndef OT_BROKER_MOVES_H
#define OT_BROKER_MOVES_H

#include "broker/placement.h"

enum broker_move_kind { BROKER_MOVE_ELECT_PREFERRED, BROKER_MOVE_ELECT_UNCLEAN, BROKER_MOVE_REASSIGN };
struct broker_move {
    enum broker_move_kind kind;
    struct ot_str topic; int32_t partition;
    bool named; int32_t leader;                /* ELECT_UNCLEAN: it is to be that replica, and not the one with the longest log */
    const int32_t *target; int32_t count;      /* REASSIGN: the replicas, the preferred one first; target NULL: cancel. All that placement.h checks was checked */
    enum ot_err error;                         /* set before to anything but OK: not asked, and kept */
    char text[BROKER_TEXT_MAX];
};
enum { BROKER_MOVES_ASKED_MAX = 16 };
struct broker_moves {
    struct broker_call call;
    struct broker_move *moves; uint32_t count; /* borrowed until done */
    int32_t timeout_ms;
    /* the broker's own */
    struct broker *broker;
    uint32_t next; _Atomic uint32_t open;
    struct broker_moves_asks *asks;
};
/* done on home, never before this returns. */
void broker_moves(struct broker *broker, struct broker_moves *moves);

#endif
