#include "rest/route.h"
#include "base/util.h"
#include "rest/handlers.h"
#include <stdio.h>
#include <string.h>

#define TOPIC "/v1/topics/{topic}"
#define PARTITION TOPIC "/partitions/{partition}"
#define BROKER "/v1/brokers/{broker}"
#define FETCH_FORM "as,key_as,value_as,value_limit_bytes"

#define REGISTRY "all,watch,wait_ms,limit,page_token"
#define GROUP "/v1/groups/{group}"
static const struct rest_route routes[] = {
    { REST_GET, "/v1", "getIndex", rest_index_get, 0, NULL, "what is served here" },
    { REST_GET, "/v1/version", "getVersion", rest_version_get, REST_LOCAL, NULL, "build and protocol versions" },
    { REST_GET, "/v1/cluster", "getCluster", rest_cluster_get, REST_META, NULL, "the cluster in a few numbers" },
    { REST_GET, "/v1/cluster/health", "getClusterHealth", rest_cluster_health, REST_META, NULL, "named checks with their offenders" },
    { REST_GET, "/v1/cluster/config", "getClusterConfig", rest_cluster_config, REST_META, NULL, "what is set for all brokers" },
    { REST_PATCH, "/v1/cluster/config", "patchClusterConfig", rest_cluster_config_patch, REST_WRITE | REST_JSON_BODY | REST_DRY, NULL, "merge defaults for all brokers and topics; null takes one back" },
    { REST_GET, "/v1/cluster/features", "getFeatures", rest_features_get, REST_META, NULL, "feature levels" },
    { REST_PATCH, "/v1/cluster/features", "patchFeatures", rest_features_patch, REST_WRITE | REST_JSON_BODY | REST_DRY, "allow_downgrade", "feature levels up, or down" },
    { REST_GET, "/v1/brokers", "listBrokers", rest_brokers_list, REST_LIST | REST_META, NULL, "registered brokers" },
    { REST_GET, "/v1/brokers/{broker}", "getBroker", rest_broker_get, REST_META, NULL, "one broker" },
    { REST_DELETE, "/v1/brokers/{broker}", "forgetBroker", rest_broker_forget, REST_WRITE | REST_DRY, NULL, "forget a dead broker that holds nothing" },
    { REST_POST, "/v1/cluster/controller/resign", "resignController", rest_controller_resign, REST_WRITE | REST_DRY, NULL, "hand the controller's role to another voter" },
    { REST_GET, BROKER "/maintenance", "getMaintenance", rest_maintenance_get, REST_META, NULL, "is it drained of leadership" },
    { REST_PUT, BROKER "/maintenance", "startMaintenance", rest_maintenance_put, REST_WRITE | REST_DRY, NULL, "drain leadership away and keep it away" },
    { REST_DELETE, BROKER "/maintenance", "endMaintenance", rest_maintenance_delete, REST_WRITE | REST_DRY, NULL, "let it lead again" },
    { REST_GET, BROKER "/decommission", "getDecommission", rest_decommission_get, REST_META, NULL, "how far its replicas have moved away" },
    { REST_PUT, BROKER "/decommission", "startDecommission", rest_decommission_put, REST_WRITE | REST_DRY, NULL, "move every replica to others" },
    { REST_DELETE, BROKER "/decommission", "cancelDecommission", rest_decommission_delete, REST_WRITE | REST_DRY, NULL, "it stays, with what it still holds" },
    { REST_GET, BROKER "/restart-check", "getRestartCheck", rest_restart_check, REST_META, NULL, "would it hurt if it stopped now" },
    { REST_GET, "/v1/brokers/{broker}/config", "getBrokerConfig", rest_broker_config, REST_META | REST_AT_BROKER, NULL, "every broker key with value and source" },
    { REST_PATCH, "/v1/brokers/{broker}/config", "patchBrokerConfig", rest_broker_config_patch, REST_WRITE | REST_JSON_BODY | REST_DRY | REST_AT_BROKER, NULL, "merge settings of one broker; null inherits" },
    { REST_GET, "/v1/brokers/{broker}/partitions", "listBrokerPartitions", rest_broker_partitions, REST_LIST | REST_META, "topic", "replicas that it holds" },
    { REST_GET, "/v1/brokers/{broker}/loggers", "getLoggers", rest_loggers_get, REST_AT_BROKER, NULL, "log levels" },
    { REST_PATCH, "/v1/brokers/{broker}/loggers", "patchLoggers", rest_loggers_patch, REST_WRITE | REST_JSON_BODY | REST_DRY | REST_AT_BROKER, NULL, "log levels, until the process ends" },
    { REST_GET, "/v1/brokers/{broker}/connections", "listConnections", rest_broker_connections, REST_LIST | REST_AT_BROKER, NULL, "client connections" },
    { REST_DELETE, "/v1/brokers/{broker}/connections/{connection}", "closeConnection", rest_connection_close, REST_WRITE | REST_DRY | REST_AT_BROKER, NULL, "close one" },
    { REST_GET, "/v1/brokers/{broker}/log-dirs", "listBrokerLogDirs", rest_broker_log_dirs, REST_LIST | REST_AT_BROKER, NULL, "log directories of one broker" },
    { REST_GET, "/v1/log-dirs", "listLogDirs", rest_log_dirs, REST_LIST, NULL, "log directories" },
    { REST_GET, "/v1/losses", "listLosses", rest_losses_list, REST_LIST, NULL, "what is lost, or may be, and what was kept of it" },
    { REST_GET, "/v1/topics", "listTopics", rest_topics_list, REST_LIST | REST_META, "internal,state,prefix,sort,with", "topics" },
    { REST_POST, "/v1/topics", "createTopic", rest_topic_create, REST_WRITE | REST_JSON_BODY | REST_DRY | REST_ONCE, NULL, "create a topic" },
    { REST_GET, "/v1/topics/id/{topic_id}", "getTopicById", rest_topic_get_by_id, REST_META, NULL, "one topic, by its id" },
    { REST_GET, TOPIC, "getTopic", rest_topic_get, REST_META, NULL, "one topic" },
    { REST_DELETE, TOPIC, "deleteTopic", rest_topic_delete, REST_WRITE | REST_DRY, NULL, "delete a topic and its records" },
    { REST_GET, TOPIC "/config", "listTopicConfig", rest_topic_config_list, REST_META, NULL, "every topic key with value and source" },
    { REST_PATCH, TOPIC "/config", "patchTopicConfig", rest_topic_config_patch, REST_WRITE | REST_JSON_BODY | REST_DRY, NULL, "merge overrides; null inherits" },
    { REST_GET, TOPIC "/config/{name}", "getTopicConfig", rest_topic_config_get, REST_META, NULL, "one key" },
    { REST_PUT, TOPIC "/config/{name}", "putTopicConfig", rest_topic_config_put, REST_WRITE | REST_JSON_BODY | REST_DRY, NULL, "override one key" },
    { REST_DELETE, TOPIC "/config/{name}", "deleteTopicConfig", rest_topic_config_delete, REST_WRITE | REST_DRY, NULL, "inherit one key again" },
    { REST_GET, TOPIC "/partitions", "listPartitions", rest_partitions_list, REST_LIST | REST_META, NULL, "partitions with their replicas" },
    { REST_POST, TOPIC "/partitions", "growTopic", rest_topic_grow, REST_WRITE | REST_JSON_BODY | REST_DRY | REST_ONCE, NULL, "more partitions" },
    { REST_GET, PARTITION, "getPartition", rest_partition_get, REST_META, NULL, "one partition" },
    { REST_GET, PARTITION "/replicas", "listReplicas", rest_replicas_list, REST_LIST | REST_META, NULL, "its replicas, the preferred leader first" },
    { REST_GET, PARTITION "/replicas/{broker}", "getReplica", rest_replica_get, REST_META, NULL, "one replica" },
    { REST_GET, PARTITION "/offsets", "getOffsets", rest_partition_offsets, REST_AT_LEADER, "at,isolation,timeout_ms", "offset of a time or an end" },
    { REST_GET, PARTITION "/isr-history", "listIsrHistory", rest_isr_history, REST_LIST, "since,order", "changes of its ISR and leader, the newest first, and why" },
    { REST_GET, PARTITION "/segments", "listSegments", rest_partition_segments, REST_LIST | REST_AT_LEADER | REST_LOCAL, NULL, "segment files" },
    { REST_GET, PARTITION "/producers", "listPartitionProducers", rest_partition_producers, REST_LIST | REST_AT_LEADER, NULL, "idempotent producers it remembers" },
    { REST_GET, PARTITION "/records", "fetchRecords", rest_records_fetch, REST_LINES | REST_AT_LEADER, "offset,timestamp,last,limit,max_bytes,max_wait_ms,isolation," FETCH_FORM, "read records" },
    { REST_POST, PARTITION "/records", "produceToPartition", rest_produce_partition, REST_WRITE | REST_RECORD_BODY, "key,acks", "append records to one partition" },
    { REST_POST, PARTITION "/records/delete", "deleteRecords", rest_records_delete, REST_WRITE | REST_JSON_BODY | REST_AT_LEADER, NULL, "advance the log start" },
    { REST_GET, PARTITION "/records/{offset}", "getRecord", rest_record_get, REST_AT_LEADER, "isolation," FETCH_FORM, "one record" },
    { REST_GET, PARTITION "/records/{offset}/value", "getRecordValue", rest_record_value, REST_ANY_TYPE | REST_AT_LEADER, "isolation", "its value as it is" },
    { REST_GET, PARTITION "/records/{offset}/key", "getRecordKey", rest_record_key, REST_ANY_TYPE | REST_AT_LEADER, "isolation", "its key as it is" },
    { REST_GET, TOPIC "/groups", "listTopicGroups", rest_topic_groups, REST_LIST, "with", "groups that read it or have committed offsets of it" },
    { REST_GET, TOPIC "/records", "browseRecords", rest_browse, REST_LINES, "contains,key,partition,limit,continue_token,isolation," FETCH_FORM, "the newest records of all partitions, newest first" },
    { REST_GET, TOPIC "/tail", "tailRecords", rest_tail, REST_EVENTS, "contains,key,partition,isolation," FETCH_FORM, "new records as they come, as server-sent events" },
    { REST_POST, TOPIC "/records", "produce", rest_produce_topic, REST_WRITE | REST_RECORD_BODY, "key,partition,acks", "append records" },
    { REST_GET, "/v1/events", "listEvents", rest_events_list, REST_LIST, "types,topic,broker,group,since,order", "what happened in the cluster, the newest first" },
    { REST_GET, "/v1/events/stream", "streamEvents", rest_events_stream, REST_EVENTS, "types,topic,broker,group,interval_ms", "events as they happen, as server-sent events" },
    { REST_GET, "/v1/partitions", "listAllPartitions", rest_all_partitions, REST_LIST | REST_META, "state,topic,broker", "partitions of all topics" },
    { REST_POST, PARTITION "/elections", "electPartitionLeader", rest_partition_election, REST_WRITE | REST_JSON_BODY, NULL, "elect a leader of this partition" },
    { REST_POST, "/v1/elections", "electLeaders", rest_elections_start, REST_WRITE | REST_JSON_BODY, NULL, "elect leaders, preferred ones or at a loss" },
    { REST_GET, "/v1/unclean-election", "getUncleanElection", rest_unclean_view, REST_LIST | REST_META, NULL, "partitions without a leader, and what each candidate would lose" },
    { REST_POST, "/v1/reassignments/plan", "planReassignments", rest_reassignment_plan, REST_WRITE | REST_JSON_BODY, NULL, "propose moves: rebalance, empty brokers, another replication factor" },
    { REST_GET, "/v1/reassignments", "listReassignments", rest_reassignments_list, REST_LIST | REST_META, NULL, "running moves, and how far they are" },
    { REST_POST, "/v1/reassignments", "startReassignments", rest_reassignments_start, REST_WRITE | REST_JSON_BODY, NULL, "start moves" },
    { REST_DELETE, "/v1/reassignments/{topic}/{partition}", "cancelReassignment", rest_reassignment_cancel, REST_WRITE | REST_DRY, NULL, "back to the replicas of before" },
    { REST_GET, "/v1/producers", "listProducers", rest_producers_list, REST_LIST, "topic", "idempotent producers across partitions" },
    { REST_GET, "/v1/groups", "listGroups", rest_groups_list, REST_LIST, "state,type,prefix,with", "groups of consumers" },
    { REST_GET, GROUP, "getGroup", rest_group_get, REST_AT_GROUP, NULL, "one group with its members and its lag" },
    { REST_GET, GROUP "/members", "listGroupMembers", rest_group_members, REST_LIST | REST_AT_GROUP, NULL, "its members" },
    { REST_GET, GROUP "/assignments", "getGroupAssignments", rest_group_assignments, REST_AT_GROUP, NULL, "which partitions each member has" },
    { REST_GET, GROUP "/owners", "getGroupOwners", rest_group_owners, REST_AT_GROUP, NULL, "which member has which partition" },
    { REST_GET, GROUP "/timeline", "getGroupTimeline", rest_group_timeline, REST_AT_GROUP, NULL, "its last rebalances, and who caused them" },
    { REST_POST, GROUP "/offsets/reset", "resetGroupOffsets", rest_group_reset, REST_WRITE | REST_JSON_BODY | REST_AT_GROUP, NULL, "set offsets by a strategy, with a preview" },
    { REST_PUT, GROUP "/offsets", "putGroupOffsets", rest_group_offsets_put, REST_WRITE | REST_JSON_BODY | REST_AT_GROUP, NULL, "set several committed offsets" },
    { REST_GET, GROUP "/offsets", "listGroupOffsets", rest_group_offsets, REST_LIST | REST_AT_GROUP, NULL, "its committed offsets" },
    { REST_GET, GROUP "/lag", "getGroupLag", rest_group_lag, REST_AT_GROUP, NULL, "how far it is behind" },
    { REST_PUT, GROUP "/offsets/{topic}/{partition}", "putGroupOffset", rest_group_offset_put, REST_WRITE | REST_JSON_BODY | REST_AT_GROUP, NULL, "set one committed offset" },
    { REST_GET, GROUP "/offsets/{topic}/{partition}", "getGroupOffset", rest_group_offset_get, REST_AT_GROUP, NULL, "one committed offset" },
    { REST_DELETE, GROUP "/offsets/{topic}/{partition}", "deleteGroupOffset", rest_group_offset_delete, REST_WRITE | REST_AT_GROUP, NULL, "drop one committed offset" },
    { REST_DELETE, GROUP "/offsets/{topic}", "deleteGroupOffsets", rest_group_offsets_delete, REST_WRITE | REST_AT_GROUP, NULL, "drop those of a topic" },
    { REST_DELETE, GROUP "/members/{member}", "evictGroupMember", rest_group_evict, REST_WRITE | REST_AT_GROUP, NULL, "take a member out" },
    { REST_DELETE, GROUP, "deleteGroup", rest_group_delete, REST_WRITE | REST_DRY | REST_AT_GROUP, NULL, "delete it with its offsets" },
    { REST_GET, "/v1/transactions", "listTransactions", rest_transactions_list, REST_LIST, "state,longer_than_ms,producer_id,prefix", "transactional producers and what they have open" },
    { REST_GET, "/v1/transactions/{transaction}", "getTransaction", rest_transaction_get, REST_AT_TRANSACTION, NULL, "one transactional id with its partitions" },
    { REST_POST, "/v1/transactions/{transaction}/abort", "abortTransaction", rest_transaction_abort, REST_WRITE | REST_DRY | REST_AT_TRANSACTION, NULL, "fence the producer and abort what hangs" },
    { REST_GET, "/v1/registry", "getRegistryRoot", rest_registry, 0, REGISTRY, "the top of the registry view" },
    { REST_GET, "/v1/registry/{path}", "getRegistryNode", rest_registry, REST_DEEP | REST_AT_NODE, REGISTRY, "what ZooKeeper would have held at this path" },
    { REST_GET, "/v1/whoami", "whoami", rest_whoami, REST_LOCAL, NULL, "who is asking" },
    { REST_GET, "/v1/jobs", "listJobs", rest_jobs_list, REST_LIST | REST_LOCAL, "state", "long work, the newest first" },
    { REST_GET, "/v1/jobs/{job}", "getJob", rest_job_get, REST_AT_JOB, NULL, "one job" },
    { REST_DELETE, "/v1/jobs/{job}", "cancelJob", rest_job_cancel, REST_WRITE | REST_DRY | REST_AT_JOB, NULL, "cancel a job" },
    { REST_POST, "/v1/diagnostics/verify", "verifyLogs", rest_verify_start, REST_WRITE | REST_JSON_BODY | REST_ONCE | REST_LOCAL, NULL, "check every byte of logs" },
    { REST_GET, "/v1/diagnostics/slow-requests", "listSlowRequests", rest_slow_requests, REST_LIST | REST_LOCAL, "door,longer_than_ms", "requests that took long, the newest first, and where their time went" },
    { REST_GET, "/v1/diagnostics/memory", "getMemory", rest_memory, REST_LOCAL, NULL, "the memory budget by pool, and what the allocator holds" },
    { REST_GET, "/v1/diagnostics/threads", "listThreads", rest_threads, REST_LIST | REST_LOCAL, "stacks", "threads, what they used, and where they are" },
    { REST_GET, "/v1/diagnostics/bundle", "getDiagnosticsBundle", rest_bundle, REST_ANY_TYPE | REST_LOCAL, NULL, "all that somebody who looks for a fault would ask for, as tar.gz, without secrets" },
    { REST_GET, "/v1/config-schema", "getConfigSchema", rest_config_schema, REST_LIST, "scope,prefix", "every configuration key" },
    { REST_GET, "/v1/metrics", "getMetrics", rest_metrics_json, REST_LOCAL, "window,scope", "current values" },
    { REST_GET, "/v1/metrics/series", "getMetricsSeries", rest_metrics_series, REST_ANY_TYPE | REST_LOCAL, "names,topic,group,scope,by,window,from,to,step,format", "numbers of the past: a column for each series, rows, or CSV" },
    { REST_GET, "/v1/metrics/catalog", "getMetricsCatalog", rest_metrics_catalog, REST_LIST | REST_LOCAL, "prefix", "every metric" },
    { REST_GET, "/v1/health/checks/{name}", "getHealthCheck", rest_health_check, 0, NULL, "one check, for alerting" },
    { REST_GET, "/metrics", "getPrometheus", rest_metrics_text, REST_ANY_TYPE | REST_LOCAL, "compat", "Prometheus text 0.0.4, or OpenMetrics 1.0" },
    { REST_GET, "/healthz", "getHealthz", rest_healthz, REST_PROBE, NULL, "is the process alive" },
    { REST_GET, "/readyz", "getReadyz", rest_readyz, REST_PROBE, "verbose", "may it be sent clients" },
    { REST_GET, "/problems/{slug}", "getProblem", rest_problem_page, REST_HTML, NULL, "what an error means" },
    { REST_GET, "/openapi.json", "getOpenapiJson", rest_openapi_json, REST_ANY_TYPE, NULL, "this contract as JSON" },
    { REST_GET, "/openapi.yaml", "getOpenapiYaml", rest_openapi_yaml, REST_ANY_TYPE, NULL, "this contract as YAML" },
};

const struct rest_route *rest_routes(uint32_t *count_out)
{
    *count_out = OT_ARRAY_COUNT(routes);
    return routes;
}

static const char *const method_names[REST_METHODS] = { "GET", "POST", "PUT", "PATCH", "DELETE" };

const char *rest_method_name(enum rest_method method) { return method_names[method]; }

bool rest_method_parse(const char *name, enum rest_method *out)
{
    for (uint32_t i = 0; i < REST_METHODS; i++) {
        if (strcmp(name, method_names[i]) != 0) continue;
        *out = (enum rest_method)i;
        return true;
    }
    return false;
}

static bool is_topic_id(struct ot_str text)
{
    struct ot_uuid id;
    return ot_uuid_parse(text.data, text.bytes, &id);
}

static bool matches(const struct rest_route *route, const struct ot_str *segments, uint32_t segment_count, struct ot_str params[static REST_PARAMS_MAX])
{
    const char *pattern = route->pattern;
    uint32_t index = 0, param = 0;
    while (*pattern == '/') {
        const char *name = pattern + 1;
        const size_t bytes = strcspn(name, "/");
        if (index == segment_count) return false;
        const struct ot_str segment = segments[index++];
        if (*name != '{') {
            if (segment.bytes != bytes || memcmp(segment.data, name, bytes) != 0) return false;
        } else {
            if (segment.bytes == 0 || (strncmp(name, "{topic_id}", bytes) == 0 && !is_topic_id(segment))) return false;
            params[param++] = segment;
        }
        pattern = name + bytes;
    }
    return index == segment_count || (route->flags & REST_DEEP) != 0;
}

static void allow_of(uint32_t methods, char allow_out[static REST_ALLOW_BYTES])
{
    size_t at = 0;
    for (uint32_t i = 0; i < REST_METHODS; i++)
        if ((methods >> i & 1) != 0) at += (size_t)snprintf(allow_out + at, REST_ALLOW_BYTES - at, "%s, ", i == REST_GET ? "GET, HEAD" : method_names[i]);
    snprintf(allow_out + at, REST_ALLOW_BYTES - at, "OPTIONS");
}

enum ot_err rest_route_find(enum rest_method method, const struct ot_str *segments, uint32_t segment_count, const struct rest_route **out,
    struct ot_str params[static REST_PARAMS_MAX], char allow_out[static REST_ALLOW_BYTES])
{
    uint32_t methods = 0;
    const struct rest_route *first = NULL;
    *out = NULL;
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(routes); i++) {
        struct ot_str found[REST_PARAMS_MAX] = { 0 };
        /* the first pattern that fits decides: /v1/topics/id/{topic_id} stands before /v1/topics/{topic}/… */
        if (first != NULL && strcmp(first->pattern, routes[i].pattern) != 0) continue;
        if (!matches(&routes[i], segments, segment_count, found)) continue;
        first = &routes[i];
        methods |= 1u << routes[i].method;
        if (routes[i].method != method) continue;
        *out = &routes[i];
        memcpy(params, found, sizeof(found));
    }
    allow_of(methods, allow_out);
    return *out != NULL ? OT_OK : methods != 0 ? OT_ERR_INVALID_REQUEST : OT_ERR_NOT_FOUND;
}

/* ---- query parameters */

static uint32_t add_words(const char *words, const char *out[static REST_ROUTE_QUERY_MAX], uint32_t count, char **storage, const char *end)
{
    while (words != NULL && *words != 0) {
        const size_t bytes = strcspn(words, ",");
        OT_ASSERT(count < REST_ROUTE_QUERY_MAX && *storage + bytes + 1 <= end);
        memcpy(*storage, words, bytes);
        (*storage)[bytes] = 0;
        out[count++] = *storage;
        *storage += bytes + 1;
        words += bytes + (words[bytes] == ',');
    }
    return count;
}

uint32_t rest_route_query(const struct rest_route *route, const char *out[static REST_ROUTE_QUERY_MAX], char storage[static 512])
{
    char *at = storage;
    const char *end = storage + 512;
    uint32_t count = add_words(route->query, out, 0, &at, end);
    if ((route->flags & REST_LIST) != 0) count = add_words("limit,page_token,fields,format", out, count, &at, end);
    if ((route->flags & REST_WRITE) != 0) count = add_words("timeout_ms", out, count, &at, end);
    if ((route->flags & REST_DRY) != 0) count = add_words("validate_only", out, count, &at, end);
    if ((route->flags & REST_META) != 0) count = add_words("min_metadata_offset,consistency,timeout_ms", out, count, &at, end);
    if ((route->flags & REST_LINES) != 0) count = add_words("format", out, count, &at, end);
    if ((route->flags & REST_LOCAL) != 0) count = add_words("broker", out, count, &at, end);
    if ((route->flags & REST_EVENTS) != 0) count = add_words("int64", out, count, &at, end);
    else if ((route->flags & REST_ANY_TYPE) == 0) count = add_words("pretty,int64", out, count, &at, end);
    return count;
}

bool rest_route_takes(const struct rest_route *route, struct ot_str name, char near_out[static REST_NEAR_BYTES])
{
    const char *names[REST_ROUTE_QUERY_MAX];
    char storage[512], word[64];
    const uint32_t count = rest_route_query(route, names, storage);
    near_out[0] = 0;
    for (uint32_t i = 0; i < count; i++)
        if (ot_str_equal(name, ot_str_of(names[i]))) return true;
    snprintf(word, sizeof(word), "%.*s", (int)OT_MIN(name.bytes, 60u), name.data);
    const char *near = ot_nearest(word, names, count);
    if (near != NULL) snprintf(near_out, REST_NEAR_BYTES, "%s", near);
    return false;
}
