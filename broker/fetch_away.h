/* Reading from a partition's leader at another broker: Kafka's Fetch as a consumer would send it, without waiting for records. Its rows are as those of broker/fetch.h, in memory. */
#ifndef OT_BROKER_FETCH_AWAY_H
#define OT_BROKER_FETCH_AWAY_H

#include "broker/fetch.h"
#include "broker/peers.h"

struct broker_fetch_away {
    /* asked */
    struct ot_exec *home; void (*done)(struct broker_fetch_away *away);
    int32_t leader;
    const struct broker_fetch_ask *asks; uint32_t ask_count;   /* by topic id, all of one topic */
    int32_t max_bytes;
    bool read_committed;
    struct ot_arena *arena;                    /* rows come from here */
    int64_t deadline_us;
    /* answered */
    enum ot_err error;                         /* of the whole; then no rows */
    struct broker_fetch_row *rows; uint32_t row_count;
    struct broker_peer_call call;              /* own */
};
void broker_fetch_away(struct broker *broker, struct broker_fetch_away *away);     /* done on home, never before this returns */
void broker_fetch_away_cancel(struct broker *broker, struct broker_fetch_away *away);      /* on home, before done ran: it comes soon */
void broker_fetch_away_release(struct broker_fetch_away *away);        /* after done: rows are gone */

#endif
