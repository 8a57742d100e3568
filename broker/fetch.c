/* The life of one fetch: read what is there; if it is less than min.bytes, park until a partition moves, the time is up or the client leaves.
 *
 *   home ──read──► enough: answer        BUSY: the I/O pool reads, then back home with what it found
 *          └─────► park ──(signal | deadline | cancel: one of them takes set->parked)──► read again ──► …
 */
#include "broker/fetch_set.h"
#include <string.h>

#define SHOW_US 100000

static void step_home(struct ot_task *task);
static void step_io(struct ot_task *task);

static void done_run(struct ot_task *task)
{
    struct broker_fetch *fetch = OT_CONTAINER(task, struct broker_fetch, call.task);
    fetch->call.done(&fetch->call);
}

/* What the answer tells is what a session remembers; entries that gave data go to the end, and those that had no room stay, so that none starves. */
static void remember(struct broker_fetch *fetch)
{
    struct broker_fetch_node *node = fetch->set->dirty_first, *last = fetch->set->dirty_last, *next;
    for (; node != NULL; node = next) {
        next = node == last ? NULL : node->dirty_next;
        if (node->row < 0) continue;
        const struct broker_fetch_row *row = &fetch->rows[node->row];
        node->known = row->error == OT_OK;
        node->sent_high_watermark = row->high_watermark;
        node->sent_log_start = row->log_start_offset;
        const bool served = row->read.bytes > 0 || row->error != OT_OK || row->diverging_end_offset >= 0;
        if (!served && node->behind) continue; /* there was no room for it: it keeps its place, those that gave go behind it */
        broker_fetch_clean(node);
        if (served) broker_fetch_dirty(node);
    }
}

/* A session's names are its own: it may be closed, or forget an entry, as soon as we have left it and before the answer is written. */
static bool keep_names(struct broker_fetch *fetch)
{
    struct ot_str last = { 0 }, copy = { 0 };
    for (uint32_t i = 0; i < fetch->row_count; i++) {
        struct ot_str *topic = &fetch->rows[i].topic;
        if (topic->null || topic->bytes == 0) continue;
        if (!ot_str_equal(*topic, last)) {
            char *name = ot_arena_alloc(fetch->arena, topic->bytes);
            if (name == NULL) return false;
            memcpy(name, topic->data, topic->bytes);
            last = *topic;
            copy = *topic;
            copy.data = name;
        }
        *topic = copy;
    }
    return true;
}

static void answer(struct broker_fetch *fetch)
{
    if (fetch->ended) return;
    fetch->ended = true;
    for (uint32_t i = 0; i < fetch->row_count; i++) {          /* the entries still hold their partitions, and these their topics */
        struct broker_topic *topic = fetch->rows[i].counted;
        if (topic == NULL) continue;
        ot_series_add(topic->series.fetch_requests, 1);
        if (fetch->follower) atomic_fetch_add_explicit(&broker_core_of(fetch->broker)->replication_bytes_out, fetch->rows[i].read.bytes, memory_order_relaxed);
        else ot_series_add(topic->series.bytes_out, fetch->rows[i].read.bytes);
        if (fetch->rows[i].throttled && fetch->rows[i].read.bytes > 0) broker_throttle_spend(&broker_core_of(fetch->broker)->throttles.leader, fetch->rows[i].read.bytes);
    }
    ot_exec_timer_cancel(fetch->call.home, &fetch->timer);
    if (fetch->set != NULL) {
        if (fetch->set->id != 0) {
            remember(fetch);
            if (!keep_names(fetch)) {
                broker_fetch_release(fetch);
                fetch->row_count = 0;
                fetch->error = OT_ERR_NO_MEMORY;
            }
            broker_fetch_session_leave(fetch);
        } else {
            broker_fetch_set_unhang_request(fetch->set);
        }
    }
    fetch->call.task.run = done_run;
    ot_exec_post(fetch->call.home, &fetch->call.task);
}

/* Home, with rows read. */
static void decide(struct broker_fetch *fetch, enum ot_err err, bool answer_now)
{
    if (err != OT_OK) {
        fetch->error = err;
        fetch->row_count = 0;
        answer(fetch);
        return;
    }
    bool enough = fetch->bytes >= (uint64_t)OT_MAX(fetch->min_bytes, 0) || fetch->bytes >= (uint64_t)OT_MAX(fetch->max_bytes, 0) || fetch->max_wait_ms <= 0;
    /* what a producer was told before this fetch came is shown to it, though it did not mean to wait: the flush that shows it is a millisecond away */
    bool show = enough && fetch->unshown && fetch->bytes == 0;
    if ((enough && !show) || answer_now || fetch->expired || fetch->cancelled || fetch->set->node_count == 0) {
        answer(fetch);
        return;
    }
    if (show) ot_exec_timer_set(fetch->call.home, &fetch->timer, fetch->started_us + (fetch->max_wait_ms > 0 ? OT_MIN((int64_t)fetch->max_wait_ms * 1000, SHOW_US) : SHOW_US));
    broker_fetch_release(fetch);               /* what is there stays there; nothing stays pinned while we wait */
    fetch->step.run = step_home;
    fetch->waits = true;
    atomic_fetch_add_explicit(&broker_core_of(fetch->broker)->waiting_fetches, 1, memory_order_relaxed);
    atomic_store(&fetch->set->parked, fetch);
    if (atomic_load(&fetch->set->ready) != NULL && atomic_exchange(&fetch->set->parked, NULL) == fetch)
        ot_exec_post(fetch->call.home, &fetch->step);
}

static void step_home(struct ot_task *task)
{
    struct broker_fetch *fetch = OT_CONTAINER(task, struct broker_fetch, step);
    bool answer_now = false;
    if (fetch->waits) {
        fetch->waits = false;
        atomic_fetch_sub_explicit(&broker_core_of(fetch->broker)->waiting_fetches, 1, memory_order_relaxed);
    }
    enum ot_err err = broker_fetch_read(fetch, false, &answer_now);
    if (err == OT_ERR_BUSY) {
        fetch->on_io = true;
        fetch->step.run = step_io;
        ot_exec_post(broker_io_exec(fetch->broker), &fetch->step);
        return;
    }
    decide(fetch, err, answer_now);
}

static void step_back(struct ot_task *task)
{
    struct broker_fetch *fetch = OT_CONTAINER(task, struct broker_fetch, step);
    enum ot_err err = fetch->error;
    fetch->on_io = false;
    fetch->error = OT_OK;
    decide(fetch, err == OT_ERR_BUSY ? OT_OK : err, err == OT_ERR_BUSY);
}

/* BUSY in fetch->error on the way back means "answer now". */
static void step_io(struct ot_task *task)
{
    struct broker_fetch *fetch = OT_CONTAINER(task, struct broker_fetch, step);
    bool answer_now = false;
    enum ot_err err = broker_fetch_read(fetch, true, &answer_now);
    fetch->error = err == OT_OK && answer_now ? OT_ERR_BUSY : err;
    fetch->step.run = step_back;
    ot_exec_post(fetch->call.home, &fetch->step);
}

static void timer_fired(struct ot_timer *timer)
{
    struct broker_fetch *fetch = OT_CONTAINER(timer, struct broker_fetch, timer);
    fetch->expired = true;
    if (atomic_exchange(&fetch->set->parked, NULL) == fetch) step_home(&fetch->step);      /* else a waker or the I/O pool has it */
}

void broker_fetch_cancel(struct broker_fetch *fetch)
{
    if (fetch->ended) return;
    fetch->cancelled = true;
    /* read anew: while it was parked nothing was pinned, and a client that only ended its sending still gets this answer */
    if (fetch->set != NULL && atomic_exchange(&fetch->set->parked, NULL) == fetch) step_home(&fetch->step);
}

void broker_fetch_release(struct broker_fetch *fetch)
{
    for (uint32_t i = 0; i < fetch->row_count; i++) {
        struct ot_pin *pin = fetch->rows[i].read.pin;
        fetch->rows[i].read.pin = NULL;
        if (pin != NULL) pin->release(pin);
    }
}

void broker_fetch(struct broker *broker, struct broker_fetch *fetch)
{
    fetch->broker = broker;
    fetch->error = OT_OK;
    fetch->session_id_out = 0;
    fetch->rows = NULL;
    fetch->row_count = fetch->rows_cap = 0;
    fetch->bytes = 0;
    fetch->on_io = fetch->waits = fetch->expired = fetch->cancelled = fetch->ended = fetch->unshown = false;
    fetch->timer = (struct ot_timer){ .fired = timer_fired };
    fetch->step.run = step_home;
    fetch->started_us = ot_exec_now_us(fetch->call.home);
    fetch->set = broker_fetch_session_enter(fetch);
    if (fetch->set == NULL) {
        answer(fetch);
        return;
    }
    if (fetch->max_wait_ms > 0) ot_exec_timer_set(fetch->call.home, &fetch->timer, fetch->started_us + (int64_t)fetch->max_wait_ms * 1000);
    step_home(&fetch->step);
}
