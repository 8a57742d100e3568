/* A member in the new protocol. The coordinator assigns; a heartbeat says what is owned and hears what is to be owned. When that changes, the reader stops, commits, and joins:
 * that takes the new assignment up, which the next heartbeat tells the coordinator, so that what was given up may go to somebody else. */
#include "cli/member_inner.h"
#include "base/util.h"
#include "base/wire/consumer_group_heartbeat_request.h"
#include "base/wire/consumer_group_heartbeat_response.h"
#include "cli/wait.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERVAL_MS = 3000, FIRST_BEATS = 20, FIRST_PAUSE_MS = 100, LEAVE_EPOCH = -1 };

typedef struct ot_consumer_group_heartbeat_request_topic_partitions owned_topic;

static bool topic_of(const struct cli_member *member, const struct ot_uuid *id, uint32_t *out)
{
    for (uint32_t i = 0; i < member->topic_count; i++) {
        if (!ot_uuid_equal(&member->topics[i].id, id)) continue;
        *out = i;
        return true;
    }
    return false;
}

static int by_place(const void *a, const void *b)
{
    const struct cli_assigned *one = a, *two = b;
    if (one->topic != two->topic) return one->topic > two->topic ? 1 : -1;
    return (one->partition > two->partition) - (one->partition < two->partition);
}

static bool same(const struct cli_assigned *one, uint32_t one_count, const struct cli_assigned *two, uint32_t two_count)
{
    if (one_count != two_count) return false;
    for (uint32_t i = 0; i < one_count; i++)
        if (by_place(&one[i], &two[i]) != 0) return false;
    return true;
}

static enum ot_err take_target(struct cli_member *member, const struct ot_consumer_group_heartbeat_response_assignment *assignment)
{
    uint32_t count = 0;
    for (int32_t i = 0; i < assignment->topic_partitions.count; i++) count += (uint32_t)OT_MAX(assignment->topic_partitions.items[i].partitions.count, 0);
    if (count > CLI_MEMBER_PIECES_MAX) return OT_ERR_TOO_LARGE;
    struct cli_assigned *target = calloc(OT_MAX(count, 1u), sizeof(*target));
    if (target == NULL) return OT_ERR_NO_MEMORY;
    count = 0;
    for (int32_t i = 0; i < assignment->topic_partitions.count; i++) {
        const struct ot_consumer_group_heartbeat_response_topic_partitions *row = &assignment->topic_partitions.items[i];
        uint32_t topic;
        if (!topic_of(member, &row->topic_id, &topic)) continue;
        for (int32_t k = 0; k < row->partitions.count; k++)
            if (row->partitions.items[k] >= 0 && (uint32_t)row->partitions.items[k] < member->topics[topic].partition_count) target[count++] = (struct cli_assigned){topic, row->partitions.items[k], -1};
    }
    if (count > 0) qsort(target, count, sizeof(*target), by_place);
    free(member->target);
    member->target = target;
    member->target_count = count;
    member->target_new = !same(target, count, member->assigned, member->assigned_count);
    return OT_OK;
}

/* What is owned, by topic: rows and numbers are freed by the caller, who finds them in *rows_out and *numbers_out. */
static enum ot_err write_owned(const struct cli_member *member, struct ot_consumer_group_heartbeat_request *request, owned_topic **rows_out, int32_t **numbers_out)
{
    owned_topic *rows = *rows_out = calloc(OT_MAX(member->topic_count, 1u), sizeof(*rows));
    int32_t *numbers = *numbers_out = calloc(OT_MAX(member->assigned_count, 1u), sizeof(*numbers));
    if (rows == NULL || numbers == NULL) return OT_ERR_NO_MEMORY;
    request->topic_partitions.items = rows;
    request->topic_partitions.count = 0;                            /* not null: nothing is owned is said too */
    for (uint32_t i = 0; i < member->assigned_count; i++) {        /* sorted by topic */
        const struct cli_assigned *one = &member->assigned[i];
        numbers[i] = one->partition;
        if (i == 0 || one->topic != member->assigned[i - 1].topic) rows[request->topic_partitions.count++] = (owned_topic){.topic_id = member->topics[one->topic].id, .partitions.items = &numbers[i]};
        rows[request->topic_partitions.count - 1].partitions.count++;
    }
    return OT_OK;
}

/* tell: with what is owned; joining: with what is subscribed to. */
static enum ot_err beat(struct cli_member *member, bool joining, bool tell)
{
    struct ot_consumer_group_heartbeat_request request;
    struct ot_consumer_group_heartbeat_response response;
    struct ot_str names[64];
    owned_topic *rows = NULL;
    int32_t *numbers = NULL;
    ot_consumer_group_heartbeat_request_defaults(&request);
    request.group_id = ot_str_of(member->group);
    request.member_id = ot_str_of(member->id);
    request.member_epoch = joining ? 0 : member->generation;
    for (uint32_t i = 0; i < OT_MIN(member->topic_count, (uint32_t)OT_ARRAY_COUNT(names)); i++) names[i] = ot_str_of(member->topics[i].name);
    if (joining) {
        request.rebalance_timeout_ms = CLI_MEMBER_REBALANCE_MS;
        request.subscribed_topic_names.items = names;
        request.subscribed_topic_names.count = (int32_t)OT_MIN(member->topic_count, (uint32_t)OT_ARRAY_COUNT(names));
    }
    enum ot_err err = joining || tell ? write_owned(member, &request, &rows, &numbers) : OT_OK;
    if (err == OT_OK) err = cli_member_ask(member, OT_CONSUMER_GROUP_HEARTBEAT_REQUEST_API, 0, 1, &request, &response, cli_deadline_us(member->timeout_ms));
    free(rows);
    free(numbers);
    member->beat_us = ot_clock_boot_us();
    if (err == OT_OK) err = (enum ot_err)response.error_code;
    if (err != OT_OK) return err;
    if (response.member_id.bytes > 0 && response.member_id.bytes < sizeof(member->id)) snprintf(member->id, sizeof(member->id), "%.*s", (int)response.member_id.bytes, response.member_id.data);
    member->generation = response.member_epoch;
    member->interval_ms = response.heartbeat_interval_ms > 0 ? response.heartbeat_interval_ms : INTERVAL_MS;
    return response.assignment != NULL ? take_target(member, response.assignment) : OT_OK;
}

static enum ot_err take_up(struct cli_member *member)
{
    free(member->assigned);
    member->assigned = member->target;
    member->assigned_count = member->target_count;
    member->target = NULL;
    member->target_count = 0;
    member->target_new = false;
    const enum ot_err err = beat(member, false, true);
    return err == OT_OK ? cli_member_offsets(member) : err;
}

static void forget(struct cli_member *member)
{
    free(member->assigned);
    free(member->target);
    member->assigned = member->target = NULL;
    member->assigned_count = member->target_count = 0;
    member->target_new = false;
    member->generation = 0;
}

/* In the group already: the target is taken up, as long as there is a newer one. Else it begins anew, with nothing. */
enum ot_err cli_member_consumer_join(struct cli_member *member)
{
    struct ot_uuid id;
    enum ot_err err = OT_OK;
    for (uint32_t i = 0; i < member->topic_count; i++)
        if (ot_uuid_is_zero(&member->topics[i].id)) return OT_ERR_UNSUPPORTED_VERSION;
    if (!member->target_new || member->generation <= 0) {
        forget(member);
        if (member->id[0] == 0) {
            ot_uuid_random(&id);
            ot_uuid_text(&id, member->id);
        }
        err = beat(member, true, true);
        /* the coordinator may need a moment for the first assignment, or others to give up theirs: better now than at the next heartbeat */
        for (int i = 0; err == OT_OK && !member->target_new && i < FIRST_BEATS; i++) {
            if (cli_wait(NULL, 0, cli_deadline_us(FIRST_PAUSE_MS)) == OT_ERR_CANCELLED) return OT_ERR_CANCELLED;
            err = beat(member, false, true);
        }
    }
    while (err == OT_OK && member->target_new) err = take_up(member);
    if (err == OT_ERR_FENCED_MEMBER_EPOCH || err == OT_ERR_UNKNOWN_MEMBER_ID) forget(member);
    return err;
}

enum ot_err cli_member_consumer_beat(struct cli_member *member)
{
    if (ot_clock_boot_us() - member->beat_us < (int64_t)member->interval_ms * 1000) return OT_OK;
    const enum ot_err err = beat(member, false, false);
    if (err == OT_ERR_NOT_COORDINATOR || err == OT_ERR_COORDINATOR_NOT_AVAILABLE) cli_conn_close(&member->conn);
    if (err == OT_ERR_FENCED_MEMBER_EPOCH || err == OT_ERR_UNKNOWN_MEMBER_ID) member->generation = 0;      /* what is assigned is still read by the caller */
    if (err == OT_OK && member->target_new) return OT_ERR_REBALANCE_IN_PROGRESS;
    return cli_member_fail(member, err, "heartbeat");
}

void cli_member_consumer_leave(struct cli_member *member)
{
    struct ot_consumer_group_heartbeat_request request;
    struct ot_consumer_group_heartbeat_response response;
    ot_consumer_group_heartbeat_request_defaults(&request);
    request.group_id = ot_str_of(member->group);
    request.member_id = ot_str_of(member->id);
    request.member_epoch = LEAVE_EPOCH;
    ot_ignore(cli_member_ask(member, OT_CONSUMER_GROUP_HEARTBEAT_REQUEST_API, 0, 1, &request, &response, cli_deadline_us(member->timeout_ms)), "the session times out by itself");
}
