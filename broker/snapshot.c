/* meta.snapshot.<version>:
 *
 *   0 u32 magic OTS1 | 4 u32 0 | 8 u64 term | 16 u64 version | 24 u64 state hash | 32 u64 rows | 40 24 zero bytes | 64 rows (coordinator/value.h) to the end
 * Length and CRC32C of the whole file are in the journal's SNAPSHOT record, which is written after the file has its name: a file that no record names
 * is nothing. */
#include "base/util.h"
#include "broker/journal_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = 64, PIECE_BYTES = 256 << 10 };

static enum ot_err write_pieces(struct ot_io *io, int fd, const struct coord_value *value, uint8_t *piece, struct coord_snapshot *out)
{
    struct coord_snapshot_reader reader;
    memset(piece, 0, HEAD_BYTES);
    ot_store_u32(piece, SNAPSHOT_MAGIC);
    ot_store_u64(piece + 8, (uint64_t)value->stamp.term);
    ot_store_u64(piece + 16, (uint64_t)value->stamp.version);
    ot_store_u64(piece + 24, value->state_hash);
    ot_store_u64(piece + 32, value->row_count);
    size_t bytes = HEAD_BYTES;
    coord_snapshot_begin(&reader, value);
    do {
        enum ot_err err = ot_io_write_all(io, fd, piece, bytes, out->file_bytes);
        if (err != OT_OK) {
            return err;
        }
        out->file_crc = ot_crc32c(out->file_crc, piece, bytes);
        out->file_bytes += bytes;
    } while ((bytes = coord_snapshot_read(&reader, piece, PIECE_BYTES)) > 0);
    return io->ops->fdatasync(io, fd);
}

enum ot_err broker_snapshot_write(struct ot_io *io, const char *dir_path, const struct coord_value *value, char name_out[static 40], struct coord_snapshot *out)
{
    char path[PATH_BYTES], temporary[PATH_BYTES];
    uint8_t *piece = malloc(PIECE_BYTES);
    int fd = -1;
    snprintf(name_out, 40, SNAPSHOT_PREFIX "%lld", (long long)value->stamp.version);
    *out = (struct coord_snapshot){ .file_name = ot_str_of(name_out), .stamp = value->stamp, .state_hash = value->state_hash };
    enum ot_err err = piece == NULL ? OT_ERR_NO_MEMORY : journal_path(path, dir_path, name_out);
    if (err == OT_OK && (err = journal_path(temporary, dir_path, "meta.snapshot.tmp")) == OT_OK
        && (err = io->ops->open(io, temporary, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, &fd)) == OT_OK
        && (err = write_pieces(io, fd, value, piece, out)) == OT_OK && (err = io->ops->rename(io, temporary, path)) == OT_OK) {
        err = io->ops->sync_dir(io, dir_path);
    }
    io->ops->close(io, fd);
    free(piece);
    return err;
}

/* ---- reading */

struct load { struct ot_io *io; int fd; uint8_t *piece; uint64_t bytes; uint32_t crc; size_t held; struct coord_delta_last last; };

static enum ot_err load_pieces(struct load *load, struct coord_value *value, struct coord_snapshot *head)
{
    bool has_head = false;
    for (uint64_t pos = 0; pos < load->bytes;) {
        size_t bytes = (size_t)OT_MIN(load->bytes - pos, PIECE_BYTES - load->held), taken = 0;
        enum ot_err err = ot_io_read_exact(load->io, load->fd, load->piece + load->held, bytes, pos);
        if (err != OT_OK) {
            return err;
        }
        load->crc = ot_crc32c(load->crc, load->piece + load->held, bytes);
        pos += bytes;
        load->held += bytes;
        if (!has_head) {
            if (load->held < HEAD_BYTES || ot_load_u32(load->piece) != SNAPSHOT_MAGIC) {
                return OT_ERR_CORRUPT;
            }
            head->stamp = (struct coord_stamp){ (int32_t)ot_load_u64(load->piece + 8), (int64_t)ot_load_u64(load->piece + 16) };
            head->state_hash = ot_load_u64(load->piece + 24);
            has_head = true;
            taken = HEAD_BYTES;
        }
        size_t rows;
        if ((err = coord_snapshot_load(value, &load->last, load->piece + taken, load->held - taken, &rows)) != OT_OK) {
            return err == OT_ERR_NO_MEMORY ? err : OT_ERR_CORRUPT;
        }
        taken += rows;
        memmove(load->piece, load->piece + taken, load->held - taken);
        load->held -= taken;
    }
    return load->held == 0 ? OT_OK : OT_ERR_CORRUPT;
}

static bool is_name(struct ot_str name)        /* a plain name of ours: what a record says must not lead elsewhere */
{
    size_t prefix = sizeof SNAPSHOT_PREFIX - 1;
    if (name.bytes <= prefix || name.bytes > 40 || memcmp(name.data, SNAPSHOT_PREFIX, prefix) != 0) {
        return false;
    }
    for (size_t i = prefix; i < name.bytes; i++) {
        if (name.data[i] < '0' || name.data[i] > '9') {
            return false;
        }
    }
    return true;
}

enum ot_err snapshot_load(struct ot_io *io, const char *dir, const struct coord_snapshot *snapshot, struct coord_value *value, char *text, size_t text_bytes)
{
    char path[PATH_BYTES], name[64] = "meta.snapshot.?";
    struct load load = { .io = io, .fd = -1, .piece = malloc(PIECE_BYTES), .bytes = snapshot->file_bytes };
    struct ot_io_stat stat = { 0 };
    struct coord_snapshot head = { 0 };
    enum ot_err err = load.piece == NULL ? OT_ERR_NO_MEMORY : !is_name(snapshot->file_name) ? OT_ERR_CORRUPT : OT_OK;
    if (err == OT_OK) {
        snprintf(name, sizeof name, "%.*s", (int)snapshot->file_name.bytes, snapshot->file_name.data);
        err = journal_path(path, dir, name);
    }
    if (err == OT_OK && (err = io->ops->open(io, path, OT_IO_READ, &load.fd)) == OT_OK && (err = io->ops->fstat(io, load.fd, &stat)) == OT_OK) {
        err = stat.bytes == snapshot->file_bytes ? load_pieces(&load, value, &head) : OT_ERR_CORRUPT;
    }
    if (err == OT_OK && (load.crc != snapshot->file_crc || value->state_hash != snapshot->state_hash || head.state_hash != snapshot->state_hash
        || head.stamp.version != snapshot->stamp.version || head.stamp.term != snapshot->stamp.term)) {
        err = OT_ERR_CORRUPT;
    }
    if (err == OT_ERR_CORRUPT || err == OT_ERR_NOT_FOUND) {
        snprintf(text, text_bytes, "%s/%s: the snapshot that the journal rests on is %s", dir, name, err == OT_ERR_NOT_FOUND ? "missing" : "damaged");
        err = OT_ERR_CORRUPT;
    }
    if (err == OT_OK) {
        value->stamp = snapshot->stamp;
    } else {
        coord_value_drop(value);
    }
    io->ops->close(io, load.fd);
    free(load.piece);
    return err;
}
