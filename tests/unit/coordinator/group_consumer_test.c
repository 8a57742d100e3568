/* Consumer groups in the container of groups: both protocols in one group, conversions there and back, offsets that outlive them, time-outs, and the log. */
#include "testing.h"

#include "base/wire/consumer_group_describe_response.h"
#include "base/wire/consumer_group_heartbeat_request.h"
#include "base/wire/consumer_group_heartbeat_response.h"
#include "base/wire/consumer_protocol_assignment.h"
#include "base/wire/consumer_protocol_subscription.h"
#include "base/wire/join_group_request.h"
#include "base/wire/join_group_response.h"
#include "base/wire/leave_group_request.h"
#include "base/wire/leave_group_response.h"
#include "base/wire/sync_group_request.h"
#include "base/wire/sync_group_response.h"
#include "coordinator/consumer_group.h"
#include "coordinator/group.h"

enum { LOG_MAX = 4096 };
struct record { uint8_t *key, *value; uint32_t key_bytes, value_bytes; bool tombstone; };
struct world {
    struct group_set *set;
    struct ot_mem_pool pool;
    struct group_config config;
    struct consumer_group_config consumer;
    struct group_catalog catalog;
    int32_t partition_count;
    int64_t now_us, wall_ms;
    struct ot_arena step, answers;
    struct record log[LOG_MAX];
    uint32_t log_count;
};
static struct world w;
static const enum coord_assignor assignors[] = {COORD_ASSIGN_UNIFORM, COORD_ASSIGN_RANGE};

static bool by_name(const struct group_catalog *catalog, struct ot_str name, struct group_catalog_topic *out)
{
    (void)catalog;
    *out = (struct group_catalog_topic){ot_str_of("orders"), {{7}}, w.partition_count};
    return ot_str_equal(name, out->name);
}

static bool by_id(const struct group_catalog *catalog, const struct ot_uuid *id, struct group_catalog_topic *out)
{
    return by_name(catalog, ot_str_of("orders"), out) && ot_uuid_equal(id, &out->id);
}

static bool next(const struct group_catalog *catalog, struct ot_str after, struct group_catalog_topic *out)
{
    return after.null && by_name(catalog, ot_str_of("orders"), out);
}

static uint32_t racks(const struct group_catalog *catalog, const struct ot_uuid *id, int32_t partition, struct ot_str *out, uint32_t max)
{
    (void)catalog, (void)id, (void)max;
    out[0] = ot_str_of(partition % 2 == 0 ? "r1" : "r2");
    return 1;
}

static struct group_env env(void)
{
    return (struct group_env){.now_us = w.now_us, .wall_ms = w.wall_ms, .config = &w.config, .catalog = &w.catalog};
}

static int open_world(void **state)
{
    (void)state;
    memset(&w, 0, sizeof w);
    w.pool = (struct ot_mem_pool){.name = "groups", .cap_bytes = 64u << 20};
    w.consumer.all = (struct coord_cg_config){.session_timeout_ms = 45000, .heartbeat_interval_ms = 5000, .size_max = 100, .regex_refresh_ms = 600000,
        .migration = COORD_CG_UPGRADE | COORD_CG_DOWNGRADE, .assignors = assignors, .assignor_count = 2, .record_bytes_max = 1 << 20};
    w.config = (struct group_config){.session_timeout_min_ms = 6000, .session_timeout_max_ms = 1800000, .group_size_max = 100, .offset_metadata_bytes_max = 4096,
        .offsets_retention_ms = 604800000, .offsets_check_interval_ms = 600000, .record_bytes_max = 1 << 20, .consumer = &w.consumer};
    w.catalog = (struct group_catalog){.version = 1, .by_name = by_name, .by_id = by_id, .next = next, .racks = racks};
    w.partition_count = 4;
    w.now_us = 1000000;
    w.wall_ms = 1750000000000;
    ot_arena_init(&w.step, 64u << 20);
    ot_arena_init(&w.answers, 64u << 20);
    assert_int_equal(group_set_new(&w.pool, 1, &w.set), OT_OK);
    struct group_out out;
    const struct group_env e = env();
    group_out_init(&out, &w.step);
    group_set_loaded(w.set, &e, &out);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    struct group_out out;
    group_out_init(&out, &w.step);
    group_set_close(w.set, OT_ERR_NOT_COORDINATOR, &out);
    group_set_free(w.set);
    for (uint32_t i = 0; i < w.log_count; i++) {
        free(w.log[i].key);
        free(w.log[i].value);
    }
    ot_arena_free(&w.step);
    ot_arena_free(&w.answers);
    assert_int_equal(ot_mem_used_bytes(&w.pool), 0);
    return 0;
}

static uint32_t take(struct group_out *out)
{
    uint32_t answered = 0;
    assert_int_equal(out->fail, OT_OK);
    for (const struct group_record *r = out->records; r != NULL; r = r->next) {
        assert_true(w.log_count < LOG_MAX);
        struct record *to = &w.log[w.log_count++];
        *to = (struct record){malloc(r->key.bytes), malloc(r->value.bytes + 1), r->key.bytes, r->value.bytes, r->value.null};
        memcpy(to->key, r->key.data, r->key.bytes);
        if (!r->value.null) memcpy(to->value, r->value.data, r->value.bytes);
    }
    for (struct group_ask *a = out->answered; a != NULL; a = a->next) answered++;
    ot_arena_reset(&w.step);
    return answered;
}

/* How many asks were answered in this step: the one asked, and those that others waited with. */
static uint32_t ask(struct group_ask *a)
{
    struct group_out out;
    const struct group_env e = env();
    a->arena = &w.answers;
    if (a->client_id.data == NULL) a->client_id = ot_str_of("client");
    if (a->client_host.data == NULL) a->client_host = ot_str_of("/127.0.0.1");
    group_out_init(&out, &w.step);
    group_set_ask(w.set, &e, a, &out);
    return take(&out);
}

static void tick(void)
{
    struct group_out out;
    const struct group_env e = env();
    group_out_init(&out, &w.step);
    group_set_tick(w.set, &e, &out);
    (void)take(&out);
}

static void pass(int64_t ms)
{
    w.now_us += ms * 1000;
    w.wall_ms += ms;
    tick();
}

static struct group_list_row row_of(struct group_set *set, const char *id, bool *found)
{
    struct group_list list = {NULL, 0};
    struct group_ask a = {.kind = GROUP_ASK_LIST, .response = &list, .arena = &w.answers};
    struct group_out out;
    const struct group_env e = env();
    group_out_init(&out, &w.step);
    group_set_ask(set, &e, &a, &out);
    *found = false;
    for (uint32_t i = 0; i < list.count; i++) {
        if (!ot_str_equal(list.rows[i].id, ot_str_of(id))) continue;
        *found = true;
        return list.rows[i];
    }
    return (struct group_list_row){0};
}

/* What a restart would make of the log, whole and compacted, is what is. */
static void same_after_a_restart(const char *id)
{
    bool there, again;
    const struct group_list_row now = row_of(w.set, id, &there);
    for (int compacted = 0; compacted < 2; compacted++) {
        struct group_set *set;
        struct group_out out;
        const struct group_env e = env();
        assert_int_equal(group_set_new(&w.pool, 2, &set), OT_OK);
        for (uint32_t i = 0; i < w.log_count; i++) {
            const struct record *r = &w.log[i];
            bool last = true;
            for (uint32_t k = i + 1; compacted == 1 && last && k < w.log_count; k++)
                last = w.log[k].key_bytes != r->key_bytes || memcmp(w.log[k].key, r->key, r->key_bytes) != 0;
            if (compacted == 1 && (!last || r->tombstone)) continue;
            const struct group_set_record record = {i, -1, -1, false, {r->key, r->key_bytes, false}, {r->value, r->value_bytes, r->tombstone}};
            assert_int_equal(group_set_replay(set, &record), OT_OK);
        }
        group_out_init(&out, &w.step);
        group_set_loaded(set, &e, &out);
        const struct group_list_row loaded = row_of(set, id, &again);
        assert_int_equal(again, there);
        if (there) {
            assert_int_equal(loaded.type, now.type);
            assert_int_equal(loaded.member_count, now.member_count);
            if (now.type == GROUP_CONSUMER) assert_string_equal(loaded.state, now.state);
            if (now.type == GROUP_CONSUMER) assert_int_equal(loaded.generation, now.generation);
        }
        group_out_init(&out, &w.step);
        group_set_close(set, OT_ERR_NOT_COORDINATOR, &out);
        group_set_free(set);
        ot_arena_reset(&w.step);
    }
}

static void is(const char *id, enum group_type type, const char *state, uint32_t members)
{
    bool found;
    const struct group_list_row row = row_of(w.set, id, &found);
    assert_true(found);
    assert_int_equal(row.type, type);
    assert_string_equal(row.state, state);
    assert_int_equal(row.member_count, members);
    same_after_a_restart(id);
}

/* ---- a member of the new protocol */

static enum ot_err beat(const char *member, int32_t epoch, uint32_t has, struct ot_consumer_group_heartbeat_response *response)
{
    struct ot_consumer_group_heartbeat_request request;
    struct ot_str names[] = {ot_str_of("orders")};
    static struct ot_consumer_group_heartbeat_request_topic_partitions owned;
    static int32_t numbers[64];
    ot_consumer_group_heartbeat_request_defaults(&request);
    request.group_id = ot_str_of("g");
    request.member_id = ot_str_of(member);
    request.member_epoch = epoch;
    request.topic_partitions.count = 0;
    if (epoch >= 0) {
        request.rebalance_timeout_ms = 60000;
        request.subscribed_topic_names = (struct ot_str_array){names, 1};
    }
    owned = (struct ot_consumer_group_heartbeat_request_topic_partitions){.topic_id = {{7}}, .partitions = {numbers, 0}};
    for (int32_t p = 0; p < 32; p++)
        if (epoch > 0 && (has >> p & 1) != 0) numbers[owned.partitions.count++] = p;
    if (owned.partitions.count > 0) request.topic_partitions = (struct ot_consumer_group_heartbeat_request_topic_partitions_array){&owned, 1};
    struct group_ask a = {.kind = GROUP_ASK_CONSUMER_HEARTBEAT, .version = 1, .group_id = request.group_id, .request = &request, .response = response};
    (void)ask(&a);
    return a.error;
}

static uint32_t bits(const struct ot_consumer_group_heartbeat_response *response)
{
    uint32_t set = 0;
    for (int32_t t = 0; response->assignment != NULL && t < response->assignment->topic_partitions.count; t++)
        for (int32_t i = 0; i < response->assignment->topic_partitions.items[t].partitions.count; i++)
            set |= UINT32_C(1) << response->assignment->topic_partitions.items[t].partitions.items[i];
    return set;
}

struct fresh { const char *id; int32_t epoch; uint32_t has; };
static void turn(struct fresh *m)
{
    struct ot_consumer_group_heartbeat_response response;
    assert_int_equal(beat(m->id, m->epoch, m->has, &response), OT_OK);
    m->epoch = response.member_epoch;
    m->has = bits(&response);
}

/* ---- a member of the classic one, cooperative */

struct old { char id[64]; int32_t generation; uint32_t has; struct ot_join_group_response joined; struct group_ask join; struct ot_join_group_request request;
    struct ot_join_group_request_join_group_request_protocol protocol; uint8_t metadata[512]; };

static void old_join(struct old *o, uint32_t *answered)
{
    struct ot_consumer_protocol_subscription s;
    struct ot_str names[1] = {ot_str_of("orders")};
    struct ot_consumer_protocol_subscription_topic_partition owned = {.topic = ot_str_of("orders")};
    int32_t numbers[32];
    owned.partitions.items = numbers;
    for (int32_t p = 0; p < 32; p++)
        if ((o->has >> p & 1) != 0) numbers[owned.partitions.count++] = p;
    ot_consumer_protocol_subscription_defaults(&s);
    s.topics = (struct ot_str_array){names, 1};
    s.owned_partitions = (struct ot_consumer_protocol_subscription_topic_partition_array){&owned, owned.partitions.count > 0};
    struct ot_writer out = ot_writer_over(o->metadata, sizeof o->metadata);
    ot_write_u16(&out, 3);
    assert_int_equal(ot_consumer_protocol_subscription_encode(&s, 3, &out), OT_OK);
    ot_join_group_request_defaults(&o->request);
    o->protocol = (struct ot_join_group_request_join_group_request_protocol){.name = ot_str_of("cooperative-sticky"), .metadata = {o->metadata, (uint32_t)out.needed, false}};
    o->request.group_id = ot_str_of("g");
    o->request.session_timeout_ms = 10000;
    o->request.rebalance_timeout_ms = 60000;
    o->request.member_id = ot_str_of(o->id);
    o->request.protocol_type = ot_str_of("consumer");
    o->request.protocols.items = &o->protocol;
    o->request.protocols.count = 1;
    o->join = (struct group_ask){.kind = GROUP_ASK_JOIN, .version = 9, .group_id = o->request.group_id, .request = &o->request, .response = &o->joined};
    *answered = ask(&o->join);
}

static void old_named(struct old *o)
{
    (void)snprintf(o->id, sizeof o->id, "%.*s", (int)o->joined.member_id.bytes, o->joined.member_id.data);
}

static enum ot_err old_sync(struct old *o, struct ot_sync_group_request_sync_group_request_assignment *given, int32_t count)
{
    struct ot_sync_group_request request;
    struct ot_sync_group_response response;
    ot_sync_group_request_defaults(&request);
    request.group_id = ot_str_of("g");
    request.member_id = ot_str_of(o->id);
    request.generation_id = o->joined.generation_id;
    request.protocol_type = ot_str_of("consumer");
    request.protocol_name = ot_str_of("cooperative-sticky");
    request.assignments = (struct ot_sync_group_request_sync_group_request_assignment_array){given, count};
    struct group_ask a = {.kind = GROUP_ASK_SYNC, .version = 5, .group_id = request.group_id, .request = &request, .response = &response};
    assert_true(ask(&a) >= 1);
    if (a.error != OT_OK) return a.error;
    struct ot_consumer_protocol_assignment got;
    struct ot_reader in = ot_reader_over(response.assignment.data, response.assignment.bytes);
    const int16_t version = ot_read_i16(&in);
    o->has = 0;
    if (response.assignment.bytes == 0) return OT_OK;
    assert_int_equal(ot_consumer_protocol_assignment_decode(&got, version, &in, &w.answers, NULL), OT_OK);
    for (int32_t t = 0; t < got.assigned_partitions.count; t++)
        for (int32_t i = 0; i < got.assigned_partitions.items[t].partitions.count; i++) o->has |= UINT32_C(1) << got.assigned_partitions.items[t].partitions.items[i];
    return OT_OK;
}

static struct ot_blob blob_of(uint32_t has, uint8_t data[static 256])
{
    struct ot_consumer_protocol_assignment a;
    struct ot_consumer_protocol_assignment_topic_partition topic = {.topic = ot_str_of("orders")};
    int32_t numbers[32];
    topic.partitions.items = numbers;
    for (int32_t p = 0; p < 32; p++)
        if ((has >> p & 1) != 0) numbers[topic.partitions.count++] = p;
    ot_consumer_protocol_assignment_defaults(&a);
    a.assigned_partitions = (struct ot_consumer_protocol_assignment_topic_partition_array){&topic, 1};
    struct ot_writer out = ot_writer_over(data, 256);
    ot_write_u16(&out, 1);
    assert_int_equal(ot_consumer_protocol_assignment_encode(&a, 1, &out), OT_OK);
    return (struct ot_blob){data, (uint32_t)out.needed, false};
}

/* A classic group of one member, which leads it and gives itself everything. */
static void classic_group_of_one(struct old *o)
{
    uint32_t answered;
    uint8_t data[256];
    memset(o, 0, sizeof *o);
    old_join(o, &answered);
    assert_int_equal(o->join.error, OT_ERR_MEMBER_ID_REQUIRED);
    old_named(o);
    old_join(o, &answered);
    pass(1);
    assert_int_equal(o->joined.error_code, 0);
    struct ot_sync_group_request_sync_group_request_assignment given = {.member_id = ot_str_of(o->id), .assignment = blob_of(0xf, data)};
    assert_int_equal(old_sync(o, &given, 1), OT_OK);
    assert_int_equal(o->has, 0xf);
    is("g", GROUP_CLASSIC, "Stable", 1);
}

static enum ot_err commit(const char *member, int32_t epoch, int32_t partition, int64_t offset)
{
    struct group_part part = {.topic = ot_str_of("orders"), .topic_id = {{7}}, .partition = partition, .offset = offset, .leader_epoch = -1, .metadata = ot_str_of("")};
    struct group_ask a = {.kind = GROUP_ASK_OFFSET_COMMIT, .version = 9, .group_id = ot_str_of("g"), .parts = &part, .part_count = 1, .member_id = ot_str_of(member),
        .instance_id = {.null = true}, .generation = epoch, .retention_ms = -1, .producer_id = -1, .producer_epoch = -1};
    (void)ask(&a);
    return a.error != OT_OK ? a.error : part.error;
}

static int64_t committed(int32_t partition)
{
    struct group_part part = {.topic = ot_str_of("orders"), .topic_id = {{7}}, .partition = partition};
    struct group_ask a = {.kind = GROUP_ASK_OFFSET_FETCH, .version = 9, .group_id = ot_str_of("g"), .parts = &part, .part_count = 1, .member_id = ot_str_of(""),
        .instance_id = {.null = true}, .generation = -1};
    (void)ask(&a);
    assert_int_equal(a.error, OT_OK);
    return part.offset;
}

/* ---- */

static void a_classic_group_becomes_a_consumer_group_and_classic_again(void **state)
{
    (void)state;
    struct old o;
    struct fresh a = {"a", 0, 0};
    uint32_t answered;
    classic_group_of_one(&o);
    assert_int_equal(commit(o.id, o.joined.generation_id, 2, 77), OT_OK);
    turn(&a);
    is("g", GROUP_CONSUMER, "Reconciling", 2);
    assert_int_equal(committed(2), 77);
    assert_int_equal(a.has, 0);
    /* the classic member is told to join again, gives up half, and joins once more */
    for (int i = 0; i < 2; i++) {
        old_join(&o, &answered);
        assert_int_equal(answered, 1);
        assert_int_equal(o.joined.error_code, 0);
        assert_int_equal(old_sync(&o, NULL, 0), OT_OK);
    }
    assert_int_equal(__builtin_popcount(o.has), 2);
    turn(&a);
    assert_int_equal(__builtin_popcount(a.has), 2);
    assert_int_equal(a.has | o.has, 0xf);
    is("g", GROUP_CONSUMER, "Stable", 2);
    /* each protocol's commits are held to its own rules */
    assert_int_equal(commit(o.id, o.joined.generation_id, 0, 5), OT_OK);
    assert_int_equal(commit(o.id, o.joined.generation_id + 9, 0, 5), OT_ERR_ILLEGAL_GENERATION);
    assert_int_equal(commit("a", a.epoch, 3, 6), OT_OK);
    assert_int_equal(commit("a", a.epoch + 1, 3, 6), OT_ERR_STALE_MEMBER_EPOCH);
    assert_int_equal(commit("a", 1, 3, 6), OT_ERR_STALE_MEMBER_EPOCH);
    assert_int_equal(commit("nobody", 1, 3, 6), OT_ERR_UNKNOWN_MEMBER_ID);
    /* the last of the new protocol leaves */
    struct ot_consumer_group_heartbeat_response response;
    assert_int_equal(beat("a", -1, 0, &response), OT_OK);
    is("g", GROUP_CLASSIC, "PreparingRebalance", 1);
    assert_int_equal(committed(2), 77);
    assert_int_equal(committed(0), 5);
    old_join(&o, &answered);
    pass(1);
    assert_int_equal(o.joined.error_code, 0);
    assert_true(ot_str_equal(o.joined.leader, ot_str_of(o.id)));
    uint8_t data[256];
    struct ot_sync_group_request_sync_group_request_assignment given = {.member_id = ot_str_of(o.id), .assignment = blob_of(0xf, data)};
    assert_int_equal(old_sync(&o, &given, 1), OT_OK);
    is("g", GROUP_CLASSIC, "Stable", 1);
}

static void who_waits_in_the_classic_group_is_told_to_try_again(void **state)
{
    (void)state;
    struct old o, second;
    struct fresh a = {"a", 0, 0};
    uint32_t answered;
    classic_group_of_one(&o);
    memset(&second, 0, sizeof second);
    old_join(&second, &answered);
    old_named(&second);
    old_join(&second, &answered);
    assert_int_equal(answered, 0);                             /* waits for the first to join again */
    turn(&a);
    assert_int_equal(second.join.error, OT_ERR_REBALANCE_IN_PROGRESS);
    is("g", GROUP_CONSUMER, "Reconciling", 3);
}

static void an_empty_group_takes_the_type_of_who_comes(void **state)
{
    (void)state;
    struct old o;
    struct fresh a = {"a", 0, 0};
    struct ot_consumer_group_heartbeat_response response;
    uint32_t answered;
    assert_int_equal(commit("", -1, 1, 42), OT_OK);            /* offsets alone */
    is("g", GROUP_CLASSIC, "Empty", 0);
    turn(&a);
    is("g", GROUP_CONSUMER, "Stable", 1);
    assert_int_equal(committed(1), 42);
    assert_int_equal(beat("a", -1, 0, &response), OT_OK);
    is("g", GROUP_CONSUMER, "Empty", 0);
    assert_int_equal(commit("", -1, 1, 43), OT_OK);
    memset(&o, 0, sizeof o);
    old_join(&o, &answered);
    old_named(&o);
    old_join(&o, &answered);
    pass(1);
    assert_int_equal(o.joined.error_code, 0);
    bool found;
    assert_int_equal(row_of(w.set, "g", &found).type, GROUP_CLASSIC);
    assert_int_equal(committed(1), 43);
}

static void the_policy_may_forbid_it(void **state)
{
    (void)state;
    struct old o;
    struct fresh a = {"a", 0, 0};
    struct ot_consumer_group_heartbeat_response response;
    uint32_t answered;
    w.consumer.all.migration = COORD_CG_NO_MIGRATION;
    classic_group_of_one(&o);
    assert_int_equal(beat("a", 0, 0, &response), OT_ERR_GROUP_ID_NOT_FOUND);
    assert_true(response.error_message.bytes > 0);
    is("g", GROUP_CLASSIC, "Stable", 1);
    struct ot_leave_group_request leave;
    struct ot_leave_group_response left;
    struct ot_leave_group_request_member_identity who = {.member_id = ot_str_of(o.id), .group_instance_id = {.null = true}, .reason = {.null = true}};
    ot_leave_group_request_defaults(&leave);
    leave.group_id = ot_str_of("g");
    leave.members = (struct ot_leave_group_request_member_identity_array){&who, 1};
    struct group_ask l = {.kind = GROUP_ASK_LEAVE, .version = 5, .group_id = leave.group_id, .request = &leave, .response = &left};
    (void)ask(&l);
    pass(1);
    turn(&a);                                                  /* an empty one is nobody's */
    is("g", GROUP_CONSUMER, "Stable", 1);
    memset(&o, 0, sizeof o);
    (void)snprintf(o.id, sizeof o.id, "x");
    old_join(&o, &answered);
    assert_int_equal(o.join.error, OT_ERR_INCONSISTENT_GROUP_PROTOCOL);
}

static void time_puts_out_evicts_and_tells(void **state)
{
    (void)state;
    struct fresh members[] = {{"a", 0, 0}, {"b", 0, 0}};
    for (int i = 0; i < 5; i++)
        for (int m = 0; m < 2; m++) turn(&members[m]);
    is("g", GROUP_CONSUMER, "Stable", 2);
    pass(30000);
    turn(&members[1]);
    pass(20000);
    is("g", GROUP_CONSUMER, "Assigning", 1);
    turn(&members[1]);
    turn(&members[1]);
    assert_int_equal(members[1].has, 0xf);
    struct group_view view;
    struct group_ask v = {.kind = GROUP_ASK_VIEW, .group_id = ot_str_of("g"), .response = &view};
    (void)ask(&v);
    assert_int_equal(v.error, OT_OK);
    assert_true(view.event_count >= 3);
    assert_int_equal(view.events[0].reason, GROUP_REASON_JOINED);
    const struct group_event *last = &view.events[view.event_count - 1];
    assert_int_equal(last->reason, GROUP_REASON_EXPIRED);
    assert_int_equal(last->members_gone, 1);
    assert_int_equal(last->partitions, 4);
    assert_int_equal(last->partitions_moved, 2);
    assert_true(last->duration_ms >= 0);
    assert_int_equal(view.member_count, 1);
    assert_true(view.members[0].assignment.bytes > 0);
    assert_int_equal(view.members[0].epoch, members[1].epoch);
    struct group_ask no = {.kind = GROUP_ASK_DELETE, .group_id = ot_str_of("g")};
    (void)ask(&no);
    assert_int_equal(no.error, OT_ERR_NON_EMPTY_GROUP);
    struct group_ask evict = {.kind = GROUP_ASK_EVICT, .group_id = ot_str_of("g"), .member_id = ot_str_of("b"), .instance_id = {.null = true}};
    (void)ask(&evict);
    assert_int_equal(evict.error, OT_OK);
    is("g", GROUP_CONSUMER, "Empty", 0);
    struct group_ask gone = {.kind = GROUP_ASK_DELETE, .group_id = ot_str_of("g")};
    (void)ask(&gone);
    assert_int_equal(gone.error, OT_OK);
    bool found;
    (void)row_of(w.set, "g", &found);
    assert_false(found);
    same_after_a_restart("g");
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
TEST_MAIN(ONE(a_classic_group_becomes_a_consumer_group_and_classic_again), ONE(who_waits_in_the_classic_group_is_told_to_try_again),
    ONE(an_empty_group_takes_the_type_of_who_comes), ONE(the_policy_may_forbid_it), ONE(time_puts_out_evicts_and_tells))
