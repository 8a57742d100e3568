/* Subscriptions by regular expression: what an expression stands for is kept in a record, made when its first member comes and again when topics came (10 s apart at
 * least) or the refresh interval is over. Patterns are compiled for each look at the topics and not kept. */
#include "base/regex.h"
#include "coordinator/consumer_inner.h"

enum { REFRESH_US_MIN = 10000000 };

void cg_regex_topics(const struct coord_cg *cg, const struct cg_fresh *fresh, struct ot_str regex, const struct ot_str **topics_out, uint32_t *count_out)
{
    *topics_out = NULL;
    *count_out = 0;
    if (regex.null) return;
    for (; fresh != NULL; fresh = fresh->next) {
        if (!ot_str_equal(fresh->regex, regex)) continue;
        *topics_out = fresh->topics;
        *count_out = fresh->topic_count;
        return;
    }
    const struct cg_regex *known = ot_map_get(&cg->regexes, regex.data, regex.bytes);
    if (known == NULL) return;
    *topics_out = known->topics;
    *count_out = known->topic_count;
}

uint32_t cg_regex_users(const struct coord_cg *cg, struct ot_str regex)
{
    uint32_t users = 0;
    for (uint32_t i = 0; i < cg->members.count; i++) {
        const struct cg_member *member = cg->members.entries[i].value;
        users += member->meta != NULL && ot_str_equal(member->meta->regex, regex);
    }
    return users;
}

struct found { struct ot_str *items; uint32_t count, cap; };

static enum ot_err found_add(struct found *found, struct ot_arena *arena, struct ot_str name)
{
    if (found->count == found->cap) {
        const uint32_t cap = OT_MAX(32u, found->cap * 2);
        struct ot_str *items = ot_arena_array(arena, cap, sizeof(*items));
        if (items == NULL) return OT_ERR_NO_MEMORY;
        if (found->count > 0) memcpy(items, found->items, found->count * sizeof(*items));
        found->items = items;
        found->cap = cap;
    }
    char *copy = ot_arena_str(arena, name);
    found->items[found->count++] = (struct ot_str){ copy, name.bytes, false };
    return copy == NULL ? OT_ERR_NO_MEMORY : OT_OK;
}

static enum ot_err resolve(struct coord_cg_call *call, struct ot_str pattern, struct found *out)
{
    const struct coord_cg_topics *topics = call->topics;
    struct coord_cg_topic topic = { .name = { NULL, 0, true } };
    struct ot_regex *regex;
    char why[100] = "";
    enum ot_err err = ot_regex_new(pattern, &regex, why, sizeof(why));
    *out = (struct found){ NULL, 0, 0 };
    if (err != OT_OK) return cg_error(call, err, "SubscribedTopicRegex `%.*s` is not a valid regular expression: %s.", CG_S(pattern), why);
    while (err == OT_OK && topics->next(topics->arg, topic.name, &topic))
        if (ot_regex_matches(regex, topic.name)) err = found_add(out, call->arena, topic.name);
    ot_regex_free(regex);
    if (err == OT_OK) cg_names_sort(out->items, &out->count);
    return err;
}

static enum ot_err resolve_into(struct cg_step *step, struct ot_str pattern, bool *moved)
{
    const struct cg_regex *known = ot_map_get(&step->cg->regexes, pattern.data, pattern.bytes);
    struct found found;
    struct cg_fresh *fresh = ot_arena_alloc(step->call->arena, sizeof(*fresh));
    enum ot_err err = fresh == NULL ? OT_ERR_NO_MEMORY : resolve(step->call, pattern, &found);
    if (err != OT_OK || (known != NULL && cg_names_equal(known->topics, known->topic_count, found.items, found.count))) return err;
    *fresh = (struct cg_fresh){ step->fresh, pattern, found.items, found.count };
    step->fresh = fresh;
    *moved = true;
    return cg_put_regex(step->cg, step->call, pattern, found.items, found.count);
}

static bool refresh_is_due(const struct cg_step *step)
{
    const struct coord_cg *cg = step->cg;
    const int64_t since_us = step->call->now_us - cg->regex_done_us;
    if (cg->regexes.count == 0 || since_us < REFRESH_US_MIN) return false;
    return cg->regex_names_version < step->call->topics->names_version || since_us >= step->call->config->regex_refresh_ms * 1000;
}

enum ot_err cg_take_regexes(struct cg_step *step, bool *changed_out, bool *moved_out)
{
    struct coord_cg *cg = step->cg;
    const struct ot_str before = step->is_new ? (struct ot_str){ NULL, 0, true } : step->before.regex, after = step->draft.meta.regex;
    bool gone = false;
    enum ot_err err = OT_OK;
    *changed_out = !ot_str_equal(before, after);
    *moved_out = *changed_out;
    if (*changed_out && !before.null && cg_regex_users(cg, before) <= 1) {
        err = cg_put_regex_gone(cg, step->call, before);
        gone = true;
    }
    step->refreshed = refresh_is_due(step) || (cg->regexes.count == 0 && !after.null);
    if (err == OT_OK && *changed_out && !after.null && ot_map_get(&cg->regexes, after.data, after.bytes) == NULL) err = resolve_into(step, after, moved_out);
    if (!refresh_is_due(step)) return err;
    for (uint32_t i = 0; i < cg->regexes.count && err == OT_OK; i++) {
        const struct ot_str pattern = { (const char *)cg->regexes.entries[i].key, cg->regexes.entries[i].key_bytes, false };
        bool moved = false;
        if (gone && ot_str_equal(pattern, before)) continue;
        err = resolve_into(step, pattern, &moved);
        if (moved) step->call->event = COORD_CG_TOPICS;
        if (err == OT_ERR_INVALID_REGULAR_EXPRESSION) err = OT_OK;     /* of a record: it stands for what it stood for */
        *moved_out = *moved_out || moved;
    }
    return err;
}
