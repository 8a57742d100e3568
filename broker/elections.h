/* Partitions that nobody leads and that the coordinator's own rules give no leader (coordinator.md §9, rules 4 and 5): the node whose coordinator leads looks after them.
 *
 *   committed rows ──► those without a leader ──► could one be elected? ──► survey ──► contest ──► one request to the coordinator each
 *
 * Nothing is remembered that the rows do not say, but since when a partition has had no leader; another coordinator begins anew with the rows. After rule 4 and an unclean election the
 * row says what may be lost; its new leader writes that into the ledger (losses.h).
 *
 * thread  the coordinator's */
#ifndef OT_BROKER_ELECTIONS_H
#define OT_BROKER_ELECTIONS_H

#include "base/map.h"
#include "broker/survey.h"
#include "coordinator/coord.h"

struct broker_election_owed {                  /* in the order in which they are looked at */
    struct broker_election_owed *next, *prev;
    struct ot_uuid topic_id; int32_t partition;
    int64_t since_us;                          /* without a leader, as far as this node knows */
};
struct broker_elections {
    struct ot_timer timer;
    struct broker_election_owed *first, *last; uint32_t count;
    struct ot_map by_key;
    bool leading, busy, ended;
    struct broker_elections_round *round;      /* under way */
    _Atomic uint64_t elected[4];               /* by enum coord_loss */
};
void broker_elections_init(struct broker *broker);
void broker_elections_applied(struct broker *broker, const struct coord_value *value, struct ot_blob delta, bool whole);
void broker_elections_role(struct broker *broker, bool leading);
void broker_elections_end(struct broker *broker);          /* nothing more is begun */
void broker_elections_free(struct broker *broker);         /* any thread, when the coordinator's has nothing more of it */

/* The request that carries out a verdict; members: room for COORD_REPLICAS_MAX, as long as it is under way. */
void broker_election_ask(const struct broker_survey_part *part, const struct coord_verdict *verdict, enum coord_loss loss, struct coord_member *members, struct coord_request *out);
void broker_election_tell(const struct broker_survey_part *part, const struct coord_verdict *verdict, enum coord_loss loss, struct ot_str topic);       /* in the log, once it is done */
const char *broker_loss_reason(enum coord_loss loss);      /* "crash", "unclean", "operator" */

#endif
