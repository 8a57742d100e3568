/* Private to coordinator/: the machine's state, and its files.
 *
 *   coord.c     making, outputs, surface          asks.c      requests into a delta
 *   publish.c   publication, acceptance, commit   vote.c      terms, votes, heartbeats
 *   catchup.c   history, changes, whole values    founding.c  the first start of several voters
 *   members.c   who votes, and what is known of them
 *   raise.c     the feature level: who knows it, and how it goes up */
#ifndef OT_COORDINATOR_STATE_H
#define OT_COORDINATOR_STATE_H

#include "base/util.h"
#include "coordinator/bug.h"
#include "coordinator/coord.h"
#include "coordinator/election.h"

enum coord_phase {
    COORD_PHASE_NEW, COORD_PHASE_BLANK /* several voters, not founded */, COORD_PHASE_FOLLOWER, COORD_PHASE_PRE_VOTE, COORD_PHASE_CANDIDATE,
    COORD_PHASE_FIRST /* won; its first publication is not committed */, COORD_PHASE_LEADING, COORD_PHASE_HALTED
};
/* What the one STORE that is waited for is about. While it is under way, messages that need another one are dropped: they come again. */
enum coord_storing { COORD_STORING_NOTHING, COORD_STORING_FORMAT, COORD_STORING_TERM, COORD_STORING_OWN, COORD_STORING_ACCEPT, COORD_STORING_CHANGES, COORD_STORING_WHOLE };
enum {
    COORD_OUTS_MAX = 4096, COORD_SCRATCH_BYTES = 32768, COORD_FORMER_NAMES_MAX = 1024, COORD_DELETED_MAX = 1024, COORD_LEARNERS_MAX = COORD_VOTERS_MAX, COORD_PEERS_MAX = 5 * COORD_VOTERS_MAX /* voters of two values, and of the two before, and learners */,
    COORD_HISTORY_MAX = 1024, COORD_READERS_MAX = 4, COORD_ROWS_BYTES = 64 << 10
};
struct coord_requests { struct coord_request *first, *last; };

/* A node that votes by the committed value or by the one after it, or asks to (a learner). */
struct coord_peer {
    int32_t id;
    struct ot_uuid dir_id;
    bool in_committed, in_next;
    bool knows_dir;                            /* false: listed, not founded yet; any directory */
    /* of this term */
    bool pre_voted, joined, unsure, has_accepted /* the publication in flight */;
    struct coord_mark committed;               /* as it last said */
    int64_t round, publish_round;              /* answered; when the publication was sent last */
    uint64_t heard_us;
    struct coord_levels levels;                /* that it knows, by what it said in this term; zero: nothing yet */
};
/* The acceptance on top of committed. */
struct coord_accepted { bool has; struct coord_value value; struct ot_blob delta; };
struct coord_history_entry { struct coord_mark base, result; uint64_t pos; uint32_t bytes; };
struct coord_reader { int32_t peer; uint64_t used_us; struct coord_value value; };     /* somebody reads the whole of a value; peer -1: free */
struct coord_session {
    int32_t id;
    uint64_t heard_us;
    int64_t applied_version, broker_epoch, alter_sequence, fenced_version;
    int64_t lives_epoch;                       /* heard of with this broker epoch, if only by its registration, and not taken for gone since; -1 */
    bool moved;
    uint64_t said_us; int64_t said_version;    /* as its node said last what it has committed: with each of its questions and acknowledgements, which come sooner than heartbeats of the broker */
};
struct coord_parked { int32_t peer; struct coord_mark committed; uint64_t since_us; struct coord_levels levels; };

struct coord {
    struct coord_config config;
    char cluster_id[64], voter_host[256];
    struct coord_listed_voter listed[COORD_VOTERS_MAX]; char listed_hosts[COORD_VOTERS_MAX][256];
    uint64_t cluster, list_hash;
    struct coord_pages *pages;
    enum coord_phase phase;
    bool blank;                                /* no FORMAT on disk */
    uint64_t now_us;
    struct coord_term term;                    /* on disk */
    int32_t joined_term;                       /* since the start: the term that this process may lead */
    int32_t term_seen;                         /* highest anybody spoke of */
    int32_t leader; uint64_t leader_heard_us;
    struct coord_value committed, next;        /* next: of the publication in flight or in the making, or being accepted */
    struct coord_accepted accepted;            /* on disk */
    struct coord_mark let_go;                  /* was accepted, and given up for the same content under an older name (publish.c): whoever has less is not as new as this node */
    int32_t accepted_from;
    int16_t level;                             /* feature level of committed */
    struct coord_stamp committed_heard;        /* the coordinator said that this is committed while it was on its way to the disk here */
    bool in_flight;                            /* leader: next is published and not committed */
    struct coord_voters { int32_t ids[COORD_VOTERS_MAX]; int32_t count; } committed_voters;
    struct coord_peer peers[COORD_PEERS_MAX]; uint32_t peer_count;
    bool alone;                                /* this node is the only voter there is */
    int64_t version_used;                      /* highest version of any publication of this term or before, failed ones included */
    struct coord_delta deltas[2];              /* in turns: the one accepted or applied last stays readable while the next is made */
    uint32_t delta_at;
    struct coord_requests waiting, merged, answered, reads;
    bool voters_change;                        /* in the publication in the making */
    uint64_t votes_missed_us;                  /* leader: since when a change of voters lacks votes of this term; 0: none does */
    bool stands_again;                         /* leader: in a new term it may have them */
    enum coord_storing storing;
    struct coord_term term_storing; struct coord_mark changes_result; struct coord_stamp base_storing;
    uint64_t token_last, token_waited, storing_since_us;       /* of the STORE that is waited for */
    uint64_t snapshot_token, lazy_token;       /* 0: none under way */
    uint64_t journal_bytes;                    /* since the last snapshot */
    uint64_t commit_due_us;                    /* when a COMMIT record is to be written; UINT64_MAX: it is written, or nothing to commit */
    /* votes and heartbeats */
    uint64_t election_due_us, heartbeat_due_us, led_since_us;
    uint32_t failed_rounds;
    int64_t round, read_round, round_asked;    /* of the last heartbeat; of the last that reads wait for; whose answers are counted just now */
    /* catching up */
    uint64_t catch_up_due_us; uint32_t catch_up_turn;
    struct coord_value whole; struct coord_mark whole_mark; uint8_t whole_key[COORD_KEY_BYTES_MAX]; uint32_t whole_key_bytes; bool whole_any;
    struct coord_history_entry history[COORD_HISTORY_MAX]; uint32_t history_first, history_count;
    uint8_t *history_data; uint64_t history_cap, history_end;
    uint8_t *deltas_room;                      /* several deltas as one */
    struct coord_reader readers[COORD_READERS_MAX];
    struct coord_parked *parked; uint32_t parked_count, parked_max;
    /* founding */
    bool founder, founded /* all have promised */, joins; uint64_t found_due_us; uint32_t found_yes;
    int32_t format_for;                        /* who is told when FORMAT is stored; -1 nobody */
    struct ot_uuid found_dirs[COORD_VOTERS_MAX]; struct coord_levels found_levels[COORD_VOTERS_MAX];

    struct coord_record store;                 /* of the last STORE */
    struct coord_record lazy;                  /* a COMMIT, not waited for */
    struct coord_out *outs;
    uint32_t outs_max, out_first, out_count;
    uint8_t *bodies; uint64_t bodies_cap, bodies_used;     /* of the SENDs of this step */
    char halt_text[COORD_TEXT_MAX];
    struct coord_live_broker *brokers;         /* as of next */
    int32_t *fenced_ids;                       /* of a turn that fences */
    struct coord_live live; uint64_t live_hash; bool live_known;       /* of the value with that hash */
    uint32_t *order;
    struct coord_session *sessions; uint32_t session_count; uint64_t sessions_due_us;
    struct coord_request fence_request; bool fencing;          /* the coordinator's own */
    uint8_t *scratch;
    struct ot_rng rng, clock_rng;              /* for ids; for time-outs */
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
enum ot_err coord_ask_voters(struct coord_turn *turn);
enum ot_err coord_ask_alter(struct coord_turn *turn);
enum ot_err coord_ask_elect(struct coord_turn *turn);
enum ot_err coord_ask_prefer(struct coord_turn *turn);
enum ot_err coord_ask_reassign(struct coord_turn *turn);
enum ot_err coord_ask_fence(struct coord_turn *turn);
enum ot_err coord_ask_unregister(struct coord_turn *turn);
enum ot_err coord_ask_lost(struct coord_turn *turn);
enum ot_err coord_ask_level(struct coord_turn *turn);

/* sessions.c: who was heard of, in memory only. */
void coord_session_heard(struct coord *coord, const struct coord_heartbeat *ask);
void coord_session_fenced(struct coord *coord, int32_t id, int64_t version);
bool coord_session_over(struct coord *coord, int32_t id);              /* it was not heard of for a session */
void coord_session_registered(struct coord *coord, int32_t id, int64_t broker_epoch);
void coord_session_gone(struct coord *coord, int32_t id);              /* its process is */
bool coord_session_lives(struct coord *coord, int32_t id, int64_t broker_epoch);          /* also one that is fenced: it has just registered, or is behind */
bool coord_session_knows(struct coord *coord, const struct coord_heartbeat *ask);         /* has it applied that it was fenced, as far as it was */
/* A broker that stops leads nothing, and is in no isr where others are: the rows were seen so. */
void coord_session_set_moved(struct coord *coord, int32_t id);
bool coord_session_moved(struct coord *coord, int32_t id);
bool coord_session_in_order(struct coord *coord, int32_t id, int64_t broker_epoch, int64_t sequence);
void coord_session_came(struct coord *coord, int32_t id, int64_t sequence);    /* and what was sent before it is out of order from here on */
void coord_sessions_begin(struct coord *coord);            /* everybody has a full session from here */
void coord_sessions_slept(struct coord *coord, uint64_t due_us, uint64_t before_us);       /* when it was to be stepped next, and when it was before */
void coord_sessions_tick(struct coord *coord);
uint64_t coord_sessions_deadline_us(const struct coord *coord);
bool coord_all_applied(const struct coord *coord, int64_t version);    /* every live broker, but those that stop */
void coord_session_said(struct coord *coord, int32_t id, int64_t version);     /* a node has committed that */

/* brokers.c: the table of live brokers, from coord->next. */
enum ot_err coord_live_load(struct coord *coord);
/* topics.c: what is left of the memory for metadata is for deleting, which needs copies too, and for what brokers and leaders have to say: nothing that grows without bound may use it. */
bool coord_memory_is_short(const struct coord *coord);
/* configs.c: effective min.insync.replicas of a topic (NULL: of a new one without overrides). */
int32_t coord_min_isr(const struct coord *coord, const struct coord_value *value, const struct ot_uuid *topic_id);

/* coord.c */
void coord_trace(struct coord *coord, uint64_t word);
struct coord_out *coord_push(struct coord *coord, enum coord_out_kind kind);
void coord_store(struct coord *coord, enum coord_storing what);        /* coord->store, synced */
void coord_store_term(struct coord *coord, int32_t term, int32_t voted_for);
void coord_halt(struct coord *coord, enum ot_err error, const char *text);
void coord_requests_add(struct coord_requests *list, struct coord_request *request);
struct coord_request *coord_requests_take(struct coord_requests *list);
void coord_answer_all(struct coord *coord, struct coord_requests *list, enum ot_err error, const char *text);
void coord_send(struct coord *coord, int32_t peer, struct coord_message *message);     /* sender, dir, cluster, term and leader are filled in */
void coord_set_cluster_id(struct coord *coord, struct ot_str id);
struct coord_mark coord_mark_of(const struct coord_value *value);
struct coord_mark coord_accepted_mark(const struct coord *coord);      /* of what is on disk: accepted, else committed */

/* asks.c: what waits becomes rows of next. */
void coord_merge_waiting(struct coord *coord);

/* members.c */
void coord_members_load(struct coord *coord);  /* after committed, accepted or next changed */
struct coord_peer *coord_peer_find(struct coord *coord, int32_t id, const struct ot_uuid *dir_id);     /* NULL: not the one we know by that id */
struct coord_peer *coord_peer_self(struct coord *coord);               /* NULL: no voter */
bool coord_majority(const struct coord *coord, bool (*counts)(const struct coord *coord, const struct coord_peer *peer));  /* of the committed and of the next voters */
void coord_learner_note(struct coord *coord, const struct coord_message *message);
void coord_learner_want(struct coord *coord, int32_t id, const struct ot_uuid *dir_id);        /* it is to vote: it is noted from here on, whoever else follows */

/* vote.c */
void coord_vote_start(struct coord *coord);
void coord_vote_tick(struct coord *coord);
uint64_t coord_vote_deadline_us(const struct coord *coord);
void coord_vote_message(struct coord *coord, const struct coord_message *message);
void coord_term_stored(struct coord *coord);
void coord_follow(struct coord *coord, int32_t leader);                /* gives up whatever it was */
void coord_heartbeat(struct coord *coord, bool new_round);
bool coord_adopt_term(struct coord *coord, const struct coord_message *message, bool leads);   /* true: go on with the message; else it comes again */
void coord_reads_start(struct coord *coord);
void coord_resign(struct coord *coord, struct coord_request *request);  /* while it leads */

/* publish.c */
void coord_start_publication(struct coord *coord, bool first);
void coord_send_publish(struct coord *coord, struct coord_peer *peer);
void coord_publish_message(struct coord *coord, const struct coord_message *message);
void coord_publication_stored(struct coord *coord, enum coord_storing what);
void coord_maybe_commit(struct coord *coord);
void coord_commit_accepted(struct coord *coord);                       /* it is known to be committed */
void coord_changes_accept(struct coord *coord, const struct coord_message *message);
void coord_drop_next(struct coord *coord);
void coord_maybe_snapshot(struct coord *coord);

/* catchup.c */
void coord_history_add(struct coord *coord, const struct coord_mark *base, struct ot_blob delta);      /* led to committed */
void coord_history_clear(struct coord *coord);
void coord_catch_up_ask(struct coord *coord, int32_t peer);
void coord_catch_up_next(struct coord *coord);             /* without a vote: for the next change, before there is one */
void coord_catch_up_tick(struct coord *coord);
void coord_catch_up_message(struct coord *coord, const struct coord_message *message);
void coord_parked_serve(struct coord *coord);
void coord_whole_stored(struct coord *coord);
void coord_whole_drop(struct coord *coord);

/* raise.c */
bool coord_level_knows(struct coord *coord, int16_t level);    /* false: it halted, with words */
int16_t coord_level_of_founders(struct coord *coord);           /* the newest that all know; 0: there is none */

/* founding.c */
void coord_founding_start(struct coord *coord);
void coord_founding_tick(struct coord *coord);
void coord_founding_message(struct coord *coord, const struct coord_message *message);
void coord_format_stored(struct coord *coord);

#endif
