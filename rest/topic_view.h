/* What several handlers tell about topics, partitions and configs, from one view. Private to rest/. */
#ifndef OT_REST_TOPIC_VIEW_H
#define OT_REST_TOPIC_VIEW_H

#include "rest/call.h"

struct rest_topic_sum {
    int32_t offline, under_replicated, under_min_isr, at_min_isr, not_preferred, osr_replicas, replication_factor;
    int32_t spare_for_writes, spare_for_data;  /* the least of its partitions; -1: it has none */
    int64_t size_bytes, records_estimate;      /* of what lies on this broker; asked by another one: of what it leads */
    bool rates_known; double bytes_in, bytes_out;              /* of all brokers; else those of this one are told */
};
enum rest_partition_flags { REST_PART_OFFLINE = 1, REST_PART_UNDER_MIN_ISR = 2, REST_PART_UNDER_REPLICATED = 4, REST_PART_AT_MIN_ISR = 8, REST_PART_NOT_PREFERRED = 16 };

uint32_t rest_partition_flags(const struct broker_view_partition *row);
/* How many brokers may go at once so that acks=all is still taken, and how many may be lost for good so that all that is acknowledged is still there: whoever is in the isr or the elr has it. */
int32_t rest_partition_spare_for_writes(const struct broker_view_partition *row);
int32_t rest_partition_spare_for_data(const struct broker_view_partition *row);
const char *rest_partition_state_name(uint32_t flags);         /* "offline", "under_min_isr", "under_replicated", "online" */
void rest_topic_sum(const struct rest_call *call, const struct broker_view *view, const struct broker_view_topic *topic, bool sizes, struct rest_topic_sum *out);
struct rest_topic_share;
void rest_topic_share_take(struct rest_topic_sum *sum, const struct rest_topic_share *share);      /* sizes and rates of all brokers; NULL: nobody told */
const char *rest_topic_state_name(const struct rest_topic_sum *sum);

/* One topic as a JSON object; effective: with the values that count. */
void rest_topic_write(struct rest_call *call, const char *key, const struct broker_view *view, const struct broker_view_topic *topic, const struct rest_topic_sum *sum,
    bool effective);
void rest_partition_write(struct rest_call *call, const struct broker_view *view, const struct broker_view_topic *topic, const struct broker_view_partition *row);
/* One replica as an object of its own; what is not known here is null. */
void rest_replica_write(struct rest_call *call, const struct broker_view_topic *topic, const struct broker_view_partition *row, int32_t id);
void rest_ids_write(struct rest_json *out, const char *key, struct broker_view_ids ids);
void rest_osr_write(struct rest_json *out, const char *key, const struct broker_view_partition *row);

/* Who leads it by the metadata here; -1: nobody. */
int32_t rest_partition_leader(struct broker *broker, const struct ot_uuid *topic_id, int32_t index);

/* Pages over partitions in the order of (topic, partition): the key of a token is "partition:topic". (partition_lists.c) */
struct rest_place { struct ot_str topic; int32_t partition; };        /* topic null: from the start */
struct rest_place rest_place_of(struct ot_str key);
bool rest_place_passed(const struct rest_place *after, struct ot_str topic, int32_t partition);     /* it is on a page before */
/* Of GET /v1/partitions with `which` ("state=offline", "broker=2") the page that begins where the page of the call's own list does: what brokers are asked of its items. NULL: no memory. */
const char *rest_place_target(struct rest_call *call, const char *which);

/* The topic of the path's first parameter. False: answered 404. */
bool rest_topic_find(struct rest_call *call, const struct broker_view *view, struct broker_view_topic *out);
/* Topic and partition of the path. False: answered. */
bool rest_partition_find(struct rest_call *call, const struct broker_view *view, struct broker_view_topic *topic, int32_t *index_out);

/* Configs. each(arg, value) for every key of the topic. */
void rest_topic_config_each(struct rest_call *call, const struct broker_view *view, const struct broker_view_topic *topic,
    void (*each)(void *arg, const struct broker_config_value *value), void *arg);
void rest_config_write(struct rest_json *out, const struct broker_config_value *value);
const char *rest_config_source_name(enum broker_config_source source);
const char *rest_config_type_name(enum broker_config_type type);

/* What is told of a producer of a partition. */
struct eng_producer_view;
void rest_producer_members(struct rest_json *out, const struct eng_producer_view *producer);
void rest_features_write(struct rest_json *out, const char *key, struct broker *broker);      /* name → level */
void rest_hints_write(struct rest_json *out, const struct broker_view *view);         /* what is well and could be better: an upgrade that is done and not final */

/* Bytes of a running move, by what brokers told of it ("state=reassigning"): the newcomers have so much of what the leader has. total -1: the leader did not say. (maintenance.c) */
struct rest_rows;
void rest_move_copied(const struct rest_rows *rows, const struct broker_view_topic *topic, const struct broker_view_partition *row, int64_t *done_out, int64_t *total_out);

/* What brokers hold, by the metadata: id is asked, the rest is answered. (brokers.c) */
struct rest_broker_sum { int32_t id; int leaders, replicas, osr, moving_away /* replicas that are being removed */, leaders_to_move /* another one in sync could lead that is not to step back itself */; };
void rest_broker_sums(const struct broker_view *view, struct rest_broker_sum *sums, uint32_t count);
const char *rest_broker_state_name(const struct broker_view_broker *row, const struct rest_broker_sum *sum);

/* The broker of the path's first parameter, registered; or this very one. False: answered 404. */
bool rest_broker_find(struct rest_call *call, const struct broker_view *view, struct broker_view_broker *out);
bool rest_broker_is_here(struct rest_call *call);

/* Rates of the sampler over the last ten seconds, of a topic and of the broker; false: not known yet. */
bool rest_broker_rates(struct rest_call *call, double *in_out, double *out_out);
bool rest_topic_rates(struct rest_call *call, struct ot_str topic, double *in_out, double *out_out);

/* ---- changes ---- */
struct rest_change {
    struct broker_admin admin;
    struct broker_admin_item item;
    struct rest_call *call;
    void (*then)(struct rest_change *change);  /* after success */
};
/* A change in the call's arena; NULL: answered. */
struct rest_change *rest_change_new(struct rest_call *call, enum broker_admin_kind kind, struct ot_str topic);
/* Config overrides from an object of texts and nulls into item. False: answered. */
bool rest_configs_read(struct rest_call *call, json_t *object, struct broker_admin_item *item);
/* Starts it; answers errors itself. */
void rest_change_start(struct rest_change *change, void (*then)(struct rest_change *change));

#endif
