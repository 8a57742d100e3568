/* The one core behind all doors. cli/server.c makes it, hands it its threads and disk, and gives it to the doors. */
#ifndef OT_BROKER_BROKER_H
#define OT_BROKER_BROKER_H

#include "base/mem.h"
#include "base/metrics.h"
#include "broker/admin.h"
#include "broker/config.h"
#include "broker/fetch.h"
#include "broker/offsets.h"
#include "broker/partition.h"
#include "broker/peers.h"
#include "broker/produce.h"
#include "broker/shard.h"
#include "broker/view.h"
#include "engine/store.h"

#define BROKER_PEER_LISTENER "PEER"            /* the name of the peer listener among a broker's endpoints */

struct broker_setup {
    struct ot_io *io;
    struct broker_config_store *config;        /* broker/config.h: static values with sources; outlives the broker */
    struct ot_exec *io_exec;                   /* pool: appends, cold reads, decoding, fsync, recovery */
    struct ot_exec *flush_exec;                /* pool: flush rounds, so that a slow disk does not hold up appends and reads */
    struct ot_exec *background_exec;           /* serial, with timers: retention, deletion, checkpoints, disk space */
    uint32_t sync_each_max;                    /* a directory that was not shut down cleanly and has more partitions has its file system synced once at start; else each is synced by itself */
    uint32_t sync_wait_ms;                     /* that one sync is waited for so long; 0: for ever, at once */
    bool (*apart)(const char *name, struct ot_task *task);     /* ot_exec_apart: runs such a sync, which may be stuck when it is not waited for any more; NULL: flush_exec does it */
    uint32_t openings_max;                     /* so many logs are recovered at a time; 0: all that came */
    uint32_t start_wait_ms;                    /* a server that is alone waits no longer for partitions to open; 0: until all are. The others open meanwhile, those first that clients ask for */
    struct ot_exec *coord_exec;                /* serial, with timers: the coordinator's thread */
    struct ot_exec *const *shard_execs; uint32_t shard_exec_count;       /* serial, with timers: groups and transactions (shard.h); 0: background_exec does it */
    struct ot_mem_pool *groups_pool;           /* what groups and their offsets and transactions may take; NULL: 64 MiB */
    struct ot_mem_pool *sessions_pool;         /* what fetch sessions may take; NULL: 64 MiB */
    const struct broker_shard_kind *const *shard_kinds;        /* by enum broker_shard_kind_id; NULL: all that there are (tests bring their own) */
    struct ot_exec *cleaner_exec; uint32_t cleaner_threads;              /* pool: compaction, and how many run in it at most; NULL: nothing is compacted */
    struct ot_mem_pool *cleaner_memory;        /* for its keys; NULL: as much as configured */
    struct ot_metrics *metrics;                /* outlives the broker; NULL: nothing is counted */
    struct ot_pool *decode_pool;               /* decoding windows and recompressed batches */
    const struct broker_listener *listeners; uint32_t listener_count;    /* as bound, for registration and Metadata */
    const struct broker_peer_setup *peer;      /* NULL: a cluster of one, which nobody joins */
    const char *release;                       /* of this build, which the cluster is told (at most 64 bytes); NULL: nothing. Outlives the broker */
    bool (*give_up)(void *arg); void *give_up_arg;             /* asked while the start waits for others; NULL: it waits for ever */
};
/* Its listeners changed while it runs: the cluster is told, so that other brokers send clients there. Copied; the log says when it is known. Any thread. */
struct broker_listener;
void broker_listeners_changed(struct broker *broker, const struct broker_listener *listeners, uint32_t count);
struct broker_listener { const char *name, *host, *advertised_host /* NULL: as reached */; int32_t port, advertised_port; const char *security; };

/* Opens directories (lock, identity, boot class), loads the coordinator's journal or founds a one-node cluster, opens every partition in parallel (see start_wait_ms).
 * Blocks; call before the doors open. Errors are logged with words: LOCKED, MISMATCH (foreign data folder), IO, CORRUPT. */
OT_MUST_CHECK enum ot_err broker_open(const struct broker_setup *setup, struct broker **out);
/* The same in two steps, where peers have to be answered before the start can end: make loads the journal and starts the coordinator; from there on peers may ask (broker/peers.h).
 * begin waits for the others that are needed: until there is a coordinator and it knows this broker. CANCELLED: setup's give_up said so. After an error: broker_leave and broker_close, as always. */
OT_MUST_CHECK enum ot_err broker_make(const struct broker_setup *setup, struct broker **out);
OT_MUST_CHECK enum ot_err broker_begin(struct broker *broker);
/* Until the coordinator has let it lead, which readiness waits for: for as long as a session at most. */
void broker_wait_electable(struct broker *broker);
/* SIGTERM's way: new work is refused, lanes drain, everything is flushed for up to ottla.shutdown.flush.timeout.ms, checkpoints and the clean marker are written. */
void broker_stop(struct broker *broker);
/* The coordinator stops, every request of peers is answered; then the peer listener can go. */
void broker_leave(struct broker *broker);
void broker_close(struct broker *broker);      /* frees; doors are closed before */

/* SIGHUP's way: fresh is a store into which the configuration file alone was loaded; it is borrowed until this returns. What may change while we run is applied, what needs a
 * restart is named in the log. Blocks for the coordinator's thread: not to be called on it. */
void broker_reload(struct broker *broker, const struct broker_config_store *fresh);

/* serves_peers: ready, or stopping and not done with handing over: until then followers fetch from it what is to go with them. cut_off: no coordinator has answered for a session,
 * so others may lead what it leads, and what it knows of the cluster is old; never so where it is alone. */
struct broker_health { bool ready, serves_peers, cut_off; const char *reason; uint32_t partitions_total, partitions_open, partitions_failed /* will not open by themselves */; };
void broker_health(struct broker *broker, struct broker_health *out);
struct ot_exec *broker_io_exec(struct broker *broker);
struct eng_store *broker_store(struct broker *broker);
const struct broker_config *broker_config(struct broker *broker);      /* current values, dynamic ones included; see config.h for lifetime */
struct broker_config_store *broker_config_store(struct broker *broker);
struct ot_metrics *broker_metrics(struct broker *broker);               /* NULL when it was made without */
int32_t broker_node_id(const struct broker *broker);
int64_t broker_started_wall_ms(const struct broker *broker);
int64_t broker_steady_wall_ms(const struct broker *broker, int64_t now_us);    /* what the wall clock would say had nobody set it since the start */

#endif
