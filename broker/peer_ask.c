#include "broker/peer_ask.h"

#include "base/util.h"
#include <string.h>

enum { DIRS_MAX = 64, ENDPOINTS_MAX = 16, HOST_BYTES_MAX = 255, RELEASE_BYTES_MAX = 64 };

typedef struct ot_peer_ask_request wire_ask;

/* An array of the arena; count 0 is fine with none. */
#define ARRAY(arena, to, n) do { \
    (to).count = (int32_t)(n); \
    (to).items = ot_arena_array(arena, OT_MAX((size_t)(n), (size_t)1), sizeof *(to).items); \
    if ((to).items == NULL) return OT_ERR_NO_MEMORY; \
} while (0)
#define ONE(arena, to) do { if (((to) = ot_arena_array(arena, 1, sizeof *(to))) == NULL) return OT_ERR_NO_MEMORY; } while (0)

static struct ot_str or_empty(struct ot_str text) { return text.null || text.data == NULL ? ot_str_of("") : text; }
static struct ot_str or_null(struct ot_str text) { return text.data == NULL ? (struct ot_str){ .null = true } : text; }

/* ---- writing what is asked */

static enum ot_err register_out(const struct coord_register *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_register *to;
    ONE(arena, to);
    out->register_ = to;
    to->broker_id = from->broker_id;
    to->incarnation_id = from->incarnation_id;
    to->boot_class = (int8_t)from->boot_class;
    to->rack = or_null(from->rack);
    const struct coord_levels levels = from->levels.max == 0 ? coord_levels_known() : from->levels;
    to->level_min = levels.min;
    to->level_max = levels.max;
    to->release = or_null(from->release);
    to->stopped_epoch = from->stopped_epoch;
    ARRAY(arena, to->dir_ids, from->dir_count);
    if (from->dir_count > 0) memcpy(to->dir_ids.items, from->dir_ids, from->dir_count * sizeof *from->dir_ids);
    ARRAY(arena, to->endpoints, from->endpoint_count);
    for (uint32_t i = 0; i < from->endpoint_count; i++) {
        const struct coord_endpoint *one = &from->endpoints[i];
        to->endpoints.items[i].name = or_empty(one->name);
        to->endpoints.items[i].host = or_null(one->host);
        to->endpoints.items[i].port = one->port;
        to->endpoints.items[i].security = or_empty(one->security);
    }
    return OT_OK;
}

static enum ot_err heartbeat_out(const struct coord_heartbeat *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_heartbeat *to;
    ONE(arena, to);
    out->heartbeat = to;
    to->broker_id = from->broker_id;
    to->broker_epoch = from->broker_epoch;
    to->applied_version = from->applied_version;
    to->want_fence = from->want_fence;
    to->want_shutdown = from->want_shutdown;
    return OT_OK;
}

static enum ot_err topic_out(const struct coord_topic_ask *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_topic *to;
    ONE(arena, to);
    out->topic = to;
    to->name = or_null(from->name);
    to->topic_id = from->topic_id;
    to->partition_count = from->partition_count;
    to->replication_factor = from->replication_factor;
    to->internal = from->internal;
    to->created_ms = from->created_ms;
    ARRAY(arena, to->assignments, from->assignment_count);
    for (uint32_t i = 0; i < from->assignment_count; i++) {
        to->assignments.items[i].partition = from->assignments[i].partition;
        to->assignments.items[i].brokers = (struct ot_i32_array){ (int32_t *)(uintptr_t)from->assignments[i].brokers, from->assignments[i].broker_count };
    }
    ARRAY(arena, to->configs, from->config_count);
    for (uint32_t i = 0; i < from->config_count; i++) {
        to->configs.items[i].name = or_empty(from->configs[i].name);
        to->configs.items[i].value = or_null(from->configs[i].value);
    }
    return OT_OK;
}

static enum ot_err configs_out(const struct coord_configs_ask *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_configs *to;
    ONE(arena, to);
    out->configs = to;
    to->scope_kind = (int8_t)from->scope.kind;
    to->broker_id = from->scope.broker_id;
    to->topic_id = from->scope.topic_id;
    to->scope = or_empty(from->scope.name);
    to->topic = or_null(from->topic);
    to->replace_all = from->replace_all;
    ARRAY(arena, to->changes, from->change_count);
    for (uint32_t i = 0; i < from->change_count; i++) {
        to->changes.items[i].name = or_empty(from->changes[i].name);
        to->changes.items[i].value = or_null(from->changes[i].value);
    }
    return OT_OK;
}

static enum ot_err producer_ids_out(const struct coord_producer_ids_ask *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_producer_ids *to;
    ONE(arena, to);
    out->producer_ids = to;
    to->count = from->count;
    return OT_OK;
}

static enum ot_err durable_out(const struct coord_durable_ask *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_durable *to;
    ONE(arena, to);
    if (from->count == 0) return OT_ERR_MALFORMED;
    out->durable = to;
    to->broker_id = from->broker_id;
    to->broker_epoch = from->broker_epoch;
    to->topic_id = from->items[0].topic_id;
    to->partition = from->items[0].partition;
    to->leader_epoch = from->items[0].leader_epoch;
    to->partition_epoch = from->items[0].partition_epoch;
    to->durable_class = (int8_t)from->items[0].class_;
    ARRAY(arena, to->more, from->count - 1);
    for (uint32_t i = 1; i < from->count; i++) {
        const struct coord_report *one = &from->items[i];
        to->more.items[i - 1] = (struct ot_peer_ask_request_report){ .topic_id = one->topic_id, .partition = one->partition, .leader_epoch = one->leader_epoch,
            .partition_epoch = one->partition_epoch, .durable_class = (int8_t)one->class_ };
    }
    return OT_OK;
}

static enum ot_err voters_out(const struct coord_voters_ask *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_voters *to;
    ONE(arena, to);
    out->voters = to;
    to->add = from->add;
    to->remove = from->remove;
    to->id = from->id;
    to->dir_id = from->dir_id;
    to->host = or_empty(from->host);
    to->port = from->port;
    to->remove_id = from->remove_id;
    return OT_OK;
}

static enum ot_err alter_out(const struct coord_alter_ask *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_alter *to;
    ONE(arena, to);
    out->alter = to;
    to->broker_id = from->broker_id;
    to->broker_epoch = from->broker_epoch;
    to->term = from->term;
    to->sequence = from->sequence;
    ARRAY(arena, to->items, from->count);
    for (uint32_t i = 0; i < from->count; i++) {
        const struct coord_alter *one = &from->items[i];
        struct ot_peer_ask_request_item *item = &to->items.items[i];
        item->topic_id = one->topic_id;
        item->partition = one->partition;
        item->leader_epoch = one->leader_epoch;
        item->partition_epoch = one->partition_epoch;
        item->handover = (int8_t)one->handover;
        ARRAY(arena, item->members, one->member_count);
        for (uint32_t k = 0; k < one->member_count; k++) {
            item->members.items[k].broker_id = one->members[k].broker_id;
            item->members.items[k].broker_epoch = one->members[k].broker_epoch;
        }
    }
    return OT_OK;
}

static enum ot_err prefer_out(const struct coord_prefer_ask *from, struct ot_arena *arena, wire_ask *out)
{
    ARRAY(arena, out->prefer, from->count);
    for (uint32_t i = 0; i < from->count; i++) {
        out->prefer.items[i].topic_id = from->items[i].topic_id;
        out->prefer.items[i].partition = from->items[i].partition;
    }
    return OT_OK;
}

static enum ot_err lost_out(const struct coord_lost_ask *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_lost *to;
    ONE(arena, to);
    out->lost = to;
    to->broker_id = from->broker_id;
    to->broker_epoch = from->broker_epoch;
    ARRAY(arena, to->replicas, from->count);
    for (uint32_t i = 0; i < from->count; i++) {
        to->replicas.items[i].topic_id = from->items[i].topic_id;
        to->replicas.items[i].partition = from->items[i].partition;
        to->replicas.items[i].partition_epoch = from->items[i].partition_epoch;
    }
    return OT_OK;
}

static enum ot_err elect_out(const struct coord_elect_ask *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_elect *to;
    ONE(arena, to);
    out->elect = to;
    to->topic_id = from->topic_id;
    to->partition = from->partition;
    to->candidate = from->candidate;
    to->partition_epoch = from->partition_epoch;
    to->loss = (int8_t)from->loss;
    to->loss_from = from->loss_from;
    ARRAY(arena, to->answers, from->answer_count);
    for (uint32_t i = 0; i < from->answer_count; i++) {
        to->answers.items[i].broker_id = from->answers[i].broker_id;
        to->answers.items[i].broker_epoch = from->answers[i].broker_epoch;
    }
    return OT_OK;
}

static enum ot_err reassign_out(const struct coord_reassign_ask *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_reassign *to;
    ONE(arena, to);
    out->reassign = to;
    to->topic_id = from->topic_id;
    to->partition = from->partition;
    to->target = (struct ot_i32_array){ (int32_t *)(uintptr_t)from->target, from->target == NULL ? -1 : from->count };
    return OT_OK;
}

static enum ot_err broker_out(int32_t broker_id, int64_t broker_epoch, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_broker *to;
    ONE(arena, to);
    out->broker = to;
    to->broker_id = broker_id;
    to->broker_epoch = broker_epoch;
    return OT_OK;
}

static enum ot_err level_out(const struct coord_level_ask *from, struct ot_arena *arena, wire_ask *out)
{
    struct ot_peer_ask_request_level *to;
    ONE(arena, to);
    out->level = to;
    to->level = from->level;
    return OT_OK;
}

enum ot_err broker_peer_ask_write(const struct coord_request *request, struct ot_arena *arena, struct ot_peer_ask_request *out)
{
    ot_peer_ask_request_defaults(out);
    out->ask = (int8_t)request->ask;
    out->validate_only = request->validate_only;
    out->if_version = request->if_version;
    switch (request->ask) {
    case COORD_ASK_REGISTER: return register_out(&request->u.register_, arena, out);
    case COORD_ASK_HEARTBEAT: return heartbeat_out(&request->u.heartbeat, arena, out);
    case COORD_ASK_CREATE_TOPIC:
    case COORD_ASK_DELETE_TOPIC:
    case COORD_ASK_CREATE_PARTITIONS: return topic_out(&request->u.topic, arena, out);
    case COORD_ASK_CONFIGS: return configs_out(&request->u.configs, arena, out);
    case COORD_ASK_PRODUCER_IDS: return producer_ids_out(&request->u.producer_ids, arena, out);
    case COORD_ASK_DURABLE: return durable_out(&request->u.durable, arena, out);
    case COORD_ASK_VOTERS: return voters_out(&request->u.voters, arena, out);
    case COORD_ASK_READ: return OT_OK;
    case COORD_ASK_ALTER: return alter_out(&request->u.alter, arena, out);
    case COORD_ASK_ELECT: return elect_out(&request->u.elect, arena, out);
    case COORD_ASK_REASSIGN: return reassign_out(&request->u.reassign, arena, out);
    case COORD_ASK_FENCE: return broker_out(request->u.fence.broker_id, request->u.fence.broker_epoch, arena, out);
    case COORD_ASK_UNREGISTER: return broker_out(request->u.unregister.broker_id, -1, arena, out);
    case COORD_ASK_RESIGN: return request->u.resign.node_id < 0 ? OT_OK : broker_out(request->u.resign.node_id, -1, arena, out);      /* older builds do not look at it */
    case COORD_ASK_LOST: return lost_out(&request->u.lost, arena, out);
    case COORD_ASK_PREFER: return prefer_out(&request->u.prefer, arena, out);
    case COORD_ASK_LEVEL: return level_out(&request->u.level, arena, out);
    }
    return OT_ERR_MALFORMED;
}

/* ---- reading what is asked: nothing of it is believed */

static enum ot_err register_in(const struct ot_peer_ask_request_register *from, int32_t sender, struct ot_arena *arena, struct coord_register *to)
{
    if (from == NULL || from->broker_id != sender || from->boot_class < COORD_BOOT_CLEAN || from->boot_class > COORD_BOOT_MACHINE_CRASH || from->dir_ids.count > DIRS_MAX
        || from->endpoints.count > ENDPOINTS_MAX) return OT_ERR_MALFORMED;
    struct coord_endpoint *endpoints = ot_arena_array(arena, (size_t)OT_MAX(from->endpoints.count, 1), sizeof *endpoints);
    if (endpoints == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < from->endpoints.count; i++) {
        const struct ot_peer_ask_request_endpoint *one = &from->endpoints.items[i];
        if (one->port < 0 || one->port > 65535 || one->name.bytes > HOST_BYTES_MAX || one->security.bytes > HOST_BYTES_MAX || (!one->host.null && one->host.bytes > HOST_BYTES_MAX))
            return OT_ERR_MALFORMED;
        endpoints[i] = (struct coord_endpoint){ one->name, one->host, one->port, one->security };
    }
    if ((!from->rack.null && from->rack.bytes > HOST_BYTES_MAX) || (!from->release.null && from->release.bytes > RELEASE_BYTES_MAX) || from->level_max < COORD_LEVEL_FIRST) return OT_ERR_MALFORMED;
    *to = (struct coord_register){ .broker_id = from->broker_id, .incarnation_id = from->incarnation_id, .dir_ids = from->dir_ids.items, .dir_count = (uint32_t)from->dir_ids.count,
        .boot_class = (enum coord_boot)from->boot_class, .endpoints = endpoints, .endpoint_count = (uint32_t)from->endpoints.count, .rack = from->rack,
        .levels = { from->level_min, from->level_max }, .release = from->release, .stopped_epoch = from->stopped_epoch };
    return OT_OK;
}

static enum ot_err heartbeat_in(const struct ot_peer_ask_request_heartbeat *from, int32_t sender, struct coord_heartbeat *to)
{
    if (from == NULL || from->broker_id != sender) return OT_ERR_MALFORMED;
    *to = (struct coord_heartbeat){ from->broker_id, from->broker_epoch, from->applied_version, from->want_fence, from->want_shutdown };
    return OT_OK;
}

static enum ot_err topic_in(const struct ot_peer_ask_request_topic *from, struct ot_arena *arena, struct coord_topic_ask *to)
{
    if (from == NULL || (!from->name.null && (from->name.bytes == 0 || from->name.bytes > COORD_NAME_BYTES_MAX))) return OT_ERR_MALFORMED;
    struct coord_assignment *assignments = ot_arena_array(arena, (size_t)OT_MAX(from->assignments.count, 1), sizeof *assignments);
    struct coord_config_change *configs = ot_arena_array(arena, (size_t)OT_MAX(from->configs.count, 1), sizeof *configs);
    if (assignments == NULL || configs == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < from->assignments.count; i++)
        assignments[i] = (struct coord_assignment){ from->assignments.items[i].partition, from->assignments.items[i].brokers.items, from->assignments.items[i].brokers.count };
    for (int32_t i = 0; i < from->configs.count; i++) configs[i] = (struct coord_config_change){ from->configs.items[i].name, from->configs.items[i].value };
    *to = (struct coord_topic_ask){ .name = from->name, .topic_id = from->topic_id, .partition_count = from->partition_count, .replication_factor = from->replication_factor,
        .assignments = assignments, .assignment_count = (uint32_t)from->assignments.count, .configs = configs, .config_count = (uint32_t)from->configs.count,
        .internal = from->internal, .created_ms = from->created_ms };
    return OT_OK;
}

static enum ot_err configs_in(const struct ot_peer_ask_request_configs *from, struct ot_arena *arena, struct coord_configs_ask *to)
{
    if (from == NULL || from->scope_kind < COORD_SCOPE_CLUSTER || from->scope_kind > COORD_SCOPE_CLIENT_METRICS || from->scope.bytes > COORD_SCOPE_NAME_BYTES_MAX
        || (!from->topic.null && from->topic.bytes > COORD_NAME_BYTES_MAX)) return OT_ERR_MALFORMED;
    struct coord_config_change *changes = ot_arena_array(arena, (size_t)OT_MAX(from->changes.count, 1), sizeof *changes);
    if (changes == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < from->changes.count; i++) changes[i] = (struct coord_config_change){ from->changes.items[i].name, from->changes.items[i].value };
    *to = (struct coord_configs_ask){ .scope = { .broker_id = from->broker_id, .topic_id = from->topic_id, .name = from->scope }, .topic = from->topic, .changes = changes,
        .change_count = (uint32_t)from->changes.count, .replace_all = from->replace_all };
    to->scope.kind = (__typeof__(to->scope.kind))from->scope_kind;
    return OT_OK;
}

static bool is_class(int8_t class_) { return class_ >= COORD_DURABLE_NONE && class_ <= COORD_DURABLE_ALL; }

static enum ot_err durable_in(const struct ot_peer_ask_request_durable *from, int32_t sender, struct ot_arena *arena, struct coord_durable_ask *to)
{
    if (from == NULL || from->broker_id != sender || !is_class(from->durable_class)) return OT_ERR_MALFORMED;
    struct coord_report *items = ot_arena_array(arena, (size_t)from->more.count + 1, sizeof *items);
    if (items == NULL) return OT_ERR_NO_MEMORY;
    items[0] = (struct coord_report){ from->topic_id, from->partition, from->leader_epoch, from->partition_epoch, (enum coord_durable)from->durable_class, OT_OK };
    for (int32_t i = 0; i < from->more.count; i++) {
        const struct ot_peer_ask_request_report *one = &from->more.items[i];
        if (!is_class(one->durable_class)) return OT_ERR_MALFORMED;
        items[i + 1] = (struct coord_report){ one->topic_id, one->partition, one->leader_epoch, one->partition_epoch, (enum coord_durable)one->durable_class, OT_OK };
    }
    *to = (struct coord_durable_ask){ from->broker_id, from->broker_epoch, items, (uint32_t)from->more.count + 1 };
    return OT_OK;
}

static enum ot_err voters_in(const struct ot_peer_ask_request_voters *from, struct coord_voters_ask *to)
{
    if (from == NULL || (from->add && (from->id < 0 || from->host.bytes == 0 || from->host.bytes > HOST_BYTES_MAX || from->port < 1 || from->port > 65535))) return OT_ERR_MALFORMED;
    *to = (struct coord_voters_ask){ .add = from->add, .remove = from->remove, .id = from->id, .dir_id = from->dir_id, .host = from->host, .port = from->port,
        .remove_id = from->remove_id };
    return OT_OK;
}

static enum ot_err alter_in(const struct ot_peer_ask_request_alter *from, int32_t sender, struct ot_arena *arena, struct coord_alter_ask *to)
{
    if (from == NULL || from->broker_id != sender) return OT_ERR_MALFORMED;
    struct coord_alter *items = ot_arena_array(arena, (size_t)OT_MAX(from->items.count, 1), sizeof *items);
    if (items == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < from->items.count; i++) {
        const struct ot_peer_ask_request_item *one = &from->items.items[i];
        if (one->members.count > COORD_REPLICAS_MAX || one->handover < COORD_STAYS || one->handover > COORD_GIVES_UP) return OT_ERR_MALFORMED;
        struct coord_member *members = ot_arena_array(arena, (size_t)OT_MAX(one->members.count, 1), sizeof *members);
        if (members == NULL) return OT_ERR_NO_MEMORY;
        for (int32_t k = 0; k < one->members.count; k++) members[k] = (struct coord_member){ one->members.items[k].broker_id, one->members.items[k].broker_epoch };
        items[i] = (struct coord_alter){ one->topic_id, one->partition, one->leader_epoch, one->partition_epoch, members, (uint32_t)one->members.count,
            (enum coord_handover)one->handover, OT_OK };
    }
    *to = (struct coord_alter_ask){ from->broker_id, from->broker_epoch, from->term, from->sequence, items, (uint32_t)from->items.count };
    return OT_OK;
}

static enum ot_err lost_in(const struct ot_peer_ask_request_lost *from, int32_t sender, struct ot_arena *arena, struct coord_lost_ask *to)
{
    if (from == NULL || from->broker_id != sender) return OT_ERR_MALFORMED;
    struct coord_lost *items = ot_arena_array(arena, (size_t)OT_MAX(from->replicas.count, 1), sizeof *items);
    if (items == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < from->replicas.count; i++)
        items[i] = (struct coord_lost){ from->replicas.items[i].topic_id, from->replicas.items[i].partition, from->replicas.items[i].partition_epoch, OT_OK };
    *to = (struct coord_lost_ask){ from->broker_id, from->broker_epoch, items, (uint32_t)from->replicas.count };
    return OT_OK;
}

static enum ot_err prefer_in(const struct ot_peer_ask_request_preferred_array *from, struct ot_arena *arena, struct coord_prefer_ask *to)
{
    if (from->count < 1) return OT_ERR_MALFORMED;
    struct coord_prefer *items = ot_arena_array(arena, (size_t)from->count, sizeof *items);
    if (items == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < from->count; i++) items[i] = (struct coord_prefer){ .topic_id = from->items[i].topic_id, .partition = from->items[i].partition, .leader = -1 };
    *to = (struct coord_prefer_ask){ items, (uint32_t)from->count };
    return OT_OK;
}

static enum ot_err elect_in(const struct ot_peer_ask_request_elect *from, struct ot_arena *arena, struct coord_elect_ask *to)
{
    if (from == NULL || from->loss <= COORD_LOSS_NONE || from->loss > COORD_LOSS_OPERATOR || from->answers.count > COORD_REPLICAS_MAX) return OT_ERR_MALFORMED;
    struct coord_member *answers = ot_arena_array(arena, (size_t)OT_MAX(from->answers.count, 1), sizeof *answers);
    if (answers == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < from->answers.count; i++) answers[i] = (struct coord_member){ from->answers.items[i].broker_id, from->answers.items[i].broker_epoch };
    *to = (struct coord_elect_ask){ .topic_id = from->topic_id, .partition = from->partition, .candidate = from->candidate,
        .partition_epoch = from->partition_epoch, .loss = (enum coord_loss)from->loss, .loss_from = from->loss_from, .answers = answers, .answer_count = (uint32_t)from->answers.count };
    return OT_OK;
}

static enum ot_err reassign_in(const struct ot_peer_ask_request_reassign *from, struct coord_reassign_ask *to)
{
    if (from == NULL || from->target.count > COORD_REPLICAS_MAX) return OT_ERR_MALFORMED;
    *to = (struct coord_reassign_ask){ from->topic_id, from->partition, from->target.count < 0 ? NULL : from->target.items, OT_MAX(from->target.count, 0) };
    return from->target.count == 0 ? OT_ERR_MALFORMED : OT_OK;
}

enum ot_err broker_peer_ask_read(const struct ot_peer_ask_request *in, int32_t sender, struct ot_arena *arena, struct coord_request *out)
{
    if (in->ask < COORD_ASK_REGISTER || in->ask > COORD_ASK_LEVEL) return OT_ERR_MALFORMED;
    *out = (struct coord_request){ .ask = (enum coord_ask)in->ask, .validate_only = in->validate_only, .if_version = in->if_version };
    switch (out->ask) {
    case COORD_ASK_REGISTER: return register_in(in->register_, sender, arena, &out->u.register_);
    case COORD_ASK_HEARTBEAT: return heartbeat_in(in->heartbeat, sender, &out->u.heartbeat);
    case COORD_ASK_CREATE_TOPIC:
    case COORD_ASK_DELETE_TOPIC:
    case COORD_ASK_CREATE_PARTITIONS:
        if (in->topic != NULL && out->ask == COORD_ASK_CREATE_TOPIC && in->topic->name.null) return OT_ERR_MALFORMED;
        return topic_in(in->topic, arena, &out->u.topic);
    case COORD_ASK_CONFIGS: return configs_in(in->configs, arena, &out->u.configs);
    case COORD_ASK_PRODUCER_IDS:
        if (in->producer_ids == NULL || in->producer_ids->count < 1) return OT_ERR_MALFORMED;
        out->u.producer_ids.count = in->producer_ids->count;
        return OT_OK;
    case COORD_ASK_DURABLE: return durable_in(in->durable, sender, arena, &out->u.durable);
    case COORD_ASK_VOTERS: return voters_in(in->voters, &out->u.voters);
    case COORD_ASK_READ: return OT_OK;
    case COORD_ASK_ALTER: return alter_in(in->alter, sender, arena, &out->u.alter);
    case COORD_ASK_ELECT:
        return elect_in(in->elect, arena, &out->u.elect);
    case COORD_ASK_REASSIGN: return reassign_in(in->reassign, &out->u.reassign);
    case COORD_ASK_FENCE:
        if (in->broker == NULL) return OT_ERR_MALFORMED;
        out->u.fence = (struct coord_fence_ask){ in->broker->broker_id, in->broker->broker_epoch };
        return OT_OK;
    case COORD_ASK_UNREGISTER:
        if (in->broker == NULL) return OT_ERR_MALFORMED;
        out->u.unregister.broker_id = in->broker->broker_id;
        return OT_OK;
    case COORD_ASK_RESIGN:
        out->u.resign.node_id = in->broker == NULL ? -1 : in->broker->broker_id;
        return OT_OK;
    case COORD_ASK_LOST: return lost_in(in->lost, sender, arena, &out->u.lost);
    case COORD_ASK_PREFER: return prefer_in(&in->prefer, arena, &out->u.prefer);
    case COORD_ASK_LEVEL:
        if (in->level == NULL || in->level->level < COORD_LEVEL_FIRST) return OT_ERR_MALFORMED;
        out->u.level.level = in->level->level;
        return OT_OK;
    }
    return OT_ERR_MALFORMED;
}

/* ---- answers: errors go by name, for those of the house have no number outside */

/* Of a single report there are none, as before there were several: its error is that of the request. */
static uint32_t item_count(const struct coord_request *request)
{
    switch (request->ask) {
    case COORD_ASK_ALTER: return request->u.alter.count;
    case COORD_ASK_PREFER: return request->u.prefer.count;
    case COORD_ASK_DURABLE: return request->u.durable.count > 1 ? request->u.durable.count : 0;
    default: return 0;
    }
}

enum ot_err broker_peer_answer_write(const struct coord_request *request, struct ot_arena *arena, struct ot_peer_ask_response *out)
{
    ot_peer_ask_response_defaults(out);
    out->error = ot_str_of(ot_err_name(request->error));
    out->error_message = ot_str_of(request->text);
    out->topic_id = request->topic_id;
    out->partition_count = request->partition_count;
    out->replication_factor = request->replication_factor;
    out->version = request->version;
    out->producer_id_first = request->producer_id_first;
    out->leader = request->leader;
    out->may_stop = request->may_stop;
    out->fenced = request->fenced;
    out->session_us = (int64_t)request->session_us;
    out->dir_missing = request->dir_missing;
    const uint32_t count = item_count(request);
    if (count == 0) return OT_OK;
    ARRAY(arena, out->items, count);
    for (uint32_t i = 0; i < count; i++) {
        struct ot_peer_ask_response_item *to = &out->items.items[i];
        to->leader = -1;
        if (request->ask == COORD_ASK_PREFER) {
            to->error = ot_str_of(ot_err_name(request->u.prefer.items[i].error));
            to->leader = request->u.prefer.items[i].leader;
            continue;
        }
        if (request->ask == COORD_ASK_DURABLE) {
            to->error = ot_str_of(ot_err_name(request->u.durable.items[i].error));
            continue;
        }
        to->error = ot_str_of(ot_err_name(request->u.alter.items[i].error));
        to->leader_epoch = request->u.alter.items[i].leader_epoch;
        to->partition_epoch = request->u.alter.items[i].partition_epoch;
    }
    return OT_OK;
}

static bool error_in(struct ot_str name, enum ot_err *out)
{
    char text[64];
    if (name.null || name.bytes >= sizeof text) return false;
    memcpy(text, name.data, name.bytes);
    text[name.bytes] = 0;
    if (strcmp(text, ot_err_name(OT_OK)) == 0) {
        *out = OT_OK;
        return true;
    }
    if (!ot_err_by_name(text, out)) *out = OT_ERR_UNKNOWN_SERVER_ERROR;    /* of a newer version */
    return true;
}

/* Of several reports a coordinator of an older build answers for the first. */
static bool first_alone(const struct ot_peer_ask_response *in, const struct coord_request *request)
{
    return request->ask == COORD_ASK_DURABLE && request->u.durable.count > 1 && in->items.count == 0;
}

enum ot_err broker_peer_answer_read(const struct ot_peer_ask_response *in, struct coord_request *request)
{
    enum ot_err error, one;
    if (!error_in(in->error, &error) || (error == OT_OK && in->items.count != (int32_t)item_count(request) && !first_alone(in, request))) return OT_ERR_MALFORMED;
    for (int32_t i = 0; error == OT_OK && i < in->items.count; i++) {
        if (!error_in(in->items.items[i].error, &one)) return OT_ERR_MALFORMED;
    }
    request->error = error;
    const size_t bytes = OT_MIN((size_t)in->error_message.bytes, sizeof request->text - 1);
    if (bytes > 0) memcpy(request->text, in->error_message.data, bytes);
    request->text[bytes] = 0;
    request->topic_id = in->topic_id;
    request->partition_count = in->partition_count;
    request->replication_factor = in->replication_factor;
    request->version = in->version;
    request->producer_id_first = in->producer_id_first;
    request->leader = in->leader;
    request->may_stop = in->may_stop;
    request->fenced = in->fenced;
    request->session_us = (uint64_t)OT_MAX(in->session_us, 0);
    request->dir_missing = in->dir_missing;
    if (error == OT_OK && first_alone(in, request))
        for (uint32_t i = 0; i < request->u.durable.count; i++) request->u.durable.items[i].error = i == 0 ? OT_OK : OT_ERR_UNSUPPORTED_VERSION;
    for (int32_t i = 0; error == OT_OK && i < in->items.count; i++) {
        const struct ot_peer_ask_response_item *from = &in->items.items[i];
        (void)error_in(from->error, &one);
        if (request->ask == COORD_ASK_DURABLE) {
            request->u.durable.items[i].error = one;
            continue;
        }
        if (request->ask == COORD_ASK_PREFER) {
            request->u.prefer.items[i].error = one;
            request->u.prefer.items[i].leader = from->leader;
            continue;
        }
        struct coord_alter *to = &request->u.alter.items[i];
        to->error = one;
        to->leader_epoch = from->leader_epoch;
        to->partition_epoch = from->partition_epoch;
    }
    return OT_OK;
}
