/* Long work that somebody asked for: it has an id, tells how far it is, can be cancelled, and its end is kept for a while.
 *
 * Jobs run one after the other on a thread of their own, which is started with the first. In memory: a restart forgets them. Any thread may ask. */
#ifndef OT_BROKER_JOBS_H
#define OT_BROKER_JOBS_H

#include "base/bytes.h"
#include "base/err.h"

struct broker;

#define BROKER_JOB_ID_BYTES 48
#define BROKER_JOB_TOPIC_BYTES 256
#define BROKER_JOB_FAULTS 20               /* texts of faults that are kept */
#define BROKER_JOB_FAULT_BYTES 200
#define BROKER_JOBS_WAITING_MAX 32
#define BROKER_JOBS_ENDED_MAX 100

enum broker_job_state { BROKER_JOB_QUEUED, BROKER_JOB_RUNNING, BROKER_JOB_CANCELLING, BROKER_JOB_DONE, BROKER_JOB_FAILED, BROKER_JOB_CANCELLED };
const char *broker_job_state_name(enum broker_job_state state);        /* "queued", … */

struct broker_job_view {                   /* a copy */
    char id[BROKER_JOB_ID_BYTES];          /* "j-", the broker's id, "-", …: one of another broker is asked there */
    const char *kind;                      /* "verify" */
    enum broker_job_state state;
    char topic[BROKER_JOB_TOPIC_BYTES];    /* empty: all */
    int32_t partition;                     /* -1: all */
    uint64_t done_bytes, total_bytes;
    int64_t started_ms, ended_ms, eta_ms;  /* -1: not yet, unknown */
    enum ot_err error;                     /* of FAILED */
    uint32_t partitions, skipped;          /* looked at; offline or not open */
    uint64_t faults;
    uint32_t fault_count; char fault_texts[BROKER_JOB_FAULTS][BROKER_JOB_FAULT_BYTES];
};

/* Every byte of the logs against every rule, as eng_log_verify: of one partition, a topic, or (topic null) all of this broker. bytes_per_second 0: as fast as the
 * disk gives. UNKNOWN_TOPIC_OR_PARTITION: nothing of that name is here. BUSY: too many wait. NO_MEMORY. */
OT_MUST_CHECK enum ot_err broker_job_verify(struct broker *broker, struct ot_str topic, int32_t partition, int64_t bytes_per_second, struct broker_job_view *out);
/* False: no such job (any more). */
bool broker_job_find(struct broker *broker, struct ot_str id, struct broker_job_view *out);
/* The newest first: the one after `id` (null: the newest). False: none. */
bool broker_job_next(struct broker *broker, struct ot_str id, struct broker_job_view *out);
uint32_t broker_job_count(struct broker *broker);
/* NOT_FOUND. MISMATCH: it has ended already. OK: it ends soon; out: as it is now. */
OT_MUST_CHECK enum ot_err broker_job_cancel(struct broker *broker, struct ot_str id, struct broker_job_view *out);

#endif
