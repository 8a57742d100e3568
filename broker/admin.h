/* Changes to the cluster state: topics, partitions, configs, producer ids. Each is one request to the coordinator, answered after commit and after
 * this broker has applied it (read your writes). Semantics are Kafka's; see compatibility-traps M1-M11. */
#ifndef OT_BROKER_ADMIN_H
#define OT_BROKER_ADMIN_H

#include "broker/call.h"

struct broker_config_entry { struct ot_str name, value; };             /* value null: delete the override */
struct broker_assignment { int32_t partition; const int32_t *brokers; int32_t broker_count; };

enum broker_admin_kind {
    BROKER_CREATE_TOPIC, BROKER_DELETE_TOPIC, BROKER_CREATE_PARTITIONS, BROKER_ALTER_TOPIC_CONFIG, BROKER_ALTER_BROKER_CONFIG,
    BROKER_ALTER_GROUP_CONFIG, BROKER_ALTER_CLIENT_METRICS     /* topic holds the group id, or the subscription's name */
};
enum broker_config_op { BROKER_CONFIG_SET, BROKER_CONFIG_DELETE, BROKER_CONFIG_APPEND, BROKER_CONFIG_SUBTRACT };

struct broker_admin_item {
    enum broker_admin_kind kind;
    /* asked */
    struct ot_str topic;                       /* or by id when null (DELETE) */
    struct ot_uuid topic_id;
    int32_t partition_count;                   /* CREATE: -1 default; CREATE_PARTITIONS: the new total */
    int16_t replication_factor;                /* -1 default */
    const struct broker_assignment *assignments; uint32_t assignment_count;
    const struct broker_config_entry *configs; const enum broker_config_op *ops; uint32_t config_count;   /* ops NULL: all SET; ALTER with replace_all: the whole set (AlterConfigs) */
    bool replace_all;
    int32_t broker_id;                         /* ALTER_BROKER_CONFIG: -1 = cluster default */
    bool of_any_broker;                        /* ALTER_BROKER_CONFIG: of another one too, if it is registered; else as Kafka, this one or the default */
    bool internal;
    bool validate_only;
    int64_t if_version;                        /* REST's If-Match: refuse (MISMATCH) unless this is the row's version; -1: any */
    /* answered */
    enum ot_err error;
    struct ot_uuid topic_id_out;
    int32_t partition_count_out; int16_t replication_factor_out;
    int64_t version_out;
    char text[BROKER_TEXT_MAX];
};
struct broker_admin {
    struct broker_call call;
    int32_t timeout_ms;
    struct broker_admin_item *items; uint32_t item_count;      /* exactly one result each; duplicates of a name in one request: INVALID_REQUEST for each */
    struct broker *broker;                     /* own from here */
    struct ot_task to_coordinator;
    uint64_t token;
};
void broker_admin(struct broker *broker, struct broker_admin *admin);  /* done is never called before this returns */

/* InitProducerId without a transactional id: from this broker's block; fetches the next block ahead of need. */
struct broker_producer_id { struct broker_call call; enum ot_err error; int64_t producer_id; int16_t producer_epoch; struct broker *broker; struct broker_producer_id *next; };
void broker_producer_id(struct broker *broker, struct broker_producer_id *ask);
/* No id up to `above` is ever given out by the cluster from now on (what this broker holds of them goes unused): for logs that come from elsewhere and know producers by
 * ids of their own. producer_id is the first id behind. */
void broker_producer_ids_skip(struct broker *broker, struct broker_producer_id *ask, int64_t above);

/* Kafka's rules for topic names; text says why not. */
bool broker_topic_name_valid(struct ot_str name, char *text, size_t text_bytes);
/* The same as an error: OK or INVALID_TOPIC_EXCEPTION. */
enum ot_err broker_topic_name_check(struct ot_str name);
/* May a topic of this (valid) name be made because a client asked for it? For doors that make it by broker_admin and wait. */
bool broker_auto_create_allowed(struct broker *broker, struct ot_str name);
/* A client asked for a topic that is not there (Metadata with auto-creation allowed, Produce). LEADER_NOT_AVAILABLE: it is being made, with the defaults, ask again;
 * UNKNOWN_TOPIC_OR_PARTITION: not allowed here; INVALID_TOPIC_EXCEPTION: text has words. Any thread, does not block. */
OT_MUST_CHECK enum ot_err broker_auto_create(struct broker *broker, struct ot_str name, char *text, size_t text_bytes);

#endif
