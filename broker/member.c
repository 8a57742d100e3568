/* This broker's place in the cluster: it registers, says that it lives, and hands over before it goes (coordinator.md §7, §8). Alone, without peers, registration and one
 * heartbeat are all; else the coordinator, wherever it runs, hears of it every broker.heartbeat.interval.ms and takes it for gone after broker.session.timeout.ms. */
#include "broker/room.h"

#include "base/log.h"
#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REGISTER_US 5000000                    /* of one attempt; then it is told that we still wait */
#define SOON_US 100000                         /* until something is as it should be: unfenced, told, registered */
#define LEAVING_US 20000                       /* until all is handed over */
#define AFTER_CHANGE_US 10000                  /* a change of brokers waits for all to have applied it */
#define LEAVE_SILENCE_US 3000000               /* leaving, and no coordinator that answers: its session ends instead */
#define GONE_US 3000000                        /* leaving, and what is in sync but lacks the end of a log is taken for gone, or stops as well */
#define TAILS_PERCENT 90                       /* of the time for leaving; the rest is for handing over without them */

static const struct broker_config *config_of(struct broker *broker) { return broker_config_current(broker->setup.config); }
static int64_t now_of(struct broker *broker) { return ot_exec_now_us(broker->setup.coord_exec); }

void broker_wait_a_little(struct broker *broker, pthread_mutex_t *mutex, pthread_cond_t *changed)
{
    const struct timespec until = broker_until(100);
    if (broker->setup.give_up == NULL && broker->peers == NULL) {
        pthread_cond_wait(changed, mutex);
        return;
    }
    (void)pthread_cond_clockwait(changed, mutex, CLOCK_MONOTONIC, &until);     /* the wall clock may be set back by an hour meanwhile */
}

/* ---- one request, waited for */

struct waited { struct broker_ask ask; pthread_mutex_t mutex; pthread_cond_t changed; bool done; };

static void waited_answered(struct broker_ask *ask)
{
    struct waited *waited = OT_CONTAINER(ask, struct waited, ask);
    pthread_mutex_lock(&waited->mutex);
    waited->done = true;
    pthread_cond_signal(&waited->changed);
    pthread_mutex_unlock(&waited->mutex);
}

static enum ot_err ask_and_wait(struct broker *broker, struct coord_request *request, int64_t timeout_us)
{
    struct waited waited = { .ask = { .request = *request, .answered = waited_answered, .timeout_us = timeout_us } };
    pthread_mutex_init(&waited.mutex, NULL);
    pthread_cond_init(&waited.changed, NULL);
    broker_coordinator_ask(broker->coordinator, &waited.ask);
    pthread_mutex_lock(&waited.mutex);
    while (!waited.done) {
        pthread_cond_wait(&waited.changed, &waited.mutex);
    }
    pthread_mutex_unlock(&waited.mutex);
    pthread_mutex_destroy(&waited.mutex);
    pthread_cond_destroy(&waited.changed);
    *request = waited.ask.request;
    return request->error;
}

/* ---- registration */

/* Where clients of another broker are sent: that one cannot say what address they would reach here. */
static const char *reached_at(struct broker *broker, const struct broker_listener *listener)
{
    const bool everywhere = listener->host == NULL || listener->host[0] == 0 || strcmp(listener->host, "0.0.0.0") == 0 || strcmp(listener->host, "::") == 0;
    return everywhere ? broker->peers->host : listener->host;
}

/* Everywhere that it listens, and the peer listener behind. */
static void gather_endpoints(struct broker *broker, const struct broker_listener *listeners, uint32_t count)
{
    struct broker_member *member = &broker->member;
    member->endpoint_count = 0;
    for (uint32_t i = 0; i < count && i + 1 < OT_ARRAY_COUNT(member->endpoints); i++) {
        const struct broker_listener *one = &listeners[i];
        const char *host = one->advertised_host != NULL || broker->peers == NULL ? one->advertised_host : reached_at(broker, one);
        member->endpoints[member->endpoint_count++] = (struct coord_endpoint){ ot_str_of(one->name), ot_str_of(host),
            one->advertised_port > 0 ? one->advertised_port : one->port, ot_str_of(one->security == NULL ? one->name : one->security) };
    }
    if (broker->peers != NULL && broker->peers->port > 0) {
        member->endpoints[member->endpoint_count++] = (struct coord_endpoint){ ot_str_of(BROKER_PEER_LISTENER), ot_str_of(broker->peers->host), broker->peers->port,
            ot_str_of(BROKER_PEER_LISTENER) };
    }
}

static void gather(struct broker *broker, const struct broker_identity *identity)
{
    struct broker_member *member = &broker->member;
    member->dirs[member->dir_count++] = identity->dir_ids[broker->meta_dir];      /* the voter's identity is the first */
    for (uint32_t dir = 0; dir < eng_store_dir_count(broker->core.store) && dir < BROKER_DIRS_MAX; dir++) {
        if (dir != broker->meta_dir && !eng_store_dir_offline(broker->core.store, dir)) {
            member->dirs[member->dir_count++] = identity->dir_ids[dir];
        }
    }
    gather_endpoints(broker, broker->setup.listeners, broker->setup.listener_count);
}

/* ---- listeners that change while we run: registered again under the same incarnation, which changes nothing but where it is reached */

static void beat_at(struct broker *broker, int64_t after_us);

struct broker_moved {
    struct broker_moved *next;
    struct ot_task task;
    struct broker *broker;
    uint32_t count;
    struct broker_listener listeners[16];
    char texts[];
};

/* on the coordinator's thread */
static void moved_run(struct ot_task *task)
{
    struct broker_moved *moved = OT_CONTAINER(task, struct broker_moved, task);
    struct broker *broker = moved->broker;
    moved->next = broker->member.moved;
    broker->member.moved = moved;
    gather_endpoints(broker, moved->listeners, moved->count);
    broker->member.endpoints_version++;
    beat_at(broker, 0);
}

static size_t text_bytes(const char *text) { return text == NULL ? 0 : strlen(text) + 1; }

static const char *put_text(char **at, const char *text)
{
    const size_t bytes = text_bytes(text);
    char *to = *at;
    if (text == NULL) return NULL;
    memcpy(to, text, bytes);
    *at += bytes;
    return to;
}

void broker_listeners_changed(struct broker *broker, const struct broker_listener *listeners, uint32_t count)
{
    size_t bytes = sizeof(struct broker_moved);
    for (uint32_t i = 0; i < count; i++)
        bytes += text_bytes(listeners[i].name) + text_bytes(listeners[i].host) + text_bytes(listeners[i].advertised_host) + text_bytes(listeners[i].security);
    struct broker_moved *moved = calloc(1, bytes);
    if (moved == NULL) {
        ot_log(OT_LOG_ERROR, "broker", "listeners_untold", "error=NO_MEMORY text=\"other brokers learn of them at the next start\"");
        return;
    }
    char *at = moved->texts;
    moved->broker = broker;
    moved->task.run = moved_run;
    for (; moved->count < OT_MIN(count, (uint32_t)OT_ARRAY_COUNT(moved->listeners)); moved->count++) {
        const struct broker_listener *from = &listeners[moved->count];
        moved->listeners[moved->count] = (struct broker_listener){ .name = put_text(&at, from->name), .host = put_text(&at, from->host),
            .advertised_host = put_text(&at, from->advertised_host), .port = from->port, .advertised_port = from->advertised_port, .security = put_text(&at, from->security) };
    }
    ot_exec_post(broker->setup.coord_exec, &moved->task);
}

static struct coord_request registration(struct broker *broker, const struct broker_evidence *evidence)
{
    const struct broker_member *member = &broker->member;
    const char *rack = config_of(broker)->broker_rack, *release = broker->setup.release;
    return (struct coord_request){ .ask = COORD_ASK_REGISTER, .if_version = -1, .u.register_ = { .broker_id = broker->node_id, .boot_class = evidence->boot,
        .stopped_epoch = evidence->stopped_epoch, .incarnation_id = member->incarnation_id, .endpoints = member->endpoints, .endpoint_count = member->endpoint_count, .dir_ids = member->dirs,
        .dir_count = member->dir_count, .rack = rack == NULL ? (struct ot_str){ .null = true } : ot_str_of(rack),
        .levels = coord_levels_known(), .release = release == NULL ? (struct ot_str){ .null = true } : ot_str_of(release) } };
}

static bool gives_up(struct broker *broker) { return broker->setup.give_up != NULL && broker->setup.give_up(broker->setup.give_up_arg); }

enum ot_err broker_member_register(struct broker *broker, const struct broker_identity *identity, const struct broker_evidence *evidence)
{
    struct coord_request request;
    enum ot_err err;
    gather(broker, identity);
    ot_uuid_random(&broker->member.incarnation_id);
    if (broker->peers != NULL) broker_lease_begin(broker);     /* alone nobody else can lead */
    for (;;) {
        request = registration(broker, evidence);
        err = ask_and_wait(broker, &request, broker->peers == NULL ? 0 : REGISTER_US);
        /* a double that is gone is so only after its session */
        const bool again = broker->peers != NULL && (err == OT_ERR_REQUEST_TIMED_OUT || err == OT_ERR_DUPLICATE_BROKER_REGISTRATION);
        if (!again) {
            break;
        }
        ot_log(OT_LOG_WARN, "broker", "waiting_for_coordinator", "node=%d peers_connected=%u error=%s text=\"%s\"", broker->node_id, broker_peers_up(broker->peers), ot_err_name(err),
            request.text);
        if (gives_up(broker)) {
            return OT_ERR_CANCELLED;
        }
    }
    if (err != OT_OK) {
        ot_log(OT_LOG_ERROR, "broker", "registration_refused", "error=%s text=\"%s\"", ot_err_name(err), request.text);
        return err;
    }
    atomic_store(&broker->broker_epoch, request.version);
    broker->core.dir_missing = request.dir_missing;
    if ((err = broker_evidence_renew(broker)) != OT_OK) {
        return err;                            /* nothing may be written beside a marker */
    }
    if (request.dir_missing) {
        ot_log(OT_LOG_ERROR, "broker", "log_dir_missing", "text=\"a log directory of an earlier start is offline or not in log.dirs: what lay there is fetched anew where others hold it, else it stays offline\"");
    }
    if (broker->peers != NULL) {
        ot_exec_post(broker->setup.coord_exec, &broker->member.begin_task);
        return OT_OK;
    }
    struct coord_request beat = { .ask = COORD_ASK_HEARTBEAT, .if_version = -1, .u.heartbeat = { .broker_id = broker->node_id,
        .broker_epoch = request.version, .applied_version = request.version } };
    return ask_and_wait(broker, &beat, 0);
}

/* ---- heartbeats, on the coordinator's thread */

static void beat(struct broker *broker);

static void beat_at(struct broker *broker, int64_t after_us)
{
    struct ot_timer *timer = &broker->member.timer;
    const int64_t at_us = now_of(broker) + after_us;
    if (broker->member.ended) {
        return;
    }
    if (timer->heap_index == 0 || timer->deadline_us > at_us) {
        ot_exec_timer_set(broker->setup.coord_exec, timer, at_us);
    }
}

static void note_answer(struct broker *broker, const struct coord_request *request)
{
    struct broker_member *member = &broker->member;
    pthread_mutex_lock(&member->mutex);
    member->answered_us = now_of(broker);
    member->may_stop |= request->may_stop;
    member->electable |= member->serving && !request->fenced;
    pthread_cond_signal(&member->changed);
    pthread_mutex_unlock(&member->mutex);
}

/* The feature level went up, and the row has room for what it had none before. */
static bool release_untold(struct broker *broker)
{
    const struct coord_value *value = broker_coordinator_value(broker->coordinator);
    struct ot_coord_broker_row row;
    struct ot_arena arena;
    uint8_t room[4096];
    if (broker->setup.release == NULL || coord_level_version(coord_value_level(value), &ot_coord_broker_row_message) < 1) return false;
    ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
    const bool untold = coord_broker_get(value, broker->node_id, &arena, &row) == OT_OK && row.broker_epoch == atomic_load(&broker->broker_epoch) && row.release.null;
    ot_arena_free(&arena);
    return untold;
}

static bool is_telling(struct broker *broker) { return broker->member.told_version != broker->member.endpoints_version || release_untold(broker); }

static void registered(struct broker *broker, const struct coord_request *request)
{
    struct broker_member *member = &broker->member;
    const bool again = member->registering || request->version != atomic_load(&broker->broker_epoch), told = member->told_version != member->asked_version;
    if (request->error == OT_OK) {
        member->told_version = member->asked_version;
    }
    if (request->error == OT_OK && !again) {
        if (told) ot_log(OT_LOG_INFO, "broker", "listeners_told", "node=%d endpoints=%u", broker->node_id, request->u.register_.endpoint_count);
        return;
    }
    member->registering = member->registering && request->error != OT_OK;
    if (request->error == OT_OK) {
        atomic_store(&broker->broker_epoch, request->version);
        ot_log(OT_LOG_WARN, "broker", "registered_again", "node=%d broker_epoch=%lld", broker->node_id, (long long)request->version);
    } else {
        ot_log(OT_LOG_WARN, "broker", "registration_refused", "error=%s text=\"%s\"", ot_err_name(request->error), request->text);
    }
}

static bool is_strict(struct broker *broker) { return strcmp(config_of(broker)->ottla_leader_lease, "strict") == 0; }

void broker_lease_begin(struct broker *broker) { atomic_store(&broker->core.lease_end_us, is_strict(broker) ? 1 : 0); }

void broker_lease_renew(struct broker *broker, int64_t sent_us, uint64_t told_session_us)
{
    const uint64_t own_us = (uint64_t)config_of(broker)->broker_session_timeout_ms * 1000, session_us = told_session_us == 0 ? own_us : OT_MIN(own_us, told_session_us);
    if (is_strict(broker)) atomic_store(&broker->core.lease_end_us, (int64_t)coord_lease_end_us((uint64_t)sent_us, session_us));
}

static void beaten(struct broker *broker, const struct coord_request *request)
{
    struct broker_member *member = &broker->member;
    if (request->error == OT_ERR_STALE_BROKER_EPOCH || request->error == OT_ERR_BROKER_ID_NOT_REGISTERED) {
        member->registering = true;            /* somebody took the place of this broker, or it was forgotten */
        ot_uuid_random(&member->incarnation_id);
    }
    if (request->error != OT_OK) {
        return;
    }
    if (!request->fenced) broker_lease_renew(broker, member->sent_us, request->session_us);
    note_answer(broker, request);
    if (!request->fenced && !member->leaving) broker_readmit_look(broker);
}

static void answered(struct broker_ask *ask)
{
    struct broker *broker = OT_CONTAINER(ask, struct broker, member.ask);
    struct broker_member *member = &broker->member;
    member->asking = false;
    if (ask->request.error == OT_ERR_CLOSED) {
        return;                                /* this server is stopping */
    }
    const bool registration_ = ask->request.ask == COORD_ASK_REGISTER;
    if (registration_) {
        registered(broker, &ask->request);
    } else {
        beaten(broker, &ask->request);
    }
    const bool soon = ask->request.error != OT_OK || registration_ || is_telling(broker) || member->registering || (member->serving && ask->request.fenced);
    beat_at(broker, member->leaving ? LEAVING_US : soon ? SOON_US : (int64_t)config_of(broker)->broker_heartbeat_interval_ms * 1000);
}

/* ---- tails: what acks=1 was answered for gets to all that are in sync before others lead. From the stop on nothing more is answered before it has */

static void tail_note(void *arg, struct broker_partition *partition)
{
    (void)arg;
    pthread_mutex_lock(&partition->mutex);
    if (partition->is_leader) partition->replica.joins_from = partition->reserved_end;
    pthread_mutex_unlock(&partition->mutex);
}

void broker_tails_begin(struct broker *broker)
{
    atomic_store(&broker->core.handing_over, true);
    broker_partitions_each(broker, tail_note, NULL);
}

void broker_tails_wait(struct broker *broker)
{
    const int64_t now_us = now_of(broker), whole_us = config_of(broker)->ottla_shutdown_handover_timeout_ms * 1000 / 100 * TAILS_PERCENT;
    broker->member.tails_end_us = now_us + whole_us;
    broker->member.gone_end_us = now_us + OT_MIN(whole_us, (int64_t)GONE_US);
}

struct tails { uint32_t open, living /* of these: where somebody lacks it that lives */; };

static void tail_count(void *arg, struct broker_partition *partition)
{
    struct tails *tails = arg;
    pthread_mutex_lock(&partition->mutex);
    const struct replica *replica = &partition->replica;
    const int64_t end = OT_MAX(replica->joins_from, replica->epoch_start);
    tails->open += partition->is_leader && !replica_all_have(replica, end);
    tails->living += partition->is_leader && !replica_living_have(replica, end);
    pthread_mutex_unlock(&partition->mutex);
}

/* Or they do not in time: then it goes all the same. */
bool broker_tails_settled(struct broker *broker)
{
    struct broker_member *member = &broker->member;
    struct tails tails = { 0 };
    if (member->tails_end_us == 0) return true;
    broker_partitions_each(broker, tail_count, &tails);
    if (tails.open > 0 && now_of(broker) < (tails.living > 0 ? member->tails_end_us : member->gone_end_us)) return false;
    if (tails.open > 0) {
        member->tails_end_us = 0;              /* that is told once */
        ot_log(OT_LOG_WARN, "broker", "tails_not_replicated", "partitions=%u text=\"replicas that are in sync do not have all that acks=1 acknowledged here: it goes when another one leads\"",
            tails.open);
    }
    return true;
}

static void beat(struct broker *broker)
{
    struct broker_member *member = &broker->member;
    const bool telling = is_telling(broker);
    if (member->asking || !(member->begun || telling)) {
        return;                                /* the answer sets the next */
    }
    member->asking = true;
    member->asked_version = member->endpoints_version;
    member->sent_us = now_of(broker);
    member->ask.answered = answered;
    member->ask.timeout_us = (int64_t)config_of(broker)->broker_heartbeat_interval_ms * 1000;
    member->ask.request = member->registering || telling ? registration(broker, &(struct broker_evidence){ .boot = COORD_BOOT_PROCESS_CRASH })
        : (struct coord_request){ .ask = COORD_ASK_HEARTBEAT, .if_version = -1, .u.heartbeat = { .broker_id = broker->node_id,
            .broker_epoch = atomic_load(&broker->broker_epoch), .applied_version = broker_coordinator_value(broker->coordinator)->stamp.version,
            .want_fence = !member->serving, .want_shutdown = member->leaving && broker_tails_settled(broker) } };
    broker_coordinator_ask(broker->coordinator, &member->ask);
}

static void timer_fired(struct ot_timer *timer) { beat(OT_CONTAINER(timer, struct broker, member.timer)); }

static void begin_run(struct ot_task *task)
{
    struct broker *broker = OT_CONTAINER(task, struct broker, member.begin_task);
    broker->member.begun = true;
    beat_at(broker, 0);
}

static void serve_run(struct ot_task *task)
{
    struct broker *broker = OT_CONTAINER(task, struct broker, member.serve_task);
    broker->member.serving = true;
    beat_at(broker, 0);
}

void broker_member_applied(struct broker *broker, struct ot_blob delta)
{
    struct coord_delta_reader in = coord_delta_reader_over(delta);
    struct coord_delta_row row;
    if (release_untold(broker)) {
        beat_at(broker, 0);
    }
    while (broker->member.begun && coord_delta_next(&in, &row)) {
        if (row.key.bytes > 0 && row.key.data[0] == COORD_TABLE_BROKER) {
            beat_at(broker, AFTER_CHANGE_US);
            return;
        }
    }
}

void broker_member_serve(struct broker *broker)
{
    if (broker->peers != NULL) {
        ot_exec_post(broker->setup.coord_exec, &broker->member.serve_task);
    }
}

bool broker_member_electable(struct broker *broker)
{
    struct broker_member *member = &broker->member;
    pthread_mutex_lock(&member->mutex);
    const bool electable = broker->peers == NULL || member->electable;         /* alone it was, before it served */
    pthread_mutex_unlock(&member->mutex);
    return electable;
}

bool broker_member_cut_off(struct broker *broker)
{
    struct broker_member *member = &broker->member;
    pthread_mutex_lock(&member->mutex);
    const bool silent = member->electable && now_of(broker) - member->answered_us > (int64_t)config_of(broker)->broker_session_timeout_ms * 1000;
    pthread_mutex_unlock(&member->mutex);
    return silent && broker->peers != NULL;
}

void broker_wait_electable(struct broker *broker)
{
    struct broker_member *member = &broker->member;
    const int64_t end_us = now_of(broker) + (int64_t)config_of(broker)->broker_session_timeout_ms * 1000;
    pthread_mutex_lock(&member->mutex);
    while (broker->peers != NULL && !member->electable && now_of(broker) < end_us && !gives_up(broker)) {
        broker_wait_a_little(broker, &member->mutex, &member->changed);
    }
    pthread_mutex_unlock(&member->mutex);
}

/* ---- going */

static void leave_run(struct ot_task *task)
{
    struct broker *broker = OT_CONTAINER(task, struct broker, member.leave_task);
    broker->member.leaving = true;
    broker_tails_wait(broker);
    beat_at(broker, 0);
}

void broker_member_leave(struct broker *broker)
{
    struct broker_member *member = &broker->member;
    if (broker->peers == NULL) {
        return;
    }
    const int64_t began_us = now_of(broker), end_us = began_us + config_of(broker)->ottla_shutdown_handover_timeout_ms * 1000;
    broker_tails_begin(broker);
    pthread_mutex_lock(&member->mutex);
    member->answered_us = now_of(broker);
    ot_exec_post(broker->setup.coord_exec, &member->leave_task);
    while (!member->may_stop && now_of(broker) < end_us && now_of(broker) < member->answered_us + LEAVE_SILENCE_US) {
        broker_wait_a_little(broker, &member->mutex, &member->changed);
    }
    const bool may_stop = member->may_stop;
    pthread_mutex_unlock(&member->mutex);
    ot_log(may_stop ? OT_LOG_INFO : OT_LOG_WARN, "broker", "handed_over", "node=%d complete=%s ms=%lld", broker->node_id, may_stop ? "yes" : "no",
        (long long)((now_of(broker) - began_us) / 1000));
}

void broker_member_end(void *arg)
{
    struct broker *broker = arg;
    broker->member.begun = broker->member.serving = false;
    broker->member.ended = true;
    broker_elections_end(broker);
    ot_exec_timer_cancel(broker->setup.coord_exec, &broker->member.timer);
}

void broker_member_init(struct broker *broker)
{
    struct broker_member *member = &broker->member;
    pthread_mutex_init(&member->mutex, NULL);
    pthread_cond_init(&member->changed, NULL);
    member->timer.fired = timer_fired;
    member->begin_task.run = begin_run;
    member->serve_task.run = serve_run;
    member->leave_task.run = leave_run;
}

void broker_member_free(struct broker *broker)
{
    for (struct broker_moved *moved = broker->member.moved, *next; moved != NULL; moved = next) {
        next = moved->next;
        free(moved);
    }
    pthread_mutex_destroy(&broker->member.mutex);
    pthread_cond_destroy(&broker->member.changed);
}
