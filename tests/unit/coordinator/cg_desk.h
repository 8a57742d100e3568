/* A consumer group under a clock that is told, with topics that are told, and a log of its records: after every call the log, compacted and not, is replayed into
 * a second group, which must be the same. */
#ifndef OT_TESTS_CG_DESK_H
#define OT_TESTS_CG_DESK_H

#include "base/wire/consumer_group_describe_response.h"
#include "base/wire/consumer_group_heartbeat_request.h"
#include "base/wire/consumer_group_heartbeat_response.h"
#include "coordinator/consumer_group.h"

enum { DESK_TOPICS = 16, DESK_LOG = 65536 };
struct desk_record { uint8_t *key, *value; uint32_t key_bytes, value_bytes; bool tombstone; };
struct desk {
    struct coord_cg *cg, *was;                 /* was: the one that became classic, which the words of that still point to */
    struct coord_cg_config config;
    struct coord_cg_topics topics;
    struct coord_cg_topic list[DESK_TOPICS];
    char names[DESK_TOPICS][32];
    bool there[DESK_TOPICS];
    int64_t now_us, wall_ms;
    struct ot_arena arena;
    struct coord_cg_call call;
    struct desk_record log[DESK_LOG];
    uint32_t log_count;
    bool ended;                                /* converted to classic: cg is NULL */
    bool quick;                                /* the log is not replayed after each call */
    bool may_break;                            /* memory is short: a call may leave the group to be loaded anew */
    struct ot_consumer_group_heartbeat_response answer;
};

static const enum coord_assignor desk_assignors[] = {COORD_ASSIGN_UNIFORM, COORD_ASSIGN_RANGE};

static bool desk_by_name(void *arg, struct ot_str name, struct coord_cg_topic *out)
{
    struct desk *desk = arg;
    for (int i = 0; i < DESK_TOPICS; i++) {
        if (!desk->there[i] || !ot_str_equal(name, desk->list[i].name)) continue;
        *out = desk->list[i];
        out->hash += coord_cg_topic_hash(&out->id, out->name, out->partition_count, NULL, NULL);   /* to what the test has put there */
        return true;
    }
    return false;
}

static bool desk_by_id(void *arg, const struct ot_uuid *id, struct coord_cg_topic *out)
{
    struct desk *desk = arg;
    for (int i = 0; i < DESK_TOPICS; i++) {
        if (!desk->there[i] || !ot_uuid_equal(id, &desk->list[i].id)) continue;
        *out = desk->list[i];
        return true;
    }
    return false;
}

static bool desk_next(void *arg, struct ot_str after, struct coord_cg_topic *out)
{
    struct desk *desk = arg;
    bool found = false;
    for (int i = 0; i < DESK_TOPICS; i++) {
        if (!desk->there[i] || (!after.null && strcmp(desk->names[i], after.data) <= 0)) continue;
        if (found && strcmp(desk->names[i], out->name.data) > 0) continue;
        *out = desk->list[i];
        found = true;
    }
    return found;
}

static void desk_topic(struct desk *desk, int at, const char *name, int32_t partition_count)
{
    (void)snprintf(desk->names[at], sizeof(desk->names[at]), "%s", name);
    desk->list[at].name = ot_str_of(desk->names[at]);
    desk->list[at].partition_count = partition_count;
    desk->list[at].id.bytes[0] = (uint8_t)(0x10 + at);
    desk->list[at].id.bytes[15] = (uint8_t)(desk->list[at].id.bytes[15] + !desk->there[at]); /* made anew: another id */
    desk->there[at] = true;
    desk->topics.version++;
    desk->topics.names_version = desk->topics.version;
}

__attribute__((unused)) static void desk_drop_topic(struct desk *desk, int at)
{
    desk->there[at] = false;
    desk->topics.version++;
    desk->topics.names_version = desk->topics.version;
}

static struct desk *desk_open(void)
{
    struct desk *desk = calloc(1, sizeof(*desk));
    desk->config = (struct coord_cg_config){.session_timeout_ms = 45000, .heartbeat_interval_ms = 5000, .assignment_interval_ms = 0, .size_max = 1000,
        .classic_size_max = 1000, .regex_refresh_ms = 600000, .migration = COORD_CG_UPGRADE | COORD_CG_DOWNGRADE, .assignors = desk_assignors,
        .assignor_count = 2, .record_bytes_max = 1 << 20};
    desk->topics = (struct coord_cg_topics){desk, 1, 1, desk_by_name, desk_by_id, desk_next};
    desk->now_us = 1000000;
    desk->wall_ms = 1700000000000;
    assert_int_equal(coord_cg_new(ot_str_of("g"), NULL, &desk->cg), OT_OK);
    ot_arena_init(&desk->arena, 64 << 20);
    return desk;
}

static void desk_close(struct desk *desk)
{
    coord_cg_free(desk->cg);
    coord_cg_free(desk->was);
    ot_arena_free(&desk->arena);
    for (uint32_t i = 0; i < desk->log_count; i++) {
        free(desk->log[i].key);
        free(desk->log[i].value);
    }
    free(desk);
}

static struct coord_cg_call *desk_call(struct desk *desk)
{
    ot_arena_reset(&desk->arena);
    memset(&desk->call, 0, sizeof(desk->call));
    desk->call = (struct coord_cg_call){.now_us = desk->now_us, .wall_ms = desk->wall_ms, .config = &desk->config, .topics = &desk->topics, .arena = &desk->arena};
    return &desk->call;
}

static void desk_pass(struct desk *desk, int64_t ms)
{
    desk->now_us += ms * 1000;
    desk->wall_ms += ms;
}

static void parts_same(const struct coord_cg_parts *a, const struct coord_cg_parts *b)
{
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        assert_memory_equal(&a->items[i].topic_id, &b->items[i].topic_id, 16);
        assert_int_equal(a->items[i].partition, b->items[i].partition);
        assert_int_equal(a->items[i].epoch, b->items[i].epoch);
    }
}

static bool desk_find(const struct coord_cg *cg, struct ot_str id, struct coord_cg_member_view *out)
{
    for (uint32_t at = 0; coord_cg_next_member(cg, &at, out);)
        if (ot_str_equal(out->member_id, id)) return true;
    return false;
}

static void groups_same(const struct coord_cg *a, const struct coord_cg *b)
{
    struct coord_cg_member_view x, y;
    assert_int_equal(coord_cg_member_count(a), coord_cg_member_count(b));
    assert_int_equal(coord_cg_epoch(a), coord_cg_epoch(b));
    assert_int_equal(coord_cg_state(a), coord_cg_state(b));
    for (uint32_t at = 0; coord_cg_next_member(a, &at, &x);) {
        assert_true(desk_find(b, x.member_id, &y));
        assert_true(ot_str_equal(x.instance_id, y.instance_id));
        assert_int_equal(x.epoch, y.epoch);
        assert_int_equal(x.previous_epoch, y.previous_epoch);
        assert_int_equal(x.state, y.state);
        assert_int_equal(x.classic, y.classic);
        parts_same(x.assigned, y.assigned);
        parts_same(x.revoking, y.revoking);
        parts_same(x.target, y.target);
    }
}

/* compacted: only the last record of each key, tombstones gone. */
static struct coord_cg *desk_replay(const struct desk *desk, bool compacted)
{
    struct coord_cg *cg;
    assert_int_equal(coord_cg_new(ot_str_of("g"), NULL, &cg), OT_OK);
    for (uint32_t i = 0; i < desk->log_count; i++) {
        const struct desk_record *r = &desk->log[i];
        bool last = true, gone;
        for (uint32_t k = i + 1; compacted && last && k < desk->log_count; k++)
            last = desk->log[k].key_bytes != r->key_bytes || memcmp(desk->log[k].key, r->key, r->key_bytes) != 0;
        if (compacted && (!last || r->tombstone)) continue;
        const struct ot_blob key = {r->key, r->key_bytes, false}, value = {r->value, r->value_bytes, r->tombstone};
        assert_int_equal(coord_cg_replay(cg, key, value, &gone), OT_OK);
    }
    return cg;
}

/* Exactly one owner, or none: what members have or still give up is disjoint. */
static void desk_owners(const struct coord_cg *cg)
{
    struct coord_cg_member_view x, y;
    for (uint32_t at = 0; coord_cg_next_member(cg, &at, &x);) {
        for (uint32_t with = at; coord_cg_next_member(cg, &with, &y);) {
            const struct coord_cg_parts *xs[] = {x.assigned, x.revoking}, *ys[] = {y.assigned, y.revoking};
            for (int i = 0; i < 4; i++)
                for (uint32_t a = 0; a < xs[i / 2]->count; a++)
                    for (uint32_t b = 0; b < ys[i % 2]->count; b++)
                        if (ot_uuid_equal(&xs[i / 2]->items[a].topic_id, &ys[i % 2]->items[b].topic_id))
                            assert_int_not_equal(xs[i / 2]->items[a].partition, ys[i % 2]->items[b].partition);
        }
    }
}

static void desk_log(struct desk *desk)
{
    for (const struct coord_cg_record *r = desk->call.records; r != NULL; r = r->next) {
        assert_true(desk->log_count < DESK_LOG);
        struct desk_record *to = &desk->log[desk->log_count++];
        *to = (struct desk_record){malloc(r->key.bytes), malloc(r->value.bytes + 1), r->key.bytes, r->value.bytes, r->value.null};
        memcpy(to->key, r->key.data, r->key.bytes);
        if (!r->value.null) memcpy(to->value, r->value.data, r->value.bytes);
    }
}

/* Takes the records of a call, and looks at everything that must always hold. */
static enum ot_err desk_done(struct desk *desk, enum ot_err err)
{
    assert_true(desk->may_break || !desk->call.broken);
    if (err != OT_OK) return err;
    desk_log(desk);
    if (desk->call.classic != NULL) {
        coord_cg_free(desk->was);
        desk->was = desk->cg;
        desk->cg = NULL;
        desk->ended = true;
        struct coord_cg *again = desk_replay(desk, false);
        assert_int_equal(coord_cg_member_count(again), 0);
        coord_cg_free(again);
        return OT_OK;
    }
    for (int i = 0; i < 2 && !desk->quick; i++) {
        struct coord_cg *again = desk_replay(desk, i == 1);
        groups_same(desk->cg, again);
        coord_cg_free(again);
    }
    desk_owners(desk->cg);
    return OT_OK;
}

/* The process died and comes back: the state is what the log says. */
__attribute__((unused)) static void desk_restart(struct desk *desk)
{
    coord_cg_free(desk->cg);
    desk->cg = desk_replay(desk, true);
    coord_cg_loaded(desk->cg, desk->now_us, &desk->config);
}

static enum ot_err desk_expire(struct desk *desk)
{
    return desk_done(desk, coord_cg_expire(desk->cg, desk_call(desk)));
}

static enum ot_err desk_beat(struct desk *desk, const struct ot_consumer_group_heartbeat_request *request)
{
    struct coord_cg_call *call = desk_call(desk);
    enum ot_err err = coord_cg_check(request, 1, call);
    if (err == OT_OK) err = coord_cg_heartbeat(desk->cg, call, request, ot_str_of("client"), ot_str_of("/127.0.0.1"), &desk->answer);
    return desk_done(desk, err);
}

/* ---- a consumer as clients build it: it asks, gives up what it is told to, then takes what it is given */

enum { BOT_PARTS = 512, BOT_TOPICS = 8 };
struct bot {
    char id[40];
    const char *instance, *regex, *assignor;
    const char *topics[BOT_TOPICS];
    int32_t epoch, rebalance_timeout_ms;
    struct coord_cg_part has[BOT_PARTS];       /* what it works on */
    uint32_t has_count;
    struct coord_cg_part told[BOT_PARTS];      /* what the group last said it should have */
    uint32_t told_count;
    bool say_all, say_owned_not;
};

static void bot_make(struct bot *bot, const char *id, const char *topic)
{
    memset(bot, 0, sizeof(*bot));
    (void)snprintf(bot->id, sizeof(bot->id), "%s", id);
    bot->topics[0] = topic;
    bot->rebalance_timeout_ms = 60000;
}

static bool bot_has(const struct coord_cg_part *list, uint32_t count, const struct coord_cg_part *part)
{
    for (uint32_t i = 0; i < count; i++)
        if (ot_uuid_equal(&list[i].topic_id, &part->topic_id) && list[i].partition == part->partition) return true;
    return false;
}

static void bot_take_answer(struct bot *bot, const struct ot_consumer_group_heartbeat_response *answer)
{
    bot->epoch = answer->member_epoch;
    if (answer->assignment == NULL) return;
    bot->told_count = 0;
    for (int32_t i = 0; i < answer->assignment->topic_partitions.count; i++)
        for (int32_t k = 0; k < answer->assignment->topic_partitions.items[i].partitions.count; k++) {
            assert_true(bot->told_count < BOT_PARTS);
            bot->told[bot->told_count++] = (struct coord_cg_part){answer->assignment->topic_partitions.items[i].topic_id,
                answer->assignment->topic_partitions.items[i].partitions.items[k], 0};
        }
}

/* Gives up what it was not told to have. True: there was something. */
static bool bot_revoke(struct bot *bot)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < bot->has_count; i++)
        if (bot_has(bot->told, bot->told_count, &bot->has[i])) bot->has[kept++] = bot->has[i];
    const bool some = kept < bot->has_count;
    bot->has_count = kept;
    return some;
}

static void bot_assign(struct bot *bot)
{
    (void)bot_revoke(bot);
    memcpy(bot->has, bot->told, bot->told_count * sizeof(*bot->has));
    bot->has_count = bot->told_count;
}

static enum ot_err bot_send(struct desk *desk, struct bot *bot, int32_t epoch)
{
    static struct ot_consumer_group_heartbeat_request_topic_partitions owned[BOT_PARTS];
    static int32_t numbers[BOT_PARTS];
    struct ot_str names[BOT_TOPICS];
    struct ot_consumer_group_heartbeat_request request;
    ot_consumer_group_heartbeat_request_defaults(&request);
    request.group_id = ot_str_of("g");
    request.member_id = ot_str_of(bot->id);
    request.member_epoch = epoch;
    request.instance_id = ot_str_of(bot->instance);
    if (epoch < 0) return desk_beat(desk, &request);
    if (epoch == 0 || bot->say_all) {
        request.rebalance_timeout_ms = bot->rebalance_timeout_ms;
        request.subscribed_topic_regex = ot_str_of(bot->regex);
        request.server_assignor = ot_str_of(bot->assignor);
        request.subscribed_topic_names.items = names;
        request.subscribed_topic_names.count = 0;
        for (int i = 0; i < BOT_TOPICS && bot->topics[i] != NULL; i++) names[request.subscribed_topic_names.count++] = ot_str_of(bot->topics[i]);
    }
    request.topic_partitions.items = owned;
    request.topic_partitions.count = epoch > 0 && bot->say_owned_not ? -1 : 0;
    for (uint32_t i = 0; epoch > 0 && !bot->say_owned_not && i < bot->has_count; i++) {
        memset(&owned[i], 0, sizeof(owned[i]));
        numbers[i] = bot->has[i].partition;
        owned[i].topic_id = bot->has[i].topic_id;
        owned[i].partitions = (struct ot_i32_array){&numbers[i], 1};
        request.topic_partitions.count++;
    }
    return desk_beat(desk, &request);
}

/* A whole turn: heartbeat, and do what it says. */
static enum ot_err bot_beat(struct desk *desk, struct bot *bot)
{
    if (bot->epoch == 0) bot->has_count = bot->told_count = 0;
    const enum ot_err err = bot_send(desk, bot, bot->epoch);
    if (err != OT_OK) return err;
    bot_take_answer(bot, &desk->answer);
    if (!bot_revoke(bot)) bot_assign(bot);
    return OT_OK;
}

__attribute__((unused)) static void bots_settle(struct desk *desk, struct bot *bots, int count)
{
    for (int round = 0; round < 6; round++)
        for (int i = 0; i < count; i++) assert_int_equal(bot_beat(desk, &bots[i]), OT_OK);
    assert_int_equal(coord_cg_state(desk->cg), COORD_CG_STABLE);
}

#endif
