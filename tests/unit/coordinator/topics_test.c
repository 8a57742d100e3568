/* What the coordinator decides about brokers, topics, configs and producer ids. */
#include "desk.h"

#include "base/wire/coord_partition_row.h"
#include "base/wire/frame.h"

static struct desk *desk;

static int setup(void **state)
{
    *state = desk = malloc(sizeof *desk);
    desk_init(desk);
    desk->auto_store = true;
    if (desk_start(desk, 0) != OT_OK || desk_register(desk, 1, 1, COORD_BOOT_CLEAN) != OT_OK) {
        return -1;
    }
    return 0;
}

static int teardown(void **state)
{
    char text[200] = "";
    if (coord_rows_check(coord_view(desk->coord), text, sizeof text) != OT_OK) {
        print_message("%s\n", text);
        return -1;
    }
    desk_free(desk);
    free(*state);
    return 0;
}

static const struct coord_value *value(void) { return coord_view(desk->coord); }

static enum ot_err create(const char *name, int32_t partitions)
{
    struct coord_request ask = desk_create(name, partitions);
    desk_ask(desk, &ask);
    return ask.error;
}

static enum ot_err delete(const char *name)
{
    struct coord_request ask = { .ask = COORD_ASK_DELETE_TOPIC, .u.topic = { .name = ot_str_of(name) } };
    desk_ask(desk, &ask);
    return ask.error;
}

static struct ot_uuid id_of(const char *name)
{
    struct ot_coord_topic_name_row row;
    struct ot_uuid none = { { 0 } };
    return coord_topic_name_get(value(), ot_str_of(name), &row) == OT_OK ? row.topic_id : none;
}

static struct coord_partition partition(const char *name, int32_t index)
{
    struct coord_partition row;
    struct ot_uuid id = id_of(name);
    assert_int_equal(coord_partition_get(value(), &id, index, &row), OT_OK);
    return row;
}

static struct ot_coord_cluster_row cluster(void)
{
    struct ot_coord_cluster_row row;
    assert_int_equal(coord_cluster_get(value(), &row), OT_OK);
    return row;
}

static enum ot_err configure(struct coord_scope scope, const char *topic, const char *key, const char *text)
{
    struct coord_config_change change = { ot_str_of(key), ot_str_of(text) };
    struct coord_request ask = { .ask = COORD_ASK_CONFIGS, .u.configs = { .scope = scope, .topic = ot_str_of(topic), .changes = &change, .change_count = 1 } };
    desk_ask(desk, &ask);
    return ask.error;
}

static const struct coord_scope of_topic = { .kind = COORD_SCOPE_TOPIC }, of_cluster = { .kind = COORD_SCOPE_CLUSTER };

/* ---- brokers */

static void a_registration_fences_until_the_broker_has_applied_it(void **state)
{
    (void)state;
    assert_int_equal(create("a", 2), OT_OK);
    int32_t epoch = partition("a", 0).leader_epoch;
    struct coord_request ask = { .ask = COORD_ASK_REGISTER, .u.register_ = { .broker_id = 1, .incarnation_id = { { 2 } }, .boot_class = COORD_BOOT_PROCESS_CRASH,
        .rack = { .null = true } } };
    static const struct ot_uuid dirs[1] = { { { 9 } } };
    ask.u.register_.dir_ids = dirs;
    ask.u.register_.dir_count = 1;
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_int_equal(partition("a", 0).leader, -1);
    assert_int_equal(partition("a", 0).elr, 1);
    struct coord_request early = { .ask = COORD_ASK_HEARTBEAT, .u.heartbeat = { .broker_id = 1, .broker_epoch = ask.version, .applied_version = ask.version - 1 } };
    desk_ask(desk, &early);
    assert_int_equal(early.error, OT_OK);
    assert_int_equal(partition("a", 0).leader, -1);
    early.u.heartbeat.applied_version = ask.version;
    desk_ask(desk, &early);
    assert_int_equal(partition("a", 0).leader, 1);
    assert_int_equal(partition("a", 0).leader_epoch, epoch + 2);
    early.u.heartbeat.broker_epoch = ask.version - 1;
    desk_ask(desk, &early);
    assert_int_equal(early.error, OT_ERR_STALE_BROKER_EPOCH);
    struct coord_request again = ask;          /* the same incarnation: the answer got lost */
    int64_t version = value()->stamp.version;
    desk_ask(desk, &again);
    assert_int_equal(again.version, ask.version);
    assert_int_equal(value()->stamp.version, version);
}

static void a_running_broker_may_tell_other_endpoints(void **state)
{
    (void)state;
    const struct coord_endpoint moved[2] = { { ot_str_of("PLAINTEXT"), ot_str_of("h"), 19092, ot_str_of("PLAINTEXT") }, { ot_str_of("INNER"), ot_str_of("i"), 2, ot_str_of("PLAINTEXT") } };
    static const struct ot_uuid dirs[1] = { { { 9 } } };
    struct coord_request ask = { .ask = COORD_ASK_REGISTER, .u.register_ = { .broker_id = 1, .incarnation_id = { { 2 } }, .boot_class = COORD_BOOT_CLEAN, .endpoints = moved,
        .endpoint_count = 1, .dir_ids = dirs, .dir_count = 1, .rack = ot_str_of("r") } };
    assert_int_equal(create("a", 1), OT_OK);
    desk_ask(desk, &ask);
    const int64_t epoch = ask.version;
    struct coord_request beat = { .ask = COORD_ASK_HEARTBEAT, .u.heartbeat = { .broker_id = 1, .broker_epoch = epoch, .applied_version = epoch } };
    desk_ask(desk, &beat);
    assert_int_equal(partition("a", 0).leader, 1);
    const struct coord_partition before = partition("a", 0);
    for (uint32_t count = 2; count > 0; count--) {             /* one more, and one less again */
        struct ot_coord_broker_row row;
        struct ot_arena arena;
        const int64_t version = value()->stamp.version;
        ask.u.register_.endpoint_count = count;
        desk_ask(desk, &ask);
        assert_int_equal(ask.error, OT_OK);
        assert_int_equal(ask.version, epoch);                  /* the epoch stays, so the leader does */
        assert_int_equal(value()->stamp.version, version + 1);
        ot_arena_init(&arena, 1u << 16);
        assert_int_equal(coord_broker_get(value(), 1, &arena, &row), OT_OK);
        assert_int_equal(row.endpoints.count, count);
        assert_int_equal(row.endpoints.items[0].port, 19092);
        assert_int_equal(row.broker_epoch, epoch);
        assert_false(row.fenced);
        assert_true(ot_str_equal(row.rack, ot_str_of("r")));
        ot_arena_free(&arena);
    }
    assert_int_equal(partition("a", 0).leader_epoch, before.leader_epoch);
    assert_int_equal(partition("a", 0).partition_epoch, before.partition_epoch);
}

static void a_machine_crash_of_a_sole_replica_needs_no_operator(void **state)
{
    (void)state;
    assert_int_equal(create("a", 1), OT_OK);
    assert_int_equal(desk_register(desk, 1, 2, COORD_BOOT_MACHINE_CRASH), OT_OK);
    assert_int_equal(partition("a", 0).leader, 1);
    assert_true(partition("a", 0).loss_version > 0);
    assert_int_equal(desk_register(desk, 1, 3, COORD_BOOT_PROCESS_CRASH), OT_OK);
    int64_t loss = partition("a", 0).loss_version;
    assert_int_equal(desk_register(desk, 1, 4, COORD_BOOT_CLEAN), OT_OK);
    assert_int_equal(partition("a", 0).loss_version, loss);    /* those lose nothing */
}

static void a_durable_report_counts_only_under_its_epochs(void **state)
{
    (void)state;
    assert_int_equal(create("a", 1), OT_OK);
    struct coord_partition row = partition("a", 0);
    struct coord_report one = { .topic_id = id_of("a"), .leader_epoch = row.leader_epoch, .partition_epoch = row.partition_epoch, .class_ = COORD_DURABLE_LEADER };
    struct coord_request ask = { .ask = COORD_ASK_DURABLE, .u.durable = { .broker_id = 1, .items = &one, .count = 1 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_true(partition("a", 0).durable_since > 0);
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(desk_register(desk, 1, 2, COORD_BOOT_MACHINE_CRASH), OT_OK);
    assert_int_equal(partition("a", 0).loss_version, -1);
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_FENCED_LEADER_EPOCH);
}

static void of_several_durable_reports_each_counts_for_itself(void **state)
{
    (void)state;
    struct coord_report items[4];
    assert_int_equal(create("a", 4), OT_OK);
    for (int32_t i = 0; i < 4; i++) {
        const struct coord_partition row = partition("a", i);
        items[i] = (struct coord_report){ id_of("a"), i, row.leader_epoch, row.partition_epoch, COORD_DURABLE_LEADER, OT_ERR_CLOSED };
    }
    items[1].leader_epoch--;
    items[2].partition_epoch--;
    struct coord_request ask = { .ask = COORD_ASK_DURABLE, .u.durable = { .broker_id = 1, .items = items, .count = 4 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_true(items[0].error == OT_OK && items[1].error == OT_ERR_FENCED_LEADER_EPOCH && items[2].error == OT_ERR_INVALID_UPDATE_VERSION && items[3].error == OT_OK);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(partition("a", i).durable_since, i == 0 || i == 3 ? ask.version : -1);
    for (int32_t i = 0; i < 4; i++) items[i].partition = 7 + i;
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(items[i].error, OT_ERR_UNKNOWN_TOPIC_ID);
}

/* ---- topics */

static void a_name_remembers_the_epochs_of_its_former_topics(void **state)
{
    (void)state;
    struct ot_uuid ids[6];
    int32_t last = -1;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(create("again", 3), OT_OK);
        ids[i] = id_of("again");
        for (int k = 0; k < i; k++) {
            assert_false(ot_uuid_equal(&ids[i], &ids[k]));
        }
        assert_true(partition("again", 0).leader_epoch > last);
        assert_int_equal(desk_register(desk, 1, (uint8_t)(10 + i), COORD_BOOT_CLEAN), OT_OK);  /* epochs grow meanwhile */
        last = partition("again", 2).leader_epoch;
        assert_int_equal(delete("again"), OT_OK);
        assert_int_equal(cluster().former_name_count, 1);
        assert_int_equal(cluster().partition_count, 0);
    }
    assert_int_equal(delete("again"), OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(create("other", 1), OT_OK);
    assert_int_equal(partition("other", 0).leader_epoch, 0);   /* other names begin at zero */
}

static void what_deleted_topics_leave_behind_is_bounded_and_keeps_its_promise(void **state)
{
    (void)state;
    char name[32];
    assert_int_equal(create("first", 1), OT_OK);
    assert_int_equal(desk_register(desk, 1, 2, COORD_BOOT_CLEAN), OT_OK);
    int32_t epoch = partition("first", 0).leader_epoch;
    assert_int_equal(delete("first"), OT_OK);
    for (int i = 0; i < 1100; i++) {
        snprintf(name, sizeof name, "t.%d", i);
        assert_int_equal(create(name, 1), OT_OK);
        assert_int_equal(delete(name), OT_OK);
    }
    assert_true(cluster().former_name_count <= 1024);
    assert_true(cluster().deleted_topic_count <= 1024);
    assert_true(value()->row_count < 2200);
    assert_int_equal(create("first", 1), OT_OK);               /* its own memory was folded into one for all */
    assert_true(partition("first", 0).leader_epoch > epoch);
}

static void names_that_differ_in_dots_and_underscores_only_collide(void **state)
{
    (void)state;
    assert_int_equal(create("a.b_c", 1), OT_OK);
    assert_int_equal(create("a_b.c", 1), OT_ERR_INVALID_TOPIC_EXCEPTION);
    assert_int_equal(create("a.b.c", 1), OT_ERR_INVALID_TOPIC_EXCEPTION);
    assert_int_equal(create("a-b-c", 1), OT_OK);
    assert_int_equal(create("a.b_c", 1), OT_ERR_TOPIC_ALREADY_EXISTS);
    assert_int_equal(delete("a.b_c"), OT_OK);
    assert_int_equal(create("a_b.c", 1), OT_OK);
}

static void assignments_are_checked_one_by_one(void **state)
{
    (void)state;
    int32_t one[] = { 1 }, twice[] = { 1, 1 }, unknown[] = { 7 };
    struct { struct coord_assignment rows[2]; uint32_t count; enum ot_err error; } cases[] = {
        { { { 0, one, 1 }, { 1, one, 1 } }, 2, OT_OK },
        { { { 0, one, 1 }, { 2, one, 1 } }, 2, OT_ERR_INVALID_REPLICA_ASSIGNMENT },
        { { { 0, twice, 2 } }, 1, OT_ERR_INVALID_REPLICA_ASSIGNMENT },
        { { { 0, unknown, 1 } }, 1, OT_ERR_INVALID_REPLICA_ASSIGNMENT },
        { { { 0, one, 0 } }, 1, OT_ERR_INVALID_REPLICA_ASSIGNMENT },
        { { { 0, one, 1 }, { 1, twice, 2 } }, 2, OT_ERR_INVALID_REPLICA_ASSIGNMENT },
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(cases); i++) {
        char name[16];
        snprintf(name, sizeof name, "m%zu", i);
        struct coord_request ask = desk_create(name, -1);
        ask.u.topic.assignments = cases[i].rows;
        ask.u.topic.assignment_count = cases[i].count;
        desk_ask(desk, &ask);
        assert_int_equal(ask.error, cases[i].error);
        assert_true(ask.error == OT_OK || ask.text[0] != 0);
    }
    assert_int_equal(partition("m0", 1).leader, 1);
}

static void numbers_out_of_bounds_are_refused_with_numbers(void **state)
{
    (void)state;
    struct coord_request ask = desk_create("big", 10001);
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_POLICY_VIOLATION);
    assert_non_null(strstr(ask.text, "10000"));
    ask = desk_create("rf", 1);
    ask.u.topic.replication_factor = 3;
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_INVALID_REPLICATION_FACTOR);
    assert_non_null(strstr(ask.text, "3"));
    assert_non_null(strstr(ask.text, "1 broker is"));
    assert_int_equal(value()->row_count, 3);   /* cluster, voter, broker */
}

static void topics_are_made_and_grow_while_a_broker_is_away(void **state)
{
    (void)state;
    for (uint8_t id = 2; id <= 3; id++) assert_int_equal(desk_register(desk, id, id, COORD_BOOT_CLEAN), OT_OK);
    uint8_t room[4096];
    struct ot_arena arena;
    struct ot_coord_broker_row broker;
    ot_arena_init_with(&arena, room, sizeof room, 0);
    assert_int_equal(coord_broker_get(value(), 3, &arena, &broker), OT_OK);
    struct coord_request ask = { .ask = COORD_ASK_FENCE, .if_version = -1, .u.fence = { 3, broker.broker_epoch } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    ask = desk_create("three", 2);
    ask.u.topic.replication_factor = 3;
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    ask = (struct coord_request){ .ask = COORD_ASK_CREATE_PARTITIONS, .if_version = -1, .u.topic = { .name = ot_str_of("three"), .partition_count = 5 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    for (int32_t index = 0; index < 5; index++) {
        const struct coord_partition row = partition("three", index);
        assert_int_equal(row.replica_count, 3);
        assert_int_equal(row.replicas[2], 3);
        assert_int_equal(row.isr, 3);          /* the first two; the third has to come first */
        assert_int_equal(row.leader, row.replicas[0]);
    }
    ask = desk_create("four", 1);
    ask.u.topic.replication_factor = 4;
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_INVALID_REPLICATION_FACTOR);
    assert_int_equal(create("usual", 1), OT_OK);
    assert_int_equal(partition("usual", 0).replica_count, 2);  /* who does not say gets as many as live */
}

static void a_change_against_another_version_is_refused(void **state)
{
    (void)state;
    assert_int_equal(create("a", 1), OT_OK);
    struct ot_uuid id = id_of("a");
    struct ot_coord_topic_row topic;
    assert_int_equal(coord_topic_get(value(), &id, &topic), OT_OK);
    struct coord_config_change change = { ot_str_of("retention.ms"), ot_str_of("5") };
    struct coord_request ask = { .ask = COORD_ASK_CONFIGS, .if_version = topic.version + 1,
        .u.configs = { .scope = of_topic, .topic = ot_str_of("a"), .changes = &change, .change_count = 1 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_MISMATCH);
    ask.if_version = topic.version;
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    ask.if_version = topic.version;            /* two that read the same version: one of them loses */
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_MISMATCH);
    int64_t version = value()->stamp.version;
    assert_int_equal(configure(of_topic, "a", "retention.ms", "5"), OT_OK);
    assert_int_equal(value()->stamp.version, version);         /* the same value again is no change */
    struct coord_request gone = { .ask = COORD_ASK_DELETE_TOPIC, .if_version = topic.version, .u.topic = { .name = ot_str_of("a") } };
    desk_ask(desk, &gone);
    assert_int_equal(gone.error, OT_ERR_MISMATCH);
}

static void used_up_memory_refuses_growth_and_still_takes_deletions(void **state)
{
    (void)state;
    teardown(state);
    desk_pages_bytes = 1 << 20;
    assert_int_equal(setup(state), 0);
    desk_pages_bytes = 64 << 20;
    char name[32];
    int made = 0;
    enum ot_err err = OT_OK;
    for (; err == OT_OK && made < 2000; made += err == OT_OK) {
        snprintf(name, sizeof name, "full.%d", made);
        err = create(name, 20);
    }
    assert_int_equal(err, OT_ERR_POLICY_VIOLATION);
    assert_in_range(made, 100, 1900);
    for (int i = 0; i < made; i++) {
        snprintf(name, sizeof name, "full.%d", i);
        assert_int_equal(delete(name), OT_OK);
    }
    assert_int_equal(create("again", 20), OT_OK);
}

/* ---- configs */

static void min_isr_follows_its_config_in_the_same_publication(void **state)
{
    (void)state;
    for (uint8_t id = 2; id <= 3; id++) {
        assert_int_equal(desk_register(desk, id, id, COORD_BOOT_CLEAN), OT_OK);
    }
    assert_int_equal(create("a", 2), OT_OK);
    assert_int_equal(create("b", 1), OT_OK);
    assert_int_equal(partition("a", 1).replica_count, 3);      /* min(3, live brokers) */
    assert_int_equal(configure(of_cluster, "", "min.insync.replicas", "2"), OT_OK);
    assert_int_equal(partition("a", 1).min_isr, 2);
    assert_int_equal(configure(of_topic, "a", "min.insync.replicas", "9"), OT_OK);
    assert_int_equal(partition("a", 0).min_isr, 3);
    assert_int_equal(partition("b", 0).min_isr, 2);
    assert_int_equal(configure(of_topic, "a", "min.insync.replicas", NULL), OT_OK);
    assert_int_equal(partition("a", 0).min_isr, 2);
    assert_int_equal(create("c", 1), OT_OK);
    assert_int_equal(partition("c", 0).min_isr, 2);
}

static void replacing_all_configs_removes_what_is_not_named(void **state)
{
    (void)state;
    assert_int_equal(create("a", 1), OT_OK);
    assert_int_equal(configure(of_topic, "a", "retention.ms", "1"), OT_OK);
    assert_int_equal(configure(of_topic, "a", "segment.bytes", "1048576"), OT_OK);
    struct coord_config_change change = { ot_str_of("retention.bytes"), ot_str_of("7") };
    struct coord_request ask = { .ask = COORD_ASK_CONFIGS, .u.configs = { .scope = of_topic, .topic = ot_str_of("a"), .changes = &change, .change_count = 1,
        .replace_all = true } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    struct coord_scope scope = { .kind = COORD_SCOPE_TOPIC, .topic_id = id_of("a") };
    struct ot_str name, text;
    assert_int_equal(coord_config_next(value(), &scope, (struct ot_str){ 0 }, &name, &text), OT_OK);
    assert_true(ot_str_equal(name, ot_str_of("retention.bytes")));
    assert_int_equal(coord_config_next(value(), &scope, name, &name, &text), OT_ERR_NOT_FOUND);
    assert_int_equal(delete("a"), OT_OK);
    assert_int_equal(coord_config_next(value(), &scope, (struct ot_str){ 0 }, &name, &text), OT_ERR_NOT_FOUND);    /* they go with their topic */
}

static struct coord_scope of_group(const char *name) { return (struct coord_scope){ .kind = COORD_SCOPE_GROUP, .name = ot_str_of(name) }; }

/* Groups come and go under ever new names. */
static void a_group_without_configs_leaves_nothing_behind(void **state)
{
    (void)state;
    const uint64_t rows = value()->row_count;
    char name[32];
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "group-%d", i);
        assert_int_equal(configure(of_group(name), "", "consumer.session.timeout.ms", "50000"), OT_OK);
        assert_int_equal(configure(of_group(name), "", "consumer.heartbeat.interval.ms", "5000"), OT_OK);
        assert_int_equal(configure(of_group(name), "", "consumer.session.timeout.ms", NULL), OT_OK);
        assert_true(coord_config_version(value(), &(struct coord_scope){ .kind = COORD_SCOPE_GROUP, .name = ot_str_of(name) }) > 0);
        assert_int_equal(configure(of_group(name), "", "consumer.heartbeat.interval.ms", NULL), OT_OK);
    }
    assert_true(value()->row_count == rows);
}

static void configs_do_not_use_up_what_brokers_need(void **state)
{
    (void)state;
    teardown(state);
    desk_pages_bytes = 1 << 20;
    assert_int_equal(setup(state), 0);
    desk_pages_bytes = 64 << 20;
    char name[32], text[1200];
    int made = 0;
    enum ot_err err = OT_OK;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    for (; err == OT_OK && made < 2000; made += err == OT_OK) {
        snprintf(name, sizeof name, "group-%d", made);
        err = configure(of_group(name), "", "consumer.session.timeout.ms", text);
    }
    assert_int_equal(err, OT_ERR_POLICY_VIOLATION);
    assert_int_equal(configure(of_group("group-0"), "", "consumer.session.timeout.ms", "50000"), OT_OK);      /* what is there may change */
    assert_int_equal(desk_register(desk, 2, 2, COORD_BOOT_CLEAN), OT_OK);
    for (int i = 0; i < made; i++) {
        snprintf(name, sizeof name, "group-%d", i);
        assert_int_equal(configure(of_group(name), "", "consumer.session.timeout.ms", NULL), OT_OK);
    }
    assert_int_equal(configure(of_group("again"), "", "consumer.session.timeout.ms", "50000"), OT_OK);
}

static void producer_id_blocks_never_overlap_across_restarts(void **state)
{
    (void)state;
    int64_t next = 0;
    for (int i = 0; i < 30; i++) {
        struct coord_request ask = { .ask = COORD_ASK_PRODUCER_IDS, .u.producer_ids = { 1000 } };
        desk_ask(desk, &ask);
        assert_int_equal(ask.producer_id_first, next);
        next += 1000;
        if (i % 7 == 6) {
            desk_stop(desk);
            assert_int_equal(desk_start(desk, desk->record_count), OT_OK);
        }
    }
}

/* The row of partition 0 as another node, or a disk, might have it: nothing of it was asserted there. */
static enum ot_err check_with(const char *name, int64_t elr, int64_t successor, int32_t min_isr)
{
    uint8_t room[1024], data[1024];
    char text[200] = "";
    struct ot_coord_partition_row row;
    struct ot_arena arena;
    struct ot_blob bytes;
    int16_t version;
    struct ot_uuid id = id_of(name);
    struct coord_value changed = coord_value_share(value());
    struct coord_key key = { .bytes = 21, .data = { COORD_TABLE_PARTITION } };
    memcpy(key.data + 1, id.bytes, 16);
    key.data[17] = 0x80;
    assert_true(coord_value_get(&changed, coord_key_blob(&key), &bytes));
    ot_arena_init_with(&arena, room, sizeof room, 0);
    struct ot_reader in = ot_reader_over(bytes.data, bytes.bytes);
    assert_int_equal(ot_wire_framed_decode(&ot_coord_partition_row_message, &in, &arena, &row, &version, NULL), OT_OK);
    row.elr = elr;
    row.successor = successor;
    row.min_isr = min_isr;
    row.isr &= ~elr;
    struct ot_writer out = ot_writer_over(data, sizeof data);
    assert_int_equal(ot_wire_framed_encode(&ot_coord_partition_row_message, version, &row, &out), OT_OK);
    assert_int_equal(coord_value_set(&changed, coord_key_blob(&key), coord_blob(data, (size_t)(out.at - data))), OT_OK);
    const enum ot_err err = coord_rows_check(&changed, text, sizeof text);
    coord_value_drop(&changed);
    return err;
}

static void rows_that_no_coordinator_would_write_are_found(void **state)
{
    (void)state;
    assert_int_equal(desk_register(desk, 2, 2, COORD_BOOT_CLEAN), OT_OK);
    assert_int_equal(create("t", 1), OT_OK);
    const struct coord_partition row = partition("t", 0);
    const int64_t leader = (int64_t)coord_replica_bit(&row, row.leader), other = 3 & ~leader;
    assert_int_equal(row.replica_count, 2);
    assert_int_equal(check_with("t", 0, other, 1), OT_OK);
    assert_int_equal(check_with("t", other, 0, 2), OT_OK);
    assert_int_equal(check_with("t", 0, leader, 1), OT_ERR_CORRUPT);
    assert_int_equal(check_with("t", 0, 4, 1), OT_ERR_CORRUPT);
    assert_int_equal(check_with("t", other, 0, 1), OT_ERR_CORRUPT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(rows_that_no_coordinator_would_write_are_found),
        TEST(a_registration_fences_until_the_broker_has_applied_it),
        TEST(a_running_broker_may_tell_other_endpoints),
        TEST(a_machine_crash_of_a_sole_replica_needs_no_operator),
        TEST(a_durable_report_counts_only_under_its_epochs),
        TEST(of_several_durable_reports_each_counts_for_itself),
        TEST(a_name_remembers_the_epochs_of_its_former_topics),
        TEST(what_deleted_topics_leave_behind_is_bounded_and_keeps_its_promise),
        TEST(names_that_differ_in_dots_and_underscores_only_collide),
        TEST(assignments_are_checked_one_by_one),
        TEST(numbers_out_of_bounds_are_refused_with_numbers),
        TEST(topics_are_made_and_grow_while_a_broker_is_away),
        TEST(a_change_against_another_version_is_refused),
        TEST(used_up_memory_refuses_growth_and_still_takes_deletions),
        TEST(min_isr_follows_its_config_in_the_same_publication),
        TEST(replacing_all_configs_removes_what_is_not_named),
        TEST(a_group_without_configs_leaves_nothing_behind),
        TEST(configs_do_not_use_up_what_brokers_need),
        TEST(producer_id_blocks_never_overlap_across_restarts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
