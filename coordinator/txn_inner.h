/* The inside of struct coord_txns, for the files txn*.c alone. */
#ifndef OT_COORDINATOR_TXN_INNER_H
#define OT_COORDINATOR_TXN_INNER_H

#include "base/map.h"
#include "coordinator/txn.h"

enum { COORD_TXN_WAITERS_MAX = 8, COORD_TXN_RETRY_FIRST_US = 20000, COORD_TXN_RETRY_MAX_US = 2000000, COORD_TXN_EXPIRE_AT_ONCE = 100 };
#define COORD_TXN_EPOCH_LAST (INT16_MAX - 1)       /* the highest that a client uses: one above is left for fencing it */

struct coord_txn_list { struct coord_txn_request *first, *last; };

struct coord_txn {
    struct ot_str id;                          /* owned, behind this struct */
    enum ot_transaction_state state;
    int16_t producer_epoch, last_epoch, version;
    int64_t producer_id, previous_producer_id, next_producer_id;
    int32_t timeout_ms;
    int64_t start_ms, update_ms;
    struct coord_txn_part *parts;              /* sorted by topic name, then partition */
    uint32_t part_count, part_cap;
    uint64_t seq;                              /* of its last record */
    bool unproven;                             /* its decision was read from the log and may not be committed: written once more at retry_us */
    bool marking, marker_out, late;            /* markers are with the driver; in the queue of outputs; were tried in vain */
    int64_t open_deadline_us, retry_us, retry_wait_us, expire_us, deadline_us;
    uint32_t heap_index;                       /* 0: not in the heap */
    struct coord_txn_list waiters; uint32_t waiter_count;
    struct coord_txn *prepared_next, *marker_next;
};

struct coord_txn_append { uint64_t seq; size_t key_pos, key_bytes, value_pos, value_bytes; bool tombstone; };
struct coord_txn_note { enum coord_txn_event event; enum ot_err error; size_t id_pos, id_bytes; int64_t producer_id, age_ms; int16_t producer_epoch; char place[280]; };
struct coord_txn_bytes { uint8_t *data; size_t bytes, cap; };

struct coord_txns {
    struct coord_txns_config config;
    struct ot_map by_id, topics;
    uint64_t bytes, seq, committed;
    struct coord_txn_counts counts;
    bool broken, is_closed, is_loaded;
    enum ot_err closed_why;
    struct coord_txn **heap; uint32_t heap_count, heap_cap;    /* [1, heap_count], least deadline first */
    struct coord_txn_list unanswered;          /* wait for their record, by seq */
    struct coord_txn *prepared_first, **prepared_last;         /* decided; the record of it is not committed. By seq */
    /* outputs */
    struct coord_txn_bytes text;               /* what appends and notes point into */
    struct coord_txn_append *appends; uint32_t append_count, append_cap, append_at;
    struct coord_txn_note *notes; uint32_t note_count, note_cap, note_at;
    struct coord_txn *markers_first, **markers_last;
    struct coord_txn_list ids, replies;
    /* scratch of the encoder */
    int32_t *scratch_ids; uint32_t scratch_id_cap;
    void *scratch_topics; uint32_t scratch_topic_cap;
};

/* txn_entry.c */
struct coord_txn *coord_txn_find(const struct coord_txns *txns, struct ot_str id);
OT_MUST_CHECK enum ot_err coord_txn_add(struct coord_txns *txns, struct ot_str id, struct coord_txn **out);
void coord_txn_remove(struct coord_txns *txns, struct coord_txn *txn);
OT_MUST_CHECK enum ot_err coord_txn_parts_add(struct coord_txns *txns, struct coord_txn *txn, const struct coord_txn_place *places, uint32_t count);
struct coord_txn_part *coord_txn_part_find(const struct coord_txn *txn, struct ot_str topic, int32_t partition);
void coord_txn_parts_clear(struct coord_txns *txns, struct coord_txn *txn);
void coord_txn_schedule(struct coord_txns *txns, struct coord_txn *txn);     /* after any of its deadlines changed */
bool coord_txn_is_open(const struct coord_txn *txn);
void coord_txn_set_state(struct coord_txns *txns, struct coord_txn *txn, enum ot_transaction_state state);
void coord_txn_list_put(struct coord_txn_list *list, struct coord_txn_request *request);
struct coord_txn_request *coord_txn_list_take(struct coord_txn_list *list);
OT_MUST_CHECK bool coord_txn_grow(void **items, uint32_t *cap, uint32_t count, size_t each_bytes);
/* txn_record.c */
void coord_txn_write(struct coord_txns *txns, struct coord_txn *txn);        /* hands out its record as it is now; sets seq */
void coord_txn_write_tombstone(struct coord_txns *txns, struct ot_str id);
size_t coord_txn_value_bytes(struct coord_txns *txns, const struct coord_txn *txn);
void coord_txn_note(struct coord_txns *txns, const struct coord_txn *txn, enum coord_txn_event event, int64_t age_ms, enum ot_err error, const struct coord_txn_part *part);

#endif
