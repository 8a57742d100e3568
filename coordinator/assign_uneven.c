/* Uniform assignment where subscriptions differ. Members keep what they still subscribed to; what is free goes, hardest topics first (most partitions per
 * subscriber), to the least loaded subscriber; then partitions move from the most to the least loaded subscribers of a topic until they differ by one,
 * over all topics again while something moves, 16 times at most. */
#include "coordinator/assign.h"
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 16 };

/* The subscribers of one topic by load. Those in [0, least_end) have, or just got, least_level + 1 partitions; those in [most_start, most_end) have, or
 * just gave one of, most_level. Both ranges grow inwards, level by level; behind most_end are members with nothing of the topic left to give.
 *
 *      #              the least loaded range fills up a level, then takes in whoever has that level too;
 *    ..##  <- most    the most loaded one is taken down likewise. They are balanced when their levels differ by one.
 *    #####
 */
struct uneven {
    const struct coord_assign_in *in;
    int32_t *owner;
    uint32_t *first;                                           /* of each topic: its first partition */
    uint32_t *subs_first, *subs;                               /* subscribers of topic t: subs[subs_first[t] … subs_first[t + 1]), ascending */
    uint32_t *load;                                            /* of each member */
    uint32_t *by_load;                                         /* the subscribers of the topic at hand, sorted */
    uint32_t *parts, *start, *end;                             /* the topic's partitions by owner: parts[start[m] … end[m]) */
    uint32_t sub_count, least_end, least_next, most_start, most_end;
    int64_t least_level, most_level, most_next;
};

static uint32_t topic_subs(const struct uneven *u, uint32_t topic)
{
    return u->subs_first[topic + 1] - u->subs_first[topic];
}

static int load_order(const void *a, const void *b, void *arg)
{
    const struct uneven *u = arg;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (u->load[x] != u->load[y]) return u->load[x] < u->load[y] ? -1 : 1;
    return (x > y) - (x < y);
}

static int topic_order(const void *a, const void *b, void *arg)
{
    const struct uneven *u = arg;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b, x_subs = topic_subs(u, x), y_subs = topic_subs(u, y);
    const uint64_t x_share = (uint64_t)u->in->topics[x].partition_count * y_subs, y_share = (uint64_t)u->in->topics[y].partition_count * x_subs;
    if (x_share != y_share) return x_share > y_share ? -1 : 1;
    if (x_subs != y_subs) return x_subs < y_subs ? -1 : 1;
    return memcmp(&u->in->topics[x].id, &u->in->topics[y].id, sizeof(struct ot_uuid));
}

/* How far the loads of the topic's subscribers are apart. */
static uint32_t look_at(struct uneven *u, uint32_t topic)
{
    u->sub_count = topic_subs(u, topic);
    memcpy(u->by_load, &u->subs[u->subs_first[topic]], u->sub_count * sizeof(*u->by_load));
    qsort_r(u->by_load, u->sub_count, sizeof(*u->by_load), load_order, u);
    const uint32_t least = u->load[u->by_load[0]], most = u->load[u->by_load[u->sub_count - 1]];
    u->least_end = u->least_next = 0;
    u->least_level = (int64_t)least - 1;
    u->most_start = u->most_end = u->sub_count;
    u->most_level = (int64_t)most + 1;
    u->most_next = (int64_t)u->sub_count - 1;
    return most - least;
}

static uint32_t next_least(struct uneven *u)
{
    if (u->least_next >= u->least_end) {
        u->least_level++;
        while (u->least_end < u->sub_count && u->load[u->by_load[u->least_end]] == u->least_level) u->least_end++;
        u->least_next = 0;
    }
    return u->by_load[u->least_next++];
}

/* -1: nobody has anything left to give. */
static int64_t next_most(struct uneven *u)
{
    if (u->most_next < (int64_t)u->most_start) {
        if (u->most_end <= u->most_start && u->most_start > 0) u->most_level = u->load[u->by_load[u->most_start - 1]];
        else u->most_level--;
        while (u->most_start > 0 && u->load[u->by_load[u->most_start - 1]] == u->most_level) u->most_start--;
        u->most_next = (int64_t)u->most_end - 1;
    }
    return u->most_next < 0 ? -1 : (int64_t)u->by_load[u->most_next--];
}

static void leave_out_most(struct uneven *u)
{
    const uint32_t at = (uint32_t)(u->most_next + 1), member = u->by_load[at];
    u->by_load[at] = u->by_load[u->most_end - 1];
    u->by_load[--u->most_end] = member;
}

static void give(struct uneven *u, uint32_t partition, uint32_t member)
{
    if (u->owner[partition] >= 0) u->load[u->owner[partition]]--;
    u->owner[partition] = (int32_t)member;
    u->load[member]++;
}

static void sort_parts_by_owner(struct uneven *u, uint32_t topic)
{
    const uint32_t count = (uint32_t)u->in->topics[topic].partition_count, first = u->first[topic];
    uint32_t at = 0;
    for (uint32_t i = u->subs_first[topic]; i < u->subs_first[topic + 1]; i++) u->end[u->subs[i]] = 0;
    for (uint32_t p = 0; p < count; p++) u->end[u->owner[first + p]]++;
    for (uint32_t i = u->subs_first[topic]; i < u->subs_first[topic + 1]; i++) {
        const uint32_t member = u->subs[i], owned = u->end[member];
        u->start[member] = u->end[member] = at;
        at += owned;
    }
    for (uint32_t p = 0; p < count; p++) u->parts[u->end[u->owner[first + p]]++] = first + p;
}

/* How many partitions moved. Ends at the latest when every partition of the topic was given away once: each turn takes one or leaves out a member. */
static uint32_t level_topic(struct uneven *u, uint32_t topic)
{
    uint32_t moved = 0;
    if (look_at(u, topic) <= 1) return 0;
    sort_parts_by_owner(u, topic);
    for (;;) {
        const int64_t from = next_most(u);
        if (from < 0) break;
        if (u->end[from] == u->start[from]) {
            leave_out_most(u);
            continue;
        }
        const uint32_t partition = u->parts[--u->end[from]], to = next_least(u);
        if (u->most_level - u->least_level <= 1) break;
        give(u, partition, to);
        moved++;
    }
    return moved;
}

static void level_all(struct uneven *u, const uint32_t *order, uint32_t count)
{
    int64_t last = -1;                                         /* the topic of the last move: coming round to it again means that nothing moves any more */
    for (int round = 0; round < ROUNDS_MAX; round++) {
        for (uint32_t i = 0; i < count; i++) {
            if (i == last) return;
            if (topic_subs(u, order[i]) < 2) continue;
            if (level_topic(u, order[i]) > 0 || last < 0) last = i;
        }
    }
}

static enum ot_err uneven_alloc(struct uneven *u, struct ot_arena *arena)
{
    uint32_t subs = 0, widest = 1;
    for (uint32_t i = 0; i < u->in->member_count; i++) subs += u->in->members[i].topic_count;
    for (uint32_t t = 0; t < u->in->topic_count; t++) widest = OT_MAX(widest, (uint32_t)u->in->topics[t].partition_count);
    u->first = ot_arena_array(arena, u->in->topic_count, sizeof(uint32_t));
    u->subs_first = ot_arena_array(arena, u->in->topic_count + 2, sizeof(uint32_t));
    u->subs = ot_arena_array(arena, subs + 1, sizeof(uint32_t));
    u->load = ot_arena_array(arena, u->in->member_count, sizeof(uint32_t));
    u->by_load = ot_arena_array(arena, u->in->member_count, sizeof(uint32_t));
    u->start = ot_arena_array(arena, u->in->member_count, sizeof(uint32_t));
    u->end = ot_arena_array(arena, u->in->member_count, sizeof(uint32_t));
    u->parts = ot_arena_array(arena, widest, sizeof(uint32_t));
    const bool all = u->first != NULL && u->subs_first != NULL && u->subs != NULL && u->load != NULL && u->by_load != NULL && u->start != NULL &&
        u->end != NULL && u->parts != NULL;
    return all ? OT_OK : OT_ERR_NO_MEMORY;
}

static void uneven_index(struct uneven *u)
{
    const struct coord_assign_in *in = u->in;
    uint32_t *at = u->subs_first + 1;                          /* counts become where the next subscriber goes become where the next topic begins */
    for (uint32_t i = 0; i < in->member_count; i++)
        for (uint32_t k = 0; k < in->members[i].topic_count; k++) at[in->members[i].topics[k] + 1]++;
    for (uint32_t t = 0, first = 0; t < in->topic_count; t++) {
        at[t + 1] += at[t];
        u->first[t] = first;
        first += (uint32_t)in->topics[t].partition_count;
    }
    for (uint32_t i = 0; i < in->member_count; i++)
        for (uint32_t k = 0; k < in->members[i].topic_count; k++) u->subs[at[in->members[i].topics[k]]++] = i;
}

static bool subscribed(const struct coord_assign_member *member, uint32_t topic)
{
    uint32_t low = 0, high = member->topic_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (member->topics[middle] < topic) low = middle + 1;
        else high = middle;
    }
    return low < member->topic_count && member->topics[low] == topic;
}

static void keep_what_stays(struct uneven *u)
{
    for (uint32_t t = 0; t < u->in->topic_count && u->in->current != NULL; t++) {
        int32_t last = -1;
        bool stays = false;
        for (int32_t p = 0; p < u->in->topics[t].partition_count; p++) {
            const uint32_t at = u->first[t] + (uint32_t)p;
            const int32_t owner = u->in->current[at];
            if (owner >= 0 && owner != last) stays = subscribed(&u->in->members[owner], t);
            last = owner;
            if (owner >= 0 && stays) give(u, at, (uint32_t)owner);
        }
    }
}

enum ot_err coord_assign_uneven(const struct coord_assign_in *in, struct ot_arena *arena, int32_t *owner_out)
{
    struct uneven u = { .in = in, .owner = owner_out };
    uint32_t *order = ot_arena_array(arena, in->topic_count, sizeof(*order)), count = 0;
    if (order == NULL || uneven_alloc(&u, arena) != OT_OK) return OT_ERR_NO_MEMORY;
    uneven_index(&u);
    keep_what_stays(&u);
    for (uint32_t t = 0; t < in->topic_count; t++)
        if (topic_subs(&u, t) > 0) order[count++] = t;
    qsort_r(order, count, sizeof(*order), topic_order, &u);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t first = u.first[order[i]], end = first + (uint32_t)in->topics[order[i]].partition_count;
        bool looked = false;
        for (uint32_t p = first; p < end; p++) {
            if (owner_out[p] >= 0) continue;
            if (!looked) (void)look_at(&u, order[i]);
            looked = true;
            give(&u, p, next_least(&u));
        }
    }
    level_all(&u, order, count);
    return OT_OK;
}
