/* Group APIs byte for byte, in every version, over the real state machine (fake_groups.c). */
#include "client.h"

#include "base/wire/delete_groups_request.h"
#include "base/wire/delete_groups_response.h"
#include "base/wire/describe_groups_request.h"
#include "base/wire/describe_groups_response.h"
#include "base/wire/heartbeat_request.h"
#include "base/wire/heartbeat_response.h"
#include "base/wire/join_group_request.h"
#include "base/wire/join_group_response.h"
#include "base/wire/leave_group_request.h"
#include "base/wire/leave_group_response.h"
#include "base/wire/list_groups_request.h"
#include "base/wire/list_groups_response.h"
#include "base/wire/offset_commit_request.h"
#include "base/wire/offset_commit_response.h"
#include "base/wire/offset_delete_request.h"
#include "base/wire/offset_delete_response.h"
#include "base/wire/offset_fetch_request.h"
#include "base/wire/offset_fetch_response.h"
#include "base/wire/sync_group_request.h"
#include "base/wire/sync_group_response.h"

static const struct ot_blob metadata = { (const uint8_t *)"meta", 4, false }, assignment = { (const uint8_t *)"assign", 6, false };

static void join(int fd, int16_t version, const char *group, struct ot_str member_id, struct ot_join_group_response *response)
{
    struct ot_join_group_request request;
    struct ot_join_group_request_join_group_request_protocol protocol = { .name = ot_str_of("range"), .metadata = metadata };
    ot_join_group_request_defaults(&request);
    request.group_id = ot_str_of(group);
    request.session_timeout_ms = 10000;
    if (version >= 1) request.rebalance_timeout_ms = 20000;
    request.member_id = member_id;
    request.protocol_type = ot_str_of("consumer");
    request.protocols.items = &protocol;
    request.protocols.count = 1;
    exchange(fd, OT_API_JOIN_GROUP, version, &request, response);
}

/* One member through a whole life, in one version of each API. */
static void live(int fd, int16_t version, char *group)
{
    struct ot_join_group_response joined;
    join(fd, version, group, ot_str_of(""), &joined);
    if (version >= 4) {
        assert_int_equal(joined.error_code, OT_ERR_MEMBER_ID_REQUIRED);
        assert_true(joined.member_id.bytes > 36);
        join(fd, version, group, joined.member_id, &joined);
    }
    assert_int_equal(joined.error_code, 0);
    assert_int_equal(joined.generation_id, 1);
    assert_str(joined.protocol_name, "range");
    assert_true(ot_str_equal(joined.leader, joined.member_id));
    assert_int_equal(joined.members.count, 1);
    assert_memory_equal(joined.members.items[0].metadata.data, "meta", 4);
    if (version >= 7) assert_str(joined.protocol_type, "consumer");

    const int16_t sync_version = OT_MIN(version, (int16_t)5);
    struct ot_sync_group_request sync;
    struct ot_sync_group_response synced;
    struct ot_sync_group_request_sync_group_request_assignment given = { .member_id = joined.member_id, .assignment = assignment };
    ot_sync_group_request_defaults(&sync);
    sync.group_id = ot_str_of(group);
    sync.generation_id = 1;
    sync.member_id = joined.member_id;
    sync.assignments.items = &given;
    sync.assignments.count = 1;
    exchange(fd, OT_API_SYNC_GROUP, sync_version, &sync, &synced);
    assert_int_equal(synced.error_code, 0);
    assert_int_equal(synced.assignment.bytes, 6);
    assert_memory_equal(synced.assignment.data, "assign", 6);

    const int16_t beat_version = OT_MIN(version, (int16_t)4);
    struct ot_heartbeat_request beat;
    struct ot_heartbeat_response beaten;
    ot_heartbeat_request_defaults(&beat);
    beat.group_id = ot_str_of(group);
    beat.member_id = joined.member_id;
    beat.generation_id = 1;
    exchange(fd, OT_API_HEARTBEAT, beat_version, &beat, &beaten);
    assert_int_equal(beaten.error_code, 0);
    beat.generation_id = 2;
    exchange(fd, OT_API_HEARTBEAT, beat_version, &beat, &beaten);
    assert_int_equal(beaten.error_code, OT_ERR_ILLEGAL_GENERATION);

    const int16_t describe_version = OT_MIN(version, (int16_t)6);
    struct ot_describe_groups_request describe;
    struct ot_describe_groups_response described;
    struct ot_str ids[2] = { ot_str_of(group), ot_str_of("nobody") };
    ot_describe_groups_request_defaults(&describe);
    describe.groups = (struct ot_str_array){ ids, 2 };
    exchange(fd, OT_API_DESCRIBE_GROUPS, describe_version, &describe, &described);
    assert_int_equal(described.groups.count, 2);
    assert_str(described.groups.items[0].group_state, "Stable");
    assert_str(described.groups.items[0].protocol_data, "range");
    assert_int_equal(described.groups.items[0].members.count, 1);
    assert_str(described.groups.items[0].members.items[0].client_host, "/local");      /* the address, as Java prints one */
    assert_memory_equal(described.groups.items[0].members.items[0].member_assignment.data, "assign", 6);
    assert_str(described.groups.items[1].group_state, "Dead");
    assert_int_equal(described.groups.items[1].error_code, describe_version >= 6 ? OT_ERR_GROUP_ID_NOT_FOUND : 0);

    struct ot_delete_groups_request remove;
    struct ot_delete_groups_response removed;
    ot_delete_groups_request_defaults(&remove);
    remove.groups_names = (struct ot_str_array){ ids, 2 };
    exchange(fd, OT_API_DELETE_GROUPS, OT_MIN(version, (int16_t)3), &remove, &removed);
    assert_int_equal(removed.results.items[0].error_code, OT_ERR_NON_EMPTY_GROUP);
    assert_int_equal(removed.results.items[1].error_code, OT_ERR_GROUP_ID_NOT_FOUND);

    const int16_t leave_version = OT_MIN(version, (int16_t)5);
    struct ot_leave_group_request leave;
    struct ot_leave_group_response left;
    struct ot_leave_group_request_member_identity who = { .member_id = joined.member_id, .group_instance_id.null = true, .reason.null = true };
    ot_leave_group_request_defaults(&leave);
    leave.group_id = ot_str_of(group);
    if (leave_version < 3) {
        leave.member_id = joined.member_id;
    } else {
        leave.members.items = &who;
        leave.members.count = 1;
    }
    exchange(fd, OT_API_LEAVE_GROUP, leave_version, &leave, &left);
    assert_int_equal(left.error_code, 0);
    if (leave_version >= 3) assert_int_equal(left.members.items[0].error_code, 0);
    exchange(fd, OT_API_DELETE_GROUPS, OT_MIN(version, (int16_t)3), &remove, &removed);
    assert_int_equal(removed.results.items[0].error_code, 0);
}

static void a_member_lives_in_every_version(void **state)
{
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 0; version <= 9; version++) {
        char group[16];
        (void)snprintf(group, sizeof group, "g%d", version);
        live(fd, version, group);
    }
    close(fd);
    door_stop();
}

/* ---- offsets: topic "b" has partitions 0 to 2 */

static int16_t commit(int fd, int16_t version, const char *topic, int32_t partition, int64_t offset, const char *text)
{
    struct ot_offset_commit_request request;
    struct ot_offset_commit_response response;
    struct ot_offset_commit_request_offset_commit_request_partition part;
    struct ot_offset_commit_request_offset_commit_request_topic one;
    ot_offset_commit_request_offset_commit_request_partition_defaults(&part);
    ot_offset_commit_request_offset_commit_request_topic_defaults(&one);
    part.partition_index = partition;
    part.committed_offset = offset;
    if (version >= 6) part.committed_leader_epoch = 7;
    part.committed_metadata = ot_str_of(text);
    if (version < 10) one.name = ot_str_of(topic);
    else memset(one.topic_id.bytes, topic[0] == 'b' ? 2 : 99, 16);
    one.partitions.items = &part;
    one.partitions.count = 1;
    ot_offset_commit_request_defaults(&request);
    request.group_id = ot_str_of("offsets");
    request.topics.items = &one;
    request.topics.count = 1;
    exchange(fd, OT_API_OFFSET_COMMIT, version, &request, &response);
    assert_int_equal(response.topics.count, 1);
    return response.topics.items[0].partitions.items[0].error_code;
}

static void fetch_old(int fd, int16_t version, bool all, struct ot_offset_fetch_response *response)
{
    struct ot_offset_fetch_request request;
    int32_t partitions[3] = { 0, 1, 2 };
    struct ot_offset_fetch_request_offset_fetch_request_topic topic = { .name = ot_str_of("b"), .partition_indexes = { partitions, 3 } };
    ot_offset_fetch_request_defaults(&request);
    request.group_id = ot_str_of("offsets");
    request.topics.items = all ? NULL : &topic;
    request.topics.count = all ? -1 : 1;
    exchange(fd, OT_API_OFFSET_FETCH, version, &request, response);
}

static void fetch_new(int fd, int16_t version, bool all, struct ot_offset_fetch_response *response)
{
    struct ot_offset_fetch_request request;
    int32_t partitions[3] = { 0, 1, 2 };
    struct ot_offset_fetch_request_offset_fetch_request_topics topic = { .partition_indexes = { partitions, 3 } };
    struct ot_offset_fetch_request_offset_fetch_request_group groups[2];
    for (int i = 0; i < 2; i++) ot_offset_fetch_request_offset_fetch_request_group_defaults(&groups[i]);
    if (version < 10) topic.name = ot_str_of("b");
    else memset(topic.topic_id.bytes, 2, 16);
    groups[0].group_id = ot_str_of("offsets");
    groups[1].group_id = ot_str_of("nobody");
    for (int i = 0; i < 2; i++) {
        groups[i].topics.items = all ? NULL : &topic;
        groups[i].topics.count = all ? -1 : 1;
    }
    ot_offset_fetch_request_defaults(&request);
    request.groups.items = groups;
    request.groups.count = 2;
    exchange(fd, OT_API_OFFSET_FETCH, version, &request, response);
}

static void offsets_go_in_and_come_out_in_every_version(void **state)
{
    struct ot_offset_fetch_response fetched;
    (void)state;
    door_start();
    const int fd = client();
    for (int16_t version = 2; version <= 10; version++) {
        assert_int_equal(commit(fd, version, "b", 1, 40 + version, "text"), 0);
        assert_int_equal(commit(fd, version, "nothing", 0, 1, ""), version >= 10 ? OT_ERR_UNKNOWN_TOPIC_ID : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(commit(fd, version, "b", 1, -7, ""), OT_ERR_OFFSET_OUT_OF_RANGE);
        for (int16_t fetch_version = 1; fetch_version <= 7; fetch_version++) {
            fetch_old(fd, fetch_version, false, &fetched);
            assert_int_equal(fetched.topics.count, 1);
            assert_int_equal(fetched.topics.items[0].partitions.count, 3);
            assert_int_equal(fetched.topics.items[0].partitions.items[0].committed_offset, -1);
            assert_int_equal(fetched.topics.items[0].partitions.items[0].error_code, 0);
            assert_int_equal(fetched.topics.items[0].partitions.items[1].committed_offset, 40 + version);
            assert_str(fetched.topics.items[0].partitions.items[1].metadata, "text");
            if (fetch_version >= 5) assert_int_equal(fetched.topics.items[0].partitions.items[1].committed_leader_epoch, version >= 6 ? 7 : -1);
            if (fetch_version < 2) continue;
            fetch_old(fd, fetch_version, true, &fetched);
            assert_int_equal(fetched.topics.count, 1);
            assert_int_equal(fetched.topics.items[0].partitions.count, 1);
        }
        for (int16_t fetch_version = 8; fetch_version <= 10; fetch_version++) {
            for (int all = 0; all < 2; all++) {
                fetch_new(fd, fetch_version, all, &fetched);
                assert_int_equal(fetched.groups.count, 2);
                assert_str(fetched.groups.items[0].group_id, "offsets");
                assert_int_equal(fetched.groups.items[0].topics.count, 1);
                const struct ot_offset_fetch_response_offset_fetch_response_topics *topic = &fetched.groups.items[0].topics.items[0];
                if (fetch_version < 10) assert_str(topic->name, "b");
                else assert_int_equal(topic->topic_id.bytes[0], 2);
                assert_int_equal(topic->partitions.count, all ? 1 : 3);
                assert_int_equal(topic->partitions.items[all ? 0 : 1].committed_offset, 40 + version);
                assert_int_equal(fetched.groups.items[1].error_code, 0);
                assert_int_equal(fetched.groups.items[1].topics.count, all ? 0 : 1);
            }
        }
    }
    char *large = malloc(5001);
    memset(large, 'x', 5000);
    large[5000] = 0;
    assert_int_equal(commit(fd, 9, "b", 0, 1, large), OT_ERR_OFFSET_METADATA_TOO_LARGE);
    free(large);
    close(fd);
    door_stop();
}

static void offsets_are_deleted(void **state)
{
    struct ot_offset_delete_request request;
    struct ot_offset_delete_response response;
    struct ot_offset_delete_request_offset_delete_request_partition parts[2] = { { 1 }, { 2 } };
    struct ot_offset_delete_request_offset_delete_request_topic topics[2] = { { ot_str_of("b"), { parts, 2 } }, { ot_str_of("nothing"), { parts, 1 } } };
    struct ot_offset_fetch_response fetched;
    (void)state;
    door_start();
    const int fd = client();
    ot_offset_delete_request_defaults(&request);
    request.group_id = ot_str_of("offsets");
    request.topics.items = topics;
    request.topics.count = 2;
    exchange(fd, OT_API_OFFSET_DELETE, 0, &request, &response);
    assert_int_equal(response.error_code, OT_ERR_GROUP_ID_NOT_FOUND);
    assert_int_equal(commit(fd, 9, "b", 1, 5, ""), 0);
    exchange(fd, OT_API_OFFSET_DELETE, 0, &request, &response);
    assert_int_equal(response.error_code, 0);
    assert_int_equal(response.topics.items[0].partitions.items[0].error_code, 0);
    assert_int_equal(response.topics.items[1].partitions.items[0].error_code, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    fetch_old(fd, 7, true, &fetched);
    assert_int_equal(fetched.topics.count, 0);
    close(fd);
    door_stop();
}

static void groups_are_listed_by_state_and_type(void **state)
{
    struct ot_list_groups_request request;
    struct ot_list_groups_response response;
    struct ot_str empty = ot_str_of("eMpTy"), stable = ot_str_of("Stable"), classic = ot_str_of("classic"), consumer = ot_str_of("consumer");
    (void)state;
    door_start();
    const int fd = client();
    assert_int_equal(commit(fd, 9, "b", 1, 5, ""), 0);
    for (int16_t version = 0; version <= 5; version++) {
        ot_list_groups_request_defaults(&request);
        exchange(fd, OT_API_LIST_GROUPS, version, &request, &response);
        assert_int_equal(response.error_code, 0);
        assert_int_equal(response.groups.count, 1);
        assert_str(response.groups.items[0].group_id, "offsets");
        assert_str(response.groups.items[0].protocol_type, "");
        if (version >= 4) assert_str(response.groups.items[0].group_state, "Empty");
        if (version >= 5) assert_str(response.groups.items[0].group_type, "Classic");
        if (version < 4) continue;
        request.states_filter = (struct ot_str_array){ &empty, 1 };
        exchange(fd, OT_API_LIST_GROUPS, version, &request, &response);
        assert_int_equal(response.groups.count, 1);
        request.states_filter = (struct ot_str_array){ &stable, 1 };
        exchange(fd, OT_API_LIST_GROUPS, version, &request, &response);
        assert_int_equal(response.groups.count, 0);
        if (version < 5) continue;
        request.states_filter.count = 0;
        request.types_filter = (struct ot_str_array){ &classic, 1 };
        exchange(fd, OT_API_LIST_GROUPS, version, &request, &response);
        assert_int_equal(response.groups.count, 1);
        request.types_filter = (struct ot_str_array){ &consumer, 1 };
        exchange(fd, OT_API_LIST_GROUPS, version, &request, &response);
        assert_int_equal(response.groups.count, 0);
    }
    close(fd);
    door_stop();
}

static void a_coordinator_that_is_not_there_is_said_in_every_answer(void **state)
{
    struct ot_join_group_response joined;
    struct ot_offset_fetch_response fetched;
    (void)state;
    door_start();
    const int fd = client();
    fake.group_error = OT_ERR_NOT_COORDINATOR;
    for (int16_t version = 0; version <= 9; version++) {
        join(fd, version, "g", ot_str_of(""), &joined);
        assert_int_equal(joined.error_code, OT_ERR_NOT_COORDINATOR);
    }
    assert_int_equal(commit(fd, 9, "b", 1, 5, ""), OT_ERR_NOT_COORDINATOR);
    fetch_old(fd, 7, false, &fetched);
    assert_int_equal(fetched.error_code, OT_ERR_NOT_COORDINATOR);
    assert_int_equal(fetched.topics.items[0].partitions.items[0].error_code, OT_ERR_NOT_COORDINATOR);
    fetch_new(fd, 9, true, &fetched);
    assert_int_equal(fetched.groups.items[0].error_code, OT_ERR_NOT_COORDINATOR);
    close(fd);
    door_stop();
}

static void a_client_that_goes_while_it_waits_leaves_nothing_behind(void **state)
{
    struct ot_join_group_request request;
    struct ot_join_group_request_join_group_request_protocol protocol = { .name = ot_str_of("range"), .metadata = metadata };
    struct ot_join_group_response joined;
    (void)state;
    door_start();
    int fd = client();
    join(fd, 3, "g", ot_str_of(""), &joined);
    const int second = client();
    ot_join_group_request_defaults(&request);
    request.group_id = ot_str_of("g");
    request.session_timeout_ms = 10000;
    request.rebalance_timeout_ms = 20000;
    request.protocol_type = ot_str_of("consumer");
    request.protocols.items = &protocol;
    request.protocols.count = 1;
    (void)ask(second, OT_API_JOIN_GROUP, 3, &request);      /* waits for the first to join again */
    close(second);
    close(fd);
    fd = client();
    join(fd, 3, "other", ot_str_of(""), &joined);
    assert_int_equal(joined.error_code, 0);
    close(fd);
    door_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_lives_in_every_version), cmocka_unit_test(offsets_go_in_and_come_out_in_every_version), cmocka_unit_test(offsets_are_deleted),
        cmocka_unit_test(groups_are_listed_by_state_and_type), cmocka_unit_test(a_coordinator_that_is_not_there_is_said_in_every_answer),
        cmocka_unit_test(a_client_that_goes_while_it_waits_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
