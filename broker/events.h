/* What happened in the cluster, kept in the internal topic `__ottla_events`: one partition, one JSON object a record; an event's id is its offset.
 *
 *   coordinator's thread ─(committed delta)─► rows compared, on the events' executor ─┐
 *   anybody in broker/ ──(broker_event)──► queue ─────────────────────────────────────┴─► a batch at a time, acks=all, to whoever leads the partition
 *
 * Events about the cluster's state are made from committed deltas by every voter, and written by the one that leads as coordinator: a new one reads how far its predecessor came
 * (each such event names the cluster version that it comes from) and goes on from what it remembers. What nobody remembers is one `gap` event. Everything else comes by broker_event.
 *
 * Nothing here ever waits for the topic: queues are bounded, what does not fit is counted, and the count becomes a gap event.
 *
 * The topic is made when the first event comes that is worth it (`begins` in the table), or when somebody reads: a lone broker that is started and used makes none. What came before is kept
 * in memory until then, and written first.
 *
 * thread  any, except where said. */
#ifndef OT_BROKER_EVENTS_H
#define OT_BROKER_EVENTS_H

#include "broker/call.h"

#define BROKER_EVENTS_TOPIC "__ottla_events"

/*    type                   name                      family          begins  text */
#define BROKER_EVENT_TYPES(X) \
    X(ISR_SHRINK,            "isr_shrink",             "isr",          true,  "replicas are no longer in sync") \
    X(ISR_EXPAND,            "isr_expand",             "isr",          true,  "replicas are in sync again") \
    X(LEADER_CHANGED,        "leader_changed",         "leader",       true,  "another broker leads a partition, or none does") \
    X(RECORDS_LOST,          "records_lost",           "loss",         true,  "records that readers could have seen are gone") \
    X(RECORDS_CUT,           "records_cut",            "loss",         true,  "a replica gave up the end of its log, which its leader does not have") \
    X(RECORDS_REPAIRED,      "records_repaired",       "loss",         true,  "records of a replica were damaged: it is fetched anew from the others") \
    X(BROKER_REGISTERED,     "broker_registered",      "broker",       false, "a broker began, or began again") \
    X(BROKER_FENCED,         "broker_fenced",          "broker",       true,  "a broker is taken for gone") \
    X(BROKER_UNFENCED,       "broker_unfenced",        "broker",       false, "a broker may lead and be in sync") \
    X(BROKER_STOPPING,       "broker_stopping",        "broker",       false, "a broker hands over what it leads") \
    X(BROKER_UNREGISTERED,   "broker_unregistered",    "broker",       true,  "a broker was forgotten") \
    X(MAINTENANCE_BEGUN,     "maintenance_begun",      "broker",       true,  "a broker is being drained") \
    X(MAINTENANCE_ENDED,     "maintenance_ended",      "broker",       true,  "a broker takes leaderships again") \
    X(DECOMMISSION_BEGUN,    "decommission_begun",     "broker",       true,  "every replica of a broker moves to others") \
    X(DECOMMISSION_CANCELLED, "decommission_cancelled", "broker",      true,  "a broker stays, with what it still holds") \
    X(TOPIC_CREATED,         "topic_created",          "topic",        false, "a topic was made") \
    X(TOPIC_DELETED,         "topic_deleted",          "topic",        true,  "a topic was deleted") \
    X(PARTITIONS_ADDED,      "partitions_added",       "topic",        true,  "a topic has more partitions") \
    X(CONFIG_CHANGED,        "config_changed",         "config",       true,  "a setting was changed, or taken back") \
    X(FEATURES_CHANGED,      "features_changed",       "config",       true,  "the cluster's feature level changed") \
    X(REASSIGNMENT_BEGUN,    "reassignment_begun",     "reassignment", true,  "a partition moves to other brokers") \
    X(REASSIGNMENT_ENDED,    "reassignment_ended",     "reassignment", true,  "a partition has its new replicas") \
    X(REASSIGNMENT_CANCELLED, "reassignment_cancelled", "reassignment", true, "a partition keeps its old replicas") \
    X(VOTER_ADDED,           "voter_added",            "coordinator",  true,  "a node votes") \
    X(VOTER_REMOVED,         "voter_removed",          "coordinator",  true,  "a node votes no longer") \
    X(VOTER_REPLACED,        "voter_replaced",         "coordinator",  true,  "a voter came back with another directory") \
    X(COORDINATOR_CHANGED,   "coordinator_changed",    "coordinator",  false, "another node coordinates, or the same one in a new term") \
    X(GROUP_REBALANCED,      "group_rebalanced",       "group",        false, "partitions of a group went to other members") \
    X(OFFSETS_EXPIRED,       "offsets_expired",        "group",        true,  "committed offsets were dropped for their age") \
    X(GAP,                   "gap",                    "gap",          true,  "what happened here is not known")
enum broker_event_type {
#define X(type, name, family, begins, text) BROKER_EVENT_##type,
    BROKER_EVENT_TYPES(X)
#undef X
    BROKER_EVENT_TYPE_COUNT
};
struct broker_event_kind { const char *name, *family; bool begins; const char *text; };
const struct broker_event_kind *broker_event_kind(enum broker_event_type type);
bool broker_event_type_parse(struct ot_str name, enum broker_event_type *out);

/* ---- members of an event's own, as JSON. What does not fit is left out whole, and the event says `"cut":true`. */
#define BROKER_EVENT_FIELDS_BYTES 3072
struct broker_event_fields { uint32_t bytes; bool cut; char text[BROKER_EVENT_FIELDS_BYTES]; };
static inline void broker_event_fields_init(struct broker_event_fields *fields) { fields->bytes = 0; fields->cut = false; }
void broker_event_int(struct broker_event_fields *fields, const char *key, int64_t value);
void broker_event_int_or_null(struct broker_event_fields *fields, const char *key, int64_t value);      /* negative: null */
void broker_event_bool(struct broker_event_fields *fields, const char *key, bool value);
void broker_event_str(struct broker_event_fields *fields, const char *key, struct ot_str text);         /* null, or no data: null */
void broker_event_text(struct broker_event_fields *fields, const char *key, const char *text);          /* NULL: null */
void broker_event_ids(struct broker_event_fields *fields, const char *key, const int32_t *ids, int32_t count);
struct broker_epoch_start { int32_t epoch; int64_t start; };
void broker_event_epochs(struct broker_event_fields *fields, const char *key, const struct broker_epoch_start *epochs, uint32_t count);       /* [{"epoch":…,"start_offset":…}, …] */

/* ---- an event. Begin with broker_event_of; readers filter by topic, partition, broker and group. */
struct broker_event {
    enum broker_event_type type;
    int64_t at_ms;                             /* wall time; 0: now */
    struct ot_str topic; int32_t partition;    /* topic without data: none; partition -1: none */
    int32_t broker;                            /* that it is about; -1: none */
    struct ot_str group;                       /* without data: none */
    const char *reason;                        /* NULL: none */
    const char *election;                      /* LEADER_CHANGED: how, as among its fields, for counting; else NULL */
    const struct broker_event_fields *fields;  /* NULL: none */
    struct broker_event_isr { const int32_t *changed, *from, *to; int32_t changed_count, from_count, to_count; } isr;  /* ISR_SHRINK, ISR_EXPAND: who left or joined, and the ISR before
                                                * and after, as among its fields, for who counts and remembers; as long as it is told */
    /* For who must know that it is kept: called once, on the events' executor (soon after; post whatever takes long). OK: it is committed in the topic. Else it is not known to be
     * (CLOSED: this broker stops; BUSY: it was dropped): emit it again. NULL: nobody asks. */
    void (*kept)(void *arg, enum ot_err err);
    void *arg;
};
static inline struct broker_event broker_event_of(enum broker_event_type type)
{
    return (struct broker_event){ .type = type, .topic = { .null = true }, .partition = -1, .broker = -1, .group = { .null = true } };
}
struct broker;
/* Never blocks; everything is copied. False: it was not taken (the queue is full, this broker starts or stops, or it is of a type that begins no topic and there is none), and kept is not
 * called. It is written once, or, when an answer of the topic's leader is lost, twice with the same "source". */
bool broker_event(struct broker *broker, const struct broker_event *event);

/* ---- reading: from the partition's leader, or from a replica here when that one cannot be reached */
struct broker_event_read {
    struct broker_call call;
    /* asked */
    int64_t from;                              /* id of the first one wanted; -1: only first and end are asked */
    int32_t max_bytes;
    bool leader_only;                          /* what a replica that is behind says does not count */
    struct ot_pool *pool;
    bool (*each)(struct broker_event_read *read, int64_t id, struct ot_blob json);     /* on an I/O thread; false: enough */
    void *arg;
    /* answered. UNKNOWN_TOPIC_OR_PARTITION: nothing was ever kept; OFFSET_OUT_OF_RANGE: from is older than what is kept (first), or ahead of end; LEADER_NOT_AVAILABLE */
    enum ot_err error;
    int64_t first, end;                        /* ids that are kept: [first, end). -1 on error, but not on OFFSET_OUT_OF_RANGE */
    int64_t next;                              /* behind the last one that was handed out */
    struct broker_event_reading *reading;      /* own */
};
/* done on home, never before this returns, and within a few seconds. */
void broker_event_read(struct broker *broker, struct broker_event_read *read);
/* Somebody wants to read: if there is no topic yet, it is made, and what is remembered goes into it. Returns at once. */
void broker_events_wanted(struct broker *broker);

#endif
