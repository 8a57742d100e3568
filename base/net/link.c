#include "base/net/link_inner.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define UP_FOR_LONG_US 500000             /* one that is lost earlier counts as a failed try: no hot loop with somebody who accepts and closes */
#define OR_DEFAULT(value, usual) ((value) <= 0 ? (usual) : (value))

/* ---- calls */

static void deliver(struct ot_task *task)
{
    struct ot_link_call *call = OT_CONTAINER(task, struct ot_link_call, task);
    call->answered(call);
}

void link_answer(struct ot_link *link, struct ot_link_call *call, enum ot_err error, struct ot_buf *answer)
{
    (void)link;
    ot_buf_unref(call->request);           /* NULL once it was sent */
    call->request = NULL;
    call->error = error;
    call->answer = answer;
    if (call->home == NULL) {
        call->answered(call);
        return;
    }
    call->task.run = deliver;
    ot_exec_post(call->home, &call->task);
}

struct link_slot *link_slot_find(struct ot_link *link, int32_t id)
{
    for (uint32_t i = 0; i < link->slot_count; i++) {
        if (link->slots[i].id == id) return &link->slots[i];
    }
    return NULL;
}

static enum ot_err greet_on(struct ot_link *link, const struct ot_buf *answer);

void link_slot_answered(struct ot_link *link, int32_t id, enum ot_err error, struct ot_buf *answer)
{
    struct link_slot *slot = link_slot_find(link, id);
    struct ot_link_call *call = slot->call;
    const uint32_t at = (uint32_t)(slot - link->slots);
    memmove(slot, slot + 1, (--link->slot_count - at) * sizeof *slot);
    if (call == &link->greet_call) {
        const enum ot_err err = error == OT_OK ? greet_on(link, answer) : error;
        ot_buf_unref(answer);
        if (err != OT_OK) link_lost(link, OT_LINK_FAILED);
    } else if (call != NULL) {
        link_answer(link, call, error, answer);
    } else {
        ot_buf_unref(answer);
    }
}

static void answer_waiting(struct ot_link *link, enum ot_err error)
{
    while (link->waiting != NULL) {
        struct ot_link_call *call = link->waiting;
        link->waiting = call->next;
        link->waiting_count--;
        link_answer(link, call, error, NULL);
    }
    link->waiting_last = NULL;
}

static void answer_sent(struct ot_link *link)
{
    while (link->slot_count > 0) {
        struct ot_link_call *call = link->slots[0].call;
        memmove(link->slots, link->slots + 1, --link->slot_count * sizeof *link->slots);
        if (call != NULL && call != &link->greet_call) link_answer(link, call, OT_ERR_CLOSED, NULL);
    }
}

/* What is said first goes around the list of those that wait. */
static void say(struct ot_link *link, struct ot_link_call *call)
{
    struct ot_buf *request = call->request;
    link->last_id = link->last_id == INT32_MAX ? 1 : link->last_id + 1;
    ot_store_u32(request->data, request->bytes - 4);
    ot_store_u32(request->data + 8, (uint32_t)link->last_id);
    link->slots[link->slot_count++] = (struct link_slot){ link->last_id, call, link_now(link) };
    call->sent = true;
    call->request = NULL;
    link_put(link, request);
}

static void say_waiting(struct ot_link *link)
{
    while (link->state == LINK_UP && link->waiting != NULL && link->slot_count < link->setup.calls_max) {
        struct ot_link_call *call = link->waiting;
        link->waiting = call->next;
        if (link->waiting == NULL) link->waiting_last = NULL;
        link->waiting_count--;
        say(link, call);
    }
}

/* ---- the greeting */

static enum ot_err greet_on(struct ot_link *link, const struct ot_buf *answer)
{
    uint8_t said[LINK_GREETING_BYTES];
    uint32_t bytes = 0;
    enum ot_err err = link->setup.greet(link->setup.greet_arg, link->greet_memory, answer == NULL ? NULL : answer->data, answer == NULL ? 0 : answer->bytes, said, sizeof said, &bytes);
    if (err != OT_OK || bytes == 0) {
        if (err == OT_OK) link_connected(link);
        return err;
    }
    OT_ASSERT(bytes >= 8 && bytes <= sizeof said);
    struct ot_buf *request = ot_buf_new_forced(link->setup.pool, bytes + 4);
    if (request == NULL) return OT_ERR_NO_MEMORY;
    memcpy(request->data + 4, said, bytes);
    request->bytes = bytes + 4;
    link->greet_call = (struct ot_link_call){ .request = request, .answer_bytes_max = LINK_GREETING_BYTES };
    say(link, &link->greet_call);
    return OT_OK;
}

/* ---- states */

static void tell(struct ot_link *link, enum ot_link_event event)
{
    if (link->setup.event != NULL && !link->closing) link->setup.event(link->setup.arg, event);
}

/* TCP is up: the greeting first. */
void link_connected(struct ot_link *link)
{
    if (link->state == LINK_CONNECTING && link->setup.greet != NULL) {
        link->state = LINK_GREETING;
        memset(link->greet_memory, 0, sizeof link->greet_memory);
        if (greet_on(link, NULL) != OT_OK) link_lost(link, OT_LINK_FAILED);
        return;
    }
    const uint32_t at = link->address_at % link->address_count;
    memcpy(&link->was_up.name, &link->addresses[at].name, link->was_up.bytes = link->addresses[at].bytes);
    link->state = LINK_UP;
    link->heard_us = link->up_since_us = link_now(link);
    atomic_store(&link->up, true);
    tell(link, OT_LINK_UP);
    say_waiting(link);
}

static int64_t jitter(struct ot_link *link, int64_t us) { return us / 2 + (int64_t)ot_rng_below(&link->links->rng, (uint64_t)us / 2 + 1); }

/* Of a name with several addresses, another one that refuses says nothing of who was at the one that was up. */
static bool refuses_elsewhere(const struct ot_link *link)
{
    const uint32_t at = link->address_count > 0 ? link->address_at % link->address_count : 0;
    return link->was_up.bytes > 0 && (link->addresses[at].bytes != link->was_up.bytes || memcmp(&link->addresses[at].name, &link->was_up.name, link->was_up.bytes) != 0);
}

void link_lost(struct ot_link *link, enum ot_link_event why)
{
    const bool was_up = link->state == LINK_UP;
    if (why == OT_LINK_REFUSED && refuses_elsewhere(link)) why = OT_LINK_FAILED;
    link_close_fd(link);
    link->state = LINK_IDLE;
    atomic_store(&link->up, false);
    answer_sent(link);
    link->due_us = 0;
    if (was_up && link_now(link) - link->up_since_us >= UP_FOR_LONG_US) {
        link->pause_us = 0;                /* the next try is made at once: whether the other side died is seen so */
    } else {
        link->pause_us = link->pause_us == 0 ? link->setup.pause_us : OT_MIN(link->pause_us * 2, link->setup.pause_max_us);
        link->due_us = link_now(link) + jitter(link, link->pause_us);
    }
    if (!was_up) {
        link->address_at++;
        answer_waiting(link, OT_ERR_CLOSED);
    }
    tell(link, was_up ? OT_LINK_LOST : why);
}

void link_resolved(struct ot_link *link, enum ot_err err)
{
    if (err != OT_OK) link_lost(link, OT_LINK_FAILED);
    else link_connect(link);
}

static void gone(struct ot_link *link)
{
    struct ot_links *links = link->links;
    if (link->resolving || link->again) return;
    if (link->setup.closed != NULL) link->setup.closed(link->setup.arg);
    ot_exec_timer_cancel(links->exec, &link->timer);
    free(link->host);
    free(link->slots);
    free(link->out);
    free(link);
    pthread_mutex_lock(&links->mutex);
    links->live--;
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->mutex);
}

static void resolve_run(struct ot_task *task)
{
    struct ot_link *link = OT_CONTAINER(task, struct ot_link, resolve_task);
    link_resolve(link);
    ot_exec_post(link->links->exec, &link->resolved_task);
}

static void look(struct ot_link *link);

static void resolved_run(struct ot_task *task)
{
    struct ot_link *link = OT_CONTAINER(task, struct ot_link, resolved_task);
    link->resolving = false;
    if (link->closing) {
        gone(link);
        return;
    }
    if (link->state == LINK_RESOLVING) link_resolved(link, link->address_count > 0 ? OT_OK : OT_ERR_NOT_FOUND);
    look(link);
}

static void begin(struct ot_link *link)
{
    link->state = LINK_RESOLVING;
    link->due_us = link_now(link) + link->setup.connect_us;
    if (link_numeric(link) == OT_OK) {
        link_connect(link);
    } else if (link->links->resolve_exec == NULL) {
        link_lost(link, OT_LINK_FAILED);
    } else if (!link->resolving) {         /* the last look-up may still be under way: its answer is as good */
        link->resolving = true;
        ot_exec_post(link->links->resolve_exec, &link->resolve_task);
    }
}

/* Deadlines; answers with the first one that comes next. */
static int64_t expire(struct ot_link *link, int64_t now_us)
{
    int64_t next_us = INT64_MAX;
    for (struct ot_link_call **at = &link->waiting, *last = NULL; *at != NULL;) {
        struct ot_link_call *call = *at;
        if (call->deadline_us > now_us) {
            next_us = OT_MIN(next_us, call->deadline_us);
            at = &call->next;
            last = call;
            continue;
        }
        *at = call->next;
        if (link->waiting_last == call) link->waiting_last = last;
        link->waiting_count--;
        link_answer(link, call, OT_ERR_REQUEST_TIMED_OUT, NULL);
    }
    for (uint32_t i = 0; i < link->slot_count; i++) {
        struct ot_link_call *call = link->slots[i].call;
        if (call == NULL || call == &link->greet_call) continue;
        if (call->deadline_us > now_us) {
            next_us = OT_MIN(next_us, call->deadline_us);
        } else {
            link->slots[i].call = NULL;
            link_answer(link, call, OT_ERR_REQUEST_TIMED_OUT, NULL);
        }
    }
    return next_us;
}

static int64_t silent_at(const struct ot_link *link)
{
    return link->state == LINK_UP && link->slot_count > 0 ? OT_MAX(link->heard_us, link->slots[0].sent_us) + link->setup.silence_us : INT64_MAX;
}

static void look(struct ot_link *link)
{
    const int64_t now_us = link_now(link);
    if (link->closing) return;
    if (link->state != LINK_IDLE && link->state != LINK_UP && now_us >= link->due_us) link_lost(link, OT_LINK_FAILED);
    if (now_us >= silent_at(link)) {
        ot_log(OT_LOG_WARN, "net", "link_silent", "host=%s port=%u", link->host, link->setup.port);
        link_lost(link, OT_LINK_LOST);
    }
    if (link->state == LINK_IDLE && (link->setup.keep || link->waiting != NULL) && now_us >= link->due_us) begin(link);
    if (link->state == LINK_UP) say_waiting(link);
    if (link->state >= LINK_CONNECTING) link_run(link);
    int64_t next_us = OT_MIN(expire(link, now_us), silent_at(link));
    if ((link->state == LINK_IDLE && (link->setup.keep || link->waiting != NULL)) || (link->state != LINK_IDLE && link->state != LINK_UP)) next_us = OT_MIN(next_us, link->due_us);
    if (next_us == INT64_MAX) ot_exec_timer_cancel(link->links->exec, &link->timer);
    else ot_exec_timer_set(link->links->exec, &link->timer, next_us);
}

static void timer_fired(struct ot_timer *timer) { look(OT_CONTAINER(timer, struct ot_link, timer)); }

static void again_run(struct ot_task *task)
{
    struct ot_link *link = OT_CONTAINER(task, struct ot_link, again_task);
    link->again = false;
    if (link->closing) gone(link);
    else look(link);
}

static void fd_ready(struct ot_loop_fd *event, uint32_t events)
{
    struct ot_link *link = OT_CONTAINER(event, struct ot_link, event);
    (void)events;                          /* a call tells more than the bits: a failed connect is both readable and writable */
    link->readable = link->writable = true;
    look(link);
}

static void open_run(struct ot_task *task) { look(OT_CONTAINER(task, struct ot_link, open_task)); }

static void close_run(struct ot_task *task)
{
    struct ot_link *link = OT_CONTAINER(task, struct ot_link, close_task);
    link->closing = true;
    link_close_fd(link);
    atomic_store(&link->up, false);
    answer_sent(link);
    answer_waiting(link, OT_ERR_CLOSED);
    gone(link);
}

/* ---- the surface */

enum ot_err ot_link_open(struct ot_links *links, const struct ot_link_setup *setup, struct ot_link **out)
{
    struct ot_link *link = calloc(1, sizeof *link);
    if (link == NULL) return OT_ERR_NO_MEMORY;
    link->links = links;
    link->setup = *setup;
    struct ot_link_setup *my = &link->setup;
    my->calls_max = my->calls_max == 0 ? 64 : OT_MIN(my->calls_max, 1024u);
    my->connect_us = OR_DEFAULT(my->connect_us, 5000000);
    my->silence_us = OR_DEFAULT(my->silence_us, 30000000);
    my->pause_us = OR_DEFAULT(my->pause_us, 50000);
    my->pause_max_us = OR_DEFAULT(my->pause_max_us, 1000000);
    link->host = strdup(setup->host);
    link->slots = calloc(my->calls_max + 1, sizeof *link->slots);      /* and the greeting */
    link->out = calloc(my->calls_max + 1, sizeof(struct ot_buf *));
    if (link->host == NULL || link->slots == NULL || link->out == NULL) {
        free(link->host);
        free(link->slots);
        free(link->out);
        free(link);
        return OT_ERR_NO_MEMORY;
    }
    my->host = link->host;
    link->event = (struct ot_loop_fd){ .ready = fd_ready, .fd = -1 };
    link->timer.fired = timer_fired;
    link->open_task.run = open_run;
    link->close_task.run = close_run;
    link->resolve_task.run = resolve_run;
    link->resolved_task.run = resolved_run;
    link->again_task.run = again_run;
    pthread_mutex_lock(&links->mutex);
    links->live++;
    pthread_mutex_unlock(&links->mutex);
    if (my->keep) ot_exec_post(links->exec, &link->open_task);
    *out = link;
    return OT_OK;
}

void ot_link_close(struct ot_link *link)
{
    if (link != NULL) ot_exec_post(link->links->exec, &link->close_task);
}

bool ot_link_up(const struct ot_link *link) { return atomic_load_explicit(&link->up, memory_order_relaxed); }

static void send_run(struct ot_task *task)
{
    struct ot_link_call *call = OT_CONTAINER(task, struct ot_link_call, task);
    struct ot_link *link = call->link;
    call->next = NULL;
    if (link->waiting_count + link->slot_count >= link->setup.calls_max) {
        link_answer(link, call, OT_ERR_BUSY, NULL);
        return;
    }
    if (link->waiting_last != NULL) link->waiting_last->next = call;
    else link->waiting = call;
    link->waiting_last = call;
    link->waiting_count++;
    look(link);
}

void ot_link_send(struct ot_link *link, struct ot_link_call *call)
{
    OT_ASSERT(call->request != NULL && call->request->bytes >= LINK_REQUEST_HEAD);
    call->link = link;
    call->sent = false;
    call->answer = NULL;
    call->error = OT_OK;
    call->task.run = send_run;
    ot_exec_post(link->links->exec, &call->task);
}

enum ot_err ot_links_open(const char *name, struct ot_exec *resolve_exec, uint64_t seed, struct ot_links **out)
{
    struct ot_links *links = calloc(1, sizeof *links);
    if (links == NULL) return OT_ERR_NO_MEMORY;
    links->resolve_exec = resolve_exec;
    ot_rng_seed(&links->rng, seed);
    pthread_mutex_init(&links->mutex, NULL);
    pthread_cond_init(&links->changed, NULL);
    const enum ot_err err = ot_loop_start(name, &links->loop);
    if (err != OT_OK) {
        pthread_mutex_destroy(&links->mutex);
        pthread_cond_destroy(&links->changed);
        free(links);
        return err;
    }
    links->exec = ot_loop_exec(links->loop);
    *out = links;
    return OT_OK;
}

void ot_links_close(struct ot_links *links)
{
    if (links == NULL) return;
    pthread_mutex_lock(&links->mutex);
    while (links->live > 0) pthread_cond_wait(&links->changed, &links->mutex);
    pthread_mutex_unlock(&links->mutex);
    ot_loop_stop(links->loop);
    pthread_mutex_destroy(&links->mutex);
    pthread_cond_destroy(&links->changed);
    free(links);
}

struct ot_exec *ot_links_exec(struct ot_links *links) { return links->exec; }
