/* What the handlers of groups share: one question after the other to the group's coordinator. Private to rest/. */
#ifndef OT_REST_GROUPS_H
#define OT_REST_GROUPS_H

#include "broker/groups.h"
#include "broker/lag.h"
#include "rest/call.h"

struct rest_group {
    struct rest_call *call;
    struct broker_group_call ask;              /* the one under way */
    struct group_view view;                    /* of the last VIEW */
    struct group_part *parts; uint32_t part_count;     /* of the last fetch of offsets */
    void (*next)(struct rest_group *job);      /* after an ask that went well */
    int64_t offsets_version;                   /* of the last fetch of all offsets */
    struct rest_group_change { enum group_ask_kind kind; struct group_part *parts; uint32_t part_count; struct ot_str member; uint64_t version; void (*next)(struct rest_group *job); } change;
    bool absent_is_fine;                       /* a group that is not there is one without offsets */
    struct broker_offsets offsets; struct broker_offsets_part *places;     /* offsets by time */
    struct broker_lag lag;                     /* of parts from the first one asked for on */
    struct broker_shard_topic topic;           /* made when the first offsets are set */
    struct ot_str group; enum group_ask_kind kind;
    void *own;
};
#define REST_GROUP_TYPES 4
extern const char *const rest_group_types[REST_GROUP_TYPES];      /* by enum group_type */

/* For the group of the path's first parameter; NULL: answered. */
struct rest_group *rest_group_new(struct rest_call *call);
/* Ask, then next(job) when it went well; else the call is answered with what went wrong. */
void rest_group_ask(struct rest_group *job, enum group_ask_kind kind, void (*next)(struct rest_group *job));
/* The group's view into job->view; its id is empty when there is no such group and absent_is_fine. */
void rest_group_view(struct rest_group *job, struct ot_str group, void (*next)(struct rest_group *job));
/* Committed offsets of a group into job->parts: all of them. */
void rest_group_fetch(struct rest_group *job, struct ot_str group, void (*next)(struct rest_group *job));
/* group_away.c: the same of a group that that broker coordinates. */
void rest_group_fetch_from(struct rest_group *job, int32_t coordinator, struct ot_str group, void (*next)(struct rest_group *job));
/* How far behind the group is at count of job->parts from first on (broker/lag.h), into job->lag; then next. */
void rest_group_lags(struct rest_group *job, uint32_t first, uint32_t count, void (*next)(struct rest_group *job));
/* The object "lag" of a group: what job->lag says of all its parts, summed. */
void rest_group_lag_write(struct rest_group *job);
/* group_change.c: an ask that changes the group, after If-Match (or its absence, when it is required) was looked at: of offsets their version, of the group and its members the
 * generation. If-None-Match: * lets only offsets be set that nothing is committed for. */
void rest_group_change(struct rest_group *job, enum group_ask_kind kind, struct group_part *parts, uint32_t part_count, void (*next)(struct rest_group *job));
/* The ends of the logs of these partitions into job->lag.parts, in that order, whoever leads them (error: why they are not known); then next. */
void rest_group_ends(struct rest_group *job, const struct group_part *parts, uint32_t count, void (*next)(struct rest_group *job));
/* The member that was given the partition, by the group's view; null: nobody. */
struct ot_str rest_group_owner(struct rest_group *job, struct ot_str topic, int32_t partition);
/* The topics that a member says it subscribes to; names are borrowed from the arena. 0: it says none, or cannot be read. */
uint32_t rest_group_subscribed(struct rest_group *job, const struct group_view_member *member, const struct ot_str **topics_out);
/* Calls each for what a member was given. */
void rest_group_given(struct rest_group *job, const struct group_view_member *member, void (*each)(void *arg, struct ot_str topic, int32_t partition), void *arg);

#endif
