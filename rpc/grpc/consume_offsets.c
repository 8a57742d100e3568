/* Where the partitions of a Consume stream begin, and what it commits. One question of each kind is under way at a time: what comes meanwhile goes together into the next. */
#include "rpc/grpc/consume.h"

#include "base/util.h"

#include <stdio.h>
#include <string.h>

static struct ot_str name_of(const struct consume_part *part) { return (struct ot_str){ part->topic->name, part->topic->bytes, false }; }

static bool passing(enum ot_err error)
{
    return error == OT_ERR_COORDINATOR_LOAD_IN_PROGRESS || error == OT_ERR_COORDINATOR_NOT_AVAILABLE || error == OT_ERR_UNSTABLE_OFFSET_COMMIT;
}

static uint32_t count_of(const struct rpcg_consume *own, enum consume_stage stage, int64_t now_us)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < own->part_count; i++) count += own->parts[i].stage == stage && own->parts[i].again_us <= now_us ? 1u : 0u;
    return count;
}

/* A group's parts, and the assignments that they are of: the parts here move while it is under way. */
static struct group_part *parts_room(struct ot_arena *arena, uint32_t count, int64_t **ids_out)
{
    *ids_out = ot_arena_array(arena, count, sizeof **ids_out);
    struct group_part *parts = ot_arena_array(arena, count, sizeof *parts);
    return *ids_out == NULL ? NULL : parts;
}

static bool name_kept(struct ot_arena *arena, const struct consume_part *part, struct ot_str *out)
{
    const char *copy = ot_arena_str(arena, name_of(part));
    *out = (struct ot_str){ copy, part->topic->bytes, false };
    return copy != NULL;
}

static void begin_at(struct rpcg_consume *own, struct consume_part *part, int64_t offset, int64_t committed)
{
    part->stage = CONSUME_ACTIVE;
    part->next = part->acked = offset;
    part->committed = part->told = committed;
    part->again_us = 0;
    part->elsewhere = false;
    own->tell_assignment = own->fetch_stale = true;
}

void rpcg_consume_elsewhere(struct rpcg_consume *own, struct consume_part *part, int32_t leader_id)
{
    const struct rpcg_error words = rpcg_error_of(own->call->server, OT_ERR_NOT_LEADER_OR_FOLLOWER, NULL, name_of(part), part->partition, leader_id, -1);
    const bool elsewhere = words.leader_address[0] != '\0', same = strncmp(part->leader_address, words.leader_address, sizeof part->leader_address - 1) == 0;
    if (elsewhere != part->elsewhere || (elsewhere && !same)) own->tell_assignment = true;
    part->elsewhere = elsewhere;
    (void)snprintf(part->leader_address, sizeof part->leader_address, "%.*s", (int)sizeof part->leader_address - 1, words.leader_address);
}

/* ---- what is committed */

static void lookup_done(struct broker_call *broker_call)
{
    struct rpcg_consume *own = OT_CONTAINER(broker_call, struct rpcg_consume, lookup.call);
    struct rpcg_call *call = own->call;
    const enum ot_err whole = broker_group_error(&own->lookup);
    const int64_t now_us = ot_clock_boot_us();
    own->looking = false;
    for (uint32_t i = 0; i < own->lookup.ask.part_count; i++) {
        const struct group_part *found = &own->lookup.ask.parts[i];
        struct consume_part *part = rpcg_consume_part(own, own->lookup_ids[i]);
        const enum ot_err err = whole != OT_OK ? whole : found->error;
        if (part == NULL || part->stage != CONSUME_LOOKUP) continue;
        if (err == OT_OK && found->offset >= 0) {
            begin_at(own, part, found->offset, found->offset);
        } else if (err == OT_OK) {
            part->stage = CONSUME_START;
        } else {
            part->stage = CONSUME_NEW;
            part->again_us = now_us + CONSUME_AGAIN_US;
            if (!passing(err)) rpcg_consume_fail(own, err, NULL);
        }
    }
    rpcg_consume_step(own);
    rpcg_release(call);
}

static void lookup(struct rpcg_consume *own, uint32_t count, int64_t now_us)
{
    struct rpcg_call *call = own->call;
    ot_arena_reset(&own->lookup_arena);
    struct group_part *parts = parts_room(&own->lookup_arena, count, &own->lookup_ids);
    if (parts == NULL) {
        rpcg_consume_fail(own, OT_ERR_NO_MEMORY, NULL);
        return;
    }
    rpcg_group_init(call, &own->lookup, GROUP_ASK_OFFSET_FETCH, own->join.group, ot_str_of(own->host), &own->lookup_arena);
    own->lookup.call.done = lookup_done;
    own->lookup.ask.require_stable = true;     /* what a transaction is about to commit is waited for */
    own->lookup.ask.parts = parts;
    for (uint32_t i = 0; i < own->part_count; i++) {
        struct consume_part *part = &own->parts[i];
        struct ot_str name;
        if (part->stage != CONSUME_NEW || part->again_us > now_us || !name_kept(&own->lookup_arena, part, &name)) continue;
        own->lookup_ids[own->lookup.ask.part_count] = part->assignment_id;
        parts[own->lookup.ask.part_count++] = (struct group_part){ .topic = name, .topic_id = part->topic->id, .partition = part->partition, .offset = -1, .leader_epoch = -1,
            .metadata = ot_str_of("") };
        part->stage = CONSUME_LOOKUP;
    }
    own->looking = true;
    rpcg_hold(call);
    broker_group(call->server->broker, &own->lookup);
}

/* ---- where there is nothing committed */

static void starts_done(struct broker_call *broker_call)
{
    struct rpcg_consume *own = OT_CONTAINER(broker_call, struct rpcg_consume, starts.call);
    struct rpcg_call *call = own->call;
    const int64_t now_us = ot_clock_boot_us();
    const uint32_t each = own->join.start == RPCG_START_TIMESTAMP ? 2 : 1;
    own->starting = false;
    for (uint32_t i = 0; i < own->starts.part_count; i += each) {
        const struct broker_offsets_part *found = &own->starts.parts[i];
        struct consume_part *part = rpcg_consume_part(own, own->start_ids[i]);
        if (part == NULL || part->stage != CONSUME_START_ASKED) continue;
        if (each == 2 && found->error == OT_OK && found->offset < 0) found++;      /* no record is as young: the end */
        if (found->error == OT_OK) {
            /* the earliest is where another member would begin too; from any other start what comes now would be passed over */
            begin_at(own, part, found->offset, own->join.start == RPCG_START_EARLIEST ? found->offset : -1);
        } else {
            part->stage = CONSUME_START;
            part->again_us = now_us + CONSUME_AGAIN_US;
            if (found->error == OT_ERR_NOT_LEADER_OR_FOLLOWER) rpcg_consume_elsewhere(own, part, -1);
        }
    }
    rpcg_consume_step(own);
    rpcg_release(call);
}

static void starts_find(struct rpcg_consume *own, uint32_t count, int64_t now_us)
{
    struct rpcg_call *call = own->call;
    const enum rpcg_start start = own->join.start;
    const uint32_t each = start == RPCG_START_TIMESTAMP ? 2 : 1;
    ot_arena_reset(&own->start_arena);
    own->start_ids = ot_arena_array(&own->start_arena, (size_t)count * each, sizeof *own->start_ids);
    struct broker_offsets_part *parts = ot_arena_array(&own->start_arena, (size_t)count * each, sizeof *parts);
    if (own->start_ids == NULL || parts == NULL) {
        rpcg_consume_fail(own, OT_ERR_NO_MEMORY, NULL);
        return;
    }
    own->starts = (struct broker_offsets){ .call = { .home = &call->server->exec, .done = starts_done }, .kind = BROKER_LIST_OFFSETS, .api_version = 10,
        .read_committed = own->join.read_committed, .timeout_ms = 30000, .parts = parts };
    for (uint32_t i = 0; i < own->part_count; i++) {
        struct consume_part *part = &own->parts[i];
        if (part->stage != CONSUME_START || part->again_us > now_us) continue;
        for (uint32_t k = 0; k < each; k++) {
            own->start_ids[own->starts.part_count] = part->assignment_id;
            parts[own->starts.part_count++] = (struct broker_offsets_part){ .topic = { .null = true }, .topic_id = part->topic->id, .partition = part->partition, .current_leader_epoch = -1,
                .at = start == RPCG_START_EARLIEST ? -2 : each == 2 && k == 0 ? own->join.timestamp_ms : -1 };
        }
        part->stage = CONSUME_START_ASKED;
    }
    own->starting = true;
    rpcg_hold(call);
    broker_offsets(call->server->broker, &own->starts);
}

/* ---- commits */

static bool uncommitted(const struct consume_part *part) { return part->acked > part->committed; }

bool rpcg_consume_uncommitted(const struct rpcg_consume *own)
{
    for (uint32_t i = 0; i < own->part_count; i++)
        if (uncommitted(&own->parts[i])) return true;
    return false;
}

static void commit_part_done(struct rpcg_consume *own, struct consume_part *part, const struct group_part *done)
{
    if (done->error == OT_OK) {
        part->committed = OT_MAX(part->committed, done->offset);
        own->tell_committed = true;
    } else if (passing(done->error)) {
        own->commit_again_us = ot_clock_boot_us() + CONSUME_AGAIN_US;
    } else {
        rpcg_consume_part_drop(own, part); /* not this member's any more, or its topic is gone: the next heartbeat says what is */
        own->beat_us = 0;
    }
}

static void commit_done(struct broker_call *broker_call)
{
    struct rpcg_consume *own = OT_CONTAINER(broker_call, struct rpcg_consume, commit.call);
    struct rpcg_call *call = own->call;
    const enum ot_err whole = broker_group_error(&own->commit);
    own->committing = false;
    if (passing(whole)) {
        own->commit_again_us = ot_clock_boot_us() + CONSUME_AGAIN_US;
    } else if (whole == OT_ERR_UNKNOWN_MEMBER_ID || whole == OT_ERR_FENCED_MEMBER_EPOCH || whole == OT_ERR_STALE_MEMBER_EPOCH || whole == OT_ERR_ILLEGAL_GENERATION) {
        rpcg_consume_lost(own);
    } else if (whole != OT_OK) {
        rpcg_consume_lost(own);            /* nothing of it can be promised any more */
        rpcg_consume_fail(own, whole, own->commit.error == OT_OK ? own->commit.ask.text : NULL);
    }
    for (uint32_t i = 0; whole == OT_OK && i < own->commit.ask.part_count; i++) {
        struct consume_part *part = rpcg_consume_part(own, own->commit_ids[i]);
        if (part != NULL) commit_part_done(own, part, &own->commit.ask.parts[i]);
    }
    rpcg_consume_step(own);
    rpcg_release(call);
}

/* What was read of a topic that is gone is nobody's business any more, least of all that of a new one of the same name. */
static void gone_drop(struct rpcg_consume *own)
{
    struct broker_view_topic row;
    const struct broker_view *view = broker_view_take(own->call->server->broker);
    for (uint32_t i = own->part_count; i-- > 0;)
        if (uncommitted(&own->parts[i]) && !broker_view_topic_by_id(view, &own->parts[i].topic->id, &row)) rpcg_consume_part_drop(own, &own->parts[i]);
    broker_view_give(view);
}

static void commit(struct rpcg_consume *own)
{
    struct rpcg_call *call = own->call;
    gone_drop(own);
    if (!rpcg_consume_uncommitted(own)) return;
    ot_arena_reset(&own->commit_arena);
    struct group_part *parts = parts_room(&own->commit_arena, own->part_count, &own->commit_ids);
    if (parts == NULL) {
        own->commit_again_us = ot_clock_boot_us() + CONSUME_AGAIN_US;
        return;
    }
    rpcg_group_init(call, &own->commit, GROUP_ASK_OFFSET_COMMIT, own->join.group, ot_str_of(own->host), &own->commit_arena);
    own->commit.call.done = commit_done;
    own->commit.ask.member_id = ot_str_of(own->member_id);
    own->commit.ask.generation = own->epoch;
    own->commit.ask.parts = parts;
    for (uint32_t i = 0; i < own->part_count; i++) {
        const struct consume_part *part = &own->parts[i];
        struct ot_str name;
        if (!uncommitted(part) || !name_kept(&own->commit_arena, part, &name)) continue;
        own->commit_ids[own->commit.ask.part_count] = part->assignment_id;
        parts[own->commit.ask.part_count++] = (struct group_part){ .topic = name, .topic_id = part->topic->id, .partition = part->partition, .offset = part->acked,
            .leader_epoch = -1, .metadata = ot_str_of("") };
    }
    own->committing = true;
    own->commit_again_us = 0;
    rpcg_hold(call);
    broker_group(call->server->broker, &own->commit);
}

void rpcg_consume_offsets_step(struct rpcg_consume *own, int64_t now_us)
{
    const bool closing = rpcg_consume_closing(own);
    if (!own->committing && now_us >= own->commit_again_us && own->epoch > 0 && rpcg_consume_uncommitted(own)) commit(own);
    if (closing) return;
    uint32_t count = own->looking ? 0 : count_of(own, CONSUME_NEW, now_us);
    if (count > 0) lookup(own, count, now_us);
    count = own->starting ? 0 : count_of(own, CONSUME_START, now_us);
    if (count > 0) starts_find(own, count, now_us);
}
