/* meta.journal is a chain of records, each on a 4 KiB boundary and padded with zeros to the next:
 *
 *   0 u32 magic | 4 u32 CRC32C of [8, 32 + payload bytes) | 8 u8 kind | 9 u8 0 | 10 u16 0 | 12 u32 payload bytes | 16 u64 sequence
 *   | 24 u64 hash of the record before | 32 payload (coordinator/record.h)
 * meta.term is two such records (magic OTT1), at 0 and at 4096, written and synced one after the other.
 *
 * Why recovery works: a record is acknowledged only after its sync, and none is begun before the one in front of it is synced. So of the last one written, any part may be missing, and nobody was told of it; every record
 * before it is whole or the disk has lost something. A bad record with a good one anywhere behind it is such a loss; the last one bad may be either
 * (torn, or rotten after it was acknowledged), which is what `unsure` says. The old content of a block never passes for a new record, for the sequence and the
 * hash of the record before are in its frame. */
#include "broker/journal_file.h"

#include "base/log.h"
#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- frames */

void frame_put(uint8_t *at, uint32_t magic, const struct frame *frame)
{
    ot_store_u32(at, magic);
    at[8] = frame->kind;
    at[9] = at[10] = at[11] = 0;
    ot_store_u32(at + 12, frame->payload_bytes);
    ot_store_u64(at + 16, frame->sequence);
    ot_store_u64(at + 24, frame->chain_hash);
    ot_store_u32(at + 4, ot_crc32c(0, at + 8, FRAME_HEAD - 8 + (size_t)frame->payload_bytes));
}

bool frame_head(const uint8_t *at, uint32_t magic, struct frame *out)
{
    *out = (struct frame){ at[8], ot_load_u32(at + 12), ot_load_u64(at + 16), ot_load_u64(at + 24) };
    return ot_load_u32(at) == magic && out->payload_bytes <= RECORD_BYTES_MAX;
}

bool frame_check(const uint8_t *at, uint32_t magic, const struct frame *frame)
{
    return ot_load_u32(at) == magic && ot_load_u32(at + 4) == ot_crc32c(0, at + 8, FRAME_HEAD - 8 + (size_t)frame->payload_bytes);
}

uint64_t frame_chain(const uint8_t *at, const struct frame *frame)
{
    return coord_row_hash(coord_blob(at, FRAME_HEAD), coord_blob(at + FRAME_HEAD, frame->payload_bytes));
}

enum ot_err journal_path(char out[static PATH_BYTES], const char *dir, const char *name)
{
    int bytes = snprintf(out, PATH_BYTES, "%s/%s", dir, name);
    return bytes < 0 || bytes >= PATH_BYTES ? OT_ERR_TOO_LARGE : OT_OK;
}

enum ot_err journal_room(struct broker_journal *journal, size_t bytes)
{
    if (bytes > journal->room_bytes) {
        size_t cap = OT_MAX(bytes, (size_t)64 << 10);
        uint8_t *grown = realloc(journal->room, cap);
        if (grown == NULL) {
            return OT_ERR_NO_MEMORY;
        }
        journal->room = grown;
        journal->room_bytes = cap;
    }
    memset(journal->room, 0, bytes);
    return OT_OK;
}

void broker_journal_close(struct broker_journal *journal)
{
    if (journal->io != NULL) {
        journal->io->ops->close(journal->io, journal->fd);
        journal->io->ops->close(journal->io, journal->term_fd);
    }
    free(journal->dir);
    free(journal->room);
    *journal = (struct broker_journal){ .fd = -1, .term_fd = -1 };
}

/* ---- writing */

/* Encode record behind a frame head in journal->room. */
static enum ot_err build(struct broker_journal *journal, const struct coord_record *record, uint32_t magic, uint64_t sequence, uint64_t chain_hash,
    struct frame *frame_out)
{
    size_t cap = COORD_RECORD_OVERHEAD_MAX + (record->kind == COORD_RECORD_ACCEPT ? record->u.accept.delta.bytes : 0), bytes;
    enum ot_err err = journal_room(journal, frame_blocks(cap));
    if (err != OT_OK || (err = coord_record_encode(record, journal->room + FRAME_HEAD, cap, &bytes)) != OT_OK) {
        return err;
    }
    *frame_out = (struct frame){ (uint8_t)record->kind, (uint32_t)bytes, sequence, chain_hash };
    frame_put(journal->room, magic, frame_out);
    return OT_OK;
}

static enum ot_err write_term(struct broker_journal *journal, const struct coord_record *record)
{
    char path[PATH_BYTES];
    struct frame frame;
    struct ot_io *io = journal->io;
    bool is_new = journal->term_fd == -1;
    enum ot_err err = journal_path(path, journal->dir, TERM_NAME);
    if (err == OT_OK && is_new) {
        err = io->ops->open(io, path, OT_IO_WRITE | OT_IO_CREATE, &journal->term_fd);
    }
    if (err != OT_OK || (err = build(journal, record, TERM_MAGIC, ++journal->term_sequence, 0, &frame)) != OT_OK) {
        return err;
    }
    for (uint64_t copy = 0; copy < 2; copy++) {            /* the second only when the first is safe: one of them is whole at any time */
        if ((err = ot_io_write_all(io, journal->term_fd, journal->room, BROKER_JOURNAL_BLOCK, copy * BROKER_JOURNAL_BLOCK)) != OT_OK
            || (err = io->ops->fdatasync(io, journal->term_fd)) != OT_OK) {
            return err;
        }
    }
    return is_new ? io->ops->sync_dir(io, journal->dir) : OT_OK;
}

static enum ot_err make_files(struct broker_journal *journal)
{
    char path[PATH_BYTES];
    struct ot_io *io = journal->io;
    enum ot_err err = io->ops->mkdir(io, journal->dir);
    if ((err != OT_OK && err != OT_ERR_EXISTS) || (err = journal_path(path, journal->dir, JOURNAL_NAME)) != OT_OK) {
        return err;
    }
    return io->ops->open(io, path, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, &journal->fd);
}

enum ot_err journal_sync_names(struct broker_journal *journal)
{
    char parent[PATH_BYTES];
    const char *end = strrchr(journal->dir, '/');
    enum ot_err err = journal->io->ops->sync_dir(journal->io, journal->dir);
    if (err == OT_OK) {
        snprintf(parent, sizeof parent, "%.*s", end == NULL ? 1 : OT_MAX((int)(end - journal->dir), 1), end == NULL ? "." : journal->dir);
        err = journal->io->ops->sync_dir(journal->io, parent);
    }
    return err;
}

static enum ot_err write_blocks(struct broker_journal *journal, uint64_t bytes)
{
    struct ot_io *io = journal->io;
    enum ot_err err = ot_io_write_all(io, journal->fd, journal->room, bytes, journal->end_pos);
    if (err == OT_ERR_NO_SPACE && journal->make_room != NULL) {
        journal->make_room(journal->make_room_arg);
        err = ot_io_write_all(io, journal->fd, journal->room, bytes, journal->end_pos);
    }
    if (err == OT_ERR_NO_SPACE && io->ops->truncate(io, journal->fd, journal->end_pos) != OT_OK) {
        err = OT_ERR_IO;                       /* half a record stays behind: nothing may follow it */
    }
    return err;
}

static enum ot_err broken(struct broker_journal *journal)          /* what is on the disk is not known any more */
{
    journal->broken = true;
    return OT_ERR_IO;
}

enum ot_err broker_journal_write(struct broker_journal *journal, const struct coord_record *record, bool sync)
{
    struct frame frame;
    enum ot_err err = OT_OK;
    if (journal->broken) {
        return OT_ERR_IO;
    }
    if (record->kind == COORD_RECORD_TERM) {
        return write_term(journal, record) == OT_OK ? OT_OK : broken(journal);
    }
    bool is_new = record->kind == COORD_RECORD_FORMAT && journal->fd == -1;
    if (is_new && (err = make_files(journal)) != OT_OK) {
        return err;
    }
    if ((err = build(journal, record, JOURNAL_MAGIC, journal->sequence, journal->chain_hash, &frame)) != OT_OK) {
        return err;
    }
    uint64_t bytes = frame_blocks(frame.payload_bytes);
    if (journal->unsynced && journal->io->ops->fdatasync(journal->io, journal->fd) != OT_OK) {     /* at most one record at the end may be torn */
        return broken(journal);
    }
    journal->unsynced = false;
    if ((err = write_blocks(journal, bytes)) != OT_OK) {
        return err == OT_ERR_NO_SPACE ? err : broken(journal);
    }
    if (sync && journal->io->ops->fdatasync(journal->io, journal->fd) != OT_OK) {
        return broken(journal);
    }
    journal->unsynced = !sync;
    journal->end_pos += bytes;
    journal->sequence++;
    journal->chain_hash = frame_chain(journal->room, &frame);
    return is_new && journal_sync_names(journal) != OT_OK ? broken(journal) : OT_OK;
}

struct broker_journal_mark broker_journal_mark(const struct broker_journal *journal)
{
    return (struct broker_journal_mark){ journal->end_pos, journal->sequence, journal->chain_hash };
}

/* ---- a new journal behind a snapshot */

struct fresh { struct broker_journal file; char path[PATH_BYTES], final[PATH_BYTES]; };

static enum ot_err copy_tail(const struct broker_journal *from, uint64_t from_pos, struct broker_journal *to)
{
    enum ot_err err = journal_room(to, (size_t)1 << 20);
    for (uint64_t pos = from_pos; err == OT_OK && pos < from->end_pos;) {
        size_t bytes = (size_t)OT_MIN(from->end_pos - pos, (uint64_t)1 << 20);
        if ((err = ot_io_read_exact(from->io, from->fd, to->room, bytes, pos)) == OT_OK) {
            err = ot_io_write_all(to->io, to->fd, to->room, bytes, to->end_pos);
        }
        pos += bytes;
        to->end_pos += bytes;
    }
    return err;
}

/* FORMAT and SNAPSHOT take the two sequence numbers in front of mark's, whose chain the SNAPSHOT record carries on. */
static enum ot_err fill_fresh(struct fresh *fresh, const struct broker_journal *old, const struct coord_format *format, const struct coord_snapshot *snapshot,
    const struct broker_journal_mark *mark)
{
    struct coord_record record = { .kind = COORD_RECORD_FORMAT, .u.format = *format };
    enum ot_err err = broker_journal_write(&fresh->file, &record, false);
    record = (struct coord_record){ .kind = COORD_RECORD_SNAPSHOT, .u.snapshot = *snapshot };
    record.u.snapshot.chain_hash = mark->chain_hash;
    if (err == OT_OK && (err = broker_journal_write(&fresh->file, &record, false)) == OT_OK && (err = copy_tail(old, mark->pos, &fresh->file)) == OT_OK) {
        err = fresh->file.io->ops->fdatasync(fresh->file.io, fresh->file.fd);
    }
    return err;
}

struct old_snapshots { struct ot_io *io; const char *dir, *kept; char names[16][64]; uint32_t count; };

static void note_old(void *arg, const struct ot_io_entry *entry)
{
    struct old_snapshots *old = arg;
    if (strncmp(entry->name, SNAPSHOT_PREFIX, sizeof SNAPSHOT_PREFIX - 1) == 0 && strcmp(entry->name, old->kept) != 0
        && strlen(entry->name) < sizeof old->names[0] && old->count < OT_ARRAY_COUNT(old->names)) {
        snprintf(old->names[old->count++], sizeof old->names[0], "%s", entry->name);
    }
}

static void remove_old(struct broker_journal *journal, const char *kept)
{
    struct old_snapshots old = { .io = journal->io, .dir = journal->dir, .kept = kept };
    char path[PATH_BYTES];
    ot_ignore(journal->io->ops->list(journal->io, journal->dir, note_old, &old), "an old snapshot only takes space");
    for (uint32_t i = 0; i < old.count; i++) {
        if (journal_path(path, journal->dir, old.names[i]) == OT_OK) {
            ot_ignore(journal->io->ops->unlink(journal->io, path), "an old snapshot only takes space");
        }
    }
}

enum ot_err broker_journal_switch(struct broker_journal *journal, const struct coord_format *format, const struct coord_snapshot *snapshot,
    const struct broker_journal_mark *mark)
{
    struct ot_io *io = journal->io;
    struct fresh *fresh = calloc(1, sizeof *fresh);
    char kept[64];
    if (fresh == NULL) {
        return OT_ERR_NO_MEMORY;
    }
    fresh->file = (struct broker_journal){ .io = io, .fd = -1, .term_fd = -1, .sequence = mark->sequence - 2 };
    snprintf(kept, sizeof kept, "%.*s", (int)snapshot->file_name.bytes, snapshot->file_name.data);
    enum ot_err err = journal_path(fresh->path, journal->dir, JOURNAL_NAME ".new");
    if (err == OT_OK && (err = journal_path(fresh->final, journal->dir, JOURNAL_NAME)) == OT_OK
        && (err = io->ops->open(io, fresh->path, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, &fresh->file.fd)) == OT_OK
        && (err = fill_fresh(fresh, journal, format, snapshot, mark)) == OT_OK && (err = io->ops->rename(io, fresh->path, fresh->final)) == OT_OK) {
        err = io->ops->sync_dir(io, journal->dir);
        int old_fd = journal->fd;              /* renamed: from here on the new file is the journal, whatever the sync says */
        journal->fd = fresh->file.fd;
        fresh->file.fd = old_fd;
        journal->end_pos = fresh->file.end_pos;
        err = err == OT_OK ? OT_OK : broken(journal);
    }
    if (err == OT_OK) {
        remove_old(journal, kept);
    }
    broker_journal_close(&fresh->file);
    free(fresh);
    return err;
}
