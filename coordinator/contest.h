/* Who leads when nobody who certainly has everything can: rules 4 and 5 of "partition leader election" (election.h has the others). Pure functions over one row and what
 * its replicas answered once they had applied that row, so that they follow nobody any more, and had flushed their logs, so that what they hold is there after a crash too.
 *
 *   4 isr and elr are empty because all their members lost something to crashes, and all of them (last_members) are back: no better copy can come. Nobody has to allow it
 *   5 unclean: isr and elr have no member that can lead now. Somebody allowed it (unclean.leader.election.enable, or an operator's word), and the last known leader answered,
 *     or was waited for long enough
 *
 * In both the winner is the one with the largest (last epoch, log end) of all that answered, unless an operator names another one. What may be lost are records of epochs up to the row's, from loss_from upwards without
 * end: from the winner's log end when its log is a beginning of the last leader's; else, as it may have parted from that below, from its high watermark, or from where an
 * earlier election of a later epoch than its last record began to lose, if that is lower. */
#ifndef OT_COORDINATOR_CONTEST_H
#define OT_COORDINATOR_CONTEST_H

#include "coordinator/rows.h"

struct coord_log_end {                          /* of one replica; who did not answer is not among them */
    int32_t broker_id;
    int64_t broker_epoch;                      /* of the life that answered */
    bool may_lead;                             /* live and not stopping, in that life */
    int32_t last_epoch;                        /* of its last record; -1: it never had one */
    int64_t log_end, high_watermark, log_start_offset, flushed_end;
};
struct coord_contest {
    bool unclean;                              /* it is allowed */
    bool waited;                               /* the last known leader was waited for */
    bool named; int32_t leader;                /* somebody said who: that one, whatever others have, and nobody is waited for; only where unclean is allowed */
};
struct coord_verdict {
    bool elects;
    enum coord_loss loss;                      /* CRASH by rule 4, else UNCLEAN */
    uint32_t winner;                           /* of the answers */
    int64_t loss_from;
};
void coord_contest_decide(const struct coord_partition *row, const struct coord_log_end *answers, uint32_t count, const struct coord_contest *contest, struct coord_verdict *out);
/* Nobody leads it, and nobody may by the other rules: it waits for an election of these. A sole replica never does. */
bool coord_contest_owed(const struct coord_partition *row);
int64_t coord_contest_loss_from(const struct coord_partition *row, const struct coord_log_end *winner);
/* The row remembers one more such election, of that leader epoch. Only what can still make a later range larger is kept; when there is no room, two become one that covers both. */
void coord_losses_add(struct coord_partition *row, int32_t epoch, int64_t start);

#endif
