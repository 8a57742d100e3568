/* Private to broker/: writing the ledger. */
#ifndef OT_BROKER_LOSSES_INNER_H
#define OT_BROKER_LOSSES_INNER_H

#include "broker/losses.h"
#include "engine/log.h"

enum { BROKER_LOSS_PATH_BYTES = 4096 };
struct broker_core;
struct broker_partition;

/* Reads what there is; blocks. A file that does not say what it should is told and left. */
OT_MUST_CHECK enum ot_err broker_losses_open(struct ot_io *io, const char *meta_path, struct broker_losses **out);
void broker_losses_close(struct broker_losses *losses);    /* NULL is fine; nobody writes any more */
struct broker_loss_counts { uint64_t entries, kept_bytes, noted[3]; /* since the start, by kind */ };
void broker_losses_counts(struct broker_losses *losses, struct broker_loss_counts *out);    /* NULL is fine: none */

/* On disk when it returns; blocks. The same thing again (a crash came between the note and what it tells of) is noted once: *loss is then the one that there is. */
OT_MUST_CHECK enum ot_err broker_loss_note(struct broker_losses *losses, struct broker_loss *loss);

/* What a cut takes from a log; number 0: no entry says so. */
struct broker_cut { struct broker_loss loss; char folder[BROKER_LOSS_PATH_BYTES]; };
/* In the lane, before the log is cut at `to`: is that a loss, then it is kept and noted. An error: it is not noted, and must not be cut yet. */
OT_MUST_CHECK enum ot_err broker_loss_before_cut(struct broker_partition *partition, int64_t to, int32_t leader_epoch, struct broker_cut *out);
/* In the lane, before all of the log goes because the leader's begins behind its end. */
void broker_loss_of_restart(struct broker_partition *partition, int32_t leader_epoch, struct broker_cut *out);
/* In the lane, once it is cut: as an event. Never blocks. */
void broker_loss_cut_done(struct broker_partition *partition, struct broker_cut *cut);
/* With the partition's mutex, when it begins to lead: did an election give something up? Noted soon, on a thread that may block; looked at again at each start. */
void broker_loss_of_election(struct broker_partition *partition);
/* On the housekeeper's thread, each second. Once per start, when all partitions are open, this broker may lead and every election is noted: up to which version of the metadata that is so. Of a
 * sole replica the next start looks at later elections again. */
void broker_losses_settle(struct broker *broker);
OT_MUST_CHECK enum ot_err broker_loss_settled(struct broker_losses *losses, int64_t version);     /* blocks */
/* Entries that were not told yet become events, one after the other, until each is kept there. Any thread, never blocks; called each second. */
void broker_losses_tell(struct broker *broker);
/* On an I/O thread, after the log was opened and before anybody else may use it: what lies beside it that a recovery cut, this one or one before, is noted, then moved to where it is kept. */
void broker_loss_of_recovery(struct broker_partition *partition, struct eng_log *log, const struct eng_recovery *recovery);
/* During the open: [from, end) had been synced, and is not there. arg: the partition. */
void broker_loss_of_gone(void *arg, int64_t from, int64_t end);

/* ---- for broker/losses_recovery.c */

void broker_loss_name(const struct broker_partition *partition, struct broker_loss *loss);         /* whose it is, and when */
uint64_t broker_loss_number(struct broker_losses *losses);                                         /* of a folder alone: an entry's is its own */
/* Where something of that partition is kept in that log directory; the folder around it is there, on disk. Blocks. */
OT_MUST_CHECK enum ot_err broker_loss_folder(const struct broker_partition *partition, uint32_t dir, uint64_t number, char out[static BROKER_LOSS_PATH_BYTES]);
OT_MUST_CHECK enum ot_err broker_loss_folder_sync(const struct broker_partition *partition, uint32_t dir);     /* the name of one that was made there */
/* The next entry behind *io (by number) of the same kind and partition that keeps something. */
bool broker_loss_keeper_next(struct broker_losses *losses, struct broker_cut *io);

#endif
