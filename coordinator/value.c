#include "coordinator/value.h"
#include <string.h>

enum { OP_SET = 1, OP_REMOVE = 2, OP_LIKE = 3, ROW_OVERHEAD_MAX = 1 + 5 + 5 + 5 + COORD_LIKE_BYTES_MAX / 8 /* one like none */ };

void coord_value_init(struct coord_value *value, struct coord_pages *pages) { *value = (struct coord_value){ .tree = { pages, NULL } }; }

struct coord_value coord_value_share(const struct coord_value *value)
{
    struct coord_value share = *value;
    share.tree = coord_tree_share(&value->tree);
    return share;
}

void coord_value_drop(struct coord_value *value)
{
    coord_tree_drop(&value->tree);
    coord_value_init(value, value->tree.pages);
}

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9fb21c651e98df25);
    return h ^ (h >> 32);
}

static uint64_t hash_blob(uint64_t h, struct ot_blob blob)
{
    uint32_t at = 0;
    for (; at + 8 <= blob.bytes; at += 8) {
        h = mix(h, ot_load_u64(blob.data + at));
    }
    uint64_t tail = 0;
    for (; at < blob.bytes; at++) {
        tail = (tail << 8) | blob.data[at];
    }
    return mix(mix(h, tail), blob.bytes);
}

uint64_t coord_row_hash(struct ot_blob key, struct ot_blob bytes)
{
    uint64_t h = hash_blob(hash_blob(UINT64_C(0x6f74746c61726f77), key), bytes);
    h = (h ^ (h >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ (h >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ (h >> 33);
}

static void count_row(struct coord_value *value, struct ot_blob key, struct ot_blob bytes)
{
    value->state_hash += coord_row_hash(key, bytes);
    value->row_count++;
    value->row_bytes += key.bytes + bytes.bytes;
}

static void uncount_row(struct coord_value *value, struct ot_blob key, struct ot_blob bytes)
{
    value->state_hash -= coord_row_hash(key, bytes);
    value->row_count--;
    value->row_bytes -= key.bytes + bytes.bytes;
}

enum ot_err coord_value_set(struct coord_value *value, struct ot_blob key, struct ot_blob bytes)
{
    struct ot_blob old;
    struct coord_value before = *value;
    if (coord_value_get(value, key, &old)) {
        uncount_row(value, key, old);          /* before the set: it may move the old bytes */
    }
    enum ot_err err = coord_tree_set(&value->tree, key, bytes);
    if (err != OT_OK) {
        *value = before;
        return err;
    }
    count_row(value, key, bytes);
    return OT_OK;
}

enum ot_err coord_value_remove(struct coord_value *value, struct ot_blob key)
{
    struct ot_blob old;
    if (!coord_value_get(value, key, &old)) {
        return OT_ERR_NOT_FOUND;
    }
    struct coord_value before = *value;
    uncount_row(value, key, old);
    enum ot_err err = coord_tree_remove(&value->tree, key);
    if (err != OT_OK) {
        *value = before;
    }
    return err;
}

static void write_row(struct ot_writer *out, uint8_t op, struct ot_blob key, struct ot_blob bytes)
{
    ot_write_u8(out, op);
    ot_write_uvarint(out, key.bytes);
    ot_write_bytes(out, key.data, key.bytes);
    if (op == OP_SET) {
        ot_write_uvarint(out, bytes.bytes);
        ot_write_bytes(out, bytes.data, bytes.bytes);
    }
}

/* ---- rows told by the one before */

static void last_set(struct coord_delta_last *last, struct ot_blob key, struct ot_blob bytes)
{
    if (key.bytes > sizeof last->key || bytes.bytes > sizeof last->data) {
        last->key_bytes = 0;
        return;
    }
    last->key_bytes = key.bytes;
    last->bytes = bytes.bytes;
    memcpy(last->key, key.data, key.bytes);
    if (bytes.bytes > 0) {
        memcpy(last->data, bytes.data, bytes.bytes);
    }
}

static uint8_t last_byte(const struct coord_delta_last *last, uint32_t at) { return at < last->bytes ? last->data[at] : 0; }

static void write_like(struct ot_writer *out, const struct coord_delta_last *last, struct ot_blob key, struct ot_blob bytes)
{
    uint32_t same = 0;
    while (same < key.bytes && same < last->key_bytes && key.data[same] == last->key[same]) {
        same++;
    }
    ot_write_u8(out, OP_LIKE);
    ot_write_uvarint(out, same);
    ot_write_uvarint(out, key.bytes - same);
    ot_write_bytes(out, key.data + same, key.bytes - same);
    ot_write_uvarint(out, bytes.bytes);
    for (uint32_t at = 0; at < bytes.bytes; at += 8) {
        uint8_t mask = 0, others[8];
        uint32_t count = 0;
        for (uint32_t i = 0; i < 8 && at + i < bytes.bytes; i++) {
            if (bytes.data[at + i] != last_byte(last, at + i)) {
                mask |= (uint8_t)(1u << i);
                others[count++] = bytes.data[at + i];
            }
        }
        ot_write_u8(out, mask);
        ot_write_bytes(out, others, count);
    }
}

static void write_set(struct ot_writer *out, const struct coord_delta_last *last, struct ot_blob key, struct ot_blob bytes)
{
    if (last->key_bytes > 0 && key.bytes <= sizeof last->key && bytes.bytes <= sizeof last->data) {
        write_like(out, last, key, bytes);
    } else {
        write_row(out, OP_SET, key, bytes);
    }
}

static void read_like_value(struct ot_reader *in, struct coord_delta_last *last, uint32_t bytes)
{
    if (bytes > last->bytes) {
        memset(last->data + last->bytes, 0, bytes - last->bytes);
    }
    last->bytes = bytes;
    for (uint32_t at = 0; at < bytes && in->err == OT_OK; at += 8) {
        const uint8_t mask = ot_read_u8(in);
        if (bytes - at < 8 && mask >> (bytes - at) != 0) {
            ot_reader_fail(in, OT_ERR_MALFORMED);
        }
        for (uint32_t i = 0; i < 8 && in->err == OT_OK; i++) {
            if ((mask >> i & 1) != 0) {
                last->data[at + i] = ot_read_u8(in);
            }
        }
    }
}

/* Turns last into the next row. */
static void read_like(struct ot_reader *in, struct coord_delta_last *last)
{
    const uint32_t same = ot_read_uvarint(in), others = ot_read_uvarint(in);
    if (last->key_bytes == 0 || same > last->key_bytes || others > sizeof last->key - same || same + others == 0) {
        ot_reader_fail(in, OT_ERR_MALFORMED);
        return;
    }
    const uint8_t *rest = ot_read_bytes(in, others);
    const uint32_t bytes = ot_read_uvarint(in);
    if (in->err != OT_OK || bytes > sizeof last->data) {
        ot_reader_fail(in, OT_ERR_MALFORMED);
        return;
    }
    if (others > 0) {
        memcpy(last->key + same, rest, others);
    }
    last->key_bytes = same + others;
    read_like_value(in, last, bytes);
}

/* ---- deltas */

static enum ot_err note(struct coord_delta *delta, uint8_t op, struct ot_blob key, struct ot_blob bytes)
{
    struct ot_writer out = ot_writer_over(delta->data + delta->bytes, delta->cap_bytes - delta->bytes);
    struct coord_delta_last *last = &delta->last;
    if (delta->bytes == 0) {
        last->key_bytes = 0;
    }
    if (op == OP_SET) {
        write_set(&out, last, key, bytes);
    } else {
        write_row(&out, op, key, bytes);
    }
    if (out.err != OT_OK) {
        return OT_ERR_TOO_LARGE;
    }
    if (op == OP_SET) {
        last_set(last, key, bytes);
    }
    delta->bytes += (uint32_t)(out.at - out.start);
    delta->row_count++;
    return OT_OK;
}

enum ot_err coord_delta_set(struct coord_delta *delta, struct coord_value *value, struct ot_blob key, struct ot_blob bytes)
{
    struct coord_delta before = *delta;
    enum ot_err err = note(delta, OP_SET, key, bytes);
    if (err == OT_OK && (err = coord_value_set(value, key, bytes)) != OT_OK) {
        *delta = before;
    }
    return err;
}

enum ot_err coord_delta_remove(struct coord_delta *delta, struct coord_value *value, struct ot_blob key)
{
    struct coord_delta before = *delta;
    enum ot_err err = note(delta, OP_REMOVE, key, (struct ot_blob){ 0 });
    if (err == OT_OK && (err = coord_value_remove(value, key)) != OT_OK) {
        *delta = before;
    }
    return err;
}

enum ot_err coord_delta_take(struct coord_delta *delta, struct ot_blob first, struct ot_blob more)
{
    if ((uint64_t)first.bytes + more.bytes > delta->cap_bytes) {
        return OT_ERR_TOO_LARGE;
    }
    if (first.bytes > 0) {
        memcpy(delta->data, first.data, first.bytes);
    }
    if (more.bytes > 0) {
        memcpy(delta->data + first.bytes, more.data, more.bytes);
    }
    delta->bytes = first.bytes + more.bytes;
    delta->row_count = 1;                      /* not none */
    delta->last.key_bytes = 0;
    return OT_OK;
}

struct row { uint8_t op; struct ot_blob key, bytes; };

/* One that is told whole. */
static bool read_row(struct ot_reader *in, uint8_t op, struct row *out)
{
    out->op = op;
    out->key.bytes = ot_read_uvarint(in);
    out->key.data = ot_read_bytes(in, out->key.bytes);
    out->bytes = (struct ot_blob){ 0 };
    if (op == OP_SET) {
        out->bytes.bytes = ot_read_uvarint(in);
        out->bytes.data = ot_read_bytes(in, out->bytes.bytes);
    }
    if (in->err == OT_OK && (op != OP_SET) & (op != OP_REMOVE)) {
        ot_reader_fail(in, OT_ERR_MALFORMED);
    }
    return in->err == OT_OK;
}

struct coord_delta_reader coord_delta_reader_over(struct ot_blob delta)
{
    return (struct coord_delta_reader){ .in = ot_reader_over(delta.data, delta.bytes) };
}

/* One of either kind; last becomes it. */
static bool next_row(struct ot_reader *in, struct coord_delta_last *last, struct row *out)
{
    const uint8_t op = ot_read_u8(in);
    if (op == OP_LIKE) {
        read_like(in, last);
        *out = (struct row){ OP_SET, { last->key, last->key_bytes, false }, { last->data, last->bytes, false } };
    } else if (read_row(in, op, out) && op == OP_SET) {
        last_set(last, out->key, out->bytes);
    }
    return in->err == OT_OK;
}

bool coord_delta_next(struct coord_delta_reader *reader, struct coord_delta_row *out)
{
    struct row row = { 0 };
    if (ot_reader_left(&reader->in) == 0) {
        return false;
    }
    const bool any = next_row(&reader->in, &reader->last, &row);
    *out = (struct coord_delta_row){ row.op == OP_REMOVE, row.key, row.bytes };
    return any;
}

enum ot_err coord_delta_apply(struct coord_value *value, struct ot_blob delta)
{
    struct coord_value next = coord_value_share(value);
    struct coord_delta_reader reader = coord_delta_reader_over(delta);
    struct coord_delta_row row;
    enum ot_err err = OT_OK;
    while (err == OT_OK && coord_delta_next(&reader, &row)) {
        err = row.removed ? coord_value_remove(&next, row.key) : coord_value_set(&next, row.key, row.bytes);
    }
    if (err == OT_OK && reader.in.err != OT_OK) {
        err = OT_ERR_MALFORMED;
    }
    struct coord_value *loser = err == OT_OK ? value : &next;
    struct coord_value kept = err == OT_OK ? next : *value;
    coord_value_drop(loser);
    *value = kept;
    return err;
}

void coord_snapshot_begin(struct coord_snapshot_reader *reader, const struct coord_value *value)
{
    reader->pending = false;
    coord_cursor_seek(&reader->cursor, &value->tree, coord_blob("", 0));
}

size_t coord_snapshot_read(struct coord_snapshot_reader *reader, uint8_t *out, size_t cap_bytes)
{
    struct ot_writer writer = ot_writer_over(out, cap_bytes);
    struct coord_delta_last last = { .key_bytes = 0 };
    OT_ASSERT(cap_bytes >= COORD_ROW_BYTES_MAX + ROW_OVERHEAD_MAX);
    while (reader->pending || coord_cursor_next(&reader->cursor, &reader->key, &reader->bytes)) {
        reader->pending = true;
        if ((size_t)(writer.end - writer.at) < reader->key.bytes + reader->bytes.bytes + ROW_OVERHEAD_MAX) {
            break;
        }
        write_set(&writer, &last, reader->key, reader->bytes);
        last_set(&last, reader->key, reader->bytes);
        reader->pending = false;
    }
    return (size_t)(writer.at - writer.start);
}

static bool is_last(const struct coord_value *value, struct ot_blob key)
{
    struct coord_cursor cursor;
    struct ot_blob found, bytes;
    coord_cursor_seek(&cursor, &value->tree, key);
    return !coord_cursor_next(&cursor, &found, &bytes);
}

enum ot_err coord_snapshot_load(struct coord_value *value, struct coord_delta_last *last, const uint8_t *data, size_t bytes, size_t *taken_out)
{
    struct ot_reader in = ot_reader_over(data, bytes);
    *taken_out = 0;
    for (;;) {
        struct row row;
        const struct coord_delta_last before = *last;
        if (!next_row(&in, last, &row)) {      /* cut off in the middle is fine as long as it can become a row */
            size_t left = bytes - *taken_out;
            *last = before;
            return in.err == OT_ERR_SHORT && left < COORD_ROW_BYTES_MAX + ROW_OVERHEAD_MAX ? OT_OK : OT_ERR_MALFORMED;
        }
        if (row.op != OP_SET || row.key.bytes == 0 || !is_last(value, row.key)) {
            return OT_ERR_MALFORMED;
        }
        enum ot_err err = coord_value_set(value, row.key, row.bytes);
        if (err != OT_OK) {
            return err;
        }
        *taken_out = (size_t)(in.at - data);
    }
}
