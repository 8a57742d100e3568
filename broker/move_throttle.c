#include "broker/move_throttle.h"

#include "base/log.h"
#include "broker/admin.h"
#include "broker/replication_inner.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "ottla.reassignment.throttle"
#define LISTED "ottla.reassignment.throttled"
#define LOOK_US 1000000
#define IDLE_US 5000000                        /* nothing moves for so long: it was for nothing, or it is over */
enum { ARENA_BYTES = 16 << 20, ITEMS_MAX = 4096, LIST_BYTES_MAX = 1400 /* of a config value */ };

static const char *const rates[] = { "leader.replication.throttled.rate", "follower.replication.throttled.rate", MARK };       /* of a broker: the last says that they are ours, as long as they are what it says */
static const char *const lists[] = { "leader.replication.throttled.replicas", "follower.replication.throttled.replicas", LISTED };   /* of a topic: the last says that they are ours */

struct broker_move_throttle_work {
    struct broker_admin admin;
    struct broker_move_throttle *throttle;          /* NULL: it is taken back */
    struct broker_replication *all;
    struct ot_arena arena;
    struct broker_admin_item items[ITEMS_MAX];
};

static struct broker_move_throttle_work *work_new(void)
{
    struct broker_move_throttle_work *work = calloc(1, sizeof *work);
    if (work == NULL) return NULL;
    ot_arena_init(&work->arena, ARENA_BYTES);
    work->admin.items = work->items;
    return work;
}

static void work_free(struct broker_move_throttle_work *work)
{
    ot_arena_free(&work->arena);
    free(work);
}

int64_t broker_move_throttle_of(const struct broker_view *view)
{
    struct broker_view_config row;
    char text[24];
    for (struct ot_str at = { .null = true }; broker_view_next_broker_config(view, -1, at, &row); at = row.name) {
        if (!ot_str_equal(row.name, ot_str_of(MARK)) || row.value.bytes >= sizeof text) continue;
        snprintf(text, sizeof text, "%.*s", (int)row.value.bytes, row.value.data);
        return strtoll(text, NULL, 10) > 0 ? strtoll(text, NULL, 10) : -1;
    }
    return -1;
}

/* ---- items */

static struct broker_admin_item *item_add(struct broker_move_throttle_work *work, enum broker_admin_kind kind, struct broker_config_entry *entries, uint32_t count)
{
    if (work->admin.item_count == ITEMS_MAX || entries == NULL) return NULL;
    struct broker_admin_item *item = &work->items[work->admin.item_count++];
    *item = (struct broker_admin_item){ .kind = kind, .broker_id = -1, .of_any_broker = false, .configs = entries, .config_count = count, .partition_count = -1, .replication_factor = -1,
        .if_version = -1 };
    return item;
}

static struct broker_config_entry *entries_new(struct broker_move_throttle_work *work, const char *const *names, uint32_t count, struct ot_str value)
{
    struct broker_config_entry *entries = ot_arena_array(&work->arena, count, sizeof *entries);
    for (uint32_t i = 0; entries != NULL && i < count; i++) entries[i] = (struct broker_config_entry){ ot_str_of(names[i]), value };
    return entries;
}

static bool add_mark(struct broker_move_throttle_work *work, struct ot_str value)
{
    static const char *const mark[] = { MARK };
    return item_add(work, BROKER_ALTER_BROKER_CONFIG, entries_new(work, mark, 1, value), 1) != NULL;
}

/* What a broker's own configs say about throttles: a rate that an operator set by other means, before or since, is not what the mark says. */
struct rates_of { bool any, marked, ours; };
static struct rates_of rates_of(const struct broker_view *view, int32_t broker_id)
{
    struct ot_str values[OT_ARRAY_COUNT(rates)] = { { .null = true }, { .null = true }, { .null = true } };
    struct broker_view_config row;
    for (struct ot_str at = { .null = true }; broker_view_next_broker_config(view, broker_id, at, &row); at = row.name)
        for (uint32_t i = 0; i < OT_ARRAY_COUNT(rates); i++)
            if (ot_str_equal(row.name, ot_str_of(rates[i]))) values[i] = row.value;
    struct rates_of out = { .any = !values[0].null || !values[1].null, .marked = !values[2].null };
    out.ours = out.marked && ot_str_equal(values[0], values[2]) && ot_str_equal(values[1], values[2]);
    return out;
}

/* The rates of all brokers but those that an operator throttles; a null value takes ours back, and the mark of those that are an operator's by now. */
static bool add_rates(struct broker_move_throttle_work *work, const struct broker_view *view, struct ot_str value)
{
    struct broker_view_broker row;
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &work->arena, &row); after = row.id) {
        const struct rates_of now = rates_of(view, row.id);
        if (value.null ? !now.marked : now.any && !now.ours) continue;
        const uint32_t first = value.null && !now.ours ? OT_ARRAY_COUNT(rates) - 1 : 0, count = OT_ARRAY_COUNT(rates) - first;
        struct broker_admin_item *item = item_add(work, BROKER_ALTER_BROKER_CONFIG, entries_new(work, rates + first, count, value), count);
        if (item == NULL) return false;
        item->broker_id = row.id;
        item->of_any_broker = true;
    }
    return true;
}

/* "0:1,0:2": who copies from whom. Too long for a config: every replica of the topic. */
struct text { char *data; size_t bytes; bool full; };

static void text_add(struct text *text, int32_t partition, int32_t broker)
{
    const int more = text->full ? 0 : snprintf(text->data + text->bytes, LIST_BYTES_MAX + 1 - text->bytes, "%s%d:%d", text->bytes > 0 ? "," : "", partition, broker);
    text->full |= text->bytes + (size_t)more > LIST_BYTES_MAX;
    if (!text->full) text->bytes += (size_t)more;
}

static struct ot_str text_end(const struct text *text) { return text->full ? ot_str_of("*") : (struct ot_str){ text->data, (uint32_t)text->bytes, false }; }

static bool has(const int32_t *ids, int32_t count, int32_t id)
{
    for (int32_t i = 0; i < count; i++)
        if (ids[i] == id) return true;
    return false;
}

static void list_move(const struct broker_view *view, const struct broker_view_topic *topic, const struct broker_move *move, struct text *leaders, struct text *followers)
{
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
    if (broker_view_partition(view, &topic->id, move->partition, &arena, &row)) {
        for (int32_t i = 0; i < row.replicas.count; i++) text_add(leaders, move->partition, row.replicas.ids[i]);
        for (int32_t i = 0; i < move->count; i++)
            if (!has(row.replicas.ids, row.replicas.count, move->target[i])) text_add(followers, move->partition, move->target[i]);
    }
    ot_arena_free(&arena);
}

/* What the topic says about throttles: lists that an operator set by other means have no mark. */
struct lists_of { bool any, ours; };
static struct lists_of lists_of(const struct broker_view *view, const struct ot_uuid *topic_id)
{
    struct lists_of out = { 0 };
    struct broker_view_config row;
    for (struct ot_str at = { .null = true }; broker_view_next_topic_config(view, topic_id, at, &row); at = row.name) {
        out.any |= ot_str_equal(row.name, ot_str_of(lists[0])) || ot_str_equal(row.name, ot_str_of(lists[1]));
        out.ours |= ot_str_equal(row.name, ot_str_of(LISTED)) && ot_str_equal(row.value, ot_str_of("true"));
    }
    return out;
}

/* The topic of move `first`, for all of its moves; they need not stand together. One that an operator throttles is left as it is. */
static bool add_topic(struct broker_move_throttle_work *work, const struct broker_view *view, const struct broker_move_throttle *throttle, uint32_t first)
{
    const struct ot_str name = throttle->moves[first].topic;
    struct text texts[2] = { { .data = ot_arena_alloc(&work->arena, LIST_BYTES_MAX + 1) }, { .data = ot_arena_alloc(&work->arena, LIST_BYTES_MAX + 1) } };
    struct broker_view_topic topic;
    if (texts[0].data == NULL || texts[1].data == NULL) return false;
    if (!broker_view_topic(view, name, &topic)) return true;
    const struct lists_of now = lists_of(view, &topic.id);
    if (now.any && !now.ours) return true;
    for (uint32_t i = first; i < throttle->move_count; i++)
        if (throttle->moves[i].error == OT_OK && ot_str_equal(throttle->moves[i].topic, name)) list_move(view, &topic, &throttle->moves[i], &texts[0], &texts[1]);
    struct broker_config_entry *entries = entries_new(work, lists, OT_ARRAY_COUNT(lists), ot_str_of("true"));
    for (uint32_t i = 0; entries != NULL && i < OT_ARRAY_COUNT(texts); i++) entries[i].value = text_end(&texts[i]);
    struct broker_admin_item *item = item_add(work, BROKER_ALTER_TOPIC_CONFIG, entries, OT_ARRAY_COUNT(lists));
    if (item == NULL) return false;
    item->topic = name;
    return true;
}

static bool seen_before(const struct broker_move_throttle *throttle, uint32_t at)
{
    for (uint32_t i = 0; i < at; i++)
        if (throttle->moves[i].error == OT_OK && ot_str_equal(throttle->moves[i].topic, throttle->moves[at].topic)) return true;
    return false;
}

/* ---- setting it */

static void end_run(struct ot_task *task)
{
    struct broker_move_throttle *throttle = OT_CONTAINER(task, struct broker_move_throttle, call.task);
    throttle->call.done(&throttle->call);
}

static void end(struct broker_move_throttle *throttle, enum ot_err error, const char *text)
{
    throttle->error = error;
    snprintf(throttle->text, sizeof throttle->text, "%s", text);
    throttle->call.task.run = end_run;
    ot_exec_post(throttle->call.home, &throttle->call.task);
}

static void set_done(struct broker_call *call)
{
    struct broker_move_throttle_work *work = OT_CONTAINER(call, struct broker_move_throttle_work, admin.call);
    struct broker_move_throttle *throttle = work->throttle;
    const struct broker_admin_item *bad = NULL;
    for (uint32_t i = 0; bad == NULL && i < work->admin.item_count; i++)
        if (work->items[i].error != OT_OK) bad = &work->items[i];
    if (bad == NULL) ot_log(OT_LOG_INFO, "broker", "reassignment_throttled", "bytes_per_second=%" PRId64 " moves=%u", throttle->bytes_per_second, throttle->move_count);
    end(throttle, bad == NULL ? OT_OK : bad->error, bad == NULL ? "" : bad->text[0] != 0 ? bad->text : ot_err_text(bad->error));
    work_free(work);
}

void broker_move_throttle_set(struct broker *broker, struct broker_move_throttle *throttle)
{
    struct broker_move_throttle_work *work = work_new();
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, throttle->bytes_per_second);
    const char *kept = work == NULL ? NULL : ot_arena_str(&work->arena, ot_str_of(number));
    bool fits = kept != NULL && add_mark(work, ot_str_of(kept));
    if (fits) {
        const struct broker_view *view = broker_view_take(broker);
        fits = add_rates(work, view, ot_str_of(kept));
        for (uint32_t i = 0; fits && i < throttle->move_count; i++)
            if (throttle->moves[i].error == OT_OK && !seen_before(throttle, i)) fits = add_topic(work, view, throttle, i);
        broker_view_give(view);
    }
    if (!fits) {
        if (work != NULL) work_free(work);
        end(throttle, OT_ERR_NO_MEMORY, "too many brokers and topics for one throttle");
        return;
    }
    work->throttle = throttle;
    work->admin.call.home = throttle->call.home;
    work->admin.call.done = set_done;
    work->admin.timeout_ms = throttle->timeout_ms;
    broker_admin(broker, &work->admin);
}

/* ---- taking it back */

static bool anything_moves(const struct broker_view *view)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[4096];
    bool moves = false;
    ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
    for (struct ot_str after = { .null = true }; !moves && broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (int32_t i = 0; !moves && i < topic.partition_count; i++) {
            ot_arena_reset(&arena);
            moves = broker_view_partition(view, &topic.id, i, &arena, &row) && row.adding.count + row.removing.count > 0;
        }
    }
    ot_arena_free(&arena);
    return moves;
}

static void taken_back(struct broker_call *call)
{
    struct broker_move_throttle_work *work = OT_CONTAINER(call, struct broker_move_throttle_work, admin.call);
    struct broker_replication *all = work->all;
    uint32_t failed = 0;
    for (uint32_t i = 0; i < work->admin.item_count; i++) failed += work->items[i].error != OT_OK;
    ot_log(failed == 0 ? OT_LOG_INFO : OT_LOG_WARN, "broker", "reassignment_throttle_removed", "configs=%u failed=%u", work->admin.item_count, failed);
    work_free(work);
    all->throttling = false;
    all->throttle_idle_us = 0;
    atomic_fetch_sub(&all->busy, 1);
}

/* The mark goes last, in a request of its own kind: whoever leads next goes on as long as it is there. */
static struct broker_move_throttle_work *removal(struct broker_replication *all, const struct broker_view *view)
{
    const struct ot_str none = { .null = true };
    struct broker_move_throttle_work *work = work_new();
    struct broker_view_topic topic;
    if (work == NULL) return NULL;
    work->all = all;
    bool fits = add_rates(work, view, none);
    for (struct ot_str after = { .null = true }; fits && broker_view_next_topic(view, after, &topic); after = topic.name) {
        if (!lists_of(view, &topic.id).ours) continue;
        const char *name = ot_arena_str(&work->arena, topic.name);
        struct broker_admin_item *item = name == NULL ? NULL : item_add(work, BROKER_ALTER_TOPIC_CONFIG, entries_new(work, lists, OT_ARRAY_COUNT(lists), none), OT_ARRAY_COUNT(lists));
        fits = item != NULL;
        if (fits) item->topic = ot_str_of(name);
    }
    if (work->admin.item_count < ITEMS_MAX && add_mark(work, none)) return work;
    work->admin.item_count -= work->admin.item_count == ITEMS_MAX ? 0 : 1;     /* so many topics: the rest, and the mark, in the next round */
    return work;
}

void broker_move_throttle_tick(struct broker_replication *all)
{
    const int64_t now_us = ot_exec_now_us(all->setup.exec);
    struct broker_view_cluster cluster;
    struct broker_move_throttle_work *work = NULL;
    if (all->throttling || now_us < all->throttle_due_us) return;
    all->throttle_due_us = now_us + LOOK_US;
    const struct broker_view *view = broker_view_take(broker_of_core(all->core));
    broker_view_cluster(view, &cluster);
    if (cluster.controller_id != all->core->node_id || broker_move_throttle_of(view) < 0 || anything_moves(view)) all->throttle_idle_us = 0;
    else if (all->throttle_idle_us == 0) all->throttle_idle_us = now_us;
    else if (now_us - all->throttle_idle_us >= IDLE_US) work = removal(all, view);
    broker_view_give(view);
    if (work == NULL) return;
    all->throttling = true;
    atomic_fetch_add(&all->busy, 1);
    work->admin.call.home = all->setup.exec;
    work->admin.call.done = taken_back;
    work->admin.timeout_ms = 10000;
    broker_admin(broker_of_core(all->core), &work->admin);
}
