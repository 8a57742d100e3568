/* Private: consumer groups of the new protocol (consumer_group.h) inside the container of groups. group_consumer.c has asks of the new protocol, time and records,
 * group_consumer_classic.c the classic protocol's asks for such a group and the conversions. */
#ifndef OT_COORDINATOR_GROUP_CONSUMER_H
#define OT_COORDINATOR_GROUP_CONSUMER_H

#include "coordinator/consumer_group.h"
#include "coordinator/group_inner.h"

struct consumer {
    struct coord_cg *cg;
    struct group *group;
    struct ot_timer timer;
    uint32_t moved;                            /* partitions given since the rebalance began */
    uint32_t members;                          /* when the timeline was last looked at */
};
/* One call into a coord_cg: its configuration and topics in place. */
struct consumer_step { struct coord_cg_call call; struct coord_cg_config config; struct coord_cg_topics topics; };

extern const struct group_ops group_consumer_ops;
extern const struct group_ops group_lost_ops;  /* of a group whose body went when there was no memory for the next: the step has failed, the set is about to be closed */
static inline struct consumer *consumer_of(const struct group *group) { return group->body; }
void consumer_step_init(struct consumer_step *step, struct group_set *set, struct ot_str group_id, struct ot_arena *answers /* NULL: of the step */);
/* A body around cg, which it then owns; the group has none. false: no memory, nothing changed. */
bool consumer_begin(struct group *group, struct coord_cg *cg);
/* The records of a call that went well into this step; timers, timeline; or the group becomes classic. */
void consumer_took(struct group *group, struct consumer_step *step, struct ot_str member, struct ot_str client);
/* What to answer for an error of a call (and what the shard must do about it). */
enum ot_err consumer_error(struct group_set *set, struct consumer_step *step, enum ot_err err, bool of_the_state);
/* The words of a call, in the ask's arena. */
void consumer_words(struct group_ask *ask, const struct consumer_step *step);

/* ---- group_consumer_classic.c */
/* What a classic group is, for coord_cg_from_classic; NULL: no memory. Its words are the group's own. */
struct coord_cg_classic *consumer_export(const struct group *group, struct ot_arena *arena);
/* The group's body is gone already; it becomes classic as told. On no memory the step fails. */
void consumer_import(struct group *group, const struct coord_cg_classic *classic);
void consumer_join(struct group *group, struct group_ask *ask);
void consumer_sync(struct group *group, struct group_ask *ask);
void consumer_heartbeat(struct group *group, struct group_ask *ask);
void consumer_leave(struct group *group, struct group_ask *ask);

#endif
