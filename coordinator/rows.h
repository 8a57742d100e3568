/* The tables of the value: keys, and the rows behind them (schemas in base/wire/schema_ottla/Coord*Row.txt, framed by their version).
 *
 *   key                                            row
 *   'A'                                            cluster: id, counters, next ids
 *   'B' i32 id                                     voter
 *   'C' i32 id                                     broker
 *   'D' name                                       topic by name: its id; or no id, and the floor of leader epochs for who takes the name again
 *   'E' uuid                                       topic
 *   'F' uuid i32 index                             partition
 *   'G' i64 version uuid                           topic that was deleted at that version: its files may still lie somewhere
 *   'H' scope, name                                config; scope: u8 0 cluster default | u8 1 i32 broker | u8 2 uuid of the topic | u8 3 u8 length, group id
 *                                                          | u8 4 u8 length, client metrics subscription
 *   'J' name with '.' as '_'                       topic that has the name with one of these characters: two such may not differ in them alone
 *   'I' scope                                      version of the last change of that scope's configs (not of topics: theirs is in their row)
 * Integers are big-endian with the sign bit flipped, so that keys ascend as the numbers do. Sets of replicas are bitmaps over `replicas`.
 *
 * thread  reading: any, on a held value. Texts and arrays point into its pages; arrays of brokers come from the arena.
 * Each row is written in the version that the feature level of the value has (level.h).
 *
 * errors  get: NOT_FOUND, CORRUPT (a row that does not decode, or of a level that this build does not know). put: NO_MEMORY, TOO_LARGE (delta or row). */
#ifndef OT_COORDINATOR_ROWS_H
#define OT_COORDINATOR_ROWS_H

#include "base/arena.h"
#include "base/wire/coord_broker_row.h"
#include "base/wire/coord_cluster_row.h"
#include "base/wire/coord_topic_name_row.h"
#include "base/wire/coord_topic_row.h"
#include "base/wire/coord_voter_row.h"
#include "coordinator/level.h"
#include "coordinator/value.h"

enum { COORD_REPLICAS_MAX = 64, COORD_LOSSES_MAX = 4, COORD_NAME_BYTES_MAX = 249, COORD_CONFIG_NAME_BYTES_MAX = 255, COORD_CONFIG_VALUE_BYTES_MAX = 1400, COORD_SCOPE_NAME_BYTES_MAX = 200 };
enum coord_table {
    COORD_TABLE_CLUSTER = 'A', COORD_TABLE_VOTER, COORD_TABLE_BROKER, COORD_TABLE_TOPIC_NAME, COORD_TABLE_TOPIC, COORD_TABLE_PARTITION,
    COORD_TABLE_DELETED_TOPIC, COORD_TABLE_CONFIG, COORD_TABLE_CONFIG_SCOPE, COORD_TABLE_FOLDED_NAME
};
/* Why records may be lost: all that held them crashed (rule 4, or the sole replica); unclean.leader.election.enable; an operator's word. */
enum coord_loss { COORD_LOSS_NONE, COORD_LOSS_CRASH, COORD_LOSS_UNCLEAN, COORD_LOSS_OPERATOR };
enum coord_durable { COORD_DURABLE_NONE, COORD_DURABLE_LEADER /* fsync */, COORD_DURABLE_ALL /* replicated+fsync */ };

struct coord_key { uint32_t bytes; uint8_t data[COORD_KEY_BYTES_MAX]; };
static inline struct ot_blob coord_key_blob(const struct coord_key *key) { return coord_blob(key->data, key->bytes); }

struct coord_scope {
    enum { COORD_SCOPE_CLUSTER, COORD_SCOPE_BROKER, COORD_SCOPE_TOPIC, COORD_SCOPE_GROUP, COORD_SCOPE_CLIENT_METRICS } kind;
    int32_t broker_id; struct ot_uuid topic_id;
    struct ot_str name;                        /* of the group or subscription; at most COORD_SCOPE_NAME_BYTES_MAX */
};

static inline bool coord_scope_is_named(const struct coord_scope *scope) { return scope->kind == COORD_SCOPE_GROUP || scope->kind == COORD_SCOPE_CLIENT_METRICS; }

/* What a key of the value is about; fields that its table does not have are zero. False: no key of ours. */
struct coord_key_parts { enum coord_table table; int32_t id; struct ot_uuid topic_id; int32_t index; struct coord_scope scope; struct ot_str name; };
bool coord_key_parse(struct ot_blob key, struct coord_key_parts *out);

/* What a writer needs: the value that is being made, and the delta that says how. */
struct coord_edit { struct coord_value *value; struct coord_delta *delta; };

/* Rows as a delta has them, decoded; CORRUPT. Texts point into bytes. And the keys of those that others speak of. */
struct coord_key coord_key_broker(int32_t id);
struct coord_key coord_key_topic(const struct ot_uuid *id);
OT_MUST_CHECK enum ot_err coord_voter_of(struct ot_blob bytes, struct ot_coord_voter_row *out);
OT_MUST_CHECK enum ot_err coord_broker_of(struct ot_blob bytes, struct ot_arena *arena, struct ot_coord_broker_row *out);
OT_MUST_CHECK enum ot_err coord_topic_of(struct ot_blob bytes, struct ot_coord_topic_row *out);
OT_MUST_CHECK enum ot_err coord_config_of(struct ot_blob bytes, struct ot_str *value_out);
OT_MUST_CHECK enum ot_err coord_cluster_of(struct ot_blob bytes, struct ot_coord_cluster_row *out);

OT_MUST_CHECK enum ot_err coord_cluster_get(const struct coord_value *value, struct ot_coord_cluster_row *out);
/* The feature level that is final; COORD_LEVEL_FIRST before there is a cluster. */
int16_t coord_value_level(const struct coord_value *value);
/* What is said of a cluster at a level that a build does not know. */
void coord_level_words(int16_t level, struct coord_levels known, char *text_out, size_t text_bytes);
OT_MUST_CHECK enum ot_err coord_cluster_put(struct coord_edit *edit, const struct ot_coord_cluster_row *row);
OT_MUST_CHECK enum ot_err coord_voter_get(const struct coord_value *value, int32_t id, struct ot_coord_voter_row *out);
OT_MUST_CHECK enum ot_err coord_voter_put(struct coord_edit *edit, int32_t id, const struct ot_coord_voter_row *row);
OT_MUST_CHECK enum ot_err coord_voter_remove(struct coord_edit *edit, int32_t id);
/* First voter with an id above `after`. */
OT_MUST_CHECK enum ot_err coord_voter_next(const struct coord_value *value, int32_t after, int32_t *id_out, struct ot_coord_voter_row *out);
OT_MUST_CHECK enum ot_err coord_broker_get(const struct coord_value *value, int32_t id, struct ot_arena *arena, struct ot_coord_broker_row *out);
/* First broker with an id above `after`. */
OT_MUST_CHECK enum ot_err coord_broker_next(const struct coord_value *value, int32_t after, struct ot_arena *arena, int32_t *id_out,
    struct ot_coord_broker_row *out);
OT_MUST_CHECK enum ot_err coord_broker_remove(struct coord_edit *edit, int32_t id);
OT_MUST_CHECK enum ot_err coord_broker_put(struct coord_edit *edit, int32_t id, const struct ot_coord_broker_row *row);

OT_MUST_CHECK enum ot_err coord_topic_get(const struct coord_value *value, const struct ot_uuid *id, struct ot_coord_topic_row *out);
OT_MUST_CHECK enum ot_err coord_topic_put(struct coord_edit *edit, const struct ot_uuid *id, const struct ot_coord_topic_row *row);
OT_MUST_CHECK enum ot_err coord_topic_remove(struct coord_edit *edit, const struct ot_uuid *id);
/* A name with a zero id is free; only the floor remains. */
OT_MUST_CHECK enum ot_err coord_topic_name_get(const struct coord_value *value, struct ot_str name, struct ot_coord_topic_name_row *out);
OT_MUST_CHECK enum ot_err coord_topic_name_put(struct coord_edit *edit, struct ot_str name, const struct ot_coord_topic_name_row *row);
OT_MUST_CHECK enum ot_err coord_topic_name_remove(struct coord_edit *edit, struct ot_str name);
/* First name above `after` (null: the first), free ones included. */
OT_MUST_CHECK enum ot_err coord_topic_name_next(const struct coord_value *value, struct ot_str after, struct ot_str *name_out, struct ot_coord_topic_name_row *out);

/* The topic whose name differs from this one at most in '.' and '_'. NOT_FOUND also for names without either. */
OT_MUST_CHECK enum ot_err coord_folded_name_get(const struct coord_value *value, struct ot_str name, struct ot_str *holder_out);
OT_MUST_CHECK enum ot_err coord_folded_name_put(struct coord_edit *edit, struct ot_str name);      /* names without either: nothing */
OT_MUST_CHECK enum ot_err coord_folded_name_remove(struct coord_edit *edit, struct ot_str name);

/* What a leader says of the successor that its row names: HANDS_OVER, that one has all that is in this log, and what comes after it is acknowledged by nobody but all in sync; it
 * leads from here. GIVES_UP: it did not get there in time, and this leader goes on. */
enum coord_handover { COORD_STAYS, COORD_HANDS_OVER, COORD_GIVES_UP };
struct coord_partition {
    int32_t replicas[COORD_REPLICAS_MAX]; int32_t replica_count;       /* ordered; the first is preferred */
    uint64_t isr, elr, adding, removing, last_members;                 /* in both adding and removing: was to come, and goes again */
    int32_t leader, leader_epoch, partition_epoch, min_isr;            /* leader -1: none */
    uint64_t successor;                        /* one of isr to whom the leader is to hand over, once it has all that the leader took; 0: nobody */
    int32_t last_leader, last_leader_epoch;
    int64_t durable_since; enum coord_durable durable_class;           /* -1: none (§7) */
    int64_t loss_version; int32_t loss_epoch;                          /* when records of epochs up to loss_epoch may last have been lost; -1 never */
    int32_t loss_leader;                                               /* who was elected then */
    enum coord_loss loss; int64_t loss_from;                           /* why, and from where upwards; -1: from where its log ended when the leader of the next epoch began */
    struct coord_loss_start { int32_t epoch; int64_t start; } losses[COORD_LOSSES_MAX]; int32_t loss_count;      /* elections that may have lost, by the leader epoch they began: contest.h */
};
OT_MUST_CHECK enum ot_err coord_partition_of(struct ot_blob bytes, struct coord_partition *out);     /* as a delta has it */
OT_MUST_CHECK enum ot_err coord_partition_get(const struct coord_value *value, const struct ot_uuid *topic_id, int32_t index, struct coord_partition *out);
OT_MUST_CHECK enum ot_err coord_partition_put(struct coord_edit *edit, const struct ot_uuid *topic_id, int32_t index, const struct coord_partition *row);
OT_MUST_CHECK enum ot_err coord_partition_remove(struct coord_edit *edit, const struct ot_uuid *topic_id, int32_t index);
/* Walk all partitions in key order. */
void coord_partitions_begin(const struct coord_value *value, struct coord_cursor *cursor);
OT_MUST_CHECK enum ot_err coord_partitions_next(struct coord_cursor *cursor, struct ot_uuid *topic_id_out, int32_t *index_out, struct coord_partition *out);
/* The next one of which one of those brokers (ascending) has a replica: the others are passed over undecoded. */
OT_MUST_CHECK enum ot_err coord_partitions_next_of(struct coord_cursor *cursor, const int32_t *ids, uint32_t count, struct ot_uuid *topic_id_out, int32_t *index_out,
    struct coord_partition *out);

struct coord_deleted_topic { int64_t version; struct ot_uuid id; struct ot_str name; };
OT_MUST_CHECK enum ot_err coord_deleted_next(const struct coord_value *value, const struct coord_deleted_topic *after /* NULL: the first */,
    struct coord_deleted_topic *out);
OT_MUST_CHECK enum ot_err coord_deleted_put(struct coord_edit *edit, const struct coord_deleted_topic *row);
OT_MUST_CHECK enum ot_err coord_deleted_remove(struct coord_edit *edit, const struct coord_deleted_topic *row);

OT_MUST_CHECK enum ot_err coord_config_get(const struct coord_value *value, const struct coord_scope *scope, struct ot_str name, struct ot_str *value_out);
OT_MUST_CHECK enum ot_err coord_config_put(struct coord_edit *edit, const struct coord_scope *scope, struct ot_str name, struct ot_str text);
OT_MUST_CHECK enum ot_err coord_config_remove(struct coord_edit *edit, const struct coord_scope *scope, struct ot_str name);
/* First config of the scope with a name above `after` (null: the first). */
OT_MUST_CHECK enum ot_err coord_config_next(const struct coord_value *value, const struct coord_scope *scope, struct ot_str after,
    struct ot_str *name_out, struct ot_str *value_out);
/* The first scope of a kind that has names (groups, client metrics subscriptions) behind this one (null: the first of all) that has configs, or had some under an older build. NOT_FOUND: no more. */
OT_MUST_CHECK enum ot_err coord_config_next_named(const struct coord_value *value, struct coord_scope scope, struct ot_str *name_out);
/* What operators ask of a broker is a config of its scope, so that it outlives every coordinator. Is it "true"? (brokers.c) */
#define COORD_MAINTENANCE "ottla.broker.maintenance"
#define COORD_DECOMMISSION "ottla.broker.decommission"
bool coord_broker_mark(const struct coord_value *value, int32_t id, const char *name);
int64_t coord_config_version(const struct coord_value *value, const struct coord_scope *scope);    /* of all but topics; 0: never changed, or of a name that has no configs any more */
OT_MUST_CHECK enum ot_err coord_config_version_put(struct coord_edit *edit, const struct coord_scope *scope, int64_t version);
OT_MUST_CHECK enum ot_err coord_config_version_remove(struct coord_edit *edit, const struct coord_scope *scope);

/* Does every row decode, and do the tables agree (names with topics, partitions with their topics, counters)? For a value from the disk.
 * CORRUPT: text_out says which row. UNSUPPORTED_VERSION: its feature level is one that this build does not know, and a row of that does not decode. */
OT_MUST_CHECK enum ot_err coord_rows_check(const struct coord_value *value, char *text_out, size_t text_bytes);

static inline uint64_t coord_all_replicas(const struct coord_partition *row)
{
    return row->replica_count >= 64 ? UINT64_MAX : (UINT64_C(1) << row->replica_count) - 1;
}
/* Who was to come and does not any more is in both sets while it is needed: nobody takes it for a replica of before. */
static inline uint64_t coord_coming(const struct coord_partition *row) { return row->adding & ~row->removing; }
/* Was the move cancelled, or replaced by one back to where it began? */
static inline bool coord_move_goes_back(const struct coord_partition *row) { return row->removing != 0 && row->removing == row->adding; }
/* Do those that stay when these go hold what was committed as often as min.insync.replicas promises? members: who holds it. */
static inline bool coord_may_go(const struct coord_partition *row, uint64_t go, uint64_t members)
{
    const uint64_t stay = coord_all_replicas(row) & ~go;
    return (members & go) == 0 || __builtin_popcountll(members & stay) >= OT_MIN(row->min_isr, __builtin_popcountll(stay));
}
/* Is a move of replicas at its end: all that come are in sync, somebody in sync stays, and those that go may? They delete what they hold: when they are needed to hold what was committed
 * they stay until others have caught up. */
static inline bool coord_move_is_ready(const struct coord_partition *row)
{
    return (row->adding | row->removing) != 0 && (coord_coming(row) & ~row->isr) == 0 && (row->isr & ~row->removing) != 0 && coord_may_go(row, row->removing, row->isr | row->elr);
}
/* Bit of a broker in the sets of this row; 0 when it holds no replica. */
uint64_t coord_replica_bit(const struct coord_partition *row, int32_t broker_id);

#endif
