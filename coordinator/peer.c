#include "coordinator/peer.h"
#include "base/wire/coord_peer_message.h"
#include "base/util.h"
#include "base/wire/frame.h"

enum { CHECKSUM_BYTES = 4 };

static struct ot_coord_peer_message_mark mark_out(struct coord_mark mark)
{
    struct ot_coord_peer_message_mark out = { 0 };
    out.term = mark.stamp.term;
    out.version = mark.stamp.version;
    out.state_hash = (int64_t)mark.state_hash;
    return out;
}

static struct coord_mark mark_in(const struct ot_coord_peer_message_mark *mark)
{
    return (struct coord_mark){ { mark->term, mark->version }, (uint64_t)mark->state_hash };
}

enum ot_err coord_message_encode(const struct coord_message *message, uint8_t *out, size_t cap_bytes, size_t *bytes_out)
{
    struct ot_coord_peer_message wire;
    ot_coord_peer_message_defaults(&wire);
    wire.level_min = OT_MAX(message->levels.min, (int16_t)COORD_LEVEL_FIRST);
    wire.level_max = OT_MAX(message->levels.max, (int16_t)COORD_LEVEL_FIRST);
    wire.level = OT_MAX(message->level, (int16_t)COORD_LEVEL_FIRST);
    wire.kind = (int8_t)message->kind;
    wire.cluster = (int64_t)message->cluster;
    wire.sender = message->sender;
    wire.dir_id = message->dir_id;
    wire.term = message->term;
    wire.leader = message->leader;
    wire.accepted = mark_out(message->accepted);
    wire.committed = mark_out(message->committed);
    wire.base = mark_out(message->base);
    wire.round = message->round;
    wire.answer = (int8_t)message->answer;
    wire.unsure = message->unsure;
    wire.cluster_id = message->cluster_id.data == NULL ? (struct ot_str){ .null = true } : message->cluster_id;
    wire.key = message->key;
    wire.data = message->data;
    struct ot_writer writer = ot_writer_over(out, cap_bytes);
    enum ot_err err = ot_wire_framed_encode(&ot_coord_peer_message_message, coord_level_version(message->level, &ot_coord_peer_message_message), &wire, &writer);
    if (err == OT_OK) {
        ot_write_u32(&writer, ot_crc32c(0, out, (size_t)(writer.at - out)));
        err = writer.err == OT_OK ? OT_OK : OT_ERR_TOO_LARGE;
    }
    *bytes_out = (size_t)(writer.at - out);
    return err;
}

static bool mark_ok(const struct coord_mark *mark) { return mark->stamp.term >= 0 && mark->stamp.term <= COORD_TERM_MAX && mark->stamp.version >= 0 && mark->stamp.version <= COORD_VERSION_MAX; }

enum ot_err coord_message_decode(struct ot_blob body, struct coord_message *out)
{
    struct ot_coord_peer_message wire;
    struct ot_arena none;
    int16_t version;
    if (body.bytes < CHECKSUM_BYTES || ot_load_u32(body.data + body.bytes - CHECKSUM_BYTES) != ot_crc32c(0, body.data, body.bytes - CHECKSUM_BYTES)) {
        return OT_ERR_MALFORMED;
    }
    struct ot_reader in = ot_reader_over(body.data, body.bytes - CHECKSUM_BYTES);
    ot_arena_init(&none, 0);
    if (ot_wire_framed_decode(&ot_coord_peer_message_message, &in, &none, &wire, &version, NULL) != OT_OK) {
        return OT_ERR_MALFORMED;
    }
    *out = (struct coord_message){ .kind = (enum coord_message_kind)wire.kind, .cluster = (uint64_t)wire.cluster, .sender = wire.sender, .term = wire.term,
        .leader = wire.leader, .dir_id = wire.dir_id, .levels = { wire.level_min, wire.level_max }, .level = wire.level, .accepted = mark_in(&wire.accepted), .committed = mark_in(&wire.committed), .base = mark_in(&wire.base),
        .round = wire.round, .answer = (enum coord_answer)wire.answer, .unsure = wire.unsure, .cluster_id = wire.cluster_id, .key = wire.key, .data = wire.data };
    bool ok = wire.kind >= COORD_PRE_VOTE && wire.kind < COORD_MESSAGE_KINDS && wire.sender >= 0 && wire.term >= 0 && wire.term <= COORD_TERM_MAX && wire.round >= 0
        && wire.answer >= COORD_NO && wire.answer <= COORD_LAST && mark_ok(&out->accepted) && mark_ok(&out->committed) && mark_ok(&out->base)
        && wire.level_min >= 1 && wire.level_min <= wire.level_max && wire.level >= 1;
    return ok ? OT_OK : OT_ERR_MALFORMED;
}

uint64_t coord_cluster_hash(struct ot_str cluster_id)
{
    uint64_t hash = coord_row_hash(coord_blob("cluster", 7), coord_blob(cluster_id.data, cluster_id.null ? 0 : cluster_id.bytes));
    return hash == 0 ? 1 : hash;
}
