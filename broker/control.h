/* What an operator asks of the coordinator that is no change of topics or configs: to step down, to forget a broker, to raise the feature level, to say what it has decided. Each is one request to whoever leads, answered once it is done. */
#ifndef OT_BROKER_CONTROL_H
#define OT_BROKER_CONTROL_H

#include "broker/call.h"

enum broker_control_kind {
    BROKER_RESIGN,                             /* the coordinator hands its role over: ELIGIBLE_LEADERS_NOT_AVAILABLE when no other voter lives. One that leads no more has done so */
    BROKER_RAISE,                              /* ottla.version goes up to level (features.h): INVALID_UPDATE_VERSION when a broker or voter does not know it, with words who */
    BROKER_READ,                               /* nothing is changed: done, the view here has all that was acknowledged to anybody before it was asked. validate_only makes no difference */
    BROKER_FORGET                              /* a fenced broker without replicas and without a vote: INVALID_REQUEST when it is not one, BROKER_ID_NOT_REGISTERED */
};
struct broker_control {
    struct broker_call call;
    enum broker_control_kind kind;
    int32_t broker_id;                         /* FORGET; RESIGN: who is meant, -1: whoever leads, answered: who that was */
    int16_t level;                             /* RAISE */
    bool validate_only;
    int32_t timeout_ms;
    enum ot_err error; char text[BROKER_TEXT_MAX];
    int64_t version_out;                       /* that shows the effect */
    struct broker_control_asked *asked;        /* the broker's */
};
void broker_control(struct broker *broker, struct broker_control *control);    /* done is never called before this returns */

/* Milliseconds since this node, as the coordinator, heard of that broker last; -1: it does not lead, or never did. Any thread. */
int64_t broker_heard_ms_ago(struct broker *broker, int32_t broker_id);

#endif
