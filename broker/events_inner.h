/* Private to broker/: the parts of events. events.c has the queue and the writer, events_rows.c makes events from committed deltas, events_topic.c reaches the topic's leader,
 * events_json.c writes texts. */
#ifndef OT_BROKER_EVENTS_INNER_H
#define OT_BROKER_EVENTS_INNER_H

#include "broker/events.h"
#include "coordinator/rows.h"

/* ---- events_rows.c */
/* What the delta from one value to the other tells, in its order: emit(arg, event) for each. Texts of an event live during the call. A key that the delta has twice (several publications that
 * came as one) tells each of its steps. NO_MEMORY, CORRUPT: not all was told. Any thread, on held values. */
OT_MUST_CHECK enum ot_err broker_events_of_delta(const struct coord_value *before, const struct coord_value *after, struct ot_blob delta,
    void (*emit)(void *arg, const struct broker_event *event), void *arg);
/* What identifies a state for events: its hash without the cluster's own row, which counters change that no event tells of. */
uint64_t broker_events_hash(const struct coord_value *value);

/* ---- events_json.c */
struct broker_event_text {                     /* an event as it is written, in one allocation */
    struct broker_event_text *next;
    uint64_t seq;                              /* of the ring */
    int64_t version; uint32_t n; uint64_t hash;        /* of the cluster state; n-th event of that version */
    enum broker_event_type type;
    void (*kept)(void *arg, enum ot_err err); void *arg;
    int64_t at_ms;
    uint32_t bytes;
    char text[];
};
/* Which event of the log a record is: position of the last event about the cluster's state. */
struct broker_event_place { bool known; int64_t version; uint32_t n; uint64_t hash; };
/* place: of an event about the cluster's state (term beside it); else source says who emitted it. NULL: no memory. */
struct broker_event_source { int32_t broker; int64_t epoch; uint64_t n; };
struct broker_event_text *broker_event_text_new(const struct broker_event *event, int64_t wall_ms, const struct broker_event_place *place, int32_t term, const struct broker_event_source *source);
/* False: the text is of no event about the cluster's state. */
bool broker_event_place_parse(struct ot_blob json, struct broker_event_place *out);

/* ---- events_topic.c: one batch to whoever leads the partition */
struct broker_event_write {
    struct broker *broker;
    struct ot_exec *home;
    struct ot_buf *buf;                        /* one batch; taken over */
    void (*done)(struct broker_event_write *write);
    enum ot_err error;                         /* answered, on home. Not OK: it may have been appended all the same */
    struct broker_event_writing *writing;      /* own */
};
void broker_event_write(struct broker *broker, struct broker_event_write *write);
/* The topic as the cluster has it now; false: there is none. leader -1: none. */
struct broker_event_topic { struct ot_uuid id; int32_t leader; };
bool broker_event_topic(struct broker *broker, struct broker_event_topic *out);

/* ---- events.c, for the broker */
struct broker_events;
OT_MUST_CHECK enum ot_err broker_events_new(struct broker *broker, struct broker_events **out);
void broker_events_start(struct broker_events *events);        /* partitions are open: writing may begin */
struct broker_view;
/* On the coordinator's thread. A committed delta led from one view to the other (both are taken over); whole: anything may differ. NULL events is fine for all of these. */
void broker_events_applied(struct broker_events *events, const struct broker_view *before, const struct broker_view *after, struct ot_blob delta, bool whole);
void broker_events_role(struct broker_events *events, bool leading, int32_t leader, int32_t term, int64_t version);
void broker_events_gone(struct broker_events *events, int32_t node_id);        /* any thread: that process died, it is about to be fenced */
void broker_events_stop(struct broker_events *events);         /* nothing new comes; what is there is written, for a moment. Blocks */
void broker_events_end(struct broker_events *events);          /* nothing is on its way any more, and no view is held. Blocks; the coordinator has stopped */
void broker_events_free(struct broker_events *events);         /* NULL is fine */

#endif
