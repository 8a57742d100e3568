/* One broker's core in the simulation of the whole: the real append lane, replica machines, fetchers and logs, over a disk, executors and a clock of its own. It knows of no other broker: links,
 * questions to the coordinator and rows come and go by its host (host.c). Everything runs when server_step says so. */
#ifndef OT_SIM_WHOLE_SERVER_H
#define OT_SIM_WHOLE_SERVER_H

#include "base/net/link.h"
#include "coordinator/coord.h"
#include "coordinator/replica.h"

struct server;
struct server_setup {
    int32_t id; uint64_t seed;
    bool strict, retains /* for seconds */; uint32_t session_ms;
    struct ot_pool *pool;
    void *host;
    void (*send)(void *host, int32_t node_id, struct ot_link_call *call);      /* answered by server_call_answered */
    void (*ask)(void *host, struct coord_request *request);                    /* answered by server_ask_answered */
    int32_t (*term)(void *host);
    int64_t (*broker_epoch)(void *host);
    void (*stepped)(void *host);               /* one of the steps of a clean stop was made */
};
struct server *server_new(const struct server_setup *setup);
void server_free(struct server *s);            /* it does not run */

bool server_start(struct server *s, int64_t wall_ms, enum replica_class class_, uint64_t power_off_after);     /* false: the power went off: crash it */
/* All calls and questions were answered. crash: at this very instruction. Answers whether it was stopped cleanly. */
bool server_end(struct server *s, bool crash, bool machine);
void server_wipe(struct server *s, uint64_t seed);     /* another, empty disk; it does not run */
bool server_is_off(const struct server *s);    /* the power went off: crash it */
void server_power_stays(struct server *s);
uint64_t server_hash(const struct server *s);

bool server_step(struct server *s);            /* one task; false: there is none */
void server_pass(struct server *s, int64_t to_us);     /* its clock, by microseconds since its start, as far as the next timer: which it runs. Call until server_now_us says so */
void server_wake(struct server *s, int64_t now_us);    /* it stood still until then */
int64_t server_now_us(const struct server *s);

/* Leases (strict): before the first heartbeat that was answered there is none. sent_us: by its clock. */
void server_leased(struct server *s, int64_t sent_us);
void server_leave(struct server *s);           /* it is about to stop */
bool server_may_go(struct server *s, bool *tails_lost_out);    /* may others lead? Or they have to, without the end of a log */

void server_apply(struct server *s, const struct coord_value *value, bool dir_missing);
void server_set_class(struct server *s, const struct coord_value *value, enum replica_class class_);
void server_call_answered(struct server *s, struct ot_link_call *call, enum ot_err err, struct ot_buf *answer);
void server_ask_answered(struct server *s, struct coord_request *request);
/* A follower's request, whose reference passes over; served(arg, NULL): this one can read nothing. */
void server_serve(struct server *s, struct ot_buf *request, void (*served)(void *arg, struct ot_buf *answer), void *arg);

struct server_log { bool applied /* rows, since the start */, hosted, open, offline, cutting, read_only; int64_t start, end, flushed; const struct replica *replica; };
void server_log(struct server *s, int32_t partition, struct server_log *out);
int64_t server_log_base(struct server *s, int32_t partition);   /* open: where its first file begins, at or below its start */
/* Bytes of batches from offset on, below limit, though the power may be off. */
size_t server_read(struct server *s, int32_t partition, int64_t offset, int64_t limit, uint8_t *data, size_t cap);
bool server_flush(struct server *s, int32_t partition);         /* as who is asked how long its log is does */

void server_produce(struct server *s, int32_t partition, struct ot_buf *batch, int16_t acks, int32_t timeout_ms, void (*done)(void *arg, enum ot_err err, int64_t base_offset), void *arg);
void server_fetch(struct server *s, int32_t partition, int64_t offset, void (*done)(void *arg, enum ot_err err, const uint8_t *data, size_t bytes), void *arg);
/* DeleteRecords below `before`. start: where the log of whoever answers begins now. */
void server_delete(struct server *s, int32_t partition, int64_t before, void (*done)(void *arg, enum ot_err err, int64_t start), void *arg);

#endif
