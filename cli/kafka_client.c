#include "cli/kafka_client.h"
#include "base/wire/apis.h"
#include "base/util.h"
#include "base/wire/list_offsets_request.h"
#include "base/wire/list_offsets_response.h"
#include "base/wire/metadata_request.h"
#include "base/wire/metadata_response.h"
#include "cli/command.h"
#include "cli/wait.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BROKERS_MAX       1000u
#define BOOTSTRAPS_MAX    32u
#define KAFKA_PORT        9092
#define RETRY_PAUSE_MS    100
#define UNKNOWN_TOPIC_MS  3000
#define METADATA_VERSIONS 1, 12
#define OFFSETS_VERSIONS  1, 7

struct node {
    int32_t id;
    struct cli_conn conn;
};
struct cli_kafka {
    struct cli_conn bootstrap; /* whichever answered */
    char hosts[BOOTSTRAPS_MAX][CLI_HOST_BYTES];
    uint16_t ports[BOOTSTRAPS_MAX];
    uint32_t bootstrap_count;
    struct node **nodes;
    uint32_t node_count;
    int32_t timeout_ms;
    char why[CLI_WHY_BYTES];
};

const char *cli_kafka_why(const struct cli_kafka *kafka)
{
    return kafka == NULL ? "out of memory" : kafka->why;
}

void cli_kafka_address(const struct cli_kafka *kafka, const char **host_out, uint16_t *port_out)
{
    *host_out = kafka->bootstrap.host;
    *port_out = kafka->bootstrap.port;
}

static enum ot_err fail(struct cli_kafka *kafka, enum ot_err err, const char *words)
{
    if (words != kafka->why) snprintf(kafka->why, sizeof(kafka->why), "%s", words);
    return err;
}

static enum ot_err parse_bootstrap(struct cli_kafka *kafka, const char *text)
{
    for (const char *at = text; *at != 0;) {
        size_t bytes = strcspn(at, ",");
        const char *next = at + bytes + (at[bytes] == ',');
        while (bytes > 0 && *at == ' ') at++, bytes--;
        while (bytes > 0 && at[bytes - 1] == ' ') bytes--;
        if (bytes > 12 && strncmp(at, "PLAINTEXT://", 12) == 0) at += 12, bytes -= 12;
        if (bytes > 0) {
            const uint32_t i = kafka->bootstrap_count;
            if (i == BOOTSTRAPS_MAX || !cli_address_split(at, bytes, KAFKA_PORT, kafka->hosts[i], &kafka->ports[i])) {
                snprintf(kafka->why, sizeof(kafka->why), "`%.*s` is not host:port", (int)OT_MIN(bytes, 120u), at);
                return OT_ERR_MALFORMED;
            }
            kafka->bootstrap_count++;
        }
        at = next;
    }
    return kafka->bootstrap_count > 0 ? OT_OK : fail(kafka, OT_ERR_MALFORMED, "no bootstrap server is given");
}

/* A connection that may be asked for metadata: the one in use, else the bootstrap servers in turn, else any broker that is known. */
static enum ot_err any_conn(struct cli_kafka *kafka, struct cli_conn **out)
{
    const int64_t deadline_us = cli_deadline_us(kafka->timeout_ms);
    enum ot_err err = OT_ERR_NETWORK_EXCEPTION;
    *out = &kafka->bootstrap;
    if (kafka->bootstrap.fd >= 0) return OT_OK;
    for (uint32_t i = 0; i < kafka->bootstrap_count && err != OT_OK && err != OT_ERR_CANCELLED; i++) {
        cli_conn_free(&kafka->bootstrap);
        cli_conn_init(&kafka->bootstrap, kafka->hosts[i], kafka->ports[i], "ottla");
        /* an address that swallows connections must not use up the time of the others */
        const int64_t share_us = (deadline_us - ot_clock_boot_us()) / (kafka->bootstrap_count - i);
        err = cli_conn_open(&kafka->bootstrap, ot_clock_boot_us() + OT_MAX(share_us, 1000));
    }
    if (err != OT_OK) fail(kafka, err, kafka->bootstrap.why);
    for (uint32_t i = 0; i < kafka->node_count && err != OT_OK && err != OT_ERR_CANCELLED; i++) {
        *out = &kafka->nodes[i]->conn;
        err = (*out)->fd >= 0 ? OT_OK : cli_conn_open(*out, deadline_us);
    }
    return err;
}

enum ot_err cli_kafka_open(const char *bootstrap, int32_t timeout_ms, struct cli_kafka **out)
{
    struct cli_kafka *kafka = calloc(1, sizeof(*kafka));
    struct cli_conn *conn;
    *out = kafka;
    if (kafka == NULL) return OT_ERR_NO_MEMORY;
    kafka->timeout_ms = timeout_ms;
    cli_conn_init(&kafka->bootstrap, "", 0, "ottla");
    const enum ot_err err = parse_bootstrap(kafka, bootstrap);
    return err == OT_OK ? any_conn(kafka, &conn) : err;
}

void cli_kafka_close(struct cli_kafka *kafka)
{
    if (kafka == NULL) return;
    for (uint32_t i = 0; i < kafka->node_count; i++) {
        cli_conn_free(&kafka->nodes[i]->conn);
        free(kafka->nodes[i]);
    }
    free(kafka->nodes);
    cli_conn_free(&kafka->bootstrap);
    free(kafka);
}

static enum ot_err note_broker(struct cli_kafka *kafka, const struct ot_metadata_response_metadata_response_broker *broker)
{
    char host[CLI_HOST_BYTES];
    struct node *node = NULL;
    if (broker->host.bytes == 0 || broker->host.bytes >= sizeof(host) || broker->port < 1 || broker->port > UINT16_MAX)
        return fail(kafka, OT_ERR_NETWORK_EXCEPTION, "the cluster advertises an address that is none");
    memcpy(host, broker->host.data, broker->host.bytes);
    host[broker->host.bytes] = 0;
    for (uint32_t i = 0; i < kafka->node_count; i++)
        if (kafka->nodes[i]->id == broker->node_id) node = kafka->nodes[i];
    if (node != NULL && strcmp(node->conn.host, host) == 0 && node->conn.port == broker->port) return OT_OK;
    if (node != NULL) {
        cli_conn_free(&node->conn);
    } else {
        if (kafka->node_count == BROKERS_MAX) return fail(kafka, OT_ERR_TOO_LARGE, "more brokers than this tool takes");
        struct node **more = realloc(kafka->nodes, (kafka->node_count + 1) * sizeof(*more));
        if (more == NULL) return OT_ERR_NO_MEMORY;
        kafka->nodes = more;
        if ((node = calloc(1, sizeof(*node))) == NULL) return OT_ERR_NO_MEMORY;
        kafka->nodes[kafka->node_count++] = node;
        node->id = broker->node_id;
    }
    cli_conn_init(&node->conn, host, (uint16_t)broker->port, "ottla");
    return OT_OK;
}

static enum ot_err take_topic(struct cli_kafka *kafka, const struct ot_metadata_response *response, struct cli_kafka_topic *out)
{
    for (int32_t i = 0; i < response->brokers.count; i++) {
        const enum ot_err err = note_broker(kafka, &response->brokers.items[i]);
        if (err != OT_OK) return err;
    }
    if (response->topics.count != 1) return fail(kafka, OT_ERR_NETWORK_EXCEPTION, "the cluster answered about other topics than the one asked for");
    const struct ot_metadata_response_metadata_response_topic *topic = &response->topics.items[0];
    const int32_t count = topic->partitions.count;
    out->internal = topic->is_internal;
    out->id = topic->topic_id;
    out->err = (enum ot_err)topic->error_code;
    if (out->err != OT_OK) return out->err;
    if ((out->partitions = calloc((size_t)OT_MAX(count, 1), sizeof(*out->partitions))) == NULL) return OT_ERR_NO_MEMORY;
    out->partition_count = (uint32_t)OT_MAX(count, 0);
    for (uint32_t i = 0; i < out->partition_count; i++) out->partitions[i] = (struct cli_kafka_partition){-1, OT_ERR_LEADER_NOT_AVAILABLE};
    for (int32_t i = 0; i < count; i++) {
        const struct ot_metadata_response_metadata_response_partition *row = &topic->partitions.items[i];
        if (row->partition_index < 0 || row->partition_index >= count) continue; /* that one stays without a leader */
        out->partitions[row->partition_index] = (struct cli_kafka_partition){row->leader_id, (enum ot_err)row->error_code, row->replica_nodes.count};
    }
    return count > 0 ? OT_OK : OT_ERR_LEADER_NOT_AVAILABLE;
}

static enum ot_err ask_topic(struct cli_kafka *kafka, const char *name, bool create, struct cli_kafka_topic *out)
{
    struct cli_conn *conn;
    struct ot_metadata_request request;
    struct ot_metadata_response response;
    struct ot_metadata_request_metadata_request_topic topic;
    enum ot_err err = any_conn(kafka, &conn);
    if (err != OT_OK) return err;
    int16_t version = cli_conn_version(conn, OT_API_METADATA, METADATA_VERSIONS);
    if (version < 0) return fail(kafka, OT_ERR_UNSUPPORTED_VERSION, "the cluster speaks no version of Metadata that this tool knows");
    if (version < 4) create = true; /* these always create */
    ot_metadata_request_defaults(&request);
    ot_metadata_request_metadata_request_topic_defaults(&topic);
    topic.name = ot_str_of(name);
    request.topics.items = &topic;
    request.topics.count = 1;
    request.allow_auto_topic_creation = create;
    err = cli_conn_ask(conn, OT_API_METADATA, version, &request, &response, cli_deadline_us(kafka->timeout_ms));
    return err == OT_OK ? take_topic(kafka, &response, out) : fail(kafka, err, conn->why);
}

static void topic_clear(struct cli_kafka_topic *topic)
{
    free(topic->partitions);
    topic->partitions = NULL;
    topic->partition_count = 0;
    topic->err = OT_OK;
}

void cli_kafka_topic_free(struct cli_kafka_topic *topic)
{
    topic_clear(topic);
    free(topic->name);
    topic->name = NULL;
}

enum ot_err cli_kafka_topic(struct cli_kafka *kafka, const char *name, bool create, struct cli_kafka_topic *out)
{
    const int64_t deadline_us = cli_deadline_us(kafka->timeout_ms);
    const int64_t unknown_until_us = cli_deadline_us(UNKNOWN_TOPIC_MS);
    *out = (struct cli_kafka_topic){.name = strdup(name)};
    if (out->name == NULL) return OT_ERR_NO_MEMORY;
    for (;;) {
        topic_clear(out);
        const enum ot_err err = ask_topic(kafka, name, create, out);
        /* a topic that is being made by this very request is not known yet; one that may not be made never will be */
        bool again = err == OT_ERR_LEADER_NOT_AVAILABLE || (err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION && create && ot_clock_boot_us() < unknown_until_us);
        for (uint32_t i = 0; err == OT_OK && i < out->partition_count && !again; i++)
            again = out->partitions[i].err == OT_ERR_LEADER_NOT_AVAILABLE || out->partitions[i].leader < 0;
        if (!again || ot_clock_boot_us() > deadline_us) {
            if (err != OT_OK && out->err != OT_OK) snprintf(kafka->why, sizeof(kafka->why), "topic %.150s: %s", name, ot_err_text(err));
            return err;
        }
        if (cli_wait(NULL, 0, OT_MIN(deadline_us, cli_deadline_us(RETRY_PAUSE_MS))) == OT_ERR_CANCELLED) return OT_ERR_CANCELLED;
    }
}

enum ot_err cli_kafka_broker(struct cli_kafka *kafka, int32_t broker, struct cli_conn **out)
{
    for (uint32_t i = 0; i < kafka->node_count; i++) {
        struct node *node = kafka->nodes[i];
        if (node->id != broker) continue;
        *out = &node->conn;
        const enum ot_err err = node->conn.fd >= 0 ? OT_OK : cli_conn_open(&node->conn, cli_deadline_us(kafka->timeout_ms));
        return err == OT_OK ? err : fail(kafka, err, node->conn.why);
    }
    return fail(kafka, OT_ERR_LEADER_NOT_AVAILABLE, "the partition has no leader now");
}

static enum ot_err ask_offset(struct cli_kafka *kafka, const struct cli_kafka_topic *topic, int32_t partition, int64_t timestamp,
    bool committed_only, int64_t *offset_out)
{
    struct cli_conn *conn;
    struct ot_list_offsets_request request;
    struct ot_list_offsets_response response;
    struct ot_list_offsets_request_list_offsets_topic row;
    struct ot_list_offsets_request_list_offsets_partition cell;
    enum ot_err err = cli_kafka_broker(kafka, topic->partitions[partition].leader, &conn);
    if (err != OT_OK) return err;
    const int16_t version = cli_conn_version(conn, OT_API_LIST_OFFSETS, OFFSETS_VERSIONS);
    if (version < 0) return fail(kafka, OT_ERR_UNSUPPORTED_VERSION, "the broker speaks no version of ListOffsets that this tool knows");
    ot_list_offsets_request_defaults(&request);
    ot_list_offsets_request_list_offsets_topic_defaults(&row);
    ot_list_offsets_request_list_offsets_partition_defaults(&cell);
    cell.partition_index = partition;
    cell.timestamp = timestamp;
    row.name = ot_str_of(topic->name);
    row.partitions.items = &cell;
    row.partitions.count = 1;
    request.replica_id = -1;
    request.isolation_level = version >= 2 && committed_only;
    request.topics.items = &row;
    request.topics.count = 1;
    err = cli_conn_ask(conn, OT_API_LIST_OFFSETS, version, &request, &response, cli_deadline_us(kafka->timeout_ms));
    if (err != OT_OK) return fail(kafka, err, conn->why);
    if (response.topics.count != 1 || response.topics.items[0].partitions.count != 1)
        return fail(kafka, OT_ERR_NETWORK_EXCEPTION, "the broker answered about other partitions than the one asked for");
    err = (enum ot_err)response.topics.items[0].partitions.items[0].error_code;
    *offset_out = response.topics.items[0].partitions.items[0].offset;
    if (err != OT_OK) snprintf(kafka->why, sizeof(kafka->why), "%.150s-%d: %s", topic->name, partition, ot_err_text(err));
    return err;
}

enum ot_err cli_kafka_offset(struct cli_kafka *kafka, const struct cli_kafka_topic *topic, int32_t partition, int64_t timestamp,
    bool committed_only, int64_t *offset_out)
{
    const int64_t deadline_us = cli_deadline_us(kafka->timeout_ms);
    for (;;) {
        enum ot_err err = ask_offset(kafka, topic, partition, timestamp, committed_only, offset_out);
        if (!cli_kafka_try_again(err) || ot_clock_boot_us() > deadline_us) return err;
        if (cli_wait(NULL, 0, OT_MIN(deadline_us, cli_deadline_us(RETRY_PAUSE_MS))) == OT_ERR_CANCELLED) return OT_ERR_CANCELLED;
        struct cli_kafka_topic now;
        if (cli_kafka_topic(kafka, topic->name, false, &now) == OT_OK && now.partition_count == topic->partition_count)
            memcpy(topic->partitions, now.partitions, now.partition_count * sizeof(*now.partitions));
        cli_kafka_topic_free(&now);
    }
}

bool cli_kafka_try_again(enum ot_err err)
{
    switch ((int)err) {
    case OT_ERR_NETWORK_EXCEPTION:
    case OT_ERR_LEADER_NOT_AVAILABLE:
    case OT_ERR_NOT_LEADER_OR_FOLLOWER:
    case OT_ERR_BROKER_NOT_AVAILABLE:
    case OT_ERR_REPLICA_NOT_AVAILABLE:
    case OT_ERR_FENCED_LEADER_EPOCH:
    case OT_ERR_UNKNOWN_LEADER_EPOCH:
    case OT_ERR_OFFSET_NOT_AVAILABLE:
    case OT_ERR_NOT_ENOUGH_REPLICAS:
    case OT_ERR_THROTTLING_QUOTA_EXCEEDED: return true;
    default: return false;
    }
}

int cli_exit_of(enum ot_err err)
{
    switch ((int)err) {
    case OT_OK: return CLI_DONE;
    case OT_ERR_CANCELLED: return CLI_INTERRUPTED;
    case OT_ERR_NETWORK_EXCEPTION:
    case OT_ERR_REQUEST_TIMED_OUT:
    case OT_ERR_LEADER_NOT_AVAILABLE:
    case OT_ERR_BROKER_NOT_AVAILABLE: return CLI_UNREACHABLE;
    case OT_ERR_MALFORMED: return CLI_USAGE;
    default: break;
    }
    switch (ot_err_http(err)) {
    case 404: return CLI_NOT_FOUND;
    case 409:
    case 412: return CLI_CONFLICT;
    case 401:
    case 403: return CLI_FORBIDDEN;
    default: return CLI_FAILED;
    }
}
