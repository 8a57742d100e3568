/* Private to broker/replication*.c */
#ifndef OT_BROKER_REPLICATION_INNER_H
#define OT_BROKER_REPLICATION_INNER_H

#include "base/arena.h"
#include "broker/follow.h"
#include "broker/replication.h"
#include "broker/room.h"

enum { BROKER_STREAMS_MAX = 16, BROKER_ALTERS_MAX = 64, BROKER_FETCH_VERSION = 18, BROKER_VERSION_UNKNOWN = -1 };
struct broker_fetch_source;
struct ot_fetch_response;

struct broker_fetch_list { struct broker_fetch_slot *first, *last; };
struct broker_fetch_slot {                     /* one partition that is fetched */
    struct broker_replication *all;
    struct broker_partition *partition;        /* counted */
    struct broker_fetch_source *source;
    struct broker_fetch_stream *stream;        /* in whose session it is (of a leader of another cluster: in whose request or answer); NULL: in none */
    struct broker_fetch_list *list;            /* it is in one: source->loose, stream->held or stream->fresh */
    struct broker_fetch_slot *next, *prev;
    struct broker_follow_place asked;          /* what the leader was told last */
    struct broker_follow follow;
    struct ot_task done_task;
    int64_t due_us;                            /* not before */
    uint32_t failures;
    struct broker_fetch_origin origin;         /* of a leader of another cluster: what it calls the partition */
    bool seeks;                                /* of one too: it is asked next where its log begins */
    bool working;                              /* its answer is in its lane */
    bool gone;                                 /* let go of when that is over */
};
struct broker_fetch_stream {                   /* one request at a time to one leader */
    struct broker_replication *all;
    struct broker_fetch_source *source;
    uint32_t number;
    struct ot_link_call call;
    int16_t version, offsets_version;          /* of Fetch; of ListOffsets, at a leader of another cluster */
    enum broker_fetch_asks { BROKER_ASKS_FETCH, BROKER_ASKS_VERSIONS, BROKER_ASKS_STARTS } asks;       /* what the call is; beside Fetch: broker/replication_foreign.c */
    bool calling;
    uint32_t in_work;                          /* partitions whose answer is in their lane */
    struct broker_fetch_list held, fresh;      /* the slots of the session; fresh: those that an answer named since the last request */
    int32_t session_id, session_epoch;         /* KIP-227. epoch 0: the next request names all that is held, and begins a session */
    int64_t broker_epoch, swept_us;            /* this broker's, as the session was begun with; when all that is held was looked at last */
    struct broker_fetch_forget { struct ot_uuid topic_id; int32_t partition; } *forgets; uint32_t forget_count, forget_cap;    /* of the session: to be struck out */
    bool forget_all;                           /* there was no memory to note one */
    struct broker_fetch_slot **slots; uint32_t slot_count, slot_cap;       /* what the request names, in its order */
    struct ot_arena arena;
    struct ot_buf *answer;                     /* holds the records while in_work */
    int64_t due_us;                            /* not before, after a failure */
    uint32_t failures;
};
struct broker_fetch_source {                   /* one leader */
    struct broker_fetch_source *next;
    int32_t node_id;
    bool foreign;                              /* of another cluster */
    struct broker_fetch_list loose;            /* in no session: new, or not to be asked about yet */
    struct broker_fetch_stream *streams; uint32_t stream_count;
};
struct broker_alter {                          /* what is asked of the coordinator at one time */
    bool busy;
    struct broker_ask ask;
    struct ot_task done_task;
    uint32_t count;
    struct broker_partition *partitions[BROKER_ALTERS_MAX];        /* counted */
    int64_t numbers[BROKER_ALTERS_MAX];
    struct coord_alter items[BROKER_ALTERS_MAX];
    struct coord_member members[BROKER_ALTERS_MAX * COORD_REPLICAS_MAX];
    struct coord_lost losses[BROKER_ALTERS_MAX];
    struct coord_report reports[BROKER_ALTERS_MAX];
    enum { BROKER_ASKS_ISR, BROKER_TELLS_DURABLE, BROKER_TELLS_LOSS } what;        /* one of them a request */
};
struct broker_replication {
    struct broker_replication_setup setup;
    struct broker_core *core;
    _Atomic bool stopping;
    _Atomic uint32_t looks_open;
    struct broker_fetch_source *sources;
    struct ot_timer fetch_timer, tick_timer, alter_timer;
    struct ot_task stop_task;
    int64_t alter_sequence;
    struct broker_partition **news; uint32_t news_count, news_cap;     /* counted: they have something to ask */
    struct broker_alter alter;
    bool balancing;
    int64_t balance_due_us, drain_due_us, drain_version;       /* drain_version: the state that was looked at for leaders to move away */
    uint32_t drained;                          /* how many brokers were to lead nothing then */
    struct broker_steady *steady;              /* since when each broker is unfenced; NULL until this one leads the coordinator */
    struct broker_decommission *decommission;  /* under way; NULL: idle */
    int64_t decommission_due_us, decommission_told_us, decommission_stuck_us;     /* stuck: since when a move waits for a broker that is gone; 0: none does */
    bool throttling;                           /* a throttle is being taken back */
    int64_t throttle_due_us, throttle_idle_us; /* nothing was being moved since; 0: something is */
    _Atomic uint32_t busy;                     /* calls, lanes and asks under way */
    _Atomic uint64_t fetches, failures, bytes, proposals, refusals;
    _Atomic uint32_t source_count, partition_count;
};

/* replication_fetch.c, on the executor */
void broker_fetch_assign(struct broker_replication *all, struct broker_partition *partition, int32_t leader);      /* -1: nobody */
void broker_fetch_pump(struct broker_replication *all);        /* whatever is due goes out */
void broker_fetch_stop(struct broker_replication *all);        /* lets go of every idle partition */
void broker_fetch_let_go(struct broker_fetch_slot *slot);      /* it leaves its stream */
void broker_fetch_sources_free(struct broker_replication *all);
struct ot_buf *broker_fetch_frame(struct broker_fetch_stream *stream, int16_t key, int16_t version, const void *message);       /* NULL: no memory */
OT_MUST_CHECK enum ot_err broker_fetch_answer_take(struct broker_fetch_stream *stream, const struct ot_fetch_response *response);
/* replication_foreign.c, on the executor */
enum broker_fetch_asks broker_foreign_asks(struct broker_fetch_stream *stream);      /* what is to be asked next; who is not asked about now leaves the round */
struct ot_buf *broker_foreign_request(struct broker_fetch_stream *stream);           /* NULL: no memory */
OT_MUST_CHECK enum ot_err broker_foreign_answer(struct broker_fetch_stream *stream); /* UNSUPPORTED_VERSION: it serves no version that we speak */
/* replication_ask.c, on the executor */
void broker_news_add(struct broker_replication *all, struct broker_partition *partition);
void broker_news_pump(struct broker_replication *all);
void broker_news_drop(struct broker_replication *all);

#endif
