/* ottla_sim_consumer [--seeds N] [--first N] [--seed N] [--bug NAME]: consumer groups of the new protocol under lost, late and repeated messages, members that pause, crash, come back as
 * static ones or do not give up, topics that come, grow and go, and coordinators that die with what was not yet committed.
 *
 * Always: members whose epoch counts hold disjoint partitions, and what the group says of owners is disjoint. After the faults end, within the largest time-out: the
 * group is stable, every partition of a subscribed topic is worked on, and by the one who should. A failing seed replays exactly. */
#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed_now;
static const char *bug_now = "";
static void sim_check(bool fact, const char *words, int line)
{
    if (fact) return;
    fprintf(stderr, "seed %llu: line %d: %s\n", (unsigned long long)seed_now, line, words);
    exit(1);
}
#define assert_true(x)              sim_check(x, #x, __LINE__)
#define assert_false(x)             sim_check(!(x), "not " #x, __LINE__)
#define assert_int_equal(a, b)      sim_check((a) == (b), #a " == " #b, __LINE__)
#define assert_int_not_equal(a, b)  sim_check((a) != (b), #a " != " #b, __LINE__)
#define assert_memory_equal(a, b, n) sim_check(memcmp(a, b, n) == 0, #a " is " #b, __LINE__)
#include "../unit/coordinator/cg_desk.h"

/* ---- known bugs, put in between the objects: each must be found */
const struct cg_member *__wrap_cg_owner(const struct coord_cg *cg, const struct ot_uuid *topic_id, int32_t partition);
const struct cg_member *__real_cg_owner(const struct coord_cg *cg, const struct ot_uuid *topic_id, int32_t partition);
const struct cg_member *__wrap_cg_owner(const struct coord_cg *cg, const struct ot_uuid *topic_id, int32_t partition)
{
    return strcmp(bug_now, "forgets-owners") == 0 ? NULL : __real_cg_owner(cg, topic_id, partition);
}
bool __wrap_cg_parts_meet(const struct coord_cg_parts *a, const struct coord_cg_parts *b);
bool __real_cg_parts_meet(const struct coord_cg_parts *a, const struct coord_cg_parts *b);
bool __wrap_cg_parts_meet(const struct coord_cg_parts *a, const struct coord_cg_parts *b)
{
    return strcmp(bug_now, "takes-back-at-once") != 0 && __real_cg_parts_meet(a, b);
}
enum ot_err __wrap_coord_cg_expire(struct coord_cg *cg, struct coord_cg_call *call);
enum ot_err __real_coord_cg_expire(struct coord_cg *cg, struct coord_cg_call *call);
enum ot_err __wrap_coord_cg_expire(struct coord_cg *cg, struct coord_cg_call *call)
{
    return strcmp(bug_now, "waits-for-ever") == 0 ? OT_OK : __real_coord_cg_expire(cg, call);
}

enum { BOTS = 7, STEP_MS = 100, FAULTY_STEPS = 3000, QUIET_STEPS = 1200, SESSION_MS = 12000, REBALANCE_MS = 15000, INTERVAL_MS = 3000, OPEN_MAX = 64 };

struct open_call {                              /* a request on its way to the group, or its answer on its way back */
    bool busy, answered;
    int bot;
    uint64_t number;                            /* of the bot's request: an answer to another one is too late */
    int64_t at_us;
    struct bot sent;                            /* as the request has it */
    int32_t epoch;
    uint32_t log_end;                           /* committed when the log was that long */
    enum ot_err err;
    struct bot answer;                          /* epoch and told */
    bool has_assignment;
};
struct runner {
    struct bot bot;
    bool up, owned_changed, unsure /* the last answer did not come: say and ask for everything */, stubborn;
    int64_t paused_until_us, next_us, asked_us, revoke_at_us;
    uint64_t number;
    uint32_t lives;
};
struct sim {
    struct desk *desk;
    struct ot_rng rng;
    struct runner runners[BOTS];
    struct open_call calls[OPEN_MAX];
    int64_t commit_us[DESK_LOG];                /* when a record is committed */
    bool faults;
};

static bool chance(struct sim *sim, double p) { return sim->faults && ot_rng_chance(&sim->rng, p); }
static int64_t between(struct sim *sim, int64_t low, int64_t high) { return low + (int64_t)ot_rng_below(&sim->rng, (uint64_t)(high - low + 1)); }

static void runner_start(struct sim *sim, int i)
{
    static const char *const topics[] = {"t0", "t1", "t2", "t3"};
    struct runner *r = &sim->runners[i];
    const char *instance = r->bot.instance;
    char id[40];
    (void)snprintf(id, sizeof(id), "m%d-%u", i, ++r->lives);
    bot_make(&r->bot, id, topics[ot_rng_below(&sim->rng, 4)]);
    r->bot.instance = instance;
    r->bot.rebalance_timeout_ms = REBALANCE_MS;
    if (ot_rng_chance(&sim->rng, 0.3)) r->bot.topics[1] = topics[ot_rng_below(&sim->rng, 4)];
    if (ot_rng_chance(&sim->rng, 0.2)) {
        r->bot.regex = ot_rng_chance(&sim->rng, 0.5) ? "t[02]" : "t.*";
        r->bot.topics[0] = r->bot.topics[1] = NULL;
    }
    r->bot.assignor = ot_rng_chance(&sim->rng, 0.2) ? "range" : NULL;
    r->up = true;
    r->owned_changed = true;
    r->stubborn = chance(sim, 0.1);
    r->number++;
    r->asked_us = r->revoke_at_us = 0;
    r->next_us = sim->desk->now_us + between(sim, 0, 2000) * 1000;
}

static void call_arrives(struct sim *sim, struct open_call *call);

/* A request that was given up went down with its connection: it arrives before the next one or never. */
static void send_call(struct sim *sim, int i, int32_t epoch)
{
    struct runner *r = &sim->runners[i];
    for (int k = 0; k < OPEN_MAX; k++) {
        struct open_call *call = &sim->calls[k];
        if (!call->busy || call->answered || call->bot != i) continue;
        if (chance(sim, 0.5)) call_arrives(sim, call);
        call->busy = false;
    }
    for (int k = 0; k < OPEN_MAX; k++) {
        struct open_call *call = &sim->calls[k];
        if (call->busy) continue;
        *call = (struct open_call){.busy = true, .bot = i, .number = ++r->number, .sent = r->bot, .epoch = epoch};
        for (uint32_t t = 0; r->revoke_at_us != 0 && t < r->bot.told_count; t++)        /* what it is about to take it counts as its own */
            if (!bot_has(call->sent.has, call->sent.has_count, &r->bot.told[t])) call->sent.has[call->sent.has_count++] = r->bot.told[t];
        call->at_us = sim->desk->now_us + (chance(sim, 0.1) ? between(sim, 0, 20000) : between(sim, 0, 50)) * 1000;
        call->sent.say_owned_not = epoch > 0 && !r->owned_changed && ot_rng_chance(&sim->rng, 0.8);
        call->sent.say_all = r->unsure || (r->owned_changed && ot_rng_chance(&sim->rng, 0.3));
        if (chance(sim, 0.03)) call->busy = false;              /* lost */
        r->asked_us = sim->desk->now_us;
        return;
    }
}

static void runner_step(struct sim *sim, int i)
{
    struct runner *r = &sim->runners[i];
    const int64_t now_us = sim->desk->now_us;
    if (!r->up) {
        if (now_us >= r->next_us && (sim->faults || r->next_us > 0)) runner_start(sim, i);
        return;
    }
    if (now_us < r->paused_until_us) return;
    if (r->revoke_at_us != 0 && now_us >= r->revoke_at_us && !(r->stubborn && sim->faults)) {
        r->revoke_at_us = 0;
        if (bot_revoke(&r->bot)) r->owned_changed = true;
        bot_assign(&r->bot);                                    /* all of it is its own already */
        r->next_us = now_us;
    }
    if (r->asked_us != 0 && now_us - r->asked_us > 5000000) {   /* no answer: ask again, and say everything */
        r->asked_us = 0;
        r->owned_changed = r->unsure = true;
        r->next_us = now_us;
    }
    if (r->asked_us == 0 && now_us >= r->next_us) send_call(sim, i, r->bot.epoch);
}

static void answer_arrives(struct sim *sim, struct open_call *call)
{
    struct runner *r = &sim->runners[call->bot];
    const int64_t now_us = sim->desk->now_us;
    call->busy = false;
    if (!r->up || r->number != call->number || call->epoch < 0) return;
    if (now_us < r->paused_until_us) {                          /* it lies in the socket meanwhile */
        call->busy = true;
        call->at_us = r->paused_until_us;
        return;
    }
    r->asked_us = 0;
    r->next_us = now_us + INTERVAL_MS * 1000;
    if (call->err != OT_OK) {
        r->owned_changed = r->unsure = true;
        if (call->err == OT_ERR_FENCED_MEMBER_EPOCH || call->err == OT_ERR_UNKNOWN_MEMBER_ID || call->err == OT_ERR_GROUP_ID_NOT_FOUND) {
            r->bot.epoch = 0;
            r->bot.has_count = r->bot.told_count = 0;
            r->revoke_at_us = 0;
            r->next_us = now_us;
        } else if (call->err == OT_ERR_FENCED_INSTANCE_ID) {
            r->up = false;                                      /* another has its place; somebody starts it again */
            r->bot.has_count = 0;
        }
        return;
    }
    r->bot.epoch = call->answer.epoch;
    if (!call->sent.say_owned_not) r->owned_changed = false;
    r->unsure = false;
    if (!call->has_assignment) return;
    memcpy(r->bot.told, call->answer.told, sizeof(r->bot.told));
    r->bot.told_count = call->answer.told_count;
    r->revoke_at_us = now_us + (chance(sim, 0.1) ? between(sim, 1, 12000) : between(sim, 1, 300)) * 1000;
}

static void call_arrives(struct sim *sim, struct open_call *call)
{
    struct desk *d = sim->desk;
    const uint32_t before = d->log_count;
    /* it came twice: once on a connection that is dead. Neither answer is heard: one that is heard after another was lost would hide that there was something to be told */
    const bool twice = coord_cg_member_count(d->cg) > 0 && chance(sim, 0.03);
    if (twice) (void)bot_send(d, &call->sent, call->epoch);
    if (coord_cg_member_count(d->cg) == 0 && call->epoch != 0) call->err = OT_ERR_GROUP_ID_NOT_FOUND;
    else call->err = bot_send(d, &call->sent, call->epoch);
    if (call->err == OT_OK && call->epoch >= 0) {
        call->has_assignment = d->answer.assignment != NULL;
        bot_take_answer(&call->answer, &d->answer);
    }
    const int64_t committed_us = d->now_us + between(sim, 1, chance(sim, 0.05) ? 3000 : 30) * 1000;
    for (uint32_t i = before; i < d->log_count; i++) sim->commit_us[i] = committed_us;
    for (uint32_t i = 0; i < before; i++) sim->commit_us[i] = OT_MIN(sim->commit_us[i], committed_us);     /* in order */
    call->log_end = d->log_count;
    call->answered = true;
    call->at_us = committed_us + (chance(sim, 0.1) ? between(sim, 0, 8000) : between(sim, 0, 50)) * 1000;
    if (twice || chance(sim, 0.03)) call->busy = false;
}

static void sim_calls(struct sim *sim)
{
    for (int k = 0; k < OPEN_MAX; k++) {
        struct open_call *call = &sim->calls[k];
        if (!call->busy || call->at_us > sim->desk->now_us) continue;
        if (call->answered) answer_arrives(sim, call);
        else call_arrives(sim, call);
    }
}

/* Only the last record of each key. Everything in it is committed. */
static void log_compact(struct sim *sim)
{
    struct desk *d = sim->desk;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < d->log_count; i++) {
        bool last = true;
        for (uint32_t k = i + 1; last && k < d->log_count; k++)
            last = d->log[k].key_bytes != d->log[i].key_bytes || memcmp(d->log[k].key, d->log[i].key, d->log[i].key_bytes) != 0;
        if (last && !d->log[i].tombstone) {
            sim->commit_us[kept] = sim->commit_us[i];
            d->log[kept++] = d->log[i];
        } else {
            free(d->log[i].key);
            free(d->log[i].value);
        }
    }
    d->log_count = kept;
}

/* The coordinator dies: what was not committed is gone, and nobody was answered for it. Another one loads what is there. */
static void sim_crash(struct sim *sim)
{
    struct desk *d = sim->desk;
    while (d->log_count > 0 && sim->commit_us[d->log_count - 1] > d->now_us) {
        d->log_count--;
        free(d->log[d->log_count].key);
        free(d->log[d->log_count].value);
    }
    for (int k = 0; k < OPEN_MAX; k++) {
        struct open_call *call = &sim->calls[k];
        if (call->busy && call->answered && (call->log_end > d->log_count || call->at_us > d->now_us)) call->busy = false;
        if (call->busy && call->answered) call->log_end = 0;
    }
    const uint32_t members = coord_cg_member_count(d->cg);
    log_compact(sim);
    desk_restart(d);
    (void)members;
    if (d->log_count == 0) assert_int_equal(coord_cg_member_count(d->cg), 0);
}

static bool counts_here(const struct sim *sim, const struct runner *r)
{
    struct coord_cg_member_view view;
    if (!r->up || r->bot.epoch <= 0 || !desk_find(sim->desk->cg, ot_str_of(r->bot.id), &view)) return false;
    return view.epoch == r->bot.epoch || view.previous_epoch == r->bot.epoch;
}

static void check_holders(const struct sim *sim)
{
    for (int a = 0; a < BOTS; a++) {
        if (!counts_here(sim, &sim->runners[a])) continue;
        for (int b = a + 1; b < BOTS; b++) {
            if (!counts_here(sim, &sim->runners[b])) continue;
            for (uint32_t i = 0; i < sim->runners[a].bot.has_count; i++)
                assert_false(bot_has(sim->runners[b].bot.has, sim->runners[b].bot.has_count, &sim->runners[a].bot.has[i]));
        }
    }
    desk_owners(sim->desk->cg);
}

static void sim_faults(struct sim *sim)
{
    struct desk *d = sim->desk;
    const int i = (int)ot_rng_below(&sim->rng, BOTS);
    struct runner *r = &sim->runners[i];
    if (r->up && chance(sim, 0.004)) {                          /* dies without a word */
        r->up = false;
        r->bot.has_count = 0;
        r->next_us = d->now_us + between(sim, 100, 30000) * 1000;
    }
    if (r->up && chance(sim, 0.004)) r->paused_until_us = d->now_us + between(sim, 100, 40000) * 1000;
    if (r->up && d->now_us >= r->paused_until_us && chance(sim, 0.004)) {       /* leaves; a static one may say that it will be back */
        r->bot.has_count = 0;
        send_call(sim, i, r->bot.instance != NULL && ot_rng_chance(&sim->rng, 0.7) ? -2 : -1);
        r->up = false;
        r->next_us = d->now_us + between(sim, 100, 20000) * 1000;
    }
    if (r->up && chance(sim, 0.003)) {                          /* wants something else */
        r->bot.topics[1] = ot_rng_chance(&sim->rng, 0.5) ? NULL : "t1";
        r->owned_changed = r->bot.say_all = true;
    }
    if (chance(sim, 0.004)) {
        const int t = (int)ot_rng_below(&sim->rng, 4);
        char name[8];
        (void)snprintf(name, sizeof(name), "t%d", t);
        if (d->there[t] && ot_rng_chance(&sim->rng, 0.3)) desk_drop_topic(d, t);
        else desk_topic(d, t, name, OT_MIN(d->there[t] ? d->list[t].partition_count + 2 : (int32_t)between(sim, 1, 12), 40));
    }
    if (chance(sim, 0.004)) sim_crash(sim);
}

/* Everything is quiet: who wants what is there has it, and works on it. */
static void check_settled(struct sim *sim)
{
    struct desk *d = sim->desk;
    struct coord_cg_member_view view;
    assert_int_equal(coord_cg_member_count(d->cg), BOTS);
    assert_int_equal(coord_cg_state(d->cg), COORD_CG_STABLE);
    for (int t = 0; t < 4; t++) {
        bool wanted = coord_cg_subscribed(d->cg, ot_str_of(d->names[t]));
        for (int32_t p = 0; d->there[t] && p < d->list[t].partition_count; p++) {
            const struct coord_cg_part part = {d->list[t].id, p, 0};
            int holders = 0;
            for (int i = 0; i < BOTS; i++) holders += bot_has(sim->runners[i].bot.has, sim->runners[i].bot.has_count, &part);
            if (holders != (int)wanted) {
                fprintf(stderr, "topic %d partition %d: %d holders\n", t, p, holders);
                for (uint32_t at = 0; coord_cg_next_member(d->cg, &at, &view);)
                    fprintf(stderr, "%.*s epoch %d state %d has %u target %u\n", (int)view.member_id.bytes, view.member_id.data, view.epoch, view.state, view.assigned->count, view.target->count);
                for (int i = 0; i < BOTS; i++)
                    fprintf(stderr, "%s up %d epoch %d has %u told %u topics %s %s regex %s\n", sim->runners[i].bot.id, sim->runners[i].up, sim->runners[i].bot.epoch,
                        sim->runners[i].bot.has_count, sim->runners[i].bot.told_count, sim->runners[i].bot.topics[0], sim->runners[i].bot.topics[1], sim->runners[i].bot.regex);
            }
            assert_int_equal(holders, wanted);
        }
    }
    for (int i = 0; i < BOTS; i++) {
        assert_true(desk_find(d->cg, ot_str_of(sim->runners[i].bot.id), &view));
        assert_int_equal(view.assigned->count, sim->runners[i].bot.has_count);
        assert_int_equal(view.target->count, sim->runners[i].bot.has_count);
    }
}

static void sim_step(struct sim *sim)
{
    struct desk *d = sim->desk;
    desk_pass(d, STEP_MS);
    sim_calls(sim);
    for (int i = 0; i < BOTS; i++) runner_step(sim, i);
    if (coord_cg_deadline_us(d->cg) <= d->now_us) {
        const uint32_t before = d->log_count;
        assert_int_equal(desk_expire(d), OT_OK);
        for (uint32_t i = before; i < d->log_count; i++) sim->commit_us[i] = d->now_us + 10000;
    }
    if (sim->faults) sim_faults(sim);
    check_holders(sim);
    if (d->log_count > 2000) {
        for (uint32_t i = 0; i < d->log_count; i++)
            if (sim->commit_us[i] > d->now_us) return;
        for (int k = 0; k < OPEN_MAX; k++)
            if (sim->calls[k].answered) sim->calls[k].log_end = 0;
        log_compact(sim);
    }
}

static uint64_t sim_run(uint64_t seed)
{
    static struct sim sim;
    memset(&sim, 0, sizeof(sim));
    seed_now = seed;
    ot_rng_seed(&sim.rng, seed);
    sim.faults = true;
    sim.desk = desk_open();
    struct desk *d = sim.desk;
    d->quick = true;
    d->config.session_timeout_ms = SESSION_MS;
    d->config.heartbeat_interval_ms = INTERVAL_MS;
    d->config.assignment_interval_ms = ot_rng_chance(&sim.rng, 0.5) ? 1000 : 0;
    for (int t = 0; t < 3; t++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "t%d", t);
        desk_topic(d, t, name, (int32_t)between(&sim, 1, 12));
    }
    static const char *const instances[BOTS] = {"i0", "i1", NULL, NULL, NULL, NULL, NULL};
    for (int i = 0; i < BOTS; i++) {
        sim.runners[i].bot.instance = instances[i];
        runner_start(&sim, i);
    }
    for (int step = 0; step < FAULTY_STEPS; step++) sim_step(&sim);
    sim.faults = false;
    for (int i = 0; i < BOTS; i++) {
        sim.runners[i].paused_until_us = 0;
        if (!sim.runners[i].up) sim.runners[i].next_us = d->now_us + 1;
    }
    for (int step = 0; step < QUIET_STEPS; step++) {
        for (int i = 0; i < BOTS; i++)
            if (!sim.runners[i].up && sim.runners[i].next_us <= 0) sim.runners[i].next_us = d->now_us;
        sim_step(&sim);
    }
    check_settled(&sim);
    const uint64_t trace = (uint64_t)coord_cg_epoch(d->cg) * 1000003 + d->log_count;
    desk_close(d);
    return trace;
}

int main(int argc, char **argv)
{
    uint64_t first = 1, count = 20;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seeds") == 0) count = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) first = strtoull(argv[i + 1], NULL, 10), count = 1;
        if (strcmp(argv[i], "--first") == 0) first = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--bug") == 0) bug_now = argv[i + 1];
    }
    for (uint64_t seed = first; seed < first + count; seed++) {
        const uint64_t trace = sim_run(seed);
        if (count == 1 && sim_run(seed) != trace) {
            fprintf(stderr, "seed %llu does not replay\n", (unsigned long long)seed);
            return 1;
        }
    }
    printf("%llu seeds\n", (unsigned long long)count);
    return 0;
}
