/* Reading a voter's files back, and judging what is damaged. See broker/journal.c for the format and the reason. */
#include "base/log.h"
#include "base/util.h"
#include "broker/journal_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct words { char *text; size_t bytes; };

static enum ot_err corrupt(const struct words *words, const char *dir, const char *name, const char *what)
{
    snprintf(words->text, words->bytes, "%s/%s: %s", dir, name, what);
    return OT_ERR_CORRUPT;
}

/* ---- meta.term */

static bool read_copy(struct broker_journal *journal, uint64_t copy, uint8_t block[static BROKER_JOURNAL_BLOCK], struct coord_record *record, uint64_t *sequence_out)
{
    struct frame frame;
    if (ot_io_read_exact(journal->io, journal->term_fd, block, BROKER_JOURNAL_BLOCK, copy * BROKER_JOURNAL_BLOCK) != OT_OK || !frame_head(block, TERM_MAGIC, &frame)
        || frame.payload_bytes > BROKER_JOURNAL_BLOCK - FRAME_HEAD || !frame_check(block, TERM_MAGIC, &frame) || frame.kind != COORD_RECORD_TERM) {
        return false;
    }
    *sequence_out = frame.sequence;
    return coord_record_decode(COORD_RECORD_TERM, coord_blob(block + FRAME_HEAD, frame.payload_bytes), record) == OT_OK;
}

/* The other copy is bad, or of the term before: the process died between the two writes. What this one says is acted on from here on (the same candidate is given its vote again without another
 * write), and the next write begins with the first copy: torn, it would leave the older one alone, and the promise would be forgotten. */
static enum ot_err level_copies(struct broker_journal *journal, uint8_t good[static BROKER_JOURNAL_BLOCK], uint64_t other)
{
    struct ot_io *io = journal->io;
    enum ot_err err = io->ops->fdatasync(io, journal->term_fd);        /* no sync may have seen it yet */
    if (err == OT_OK && (err = ot_io_write_all(io, journal->term_fd, good, BROKER_JOURNAL_BLOCK, other * BROKER_JOURNAL_BLOCK)) == OT_OK) {
        err = io->ops->fdatasync(io, journal->term_fd);
    }
    return err;
}

/* *found_out: one copy at least is good. */
static enum ot_err read_term(struct broker_journal *journal, struct coord_disk_image *image, bool *found_out)
{
    char path[PATH_BYTES];
    uint8_t blocks[2][BROKER_JOURNAL_BLOCK] = { { 0 } };
    uint64_t newest = 0;
    enum ot_err err = journal_path(path, journal->dir, TERM_NAME);
    *found_out = false;
    if (err != OT_OK || (err = journal->io->ops->open(journal->io, path, OT_IO_WRITE, &journal->term_fd)) != OT_OK) {
        return err == OT_ERR_NOT_FOUND ? OT_OK : err;
    }
    for (uint64_t copy = 0; copy < 2; copy++) {
        struct coord_record record;
        uint64_t sequence;
        if (!read_copy(journal, copy, blocks[copy], &record, &sequence)) {
            ot_log(OT_LOG_WARN, "coordinator", "term_copy_bad", "file=%s copy=%d", path, (int)copy + 1);
            continue;
        }
        if (!*found_out || sequence > journal->term_sequence) {
            image->term = record.u.term;
            journal->term_sequence = sequence;
            newest = copy;
        }
        *found_out = true;
    }
    return !*found_out || memcmp(blocks[0], blocks[1], BROKER_JOURNAL_BLOCK) == 0 ? OT_OK : level_copies(journal, blocks[newest], 1 - newest);
}

/* ---- meta.journal */

/* The record at end_pos in journal->room: 1 good, 0 not; negative: an error in *err. */
static bool read_record(struct broker_journal *journal, uint64_t file_bytes, struct frame *frame, enum ot_err *err)
{
    uint64_t left = file_bytes - journal->end_pos;
    *err = journal_room(journal, BROKER_JOURNAL_BLOCK);
    if (*err != OT_OK || left < BROKER_JOURNAL_BLOCK
        || (*err = ot_io_read_exact(journal->io, journal->fd, journal->room, BROKER_JOURNAL_BLOCK, journal->end_pos)) != OT_OK
        || !frame_head(journal->room, JOURNAL_MAGIC, frame) || frame_blocks(frame->payload_bytes) > left) {
        return false;
    }
    size_t bytes = frame_blocks(frame->payload_bytes);
    if (bytes > BROKER_JOURNAL_BLOCK && ((*err = journal_room(journal, bytes)) != OT_OK
        || (*err = ot_io_read_exact(journal->io, journal->fd, journal->room, bytes, journal->end_pos)) != OT_OK)) {
        return false;
    }
    return frame_check(journal->room, JOURNAL_MAGIC, frame);
}

static bool follows(const struct broker_journal *journal, const struct frame *frame)
{
    bool first = journal->end_pos == 0;        /* where numbers and chain begin is the first record's word, after a snapshot */
    return first || (frame->sequence == journal->sequence && frame->chain_hash == journal->chain_hash);
}

/* Is there a whole record anywhere behind pos, younger than the one that should be at end_pos? (Older ones are what a failed write left.) */
static bool any_good_behind(struct broker_journal *journal, uint64_t file_bytes, uint64_t pos, enum ot_err *err)
{
    struct broker_journal probe = *journal;
    struct frame frame;
    bool found = false;
    *err = OT_OK;
    for (probe.end_pos = pos; !found && *err == OT_OK && probe.end_pos + BROKER_JOURNAL_BLOCK <= file_bytes; probe.end_pos += BROKER_JOURNAL_BLOCK) {
        found = read_record(&probe, file_bytes, &frame, err) && (journal->end_pos == 0 || frame.sequence > journal->sequence);
    }
    journal->room = probe.room;
    journal->room_bytes = probe.room_bytes;
    return found;
}

static enum ot_err take_record(struct broker_journal *journal, const struct frame *frame, struct coord_disk_image *image, const struct words *words)
{
    struct coord_record record;
    enum ot_err err = coord_record_decode((enum coord_record_kind)frame->kind, coord_blob(journal->room + FRAME_HEAD, frame->payload_bytes), &record);
    char what[200] = "a whole record says nothing that can be";
    journal->sequence = frame->sequence + 1;
    journal->chain_hash = frame_chain(journal->room, frame);
    if (err == OT_OK && record.kind == COORD_RECORD_SNAPSHOT) {
        if (image->blank || image->has_accepted || image->committed.row_count > 0) {
            return corrupt(words, journal->dir, JOURNAL_NAME, "a snapshot stands in the middle");
        }
        journal->chain_hash = record.u.snapshot.chain_hash;
        return snapshot_load(journal->io, journal->dir, &record.u.snapshot, &image->committed, words->text, words->bytes);
    }
    if (err == OT_OK) {
        err = coord_image_take(image, &record, what, sizeof what);
    }
    return err == OT_ERR_CORRUPT ? corrupt(words, journal->dir, JOURNAL_NAME, what) : err;
}

/* The journal ends at end_pos, but the file goes on: judge what is there, and cut it off. */
static enum ot_err judge_tail(struct broker_journal *journal, uint64_t file_bytes, struct coord_disk_image *image, const struct words *words)
{
    enum ot_err err;
    char what[120];
    if (any_good_behind(journal, file_bytes, journal->end_pos + BROKER_JOURNAL_BLOCK, &err)) {
        snprintf(what, sizeof what, "the record at %llu is damaged and good ones follow it: the disk lost something that was synced",
            (unsigned long long)journal->end_pos);
        return corrupt(words, journal->dir, JOURNAL_NAME, what);
    }
    if (err != OT_OK) {
        return err;
    }
    image->unsure = true;
    ot_log(OT_LOG_WARN, "coordinator", "journal_tail_cut", "file=%s/%s pos=%llu bytes=%llu", journal->dir, JOURNAL_NAME, (unsigned long long)journal->end_pos,
        (unsigned long long)(file_bytes - journal->end_pos));
    if (!image->blank && journal->term_fd != -1 && image->term.term > 0) {     /* the doubt must be on the disk before what caused it is gone */
        struct coord_record doubt = { .kind = COORD_RECORD_TERM, .u.term = image->term };
        doubt.u.term.unsure_term = image->term.term;
        if ((err = broker_journal_write(journal, &doubt, true)) != OT_OK) {
            return err;
        }
    }
    err = journal->io->ops->truncate(journal->io, journal->fd, journal->end_pos);
    return err == OT_OK ? journal->io->ops->fdatasync(journal->io, journal->fd) : err;
}

static enum ot_err read_records(struct broker_journal *journal, struct coord_disk_image *image, const struct words *words)
{
    struct ot_io_stat stat;
    struct frame frame;
    enum ot_err err = journal->io->ops->fstat(journal->io, journal->fd, &stat);
    while (err == OT_OK && journal->end_pos < stat.bytes) {
        bool good = read_record(journal, stat.bytes, &frame, &err);
        if (err != OT_OK) {
            break;
        }
        if (good && !follows(journal, &frame)) {
            return corrupt(words, journal->dir, JOURNAL_NAME, "a whole record does not belong behind the one before it");
        }
        if (!good) {
            return judge_tail(journal, stat.bytes, image, words);
        }
        uint64_t bytes = frame_blocks(frame.payload_bytes);
        if ((err = take_record(journal, &frame, image, words)) == OT_OK) {
            journal->end_pos += bytes;
            image->journal_bytes = frame.kind == COORD_RECORD_SNAPSHOT ? 0 : image->journal_bytes + bytes;
        }
    }
    return err;
}

static enum ot_err read_journal(struct broker_journal *journal, struct coord_disk_image *image, const struct words *words)
{
    char path[PATH_BYTES];
    enum ot_err err = journal_path(path, journal->dir, JOURNAL_NAME);
    if (err != OT_OK || (err = journal->io->ops->open(journal->io, path, OT_IO_WRITE, &journal->fd)) != OT_OK) {
        return err == OT_ERR_NOT_FOUND ? OT_OK : err;
    }
    return read_records(journal, image, words);
}

/* Nothing whole in the journal: a founding that was cut short before its first sync, or a loss. */
static enum ot_err check_blank(struct broker_journal *journal, bool has_term, const struct words *words)
{
    if (has_term || journal->term_fd != -1) {
        return corrupt(words, journal->dir, JOURNAL_NAME, "the journal is gone, but its term file is there: metadata was lost");
    }
    journal->io->ops->close(journal->io, journal->fd);
    journal->fd = -1;
    journal->sequence = journal->chain_hash = journal->end_pos = 0;
    return OT_OK;
}

static enum ot_err journal_sync_all(struct broker_journal *journal)
{
    const struct ot_io_ops *ops = journal->io->ops;
    enum ot_err err = journal->fd == -1 ? OT_OK : ops->fdatasync(journal->io, journal->fd);
    if (err == OT_OK && journal->term_fd != -1) {
        err = ops->fdatasync(journal->io, journal->term_fd);
    }
    return err == OT_OK ? journal_sync_names(journal) : err;
}

enum ot_err broker_journal_open(struct broker_journal *journal, struct ot_io *io, const char *dir_path, struct coord_disk_image *image, char *text_out,
    size_t text_bytes)
{
    const struct words words = { text_out, text_bytes };
    bool has_term = false;
    *journal = (struct broker_journal){ .io = io, .fd = -1, .term_fd = -1, .dir = strdup(dir_path) };
    enum ot_err err = journal->dir == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    snprintf(text_out, text_bytes, "%s: the metadata cannot be read", dir_path);
    if (err == OT_OK && (err = read_term(journal, image, &has_term)) == OT_OK && (err = read_journal(journal, image, &words)) == OT_OK) {
        bool founding = image->committed.row_count == 0 && !image->has_accepted;
        if (image->blank) {
            image->unsure = false;
            err = check_blank(journal, has_term, &words);
        } else if (!has_term && !founding) {   /* while founding, the first TERM may be torn: nothing rests on it yet */
            err = corrupt(&words, dir_path, TERM_NAME, "no copy of the term is good: what this voter promised is not known");
        }
    }
    if (err == OT_OK && !image->blank) {       /* a process that died may have left records and names that no sync has seen: what is said and written from here on rests on them */
        err = journal_sync_all(journal);
    }
    if (err == OT_OK && (image->committed.row_count > 0)) {
        char what[160];
        err = coord_rows_check(&image->committed, what, sizeof what);
        const enum ot_err wrong = err == OT_OK ? OT_OK : corrupt(&words, dir_path, JOURNAL_NAME, what);
        err = err == OT_ERR_UNSUPPORTED_VERSION ? err : wrong;     /* the same words: its rows are whole, and of a later build */
    }
    if (err != OT_OK) {
        broker_journal_close(journal);
    }
    return err;
}
