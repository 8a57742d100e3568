#include "coordinator/value.h"
#include <string.h>

enum { OP_SET = 1, OP_REMOVE = 2, ROW_OVERHEAD_MAX = 1 + 5 + 5 };

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

static enum ot_err note(struct coord_delta *delta, uint8_t op, struct ot_blob key, struct ot_blob bytes)
{
    struct ot_writer out = ot_writer_over(delta->data + delta->bytes, delta->cap_bytes - delta->bytes);
    write_row(&out, op, key, bytes);
    if (out.err != OT_OK) {
        return OT_ERR_TOO_LARGE;
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

struct row { uint8_t op; struct ot_blob key, bytes; };

static bool read_row(struct ot_reader *in, struct row *out)
{
    out->op = ot_read_u8(in);
    out->key.bytes = ot_read_uvarint(in);
    out->key.data = ot_read_bytes(in, out->key.bytes);
    out->bytes = (struct ot_blob){ 0 };
    if (out->op == OP_SET) {
        out->bytes.bytes = ot_read_uvarint(in);
        out->bytes.data = ot_read_bytes(in, out->bytes.bytes);
    }
    if (in->err == OT_OK && (out->op != OP_SET) & (out->op != OP_REMOVE)) {
        ot_reader_fail(in, OT_ERR_MALFORMED);
    }
    return in->err == OT_OK;
}

bool coord_delta_next(struct ot_reader *reader, struct coord_delta_row *out)
{
    struct row row;
    if (ot_reader_left(reader) == 0 || !read_row(reader, &row)) {
        return false;
    }
    *out = (struct coord_delta_row){ row.op == OP_REMOVE, row.key, row.bytes };
    return true;
}

enum ot_err coord_delta_apply(struct coord_value *value, struct ot_blob delta)
{
    struct coord_value next = coord_value_share(value);
    struct ot_reader in = ot_reader_over(delta.data, delta.bytes);
    enum ot_err err = OT_OK;
    while (err == OT_OK && ot_reader_left(&in) > 0) {
        struct row row;
        if (!read_row(&in, &row)) {
            err = OT_ERR_MALFORMED;
        } else if (row.op == OP_SET) {
            err = coord_value_set(&next, row.key, row.bytes);
        } else {
            err = coord_value_remove(&next, row.key);
        }
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
    OT_ASSERT(cap_bytes >= COORD_ROW_BYTES_MAX + ROW_OVERHEAD_MAX);
    while (reader->pending || coord_cursor_next(&reader->cursor, &reader->key, &reader->bytes)) {
        reader->pending = true;
        if ((size_t)(writer.end - writer.at) < reader->key.bytes + reader->bytes.bytes + ROW_OVERHEAD_MAX) {
            break;
        }
        write_row(&writer, OP_SET, reader->key, reader->bytes);
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

enum ot_err coord_snapshot_load(struct coord_value *value, const uint8_t *data, size_t bytes, size_t *taken_out)
{
    struct ot_reader in = ot_reader_over(data, bytes);
    *taken_out = 0;
    for (;;) {
        struct row row;
        if (!read_row(&in, &row)) {            /* cut off in the middle is fine as long as it can become a row */
            size_t left = bytes - *taken_out;
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
