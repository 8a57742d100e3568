/* The messages of ottla.v1 (rpc/proto/ottla/v1/log.proto) as the door uses them: requests decoded in place, answers written field by field.
 *
 * Decoders borrow from the message, take arrays from the arena (sized from a first pass, so bounded by the message), and answer MALFORMED or SHORT for bytes
 * that are no such message, INVALID_REQUEST with words for one that makes no sense, NO_MEMORY at the arena's cap. They never allocate otherwise. */
#ifndef OT_RPC_GRPC_MESSAGES_H
#define OT_RPC_GRPC_MESSAGES_H

#include "base/arena.h"
#include "broker/records.h"
#include "broker/view.h"
#include "rpc/grpc/wire.h"

enum rpcg_format { RPCG_FORMAT_RECORDS = 1, RPCG_FORMAT_BATCHES = 2 };

struct rpcg_produce_ask {
    struct ot_str topic;
    int32_t partition;                     /* -1: by key */
    int16_t acks;                          /* Kafka's: 0, 1, -1 */
    int32_t timeout_ms;                    /* 0: not said */
    struct ot_str transactional_id;
    bool has_producer;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t producer_sequence;
    struct broker_record *records; uint32_t record_count;
    const char *codec;
    int64_t id;                            /* of a stream's request */
    struct ot_blob batches;                /* null: none */
};
OT_MUST_CHECK enum ot_err rpcg_produce_decode(struct ot_blob body, int64_t now_ms, struct ot_arena *arena, struct rpcg_produce_ask *out, const char **why_out);

struct rpcg_fetch_ask {
    struct ot_str topic;
    int32_t partition;
    int64_t offset;
    int32_t max_wait_ms, min_bytes, max_bytes;
    bool read_committed;
    enum rpcg_format format;
    int32_t leader_epoch;                  /* -1: not said */
};
OT_MUST_CHECK enum ot_err rpcg_fetch_decode(struct ot_blob body, struct rpcg_fetch_ask *out, const char **why_out);

enum rpcg_start { RPCG_START_LATEST = 1, RPCG_START_EARLIEST, RPCG_START_OFFSET, RPCG_START_TIMESTAMP };
struct rpcg_subscribe_part { struct ot_str topic; int32_t partition; enum rpcg_start start; int64_t offset, timestamp_ms; };
struct rpcg_subscribe_ask {
    struct rpcg_subscribe_part *parts; uint32_t part_count;
    bool read_committed;
    enum rpcg_format format;
    int32_t max_bytes, heartbeat_ms;       /* 0: not said */
};
OT_MUST_CHECK enum ot_err rpcg_subscribe_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_subscribe_ask *out, const char **why_out);

struct rpcg_offsets_part { struct ot_str topic; int32_t partition; int64_t at; /* Kafka's timestamp or special value */ int32_t leader_epoch; };
struct rpcg_offsets_ask { struct rpcg_offsets_part *parts; uint32_t part_count; bool read_committed; };
OT_MUST_CHECK enum ot_err rpcg_offsets_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_offsets_ask *out, const char **why_out);

struct rpcg_metadata_ask { struct ot_str *topics; uint32_t topic_count; bool create; };
OT_MUST_CHECK enum ot_err rpcg_metadata_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_metadata_ask *out, const char **why_out);

struct rpcg_init_ask { struct ot_str transactional_id; int32_t timeout_ms; bool has_producer; int64_t producer_id; int16_t producer_epoch; };
OT_MUST_CHECK enum ot_err rpcg_init_decode(struct ot_blob body, struct rpcg_init_ask *out, const char **why_out);

struct rpcg_end_txn_ask { struct ot_str transactional_id; int64_t producer_id; int16_t producer_epoch; bool commit; };
OT_MUST_CHECK enum ot_err rpcg_end_txn_decode(struct ot_blob body, struct rpcg_end_txn_ask *out, const char **why_out);

struct rpcg_group_offset { struct ot_str topic; int32_t partition; int64_t offset; int32_t leader_epoch; struct ot_str metadata; };
struct rpcg_commit_ask {
    struct ot_str group, member_id, instance_id /* null: none */;
    int32_t generation;                    /* -1: no member */
    struct ot_str transactional_id;        /* null: none */
    int64_t producer_id; int16_t producer_epoch;
    struct rpcg_group_offset *parts; uint32_t part_count;
};
OT_MUST_CHECK enum ot_err rpcg_commit_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_commit_ask *out, const char **why_out);

struct rpcg_committed_ask { struct ot_str group; bool require_stable; struct rpcg_group_offset *parts; uint32_t part_count; };
OT_MUST_CHECK enum ot_err rpcg_committed_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_committed_ask *out, const char **why_out);

struct rpcg_join_ask {
    struct ot_str group, member_id, instance_id, assignor, rack, pattern;      /* empty: not said */
    struct ot_str *topics; uint32_t topic_count;
    enum rpcg_start start; int64_t timestamp_ms;
    bool read_committed;
    enum rpcg_format format;
    int32_t max_bytes, rebalance_timeout_ms;                                   /* 0: not said */
    int64_t max_unacknowledged_bytes;
};
struct rpcg_consume_position { struct ot_str topic; int32_t partition; int64_t next_offset, assignment_id; };
struct rpcg_consume_ask { bool has_join; struct rpcg_join_ask join; struct rpcg_consume_position *positions; uint32_t position_count; };
OT_MUST_CHECK enum ot_err rpcg_consume_decode(struct ot_blob body, struct ot_arena *arena, struct rpcg_consume_ask *out, const char **why_out);

struct rpcg_health_ask { struct ot_str service; };
OT_MUST_CHECK enum ot_err rpcg_health_decode(struct ot_blob body, struct rpcg_health_ask *out, const char **why_out);

enum rpcg_reflect { RPCG_REFLECT_NONE, RPCG_REFLECT_FILE = 3, RPCG_REFLECT_SYMBOL = 4, RPCG_REFLECT_EXTENSION = 5, RPCG_REFLECT_EXTENSIONS = 6, RPCG_REFLECT_LIST = 7 };
struct rpcg_reflect_ask { struct ot_str host; enum rpcg_reflect kind; struct ot_str name; };
OT_MUST_CHECK enum ot_err rpcg_reflect_decode(struct ot_blob body, struct rpcg_reflect_ask *out, const char **why_out);

/* ---- answers */

struct rpcg_error {
    enum ot_err error;
    const char *text;                      /* NULL or empty: the error's own words */
    struct ot_str topic;                   /* null: not about a partition */
    int32_t partition;
    int32_t leader_id, leader_epoch;       /* -1: not known */
    char leader_address[280];              /* empty: not known */
};
void rpcg_put_error(struct ot_writer *writer, const void *error);              /* ottla.v1.Error, of a struct rpcg_error */
/* google.rpc.Status with one google.rpc.ErrorInfo: the trailer grpc-status-details-bin. */
struct rpcg_status { int code; const char *text; const struct rpcg_error *error; };
void rpcg_put_status(struct ot_writer *writer, const void *status);

struct rpcg_position { int32_t partition; int64_t offset; };
struct rpcg_ack {
    int64_t id;
    int32_t partition;
    int64_t base_offset, append_time_ms, log_start_offset;
    const struct rpcg_position *positions; uint32_t position_count;
    const struct rpcg_error *error;        /* NULL: written */
};
void rpcg_put_produce_response(struct ot_writer *writer, const void *ack);     /* of a struct rpcg_ack */
void rpcg_put_ack(struct ot_writer *writer, const void *ack);

struct rpcg_progress { struct ot_str topic; int32_t partition; int64_t next_offset, high_watermark, last_stable_offset, log_start_offset, log_end_offset; };
void rpcg_put_progress(struct ot_writer *writer, const void *progress);
/* The head of FetchResponse and SubscribeResponse, which are one layout: fields 1 to 7. */
struct rpcg_row_head {
    struct rpcg_progress at;
    const struct eng_aborted *aborted; int32_t aborted_count;
    int64_t assignment_id;                 /* not 0: the head of ConsumeResponse, whose place is a position, field 1 */
};
void rpcg_put_row_head(struct ot_writer *writer, const struct rpcg_row_head *head);
#define RPCG_FIELD_RECORDS 8u
#define RPCG_FIELD_HEARTBEAT 9u
#define RPCG_FIELD_BATCHES 15u
void rpcg_put_record(struct ot_writer *writer, const void *view);              /* ottla.v1.Record, of a struct broker_record_view */

struct rpcg_offset { struct ot_str topic; int32_t partition; int64_t offset, timestamp_ms; int32_t leader_epoch; const struct rpcg_error *error; };
void rpcg_put_offset(struct ot_writer *writer, const void *offset);

struct rpcg_committed { struct rpcg_group_offset at; const struct rpcg_error *error; };
void rpcg_put_group_offset(struct ot_writer *writer, const void *committed);   /* ottla.v1.GroupOffset, of a struct rpcg_committed */
struct rpcg_position_row { struct rpcg_consume_position at; const char *leader_address; };
void rpcg_put_consume_position(struct ot_writer *writer, const void *row);     /* ottla.v1.ConsumePosition, of a struct rpcg_position_row */

#endif
