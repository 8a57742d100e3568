/* Messages of the wire: descriptors that the generator makes, and the one interpreter that reads and writes by them.
 *
 * A message has a generated header, `base/wire/fetch_response.h`, with its structs and thin typed wrappers over the functions
 * below; include that. What a schema says and how it becomes C is in docs/wire.md.
 *
 * shape   string: struct ot_str; bytes, records: struct ot_blob; array: { items, count }, count -1 is null; a structure that
 *         may be null: const pointer; other structures in place. A struct that is to be written starts with X_defaults(&x)
 *         (all zero is not the default). Texts are not checked for UTF-8.
 * owner   after decoding texts and bytes point into the input, arrays and pointed-to structs into the arena: both must
 *         outlive the struct. Encoding borrows everything until it returns.
 * bounds  a length or count is checked against the bytes left and the decode limits before anything is allocated for it; the
 *         arena's cap bounds the sum. A failed decode leaves `out` in an unspecified state that owns nothing.
 * thread  no state; any thread. */
#ifndef OT_WIRE_CODEC_H
#define OT_WIRE_CODEC_H

#include "base/arena.h"
#include "base/bytes.h"

/* Arrays of primitives. `items` is not const so that one type serves both ways; encoding does not write through it. */
struct ot_bool_array {
    bool *items;
    int32_t count;
};
struct ot_i8_array {
    int8_t *items;
    int32_t count;
};
struct ot_i16_array {
    int16_t *items;
    int32_t count;
};
struct ot_u16_array {
    uint16_t *items;
    int32_t count;
};
struct ot_i32_array {
    int32_t *items;
    int32_t count;
};
struct ot_u32_array {
    uint32_t *items;
    int32_t count;
};
struct ot_i64_array {
    int64_t *items;
    int32_t count;
};
struct ot_f64_array {
    double *items;
    int32_t count;
};
struct ot_uuid_array {
    struct ot_uuid *items;
    int32_t count;
};
struct ot_str_array {
    struct ot_str *items;
    int32_t count;
};
struct ot_blob_array {
    struct ot_blob *items;
    int32_t count;
};

/* Tagged fields that this version does not know, in ascending tag order; written back as they came. */
struct ot_wire_tag {
    uint32_t tag;
    struct ot_blob data;
};
struct ot_wire_tags {
    struct ot_wire_tag *items;
    int32_t count;
};

/* Where decoding or encoding failed: "topicData[3].partitionData[0].records" and "length 500, but 12 bytes left".
 * Zero-terminated. */
struct ot_wire_error {
    char field[160];
    char reason[96];
};

/* Records that are not in memory. A `records` field with data == NULL and bytes > 0 is a promise: encoding writes only its
 * length and notes here where the bytes belong. The caller sends the output up to `pos`, then `bytes` from elsewhere, and so
 * on; the rest of the output follows. `field` is the address of the struct's blob: OT_CONTAINER leads back to its partition.
 * Splices are in output order. */
struct ot_wire_splice {
    size_t pos;
    uint32_t bytes;
    const struct ot_blob *field;
};
struct ot_wire_splices {
    struct ot_wire_splice *items;
    uint32_t count, cap;
    uint64_t bytes;
};

/* ---- descriptors (constants made by the generator) */

enum ot_wire_kind {
    OT_WIRE_REQUEST,
    OT_WIRE_RESPONSE,
    OT_WIRE_HEADER,
    OT_WIRE_DATA,
    OT_WIRE_METADATA,
    OT_WIRE_COORDINATOR_KEY,
    OT_WIRE_COORDINATOR_VALUE
};
enum ot_wire_area {
    OT_WIRE_AREA_RPC,
    OT_WIRE_AREA_HEADER,
    OT_WIRE_AREA_COMMON,
    OT_WIRE_AREA_GROUP,
    OT_WIRE_AREA_TRANSACTION,
    OT_WIRE_AREA_SHARE,
    OT_WIRE_AREA_METADATA,
    OT_WIRE_AREA_QUORUM,
    OT_WIRE_AREA_STORAGE,
    OT_WIRE_AREA_REMOTE_LOG,
    OT_WIRE_AREA_PEER,
    OT_WIRE_AREA_COORDINATOR
};
enum ot_wire_frame { /* what stands in front of a message in a record (frame.h) */
    OT_WIRE_FRAME_NONE,
    OT_WIRE_FRAME_API,
    OT_WIRE_FRAME_VERSION,
    OT_WIRE_FRAME_METADATA
};
enum ot_wire_type {
    OT_WIRE_BOOL,
    OT_WIRE_I8,
    OT_WIRE_I16,
    OT_WIRE_U16,
    OT_WIRE_I32,
    OT_WIRE_U32,
    OT_WIRE_I64,
    OT_WIRE_F64,
    OT_WIRE_UUID,
    OT_WIRE_STR,
    OT_WIRE_BYTES,
    OT_WIRE_RECORDS,
    OT_WIRE_STRUCT
};
enum ot_wire_field_flag {
    OT_WIRE_FIELD_ARRAY = 1,
    OT_WIRE_FIELD_POINTER = 2,
    OT_WIRE_FIELD_NULL_DEFAULT = 4,
    OT_WIRE_FIELD_IGNORABLE = 8,
    OT_WIRE_FIELD_KEY = 16
};
struct ot_wire_field {
    const char *name; /* as in JSON: first letter in lower case */
    uint16_t offset;
    uint8_t type, flags;
    uint16_t struct_index;                                                  /* into the message's structs, for OT_WIRE_STRUCT */
    int32_t tag;                                                            /* -1: never tagged */
    int16_t version_min, version_max, null_min, null_max, tag_min, tag_max; /* min > max: never */
    int64_t number;                                                         /* the default of integers and bools */
    double real;
};
#define OT_WIRE_NO_TAGS 0xffffu
struct ot_wire_struct {
    const char *name;
    const struct ot_wire_field *fields;
    const void *image; /* the struct of defaults; NULL: all zero bits */
    uint32_t bytes;
    uint16_t field_count, tags_offset;
};

/* A program is what one struct looks like in one version: plain fields in order, then tagged ones by tag. */
enum ot_wire_op_code {
    OT_WIRE_OP_BOOL,
    OT_WIRE_OP_8,
    OT_WIRE_OP_16,
    OT_WIRE_OP_32,
    OT_WIRE_OP_64,
    OT_WIRE_OP_UUID,
    OT_WIRE_OP_STR,
    OT_WIRE_OP_BYTES,
    OT_WIRE_OP_RECORDS,
    OT_WIRE_OP_STRUCT,
    OT_WIRE_OP_POINTER,
    OT_WIRE_OP_BOOLS,
    OT_WIRE_OP_8S,
    OT_WIRE_OP_16S,
    OT_WIRE_OP_32S,
    OT_WIRE_OP_64S,
    OT_WIRE_OP_UUIDS,
    OT_WIRE_OP_STRS,
    OT_WIRE_OP_BYTESS,
    OT_WIRE_OP_STRUCTS
};
enum ot_wire_op_flag { OT_WIRE_NULLABLE = 1, OT_WIRE_COMPACT = 2 };
struct ot_wire_op {
    uint8_t code, flags;
    uint16_t field; /* index in the struct */
    uint16_t offset;
    uint16_t program; /* of the element, for structs */
};
enum ot_wire_program_flag {
    OT_WIRE_FLEXIBLE = 1, /* ends with a tag section */
    OT_WIRE_PREFILL = 2   /* a field that may be missing has a default other than zero bits */
};
struct ot_wire_program {
    uint16_t struct_index, op_first, plain_count, tagged_count, absent_first, absent_count;
    uint16_t bytes_min; /* on the wire, at least */
    uint16_t flags;
};
struct ot_wire_message {
    const char *name;
    uint8_t kind, area, frame;
    int16_t api;                                    /* api key or record type; -1 where there is none */
    int16_t version_min, version_max, flexible_min; /* flexible_min > version_max: none is flexible */
    bool unstable;                                  /* the highest version is not for production */
    uint16_t root;                                  /* index of the message's own struct */
    const struct ot_wire_struct *structs;
    const struct ot_wire_op *ops;
    const uint16_t *must_be_default; /* per program: fields that this version cannot carry */
    const struct ot_wire_program *programs;
    const uint16_t *roots; /* program of version_min + i */
};

/* ---- reading and writing */

/* Fill *out with the defaults of the schema. Of a message or, with struct_index, of one of its structs. */
void ot_wire_set_defaults(const struct ot_wire_message *message, void *out);
void ot_wire_set_struct_defaults(const struct ot_wire_message *message, uint16_t struct_index, void *out);

/* Read one message; what follows it stays in the reader. Fields that the version does not have get their defaults.
 *
 * errors  UNSUPPORTED_VERSION; SHORT: the input ends too early; MALFORMED: null where none may be, a negative length, tags
 *         out of order, bytes left in a tagged field; TOO_LARGE: more elements or tags than the decode limits allow;
 *         NO_MEMORY: the arena is at its cap. The reader is marked with the error too. error may be NULL.
 * Pointed-to structs that are default but absent point to constants. */
OT_MUST_CHECK enum ot_err ot_wire_decode(const struct ot_wire_message *message, int16_t version, struct ot_reader *in,
    struct ot_arena *arena, void *out, struct ot_wire_error *error);
/* The same, and anything left behind the message is MALFORMED. */
OT_MUST_CHECK enum ot_err ot_wire_decode_all(const struct ot_wire_message *message, int16_t version, struct ot_reader *in,
    struct ot_arena *arena, void *out, struct ot_wire_error *error);

/* Write one message.
 *
 * errors  UNSUPPORTED_VERSION: the version does not exist, or lacks a field that holds something else than its default and
 *         may not be dropped, or cannot say null there, or has no unknown tags; MALFORMED: a text above 32767 bytes, unknown
 *         tags out of order or of a number that is known, a promise of records without splices; TOO_LARGE: the writer or the
 *         splice list is full (needed says how much the writer lacks). After an error what was written means nothing. A
 *         writer over NULL measures: needed grows, no splice is noted.
 * splices may be NULL where no records are promised. */
OT_MUST_CHECK enum ot_err ot_wire_encode(
    const struct ot_wire_message *message, int16_t version, const void *in, struct ot_writer *out, struct ot_wire_splices *splices);
/* Bytes that encode would write, without spliced ones; 0 when it would refuse. */
size_t ot_wire_size(const struct ot_wire_message *message, int16_t version, const void *in);
/* Why encode refuses: writes nothing. OK when it would not. */
OT_MUST_CHECK enum ot_err ot_wire_encode_check(
    const struct ot_wire_message *message, int16_t version, const void *in, struct ot_wire_error *error);

/* Whether a field of a struct holds its default (of a structure: every field in it). record is the struct that holds the field. */
bool ot_wire_is_default(const struct ot_wire_message *message, const struct ot_wire_field *field, const void *record);

/* ---- enumerations (enums.h) */

struct ot_wire_enum_row {
    const char *name;
    const char *text;
    int64_t id;
};
struct ot_wire_enum {
    const char *name;
    const struct ot_wire_enum_row *rows;
    size_t count;
};
const char *ot_wire_enum_text(const struct ot_wire_enum *all, int64_t id);                      /* NULL when unknown */
bool ot_wire_enum_by_text(const struct ot_wire_enum *all, struct ot_str text, int64_t *id_out); /* upper and lower case alike */

#endif
