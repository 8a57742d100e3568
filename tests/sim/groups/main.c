/* Groups under a bad network: members join, commit, pause, crash and come back; messages are delayed, lost with their connection, and sent again; appends take time and fail;
 * some come twice, the second one seconds later; the coordinator restarts at any point and keeps only what was committed, and perhaps some of what was not. One seed decides
 * everything.
 *
 * What must hold: a partition has one owner per generation; what was told of a commit is there for ever, so an offset goes back only by a later commit; offsets are those of
 * the last commit in the log, also of a state that was just loaded; heartbeats and commits pass only of members, in the generation that there is; a state
 * between two assignments ends in time; once the trouble is over every group is stable, with all its live members and no partition twice; the log alone gives the same state. */
#include "../cluster/bugs.h"
#include "coordinator/group.h"

#include "base/util.h"
#include "base/wire/heartbeat_request.h"
#include "base/wire/heartbeat_response.h"
#include "base/wire/join_group_request.h"
#include "base/wire/join_group_response.h"
#include "base/wire/leave_group_request.h"
#include "base/wire/leave_group_response.h"
#include "base/wire/sync_group_request.h"
#include "base/wire/sync_group_response.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 8, PARTITIONS = 12, RECORDS_MAX = 200000, GENERATIONS_MAX = 4096, CALLS_MAX = 4096, SESSION_MS = 10000, REBALANCE_MS = 15000, DELAY_MS = 3000 };
#define S INT64_C(1000000)

enum what { ASK_JOIN, ASK_SYNC, ASK_BEAT, ASK_COMMIT, ASK_LEAVE, ASK_FETCH };
struct call {                                  /* a request and its answer, from the client to the machine and back */
    struct group_ask ask;
    struct call *next;
    enum what what;
    int client; uint32_t connection;           /* which connection of which client; an older one is closed: its answers go nowhere */
    int64_t due_us;                            /* at the server; then at the client */
    bool arrived, answered, told;
    int64_t wait_record;                       /* told when the log has this many records */
    int64_t record;                            /* of a commit: where it is */
    struct ot_arena arena;
    union { struct { struct ot_join_group_request r; struct ot_join_group_request_join_group_request_protocol p; } join;
        struct { struct ot_sync_group_request r; struct ot_sync_group_request_sync_group_request_assignment a[CLIENTS * 4]; uint8_t bytes[CLIENTS * 4][PARTITIONS]; } sync;
        struct ot_heartbeat_request beat; struct { struct ot_leave_group_request r; struct ot_leave_group_request_member_identity who; } leave; } request;
    union { struct ot_join_group_response join; struct ot_sync_group_response sync; struct ot_heartbeat_response beat; struct ot_leave_group_response leave; } response;
    struct group_part part;
};
enum life { GONE, IDLE, JOINING, SYNCING, STABLE };
struct client {
    enum life life;
    char member[128], instance[16];            /* instance "" : dynamic */
    int32_t generation;
    bool owns[PARTITIONS];
    uint32_t connection;
    struct call *open;                         /* one request at a time, as Kafka's connections work */
    int64_t give_up_us, next_us, paused_until_us;
    int64_t committed[PARTITIONS];
};
struct record { struct ot_blob key, value; int32_t partition; int64_t offset; };      /* partition -1: no commit */
struct sim {
    struct ot_rng rng;
    uint64_t seed;
    int64_t now_us;
    struct group_set *set;                     /* NULL: down */
    int64_t up_us;
    struct ot_mem_pool pool;
    struct group_config config;
    struct ot_arena step;
    struct record *records; int64_t record_count, committed_count;
    int64_t commit_due_us;
    struct call *calls;                        /* on their way, held, or answered and not told */
    uint32_t call_count;
    struct client clients[CLIENTS];
    int32_t owners[GENERATIONS_MAX][PARTITIONS];       /* client + 1 by generation */
    uint64_t meant[GENERATIONS_MAX][PARTITIONS];       /* for whom the leader of that generation meant it, by a hash of its instance or member id; 0: not said yet */
    int64_t acked_at[PARTITIONS];              /* record + 1 of the last commit told of */
    struct ot_arena words;                     /* texts in requests: some are sent twice */
    int64_t counter;
    bool calm, verbose, restless;              /* restless: rebalances follow each other, and what members say of assignments comes late */
    const char *bug;
    uint64_t stats_restarts, stats_generations, stats_commits, stats_twice;
};

static void fail(struct sim *sim, const char *format, ...) OT_PRINTF(2, 3);
static void fail(struct sim *sim, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "seed %llu at %.3f s: ", (unsigned long long)sim->seed, (double)sim->now_us / 1e6);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(1);
}

static bool bug(const struct sim *sim, const char *name) { return sim->bug != NULL && strcmp(sim->bug, name) == 0; }
static int64_t between(struct sim *sim, int64_t low, int64_t high) { return low + (int64_t)ot_rng_below(&sim->rng, (uint64_t)(high - low + 1)); }
static bool chance(struct sim *sim, double probability) { return ot_rng_chance(&sim->rng, sim->calm ? 0 : probability); }
static struct group_env env_of(const struct sim *sim) { return (struct group_env){ .now_us = sim->now_us, .wall_ms = 1750000000000 + sim->now_us / 1000, .config = &sim->config }; }

/* ---- the server */

static struct ot_blob keep(struct ot_blob from)
{
    uint8_t *copy = malloc(from.bytes + 1);
    if (copy == NULL) abort();
    if (from.bytes > 0) memcpy(copy, from.data, from.bytes);
    return (struct ot_blob){ copy, from.bytes, from.null };
}

static void take(struct sim *sim, struct group_out *out, struct call *cause)
{
    if (out->fail != OT_OK) fail(sim, "a step failed: %s", ot_err_name(out->fail));
    for (const struct group_record *record = out->records; record != NULL; record = record->next) {
        const bool commit = cause != NULL && cause->what == ASK_COMMIT;
        if (bug(sim, "lost-record") && commit && ot_rng_chance(&sim->rng, 0.05)) continue;
        if (sim->record_count == RECORDS_MAX) fail(sim, "too many records");
        if (commit) cause->record = sim->record_count;
        sim->records[sim->record_count++] = (struct record){ keep(record->key), keep(record->value), commit ? cause->part.partition : -1, commit ? cause->part.offset : -1 };
        if (sim->commit_due_us == INT64_MAX) sim->commit_due_us = sim->now_us + between(sim, 1000, 50000);
    }
    for (struct group_ask *ask = out->answered; ask != NULL; ask = ask->next) {
        struct call *call = OT_CONTAINER(ask, struct call, ask);
        call->answered = true;
        call->wait_record = bug(sim, "early-answer") ? 0 : sim->record_count;
    }
    ot_arena_reset(&sim->step);
}

static void go_down(struct sim *sim)
{
    struct group_out out;
    if (sim->set == NULL) return;
    group_out_init(&out, &sim->step);
    group_set_close(sim->set, OT_ERR_NOT_COORDINATOR, &out);
    group_set_free(sim->set);
    sim->set = NULL;
    if (ot_mem_used_bytes(&sim->pool) != 0) fail(sim, "%llu bytes were not given back", (unsigned long long)ot_mem_used_bytes(&sim->pool));
    const int64_t kept = sim->committed_count + (chance(sim, 0.5) ? between(sim, 0, sim->record_count - sim->committed_count) : 0);
    while (sim->record_count > kept) {
        sim->record_count--;
        free((void *)(uintptr_t)sim->records[sim->record_count].key.data);
        free((void *)(uintptr_t)sim->records[sim->record_count].value.data);
    }
    sim->committed_count = sim->record_count;  /* the next leader's log is committed as it is */
    sim->commit_due_us = INT64_MAX;
    for (struct call *call = sim->calls; call != NULL; call = call->next) {
        if (!call->arrived || call->told) continue;
        call->answered = true;                 /* it waited, or its answer did */
        call->ask.error = OT_ERR_NOT_COORDINATOR;
        call->wait_record = 0;
    }
    sim->up_us = sim->now_us + between(sim, 0, 3 * S);
    sim->stats_restarts++;
}

static struct group_set *load(struct sim *sim, struct ot_mem_pool *pool)
{
    struct group_set *set;
    if (group_set_new(pool, ot_rng_next(&sim->rng), &set) != OT_OK) abort();
    for (int64_t i = 0; i < sim->record_count; i++) {
        const struct group_set_record record = { i, -1, -1, false, sim->records[i].key, sim->records[i].value };
        if (group_set_replay(set, &record) != OT_OK) abort();
    }
    return set;
}

static int64_t last_commit(const struct sim *sim, int32_t partition, int64_t count)
{
    for (int64_t i = count; i > 0; i--)
        if (sim->records[i - 1].partition == partition) return sim->records[i - 1].offset;
    return -1;
}

/* What was loaded says of offsets what the log says. */
static void check_offsets(struct sim *sim)
{
    const struct group_env env = env_of(sim);
    struct group_out out;
    for (int32_t p = 0; p < PARTITIONS; p++) {
        struct group_part part = { .topic = ot_str_of("t"), .partition = p };
        struct group_ask fetch = { .kind = GROUP_ASK_OFFSET_FETCH, .group_id = ot_str_of("g"), .parts = &part, .part_count = 1, .arena = &sim->step, .generation = -1 };
        group_out_init(&out, &sim->step);
        group_set_ask(sim->set, &env, &fetch, &out);
        ot_arena_reset(&sim->step);
        const int64_t in_log = last_commit(sim, p, sim->record_count);
        if (part.offset != in_log) fail(sim, "partition %d was loaded at %lld, is at %lld in the log", p, (long long)part.offset, (long long)in_log);
    }
}

static void come_up(struct sim *sim)
{
    struct group_out out;
    const struct group_env env = env_of(sim);
    sim->set = load(sim, &sim->pool);
    group_out_init(&out, &sim->step);
    group_set_loaded(sim->set, &env, &out);
    take(sim, &out, NULL);
    check_offsets(sim);
}

/* Whoever passed as a member of the generation is one. */
static void check_member(struct sim *sim, const struct call *call)
{
    struct group_view view;
    struct ot_arena arena;
    struct group_out out;
    struct group_ask ask = { .kind = GROUP_ASK_VIEW, .group_id = ot_str_of("g"), .response = &view, .arena = &arena };
    const struct group_env env = env_of(sim);
    const struct ot_str member = call->what == ASK_BEAT ? call->request.beat.member_id : call->ask.member_id;
    const int32_t generation = call->what == ASK_BEAT ? call->request.beat.generation_id : call->ask.generation;
    bool found = false;
    ot_arena_init(&arena, 4u << 20);
    group_out_init(&out, &sim->step);
    group_set_ask(sim->set, &env, &ask, &out);
    ot_arena_reset(&sim->step);
    for (uint32_t i = 0; ask.error == OT_OK && i < view.member_count; i++) found |= ot_str_equal(view.members[i].member_id, member);
    if (!found) fail(sim, "%.*s passed and is no member", (int)member.bytes, member.data);
    if (view.generation != generation) fail(sim, "generation %d passed in generation %d", generation, view.generation);
    ot_arena_free(&arena);
}

static void arrive(struct sim *sim, struct call *call)
{
    struct group_out out;
    const struct group_env env = env_of(sim);
    call->arrived = true;
    if (sim->set == NULL) {
        call->answered = true;
        call->ask.error = OT_ERR_NOT_COORDINATOR;
        return;
    }
    group_out_init(&out, &sim->step);
    group_set_ask(sim->set, &env, &call->ask, &out);
    take(sim, &out, call);
    const bool passed = call->answered && call->ask.error == OT_OK;
    if (passed && (call->what == ASK_BEAT || (call->what == ASK_COMMIT && call->part.error == OT_OK))) check_member(sim, call);
}

static void check_states(struct sim *sim)
{
    struct group_view view;
    struct ot_arena arena;
    struct group_out out;
    struct group_ask ask = { .kind = GROUP_ASK_VIEW, .group_id = ot_str_of("g"), .response = &view, .arena = &arena };
    const struct group_env env = env_of(sim);
    if (sim->set == NULL) return;
    ot_arena_init(&arena, 4u << 20);
    group_out_init(&out, &sim->step);
    group_set_ask(sim->set, &env, &ask, &out);
    ot_arena_reset(&sim->step);
    const bool between_two = ask.error == OT_OK && strcmp(view.state, "Stable") != 0 && strcmp(view.state, "Empty") != 0;
    if (between_two && env.wall_ms - view.state_since_ms > REBALANCE_MS + DELAY_MS + 1000) fail(sim, "%s for %lld ms", view.state, (long long)(env.wall_ms - view.state_since_ms));
    ot_arena_free(&arena);
}

/* ---- clients */

static struct call *call_new(struct sim *sim, int index, enum what what, enum group_ask_kind kind)
{
    struct client *client = &sim->clients[index];
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL || ++sim->call_count > CALLS_MAX) fail(sim, "too many calls");
    ot_arena_init(&call->arena, 1u << 20);
    call->what = what;
    call->client = index;
    call->connection = client->connection;
    call->ask = (struct group_ask){ .kind = kind, .version = 9, .group_id = ot_str_of("g"), .client_id = ot_str_of("c"), .client_host = ot_str_of("/h"), .request = &call->request,
        .response = &call->response, .arena = &call->arena, .generation = -1, .member_id = ot_str_of(""), .instance_id.null = true, .retention_ms = -1, .producer_id = -1 };
    client->open = call;
    return call;
}

static struct ot_str copy(struct sim *sim, const char *text)
{
    const char *kept = ot_arena_str(&sim->words, ot_str_of(text));
    if (kept == NULL) abort();
    return ot_str_of(kept);
}

/* The same once more, later, on a connection that nobody listens to any more. */
static void send_twice(struct sim *sim, const struct call *call)
{
    struct call *twin = malloc(sizeof *twin);
    if (twin == NULL || ++sim->call_count > CALLS_MAX) fail(sim, "too many calls");
    memcpy(twin, call, sizeof *twin);
    ot_arena_init(&twin->arena, 1u << 20);
    twin->ask.request = &twin->request;
    twin->ask.response = &twin->response;
    twin->ask.arena = &twin->arena;
    if (twin->ask.parts != NULL) twin->ask.parts = &twin->part;
    if (twin->what == ASK_JOIN) twin->request.join.r.protocols.items = &twin->request.join.p;
    if (twin->what == ASK_LEAVE) twin->request.leave.r.members.items = &twin->request.leave.who;
    if (twin->what == ASK_SYNC) {
        twin->request.sync.r.assignments.items = twin->request.sync.a;
        for (int32_t i = 0; i < twin->request.sync.r.assignments.count; i++) twin->request.sync.a[i].assignment.data = twin->request.sync.bytes[i];
    }
    twin->connection = UINT32_MAX;
    twin->due_us = sim->now_us + between(sim, 100, 6 * S);
    twin->next = sim->calls;
    sim->calls = twin;
    sim->stats_twice++;
}

static void send(struct sim *sim, struct call *call, int64_t patience_us)
{
    struct client *client = &sim->clients[call->client];
    client->give_up_us = sim->now_us + patience_us;
    call->due_us = sim->now_us + between(sim, 100, chance(sim, 0.05) ? 2 * S : 3000);
    if (chance(sim, 0.02)) call->due_us = INT64_MAX;   /* the connection is dead, and nobody knows yet */
    if (sim->restless && call->what == ASK_SYNC && chance(sim, 0.3)) call->due_us = sim->now_us + between(sim, S, 6 * S);
    if (chance(sim, sim->restless && call->what == ASK_SYNC ? 0.3 : 0.03)) send_twice(sim, call);
    call->next = sim->calls;
    sim->calls = call;
}

static struct ot_str instance_of(struct sim *sim, int index)
{
    return sim->clients[index].instance[0] == 0 ? (struct ot_str){ .null = true } : copy(sim, sim->clients[index].instance);
}

static void send_join(struct sim *sim, int index)
{
    struct client *client = &sim->clients[index];
    struct call *call = call_new(sim, index, ASK_JOIN, GROUP_ASK_JOIN);
    struct ot_join_group_request *r = &call->request.join.r;
    ot_join_group_request_defaults(r);
    r->session_timeout_ms = SESSION_MS;
    r->rebalance_timeout_ms = REBALANCE_MS;
    r->member_id = copy(sim, client->member);
    r->group_instance_id = instance_of(sim, index);
    r->protocol_type = ot_str_of("consumer");
    call->request.join.p = (struct ot_join_group_request_join_group_request_protocol){ .name = ot_str_of("range"), .metadata = { (const uint8_t *)"x", 1, false } };
    r->protocols.items = &call->request.join.p;
    r->protocols.count = 1;
    client->life = JOINING;
    memset(client->owns, 0, sizeof client->owns);
    send(sim, call, (REBALANCE_MS + 5000) * INT64_C(1000));
}

static void send_sync(struct sim *sim, int index, const struct ot_join_group_response *joined)
{
    struct client *client = &sim->clients[index];
    struct call *call = call_new(sim, index, ASK_SYNC, GROUP_ASK_SYNC);
    struct ot_sync_group_request *r = &call->request.sync.r;
    ot_sync_group_request_defaults(r);
    r->generation_id = client->generation;
    r->member_id = copy(sim, client->member);
    r->group_instance_id = instance_of(sim, index);
    r->assignments.items = call->request.sync.a;
    for (int32_t i = 0; i < joined->members.count && i < CLIENTS * 4; i++) {
        uint32_t bytes = 0;
        const struct ot_str instance = joined->members.items[i].group_instance_id, id = instance.null ? joined->members.items[i].member_id : instance;
        for (int p = i; p < PARTITIONS; p += joined->members.count) {
            call->request.sync.bytes[i][bytes++] = (uint8_t)p;
            sim->meant[client->generation % GENERATIONS_MAX][p] = ot_hash64(id.data, id.bytes, 1) | 1;
        }
        char name[128];
        (void)snprintf(name, sizeof name, "%.*s", (int)joined->members.items[i].member_id.bytes, joined->members.items[i].member_id.data);
        call->request.sync.a[r->assignments.count++] = (struct ot_sync_group_request_sync_group_request_assignment){ .member_id = copy(sim, name),
            .assignment = { call->request.sync.bytes[i], bytes, false } };
    }
    client->life = SYNCING;
    send(sim, call, (REBALANCE_MS + 5000) * INT64_C(1000));
}

static void send_beat(struct sim *sim, int index)
{
    struct call *call = call_new(sim, index, ASK_BEAT, GROUP_ASK_HEARTBEAT);
    ot_heartbeat_request_defaults(&call->request.beat);
    call->request.beat.generation_id = sim->clients[index].generation;
    call->request.beat.member_id = copy(sim, sim->clients[index].member);
    call->request.beat.group_instance_id = instance_of(sim, index);
    send(sim, call, 3 * S);
}

static void send_commit(struct sim *sim, int index, int32_t partition)
{
    struct call *call = call_new(sim, index, ASK_COMMIT, GROUP_ASK_OFFSET_COMMIT);
    call->part = (struct group_part){ .topic = ot_str_of("t"), .partition = partition, .offset = ++sim->counter, .leader_epoch = -1, .metadata = ot_str_of("") };
    call->ask.parts = &call->part;
    call->ask.part_count = 1;
    call->ask.member_id = copy(sim, sim->clients[index].member);
    call->ask.instance_id = instance_of(sim, index);
    call->ask.generation = sim->clients[index].generation;
    send(sim, call, 3 * S);
}

static void send_fetch(struct sim *sim, int index, int32_t partition)
{
    struct call *call = call_new(sim, index, ASK_FETCH, GROUP_ASK_OFFSET_FETCH);
    call->part = (struct group_part){ .topic = ot_str_of("t"), .partition = partition };
    call->ask.parts = &call->part;
    call->ask.part_count = 1;
    send(sim, call, 3 * S);
}

static void send_leave(struct sim *sim, int index)
{
    struct call *call = call_new(sim, index, ASK_LEAVE, GROUP_ASK_LEAVE);
    ot_leave_group_request_defaults(&call->request.leave.r);
    call->request.leave.who = (struct ot_leave_group_request_member_identity){ .member_id = copy(sim, sim->clients[index].member), .group_instance_id = instance_of(sim, index), .reason.null = true };
    call->request.leave.r.members.items = &call->request.leave.who;
    call->request.leave.r.members.count = 1;
    send(sim, call, 3 * S);
}

static void forget_membership(struct client *client)
{
    client->member[0] = 0;
    client->generation = -1;
    client->life = IDLE;
    memset(client->owns, 0, sizeof client->owns);
}

static void joined(struct sim *sim, struct client *client, int index, const struct call *call)
{
    const struct ot_join_group_response *r = &call->response.join;
    switch (call->ask.error) {
    case OT_OK:
        (void)snprintf(client->member, sizeof client->member, "%.*s", (int)r->member_id.bytes, r->member_id.data);
        client->generation = r->generation_id;
        send_sync(sim, index, r);
        break;
    case OT_ERR_MEMBER_ID_REQUIRED:
        (void)snprintf(client->member, sizeof client->member, "%.*s", (int)r->member_id.bytes, r->member_id.data);
        client->life = IDLE;
        client->next_us = sim->now_us;
        break;
    case OT_ERR_UNKNOWN_MEMBER_ID:
    case OT_ERR_FENCED_INSTANCE_ID: forget_membership(client); break;
    default: client->life = IDLE; break;
    }
}

static void assigned(struct sim *sim, struct client *client, int index, const struct call *call)
{
    const struct ot_blob given = call->response.sync.assignment;
    if (call->ask.error == OT_ERR_UNKNOWN_MEMBER_ID || call->ask.error == OT_ERR_FENCED_INSTANCE_ID) {
        forget_membership(client);
        return;
    }
    client->life = call->ask.error == OT_OK ? STABLE : IDLE;
    if (call->ask.error != OT_OK) return;
    const int32_t generation = client->generation;
    if (generation >= GENERATIONS_MAX) fail(sim, "too many generations");
    sim->stats_generations = OT_MAX(sim->stats_generations, (uint64_t)generation);
    for (uint32_t i = 0; i < given.bytes; i++) {
        const uint8_t p = given.data[i];
        /* a static member that came back has the place of its old incarnation: the same name, whatever its id */
        const int32_t was = sim->owners[generation][p];
        const char *name = client->instance[0] != 0 ? client->instance : client->member;
        if (sim->meant[generation][p] != (ot_hash64(name, strlen(name), 1) | 1)) fail(sim, "partition %d of generation %d went to client %d, for whom it is not", p, generation, index);
        if (was != 0 && was != index + 1) fail(sim, "partition %d of generation %d went to client %d and to client %d", p, generation, was - 1, index);
        sim->owners[generation][p] = index + 1;
        client->owns[p] = true;
    }
    client->next_us = sim->now_us + between(sim, 10000, S);
}

static void told(struct sim *sim, struct call *call)
{
    struct client *client = &sim->clients[call->client];
    const enum ot_err err = call->ask.error;
    if (call->what == ASK_COMMIT && err == OT_OK && call->part.error == OT_OK) {
        /* whoever hears it or not: the log has it, for ever */
        const struct record *record = &sim->records[call->record];
        sim->stats_commits++;
        if (call->record >= sim->committed_count || record->partition != call->part.partition || record->offset != call->part.offset)
            fail(sim, "a commit was told and is not there");
        sim->acked_at[record->partition] = OT_MAX(sim->acked_at[record->partition], call->record + 1);
    }
    if (call->what == ASK_FETCH && err == OT_OK) {
        const int64_t in_log = last_commit(sim, call->part.partition, call->wait_record);
        if (call->part.offset != in_log) fail(sim, "partition %d is at %lld for a reader, at %lld in the log", call->part.partition, (long long)call->part.offset, (long long)in_log);
    }
    if (client->open != call || call->connection != client->connection) return;       /* nobody listens any more */
    client->open = NULL;
    client->next_us = sim->now_us + between(sim, 1000, 400000);
    if (err == OT_ERR_NOT_COORDINATOR) client->next_us = sim->now_us + between(sim, 50000, 300000);
    switch (call->what) {
    case ASK_JOIN: joined(sim, client, call->client, call); break;
    case ASK_SYNC: assigned(sim, client, call->client, call); break;
    case ASK_BEAT:
    case ASK_COMMIT:
        if (err == OT_ERR_REBALANCE_IN_PROGRESS && call->what == ASK_BEAT) client->life = IDLE;
        else if (err == OT_ERR_ILLEGAL_GENERATION) client->life = IDLE;
        else if (err == OT_ERR_UNKNOWN_MEMBER_ID || err == OT_ERR_FENCED_INSTANCE_ID) forget_membership(client);
        break;
    case ASK_LEAVE: forget_membership(client); break;
    case ASK_FETCH: break;
    }
}

/* ---- time */

static void client_turn(struct sim *sim, int index)
{
    struct client *client = &sim->clients[index];
    if (sim->now_us < client->paused_until_us) return;
    if (client->life != GONE && chance(sim, 0.0002)) {
        client->paused_until_us = sim->now_us + between(sim, 100000, 25 * S);
        return;
    }
    if (client->life != GONE && chance(sim, 0.00005)) {          /* killed */
        client->connection++;
        client->open = NULL;
        forget_membership(client);
        client->life = GONE;
        client->next_us = sim->now_us + between(sim, 0, 20 * S);
        return;
    }
    if (client->open != NULL && sim->now_us >= client->give_up_us) {     /* another connection, and try again */
        client->connection++;
        client->open = NULL;
        if (client->life == JOINING || client->life == SYNCING) client->life = IDLE;
        client->next_us = sim->now_us;
    }
    if (client->open != NULL || sim->now_us < client->next_us) return;
    if (client->life == GONE) forget_membership(client);
    if (client->life == IDLE) {
        send_join(sim, index);
    } else if (chance(sim, sim->restless ? 0.02 : 0.002)) {
        send_leave(sim, index);
    } else {
        const int32_t p = (int32_t)ot_rng_below(&sim->rng, PARTITIONS);
        if (client->owns[p] && ot_rng_chance(&sim->rng, 0.5)) send_commit(sim, index, p);
        else if (ot_rng_chance(&sim->rng, 0.2)) send_fetch(sim, index, p);
        else send_beat(sim, index);
    }
}

static void call_free(struct sim *sim, struct call *call)
{
    ot_arena_free(&call->arena);
    free(call);
    sim->call_count--;
}

static void network_turn(struct sim *sim)
{
    for (struct call **at = &sim->calls; *at != NULL;) {
        struct call *call = *at;
        if (!call->arrived && call->due_us == INT64_MAX && sim->clients[call->client].connection != call->connection) call->told = true;
        if (!call->arrived && call->due_us <= sim->now_us) arrive(sim, call);
        const bool answered = call->arrived && call->answered && call->wait_record <= sim->committed_count;
        if (!answered && !call->told) {
            at = &call->next;
            continue;
        }
        *at = call->next;                      /* before it is told: the client may send at once */
        if (answered) told(sim, call);
        call_free(sim, call);
    }
}

static void server_turn(struct sim *sim)
{
    struct group_out out;
    if (sim->set == NULL && sim->now_us >= sim->up_us) come_up(sim);
    if (sim->now_us >= sim->commit_due_us) {
        if (chance(sim, 0.005)) {              /* the append failed: the state is loaded anew */
            go_down(sim);
            return;
        }
        sim->committed_count = sim->record_count;
        sim->commit_due_us = INT64_MAX;
    }
    if (sim->set != NULL && chance(sim, 0.0002)) go_down(sim);
    if (sim->set == NULL || group_set_deadline_us(sim->set) > sim->now_us || bug(sim, "no-timers")) return;
    const struct group_env env = env_of(sim);
    group_out_init(&out, &sim->step);
    group_set_tick(sim->set, &env, &out);
    take(sim, &out, NULL);
}

static void run_for(struct sim *sim, int64_t us)
{
    const int64_t end_us = sim->now_us + us;
    for (int64_t turn = 0; sim->now_us < end_us; turn++) {
        sim->now_us += 5000;
        server_turn(sim);
        network_turn(sim);
        for (int i = 0; i < CLIENTS; i++) client_turn(sim, i);
        if (turn % 100 == 0) check_states(sim);
    }
}

/* ---- the end */

static void check_calm(struct sim *sim)
{
    int32_t owner[PARTITIONS];
    memset(owner, -1, sizeof owner);
    for (int i = 0; i < CLIENTS; i++) {
        const struct client *client = &sim->clients[i];
        if (client->life != STABLE) fail(sim, "client %d is not stable after all trouble was over (%d)", i, client->life);
        for (int p = 0; p < PARTITIONS; p++) {
            if (!client->owns[p]) continue;
            if (owner[p] >= 0) fail(sim, "partition %d is owned by %d and by %d", p, owner[p], i);
            owner[p] = i;
        }
    }
    for (int p = 0; p < PARTITIONS; p++)
        if (owner[p] < 0) fail(sim, "nobody owns partition %d", p);
}

static void view_text(struct sim *sim, struct group_set *set, char *out, size_t cap)
{
    struct group_view view;
    struct ot_arena arena;
    struct group_out step;
    struct group_ask ask = { .kind = GROUP_ASK_VIEW, .group_id = ot_str_of("g"), .response = &view, .arena = &arena };
    const struct group_env env = env_of(sim);
    ot_arena_init(&arena, 4u << 20);
    group_out_init(&step, &sim->step);
    group_set_ask(set, &env, &ask, &step);
    ot_arena_reset(&sim->step);
    if (ask.error != OT_OK) fail(sim, "the group is gone");
    size_t used = (size_t)snprintf(out, cap, "%s %d %.*s\n", view.state, view.generation, (int)view.protocol.bytes, view.protocol.data);
    for (uint32_t i = 0; i < view.member_count; i++)
        used += (size_t)snprintf(out + used, cap - used, "%.*s %.*s %u\n", (int)view.members[i].member_id.bytes, view.members[i].member_id.data,
            (int)view.members[i].instance_id.bytes, view.members[i].instance_id.data, view.members[i].assignment.bytes);
    for (int32_t p = 0; p < PARTITIONS; p++) {
        struct group_part part = { .topic = ot_str_of("t"), .partition = p };
        struct group_ask fetch = { .kind = GROUP_ASK_OFFSET_FETCH, .group_id = ot_str_of("g"), .parts = &part, .part_count = 1, .arena = &arena, .generation = -1 };
        group_out_init(&step, &sim->step);
        group_set_ask(set, &env, &fetch, &step);
        ot_arena_reset(&sim->step);
        used += (size_t)snprintf(out + used, cap - used, "%d=%lld ", p, (long long)part.offset);
    }
    ot_arena_free(&arena);
}

static void check_log(struct sim *sim)
{
    static char live[16384], loaded[16384];
    struct ot_mem_pool pool = { .name = "again", .cap_bytes = 64u << 20 };
    struct group_out out;
    struct group_set *again = load(sim, &pool);
    const struct group_env env = env_of(sim);
    group_out_init(&out, &sim->step);
    group_set_loaded(again, &env, &out);
    ot_arena_reset(&sim->step);
    view_text(sim, sim->set, live, sizeof live);
    view_text(sim, again, loaded, sizeof loaded);
    if (strcmp(live, loaded) != 0) fail(sim, "the log tells another state:\n%s\nand not\n%s", loaded, live);
    group_out_init(&out, &sim->step);
    group_set_close(again, OT_ERR_NOT_COORDINATOR, &out);
    group_set_free(again);
}

static void run_seed(uint64_t seed, const char *bug_name, bool verbose)
{
    struct sim *sim = calloc(1, sizeof *sim);
    if (sim == NULL) abort();
    sim->seed = seed;
    sim->bug = bug_name;
    ot_rng_seed(&sim->rng, seed);
    sim->pool = (struct ot_mem_pool){ .name = "groups", .cap_bytes = 64u << 20 };
    sim->config = (struct group_config){ .initial_rebalance_delay_ms = DELAY_MS, .session_timeout_min_ms = 6000, .session_timeout_max_ms = 1800000, .group_size_max = 1000,
        .offset_metadata_bytes_max = 4096, .offsets_retention_ms = 604800000, .offsets_check_interval_ms = 60000, .record_bytes_max = 1 << 20 };
    sim->records = calloc(RECORDS_MAX, sizeof *sim->records);
    sim->commit_due_us = INT64_MAX;
    sim->restless = ot_rng_chance(&sim->rng, 0.3);
    ot_arena_init(&sim->step, 64u << 20);
    ot_arena_init(&sim->words, 256u << 20);
    come_up(sim);
    for (int i = 0; i < CLIENTS; i++) {
        forget_membership(&sim->clients[i]);
        sim->clients[i].next_us = between(sim, 0, 5 * S);
        if (ot_rng_chance(&sim->rng, 0.3)) (void)snprintf(sim->clients[i].instance, sizeof sim->clients[i].instance, "i%d", i);
    }
    run_for(sim, 120 * S);
    sim->calm = true;
    for (int i = 0; i < CLIENTS; i++) sim->clients[i].paused_until_us = 0;
    run_for(sim, (3 * REBALANCE_MS + 2 * SESSION_MS + 60000) * INT64_C(1000));
    if (sim->set == NULL) fail(sim, "the server did not come up");
    check_calm(sim);
    run_for(sim, S);
    check_log(sim);
    for (int p = 0; p < PARTITIONS; p++)
        if (sim->acked_at[p] > 0 && sim->records[sim->acked_at[p] - 1].partition != p) fail(sim, "commits of partition %d are gone", p);
    if (verbose)
        printf("seed %llu: %llu restarts, %llu generations, %llu commits, %lld records, %llu sent twice\n", (unsigned long long)seed, (unsigned long long)sim->stats_restarts,
            (unsigned long long)sim->stats_generations, (unsigned long long)sim->stats_commits, (long long)sim->record_count, (unsigned long long)sim->stats_twice);
    sim->calm = true;
    go_down(sim);
    for (struct call *call = sim->calls, *next; call != NULL; call = next) {
        next = call->next;
        call_free(sim, call);
    }
    for (int64_t i = 0; i < sim->record_count; i++) {
        free((void *)(uintptr_t)sim->records[i].key.data);
        free((void *)(uintptr_t)sim->records[i].value.data);
    }
    ot_arena_free(&sim->step);
    ot_arena_free(&sim->words);
    free(sim->records);
    free(sim);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, count = 1;
    const char *bug_name = NULL;
    bool verbose = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) first = strtoull(argv[++i], NULL, 10), verbose = true;
        else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) count = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--bug") == 0 && i + 1 < argc) bug_name = argv[++i];
        else return fprintf(stderr, "usage: %s [--seed N] [--seeds N] [--bug early-answer|lost-record|no-timers|commit-any-generation|sync-any-generation|silent-stay]\n", argv[0]), 2;
    }
    if (bug_name != NULL) (void)coord_bug_choose(bug_name);     /* else it is one of ours */
    for (uint64_t seed = first; seed < first + count; seed++) run_seed(seed, bug_name, verbose);
    printf("%llu seeds: groups kept their promises\n", (unsigned long long)count);
    return 0;
}
