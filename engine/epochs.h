/* Leader epochs of one partition: leader-epoch-checkpoint, in Kafka's text format (version 0: count, then `epoch start_offset` lines).
 *
 * Entries have growing epochs and growing start offsets. Own lock; reads never block on the disk. assign is durable (replaced by temporary name, synced, renamed) before it
 * returns: no record of an epoch is written before its entry is. KIP-101, KIP-279, KIP-320. */
#ifndef OT_ENGINE_EPOCHS_H
#define OT_ENGINE_EPOCHS_H

#include "base/io.h"

struct eng_epochs;
struct eng_epoch_end { int32_t epoch; int64_t end_offset; };      /* -1, -1: unknown */

/* A missing file is an empty history; a damaged one CORRUPT, and *out is an empty history all the same (the log rebuilds it from its batches with
 * eng_epochs_replace). Other errors: *out is NULL. dir_path is copied. */
OT_MUST_CHECK enum ot_err eng_epochs_open(struct ot_io *io, const char *dir_path, struct eng_epochs **out);
void eng_epochs_close(struct eng_epochs *epochs);                                  /* NULL is fine; writes nothing */
/* Records from start_offset on are of epoch. The latest epoch again: nothing. Entries that start at or above start_offset hold no record and go. An epoch below the
 * latest is refused, FENCED_LEADER_EPOCH: a log whose epochs fall is cut there by recovery. */
OT_MUST_CHECK enum ot_err eng_epochs_assign(struct eng_epochs *epochs, int32_t epoch, int64_t start_offset);
int32_t eng_epochs_latest(struct eng_epochs *epochs);                              /* -1 when empty */
int32_t eng_epochs_for_offset(struct eng_epochs *epochs, int64_t offset);          /* epoch of the record at offset; -1 unknown */
/* Largest epoch <= asked and where it ends (OffsetForLeaderEpoch); log_end_offset is the end of the latest. Asked above the latest, below 0, or of an empty history:
 * -1/-1. Below the first: asked itself, ending where the first begins, as Kafka answers (KIP-320: what came before is gone, so a client or follower
 * that has read of that epoch continues at the first offset there is). */
struct eng_epoch_end eng_epochs_end(struct eng_epochs *epochs, int32_t asked, int64_t log_end_offset);
/* The three below write the file (synced, but for truncate_end on demand) when they change something. An error: the history in memory is as before. */
OT_MUST_CHECK enum ot_err eng_epochs_truncate_end(struct eng_epochs *epochs, int64_t end_offset, bool sync);      /* drops entries starting at or above */
OT_MUST_CHECK enum ot_err eng_epochs_truncate_start(struct eng_epochs *epochs, int64_t start_offset);  /* the first kept entry then starts here */
/* Recovery: the whole history anew; end_offset = start. MALFORMED: not growing. */
OT_MUST_CHECK enum ot_err eng_epochs_replace(struct eng_epochs *epochs, const struct eng_epoch_end *starts, uint32_t count);
/* Copies of the entries, end_offset = start. Returns how many there are. */
uint32_t eng_epochs_list(struct eng_epochs *epochs, struct eng_epoch_end *out, uint32_t max);
/* The text format, for tools: each entry to row(arg, …). CORRUPT: not this format, or not growing; *line_out is where. */
OT_MUST_CHECK enum ot_err eng_epochs_parse(const char *text, size_t bytes, void (*row)(void *arg, const struct eng_epoch_end *start), void *arg,
    uint32_t *line_out);

#endif
