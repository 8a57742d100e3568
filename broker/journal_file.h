/* Private to the journal: frames, and paths of its files. */
#ifndef OT_BROKER_JOURNAL_FILE_H
#define OT_BROKER_JOURNAL_FILE_H

#include "broker/journal.h"

#define JOURNAL_NAME "meta.journal"
#define TERM_NAME "meta.term"
#define SNAPSHOT_PREFIX "meta.snapshot."
enum { FRAME_HEAD = 32, PATH_BYTES = 4096, RECORD_BYTES_MAX = 256 << 20 };
#define JOURNAL_MAGIC UINT32_C(0x4f544a31)     /* OTJ1 */
#define TERM_MAGIC UINT32_C(0x4f545431)        /* OTT1 */
#define SNAPSHOT_MAGIC UINT32_C(0x4f545331)    /* OTS1 */

struct frame { uint8_t kind; uint32_t payload_bytes; uint64_t sequence, chain_hash; };
void frame_put(uint8_t *at, uint32_t magic, const struct frame *frame);                /* the payload already behind it */
bool frame_head(const uint8_t *at, uint32_t magic, struct frame *out);                 /* plausible, not checked */
bool frame_check(const uint8_t *at, uint32_t magic, const struct frame *frame);        /* checksum over head and payload */
uint64_t frame_chain(const uint8_t *at, const struct frame *frame);                    /* hash of this record, for the next */
static inline uint64_t frame_blocks(uint64_t payload_bytes)
{
    return (FRAME_HEAD + payload_bytes + BROKER_JOURNAL_BLOCK - 1) / BROKER_JOURNAL_BLOCK * BROKER_JOURNAL_BLOCK;
}
OT_MUST_CHECK enum ot_err journal_path(char out[static PATH_BYTES], const char *dir, const char *name);
/* Room for bytes, zeroed; old content is lost. */
OT_MUST_CHECK enum ot_err journal_room(struct broker_journal *journal, size_t bytes);
/* Sync the folder, and the one that it lies in: the files are found again after a crash. */
OT_MUST_CHECK enum ot_err journal_sync_names(struct broker_journal *journal);
/* Load the snapshot that a record names into value (fresh). */
OT_MUST_CHECK enum ot_err snapshot_load(struct ot_io *io, const char *dir, const struct coord_snapshot *snapshot, struct coord_value *value, char *text,
    size_t text_bytes);

#endif
