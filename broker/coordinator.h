/* Private to broker/: the thread, disk and clock of the coordinator. It steps coordinator/ on one serial executor, writes what it wants stored on the I/O pool (one job
 * at a time, in order), and hands committed states on before anybody is answered. */
#ifndef OT_BROKER_COORDINATOR_H
#define OT_BROKER_COORDINATOR_H

#include "base/exec.h"
#include "broker/journal.h"
#include "broker/peers_inner.h"

struct broker_coordinator;

/* A request; the asker's memory until answered runs, on the coordinator's thread. Any thread may ask.
 *
 * With several voters it goes to whoever leads, and again to the next one while its time lasts: NOT_CONTROLLER, lost connections and CLOSED are not seen by the asker but at the end of it
 * (REQUEST_TIMED_OUT, also when this server stops and the change may have been made; CLOSED when it stops and it was not, or alone, when it may have been). A change that was made elsewhere
 * is answered once this broker has applied it too. */
struct broker_ask {
    struct ot_task task;
    struct coord_request request;
    void (*answered)(struct broker_ask *ask);
    int64_t timeout_us;                        /* 0: 30 s */
    bool from_peer;                            /* is answered here, whoever leads */
    /* of the coordinator's driver */
    struct broker_coordinator *to;
    struct broker_ask *next;
    int64_t deadline_us;
    int16_t version;                           /* of PeerAsk, in which it was passed on */
    bool uncertain;                            /* an attempt was cut off: it may have been done */
    struct ot_link_call link;
};

/* What follows from one applied state: partitions being opened. Answers to the requests behind that state wait for them, at most a quarter of a second. */
struct broker_batch;
/* One more to wait for; call broker_batch_opened(batch, err) on the coordinator's thread when it is done. batch may be NULL. */
void broker_batch_add(struct broker_batch *batch);
void broker_batch_opened(void *batch, enum ot_err err);
/* A batch of one's own that answers ask in the end; it counts one for whoever begins it. */
struct broker_batch *broker_batch_begin(struct ot_exec *exec, struct broker_ask *ask);

struct broker_coordinator_hooks {              /* on the coordinator's thread */
    void *arg;
    /* value is the committed state now, delta what led there; whole: no delta, anything may differ. */
    void (*applied)(void *arg, const struct coord_value *value, struct ot_blob delta, bool whole, struct broker_batch *batch);
    void (*role)(void *arg, bool leading, int32_t leader /* -1: none is known */, int32_t term);
    void (*halted)(void *arg, enum ot_err err, const char *text);
    void (*closing)(void *arg);                /* on the closing thread, when nothing runs any more: give back shares of values */
};
struct broker_coordinator_setup {
    struct ot_io *io;
    struct ot_exec *exec, *io_exec;
    struct broker_peers *peers;                /* NULL: this node is alone */
    const char *dir;                           /* the voter's folder */
    uint64_t pages_bytes_max;
    struct broker_coordinator_hooks hooks;
    void (*make_room)(void *arg); void *make_room_arg;     /* the disk is full: give the reserve back */
};

/* Reads the folder; nothing is written but the cut of a torn end, and a copy of the term that is behind. Blocks. Errors as broker_journal_open. */
OT_MUST_CHECK enum ot_err broker_coordinator_load(const struct broker_coordinator_setup *setup, struct broker_coordinator **out, char *text_out, size_t text_bytes);
const struct coord_disk_image *broker_coordinator_image(const struct broker_coordinator *coordinator);     /* until start */
/* Errors as coord_new. Begins a term, or founds or joins a cluster; hooks.role, applied or halted follow. */
OT_MUST_CHECK enum ot_err broker_coordinator_start(struct broker_coordinator *coordinator, const struct coord_config *config, uint64_t seed, char *text_out,
    size_t text_bytes);
void broker_coordinator_ask(struct broker_coordinator *coordinator, struct broker_ask *ask);
/* The committed state, on the coordinator's thread. */
const struct coord_value *broker_coordinator_value(const struct broker_coordinator *coordinator);
void broker_coordinator_leader(const struct broker_coordinator *coordinator, int32_t *leader_out, int32_t *term_out);    /* on its thread */
struct ot_str broker_coordinator_cluster(const struct broker_coordinator *coordinator);   /* on its thread; the id of the cluster, none before founding or joining */
/* When a heartbeat of that broker was answered here last, on the clock of the coordinator's executor, and what it said that it has applied; when it said last that it has all there was (-1: it
 * did not). False: none was answered. It tells something while this node leads. Any thread. */
struct broker_heard { int32_t id; int64_t at_us, applied_version, caught_up_us; };
bool broker_coordinator_heard(struct broker_coordinator *coordinator, int32_t node_id, struct broker_heard *out);
/* Likewise, and for a voter what its coordinator said, which is heard of far more often. On its thread. */
bool broker_coordinator_progress(struct broker_coordinator *coordinator, int32_t node_id, struct broker_heard *out);
/* Of the brokers heard since then on that clock: the least version of the state that one said it has applied, when it was heard last; INT64_MAX: none was heard. Likewise. */
int64_t broker_coordinator_applied_least(struct broker_coordinator *coordinator, int64_t since_us);
/* From a peer: done is posted to the message's home. Any thread. */
void broker_coordinator_message(struct broker_coordinator *coordinator, struct broker_peer_message *message);
/* The process of that broker is known to have died (coordinator.md §7): fenced at once if this node leads. Any thread. */
void broker_coordinator_gone(struct broker_coordinator *coordinator, int32_t node_id);
/* This server stops: its own requests wait for no coordinator elsewhere any more, so that doors can close. Peers are still answered. */
void broker_coordinator_refuse(struct broker_coordinator *coordinator);
/* Waits for the write under way and answers everybody, now and from here on with CLOSED; peers are not talked to any more. Not on the coordinator's thread. */
void broker_coordinator_stop(struct broker_coordinator *coordinator);
/* Stops if it was not stopped, frees. The executors still run; nobody asks any more. NULL is fine. Not on the coordinator's thread. */
void broker_coordinator_close(struct broker_coordinator *coordinator);

/* Run something on the coordinator's thread and wait for it; not from that thread. */
void broker_coordinator_run(struct ot_exec *exec, void (*run)(void *arg), void *arg);

#endif
