/* The coordinator of a cluster's metadata as a state machine: what happened comes in, what is to be done comes out.
 *
 * No clock, thread, socket, file or random source of its own, and no malloc after coord_new but pages from the capped pool. Outputs form an ordered queue; an
 * answer, a message or an applied state is not in it before the record that it rests on was reported stored. One publication is in flight at a
 * time; requests that come meanwhile wait and are merged into the next one (group commit: one delta, one fsync).
 *
 * Voters elect one of them for a term (pre-vote, then a vote that is on disk before it is given); it alone makes the next values and publishes each as a delta on the
 * committed one; a majority of the committed and of the new voters having it on disk, it is committed. A voter keeps the committed value and at most one
 * accepted delta on top of it; a new coordinator's first publication repeats what it had accepted. Nodes that are no voters follow by asking for
 * what was committed (peer.h has the messages). One voter alone wins every term that it begins, without waiting for anything but its disk.
 *
 * thread  one. Values shared from coord_view may be read on any thread and are dropped on this one.
 * owner   in: borrowed during the step, but a request from coord_step until its COORD_REPLY. out: borrowed until the next coord_step; a record until
 *         its token was answered. */
#ifndef OT_COORDINATOR_COORD_H
#define OT_COORDINATOR_COORD_H

#include "coordinator/peer.h"
#include "coordinator/record.h"
#include "coordinator/rows.h"

#define COORD_TEXT_MAX 200

/* ---- requests: compare-and-set on rows, answered after commit ---- */

enum coord_ask {
    COORD_ASK_REGISTER, COORD_ASK_HEARTBEAT, COORD_ASK_CREATE_TOPIC, COORD_ASK_DELETE_TOPIC, COORD_ASK_CREATE_PARTITIONS, COORD_ASK_CONFIGS,
    COORD_ASK_PRODUCER_IDS, COORD_ASK_DURABLE, COORD_ASK_VOTERS, COORD_ASK_READ,
    COORD_ASK_ALTER, COORD_ASK_ELECT, COORD_ASK_REASSIGN, COORD_ASK_FENCE, COORD_ASK_UNREGISTER, COORD_ASK_RESIGN,
    COORD_ASK_LOST, COORD_ASK_PREFER, COORD_ASK_LEVEL
};
enum coord_boot { COORD_BOOT_CLEAN, COORD_BOOT_PROCESS_CRASH, COORD_BOOT_MACHINE_CRASH };

struct coord_endpoint { struct ot_str name, host /* null: as reached */; int32_t port; struct ot_str security; };
/* §7. New broker_epoch, fenced, out of every isr; out of elr too after a machine crash, with markers of an older life, or with a directory missing. The same incarnation again: its endpoints and release are noted, nothing else. */
struct coord_register {
    int32_t broker_id;
    struct ot_uuid incarnation_id;
    const struct ot_uuid *dir_ids; uint32_t dir_count;         /* a directory of the last registration that is not among them is missing */
    enum coord_boot boot_class;
    int64_t stopped_epoch;                                     /* broker_epoch that its clean markers name; 0: they were not looked at, or there is none. Any but the last that served: as after a machine crash */
    const struct coord_endpoint *endpoints; uint32_t endpoint_count;
    struct ot_str rack;                                        /* null: none */
    struct coord_levels levels;                                /* that its build knows; zero: as this one. UNSUPPORTED_VERSION: the final one is not among them */
    struct ot_str release;                                     /* of its build; null: it does not say */
};
/* broker_epoch not current: STALE_BROKER_EPOCH. Unfences once applied_version has reached the registration, and the fencing if there was one since. */
struct coord_heartbeat {
    int32_t broker_id; int64_t broker_epoch, applied_version;
    bool want_fence;
    bool want_shutdown;                                        /* once is for good: it is given nothing more to lead. Again, when that was applied: others lead, and it is in no isr where
                                                                * others are. Said while the others in sync have all that this broker answered acks=1 for. See may_stop */
};
/* How long a broker whose heartbeat was sent then and answered knows that nobody was made leader in its place for its silence, by its own clock: 85 % of its session. The coordinator takes
 * it for gone after 95 %, counted from when it heard, so that others lead within the session; clocks may differ by a tenth. The answer is given once a majority has
 * answered something that was sent after the heartbeat came: so a coordinator that others have followed without its knowledge gives none. What an operator moves, the leader hands over itself. */
uint64_t coord_lease_end_us(uint64_t sent_us, uint64_t session_us);
/* A broker is taken for gone: its session ended (the coordinator's own doing), or its process is known to have died. broker_epoch not current: nothing. */
struct coord_fence_ask { int32_t broker_id; int64_t broker_epoch; };
/* A fenced broker that holds no replica is forgotten. */
struct coord_unregister_ask { int32_t broker_id; };

/* AlterPartition (§7): a leader says who is in sync. error of each: FENCED_LEADER_EPOCH, NOT_CONTROLLER (this coordinator is behind), INVALID_UPDATE_VERSION (partition
 * epoch), INELIGIBLE_REPLICA, INVALID_REQUEST, UNKNOWN_TOPIC_ID. A refusal ends that proposal, if and only if term names the coordinator that refused. */
struct coord_member { int32_t broker_id; int64_t broker_epoch; };
struct coord_alter {
    struct ot_uuid topic_id; int32_t partition, leader_epoch, partition_epoch;     /* answered: the new epochs */
    const struct coord_member *members; uint32_t member_count;                 /* the isr that is proposed */
    enum coord_handover handover;
    enum ot_err error;
};
struct coord_alter_ask {
    int32_t broker_id; int64_t broker_epoch;
    int32_t term;                                              /* of the coordinator that it is sent to: another one refuses it with NOT_CONTROLLER */
    int64_t sequence;                                          /* grows with each one that the broker sends: one that comes late, after a younger one, is refused as a whole */
    struct coord_alter *items; uint32_t count;
};
/* This broker's replica of these is no good any more: its directory failed, or a batch in it is damaged. Out of isr and elr, another one leads if there is one, and the leader epoch is
 * renewed in any case, so that nothing that was fetched into the old log counts for the next one. error of each: INVALID_UPDATE_VERSION (partition epoch), UNKNOWN_TOPIC_ID,
 * INVALID_REQUEST (no replica of it, or the only one: there is nobody to get it from). */
struct coord_lost { struct ot_uuid topic_id; int32_t partition, partition_epoch; enum ot_err error; };
struct coord_lost_ask { int32_t broker_id; int64_t broker_epoch; struct coord_lost *items; uint32_t count; };
/* Preferred leaders: of each partition the first replica, if it is in sync. A leader that lives is told to hand over (row.successor), so that what acks=1 acknowledged is not lost:
 * answered OK, the election is under way, and the row tells how it ends. error of each: ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION. */
struct coord_prefer { struct ot_uuid topic_id; int32_t partition; int32_t leader /* answered: who is to lead */; enum ot_err error; };
struct coord_prefer_ask { struct coord_prefer *items; uint32_t count; };
/* An unclean election of the candidate, which contest.h chose: the row is still as it was then (partition_epoch, INVALID_UPDATE_VERSION), and whoever answered
 * lives the same life (INELIGIBLE_REPLICA), for a log may be empty since. CRASH: isr and elr are empty and all of last_members are among those who answered. */
struct coord_elect_ask {
    struct ot_uuid topic_id; int32_t partition;
    int32_t candidate, partition_epoch;
    enum coord_loss loss; int64_t loss_from;
    const struct coord_member *answers; uint32_t answer_count;
};
struct coord_reassign_ask { struct ot_uuid topic_id; int32_t partition; const int32_t *target /* NULL: cancel */; int32_t count; };

struct coord_assignment { int32_t partition; const int32_t *brokers; int32_t broker_count; };
struct coord_config_change { struct ot_str name, value /* null: remove */; };
struct coord_topic_ask {                                       /* CREATE_TOPIC, DELETE_TOPIC, CREATE_PARTITIONS */
    struct ot_str name;                                        /* valid as a name already; null (DELETE): by topic_id */
    struct ot_uuid topic_id;
    int32_t partition_count;                                   /* CREATE_PARTITIONS: the new total */
    int32_t replication_factor;                                /* -1: min(3, live brokers) */
    const struct coord_assignment *assignments; uint32_t assignment_count;     /* instead of both; CREATE_PARTITIONS: of the new ones, in order */
    const struct coord_config_change *configs; uint32_t config_count;          /* checked already */
    bool internal;
    int64_t created_ms;
};
struct coord_configs_ask {
    struct coord_scope scope;                                  /* of a topic: by topic_id, or by name when that is zero */
    struct ot_str topic;
    const struct coord_config_change *changes; uint32_t change_count;
    bool replace_all;                                          /* what is not named is removed */
};
/* The feature level (level.h) becomes this one. INVALID_UPDATE_VERSION: it would go down, or a registered broker (fenced ones too), a voter or this coordinator does not know it, or a voter
 * has not said in this term what it knows. */
struct coord_level_ask { int16_t level; };
struct coord_producer_ids_ask { int32_t count; };
/* A leader says that its fsync class holds for all that is committed (§7); class NONE: it left the class. error of each: FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION (partition epoch, or eligible
 * replicas were not asked), UNKNOWN_TOPIC_ID; UNSUPPORTED_VERSION: it was not looked at (a coordinator of an older build, broker/peer_ask.c). The error of a single one is that of the request. */
struct coord_report { struct ot_uuid topic_id; int32_t partition, leader_epoch, partition_epoch; enum coord_durable class_; enum ot_err error; };
struct coord_durable_ask { int32_t broker_id; int64_t broker_epoch; struct coord_report *items; uint32_t count; };
/* One voter added, removed, or (add and remove with the same id) come back with another directory. The newcomer must follow already and give its vote in this term:
 * until then REQUEST_TIMED_OUT, ask again. */
struct coord_voters_ask {
    bool add, remove;
    int32_t id; struct ot_uuid dir_id; struct ot_str host; int32_t port;       /* add */
    int32_t remove_id;
};
/* The coordinator steps down and does not stand for a while, so that another one is elected. ELIGIBLE_LEADERS_NOT_AVAILABLE: no other voter is heard. Another node than the one that leads:
 * that one leads no more, which is what was asked for. So an answer that was lost does not make the next coordinator resign too. */
struct coord_resign_ask { int32_t node_id; /* who is meant; -1: whoever leads */ };
/* COORD_ASK_READ changes nothing: once answered, coord_view holds all that was acknowledged to anybody before it was asked. */

struct coord_request {
    struct coord_request *next;                                /* the coordinator's until COORD_REPLY */
    enum coord_ask ask;
    bool validate_only;
    int64_t if_version;                                        /* MISMATCH unless this is the version of the topic or config scope; -1: any */
    union {
        struct coord_register register_; struct coord_heartbeat heartbeat; struct coord_topic_ask topic; struct coord_configs_ask configs;
        struct coord_producer_ids_ask producer_ids; struct coord_durable_ask durable; struct coord_voters_ask voters;
        struct coord_alter_ask alter; struct coord_elect_ask elect; struct coord_reassign_ask reassign; struct coord_fence_ask fence;
        struct coord_unregister_ask unregister; struct coord_lost_ask lost; struct coord_prefer_ask prefer; struct coord_level_ask level;
        struct coord_resign_ask resign;
    } u;
    int64_t round;                                             /* the coordinator's */
    /* answered. CLOSED: the coordinator stopped or was replaced, and whether the change happened is not known. NOT_CONTROLLER: nothing happened, ask `leader` */
    enum ot_err error;
    struct ot_uuid topic_id;
    int32_t partition_count, replication_factor;
    int64_t version;                                           /* that shows the effect; REGISTER: the broker_epoch */
    int64_t producer_id_first;
    int32_t leader;                                            /* NOT_CONTROLLER: who leads, as far as is known; -1 */
    bool may_stop;                                             /* HEARTBEAT that wants to shut down: everything was moved, and every live broker knows */
    bool fenced;                                               /* HEARTBEAT */
    uint64_t session_us;                                       /* HEARTBEAT: after what part of it (see coord_lease_end_us) this coordinator takes the silent for gone; 0: never, or it does not say */
    bool dir_missing;                                          /* REGISTER: a directory of an earlier registration is not among these */
    char text[COORD_TEXT_MAX];
};

/* ---- the machine ---- */

struct coord_listed_voter { int32_t id; struct ot_str host; int32_t port; };
struct coord_config {
    int32_t node_id;
    struct ot_uuid dir_id;                                     /* voter identity is (node id, dir id) */
    struct ot_str cluster_id;                                  /* for founding; else checked against the disk */
    struct ot_str voter_host; int32_t voter_port;
    int32_t min_isr_default;                                   /* min.insync.replicas where nobody sets it */
    int64_t partitions_max;
    uint32_t brokers_max;
    uint32_t delta_bytes_max;                                  /* of one publication */
    uint64_t snapshot_after_bytes;                             /* of journal, or the size of a snapshot if that is more; 0: 64 MiB */
    /* Who founds the cluster, or whom to ask for it; none, or this node alone: founds alone. The lowest id founds, once all say that they are blank. */
    struct coord_listed_voter voters[COORD_VOTERS_MAX]; uint32_t voter_count;
    bool join;                                                 /* a blank node does not found, but becomes part of the cluster of those voters */
    bool observer;                                             /* follows without folder: stores nothing, never votes */
    uint64_t election_timeout_us, heartbeat_us;                /* 0: 1 s, 100 ms */
    uint64_t session_us;                                       /* a broker not heard of for 95 % of it is fenced; 0: never */
    uint64_t history_bytes;                                    /* of committed deltas kept for those behind; 0: 4 MiB */
    struct coord_levels levels;                                /* zero: coord_levels_known. Simulations have nodes of several builds in one process */
};
/* What the disk holds, put together from its records in order. */
struct coord_disk_image {
    struct coord_pages *pages;
    bool blank;                                                /* nothing was ever written: found a cluster */
    struct coord_format format;
    struct coord_term term;
    bool unsure;                                               /* the last record was damaged: torn, or accepted and rotten (§4) */
    struct coord_value committed;
    bool has_accepted; struct coord_accept accepted;           /* accepted on top of committed, fate unknown */
    uint64_t journal_bytes;                                    /* since the last snapshot */
    char cluster_id[64]; uint8_t *delta; uint32_t delta_cap_bytes;     /* what format and accepted point to; owned */
};
void coord_image_init(struct coord_disk_image *image, struct coord_pages *pages);      /* blank */
/* A record of the journal (the driver loads what a SNAPSHOT names into committed, and sets term). An ACCEPT on top of the accepted one says that that one was
 * committed; one on the same base replaces it. CORRUPT: it does not follow, or its result has another hash; text_out gets words. */
OT_MUST_CHECK enum ot_err coord_image_take(struct coord_disk_image *image, const struct coord_record *record, char *text_out, size_t text_bytes);
void coord_image_free(struct coord_disk_image *image);         /* with a committed value that nobody took */
struct coord;
/* The committed value is taken out of the image.
 * NO_MEMORY; MISMATCH: the disk belongs to another node, directory or cluster; CORRUPT: the accepted delta does not fit; UNSUPPORTED_VERSION: this build does not know its
 * feature level. text_out gets words;
 * the image is as before. */
OT_MUST_CHECK enum ot_err coord_new(const struct coord_config *config, struct coord_disk_image *image, uint64_t seed, struct coord **out,
    char *text_out, size_t text_bytes);
void coord_free(struct coord *coord);                          /* NULL is fine */

enum coord_in_kind { COORD_TICK, COORD_MSG, COORD_STORED, COORD_STORE_FAILED, COORD_REQUEST, COORD_PEER_LOST, COORD_STOP /* answers every request with CLOSED; nothing happens after it */ };
struct coord_in {
    enum coord_in_kind kind;
    uint64_t now_us;
    uint32_t peer;                                             /* MSG, PEER_LOST: node id */
    uint64_t token;                                            /* STORED, STORE_FAILED */
    enum ot_err error;                                         /* STORE_FAILED. NO_SPACE: the record was cut off again, whole; else it may be there in part */
    struct coord_request *request;
    struct ot_blob body;                                       /* MSG */
};
enum coord_out_kind { COORD_SEND, COORD_STORE, COORD_SNAPSHOT, COORD_APPLY, COORD_ROLE, COORD_REPLY, COORD_HALT };
struct coord_out {
    enum coord_out_kind kind;
    uint32_t peer;
    uint64_t token;                                            /* STORE, SNAPSHOT: report it back */
    bool sync;                                                 /* STORE: on the disk before STORED; else at leisure */
    const struct coord_record *record;                         /* STORE: TERM goes to meta.term, all else to meta.journal */
    struct coord_stamp stamp;                                  /* APPLY, SNAPSHOT: of the value; ROLE: term */
    const struct coord_value *value;                           /* SNAPSHOT: what to write; share it */
    struct ot_blob delta;                                      /* APPLY */
    bool whole;                                                /* APPLY: there is no delta, the view as a whole is new */
    struct ot_blob body;                                       /* SEND to peer (a node id). It may be lost: what matters is sent again */
    bool leading; int32_t leader;                              /* ROLE: this node leads; who leads, -1 unknown */
    struct coord_request *request;                             /* REPLY */
    enum ot_err error; const char *text;                       /* HALT */
};
/* Never blocks, never fails: COORD_HALT instead (UNSUPPORTED_VERSION: the cluster is at a feature level that this build does not know), after which nothing but CLOSED replies comes out. Drain coord_next before the next step. */
void coord_step(struct coord *coord, const struct coord_in *in);
bool coord_next(struct coord *coord, struct coord_out *out);
uint64_t coord_deadline_us(const struct coord *coord);         /* when the next COORD_TICK is due; UINT64_MAX: never. 0: at once (the first) */
const struct coord_value *coord_view(const struct coord *coord);       /* the committed image; share it to keep it */
/* The version that every live broker has applied, as far as this node, which leads, has heard. Those that stop and those that are silent (a node that lives says what it has several times
 * a second) do not count. INT64_MAX where there are no others, and where this node does not lead: it knows nothing of them. */
int64_t coord_told_version(const struct coord *coord);
int32_t coord_term(const struct coord *coord);
int32_t coord_leader(const struct coord *coord);               /* -1: not known */
struct ot_str coord_cluster_id(const struct coord *coord);     /* none before founding or joining */
/* Voters of a value, at most COORD_VOTERS_MAX. */
uint32_t coord_voters_of(const struct coord_value *value, int32_t *ids_out, struct ot_uuid *dirs_out /* may be NULL */);
/* While this node leads: when a voter answered a heartbeat of this term last, and the version that it had committed then. False: it did not, or is no voter, or is this node. */
bool coord_voter_heard(const struct coord *coord, int32_t id, uint64_t *heard_us_out, int64_t *version_out);
uint64_t coord_hash(const struct coord *coord);                /* of all inputs and outputs so far: same seed, same trace */

#endif
