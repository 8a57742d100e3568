/* GET /metrics?compat=: the names that widely used Kafka dashboards query, made from what is here. Appended to our own.
 *
 * kafka_exporter   kafka_brokers and kafka_topic_partition_*, from the metadata and the logs; kafka_consumergroup_*, from the last look at the groups
 * jmx              kafka_server_*, kafka_controller_*, kafka_network_*, kafka_log_* of the JMX exporter's usual rules, from our own series by the table below */
#include "broker/groups_watch.h"
#include "rest/compat.h"
#include "rest/topic_view.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- lines */

static void put(struct rest_json *out, const char *text) { rest_json_put(out, text, strlen(text)); }

static void head(struct rest_json *out, bool openmetrics, const char *name, const char *type, const char *help)
{
    const size_t bytes = strlen(name);
    const bool cut = openmetrics && strcmp(type, "counter") == 0 && bytes > 6 && strcmp(name + bytes - 6, "_total") == 0;
    const int shown = (int)(cut ? bytes - 6 : bytes);
    char line[400];
    snprintf(line, sizeof(line), "# HELP %.*s %s\n# TYPE %.*s %s\n", shown, name, help, shown, name, type);
    put(out, line);
}

/* A label value; names of topics need no escaping, others may. */
static void label(struct rest_json *out, const char *name, const char *value, bool first)
{
    put(out, first ? "{" : ",");
    put(out, name);
    put(out, "=\"");
    for (; *value != 0; value++) {
        if (*value == '\\' || *value == '"') put(out, "\\");
        if (*value == '\n') put(out, "\\n");
        else rest_json_put(out, value, 1);
    }
    put(out, "\"");
}

static void value_of(struct rest_json *out, double value)
{
    char text[40];
    snprintf(text, sizeof(text), value >= -9e15 && value <= 9e15 && value == (double)(int64_t)value ? " %.0f\n" : " %.15g\n", value);
    put(out, text);
}

/* ---- kafka_exporter */

enum fact { CURRENT, OLDEST, LEADER, REPLICAS, IN_SYNC, PREFERRED, UNDER, FACTS };
static const struct { const char *name, *help; } facts[FACTS] = {
    [CURRENT] = { "kafka_topic_partition_current_offset", "Current Offset of a Broker at Topic/Partition" },
    [OLDEST] = { "kafka_topic_partition_oldest_offset", "Oldest Offset of a Broker at Topic/Partition" },
    [LEADER] = { "kafka_topic_partition_leader", "Leader Broker ID of this Topic/Partition" },
    [REPLICAS] = { "kafka_topic_partition_replicas", "Number of Replicas for this Topic/Partition" },
    [IN_SYNC] = { "kafka_topic_partition_in_sync_replica", "Number of In-Sync Replicas for this Topic/Partition" },
    [PREFERRED] = { "kafka_topic_partition_leader_is_preferred", "1 if Topic/Partition is using the Preferred Broker" },
    [UNDER] = { "kafka_topic_partition_under_replicated_partition", "1 if Topic/Partition is under Replicated" },
};

/* False: not known here. */
static bool fact_value(struct rest_call *call, const struct broker_view_topic *topic, const struct broker_view_partition *row, enum fact fact, int64_t *out)
{
    struct broker_partition_state state = { 0 };
    struct broker_partition *partition;
    switch (fact) {
    case LEADER: *out = row->leader; return true;
    case REPLICAS: *out = row->replicas.count; return true;
    case IN_SYNC: *out = row->isr.count; return true;
    case PREFERRED: *out = row->replicas.count > 0 && row->leader == row->replicas.ids[0]; return true;
    case UNDER: *out = row->isr.count < row->replicas.count; return true;
    default: break;
    }
    if ((partition = broker_partition_find_id(call->broker, &topic->id, row->index)) == NULL) return false;
    broker_partition_state(partition, &state);
    broker_partition_put(partition);
    *out = fact == CURRENT ? state.high_watermark : state.log_start_offset;
    return state.open;
}

static void each_fact(struct rest_call *call, const struct broker_view *view, enum fact fact, struct ot_arena *arena)
{
    struct rest_json *out = &call->out;
    struct broker_view_topic topic;
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        char name[256], index[16];
        snprintf(name, sizeof(name), "%.*s", (int)topic.name.bytes, topic.name.data);
        for (int32_t i = 0; i < topic.partition_count; i++) {
            struct broker_view_partition row;
            int64_t value;
            ot_arena_reset(arena);
            if (!broker_view_partition(view, &topic.id, i, arena, &row) || !fact_value(call, &topic, &row, fact, &value)) continue;
            snprintf(index, sizeof(index), "%d", i);
            put(out, facts[fact].name);
            label(out, "partition", index, true);
            label(out, "topic", name, false);
            put(out, "}");
            value_of(out, (double)value);
        }
    }
}

static void each_topic(struct rest_call *call, const struct broker_view *view)
{
    struct broker_view_topic topic;
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        char name[256];
        snprintf(name, sizeof(name), "%.*s", (int)topic.name.bytes, topic.name.data);
        put(&call->out, "kafka_topic_partitions");
        label(&call->out, "topic", name, true);
        put(&call->out, "}");
        value_of(&call->out, topic.partition_count);
    }
}

enum group_fact { GROUP_OFFSET, GROUP_OFFSET_SUM, GROUP_LAG, GROUP_LAG_SUM, GROUP_MEMBERS, GROUP_FACTS };
static const struct { const char *name, *help; } group_facts[GROUP_FACTS] = {
    [GROUP_OFFSET] = { "kafka_consumergroup_current_offset", "Current Offset of a ConsumerGroup at Topic/Partition" },
    [GROUP_OFFSET_SUM] = { "kafka_consumergroup_current_offset_sum", "Current Offset of a ConsumerGroup at Topic for all partitions" },
    [GROUP_LAG] = { "kafka_consumergroup_lag", "Current Approximate Lag of a ConsumerGroup at Topic/Partition" },
    [GROUP_LAG_SUM] = { "kafka_consumergroup_lag_sum", "Current Approximate Lag of a ConsumerGroup at Topic for all partitions" },
    [GROUP_MEMBERS] = { "kafka_consumergroup_members", "Amount of members in a consumer group" },
};

static void group_line(struct rest_call *call, enum group_fact fact, const char *group, const char *topic, int32_t partition, int64_t value)
{
    char index[16];
    snprintf(index, sizeof(index), "%d", partition);
    put(&call->out, group_facts[fact].name);
    label(&call->out, "consumergroup", group, true);
    if (partition >= 0) label(&call->out, "partition", index, false);
    if (topic != NULL) label(&call->out, "topic", topic, false);
    put(&call->out, "}");
    value_of(&call->out, (double)value);
}

/* One group: a line for each partition, or for each topic the sum. */
static void each_group_part(struct rest_call *call, const struct broker_group_lags *lags, const struct broker_group_lags_group *group, enum group_fact fact)
{
    const bool sums = fact == GROUP_OFFSET_SUM || fact == GROUP_LAG_SUM, offsets = fact == GROUP_OFFSET || fact == GROUP_OFFSET_SUM;
    int64_t sum = 0;
    bool any = false;
    for (uint32_t i = group->first; i < group->first + group->count; i++) {
        const struct broker_lag_part *part = &lags->parts[i];
        const int64_t value = offsets ? part->offset : part->all.records;
        const bool last = i + 1 == group->first + group->count || part[1].topic.data != part->topic.data;
        if (!sums && value >= 0) group_line(call, fact, group->id.data, part->topic.data, part->partition, value);
        sum += OT_MAX(value, 0);
        any |= value >= 0;
        if (!last) continue;
        if (sums && any) group_line(call, fact, group->id.data, part->topic.data, -1, sum);
        sum = 0;
        any = false;
    }
}

static void each_group(struct rest_call *call, bool openmetrics)
{
    const struct broker_group_lags *lags = broker_group_lags_take(call->broker);
    for (int fact = 0; lags != NULL && fact < GROUP_FACTS; fact++) {
        head(&call->out, openmetrics, group_facts[fact].name, "gauge", group_facts[fact].help);
        for (uint32_t g = 0; g < lags->group_count; g++) {
            if (fact == GROUP_MEMBERS) group_line(call, GROUP_MEMBERS, lags->groups[g].id.data, NULL, -1, lags->groups[g].member_count);
            else each_group_part(call, lags, &lags->groups[g], (enum group_fact)fact);
        }
    }
    broker_group_lags_give(call->broker, lags);
}

void rest_compat_kafka_exporter(struct rest_call *call, bool openmetrics)
{
    struct broker_view_broker broker;
    struct ot_arena arena;
    uint8_t room[8192];
    int alive = 0;
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    const struct broker_view *view = broker_view_take(call->broker);
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &call->arena, &broker); after = broker.id) alive += !broker.fenced;
    head(&call->out, openmetrics, "kafka_brokers", "gauge", "Number of Brokers in the Kafka Cluster.");
    put(&call->out, "kafka_brokers");
    value_of(&call->out, alive);
    head(&call->out, openmetrics, "kafka_topic_partitions", "gauge", "Number of partitions for this Topic");
    each_topic(call, view);
    for (int fact = 0; fact < FACTS; fact++) {
        head(&call->out, openmetrics, facts[fact].name, "gauge", facts[fact].help);
        each_fact(call, view, (enum fact)fact, &arena);
    }
    broker_view_give(view);
    ot_arena_free(&arena);
    each_group(call, openmetrics);
}

/* ---- jmx */

/* Ours → theirs; labels: theirs for each of ours, NULL: left out (values are summed by whoever queries them). except: values of the first label that are something else there. */
static const struct { enum ot_metric metric; const char *name, *type; const char *labels[2]; const char *except[2]; } jmx[] = {
    { OT_METRIC_topic_bytes_in_total, "kafka_server_brokertopicmetrics_bytesin_total", "counter", { "topic" } },
    { OT_METRIC_topic_bytes_out_total, "kafka_server_brokertopicmetrics_bytesout_total", "counter", { "topic" } },
    { OT_METRIC_topic_records_in_total, "kafka_server_brokertopicmetrics_messagesin_total", "counter", { "topic" } },
    { OT_METRIC_topic_produce_requests_total, "kafka_server_brokertopicmetrics_totalproducerequests_total", "counter", { "topic" } },
    { OT_METRIC_topic_fetch_requests_total, "kafka_server_brokertopicmetrics_totalfetchrequests_total", "counter", { "topic" } },
    { OT_METRIC_requests_total, "kafka_network_requestmetrics_requests_total", "counter", { "request", "error" } },
    { OT_METRIC_partitions_led, "kafka_server_replicamanager_leadercount", "gauge", { NULL } },
    { OT_METRIC_partitions_hosted, "kafka_server_replicamanager_partitioncount", "gauge", { NULL } },
    { OT_METRIC_partitions_under_replicated, "kafka_server_replicamanager_underreplicatedpartitions", "gauge", { NULL } },
    { OT_METRIC_partitions_under_min_isr, "kafka_server_replicamanager_underminisrpartitioncount", "gauge", { NULL } },
    { OT_METRIC_partitions_at_min_isr, "kafka_server_replicamanager_atminisrpartitioncount", "gauge", { NULL } },
    { OT_METRIC_partitions_reassigning, "kafka_server_replicamanager_reassigningpartitions", "gauge", { NULL } },
    { OT_METRIC_isr_shrinks_total, "kafka_server_replicamanager_isrshrinks_total", "counter", { "reason" } },
    { OT_METRIC_isr_expands_total, "kafka_server_replicamanager_isrexpands_total", "counter", { "reason" } },
    { OT_METRIC_replica_max_lag_records, "kafka_server_replicafetchermanager_maxlag", "gauge", { NULL } },
    { OT_METRIC_replication_bytes_in_total, "kafka_server_brokertopicmetrics_replicationbytesin_total", "counter", { NULL } },
    { OT_METRIC_replication_bytes_out_total, "kafka_server_brokertopicmetrics_replicationbytesout_total", "counter", { NULL } },
    { OT_METRIC_preferred_replica_imbalance, "kafka_controller_kafkacontroller_preferredreplicaimbalancecount", "gauge", { NULL } },
    { OT_METRIC_controller_elections_total, "kafka_controller_controllerstats_uncleanleaderelections_total", "counter", { "type" }, { "clean", "elr" } },
    { OT_METRIC_replicas_offline, "kafka_server_replicamanager_offlinereplicacount", "gauge", { NULL } },
    { OT_METRIC_controller_active, "kafka_controller_kafkacontroller_activecontrollercount", "gauge", { NULL } },
    { OT_METRIC_cluster_offline_partitions, "kafka_controller_kafkacontroller_offlinepartitionscount", "gauge", { NULL } },
    { OT_METRIC_cluster_topics, "kafka_controller_kafkacontroller_globaltopiccount", "gauge", { NULL } },
    { OT_METRIC_cluster_partitions, "kafka_controller_kafkacontroller_globalpartitioncount", "gauge", { NULL } },
    { OT_METRIC_log_size_bytes, "kafka_log_log_size", "gauge", { "topic", "partition" } },
    { OT_METRIC_log_segments, "kafka_log_log_numlogsegments", "gauge", { "topic", "partition" } },
    { OT_METRIC_log_start_offset, "kafka_log_log_logstartoffset", "gauge", { "topic", "partition" } },
    { OT_METRIC_log_end_offset, "kafka_log_log_logendoffset", "gauge", { "topic", "partition" } },
};

struct translating { struct rest_json *out; bool openmetrics; int last; };

static bool is_except(int i, const struct ot_metric_reading *one)
{
    for (int k = 0; k < 2; k++)
        if (jmx[i].except[k] != NULL && strcmp(jmx[i].except[k], one->label_values[0]) == 0) return true;
    return false;
}

static void translate(void *arg, const struct ot_metric_reading *one)
{
    struct translating *translating = arg;
    struct rest_json *out = translating->out;
    for (int i = 0; i < (int)OT_ARRAY_COUNT(jmx); i++) {
        bool first = true;
        if (jmx[i].metric != one->metric || is_except(i, one)) continue;
        if (translating->last != i) head(out, translating->openmetrics, jmx[i].name, jmx[i].type, "As the JMX exporter names it.");
        translating->last = i;
        put(out, jmx[i].name);
        for (uint32_t k = 0; k < OT_MIN(one->info->label_count, 2u); k++) {
            if (jmx[i].labels[k] == NULL) continue;
            label(out, jmx[i].labels[k], one->label_values[k], first);
            first = false;
        }
        if (!first) put(out, "}");
        value_of(out, one->value);
    }
}

void rest_compat_jmx(struct rest_call *call, struct ot_metrics *metrics, bool openmetrics)
{
    struct translating translating = { &call->out, openmetrics, -1 };
    ot_metrics_each(metrics, translate, &translating);
}
