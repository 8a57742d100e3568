/* The throttle of reassignments, in Kafka's configs: rates on every broker, and for each topic which replicas they are for. It is set before the moves are asked for and taken back,
 * by whichever broker leads the coordinator, once nothing is being moved any more (move_throttle.c). ottla.reassignment.throttle of the
 * cluster says that there is one, of a broker that its rates are ours, ottla.reassignment.throttled of a topic that its lists are: rates and lists that an operator set by other means are
 * left alone, before and after. */
#ifndef OT_BROKER_MOVE_THROTTLE_H
#define OT_BROKER_MOVE_THROTTLE_H

#include "broker/moves.h"

struct broker_move_throttle {
    struct broker_call call;
    int64_t bytes_per_second;                  /* of each broker, above 0 */
    const struct broker_move *moves; uint32_t move_count;      /* REASSIGN, borrowed until done; those with an error are passed over */
    int32_t timeout_ms;
    enum ot_err error; char text[BROKER_TEXT_MAX];
    struct broker_move_throttle_work *work;         /* the broker's */
};
void broker_move_throttle_set(struct broker *broker, struct broker_move_throttle *throttle);     /* done is never called before this returns */
/* Bytes a second of the one that is set; -1: none. */
int64_t broker_move_throttle_of(const struct broker_view *view);

/* Private to broker/. On the replication's executor, now and then. */
struct broker_replication;
void broker_move_throttle_tick(struct broker_replication *all);

#endif
