/* Who votes for the coordinator, changed while the cluster runs: one voter at a time (coordinator.md §6). */
#ifndef OT_BROKER_VOTER_CHANGE_H
#define OT_BROKER_VOTER_CHANGE_H

#include "broker/call.h"

struct broker_voter_change {
    struct broker_call call;
    bool add, remove;                          /* both: the same node with another directory, or at another place */
    int32_t id;
    struct ot_uuid dir_id;                     /* of the newcomer; zero: as it registered. Of who is removed: INVALID_VOTER_KEY if it is another one; zero: whatever it is */
    struct ot_str host; int32_t port;          /* where peers reach it; port 0: as it registered */
    int32_t timeout_ms;                        /* a newcomer has to follow and to give its vote first: so long that is waited for */
    /* answered. NOT_FOUND: no such broker; INVALID_REQUEST, DUPLICATE_VOTER, VOTER_NOT_FOUND, INVALID_VOTER_KEY, REQUEST_TIMED_OUT… */
    enum ot_err error;
    char text[BROKER_TEXT_MAX];
    struct broker_voter_asked *asked;
};
void broker_voter_change(struct broker *broker, struct broker_voter_change *change);

#endif
