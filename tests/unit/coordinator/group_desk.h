/* A desk at which groups are asked: one set, a clock that moves when told, and every ask with its answer kept until the end. Records can be replayed into a second
 * set, which is what a restart does. */
#ifndef GROUP_DESK_H
#define GROUP_DESK_H

#include "coordinator/group.h"
#include "coordinator/consumer_group.h"

#include "base/wire/heartbeat_request.h"
#include "base/wire/heartbeat_response.h"
#include "base/wire/join_group_request.h"
#include "base/wire/join_group_response.h"
#include "base/wire/leave_group_request.h"
#include "base/wire/leave_group_response.h"
#include "base/wire/sync_group_request.h"
#include "base/wire/sync_group_response.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { DESK_ASKS = 512, DESK_RECORDS = 4096 };
struct desk_ask {
    struct group_ask ask;
    bool answered;
    struct ot_join_group_request join; struct ot_join_group_request_join_group_request_protocol protocols[3];
    struct ot_sync_group_request sync; struct ot_sync_group_request_sync_group_request_assignment assignments[8];
    struct ot_heartbeat_request beat;
    struct ot_leave_group_request leave; struct ot_leave_group_request_member_identity who[4];
    union { struct ot_join_group_response join; struct ot_sync_group_response sync; struct ot_heartbeat_response beat; struct ot_leave_group_response leave; struct group_view view;
        struct group_list list; } response;
    struct group_part parts[8];
};
struct desk_record { struct ot_blob key, value; int64_t producer_id; };
struct desk {
    struct group_set *set;
    struct ot_mem_pool pool;
    struct group_config config;
    int64_t now_us, wall_ms, jumped_ms;        /* jumped: of wall_ms, by a clock that was set */
    struct ot_arena step, kept;                /* of a step; of all asks and records */
    struct desk_ask *asks[DESK_ASKS]; uint32_t ask_count;
    struct desk_record records[DESK_RECORDS]; uint32_t record_count;
};

/* groups of the new protocol may come out of the log */
static const enum coord_assignor assignors[] = { COORD_ASSIGN_UNIFORM, COORD_ASSIGN_RANGE };
static const struct consumer_group_config desk_consumer = { .all = { .session_timeout_ms = 45000, .heartbeat_interval_ms = 5000, .size_max = 10, .regex_refresh_ms = 600000,
    .migration = COORD_CG_UPGRADE | COORD_CG_DOWNGRADE, .assignors = assignors, .assignor_count = 2, .record_bytes_max = 1 << 20 } };

static struct group_env desk_env(struct desk *desk) { return (struct group_env){ desk->now_us, desk->wall_ms, &desk->config, NULL, desk->wall_ms - desk->jumped_ms }; }

static void desk_take(struct desk *desk, struct group_out *out)
{
    assert_int_equal(out->fail, OT_OK);
    for (const struct group_record *record = out->records; record != NULL; record = record->next) {
        struct desk_record *kept = &desk->records[desk->record_count++];
        assert_true(desk->record_count < DESK_RECORDS);
        *kept = (struct desk_record){ { ot_arena_alloc(&desk->kept, record->key.bytes), record->key.bytes, false }, { NULL, record->value.bytes, record->value.null }, out->producer_id };
        memcpy((void *)(uintptr_t)kept->key.data, record->key.data, record->key.bytes);
        if (record->value.null) continue;
        kept->value.data = ot_arena_alloc(&desk->kept, record->value.bytes + 1);
        memcpy((void *)(uintptr_t)kept->value.data, record->value.data, record->value.bytes);
    }
    for (struct group_ask *ask = out->answered; ask != NULL; ask = ask->next) OT_CONTAINER(ask, struct desk_ask, ask)->answered = true;
    ot_arena_reset(&desk->step);
}

static struct desk *desk_new(void)
{
    struct desk *desk = calloc(1, sizeof *desk);
    desk->pool = (struct ot_mem_pool){ .name = "groups", .cap_bytes = 32u << 20 };
    desk->config = (struct group_config){ .initial_rebalance_delay_ms = 3000, .session_timeout_min_ms = 6000, .session_timeout_max_ms = 1800000, .group_size_max = INT32_MAX,
        .offset_metadata_bytes_max = 4096, .offsets_retention_ms = 7 * 86400000LL, .offsets_check_interval_ms = 600000, .record_bytes_max = 1 << 20, .consumer = &desk_consumer };
    desk->now_us = 1000000;
    desk->wall_ms = 1750000000000;
    ot_arena_init(&desk->step, 64u << 20);
    ot_arena_init(&desk->kept, 256u << 20);
    assert_int_equal(group_set_new(&desk->pool, 7, &desk->set), OT_OK);
    struct group_out out;
    const struct group_env env = desk_env(desk);
    group_out_init(&out, &desk->step);
    group_set_loaded(desk->set, &env, &out);
    desk_take(desk, &out);
    return desk;
}

static void desk_close(struct desk *desk)
{
    struct group_out out;
    group_out_init(&out, &desk->step);
    group_set_close(desk->set, OT_ERR_NOT_COORDINATOR, &out);
    desk_take(desk, &out);
    group_set_free(desk->set);
    desk->set = NULL;
    assert_int_equal(ot_mem_used_bytes(&desk->pool), 0);
}

static void desk_free(struct desk *desk)
{
    desk_close(desk);
    for (uint32_t i = 0; i < desk->ask_count; i++) assert_true(desk->asks[i]->answered);
    ot_arena_free(&desk->step);
    ot_arena_free(&desk->kept);
    free(desk);
}

static void desk_restart(struct desk *desk)
{
    struct group_out out;
    desk_close(desk);
    assert_int_equal(group_set_new(&desk->pool, 8, &desk->set), OT_OK);
    for (uint32_t i = 0; i < desk->record_count; i++) {
        const struct desk_record *kept = &desk->records[i];
        const struct group_set_record record = { i, kept->producer_id, kept->producer_id >= 0 ? 0 : -1, kept->producer_id >= 0, kept->key, kept->value };
        assert_int_equal(group_set_replay(desk->set, &record), OT_OK);
    }
    const struct group_env env = desk_env(desk);
    group_out_init(&out, &desk->step);
    group_set_loaded(desk->set, &env, &out);
    desk_take(desk, &out);
}

/* To then, deadline by deadline. */
static void desk_pass_ms(struct desk *desk, int64_t ms)
{
    const int64_t until_us = desk->now_us + ms * 1000;
    for (int bound = 100000; bound > 0; bound--) {
        const int64_t deadline_us = group_set_deadline_us(desk->set);
        const int64_t next_us = deadline_us <= until_us ? OT_MAX(deadline_us, desk->now_us) : until_us;
        desk->wall_ms += (next_us - desk->now_us) / 1000;
        desk->now_us = next_us;
        if (deadline_us > until_us) return;
        struct group_out out;
        const struct group_env env = desk_env(desk);
        group_out_init(&out, &desk->step);
        group_set_tick(desk->set, &env, &out);
        desk_take(desk, &out);
    }
    fail_msg("deadlines without end");
}

static struct desk_ask *desk_ask_new(struct desk *desk, enum group_ask_kind kind, const char *group)
{
    struct desk_ask *one = ot_arena_alloc(&desk->kept, sizeof *one);
    assert_non_null(one);
    one->ask = (struct group_ask){ .kind = kind, .version = 9, .group_id = ot_str_of(group), .client_id = ot_str_of("client"), .client_host = ot_str_of("/127.0.0.1"), .arena = &desk->kept,
        .response = &one->response, .generation = -1, .member_id = ot_str_of(""), .instance_id = { .null = true }, .retention_ms = -1, .producer_id = -1, .producer_epoch = -1 };
    desk->asks[desk->ask_count++] = one;
    assert_true(desk->ask_count < DESK_ASKS);
    return one;
}

static struct desk_ask *desk_go(struct desk *desk, struct desk_ask *one)
{
    struct group_out out;
    const struct group_env env = desk_env(desk);
    group_out_init(&out, &desk->step);
    group_set_ask(desk->set, &env, &one->ask, &out);
    desk_take(desk, &out);
    return one;
}

static const struct ot_str desk_none = { .null = true };

/* protocols: names separated by commas, each with `subscription` as its bytes; instance NULL: dynamic. */
static struct desk_ask *desk_join(struct desk *desk, const char *group, struct ot_str member, const char *instance, const char *protocols, const char *subscription)
{
    struct desk_ask *one = desk_ask_new(desk, GROUP_ASK_JOIN, group);
    ot_join_group_request_defaults(&one->join);
    one->join.group_id = ot_str_of(group);
    one->join.session_timeout_ms = 10000;
    one->join.rebalance_timeout_ms = 30000;
    one->join.member_id = member;
    one->join.group_instance_id = instance == NULL ? desk_none : ot_str_of(instance);
    one->join.protocol_type = ot_str_of("consumer");
    one->join.protocols.items = one->protocols;
    for (const char *at = protocols; *at != 0;) {
        const size_t bytes = strcspn(at, ",");
        one->protocols[one->join.protocols.count++] = (struct ot_join_group_request_join_group_request_protocol){ .name = { at, (uint32_t)bytes, false },
            .metadata = { (const uint8_t *)subscription, (uint32_t)strlen(subscription), false } };
        at += bytes + (at[bytes] == ',');
    }
    one->ask.request = &one->join;
    return desk_go(desk, one);
}

/* A new dynamic member as clients do it: it is told an id, and joins with it. The second ask. */
static struct desk_ask *desk_join_new(struct desk *desk, const char *group)
{
    struct desk_ask *first = desk_join(desk, group, ot_str_of(""), NULL, "range", "s");
    assert_true(first->answered);
    assert_int_equal(first->ask.error, OT_ERR_MEMBER_ID_REQUIRED);
    return desk_join(desk, group, first->response.join.member_id, NULL, "range", "s");
}

/* given NULL: a follower; else the bytes for every member of the leader's list. */
static struct desk_ask *desk_sync(struct desk *desk, const char *group, const struct desk_ask *joined, const char *given)
{
    struct desk_ask *one = desk_ask_new(desk, GROUP_ASK_SYNC, group);
    const struct ot_join_group_response *from = &joined->response.join;
    ot_sync_group_request_defaults(&one->sync);
    one->sync.generation_id = from->generation_id;
    one->sync.member_id = from->member_id;
    one->sync.group_instance_id = joined->join.group_instance_id;
    for (int32_t i = 0; given != NULL && i < from->members.count; i++) {
        one->sync.assignments.items = one->assignments;
        one->assignments[one->sync.assignments.count++] = (struct ot_sync_group_request_sync_group_request_assignment){ .member_id = from->members.items[i].member_id,
            .assignment = { (const uint8_t *)given, (uint32_t)strlen(given), false } };
    }
    one->ask.request = &one->sync;
    return desk_go(desk, one);
}

static enum ot_err desk_beat(struct desk *desk, const char *group, const struct desk_ask *joined)
{
    struct desk_ask *one = desk_ask_new(desk, GROUP_ASK_HEARTBEAT, group);
    ot_heartbeat_request_defaults(&one->beat);
    one->beat.member_id = joined->response.join.member_id;
    one->beat.group_instance_id = joined->join.group_instance_id;
    one->beat.generation_id = joined->response.join.generation_id;
    one->ask.request = &one->beat;
    desk_go(desk, one);
    assert_true(one->answered);
    return one->ask.error;
}

static struct desk_ask *desk_leave(struct desk *desk, const char *group, struct ot_str member, const char *instance)
{
    struct desk_ask *one = desk_ask_new(desk, GROUP_ASK_LEAVE, group);
    ot_leave_group_request_defaults(&one->leave);
    one->who[0] = (struct ot_leave_group_request_member_identity){ .member_id = member, .group_instance_id = instance == NULL ? desk_none : ot_str_of(instance), .reason = ot_str_of("closed") };
    one->leave.members.items = one->who;
    one->leave.members.count = 1;
    one->ask.request = &one->leave;
    desk_go(desk, one);
    assert_true(one->answered);
    return one;
}

static struct group_view *desk_view(struct desk *desk, const char *group)
{
    struct desk_ask *one = desk_go(desk, desk_ask_new(desk, GROUP_ASK_VIEW, group));
    return one->ask.error == OT_OK ? &one->response.view : NULL;
}

static const char *desk_state(struct desk *desk, const char *group)
{
    const struct group_view *view = desk_view(desk, group);
    return view == NULL ? "Dead" : view->state;
}

static struct desk_ask *desk_commit(struct desk *desk, const char *group, const struct desk_ask *joined, const char *topic, int32_t partition, int64_t offset)
{
    struct desk_ask *one = desk_ask_new(desk, GROUP_ASK_OFFSET_COMMIT, group);
    one->parts[0] = (struct group_part){ .topic = ot_str_of(topic), .partition = partition, .offset = offset, .leader_epoch = -1, .metadata = ot_str_of("") };
    one->ask.parts = one->parts;
    one->ask.part_count = 1;
    if (joined != NULL) {
        one->ask.member_id = joined->response.join.member_id;
        one->ask.generation = joined->response.join.generation_id;
    }
    desk_go(desk, one);
    assert_true(one->answered);
    return one;
}

static struct group_part *desk_fetch_part(struct desk *desk, const char *group, const char *topic, int32_t partition, bool stable)
{
    struct desk_ask *one = desk_ask_new(desk, GROUP_ASK_OFFSET_FETCH, group);
    one->parts[0] = (struct group_part){ .topic = ot_str_of(topic), .partition = partition };
    one->ask.parts = one->parts;
    one->ask.part_count = 1;
    one->ask.require_stable = stable;
    desk_go(desk, one);
    assert_true(one->answered);
    return &one->parts[0];
}

static int64_t desk_fetch(struct desk *desk, const char *group, const char *topic, int32_t partition) { return desk_fetch_part(desk, group, topic, partition, false)->offset; }

/* Two members of a stable group: both in generation 1, or whichever the initial delay made. */
static void desk_two(struct desk *desk, const char *group, struct desk_ask **first, struct desk_ask **second)
{
    *first = desk_join_new(desk, group);
    *second = desk_join_new(desk, group);
    desk_pass_ms(desk, 6000);
    assert_true((*first)->answered && (*second)->answered);
    struct desk_ask *leader = (*first)->response.join.members.count > 0 ? *first : *second, *follower = leader == *first ? *second : *first;
    struct desk_ask *waits = desk_sync(desk, group, follower, NULL);
    assert_false(waits->answered);
    struct desk_ask *led = desk_sync(desk, group, leader, "all");
    assert_true(led->answered && waits->answered);
    assert_int_equal(led->ask.error, OT_OK);
    assert_int_equal(waits->ask.error, OT_OK);
    assert_int_equal(waits->response.sync.assignment.bytes, 3);
}

#endif
