#include "coordinator/consumer_inner.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- memory: each block has its size in front, so that the pool is told the same at the end */

enum { BLOCK_HEAD = 16, EXPIRED_MAX = 256 /* in one call */ };

void *cg_alloc(struct coord_cg *cg, size_t bytes)
{
    const size_t whole = bytes + BLOCK_HEAD;
    if (cg->pool != NULL && !ot_mem_take(cg->pool, whole)) return NULL;
    uint8_t *block = calloc(1, whole);
    if (block == NULL) {
        if (cg->pool != NULL) ot_mem_give(cg->pool, whole);
        return NULL;
    }
    memcpy(block, &whole, sizeof(whole));
    return block + BLOCK_HEAD;
}

void cg_release(struct coord_cg *cg, void *block)
{
    size_t whole;
    if (block == NULL) return;
    uint8_t *head = (uint8_t *)block - BLOCK_HEAD;
    memcpy(&whole, head, sizeof(whole));
    if (cg->pool != NULL) ot_mem_give(cg->pool, whole);
    free(head);
}

bool cg_charge(struct coord_cg *cg, size_t bytes)
{
    return cg->pool == NULL || ot_mem_take(cg->pool, bytes);
}

void cg_uncharge(struct coord_cg *cg, size_t bytes)
{
    if (cg->pool != NULL) ot_mem_give(cg->pool, bytes);
}

enum ot_err coord_cg_new(struct ot_str group_id, struct ot_mem_pool *pool, struct coord_cg **out)
{
    struct coord_cg start = { .pool = pool }, *cg = cg_alloc(&start, sizeof(*cg) + group_id.bytes);
    *out = cg;
    if (cg == NULL) return OT_ERR_NO_MEMORY;
    memcpy(cg + 1, group_id.data, group_id.bytes);
    cg->id = (struct ot_str){ (const char *)(cg + 1), group_id.bytes, false };
    cg->pool = pool;
    cg->epoch = cg->assignment_epoch = 1;
    cg->due_us = INT64_MAX;
    cg->seen_version = cg->regex_names_version = -1;
    cg->regex_done_us = INT64_MIN / 2;
    ot_map_init(&cg->members);
    ot_map_init(&cg->statics);
    ot_map_init(&cg->owners);
    ot_map_init(&cg->regexes);
    return OT_OK;
}

static void member_free(struct coord_cg *cg, struct cg_member *member)
{
    cg_uncharge(cg, CG_MEMBER_MAPS_BYTES + ((size_t)member->assigned.count + member->revoking.count) * CG_PART_MAP_BYTES);
    cg_release(cg, member->meta);
    cg_release(cg, member->assigned.items);
    cg_release(cg, member->revoking.items);
    cg_release(cg, member->target.items);
    cg_release(cg, member);
}

void coord_cg_free(struct coord_cg *cg)
{
    if (cg == NULL) return;
    for (uint32_t i = 0; i < cg->members.count; i++) member_free(cg, cg->members.entries[i].value);
    for (uint32_t i = 0; i < cg->regexes.count; i++) cg_release(cg, cg->regexes.entries[i].value);
    ot_map_free(&cg->members);
    ot_map_free(&cg->statics);
    ot_map_free(&cg->owners);
    ot_map_free(&cg->regexes);
    cg_release(cg, cg);
}

/* ---- looking */

struct cg_member *cg_member(const struct coord_cg *cg, struct ot_str id)
{
    struct cg_member *member = ot_map_get(&cg->members, id.data, id.bytes);
    return member == NULL || member->meta == NULL ? NULL : member;
}

struct cg_member *cg_static_member(const struct coord_cg *cg, struct ot_str instance_id)
{
    return instance_id.null ? NULL : ot_map_get(&cg->statics, instance_id.data, instance_id.bytes);
}

static int member_order(const void *a, const void *b)
{
    const struct cg_member *x = *(const struct cg_member *const *)a, *y = *(const struct cg_member *const *)b;
    const int order = memcmp(x->id.data, y->id.data, OT_MIN(x->id.bytes, y->id.bytes));
    return order != 0 ? order : (x->id.bytes > y->id.bytes) - (x->id.bytes < y->id.bytes);
}

const struct cg_member **cg_members_sorted(const struct coord_cg *cg, struct ot_arena *arena)
{
    const struct cg_member **all = ot_arena_array(arena, cg->member_count + 1, sizeof(*all));
    uint32_t count = 0;
    for (uint32_t i = 0; i < cg->members.count && all != NULL; i++) {
        const struct cg_member *member = cg->members.entries[i].value;
        if (member->meta != NULL) all[count++] = member;
    }
    if (all != NULL) qsort(all, count, sizeof(*all), member_order);
    return all;
}

enum ot_err cg_error(struct coord_cg_call *call, enum ot_err err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(call->text, sizeof(call->text), format, args);
    va_end(args);
    return err;
}

static bool reconciled(const struct coord_cg *cg, const struct cg_member *member)
{
    return member->state == COORD_CG_MEMBER_STABLE && member->epoch == cg->assignment_epoch;
}

enum coord_cg_state coord_cg_state(const struct coord_cg *cg)
{
    if (cg->member_count == 0) return COORD_CG_EMPTY;
    if (cg->epoch > cg->assignment_epoch) return COORD_CG_ASSIGNING;
    for (uint32_t i = 0; i < cg->members.count; i++) {
        const struct cg_member *member = cg->members.entries[i].value;
        if (member->meta != NULL && !reconciled(cg, member)) return COORD_CG_RECONCILING;
    }
    return COORD_CG_STABLE;
}

const char *coord_cg_state_name(enum coord_cg_state state)
{
    static const char *const state_names[] = { "Empty", "Assigning", "Reconciling", "Stable" };
    return state_names[state];
}

struct ot_str coord_cg_id(const struct coord_cg *cg) { return cg->id; }
int32_t coord_cg_epoch(const struct coord_cg *cg) { return cg->epoch; }
uint32_t coord_cg_member_count(const struct coord_cg *cg) { return cg->member_count; }

bool coord_cg_next_member(const struct coord_cg *cg, uint32_t *at, struct coord_cg_member_view *out)
{
    while (*at < cg->members.count) {
        const struct cg_member *m = cg->members.entries[(*at)++].value;
        if (m->meta == NULL) continue;
        *out = (struct coord_cg_member_view){ m->id, m->meta->instance_id, m->meta->client_id, m->meta->client_host, m->epoch, m->previous_epoch, m->state,
            m->meta->classic, &m->assigned, &m->revoking, &m->target };
        return true;
    }
    return false;
}

bool coord_cg_subscribed(const struct coord_cg *cg, struct ot_str topic)
{
    for (uint32_t i = 0; i < cg->members.count; i++) {
        const struct cg_member *member = cg->members.entries[i].value;
        for (uint32_t k = 0; member->meta != NULL && k < member->meta->topic_count; k++)
            if (ot_str_equal(member->meta->topics[k], topic)) return true;
    }
    for (uint32_t i = 0; i < cg->regexes.count; i++) {
        const struct cg_regex *regex = cg->regexes.entries[i].value;
        for (uint32_t k = 0; k < regex->topic_count; k++)
            if (ot_str_equal(regex->topics[k], topic)) return true;
    }
    return false;
}

/* ---- names and what members say of themselves */

static int name_order(const void *a, const void *b)
{
    const struct ot_str *x = a, *y = b;
    const int order = memcmp(x->data, y->data, OT_MIN(x->bytes, y->bytes));
    return order != 0 ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

void cg_names_sort(struct ot_str *names, uint32_t *count)
{
    uint32_t kept = 0;
    if (*count > 1) qsort(names, *count, sizeof(*names), name_order);
    for (uint32_t i = 0; i < *count; i++)
        if (kept == 0 || name_order(&names[kept - 1], &names[i]) != 0) names[kept++] = names[i];
    *count = kept;
}

bool cg_names_equal(const struct ot_str *a, uint32_t a_count, const struct ot_str *b, uint32_t b_count)
{
    if (a_count != b_count) return false;
    for (uint32_t i = 0; i < a_count; i++)
        if (!ot_str_equal(a[i], b[i])) return false;
    return true;
}

static bool protocols_equal(const struct cg_meta *a, const struct cg_meta *b)
{
    if (a->protocol_count != b->protocol_count || a->session_timeout_ms != b->session_timeout_ms) return false;
    for (uint32_t i = 0; i < a->protocol_count; i++) {
        const struct coord_cg_protocol *x = &a->protocols[i], *y = &b->protocols[i];
        if (!ot_str_equal(x->name, y->name) || x->metadata.bytes != y->metadata.bytes) return false;
        if (x->metadata.bytes > 0 && memcmp(x->metadata.data, y->metadata.data, x->metadata.bytes) != 0) return false;
    }
    return true;
}

bool cg_meta_equal(const struct cg_meta *a, const struct cg_meta *b)
{
    return ot_str_equal(a->instance_id, b->instance_id) && ot_str_equal(a->rack_id, b->rack_id) && ot_str_equal(a->client_id, b->client_id) &&
        ot_str_equal(a->client_host, b->client_host) && ot_str_equal(a->regex, b->regex) && ot_str_equal(a->assignor, b->assignor) &&
        a->rebalance_timeout_ms == b->rebalance_timeout_ms && a->classic == b->classic &&
        cg_names_equal(a->topics, a->topic_count, b->topics, b->topic_count) && protocols_equal(a, b);
}

/* ---- time-outs: due_us only ever falls behind what the members have, so it is a bound, and expiry looks at them all */

void cg_due(struct coord_cg *cg, int64_t *due_us, int64_t at_us)
{
    *due_us = at_us;
    if (at_us < cg->due_us) cg->due_us = at_us;
}

int64_t coord_cg_deadline_us(const struct coord_cg *cg)
{
    return cg->member_count == 0 ? INT64_MAX : cg->due_us;
}

void coord_cg_loaded(struct coord_cg *cg, int64_t now_us, const struct coord_cg_config *config)
{
    for (uint32_t i = 0; i < cg->members.count; i++) {
        struct cg_member *member = cg->members.entries[i].value;
        if (member->meta == NULL) continue;
        const int32_t session_ms = member->meta->classic ? member->meta->session_timeout_ms : config->session_timeout_ms;
        cg_due(cg, &member->session_due_us, now_us + (int64_t)session_ms * 1000);
        if (member->state == COORD_CG_MEMBER_UNREVOKED && !member->meta->classic)
            cg_due(cg, &member->rebalance_due_us, now_us + (int64_t)member->meta->rebalance_timeout_ms * 1000);
    }
}

static int64_t member_due_us(const struct cg_member *member)
{
    return OT_MIN(OT_MIN(member->session_due_us, member->rebalance_due_us), OT_MIN(member->join_due_us, member->sync_due_us));
}

enum ot_err coord_cg_expire(struct coord_cg *cg, struct coord_cg_call *call)
{
    const struct cg_member **late = ot_arena_array(call->arena, cg->members.count + 1, sizeof(*late));
    uint32_t count = 0;
    int64_t due_us = INT64_MAX;
    enum coord_cg_event event = COORD_CG_SESSION_OVER;
    if (late == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < cg->members.count; i++) {
        const struct cg_member *member = cg->members.entries[i].value;
        if (member->meta == NULL) continue;
        if (member_due_us(member) > call->now_us || count == EXPIRED_MAX) due_us = OT_MIN(due_us, member_due_us(member));
        else {
            late[count++] = member;
            if (member->session_due_us > call->now_us) event = COORD_CG_REBALANCE_OVER;
        }
    }
    const enum ot_err err = count == 0 ? OT_OK : cg_fence(cg, call, late, count, event);
    if (err == OT_OK) cg->due_us = due_us;
    return err;
}
