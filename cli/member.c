#include "cli/member_inner.h"
#include "base/util.h"
#include "base/wire/apis.h"
#include "base/wire/consumer_protocol_assignment.h"
#include "base/wire/consumer_protocol_subscription.h"
#include "base/wire/find_coordinator_request.h"
#include "base/wire/find_coordinator_response.h"
#include "base/wire/heartbeat_request.h"
#include "base/wire/heartbeat_response.h"
#include "base/wire/join_group_request.h"
#include "base/wire/join_group_response.h"
#include "base/wire/leave_group_request.h"
#include "base/wire/leave_group_response.h"
#include "base/wire/offset_commit_request.h"
#include "base/wire/offset_commit_response.h"
#include "base/wire/offset_fetch_request.h"
#include "base/wire/offset_fetch_response.h"
#include "base/wire/sync_group_request.h"
#include "base/wire/sync_group_response.h"
#include "cli/wait.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSION_MS     45000
#define BEAT_MS        3000
#define RETRY_PAUSE_MS 200
#define MEMBERS_MAX    1000
#define SUBSCRIPTION_BYTES (64u << 10)
#define FIND_VERSIONS   1, 2
#define JOIN_VERSIONS   2, 5
#define SYNC_VERSIONS   1, 3
#define BEAT_VERSIONS   1, 3
#define LEAVE_VERSIONS  0, 2
#define OFFSET_VERSIONS 1, 5

static struct ot_str str(const char *text) { return ot_str_of(text); }

const char *cli_member_why(const struct cli_member *member) { return member == NULL ? "out of memory" : member->why; }

bool cli_member_must_join(enum ot_err err)
{
    return err == OT_ERR_REBALANCE_IN_PROGRESS || err == OT_ERR_ILLEGAL_GENERATION || err == OT_ERR_UNKNOWN_MEMBER_ID || err == OT_ERR_NOT_COORDINATOR
        || err == OT_ERR_COORDINATOR_NOT_AVAILABLE || err == OT_ERR_COORDINATOR_LOAD_IN_PROGRESS || err == OT_ERR_FENCED_INSTANCE_ID || err == OT_ERR_FENCED_MEMBER_EPOCH
        || err == OT_ERR_STALE_MEMBER_EPOCH;
}

enum ot_err cli_member_open(struct cli_kafka *kafka, const char *group, const struct cli_kafka_topic *topics, uint32_t topic_count, bool modern,
    int32_t timeout_ms, struct cli_member **out)
{
    struct cli_member *member = *out = calloc(1, sizeof(*member));
    if (member == NULL) return OT_ERR_NO_MEMORY;
    *member = (struct cli_member){.group = group, .topics = topics, .topic_count = topic_count, .timeout_ms = timeout_ms, .generation = -1, .modern = modern};
    const char *host;
    uint16_t port;
    cli_kafka_address(kafka, &host, &port);
    cli_conn_init(&member->conn, "", 0, "ottla");
    cli_conn_init(&member->finder, host, port, "ottla");
    return OT_OK;
}

static int64_t deadline(const struct cli_member *member) { return cli_deadline_us(member->timeout_ms); }

enum ot_err cli_member_fail(struct cli_member *member, enum ot_err err, const char *what)
{
    if (err != OT_OK && err != OT_ERR_CANCELLED) snprintf(member->why, sizeof(member->why), "group %.200s: %s: %s", member->group, what, ot_err_text(err));
    return err;
}

/* ---- the coordinator */

static enum ot_err find_coordinator(struct cli_member *member)
{
    struct ot_find_coordinator_request request;
    struct ot_find_coordinator_response response;
    enum ot_err err = member->finder.fd >= 0 ? OT_OK : cli_conn_open(&member->finder, deadline(member));
    const int16_t version = err == OT_OK ? cli_conn_version(&member->finder, OT_FIND_COORDINATOR_REQUEST_API, FIND_VERSIONS) : -1;
    if (err == OT_OK && version < 0) err = OT_ERR_UNSUPPORTED_VERSION;
    ot_find_coordinator_request_defaults(&request);
    request.key = str(member->group);
    if (err == OT_OK) err = cli_conn_ask(&member->finder, OT_FIND_COORDINATOR_REQUEST_API, version, &request, &response, deadline(member));
    if (err == OT_OK) err = (enum ot_err)response.error_code;
    if (err != OT_OK) return cli_member_fail(member, err, "no coordinator");
    if (response.host.bytes == 0 || response.host.bytes >= sizeof(member->host) || response.port < 1 || response.port > UINT16_MAX) return cli_member_fail(member, OT_ERR_COORDINATOR_NOT_AVAILABLE, "no coordinator");
    cli_conn_free(&member->conn);
    memcpy(member->host, response.host.data, response.host.bytes);
    member->host[response.host.bytes] = 0;
    cli_conn_init(&member->conn, member->host, (uint16_t)response.port, "ottla");
    return cli_member_fail(member, cli_conn_open(&member->conn, deadline(member)), "its coordinator");
}

enum ot_err cli_member_ask(struct cli_member *member, int16_t api, int16_t least, int16_t most, const void *request, void *response, int64_t deadline_us)
{
    enum ot_err err = member->conn.fd >= 0 ? OT_OK : find_coordinator(member);
    const int16_t version = err == OT_OK ? cli_conn_version(&member->conn, api, least, most) : -1;
    if (err == OT_OK && version < 0) err = OT_ERR_UNSUPPORTED_VERSION;
    return err == OT_OK ? cli_conn_ask(&member->conn, api, version, request, response, deadline_us) : err;
}

/* ---- joining */

static enum ot_err join_once(struct cli_member *member, const uint8_t *subscription, size_t bytes, struct ot_join_group_response *response)
{
    struct ot_join_group_request request;
    struct ot_join_group_request_join_group_request_protocol protocol = {.name = str("range"), .metadata = {subscription, (uint32_t)bytes, false}};
    ot_join_group_request_defaults(&request);
    request.group_id = str(member->group);
    request.session_timeout_ms = SESSION_MS;
    request.rebalance_timeout_ms = CLI_MEMBER_REBALANCE_MS;
    request.member_id = str(member->id);
    request.group_instance_id = (struct ot_str){.null = true};
    request.protocol_type = str("consumer");
    request.protocols.items = &protocol;
    request.protocols.count = 1;
    enum ot_err err = cli_member_ask(member, OT_JOIN_GROUP_REQUEST_API, JOIN_VERSIONS, &request, response, cli_deadline_us(CLI_MEMBER_REBALANCE_MS + (int64_t)member->timeout_ms));
    if (err != OT_OK) return err;
    if (response->member_id.bytes > 0 && response->member_id.bytes < sizeof(member->id)) snprintf(member->id, sizeof(member->id), "%.*s", (int)response->member_id.bytes, response->member_id.data);
    if (response->error_code == OT_ERR_UNKNOWN_MEMBER_ID) member->id[0] = 0;
    return (enum ot_err)response->error_code;
}

/* Version 0 of the subscription, after its two bytes of version: what every client reads. */
static enum ot_err write_subscription(const struct cli_member *member, uint8_t *to, size_t to_bytes, size_t *bytes_out)
{
    struct ot_consumer_protocol_subscription subscription;
    struct ot_str names[64];
    struct ot_writer out = ot_writer_over(to, to_bytes);
    ot_consumer_protocol_subscription_defaults(&subscription);
    for (uint32_t i = 0; i < member->topic_count && i < OT_ARRAY_COUNT(names); i++) names[i] = str(member->topics[i].name);
    subscription.topics.items = names;
    subscription.topics.count = (int32_t)OT_MIN(member->topic_count, (uint32_t)OT_ARRAY_COUNT(names));
    subscription.user_data.null = true;
    ot_write_u16(&out, 0);
    const enum ot_err err = ot_consumer_protocol_subscription_encode(&subscription, 0, &out);
    *bytes_out = (size_t)(out.at - out.start);
    return err != OT_OK ? err : out.err;
}

/* ---- the leader's part: range, topic by topic, members in order of their ids */

struct share { struct ot_str member; bool *wants; /* by topic of ours */ };

static int by_member(const void *a, const void *b)
{
    const struct share *one = a, *two = b;
    const int order = memcmp(one->member.data, two->member.data, OT_MIN(one->member.bytes, two->member.bytes));
    return order != 0 ? order : (one->member.bytes > two->member.bytes) - (one->member.bytes < two->member.bytes);
}

static enum ot_err read_wishes(struct cli_member *member, const struct ot_join_group_response_join_group_response_member *row, struct ot_arena *arena, struct share *out)
{
    struct ot_consumer_protocol_subscription subscription;
    struct ot_reader in = ot_reader_over(row->metadata.data, row->metadata.bytes);
    struct ot_wire_error error;
    const uint16_t version = ot_read_u16(&in);
    out->member = row->member_id;
    out->wants = ot_arena_alloc(arena, OT_MAX(member->topic_count, 1u));
    if (out->wants == NULL) return OT_ERR_NO_MEMORY;
    /* a newer subscription has more behind what version 0 holds, and is read as far as we know it */
    if (ot_consumer_protocol_subscription_decode(&subscription, (int16_t)OT_MIN(version, 3u), &in, arena, &error) != OT_OK) return OT_ERR_INCONSISTENT_GROUP_PROTOCOL;
    for (int32_t i = 0; i < subscription.topics.count; i++)
        for (uint32_t k = 0; k < member->topic_count; k++) out->wants[k] |= ot_str_equal(subscription.topics.items[i], str(member->topics[k].name));
    return OT_OK;
}

/* What one member gets of one topic: [first, first + count). */
static void range_of(const struct cli_member *member, const struct share *shares, uint32_t share_count, uint32_t index, uint32_t topic, uint32_t *first, uint32_t *count)
{
    uint32_t wanting = 0, place = 0;
    for (uint32_t i = 0; i < share_count; i++) {
        if (i == index) place = wanting;
        wanting += shares[i].wants[topic];
    }
    *first = *count = 0;
    if (!shares[index].wants[topic] || wanting == 0) return;
    const uint32_t partitions = member->topics[topic].partition_count, each = partitions / wanting, more = partitions % wanting;
    *first = each * place + OT_MIN(place, more);
    *count = each + (place < more);
}

static enum ot_err write_assignment(const struct cli_member *member, const struct share *shares, uint32_t share_count, uint32_t index, struct ot_arena *arena, struct ot_blob *out)
{
    struct ot_consumer_protocol_assignment assignment;
    uint32_t used = 0, pieces = 0;
    ot_consumer_protocol_assignment_defaults(&assignment);
    struct ot_consumer_protocol_assignment_topic_partition *rows = ot_arena_array(arena, OT_MAX(member->topic_count, 1u), sizeof(*rows));
    if (rows == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t topic = 0; topic < member->topic_count; topic++) {
        uint32_t first, count;
        range_of(member, shares, share_count, index, topic, &first, &count);
        if (count == 0) continue;
        int32_t *indexes = ot_arena_array(arena, count, sizeof(*indexes));
        if (indexes == NULL) return OT_ERR_NO_MEMORY;
        for (uint32_t i = 0; i < count; i++) indexes[i] = (int32_t)(first + i);
        rows[used].topic = str(member->topics[topic].name);
        rows[used].partitions.items = indexes;
        rows[used++].partitions.count = (int32_t)count;
        pieces += count;
    }
    assignment.assigned_partitions.items = rows;
    assignment.assigned_partitions.count = (int32_t)used;
    assignment.user_data.null = true;
    const size_t bytes = 2 + 64 + (size_t)used * 256 + (size_t)pieces * 4;
    uint8_t *to = ot_arena_alloc(arena, bytes);
    if (to == NULL) return OT_ERR_NO_MEMORY;
    struct ot_writer writer = ot_writer_over(to, bytes);
    ot_write_u16(&writer, 0);
    const enum ot_err err = ot_consumer_protocol_assignment_encode(&assignment, 0, &writer);
    *out = (struct ot_blob){to, (uint32_t)(writer.at - writer.start), false};
    return err != OT_OK ? err : writer.err;
}

static enum ot_err share_out(struct cli_member *member, const struct ot_join_group_response *joined, struct ot_arena *arena, struct ot_sync_group_request *request)
{
    const uint32_t count = (uint32_t)joined->members.count;
    if (count > MEMBERS_MAX) return OT_ERR_TOO_LARGE;
    struct share *shares = ot_arena_array(arena, OT_MAX(count, 1u), sizeof(*shares));
    struct ot_sync_group_request_sync_group_request_assignment *rows = ot_arena_array(arena, OT_MAX(count, 1u), sizeof(*rows));
    enum ot_err err = shares == NULL || rows == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    for (uint32_t i = 0; i < count && err == OT_OK; i++) err = read_wishes(member, &joined->members.items[i], arena, &shares[i]);
    if (err == OT_OK && count > 0) qsort(shares, count, sizeof(*shares), by_member);
    for (uint32_t i = 0; i < count && err == OT_OK; i++) {
        rows[i].member_id = shares[i].member;
        err = write_assignment(member, shares, count, i, arena, &rows[i].assignment);
    }
    request->assignments.items = rows;
    request->assignments.count = (int32_t)count;
    return err;
}

/* ---- what is ours */

static bool topic_index(const struct cli_member *member, struct ot_str name, uint32_t *out)
{
    for (uint32_t i = 0; i < member->topic_count; i++) {
        if (!ot_str_equal(name, str(member->topics[i].name))) continue;
        *out = i;
        return true;
    }
    return false;
}

static enum ot_err take_assignment(struct cli_member *member, struct ot_blob blob, struct ot_arena *arena)
{
    struct ot_consumer_protocol_assignment assignment;
    struct ot_reader in = ot_reader_over(blob.data, blob.bytes);
    struct ot_wire_error error;
    uint32_t count = 0;
    free(member->assigned);
    member->assigned = NULL;
    member->assigned_count = 0;
    if (blob.null || blob.bytes == 0) return OT_OK;
    const uint16_t version = ot_read_u16(&in);
    if (ot_consumer_protocol_assignment_decode(&assignment, (int16_t)OT_MIN(version, 3u), &in, arena, &error) != OT_OK) return OT_ERR_INCONSISTENT_GROUP_PROTOCOL;
    for (int32_t i = 0; i < assignment.assigned_partitions.count; i++) count += (uint32_t)assignment.assigned_partitions.items[i].partitions.count;
    if (count > CLI_MEMBER_PIECES_MAX) return OT_ERR_TOO_LARGE;
    if (count > 0 && (member->assigned = calloc(count, sizeof(*member->assigned))) == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < assignment.assigned_partitions.count; i++) {
        uint32_t topic;
        const struct ot_consumer_protocol_assignment_topic_partition *row = &assignment.assigned_partitions.items[i];
        if (!topic_index(member, row->topic, &topic)) continue;
        for (int32_t k = 0; k < row->partitions.count; k++)
            if (row->partitions.items[k] >= 0 && (uint32_t)row->partitions.items[k] < member->topics[topic].partition_count)
                member->assigned[member->assigned_count++] = (struct cli_assigned){topic, row->partitions.items[k], -1};
    }
    return OT_OK;
}

/* One topic at a time: its committed offsets. */
static enum ot_err fetch_offsets(struct cli_member *member, uint32_t topic)
{
    struct ot_offset_fetch_request request;
    struct ot_offset_fetch_response response;
    struct ot_offset_fetch_request_offset_fetch_request_topic row = {.name = str(member->topics[topic].name)};
    int32_t *indexes = calloc(OT_MAX(member->assigned_count, 1u), sizeof(*indexes));
    if (indexes == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < member->assigned_count; i++)
        if (member->assigned[i].topic == topic) indexes[row.partition_indexes.count++] = member->assigned[i].partition;
    row.partition_indexes.items = indexes;
    ot_offset_fetch_request_defaults(&request);
    request.group_id = str(member->group);
    request.topics.items = &row;
    request.topics.count = 1;
    enum ot_err err = row.partition_indexes.count == 0 ? OT_ERR_NOT_FOUND : cli_member_ask(member, OT_OFFSET_FETCH_REQUEST_API, OFFSET_VERSIONS, &request, &response, deadline(member));
    free(indexes);
    if (err != OT_OK) return err == OT_ERR_NOT_FOUND ? OT_OK : err;
    if (response.error_code != 0) return (enum ot_err)response.error_code;
    for (int32_t t = 0; t < response.topics.count; t++)
        for (int32_t p = 0; p < response.topics.items[t].partitions.count; p++) {
            const struct ot_offset_fetch_response_offset_fetch_response_partition *one = &response.topics.items[t].partitions.items[p];
            if (one->error_code != 0) return (enum ot_err)one->error_code;
            for (uint32_t i = 0; i < member->assigned_count; i++)
                if (member->assigned[i].topic == topic && member->assigned[i].partition == one->partition_index) member->assigned[i].offset = one->committed_offset;
        }
    return OT_OK;
}

enum ot_err cli_member_offsets(struct cli_member *member)
{
    enum ot_err err = OT_OK;
    for (uint32_t i = 0; i < member->topic_count && err == OT_OK; i++) err = fetch_offsets(member, i);
    return err;
}

static enum ot_err sync_group(struct cli_member *member, const struct ot_join_group_response *joined, struct ot_arena *arena)
{
    struct ot_sync_group_request request;
    struct ot_sync_group_response response;
    enum ot_err err = OT_OK;
    ot_sync_group_request_defaults(&request);
    request.group_id = str(member->group);
    request.generation_id = member->generation;
    request.member_id = str(member->id);
    request.group_instance_id = (struct ot_str){.null = true};
    if (ot_str_equal(joined->leader, joined->member_id)) err = share_out(member, joined, arena, &request);
    if (err == OT_OK) err = cli_member_ask(member, OT_SYNC_GROUP_REQUEST_API, SYNC_VERSIONS, &request, &response, cli_deadline_us(CLI_MEMBER_REBALANCE_MS + (int64_t)member->timeout_ms));
    if (err == OT_OK) err = (enum ot_err)response.error_code;
    return err == OT_OK ? take_assignment(member, response.assignment, arena) : err;
}

static enum ot_err join_and_sync(struct cli_member *member)
{
    static uint8_t subscription[SUBSCRIPTION_BYTES];
    struct ot_join_group_response joined;
    struct ot_arena arena;
    size_t bytes = 0;
    ot_arena_init(&arena, 16 << 20);
    enum ot_err err = write_subscription(member, subscription, sizeof(subscription), &bytes);
    if (err == OT_OK) err = join_once(member, subscription, bytes, &joined);
    if (err == OT_ERR_MEMBER_ID_REQUIRED) err = join_once(member, subscription, bytes, &joined);
    if (err == OT_OK) {
        member->generation = joined.generation_id;
        err = sync_group(member, &joined, &arena);
    }
    if (err == OT_OK) err = cli_member_offsets(member);
    ot_arena_free(&arena);
    return err;
}

enum ot_err cli_member_join(struct cli_member *member, const struct cli_assigned **assigned_out, uint32_t *count_out)
{
    const int64_t give_up_us = cli_deadline_us(2 * CLI_MEMBER_REBALANCE_MS + (int64_t)member->timeout_ms);
    enum ot_err err;
    member->in = false;
    for (;;) {
        err = member->modern ? cli_member_consumer_join(member) : join_and_sync(member);
        const bool moved = err == OT_ERR_NOT_COORDINATOR || err == OT_ERR_COORDINATOR_NOT_AVAILABLE || err == OT_ERR_NETWORK_EXCEPTION;
        if (moved) cli_conn_close(&member->conn);
        if (err == OT_OK || err == OT_ERR_CANCELLED || (!moved && !cli_member_must_join(err) && err != OT_ERR_UNSTABLE_OFFSET_COMMIT) || ot_clock_boot_us() > give_up_us) break;
        if (cli_wait(NULL, 0, cli_deadline_us(RETRY_PAUSE_MS)) == OT_ERR_CANCELLED) return OT_ERR_CANCELLED;
    }
    member->in = err == OT_OK;
    member->beat_us = ot_clock_boot_us();
    *assigned_out = member->assigned;
    *count_out = member->assigned_count;
    return cli_member_fail(member, err, "joining");
}

/* ---- in the group */

enum ot_err cli_member_beat(struct cli_member *member)
{
    struct ot_heartbeat_request request;
    struct ot_heartbeat_response response;
    if (member->modern) return cli_member_consumer_beat(member);
    if (ot_clock_boot_us() - member->beat_us < (int64_t)BEAT_MS * 1000) return OT_OK;
    member->beat_us = ot_clock_boot_us();
    ot_heartbeat_request_defaults(&request);
    request.group_id = str(member->group);
    request.generation_id = member->generation;
    request.member_id = str(member->id);
    request.group_instance_id = (struct ot_str){.null = true};
    enum ot_err err = cli_member_ask(member, OT_HEARTBEAT_REQUEST_API, BEAT_VERSIONS, &request, &response, deadline(member));
    if (err == OT_OK) err = (enum ot_err)response.error_code;
    if (err == OT_ERR_NOT_COORDINATOR || err == OT_ERR_COORDINATOR_NOT_AVAILABLE) cli_conn_close(&member->conn);
    return cli_member_fail(member, err, "heartbeat");
}

enum ot_err cli_member_commit(struct cli_member *member, const struct cli_assigned *offsets, uint32_t count)
{
    struct ot_offset_commit_request request;
    struct ot_offset_commit_response response;
    struct ot_offset_commit_request_offset_commit_request_topic *topics = calloc(OT_MAX(count, 1u), sizeof(*topics));
    struct ot_offset_commit_request_offset_commit_request_partition *parts = calloc(OT_MAX(count, 1u), sizeof(*parts));
    enum ot_err err = topics == NULL || parts == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    if (count == 0 || err != OT_OK || !member->in) goto done;
    ot_offset_commit_request_defaults(&request);
    request.group_id = str(member->group);
    request.generation_id_or_member_epoch = member->generation;
    request.member_id = str(member->id);
    request.group_instance_id = (struct ot_str){.null = true};
    for (uint32_t i = 0; i < count; i++) {     /* a row of its own for each partition: topics may come more than once */
        parts[i] = (struct ot_offset_commit_request_offset_commit_request_partition){.partition_index = offsets[i].partition, .committed_offset = offsets[i].offset, .committed_leader_epoch = -1,
            .committed_metadata = str("")};
        topics[i].name = str(member->topics[offsets[i].topic].name);
        topics[i].partitions.items = &parts[i];
        topics[i].partitions.count = 1;
    }
    request.topics.items = topics;
    request.topics.count = (int32_t)count;
    err = cli_member_ask(member, OT_OFFSET_COMMIT_REQUEST_API, member->modern ? 9 : 2, member->modern ? 9 : 7, &request, &response, deadline(member));
    for (int32_t t = 0; err == OT_OK && t < response.topics.count; t++)
        for (int32_t p = 0; err == OT_OK && p < response.topics.items[t].partitions.count; p++) err = (enum ot_err)response.topics.items[t].partitions.items[p].error_code;
done:
    free(topics);
    free(parts);
    return cli_member_fail(member, err, "commit");
}

void cli_member_close(struct cli_member *member)
{
    struct ot_leave_group_request request;
    struct ot_leave_group_response response;
    if (member == NULL) return;
    if (member->in && member->conn.fd >= 0 && member->modern) {
        cli_member_consumer_leave(member);
    } else if (member->in && member->conn.fd >= 0) {
        ot_leave_group_request_defaults(&request);
        request.group_id = str(member->group);
        request.member_id = str(member->id);
        ot_ignore(cli_member_ask(member, OT_LEAVE_GROUP_REQUEST_API, LEAVE_VERSIONS, &request, &response, deadline(member)), "the session times out by itself");
    }
    cli_conn_free(&member->conn);
    cli_conn_free(&member->finder);
    free(member->assigned);
    free(member->target);
    free(member);
}
