/* The other brokers of the cluster, as this one reaches them and they reach it (coordinator.md §10).
 *
 * A peer is known by its node id: from coordinator.voters, from the cluster's voters and brokers, or because it said hello. Connections to it are made when they are needed, and begin with
 * a hello: both sides say who they are, and where peer.secret.file is set both prove that they know it (peer_hello.c).
 *
 * thread  any, except where said. */
#ifndef OT_BROKER_PEERS_H
#define OT_BROKER_PEERS_H

#include "base/net/link.h"
#include "base/wire/peer_ask_request.h"
#include "base/wire/peer_ask_response.h"
#include "base/wire/peer_hello_request.h"
#include "base/wire/peer_hello_response.h"
#include "base/wire/peer_log_ends_request.h"
#include "base/wire/peer_log_ends_response.h"
#include "broker/call.h"

struct broker;
struct broker_peers;

struct broker_peer_setup {                     /* of broker_setup; NULL there: this broker knows no others */
    struct ot_pool *pool;                      /* what is said to peers, and their answers; outlives the broker */
    const char *host; int32_t port;            /* where they reach this broker; copied */
    const void *secret; uint32_t secret_bytes; /* of peer.secret.file; copied. 0: none */
    struct ot_exec *resolve_exec;              /* a pool */
};
/* A request of at most so many bytes has room on both sides, whatever larger ones have taken: heartbeats, hellos, votes. */
enum { BROKER_PEER_SMALL_BYTES = 65536 };
enum { BROKER_PEER_HOST_BYTES = 256, BROKER_NONCE_BYTES = 32, BROKER_PROOF_BYTES = 32 };

/* One of our own requests (keys from 10000), and the highest version of it that this build knows (coordinator/level.h). */
struct ot_api;
bool broker_peer_api_own(int16_t key);
int16_t broker_peer_api_max(const struct ot_api *api);

/* ---- calls to a peer, for anybody in broker/ */

struct broker_peer_call {                      /* the caller's memory until broker_peer_call_end */
    int32_t node_id;
    int16_t api, version;                      /* as in base/wire/apis.h; of our own requests the version is chosen here, by what the peer knows */
    const void *request;                       /* of that message; read before broker_peer_call returns */
    void *response;                            /* memory for the answer's struct */
    struct ot_arena *arena;                    /* its arrays */
    uint32_t answer_bytes_max;                 /* 0: 16 MiB */
    int64_t deadline_us;
    struct ot_exec *home; void (*done)(struct broker_peer_call *call);
    bool alone;                                /* on a connection that nobody else uses meanwhile: it may take long, and answers leave in the order asked. BUSY: all of them are in use */
    /* answered. CLOSED: not connected, or the connection broke (link.sent: it may have been done all the same); REQUEST_TIMED_OUT, BUSY, NO_MEMORY, TOO_LARGE, MALFORMED */
    enum ot_err error;
    struct ot_link_call link;
    struct broker_peers *peers; struct broker_peer_lane *lane;         /* own */
};
void broker_peer_call(struct broker *broker, struct broker_peer_call *call);
/* On home, before done ran, of a call that is alone: nobody wants it any more. The connection is closed, which tells the other side; done comes soon, with CLOSED. */
void broker_peer_call_abort(struct broker *broker, struct broker_peer_call *call);
void broker_peer_call_end(struct broker_peer_call *call);      /* after done: lets go what the response's texts and bytes point to */

/* For a link of one's own to that peer (a fetcher's, on its own ot_links): host (into host_out), port, pool and greeting. NOT_FOUND: no such peer is known; CLOSED: there are no peers. */
OT_MUST_CHECK enum ot_err broker_peer_link(struct broker *broker, int32_t node_id, char host_out[static BROKER_PEER_HOST_BYTES], struct ot_link_setup *out);
/* A request as a link takes it; NULL: no memory, or it does not encode. */
struct ot_buf *broker_peer_frame(struct ot_pool *pool, int16_t api, int16_t version, const void *request);
/* The header of an answer that a link brought; in is left at its body. MALFORMED. */
OT_MUST_CHECK enum ot_err broker_peer_answer(int16_t api, int16_t version, const struct ot_buf *answer, struct ot_arena *arena, struct ot_reader *in);

/* ---- what the peer listener brings (rpc/kafka) */

struct broker_hello {                          /* of one connection, zeroed */
    bool done;                                 /* the other side is node_id, and proved it where there is a secret */
    bool asked;
    int32_t node_id;
    uint8_t theirs[BROKER_NONCE_BYTES], ours[BROKER_NONCE_BYTES], proof[BROKER_PROOF_BYTES];
    char host[BROKER_PEER_HOST_BYTES], cluster_id[64];
    int32_t port;
};
/* Answers a hello; texts and bytes of the answer point into hello. An error: the connection is closed behind the answer. */
OT_MUST_CHECK enum ot_err broker_peer_hello(struct broker *broker, struct broker_hello *hello, const struct ot_peer_hello_request *in, struct ot_peer_hello_response *out);

/* A message of its coordinator to ours. done once it was taken in, which is before what follows from it is done. */
struct broker_peer_message { struct broker_call call; int32_t peer; struct ot_blob body; struct broker *broker; };
void broker_peer_message(struct broker *broker, struct broker_peer_message *message);

/* A request to the coordinator, which is answered here if it runs here. */
struct broker_peer_asked;
struct broker_peer_ask {
    struct broker_call call;
    int32_t peer; const struct ot_peer_ask_request *in; struct ot_arena *arena;
    struct ot_peer_ask_response out;           /* answered */
    struct broker_peer_asked *asked;
};
void broker_peer_ask(struct broker *broker, struct broker_peer_ask *ask);      /* done may run before it returns */

/* Where the logs of partitions without a leader end (survey.h). Arrays come from the arena; at once, any thread. NO_MEMORY. */
OT_MUST_CHECK enum ot_err broker_log_ends(struct broker *broker, const struct ot_peer_log_ends_request *in, struct ot_arena *arena, struct ot_peer_log_ends_response *out);

#endif
