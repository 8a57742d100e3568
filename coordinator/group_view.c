/* What is told of groups. Everything is copied: the answer leaves this thread. */
#include "coordinator/group_inner.h"

static bool events_copy(const struct group *group, struct ot_arena *arena, struct group_view *out)
{
    const struct group_timeline *timeline = group->timeline;
    const uint64_t count = timeline == NULL ? 0 : OT_MIN(timeline->count, (uint64_t)GROUP_EVENTS_MAX);
    struct group_event *events = ot_arena_array(arena, OT_MAX(count, (uint64_t)1), sizeof *events);
    if (events == NULL) return false;
    for (uint64_t i = 0; i < count; i++) events[i] = timeline->events[(timeline->count - count + i) % GROUP_EVENTS_MAX];
    out->events = events;
    out->event_count = (uint32_t)count;
    return true;
}

static enum ot_err view(struct group_set *set, struct group_ask *ask)
{
    struct group *group = group_find(set, ask->group_id);
    struct group_view *out = ask->response;
    if (group == NULL) return OT_ERR_GROUP_ID_NOT_FOUND;
    *out = (struct group_view){ .type = group->ops->type, .state = group->ops->state(group), .generation = group->ops->generation(group), .state_since_ms = -1,
        .empty_since_ms = -1, .protocol = { .null = true }, .leader = { .null = true } };
    if (!group_arena_str(ask->arena, group->id, &out->id) || !group_arena_str(ask->arena, group->ops->protocol_type(group), &out->protocol_type)) return OT_ERR_UNKNOWN_SERVER_ERROR;
    if (!events_copy(group, ask->arena, out)) return OT_ERR_UNKNOWN_SERVER_ERROR;
    return group->ops->view(group, ask, out) == OT_OK ? OT_OK : OT_ERR_UNKNOWN_SERVER_ERROR;
}

static enum ot_err list(struct group_set *set, struct group_ask *ask)
{
    struct group_list *out = ask->response;
    out->count = 0;
    out->rows = ot_arena_array(ask->arena, OT_MAX(set->groups.count, 1u), sizeof *out->rows);
    if (out->rows == NULL) return OT_ERR_UNKNOWN_SERVER_ERROR;
    for (uint32_t i = 0; i < set->groups.count; i++) {
        const struct group *group = set->groups.entries[i].value;
        const struct ot_str topic = ask->part_count > 0 ? ask->parts[0].topic : (struct ot_str){ .null = true };
        const bool subscribed = !topic.null && group->ops->member_count(group) > 0 && group->ops->subscribed(group, topic), committed = !topic.null && group_offsets_on(group, topic);
        if (!topic.null && !subscribed && !committed) continue;
        struct group_list_row *row = &out->rows[out->count++];
        *row = (struct group_list_row){ .state = group->ops->state(group), .type = group->ops->type, .member_count = group->ops->member_count(group),
            .generation = group->ops->generation(group), .subscribed = subscribed, .committed = committed };
        if (!group_arena_str(ask->arena, group->id, &row->id) || !group_arena_str(ask->arena, group->ops->protocol_type(group), &row->protocol_type))
            return OT_ERR_UNKNOWN_SERVER_ERROR;
    }
    return OT_OK;
}

static bool survey_group(const struct group *group, struct ot_arena *arena, struct group_survey *out)
{
    struct group_survey_group *to = &out->groups[out->group_count++];
    *to = (struct group_survey_group){ .type = group->ops->type, .member_count = group->ops->member_count(group), .first = out->row_count };
    if (!group_arena_str(arena, group->id, &to->id)) return false;
    for (uint32_t t = 0; t < group->topic_count && *out->left > 0; t++) {
        const struct group_topic *topic = &group->topics[t];
        struct ot_str name;
        if (!group_arena_str(arena, topic->name, &name)) return false;
        for (uint32_t i = 0; i < topic->count && *out->left > 0; i++) {
            if (topic->offsets[i].offset < 0) continue;
            out->rows[out->row_count++] = (struct group_survey_row){ name, topic->offsets[i].partition, topic->offsets[i].offset };
            --*out->left;
        }
    }
    to->count = out->row_count - to->first;
    out->cut |= to->count < group->offset_count;
    return true;
}

static enum ot_err survey(struct group_set *set, struct group_ask *ask)
{
    struct group_survey *out = ask->response;
    *out = (struct group_survey){ .left = out->left };
    out->groups = ot_arena_array(ask->arena, OT_MAX(set->groups.count, 1u), sizeof *out->groups);
    out->rows = ot_arena_array(ask->arena, (size_t)OT_MAX(OT_MIN(set->counts.offsets, (uint64_t)*out->left), (uint64_t)1), sizeof *out->rows);
    if (out->groups == NULL || out->rows == NULL) return OT_ERR_UNKNOWN_SERVER_ERROR;
    for (uint32_t i = 0; i < set->groups.count; i++)
        if (!survey_group(set->groups.entries[i].value, ask->arena, out)) return OT_ERR_UNKNOWN_SERVER_ERROR;
    return OT_OK;
}

void group_view_ask(struct group_set *set, struct group_ask *ask)
{
    group_answer(set, ask, ask->kind == GROUP_ASK_LIST ? list(set, ask) : ask->kind == GROUP_ASK_SURVEY ? survey(set, ask) : view(set, ask));
}
