#include "base/util.h"
#include "base/xxh3.h"
#include "coordinator/consumer_inner.h"
#include <stdlib.h>

/* The members as they would be after this call, by id. */
struct view { struct ot_str id; const struct cg_meta *meta; const struct coord_cg_parts *target /* NULL: none was written yet */; bool is_draft; };
struct views { struct view *items; uint32_t count; };

static int view_order(const void *a, const void *b)
{
    const struct view *x = a, *y = b;
    const int order = memcmp(x->id.data, y->id.data, OT_MIN(x->id.bytes, y->id.bytes));
    return order != 0 ? order : (x->id.bytes > y->id.bytes) - (x->id.bytes < y->id.bytes);
}

static bool among(const struct cg_member *member, const struct cg_member *const *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == member) return true;
    return false;
}

static enum ot_err views_of(const struct coord_cg *cg, struct ot_arena *arena, const struct cg_draft *draft, const struct cg_member *const *leavers, uint32_t leaver_count,
    struct views *out)
{
    out->items = ot_arena_array(arena, cg->members.count + 1, sizeof(*out->items));
    out->count = 0;
    if (out->items == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < cg->members.count; i++) {
        const struct cg_member *m = cg->members.entries[i].value;
        if (m->meta == NULL || among(m, leavers, leaver_count) || (draft != NULL && (m == draft->old || m == draft->replaced))) continue;
        out->items[out->count++] = (struct view){ m->id, m->meta, m->has_target ? &m->target : NULL, false };
    }
    if (draft != NULL) {
        const bool has_target = draft->replaced != NULL || (draft->old != NULL && draft->old->has_target);
        out->items[out->count++] = (struct view){ draft->id, &draft->meta, has_target ? &draft->target : NULL, true };
    }
    if (out->count > 1) qsort(out->items, out->count, sizeof(*out->items), view_order);
    return OT_OK;
}

/* ---- the topics that exist, of all that somebody subscribed to */

struct topics { struct ot_map by_name, by_id; struct coord_cg_topic *items; uint32_t count, cap; };   /* the maps hold index + 1; by_name UINTPTR_MAX: no such topic */

static void topics_free(struct topics *t)
{
    ot_map_free(&t->by_name);
    ot_map_free(&t->by_id);
    free(t->items);
}

static enum ot_err topics_add(struct topics *t, const struct coord_cg_topics *source, struct ot_str name)
{
    struct coord_cg_topic topic;
    if (ot_map_get(&t->by_name, name.data, name.bytes) != NULL) return OT_OK;
    if (!source->by_name(source->arg, name, &topic)) return ot_map_put(&t->by_name, name.data, name.bytes, (void *)UINTPTR_MAX);
    if (t->count == t->cap) {
        const uint32_t cap = OT_MAX(16u, t->cap * 2);
        struct coord_cg_topic *items = realloc(t->items, cap * sizeof(*items));
        if (items == NULL) return OT_ERR_NO_MEMORY;
        t->items = items;
        t->cap = cap;
    }
    topic.name = name;
    t->items[t->count++] = topic;
    const enum ot_err err = ot_map_put(&t->by_id, &topic.id, sizeof(topic.id), (void *)(uintptr_t)t->count);
    return err != OT_OK ? err : ot_map_put(&t->by_name, name.data, name.bytes, (void *)(uintptr_t)t->count);
}

static enum ot_err topics_of_meta(struct topics *t, const struct coord_cg *cg, const struct cg_fresh *fresh, const struct coord_cg_topics *source, const struct cg_meta *meta)
{
    const struct ot_str *names;
    uint32_t count;
    enum ot_err err = OT_OK;
    for (uint32_t i = 0; i < meta->topic_count && err == OT_OK; i++) err = topics_add(t, source, meta->topics[i]);
    cg_regex_topics(cg, fresh, meta->regex, &names, &count);
    for (uint32_t i = 0; i < count && err == OT_OK; i++) err = topics_add(t, source, names[i]);
    return err;
}

static enum ot_err topics_of_views(struct topics *t, const struct coord_cg *cg, const struct cg_fresh *fresh, const struct coord_cg_topics *source, const struct views *views)
{
    enum ot_err err = OT_OK;
    *t = (struct topics){ 0 };
    ot_map_init(&t->by_name);
    ot_map_init(&t->by_id);
    for (uint32_t i = 0; i < views->count && err == OT_OK; i++) err = topics_of_meta(t, cg, fresh, source, views->items[i].meta);
    return err;
}

/* ---- the hash of what is known of them: Kafka's of the group, over those of its topics in the order of their names */

static int topic_order(const void *a, const void *b)
{
    const struct ot_str one = ((const struct coord_cg_topic *)a)->name, two = ((const struct coord_cg_topic *)b)->name;
    const int order = memcmp(one.data, two.data, OT_MIN(one.bytes, two.bytes));
    return order != 0 ? order : (one.bytes > two.bytes) - (one.bytes < two.bytes);
}

/* The maps of topics point to places: nobody looks in them afterwards. */
static int64_t topics_hash(struct topics *t)
{
    struct ot_xxh3 hash;
    if (t->count == 0) return 0;
    if (t->count > 1) qsort(t->items, t->count, sizeof(*t->items), topic_order);
    ot_xxh3_init(&hash);
    for (uint32_t i = 0; i < t->count; i++) {
        const uint64_t little = __builtin_bswap64(t->items[i].hash);
        uint8_t bytes[8];
        ot_store_u64(bytes, little);
        ot_xxh3_put(&hash, bytes, sizeof bytes);
    }
    return (int64_t)ot_xxh3_sum(&hash);
}

enum ot_err cg_hash_without(struct coord_cg *cg, struct coord_cg_call *call, const struct cg_member *const *leavers, uint32_t count, int64_t *hash_out)
{
    struct views views;
    struct topics topics;
    enum ot_err err = views_of(cg, call->arena, NULL, leavers, count, &views);
    if (err != OT_OK) return err;
    err = topics_of_views(&topics, cg, NULL, call->topics, &views);
    *hash_out = topics_hash(&topics);
    topics_free(&topics);
    return err;
}

enum ot_err cg_take_epoch(struct cg_step *step, bool bump)
{
    struct coord_cg *cg = step->cg;
    struct views views;
    struct topics topics;
    step->epoch = cg->epoch;
    if (!bump && cg->seen_version == step->call->topics->version) return OT_OK;
    enum ot_err err = views_of(cg, step->call->arena, &step->draft, NULL, 0, &views);
    if (err != OT_OK) return err;
    err = topics_of_views(&topics, cg, step->fresh, step->call->topics, &views);
    const int64_t hash = topics_hash(&topics);
    topics_free(&topics);
    if (err != OT_OK || (!bump && hash == cg->metadata_hash)) return err;
    if (!bump) step->call->event = COORD_CG_TOPICS;
    err = cg_put_epoch(cg, step->call, ++step->epoch, hash);
    return err == OT_OK && cg->has_partition_metadata ? cg_put_partition_metadata_gone(cg, step->call) : err;
}

/* ---- the target */

static enum coord_assignor preferred(const struct coord_cg_config *config, const struct views *views)
{
    uint32_t best = 0;
    enum coord_assignor chosen = config->assignors[0];
    for (uint32_t a = 0; a < config->assignor_count; a++) {
        const struct ot_str name = ot_str_of(coord_assignor_name(config->assignors[a]));
        uint32_t votes = 0;
        for (uint32_t i = 0; i < views->count; i++) votes += ot_str_equal(views->items[i].meta->assignor, name);
        if (votes <= best) continue;
        best = votes;
        chosen = config->assignors[a];
    }
    return chosen;
}

enum ot_err cg_assignors(struct cg_step *step, enum coord_assignor *before_out, enum coord_assignor *after_out)
{
    struct views before, after;
    enum ot_err err = views_of(step->cg, step->call->arena, NULL, NULL, 0, &before);
    if (err == OT_OK) err = views_of(step->cg, step->call->arena, &step->draft, NULL, 0, &after);
    if (err != OT_OK) return err;
    *before_out = preferred(step->call->config, &before);
    *after_out = preferred(step->call->config, &after);
    return OT_OK;
}

const char *cg_assignor_name(const struct coord_cg *cg, const struct coord_cg_config *config, struct ot_arena *arena)
{
    struct views views;
    const bool made = views_of(cg, arena, NULL, NULL, 0, &views) == OT_OK;
    return coord_assignor_name(made ? preferred(config, &views) : config->assignors[0]);
}

static int index_order(const void *a, const void *b)
{
    return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

static uint32_t index_add(const struct topics *t, const struct ot_str *names, uint32_t count, uint32_t *out)
{
    uint32_t added = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uintptr_t at = (uintptr_t)ot_map_get(&t->by_name, names[i].data, names[i].bytes);
        if (at != 0 && at != UINTPTR_MAX) out[added++] = (uint32_t)at - 1;
    }
    return added;
}

static enum ot_err member_topics(const struct cg_step *step, const struct topics *t, const struct cg_meta *meta, struct coord_assign_member *out)
{
    const struct ot_str *names;
    uint32_t count, kept = 0, found;
    cg_regex_topics(step->cg, step->fresh, meta->regex, &names, &count);
    uint32_t *list = ot_arena_array(step->call->arena, meta->topic_count + count, sizeof(*list));
    if (list == NULL) return OT_ERR_NO_MEMORY;
    found = index_add(t, meta->topics, meta->topic_count, list);
    found += index_add(t, names, count, list + found);
    if (found > 1) qsort(list, found, sizeof(*list), index_order);
    for (uint32_t i = 0; i < found; i++)
        if (kept == 0 || list[kept - 1] != list[i]) list[kept++] = list[i];
    out->topics = list;
    out->topic_count = kept;
    return OT_OK;
}

struct plan { struct views views; struct topics topics; struct coord_assign_in in; uint32_t *first, total; int32_t *current, *owner; };

static enum ot_err plan_topics(struct plan *plan, struct ot_arena *arena)
{
    struct coord_assign_topic *list = ot_arena_array(arena, plan->topics.count, sizeof(*list));
    plan->first = ot_arena_array(arena, plan->topics.count + 1, sizeof(*plan->first));
    if (list == NULL || plan->first == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < plan->topics.count; i++) {
        list[i] = (struct coord_assign_topic){ plan->topics.items[i].id, plan->topics.items[i].partition_count };
        plan->first[i + 1] = plan->first[i] + (uint32_t)list[i].partition_count;
    }
    plan->total = plan->first[plan->topics.count];
    plan->in.topics = list;
    plan->in.topic_count = plan->topics.count;
    plan->current = ot_arena_array(arena, plan->total, sizeof(*plan->current));
    plan->owner = ot_arena_array(arena, plan->total, sizeof(*plan->owner));
    return plan->current == NULL || plan->owner == NULL ? OT_ERR_NO_MEMORY : OT_OK;
}

static void plan_current(struct plan *plan)
{
    for (uint32_t p = 0; p < plan->total; p++) plan->current[p] = -1;
    for (uint32_t i = 0; i < plan->views.count; i++) {
        const struct coord_cg_parts *target = plan->views.items[i].target;
        for (uint32_t k = 0; target != NULL && k < target->count; k++) {
            const uintptr_t at = (uintptr_t)ot_map_get(&plan->topics.by_id, &target->items[k].topic_id, sizeof(struct ot_uuid));
            if (at == 0 || target->items[k].partition < 0 || target->items[k].partition >= plan->topics.items[at - 1].partition_count) continue;
            plan->current[plan->first[at - 1] + (uint32_t)target->items[k].partition] = (int32_t)i;
        }
    }
    plan->in.current = plan->current;
}

static enum ot_err plan_members(struct plan *plan, const struct cg_step *step)
{
    struct coord_assign_member *list = ot_arena_array(step->call->arena, plan->views.count, sizeof(*list));
    enum ot_err err = list == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    for (uint32_t i = 0; i < plan->views.count && err == OT_OK; i++) {
        list[i].id = plan->views.items[i].id;
        list[i].instance_id = plan->views.items[i].meta->instance_id;
        err = member_topics(step, &plan->topics, plan->views.items[i].meta, &list[i]);
    }
    plan->in.members = list;
    plan->in.member_count = plan->views.count;
    return err;
}

static enum ot_err plan_take(struct plan *plan, struct cg_step *step)
{
    struct ot_arena *arena = step->call->arena;
    struct coord_cg_parts *parts = ot_arena_array(arena, plan->views.count, sizeof(*parts));
    enum ot_err err = parts == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    for (uint32_t p = 0; p < plan->total && err == OT_OK; p++)
        if (plan->owner[p] >= 0) parts[plan->owner[p]].count++;
    for (uint32_t i = 0; i < plan->views.count && err == OT_OK; i++) {
        parts[i] = cg_parts_room(arena, parts[i].count);
        if (parts[i].items == NULL) err = OT_ERR_NO_MEMORY;
    }
    for (uint32_t t = 0; t < plan->topics.count && err == OT_OK; t++)
        for (uint32_t p = plan->first[t]; p < plan->first[t + 1]; p++)
            if (plan->owner[p] >= 0)
                parts[plan->owner[p]].items[parts[plan->owner[p]].count++] = (struct coord_cg_part){ plan->topics.items[t].id, (int32_t)(p - plan->first[t]), 0 };
    for (uint32_t i = 0; i < plan->views.count && err == OT_OK; i++) {
        const struct view *view = &plan->views.items[i];
        cg_parts_sort(&parts[i]);
        if (view->target == NULL || !cg_parts_equal(view->target, &parts[i])) err = cg_put_target(step->cg, step->call, view->id, &parts[i]);
        if (view->is_draft) step->draft.target = parts[i];
    }
    return err;
}

static bool target_is_due(const struct cg_step *step)
{
    const struct coord_cg *cg = step->cg;
    const int64_t next_ms = cg->assigned_ms + step->call->config->assignment_interval_ms;
    if (cg->assignment_epoch >= step->epoch) return false;
    if (cg->kept_epoch == step->epoch && step->call->now_us < cg->kept_until_us) return false;
    return cg->assigned_ms == 0 || step->call->wall_ms >= next_ms || step->call->wall_ms < cg->assigned_ms /* the clock was set back */;
}

enum ot_err cg_take_target(struct cg_step *step)
{
    struct coord_cg *cg = step->cg;
    struct plan plan = { 0 };
    step->assignment_epoch = cg->assignment_epoch;
    if (!target_is_due(step)) return OT_OK;
    enum ot_err err = views_of(cg, step->call->arena, &step->draft, NULL, 0, &plan.views);
    if (err != OT_OK) return err;
    err = topics_of_views(&plan.topics, cg, step->fresh, step->call->topics, &plan.views);
    if (err == OT_OK) err = plan_topics(&plan, step->call->arena);
    if (err == OT_OK) err = plan_members(&plan, step);
    if (err == OT_OK) plan_current(&plan);
    if (err == OT_OK) err = coord_assign(preferred(step->call->config, &plan.views), &plan.in, step->call->arena, plan.owner);
    if (err == OT_OK) err = plan_take(&plan, step);
    if (err == OT_OK) err = cg_put_assignment(cg, step->call, step->epoch, step->call->wall_ms);
    if (err == OT_OK) step->assignment_epoch = step->epoch;
    topics_free(&plan.topics);
    return err;
}

static int id_order(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct ot_uuid));
}

enum ot_err cg_subscribed_ids(struct cg_step *step, struct ot_uuid **ids_out, uint32_t *count_out)
{
    struct topics topics;
    struct views one = { &(struct view){ step->draft.id, &step->draft.meta, NULL, true }, 1 };
    enum ot_err err = topics_of_views(&topics, step->cg, step->fresh, step->call->topics, &one);
    *ids_out = ot_arena_array(step->call->arena, topics.count, sizeof(**ids_out));
    *count_out = topics.count;
    if (*ids_out == NULL) err = OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < topics.count && err == OT_OK; i++) (*ids_out)[i] = topics.items[i].id;
    if (err == OT_OK && topics.count > 1) qsort(*ids_out, topics.count, sizeof(**ids_out), id_order);
    topics_free(&topics);
    return err;
}
