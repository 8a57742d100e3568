/* A consistent view of the committed cluster state, for Metadata, Describe… and REST.
 *
 * A view is a snapshot (copy-on-write pages of the coordinator's value): take it, read it within one turn, give it back. Rows point into the view's pages and live
 * as long as it. Any thread; never blocks for long. */
#ifndef OT_BROKER_VIEW_H
#define OT_BROKER_VIEW_H

#include "base/arena.h"

struct broker;
struct broker_view;
const struct broker_view *broker_view_take(struct broker *broker);
void broker_view_give(const struct broker_view *view);

struct broker_view_cluster { struct ot_str cluster_id; int32_t controller_id; int32_t term; int64_t version; int32_t this_broker;
    int16_t level /* ottla.version that is final */; int64_t forced_ms /* wall time at which voters were forced: metadata may have been lost then; 0 never */; };
void broker_view_cluster(const struct broker_view *view, struct broker_view_cluster *out);

struct broker_view_endpoint { struct ot_str listener, host /* null: as the client reached it */; int32_t port; struct ot_str security; };
struct broker_view_broker { int32_t id; int64_t epoch; bool fenced, stopping, draining /* in maintenance */, leaving /* decommissioned */; struct ot_str rack; int16_t level_min, level_max /* of ottla.version, that its build knows */;
    struct ot_str release /* of its build; null: it did not say, or the level has no room for it */; const struct broker_view_endpoint *endpoints; uint32_t endpoint_count; };
/* Next row after `after` (start with INT32_MIN); false at the end. scratch memory for arrays comes from the arena. */
bool broker_view_next_broker(const struct broker_view *view, int32_t after, struct ot_arena *arena, struct broker_view_broker *out);

/* What operators asked of a broker of that id, as in its row. */
bool broker_view_draining(const struct broker_view *view, int32_t id);
bool broker_view_leaving(const struct broker_view *view, int32_t id);
uint32_t broker_view_marked(const struct broker_view *view, bool leaving);     /* how many drain, or leave */

/* Is this broker a voter of the coordinator? Its directory, and where its peers reach it. */
struct broker_view_voter { struct ot_uuid dir_id; struct ot_str host; int32_t port; };
bool broker_view_voter(const struct broker_view *view, int32_t id, struct broker_view_voter *out);

struct broker_view_topic { struct ot_uuid id; struct ot_str name; bool internal; int32_t partition_count; int64_t created_ms; int64_t version; /* metadata offset of its last change */ };
bool broker_view_topic(const struct broker_view *view, struct ot_str name, struct broker_view_topic *out);
bool broker_view_topic_by_id(const struct broker_view *view, const struct ot_uuid *id, struct broker_view_topic *out);
bool broker_view_next_topic(const struct broker_view *view, struct ot_str after, struct broker_view_topic *out);    /* in name order; null: the first */
/* The topic's own settings (overrides), as zero-terminated texts in the arena, as broker_topic_config_describe takes them. 0: none, or no such topic. */
uint32_t broker_view_topic_configs(const struct broker_view *view, const struct ot_uuid *topic_id, struct ot_arena *arena, const char *const **keys_out,
    const char *const **values_out);
int64_t broker_view_topic_count(const struct broker_view *view);
int64_t broker_view_partition_count(const struct broker_view *view);

struct broker_view_ids { const int32_t *ids; int32_t count; };
struct broker_view_partition {
    int32_t index, leader /* -1 none */, leader_epoch, partition_epoch, min_isr;
    int32_t successor;                         /* to whom its leader is handing over; -1 nobody */
    int32_t last_leader, last_leader_epoch;    /* while nobody leads: who did; -1 not known */
    struct broker_view_ids replicas, isr, elr, offline, adding, removing;
    bool goes_back;                            /* a move was cancelled, and those that are to go are needed a while yet */
};
bool broker_view_partition(const struct broker_view *view, const struct ot_uuid *topic_id, int32_t index, struct ot_arena *arena,
    struct broker_view_partition *out);
/* Who leads it; -1: nobody does now. False: there is no such partition. */
bool broker_view_leader(const struct broker_view *view, struct ot_str topic, int32_t partition, int32_t *leader_out);

/* Overrides, in name order; after null: the first. A topic's version is in its row, a broker's (-1: cluster default) here; 0 when nothing was ever set. */
struct broker_view_config { struct ot_str name, value; };
bool broker_view_next_topic_config(const struct broker_view *view, const struct ot_uuid *topic_id, struct ot_str after, struct broker_view_config *out);
bool broker_view_next_broker_config(const struct broker_view *view, int32_t broker_id, struct ot_str after, struct broker_view_config *out);
/* The same of what has a name and configs, and is nothing else to the cluster: groups, client metrics subscriptions. And those that have any, in no particular order
 * (after null: the first; false: no more). */
enum broker_view_named { BROKER_VIEW_GROUP, BROKER_VIEW_CLIENT_METRICS };
bool broker_view_next_named_config(const struct broker_view *view, enum broker_view_named kind, struct ot_str name, struct ot_str after, struct broker_view_config *out);
bool broker_view_next_named(const struct broker_view *view, enum broker_view_named kind, struct ot_str after, struct ot_str *name_out);
int64_t broker_view_named_config_version(const struct broker_view *view, enum broker_view_named kind, struct ot_str name);
int64_t broker_view_broker_config_version(const struct broker_view *view, int32_t broker_id);

#endif
