/* One line of the misc vectors of client-side assignors (client-range, client-roundrobin, client-cooperative-sticky): they run in clients, the server carries their data.
 * A classic group with the subscriptions and the assignment of the vector becomes a consumer group and classic again: each member must have what it had. */
#ifndef OT_TESTS_CARRY_VECTORS_H
#define OT_TESTS_CARRY_VECTORS_H

#include "base/wire/consumer_protocol_assignment.h"
#include "base/wire/consumer_protocol_subscription.h"
#include "coordinator/consumer_group.h"
#include "misc_vectors.h"

enum { CARRY_TOPICS_MAX = 32, CARRY_MEMBERS_MAX = 32 };
struct carry {
    struct misc_line line;
    struct coord_cg_topic topics[CARRY_TOPICS_MAX];
    uint32_t topic_count;
    struct coord_cg_classic_member members[CARRY_MEMBERS_MAX];
    struct coord_cg_protocol protocols[CARRY_MEMBERS_MAX];
    struct coord_cg_classic classic;
    struct ot_arena arena;
    struct coord_cg_config config;
    struct coord_cg_topics source;
};

static bool carry_by_name(void *arg, struct ot_str name, struct coord_cg_topic *out)
{
    const struct carry *c = arg;
    for (uint32_t i = 0; i < c->topic_count; i++) {
        *out = c->topics[i];
        if (ot_str_equal(name, c->topics[i].name)) return true;
    }
    return false;
}

static bool carry_by_id(void *arg, const struct ot_uuid *id, struct coord_cg_topic *out)
{
    const struct carry *c = arg;
    for (uint32_t i = 0; i < c->topic_count; i++) {
        *out = c->topics[i];
        if (ot_uuid_equal(id, &c->topics[i].id)) return true;
    }
    return false;
}

static bool carry_next(void *arg, struct ot_str after, struct coord_cg_topic *out)
{
    (void)arg, (void)after, (void)out;
    return false;
}

static bool carry_subscription(struct carry *c, json_t *member, struct ot_blob *out)
{
    struct ot_consumer_protocol_subscription value;
    json_t *topics = json_object_get(member, "topics");
    uint8_t *data = ot_arena_alloc(&c->arena, 8192);
    struct ot_writer w = ot_writer_over(data, 8192);
    ot_consumer_protocol_subscription_defaults(&value);
    value.topics.items = ot_arena_array(&c->arena, json_array_size(topics), sizeof(struct ot_str));
    for (size_t i = 0; i < json_array_size(topics); i++) value.topics.items[value.topics.count++] = ot_str_of(json_string_value(json_array_get(topics, i)));
    ot_write_u16(&w, 3);
    if (ot_consumer_protocol_subscription_encode(&value, 3, &w) != OT_OK) return false;
    *out = (struct ot_blob){data, (uint32_t)w.needed, false};
    return true;
}

static bool carry_assignment(struct carry *c, json_t *parts, struct ot_blob *out)
{
    struct ot_consumer_protocol_assignment value;
    struct ot_consumer_protocol_assignment_topic_partition *list = ot_arena_array(&c->arena, json_object_size(parts), sizeof(*list));
    uint8_t *data = ot_arena_alloc(&c->arena, 32768);
    struct ot_writer w = ot_writer_over(data, 32768);
    const char *name;
    json_t *numbers;
    ot_consumer_protocol_assignment_defaults(&value);
    value.assigned_partitions.items = list;
    json_object_foreach(parts, name, numbers)
    {
        struct ot_consumer_protocol_assignment_topic_partition *topic = &list[value.assigned_partitions.count++];
        topic->topic = ot_str_of(name);
        topic->partitions.items = ot_arena_array(&c->arena, json_array_size(numbers), sizeof(int32_t));
        for (size_t i = 0; i < json_array_size(numbers); i++)
            topic->partitions.items[topic->partitions.count++] = (int32_t)json_integer_value(json_array_get(numbers, i));
    }
    ot_write_u16(&w, 1);
    if (ot_consumer_protocol_assignment_encode(&value, 1, &w) != OT_OK) return false;
    *out = (struct ot_blob){data, (uint32_t)w.needed, false};
    return true;
}

static bool carry_read(struct carry *c)
{
    const char *name;
    json_t *count, *member, *assignment = json_object_get(c->line.json, "assignment");
    size_t i;
    json_object_foreach(json_object_get(c->line.json, "topics"), name, count)
    {
        if (c->topic_count == CARRY_TOPICS_MAX) return false;
        c->topics[c->topic_count] = (struct coord_cg_topic){{{(uint8_t)(c->topic_count + 1)}}, ot_str_of(name), (int32_t)json_integer_value(count), 0};
        c->topic_count++;
    }
    c->classic = (struct coord_cg_classic){.generation_id = 7, .protocol_name = misc_str(&c->line, "assignor"), .members = c->members};
    json_array_foreach(json_object_get(c->line.json, "members"), i, member)
    {
        const char *id = json_string_value(json_object_get(member, "id"));
        if (i == CARRY_MEMBERS_MAX || id == NULL) return false;
        struct coord_cg_classic_member *m = &c->members[c->classic.member_count++];
        *m = (struct coord_cg_classic_member){ot_str_of(id), ot_str_of(NULL), ot_str_of("c"), ot_str_of("h"), 1000, 1000, &c->protocols[i], 1, {NULL, 0, false}};
        c->protocols[i].name = c->classic.protocol_name;
        if (!carry_subscription(c, member, &c->protocols[i].metadata) || !carry_assignment(c, json_object_get(assignment, id), &m->assignment)) return false;
    }
    return c->classic.member_count > 0;
}

/* Every partition of the vector, and no other. */
static bool carry_same(const struct carry *c, const struct coord_cg_member_view *view)
{
    json_t *parts = NULL, *numbers;
    const char *id, *name;
    json_t *each;
    uint32_t found = 0, wanted = 0;
    json_object_foreach(json_object_get(c->line.json, "assignment"), id, each)
    {
        if (ot_str_equal(view->member_id, ot_str_of(id))) parts = each;
    }
    json_object_foreach(parts, name, numbers)
    {
        struct coord_cg_topic topic;
        if (!carry_by_name((void *)(uintptr_t)c, ot_str_of(name), &topic)) return false;
        for (size_t i = 0; i < json_array_size(numbers); i++, wanted++)
            for (uint32_t k = 0; k < view->assigned->count; k++)
                found += ot_uuid_equal(&view->assigned->items[k].topic_id, &topic.id) &&
                         view->assigned->items[k].partition == json_integer_value(json_array_get(numbers, i));
    }
    return found == wanted && wanted == view->assigned->count && view->target->count == wanted;
}

static bool carry_through(struct carry *c, struct coord_cg *cg)
{
    static const enum coord_assignor assignors[] = {COORD_ASSIGN_UNIFORM};
    struct coord_cg_member_view view;
    c->config = (struct coord_cg_config){.session_timeout_ms = 1000, .size_max = 1000, .classic_size_max = 1000, .assignors = assignors, .assignor_count = 1,
        .record_bytes_max = 1 << 24, .migration = COORD_CG_UPGRADE | COORD_CG_DOWNGRADE};
    c->source = (struct coord_cg_topics){c, 1, 1, carry_by_name, carry_by_id, carry_next};
    struct coord_cg_call call = {.config = &c->config, .topics = &c->source, .arena = &c->arena};
    if (coord_cg_from_classic(cg, &call, &c->classic) != OT_OK) return misc_differs(&c->line, "not taken over: %s", call.text);
    for (uint32_t at = 0; coord_cg_next_member(cg, &at, &view);) {
        struct ot_blob subscription, assignment;
        if (!carry_same(c, &view)) return misc_differs(&c->line, "%.*s has something else", (int)view.member_id.bytes, view.member_id.data);
        if (coord_cg_member_blobs(cg, &call, view.member_id, &subscription, &assignment) != OT_OK) return misc_differs(&c->line, "no blobs");
        if (assignment.bytes < 2 || subscription.bytes < 2) return misc_differs(&c->line, "empty blobs");
    }
    return coord_cg_member_count(cg) == c->classic.member_count || misc_differs(&c->line, "members were lost");
}

static bool carry_vector_check(json_t *json, char *why, size_t why_bytes)
{
    struct carry *c = calloc(1, sizeof(*c));
    struct coord_cg *cg = NULL;
    bool right = c != NULL && coord_cg_new(ot_str_of("g"), NULL, &cg) == OT_OK;
    if (c == NULL) return false;
    c->line = (struct misc_line){json, why, why_bytes};
    ot_arena_init(&c->arena, 64 << 20);
    if (right && !carry_read(c)) right = misc_differs(&c->line, "an odd line");
    right = right && carry_through(c, cg);
    coord_cg_free(cg);
    ot_arena_free(&c->arena);
    free(c);
    return right;
}

#endif
