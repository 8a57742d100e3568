/* The whole in one process: coordinators over their journals (cluster/), in the same processes brokers with the real append lane, replica machines, fetchers and logs (server.h), producers and
 * consumers, one network, two disks each. A process that stops takes both of its halves down. What is checked of the coordinators is in cluster/check.c, of replicas in replication/check.c, which looks
 * at arrays that follow each log record by record. One seed, one trace. */
#ifndef OT_SIM_WHOLE_WORLD_H
#define OT_SIM_WHOLE_WORLD_H

#include "../cluster/cluster.h"
#include "../replication/batches.h"
#include "../replication/world.h"
#include "server.h"

/* A question to the coordinator under way. of: what the server asked, whose copy this is; NULL: the host's, or an operator's. */
struct passed {
    struct ask ask;
    struct coord_request *of;
    struct coord_alter items[PARTITIONS]; struct coord_member members[PARTITIONS * COORD_REPLICAS_MAX];
    struct coord_lost losses[PARTITIONS];
    struct coord_report reports[PARTITIONS];
    uint32_t from, at;                         /* the node that passes it on, and the one that has it; BROKERS_MAX: none yet, or no more */
    struct passed *next, *prev;
};
struct link {                                  /* a fetch of a follower under way */
    struct ot_link_call *call;                 /* NULL: who asked is gone */
    uint32_t from, to; uint64_t to_life;
    struct ot_buf *bytes;
    struct whole *whole;
    struct link *next, *prev;
};
struct mirror { bool seen /* in this life */, cutting, machine /* crashed since it was seen */; int64_t was /* its end before a cut that failed: up to there its files may have all of it still */; };
struct host {                                  /* what a process has besides its node and w.brokers[i] */
    struct whole *whole; uint32_t index;
    struct server *server;
    enum replica_class class_;
    uint64_t started_us, apply_due_us;
    struct coord_request *asked;               /* the server's question under way */
    struct mirror mirrors[PARTITIONS];
    bool dir_missing;
};
struct sender { int64_t producer_id; int32_t sequence; uint32_t losses /* as many had been told when it began */; bool busy; uint64_t number, again_us; };
struct consumer { int64_t offset; bool busy; };
enum { IDS_MAX = 1 << 16 };
struct taken { bool is, late /* another one had written in a later epoch by then */; int32_t epoch; int64_t offset; };
struct whole {
    struct world w;                            /* first */
    struct cluster *cluster;
    struct ot_pool *pool;
    struct host hosts[BROKERS_MAX];
    struct passed *passed;
    struct link *links;
    struct sender senders[PARTITIONS];
    struct consumer consumers[PARTITIONS];
    struct taken *taken;                       /* by id: where its leader had it first */
    uint32_t once_at[PARTITIONS];              /* whom acks=1 is asked of: who took the last one, often */
    struct { uint32_t broker, partition; uint64_t until_us; } stranded;        /* who led and is left behind; clients have not heard of it */
    uint32_t steps_max;                        /* of a server in 5 ms */
    uint64_t seen_by_consumers, puts, deletions, next_delete_us;
};
static inline struct whole *whole_of(struct world *w) { return (struct whole *)(void *)w; }

/* host.c */
void host_start(struct whole *whole, uint32_t index);
void host_crash(struct whole *whole, uint32_t index, bool machine);
void host_leaves(struct whole *whole, uint32_t index);     /* it hands over, and stops when it may */
void host_event(struct whole *whole, struct event *event);
void host_look(struct whole *whole, uint32_t index);       /* what is due, and as many steps as it may make */
void hosts_hooks(struct whole *whole, struct cluster_setup *setup);
void host_free(struct host *host);
/* asks.c */
void asks_of_stopped(struct whole *whole, uint32_t node);
void ask_came(struct whole *whole, struct event *event);
void ask_told(struct whole *whole, struct passed *passed);
void ask_here(struct whole *whole, struct coord_request *request);
void host_asks(struct whole *whole, struct host *host, struct coord_request *request);
/* mirror.c */
void mirror_look(struct whole *whole, uint32_t index);
/* clients.c */
void client_asks_once(struct whole *whole, uint32_t partition, uint32_t index);        /* acks=1, of that broker */
void clients_look(struct whole *whole);

#endif
