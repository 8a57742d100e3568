#include "coordinator/assign.h"
#include <stdlib.h>
#include <string.h>

static const char *const names[] = { [COORD_ASSIGN_UNIFORM] = "uniform", [COORD_ASSIGN_RANGE] = "range" };

const char *coord_assignor_name(enum coord_assignor assignor)
{
    return names[assignor];
}

bool coord_assignor_by_name(struct ot_str name, enum coord_assignor *out)
{
    for (size_t i = 0; i < OT_ARRAY_COUNT(names); i++) {
        if (!ot_str_equal(name, ot_str_of(names[i]))) continue;
        *out = (enum coord_assignor)i;
        return true;
    }
    return false;
}

uint32_t coord_assign_partition_count(const struct coord_assign_in *in)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < in->topic_count; i++) count += (uint32_t)in->topics[i].partition_count;
    return count;
}

/* ---- range */

static int text_order(struct ot_str a, struct ot_str b)
{
    const int order = memcmp(a.data, b.data, OT_MIN(a.bytes, b.bytes));
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static int member_order(const void *a, const void *b, void *arg)
{
    const struct coord_assign_member *members = arg, *x = &members[*(const uint32_t *)a], *y = &members[*(const uint32_t *)b];
    if (!x->instance_id.null && !y->instance_id.null) return text_order(x->instance_id, y->instance_id);
    if (x->instance_id.null != y->instance_id.null) return x->instance_id.null ? 1 : -1;
    return text_order(x->id, y->id);
}

struct stretch { uint32_t first, subscribers, next, extra; };      /* of a topic: its first partition, who shares it, where the next stretch begins */

static enum ot_err assign_range(const struct coord_assign_in *in, struct ot_arena *arena, int32_t *owner_out)
{
    struct stretch *topics = ot_arena_array(arena, in->topic_count, sizeof(*topics));
    uint32_t *order = ot_arena_array(arena, in->member_count, sizeof(*order)), first = 0;
    if (topics == NULL || order == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < in->member_count; i++) {
        order[i] = i;
        for (uint32_t k = 0; k < in->members[i].topic_count; k++) topics[in->members[i].topics[k]].subscribers++;
    }
    for (uint32_t t = 0; t < in->topic_count; t++) {
        const uint32_t count = (uint32_t)in->topics[t].partition_count;
        topics[t].first = first;
        topics[t].extra = topics[t].subscribers == 0 ? 0 : count % topics[t].subscribers;
        first += count;
    }
    qsort_r(order, in->member_count, sizeof(*order), member_order, (void *)(uintptr_t)in->members);
    for (uint32_t i = 0; i < in->member_count; i++) {
        const struct coord_assign_member *member = &in->members[order[i]];
        for (uint32_t k = 0; k < member->topic_count; k++) {
            struct stretch *topic = &topics[member->topics[k]];
            const uint32_t share = (uint32_t)in->topics[member->topics[k]].partition_count / topic->subscribers + (topic->extra > 0);
            for (uint32_t p = 0; p < share; p++) owner_out[topic->first + topic->next++] = (int32_t)order[i];
            topic->extra -= topic->extra > 0;
        }
    }
    return OT_OK;
}

/* ---- uniform, where all members subscribed to the same topics */

static bool same_topics(const struct coord_assign_in *in)
{
    const struct coord_assign_member *first = &in->members[0];
    for (uint32_t i = 1; i < in->member_count; i++) {
        const struct coord_assign_member *member = &in->members[i];
        if (member->topic_count != first->topic_count) return false;
        if (memcmp(member->topics, first->topics, first->topic_count * sizeof(*first->topics)) != 0) return false;
    }
    return true;
}

struct even { uint32_t *quota, *kept; uint32_t partition_count; };

/* Each member keeps what it has up to its quota. The few quotas that are one larger go to those who need them to keep all; only when no more members
 * than such quotas are left they go to anybody. */
static void even_quotas(const struct coord_assign_in *in, struct even *even, uint32_t total)
{
    const uint32_t share = total / in->member_count;
    uint32_t extra = total % in->member_count;
    for (uint32_t i = 0; i < in->member_count; i++) {
        even->quota[i] = share;
        if (extra == 0 || (even->kept[i] <= share && in->member_count - i > extra)) continue;
        even->quota[i]++;
        extra--;
    }
}

static enum ot_err assign_even(const struct coord_assign_in *in, struct ot_arena *arena, int32_t *owner_out)
{
    struct even even = { ot_arena_array(arena, in->member_count, sizeof(uint32_t)), ot_arena_array(arena, in->member_count, sizeof(uint32_t)), 0 };
    const struct coord_assign_member *any = &in->members[0];
    uint32_t total = 0, first = 0, member = 0;
    if (even.quota == NULL || even.kept == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t t = 0, k = 0; t < in->topic_count; first += (uint32_t)in->topics[t++].partition_count) {
        if (k == any->topic_count || any->topics[k] != t) continue;
        for (int32_t p = 0; p < in->topics[t].partition_count; p++, total++) {
            const int32_t owner = in->current == NULL ? -1 : in->current[first + (uint32_t)p];
            if (owner >= 0) even.kept[owner]++;
        }
        k++;
    }
    even_quotas(in, &even, total);
    memset(even.kept, 0, in->member_count * sizeof(*even.kept));
    for (int pass = 0; pass < 2; pass++) {                     /* what stays, then what is free */
        first = 0;
        for (uint32_t t = 0, k = 0; t < in->topic_count; first += (uint32_t)in->topics[t++].partition_count) {
            if (k == any->topic_count || any->topics[k] != t) continue;
            for (int32_t p = 0; p < in->topics[t].partition_count; p++) {
                const uint32_t at = first + (uint32_t)p;
                int32_t owner = pass == 1 ? owner_out[at] : in->current == NULL ? -1 : in->current[at];
                if (pass == 0 && (owner < 0 || even.kept[owner] >= even.quota[owner])) continue;
                if (pass == 1 && owner >= 0) continue;
                while (pass == 1 && even.kept[member] >= even.quota[member]) member++;
                if (pass == 1) owner = (int32_t)member;
                owner_out[at] = owner;
                even.kept[owner]++;
            }
            k++;
        }
    }
    return OT_OK;
}

enum ot_err coord_assign(enum coord_assignor assignor, const struct coord_assign_in *in, struct ot_arena *arena, int32_t *owner_out)
{
    const uint32_t count = coord_assign_partition_count(in);
    for (uint32_t i = 0; i < count; i++) owner_out[i] = -1;
    if (in->member_count == 0 || count == 0) return OT_OK;
    if (assignor == COORD_ASSIGN_RANGE) return assign_range(in, arena, owner_out);
    return same_topics(in) ? assign_even(in, arena, owner_out) : coord_assign_uneven(in, arena, owner_out);
}
