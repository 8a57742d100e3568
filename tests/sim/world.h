/* One simulated broker core over the simulated disk, its clients, and what they were promised. */
#ifndef OT_SIM_WORLD_H
#define OT_SIM_WORLD_H

#include "broker/core.h"
#include "disk.h"
#include "run.h"
#include "sim_sched.h"

#define SIM_PARTITIONS 3
#define SIM_PRODUCERS 6
#define SIM_TXN_FIRST 4                        /* producers from here on write in transactions */
#define SIM_READERS 3
#define SIM_WAITS_MAX 256
#define SIM_IDS_MAX 20000

enum sim_fate { SIM_OPEN, SIM_ACKED, SIM_REFUSED, SIM_UNKNOWN };      /* UNKNOWN: timed out, or its broker died */
struct sim_batch {                     /* one batch as its client knows it; id = index + 1, stored in the key of each record */
    int partition, producer;           /* producer -1: plain */
    int16_t acks;
    int32_t sequence, record_count;
    enum sim_fate fate;
    int64_t offset;                    /* acked: where it lies */
    int64_t at_offset;                 /* where it was last seen in the log; -1 never */
    uint32_t retries;
    uint32_t crc;                      /* of the record bytes */
    bool certain_refusal;              /* refused and not sent again: it may not appear while no machine crashed since */
    uint32_t generation;               /* of the topic that it was sent to */
    int32_t leader_epoch;              /* as it was first seen; -1 never */
};

struct sim_partition {
    int64_t machine_end, process_end;  /* below these offsets everything must survive such a crash */
    int64_t start_promised;            /* DeleteRecords answered this; log start may never be below */
    int64_t consumer_offset;
    int64_t class_floor;               /* the class in force promises nothing below (it came later) */
    int64_t seen_start, seen_high_watermark, seen_stable;      /* of this life of the server: none goes back */
    int32_t leader_epoch;
    bool known;                        /* it was opened once: a later start may not make it anew */
    int crash_owed;                    /* the worst crash since it was last verified: it could not be opened meanwhile */
};

struct sim_producer {
    int32_t next_sequence[SIM_PARTITIONS];
    uint32_t open[SIM_PARTITIONS], stuck[SIM_PARTITIONS];
    bool txn_open[SIM_PARTITIONS];     /* data since the last marker that was acknowledged */
    enum { SIM_MARKER_NONE, SIM_MARKER_OPEN, SIM_MARKER_UNKNOWN } marker[SIM_PARTITIONS];
    bool commit[SIM_PARTITIONS];       /* of a marker whose fate is not known */
};

struct sim_reader {                    /* a consumer with an incremental fetch session over all partitions */
    int32_t session_id, session_epoch;
    int64_t offsets[SIM_PARTITIONS];
    bool moved[SIM_PARTITIONS], busy, committed;
};

struct sim_world {
    uint64_t seed;
    struct ot_rng rng;
    struct sim_disk *disk;
    struct sim_sched *sched;
    struct ot_exec *io, *flush, *background, *home;
    struct broker_config_store *config;
    struct ot_pool *requests, *decoding;
    struct eng_store *store;
    struct broker_core *core;
    struct sim_partition partitions[SIM_PARTITIONS];
    struct sim_batch *batches; uint32_t batch_count;
    struct sim_producer producers[SIM_PRODUCERS];
    struct sim_reader readers[SIM_READERS];
    int64_t waits[SIM_WAITS_MAX];      /* when each open fetch has to be answered; 0: free */
    int64_t retention_ms, retention_bytes;
    int broken_dir;                    /* -1: none. All in it fails, and the other one has to serve */
    uint32_t generation;               /* of the topic: each has an id of its own */
    uint32_t calls_open, opens_pending;
    const char *durability, *append_io;
    bool verbose, faults_on, flipping;
    struct sim_totals totals;
    uint64_t trace;                    /* hash of what happened: equal for equal seeds */
};

/* Every check ends here: prints seed and words, and exits with 1. */
#define SIM_CHECK(world, fact, ...) do { if (!(fact)) sim_fail(world, #fact, __FILE__, __LINE__, __VA_ARGS__); } while (0)
OT_NORETURN void sim_fail(const struct sim_world *world, const char *fact, const char *file, int line, const char *format, ...) OT_PRINTF(5, 6);
void sim_note(struct sim_world *world, uint64_t what, uint64_t a, uint64_t b);

struct ot_uuid sim_topic_id(const struct sim_world *world);
void sim_world_new_topic(struct sim_world *world);             /* the topic goes, and one of its name comes: nothing that was promised holds any more */
void sim_world_break_dir(struct sim_world *world, int dir);    /* -1: whole again */
int sim_world_dir_of(struct sim_world *world, int partition);  /* of an open partition; -1: not open */
void sim_world_open(struct sim_world *world);                  /* store, core, partitions; runs until all are open */
void sim_world_drain(struct sim_world *world);                 /* until nothing is queued */
void sim_world_stop(struct sim_world *world);                  /* cleanly */
void sim_world_crash(struct sim_world *world, bool machine);   /* power is off, everything fails, memory goes, power comes back */

bool sim_class_syncs(const char *durability);                  /* with one replica: all but `replicated` */
void sim_topic_config(struct sim_world *world, struct broker_topic_config *out);
void sim_watch(struct sim_world *world);                       /* nothing published goes back; when all is idle, no fetch is late */
uint32_t sim_wait_begin(struct sim_world *world, int64_t deadline_us);
void sim_wait_end(struct sim_world *world, uint32_t wait);
void sim_promise_visible(struct sim_world *world, int index, int64_t high_watermark);      /* what a consumer may have seen must not vanish */

/* clients.c */
void sim_client_produce(struct sim_world *world);
void sim_client_retry(struct sim_world *world);                /* batches of idempotent producers whose fate is unknown, in order */
void sim_client_end_txn(struct sim_world *world);              /* a marker, as the transaction coordinator would send it */
void sim_client_configure(struct sim_world *world);            /* durability class and retention change while all runs */
void sim_client_recreate(struct sim_world *world);
bool sim_client_put(struct sim_world *world, int partition);   /* one batch, waited for: was it taken? */
/* readers.c */
void sim_client_fetch(struct sim_world *world);                /* one partition, no session */
void sim_client_poll(struct sim_world *world);                 /* all partitions, by session */
void sim_client_delete_records(struct sim_world *world);
/* content.c */
/* The client's batch that is stored here; checks CRC, records and keys. 0: a marker. */
uint32_t sim_content_check(struct sim_world *world, struct eng_decode *decode, int partition, const uint8_t *data, const struct eng_batch_info *info);
size_t sim_content_read(struct sim_world *world, const struct eng_read_result *result, uint8_t *data, size_t cap);   /* 0: the disk failed */
/* engine_mode.c: one log without a broker, for what only a follower does: truncation, starting anew at an offset */
void sim_engine_run(struct sim_world *world);
/* verify.c: the log against what was promised. crashed: 0 no crash, 1 process, 2 machine since the last verify */
void sim_verify(struct sim_world *world, int crashed);
/* flips.c: the last act of a seed: one bit of a stored batch is another; whoever reads it must be able to tell, and nothing else may suffer */
void sim_flip(struct sim_world *world);

#endif
