/* Where the logs of partitions end that nobody leads: asked of all their replicas that live, for many partitions at once (coordinator.md §9, Answers).
 *
 * A replica answers once it has applied the row that has no leader, so that it follows nobody, nothing is on its way into its log, and all of it is on its disk; until then it says so, and
 * is asked again by whoever wants to know. Nothing blocks: the side that is asked looks, and asks for a flush where one is missing. */
#ifndef OT_BROKER_SURVEY_H
#define OT_BROKER_SURVEY_H

#include "broker/peers.h"
#include "coordinator/contest.h"

enum { BROKER_SURVEY_PARTS_MAX = 256 };
enum broker_log_end_state { BROKER_LOG_END_KNOWN, BROKER_LOG_END_LATER /* not applied, recovered or flushed yet */, BROKER_LOG_END_OFFLINE /* its log does not open, or it has no such partition */ };

struct broker_survey_part {
    struct ot_uuid topic_id; int32_t partition;
    /* answered */
    bool known, owed;                          /* there is such a partition; nobody leads it, and it has several replicas: row and answers say more */
    struct coord_partition row;                /* as asked about */
    struct coord_log_end answers[COORD_REPLICAS_MAX]; uint32_t answer_count;
};
struct broker_survey {
    struct broker_call call;                   /* done on home, never before broker_survey returns */
    struct broker_survey_part *parts; uint32_t count;          /* the caller's; at most BROKER_SURVEY_PARTS_MAX */
    int64_t wait_us;                           /* who has not answered by then does not count */
    /* the broker's */
    struct broker *broker;
    struct ot_task begin_task;
    struct ot_arena arena;
    struct broker_survey_asked *asked; uint32_t asked_count, asked_max, open;     /* of the coordinator's thread */
};
/* Any thread. Without peers, or after they stopped, only this broker answers. */
void broker_survey(struct broker *broker, struct broker_survey *survey);

#endif
