/* Private to coordinator/: the machine's state, and the askers' files. */
#ifndef OT_COORDINATOR_STATE_H
#define OT_COORDINATOR_STATE_H

#include "base/util.h"
#include "coordinator/coord.h"
#include "coordinator/election.h"

enum coord_phase { COORD_PHASE_NEW, COORD_PHASE_FORMAT, COORD_PHASE_TERM, COORD_PHASE_FIRST, COORD_PHASE_LEADING, COORD_PHASE_HALTED };
enum { COORD_OUTS_MAX = 16, COORD_SCRATCH_BYTES = 32768, COORD_FORMER_NAMES_MAX = 1024, COORD_DELETED_MAX = 1024 };
struct coord_requests { struct coord_request *first, *last; };

struct coord {
    struct coord_config config;
    char cluster_id[64], voter_host[256];
    struct coord_pages *pages;
    enum coord_phase phase;
    bool blank;
    uint64_t now_us;
    struct coord_term term;
    struct coord_value committed, next;        /* next: of the publication in flight or in the making */
    bool in_flight;
    int64_t version_used;                      /* highest version of any publication so far, failed ones included */
    struct ot_blob accepted_delta;             /* of an earlier term: goes into the first publication */
    struct coord_delta deltas[2];              /* in turns: the one applied last stays readable while the next is made */
    uint32_t delta_at;
    struct coord_requests waiting, merged, answered;
    uint64_t token_last, token_waited;         /* of the STORE that the phase or the publication waits for */
    uint64_t snapshot_token;                   /* 0: none under way */
    uint64_t journal_bytes;                    /* since the last snapshot */
    uint64_t commit_due_us;                    /* when a COMMIT record is to be written; UINT64_MAX: it is written, or nothing to commit */
    struct coord_record store;                 /* of the last STORE */
    struct coord_record lazy;                  /* a COMMIT, not waited for */
    struct coord_out outs[COORD_OUTS_MAX];
    uint32_t out_first, out_count;
    struct coord_live_broker *brokers;         /* as of next */
    struct coord_live live;
    uint32_t *order;
    uint8_t *scratch;
    struct ot_rng rng;
    uint64_t trace;
};

/* One request being turned into rows. */
struct coord_turn {
    struct coord *coord;
    struct coord_request *request;
    struct coord_edit edit;
    int64_t version;                           /* of the publication in the making */
};
enum ot_err coord_refuse(struct coord_request *request, enum ot_err error, const char *format, ...) OT_PRINTF(3, 4);

/* Each: decide and edit. OK, or the refusal (the edit is undone by the caller); TOO_LARGE, NO_MEMORY of the edit pass through. */
enum ot_err coord_ask_register(struct coord_turn *turn);
enum ot_err coord_ask_heartbeat(struct coord_turn *turn);
enum ot_err coord_ask_durable(struct coord_turn *turn);
enum ot_err coord_ask_create_topic(struct coord_turn *turn);
enum ot_err coord_ask_delete_topic(struct coord_turn *turn);
enum ot_err coord_ask_create_partitions(struct coord_turn *turn);
enum ot_err coord_ask_configs(struct coord_turn *turn);
enum ot_err coord_ask_producer_ids(struct coord_turn *turn);

/* brokers.c: the table of live brokers, from coord->next. */
enum ot_err coord_live_load(struct coord *coord);
/* configs.c: effective min.insync.replicas of a topic (NULL: of a new one without overrides). */
int32_t coord_min_isr(const struct coord *coord, const struct coord_value *value, const struct ot_uuid *topic_id);

#endif
