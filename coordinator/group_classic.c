#include "coordinator/group_classic.h"

#include "base/wire/group_metadata_value.h"
#include "base/wire/join_group_request.h"
#include "coordinator/bug.h"
#include "coordinator/group_protocol.h"

#include <string.h>

#define NEW_MEMBER_JOIN_US INT64_C(300000000)
enum { MEMBER_MAPS_BYTES = 192 };              /* what the maps take for a member, about */

static struct group_set *set_of(const struct classic_member *member) { return member->group->set; }
static const struct ot_str no_text = { .null = true };

/* ---- finding */

struct classic_member *classic_member(const struct group *group, struct ot_str id) { return id.null ? NULL : ot_map_get(&classic_of(group)->members, id.data, id.bytes); }

struct classic_member *classic_static(const struct group *group, struct ot_str instance_id)
{
    return instance_id.null ? NULL : ot_map_get(&classic_of(group)->statics, instance_id.data, instance_id.bytes);
}

enum ot_err classic_member_check(const struct group *group, struct ot_str member_id, struct ot_str instance_id)
{
    if (!instance_id.null) {
        const struct classic_member *known = classic_static(group, instance_id);
        if (known == NULL) return OT_ERR_UNKNOWN_MEMBER_ID;
        return ot_str_equal(known->id, member_id) ? OT_OK : OT_ERR_FENCED_INSTANCE_ID;
    }
    return classic_member(group, member_id) == NULL ? OT_ERR_UNKNOWN_MEMBER_ID : OT_OK;
}

/* ---- protocols of members, and how many members know each */

static struct classic_vote *vote_find(struct classic *classic, struct ot_str name)
{
    for (uint32_t i = 0; i < classic->vote_count; i++)
        if (ot_str_equal(classic->votes[i].name, name)) return &classic->votes[i];
    return NULL;
}

static bool vote_add(struct group *group, struct ot_str name)
{
    struct classic *classic = classic_of(group);
    struct classic_vote *vote = vote_find(classic, name);
    if (vote == NULL) {
        if (classic->vote_count == classic->vote_cap) {
            const uint32_t cap = classic->vote_cap == 0 ? 4 : classic->vote_cap * 2;
            struct classic_vote *votes = group_alloc(group->set, cap * sizeof *votes);
            if (votes == NULL) return false;
            if (classic->vote_count > 0) memcpy(votes, classic->votes, classic->vote_count * sizeof *votes);
            group_free(group->set, classic->votes, classic->vote_cap * sizeof *votes);
            classic->votes = votes;
            classic->vote_cap = cap;
        }
        vote = &classic->votes[classic->vote_count];
        *vote = (struct classic_vote){ 0 };
        if (!group_str_copy(group->set, name, &vote->name)) return false;
        classic->vote_count++;
    }
    vote->members++;
    return true;
}

static void vote_take(struct group *group, struct ot_str name)
{
    struct classic *classic = classic_of(group);
    struct classic_vote *vote = vote_find(classic, name);
    if (vote == NULL || --vote->members > 0) return;
    group_str_free(group->set, &vote->name);
    *vote = classic->votes[--classic->vote_count];
}

static void protocols_free(struct group *group, struct classic_protocol *protocols, uint32_t count, bool voted)
{
    for (uint32_t i = 0; i < count; i++) {
        if (voted) vote_take(group, protocols[i].name);
        group_str_free(group->set, &protocols[i].name);
        group_blob_free(group->set, &protocols[i].metadata);
    }
    group_free(group->set, protocols, count * sizeof *protocols);
}

/* Copies with their votes. */
static bool protocols_copy(struct group *group, const struct ot_join_group_request *request, struct classic_protocol **out, uint32_t *count_out)
{
    const uint32_t count = (uint32_t)request->protocols.count;
    struct classic_protocol *protocols = group_alloc(group->set, count * sizeof *protocols);
    uint32_t voted = 0;
    bool made = protocols != NULL;
    for (uint32_t i = 0; made && i < count; i++) {
        made = group_str_copy(group->set, request->protocols.items[i].name, &protocols[i].name) && group_blob_copy(group->set, request->protocols.items[i].metadata, &protocols[i].metadata)
            && vote_add(group, protocols[i].name);
        voted += made ? 1 : 0;
    }
    if (made) {
        *out = protocols;
        *count_out = count;
        return true;
    }
    for (uint32_t i = 0; i < voted; i++) vote_take(group, protocols[i].name);
    if (protocols != NULL) protocols_free(group, protocols, count, false);
    return false;
}

struct ot_blob classic_metadata(const struct classic_member *member, struct ot_str protocol)
{
    for (uint32_t i = 0; i < member->protocol_count && !protocol.null; i++)
        if (ot_str_equal(member->protocols[i].name, protocol)) return member->protocols[i].metadata;
    return (struct ot_blob){ 0 };
}

bool classic_member_matches(const struct classic_member *member, const struct group_ask *ask)
{
    const struct ot_join_group_request *request = ask->request;
    if ((uint32_t)request->protocols.count != member->protocol_count) return false;
    for (uint32_t i = 0; i < member->protocol_count; i++) {
        const struct classic_protocol *mine = &member->protocols[i];
        const struct ot_join_group_request_join_group_request_protocol *asked = &request->protocols.items[i];
        if (!ot_str_equal(mine->name, asked->name) || mine->metadata.bytes != asked->metadata.bytes) return false;
        if (mine->metadata.bytes > 0 && memcmp(mine->metadata.data, asked->metadata.data, mine->metadata.bytes) != 0) return false;
    }
    return true;
}

bool classic_knows_protocols(const struct group *group, const struct group_ask *ask)
{
    struct classic *classic = classic_of(group);
    const struct ot_join_group_request *request = ask->request;
    if (classic->members.count == 0) return request->protocol_type.bytes > 0 && request->protocols.count > 0;
    if (!ot_str_equal(classic->protocol_type, request->protocol_type)) return false;
    for (int32_t i = 0; i < request->protocols.count; i++) {
        const struct classic_vote *vote = vote_find(classic, request->protocols.items[i].name);
        if (vote != NULL && vote->members == classic->members.count) return true;
    }
    return false;
}

struct ot_str classic_select(const struct group *group)
{
    struct classic *classic = classic_of(group);
    struct ot_str best = no_text;
    uint32_t most = 0;
    for (uint32_t v = 0; v < classic->vote_count; v++) {
        if (classic->votes[v].members < classic->members.count) continue;
        uint32_t count = 0;
        for (const struct classic_member *member = classic->first; member != NULL; member = member->next) {
            for (uint32_t i = 0; i < member->protocol_count; i++) {      /* its vote: the first that all know */
                const struct classic_vote *vote = vote_find(classic, member->protocols[i].name);
                if (vote->members < classic->members.count) continue;
                count += vote == &classic->votes[v] ? 1 : 0;
                break;
            }
        }
        if (count <= most) continue;
        most = count;
        best = classic->votes[v].name;
    }
    return best;
}

/* ---- states */

static void state_set(struct group *group, enum classic_state state)
{
    struct classic *classic = classic_of(group);
    classic->state = state;
    classic->state_since_ms = group->set->env->wall_ms;
}

static void wait_for(struct group *group, enum classic_wait wait, int64_t delay_us)
{
    struct classic *classic = classic_of(group);
    classic->wait = wait;
    group_timer_set(group->set, &classic->timer, group->set->env->now_us + delay_us);
}

static void wait_end(struct group *group)
{
    struct classic *classic = classic_of(group);
    classic->wait = CLASSIC_WAIT_NONE;
    group_timer_cancel(group->set, &classic->timer);
}

static int64_t rebalance_timeout_us(const struct group *group)
{
    int64_t most = 0;
    for (const struct classic_member *member = classic_of(group)->first; member != NULL; member = member->next) most = OT_MAX(most, (int64_t)member->rebalance_timeout_ms);
    return most * 1000;
}

static bool all_joined(const struct group *group)
{
    const struct classic *classic = classic_of(group);
    return classic->members.count == classic->awaiting_join_count && classic->pending_count == 0;
}

static bool elect(struct classic *classic)
{
    if (classic->leader != NULL && classic->leader->awaiting_join) return true;
    for (struct classic_member *member = classic->first; member != NULL; member = member->next) {
        if (!member->awaiting_join) continue;
        classic->leader = member;
        return true;
    }
    return false;
}

static void to_empty(struct group *group)
{
    struct classic *classic = classic_of(group);
    group_str_free(group->set, &classic->protocol);
    state_set(group, CLASSIC_EMPTY);
    classic_emit(group);
    group_rebalance_end(group, classic->generation, 0, 0);
}

static void to_completing(struct group *group)
{
    struct classic *classic = classic_of(group);
    struct ot_str protocol;
    if (!group_str_copy(group->set, classic_select(group), &protocol)) {
        group->set->out->fail = OT_ERR_NO_MEMORY;
        return;
    }
    group_str_free(group->set, &classic->protocol);
    classic->protocol = protocol;
    state_set(group, CLASSIC_COMPLETING);
    for (struct classic_member *member = classic->first; member != NULL; member = member->next) {
        if (!member->awaiting_join) continue;  /* a static one that did not come back: it keeps its place until its session ends */
        struct group_ask *ask = member->joining;
        member->joining = NULL;
        member->awaiting_join = false;
        member->is_new = false;
        classic_member_alive(member);
        if (ask != NULL) classic_join_tell(member, ask, member == classic->leader, classic->leader->id, false);
    }
    classic->awaiting_join_count = 0;
    classic->unsynced_count = 0;
    for (struct classic_member *member = classic->first; member != NULL; member = member->next) {
        member->unsynced = true;
        classic->unsynced_count++;
    }
    wait_for(group, CLASSIC_WAIT_SYNC, rebalance_timeout_us(group));
}

static void complete_join(struct group *group)
{
    struct classic *classic = classic_of(group);
    struct classic_member *next;
    wait_end(group);
    for (struct classic_member *member = classic->first; member != NULL; member = next) {
        next = member->next;
        if (member->awaiting_join || !member->instance_id.null) continue;
        struct group_event *event = group_rebalance_event(group);
        if (event != NULL) event->members_gone++;
        group->set->counts.expired_members++;
        classic_member_remove(member, OT_ERR_UNKNOWN_MEMBER_ID);
    }
    if (classic->members.count > 0 && !elect(classic)) {       /* only static ones, none of them here: until their sessions end */
        wait_for(group, CLASSIC_WAIT_JOIN, rebalance_timeout_us(group));
        return;
    }
    classic->generation = classic->generation == INT32_MAX ? 1 : classic->generation + 1;
    if (classic->members.count == 0) to_empty(group);
    else to_completing(group);
}

void classic_prepare(struct group *group, enum group_reason reason, const struct classic_member *member, struct ot_str member_id, struct ot_str text)
{
    struct classic *classic = classic_of(group);
    const int64_t delay_us = group->set->env->config->initial_rebalance_delay_ms * 1000;
    group_rebalance_begin(group, reason, member == NULL ? member_id : member->id, member == NULL ? no_text : member->client_id, text);
    if (classic->state == CLASSIC_COMPLETING) classic_sync_tell(group, OT_ERR_REBALANCE_IN_PROGRESS);
    wait_end(group);
    classic->initial = classic->state == CLASSIC_EMPTY;
    state_set(group, CLASSIC_PREPARING);
    if (classic->initial) {
        classic->new_member_added = false;
        classic->remaining_us = OT_MAX(rebalance_timeout_us(group) - delay_us, 0);
        wait_for(group, CLASSIC_WAIT_INITIAL, delay_us);
    } else if (all_joined(group)) {
        complete_join(group);
    } else {
        wait_for(group, CLASSIC_WAIT_JOIN, rebalance_timeout_us(group));
    }
}

void classic_maybe_complete(struct group *group)
{
    const struct classic *classic = classic_of(group);
    if (classic->state == CLASSIC_PREPARING && !classic->initial && all_joined(group)) complete_join(group);
}

void classic_rebalance(struct group *group, enum group_reason reason, const struct classic_member *member, struct ot_str text)
{
    if (classic_of(group)->state == CLASSIC_PREPARING) classic_maybe_complete(group);
    else classic_prepare(group, reason, member, no_text, text);
}

/* ---- timers */

static void initial_fired(struct group *group)
{
    struct classic *classic = classic_of(group);
    const int64_t delay_us = group->set->env->config->initial_rebalance_delay_ms * 1000;
    if (!classic->new_member_added || classic->remaining_us == 0) {
        complete_join(group);
        return;
    }
    classic->new_member_added = false;
    const int64_t next_us = OT_MIN(delay_us, classic->remaining_us);
    classic->remaining_us = OT_MAX(classic->remaining_us - delay_us, 0);
    wait_for(group, CLASSIC_WAIT_INITIAL, next_us);
}

static void sync_fired(struct group *group)
{
    struct classic *classic = classic_of(group);
    struct classic_member *next;
    if (classic->unsynced_count == 0) return;
    for (struct classic_member *member = classic->first; member != NULL; member = next) {
        next = member->next;
        if (!member->unsynced) continue;
        group->set->counts.expired_members++;
        classic_member_remove(member, OT_ERR_UNKNOWN_MEMBER_ID);
    }
    classic_prepare(group, GROUP_REASON_SYNC_EXPIRED, NULL, no_text, no_text);
}

static void timer_fired(struct ot_timer *timer)
{
    struct classic *classic = OT_CONTAINER(timer, struct classic, timer);
    struct group *group = *(struct group **)(classic + 1);
    const enum classic_wait wait = classic->wait;
    classic->wait = CLASSIC_WAIT_NONE;
    switch (wait) {
    case CLASSIC_WAIT_INITIAL: initial_fired(group); break;
    case CLASSIC_WAIT_JOIN: complete_join(group); break;
    case CLASSIC_WAIT_SYNC: sync_fired(group); break;
    case CLASSIC_WAIT_NONE: break;
    }
}

static void member_fired(struct ot_timer *timer)
{
    struct classic_member *member = OT_CONTAINER(timer, struct classic_member, timer);
    struct group *group = member->group;
    struct group_set *set = group->set;
    char id[96];
    if (!member->is_new && (member->awaiting_join || member->awaiting_sync)) member->deadline_us = set->env->now_us + (int64_t)member->session_timeout_ms * 1000;
    if (COORD_BUG(SILENT_STAY)) member->deadline_us = set->env->now_us + (int64_t)member->session_timeout_ms * 1000;
    if (member->deadline_us > set->env->now_us) {
        group_timer_set(set, timer, member->deadline_us);
        return;
    }
    set->counts.expired_members++;
    const struct ot_str gone = { id, (uint32_t)OT_MIN(member->id.bytes, sizeof id), false };
    memcpy(id, member->id.data, gone.bytes);
    struct group_event *event = group_rebalance_event(group);
    if (event != NULL) event->members_gone++;
    classic_member_remove(member, OT_ERR_UNKNOWN_MEMBER_ID);
    const enum classic_state state = classic_of(group)->state;
    if (state == CLASSIC_STABLE || state == CLASSIC_COMPLETING) classic_prepare(group, GROUP_REASON_EXPIRED, NULL, gone, no_text);
    else classic_maybe_complete(group);
}

void classic_member_alive(struct classic_member *member)
{
    struct group_set *set = set_of(member);
    member->heard_us = set->env->now_us;
    member->deadline_us = set->env->now_us + (int64_t)member->session_timeout_ms * 1000;
    if (member->timer.heap_index == 0 || member->timer.deadline_us > member->deadline_us) group_timer_set(set, &member->timer, member->deadline_us);
}

void classic_member_session_new(struct classic_member *member)
{
    struct group_set *set = set_of(member);
    member->heard_us = set->env->now_us;
    member->deadline_us = set->env->now_us + NEW_MEMBER_JOIN_US;
    group_timer_set(set, &member->timer, member->deadline_us);
}

/* ---- member ids that were given out */

static void pending_fired(struct ot_timer *timer)
{
    struct classic_pending *pending = OT_CONTAINER(timer, struct classic_pending, timer);
    struct group *group = pending->group;
    classic_pending_remove(pending);
    classic_maybe_complete(group);
}

bool classic_pending_add(struct group *group, struct ot_str id, int32_t session_timeout_ms)
{
    struct classic *classic = classic_of(group);
    struct classic_pending *pending = group_alloc(group->set, sizeof *pending);
    if (pending == NULL) return false;
    if (!group_str_copy(group->set, id, &pending->id) || !group_timers_more(group->set, 1)) {
        group_str_free(group->set, &pending->id);
        group_free(group->set, pending, sizeof *pending);
        return false;
    }
    pending->group = group;
    pending->timer.fired = pending_fired;
    pending->next = classic->pending;
    pending->prev = &classic->pending;
    if (pending->next != NULL) pending->next->prev = &pending->next;
    classic->pending = pending;
    classic->pending_count++;
    group_timer_set(group->set, &pending->timer, group->set->env->now_us + (int64_t)session_timeout_ms * 1000);
    return true;
}

struct classic_pending *classic_pending_find(const struct group *group, struct ot_str id)
{
    for (struct classic_pending *pending = classic_of(group)->pending; pending != NULL; pending = pending->next)
        if (ot_str_equal(pending->id, id)) return pending;
    return NULL;
}

void classic_pending_remove(struct classic_pending *pending)
{
    struct group *group = pending->group;
    *pending->prev = pending->next;
    if (pending->next != NULL) pending->next->prev = pending->prev;
    classic_of(group)->pending_count--;
    group_timer_cancel(group->set, &pending->timer);
    group_timers_less(group->set, 1);
    group_str_free(group->set, &pending->id);
    group_free(group->set, pending, sizeof *pending);
}

/* ---- members */

static void member_free(struct classic_member *member)
{
    struct group *group = member->group;
    struct group_set *set = group->set;
    if (member->protocols != NULL) protocols_free(group, member->protocols, member->protocol_count, true);
    group_blob_free(set, &member->assignment);
    group_str_free(set, &member->id);
    group_str_free(set, &member->instance_id);
    group_str_free(set, &member->client_id);
    group_str_free(set, &member->client_host);
    group_free(set, member, sizeof *member + MEMBER_MAPS_BYTES);
}

static bool map_member(struct classic *classic, struct classic_member *member)
{
    if (ot_map_put(&classic->members, member->id.data, member->id.bytes, member) != OT_OK) return false;
    if (member->instance_id.null || ot_map_put(&classic->statics, member->instance_id.data, member->instance_id.bytes, member) == OT_OK) return true;
    (void)ot_map_remove(&classic->members, member->id.data, member->id.bytes);
    return false;
}

static void link_member(struct classic *classic, struct classic_member *member)
{
    member->prev = classic->last;
    if (classic->last != NULL) classic->last->next = member;
    else classic->first = member;
    classic->last = member;
    if (classic->leader == NULL) classic->leader = member;
}

/* What any member needs, whether a client brought it or the log. */
static struct classic_member *member_new(struct group *group, struct ot_str id, struct ot_str instance_id, struct ot_str client_id, struct ot_str client_host)
{
    struct group_set *set = group->set;
    struct classic_member *member = group_alloc(set, sizeof *member + MEMBER_MAPS_BYTES);
    if (member == NULL) return NULL;
    member->group = group;
    member->timer.fired = member_fired;
    member->instance_id.null = true;
    if (group_str_copy(set, id, &member->id) && group_str_copy(set, instance_id, &member->instance_id) && group_str_copy(set, client_id, &member->client_id)
        && group_str_copy(set, client_host, &member->client_host) && group_timers_more(set, 1)) return member;
    member_free(member);
    return NULL;
}

static void times_of(struct classic_member *member, const struct ot_join_group_request *request)
{
    member->session_timeout_ms = request->session_timeout_ms;
    member->rebalance_timeout_ms = request->rebalance_timeout_ms < 0 ? request->session_timeout_ms : request->rebalance_timeout_ms;
}

struct classic_member *classic_member_add(struct group *group, struct group_ask *ask, struct ot_str id)
{
    struct classic *classic = classic_of(group);
    const struct ot_join_group_request *request = ask->request;
    struct ot_str type = no_text;
    struct classic_member *member = member_new(group, id, request->group_instance_id, ask->client_id, ask->client_host);
    if (member == NULL) return NULL;
    bool made = protocols_copy(group, request, &member->protocols, &member->protocol_count);
    if (made && classic->members.count == 0) made = group_str_copy(group->set, request->protocol_type, &type);
    if (made) made = map_member(classic, member);
    if (!made) {
        group_str_free(group->set, &type);
        group_timers_less(group->set, 1);
        member_free(member);
        return NULL;
    }
    if (classic->members.count == 1) {
        group_str_free(group->set, &classic->protocol_type);
        classic->protocol_type = type;
    }
    times_of(member, request);
    link_member(classic, member);
    group->set->counts.members++;
    return member;
}

bool classic_member_update(struct classic_member *member, struct group_ask *ask)
{
    struct group *group = member->group;
    struct classic_protocol *protocols;
    uint32_t count;
    if (!protocols_copy(group, ask->request, &protocols, &count)) return false;
    protocols_free(group, member->protocols, member->protocol_count, true);
    member->protocols = protocols;
    member->protocol_count = count;
    times_of(member, ask->request);
    return true;
}

bool classic_member_rename(struct classic_member *member, struct ot_str id)
{
    struct classic *classic = classic_of(member->group);
    struct ot_str copy;
    if (!group_str_copy(set_of(member), id, &copy)) return false;
    if (ot_map_put(&classic->members, id.data, id.bytes, member) != OT_OK) {
        group_str_free(set_of(member), &copy);
        return false;
    }
    (void)ot_map_remove(&classic->members, member->id.data, member->id.bytes);
    group_str_free(set_of(member), &member->id);
    member->id = copy;
    return true;
}

bool classic_member_replay(struct group *group, const struct ot_group_metadata_value *value, const struct ot_group_metadata_value_member_metadata *from)
{
    struct classic *classic = classic_of(group);
    struct ot_join_group_request_join_group_request_protocol protocol = { .name = value->protocol, .metadata = from->subscription };
    const struct ot_join_group_request request = { .protocols = { &protocol, 1 } };
    if (classic_member(group, from->member_id) != NULL) return true;
    struct classic_member *member = member_new(group, from->member_id, from->group_instance_id, from->client_id, from->client_host);
    if (member == NULL) return false;
    bool made = value->protocol.null || protocols_copy(group, &request, &member->protocols, &member->protocol_count);
    if (made) made = group_blob_copy(group->set, from->assignment, &member->assignment) && map_member(classic, member);
    if (!made) {
        group_timers_less(group->set, 1);
        member_free(member);
        return false;
    }
    member->session_timeout_ms = OT_MAX(from->session_timeout, 1);
    member->rebalance_timeout_ms = from->rebalance_timeout < 0 ? member->session_timeout_ms : from->rebalance_timeout;
    link_member(classic, member);
    group->set->counts.members++;
    if (ot_str_equal(value->leader, member->id)) classic->leader = member;
    return true;
}

static void synced(struct classic_member *member)
{
    if (!member->unsynced) return;
    member->unsynced = false;
    classic_of(member->group)->unsynced_count--;
}

void classic_member_remove(struct classic_member *member, enum ot_err told)
{
    struct group *group = member->group;
    struct classic *classic = classic_of(group);
    struct group_set *set = group->set;
    if (member->awaiting_join) classic->awaiting_join_count--;
    synced(member);
    if (member->joining != NULL) classic_join_answer(set, member->joining, told, ot_str_of(""));
    if (member->syncing != NULL) classic_sync_answer(member, member->syncing, told);
    (void)ot_map_remove(&classic->members, member->id.data, member->id.bytes);
    if (!member->instance_id.null && classic_static(group, member->instance_id) == member)
        (void)ot_map_remove(&classic->statics, member->instance_id.data, member->instance_id.bytes);
    if (member->prev != NULL) member->prev->next = member->next;
    else classic->first = member->next;
    if (member->next != NULL) member->next->prev = member->prev;
    else classic->last = member->prev;
    if (classic->leader == member) classic->leader = classic->first;
    group_timer_cancel(set, &member->timer);
    group_timers_less(set, 1);
    set->counts.members--;
    member_free(member);
}

/* ---- what every type offers */

bool group_classic_begin(struct group *group)
{
    struct group_set *set = group->set;
    group->ops = NULL;
    group->body = NULL;
    if (!group_timers_more(set, 1)) return false;
    struct classic *classic = group_alloc(set, sizeof *classic + sizeof(struct group *));
    if (classic == NULL) {
        group_timers_less(set, 1);
        return false;
    }
    *(struct group **)(classic + 1) = group;
    classic->protocol_type = classic->protocol = no_text;
    classic->state_since_ms = -1;
    classic->timer.fired = timer_fired;
    ot_map_init(&classic->members);
    ot_map_init(&classic->statics);
    group->body = classic;
    group->ops = &group_classic_ops;
    set->counts.groups[GROUP_CLASSIC]++;
    return true;
}

static void classic_free(struct group *group)
{
    struct classic *classic = classic_of(group);
    struct group_set *set = group->set;
    while (classic->first != NULL) classic_member_remove(classic->first, OT_ERR_UNKNOWN_MEMBER_ID);
    while (classic->pending != NULL) classic_pending_remove(classic->pending);
    group_timer_cancel(set, &classic->timer);
    group_timers_less(set, 1);
    group_free(set, classic->votes, classic->vote_cap * sizeof *classic->votes);
    group_str_free(set, &classic->protocol_type);
    group_str_free(set, &classic->protocol);
    ot_map_free(&classic->members);
    ot_map_free(&classic->statics);
    group_free(set, classic, sizeof *classic + sizeof(struct group *));
    set->counts.groups[GROUP_CLASSIC]--;
    group->body = NULL;
    group->ops = NULL;
}

static void classic_close(struct group *group, enum ot_err why)
{
    for (struct classic_member *member = classic_of(group)->first; member != NULL; member = member->next) {
        struct group_ask *joining = member->joining, *syncing = member->syncing;
        member->joining = member->syncing = NULL;
        if (joining != NULL) classic_join_answer(group->set, joining, why, member->id);
        if (syncing != NULL) classic_sync_answer(member, syncing, why);
    }
}

static void classic_forget(struct group *group, struct group_ask *ask)
{
    for (struct classic_member *member = classic_of(group)->first; member != NULL; member = member->next) {
        if (member->joining == ask) member->joining = NULL;
        if (member->syncing == ask) member->syncing = NULL;
    }
}

static const char *classic_state_name(const struct group *group)
{
    static const char *const names[] = { "Empty", "PreparingRebalance", "CompletingRebalance", "Stable" };
    return names[classic_of(group)->state];
}

static bool classic_empty(const struct group *group) { return classic_of(group)->state == CLASSIC_EMPTY; }
static uint32_t classic_count(const struct group *group) { return classic_of(group)->members.count; }
static int32_t classic_generation(const struct group *group) { return classic_of(group)->generation; }
static struct ot_str classic_type(const struct group *group)
{
    const struct classic *classic = classic_of(group);
    return classic->protocol_type.null ? ot_str_of("") : classic->protocol_type;
}

static enum ot_err classic_commit_check(struct group *group, const struct group_ask *ask)
{
    const struct classic *classic = classic_of(group);
    const bool transactional = ask->kind == GROUP_ASK_TXN_OFFSET_COMMIT;
    if (ask->generation < 0 && classic->state == CLASSIC_EMPTY) return OT_OK;
    if (ask->generation >= 0 || ask->member_id.bytes > 0 || !ask->instance_id.null) {
        const enum ot_err err = classic_member_check(group, ask->member_id, ask->instance_id);
        if (err != OT_OK) return err;
        if (ask->generation != classic->generation && !COORD_BUG(COMMIT_ANY_GENERATION)) return OT_ERR_ILLEGAL_GENERATION;
    } else if (!transactional && classic->state != CLASSIC_EMPTY) {
        return OT_ERR_UNKNOWN_MEMBER_ID;
    }
    if (!transactional && classic->state == CLASSIC_COMPLETING) return OT_ERR_REBALANCE_IN_PROGRESS;
    struct classic_member *member = classic_member(group, ask->member_id);
    if (member != NULL && !member->is_new) classic_member_alive(member);
    return OT_OK;
}

static bool classic_subscribed(const struct group *group, struct ot_str topic)
{
    const struct classic *classic = classic_of(group);
    if (classic->state == CLASSIC_EMPTY || !ot_str_equal(classic->protocol_type, ot_str_of("consumer"))) return false;
    for (const struct classic_member *member = classic->first; member != NULL; member = member->next) {
        const struct ot_str protocol = classic->protocol.null && member->protocol_count > 0 ? member->protocols[0].name : classic->protocol;
        if (group_subscription_has(classic_metadata(member, protocol), topic)) return true;
    }
    return false;
}

static int64_t classic_expiry_base_ms(const struct group *group)
{
    const struct classic *classic = classic_of(group);
    if (classic->protocol_type.null) return -1;        /* offsets alone */
    if (classic->state == CLASSIC_EMPTY) return classic->state_since_ms;
    return classic->state == CLASSIC_STABLE && ot_str_equal(classic->protocol_type, ot_str_of("consumer")) ? -1 : INT64_MAX;
}

static enum ot_err classic_view(const struct group *group, const struct group_ask *ask, struct group_view *out)
{
    const struct classic *classic = classic_of(group);
    const int64_t now_us = group->set->env->now_us;
    struct group_view_member *members = ot_arena_array(ask->arena, OT_MAX(classic->members.count, 1u), sizeof *members);
    bool made = members != NULL && group_arena_str(ask->arena, classic->protocol, &out->protocol)
        && group_arena_str(ask->arena, classic->leader == NULL ? no_text : classic->leader->id, &out->leader);
    for (const struct classic_member *member = classic->first; made && member != NULL; member = member->next) {
        struct group_view_member *to = &members[out->member_count++];
        *to = (struct group_view_member){ .session_timeout_ms = member->session_timeout_ms, .rebalance_timeout_ms = member->rebalance_timeout_ms,
            .heartbeat_age_ms = member->heard_us == 0 ? -1 : (now_us - member->heard_us) / 1000, .epoch = -1 };
        const struct ot_str protocol = classic->protocol.null && member->protocol_count > 0 ? member->protocols[0].name : classic->protocol;
        made = group_arena_str(ask->arena, member->id, &to->member_id) && group_arena_str(ask->arena, member->instance_id, &to->instance_id)
            && group_arena_str(ask->arena, member->client_id, &to->client_id) && group_arena_str(ask->arena, member->client_host, &to->client_host)
            && group_arena_blob(ask->arena, classic_metadata(member, protocol), &to->metadata)
            && (classic->state != CLASSIC_STABLE || group_arena_blob(ask->arena, member->assignment, &to->assignment));
    }
    out->members = members;
    out->state_since_ms = classic->state_since_ms;
    out->empty_since_ms = classic->state == CLASSIC_EMPTY ? classic->state_since_ms : -1;
    return made ? OT_OK : OT_ERR_NO_MEMORY;
}

static enum ot_err classic_evict(struct group *group, const struct group_ask *ask)
{
    struct classic_member *member = ask->member_id.bytes > 0 ? classic_member(group, ask->member_id) : classic_static(group, ask->instance_id);
    char id[96];
    if (member == NULL) return OT_ERR_UNKNOWN_MEMBER_ID;
    const struct ot_str gone = { id, (uint32_t)OT_MIN(member->id.bytes, sizeof id), false };
    memcpy(id, member->id.data, gone.bytes);
    classic_member_remove(member, OT_ERR_UNKNOWN_MEMBER_ID);
    const enum classic_state state = classic_of(group)->state;
    if (state == CLASSIC_STABLE || state == CLASSIC_COMPLETING) classic_prepare(group, GROUP_REASON_EVICTED, NULL, gone, no_text);
    else classic_maybe_complete(group);
    return OT_OK;
}

static void classic_loaded(struct group *group)
{
    struct classic *classic = classic_of(group);
    if (classic->state != CLASSIC_STABLE) return;
    for (struct classic_member *member = classic->first; member != NULL; member = member->next) classic_member_alive(member);
    if (classic->members.count > (uint32_t)OT_MAX(group->set->env->config->group_size_max, 1))
        classic_prepare(group, GROUP_REASON_OVER_CAPACITY, NULL, no_text, no_text);
}

void group_classic_ask(struct group_set *set, struct group_ask *ask)
{
    static void (*const handlers[])(struct group_set *set, struct group_ask *ask) = {
        [GROUP_ASK_JOIN] = classic_join, [GROUP_ASK_SYNC] = classic_sync, [GROUP_ASK_HEARTBEAT] = classic_heartbeat, [GROUP_ASK_LEAVE] = classic_leave
    };
    handlers[ask->kind](set, ask);
}

const struct group_ops group_classic_ops = { .type = GROUP_CLASSIC, .state = classic_state_name, .empty = classic_empty, .member_count = classic_count,
    .generation = classic_generation, .protocol_type = classic_type, .commit_check = classic_commit_check, .subscribed = classic_subscribed,
    .expiry_base_ms = classic_expiry_base_ms, .view = classic_view, .evict = classic_evict, .loaded = classic_loaded, .tombstones = classic_tombstones,
    .forget = classic_forget, .close = classic_close, .free = classic_free };
