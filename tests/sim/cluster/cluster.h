/* The simulated coordinators as a part of something larger: brokers live in the processes of the nodes, hear what those apply, ask through them, and go down with them. Without a host
 * (ottla_sim_cluster) nobody hears, and the clients of clients.c register the one broker that they need.
 *
 * Nodes are indexes here; ids are one more. Hooks are called within a call of cluster_*: of those they may call all but cluster_run_until and, within answered, cluster_node_stop. */
#ifndef OT_SIM_CLUSTER_H
#define OT_SIM_CLUSTER_H

#include "coordinator/coord.h"

struct cluster;
struct cluster_setup {
    uint64_t seed; bool verbose;
    uint32_t voter_count, node_count;          /* 0: drawn */
    int32_t min_isr; uint64_t session_us;
    double rate_spread_max;                    /* of clocks; 0: drawn */
    void *host;                                /* NULL: nobody; then no function below is called */
    void (*starts)(void *host, uint32_t node);             /* its process is to start: cluster_node_start */
    void (*stopped)(void *host, uint32_t node);            /* its process is gone; what was asked of it is never answered */
    void (*applied)(void *host, uint32_t node);
    void (*committed)(void *host, const struct coord_value *view);     /* a version that nobody had applied before */
    void (*answered)(void *host, struct coord_request *request);
};
struct cluster *cluster_new(const struct cluster_setup *setup);
void cluster_free(struct cluster *c);
void cluster_run_until(struct cluster *c, uint64_t end_us);
void cluster_calm(struct cluster *c);          /* all is mended, everybody comes back */
void cluster_quiet(struct cluster *c);         /* its own clients ask nothing more */
void check_cluster_end(struct cluster *c);
uint64_t cluster_trace(const struct cluster *c);
void cluster_print(const struct cluster *c);   /* a line of counts */

bool cluster_node_start(struct cluster *c, uint32_t node);     /* false: an observer of nothing yet; starts is called again */
void cluster_node_stop(struct cluster *c, uint32_t node, bool machine);        /* stopped is called, if it ran */
bool cluster_node_up(const struct cluster *c, uint32_t node);                  /* and has not halted */
uint64_t cluster_paused_until_us(const struct cluster *c, uint32_t node);
void cluster_pause(struct cluster *c, uint32_t node, uint64_t until_us);
void cluster_cut_off(struct cluster *c, uint32_t node);        /* from all others, until something else happens to the network */
bool cluster_lost(struct cluster *c, uint32_t from, uint32_t to);              /* what is sent now does not come */
uint64_t cluster_delay_us(struct cluster *c, uint32_t to);
const struct coord_value *cluster_view(const struct cluster *c, uint32_t node);        /* up */
int32_t cluster_leader(const struct cluster *c, uint32_t node);                /* the id, as far as that node knows; -1 */
int32_t cluster_term(const struct cluster *c, uint32_t node);
void cluster_ask(struct cluster *c, uint32_t node, struct coord_request *request);     /* up. The host's request until answered, or until that node stopped */

#endif
