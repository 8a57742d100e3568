/* A whole cluster in one process: real coordinators over their real journals on simulated disks, a network that loses, doubles, delays, reorders, flips bits and parts, receivers and
 * disks that are slow, disks that fill up and fail, clocks that run at different rates, nodes of builds that know different feature levels, nodes that stop, pause, lose their page cache, the tail of their journal, a bit of it, or their whole folder.
 * Which of these there are, and how much of them, is drawn for each seed. One seed, one exact trace. */
#ifndef OT_SIM_CLUSTER_WORLD_H
#define OT_SIM_CLUSTER_WORLD_H

#include "base/map.h"
#include "broker/journal.h"
#include "../common/campaign.h"
#include "cluster.h"
#include "../disk.h"

enum { NODES_MAX = 8, CLIENTS = 12, EVENTS_MAX = 16384, JOBS_MAX = 8, COMMITS_MAX = 1 << 15, TOPICS_MAX = 4096, TERMS_MAX = 1 << 14, BLOCKS_MAX = 1 << 16, SNAPSHOT_AFTER_BYTES = 192 << 10, BUILDS_NEWEST = 3 };


struct job { uint64_t token; bool sync; struct coord_record record; bool whole; };
struct node {
    int32_t id;
    bool observer, learner;                    /* learner: not on the list; joins */
    bool up, wiped /* with a new folder, not readmitted */, halted;
    uint64_t life;
    struct ot_uuid dir_id; uint32_t dir_number;
    struct sim_disk *disk;
    struct coord_pages *pages;
    struct broker_journal journal;
    struct coord *coord;
    double rate; uint64_t clock_base_us, clock_start_us;       /* its clock: base + (now - start) * rate */
    uint64_t paused_until_us, slow_until_us /* its network */, disk_slow_until_us, disk_fails_until_us;
    struct job jobs[JOBS_MAX]; uint32_t job_first, job_count; bool job_busy;
    struct coord_format format; char cluster_id[64];
    struct { uint64_t token; struct coord_snapshot result; char name[40]; struct broker_journal_mark mark; bool written; } snapshot;
    /* what its disk is known to hold */
    int32_t durable_term, durable_vote; struct coord_stamp durable_accepted; uint64_t last_record_pos; bool last_is_accept;
    int32_t damaged_term;                      /* its journal lost an acceptance; -1 no doubt */
    bool torn;                                 /* perhaps: it stopped with a record that no sync had seen, and has not started since */
    bool rotten; uint8_t term_rotten;          /* a bit of journal or snapshot is another one since it stopped; of these copies of its term, since that was written */
    struct coord_stamp applied; bool leading;
    struct coord_levels levels;                /* that its build knows; zero: those of this program */
};
/* What this seed has of each kind of fault; none of most, so that a few kinds meet each other more often. */
struct swarm {
    bool parts, strikes, power, pauses, slow_nets, slow_disks, disk_faults, wipes, damages, storms;
    bool rots;                                 /* a bit of journal, snapshot or term is another one: it is said, and the voter comes back empty, or nothing is missing */
    bool builds;                               /* nodes of several builds, up and down at each start, and somebody who raises the feature level */
    bool refounds;                             /* beyond what any majority stands: all founders but one lose everything. Nobody may found a second cluster beside the one that is left */
    bool outlives;                             /* a coordinator takes itself for one while another one follows: in one seed of sixteen, so that the others are what they were */
    double flips, kills_at_store, rate_spread;
};
enum event_kind { EVENT_FREE, EVENT_MESSAGE, EVENT_JOB, EVENT_START, EVENT_SNAPSHOT };
struct event { enum event_kind kind; uint64_t at_us, order, life; uint32_t node, from; uint64_t token; uint8_t *body; uint32_t bytes; };

struct client {
    struct coord_request request; bool busy; uint32_t node; uint64_t life;
    char name[32]; int64_t acked_before; struct ot_uuid dir_id; int32_t led_before;    /* the latest term that somebody led when it asked */
};
struct commit { int32_t term; uint64_t hash; };
struct publication { uint64_t hash, base_hash; bool has_base; };
struct voters { int32_t ids[COORD_VOTERS_MAX]; struct ot_uuid dirs[COORD_VOTERS_MAX]; uint32_t count; };
struct topic { char name[32]; struct ot_uuid id; };

struct cluster {
    struct cluster_setup setup;
    struct ot_rng rng, build_rng, rot_rng /* of their own, so that a seed without builds or rot is what it was */;
    uint64_t now_us, order, trace;
    struct node nodes[NODES_MAX]; uint32_t node_count, voter_count;    /* the first voter_count are on the list */
    struct event *events; uint32_t event_count;        /* heap by (at, order) */
    bool cut[NODES_MAX][NODES_MAX];            /* from, to */
    double drop, twice, slow;
    struct swarm swarm; bool refounded;
    bool changes_voters;                       /* by the seed: voters come and go, or memories get lost; both at once may be more than any majority stands */
    uint64_t client_gap_us; double slow_max;   /* busy or idle, quick or slow networks: by the seed */
    bool calm;                                 /* faults are over */
    struct client clients[CLIENTS];
    uint64_t next_fault_us, next_client_us;
    uint32_t names;
    /* what is known to be true */
    int32_t leader_of[TERMS_MAX], led_term;    /* led_term: the latest whose coordinator has begun */
    struct commit *commits; int64_t commit_max;
    struct ot_map publications, votes;
    struct voters voters;                      /* by the last committed value */
    struct topic *topics; uint32_t topic_count;
    int64_t acked_version; bool blocks[BLOCKS_MAX];
    char founded_as[64];
    uint64_t acked, unknown, refused, elections, flips, disk_failures, crashes, wipes, damages, rots, rots_told, wholes, snapshots, voters_changes, reads, publications_count, raises, raises_refused, levels_unknown;
    uint64_t acked_at_calm;
    uint32_t verbose, idle_ticks;
};

/* net.c */
void cluster_event(struct cluster *w, struct event event);
bool cluster_event_next(struct cluster *w, uint64_t before_us, struct event *out);
void cluster_send(struct cluster *w, uint32_t from, uint32_t to, struct ot_blob body);
void cluster_faults(struct cluster *w);              /* something goes wrong, or is mended */
bool cluster_in_doubt(const struct cluster *w);       /* a memory is gone, or may be */
bool cluster_misses_one(const struct cluster *w);     /* a voter's folder is gone, or will be with its next start, and no other one is in its place yet */
void cluster_swarm(struct cluster *w);
extern bool cluster_refounds, cluster_outlives;       /* by flag */
/* node.c */
void node_starts(struct cluster *w, struct node *node);         /* by its host, if there is one */
void node_start(struct cluster *w, struct node *node);
void node_stop(struct cluster *w, struct node *node, bool machine);
void node_wipe(struct cluster *w, struct node *node);
void node_rebuild(struct cluster *w, struct node *node);         /* the next start is of another build, perhaps; when all is calm, of the newest */
void node_step(struct cluster *w, struct node *node, struct coord_in in);
void node_job(struct cluster *w, struct node *node);
void node_snapshot_end(struct cluster *w, struct node *node);
uint64_t node_deadline_us(const struct cluster *w, const struct node *node);
struct node *node_by_id(struct cluster *w, int32_t id);
/* clients.c */
void client_ask(struct cluster *w);
void client_answered(struct cluster *w, struct node *node, struct coord_request *request);
void clients_of_stopped(struct cluster *w, const struct node *node);
/* check.c */
void check_send(struct cluster *w, struct node *node, const struct coord_out *out);
void check_store(struct cluster *w, struct node *node, const struct coord_record *record);
void check_apply(struct cluster *w, struct node *node, const struct coord_out *out);
void check_leading(struct cluster *w, struct node *node);
void check_bounds(struct cluster *w, const struct node *node);
void check_begin(const struct cluster *w, const struct node *node, const struct coord_disk_image *image);

#endif
