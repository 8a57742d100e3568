/* The container of groups: memory, timers, steps, and who handles what. */
#include "coordinator/group_inner.h"

#include "base/wire/frame.h"
#include "base/wire/offset_commit_key.h"

#include <stdlib.h>
#include <string.h>

enum { MAP_ENTRY_BYTES = 64, DUE_PER_TICK_MAX = 1000, REPLAY_ARENA_BYTES = 64 << 20 };

const char *group_type_name(enum group_type type)
{
    static const char *const names[] = { "Classic", "Consumer", "Share", "Streams" };
    return names[type];
}

/* ---- memory */

void *group_alloc(struct group_set *set, size_t bytes)
{
    if (!ot_mem_take(set->pool, bytes)) return NULL;
    void *memory = calloc(1, bytes == 0 ? 1 : bytes);
    if (memory == NULL) ot_mem_give(set->pool, bytes);
    return memory;
}

void group_free(struct group_set *set, void *memory, size_t bytes)
{
    if (memory == NULL) return;
    free(memory);
    ot_mem_give(set->pool, bytes);
}

bool group_str_copy(struct group_set *set, struct ot_str from, struct ot_str *out)
{
    *out = (struct ot_str){ .null = from.null };
    if (from.null) return true;
    char *copy = group_alloc(set, (size_t)from.bytes + 1);
    if (copy == NULL) return false;
    if (from.bytes > 0) memcpy(copy, from.data, from.bytes);
    *out = (struct ot_str){ copy, from.bytes, false };
    return true;
}

void group_str_free(struct group_set *set, struct ot_str *text)
{
    if (text->data != NULL) group_free(set, (void *)(uintptr_t)text->data, (size_t)text->bytes + 1);
    *text = (struct ot_str){ .null = true };
}

bool group_blob_copy(struct group_set *set, struct ot_blob from, struct ot_blob *out)
{
    *out = (struct ot_blob){ 0 };
    if (from.null || from.bytes == 0) return true;
    uint8_t *copy = group_alloc(set, from.bytes);
    if (copy == NULL) return false;
    memcpy(copy, from.data, from.bytes);
    *out = (struct ot_blob){ copy, from.bytes, false };
    return true;
}

void group_blob_free(struct group_set *set, struct ot_blob *blob)
{
    if (blob->data != NULL) group_free(set, (void *)(uintptr_t)blob->data, blob->bytes);
    *blob = (struct ot_blob){ 0 };
}

bool group_arena_str(struct ot_arena *arena, struct ot_str from, struct ot_str *out)
{
    *out = from;
    if (from.null) return true;
    out->data = ot_arena_str(arena, from);
    return out->data != NULL;
}

bool group_arena_blob(struct ot_arena *arena, struct ot_blob from, struct ot_blob *out)
{
    *out = (struct ot_blob){ .null = from.null };
    if (from.null || from.bytes == 0) return true;
    uint8_t *copy = ot_arena_alloc(arena, from.bytes);
    if (copy == NULL) return false;
    memcpy(copy, from.data, from.bytes);
    *out = (struct ot_blob){ copy, from.bytes, false };
    return true;
}

/* ---- steps */

void group_out_init(struct group_out *out, struct ot_arena *arena)
{
    *out = (struct group_out){ .arena = arena, .producer_id = -1, .producer_epoch = -1 };
    out->records_last = &out->records;
    out->answered_last = &out->answered;
}

static void begin(struct group_set *set, const struct group_env *env, struct group_out *out)
{
    set->env = env;
    set->out = out;
}

static void end(struct group_set *set)
{
    set->env = NULL;
    set->out = NULL;
}

void group_answer(struct group_set *set, struct group_ask *ask, enum ot_err error)
{
    ask->error = error;
    ask->held = NULL;
    ask->next = NULL;
    *set->out->answered_last = ask;
    set->out->answered_last = &ask->next;
}

static bool encode(struct group_out *out, const struct ot_wire_message *message, int16_t version, const void *from, struct ot_blob *to)
{
    const size_t bytes = ot_wire_size(message, version, from) + 2;
    uint8_t *data = ot_arena_alloc(out->arena, bytes);
    if (data == NULL) return false;
    struct ot_writer writer = ot_writer_over(data, bytes);
    if (ot_wire_framed_encode(message, version, from, &writer) != OT_OK) return false;
    *to = (struct ot_blob){ data, (uint32_t)(writer.at - writer.start), false };
    return true;
}

void group_emit(struct group_set *set, const struct ot_wire_message *key_message, const void *key, const struct ot_wire_message *value_message, int16_t value_version,
    const void *value)
{
    struct group_out *out = set->out;
    struct group_record *record = ot_arena_alloc(out->arena, sizeof *record);
    bool made = record != NULL && encode(out, key_message, 0, key, &record->key);
    if (made && value == NULL) record->value.null = true;
    else if (made) made = encode(out, value_message, value_version, value, &record->value);
    if (!made) {
        out->fail = OT_ERR_NO_MEMORY;
        return;
    }
    *out->records_last = record;
    out->records_last = &record->next;
    out->record_count++;
}

/* ---- timers */

bool group_timers_more(struct group_set *set, uint32_t count)
{
    const uint32_t wanted = set->timers_wanted + count;
    if (wanted > set->timers.cap) {
        const uint32_t cap = OT_MAX(wanted, set->timers.cap * 2);
        if (!ot_mem_take(set->pool, (uint64_t)(cap - set->timers.cap) * sizeof(void *))) return false;
        const uint32_t before = set->timers.cap;
        if (ot_timer_heap_reserve(&set->timers, cap) != OT_OK) {
            ot_mem_give(set->pool, (uint64_t)(cap - before) * sizeof(void *));
            return false;
        }
    }
    set->timers_wanted = wanted;
    return true;
}

void group_timers_less(struct group_set *set, uint32_t count) { set->timers_wanted -= count; }
void group_timer_set(struct group_set *set, struct ot_timer *timer, int64_t deadline_us) { ot_timer_heap_set(&set->timers, timer, deadline_us); }
void group_timer_cancel(struct group_set *set, struct ot_timer *timer) { ot_timer_heap_cancel(&set->timers, timer); }

int64_t group_set_deadline_us(const struct group_set *set)
{
    const struct ot_timer *first = ot_timer_heap_first(&set->timers);
    return first == NULL ? INT64_MAX : first->deadline_us;
}

void group_set_tick(struct group_set *set, const struct group_env *env, struct group_out *out)
{
    begin(set, env, out);
    for (uint32_t bound = DUE_PER_TICK_MAX; bound > 0 && out->fail == OT_OK; bound--) {
        struct ot_timer *timer = ot_timer_heap_first(&set->timers);
        if (timer == NULL || timer->deadline_us > env->now_us) break;
        ot_timer_heap_cancel(&set->timers, timer);
        timer->fired(timer);
    }
    end(set);
}

/* ---- groups */

struct group *group_find(const struct group_set *set, struct ot_str id) { return id.null ? NULL : ot_map_get(&set->groups, id.data, id.bytes); }

struct group *group_add(struct group_set *set, struct ot_str id)
{
    struct group *group = group_alloc(set, sizeof *group);
    if (group == NULL) return NULL;
    group->set = set;
    if (group_str_copy(set, id, &group->id) && ot_mem_take(set->pool, MAP_ENTRY_BYTES + id.bytes)) {
        if (ot_map_put(&set->groups, id.data, id.bytes, group) == OT_OK) return group;
        ot_mem_give(set->pool, MAP_ENTRY_BYTES + id.bytes);
    }
    group_str_free(set, &group->id);
    group_free(set, group, sizeof *group);
    return NULL;
}

static void leave_rebalancing(struct group *group)
{
    if (group->rebalancing_prev == NULL) return;
    group->set->counts.rebalancing--;
    *group->rebalancing_prev = group->rebalancing_next;
    if (group->rebalancing_next != NULL) group->rebalancing_next->rebalancing_prev = group->rebalancing_prev;
    group->rebalancing_prev = NULL;
    group->rebalancing_next = NULL;
}

void group_remove(struct group *group)
{
    struct group_set *set = group->set;
    leave_rebalancing(group);
    if (group->ops != NULL) group->ops->free(group);
    group_offsets_free(group);
    group_free(set, group->timeline, sizeof *group->timeline);
    (void)ot_map_remove(&set->groups, group->id.data, group->id.bytes);
    ot_mem_give(set->pool, MAP_ENTRY_BYTES + group->id.bytes);
    group_str_free(set, &group->id);
    group_free(set, group, sizeof *group);
}

void group_delete(struct group *group)
{
    group_offsets_tombstones(group);
    group->ops->tombstones(group);
    group_remove(group);
}

/* ---- timeline */

const char *group_reason_name(enum group_reason reason)
{
    static const char *const names[] = { "member_joined", "member_rejoined", "member_left", "session_expired", "sync_expired", "member_evicted", "metadata_changed",
        "leader_rejoined", "static_member_changed", "over_capacity", "topics_changed", "type_changed" };
    OT_STATIC_ASSERT(OT_ARRAY_COUNT(names) == GROUP_REASON_COUNT, "a name for each reason");
    return names[reason];
}

static void cut(char *out, size_t cap, struct ot_str text)
{
    const size_t bytes = text.null ? 0 : OT_MIN(text.bytes, cap - 1);
    if (bytes > 0) memcpy(out, text.data, bytes);
    out[bytes] = 0;
}

struct group_event *group_rebalance_event(struct group *group)
{
    struct group_timeline *timeline = group->timeline;
    return timeline == NULL || !timeline->open ? NULL : &timeline->events[(timeline->count - 1) % GROUP_EVENTS_MAX];
}

void group_rebalance_begin(struct group *group, enum group_reason reason, struct ot_str member, struct ot_str client, struct ot_str text)
{
    struct group_set *set = group->set;
    if (group->rebalancing_prev == NULL) {
        group->rebalancing_since_us = set->env->now_us;
        group->rebalancing_next = set->rebalancing;
        if (set->rebalancing != NULL) set->rebalancing->rebalancing_prev = &group->rebalancing_next;
        group->rebalancing_prev = &set->rebalancing;
        set->rebalancing = group;
        set->counts.rebalancing++;
    }
    if (group->timeline == NULL) group->timeline = group_alloc(set, sizeof *group->timeline);
    if (group->timeline == NULL || group->timeline->open) return;      /* without memory it is not remembered, and works all the same */
    struct group_event *event = &group->timeline->events[group->timeline->count++ % GROUP_EVENTS_MAX];
    *event = (struct group_event){ .at_ms = set->env->wall_ms, .duration_ms = -1, .generation = -1, .reason = reason, .members_before = group->ops->member_count(group) };
    cut(event->member, sizeof event->member, member);
    cut(event->client, sizeof event->client, client);
    cut(event->text, sizeof event->text, text);
    group->timeline->open = true;
}

/* Without memory it is in the timeline all the same. */
static void tell_rebalanced(const struct group *group, const struct group_event *event)
{
    struct group_out *out = group->set->out;
    struct group_rebalanced *one = out == NULL ? NULL : ot_arena_alloc(out->arena, sizeof *one);
    const char *id = one == NULL ? NULL : ot_arena_str(out->arena, group->id);
    if (id == NULL) return;
    *one = (struct group_rebalanced){ out->rebalanced, { id, group->id.bytes, false }, *event };
    out->rebalanced = one;
}

void group_rebalance_end(struct group *group, int32_t generation, uint32_t partitions, uint32_t moved)
{
    struct group_event *event = group_rebalance_event(group);
    group->set->counts.rebalances++;
    if (event != NULL) {
        event->duration_ms = (group->set->env->now_us - group->rebalancing_since_us) / 1000;
        event->generation = generation;
        event->members_after = group->ops->member_count(group);
        event->partitions = partitions;
        event->partitions_moved = moved;
        group->timeline->open = false;
        tell_rebalanced(group, event);
    }
    leave_rebalancing(group);
}

/* ---- asks */

static void ask_delete(struct group_set *set, struct group_ask *ask)
{
    struct group *group = group_find(set, ask->group_id);
    if (group != NULL && group->ops->empty(group)) group_delete(group);
    else if (group != NULL) ask->text = "the group has members";
    group_answer(set, ask, group == NULL ? OT_ERR_GROUP_ID_NOT_FOUND : ask->text != NULL ? OT_ERR_NON_EMPTY_GROUP : OT_OK);
}

static void ask_evict(struct group_set *set, struct group_ask *ask)
{
    struct group *group = group_find(set, ask->group_id);
    group_answer(set, ask, group == NULL ? OT_ERR_GROUP_ID_NOT_FOUND : group->ops->evict(group, ask));
}

void group_set_ask(struct group_set *set, const struct group_env *env, struct group_ask *ask, struct group_out *out)
{
    static void (*const handlers[GROUP_ASK_KIND_COUNT])(struct group_set *set, struct group_ask *ask) = {
        [GROUP_ASK_JOIN] = group_classic_ask, [GROUP_ASK_SYNC] = group_classic_ask, [GROUP_ASK_HEARTBEAT] = group_classic_ask, [GROUP_ASK_LEAVE] = group_classic_ask,
        [GROUP_ASK_OFFSET_COMMIT] = group_offsets_ask, [GROUP_ASK_TXN_OFFSET_COMMIT] = group_offsets_ask, [GROUP_ASK_OFFSET_FETCH] = group_offsets_ask,
        [GROUP_ASK_OFFSET_DELETE] = group_offsets_ask, [GROUP_ASK_TOPIC_GONE] = group_offsets_ask,
        [GROUP_ASK_VIEW] = group_view_ask, [GROUP_ASK_LIST] = group_view_ask, [GROUP_ASK_SURVEY] = group_view_ask, [GROUP_ASK_DELETE] = ask_delete, [GROUP_ASK_EVICT] = ask_evict,
        [GROUP_ASK_CONSUMER_HEARTBEAT] = group_consumer_ask, [GROUP_ASK_CONSUMER_VIEW] = group_consumer_ask,
    };
    begin(set, env, out);
    ask->held = NULL;
    ask->text = NULL;
    handlers[ask->kind](set, ask);
    end(set);
}

void group_set_forget(struct group_set *set, struct group_ask *ask, struct group_out *out)
{
    if (ask->held == NULL) return;
    begin(set, NULL, out);
    ask->held->ops->forget(ask->held, ask);
    group_answer(set, ask, OT_ERR_COORDINATOR_NOT_AVAILABLE);
    end(set);
}

void group_set_txn_written(struct group_set *set, const struct group_env *env, const struct group_ask *ask, struct group_out *out)
{
    begin(set, env, out);
    const enum ot_err err = group_offsets_pend(set, ask);
    if (err != OT_OK) out->fail = err;
    end(set);
}

/* ---- loading */

enum ot_err group_set_replay(struct group_set *set, const struct group_set_record *record)
{
    struct ot_reader key = ot_reader_over(record->key.data, record->key.null ? 0 : record->key.bytes);
    struct ot_arena arena;
    int16_t type = -1;
    set->order = OT_MAX(set->order, record->offset);
    if (ot_wire_frame_peek(OT_WIRE_FRAME_API, &key, &type) != OT_OK) {
        set->counts.unknown_records++;
        return OT_OK;
    }
    uint8_t first[4096];
    ot_arena_init_with(&arena, first, sizeof first, REPLAY_ARENA_BYTES);
    enum ot_err err = type <= 1 ? group_offsets_replay(set, record, type, &arena)
        : type == 2 ? group_classic_replay(set, record, &arena) : group_consumer_replay(set, record, type, &arena);
    ot_arena_free(&arena);
    if (err == OT_OK || err == OT_ERR_NO_MEMORY) return err;
    set->counts.unknown_records++;             /* of a newer server, or damaged: what it says is not lost, it stays in the log */
    return OT_OK;
}

static void expiry_fired(struct ot_timer *timer)
{
    struct group_set *set = OT_CONTAINER(timer, struct group_set, expiry);
    group_offsets_expire(set);
}

void group_set_loaded(struct group_set *set, const struct group_env *env, struct group_out *out)
{
    begin(set, env, out);
    set->loading = false;
    for (uint32_t i = 0; i < set->groups.count && out->fail == OT_OK; i++) {
        struct group *group = set->groups.entries[i].value;
        if (group->ops->loaded != NULL) group->ops->loaded(group);
    }
    group_timer_set(set, &set->expiry, env->now_us + env->config->offsets_check_interval_ms * 1000);
    end(set);
}

void group_set_marker(struct group_set *set, int64_t producer_id, int16_t producer_epoch, bool commit)
{
    group_offsets_marker(set, producer_id, producer_epoch, commit);
}

/* ---- the beginning and the end */

enum ot_err group_set_new(struct ot_mem_pool *pool, uint64_t seed, struct group_set **out)
{
    struct group_set *set = calloc(1, sizeof *set);
    if (set == NULL) return OT_ERR_NO_MEMORY;
    set->pool = pool;
    set->loading = true;
    ot_rng_seed(&set->rng, seed);
    ot_map_init(&set->groups);
    ot_map_init(&set->txns);
    set->expiry.fired = expiry_fired;
    if (!group_timers_more(set, 1)) {
        free(set);
        return OT_ERR_NO_MEMORY;
    }
    *out = set;
    return OT_OK;
}

void group_set_close(struct group_set *set, enum ot_err why, struct group_out *out)
{
    begin(set, NULL, out);
    for (uint32_t i = 0; i < set->groups.count; i++) {
        struct group *group = set->groups.entries[i].value;
        group->ops->close(group, why);
    }
    end(set);
}

void group_set_free(struct group_set *set)
{
    if (set == NULL) return;
    while (set->groups.count > 0) group_remove(set->groups.entries[set->groups.count - 1].value);
    group_txns_free(set);
    ot_map_free(&set->groups);
    ot_map_free(&set->txns);
    ot_mem_give(set->pool, (uint64_t)set->timers.cap * sizeof(void *));
    ot_timer_heap_free(&set->timers);
    free(set);
}

void group_set_counts(const struct group_set *set, struct group_set_counts *out)
{
    *out = set->counts;
}

int64_t group_set_rebalance_age_us(const struct group_set *set, int64_t now_us)
{
    int64_t age = 0;
    for (const struct group *group = set->rebalancing; group != NULL; group = group->rebalancing_next) age = OT_MAX(age, now_us - group->rebalancing_since_us);
    return age;
}
