/* Leader epochs of one partition: leader-epoch-checkpoint, in Kafka's text format (version 0: count, then `epoch start_offset` lines).
 *
 * Entries have growing epochs and growing start offsets. Own lock; reads never block on the disk. assign is durable (replaced by temporary name, synced, renamed) before it
 * returns: no record of an epoch is written before its entry is. KIP-101, KIP-279, KIP-320. */
#ifndef OT_ENGINE_EPOCHS_H
#define OT_ENGINE_EPOCHS_H

#include "base/io.h"

struct eng_epochs;
struct eng_epoch_end { int32_t epoch; int64_t end_offset; };      /* -1, -1: unknown */

/* A missing file is an empty history; a damaged one CORRUPT (the log rebuilds it from its batches). dir_path is copied. */
OT_MUST_CHECK enum ot_err eng_epochs_open(struct ot_io *io, const char *dir_path, struct eng_epochs **out);
void eng_epochs_close(struct eng_epochs *epochs);
OT_MUST_CHECK enum ot_err eng_epochs_assign(struct eng_epochs *epochs, int32_t epoch, int64_t start_offset);    /* same epoch again: nothing */
int32_t eng_epochs_latest(struct eng_epochs *epochs);                              /* -1 when empty */
int32_t eng_epochs_for_offset(struct eng_epochs *epochs, int64_t offset);          /* epoch of the record at offset; -1 unknown */
/* Largest epoch <= asked and where it ends (OffsetForLeaderEpoch); log_end_offset is the end of the latest. asked above the latest, or below the first: -1/-1. */
struct eng_epoch_end eng_epochs_end(struct eng_epochs *epochs, int32_t asked, int64_t log_end_offset);
OT_MUST_CHECK enum ot_err eng_epochs_truncate_end(struct eng_epochs *epochs, int64_t end_offset, bool sync);      /* drops entries starting at or above */
OT_MUST_CHECK enum ot_err eng_epochs_truncate_start(struct eng_epochs *epochs, int64_t start_offset);  /* the first kept entry then starts here */
OT_MUST_CHECK enum ot_err eng_epochs_replace(struct eng_epochs *epochs, const struct eng_epoch_end *starts, uint32_t count);   /* recovery; end_offset = start */

#endif
