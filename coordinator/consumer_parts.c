#include "coordinator/consumer_inner.h"
#include <stdlib.h>

int cg_part_order(const struct coord_cg_part *a, const struct coord_cg_part *b)
{
    const int order = memcmp(&a->topic_id, &b->topic_id, sizeof(a->topic_id));
    return order != 0 ? order : (a->partition > b->partition) - (a->partition < b->partition);
}

static int part_order(const void *a, const void *b)
{
    return cg_part_order(a, b);
}

void cg_parts_sort(struct coord_cg_parts *parts)
{
    uint32_t kept = 0;
    if (parts->count > 1) qsort(parts->items, parts->count, sizeof(*parts->items), part_order);
    for (uint32_t i = 0; i < parts->count; i++)
        if (kept == 0 || cg_part_order(&parts->items[kept - 1], &parts->items[i]) != 0) parts->items[kept++] = parts->items[i];
    parts->count = kept;
}

bool cg_parts_equal(const struct coord_cg_parts *a, const struct coord_cg_parts *b)
{
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (cg_part_order(&a->items[i], &b->items[i]) != 0 || a->items[i].epoch != b->items[i].epoch) return false;
    return true;
}

bool cg_parts_have(const struct coord_cg_parts *parts, const struct ot_uuid *topic_id, int32_t partition, int32_t *epoch_out)
{
    const struct coord_cg_part wanted = { *topic_id, partition, 0 };
    const struct coord_cg_part *found = parts->count == 0 ? NULL : bsearch(&wanted, parts->items, parts->count, sizeof(wanted), part_order);
    if (found != NULL && epoch_out != NULL) *epoch_out = found->epoch;
    return found != NULL;
}

bool cg_parts_meet(const struct coord_cg_parts *a, const struct coord_cg_parts *b)
{
    for (uint32_t i = 0, k = 0; i < a->count && k < b->count;) {
        const int order = cg_part_order(&a->items[i], &b->items[k]);
        if (order == 0) return true;
        if (order < 0) i++;
        else k++;
    }
    return false;
}

bool cg_parts_within(const struct coord_cg_parts *a, const struct coord_cg_parts *b)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < a->count; i++, k++) {
        while (k < b->count && cg_part_order(&a->items[i], &b->items[k]) > 0) k++;
        if (k == b->count || cg_part_order(&a->items[i], &b->items[k]) != 0) return false;
    }
    return true;
}

struct coord_cg_parts cg_parts_room(struct ot_arena *arena, size_t count)
{
    return (struct coord_cg_parts){ ot_arena_array(arena, count, sizeof(struct coord_cg_part)), 0 };
}

enum ot_err cg_parts_copy(struct coord_cg *cg, const struct coord_cg_parts *from, struct coord_cg_parts *out)
{
    *out = (struct coord_cg_parts){ NULL, 0 };
    if (from->count == 0) return OT_OK;
    struct coord_cg_part *items = cg_alloc(cg, from->count * sizeof(*items));
    if (items == NULL) return OT_ERR_NO_MEMORY;
    memcpy(items, from->items, from->count * sizeof(*items));
    *out = (struct coord_cg_parts){ items, from->count };
    return OT_OK;
}

enum ot_err cg_parts_union(struct ot_arena *arena, const struct coord_cg_parts *a, const struct coord_cg_parts *b, struct coord_cg_parts *out)
{
    *out = cg_parts_room(arena, (size_t)a->count + b->count);
    if (out->items == NULL) return OT_ERR_NO_MEMORY;
    if (a->count > 0) memcpy(out->items, a->items, a->count * sizeof(*a->items));
    if (b->count > 0) memcpy(out->items + a->count, b->items, b->count * sizeof(*b->items));
    out->count = a->count + b->count;
    cg_parts_sort(out);
    return OT_OK;
}
