/* Where replicas should lie: proposals for reassignments, by the committed state alone. Nothing is changed here; moves.h carries a proposal out.
 *
 *   EMPTY     every replica of the given brokers goes to the broker that holds fewest of those whose rack suits best; its place in the list stays, so who was preferred is replaced
 *   FACTOR    as many replicas as said: newcomers by rack, then by load; out go the dead, then those not in sync, then those that share a rack, then the most loaded, the preferred last
 *   BALANCE   replicas from who has more than its share to who has less, never into a worse spread over racks; then preferred leaders likewise, by order alone where that does. Each topic
 *             gives its part where that is enough, so that a broker that comes is given some of each, not all of the first
 *
 * rule    a partition that is being moved already is left alone; brokers that are fenced, stop or leave get nothing
 * bounds  moves_max moves, all in the plan's arena; two walks over the partitions
 * thread  any; the view is held by the caller until this returns */
#ifndef OT_BROKER_PLAN_H
#define OT_BROKER_PLAN_H

#include "broker/view.h"

enum broker_plan_goal { BROKER_PLAN_BALANCE, BROKER_PLAN_EMPTY, BROKER_PLAN_FACTOR };
enum { BROKER_PLAN_REPLICAS_MAX = 64, BROKER_PLAN_MOVES_MAX = 10000 };

struct broker_plan_ask {
    enum broker_plan_goal goal;
    const int32_t *empty; uint32_t empty_count;            /* EMPTY; with the others: they are to get nothing */
    int32_t factor;                                        /* FACTOR */
    const struct ot_str *topics; uint32_t topic_count;     /* none: all */
    uint32_t moves_max;                                    /* 0: BROKER_PLAN_MOVES_MAX */
};
struct broker_plan_move {
    struct ot_str topic; int32_t partition;
    const int32_t *from, *to; int32_t from_count, to_count;
    int32_t added;                                         /* of to, that are not in from: each copies the partition */
};
struct broker_plan {
    struct broker_plan_move *moves; uint32_t move_count;
    bool cut;                                              /* there would be more than moves_max */
    uint32_t busy;                                         /* partitions left alone because they are being moved */
    uint32_t stuck; struct ot_str stuck_topic; int32_t stuck_partition;        /* partitions that no other broker can take; the first of them */
};
/* From the arena, texts too. NO_MEMORY. INVALID_REPLICATION_FACTOR: fewer brokers than factor. BROKER_ID_NOT_REGISTERED: of empty, *id_out. UNKNOWN_TOPIC_OR_PARTITION: of topics,
 * *id_out is its index. */
OT_MUST_CHECK enum ot_err broker_plan(const struct broker_view *view, const struct broker_plan_ask *ask, struct ot_arena *arena, struct broker_plan *out, int32_t *id_out);

/* Could the others hold what this broker holds, if it went? The largest number of replicas among its partitions, and how many brokers could hold some. */
struct broker_plan_room { int32_t factor_max, brokers; int32_t replicas; };
void broker_plan_room(const struct broker_view *view, int32_t leaving, struct broker_plan_room *out);

#endif
