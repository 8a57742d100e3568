/* Topics: create, delete, grow. Names and configs were checked by who asks; what needs the state is decided here. */
#include "coordinator/state.h"
#include <string.h>

#define REFUSE(turn, error, ...) coord_refuse((turn)->request, OT_ERR_##error, __VA_ARGS__)

struct plan { int32_t first, end, replication_factor, min_isr, leader_epoch; uint32_t start, order_count, away_count; };

static const struct coord_topic_ask *ask_of(const struct coord_turn *turn) { return &turn->request->u.topic; }

/* ---- replicas of new partitions */

static enum ot_err check_assignment(struct coord_turn *turn, uint32_t at, int32_t first, int32_t replication_factor)
{
    const struct coord_assignment *one = &ask_of(turn)->assignments[at];
    bool any_live = false;
    if (one->partition != first + (int32_t)at) {
        return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "partitions must be assigned in order from %d; found %d in place %u", first, one->partition, at);
    }
    if (one->broker_count < 1 || one->broker_count > COORD_REPLICAS_MAX) {
        return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "partition %d has %d replicas; 1 to %d are possible", one->partition, one->broker_count, COORD_REPLICAS_MAX);
    }
    if (one->broker_count != replication_factor) {
        return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "partition %d has %d replicas, the others have %d", one->partition, one->broker_count, replication_factor);
    }
    for (int32_t i = 0; i < one->broker_count; i++) {
        for (int32_t j = 0; j < i; j++) {
            if (one->brokers[i] == one->brokers[j]) {
                return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "partition %d has broker %d twice", one->partition, one->brokers[i]);
            }
        }
        if (coord_live_find(&turn->coord->live, one->brokers[i]) == NULL) {
            return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "partition %d has broker %d, but no such broker is registered", one->partition, one->brokers[i]);
        }
        any_live |= coord_live_may_lead(&turn->coord->live, one->brokers[i]);
    }
    return any_live ? OT_OK : REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "no broker of partition %d is live", one->partition);
}

static enum ot_err plan_replicas(struct coord_turn *turn, struct plan *plan, int32_t replication_factor)
{
    const struct coord_topic_ask *ask = ask_of(turn);
    plan->replication_factor = ask->assignment_count > 0 ? ask->assignments[0].broker_count : replication_factor;
    for (uint32_t i = 0; i < ask->assignment_count; i++) {
        enum ot_err err = check_assignment(turn, i, plan->first, plan->replication_factor);
        if (err != OT_OK) {
            return err;
        }
    }
    if (ask->assignment_count > 0) {
        return OT_OK;
    }
    plan->order_count = coord_place_order(&turn->coord->live, turn->coord->order);
    plan->away_count = coord_place_away(&turn->coord->live, turn->coord->order + plan->order_count);
    const uint32_t most = plan->order_count + plan->away_count;
    if (plan->order_count == 0) {
        return REFUSE(turn, INVALID_REPLICATION_FACTOR, "no broker that may lead is live");
    }
    if (plan->replication_factor < 1 || (uint32_t)plan->replication_factor > most) {
        return REFUSE(turn, INVALID_REPLICATION_FACTOR, "replication factor %d cannot be reached: %u broker%s registered", plan->replication_factor, most, most == 1 ? " is" : "s are");
    }
    if (plan->replication_factor > COORD_REPLICAS_MAX) {
        return REFUSE(turn, INVALID_REPLICATION_FACTOR, "replication factor %d is above %d, the most there can be", plan->replication_factor, COORD_REPLICAS_MAX);
    }
    return OT_OK;
}

bool coord_memory_is_short(const struct coord *coord)
{
    const uint64_t cap_bytes = coord_pages_cap_bytes(coord->pages);
    return coord_pages_used_bytes(coord->pages) > cap_bytes - cap_bytes / 8;
}

static enum ot_err check_total(struct coord_turn *turn, const struct ot_coord_cluster_row *cluster, int32_t more)
{
    int64_t most = turn->coord->config.partitions_max;
    if (coord_memory_is_short(turn->coord)) {
        return REFUSE(turn, POLICY_VIOLATION, "the memory for metadata is used up: delete topics, or raise ottla.partitions.max");
    }
    if (cluster->partition_count + more <= most) {
        return OT_OK;
    }
    return REFUSE(turn, POLICY_VIOLATION, "%d partitions more would make %lld; at most %lld are allowed (ottla.partitions.max)", more,
        (long long)(cluster->partition_count + more), (long long)most);
}

static enum ot_err put_partitions(struct coord_turn *turn, const struct ot_uuid *id, const struct plan *plan)
{
    const struct coord_topic_ask *ask = ask_of(turn);
    const struct coord *coord = turn->coord;
    for (int32_t index = plan->first; index < plan->end; index++) {
        int32_t placed[COORD_REPLICAS_MAX];
        const int32_t *replicas = placed;
        if (ask->assignment_count > 0) {
            replicas = ask->assignments[index - plan->first].brokers;
        } else if (!coord_place(&coord->live, coord->order, plan->order_count, plan->away_count, plan->replication_factor, plan->start, index, placed)) {
            return REFUSE(turn, INVALID_REPLICATION_FACTOR, "replication factor %d cannot be reached", plan->replication_factor);
        }
        struct coord_partition row;
        coord_partition_found(&row, replicas, plan->replication_factor, plan->min_isr, plan->leader_epoch, &coord->live);
        enum ot_err err = coord_partition_put(&turn->edit, id, index, &row);
        if (err != OT_OK) {
            return err;
        }
    }
    return OT_OK;
}

static enum ot_err count_more(struct coord_turn *turn, int32_t topics, int32_t partitions)
{
    struct ot_coord_cluster_row cluster;
    enum ot_err err = coord_cluster_get(turn->edit.value, &cluster);
    cluster.topic_count += topics;
    cluster.partition_count += partitions;
    return err == OT_OK ? coord_cluster_put(&turn->edit, &cluster) : err;
}

/* ---- create */

static enum ot_err check_name(struct coord_turn *turn, struct ot_coord_topic_name_row *name_out)
{
    const struct coord_topic_ask *ask = ask_of(turn);
    struct ot_str holder;
    enum ot_err err = coord_topic_name_get(turn->edit.value, ask->name, name_out);
    if (err == OT_OK && !ot_uuid_is_zero(&name_out->topic_id)) {
        turn->request->topic_id = name_out->topic_id;
        return REFUSE(turn, TOPIC_ALREADY_EXISTS, "Topic '%.*s' already exists.", (int)OT_MIN(ask->name.bytes, 150u), ask->name.data);
    }
    if (err == OT_ERR_NOT_FOUND) {
        ot_coord_topic_name_row_defaults(name_out);
    } else if (err != OT_OK) {
        return err;
    }
    err = coord_folded_name_get(turn->edit.value, ask->name, &holder);
    if (err == OT_OK) {
        return REFUSE(turn, INVALID_TOPIC_EXCEPTION, "Topic '%.*s' collides with existing topic: %.*s", (int)OT_MIN(ask->name.bytes, 70u), ask->name.data,
            (int)OT_MIN(holder.bytes, 70u), holder.data);
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static bool id_is_taken(const struct coord_value *value, const struct ot_uuid *id)
{
    struct ot_coord_topic_row row;
    bool reserved = ot_load_u64(id->bytes) < 16;           /* Kafka keeps the lowest numbers for itself */
    bool odd = id->bytes[0] >= 0xf8;                       /* would print with '-' or '_' in front */
    return reserved || odd || coord_topic_get(value, id, &row) == OT_OK;
}

static struct ot_uuid new_id(struct coord *coord)
{
    struct ot_uuid id;
    do {
        ot_store_u64(id.bytes, ot_rng_next(&coord->rng));
        ot_store_u64(id.bytes + 8, ot_rng_next(&coord->rng));
        id.bytes[6] = (uint8_t)((id.bytes[6] & 0x0f) | 0x40);
        id.bytes[8] = (uint8_t)((id.bytes[8] & 0x3f) | 0x80);
    } while (id_is_taken(&coord->next, &id));
    return id;
}

static enum ot_err put_configs(struct coord_turn *turn, const struct ot_uuid *id)
{
    const struct coord_topic_ask *ask = ask_of(turn);
    struct coord_scope scope = { .kind = COORD_SCOPE_TOPIC, .topic_id = *id };
    for (uint32_t i = 0; i < ask->config_count; i++) {
        const struct coord_config_change *one = &ask->configs[i];
        if (one->name.bytes > COORD_CONFIG_NAME_BYTES_MAX || one->value.bytes > COORD_CONFIG_VALUE_BYTES_MAX) {
            return REFUSE(turn, INVALID_CONFIG, "a value may have %d bytes at most, %u were given", COORD_CONFIG_VALUE_BYTES_MAX, one->value.bytes);
        }
        enum ot_err err = one->value.null ? OT_OK : coord_config_put(&turn->edit, &scope, one->name, one->value);
        if (err != OT_OK) {
            return err;
        }
    }
    return OT_OK;
}

static enum ot_err put_topic(struct coord_turn *turn, const struct ot_uuid *id, struct ot_coord_topic_name_row *name, int32_t partition_count)
{
    const struct coord_topic_ask *ask = ask_of(turn);
    struct ot_coord_topic_row topic;
    ot_coord_topic_row_defaults(&topic);
    topic.name = ask->name;
    topic.partition_count = partition_count;
    topic.internal = ask->internal;
    topic.created_ms = ask->created_ms;
    topic.version = turn->version;
    name->topic_id = *id;
    enum ot_err err = coord_topic_put(&turn->edit, id, &topic);
    if (err == OT_OK && (err = coord_topic_name_put(&turn->edit, ask->name, name)) == OT_OK) {
        err = coord_folded_name_put(&turn->edit, ask->name);
    }
    return err;
}

/* A name that was held before leaves the list of former names. */
static enum ot_err take_former_name(struct coord_turn *turn, bool was_former)
{
    struct ot_coord_cluster_row cluster;
    enum ot_err err = was_former ? coord_cluster_get(turn->edit.value, &cluster) : OT_OK;
    if (!was_former || err != OT_OK) {
        return err;
    }
    cluster.former_name_count--;
    return coord_cluster_put(&turn->edit, &cluster);
}

enum ot_err coord_ask_create_topic(struct coord_turn *turn)
{
    const struct coord_topic_ask *ask = ask_of(turn);
    struct ot_coord_topic_name_row name;
    struct ot_coord_cluster_row cluster;
    struct plan plan = { 0 };
    enum ot_err err = check_name(turn, &name);
    if (err != OT_OK || (err = coord_cluster_get(turn->edit.value, &cluster)) != OT_OK) {
        return err;
    }
    plan.end = ask->assignment_count > 0 ? (int32_t)ask->assignment_count : ask->partition_count;
    if (plan.end < 1) {
        return REFUSE(turn, INVALID_PARTITIONS, "a topic has at least one partition, %d were asked for", plan.end);
    }
    int32_t usual = (int32_t)OT_MIN(3u, coord_live_count(&turn->coord->live));
    if ((err = check_total(turn, &cluster, plan.end)) != OT_OK
        || (err = plan_replicas(turn, &plan, ask->replication_factor == -1 ? OT_MAX(usual, 1) : ask->replication_factor)) != OT_OK) {
        return err;
    }
    struct ot_uuid id = new_id(turn->coord);
    plan.start = (uint32_t)ot_rng_below(&turn->coord->rng, 1u << 20);
    bool was_former = name.leader_epoch_floor >= 0;
    plan.leader_epoch = OT_MAX(name.leader_epoch_floor, cluster.leader_epoch_floor) + 1;
    if ((err = put_topic(turn, &id, &name, plan.end)) != OT_OK || (err = put_configs(turn, &id)) != OT_OK) {
        return err;
    }
    plan.min_isr = coord_min_isr(turn->coord, turn->edit.value, &id);
    if ((err = put_partitions(turn, &id, &plan)) != OT_OK || (err = take_former_name(turn, was_former)) != OT_OK) {
        return err;
    }
    turn->request->topic_id = id;
    turn->request->partition_count = plan.end;
    turn->request->replication_factor = plan.replication_factor;
    return count_more(turn, 1, plan.end);
}

/* ---- find one */

static enum ot_err find_topic(struct coord_turn *turn, struct ot_uuid *id_out, struct ot_coord_topic_row *topic_out)
{
    const struct coord_topic_ask *ask = ask_of(turn);
    struct ot_coord_topic_name_row name;
    *id_out = ask->topic_id;
    if (!ask->name.null) {
        *id_out = (struct ot_uuid){ { 0 } };
        if (coord_topic_name_get(turn->edit.value, ask->name, &name) == OT_OK) {
            *id_out = name.topic_id;
        }
    }
    enum ot_err err = coord_topic_get(turn->edit.value, id_out, topic_out);
    if (err == OT_ERR_NOT_FOUND) {
        return ask->name.null ? REFUSE(turn, UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
            : REFUSE(turn, UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.");
    }
    if (err == OT_OK && turn->request->if_version != -1 && turn->request->if_version != topic_out->version) {
        return REFUSE(turn, MISMATCH, "it was changed meanwhile: its version is %lld, not %lld", (long long)topic_out->version,
            (long long)turn->request->if_version);
    }
    return err;
}

/* ---- delete */

static enum ot_err remove_rows(struct coord_turn *turn, const struct ot_uuid *id, int32_t partition_count, int32_t *leader_epoch_out)
{
    struct coord_scope scope = { .kind = COORD_SCOPE_TOPIC, .topic_id = *id };
    struct coord_partition row;
    struct ot_str name, text;
    enum ot_err err = OT_OK;
    *leader_epoch_out = 0;
    for (int32_t index = 0; err == OT_OK && index < partition_count; index++) {
        if ((err = coord_partition_get(turn->edit.value, id, index, &row)) == OT_OK) {
            *leader_epoch_out = OT_MAX(*leader_epoch_out, row.leader_epoch);
            err = coord_partition_remove(&turn->edit, id, index);
        }
    }
    while (err == OT_OK && (err = coord_config_next(turn->edit.value, &scope, (struct ot_str){ 0 }, &name, &text)) == OT_OK) {
        err = coord_config_remove(&turn->edit, &scope, name);
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

/* Too many former names: what they remember becomes one floor for all. */
static enum ot_err fold_former_names(struct coord_turn *turn, struct ot_coord_cluster_row *cluster)
{
    struct coord_value before = coord_value_share(turn->edit.value);
    struct ot_coord_topic_name_row row;
    struct ot_str name = { 0 };
    enum ot_err err;
    while ((err = coord_topic_name_next(&before, name, &name, &row)) == OT_OK) {
        if (ot_uuid_is_zero(&row.topic_id)) {
            cluster->leader_epoch_floor = OT_MAX(cluster->leader_epoch_floor, row.leader_epoch_floor);
            if ((err = coord_topic_name_remove(&turn->edit, name)) != OT_OK) {
                break;
            }
        }
    }
    cluster->former_name_count = 0;
    coord_value_drop(&before);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static enum ot_err note_deleted(struct coord_turn *turn, const struct ot_uuid *id, struct ot_str name, int32_t leader_epoch)
{
    struct ot_coord_topic_name_row row;
    struct ot_coord_cluster_row cluster;
    struct coord_deleted_topic deleted = { turn->version, *id, name }, oldest;
    enum ot_err err = coord_cluster_get(turn->edit.value, &cluster);
    if (err == OT_OK) {
        cluster.cluster_id = turn->coord->config.cluster_id;   /* the same text, but it stays put while the rows move */
        ot_coord_topic_name_row_defaults(&row);
        row.leader_epoch_floor = leader_epoch;
        err = coord_topic_name_put(&turn->edit, name, &row);
    }
    if (err == OT_OK && ++cluster.former_name_count > COORD_FORMER_NAMES_MAX) {
        err = fold_former_names(turn, &cluster);
    }
    if (err == OT_OK && (err = coord_deleted_put(&turn->edit, &deleted)) == OT_OK && ++cluster.deleted_topic_count > COORD_DELETED_MAX
        && (err = coord_deleted_next(turn->edit.value, NULL, &oldest)) == OT_OK) {
        cluster.deleted_topic_count--;         /* its files are long gone */
        err = coord_deleted_remove(&turn->edit, &oldest);
    }
    return err == OT_OK ? coord_cluster_put(&turn->edit, &cluster) : err;
}

enum ot_err coord_ask_delete_topic(struct coord_turn *turn)
{
    struct ot_uuid id;
    struct ot_coord_topic_row topic;
    char text[COORD_NAME_BYTES_MAX + 1];
    int32_t leader_epoch;
    enum ot_err err = find_topic(turn, &id, &topic);
    if (err != OT_OK) {
        return err;
    }
    OT_ASSERT(topic.name.bytes < sizeof text);
    memcpy(text, topic.name.data, topic.name.bytes);       /* the row goes, and its text with it */
    struct ot_str name = { text, topic.name.bytes, false };
    turn->request->topic_id = id;
    if ((err = remove_rows(turn, &id, topic.partition_count, &leader_epoch)) != OT_OK || (err = coord_topic_remove(&turn->edit, &id)) != OT_OK
        || (err = coord_folded_name_remove(&turn->edit, name)) != OT_OK || (err = note_deleted(turn, &id, name, leader_epoch)) != OT_OK) {
        return err;
    }
    return count_more(turn, -1, -topic.partition_count);
}

/* ---- grow */

enum ot_err coord_ask_create_partitions(struct coord_turn *turn)
{
    const struct coord_topic_ask *ask = ask_of(turn);
    struct ot_uuid id;
    struct ot_coord_topic_row topic;
    struct ot_coord_topic_name_row name;
    struct ot_coord_cluster_row cluster;
    struct coord_partition first;
    enum ot_err err = find_topic(turn, &id, &topic);
    if (err != OT_OK) {
        return err;
    }
    struct plan plan = { .first = topic.partition_count, .end = ask->partition_count };
    if (plan.end == plan.first) {
        return REFUSE(turn, INVALID_PARTITIONS, "Topic already has %d partition(s).", plan.first);
    }
    if (plan.end < plan.first) {
        return REFUSE(turn, INVALID_PARTITIONS, "The topic %.*s currently has %d partition(s); %d would not be an increase.", (int)OT_MIN(topic.name.bytes, 100u), topic.name.data,
            plan.first, plan.end);
    }
    if (ask->assignment_count > 0 && ask->assignment_count != (uint32_t)(plan.end - plan.first)) {
        return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "Attempted to add %d additional partition(s), but %u assignment(s) were given.", plan.end - plan.first,
            ask->assignment_count);
    }
    if ((err = coord_partition_get(turn->edit.value, &id, 0, &first)) != OT_OK || (err = coord_cluster_get(turn->edit.value, &cluster)) != OT_OK
        || (err = coord_topic_name_get(turn->edit.value, topic.name, &name)) != OT_OK || (err = check_total(turn, &cluster, plan.end - plan.first)) != OT_OK
        || (err = plan_replicas(turn, &plan, first.replica_count)) != OT_OK) {
        return err;
    }
    if (ask->assignment_count > 0 && plan.replication_factor != first.replica_count) {
        return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "the topic has %d replicas per partition, the assignment %d", first.replica_count, plan.replication_factor);
    }
    for (uint32_t i = 0; i < plan.order_count; i++) {      /* go on in the round that the topic began */
        plan.start = turn->coord->live.brokers[turn->coord->order[i]].id == first.replicas[0] ? i : plan.start;
    }
    plan.leader_epoch = OT_MAX(name.leader_epoch_floor, cluster.leader_epoch_floor) + 1;
    plan.min_isr = coord_min_isr(turn->coord, turn->edit.value, &id);
    topic.partition_count = plan.end;
    topic.version = turn->version;
    turn->request->topic_id = id;
    turn->request->partition_count = plan.end;
    turn->request->replication_factor = plan.replication_factor;
    if ((err = coord_topic_put(&turn->edit, &id, &topic)) != OT_OK || (err = put_partitions(turn, &id, &plan)) != OT_OK) {
        return err;
    }
    return count_more(turn, 0, plan.end - plan.first);
}
