#include "broker/jobs.h"
#include "base/log.h"
#include "base/util.h"
#include "broker/room.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAP_MS = 50 };

struct broker_job {
    struct broker_job *next;                   /* older; guarded by the jobs' mutex, as is the view */
    struct broker *broker;
    struct ot_task task;
    struct broker_job_view view;
    _Atomic bool cancelled;
    int64_t bytes_per_second;
    int64_t began_us;                          /* of the running one, on its thread */
    struct broker_partition *partition;        /* being looked at */
};

const char *broker_job_state_name(enum broker_job_state state)
{
    static const char *const names[] = { "queued", "running", "cancelling", "done", "failed", "cancelled" };
    return names[state];
}

static bool has_ended(const struct broker_job *job) { return job->view.state >= BROKER_JOB_DONE; }

/* ---- looking at logs, on the jobs' thread */

static void note_fault(void *arg, const char *text)
{
    struct broker_job *job = arg;
    struct broker_job_view *view = &job->view;
    struct broker_partition_state state;
    char field[OT_LOG_FIELD_BYTES];
    broker_partition_state(job->partition, &state);
    pthread_mutex_lock(&job->broker->jobs.mutex);
    if (view->faults++ < BROKER_JOB_FAULTS) snprintf(view->fault_texts[view->fault_count++], BROKER_JOB_FAULT_BYTES, "%s-%d/%s", state.topic, state.partition, text);
    const bool first = view->faults <= BROKER_JOB_FAULTS;
    pthread_mutex_unlock(&job->broker->jobs.mutex);
    if (first) ot_log(OT_LOG_ERROR, "log", "verify_fault", "topic=%s partition=%d text=%s", state.topic, state.partition, ot_log_field(field, text));
}

static bool go_on(void *arg, uint64_t bytes)
{
    struct broker_job *job = arg;
    pthread_mutex_lock(&job->broker->jobs.mutex);
    job->view.done_bytes += bytes;
    const uint64_t done_bytes = job->view.done_bytes;
    pthread_mutex_unlock(&job->broker->jobs.mutex);
    while (job->bytes_per_second > 0 && !atomic_load(&job->cancelled)) {
        const double due_s = (double)done_bytes / (double)job->bytes_per_second;
        if ((double)(ot_clock_boot_us() - job->began_us) / 1e6 >= due_s) break;
        nanosleep(&(struct timespec){ .tv_nsec = NAP_MS * 1000000L }, NULL);
    }
    return !atomic_load(&job->cancelled);
}

static bool is_meant(const struct broker_job_view *view, const struct broker_partition *partition)
{
    return view->topic[0] == 0 || (strcmp(view->topic, partition->topic->name) == 0 && (view->partition < 0 || view->partition == partition->index));
}

static enum ot_err look_at(struct broker_job *job, struct broker_partition *partition)
{
    const bool open = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN;
    pthread_mutex_lock(&job->broker->jobs.mutex);
    job->view.partitions += open;
    job->view.skipped += !open;
    pthread_mutex_unlock(&job->broker->jobs.mutex);
    if (!open) return OT_OK;
    job->partition = partition;
    const enum ot_err err = eng_log_verify_watched(partition->log, note_fault, go_on, job);
    return err == OT_ERR_CLOSED ? OT_OK : err;         /* deleted meanwhile */
}

static void set_total(struct broker_job *job, struct broker_partition *const *list, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_meant(&job->view, list[i]) && atomic_load(&list[i]->stage) == BROKER_PARTITION_OPEN) bytes += eng_log_size_bytes(list[i]->log);
    pthread_mutex_lock(&job->broker->jobs.mutex);
    job->view.total_bytes = bytes;
    pthread_mutex_unlock(&job->broker->jobs.mutex);
}

static void forget_old(struct broker_jobs *jobs)
{
    uint32_t ended = 0;
    for (struct broker_job **at = &jobs->newest; *at != NULL;) {
        struct broker_job *job = *at;
        if (!has_ended(job) || ++ended <= BROKER_JOBS_ENDED_MAX) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        jobs->count--;
        free(job);
    }
}

static void end(struct broker_job *job, enum ot_err err)
{
    struct broker_jobs *jobs = &job->broker->jobs;
    struct broker_job_view *view = &job->view;
    pthread_mutex_lock(&jobs->mutex);
    view->state = err == OT_ERR_CANCELLED ? BROKER_JOB_CANCELLED : err != OT_OK ? BROKER_JOB_FAILED : BROKER_JOB_DONE;
    view->error = err == OT_ERR_CANCELLED ? OT_OK : err;
    view->ended_ms = ot_clock_wall_ms();
    ot_log(view->faults > 0 || view->state == BROKER_JOB_FAILED ? OT_LOG_WARN : OT_LOG_INFO, "broker", "job_ended", "job=%s kind=%s state=%s partitions=%u skipped=%u bytes=%" PRIu64 " faults=%" PRIu64,
        view->id, view->kind, broker_job_state_name(view->state), view->partitions, view->skipped, view->done_bytes, view->faults);
    jobs->waiting--;
    forget_old(jobs);                          /* may free this one, if a hundred newer ones ended before it */
    pthread_mutex_unlock(&jobs->mutex);
}

static void run(struct ot_task *task)
{
    struct broker_job *job = OT_CONTAINER(task, struct broker_job, task);
    struct broker_jobs *jobs = &job->broker->jobs;
    uint32_t count = 0;
    enum ot_err err = atomic_load(&job->cancelled) ? OT_ERR_CANCELLED : OT_OK;
    struct broker_partition **list = err == OT_OK ? broker_partitions_copy(broker_core_of(job->broker), &count) : NULL;
    pthread_mutex_lock(&jobs->mutex);
    if (err == OT_OK) job->view.state = BROKER_JOB_RUNNING;
    job->view.started_ms = ot_clock_wall_ms();
    job->began_us = ot_clock_boot_us();
    pthread_mutex_unlock(&jobs->mutex);
    set_total(job, list, count);
    for (uint32_t i = 0; i < count; i++) {
        if (err == OT_OK && is_meant(&job->view, list[i])) err = look_at(job, list[i]);
        if (err == OT_OK && atomic_load(&job->cancelled)) err = OT_ERR_CANCELLED;
        broker_partition_put(list[i]);
    }
    free(list);
    end(job, err);
}

/* ---- asking */

static void copy_out(const struct broker_job *job, struct broker_job_view *out)
{
    const struct broker_job_view *view = &job->view;
    *out = *view;
    out->eta_ms = -1;
    if (view->state == BROKER_JOB_RUNNING && view->done_bytes > 0 && view->total_bytes >= view->done_bytes) {
        const double took_ms = (double)(ot_clock_boot_us() - job->began_us) / 1000;
        out->eta_ms = (int64_t)(took_ms * (double)(view->total_bytes - view->done_bytes) / (double)view->done_bytes);
    }
}

static struct broker_job *find(struct broker_jobs *jobs, struct ot_str id)
{
    for (struct broker_job *job = jobs->newest; job != NULL; job = job->next)
        if (ot_str_equal(id, ot_str_of(job->view.id))) return job;
    return NULL;
}

static bool is_here(struct broker *broker, struct ot_str topic, int32_t partition)
{
    int32_t count = 0;
    if (topic.null) return true;
    if (topic.bytes >= BROKER_JOB_TOPIC_BYTES || !broker_topic_known(broker, topic, NULL, &count)) return false;
    struct broker_partition *found = partition < 0 ? NULL : broker_partition_find(broker, topic, partition);
    broker_partition_put(found);
    return partition < 0 || found != NULL;
}

enum ot_err broker_job_verify(struct broker *broker, struct ot_str topic, int32_t partition, int64_t bytes_per_second, struct broker_job_view *out)
{
    struct broker_jobs *jobs = &broker->jobs;
    if (!is_here(broker, topic, partition)) return OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    struct broker_job *job = calloc(1, sizeof(*job));
    if (job == NULL) return OT_ERR_NO_MEMORY;
    job->broker = broker;
    job->task.run = run;
    job->bytes_per_second = bytes_per_second;
    job->view = (struct broker_job_view){ .kind = "verify", .partition = partition, .started_ms = -1, .ended_ms = -1, .eta_ms = -1 };
    if (!topic.null) snprintf(job->view.topic, sizeof(job->view.topic), "%.*s", (int)topic.bytes, topic.data);
    pthread_mutex_lock(&jobs->mutex);
    enum ot_err err = jobs->stopping ? OT_ERR_CLOSED : jobs->waiting >= BROKER_JOBS_WAITING_MAX ? OT_ERR_BUSY : OT_OK;
    if (err == OT_OK && jobs->thread == NULL) err = ot_exec_thread_start("jobs", &jobs->thread);
    if (err == OT_OK) {
        snprintf(job->view.id, sizeof(job->view.id), "j-%d-%" PRIx64 "-%" PRIu64, broker->node_id, (uint64_t)broker->started_wall_ms / 1000, ++jobs->last);
        job->next = jobs->newest;
        jobs->newest = job;
        jobs->count++;
        jobs->waiting++;
        copy_out(job, out);
        ot_exec_post(ot_exec_thread_exec(jobs->thread), &job->task);
    }
    pthread_mutex_unlock(&jobs->mutex);
    if (err != OT_OK) free(job);
    return err;
}

bool broker_job_find(struct broker *broker, struct ot_str id, struct broker_job_view *out)
{
    pthread_mutex_lock(&broker->jobs.mutex);
    const struct broker_job *job = find(&broker->jobs, id);
    if (job != NULL) copy_out(job, out);
    pthread_mutex_unlock(&broker->jobs.mutex);
    return job != NULL;
}

bool broker_job_next(struct broker *broker, struct ot_str id, struct broker_job_view *out)
{
    pthread_mutex_lock(&broker->jobs.mutex);
    const struct broker_job *job = id.null ? NULL : find(&broker->jobs, id), *next = id.null ? broker->jobs.newest : job == NULL ? NULL : job->next;
    if (next != NULL) copy_out(next, out);
    pthread_mutex_unlock(&broker->jobs.mutex);
    return next != NULL;
}

uint32_t broker_job_count(struct broker *broker)
{
    pthread_mutex_lock(&broker->jobs.mutex);
    const uint32_t count = broker->jobs.count;
    pthread_mutex_unlock(&broker->jobs.mutex);
    return count;
}

enum ot_err broker_job_cancel(struct broker *broker, struct ot_str id, struct broker_job_view *out)
{
    enum ot_err err = OT_OK;
    pthread_mutex_lock(&broker->jobs.mutex);
    struct broker_job *job = find(&broker->jobs, id);
    if (job == NULL) {
        err = OT_ERR_NOT_FOUND;
    } else if (has_ended(job)) {
        copy_out(job, out);
        err = OT_ERR_MISMATCH;
    } else {
        job->view.state = BROKER_JOB_CANCELLING;
        atomic_store(&job->cancelled, true);
        copy_out(job, out);
    }
    pthread_mutex_unlock(&broker->jobs.mutex);
    return err;
}

/* ---- life */

void broker_jobs_init(struct broker *broker) { pthread_mutex_init(&broker->jobs.mutex, NULL); }

void broker_jobs_stop(struct broker *broker)
{
    struct broker_jobs *jobs = &broker->jobs;
    pthread_mutex_lock(&jobs->mutex);
    jobs->stopping = true;
    for (struct broker_job *job = jobs->newest; job != NULL; job = job->next) atomic_store(&job->cancelled, true);
    struct ot_exec_thread *thread = jobs->thread;
    jobs->thread = NULL;
    pthread_mutex_unlock(&jobs->mutex);
    ot_exec_thread_stop(thread);               /* runs what waits: cancelled, each ends at once */
}

void broker_jobs_free(struct broker *broker)
{
    for (struct broker_job *job = broker->jobs.newest, *next; job != NULL; job = next) {
        next = job->next;
        free(job);
    }
    pthread_mutex_destroy(&broker->jobs.mutex);
}
