#include "broker/room.h"

#include <stdlib.h>
#include <string.h>

/* ---- taking and giving */

void broker_views_init(struct broker_views *views)
{
    *views = (struct broker_views){ 0 };
    pthread_mutex_init(&views->mutex, NULL);
}

static void view_free(struct broker_view *view)
{
    coord_value_drop(&view->value);
    free(view->brokers);
    free(view);
}

static enum ot_err fill_brokers(struct broker_view *view)
{
    uint8_t room[32768];
    struct ot_coord_broker_row row;
    int32_t id = INT32_MIN;
    for (;;) {
        struct ot_arena arena;
        ot_arena_init_with(&arena, room, sizeof room, 0);
        enum ot_err err = coord_broker_next(&view->value, id, &arena, &id, &row);
        if (err != OT_OK) {
            return err == OT_ERR_NOT_FOUND ? OT_OK : err;
        }
        struct broker_view_live *grown = realloc(view->brokers, (view->broker_count + 1) * sizeof *grown);
        if (grown == NULL) {
            return OT_ERR_NO_MEMORY;
        }
        view->brokers = grown;
        view->brokers[view->broker_count++] = (struct broker_view_live){ id, row.fenced, coord_broker_mark(&view->value, id, COORD_MAINTENANCE),
            coord_broker_mark(&view->value, id, COORD_DECOMMISSION) };
    }
}

/* Retired views that nobody holds, taken out of the list. */
static struct broker_view *take_unheld(struct broker_views *views)
{
    struct broker_view *unheld = NULL;
    for (struct broker_view **at = &views->retired; *at != NULL;) {
        struct broker_view *view = *at;
        if (view->refs > 0) {
            at = &view->next;
            continue;
        }
        *at = view->next;
        view->next = unheld;
        unheld = view;
    }
    return unheld;
}

enum ot_err broker_views_publish(struct broker_views *views, const struct coord_value *value, int32_t controller_id, int32_t term, int32_t this_broker)
{
    struct broker_view *view = calloc(1, sizeof *view);
    if (view == NULL) {
        return OT_ERR_NO_MEMORY;
    }
    *view = (struct broker_view){ .views = views, .value = coord_value_share(value), .controller_id = controller_id, .term = term, .this_broker = this_broker };
    enum ot_err err = fill_brokers(view);
    if (err != OT_OK) {
        view_free(view);
        return err;
    }
    pthread_mutex_lock(&views->mutex);
    if (views->current != NULL) {
        views->current->next = views->retired;
        views->retired = views->current;
    }
    views->current = view;
    struct broker_view *unheld = take_unheld(views);
    pthread_mutex_unlock(&views->mutex);
    while (unheld != NULL) {
        struct broker_view *next = unheld->next;
        view_free(unheld);
        unheld = next;
    }
    return OT_OK;
}

void broker_views_free(struct broker_views *views)
{
    if (views->current != NULL) {
        views->current->next = views->retired;
        views->retired = views->current;
        views->current = NULL;
    }
    while (views->retired != NULL) {
        struct broker_view *view = views->retired;
        OT_ASSERT(view->refs == 0);
        views->retired = view->next;
        view_free(view);
    }
}

const struct broker_view *broker_view_take(struct broker *broker)
{
    struct broker_views *views = &broker->views;
    pthread_mutex_lock(&views->mutex);
    struct broker_view *view = views->current;
    OT_ASSERT(view != NULL);                   /* there is one before broker_open returns */
    view->refs++;
    pthread_mutex_unlock(&views->mutex);
    return view;
}

void broker_view_give(const struct broker_view *view)
{
    struct broker_view *held = (struct broker_view *)(uintptr_t)view;
    if (held == NULL) {
        return;
    }
    struct broker_views *views = held->views;
    pthread_mutex_lock(&views->mutex);
    held->refs--;                              /* its pages go back at the next change: only the coordinator's thread may count pages */
    pthread_mutex_unlock(&views->mutex);
}

/* ---- reading */

void broker_view_cluster(const struct broker_view *view, struct broker_view_cluster *out)
{
    struct ot_coord_cluster_row row;
    enum ot_err err = coord_cluster_get(&view->value, &row);
    OT_ASSERT(err == OT_OK);                   /* rows were checked when they came from the disk, and are ours since */
    *out = (struct broker_view_cluster){ row.cluster_id, view->controller_id, view->term, view->value.stamp.version, view->this_broker, row.feature_level, row.forced_ms };
}

bool broker_view_next_broker(const struct broker_view *view, int32_t after, struct ot_arena *arena, struct broker_view_broker *out)
{
    struct ot_coord_broker_row row;
    int32_t id;
    if (coord_broker_next(&view->value, after, arena, &id, &row) != OT_OK) {
        return false;
    }
    struct broker_view_endpoint *endpoints = ot_arena_array(arena, (size_t)OT_MAX(row.endpoints.count, 1), sizeof *endpoints);
    if (endpoints == NULL) {
        return false;
    }
    for (int32_t i = 0; i < row.endpoints.count; i++) {
        const struct ot_coord_broker_row_endpoint *one = &row.endpoints.items[i];
        endpoints[i] = (struct broker_view_endpoint){ one->name, one->host, one->port, one->security };
    }
    *out = (struct broker_view_broker){ .id = id, .epoch = row.broker_epoch, .fenced = row.fenced, .stopping = row.in_controlled_shutdown, .draining = broker_view_draining(view, id),
        .leaving = broker_view_leaving(view, id), .rack = row.rack, .level_min = row.level_min, .level_max = row.level_max, .release = row.release, .endpoints = endpoints, .endpoint_count = (uint32_t)row.endpoints.count };
    return true;
}

static const struct broker_view_live *live_of(const struct broker_view *view, int32_t id)
{
    for (uint32_t low = 0, high = view->broker_count; low < high;) {
        uint32_t mid = (low + high) / 2;
        if (view->brokers[mid].id == id) {
            return &view->brokers[mid];
        }
        *(view->brokers[mid].id < id ? &low : &high) = mid + (view->brokers[mid].id < id);
    }
    return NULL;
}

bool broker_view_draining(const struct broker_view *view, int32_t id)
{
    const struct broker_view_live *live = live_of(view, id);
    return live != NULL && live->draining;
}

bool broker_view_leaving(const struct broker_view *view, int32_t id)
{
    const struct broker_view_live *live = live_of(view, id);
    return live != NULL && live->leaving;
}

uint32_t broker_view_marked(const struct broker_view *view, bool leaving)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < view->broker_count; i++) count += leaving ? view->brokers[i].leaving : view->brokers[i].draining;
    return count;
}

bool broker_view_voter(const struct broker_view *view, int32_t id, struct broker_view_voter *out)
{
    struct ot_coord_voter_row row;
    if (coord_voter_get(&view->value, id, &row) != OT_OK) {
        return false;
    }
    *out = (struct broker_view_voter){ row.dir_id, row.host, row.port };
    return true;
}

static void fill_topic(const struct ot_uuid *id, const struct ot_coord_topic_row *row, struct broker_view_topic *out)
{
    *out = (struct broker_view_topic){ *id, row->name, row->internal, row->partition_count, row->created_ms, row->version };
}

bool broker_view_topic_by_id(const struct broker_view *view, const struct ot_uuid *id, struct broker_view_topic *out)
{
    struct ot_coord_topic_row row;
    if (coord_topic_get(&view->value, id, &row) != OT_OK) {
        return false;
    }
    fill_topic(id, &row, out);
    return true;
}

bool broker_view_topic(const struct broker_view *view, struct ot_str name, struct broker_view_topic *out)
{
    struct ot_coord_topic_name_row row;
    return !name.null && coord_topic_name_get(&view->value, name, &row) == OT_OK && broker_view_topic_by_id(view, &row.topic_id, out);
}

bool broker_view_next_topic(const struct broker_view *view, struct ot_str after, struct broker_view_topic *out)
{
    struct ot_coord_topic_name_row row;
    struct ot_str name = after;
    while (coord_topic_name_next(&view->value, name, &name, &row) == OT_OK) {
        if (broker_view_topic_by_id(view, &row.topic_id, out)) {       /* not so for names that are free again */
            return true;
        }
    }
    return false;
}

static struct ot_coord_cluster_row cluster_row(const struct broker_view *view)
{
    struct ot_coord_cluster_row row;
    enum ot_err err = coord_cluster_get(&view->value, &row);
    OT_ASSERT(err == OT_OK);
    return row;
}

int64_t broker_view_topic_count(const struct broker_view *view) { return cluster_row(view).topic_count; }
int64_t broker_view_partition_count(const struct broker_view *view) { return cluster_row(view).partition_count; }

static bool is_live(const struct broker_view *view, int32_t id)
{
    const struct broker_view_live *live = live_of(view, id);
    return live != NULL && !live->fenced;
}

static bool ids_of(const struct coord_partition *row, uint64_t set, struct ot_arena *arena, struct broker_view_ids *out)
{
    int32_t *ids = ot_arena_array(arena, (size_t)OT_MAX(__builtin_popcountll(set), 1), sizeof *ids);
    *out = (struct broker_view_ids){ ids, 0 };
    for (int32_t i = 0; ids != NULL && i < row->replica_count; i++) {
        if ((set >> i & 1) != 0) {
            ids[out->count++] = row->replicas[i];
        }
    }
    return ids != NULL;
}

bool broker_view_partition(const struct broker_view *view, const struct ot_uuid *topic_id, int32_t index, struct ot_arena *arena,
    struct broker_view_partition *out)
{
    struct coord_partition row;
    uint64_t offline = 0;
    if (coord_partition_get(&view->value, topic_id, index, &row) != OT_OK) {
        return false;
    }
    for (int32_t i = 0; i < row.replica_count; i++) {
        offline |= is_live(view, row.replicas[i]) ? 0 : UINT64_C(1) << i;
    }
    *out = (struct broker_view_partition){ .index = index, .leader = row.leader, .leader_epoch = row.leader_epoch, .partition_epoch = row.partition_epoch,
        .min_isr = row.min_isr, .successor = row.successor == 0 ? -1 : row.replicas[__builtin_ctzll(row.successor)], .last_leader = row.last_leader,
        .last_leader_epoch = row.last_leader_epoch, .goes_back = coord_move_goes_back(&row) };
    return ids_of(&row, coord_all_replicas(&row), arena, &out->replicas) && ids_of(&row, row.isr, arena, &out->isr) && ids_of(&row, row.elr, arena, &out->elr)
        && ids_of(&row, offline, arena, &out->offline) && ids_of(&row, coord_coming(&row), arena, &out->adding) && ids_of(&row, row.removing, arena, &out->removing);
}

bool broker_view_leader(const struct broker_view *view, struct ot_str topic, int32_t partition, int32_t *leader_out)
{
    struct broker_view_topic row;
    struct coord_partition found;
    if (!broker_view_topic(view, topic, &row) || partition < 0 || partition >= row.partition_count || coord_partition_get(&view->value, &row.id, partition, &found) != OT_OK) return false;
    *leader_out = found.leader;
    return true;
}

static bool next_config(const struct broker_view *view, const struct coord_scope *scope, struct ot_str after, struct broker_view_config *out)
{
    return coord_config_next(&view->value, scope, after, &out->name, &out->value) == OT_OK;
}

bool broker_view_next_topic_config(const struct broker_view *view, const struct ot_uuid *topic_id, struct ot_str after, struct broker_view_config *out)
{
    return next_config(view, &(struct coord_scope){ .kind = COORD_SCOPE_TOPIC, .topic_id = *topic_id }, after, out);
}

bool broker_view_next_broker_config(const struct broker_view *view, int32_t broker_id, struct ot_str after, struct broker_view_config *out)
{
    return next_config(view, &(struct coord_scope){ .kind = broker_id == -1 ? COORD_SCOPE_CLUSTER : COORD_SCOPE_BROKER, .broker_id = OT_MAX(broker_id, 0) },
        after, out);
}

static struct coord_scope named(enum broker_view_named kind, struct ot_str name)
{
    return (struct coord_scope){ .kind = kind == BROKER_VIEW_GROUP ? COORD_SCOPE_GROUP : COORD_SCOPE_CLIENT_METRICS, .name = name };
}

bool broker_view_next_named_config(const struct broker_view *view, enum broker_view_named kind, struct ot_str name, struct ot_str after, struct broker_view_config *out)
{
    const struct coord_scope scope = named(kind, name);
    return name.bytes <= COORD_SCOPE_NAME_BYTES_MAX && next_config(view, &scope, after, out);
}

bool broker_view_next_named(const struct broker_view *view, enum broker_view_named kind, struct ot_str after, struct ot_str *name_out)
{
    for (; coord_config_next_named(&view->value, named(kind, after), name_out) == OT_OK; after = *name_out) {
        struct broker_view_config any;
        if (broker_view_next_named_config(view, kind, *name_out, (struct ot_str){ .null = true }, &any)) return true;
    }
    return false;
}

int64_t broker_view_named_config_version(const struct broker_view *view, enum broker_view_named kind, struct ot_str name)
{
    const struct coord_scope scope = named(kind, name);
    return coord_config_version(&view->value, &scope);
}

int64_t broker_view_broker_config_version(const struct broker_view *view, int32_t broker_id)
{
    return coord_config_version(&view->value,
        &(struct coord_scope){ .kind = broker_id == -1 ? COORD_SCOPE_CLUSTER : COORD_SCOPE_BROKER, .broker_id = OT_MAX(broker_id, 0) });
}

uint32_t broker_view_topic_configs(const struct broker_view *view, const struct ot_uuid *topic_id, struct ot_arena *arena, const char *const **keys_out,
    const char *const **values_out)
{
    enum { MOST = 256 };                       /* there are fewer topic keys than that */
    const char **keys = ot_arena_array(arena, MOST, sizeof(*keys)), **values = ot_arena_array(arena, MOST, sizeof(*values));
    struct broker_view_config row;
    struct ot_str after = { .null = true };
    uint32_t count = 0;
    while (keys != NULL && values != NULL && count < MOST && broker_view_next_topic_config(view, topic_id, after, &row)) {
        keys[count] = ot_arena_str(arena, row.name);
        values[count] = ot_arena_str(arena, row.value);
        if (keys[count] == NULL || values[count] == NULL) break;
        after = row.name;
        count++;
    }
    *keys_out = keys;
    *values_out = values;
    return count;
}
