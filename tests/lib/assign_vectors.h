/* One line of the misc vectors against coordinator/assign.h: kinds assignor-uniform and assignor-range. A range must be the very one. A uniform assignment is
 * right too when every partition has an owner, the loads are as level as those of the vector, and no fewer partitions stay where they were. */
#ifndef OT_TESTS_ASSIGN_VECTORS_H
#define OT_TESTS_ASSIGN_VECTORS_H

#include "coordinator/assign.h"
#include "misc_vectors.h"

enum { ASSIGN_TOPICS_MAX = 64, ASSIGN_MEMBERS_MAX = 64, ASSIGN_PARTITIONS_MAX = 8192 };
struct assign_line {
    struct misc_line line;
    struct coord_assign_in in;
    const char *topic_names[ASSIGN_TOPICS_MAX];
    struct coord_assign_topic topics[ASSIGN_TOPICS_MAX];
    struct coord_assign_member members[ASSIGN_MEMBERS_MAX];
    uint32_t subscribed[ASSIGN_MEMBERS_MAX][ASSIGN_TOPICS_MAX];
    int32_t current[ASSIGN_PARTITIONS_MAX], want[ASSIGN_PARTITIONS_MAX], got[ASSIGN_PARTITIONS_MAX];
};

/* The index of the topic and its first partition; -1 when there is none. */
static int assign_topic(const struct assign_line *a, const char *name, uint32_t *first_out)
{
    *first_out = 0;
    for (uint32_t t = 0; t < a->in.topic_count; t++) {
        if (strcmp(a->topic_names[t], name) == 0) return (int)t;
        *first_out += (uint32_t)a->topics[t].partition_count;
    }
    return -1;
}

static bool assign_read_topics(struct assign_line *a)
{
    const char *name;
    json_t *count;
    json_object_foreach(json_object_get(a->line.json, "topics"), name, count)
    {
        struct coord_assign_topic *topic = &a->topics[a->in.topic_count];
        if (a->in.topic_count == ASSIGN_TOPICS_MAX || !ot_uuid_parse(name, strlen(name), &topic->id)) return false;
        topic->partition_count = (int32_t)json_integer_value(count);
        a->topic_names[a->in.topic_count++] = name;
    }
    a->in.topics = a->topics;
    return coord_assign_partition_count(&a->in) <= ASSIGN_PARTITIONS_MAX;
}

static bool assign_read_parts(struct assign_line *a, json_t *parts, uint32_t member, int32_t *owners)
{
    const char *name;
    json_t *list, *partition;
    size_t i;
    json_object_foreach(parts, name, list)
    {
        uint32_t first;
        const int topic = assign_topic(a, name, &first);
        json_array_foreach(list, i, partition)
        {
            const json_int_t p = json_integer_value(partition);
            if (topic < 0 || p < 0 || p >= a->topics[topic].partition_count) return false;
            owners[first + (uint32_t)p] = (int32_t)member;
        }
    }
    return true;
}

static bool assign_read(struct assign_line *a)
{
    json_t *member, *topic, *assignment = json_object_get(a->line.json, "assignment");
    size_t i, k;
    if (!assign_read_topics(a)) return false;
    memset(a->current, 0xff, sizeof(a->current));
    memset(a->want, 0xff, sizeof(a->want));
    json_array_foreach(json_object_get(a->line.json, "members"), i, member)
    {
        struct coord_assign_member *m = &a->members[i];
        const char *id = json_string_value(json_object_get(member, "id")), *instance = json_string_value(json_object_get(member, "instanceId"));
        bool wanted[ASSIGN_TOPICS_MAX] = {false};
        if (i == ASSIGN_MEMBERS_MAX || id == NULL) return false;
        m->id = ot_str_of(id);
        m->instance_id = ot_str_of(instance);
        json_array_foreach(json_object_get(member, "topics"), k, topic)
        {
            uint32_t first;
            const int at = assign_topic(a, json_string_value(topic), &first);
            if (at < 0) return false;
            wanted[at] = true;
        }
        for (uint32_t t = 0; t < a->in.topic_count; t++)
            if (wanted[t]) a->subscribed[i][m->topic_count++] = t;
        m->topics = a->subscribed[i];
        if (!assign_read_parts(a, json_object_get(member, "current"), (uint32_t)i, a->current)) return false;
        if (!assign_read_parts(a, json_object_get(assignment, id), (uint32_t)i, a->want)) return false;
        a->in.member_count++;
    }
    a->in.members = a->members;
    a->in.current = a->current;
    return a->in.member_count > 0;
}

/* The sum of squares: what is level is small. */
static uint64_t assign_unevenness(const struct assign_line *a, const int32_t *owners)
{
    uint64_t loads[ASSIGN_MEMBERS_MAX] = {0}, sum = 0;
    for (uint32_t p = 0; p < coord_assign_partition_count(&a->in); p++)
        if (owners[p] >= 0) loads[owners[p]]++;
    for (uint32_t i = 0; i < a->in.member_count; i++) sum += loads[i] * loads[i];
    return sum;
}

static bool assign_is_right(struct assign_line *a, bool exactly)
{
    json_int_t kept = 0;
    uint32_t first = 0;
    for (uint32_t t = 0; t < a->in.topic_count; first += (uint32_t)a->topics[t++].partition_count) {
        for (uint32_t p = first; p < first + (uint32_t)a->topics[t].partition_count; p++) {
            const int32_t owner = a->got[p];
            bool may = owner < 0;
            for (uint32_t k = 0; owner >= 0 && k < a->members[owner].topic_count; k++) may = may || a->members[owner].topics[k] == t;
            if (!may) return misc_differs(&a->line, "an owner who did not subscribe");
            if ((owner < 0) != (a->want[p] < 0)) return misc_differs(&a->line, "partition %u of topic %u: owner %d", p - first, t, owner);
            if (exactly && owner != a->want[p]) return misc_differs(&a->line, "topic %u: owner %d, not %d", t, owner, a->want[p]);
            kept += owner >= 0 && owner == a->current[p];
        }
    }
    if (assign_unevenness(a, a->got) > assign_unevenness(a, a->want)) return misc_differs(&a->line, "less level");
    return exactly || kept >= misc_int(&a->line, "kept") || misc_differs(&a->line, "%d kept", (int)kept);
}

static bool assign_vector_check(json_t *json, char *why, size_t why_bytes)
{
    struct assign_line *a = calloc(1, sizeof(*a));
    struct ot_arena arena;
    ot_arena_init(&arena, 1 << 22);
    enum coord_assignor assignor = COORD_ASSIGN_UNIFORM;
    const char *kind = json_string_value(json_object_get(json, "kind"));
    bool right = a != NULL;
    if (right) a->line = (struct misc_line){json, why, why_bytes};
    if (right && !coord_assignor_by_name(ot_str_of(strchr(kind, '-') + 1), &assignor)) right = misc_differs(&a->line, "no such assignor");
    if (right && !assign_read(a)) right = misc_differs(&a->line, "an odd line");
    if (right && coord_assign(assignor, &a->in, &arena, a->got) != OT_OK) right = misc_differs(&a->line, "no memory");
    right = right && assign_is_right(a, assignor == COORD_ASSIGN_RANGE);
    ot_arena_free(&arena);
    free(a);
    return right;
}

#endif
