/* Private to broker/: what peers.c, peer_hello.c and the coordinator's driver share. */
#ifndef OT_BROKER_PEERS_INNER_H
#define OT_BROKER_PEERS_INNER_H

#include "broker/peers.h"
#include "coordinator/coord.h"
#include <pthread.h>

enum broker_peer_kind { BROKER_PEER_MESSAGES, BROKER_PEER_ASKS, BROKER_PEER_CALLS, BROKER_PEER_KINDS };   /* a connection each: none waits behind the others */
enum { BROKER_PEERS_MAX = 2048, BROKER_SECRET_BYTES_MAX = 4096, BROKER_PEER_LANES = 32, BROKER_PEER_APIS = 6 /* of our own, keys from 10000 */ };

struct broker_peer_lane { struct ot_link *link; struct broker_peer_call *call; };      /* guarded by the mutex; call NULL: free */

struct broker_peer {
    struct broker_peers *peers;
    int32_t id;
    char host[BROKER_PEER_HOST_BYTES]; int32_t port;           /* guarded by the mutex */
    char row_host[BROKER_PEER_HOST_BYTES]; int32_t row_port;   /* as the cluster's rows said last */
    char other_host[BROKER_PEER_HOST_BYTES]; int32_t other_port;       /* where it was said to be otherwise: tried when it is not found */
    uint32_t misses;                                           /* of the links' loop: tries in vain, one after the other */
    struct ot_link *links[BROKER_PEER_KINDS];                  /* NULL: not needed yet */
    struct broker_peer_lane lanes[BROKER_PEER_LANES];          /* connections of calls that are alone, kept for the next one */
    _Atomic bool lost;                                         /* its connection broke, and none was made since */
    _Atomic bool elsewhere;                                    /* a hello named other_host while the connection was up */
    _Atomic bool dead;                                         /* and its machine says that nobody listens there any more */
    _Atomic bool failing;                                      /* said so in the log */
    _Atomic int versions[BROKER_PEER_APIS];                    /* in which it is asked, of each (peer_versions.c) */
};
struct broker_peers {
    struct ot_links *links;
    struct ot_pool *pool;
    int32_t node_id, port;
    char host[BROKER_PEER_HOST_BYTES];
    uint8_t secret[BROKER_SECRET_BYTES_MAX]; uint32_t secret_bytes;
    pthread_mutex_t mutex;
    char cluster_id[64];                                       /* "": none yet */
    struct broker_peer *all[BROKER_PEERS_MAX]; uint32_t count; /* ascending ids; never freed before the end */
    bool stopped;
    void (*gone)(void *arg, int32_t node_id); void *gone_arg;  /* on the links' loop: its process is known to have died */
};

OT_MUST_CHECK enum ot_err broker_peers_new(const struct broker_peer_setup *setup, int32_t node_id, struct broker_peers **out);
void broker_peers_stop(struct broker_peers *peers);            /* every call is answered with CLOSED, new ones too. NULL is fine */
void broker_peers_free(struct broker_peers *peers);            /* after stop; waits for the links. NULL is fine */
/* From the list, or (hello) from the peer itself. */
void broker_peers_address(struct broker_peers *peers, int32_t id, struct ot_str host, int32_t port, bool hello);
void broker_peers_rows(struct broker_peers *peers, const struct coord_value *value);   /* addresses of voters and brokers */
void broker_peers_cluster(struct broker_peers *peers, struct ot_str cluster_id);
void broker_peers_send(struct broker_peers *peers, int32_t id, enum broker_peer_kind kind, struct ot_link_call *call);
void broker_peers_tell_dead(struct broker_peers *peers);       /* gone() again for all that are known to be, on the caller's thread */
void broker_peers_hang_up(struct broker_peers *peers, enum broker_peer_kind kind);     /* what is under way there is answered with CLOSED */
uint32_t broker_peers_up(struct broker_peers *peers);          /* peers with a connection for messages */
void broker_peers_missing(struct broker_peers *peers, char *out, size_t out_bytes);       /* ids of those without, as "2,3"; cut where there is no more room */

struct broker_peer *broker_peers_find(const struct broker_peers *peers, int32_t id);      /* mutex held; NULL: not known */

/* peer_versions.c */
int16_t broker_peers_version(struct broker_peers *peers, int32_t id, int16_t key);         /* of one of our own requests to it */
enum ot_err broker_peer_versions_ask(uint8_t *out, uint32_t cap_bytes, uint32_t *bytes_out);
/* MALFORMED; UNSUPPORTED_VERSION: there is a request that both know and no version of it, which was logged. */
enum ot_err broker_peer_versions_heard(struct broker_peer *peer, const uint8_t *answer, uint32_t answer_bytes, struct ot_arena *arena);

/* peer_hello.c */
enum ot_err broker_peer_greet(void *arg, void *memory, const uint8_t *answer, uint32_t answer_bytes, uint8_t *out, uint32_t cap_bytes, uint32_t *bytes_out);

#endif
