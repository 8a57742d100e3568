/* The broker as a whole on a real disk: founding, topics, restarts, and whose directory it is. */
#include "open_house.h"
#include "broker/room.h"
#include "engine/batch_build.h"

struct admin_call { struct broker_admin admin; struct waited waited; struct ot_task go; struct house *house; };

static void admin_done(struct broker_call *call) { wake(&OT_CONTAINER(call, struct admin_call, admin.call)->waited); }

static void admin_go(struct ot_task *task)
{
    struct admin_call *call = OT_CONTAINER(task, struct admin_call, go);
    broker_admin(call->house->broker, &call->admin);
}

static void ask(struct house *house, struct broker_admin_item *items, uint32_t count)
{
    struct admin_call call = { .admin = { .call = { .home = ot_exec_thread_exec(house->door), .done = admin_done }, .items = items, .item_count = count,
        .timeout_ms = 5000 }, .waited = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false }, .go.run = admin_go, .house = house };
    for (uint32_t i = 0; i < count; i++) {
        items[i].if_version = items[i].if_version == 0 ? -1 : items[i].if_version;
    }
    ot_exec_post(call.admin.call.home, &call.go);
    wait_for(&call.waited);
}

static struct broker_admin_item create_item(const char *name, int32_t partitions)
{
    return (struct broker_admin_item){ .kind = BROKER_CREATE_TOPIC, .topic = ot_str_of(name), .partition_count = partitions, .replication_factor = -1, .if_version = -1 };
}

static struct broker_admin_item delete_item(const char *name)
{
    return (struct broker_admin_item){ .kind = BROKER_DELETE_TOPIC, .topic = ot_str_of(name), .if_version = -1 };
}

static enum ot_err ask_one(struct house *house, struct broker_admin_item item)
{
    ask(house, &item, 1);
    return item.error;
}

static bool topic_of(struct house *house, const char *name, struct broker_view_topic *out)
{
    const struct broker_view *view = broker_view_take(house->broker);
    bool found = broker_view_topic(view, ot_str_of(name), out);
    broker_view_give(view);
    return found;
}

static struct broker_view_partition partition_of(struct house *house, const char *name, int32_t index)
{
    struct broker_view_topic topic;
    struct broker_view_partition partition;
    struct ot_arena arena;
    ot_arena_init(&arena, 1 << 16);
    const struct broker_view *view = broker_view_take(house->broker);
    assert_true(broker_view_topic(view, ot_str_of(name), &topic));
    assert_true(broker_view_partition(view, &topic.id, index, &arena, &partition));
    broker_view_give(view);
    ot_arena_free(&arena);
    return partition;
}

static bool is_open(struct house *house, const char *name, int32_t index)
{
    struct broker_partition *partition = broker_partition_find(house->broker, ot_str_of(name), index);
    struct broker_partition_state state = { 0 };
    if (partition != NULL) {
        broker_partition_state(partition, &state);
    }
    broker_partition_put(partition);
    return state.open && state.leader;
}

/* ---- tests */

static void the_first_start_founds_a_cluster_of_one(void **state)
{
    struct house *house = *state;
    start(house);
    assert_int_equal(house->err, OT_OK);
    struct broker_health health;
    broker_health(house->broker, &health);
    assert_true(health.ready);
    const struct broker_view *view = broker_view_take(house->broker);
    struct broker_view_cluster cluster;
    struct broker_view_broker broker;
    struct ot_arena arena;
    ot_arena_init(&arena, 1 << 16);
    broker_view_cluster(view, &cluster);
    assert_int_equal(cluster.cluster_id.bytes, 22);
    assert_int_equal(cluster.controller_id, 1);
    assert_true(broker_view_next_broker(view, INT32_MIN, &arena, &broker));
    assert_int_equal(broker.id, 1);
    assert_false(broker.fenced);
    assert_int_equal(broker.endpoint_count, 1);
    assert_true(broker.endpoints[0].host.null);
    assert_int_equal(broker.endpoints[0].port, 9092);
    assert_false(broker_view_next_broker(view, broker.id, &arena, &broker));
    broker_view_give(view);
    ot_arena_free(&arena);
}

static void a_created_topic_is_there_with_a_leader_and_open_when_answered(void **state)
{
    struct house *house = *state;
    start(house);
    struct broker_admin_item item = create_item("orders", 3);
    ask(house, &item, 1);
    assert_int_equal(item.error, OT_OK);
    assert_int_equal(item.partition_count_out, 3);
    assert_int_equal(item.replication_factor_out, 1);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(partition_of(house, "orders", i).leader, 1);
        assert_true(is_open(house, "orders", i));
    }
}

static void everything_is_there_again_after_a_restart(void **state)
{
    struct house *house = *state;
    struct broker_view_topic before, after;
    char cluster[64];
    struct broker_view_cluster row;
    start(house);
    assert_int_equal(ask_one(house, create_item("orders", 2)), OT_OK);
    assert_true(topic_of(house, "orders", &before));
    const struct broker_view *view = broker_view_take(house->broker);
    broker_view_cluster(view, &row);
    snprintf(cluster, sizeof cluster, "%.*s", (int)row.cluster_id.bytes, row.cluster_id.data);
    broker_view_give(view);
    int32_t epoch = partition_of(house, "orders", 0).leader_epoch;
    stop(house);
    start(house);
    assert_int_equal(house->err, OT_OK);
    assert_true(topic_of(house, "orders", &after));
    assert_true(ot_uuid_equal(&before.id, &after.id));
    assert_true(is_open(house, "orders", 1));
    assert_true(partition_of(house, "orders", 0).leader_epoch > epoch);
    view = broker_view_take(house->broker);
    broker_view_cluster(view, &row);
    assert_true(ot_str_equal(row.cluster_id, ot_str_of(cluster)));
    broker_view_give(view);
}

static void a_recreated_topic_has_a_new_id_and_a_later_epoch(void **state)
{
    struct house *house = *state;
    struct broker_view_topic first, second;
    start(house);
    assert_int_equal(ask_one(house, create_item("orders", 2)), OT_OK);
    assert_true(topic_of(house, "orders", &first));
    int32_t epoch = partition_of(house, "orders", 1).leader_epoch;
    assert_int_equal(ask_one(house, delete_item("orders")), OT_OK);
    assert_false(topic_of(house, "orders", &second));
    assert_null(broker_partition_find_id(house->broker, &first.id, 0));
    assert_int_equal(ask_one(house, create_item("orders", 2)), OT_OK);
    assert_true(topic_of(house, "orders", &second));
    assert_false(ot_uuid_equal(&first.id, &second.id));
    assert_true(partition_of(house, "orders", 1).leader_epoch > epoch);
    struct broker_admin_item by_id = { .kind = BROKER_DELETE_TOPIC, .topic = { .null = true }, .topic_id = first.id, .if_version = -1 };
    assert_int_equal(ask_one(house, by_id), OT_ERR_UNKNOWN_TOPIC_ID);
    stop(house);
    start(house);
    assert_int_equal(house->err, OT_OK);
    assert_true(is_open(house, "orders", 0));
}

static void each_asked_item_gets_its_own_answer(void **state)
{
    struct house *house = *state;
    start(house);
    struct broker_admin_item items[] = { create_item("a", 1), create_item("b", 0), create_item("c", 1), create_item("c", 1), create_item("x/y", 1),
        create_item("d", 1), create_item("e.f", 1), create_item("..", 1) };
    items[5].replication_factor = 2;
    ask(house, items, OT_ARRAY_COUNT(items));
    const enum ot_err expected[] = { OT_OK, OT_ERR_INVALID_PARTITIONS, OT_ERR_INVALID_REQUEST, OT_ERR_INVALID_REQUEST, OT_ERR_INVALID_TOPIC_EXCEPTION,
        OT_ERR_INVALID_REPLICATION_FACTOR, OT_OK, OT_ERR_INVALID_TOPIC_EXCEPTION };
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(items); i++) {
        assert_int_equal(items[i].error, expected[i]);
        assert_true((items[i].text[0] == 0) == (items[i].error == OT_OK));
    }
    assert_non_null(strstr(items[5].text, "2"));
    assert_non_null(strstr(items[5].text, "1 broker"));
    assert_int_equal(ask_one(house, create_item("e_f", 1)), OT_ERR_INVALID_TOPIC_EXCEPTION);
    assert_int_equal(ask_one(house, create_item("a", 1)), OT_ERR_TOPIC_ALREADY_EXISTS);
    assert_int_equal(ask_one(house, delete_item("e.f")), OT_OK);
    assert_int_equal(ask_one(house, create_item("e_f", 1)), OT_OK);
}

static void validate_only_changes_nothing(void **state)
{
    struct house *house = *state;
    struct broker_view_topic topic;
    start(house);
    struct broker_admin_item item = create_item("dry", 4);
    item.validate_only = true;
    ask(house, &item, 1);
    assert_int_equal(item.error, OT_OK);
    assert_int_equal(item.partition_count_out, 4);
    assert_false(topic_of(house, "dry", &topic));
    item.partition_count = 1000000;
    ask(house, &item, 1);
    assert_int_equal(item.error, OT_ERR_POLICY_VIOLATION);
}

static void partitions_are_added_and_never_taken_away(void **state)
{
    struct house *house = *state;
    start(house);
    assert_int_equal(ask_one(house, create_item("grow", 2)), OT_OK);
    struct broker_admin_item grow = { .kind = BROKER_CREATE_PARTITIONS, .topic = ot_str_of("grow"), .partition_count = 5, .if_version = -1 };
    assert_int_equal(ask_one(house, grow), OT_OK);
    assert_true(is_open(house, "grow", 4));
    assert_int_equal(ask_one(house, grow), OT_ERR_INVALID_PARTITIONS);
    grow.partition_count = 1;
    assert_int_equal(ask_one(house, grow), OT_ERR_INVALID_PARTITIONS);
    grow.topic = ot_str_of("nowhere");
    assert_int_equal(ask_one(house, grow), OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
}

static struct ot_str config_of(struct house *house, const char *topic, const char *key, char *room)
{
    struct broker_view_topic row;
    struct broker_view_config config;
    struct ot_str at = { 0 }, found = { .null = true };
    const struct broker_view *view = broker_view_take(house->broker);
    assert_true(broker_view_topic(view, ot_str_of(topic), &row));
    while (found.null && broker_view_next_topic_config(view, &row.id, at, &config)) {
        at = config.name;
        if (ot_str_equal(config.name, ot_str_of(key))) {
            memcpy(room, config.value.data, config.value.bytes);
            found = (struct ot_str){ room, config.value.bytes, false };
        }
    }
    broker_view_give(view);
    return found;
}

static enum ot_err alter(struct house *house, const char *topic, const char *key, const char *value, enum broker_config_op op, int64_t if_version)
{
    struct broker_config_entry entry = { ot_str_of(key), ot_str_of(value) };
    struct broker_admin_item item = { .kind = BROKER_ALTER_TOPIC_CONFIG, .topic = ot_str_of(topic), .configs = &entry, .ops = &op, .config_count = 1,
        .if_version = if_version };
    return ask_one(house, item);
}

static void topic_configs_change_by_set_delete_append_and_subtract(void **state)
{
    struct house *house = *state;
    char room[2000];
    struct broker_view_topic topic;
    start(house);
    assert_int_equal(ask_one(house, create_item("t", 1)), OT_OK);
    assert_int_equal(alter(house, "t", "retention.ms", "1000", BROKER_CONFIG_SET, -1), OT_OK);
    assert_true(ot_str_equal(config_of(house, "t", "retention.ms", room), ot_str_of("1000")));
    assert_int_equal(alter(house, "t", "retention.ms", "abc", BROKER_CONFIG_SET, -1), OT_ERR_INVALID_CONFIG);
    assert_int_equal(alter(house, "t", "no.such.key", "1", BROKER_CONFIG_SET, -1), OT_ERR_INVALID_CONFIG);
    assert_int_equal(alter(house, "nowhere", "retention.ms", "1", BROKER_CONFIG_SET, -1), OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(alter(house, "t", "cleanup.policy", "compact", BROKER_CONFIG_APPEND, -1), OT_OK);
    assert_true(ot_str_equal(config_of(house, "t", "cleanup.policy", room), ot_str_of("delete,compact")));
    assert_int_equal(alter(house, "t", "cleanup.policy", "delete", BROKER_CONFIG_SUBTRACT, -1), OT_OK);
    assert_true(ot_str_equal(config_of(house, "t", "cleanup.policy", room), ot_str_of("compact")));
    assert_int_equal(alter(house, "t", "retention.ms", "1", BROKER_CONFIG_APPEND, -1), OT_ERR_INVALID_CONFIG);
    assert_true(topic_of(house, "t", &topic));
    assert_int_equal(alter(house, "t", "retention.ms", "2000", BROKER_CONFIG_SET, topic.version - 1), OT_ERR_MISMATCH);
    assert_int_equal(alter(house, "t", "retention.ms", "2000", BROKER_CONFIG_SET, topic.version), OT_OK);
    assert_int_equal(alter(house, "t", "retention.ms", NULL, BROKER_CONFIG_DELETE, -1), OT_OK);
    assert_true(config_of(house, "t", "retention.ms", room).null);
    assert_int_equal(alter(house, "t", "min.insync.replicas", "2", BROKER_CONFIG_SET, -1), OT_OK);
    assert_int_equal(partition_of(house, "t", 0).min_isr, 1);  /* at most the number of replicas */
}

static void broker_configs_take_effect_and_survive(void **state)
{
    struct house *house = *state;
    start(house);
    struct broker_config_entry entry = { ot_str_of("log.retention.ms"), ot_str_of("12345") };
    struct broker_admin_item item = { .kind = BROKER_ALTER_BROKER_CONFIG, .broker_id = -1, .configs = &entry, .config_count = 1, .if_version = -1, .topic = { .null = true } };
    assert_int_equal(ask_one(house, item), OT_OK);
    assert_int_equal(broker_config(house->broker)->log_retention_ms, 12345);
    stop(house);
    start(house);
    assert_int_equal(broker_config(house->broker)->log_retention_ms, 12345);
    item.broker_id = 7;
    assert_int_equal(ask_one(house, item), OT_ERR_INVALID_REQUEST);
    entry = (struct broker_config_entry){ ot_str_of("log.dirs"), ot_str_of("/x") };
    item.broker_id = -1;
    assert_int_equal(ask_one(house, item), OT_ERR_INVALID_REQUEST);
}

struct id_call { struct broker_producer_id ask; struct waited waited; struct ot_task go; struct house *house; };
static void id_done(struct broker_call *call) { wake(&OT_CONTAINER(call, struct id_call, ask.call)->waited); }
static void id_go(struct ot_task *task)
{
    struct id_call *call = OT_CONTAINER(task, struct id_call, go);
    broker_producer_id(call->house->broker, &call->ask);
}

static int64_t producer_id(struct house *house)
{
    struct id_call call = { .ask.call = { .home = ot_exec_thread_exec(house->door), .done = id_done },
        .waited = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false }, .go.run = id_go, .house = house };
    ot_exec_post(call.ask.call.home, &call.go);
    wait_for(&call.waited);
    assert_int_equal(call.ask.error, OT_OK);
    return call.ask.producer_id;
}

struct skip_call { struct broker_producer_id ask; struct waited waited; struct ot_task go; struct house *house; int64_t above; };
static void skip_done(struct broker_call *call) { wake(&OT_CONTAINER(call, struct skip_call, ask.call)->waited); }
static void skip_go(struct ot_task *task)
{
    struct skip_call *call = OT_CONTAINER(task, struct skip_call, go);
    broker_producer_ids_skip(call->house->broker, &call->ask, call->above);
}

static void producer_ids_that_are_skipped_are_never_given(void **state)
{
    static const int64_t above[] = { 5, 4000, INT64_C(5000000000) };   /* in the block at hand, behind it, more than one request can take */
    struct house *house = *state;
    start(house);
    for (size_t i = 0; i < OT_ARRAY_COUNT(above); i++) {
        int64_t before = producer_id(house);
        struct skip_call call = { .ask.call = { .home = ot_exec_thread_exec(house->door), .done = skip_done },
            .waited = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false }, .go.run = skip_go, .house = house, .above = above[i] };
        ot_exec_post(call.ask.call.home, &call.go);
        wait_for(&call.waited);
        assert_int_equal(call.ask.error, OT_OK);
        for (int k = 0; k < 1500; k++) assert_true(producer_id(house) > OT_MAX(above[i], before));
    }
    stop(house);
    start(house);
    assert_true(producer_id(house) > above[2]);
}

static void producer_ids_are_never_given_twice(void **state)
{
    struct house *house = *state;
    start(house);
    int64_t last = -1;
    for (int i = 0; i < 2500; i++) {
        int64_t id = producer_id(house);
        assert_true(id > last);
        last = id;
    }
    stop(house);
    start(house);
    assert_true(producer_id(house) > last);
}

static void auto_creation_makes_the_topic_once(void **state)
{
    struct house *house = *state;
    char text[200];
    struct broker_view_topic topic;
    start(house);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(broker_auto_create(house->broker, ot_str_of("by-itself"), text, sizeof text), OT_ERR_LEADER_NOT_AVAILABLE);
    }
    assert_int_equal(broker_auto_create(house->broker, ot_str_of("no/way"), text, sizeof text), OT_ERR_INVALID_TOPIC_EXCEPTION);
    assert_int_equal(ask_one(house, create_item("after", 1)), OT_OK);  /* asked later, so answered later */
    assert_true(topic_of(house, "by-itself", &topic));
}

static void foreign_directories_stop_the_start(void **state)
{
    struct house *house = *state;
    char path[1100];
    start(house);
    assert_int_equal(ask_one(house, create_item("orders", 1)), OT_OK);
    stop(house);
    house->node_id = 2;                        /* another node on the same directory */
    start(house);
    assert_int_equal(house->err, OT_ERR_MISMATCH);
    stop(house);
    house->node_id = 1;
    snprintf(path, sizeof path, "%s/a/__ottla_meta", house->root);
    remove_tree(path);                         /* its metadata is gone: never an empty cluster over it */
    start(house);
    assert_int_equal(house->err, OT_ERR_MISMATCH);
}

static void a_second_cluster_in_one_list_is_refused(void **state)
{
    struct house *house = *state;
    start(house);
    stop(house);
    snprintf(house->dirs, sizeof house->dirs, "%s/b", house->root);
    start(house);
    assert_int_equal(house->err, OT_OK);
    stop(house);
    snprintf(house->dirs, sizeof house->dirs, "%s/a,%s/b", house->root, house->root);
    start(house);
    assert_int_equal(house->err, OT_ERR_MISMATCH);
    stop(house);
    snprintf(house->dirs, sizeof house->dirs, "%s/a,%s/c", house->root, house->root);    /* an empty one may join */
    start(house);
    assert_int_equal(house->err, OT_OK);
}

/* A crash may come between the commit of a deletion and the end of the files; the next start finishes it, by id and not by name. */
static void folders_of_deleted_topics_are_cleared_away_at_the_next_start(void **state)
{
    struct house *house = *state;
    char folder[300], file[340], other[300], never[300], id[23];
    struct broker_view_topic topic;
    start(house);
    assert_int_equal(ask_one(house, create_item("gone", 1)), OT_OK);
    assert_true(topic_of(house, "gone", &topic));
    ot_uuid_text(&topic.id, id);
    assert_int_equal(ask_one(house, delete_item("gone")), OT_OK);
    stop(house);
    snprintf(folder, sizeof folder, "%s/a/gone-0", house->root);
    snprintf(file, sizeof file, "%s/partition.metadata", folder);
    assert_int_not_equal(access(folder, F_OK), 0);
    assert_int_equal(mkdir(folder, 0700), 0);          /* as if the files had still been there */
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    assert_true(fprintf(out, "version: 0\ntopic_id: %s", id) > 0);
    fclose(out);
    snprintf(other, sizeof other, "%s/a/stranger-0", house->root);     /* nobody deleted this one: it is left alone */
    assert_int_equal(mkdir(other, 0700), 0);
    snprintf(never, sizeof never, "%s/a/gone-1", house->root);         /* of one that was never written to */
    assert_int_equal(mkdir(never, 0700), 0);
    start(house);
    assert_int_equal(house->err, OT_OK);
    assert_int_not_equal(access(folder, F_OK), 0);
    assert_int_not_equal(access(never, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
    assert_int_equal(ask_one(house, create_item("gone", 1)), OT_OK);
    assert_true(is_open(house, "gone", 0));
}

static void write_file(const struct house *house, const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/a/%s", house->root, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    fclose(out);
}

static bool says(const struct house *house, const char *name, const char *line)
{
    char path[400], text[400] = "";
    snprintf(path, sizeof path, "%s/a/%s", house->root, name);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    size_t bytes = fread(text, 1, sizeof text - 1, in);
    fclose(in);
    text[bytes] = 0;
    return strstr(text, line) != NULL;
}

/* What the checkpoints say of a log that does not open is all that is known of it; and nobody may call its files clean. */
static void a_partition_that_does_not_open_keeps_its_checkpoints(void **state)
{
    static const char *const files[] = { "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint" };
    struct house *house = *state;
    char path[400];
    start(house);
    assert_int_equal(ask_one(house, create_item("hurt", 1)), OT_OK);
    stop(house);
    snprintf(path, sizeof path, "%s/a/.kafka_cleanshutdown", house->root);
    assert_int_equal(access(path, F_OK), 0);
    for (size_t i = 0; i < OT_ARRAY_COUNT(files); i++) write_file(house, files[i], "0\n1\nhurt 0 7\n");
    snprintf(path, sizeof path, "%s/a/hurt-0/leader-epoch-checkpoint", house->root);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);            /* a file that cannot be read */
    start(house);
    assert_int_equal(house->err, OT_OK);
    assert_false(is_open(house, "hurt", 0));
    stop(house);
    for (size_t i = 0; i < OT_ARRAY_COUNT(files); i++) assert_true(says(house, files[i], "\nhurt 0 7\n"));
    snprintf(path, sizeof path, "%s/a/.kafka_cleanshutdown", house->root);
    assert_int_not_equal(access(path, F_OK), 0);
}

struct seen { const struct house *house; struct ot_coord_broker_row row; uint8_t room[4096]; };

static void see(void *arg)
{
    struct seen *seen = arg;
    struct ot_arena room;
    ot_arena_init_with(&room, seen->room, sizeof seen->room, 0);
    assert_int_equal(coord_broker_get(broker_coordinator_value(seen->house->broker->coordinator), seen->house->node_id, &room, &seen->row), OT_OK);
}

/* How the coordinator took this start, and the epoch it has now. */
static int8_t taken_for(const struct house *house, int64_t *epoch_out)
{
    struct seen seen = { .house = house };
    assert_int_equal(house->err, OT_OK);
    broker_coordinator_run(house->broker->setup.coord_exec, see, &seen);
    *epoch_out = seen.row.broker_epoch;
    return seen.row.boot_class;
}

static void mark(const struct house *house, const char *dir, int64_t epoch)
{
    char name[60], text[80];
    snprintf(name, sizeof name, "../%s/.kafka_cleanshutdown", dir);
    snprintf(text, sizeof text, "{\"version\":0,\"brokerEpoch\":%lld}", (long long)epoch);
    write_file(house, name, text);
}

/* Every directory alone, and all of them, put back as they were before the last life. */
static void clean_markers_of_an_older_life_are_not_believed(void **state)
{
    struct house *house = *state;
    int64_t epoch, last;
    snprintf(house->dirs, sizeof house->dirs, "%s/a,%s/b", house->root, house->root);
    start(house);
    stop(house);
    start(house);
    assert_int_equal(taken_for(house, &epoch), COORD_BOOT_CLEAN);
    for (uint32_t restored = 1; restored < 4; restored++) {
        stop(house);
        for (uint32_t dir = 0; dir < 2; dir++)
            if ((restored >> dir & 1) != 0) mark(house, dir == 0 ? "a" : "b", epoch - 1);
        start(house);
        assert_int_equal(taken_for(house, &last), COORD_BOOT_MACHINE_CRASH);
        assert_true(last > epoch);
        epoch = last;
    }
    stop(house);
    start(house);                              /* and the next is as ever */
    assert_int_equal(taken_for(house, &epoch), COORD_BOOT_CLEAN);
}

/* A disk that was away for a life has the marker of the one before: nothing else is doubted for that. */
static void a_directory_that_was_away_is_not_taken_for_an_older_copy(void **state)
{
    struct house *house = *state;
    char one[300], two[300];
    int64_t epoch;
    snprintf(house->dirs, sizeof house->dirs, "%s/a,%s/b", house->root, house->root);
    start(house);
    stop(house);
    snprintf(one, sizeof one, "%s/b", house->root);
    snprintf(two, sizeof two, "%s/away", house->root);
    assert_int_equal(rename(one, two), 0);
    snprintf(house->dirs, sizeof house->dirs, "%s/a", house->root);
    start(house);
    assert_int_equal(taken_for(house, &epoch), COORD_BOOT_CLEAN);
    stop(house);
    assert_int_equal(rename(two, one), 0);
    snprintf(house->dirs, sizeof house->dirs, "%s/a,%s/b", house->root, house->root);
    start(house);
    assert_int_equal(taken_for(house, &epoch), COORD_BOOT_CLEAN);
}

static struct broker_partition *part_of(struct house *house, const char *name)
{
    struct broker_partition *partition = broker_partition_find(house->broker, ot_str_of(name), 0);
    assert_non_null(partition);
    broker_partition_put(partition);           /* the registry holds it */
    return partition;
}

/* As a follower copies what compaction has left. */
static void append_at(struct house *house, struct broker_partition *partition, int64_t base_offset)
{
    struct eng_sink sink;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    uint32_t appended = 0;
    fields.base_offset = base_offset;
    fields.leader_epoch = 0;
    eng_sink_pool(&sink, house->decode, 1u << 20);
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &sink), OT_OK);
    assert_int_equal(eng_batch_build_record(&builder, base_offset, 1750000000000, (struct ot_blob){ 0 }, (struct ot_blob){ (const uint8_t *)"v", 1, false }, NULL, 0), OT_OK);
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    struct ot_buf *buf = eng_sink_take(&sink);
    const struct eng_append_batch batch = { .data = buf->data, .bytes = buf->bytes, .base_offset = base_offset, .last_offset = base_offset, .max_timestamp = 1750000000000,
        .max_timestamp_offset = base_offset };
    assert_int_equal(eng_log_append(partition->log, &batch, 1, 1750000000000, &appended), OT_OK);
    ot_buf_unref(buf);
}

/* Its cleanup.policy was compact once and is delete by now. Whoever is killed with it keeps what he held and may lead; when the machine stopped, nobody relies on it. */
static void holes_that_were_copied_outlive_the_process_and_not_the_machine(void **state)
{
    struct house *house = *state;
    char path[400];
    for (int machine = 0; machine < 2; machine++) {
        const char *name = machine == 0 ? "killed" : "unplugged";
        char checkpoint[60];
        start(house);
        assert_int_equal(ask_one(house, create_item(name, 1)), OT_OK);
        append_at(house, part_of(house, name), 3);
        append_at(house, part_of(house, name), 8);
        stop(house);
        snprintf(path, sizeof path, "%s/a/.kafka_cleanshutdown", house->root);
        assert_int_equal(unlink(path), 0);
        snprintf(checkpoint, sizeof checkpoint, "0\n1\n%s 0 0\n", name);
        write_file(house, "recovery-point-offset-checkpoint", checkpoint);
        if (machine == 1) write_file(house, "__ottla_meta/meta.boot", "version: 0\nboot_id: another\n");
        start(house);
        assert_int_equal(house->err, OT_OK);
        while (!is_open(house, name, 0)) sched_yield();
        assert_int_equal(eng_log_end_offset(part_of(house, name)->log), machine == 0 ? 9 : 0);
        stop(house);
    }
}

/* As the first append leaves it: a folder that says whose it is. */
static void name_folder(const struct house *house, const char *name, const struct ot_uuid *id)
{
    char path[400], text[23];
    ot_uuid_text(id, text);
    snprintf(path, sizeof path, "%s/a/%s", house->root, name);
    if (access(path, F_OK) != 0) return;
    snprintf(path, sizeof path, "%s/a/%s/partition.metadata", house->root, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fprintf(out, "version: 0\ntopic_id: %s", text) > 0);
    fclose(out);
}

/* A directory that is gone may hold the partition: it is not begun anew in another one, nor taken from an empty folder there that does not say whose it is, and
 * comes back with its directory. */
static void partitions_of_a_missing_directory_stay_offline(void **state)
{
    struct house *house = *state;
    struct broker_view_topic topic;
    char one[300], two[300];
    snprintf(house->dirs, sizeof house->dirs, "%s/a,%s/b", house->root, house->root);
    start(house);
    assert_int_equal(ask_one(house, create_item("spread", 8)), OT_OK);
    assert_int_equal(ask_one(house, create_item("empty", 8)), OT_OK);
    assert_true(topic_of(house, "spread", &topic));
    stop(house);
    for (int32_t i = 0; i < 8; i++) {
        char name[20];
        snprintf(name, sizeof name, "spread-%d", (int)i);
        name_folder(house, name, &topic.id);
    }
    snprintf(one, sizeof one, "%s/b", house->root);
    snprintf(two, sizeof two, "%s/away", house->root);
    assert_int_equal(rename(one, two), 0);
    snprintf(house->dirs, sizeof house->dirs, "%s/a", house->root);
    start(house);
    assert_int_equal(house->err, OT_OK);
    int open = 0;
    for (int32_t i = 0; i < 8; i++) {
        open += is_open(house, "spread", i);
    }
    assert_in_range(open, 1, 7);
    for (int32_t i = 0; i < 8; i++) assert_false(is_open(house, "empty", i));
    stop(house);
    start(house);                              /* still so at the second start without it */
    for (int32_t i = 0; i < 8; i++) {
        open -= is_open(house, "spread", i);
    }
    assert_int_equal(open, 0);
    assert_int_equal(ask_one(house, create_item("fresh", 2)), OT_OK);  /* new ones may be made */
    assert_true(is_open(house, "fresh", 1));
    stop(house);
    start(house);                              /* and are known for what they are at the next start, though nothing was written to them */
    assert_true(is_open(house, "fresh", 0));
    assert_true(is_open(house, "fresh", 1));
    stop(house);
    assert_int_equal(rename(two, one), 0);
    snprintf(house->dirs, sizeof house->dirs, "%s/a,%s/b", house->root, house->root);
    start(house);
    for (int32_t i = 0; i < 8; i++) {
        assert_true(is_open(house, "spread", i));
        assert_true(is_open(house, "empty", i));
    }
}

static void four_thousand_partitions_share_a_few_syncs(void **state)
{
    struct house *house = *state;
    start(house);
    enum { TOPICS = 400 };
    static struct broker_admin_item items[TOPICS];
    static char names[TOPICS][16];
    for (int i = 0; i < TOPICS; i++) {
        snprintf(names[i], sizeof names[i], "t%03d", i);
        items[i] = create_item(names[i], 10);
    }
    const struct broker_view *view = broker_view_take(house->broker);
    struct broker_view_cluster before, after;
    broker_view_cluster(view, &before);
    broker_view_give(view);
    int64_t begin_us = ot_clock_boot_us();
    ask(house, items, TOPICS);
    print_message("4000 partitions in %lld ms\n", (long long)(ot_clock_boot_us() - begin_us) / 1000);
    for (int i = 0; i < TOPICS; i++) {
        assert_int_equal(items[i].error, OT_OK);
    }
    view = broker_view_take(house->broker);
    broker_view_cluster(view, &after);
    assert_int_equal(broker_view_partition_count(view), 4000);
    broker_view_give(view);
    assert_true(after.version - before.version <= 4);          /* publications, each one sync */
    begin_us = ot_clock_boot_us();
    stop(house);
    int64_t middle_us = ot_clock_boot_us();
    start(house);
    print_message("stopped in %lld ms, started in %lld ms\n", (long long)(middle_us - begin_us) / 1000, (long long)(ot_clock_boot_us() - middle_us) / 1000);
    assert_int_equal(house->err, OT_OK);
    assert_true(is_open(house, "t399", 9));
}

/* ---- a recovery that takes long ---- */

/* The real disk, on which a folder "slow-…" is not listed before it is let. */
static struct { struct ot_io io; struct ot_io_ops ops; _Atomic bool held; } slow;

static enum ot_err slow_list(struct ot_io *io, const char *path, void (*each)(void *arg, const struct ot_io_entry *entry), void *arg)
{
    (void)io;
    while (strstr(path, "/slow-") != NULL && atomic_load(&slow.held)) sched_yield();
    return ot_io_real()->ops->list(ot_io_real(), path, each, arg);
}

static bool all_open(struct house *house)
{
    struct broker_health health;
    broker_health(house->broker, &health);
    return health.ready && health.partitions_open == health.partitions_total;
}

static void the_doors_do_not_wait_for_a_long_recovery(void **state)
{
    struct house *house = *state;
    struct broker_health health;
    slow.ops = *ot_io_real()->ops;
    slow.ops.list = slow_list;
    slow.io.ops = &slow.ops;
    house->disk = &slow.io;
    start(house);
    assert_int_equal(house->err, OT_OK);
    assert_int_equal(ask_one(house, create_item("slow", 3)), OT_OK);
    for (int round = 0; round < 2; round++) {
        stop(house);
        atomic_store(&slow.held, true);
        house->start_wait_ms = 20;
        start(house);
        assert_int_equal(house->err, OT_OK);
        broker_health(house->broker, &health);
        assert_false(health.ready);
        assert_string_equal(health.reason, "recovering");
        assert_int_equal(health.partitions_open, 0);
        assert_false(is_open(house, "slow", 2));
        assert_int_equal(ask_one(house, create_item("slow", 1)), OT_ERR_TOPIC_ALREADY_EXISTS);      /* it serves */
        atomic_store(&slow.held, false);
        if (round == 1) {
            stop(house);                       /* in the middle of it */
            start(house);
        }
        while (!all_open(house)) {
            sched_yield();
        }
        assert_true(is_open(house, "slow", 2));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_first_start_founds_a_cluster_of_one),
        TEST(a_created_topic_is_there_with_a_leader_and_open_when_answered),
        TEST(everything_is_there_again_after_a_restart),
        TEST(clean_markers_of_an_older_life_are_not_believed),
        TEST(a_directory_that_was_away_is_not_taken_for_an_older_copy),
        TEST(holes_that_were_copied_outlive_the_process_and_not_the_machine),
        TEST(a_recreated_topic_has_a_new_id_and_a_later_epoch),
        TEST(each_asked_item_gets_its_own_answer),
        TEST(validate_only_changes_nothing),
        TEST(partitions_are_added_and_never_taken_away),
        TEST(topic_configs_change_by_set_delete_append_and_subtract),
        TEST(broker_configs_take_effect_and_survive),
        TEST(producer_ids_are_never_given_twice),
        TEST(producer_ids_that_are_skipped_are_never_given),
        TEST(auto_creation_makes_the_topic_once),
        TEST(foreign_directories_stop_the_start),
        TEST(a_second_cluster_in_one_list_is_refused),
        TEST(folders_of_deleted_topics_are_cleared_away_at_the_next_start),
        TEST(a_partition_that_does_not_open_keeps_its_checkpoints),
        TEST(partitions_of_a_missing_directory_stay_offline),
        TEST(four_thousand_partitions_share_a_few_syncs),
        TEST(the_doors_do_not_wait_for_a_long_recovery),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
