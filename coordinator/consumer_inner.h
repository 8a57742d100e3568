/* Private to consumer_*.c: what a consumer group is made of, and the working copy of the member that a call is about. */
#ifndef OT_COORDINATOR_CONSUMER_INNER_H
#define OT_COORDINATOR_CONSUMER_INNER_H

#include "base/map.h"
#include "coordinator/consumer_group.h"
#include <string.h>

/* What a member said of itself. In a member all of it is one block; in a draft it is borrowed. */
struct cg_meta {
    struct ot_str instance_id, rack_id, client_id, client_host, regex /* never empty: null then */, assignor;
    struct ot_str *topics; uint32_t topic_count;               /* by name, each once */
    int32_t rebalance_timeout_ms;
    bool classic;
    int32_t session_timeout_ms;                                /* classic */
    struct coord_cg_protocol *protocols; uint32_t protocol_count;      /* classic, as they came */
};

struct cg_member {
    struct ot_str id;                                          /* behind the struct */
    struct cg_meta *meta;                                      /* NULL: known only from other records of a log that is being loaded; no member */
    bool has_current, has_target;
    int32_t epoch, previous_epoch;
    enum coord_cg_member_state state;
    struct coord_cg_parts assigned, revoking, target;
    int64_t session_due_us, rebalance_due_us, join_due_us, sync_due_us;        /* INT64_MAX: none */
};

struct cg_regex { struct ot_str *topics; uint32_t topic_count; };      /* what a regular expression stands for; one block */

struct coord_cg {
    struct ot_str id;                                          /* behind the struct */
    struct ot_mem_pool *pool;
    struct ot_map members, statics, owners, regexes;           /* id, instance id -> member; part key -> member; regex -> cg_regex */
    uint32_t member_count, classic_count;                      /* with meta */
    int32_t epoch, assignment_epoch;
    int64_t metadata_hash, assigned_ms;                        /* wall time of the target assignment; 0: compute the next one at once */
    bool has_partition_metadata;                               /* a record of Kafka before 4.0: taken away with the next change */
    /* not in records: hints that may be lost */
    int64_t seen_version, regex_names_version, regex_done_us, due_us;  /* due_us: not later than the first time-out */
    int32_t kept_epoch;                                        /* the target of this epoch did not fit into a change: the one before is kept; 0: none such */
    int64_t kept_until_us;                                     /* not tried again before, unless the epoch moves */
};

/* The member as it would be after this call. */
struct cg_draft {
    const struct cg_member *old;                               /* NULL: new */
    const struct cg_member *replaced;                          /* the static member whose place it takes, or NULL */
    struct ot_str id;
    struct cg_meta meta;
    int32_t epoch, previous_epoch;
    enum coord_cg_member_state state;
    struct coord_cg_parts assigned, revoking, target;          /* borrowed */
};
struct cg_fresh { struct cg_fresh *next; struct ot_str regex, *topics; uint32_t topic_count; };       /* resolved in this call */
struct cg_step {
    struct coord_cg *cg;
    struct coord_cg_call *call;
    struct cg_draft draft;
    struct cg_meta before;                                     /* the draft's meta before the call; is_new: there was none */
    bool is_new;
    struct cg_fresh *fresh;
    int32_t epoch, assignment_epoch;                           /* after this call */
    bool refreshed;                                            /* all regular expressions were resolved */
    bool joins;                                                /* it begins with what it says it has, and takes up nothing else at this moment */
};

/* ---- consumer_parts.c: sorted sets of partitions, in arenas */

int cg_part_order(const struct coord_cg_part *a, const struct coord_cg_part *b);       /* without the epoch */
bool cg_parts_equal(const struct coord_cg_parts *a, const struct coord_cg_parts *b);   /* epochs too */
bool cg_parts_have(const struct coord_cg_parts *parts, const struct ot_uuid *topic_id, int32_t partition, int32_t *epoch_out /* or NULL */);
bool cg_parts_meet(const struct coord_cg_parts *a, const struct coord_cg_parts *b);
bool cg_parts_within(const struct coord_cg_parts *a, const struct coord_cg_parts *b);
void cg_parts_sort(struct coord_cg_parts *parts);              /* and each once */
OT_MUST_CHECK enum ot_err cg_parts_union(struct ot_arena *arena, const struct coord_cg_parts *a, const struct coord_cg_parts *b, struct coord_cg_parts *out);
/* Room for count parts in the arena; items NULL: no memory. */
struct coord_cg_parts cg_parts_room(struct ot_arena *arena, size_t count);
OT_MUST_CHECK enum ot_err cg_parts_copy(struct coord_cg *cg, const struct coord_cg_parts *from, struct coord_cg_parts *out);      /* own memory of the group */

/* ---- consumer_group.c: members and memory */

void *cg_alloc(struct coord_cg *cg, size_t bytes);             /* zeroed and counted; NULL at the cap */
void cg_release(struct coord_cg *cg, void *block);             /* NULL is fine */
bool cg_charge(struct coord_cg *cg, size_t bytes);             /* for what maps take; false at the cap */
void cg_uncharge(struct coord_cg *cg, size_t bytes);
enum { CG_MEMBER_MAPS_BYTES = 256, CG_PART_MAP_BYTES = 96 };
struct cg_member *cg_member(const struct coord_cg *cg, struct ot_str id);      /* with meta; NULL: none */
struct cg_member *cg_static_member(const struct coord_cg *cg, struct ot_str instance_id);
const struct cg_member *cg_owner(const struct coord_cg *cg, const struct ot_uuid *topic_id, int32_t partition);
/* Sorted by id, in the arena: those with meta. NULL: no memory. */
const struct cg_member **cg_members_sorted(const struct coord_cg *cg, struct ot_arena *arena);
void cg_due(struct coord_cg *cg, int64_t *due_us, int64_t at_us);      /* set a time-out of a member */
void cg_names_sort(struct ot_str *names, uint32_t *count);     /* and each once */
bool cg_names_equal(const struct ot_str *a, uint32_t a_count, const struct ot_str *b, uint32_t b_count);
bool cg_meta_equal(const struct cg_meta *a, const struct cg_meta *b);
enum ot_err cg_error(struct coord_cg_call *call, enum ot_err err, const char *format, ...) OT_PRINTF(3, 4);
static inline struct ot_arena *cg_answers(const struct coord_cg_call *call) { return call->answers == NULL ? call->arena : call->answers; }
#define CG_S(str) (int)OT_MIN((str).bytes, 100u), (str).null ? "" : (str).data

/* ---- consumer_records.c: records to be written, and applied once all are there */

OT_MUST_CHECK enum ot_err cg_put_member(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, const struct cg_meta *meta);
OT_MUST_CHECK enum ot_err cg_put_target(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, const struct coord_cg_parts *target);
OT_MUST_CHECK enum ot_err cg_put_current(struct coord_cg *cg, struct coord_cg_call *call, const struct cg_draft *draft);
OT_MUST_CHECK enum ot_err cg_put_epoch(struct coord_cg *cg, struct coord_cg_call *call, int32_t epoch, int64_t metadata_hash);
OT_MUST_CHECK enum ot_err cg_put_assignment(struct coord_cg *cg, struct coord_cg_call *call, int32_t epoch, int64_t assigned_ms);
OT_MUST_CHECK enum ot_err cg_put_regex(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str regex, const struct ot_str *topics, uint32_t count);
OT_MUST_CHECK enum ot_err cg_put_regex_gone(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str regex);
OT_MUST_CHECK enum ot_err cg_put_partition_metadata_gone(struct coord_cg *cg, struct coord_cg_call *call);
OT_MUST_CHECK enum ot_err cg_put_member_gone(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id);   /* its three records */
/* The group's end. joining: the tombstones of the replaced member are written under its id too. */
OT_MUST_CHECK enum ot_err cg_put_gone(struct coord_cg *cg, struct coord_cg_call *call);
OT_MUST_CHECK enum ot_err cg_check_size(struct coord_cg_call *call);
OT_MUST_CHECK enum ot_err cg_apply(struct coord_cg *cg, struct coord_cg_call *call);   /* the last thing of a call: too many bytes is refused before */

/* ---- consumer_target.c: what the group subscribes to, its epoch and its target */

OT_MUST_CHECK enum ot_err cg_take_epoch(struct cg_step *step, bool bump);      /* also when the topics changed; sets step->epoch */
OT_MUST_CHECK enum ot_err cg_take_target(struct cg_step *step);                /* when it is due; sets step->assignment_epoch and the draft's target */
/* The assignor that most members ask for, without the draft and with it; and its name as things are. */
OT_MUST_CHECK enum ot_err cg_assignors(struct cg_step *step, enum coord_assignor *before_out, enum coord_assignor *after_out);
const char *cg_assignor_name(const struct coord_cg *cg, const struct coord_cg_config *config, struct ot_arena *arena);
/* The ids of the topics that the draft's member subscribes to, sorted. */
OT_MUST_CHECK enum ot_err cg_subscribed_ids(struct cg_step *step, struct ot_uuid **ids_out, uint32_t *count_out);
OT_MUST_CHECK enum ot_err cg_hash_without(struct coord_cg *cg, struct coord_cg_call *call, const struct cg_member *const *leavers, uint32_t count, int64_t *hash_out);

/* ---- consumer_regex.c */

/* Resolves what is new or due. changed_out: the draft's member changed its own. moved_out: what regular expressions stand for changed, the group epoch with it. */
OT_MUST_CHECK enum ot_err cg_take_regexes(struct cg_step *step, bool *changed_out, bool *moved_out);
/* What a regular expression stands for, fresh ones first; fresh may be NULL. None: no topics. */
void cg_regex_topics(const struct coord_cg *cg, const struct cg_fresh *fresh, struct ot_str regex, const struct ot_str **topics_out, uint32_t *count_out);
uint32_t cg_regex_users(const struct coord_cg *cg, struct ot_str regex);

/* ---- consumer_reconcile.c */

/* One step of the draft's member towards its target. owned NULL: it did not say what it has. */
OT_MUST_CHECK enum ot_err cg_reconcile(struct cg_step *step, bool subscription_changed, const struct coord_cg_parts *owned);

/* ---- consumer_heartbeat.c: who is it, who leaves */

void cg_draft_of(struct cg_step *step, const struct cg_member *member /* NULL: new */, struct ot_str id);
OT_MUST_CHECK enum ot_err cg_replace(struct cg_step *step, const struct cg_member *old, struct ot_str new_id);
/* Records of the draft's new meta, of the epoch, the target and the step towards it. */
OT_MUST_CHECK enum ot_err cg_advance(struct cg_step *step, const struct coord_cg_parts *owned);
/* Applies, and remembers what the step saw. The draft's member, or NULL with an error. */
OT_MUST_CHECK enum ot_err cg_finish(struct cg_step *step, struct cg_member **member_out);
OT_MUST_CHECK enum ot_err cg_find(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, struct ot_str instance_id, struct cg_member **out);
OT_MUST_CHECK enum ot_err cg_check_full(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, struct ot_str instance_id);
OT_MUST_CHECK enum ot_err cg_fence(struct coord_cg *cg, struct coord_cg_call *call, const struct cg_member *const *leavers, uint32_t count, enum coord_cg_event event);

/* ---- consumer_convert.c */

bool cg_would_downgrade(const struct coord_cg *cg, const struct coord_cg_call *call, const struct cg_member *const *leavers, uint32_t count);
OT_MUST_CHECK enum ot_err cg_downgrade(struct coord_cg *cg, struct coord_cg_call *call, const struct cg_member *const *leavers, uint32_t count,
    const struct cg_draft *joining, int32_t generation_id, const char *reason);

#endif
