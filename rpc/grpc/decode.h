/* What the decoders of messages*.c share. */
#ifndef OT_RPC_GRPC_DECODE_H
#define OT_RPC_GRPC_DECODE_H

#include "rpc/grpc/wire.h"

/* Of a transactional id, a group, a member or static member: enough for any name, and no record of theirs outgrows what a text may be there. */
enum { RPCG_NAME_BYTES_MAX = 255 };

static inline enum ot_err rpcg_decode_ended(const struct ot_reader *reader, const char **why_out)
{
    *why_out = reader->err == OT_OK ? NULL : "the message cannot be decoded";
    return reader->err;
}

static inline enum ot_err rpcg_decode_refuse(const char **why_out, const char *why)
{
    *why_out = why;
    return OT_ERR_INVALID_REQUEST;
}

static inline struct ot_reader rpcg_decode_inside(struct ot_blob body) { return ot_reader_over(body.data, body.bytes); }

/* How often a field occurs. A fault is found by the second pass. */
static inline uint32_t rpcg_decode_count(struct ot_blob body, uint32_t number)
{
    struct ot_reader reader = rpcg_decode_inside(body);
    struct rpcg_field field;
    uint32_t count = 0;
    while (rpcg_field_next(&reader, &field)) count += field.number == number ? 1u : 0u;
    return count;
}

#endif
