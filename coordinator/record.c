#include "coordinator/record.h"
#include "base/wire/coord_accept_record.h"
#include "base/wire/coord_commit_record.h"
#include "base/wire/coord_format_record.h"
#include "base/wire/coord_snapshot_record.h"
#include "base/wire/coord_term_record.h"
#include "base/wire/frame.h"
#include "coordinator/level.h"
#include <string.h>

union rows {
    struct ot_coord_format_record format;
    struct ot_coord_term_record term;
    struct ot_coord_accept_record accept;
    struct ot_coord_commit_record commit;
    struct ot_coord_snapshot_record snapshot;
};

static const struct ot_wire_message *message_of(enum coord_record_kind kind)
{
    switch (kind) {
    case COORD_RECORD_FORMAT: return &ot_coord_format_record_message;
    case COORD_RECORD_TERM: return &ot_coord_term_record_message;
    case COORD_RECORD_ACCEPT: return &ot_coord_accept_record_message;
    case COORD_RECORD_COMMIT: return &ot_coord_commit_record_message;
    case COORD_RECORD_SNAPSHOT: return &ot_coord_snapshot_record_message;
    }
    return NULL;
}

static void fill_accept(const struct coord_accept *in, struct ot_coord_accept_record *out, int32_t *voters)
{
    memcpy(voters, in->voters, sizeof in->voters);
    out->term = in->stamp.term;
    out->version = in->stamp.version;
    out->base_term = in->base.term;
    out->base_version = in->base.version;
    out->state_hash = (int64_t)in->state_hash;
    out->voters = (struct ot_i32_array){ voters, in->voter_count };
    out->delta = in->delta;
    out->committed = in->committed;
}

static void fill_snapshot(const struct coord_snapshot *in, struct ot_coord_snapshot_record *out)
{
    out->file_name = in->file_name;
    out->term = in->stamp.term;
    out->version = in->stamp.version;
    out->state_hash = (int64_t)in->state_hash;
    out->file_bytes = (int64_t)in->file_bytes;
    out->file_crc = (int64_t)in->file_crc;
    out->chain_hash = (int64_t)in->chain_hash;
}

enum ot_err coord_record_encode(const struct coord_record *record, uint8_t *out, size_t cap_bytes, size_t *bytes_out)
{
    union rows rows;
    int32_t voters[COORD_VOTERS_MAX];
    const struct ot_wire_message *message = message_of(record->kind);
    OT_ASSERT(message != NULL);
    ot_wire_set_defaults(message, &rows);
    switch (record->kind) {
    case COORD_RECORD_FORMAT:
        rows.format.cluster_id = record->u.format.cluster_id;
        rows.format.node_id = record->u.format.node_id;
        rows.format.dir_id = record->u.format.dir_id;
        rows.format.founding_hash = (int64_t)record->u.format.founding_hash;
        break;
    case COORD_RECORD_TERM:
        rows.term.term = record->u.term.term;
        rows.term.voted_for = record->u.term.voted_for;
        rows.term.unsure_term = record->u.term.unsure_term;
        break;
    case COORD_RECORD_ACCEPT: fill_accept(&record->u.accept, &rows.accept, voters); break;
    case COORD_RECORD_COMMIT:
        rows.commit.term = record->u.commit.term;
        rows.commit.version = record->u.commit.version;
        break;
    case COORD_RECORD_SNAPSHOT: fill_snapshot(&record->u.snapshot, &rows.snapshot); break;
    }
    struct ot_writer writer = ot_writer_over(out, cap_bytes);
    enum ot_err err = ot_wire_framed_encode(message, coord_level_version(record->level, message), &rows, &writer);
    *bytes_out = (size_t)(writer.at - out);
    return err;
}

static enum ot_err take_accept(const struct ot_coord_accept_record *in, struct coord_accept *out)
{
    if (in->voters.count < 0 || in->voters.count > COORD_VOTERS_MAX) {
        return OT_ERR_CORRUPT;
    }
    *out = (struct coord_accept){ .stamp = { in->term, in->version }, .base = { in->base_term, in->base_version }, .state_hash = (uint64_t)in->state_hash,
        .voter_count = in->voters.count, .delta = in->delta, .committed = in->committed };
    if (in->voters.count > 0) {
        memcpy(out->voters, in->voters.items, (size_t)in->voters.count * sizeof out->voters[0]);
    }
    return out->stamp.version > out->base.version && out->stamp.term >= out->base.term ? OT_OK : OT_ERR_CORRUPT;
}

enum ot_err coord_record_decode(enum coord_record_kind kind, struct ot_blob payload, struct coord_record *out)
{
    union rows rows;
    uint8_t room[COORD_VOTERS_MAX * 4 + 64];
    struct ot_arena arena;
    int16_t version;
    const struct ot_wire_message *message = message_of(kind);
    struct ot_reader in = ot_reader_over(payload.data, payload.bytes);
    ot_arena_init_with(&arena, room, sizeof room, 0);
    if (message == NULL || ot_wire_framed_decode(message, &in, &arena, &rows, &version, NULL) != OT_OK || version > coord_level_version_max(message)) {
        return OT_ERR_CORRUPT;
    }
    out->kind = kind;
    switch (kind) {
    case COORD_RECORD_FORMAT:
        out->u.format = (struct coord_format){ rows.format.cluster_id, rows.format.node_id, rows.format.dir_id, (uint64_t)rows.format.founding_hash };
        return OT_OK;
    case COORD_RECORD_TERM: out->u.term = (struct coord_term){ rows.term.term, rows.term.voted_for, rows.term.unsure_term }; return OT_OK;
    case COORD_RECORD_ACCEPT: return take_accept(&rows.accept, &out->u.accept);
    case COORD_RECORD_COMMIT: out->u.commit = (struct coord_stamp){ rows.commit.term, rows.commit.version }; return OT_OK;
    case COORD_RECORD_SNAPSHOT:
        out->u.snapshot = (struct coord_snapshot){ rows.snapshot.file_name, { rows.snapshot.term, rows.snapshot.version }, (uint64_t)rows.snapshot.state_hash,
            (uint64_t)rows.snapshot.file_bytes, (uint32_t)rows.snapshot.file_crc, (uint64_t)rows.snapshot.chain_hash };
        return OT_OK;
    }
    return OT_ERR_CORRUPT;
}
