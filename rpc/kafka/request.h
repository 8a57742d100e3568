/* What the files of this room share: a request in work, the rows of the dispatcher, and the ways to answer.
 *
 * A request lives in a context of its loop's free list: header, decode arena, and the one broker call that it may make. Handlers run on the connection's loop.
 * Each ends, now or in the `done` of its call, with exactly one of rpc_respond, rpc_respond_none and rpc_reject. */
#ifndef OT_RPC_KAFKA_REQUEST_H
#define OT_RPC_KAFKA_REQUEST_H

#include "base/net/net.h"
#include "base/wire/apis.h"
#include "broker/broker.h"
#include "broker/groups.h"
#include "broker/lag.h"
#include "broker/moves.h"
#include "broker/peer_rest.h"
#include "broker/peers.h"
#include "broker/quorum.h"
#include "broker/replica_dirs.h"
#include "broker/telemetry.h"
#include "broker/transactions.h"
#include "broker/control.h"
#include "broker/voter_change.h"
#include "rpc/kafka/server.h"

#include <pthread.h>

struct rpc_request;

/* Which requests of one connection may be in work together. Kafka works on one at a time; what a client may rely on is the same here, since only
 * requests of one kind overlap, and produce requests only once the earlier one is queued (broker/produce.h). */
enum rpc_overlap { RPC_ALONE, RPC_WITH_PRODUCE, RPC_WITH_FETCH, RPC_WITH_PEERS };

struct rpc_api {
    int16_t key;
    enum rpc_overlap overlap;
    int16_t max_version;                   /* advertised and served at most; -1: all stable ones of the table */
    size_t request_bytes;                  /* of the decoded struct */
    void (*handle)(struct rpc_request *request, const void *body);
    void (*cancel)(struct rpc_request *request);       /* the client left, or we stop; NULL: it ends by itself */
};
extern const struct rpc_api rpc_apis[];
extern const uint32_t rpc_api_count;
#define RPC_APIS_MAX 96
bool rpc_api_serves(const struct rpc_api *row, const struct ot_api *api, int16_t version);
int16_t rpc_api_max(const struct rpc_api *row, const struct ot_api *api);

#define RPC_NAME_BYTES 64
struct rpc_conn {                          /* the door's memory in a connection */
    struct rpc_request *in_work;
    uint32_t in_work_count;
    enum rpc_overlap overlap;              /* of what is in work */
    bool hold;                             /* a produce request is not queued yet */
    bool described, ending;
    const struct rpc_listener *listener;
    struct broker_hello *hello;            /* who is on the other side, on the peer listener; else NULL */
    char software_name[RPC_NAME_BYTES], software_version[RPC_NAME_BYTES];
};

struct rpc_peer_conn { struct rpc_conn conn; struct broker_hello hello; };

struct rpc_request {
    struct rpc_request *next, *prev;       /* of the connection's, or the free list */
    struct rpc_kafka_server *server;
    struct rpc_loop *loop;
    struct ot_conn *conn;
    struct rpc_conn *door;
    struct ot_reply *reply;
    const struct rpc_api *row;
    struct ot_wire_request_header header;
    struct ot_arena arena;                 /* what is decoded, and what the answer is made of */
    const void *body;
    void *own;                             /* of the handler, in the arena */
    enum ot_err error;                     /* top error, for the counters */
    size_t charged_bytes;
    int64_t begun_us, parked_us;           /* its handler began; it returned and the answer was not there: 0 until then */
    union {
        struct broker_call any;
        struct broker_produce produce;
        struct broker_fetch fetch;
        struct broker_offsets offsets;
        struct broker_admin admin;
        struct broker_producer_id producer_id;
        struct broker_replica_dirs replica_dirs;
        struct broker_telemetry_store telemetry;
        struct broker_txn txn;
        struct broker_txn_list txn_list;
        struct broker_markers markers;
        struct broker_group_call group;
        struct broker_group_calls groups;
        struct broker_shard_topic shard_topic;
        struct broker_moves moves;
        struct broker_peer_message peer_message;
        struct broker_peer_ask peer_ask;
        struct broker_peer_rest peer_rest;
        struct broker_lag lag;
        struct broker_voter_change voter_change;
        struct broker_control control;
        struct broker_quorum quorum;
    } call;
    _Alignas(16) uint8_t first[6144];      /* the arena's first block: small requests allocate nothing */
};
static inline struct rpc_request *rpc_request_of(struct broker_call *call) { return OT_CONTAINER(call, struct rpc_request, call.any); }

/* Memory of one request beyond the first block: bounded by what a request of its size can need, and in all. */
#define RPC_ARENA_BASE_BYTES (1u << 20)
#define RPC_ARENA_FACTOR 128u
#define RPC_ARENA_MAX_BYTES (64u << 20)
#define RPC_ANSWER_ARENA_BYTES (256u << 20)    /* for answers made in one turn from the cluster's state (Metadata of everything), not from what the client sent */

struct rpc_loop { struct rpc_request *free, *handling /* its handler runs, and it is not answered yet */; uint32_t free_count; size_t charged_bytes; };
#define RPC_LOOP_ARENA_MAX_BYTES (128u << 20)  /* of what the requests in work on a loop say; above it none is begun that needs more than its context */
#define RPC_LOOP_KEPT 256u

/* Nothing of it changes once it is in the server's list. */
struct rpc_listener { struct rpc_listener *older; char *name, *advertised_host; int32_t advertised_port; struct ot_series *open, *accepted; };

struct rpc_kafka_server {
    struct broker *broker;
    bool peer;
    struct ot_net *net;
    struct ot_pool *response_pool;
    struct ot_metrics *metrics;
    struct broker_slow *slow;
    _Atomic(struct rpc_listener *) listeners;          /* newest first: of one name the first counts. They stay, since connections know them */
    uint32_t listener_count;               /* in that list */
    struct rpc_loop *loops;
    char gateway[46];                      /* of the container that we run in, or "" */
    pthread_mutex_t limits_mutex;
    struct ot_net_limits limits;               /* as last told to the net */
    struct rpc_series { struct ot_series *ok, *duration, *bytes; } series[RPC_APIS_MAX];
    _Atomic uint64_t told_copy, told_sendfile, told_cold_reads;        /* what the series have of ours */
    struct ot_series *sent_copy, *sent_sendfile, *busy, *rejected_limit, *rejected_ip, *rejected_descriptor, *cold_reads;
    pthread_mutex_t refused_mutex;         /* guards the set below */
    uint64_t refused_seen[1024];           /* hashes of what was logged: open addressing, never more than half full */
    uint32_t refused_count;
};

/* ---- dispatch.c: answers */

/* Encode and send. response is of the API's response message; splices and parts are fetch.c's own matter. */
void rpc_respond(struct rpc_request *request, const void *response);
void rpc_respond_version(struct rpc_request *request, int16_t version, const void *response);      /* ApiVersions of an unknown version */
void rpc_respond_none(struct rpc_request *request);
/* No answer can be given: close the connection behind the answers that are due. */
void rpc_reject(struct rpc_request *request, const char *why);
/* The answer was added to request->reply by the handler. */
void rpc_respond_added(struct rpc_request *request);

/* Arena memory that must be there: NULL means the arena's cap; the caller rejects. */
static inline void *rpc_alloc(struct rpc_request *request, size_t count, size_t bytes) { return ot_arena_array(&request->arena, count, bytes); }
void rpc_call_init(struct rpc_request *request, void (*done)(struct broker_call *call));
struct broker_client rpc_client(const struct rpc_request *request);
/* A null text for OK (or an empty one), else text or, when that is empty, the error's own words. */
struct ot_str rpc_error_text(enum ot_err error, const char *text);

/* ---- transactions (txn_common.c) */

/* What a client of this version knows PRODUCER_FENCED by. */
enum ot_err rpc_fenced_error(const struct rpc_request *request, enum ot_err error, int16_t since_version);
/* The call begins anew as one to the coordinator of this transactional id. */
struct coord_txn_request *rpc_txn_init(struct rpc_request *request, enum coord_txn_ask ask, struct ot_str id, void (*done)(struct broker_call *call));
/* The partition of __consumer_offsets with the offsets of this group. */
void rpc_offsets_place(const struct rpc_request *request, struct ot_str group_id, struct coord_txn_place *out);

/* ---- the rest */

/* Where clients of this connection reach this broker: trap A1. host lives as long as the connection. */
void rpc_advertised(const struct rpc_request *request, struct ot_str *host_out, int32_t *port_out);
void rpc_advertise_init(struct rpc_kafka_server *server, const struct rpc_kafka_setup *setup);
void rpc_metrics_listener(struct rpc_kafka_server *server, struct rpc_listener *listener);
/* Where they reach another broker (its endpoint of this listener's name); false: it has none there. */
bool rpc_advertised_of(const struct rpc_request *request, const struct broker_view_broker *broker, struct ot_str *host_out, int32_t *port_out);
/* Log once per client (software, version, host), API and version; count always. api NULL: the key is unknown. */
void rpc_refused(struct rpc_kafka_server *server, struct ot_conn *conn, const struct ot_wire_request_header *header);
void rpc_undecodable(struct rpc_kafka_server *server, struct ot_conn *conn, const struct ot_wire_request_header *header, const struct ot_wire_error *error);
void rpc_metrics_init(struct rpc_kafka_server *server);
void rpc_metrics_answered(struct rpc_request *request);
/* slow.c: its answer is there, now_us; kept when it took longer than ottla.slow.request.ms. */
void rpc_slow_look(struct rpc_request *request, int64_t now_us);

/* name.c; broker/groups.h for those of groups */
#define RPC_HANDLER(name) void rpc_handle_##name(struct rpc_request *request, const void *body)
RPC_HANDLER(api_versions);
RPC_HANDLER(metadata);
RPC_HANDLER(produce);
RPC_HANDLER(fetch);
void rpc_fetch_cancel(struct rpc_request *request);
RPC_HANDLER(list_offsets);
RPC_HANDLER(init_producer_id);
RPC_HANDLER(create_topics);
RPC_HANDLER(delete_topics);
RPC_HANDLER(create_partitions);
RPC_HANDLER(delete_records);
RPC_HANDLER(offset_for_leader_epoch);
RPC_HANDLER(describe_configs);
RPC_HANDLER(describe_cluster);
RPC_HANDLER(find_coordinator);
RPC_HANDLER(sasl_handshake);
RPC_HANDLER(sasl_authenticate);
RPC_HANDLER(describe_acls);
RPC_HANDLER(create_acls);
RPC_HANDLER(delete_acls);
RPC_HANDLER(alter_configs);
RPC_HANDLER(incremental_alter_configs);
RPC_HANDLER(list_config_resources);
RPC_HANDLER(alter_replica_log_dirs);
RPC_HANDLER(describe_log_dirs);
RPC_HANDLER(elect_leaders);
RPC_HANDLER(alter_partition_reassignments);
RPC_HANDLER(list_partition_reassignments);
RPC_HANDLER(describe_client_quotas);
RPC_HANDLER(alter_client_quotas);
RPC_HANDLER(describe_user_scram_credentials);
RPC_HANDLER(describe_quorum);
RPC_HANDLER(update_features);
RPC_HANDLER(describe_producers);
struct broker_client rpc_telemetry_client(const struct rpc_request *request);      /* rpc_client, with its port */
RPC_HANDLER(get_telemetry_subscriptions);
RPC_HANDLER(push_telemetry);
RPC_HANDLER(describe_topic_partitions);
RPC_HANDLER(add_partitions_to_txn);
RPC_HANDLER(add_offsets_to_txn);
RPC_HANDLER(end_txn);
RPC_HANDLER(write_txn_markers);
RPC_HANDLER(describe_transactions);
RPC_HANDLER(list_transactions);
RPC_HANDLER(txn_offset_commit);
RPC_HANDLER(join_group);
RPC_HANDLER(sync_group);
RPC_HANDLER(heartbeat);
RPC_HANDLER(leave_group);
RPC_HANDLER(offset_commit);
RPC_HANDLER(offset_fetch);
RPC_HANDLER(offset_delete);
RPC_HANDLER(describe_groups);
RPC_HANDLER(list_groups);
RPC_HANDLER(delete_groups);
RPC_HANDLER(consumer_group_heartbeat);
RPC_HANDLER(consumer_group_describe);
RPC_HANDLER(add_raft_voter);
RPC_HANDLER(remove_raft_voter);
RPC_HANDLER(unregister_broker);
RPC_HANDLER(peer_hello);
RPC_HANDLER(peer_message);
RPC_HANDLER(peer_ask);
RPC_HANDLER(peer_lag);
RPC_HANDLER(peer_rest);
void rpc_peer_rest_cancel(struct rpc_request *request);
RPC_HANDLER(peer_log_ends);
/* peer.c: asked at the right door by somebody known there, but this broker starts (its partitions and its view are not there yet) or has stopped serving: no fault of who asks, who comes again. */
bool rpc_peer_unready(const struct rpc_kafka_server *server, const struct rpc_conn *door, int16_t key);
/* Is this asked for at the right door, by somebody known there? And does the door tell of it? */
bool rpc_peer_serves(const struct rpc_kafka_server *server, const struct rpc_conn *door, int16_t key);
bool rpc_peer_lists(const struct rpc_kafka_server *server, int16_t key);
/* group_call.c: asks about groups. The call is filled but for what its kind wants beyond the request; false: no memory, the request was rejected. */
bool rpc_group_init(struct rpc_request *request, struct broker_group_call *call, enum group_ask_kind kind, struct ot_str group_id);
/* The request's own single call, answered by done. response_bytes: of the response struct, which the ask fills. */
bool rpc_group_begin(struct rpc_request *request, enum group_ask_kind kind, struct ot_str group_id, size_t response_bytes, void (*done)(struct broker_call *call));
/* A topic that a commit speaks of, by id or by name: both as far as they are known. UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION: as asked. */
enum ot_err rpc_group_topic(struct rpc_request *request, const struct broker_view *view, bool by_id, struct ot_str name, const struct ot_uuid *id, struct ot_str *name_out,
    struct ot_uuid *id_out);
void rpc_group_cancel(struct rpc_request *request);
void *rpc_group_response(struct rpc_request *request);     /* of the single call; defaults of its message when the ask never came to a group */

#endif
