/* Private to events.c and events_write.c: what both work on. */
#ifndef OT_BROKER_EVENTS_STATE_H
#define OT_BROKER_EVENTS_STATE_H

#include "broker/events_inner.h"
#include "broker/moves.h"
#include "broker/room.h"

#define RING_BYTES_MAX (8u << 20)
#define QUEUE_BYTES_MAX (2u << 20)
#define INBOX_BYTES_MAX (16u << 20)
enum { INBOX_MAX = 4096, QUEUE_MAX = 8192, BATCH_EVENTS = 512, BATCH_BYTES = 256 << 10, SCAN_EVENTS = 1000, READ_BYTES = 1 << 20, REPLICAS = 3, CONFIGS = 6, GONE_MAX = 16 };
#define AGAIN_US 200000
#define AGAIN_MAX_US 2000000
#define WAIT_FOR_BROKERS_US 30000000
#define GONE_US 5000000
#define STOP_MS 300

enum inbox_kind { INBOX_DELTA, INBOX_ROLE, INBOX_TEXT, INBOX_WANTED };
struct inbox_item {
    struct inbox_item *next;
    enum inbox_kind kind;
    const struct broker_view *before, *after;  /* DELTA */
    bool whole;
    bool leading; int32_t leader, term; int64_t version;       /* ROLE */
    struct broker_event_text *text;            /* TEXT */
    int64_t wall_ms;
    uint32_t bytes;                            /* of the delta */
    uint8_t delta[];
};

enum doing { DOING_NOTHING, DOING_CREATE, DOING_GROW, DOING_READ, DOING_WRITE };

struct broker_events {
    struct broker *broker;
    struct ot_exec *exec;
    struct ot_task task;
    struct ot_timer timer;

    pthread_mutex_t mutex; pthread_cond_t changed;
    struct inbox_item *inbox, **inbox_last;
    uint32_t inbox_count; uint64_t inbox_bytes;
    bool posted, stopping, idle;
    _Atomic bool ended;                        /* read without the mutex too */
    int64_t lost_from, lost_to;                /* versions whose deltas found no room in the inbox; lost_to 0: none */
    uint64_t refused;                          /* events that broker_event did not take since that was told last */
    uint64_t source_n;
    struct { int32_t id; int64_t at_us; } gone[GONE_MAX]; uint32_t gone_next;
    uint32_t queue_count; uint64_t queue_bytes;                /* in the inbox and the queue */
    bool topic;                                /* there is one, as the executor saw it last */

    /* of the executor */
    bool started, leading, synced, wanted;
    int32_t term, last_leader;
    struct broker_event_text *ring, **ring_last; uint64_t ring_bytes;
    uint64_t seq_last, seq_next;               /* given to the newest; the first that is not written (leading and synced) */
    bool based; int64_t base_version; uint64_t base_hash;      /* the state that the ring begins behind */
    int64_t head_version; uint32_t head_n;     /* of the newest */
    int64_t gap_from, gap_to; uint64_t gap_count;              /* to be told before anything else; gap_to 0: none */
    struct broker_event_text *queue, **queue_last;
    int64_t begins_us;                         /* when the first event came that is worth a topic; 0: none yet */
    int64_t again_us;                          /* pause after a failure */
    enum doing doing;
    struct broker_event_write write; uint64_t write_seq_end, write_refused; uint32_t write_queued; bool write_gap;
    struct broker_event_read read; int64_t scan_low, scan_high; struct broker_event_place scan_place;
    struct broker_admin admin; struct broker_admin_item item; struct broker_config_entry configs[CONFIGS];
    struct broker_assignment assignment; int32_t replicas[REPLICAS];
    struct broker_moves moves; struct broker_move move; bool may_grow;
};

/* events.c, on the executor */
void broker_events_pump(struct broker_events *events);
void broker_events_note_gap(struct broker_events *events, int64_t from, int64_t to, uint64_t count);
static inline bool broker_events_live(const struct broker_events *events) { return events->leading && events->synced; }
/* events_write.c: each begins something, which pumps when it is done. from -1: where the topic ends is asked first */
void broker_events_read_on(struct broker_events *events, int64_t from);
void broker_events_create(struct broker_events *events);
bool broker_events_grow(struct broker_events *events, const struct ot_uuid *topic_id);      /* true: it is asked for */
void broker_events_write_batch(struct broker_events *events);
bool broker_events_has_work(const struct broker_events *events);
void broker_events_pop_queue(struct broker_events *events, enum ot_err err);

#endif
