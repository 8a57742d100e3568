#include "broker/plan.h"

#include "base/map.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

enum { KEEPING_ROUNDS = 2, BALANCE_ROUNDS = 6 /* the first ones with each topic's shares kept; what comes later changes what was best for those before */ };
enum { ROW_ARENA_BYTES = 256 << 10, BROKER_ARENA_BYTES = 16 << 20 };

struct place {                                             /* a broker, with what it holds by what was planned so far */
    int32_t id;
    uint32_t rack;                                         /* number of its rack; those without one share 0 */
    bool live, takes, emptied;
    uint32_t replicas, preferred;
    uint32_t topic_replicas, topic_preferred;              /* of the topic that is walked, as far as it was walked, by what was planned */
};
struct planning {
    const struct broker_view *view;
    const struct broker_plan_ask *ask;
    struct ot_arena *arena;
    struct broker_plan *out;
    struct place *places; uint32_t place_count, place_cap;
    uint32_t most, least, most_preferred, least_preferred;     /* shares of a broker that takes some */
    struct ot_uuid topic_id; uint32_t topic_share, topic_leads;/* the topic that is walked, and the share of a broker in it */
    uint32_t round;                                            /* in the first nobody gives away its share of a topic, rounded up, in the second rounded down: else the first topics would make up for all */
    uint32_t most_moves, changes;
    struct ot_map moved;                                       /* of partitions that have a move: which one, from 1 on */
    enum ot_err error;
};
struct list { int32_t ids[BROKER_PLAN_REPLICAS_MAX]; int32_t count; };

/* ---- brokers */

static struct place *place_of(const struct planning *p, int32_t id)
{
    for (uint32_t low = 0, high = p->place_count; low < high;) {
        const uint32_t mid = (low + high) / 2;
        if (p->places[mid].id == id) return &p->places[mid];
        *(p->places[mid].id < id ? &low : &high) = mid + (p->places[mid].id < id);
    }
    return NULL;
}

static bool is_emptied(const struct broker_plan_ask *ask, int32_t id)
{
    for (uint32_t i = 0; i < ask->empty_count; i++)
        if (ask->empty[i] == id) return true;
    return false;
}

static uint32_t rack_number(struct planning *p, struct ot_str *racks, struct ot_str rack)
{
    if (rack.null) return 0;
    for (uint32_t i = 0; i < p->place_count; i++)
        if (!racks[i].null && ot_str_equal(racks[i], rack)) return p->places[i].rack;
    return p->place_count + 1;
}

static bool load_brokers(struct planning *p)
{
    struct broker_view_broker row;
    struct ot_arena arena;
    struct ot_str *racks = NULL;
    ot_arena_init(&arena, BROKER_ARENA_BYTES);
    for (int32_t after = INT32_MIN; broker_view_next_broker(p->view, after, &arena, &row); after = row.id) {
        if (p->place_count == p->place_cap) {
            const uint32_t cap = OT_MAX(2 * p->place_cap, 64u);
            struct place *places = realloc(p->places, cap * sizeof *places);
            if (places != NULL) p->places = places;
            struct ot_str *wider = realloc(racks, cap * sizeof *wider);
            if (wider != NULL) racks = wider;
            if (places == NULL || wider == NULL) {
                p->error = OT_ERR_NO_MEMORY;
                break;
            }
            p->place_cap = cap;
        }
        const bool emptied = is_emptied(p->ask, row.id);
        p->places[p->place_count] = (struct place){ .id = row.id, .rack = rack_number(p, racks, row.rack), .live = !row.fenced && !row.stopping, .emptied = emptied,
            .takes = !row.fenced && !row.stopping && !row.leaving && !emptied };
        racks[p->place_count++] = row.rack;
    }
    free(racks);
    ot_arena_free(&arena);
    return p->error == OT_OK;
}

/* ---- one partition: lists of ids */

static bool has(const struct list *list, int32_t id)
{
    for (int32_t i = 0; i < list->count; i++)
        if (list->ids[i] == id) return true;
    return false;
}

static bool among(const struct broker_view_ids *ids, int32_t id)
{
    for (int32_t i = 0; i < ids->count; i++)
        if (ids->ids[i] == id) return true;
    return false;
}

/* How many others of the list share its rack; brokers without a rack share none. */
static uint32_t shares(const struct planning *p, const struct list *list, int32_t without, int32_t id)
{
    const struct place *own = place_of(p, id);
    uint32_t count = 0;
    for (int32_t i = 0; own != NULL && own->rack != 0 && i < list->count; i++) {
        const struct place *other = list->ids[i] == without || list->ids[i] == id ? NULL : place_of(p, list->ids[i]);
        count += other != NULL && other->rack == own->rack;
    }
    return count;
}

/* Who takes the place of `without` (-1: a new place) in the list: the rack decides, then the load. NULL: nobody can. */
static struct place *best(const struct planning *p, const struct list *list, int32_t without)
{
    struct place *found = NULL;
    uint32_t found_shares = 0;
    for (uint32_t i = 0; i < p->place_count; i++) {
        struct place *one = &p->places[i];
        if (!one->takes || has(list, one->id)) continue;
        const uint32_t same = shares(p, list, without, one->id);
        if (found != NULL && (same > found_shares || (same == found_shares && one->replicas >= found->replicas))) continue;
        found = one;
        found_shares = same;
    }
    return found;
}

static void put(struct planning *p, struct list *list, int32_t at, struct place *one)
{
    struct place *old = at < list->count ? place_of(p, list->ids[at]) : NULL;
    if (old != NULL) old->replicas--;
    if (old != NULL && at == 0) old->preferred--;
    if (at == 0) one->preferred++;
    one->replicas++;
    list->ids[at] = one->id;
    list->count = OT_MAX(list->count, at + 1);
}

static void cut(struct planning *p, struct list *list, int32_t at)
{
    struct place *old = place_of(p, list->ids[at]), *next = at == 0 && list->count > 1 ? place_of(p, list->ids[1]) : NULL;
    if (old != NULL) old->replicas--;
    if (old != NULL && at == 0) old->preferred--;
    if (next != NULL) next->preferred++;
    list->count--;
    memmove(&list->ids[at], &list->ids[at + 1], (size_t)(list->count - at) * sizeof list->ids[0]);
}

static void note_stuck(struct planning *p, const struct broker_view_topic *topic, int32_t index)
{
    if (p->out->stuck++ > 0) return;
    const char *name = ot_arena_str(p->arena, topic->name);
    p->out->stuck_topic = ot_str_of(name == NULL ? "" : name);
    p->out->stuck_partition = index;
}

/* ---- goals */

static bool empty(struct planning *p, const struct broker_view_partition *row, struct list *list)
{
    (void)row;
    for (int32_t i = 0; i < list->count; i++) {
        if (!is_emptied(p->ask, list->ids[i])) continue;
        struct place *to = best(p, list, list->ids[i]);
        if (to == NULL) return false;
        put(p, list, i, to);
    }
    return true;
}

/* How gladly a replica is given up; the greatest goes. */
static uint64_t weight(const struct planning *p, const struct broker_view_partition *row, const struct list *list, int32_t at)
{
    const int32_t id = list->ids[at];
    const struct place *one = place_of(p, id);
    const uint64_t gone = one == NULL || !one->live, unwanted = one != NULL && !one->takes, behind = !among(&row->isr, id);
    const uint64_t same = OT_MIN(shares(p, list, -1, id), 255u), load = one == NULL ? 0 : OT_MIN(one->replicas, (uint32_t)INT32_MAX);
    const uint64_t leads = at == 0 || row->leader == id;
    return gone << 63 | unwanted << 62 | behind << 61 | (uint64_t)!leads << 60 | same << 40 | load;
}

static bool factor(struct planning *p, const struct broker_view_partition *row, struct list *list)
{
    while (list->count > p->ask->factor) {
        int32_t worst = list->count - 1;
        for (int32_t i = list->count - 1; i >= 0; i--)
            if (weight(p, row, list, i) > weight(p, row, list, worst)) worst = i;
        cut(p, list, worst);
    }
    while (list->count < p->ask->factor) {
        struct place *to = best(p, list, -1);
        if (to == NULL) return false;
        put(p, list, list->count, to);
    }
    return true;
}

static void spread_replicas(struct planning *p, struct list *list)
{
    for (int32_t i = 0; i < list->count; i++) {
        const struct place *from = place_of(p, list->ids[i]);
        struct place *to = from == NULL ? NULL : best(p, list, list->ids[i]);
        if (to == NULL || !from->takes) continue;          /* who is dead or leaves is not for a balance to judge */
        const uint32_t now = shares(p, list, -1, from->id), then = shares(p, list, from->id, to->id);
        const bool above = ((from->replicas > p->most && to->replicas < p->most) || (from->replicas > p->least && to->replicas < p->least))
            && from->topic_replicas >= p->topic_share;
        if (then < now || (then == now && above)) put(p, list, i, to);
    }
}

static void spread_leaders(struct planning *p, struct list *list)
{
    struct place *first = place_of(p, list->ids[0]), *found = NULL;
    int32_t at = 0;
    if (first == NULL || (first->takes && first->topic_preferred < p->topic_leads)) return;
    for (int32_t i = 1; i < list->count; i++) {
        struct place *other = place_of(p, list->ids[i]);
        if (other == NULL || !other->takes || (found != NULL && other->topic_preferred >= found->topic_preferred)) continue;
        const bool above = (first->preferred > p->most_preferred && other->preferred < p->most_preferred) || (first->preferred > p->least_preferred && other->preferred < p->least_preferred);
        if (!above && first->takes) continue;
        found = other;
        at = i;
    }
    if (found == NULL) return;
    first->preferred--;
    found->preferred++;
    list->ids[at] = first->id;
    list->ids[0] = found->id;
}

static bool balance(struct planning *p, const struct broker_view_partition *row, struct list *list)
{
    (void)row;
    spread_replicas(p, list);
    spread_leaders(p, list);
    return true;
}

/* ---- walks */

static bool is_asked(const struct broker_plan_ask *ask, struct ot_str topic)
{
    for (uint32_t i = 0; i < ask->topic_count; i++)
        if (ot_str_equal(ask->topics[i], topic)) return true;
    return ask->topic_count == 0;
}

struct partition_key { struct ot_uuid topic_id; int32_t partition; };

static struct broker_plan_move *move_of(const struct planning *p, const struct partition_key *key)
{
    const uintptr_t at = (uintptr_t)ot_map_get(&p->moved, key, sizeof *key);
    return at == 0 ? NULL : &p->out->moves[at - 1];
}

static struct broker_plan_move *move_add(struct planning *p, const struct broker_view_topic *topic, const struct broker_view_partition *row, const struct partition_key *key)
{
    struct broker_plan *out = p->out;
    const bool same_name = out->move_count > 0 && ot_str_equal(out->moves[out->move_count - 1].topic, topic->name);
    const char *name = same_name ? out->moves[out->move_count - 1].topic.data : ot_arena_str(p->arena, topic->name);
    int32_t *ids = ot_arena_array(p->arena, (size_t)row->replicas.count + BROKER_PLAN_REPLICAS_MAX, sizeof *ids);
    if (name == NULL || ids == NULL || ot_map_put(&p->moved, key, sizeof *key, (void *)(uintptr_t)(out->move_count + 1)) != OT_OK) {
        p->error = OT_ERR_NO_MEMORY;
        return NULL;
    }
    struct broker_plan_move *move = &out->moves[out->move_count++];
    *move = (struct broker_plan_move){ .topic = ot_str_of(name), .partition = row->index, .from = ids, .from_count = row->replicas.count, .to = ids + row->replicas.count };
    memcpy(ids, row->replicas.ids, (size_t)row->replicas.count * sizeof *ids);
    return move;
}

static void keep(struct planning *p, const struct broker_view_topic *topic, const struct broker_view_partition *row, const struct partition_key *key, const struct list *list)
{
    struct broker_plan_move *move = move_of(p, key);
    if (move == NULL && (move = move_add(p, topic, row, key)) == NULL) return;
    memcpy((int32_t *)(uintptr_t)move->to, list->ids, (size_t)list->count * sizeof list->ids[0]);
    move->to_count = list->count;
    move->added = 0;
    for (int32_t i = 0; i < list->count; i++) move->added += !among(&row->replicas, list->ids[i]);
}

static void plan_one(struct planning *p, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    static bool (*const goals[])(struct planning *, const struct broker_view_partition *, struct list *) = { balance, empty, factor };
    const bool back = row->goes_back && p->ask->goal == BROKER_PLAN_EMPTY;         /* those that stay come first; who goes is kept by the coordinator while it is needed */
    struct list list = { .count = row->replicas.count - (back ? row->removing.count : 0) };
    bool touched = p->ask->goal != BROKER_PLAN_EMPTY;
    for (int32_t i = 0; !touched && i < row->replicas.count; i++) touched = is_emptied(p->ask, row->replicas.ids[i]);
    if (!touched || p->out->cut || row->replicas.count < 1 || row->replicas.count > BROKER_PLAN_REPLICAS_MAX) return;
    if (row->adding.count + row->removing.count > 0 && !back) {
        p->out->busy++;
        return;
    }
    struct partition_key key;
    memset(&key, 0, sizeof key);
    key.topic_id = topic->id;
    key.partition = row->index;
    const struct broker_plan_move *planned = move_of(p, &key);
    memcpy(list.ids, planned != NULL ? planned->to : row->replicas.ids, (size_t)list.count * sizeof list.ids[0]);
    const struct list before = list;
    if (!goals[p->ask->goal](p, row, &list)) {
        note_stuck(p, topic, row->index);
        return;
    }
    if (list.count == before.count && memcmp(list.ids, before.ids, (size_t)list.count * sizeof list.ids[0]) == 0) return;
    p->changes++;
    if (planned == NULL && p->out->move_count == p->most_moves) p->out->cut = true;
    else keep(p, topic, row, &key, &list);
}

static void begin_topic(struct planning *p, const struct broker_view_topic *topic, int32_t replicas)
{
    uint32_t brokers = 0;
    for (uint32_t i = 0; i < p->place_count; i++) {
        p->places[i].topic_replicas = p->places[i].topic_preferred = 0;
        brokers += p->places[i].takes;
    }
    const uint64_t leads = (uint64_t)topic->partition_count, all = leads * (uint64_t)replicas, up = p->round == 0 ? brokers - 1 : 0;
    const bool keeping = p->round < KEEPING_ROUNDS && brokers > 0;
    p->topic_id = topic->id;
    p->topic_leads = keeping ? (uint32_t)((leads + up) / brokers) : 0;
    p->topic_share = keeping ? (uint32_t)((all + up) / brokers) : 0;
}

static void plan_next(struct planning *p, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    struct partition_key key;
    memset(&key, 0, sizeof key);
    key.topic_id = topic->id;
    key.partition = row->index;
    if (!ot_uuid_equal(&p->topic_id, &topic->id)) begin_topic(p, topic, row->replicas.count);
    plan_one(p, topic, row);
    const struct broker_plan_move *planned = move_of(p, &key);
    const struct broker_view_ids ids = planned != NULL ? (struct broker_view_ids){ planned->to, planned->to_count } : row->replicas;
    for (int32_t i = 0; i < ids.count; i++) {
        struct place *one = place_of(p, ids.ids[i]);
        if (one == NULL) continue;
        one->topic_replicas++;
        one->topic_preferred += i == 0;
    }
}

static void count_one(struct planning *p, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    (void)topic;
    for (int32_t i = 0; i < row->replicas.count; i++) {
        struct place *one = place_of(p, row->replicas.ids[i]);
        if (one == NULL || among(&row->removing, one->id)) continue;
        one->replicas++;
        one->preferred += i == 0;
    }
}

static void walk(struct planning *p, bool all, void (*each)(struct planning *, const struct broker_view_topic *, const struct broker_view_partition *))
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[8192];
    ot_arena_init_with(&arena, room, sizeof room, ROW_ARENA_BYTES);
    for (struct ot_str after = { .null = true }; p->error == OT_OK && broker_view_next_topic(p->view, after, &topic); after = topic.name) {
        if (!all && !is_asked(p->ask, topic.name)) continue;
        for (int32_t i = 0; i < topic.partition_count && p->error == OT_OK; i++) {
            ot_arena_reset(&arena);
            if (broker_view_partition(p->view, &topic.id, i, &arena, &row)) each(p, &topic, &row);
        }
    }
    ot_arena_free(&arena);
}

static void find_shares(struct planning *p)
{
    uint64_t replicas = 0, preferred = 0, brokers = 0;
    for (uint32_t i = 0; i < p->place_count; i++) {
        if (!p->places[i].takes) continue;
        replicas += p->places[i].replicas;
        preferred += p->places[i].preferred;
        brokers++;
    }
    if (brokers == 0) return;
    p->least = (uint32_t)(replicas / brokers);
    p->most = (uint32_t)((replicas + brokers - 1) / brokers);
    p->least_preferred = (uint32_t)(preferred / brokers);
    p->most_preferred = (uint32_t)((preferred + brokers - 1) / brokers);
}

static enum ot_err check(const struct planning *p, int32_t *id_out)
{
    struct broker_view_topic topic;
    int32_t takes = 0;
    for (uint32_t i = 0; i < p->ask->empty_count; i++) {
        *id_out = p->ask->empty[i];
        if (place_of(p, *id_out) == NULL) return OT_ERR_BROKER_ID_NOT_REGISTERED;
    }
    for (uint32_t i = 0; i < p->ask->topic_count; i++) {
        *id_out = (int32_t)i;
        if (!broker_view_topic(p->view, p->ask->topics[i], &topic)) return OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    }
    for (uint32_t i = 0; i < p->place_count; i++) takes += p->places[i].takes;
    *id_out = takes;
    return p->ask->goal == BROKER_PLAN_FACTOR && (p->ask->factor < 1 || p->ask->factor > takes) ? OT_ERR_INVALID_REPLICATION_FACTOR : OT_OK;
}

/* Those that a later round has put back. */
static void drop_same(struct broker_plan *out)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < out->move_count; i++) {
        const struct broker_plan_move *move = &out->moves[i];
        const bool same = move->to_count == move->from_count && memcmp(move->to, move->from, (size_t)move->to_count * sizeof *move->to) == 0;
        if (!same) out->moves[kept++] = *move;
    }
    out->move_count = kept;
}

enum ot_err broker_plan(const struct broker_view *view, const struct broker_plan_ask *ask, struct ot_arena *arena, struct broker_plan *out, int32_t *id_out)
{
    struct planning p = { .view = view, .ask = ask, .arena = arena, .out = out };
    p.most_moves = ask->moves_max == 0 ? BROKER_PLAN_MOVES_MAX : OT_MIN(ask->moves_max, (uint32_t)BROKER_PLAN_MOVES_MAX);
    *out = (struct broker_plan){ .moves = ot_arena_array(arena, p.most_moves, sizeof *out->moves), .stuck_topic.null = true };
    if (out->moves == NULL) return OT_ERR_NO_MEMORY;
    ot_map_init(&p.moved);
    if (load_brokers(&p) && (p.error = check(&p, id_out)) == OT_OK) {
        walk(&p, true, count_one);
        find_shares(&p);
        for (; p.round < (ask->goal == BROKER_PLAN_BALANCE ? BALANCE_ROUNDS : 1); p.round++) {
            p.changes = out->busy = 0;
            p.topic_id = (struct ot_uuid){ 0 };
            walk(&p, false, plan_next);
            if (p.changes == 0 && p.round >= KEEPING_ROUNDS) break;
        }
        drop_same(out);
    }
    ot_map_free(&p.moved);
    free(p.places);
    return p.error;
}

void broker_plan_room(const struct broker_view *view, int32_t leaving, struct broker_plan_room *out)
{
    const struct broker_plan_ask ask = { .goal = BROKER_PLAN_EMPTY, .empty = &leaving, .empty_count = 1 };
    struct planning p = { .view = view, .ask = &ask };
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[8192];
    *out = (struct broker_plan_room){ 0 };
    if (load_brokers(&p))
        for (uint32_t i = 0; i < p.place_count; i++) out->brokers += p.places[i].takes;
    free(p.places);
    ot_arena_init_with(&arena, room, sizeof room, ROW_ARENA_BYTES);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count; i++) {
            ot_arena_reset(&arena);
            if (!broker_view_partition(view, &topic.id, i, &arena, &row) || !among(&row.replicas, leaving)) continue;
            out->replicas++;
            out->factor_max = OT_MAX(out->factor_max, row.replicas.count - row.removing.count);
        }
    }
    ot_arena_free(&arena);
}
