/* consumers/{g}/ids/{member}, consumers/{g}/owners/{t}/{p}, consumers/{g}/offsets/{t}/{p}: what consumers once kept in ZooKeeper, asked of the groups' coordinators. */
#include "rest/registry.h"
#include "base/util.h"
#include "rest/hop.h"
#include <stdlib.h>
#include <string.h>

/* ---- the groups */

static int by_text(const void *a, const void *b)
{
    const struct ot_str *one = a, *two = b;
    const int bytes = memcmp(one->data, two->data, OT_MIN(one->bytes, two->bytes));
    return bytes != 0 ? bytes : (one->bytes > two->bytes) - (one->bytes < two->bytes);
}

static void drop_repeats(struct rest_registry *node)
{
    uint32_t kept = 0;
    if (node->child_count > 0) qsort(node->children, node->child_count, sizeof(*node->children), by_text);
    for (uint32_t i = 0; i < node->child_count; i++)
        if (kept == 0 || !ot_str_equal(node->children[i], node->children[kept - 1])) node->children[kept++] = node->children[i];
    node->child_count = kept;
}

static void listed(struct broker_call *broker_call)
{
    struct rest_registry *node = OT_CONTAINER(broker_call, struct rest_registry, lists.call);
    for (uint32_t i = 0; i < node->lists.count; i++) {
        const struct group_list *list = node->lists.items[i].ask.response;
        const enum ot_err err = broker_group_error(&node->lists.items[i]);
        if (err != OT_OK && err != OT_ERR_NOT_COORDINATOR) {
            rest_json_free(&node->data);
            rest_problem(node->call, err, "%s", ot_err_text(err));
            return;
        }
        for (uint32_t k = 0; err == OT_OK && k < list->count; k++) rest_registry_child(node, list->rows[k].id);
    }
    node->found = true;
    rest_registry_done(node);
}

/* Those of all brokers; what one does not tell is not shown. */
static void told(struct rest_gather *all)
{
    struct rest_registry *node = all->arg;
    for (uint32_t i = 0; i < all->count; i++) {
        const json_t *items = json_object_get(rest_gathered_of(all, all->brokers[i].broker), "items");
        for (size_t k = 0; k < json_array_size(items); k++) {
            const struct ot_str name = rest_json_string(json_object_get(json_array_get(items, k), "group"));
            const char *copy = ot_arena_str(&node->call->arena, name);         /* the node may be looked at again, when all this is gone */
            if (copy != NULL) rest_registry_child(node, (struct ot_str){ copy, name.bytes, false });
        }
    }
    node->found = true;
    drop_repeats(node);
    rest_registry_done(node);
}

static void list_groups(struct rest_registry *node)
{
    if (rest_gather_wanted(node->call)) {
        rest_gather(node->call, "/v1/groups?limit=100000&fields=group", node, told);
        return;
    }
    const enum ot_err err = broker_group_lists(node->call->broker, &node->call->arena, &node->lists);
    node->lists.call = (struct broker_call){ .home = node->call->home, .done = listed };
    if (err == OT_OK) {
        broker_group_all(node->call->broker, &node->lists);
        return;
    }
    node->found = err == OT_ERR_NOT_FOUND;     /* no offsets topic: no groups */
    node->too_many = !node->found;
    rest_registry_done(node);
}

/* ---- members */

static void member_node(struct rest_registry *node, const struct group_view_member *member)
{
    struct rest_json *out = &node->data;
    const struct ot_str *topics = NULL;
    const uint32_t count = rest_group_subscribed(node->group, member, &topics);
    node->found = node->ephemeral = true;
    node->version = member->epoch >= 0 ? member->epoch : node->group->view.generation;
    snprintf(node->owner, sizeof(node->owner), "%.*s", (int)OT_MIN(member->member_id.bytes, 299u), member->member_id.data);
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "version", 1);
    rest_json_str(out, "client_id", member->client_id);
    rest_json_str(out, "host", member->client_host);
    rest_json_str(out, "instance_id", member->instance_id);
    rest_json_open(out, "subscription", '[');
    for (uint32_t i = 0; i < count; i++) rest_json_str(out, NULL, topics[i]);
    rest_json_close(out, ']');
    rest_json_close(out, '}');
}

static void ids(struct rest_registry *node)
{
    const struct group_view *view = &node->group->view;
    node->found = node->depth == 3;
    for (uint32_t i = 0; i < view->member_count && node->depth <= 4; i++) {
        if (node->depth == 3) rest_registry_child(node, view->members[i].member_id);
        else if (ot_str_equal(view->members[i].member_id, node->path[3])) member_node(node, &view->members[i]);
    }
}

/* ---- places: topics, their partitions, and what each holds */

/* True: it is the place that was asked for. Above it the name of what lies below becomes a child. */
static bool place(struct rest_registry *node, struct ot_str topic, int32_t partition)
{
    int64_t asked;
    if (node->depth == 3) {
        rest_registry_child(node, topic);
        return false;
    }
    if (!ot_str_equal(topic, node->path[3])) return false;
    if (node->depth == 4) rest_registry_child_int(node, partition);
    node->found |= node->depth == 4;
    return node->depth == 5 && rest_registry_number(node->path[4], &asked) && asked == partition;
}

struct owning { struct rest_registry *node; const struct group_view_member *member; };

static void owned(void *arg, struct ot_str topic, int32_t partition)
{
    const struct owning *owning = arg;
    struct rest_registry *node = owning->node;
    if (!place(node, topic, partition) || node->data.bytes > 0) return;
    node->found = node->ephemeral = true;
    node->version = node->group->view.generation;
    snprintf(node->owner, sizeof(node->owner), "%.*s", (int)OT_MIN(owning->member->member_id.bytes, 299u), owning->member->member_id.data);
    rest_json_str(&node->data, NULL, owning->member->member_id);
}

static void owners(struct rest_registry *node)
{
    const struct group_view *view = &node->group->view;
    node->found = node->depth == 3;
    for (uint32_t i = 0; i < view->member_count && node->depth <= 5; i++) {
        struct owning owning = { node, &view->members[i] };
        rest_group_given(node->group, &view->members[i], owned, &owning);
    }
    drop_repeats(node);
}

static void fetched(struct rest_group *group)
{
    struct rest_registry *node = group->own;
    node->found = node->depth == 3;
    for (uint32_t i = 0; i < group->part_count && node->depth <= 5; i++) {
        const struct group_part *part = &group->parts[i];
        if (!place(node, part->topic, part->partition)) continue;
        node->found = true;
        node->version = (int64_t)(ot_hash64(&part->offset, sizeof(part->offset), (uint64_t)part->commit_ms) >> 33) + 1;
        rest_json_big(&node->data, NULL, part->offset);
    }
    drop_repeats(node);
    rest_registry_done(node);
}

/* ---- one group */

static void viewed(struct rest_group *group)
{
    struct rest_registry *node = group->own;
    if (group->view.id.data == NULL) {         /* there is no such group: a watch may wait for it */
        rest_registry_done(node);
        return;
    }
    if (node->depth == 2) {
        static const char *const names[] = { "ids", "offsets", "owners" };
        for (size_t i = 0; i < OT_ARRAY_COUNT(names); i++) rest_registry_child_text(node, names[i]);
        node->version = group->view.generation;
        node->found = true;
    } else if (rest_registry_is(node, 2, "ids")) {
        ids(node);
    } else if (rest_registry_is(node, 2, "owners")) {
        owners(node);
    } else if (rest_registry_is(node, 2, "offsets")) {
        rest_group_fetch(group, node->path[1], fetched);
        return;
    }
    rest_registry_done(node);
}

void rest_registry_consumers(struct rest_registry *node)
{
    if (node->depth == 1) {
        list_groups(node);
        return;
    }
    node->group = rest_group_new(node->call);
    if (node->group == NULL) return;           /* answered */
    node->group->own = node;
    node->group->absent_is_fine = true;
    node->group->group = node->path[1];
    rest_group_view(node->group, node->path[1], viewed);
}
