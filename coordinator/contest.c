#include "coordinator/contest.h"
#include <string.h>

bool coord_contest_owed(const struct coord_partition *row) { return row->leader == -1 && row->replica_count > 1; }

static int32_t answer_of(const struct coord_log_end *answers, uint32_t count, int32_t broker_id)
{
    for (uint32_t i = 0; i < count; i++)
        if (answers[i].broker_id == broker_id) return (int32_t)i;
    return -1;
}

/* Every member of the last isr and elr said what it has. */
static bool all_back(const struct coord_partition *row, const struct coord_log_end *answers, uint32_t count)
{
    for (int32_t i = 0; i < row->replica_count; i++)
        if ((row->last_members >> i & 1) != 0 && answer_of(answers, count, row->replicas[i]) == -1) return false;
    return row->last_members != 0;
}

static bool has_more(const struct coord_log_end *a, const struct coord_log_end *b)
{
    return a->last_epoch != b->last_epoch ? a->last_epoch > b->last_epoch : a->log_end > b->log_end;
}

/* Of equals the first in the order of the replicas. */
static int32_t best_of(const struct coord_partition *row, const struct coord_log_end *answers, uint32_t count, bool who_may_lead)
{
    int32_t best = -1;
    for (int32_t i = 0; i < row->replica_count; i++) {
        const int32_t at = answer_of(answers, count, row->replicas[i]);
        if (at == -1 || (who_may_lead && !answers[at].may_lead)) continue;
        if (best == -1 || has_more(&answers[at], &answers[best])) best = at;
    }
    return best;
}

int64_t coord_contest_loss_from(const struct coord_partition *row, const struct coord_log_end *winner)
{
    if (winner->broker_id == row->last_leader || (winner->last_epoch >= 0 && winner->last_epoch == row->last_leader_epoch)) return winner->log_end;
    int64_t from = winner->high_watermark;
    for (int32_t i = 0; i < row->loss_count; i++)
        if (row->losses[i].epoch > winner->last_epoch && row->losses[i].start < from) from = row->losses[i].start;
    return from;
}

/* Whom the operator named; -1: it did not answer, or cannot lead now. */
static int32_t named_of(const struct coord_partition *row, const struct coord_log_end *answers, uint32_t count, int32_t leader)
{
    const int32_t at = coord_replica_bit(row, leader) == 0 ? -1 : answer_of(answers, count, leader);
    return at != -1 && answers[at].may_lead ? at : -1;
}

void coord_contest_decide(const struct coord_partition *row, const struct coord_log_end *answers, uint32_t count, const struct coord_contest *contest, struct coord_verdict *out)
{
    int32_t best = -1;
    *out = (struct coord_verdict){ 0 };
    if (!coord_contest_owed(row)) return;
    if (contest->named) {
        best = contest->unclean ? named_of(row, answers, count, contest->leader) : -1;
        out->loss = COORD_LOSS_UNCLEAN;
    } else if ((row->isr | row->elr) == 0 && all_back(row, answers, count)) {
        best = best_of(row, answers, count, false);
        out->loss = COORD_LOSS_CRASH;
        if (best != -1 && !answers[best].may_lead) best = -1;  /* it can before long: nothing less will do meanwhile */
    }
    if (best == -1 && !contest->named && contest->unclean && (contest->waited || answer_of(answers, count, row->last_leader) != -1)) {
        best = best_of(row, answers, count, true);
        out->loss = COORD_LOSS_UNCLEAN;
    }
    if (best == -1) return;
    out->elects = true;
    out->winner = (uint32_t)best;
    out->loss_from = coord_contest_loss_from(row, &answers[best]);
}

void coord_losses_add(struct coord_partition *row, int32_t epoch, int64_t start)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < row->loss_count; i++)              /* whoever is older than an old one is older than this one: a start that is not lower says no more */
        if (row->losses[i].start < start) row->losses[kept++] = row->losses[i];
    if (kept == COORD_LOSSES_MAX) {                            /* starts ascend: the lower of the two oldest, as if it were as late as the later one */
        row->losses[0].epoch = row->losses[1].epoch;
        memmove(&row->losses[1], &row->losses[2], (COORD_LOSSES_MAX - 2) * sizeof row->losses[0]);
        kept--;
    }
    row->losses[kept++] = (struct coord_loss_start){ epoch, start };
    row->loss_count = kept;
}
