#include "cli/voters.h"
#include "base/util.h"
#include "base/wire/add_raft_voter_request.h"
#include "base/wire/add_raft_voter_response.h"
#include "base/wire/apis.h"
#include "base/wire/describe_quorum_request.h"
#include "base/wire/describe_quorum_response.h"
#include "base/wire/remove_raft_voter_request.h"
#include "base/wire/remove_raft_voter_response.h"
#include "cli/shared.h"
#include "cli/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 60000

const struct cli_flag cli_voters_flags[] = {
    { "output", 'o', "FORMAT", false, "table (default) or json" },
    { 0 },
};

/* A connection of its own to the broker that answered first: such requests may take their time. */
static enum ot_err ask(struct cli_kafka *kafka, struct cli_conn *conn, int16_t api, int16_t most, const void *request, void *response, int16_t *version_out)
{
    const char *host;
    uint16_t port;
    const int64_t deadline_us = ot_clock_boot_us() + (int64_t)WAIT_MS * 1000;
    cli_kafka_address(kafka, &host, &port);
    cli_conn_init(conn, host, port, "ottla");
    enum ot_err err = cli_conn_open(conn, deadline_us);
    const int16_t version = err == OT_OK ? cli_conn_version(conn, api, 0, most) : -1;
    if (err == OT_OK && version < 0) err = OT_ERR_UNSUPPORTED_VERSION;
    *version_out = version;
    return err == OT_OK ? cli_conn_ask(conn, api, version, request, response, deadline_us) : err;
}

static int failed(enum ot_err err, struct ot_str text)
{
    const struct ot_str words = text.null || text.bytes == 0 ? ot_str_of(ot_err_text(err)) : text;
    return cli_fail((enum cli_exit)cli_exit_of(err), NULL, "%s: %.*s", ot_err_name(err), (int)words.bytes, words.data);
}

static void print_rows(const struct ot_describe_quorum_response *response, bool json)
{
    const struct ot_describe_quorum_response_partition_data *quorum = &response->topics.items[0].partitions.items[0];
    if (json) printf("{\"coordinator\":%d,\"term\":%d,\"voters\":[", quorum->leader_id, quorum->leader_epoch);
    else printf("%5s  %-22s  %s  %s\n", "VOTER", "DIRECTORY", "IS-COORDINATOR", "PEERS-AT");
    for (int32_t i = 0; i < quorum->current_voters.count; i++) {
        const struct ot_describe_quorum_response_replica_state *voter = &quorum->current_voters.items[i];
        char directory[23] = "", place[300] = "";
        ot_uuid_text(&voter->replica_directory_id, directory);
        for (int32_t k = 0; k < response->nodes.count; k++) {
            const struct ot_describe_quorum_response_node *node = &response->nodes.items[k];
            if (node->node_id != voter->replica_id || node->listeners.count == 0) continue;
            snprintf(place, sizeof(place), "%.*s:%u", (int)node->listeners.items[0].host.bytes, node->listeners.items[0].host.data, node->listeners.items[0].port);
        }
        if (json) printf("%s{\"broker\":%d,\"directory_id\":\"%s\",\"peers_at\":\"%s\",\"is_coordinator\":%s}", i == 0 ? "" : ",", voter->replica_id, directory, place,
            voter->replica_id == quorum->leader_id ? "true" : "false");
        else printf("%5d  %-22s  %-14s  %s\n", voter->replica_id, directory, voter->replica_id == quorum->leader_id ? "yes" : "no", place);
    }
    if (json) puts("]}");
}

static int list(struct cli_kafka *kafka, bool json)
{
    struct cli_conn conn;
    struct ot_describe_quorum_request request;
    struct ot_describe_quorum_response response;
    struct ot_describe_quorum_request_partition_data partition = { .partition_index = 0 };
    struct ot_describe_quorum_request_topic_data topic = { .topic_name = ot_str_of("__cluster_metadata"), .partitions = { &partition, 1 } };
    int16_t version;
    ot_describe_quorum_request_defaults(&request);
    request.topics.items = &topic;
    request.topics.count = 1;
    enum ot_err err = ask(kafka, &conn, OT_API_DESCRIBE_QUORUM, 2, &request, &response, &version);
    int code = -1;
    if (err != OT_OK) {
        code = failed(err, ot_str_of(conn.why));
    } else if (response.error_code != 0 || response.topics.count != 1 || response.topics.items[0].partitions.count != 1 || response.topics.items[0].partitions.items[0].error_code != 0) {
        code = cli_fail(CLI_FAILED, NULL, "the broker does not tell who votes");
    } else {
        print_rows(&response, json);
    }
    cli_conn_free(&conn);
    return code < 0 ? CLI_DONE : code;
}

static int add(struct cli_kafka *kafka, int32_t id)
{
    struct cli_conn conn;
    struct ot_add_raft_voter_request request;
    struct ot_add_raft_voter_response response;
    int16_t version;
    ot_add_raft_voter_request_defaults(&request);
    request.cluster_id = (struct ot_str){ .null = true };
    request.timeout_ms = WAIT_MS / 2;
    request.voter_id = id;
    enum ot_err err = ask(kafka, &conn, OT_API_ADD_RAFT_VOTER, 1, &request, &response, &version);
    int code = err != OT_OK ? failed(err, ot_str_of(conn.why)) : response.error_code != 0 ? failed((enum ot_err)response.error_code, response.error_message) : -1;
    cli_conn_free(&conn);
    if (code < 0) printf("broker %d votes\n", id);
    return code;
}

static int remove_one(struct cli_kafka *kafka, int32_t id)
{
    struct cli_conn conn;
    struct ot_remove_raft_voter_request request;
    struct ot_remove_raft_voter_response response;
    int16_t version;
    ot_remove_raft_voter_request_defaults(&request);
    request.cluster_id = (struct ot_str){ .null = true };
    request.voter_id = id;
    enum ot_err err = ask(kafka, &conn, OT_API_REMOVE_RAFT_VOTER, 0, &request, &response, &version);
    int code = err != OT_OK ? failed(err, ot_str_of(conn.why)) : response.error_code != 0 ? failed((enum ot_err)response.error_code, response.error_message) : -1;
    cli_conn_free(&conn);
    if (code < 0) printf("broker %d votes no more\n", id);
    return code;
}

int cli_voters_run(const struct cli_args *args)
{
    static const char *const verbs[] = { "list", "add", "remove", "replace" };
    const char *verb = cli_name_count(args) == 0 ? "list" : cli_name(args, 0), *output = cli_flag_value(args, "output");
    const bool lists = strcmp(verb, "list") == 0, adds = strcmp(verb, "add") == 0, removes = strcmp(verb, "remove") == 0, replaces = strcmp(verb, "replace") == 0;
    struct cli_kafka *kafka = NULL;
    int64_t id = 0;
    if (!lists && !adds && !removes && !replaces) return cli_fail(CLI_USAGE, ot_nearest(verb, verbs, OT_ARRAY_COUNT(verbs)), "cluster voters: `%s` is none of list, add, remove, replace", verb);
    if (output != NULL && strcmp(output, "json") != 0 && strcmp(output, "table") != 0) return cli_fail(CLI_USAGE, "-o json", "--output: `%s` is neither table nor json", output);
    if (!lists && (cli_name_count(args) != 2 || !cli_number(cli_name(args, 1), 0, INT32_MAX, &id)))
        return cli_fail(CLI_USAGE, "ottla cluster voters add 2", "which broker? `%s` takes the id of one", verb);
    int code = cli_open_kafka(args, &kafka);
    if (code < 0 && lists) code = list(kafka, output != NULL && strcmp(output, "json") == 0);
    if (code < 0 && (removes || replaces)) code = remove_one(kafka, (int32_t)id);
    if (code < 0 && (adds || replaces)) code = add(kafka, (int32_t)id);
    cli_kafka_close(kafka);
    return code < 0 ? CLI_DONE : code;
}
