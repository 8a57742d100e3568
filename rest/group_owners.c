/* GET /v1/groups/{group}/owners: who has which partition of the topics that the group reads, and which nobody has. */
#include "rest/groups.h"
#include "rest/handlers.h"
#include "rest/topic_view.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 200000, NAMES_MAX = 10000 };

struct owner_row { struct ot_str topic, member; int32_t partition; };      /* member null: nobody */
struct owner_rows { struct ot_arena *arena; struct owner_row *rows; uint32_t count, cap; struct ot_str member; bool full; };

static void note_owner(void *arg, struct ot_str topic, int32_t partition)
{
    struct owner_rows *all = arg;
    if (all->count == all->cap) {
        const uint32_t cap = all->cap == 0 ? 64 : all->cap * 2;
        struct owner_row *rows = cap > ROWS_MAX * 2 ? NULL : ot_arena_array(all->arena, cap, sizeof *rows);
        all->full |= rows == NULL;
        if (rows == NULL) return;
        if (all->count > 0) memcpy(rows, all->rows, all->count * sizeof *rows);
        all->rows = rows;
        all->cap = cap;
    }
    all->rows[all->count++] = (struct owner_row){ topic, all->member, partition };
}

static int by_topic(struct ot_str one, struct ot_str two)
{
    const int bytes = memcmp(one.data, two.data, OT_MIN(one.bytes, two.bytes));
    return bytes != 0 ? bytes : (one.bytes > two.bytes) - (one.bytes < two.bytes);
}

/* The owner of a partition before the row that says that it is one of the group's. */
static int by_place(const void *a, const void *b)
{
    const struct owner_row *one = a, *two = b;
    const int topics = by_topic(one->topic, two->topic);
    if (topics != 0) return topics;
    if (one->partition != two->partition) return one->partition > two->partition ? 1 : -1;
    return one->member.null - two->member.null;
}

static bool same_place(const struct owner_row *one, const struct owner_row *two) { return one->partition == two->partition && ot_str_equal(one->topic, two->topic); }

/* All partitions of a topic, as nobody's. */
static void note_topic(struct owner_rows *all, const struct broker_view *view, struct ot_str name)
{
    struct broker_view_topic topic;
    if (!broker_view_topic(view, name, &topic)) return;
    for (int32_t p = 0; p < topic.partition_count && !all->full; p++) note_owner(all, name, p);
}

struct names { struct ot_str *names; uint32_t count; };

static int by_name(const void *a, const void *b) { return by_topic(*(const struct ot_str *)a, *(const struct ot_str *)b); }

static void unique(struct names *all)
{
    uint32_t kept = 0;
    if (all->count > 0) qsort(all->names, all->count, sizeof *all->names, by_name);
    for (uint32_t i = 0; i < all->count; i++)
        if (kept == 0 || !ot_str_equal(all->names[i], all->names[kept - 1])) all->names[kept++] = all->names[i];
    all->count = kept;
}

/* False: there are too many. */
static bool add_name(struct names *all, struct ot_str name)
{
    if (all->count == NAMES_MAX * 2) unique(all);
    if (all->count > 0 && ot_str_equal(all->names[all->count - 1], name)) return true;
    if (all->count >= NAMES_MAX * 2) return false;
    all->names[all->count++] = name;
    return true;
}

/* Topics that members subscribe to, or that the group has offsets of; each once. */
static bool topics_of(struct rest_group *job, struct names *all)
{
    bool good = true;
    for (uint32_t i = 0; i < job->view.member_count; i++) {
        const struct ot_str *topics = NULL;
        const uint32_t count = rest_group_subscribed(job, &job->view.members[i], &topics);
        for (uint32_t t = 0; t < count && good; t++) good = add_name(all, topics[t]);
    }
    for (uint32_t i = 0; i < job->part_count && good; i++) good = add_name(all, job->parts[i].topic);
    unique(all);
    return good;
}

static void write_rows(struct rest_json *out, const char *name, const struct owner_rows *all, bool owned)
{
    rest_json_open(out, name, '[');
    for (uint32_t i = 0; i < all->count; i++) {
        const struct owner_row *row = &all->rows[i];
        if (row->member.null == owned || (!owned && i > 0 && same_place(row, row - 1))) continue;
        rest_json_open(out, NULL, '{');
        rest_json_str(out, "topic", row->topic);
        rest_json_int(out, "partition", row->partition);
        if (owned) rest_json_str(out, "member_id", row->member);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
}

static void owners_fetched(struct rest_group *job)
{
    struct rest_call *call = job->call;
    struct owner_rows all = { .arena = &call->arena };
    struct names topics = { .names = ot_arena_array(&call->arena, NAMES_MAX * 2, sizeof(struct ot_str)) };
    all.full = topics.names == NULL || !topics_of(job, &topics);
    for (uint32_t i = 0; i < job->view.member_count; i++) {
        all.member = job->view.members[i].member_id;
        rest_group_given(job, &job->view.members[i], note_owner, &all);
    }
    all.member = (struct ot_str){ .null = true };
    const struct broker_view *view = broker_view_take(call->broker);
    for (uint32_t i = 0; i < topics.count; i++) note_topic(&all, view, topics.names[i]);
    broker_view_give(view);
    if (all.full) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the answer");
        return;
    }
    if (all.count > 0) qsort(all.rows, all.count, sizeof *all.rows, by_place);
    rest_json_open(&call->out, NULL, '{');
    rest_json_str(&call->out, "group", job->view.id);
    rest_json_int(&call->out, "generation", job->view.generation);
    write_rows(&call->out, "owners", &all, true);
    write_rows(&call->out, "unowned", &all, false);
    rest_json_close(&call->out, '}');
    rest_reply_json(call, 200);
}

static void owners_viewed(struct rest_group *job) { rest_group_fetch(job, rest_param(job->call, 0), owners_fetched); }

void rest_group_owners(struct rest_call *call)
{
    struct rest_group *job = rest_group_new(call);
    if (job != NULL) rest_group_ask(job, GROUP_ASK_VIEW, owners_viewed);
}
