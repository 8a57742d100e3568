/* Protobuf's wire format, as much as our messages need: a bounds-checked walk over the fields of a message, and writers that measure first.
 *
 *   field = varint (number << 3 | type), then by type:  0 varint | 1 eight bytes | 2 varint length, bytes | 5 four bytes   (3, 4: groups, passed over)
 *
 * A reader is base/bytes.h's cursor: the first fault marks it. Unknown fields are passed over, of repeated scalars the last one counts. A writer over NULL measures. */
#ifndef OT_RPC_GRPC_WIRE_H
#define OT_RPC_GRPC_WIRE_H

#include "base/bytes.h"

enum rpcg_type { RPCG_VARINT = 0, RPCG_FIXED64 = 1, RPCG_BYTES = 2, RPCG_FIXED32 = 5 };
struct rpcg_field {
    uint32_t number;
    enum rpcg_type type;
    uint64_t value;                        /* of a number */
    struct ot_blob bytes;                  /* borrowed */
};
/* The next field; false at the end and after a fault (reader->err: SHORT, MALFORMED). */
bool rpcg_field_next(struct ot_reader *reader, struct rpcg_field *out);

/* A field's value if it has that type, else the reader is marked MALFORMED: a known number with a foreign type is a message that we do not understand. */
int64_t rpcg_field_int(struct ot_reader *reader, const struct rpcg_field *field);
int32_t rpcg_field_i32(struct ot_reader *reader, const struct rpcg_field *field);      /* cut to 32 bits, as protobuf does */
struct ot_blob rpcg_field_bytes(struct ot_reader *reader, const struct rpcg_field *field);
struct ot_str rpcg_field_str(struct ot_reader *reader, const struct rpcg_field *field);    /* valid UTF-8, else MALFORMED */

/* Writers leave out what is zero or empty, as proto3 does, but for put_any_bytes and put_message. */
void rpcg_put_int(struct ot_writer *writer, uint32_t number, int64_t value);
void rpcg_put_bytes(struct ot_writer *writer, uint32_t number, const void *data, size_t bytes);
void rpcg_put_any_bytes(struct ot_writer *writer, uint32_t number, const void *data, size_t bytes);
void rpcg_put_str(struct ot_writer *writer, uint32_t number, struct ot_str text);
void rpcg_put_text(struct ot_writer *writer, uint32_t number, const char *text);           /* NULL is empty */
/* Tag and length of a field whose bytes follow by other ways. */
void rpcg_put_head(struct ot_writer *writer, uint32_t number, size_t bytes);
/* A message inside: put is called twice, to measure and to write. */
void rpcg_put_message(struct ot_writer *writer, uint32_t number, void (*put)(struct ot_writer *writer, const void *arg), const void *arg);
void rpcg_put_i32s(struct ot_writer *writer, uint32_t number, const int32_t *values, int32_t count);      /* packed */

#endif
