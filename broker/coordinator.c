#include "broker/coordinator_inner.h"
#include "base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_WAIT_US 250000                  /* an answer does not wait longer for partitions to open: until then they say LEADER_NOT_AVAILABLE */

/* ---- batches */

static void batch_answer(struct broker_batch *batch)
{
    while (batch->first != NULL) {
        struct broker_ask *ask = batch->first;
        batch->first = ask->next;
        forward_give(ask);
    }
    batch->last = &batch->first;
}

static void batch_end(struct broker_batch *batch)
{
    batch_answer(batch);
    ot_exec_timer_cancel(batch->exec, &batch->timer);
    free(batch);
}

static void batch_waited(struct ot_timer *timer) { batch_answer(OT_CONTAINER(timer, struct broker_batch, timer)); }

static struct broker_batch *batch_new(struct ot_exec *exec)
{
    struct broker_batch *batch = calloc(1, sizeof *batch);
    if (batch != NULL) {
        *batch = (struct broker_batch){ .exec = exec, .timer.fired = batch_waited, .open = 1, .last = &batch->first };
    }
    return batch;
}

struct broker_batch *broker_batch_begin(struct ot_exec *exec, struct broker_ask *ask)
{
    struct broker_batch *batch = batch_new(exec);
    if (batch == NULL) {
        ask->answered(ask);
        return NULL;
    }
    ask->next = NULL;
    *batch->last = ask;
    batch->last = &ask->next;
    return batch;
}

void broker_batch_add(struct broker_batch *batch)
{
    if (batch != NULL) {
        batch->open++;
    }
}

void broker_batch_opened(void *arg, enum ot_err err)
{
    struct broker_batch *batch = arg;
    ot_ignore(err, "the partition logged it and shows itself as offline");
    if (batch != NULL && --batch->open == 0) {
        batch_end(batch);
    }
}

/* ---- jobs: what is written, one at a time, in order */

static void job_run(struct ot_task *task)
{
    struct broker_coordinator *c = OT_CONTAINER(task, struct broker_coordinator, job_task);
    struct job *job = &c->jobs[c->job_first];
    if (job->kind == JOB_RECORD) {
        c->job_err = broker_journal_write(&c->journal, &job->record, job->sync);
    } else if (job->kind == JOB_MARK) {
        c->snapshot.mark = broker_journal_mark(&c->journal);
        c->job_err = OT_OK;
    } else {
        c->job_err = broker_journal_switch(&c->journal, &c->format, &c->snapshot.result, &c->snapshot.mark);
    }
    ot_exec_post(c->setup.exec, &c->job_done_task);
}

static void job_next(struct broker_coordinator *c)
{
    if (!c->job_busy && c->job_count > 0) {
        c->job_busy = true;
        ot_exec_post(c->setup.io_exec, &c->job_task);
    }
}

static void job_add(struct broker_coordinator *c, const struct job *job)
{
    OT_ASSERT(c->job_count < JOBS_MAX);        /* one STORE that is waited for, a COMMIT, a mark and a switch at most */
    c->jobs[(c->job_first + c->job_count++) % JOBS_MAX] = *job;
    job_next(c);
}

static void snapshot_over(struct broker_coordinator *c, enum ot_err err)
{
    coord_value_drop(&c->snapshot.value);
    c->snapshot.busy = false;
    ot_log(err == OT_OK ? OT_LOG_INFO : OT_LOG_WARN, "coordinator", err == OT_OK ? "snapshot_written" : "snapshot_failed", "version=%lld bytes=%llu error=%s",
        (long long)c->snapshot.result.stamp.version, (unsigned long long)c->snapshot.result.file_bytes, ot_err_name(err));
}

static void job_done(struct ot_task *task)
{
    struct broker_coordinator *c = OT_CONTAINER(task, struct broker_coordinator, job_done_task);
    struct job job = c->jobs[c->job_first];
    enum ot_err err = c->job_err;
    c->job_first = (c->job_first + 1) % JOBS_MAX;
    c->job_count--;
    c->job_busy = false;
    if (job.kind == JOB_SWITCH) {
        snapshot_over(c, err);
    }
    job_next(c);
    if (job.kind == JOB_MARK) {
        ot_exec_post(c->setup.io_exec, &c->snapshot.task);
        return;
    }
    coordinator_turn(c, (struct coord_in){ .kind = err == OT_OK ? COORD_STORED : COORD_STORE_FAILED, .token = job.token, .error = err });
}

/* ---- snapshots: the file beside everything else, the switch as a job */

static void snapshot_run(struct ot_task *task)
{
    struct broker_coordinator *c = OT_CONTAINER(task, struct broker_coordinator, snapshot.task);
    c->snapshot.err = broker_snapshot_write(c->setup.io, c->dir, &c->snapshot.value, c->snapshot.name, &c->snapshot.result);
    ot_exec_post(c->setup.exec, &c->snapshot.done_task);
}

static void snapshot_done(struct ot_task *task)
{
    struct broker_coordinator *c = OT_CONTAINER(task, struct broker_coordinator, snapshot.done_task);
    if (c->snapshot.err == OT_OK && !c->stopping) {
        job_add(c, &(struct job){ .kind = JOB_SWITCH, .token = c->snapshot.token });
        return;
    }
    snapshot_over(c, c->snapshot.err);
    coordinator_turn(c, (struct coord_in){ .kind = COORD_STORE_FAILED, .token = c->snapshot.token, .error = c->snapshot.err });
}

static void snapshot_start(struct broker_coordinator *c, const struct coord_out *out)
{
    OT_ASSERT(!c->snapshot.busy);
    c->snapshot.busy = true;
    c->snapshot.token = out->token;
    c->snapshot.value = coord_value_share(out->value);
    job_add(c, &(struct job){ .kind = JOB_MARK });     /* behind what is being written: the journal goes on from there */
}

/* ---- who was heard of */

enum { HEARD_MAX = 4096 };

static void note_heard(struct broker_coordinator *c, const struct broker_ask *ask)
{
    struct heard *heard = &c->heard;
    const int32_t id = ask->request.u.heartbeat.broker_id;
    if (ask->request.ask != COORD_ASK_HEARTBEAT || ask->request.error != OT_OK) return;
    pthread_mutex_lock(&heard->mutex);
    uint32_t at = 0;
    while (at < heard->count && heard->rows[at].id != id) at++;
    struct broker_heard *rows = at < heard->count || at == HEARD_MAX ? heard->rows : realloc(heard->rows, (at + 1) * sizeof *rows);
    if (rows != NULL && at < HEARD_MAX) {
        const int64_t now_us = ot_exec_now_us(c->setup.exec), applied = ask->request.u.heartbeat.applied_version;
        const int64_t caught_up_us = applied >= coord_view(c->coord)->stamp.version ? now_us : at < heard->count ? rows[at].caught_up_us : -1;
        heard->rows = rows;
        heard->count = OT_MAX(heard->count, at + 1);
        rows[at] = (struct broker_heard){ id, now_us, applied, caught_up_us };
    }
    pthread_mutex_unlock(&heard->mutex);
}

bool broker_coordinator_heard(struct broker_coordinator *coordinator, int32_t node_id, struct broker_heard *out)
{
    struct heard *heard = &coordinator->heard;
    bool found = false;
    pthread_mutex_lock(&heard->mutex);
    for (uint32_t i = 0; i < heard->count && !found; i++) {
        found = heard->rows[i].id == node_id;
        if (found) *out = heard->rows[i];
    }
    pthread_mutex_unlock(&heard->mutex);
    return found;
}

bool broker_coordinator_progress(struct broker_coordinator *coordinator, int32_t node_id, struct broker_heard *out)
{
    uint64_t heard_us;
    int64_t version;
    if (!broker_coordinator_heard(coordinator, node_id, out)) *out = (struct broker_heard){ node_id, -1, -1, -1 };
    if (!coord_voter_heard(coordinator->coord, node_id, &heard_us, &version) || (int64_t)heard_us < out->at_us) return out->at_us >= 0;
    out->at_us = (int64_t)heard_us;
    out->applied_version = version;
    if (version >= coord_view(coordinator->coord)->stamp.version) out->caught_up_us = out->at_us;
    return true;
}

int64_t broker_coordinator_applied_least(struct broker_coordinator *coordinator, int64_t since_us)
{
    struct heard *heard = &coordinator->heard;
    int64_t least = INT64_MAX;
    pthread_mutex_lock(&heard->mutex);
    for (uint32_t i = 0; i < heard->count; i++)
        if (heard->rows[i].at_us >= since_us) least = OT_MIN(least, heard->rows[i].applied_version);
    pthread_mutex_unlock(&heard->mutex);
    return least;
}

/* ---- turns */

void coordinator_answer(struct broker_coordinator *c, struct broker_ask *ask)
{
    note_heard(c, ask);
    if (c->batch == NULL) {
        forward_give(ask);
        return;
    }
    ask->next = NULL;
    *c->batch->last = ask;
    c->batch->last = &ask->next;
}

static void apply(struct broker_coordinator *c, const struct coord_out *out)
{
    if (c->batch == NULL) {
        c->batch = batch_new(c->setup.exec);   /* without one, answers just do not wait */
    }
    if (c->setup.peers != NULL) {
        broker_peers_cluster(c->setup.peers, coord_cluster_id(c->coord));
        broker_peers_rows(c->setup.peers, coord_view(c->coord));
    }
    c->setup.hooks.applied(c->setup.hooks.arg, coord_view(c->coord), out->delta, out->whole, c->batch);
    forward_applied(c);
}

static void keep_format(struct broker_coordinator *c, const struct coord_format *format)   /* a new journal begins with it too */
{
    snprintf(c->cluster_id, sizeof c->cluster_id, "%.*s", (int)format->cluster_id.bytes, format->cluster_id.data);
    c->format = *format;
    c->format.cluster_id = ot_str_of(c->cluster_id);
}

static void carry_out(struct broker_coordinator *c, const struct coord_out *out)
{
    switch (out->kind) {
    case COORD_STORE:
        if (out->record->kind == COORD_RECORD_FORMAT) {
            keep_format(c, &out->record->u.format);
        }
        /* what need not be synced is so all the same, at leisure: then nobody waits for it later */
        job_add(c, &(struct job){ .kind = JOB_RECORD, .token = out->token, .sync = true, .record = *out->record });
        break;
    case COORD_SNAPSHOT: snapshot_start(c, out); break;
    case COORD_APPLY: apply(c, out); break;
    case COORD_ROLE:
        c->setup.hooks.role(c->setup.hooks.arg, out->leading, out->leader, out->stamp.term);
        forward_role(c, out->leading);
        break;
    case COORD_REPLY: forward_reply(c, OT_CONTAINER(out->request, struct broker_ask, request)); break;
    case COORD_HALT:
        ot_log(OT_LOG_ERROR, "coordinator", "halted", "error=%s text=\"%s\" folder=%s", ot_err_name(out->error), out->text, c->dir);
        c->setup.hooks.halted(c->setup.hooks.arg, out->error, out->text);
        break;
    case COORD_SEND: forward_message(c, out->peer, out->body); break;
    }
}

static void set_timer(struct broker_coordinator *c)
{
    uint64_t deadline_us = coord_deadline_us(c->coord);
    if (deadline_us == UINT64_MAX || c->stopping) {
        ot_exec_timer_cancel(c->setup.exec, &c->timer);
    } else {
        ot_exec_timer_set(c->setup.exec, &c->timer, (int64_t)deadline_us);
    }
}

void coordinator_turn(struct broker_coordinator *c, struct coord_in in)
{
    struct coord_out out;
    in.now_us = (uint64_t)ot_exec_now_us(c->setup.exec);
    coord_step(c->coord, &in);
    while (coord_next(c->coord, &out)) {
        carry_out(c, &out);
    }
    struct broker_batch *batch = c->batch;
    c->batch = NULL;
    if (batch != NULL && batch->open > 1 && batch->first != NULL) {
        ot_exec_timer_set(batch->exec, &batch->timer, ot_exec_now_us(batch->exec) + ANSWER_WAIT_US);
    }
    broker_batch_opened(batch, OT_OK);         /* our own count */
    forward_told(c);
    set_timer(c);
    coordinator_settle(c);
}

static void timer_fired(struct ot_timer *timer) { coordinator_turn(OT_CONTAINER(timer, struct broker_coordinator, timer), (struct coord_in){ .kind = COORD_TICK }); }

static void start_run(struct ot_task *task) { coordinator_turn(OT_CONTAINER(task, struct broker_coordinator, start_task), (struct coord_in){ .kind = COORD_TICK }); }

static void ask_run(struct ot_task *task)
{
    struct broker_ask *ask = OT_CONTAINER(task, struct broker_ask, task);
    forward_ask(ask->to, ask);
}

void broker_coordinator_ask(struct broker_coordinator *coordinator, struct broker_ask *ask)
{
    ask->to = coordinator;
    ask->task.run = ask_run;
    ot_exec_post(coordinator->setup.exec, &ask->task);
}

void broker_coordinator_leader(const struct broker_coordinator *coordinator, int32_t *leader_out, int32_t *term_out)
{
    *leader_out = coord_leader(coordinator->coord);
    *term_out = coord_term(coordinator->coord);
}

struct ot_str broker_coordinator_cluster(const struct broker_coordinator *coordinator) { return coord_cluster_id(coordinator->coord); }

const struct coord_value *broker_coordinator_value(const struct broker_coordinator *coordinator) { return coord_view(coordinator->coord); }

/* ---- life */

enum ot_err broker_coordinator_load(const struct broker_coordinator_setup *setup, struct broker_coordinator **out, char *text_out, size_t text_bytes)
{
    enum ot_err err = OT_ERR_NO_MEMORY;
    struct broker_coordinator *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return err;
    }
    c->setup = *setup;
    c->journal.fd = c->journal.term_fd = -1;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    pthread_mutex_init(&c->heard.mutex, NULL);
    c->timer.fired = timer_fired;
    c->start_task.run = start_run;
    forward_init(c);
    c->job_task.run = job_run;
    c->job_done_task.run = job_done;
    c->snapshot.task.run = snapshot_run;
    c->snapshot.done_task.run = snapshot_done;
    c->dir = strdup(setup->dir);
    c->pages = coord_pages_new(setup->pages_bytes_max);
    if (c->dir == NULL || c->pages == NULL) {
        goto fail;
    }
    coord_image_init(&c->image, c->pages);
    if ((err = broker_journal_open(&c->journal, setup->io, c->dir, &c->image, text_out, text_bytes)) != OT_OK) {
        goto fail;
    }
    c->journal.make_room = setup->make_room;
    c->journal.make_room_arg = setup->make_room_arg;
    *out = c;
    return OT_OK;
fail:
    broker_coordinator_close(c);
    return err;
}

const struct coord_disk_image *broker_coordinator_image(const struct broker_coordinator *coordinator) { return &coordinator->image; }

enum ot_err broker_coordinator_start(struct broker_coordinator *coordinator, const struct coord_config *config, uint64_t seed, char *text_out, size_t text_bytes)
{
    struct broker_coordinator *c = coordinator;
    if (c->image.unsure) {
        ot_log(OT_LOG_WARN, "coordinator", "unsure", "folder=%s text=\"the last record was damaged; this voter goes on with what is left, and its vote counts only beside everybody's until a later term\"", c->dir);
    }
    c->format = c->image.format;
    if (c->image.blank) {
        c->format = (struct coord_format){ .cluster_id = config->cluster_id, .node_id = config->node_id, .dir_id = config->dir_id };
    }
    snprintf(c->cluster_id, sizeof c->cluster_id, "%.*s", (int)c->format.cluster_id.bytes, c->format.cluster_id.data);
    c->format.cluster_id = ot_str_of(c->cluster_id);
    if (c->setup.peers != NULL && !c->image.blank) {
        broker_peers_cluster(c->setup.peers, c->format.cluster_id);
    }
    enum ot_err err = coord_new(config, &c->image, seed, &c->coord, text_out, text_bytes);
    if (err == OT_OK) {
        coord_image_free(&c->image);
        ot_exec_post(c->setup.exec, &c->start_task);
    }
    return err;
}

void coordinator_settle(struct broker_coordinator *c)
{
    struct coord_out out;
    if (!c->stopping || c->stopped || c->job_busy || c->job_count > 0 || c->snapshot.busy || forward_busy(c)) {
        return;
    }
    coord_step(c->coord, &(struct coord_in){ .kind = COORD_STOP, .now_us = (uint64_t)ot_exec_now_us(c->setup.exec) });
    while (coord_next(c->coord, &out)) {
        if (out.kind == COORD_REPLY) {
            coordinator_answer(c, OT_CONTAINER(out.request, struct broker_ask, request));
        }
    }
    ot_exec_timer_cancel(c->setup.exec, &c->timer);
    pthread_mutex_lock(&c->mutex);
    c->stopped = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->mutex);
}

static void stop_run(struct ot_task *task)
{
    struct broker_coordinator *c = OT_CONTAINER(task, struct broker_coordinator, stop_task);
    c->stopping = true;
    forward_stop(c);
    coordinator_settle(c);
}

void broker_coordinator_stop(struct broker_coordinator *coordinator)
{
    struct broker_coordinator *c = coordinator;
    if (c == NULL || c->coord == NULL || c->stopping) {
        return;
    }
    broker_peers_stop(c->setup.peers);         /* what was passed on is answered */
    c->stop_task.run = stop_run;
    ot_exec_post(c->setup.exec, &c->stop_task);
    pthread_mutex_lock(&c->mutex);
    while (!c->stopped) {
        pthread_cond_wait(&c->changed, &c->mutex);
    }
    pthread_mutex_unlock(&c->mutex);
}

void broker_coordinator_close(struct broker_coordinator *coordinator)
{
    struct broker_coordinator *c = coordinator;
    if (c == NULL) {
        return;
    }
    if (c->coord != NULL) {
        broker_coordinator_stop(c);
        c->setup.hooks.closing(c->setup.hooks.arg);
    }
    coord_free(c->coord);
    if (c->image.pages != NULL) {
        coord_image_free(&c->image);
    }
    broker_journal_close(&c->journal);
    coord_pages_free(c->pages);
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->heard.mutex);
    free(c->heard.rows);
    free(c->dir);
    free(c);
}

/* ---- a call from outside */

struct outside { struct ot_task task; void (*run)(void *arg); void *arg; pthread_mutex_t mutex; pthread_cond_t changed; bool done; };

static void outside_run(struct ot_task *task)
{
    struct outside *outside = OT_CONTAINER(task, struct outside, task);
    outside->run(outside->arg);
    pthread_mutex_lock(&outside->mutex);
    outside->done = true;
    pthread_cond_signal(&outside->changed);
    pthread_mutex_unlock(&outside->mutex);
}

void broker_coordinator_run(struct ot_exec *exec, void (*run)(void *arg), void *arg)
{
    struct outside outside = { .task.run = outside_run, .run = run, .arg = arg };
    pthread_mutex_init(&outside.mutex, NULL);
    pthread_cond_init(&outside.changed, NULL);
    ot_exec_post(exec, &outside.task);
    pthread_mutex_lock(&outside.mutex);
    while (!outside.done) {
        pthread_cond_wait(&outside.changed, &outside.mutex);
    }
    pthread_mutex_unlock(&outside.mutex);
    pthread_mutex_destroy(&outside.mutex);
    pthread_cond_destroy(&outside.changed);
}
