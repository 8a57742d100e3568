/* The files of a voter, in one folder: meta.term, meta.journal, meta.snapshot.<version>. What the records mean is the coordinator's business; this file knows how they
 * lie on the disk, in which order they are synced, and what a damaged one tells. docs/file-formats.md, section "metadata", has the byte tables.
 *
 * errors  CORRUPT: a record is bad and cannot be the torn end of a write, or both copies of the term are: this voter's memory cannot be trusted. NO_SPACE: nothing was
 *         written. IO: final; a failed sync is never tried again. text_out gets words that name the file.
 * thread  one call at a time, blocking, except broker_snapshot_write, which may run beside the others. */
#ifndef OT_BROKER_JOURNAL_H
#define OT_BROKER_JOURNAL_H

#include "base/io.h"
#include "coordinator/coord.h"

enum { BROKER_JOURNAL_BLOCK = 4096 };

struct broker_journal {
    struct ot_io *io;
    char *dir;                                 /* the folder */
    int fd, term_fd;                           /* -1: not there yet */
    uint64_t end_pos;                          /* where the next record goes */
    uint64_t sequence, chain_hash;             /* of the next record */
    uint64_t term_sequence;
    bool unsynced;                             /* the last record was written without a sync */
    bool broken;                               /* a sync failed: every later write is refused */
    uint8_t *room; size_t room_bytes;          /* for one record */
    void (*make_room)(void *arg); void *make_room_arg;     /* called once when the disk is full, before the record is given up; may be NULL */
};
/* Where the journal stood when a snapshot was taken. */
struct broker_journal_mark { uint64_t pos, sequence, chain_hash; };

/* Read everything in dir_path (copied) into image, which coord_image_init made; a missing folder or empty one leaves it blank. The torn end of the journal is
 * cut off and synced; image->unsure says so. A copy of the term that is bad or behind is written anew. */
OT_MUST_CHECK enum ot_err broker_journal_open(struct broker_journal *journal, struct ot_io *io, const char *dir_path, struct coord_disk_image *image,
    char *text_out, size_t text_bytes);
void broker_journal_close(struct broker_journal *journal);     /* zeroed or half-open ones too */

/* FORMAT makes folder and file; TERM goes to meta.term, both copies, always synced; all else is appended, synced if asked for. */
OT_MUST_CHECK enum ot_err broker_journal_write(struct broker_journal *journal, const struct coord_record *record, bool sync);

struct broker_journal_mark broker_journal_mark(const struct broker_journal *journal);
/* Write value (a share, as committed) to meta.snapshot.<version>: temporary name, sync, rename, sync of the folder. name_out gets the file's name. */
OT_MUST_CHECK enum ot_err broker_snapshot_write(struct ot_io *io, const char *dir_path, const struct coord_value *value, char name_out[static 40],
    struct coord_snapshot *out);
/* Begin a new journal: FORMAT, SNAPSHOT, and what the old one holds behind mark; it takes the old one's place by rename, then older snapshots go. */
OT_MUST_CHECK enum ot_err broker_journal_switch(struct broker_journal *journal, const struct coord_format *format, const struct coord_snapshot *snapshot,
    const struct broker_journal_mark *mark);

#endif
