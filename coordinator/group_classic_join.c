/* The ways into a classic group: new members, dynamic and static (KIP-345), the id that must be known first (KIP-394), and those who come back. */
#include "coordinator/group_classic.h"

#include "base/wire/join_group_request.h"
#include "base/wire/join_group_response.h"
#include "coordinator/group_protocol.h"

#include <stdio.h>
#include <string.h>

enum { MEMBER_ID_BYTES_MAX = 32767 };
static const struct ot_str no_text = { .null = true };

static struct ot_str no_name(const struct group_ask *ask) { return ask->version >= 7 ? no_text : ot_str_of(""); }

void classic_join_answer(struct group_set *set, struct group_ask *ask, enum ot_err error, struct ot_str member_id)
{
    struct ot_join_group_response *response = ask->response;
    ot_join_group_response_defaults(response);
    response->error_code = ot_err_kafka(error);
    response->protocol_name = no_name(ask);
    response->leader = ot_str_of("");
    if (!group_arena_str(ask->arena, member_id, &response->member_id)) response->member_id = ot_str_of("");
    group_answer(set, ask, error);
}

static bool members_fill(const struct group *group, struct ot_arena *arena, struct ot_join_group_response *response)
{
    const struct classic *classic = classic_of(group);
    response->members.items = ot_arena_array(arena, classic->members.count, sizeof *response->members.items);
    bool made = response->members.items != NULL;
    for (const struct classic_member *member = classic->first; made && member != NULL; member = member->next) {
        struct ot_join_group_response_join_group_response_member *to = &response->members.items[response->members.count++];
        ot_join_group_response_join_group_response_member_defaults(to);
        made = group_arena_str(arena, member->id, &to->member_id) && group_arena_str(arena, member->instance_id, &to->group_instance_id)
            && group_arena_blob(arena, classic_metadata(member, classic->protocol), &to->metadata);
    }
    return made;
}

void classic_join_tell(struct classic_member *member, struct group_ask *ask, bool with_members, struct ot_str leader_id, bool skip_assignment)
{
    struct group *group = member->group;
    const struct classic *classic = classic_of(group);
    struct ot_join_group_response *response = ask->response;
    ot_join_group_response_defaults(response);
    response->generation_id = classic->generation;
    response->skip_assignment = skip_assignment;
    bool made = group_arena_str(ask->arena, classic->protocol_type, &response->protocol_type) && group_arena_str(ask->arena, classic->protocol, &response->protocol_name)
        && group_arena_str(ask->arena, leader_id, &response->leader) && group_arena_str(ask->arena, member->id, &response->member_id);
    if (made && with_members) made = members_fill(group, ask->arena, response);
    if (!made) {
        classic_join_answer(group->set, ask, OT_ERR_UNKNOWN_SERVER_ERROR, ot_str_of(""));
        return;
    }
    group_answer(group->set, ask, OT_OK);
}

/* The member waits for the generation to come. An ask that it held before is told to try again. */
static void await(struct classic_member *member, struct group_ask *ask)
{
    struct group *group = member->group;
    struct classic *classic = classic_of(group);
    struct group_ask *before = member->joining;
    if (!member->awaiting_join) classic->awaiting_join_count++;
    member->awaiting_join = true;
    member->joining = ask;
    ask->held = group;
    if (before != NULL) classic_join_answer(group->set, before, OT_ERR_REBALANCE_IN_PROGRESS, member->id);
}

static void note_joined(struct group *group)
{
    struct group_event *event = group_rebalance_event(group);
    if (event != NULL) event->members_joined++;
}

static void refuse(struct group_set *set, struct group_ask *ask, enum ot_err error)
{
    const struct ot_join_group_request *request = ask->request;
    classic_join_answer(set, ask, error, request->member_id);
}

/* ---- new members */

/* "client-uuid", of a static member "instance-uuid". false: no memory. */
static bool make_id(struct group_set *set, const struct group_ask *ask, struct ot_str *out)
{
    const struct ot_join_group_request *request = ask->request;
    const struct ot_str base = request->group_instance_id.null ? ask->client_id : request->group_instance_id;
    const uint32_t base_bytes = base.null ? 0 : OT_MIN(base.bytes, (uint32_t)MEMBER_ID_BYTES_MAX - 37);
    const uint64_t high = (ot_rng_next(&set->rng) & ~UINT64_C(0xf000)) | 0x4000, low = (ot_rng_next(&set->rng) & ~(UINT64_C(3) << 62)) | UINT64_C(1) << 63;
    char *text = ot_arena_alloc(ask->arena, (size_t)base_bytes + 38);
    if (text == NULL) return false;
    if (base_bytes > 0) memcpy(text, base.data, base_bytes);
    const int bytes = snprintf(text + base_bytes, 38, "-%08x-%04x-%04x-%04x-%012llx", (unsigned)(high >> 32), (unsigned)(high >> 16 & 0xffff), (unsigned)(high & 0xffff),
        (unsigned)(low >> 48), (unsigned long long)(low & UINT64_C(0xffffffffffff)));
    *out = (struct ot_str){ text, base_bytes + (uint32_t)bytes, false };
    return true;
}

static void add_and_rebalance(struct group *group, struct group_ask *ask, struct ot_str id)
{
    struct classic *classic = classic_of(group);
    const struct ot_join_group_request *request = ask->request;
    struct classic_member *member = classic_member_add(group, ask, id);
    if (member == NULL) {
        refuse(group->set, ask, OT_ERR_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    member->is_new = true;
    if (classic->state == CLASSIC_PREPARING && classic->initial) classic->new_member_added = true;
    struct classic_pending *pending = classic_pending_find(group, member->id);
    if (pending != NULL) classic_pending_remove(pending);
    await(member, ask);
    /* its session cannot be told by heartbeats before it has an answer; one whose client gave up must go some day */
    classic_member_session_new(member);
    note_joined(group);
    classic_rebalance(group, GROUP_REASON_JOINED, member, request->reason);
}

static void join_dynamic(struct group *group, struct group_ask *ask, struct ot_str id)
{
    const struct ot_join_group_request *request = ask->request;
    if (ask->version < 4) {
        add_and_rebalance(group, ask, id);
        return;
    }
    const bool kept = classic_pending_add(group, id, request->session_timeout_ms);
    classic_join_answer(group->set, ask, kept ? OT_ERR_MEMBER_ID_REQUIRED : OT_ERR_COORDINATOR_NOT_AVAILABLE, kept ? id : ot_str_of(""));
}

/* Asks that the old incarnation of a static member still waits with. */
static void fence(struct classic_member *member)
{
    struct group *group = member->group;
    struct group_ask *joining = member->joining, *syncing = member->syncing;
    if (member->awaiting_join) classic_of(group)->awaiting_join_count--;
    member->joining = member->syncing = NULL;
    member->awaiting_join = member->awaiting_sync = false;
    if (joining != NULL) classic_join_answer(group->set, joining, OT_ERR_FENCED_INSTANCE_ID, member->id);
    if (syncing != NULL) classic_sync_answer(member, syncing, OT_ERR_FENCED_INSTANCE_ID);
}

/* In STABLE nothing moves while the protocol stays and the topics do: it takes its place again, and the log learns its new id. */
static bool may_stay(const struct group *group, const struct classic_member *member, bool same_topics)
{
    return same_topics && member != NULL && ot_str_equal(classic_select(group), classic_of(group)->protocol);
}

static void stay(struct group *group, struct classic_member *member, struct group_ask *ask, struct ot_str leader_before)
{
    const bool leads = classic_of(group)->leader == member;
    classic_emit(group);
    classic_member_alive(member);
    /* before v9 a leader that came back is told the old leader's id, so that it does not assign: nobody would send it the others' subscriptions again */
    if (ask->version >= 9) classic_join_tell(member, ask, leads, classic_of(group)->leader->id, leads);
    else classic_join_tell(member, ask, false, leader_before, false);
}

static void join_static_again(struct group *group, struct group_ask *ask, struct classic_member *member, struct ot_str id)
{
    struct classic *classic = classic_of(group);
    struct ot_str leader_before = ot_str_of("");
    struct ot_blob before = { 0 };
    bool kept = classic->leader == NULL || group_arena_str(ask->arena, classic->leader->id, &leader_before);
    kept = kept && group_arena_blob(ask->arena, classic_metadata(member, classic->protocol), &before);
    fence(member);
    if (!kept || !classic_member_update(member, ask) || !classic_member_rename(member, id)) {
        refuse(group->set, ask, OT_ERR_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    const struct ot_blob now = classic_metadata(member, classic->protocol);
    const bool consumers = ot_str_equal(classic->protocol_type, ot_str_of("consumer"));
    if (classic->state == CLASSIC_STABLE && may_stay(group, member, !consumers || group_subscription_equal(before, now))) {
        stay(group, member, ask, leader_before);
        return;
    }
    classic_member_alive(member);
    await(member, ask);
    note_joined(group);
    classic_rebalance(group, GROUP_REASON_STATIC_CHANGED, member, ot_str_of("a static member came back"));
}

static void join_new(struct group *group, struct group_ask *ask)
{
    const struct ot_join_group_request *request = ask->request;
    struct ot_str id;
    if (!classic_knows_protocols(group, ask)) {
        refuse(group->set, ask, OT_ERR_INCONSISTENT_GROUP_PROTOCOL);
        return;
    }
    if (!make_id(group->set, ask, &id)) {
        refuse(group->set, ask, OT_ERR_UNKNOWN_SERVER_ERROR);
        return;
    }
    struct classic_member *known = classic_static(group, request->group_instance_id);
    if (known != NULL) join_static_again(group, ask, known, id);
    else if (!request->group_instance_id.null) add_and_rebalance(group, ask, id);
    else join_dynamic(group, ask, id);
}

/* ---- members that are known */

static void rejoin(struct group *group, struct classic_member *member, struct group_ask *ask, enum group_reason reason)
{
    const struct ot_join_group_request *request = ask->request;
    if (!classic_member_update(member, ask)) {
        refuse(group->set, ask, OT_ERR_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    await(member, ask);
    classic_rebalance(group, reason, member, request->reason);
}

/* What the generation is, once more: the answer to an earlier JoinGroup was lost. */
static void tell_again(struct group *group, struct classic_member *member, struct group_ask *ask, bool with_members)
{
    classic_member_alive(member);
    classic_join_tell(member, ask, with_members, classic_of(group)->leader->id, false);
}

static void join_member(struct group *group, struct group_ask *ask, struct classic_member *member)
{
    const struct classic *classic = classic_of(group);
    const bool leads = classic->leader == member, same = classic_member_matches(member, ask);
    switch (classic->state) {
    case CLASSIC_PREPARING: rejoin(group, member, ask, GROUP_REASON_REJOINED); break;
    case CLASSIC_COMPLETING:
        if (same) tell_again(group, member, ask, leads);
        else rejoin(group, member, ask, GROUP_REASON_METADATA);
        break;
    case CLASSIC_STABLE:
        /* a leader that joins again wants a rebalance: topics may have changed, which no member's bytes show */
        if (leads) rejoin(group, member, ask, same ? GROUP_REASON_LEADER_REJOINED : GROUP_REASON_METADATA);
        else if (!same) rejoin(group, member, ask, GROUP_REASON_METADATA);
        else tell_again(group, member, ask, false);
        break;
    case CLASSIC_EMPTY: refuse(group->set, ask, OT_ERR_UNKNOWN_MEMBER_ID); break;
    }
}

static void join_known(struct group *group, struct group_ask *ask)
{
    const struct ot_join_group_request *request = ask->request;
    if (!classic_knows_protocols(group, ask)) {
        refuse(group->set, ask, OT_ERR_INCONSISTENT_GROUP_PROTOCOL);
        return;
    }
    if (request->group_instance_id.null && classic_pending_find(group, request->member_id) != NULL) {
        add_and_rebalance(group, ask, request->member_id);
        return;
    }
    const enum ot_err err = classic_member_check(group, request->member_id, request->group_instance_id);
    if (err != OT_OK) refuse(group->set, ask, err);
    else join_member(group, ask, classic_member(group, request->member_id));
}

/* ---- the door */

static bool has_room(const struct group *group, struct ot_str member_id)
{
    const struct classic *classic = classic_of(group);
    const uint32_t max = (uint32_t)OT_MAX(group->set->env->config->group_size_max, 1);
    const struct classic_member *member = classic_member(group, member_id);
    switch (classic->state) {
    case CLASSIC_EMPTY: return true;
    case CLASSIC_PREPARING: return (member != NULL && member->awaiting_join) || classic->awaiting_join_count < max;
    default: return member != NULL || classic->members.count < max;
    }
}

static enum ot_err check(const struct group_set *set, const struct group_ask *ask)
{
    const struct group_config *config = set->env->config;
    const struct ot_join_group_request *request = ask->request;
    if (ask->group_id.null || ask->group_id.bytes == 0) return OT_ERR_INVALID_GROUP_ID;
    if (request->session_timeout_ms < config->session_timeout_min_ms || request->session_timeout_ms > config->session_timeout_max_ms) return OT_ERR_INVALID_SESSION_TIMEOUT;
    if (!request->group_instance_id.null && request->group_instance_id.bytes == 0) return OT_ERR_INVALID_REQUEST;
    return OT_OK;
}

void classic_join(struct group_set *set, struct group_ask *ask)
{
    const struct ot_join_group_request *request = ask->request;
    const bool unknown = request->member_id.bytes == 0;
    enum ot_err err = check(set, ask);
    struct group *group = err == OT_OK ? group_find(set, ask->group_id) : NULL;
    if (err == OT_OK && group != NULL && group->ops != &group_classic_ops) {
        if (group->ops->join != NULL) {        /* members of both protocols are in it (KIP-848): its own way in */
            group->ops->join(group, ask);
            return;
        }
        err = OT_ERR_INCONSISTENT_GROUP_PROTOCOL;
    }
    if (err == OT_OK && group == NULL && !unknown) err = OT_ERR_UNKNOWN_MEMBER_ID;
    if (err == OT_OK && group == NULL) {
        group = group_add(set, ask->group_id);
        if (group != NULL && !group_classic_begin(group)) {
            group_remove(group);
            group = NULL;
        }
        if (group == NULL) err = OT_ERR_COORDINATOR_NOT_AVAILABLE;
    }
    if (err == OT_OK && !has_room(group, request->member_id)) {
        struct classic_member *member = classic_member(group, request->member_id);
        if (member != NULL) classic_member_remove(member, OT_ERR_GROUP_MAX_SIZE_REACHED);
        classic_join_answer(set, ask, OT_ERR_GROUP_MAX_SIZE_REACHED, ot_str_of(""));
        classic_maybe_complete(group);
        return;
    }
    if (err != OT_OK) refuse(set, ask, err);
    else if (unknown) join_new(group, ask);
    else join_known(group, ask);
}
