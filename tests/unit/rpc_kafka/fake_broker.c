#include "fake_broker.h"

#include "broker/moves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_broker fake;
struct fake_pin { struct ot_pin pin; struct fake_pin *next; bool released; };
static struct fake_pin *pins_free;         /* used again, so that a fetch allocates nothing here either */
static pthread_mutex_t pins_mutex = PTHREAD_MUTEX_INITIALIZER;

struct broker *fake_pointer(void) { return (struct broker *)(void *)&fake; }

struct fake_topic *fake_topic(const char *name, int32_t partition_count)
{
    struct fake_topic *topic = &fake.topics[fake.topic_count];
    memset(topic, 0, sizeof *topic);
    (void)snprintf(topic->name, sizeof topic->name, "%s", name);
    memset(topic->id.bytes, (int)fake.topic_count + 1, 16);
    topic->partition_count = partition_count;
    fake.topic_count++;
    return topic;
}

void fake_init(void)
{
    char text[200];
    memset(&fake, 0, sizeof fake);
    pthread_mutex_init(&fake.mutex, NULL);
    fake.file = -1;
    fake.node_id = fake.controller_id = 1;
    fake.leader_elsewhere = fake.aborted = -1;
    if (broker_config_store_new(&fake.config) != OT_OK) abort();
    if (broker_config_set(fake.config, BROKER_SOURCE_FLAG, "test", "ottla.network.threads", "2", text, sizeof text) != OT_OK) abort();
    if (ot_exec_pool_start("fake", 1, &fake.pool) != OT_OK) abort();
    broker_telemetry_init(&fake.telemetry, NULL);
    (void)fake_topic("a", 1);
    (void)fake_topic("b", 3);
    fake_topic("__in", 2)->internal = true;
}

static struct fake_pin *pin_take(void)
{
    pthread_mutex_lock(&pins_mutex);
    struct fake_pin *pin = pins_free;
    if (pin != NULL) pins_free = pin->next;
    pthread_mutex_unlock(&pins_mutex);
    if (pin == NULL) pin = calloc(1, sizeof *pin);
    return pin;
}

void fake_free(void)
{
    fake_groups_free();
    ot_exec_pool_stop(fake.pool);
    while (pins_free != NULL) free(pin_take());
    broker_config_store_free(fake.config);
    fake_transactions_free();
    pthread_mutex_destroy(&fake.mutex);
    broker_telemetry_free(&fake.telemetry);
}

/* ---- broker.h */

const struct broker_config *broker_config(struct broker *broker) { (void)broker; return broker_config_current(fake.config); }
struct broker_config_store *broker_config_store(struct broker *broker) { (void)broker; return fake.config; }
int32_t broker_node_id(const struct broker *broker) { (void)broker; return fake.node_id; }

static struct fake_topic *find(struct ot_str name, const struct ot_uuid *id)
{
    for (uint32_t i = 0; i < fake.topic_count; i++) {
        if (name.null ? ot_uuid_equal(id, &fake.topics[i].id) : ot_str_equal(name, ot_str_of(fake.topics[i].name))) return &fake.topics[i];
    }
    return NULL;
}

static enum ot_err find_error(struct ot_str name, const struct ot_uuid *id, int32_t partition)
{
    const struct fake_topic *topic = find(name, id);
    if (topic == NULL) return name.null ? OT_ERR_UNKNOWN_TOPIC_ID : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    return partition >= 0 && partition < topic->partition_count ? OT_OK : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
}

/* Calls come back through a thread of the pool, so that races show under TSan. */
static void done_here(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

static void back(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->task.run = done_here;
    ot_exec_post(call->home, &call->task);
}

static void answer(struct broker_call *call)
{
    call->task.run = back;
    ot_exec_post(ot_exec_pool_exec(fake.pool), &call->task);
}

/* ---- produce.h */

static void part_answer(struct broker_produce *produce, struct broker_produce_part *part)
{
    part->verdict.record_error_count = 0;
    part->verdict.text[0] = part->text[0] = '\0';
    part->leader_id = part->leader_epoch = -1;
    part->base_offset = part->append_time_ms = part->log_start_offset = -1;
    part->error = find_error(part->topic, &part->topic_id, part->partition);
    if (part->error == OT_OK) part->error = fake.produce_error;
    if (produce->acks < -1 || produce->acks > 1) part->error = OT_ERR_INVALID_REQUIRED_ACKS;
    if (part->error == OT_ERR_INVALID_RECORD) {
        part->verdict.record_error_count = 2;
        part->verdict.record_errors[0] = 3;
        part->verdict.record_errors[1] = 5;
        (void)snprintf(part->text, sizeof part->text, "record 3 has no key");
        (void)snprintf(part->verdict.text, sizeof part->verdict.text, "no key");
    }
    if (part->error == OT_ERR_NOT_LEADER_OR_FOLLOWER) {
        part->leader_id = fake.leader_elsewhere;
        part->leader_epoch = 9;
    }
    if (part->error != OT_OK) return;
    if (part->records_bytes > 0) {
        const int32_t seen = part->records[0];
        if (seen != (fake.order_next & 0xff)) fake.out_of_order++;
        fake.order_next++;
        part->records[0] = 0xee;           /* stamped in place, as the real one does */
    }
    part->base_offset = (int64_t)fake.appended++;
    fake.appended_bytes += part->records_bytes;
    part->append_time_ms = 1234;
    part->log_start_offset = 7;
}

static void queued_here(struct ot_task *task)
{
    struct broker_produce *produce = OT_CONTAINER(task, struct broker_produce, queued_task);
    pthread_mutex_lock(&fake.mutex);
    const bool hold = fake.hold_produce;
    if (hold) fake.held_produce[fake.held_produce_count++] = produce;
    pthread_mutex_unlock(&fake.mutex);
    produce->queued(produce);
    if (!hold) answer(&produce->call);
}

static void queue_late(struct ot_task *task)
{
    struct broker_produce *produce = OT_CONTAINER(task, struct broker_produce, queued_task);
    pthread_mutex_lock(&fake.mutex);
    for (uint32_t i = 0; i < produce->part_count; i++) part_answer(produce, &produce->parts[i]);
    pthread_mutex_unlock(&fake.mutex);
    produce->queued_task.run = queued_here;
    ot_exec_post(produce->call.home, &produce->queued_task);
}

bool broker_produce(struct broker *broker, struct broker_produce *produce)
{
    produce->broker = broker;
    pthread_mutex_lock(&fake.mutex);
    fake.produces++;
    fake.last_produce = *produce;
    const bool late = fake.late_queued, hold = fake.hold_produce;
    if (!late) {
        for (uint32_t i = 0; i < produce->part_count; i++) part_answer(produce, &produce->parts[i]);
        if (hold) fake.held_produce[fake.held_produce_count++] = produce;
    }
    pthread_mutex_unlock(&fake.mutex);
    if (late) {
        produce->queued_task.run = queue_late;
        ot_exec_post(ot_exec_pool_exec(fake.pool), &produce->queued_task);
        return false;
    }
    if (!hold) answer(&produce->call);
    return true;
}

/* ---- fetch.h */

static void pin_release(struct ot_pin *pin)
{
    struct fake_pin *mine = OT_CONTAINER(pin, struct fake_pin, pin);
    if (mine->released) abort();
    mine->released = true;
    atomic_fetch_sub(&fake.pins_out, 1);
    pthread_mutex_lock(&pins_mutex);
    mine->next = pins_free;
    pins_free = mine;
    pthread_mutex_unlock(&pins_mutex);
}

static void row_read(struct broker_fetch_row *row)
{
    struct fake_pin *pin = pin_take();
    if (pin == NULL) {
        row->error = OT_ERR_UNKNOWN_SERVER_ERROR;
        return;
    }
    pin->pin.release = pin_release;
    pin->released = false;
    atomic_fetch_add(&fake.pins_out, 1);
    const uint32_t first = fake.fetch_bytes / 3;       /* over two segments */
    row->read.pin = &pin->pin;
    row->read.bytes = fake.fetch_bytes;
    row->read.spans[0] = (struct ot_span){ .fd = fake.file, .pos = (uint64_t)row->partition * 10, .bytes = first };
    row->read.spans[1] = (struct ot_span){ .fd = fake.file, .pos = (uint64_t)row->partition * 10 + first, .bytes = fake.fetch_bytes - first };
    row->read.span_count = 2;
}

static void fetch_fill(struct broker_fetch *fetch)
{
    fetch->error = fake.fetch_error;
    fetch->session_id_out = fetch->error == OT_OK && fetch->session_epoch >= 0 ? 77 : 0;
    fetch->row_count = 0;
    if (fetch->error != OT_OK) return;
    fetch->rows = ot_arena_array(fetch->arena, fetch->ask_count, sizeof *fetch->rows);
    if (fetch->rows == NULL && fetch->ask_count > 0) {
        fetch->error = OT_ERR_UNKNOWN_SERVER_ERROR;
        return;
    }
    for (uint32_t i = 0; i < fetch->ask_count; i++) {
        const struct broker_fetch_ask *ask = &fetch->asks[i];
        struct broker_fetch_row *row = &fetch->rows[fetch->row_count++];
        *row = (struct broker_fetch_row){ .topic = ask->topic, .topic_id = ask->topic_id, .partition = ask->partition, .high_watermark = -1, .last_stable_offset = -1,
            .log_start_offset = -1, .diverging_epoch = -1, .diverging_end_offset = -1, .leader_id = -1, .leader_epoch = -1, .preferred_replica = -1, .aborted_count = -1,
            .read.first_base_offset = -1 };
        row->error = find_error(ask->topic, &ask->topic_id, ask->partition);
        if (row->error == OT_OK) row->error = fake.row_error;
        if (row->error == OT_ERR_NOT_LEADER_OR_FOLLOWER) {
            row->leader_id = fake.leader_elsewhere;
            row->leader_epoch = 9;
        }
        if (row->error != OT_OK) continue;
        row->high_watermark = row->last_stable_offset = 100 + i;
        row->log_start_offset = 5;
        row->aborted_count = fake.aborted;
        if (fake.aborted > 0) {
            struct eng_aborted *aborted = ot_arena_array(fetch->arena, (size_t)fake.aborted, sizeof *aborted);
            for (int32_t j = 0; j < fake.aborted && aborted != NULL; j++) aborted[j] = (struct eng_aborted){ 1000 + j, 50 + j };
            row->aborted = aborted;
        }
        if (fake.fetch_bytes > 0) row_read(row);
    }
}

void broker_fetch(struct broker *broker, struct broker_fetch *fetch)
{
    fetch->broker = broker;
    pthread_mutex_lock(&fake.mutex);
    fake.fetches++;
    fake.last_fetch = *fetch;
    const bool hold = fake.hold_fetch;
    if (hold) fake.held_fetch[fake.held_fetch_count++] = fetch;
    else fetch_fill(fetch);
    pthread_mutex_unlock(&fake.mutex);
    if (!hold) answer(&fetch->call);
}

void broker_fetch_cancel(struct broker_fetch *fetch)
{
    bool held = false;
    pthread_mutex_lock(&fake.mutex);
    for (uint32_t i = 0; i < fake.held_fetch_count; i++) {
        if (fake.held_fetch[i] != fetch) continue;
        fake.held_fetch[i] = fake.held_fetch[--fake.held_fetch_count];
        held = true;
        fake.cancelled++;
        fetch_fill(fetch);
        break;
    }
    pthread_mutex_unlock(&fake.mutex);
    if (held) answer(&fetch->call);
}

void broker_fetch_release(struct broker_fetch *fetch)
{
    for (uint32_t i = 0; i < fetch->row_count; i++) {
        struct ot_pin *pin = fetch->rows[i].read.pin;
        fetch->rows[i].read.pin = NULL;
        if (pin != NULL) pin->release(pin);
    }
}

void fake_release(void)
{
    pthread_mutex_lock(&fake.mutex);
    while (fake.held_produce_count > 0) answer(&fake.held_produce[--fake.held_produce_count]->call);
    while (fake.held_fetch_count > 0) {
        struct broker_fetch *fetch = fake.held_fetch[--fake.held_fetch_count];
        fetch_fill(fetch);
        answer(&fetch->call);
    }
    pthread_mutex_unlock(&fake.mutex);
}

/* ---- offsets.h, admin.h */

void broker_offsets(struct broker *broker, struct broker_offsets *offsets)
{
    offsets->broker = broker;
    pthread_mutex_lock(&fake.mutex);
    fake.offsets++;
    for (uint32_t i = 0; i < offsets->part_count; i++) {
        struct broker_offsets_part *part = &offsets->parts[i];
        part->error = find_error(part->topic, &part->topic_id, part->partition);
        part->offset = (int64_t)(40 + (uint64_t)part->at);
        part->timestamp_ms = offsets->kind == BROKER_LIST_OFFSETS ? 1700000000000 : -1;
        part->leader_epoch = 4;
    }
    pthread_mutex_unlock(&fake.mutex);
    answer(&offsets->call);
}

static void admin_one(struct broker_admin_item *item)
{
    struct fake_topic *topic = find(item->topic, &item->topic_id);
    item->text[0] = '\0';
    item->error = OT_OK;
    fake.last_item = *item;
    fake.item_count++;
    if (item->kind == BROKER_CREATE_TOPIC) {
        item->error = topic != NULL ? OT_ERR_TOPIC_ALREADY_EXISTS : item->replication_factor > 1 ? OT_ERR_INVALID_REPLICATION_FACTOR
            : broker_topic_name_valid(item->topic, item->text, sizeof item->text) ? OT_OK : OT_ERR_INVALID_TOPIC_EXCEPTION;
        if (item->error == OT_ERR_INVALID_REPLICATION_FACTOR) (void)snprintf(item->text, sizeof item->text, "3 replicas, 1 broker");
        item->partition_count_out = item->partition_count < 0 ? 1 : item->partition_count;
        item->replication_factor_out = 1;
        if (item->error == OT_OK && !item->validate_only && fake.topic_count < FAKE_TOPICS_MAX) {
            char name[256];
            (void)snprintf(name, sizeof name, "%.*s", (int)item->topic.bytes, item->topic.data);
            item->topic_id_out = fake_topic(name, item->partition_count_out)->id;
        }
        return;
    }
    if (item->kind >= BROKER_ALTER_BROKER_CONFIG) return;     /* of no topic */
    if (topic == NULL) {
        item->error = item->topic.null ? OT_ERR_UNKNOWN_TOPIC_ID : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    } else if (item->kind == BROKER_DELETE_TOPIC) {
        *topic = fake.topics[--fake.topic_count];
    } else if (item->kind == BROKER_CREATE_PARTITIONS && item->partition_count <= topic->partition_count) {
        item->error = OT_ERR_INVALID_PARTITIONS;
    } else if (item->kind == BROKER_CREATE_PARTITIONS) {
        topic->partition_count = item->partition_count;
    }
}

void broker_admin(struct broker *broker, struct broker_admin *admin)
{
    admin->broker = broker;
    pthread_mutex_lock(&fake.mutex);
    fake.admins++;
    for (uint32_t i = 0; i < admin->item_count; i++) admin_one(&admin->items[i]);
    pthread_mutex_unlock(&fake.mutex);
    answer(&admin->call);
}

/* Its one broker cannot lead what it does not lead already: as the coordinator says it. */
void broker_moves(struct broker *broker, struct broker_moves *moves)
{
    const struct broker_view *view = broker_view_take(broker);
    uint8_t room[4096];
    struct ot_arena arena;
    ot_arena_init_with(&arena, room, sizeof room, 1 << 20);
    moves->broker = broker;
    for (uint32_t i = 0; i < moves->count; i++) {
        struct broker_move *move = &moves->moves[i];
        if (move->error != OT_OK || move->kind == BROKER_MOVE_REASSIGN) continue;
        move->error = OT_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE;
        if (move->kind == BROKER_MOVE_ELECT_UNCLEAN) continue;
        move->error = broker_elect(view, BROKER_ELECT_PREFERRED, move->topic, move->partition, &arena, move->text);
        if (move->error == OT_OK) move->error = OT_ERR_PREFERRED_LEADER_NOT_AVAILABLE;
    }
    broker_view_give(view);
    ot_arena_free(&arena);
    answer(&moves->call);
}

void broker_producer_id(struct broker *broker, struct broker_producer_id *ask)
{
    ask->broker = broker;
    pthread_mutex_lock(&fake.mutex);
    ask->error = fake.id_error;
    ask->producer_id = ask->error == OT_OK ? (int64_t)(5000 + fake.producer_ids++) : -1;
    ask->producer_epoch = ask->error == OT_OK ? 0 : -1;
    pthread_mutex_unlock(&fake.mutex);
    answer(&ask->call);
}

/* ---- view.h: the state itself, under its lock while it is looked at */

static const struct named_row { enum broker_view_named kind; const char *name, *key, *value; } named_rows[] = {
    { BROKER_VIEW_GROUP, "patient", "consumer.session.timeout.ms", "50000" },
    { BROKER_VIEW_CLIENT_METRICS, "all-of-java", "interval.ms", "60000" },
    { BROKER_VIEW_CLIENT_METRICS, "all-of-java", "match", "client_software_name=.*java, client_source_port=[0-9]+" },
    { BROKER_VIEW_CLIENT_METRICS, "all-of-java", "metrics", "org.apache.kafka.producer., org.apache.kafka.consumer." },
};

bool broker_view_next_named_config(const struct broker_view *view, enum broker_view_named kind, struct ot_str name, struct ot_str after, struct broker_view_config *out)
{
    bool behind = after.null;
    (void)view;
    for (size_t i = 0; i < OT_ARRAY_COUNT(named_rows); i++) {
        if (named_rows[i].kind != kind || !ot_str_equal(name, ot_str_of(named_rows[i].name))) continue;
        *out = (struct broker_view_config){ ot_str_of(named_rows[i].key), ot_str_of(named_rows[i].value) };
        if (behind) return true;
        behind = ot_str_equal(after, out->name);
    }
    return false;
}

bool broker_view_next_named(const struct broker_view *view, enum broker_view_named kind, struct ot_str after, struct ot_str *name_out)
{
    (void)view;
    *name_out = ot_str_of(kind == BROKER_VIEW_GROUP ? "patient" : "all-of-java");
    return after.null;
}

const struct broker_view *broker_view_take(struct broker *broker)
{
    pthread_mutex_lock(&fake.mutex);
    return (const struct broker_view *)(const void *)broker;
}

void broker_view_give(const struct broker_view *view)
{
    (void)view;
    pthread_mutex_unlock(&fake.mutex);
}

void broker_view_cluster(const struct broker_view *view, struct broker_view_cluster *out)
{
    (void)view;
    *out = (struct broker_view_cluster){ .cluster_id = ot_str_of("AAECAwQFBgcICQoLDA0ODw"), .controller_id = fake.controller_id, .version = 42, .this_broker = fake.node_id, .level = 1 };
}

bool broker_view_draining(const struct broker_view *view, int32_t id)
{
    (void)view;
    (void)id;
    return false;
}

bool broker_view_leaving(const struct broker_view *view, int32_t id)
{
    (void)view;
    (void)id;
    return false;
}

bool broker_view_next_broker(const struct broker_view *view, int32_t after, struct ot_arena *arena, struct broker_view_broker *out)
{
    static const struct broker_view_endpoint mine[] = { { { "PLAINTEXT", 9, false }, { "0.0.0.0", 7, false }, 1 } };
    (void)view;
    if (after < fake.node_id && !fake.no_brokers) {
        *out = (struct broker_view_broker){ .id = fake.node_id, .rack = ot_str_of("r1"), .endpoints = mine, .endpoint_count = 1 };
        return true;
    }
    if (after < 2 && fake.other_host != NULL) {
        struct broker_view_endpoint *other = ot_arena_array(arena, 2, sizeof *other);
        if (other == NULL) return false;
        other[0] = (struct broker_view_endpoint){ ot_str_of("PLAINTEXT"), ot_str_of(fake.other_host), 9192 };
        other[1] = (struct broker_view_endpoint){ ot_str_of("GRPC"), ot_str_of(fake.other_host), 9194 };
        *out = (struct broker_view_broker){ .id = 2, .rack.null = true, .endpoints = other, .endpoint_count = 2 };
        return true;
    }
    if (fake.crowd > 0 && after < 99 + fake.crowd) {
        struct broker_view_endpoint *one = ot_arena_array(arena, 8, sizeof *one);
        if (one == NULL) return false;
        one[0] = (struct broker_view_endpoint){ ot_str_of("PLAINTEXT"), ot_str_of("far.example.com"), 9292 };
        *out = (struct broker_view_broker){ .id = OT_MAX(after + 1, 100), .rack.null = true, .endpoints = one, .endpoint_count = 1 };
        return true;
    }
    return false;
}

static bool topic_out(const struct fake_topic *topic, struct broker_view_topic *out)
{
    if (topic == NULL) return false;
    *out = (struct broker_view_topic){ .id = topic->id, .name = ot_str_of(topic->name), .internal = topic->internal, .partition_count = topic->partition_count };
    return true;
}

bool broker_view_topic(const struct broker_view *view, struct ot_str name, struct broker_view_topic *out)
{
    (void)view;
    return !name.null && topic_out(find(name, NULL), out);
}

bool broker_view_topic_by_id(const struct broker_view *view, const struct ot_uuid *id, struct broker_view_topic *out)
{
    (void)view;
    return topic_out(find((struct ot_str){ .null = true }, id), out);
}

bool broker_view_next_topic(const struct broker_view *view, struct ot_str after, struct broker_view_topic *out)
{
    const struct fake_topic *next = NULL;
    (void)view;
    for (uint32_t i = 0; i < fake.topic_count; i++) {
        const char *name = fake.topics[i].name;
        if (!after.null && (strncmp(name, after.data, after.bytes) < 0 || (strncmp(name, after.data, after.bytes) == 0 && strlen(name) <= after.bytes))) continue;
        if (next == NULL || strcmp(name, next->name) < 0) next = &fake.topics[i];
    }
    return topic_out(next, out);
}

uint32_t broker_view_topic_configs(const struct broker_view *view, const struct ot_uuid *topic_id, struct ot_arena *arena, const char *const **keys_out,
    const char *const **values_out)
{
    const struct fake_topic *topic = find((struct ot_str){ .null = true }, topic_id);
    (void)view, (void)arena;
    if (topic == NULL) return 0;
    *keys_out = topic->keys;
    *values_out = topic->values;
    return topic->config_count;
}

int64_t broker_view_topic_count(const struct broker_view *view) { (void)view; return fake.topic_count; }

int64_t broker_view_partition_count(const struct broker_view *view)
{
    int64_t count = 0;
    (void)view;
    for (uint32_t i = 0; i < fake.topic_count; i++) count += fake.topics[i].partition_count;
    return count;
}

bool broker_view_partition(const struct broker_view *view, const struct ot_uuid *topic_id, int32_t index, struct ot_arena *arena, struct broker_view_partition *out)
{
    static const int32_t one[] = { 1 }, both[] = { 7, 1 };
    const struct fake_topic *topic = find((struct ot_str){ .null = true }, topic_id);
    (void)view;
    if (topic == NULL || index < 0 || index >= topic->partition_count || ot_arena_alloc(arena, 256) == NULL) return false;     /* lists of ids, in life */
    *out = (struct broker_view_partition){ .index = index, .leader = index == 2 ? -1 : 1, .leader_epoch = 3, .replicas = { one, 1 }, .isr = { one, 1 } };
    if (!fake.moving) return true;
    out->replicas = (struct broker_view_ids){ both, 2 };
    out->adding = (struct broker_view_ids){ both, 1 };
    out->removing = (struct broker_view_ids){ one, 1 };
    return true;
}

bool broker_view_leader(const struct broker_view *view, struct ot_str topic, int32_t partition, int32_t *leader_out)
{
    const struct fake_topic *found = find(topic, NULL);
    (void)view;
    *leader_out = 1;
    return found != NULL && partition >= 0 && partition < found->partition_count + fake.parts_elsewhere;
}

bool broker_view_voter(const struct broker_view *view, int32_t id, struct broker_view_voter *out)
{
    (void)view;
    *out = (struct broker_view_voter){ .dir_id = { { 8 } }, .host = ot_str_of("127.0.0.1"), .port = 9093 };
    return id == fake.node_id;
}

/* ---- partition.h: topics[i] has its partitions at the address of its bytes */

struct broker_partition *broker_partition_find(struct broker *broker, struct ot_str topic, int32_t partition)
{
    struct fake_topic *found = find(topic, NULL);
    (void)broker;
    return found != NULL && partition >= 0 && partition < found->partition_count ? (struct broker_partition *)(void *)found : NULL;
}

void broker_partition_put(struct broker_partition *partition) { (void)partition; }

void broker_partition_state(struct broker_partition *partition, struct broker_partition_state *out)
{
    const struct fake_topic *topic = (const struct fake_topic *)(const void *)partition;
    *out = (struct broker_partition_state){ .topic = topic->name, .leader = fake.leader_elsewhere < 0, .open = true, .producer_count = 2 };
}

uint32_t broker_partition_producers(struct broker_partition *partition, struct eng_producer_view *out, uint32_t max)
{
    (void)partition;
    for (uint32_t i = 0; i < max && i < 2; i++)
        out[i] = (struct eng_producer_view){ .producer_id = 70 + i, .epoch = 3, .last_sequence = 9, .last_timestamp_ms = 1234, .coordinator_epoch = -1,
            .current_txn_first_offset = i == 0 ? -1 : 55 };
    return 2;
}

/* ---- log_dirs.h, telemetry.h */

void broker_replica_dirs(struct broker *broker, struct broker_replica_dirs *ask)
{
    static struct broker_replica_dir dirs[2] = { { "/d/0", OT_OK, 1000, 400, 0, 3 }, { "/d/1", OT_ERR_KAFKA_STORAGE_ERROR, -1, -1, 0, 0 } };
    static struct broker_dir_replica replicas[3] = { { "a", 0, 0, 10 }, { "b", 0, 0, 20 }, { "b", 2, 0, 30 } };
    ask->broker = broker;
    ask->error = OT_OK;
    ask->dirs = dirs;
    ask->dir_count = 2;
    ask->replicas = replicas;
    ask->replica_count = 3;
    answer(&ask->call);
}

enum ot_err broker_replica_dir_check(struct broker *broker, struct ot_str path, struct ot_str topic, int32_t partition)
{
    (void)broker;
    if (!ot_str_equal(path, ot_str_of("/d/0"))) return OT_ERR_LOG_DIR_NOT_FOUND;
    return find_error(topic, NULL, partition);
}

void broker_telemetry_store(struct broker *broker, struct broker_telemetry_store *ask)
{
    ask->broker = broker;
    ask->error = OT_OK;
    answer(&ask->call);
}

struct broker_telemetry *broker_telemetry(struct broker *broker) { (void)broker; return &fake.telemetry; }

/* ---- shard.h: two internal topics that are always there, of 5 partitions */

static void shard_topic_run(struct ot_task *task)
{
    struct broker_shard_topic *ask = OT_CONTAINER(task, struct broker_shard_topic, call.task);
    ask->call.done(&ask->call);
}

void broker_shard_topic(struct broker *broker, enum broker_shard_kind_id kind, struct broker_shard_topic *ask)
{
    (void)broker;
    (void)kind;
    ask->error = OT_OK;
    ask->call.task.run = shard_topic_run;
    ot_exec_post(ask->call.home, &ask->call.task);
}

int32_t broker_shard_of(struct broker *broker, enum broker_shard_kind_id kind, struct ot_str key)
{
    (void)broker;
    (void)kind;
    return fake.shards_unknown ? -1 : (int32_t)(key.bytes % 5);
}
