#include "server.h"

#include "../common/campaign.h"
#include "../sim_sched.h"
#include "../spans.h"
#include "../wire.h"
#include "broker/offsets.h"
#include "broker/replication.h"
#include "broker/room.h"

#include <stdio.h>

enum { READ_BYTES = 1 << 16 };
static const char *const dirs[] = { "/sim/a" };

struct server {
    struct server_setup setup;
    struct sim_disk *disk;
    struct sim_sched *sched;
    struct ot_exec *io, *flush, *background, *home, *replica;
    struct broker_config_store *config;
    struct eng_store *store;
    struct broker *broker;
    struct broker_replication *replication;
    bool ending, applied, watched;
    uint32_t serving, calls;                   /* fetches of followers, requests of clients */
};

/* ---- life */

static void set(struct server *s, const char *key, const char *value)
{
    char text[256];
    CHECK(broker_config_set(s->config, BROKER_SOURCE_FLAG, "sim", key, value, text, sizeof text) == OT_OK);
}

struct server *server_new(const struct server_setup *setup)
{
    static const char *const sets[][2] = { { "log.append.io", "pwritev" }, { "ottla.disk.reserve.bytes", "0" }, { "ottla.disk.free.warn.bytes", "0" }, { "ottla.disk.free.refuse.bytes", "0" },
        { "replica.lag.time.max.ms", "2000" }, { "log.index.interval.bytes", "64" }, { "ottla.shutdown.handover.timeout.ms", "2000" } };
    struct server *s = calloc(1, sizeof *s);
    char session[16];
    s->setup = *setup;
    s->disk = sim_disk_new(setup->seed);
    CHECK(broker_config_store_new(&s->config) == OT_OK);
    for (size_t i = 0; i < OT_ARRAY_COUNT(sets); i++) set(s, sets[i][0], sets[i][1]);
    snprintf(session, sizeof session, "%u", setup->session_ms);
    set(s, "broker.session.timeout.ms", session);
    if (setup->retains) {
        set(s, "log.roll.ms", "2000");
        set(s, "log.retention.ms", "5000");
        set(s, "log.retention.check.interval.ms", "1000");
    }
    set(s, "ottla.leader.lease", setup->strict ? "strict" : "none");
    return s;
}

void server_free(struct server *s)
{
    CHECK(s->broker == NULL);
    broker_config_store_free(s->config);
    sim_disk_free(s->disk);
    free(s);
}

static bool step(struct server *s)
{
    bool ran = sim_sched_step(s->sched);
    if (s->watched) s->setup.stepped(s->setup.host);
    return ran;
}

static void nap(void *arg)
{
    struct server *s = arg;
    if (!step(s)) (void)sim_sched_skip(s->sched, 100000);
}

static void drain(struct server *s)
{
    for (uint64_t i = 0; step(s); i++) CHECK(i < 2000000);
}

static const char *class_name(enum replica_class class_)
{
    static const char *const names[] = { [REPLICA_REPLICATED] = "replicated", [REPLICA_FSYNC] = "fsync", [REPLICA_FSYNC_ALL] = "replicated+fsync", [REPLICA_AUTO] = "auto" };
    return names[class_];
}

static void send(void *arg, int32_t node_id, uint32_t stream, struct ot_link_call *call)
{
    struct server *s = arg;
    (void)stream;
    s->setup.send(s->setup.host, node_id, call);
}

static void ask(void *arg, struct broker_ask *ask) { ((struct server *)arg)->setup.ask(((struct server *)arg)->setup.host, &ask->request); }
static int32_t term(void *arg) { return ((struct server *)arg)->setup.term(((struct server *)arg)->setup.host); }
static int64_t broker_epoch(void *arg) { return ((struct server *)arg)->setup.broker_epoch(((struct server *)arg)->setup.host); }

static bool start_core(struct server *s)
{
    struct broker_setup setup = { .io = sim_disk_io(s->disk), .config = s->config, .io_exec = s->io, .flush_exec = s->flush, .background_exec = s->background, .coord_exec = s->home,
        .decode_pool = s->setup.pool };
    int64_t epoch;
    s->broker = calloc(1, sizeof *s->broker);
    s->broker->setup = setup;
    s->broker->node_id = s->setup.id;
    s->broker->core.nap = nap;
    s->broker->core.nap_arg = s;
    bool good = eng_store_take_clean(s->store, 0, &s->broker->core.clean[0], &epoch) == OT_OK;
    return broker_core_init(&s->broker->core, &setup, s->store, s->setup.id) == OT_OK && good;
}

bool server_start(struct server *s, int64_t wall_ms, enum replica_class class_, uint64_t power_off_after)
{
    struct eng_store_config config = { .dirs = dirs, .dir_count = 1, .files_max = 16, .maps_max = 4, .append_mapped_bytes_max = 1u << 20 };
    uint32_t bad = 0;
    s->sched = sim_sched_new(s->setup.seed * 31 + (uint64_t)wall_ms, wall_ms);
    s->io = sim_sched_exec(s->sched, "io", false);
    s->flush = sim_sched_exec(s->sched, "flush", false);
    s->background = sim_sched_exec(s->sched, "background", true);
    s->home = sim_sched_exec(s->sched, "home", true);
    s->replica = sim_sched_exec(s->sched, "replica", true);
    s->ending = s->applied = false;
    set(s, "ottla.durability", class_name(class_));
    sim_disk_set_wall(s->disk, wall_ms);
    sim_disk_faults(s->disk, &(struct sim_faults){ .short_write = 0.02, .short_read = 0.02 });
    sim_disk_power_off_after(s->disk, power_off_after);
    if (eng_store_open(sim_disk_io(s->disk), &config, &s->store, &bad) != OT_OK) {
        CHECK(sim_disk_is_off(s->disk));
        s->store = NULL;
        return false;
    }
    if (!start_core(s)) {
        CHECK(sim_disk_is_off(s->disk));
        return false;
    }
    struct broker_replication_setup setup = { .broker = s->broker, .exec = s->replica, .pool = s->setup.pool, .arg = s, .send = send, .ask = ask, .term = term,
        .broker_epoch = broker_epoch };
    CHECK(broker_replication_start(&setup, &s->replication) == OT_OK);
    broker_lease_begin(s->broker);
    return !sim_disk_is_off(s->disk);
}

/* Timeouts and long polls end; nothing new begins. */
static void run_out(struct server *s)
{
    drain(s);
    for (int i = 0; s->calls + s->serving > 0 && i < 1000; i++) {
        (void)sim_sched_skip(s->sched, 50000);
        drain(s);
    }
}

static bool end_core(struct server *s, bool crash)
{
    struct broker_core *core = &s->broker->core;
    uint64_t unclean = 1;
    bool flushed = false;
    s->watched = !crash;
    broker_replication_stop(s->replication);
    run_out(s);
    if (!crash) flushed = broker_core_stop(core, 8000);
    else if (s->calls > 0) (void)broker_core_stop(core, 0);    /* acks=1 that waits for a handover has no clock of its own: the handover's is none any more */
    drain(s);
    CHECK(s->calls + s->serving == 0);
    s->watched = false;
    atomic_store(&core->stopping, true);
    drain(s);
    ot_exec_timer_cancel(s->background, &core->tick);      /* a crash asks nobody */
    atomic_store(&core->ticking, false);
    broker_replication_free(s->replication);
    unclean = broker_core_free(core);
    free(s->broker);
    s->broker = NULL;
    s->replication = NULL;
    drain(s);
    return flushed && unclean == 0 && eng_store_leave_clean(s->store, 0, 1) == OT_OK && !sim_disk_is_off(s->disk);
}

bool server_end(struct server *s, bool crash, bool machine)
{
    bool clean = false;
    if (s->sched == NULL) return false;
    s->ending = true;
    if (crash) sim_disk_power_off_after(s->disk, 0);
    if (s->broker != NULL) clean = end_core(s, crash);
    eng_store_close(s->store);
    s->store = NULL;
    sim_sched_forget(s->sched);
    sim_sched_free(s->sched);
    s->sched = NULL;
    if (machine) sim_disk_crash_machine(s->disk);
    else sim_disk_crash_process(s->disk);
    return clean;
}

void server_wipe(struct server *s, uint64_t seed)
{
    sim_disk_free(s->disk);
    s->disk = sim_disk_new(seed);
}

bool server_is_off(const struct server *s) { return sim_disk_is_off(s->disk); }
void server_power_stays(struct server *s) { if (!sim_disk_is_off(s->disk)) sim_disk_power_off_after(s->disk, UINT64_MAX); }
uint64_t server_hash(const struct server *s) { return sim_disk_hash(s->disk); }

/* ---- time */

bool server_step(struct server *s)
{
    sim_disk_set_wall(s->disk, sim_sched_wall_ms(s->sched));
    return sim_sched_step(s->sched);
}

void server_pass(struct server *s, int64_t to_us)
{
    int64_t now_us = sim_sched_now_us(s->sched);
    if (now_us < to_us) (void)sim_sched_skip(s->sched, to_us - now_us);
}

void server_wake(struct server *s, int64_t now_us) { sim_sched_wake(s->sched, now_us); }
int64_t server_now_us(const struct server *s) { return sim_sched_now_us(s->sched); }

/* ---- as broker/member.c, whose heartbeats are the host's */

void server_leased(struct server *s, int64_t sent_us) { broker_lease_renew(s->broker, sent_us, 0); }

void server_leave(struct server *s)
{
    broker_tails_begin(s->broker);
    broker_tails_wait(s->broker);
}

bool server_may_go(struct server *s, bool *tails_lost_out)
{
    const bool settled = broker_tails_settled(s->broker);
    *tails_lost_out = s->broker->member.tails_end_us == 0;
    return settled;
}

/* ---- rows */

void server_apply(struct server *s, const struct coord_value *value, bool dir_missing)
{
    s->broker->core.dir_missing = dir_missing;
    if (s->applied) {
        broker_apply_whole(s->broker, NULL, value, NULL);
        return;
    }
    broker_apply_all(s->broker, value, true, NULL);
    broker_core_start(&s->broker->core);       /* not before: checkpoints have the rows of partitions that it knows */
    s->applied = true;
}

void server_set_class(struct server *s, const struct coord_value *value, enum replica_class class_)
{
    set(s, "ottla.durability", class_name(class_));
    broker_apply_defaults(s->broker, value);
}

/* ---- answers of others */

static void call_run(struct ot_task *task)
{
    struct ot_link_call *call = OT_CONTAINER(task, struct ot_link_call, task);
    call->answered(call);
}

void server_call_answered(struct server *s, struct ot_link_call *call, enum ot_err err, struct ot_buf *answer)
{
    (void)s;
    call->error = err;
    call->answer = answer;
    call->task.run = call_run;
    ot_exec_post(call->home, &call->task);
}

struct ask_answer { struct ot_task task; struct broker_ask *ask; };
static void ask_run(struct ot_task *task)
{
    struct ask_answer *answer = OT_CONTAINER(task, struct ask_answer, task);
    struct broker_ask *ask = answer->ask;
    free(answer);
    ask->answered(ask);
}

void server_ask_answered(struct server *s, struct coord_request *request)
{
    struct ask_answer *answer = calloc(1, sizeof *answer);
    *answer = (struct ask_answer){ { NULL, ask_run }, OT_CONTAINER(request, struct broker_ask, request) };
    ot_exec_post(s->home, &answer->task);
}

struct serving { struct sim_wire wire; struct server *s; void (*served)(void *arg, struct ot_buf *answer); void *arg; };
static void served(struct sim_wire *wire, struct ot_buf *answer)
{
    struct serving *serving = OT_CONTAINER(wire, struct serving, wire);
    serving->s->serving--;
    serving->served(serving->arg, answer);
    sim_wire_free(wire);
    free(serving);
}

void server_serve(struct server *s, struct ot_buf *request, void (*done)(void *arg, struct ot_buf *answer), void *arg)
{
    struct serving *serving = calloc(1, sizeof *serving);
    *serving = (struct serving){ .s = s, .served = done, .arg = arg };
    s->serving++;
    sim_wire_init(&serving->wire, served);
    sim_wire_serve(&serving->wire, request, s->broker, s->home, s->disk, s->setup.pool);
}

/* ---- what is in a log */

static struct broker_partition *find(struct server *s, int32_t index)
{
    struct broker_partition *partition = s->broker == NULL ? NULL : broker_partition_find(s->broker, ot_str_of("t"), index);
    broker_partition_put(partition);           /* the registry holds it */
    return partition;
}

void server_log(struct server *s, int32_t index, struct server_log *out)
{
    const struct broker_partition *partition = find(s, index);
    *out = (struct server_log){ .applied = s->applied, .hosted = partition != NULL, .offline = partition != NULL && atomic_load(&partition->stage) == BROKER_PARTITION_OFFLINE };
    if (partition == NULL || atomic_load(&partition->stage) != BROKER_PARTITION_OPEN) return;
    struct eng_log *log = atomic_load(&partition->log);
    out->open = true;
    out->start = eng_log_start_offset(log);
    out->end = eng_log_end_offset(log);
    out->read_only = eng_log_read_only(log);
    out->cutting = partition->cutting || partition->follow != NULL || (out->read_only && out->start == out->end);     /* the last: the power went while it began anew */
    out->flushed = eng_log_flushed_end(log);
    out->replica = &partition->replica;
}

int64_t server_log_base(struct server *s, int32_t index)
{
    struct eng_segment_info first;
    return eng_log_segments(atomic_load(&find(s, index)->log), &first, 1) == 0 ? INT64_MAX : first.base_offset;
}

size_t server_read(struct server *s, int32_t index, int64_t offset, int64_t limit, uint8_t *data, size_t cap)
{
    struct eng_read how = { .offset = offset, .limit_offset = limit, .max_bytes = READ_BYTES, .min_one = true, .may_block = true };
    struct eng_read_result result = { 0 };
    sim_disk_look(s->disk, true);
    enum ot_err err = eng_log_read(atomic_load(&find(s, index)->log), &how, &result);
    CHECK(err == OT_OK);
    size_t bytes = sim_spans_copy(sim_disk_io(s->disk), &result, data, cap);
    if (result.pin != NULL) result.pin->release(result.pin);
    sim_disk_look(s->disk, false);
    return bytes;
}

bool server_flush(struct server *s, int32_t index)
{
    int64_t flushed;
    return eng_log_flush(atomic_load(&find(s, index)->log), &flushed) == OT_OK;
}

/* ---- clients */

struct put { struct broker_produce produce; struct broker_produce_part part; struct server *s; void (*done)(void *arg, enum ot_err err, int64_t base_offset); void *arg; };
static void put_done(struct broker_call *call)
{
    struct put *put = OT_CONTAINER(call, struct put, produce.call);
    put->s->calls--;
    put->done(put->arg, put->s->ending && put->part.error == OT_OK ? OT_ERR_CLOSED : put->part.error, put->part.base_offset);
    ot_buf_unref(put->produce.buf);
    free(put);
}
static void put_queued(struct broker_produce *produce) { (void)produce; }

void server_produce(struct server *s, int32_t partition, struct ot_buf *batch, int16_t acks, int32_t timeout_ms, void (*done)(void *arg, enum ot_err err, int64_t base_offset), void *arg)
{
    struct put *put = calloc(1, sizeof *put);
    *put = (struct put){ .s = s, .done = done, .arg = arg, .produce = { .call = { .home = s->home, .done = put_done }, .buf = batch, .acks = acks, .timeout_ms = timeout_ms, .api_version = 13,
        .origin = ENG_ORIGIN_CLIENT, .parts = &put->part, .part_count = 1, .queued = put_queued }, .part = { .topic = ot_str_of("t"), .partition = partition, .records = batch->data,
        .records_bytes = (uint32_t)batch->bytes } };
    put->produce.transactional_id.null = true;
    s->calls++;
    (void)broker_produce(s->broker, &put->produce);
}

struct get { struct broker_fetch fetch; struct broker_fetch_ask ask; struct ot_arena arena; struct server *s; void (*done)(void *arg, enum ot_err err, const uint8_t *data, size_t bytes); void *arg; };
static void get_done(struct broker_call *call)
{
    static uint8_t data[2 * READ_BYTES];
    struct get *get = OT_CONTAINER(call, struct get, fetch.call);
    struct broker_fetch *fetch = &get->fetch;
    enum ot_err err = fetch->error != OT_OK ? fetch->error : fetch->row_count == 0 ? OT_ERR_CLOSED : fetch->rows[0].error;
    size_t bytes = err == OT_OK && !get->s->ending ? sim_spans_copy(sim_disk_io(get->s->disk), &fetch->rows[0].read, data, sizeof data) : 0;
    get->s->calls--;
    get->done(get->arg, get->s->ending ? OT_ERR_CLOSED : err, data, bytes);
    broker_fetch_release(fetch);
    ot_arena_free(&get->arena);
    free(get);
}

void server_fetch(struct server *s, int32_t partition, int64_t offset, void (*done)(void *arg, enum ot_err err, const uint8_t *data, size_t bytes), void *arg)
{
    struct get *get = calloc(1, sizeof *get);
    *get = (struct get){ .s = s, .done = done, .arg = arg };
    ot_arena_init(&get->arena, 1u << 20);
    get->fetch = (struct broker_fetch){ .call = { .home = s->home, .done = get_done }, .api_version = 12, .replica_id = -1, .replica_epoch = -1, .max_wait_ms = 100, .min_bytes = 1,
        .max_bytes = READ_BYTES, .session_epoch = -1, .asks = &get->ask, .ask_count = 1, .arena = &get->arena };
    get->fetch.client = (struct broker_client){ .client_id = ot_str_of("c"), .address = ot_str_of("127.0.0.1") };
    get->ask = (struct broker_fetch_ask){ .topic = ot_str_of("t"), .partition = partition, .offset = offset, .log_start_offset = -1, .leader_epoch = -1, .last_epoch = -1, .max_bytes = READ_BYTES };
    s->calls++;
    broker_fetch(s->broker, &get->fetch);
}

struct delete { struct broker_offsets offsets; struct broker_offsets_part part; struct server *s; void (*done)(void *arg, enum ot_err err, int64_t start); void *arg; };
static void delete_done(struct broker_call *call)
{
    struct delete *delete = OT_CONTAINER(call, struct delete, offsets.call);
    delete->s->calls--;
    delete->done(delete->arg, delete->s->ending ? OT_ERR_CLOSED : delete->part.error, delete->part.deleted_to);
    free(delete);
}

void server_delete(struct server *s, int32_t partition, int64_t before, void (*done)(void *arg, enum ot_err err, int64_t start), void *arg)
{
    struct delete *delete = calloc(1, sizeof *delete);
    *delete = (struct delete){ .s = s, .done = done, .arg = arg, .offsets = { .call = { .home = s->home, .done = delete_done }, .kind = BROKER_DELETE_RECORDS, .api_version = 2, .timeout_ms = 1000,
        .parts = &delete->part, .part_count = 1 }, .part = { .topic = ot_str_of("t"), .partition = partition, .current_leader_epoch = -1, .at = before } };
    s->calls++;
    broker_offsets(s->broker, &delete->offsets);
}
