/* Events on their way to their topic. One executor has everything but the inbox:
 *
 *   inbox ─► ring of what committed deltas told (every voter; kept for whoever coordinates next) ─┐
 *        └─► queue of what others emitted here ──────────────────────────────────────────────────┴─► a batch ─► the topic's leader
 *
 * The ring is written by the node that leads as coordinator, from where the topic ends: it reads the last event about the cluster's state first, and again after every batch whose fate is not
 * known. So a batch that was appended though its answer was lost is not written twice, and a new coordinator goes on where the old one stopped. A state is known by its version, or by
 * its hash where a new coordinator gave the same content another version (publish.c). */
#include "broker/events_state.h"

#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the inbox */

/* False: no room. The mutex is held. */
static bool put(struct broker_events *events, struct inbox_item *item)
{
    if (events->ended || events->inbox_count >= INBOX_MAX || events->inbox_bytes + item->bytes > INBOX_BYTES_MAX) return false;
    item->next = NULL;
    *events->inbox_last = item;
    events->inbox_last = &item->next;
    events->inbox_count++;
    events->inbox_bytes += item->bytes;
    events->idle = false;
    if (!events->posted) {
        events->posted = true;
        ot_exec_post(events->exec, &events->task);
    }
    return true;
}

static struct inbox_item *item_new(enum inbox_kind kind, uint32_t bytes)
{
    struct inbox_item *item = malloc(sizeof *item + bytes);
    if (item != NULL) *item = (struct inbox_item){ .kind = kind, .bytes = bytes };
    return item;
}

static void item_free(struct inbox_item *item)
{
    broker_view_give(item->before);
    broker_view_give(item->after);
    if (item->text != NULL && item->text->kept != NULL) item->text->kept(item->text->arg, OT_ERR_CLOSED);
    free(item->text);
    free(item);
}

static int64_t version_of(const struct broker_view *view) { return view == NULL ? 0 : view->value.stamp.version; }

void broker_events_applied(struct broker_events *events, const struct broker_view *before, const struct broker_view *after, struct ot_blob delta, bool whole)
{
    struct inbox_item *item = events == NULL || after == NULL || version_of(before) == version_of(after) ? NULL : item_new(INBOX_DELTA, whole ? 0 : delta.bytes);
    bool taken = false;
    if (item != NULL) {
        item->before = before;
        item->after = after;
        item->whole = whole;
        item->wall_ms = ot_exec_wall_ms(events->exec);
        if (item->bytes > 0) memcpy(item->delta, delta.data, delta.bytes);
    }
    if (events != NULL) {
        pthread_mutex_lock(&events->mutex);
        taken = item != NULL && put(events, item);
        if (!taken && version_of(before) != version_of(after)) {
            if (events->lost_to == 0) events->lost_from = version_of(before);
            events->lost_to = version_of(after);
        }
        pthread_mutex_unlock(&events->mutex);
    }
    if (taken) return;
    free(item);
    broker_view_give(before);
    broker_view_give(after);
}

void broker_events_role(struct broker_events *events, bool leading, int32_t leader, int32_t term, int64_t version)
{
    struct inbox_item *item = events == NULL ? NULL : item_new(INBOX_ROLE, 0);
    if (item == NULL) return;                  /* no memory: it does not write until it leads anew */
    item->leading = leading;
    item->leader = leader;
    item->term = term;
    item->version = version;
    item->wall_ms = ot_exec_wall_ms(events->exec);
    pthread_mutex_lock(&events->mutex);
    const bool taken = put(events, item);
    pthread_mutex_unlock(&events->mutex);
    if (!taken) item_free(item);
}

void broker_events_gone(struct broker_events *events, int32_t node_id)
{
    if (events == NULL) return;
    pthread_mutex_lock(&events->mutex);
    events->gone[events->gone_next % GONE_MAX].id = node_id;
    events->gone[events->gone_next++ % GONE_MAX].at_us = ot_exec_now_us(events->exec);
    pthread_mutex_unlock(&events->mutex);
}

bool broker_event(struct broker *broker, const struct broker_event *event)
{
    struct broker_events *events = broker->events;
    if (events == NULL) return false;
    struct broker_event_source source = { broker->node_id, atomic_load(&broker->broker_epoch), 0 };
    pthread_mutex_lock(&events->mutex);
    const bool early = !broker_event_kind(event->type)->begins && !events->topic;         /* there may never be one */
    bool taken = !early && !events->stopping && events->queue_count < QUEUE_MAX && events->queue_bytes < QUEUE_BYTES_MAX;
    source.n = events->source_n++;
    events->refused += taken || early ? 0 : 1;
    pthread_mutex_unlock(&events->mutex);
    if (!taken) return false;
    struct inbox_item *item = item_new(INBOX_TEXT, 0);
    struct broker_event_text *text = item == NULL ? NULL : broker_event_text_new(event, ot_exec_wall_ms(events->exec), NULL, 0, &source);
    pthread_mutex_lock(&events->mutex);
    if (text != NULL) item->text = text;
    taken = text != NULL && put(events, item);
    if (taken) {
        events->queue_count++;
        events->queue_bytes += text->bytes;
    } else {
        events->refused++;
    }
    pthread_mutex_unlock(&events->mutex);
    if (taken) return true;
    free(text);
    free(item);
    return false;
}

void broker_events_wanted(struct broker *broker)
{
    struct broker_events *events = broker->events;
    struct inbox_item *item = events == NULL ? NULL : item_new(INBOX_WANTED, 0);
    if (item == NULL) return;
    pthread_mutex_lock(&events->mutex);
    const bool taken = !events->stopping && put(events, item);
    pthread_mutex_unlock(&events->mutex);
    if (!taken) free(item);
}

/* ---- the ring */

static void begins(struct broker_events *events, enum broker_event_type type)
{
    if (broker_event_kind(type)->begins && events->begins_us == 0) events->begins_us = ot_exec_now_us(events->exec);
}

void broker_events_note_gap(struct broker_events *events, int64_t from, int64_t to, uint64_t count)
{
    if (events->gap_to == 0) events->gap_from = from;
    events->gap_to = OT_MAX(events->gap_to, to);
    events->gap_count += count;
}

static void forget_oldest(struct broker_events *events)
{
    struct broker_event_text *text = events->ring;
    const uint64_t written_end = events->doing == DOING_WRITE ? OT_MAX(events->write_seq_end, events->seq_next) : events->seq_next;
    if (broker_events_live(events) && text->seq >= written_end) broker_events_note_gap(events, text->version - 1, text->version, 1);
    events->base_version = text->version;
    events->base_hash = text->hash;
    events->ring = text->next;
    if (events->ring == NULL) events->ring_last = &events->ring;
    events->ring_bytes -= sizeof *text + text->bytes;
    free(text);
}

static void remember(struct broker_events *events, const struct broker_event *event, int64_t wall_ms, const struct broker_event_place *state, int32_t term)
{
    struct broker_event_place place = *state;
    place.n = place.version == events->head_version ? events->head_n + 1 : 0;
    struct broker_event_text *text = broker_event_text_new(event, wall_ms, &place, term, NULL);
    if (text == NULL) {
        broker_events_note_gap(events, place.version - 1, place.version, 1);
        return;
    }
    events->head_version = place.version;
    events->head_n = place.n;
    text->next = NULL;
    text->seq = ++events->seq_last;
    *events->ring_last = text;
    events->ring_last = &text->next;
    events->ring_bytes += sizeof *text + text->bytes;
    if (events->leading) begins(events, event->type);
    events->may_grow |= event->type == BROKER_EVENT_BROKER_UNFENCED;
    while (events->ring_bytes > RING_BYTES_MAX) forget_oldest(events);
}

struct telling { struct broker_events *events; const struct broker_view *after; struct broker_event_place state; int32_t term; int64_t wall_ms; };

static const char *why_fenced(struct broker_events *events, int32_t id)
{
    const char *why = events->leading ? "session_expired" : NULL;
    pthread_mutex_lock(&events->mutex);
    for (uint32_t i = 0; i < GONE_MAX; i++)
        if (events->gone[i].at_us != 0 && events->gone[i].id == id && ot_exec_now_us(events->exec) - events->gone[i].at_us < GONE_US) why = "process_died";
    pthread_mutex_unlock(&events->mutex);
    return why;
}

static void count_one(struct ot_metrics *metrics, enum ot_metric metric, const char *const *labels)
{
    struct ot_series *series = ot_series_get(metrics, metric, labels);
    ot_series_add(series, 1);
    ot_series_release(metrics, series);
}

/* Of each that left or joined: one that does so again and again shows by its own number. */
static void count_followers(struct ot_metrics *metrics, const struct broker_event *event)
{
    for (int32_t i = 0; i < event->isr.changed_count; i++) {
        char id[12];
        snprintf(id, sizeof id, "%d", event->isr.changed[i]);
        count_one(metrics, OT_METRIC_replica_isr_changes_total, (const char *const[]){ id, event->type == BROKER_EVENT_ISR_SHRINK ? "left" : "joined", event->reason });
    }
}

/* Every voter makes the events of a change; the one that coordinates counts them, so that a sum over brokers is right. */
static void count(const struct broker_events *events, const struct broker_event *event)
{
    struct ot_metrics *metrics = events->broker->setup.metrics;
    const enum ot_metric metric = event->type == BROKER_EVENT_ISR_SHRINK ? OT_METRIC_isr_shrinks_total : event->type == BROKER_EVENT_ISR_EXPAND ? OT_METRIC_isr_expands_total
        : OT_METRIC_controller_elections_total;
    const char *label = event->type == BROKER_EVENT_LEADER_CHANGED ? event->election : event->type == BROKER_EVENT_ISR_SHRINK || event->type == BROKER_EVENT_ISR_EXPAND ? event->reason : NULL;
    if (metrics == NULL || label == NULL || !events->leading) return;
    count_one(metrics, metric, &label);
    count_followers(metrics, event);
}

OT_STATIC_ASSERT((int)BROKER_ISR_MAX == (int)COORD_REPLICAS_MAX, "an ISR has no more members than a partition has replicas");

/* Who holds a replica remembers what changed its ISR last. */
static void note_isr(void *arg, const struct broker_event *event)
{
    const struct telling *telling = arg;
    struct broker_isr_change change = { .at_ms = telling->wall_ms, .expand = event->type == BROKER_EVENT_ISR_EXPAND, .reason = event->reason, .broker = event->broker,
        .from_count = event->isr.from_count, .to_count = event->isr.to_count };
    struct broker_view_topic topic;
    if (!telling->events->started) return;     /* the partitions are not there yet, and remember nothing of what was before this start */
    if ((event->type != BROKER_EVENT_ISR_SHRINK && event->type != BROKER_EVENT_ISR_EXPAND) || !broker_view_topic(telling->after, event->topic, &topic)) return;
    struct broker_partition *partition = broker_partition_find_id(telling->events->broker, &topic.id, event->partition);
    if (partition == NULL) return;
    for (int32_t i = 0; i < change.from_count; i++) change.ids[i] = event->isr.from[i];
    for (int32_t i = 0; i < change.to_count; i++) change.ids[change.from_count + i] = event->isr.to[i];
    broker_partition_isr_changed(partition, &change);
    broker_partition_put(partition);
}

/* What happened meanwhile is not known. */
static void forget_isr(struct broker_events *events)
{
    uint32_t count = 0;
    if (!events->started) return;
    struct broker_partition **list = broker_partitions_copy(broker_core_of(events->broker), &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        broker_partition_isr_changed(list[i], NULL);
        broker_partition_put(list[i]);
    }
    free(list);
}

static void told(void *arg, const struct broker_event *event)
{
    const struct telling *telling = arg;
    struct broker_event one = *event;
    note_isr(arg, event);
    if (one.type == BROKER_EVENT_BROKER_FENCED) one.reason = why_fenced(telling->events, one.broker);
    count(telling->events, &one);
    remember(telling->events, &one, telling->wall_ms, &telling->state, telling->term);
}

static void remember_gap(struct broker_events *events, int64_t from, int64_t to, const struct telling *telling)
{
    struct broker_event event = broker_event_of(BROKER_EVENT_GAP);
    struct broker_event_fields fields;
    broker_event_fields_init(&fields);
    broker_event_int(&fields, "from_version", from + 1);
    broker_event_int(&fields, "to_version", to);
    event.reason = "many_changes_at_once";
    event.fields = &fields;
    remember(events, &event, telling->wall_ms, &telling->state, telling->term);
}

static bool votes(const struct broker_events *events, const struct broker_view *view)
{
    struct broker_view_voter voter;
    return broker_view_voter(view, events->broker->node_id, &voter);
}

static void take_delta(struct broker_events *events, const struct inbox_item *item)
{
    const struct coord_value *after = &item->after->value;
    struct telling telling = { events, item->after, { .known = true, .version = after->stamp.version, .hash = broker_events_hash(after) }, after->stamp.term, item->wall_ms };
    if (!votes(events, item->after)) {         /* it cannot coordinate next */
        while (events->ring != NULL) forget_oldest(events);
        events->based = false;
        const struct ot_blob only = { item->delta, item->bytes, false };
        if (item->before != NULL && (item->whole || broker_events_of_delta(&item->before->value, after, only, note_isr, &telling) != OT_OK)) forget_isr(events);
        return;
    }
    if (!events->based) {
        events->based = true;
        events->base_version = item->before == NULL ? after->stamp.version : item->before->value.stamp.version;
        events->base_hash = item->before == NULL ? telling.state.hash : broker_events_hash(&item->before->value);
    }
    if (item->before == NULL) return;
    const struct ot_blob delta = { item->delta, item->bytes, false };
    const enum ot_err err = item->whole ? OT_ERR_TOO_LARGE : broker_events_of_delta(&item->before->value, after, delta, told, &telling);
    if (err == OT_OK) return;
    forget_isr(events);
    remember_gap(events, item->before->value.stamp.version, after->stamp.version, &telling);
}

static void take_role(struct broker_events *events, const struct inbox_item *item)
{
    events->leading = item->leading;
    events->term = item->term;
    events->synced = false;
    if (item->leading) {
        struct broker_event event = broker_event_of(BROKER_EVENT_COORDINATOR_CHANGED);
        struct broker_event_fields fields;
        const struct broker_view *view = broker_view_take(events->broker);
        const struct broker_event_place state = { .known = true, .version = OT_MAX(item->version, events->head_version), .hash = broker_events_hash(&view->value) };
        broker_view_give(view);
        broker_event_fields_init(&fields);
        broker_event_int_or_null(&fields, "from", events->last_leader);
        event.broker = item->leader;
        event.fields = &fields;
        remember(events, &event, item->wall_ms, &state, item->term);
        for (const struct broker_event_text *text = events->ring; text != NULL; text = text->next) begins(events, text->type);
    }
    if (item->leader >= 0) events->last_leader = item->leader;
}

static void take_text(struct broker_events *events, struct inbox_item *item)
{
    struct broker_event_text *text = item->text;
    item->text = NULL;
    text->next = NULL;
    *events->queue_last = text;
    events->queue_last = &text->next;
    begins(events, text->type);
}

static void take_inbox(struct broker_events *events)
{
    pthread_mutex_lock(&events->mutex);
    struct inbox_item *items = events->inbox;
    const int64_t lost_from = events->lost_from, lost_to = events->lost_to;
    events->inbox = NULL;
    events->inbox_last = &events->inbox;
    events->inbox_count = 0;
    events->inbox_bytes = 0;
    events->lost_to = 0;
    const bool ended = events->ended;
    pthread_mutex_unlock(&events->mutex);
    while (items != NULL) {
        struct inbox_item *item = items;
        items = item->next;
        if (!ended && item->kind == INBOX_DELTA) take_delta(events, item);
        else if (!ended && item->kind == INBOX_ROLE) take_role(events, item);
        else if (!ended && item->kind == INBOX_TEXT) take_text(events, item);
        else if (item->kind == INBOX_WANTED) events->wanted = true;
        item_free(item);
    }
    if (lost_to == 0) return;
    forget_isr(events);
    broker_events_note_gap(events, lost_from, lost_to, 0);
}

/* ---- what next */

static void tell_idle(struct broker_events *events, bool topic)
{
    pthread_mutex_lock(&events->mutex);
    events->topic = topic;
    events->idle = events->inbox == NULL && events->doing == DOING_NOTHING && (events->ended || !topic || !broker_events_has_work(events) || events->again_us != 0);
    if (events->idle || events->ended) pthread_cond_broadcast(&events->changed);
    pthread_mutex_unlock(&events->mutex);
}

static void step(struct broker_events *events)
{
    struct broker_event_topic topic;
    const bool serving = events->started && atomic_load(&events->broker->stage) == BROKER_SERVING;
    bool there = false;
    if (events->started && !events->ended) there = broker_event_topic(events->broker, &topic);
    if (events->started && !events->ended && events->doing == DOING_NOTHING && events->timer.heap_index == 0) {
        const bool worth = events->wanted || (events->begins_us != 0 && broker_events_has_work(events));
        const bool grows = there && events->leading && events->may_grow && serving && broker_events_grow(events, &topic.id);
        if (!there && worth && serving) broker_events_create(events);
        else if (!grows && there && events->leading && !events->synced) broker_events_read_on(events, -1);
        else if (!grows && there && broker_events_has_work(events)) broker_events_write_batch(events);
        if (there) events->wanted = false;
    }
    tell_idle(events, there);
}

void broker_events_pump(struct broker_events *events)
{
    take_inbox(events);
    step(events);
}

static void run(struct ot_task *task)
{
    struct broker_events *events = OT_CONTAINER(task, struct broker_events, task);
    pthread_mutex_lock(&events->mutex);
    events->posted = false;                    /* here alone: it is in the executor's queue until now, whoever emptied the inbox meanwhile, and must not be put there twice */
    pthread_mutex_unlock(&events->mutex);
    broker_events_pump(events);
}

/* ---- life */

static void fired(struct ot_timer *timer) { broker_events_pump(OT_CONTAINER(timer, struct broker_events, timer)); }

enum ot_err broker_events_new(struct broker *broker, struct broker_events **out)
{
    struct broker_events *events = calloc(1, sizeof *events);
    if (events == NULL) return OT_ERR_NO_MEMORY;
    events->broker = broker;
    events->exec = broker->setup.shard_exec_count > 0 ? broker->setup.shard_execs[broker->setup.shard_exec_count - 1] : broker->setup.background_exec;
    events->task.run = run;
    events->timer.fired = fired;
    events->inbox_last = &events->inbox;
    events->ring_last = &events->ring;
    events->queue_last = &events->queue;
    events->seq_next = 1;
    events->last_leader = -1;
    events->idle = true;
    pthread_mutex_init(&events->mutex, NULL);
    pthread_cond_init(&events->changed, NULL);
    *out = events;
    return OT_OK;
}

static void start_run(void *arg)
{
    struct broker_events *events = arg;
    events->started = true;
    broker_events_pump(events);
}

void broker_events_start(struct broker_events *events)
{
    if (events != NULL) broker_coordinator_run(events->exec, start_run, events);
}

void broker_events_stop(struct broker_events *events)
{
    if (events == NULL) return;
    const struct timespec until = broker_until(STOP_MS);
    pthread_mutex_lock(&events->mutex);
    events->stopping = true;
    for (int waited = 0; !events->idle && waited == 0;) waited = pthread_cond_clockwait(&events->changed, &events->mutex, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&events->mutex);
}

static void end_run(void *arg)
{
    struct broker_events *events = arg;
    ot_exec_timer_cancel(events->exec, &events->timer);
    broker_events_pump(events);                              /* gives back the views of the inbox; ended: nothing begins any more */
}

void broker_events_end(struct broker_events *events)
{
    if (events == NULL || events->ended) return;
    pthread_mutex_lock(&events->mutex);
    events->stopping = true;
    events->ended = true;
    pthread_mutex_unlock(&events->mutex);
    broker_coordinator_run(events->exec, end_run, events);
    pthread_mutex_lock(&events->mutex);
    while (!events->idle) pthread_cond_wait(&events->changed, &events->mutex);
    pthread_mutex_unlock(&events->mutex);
    broker_coordinator_run(events->exec, end_run, events);     /* a timer that what ended last has set */
}

void broker_events_free(struct broker_events *events)
{
    if (events == NULL) return;
    while (events->ring != NULL) {
        struct broker_event_text *text = events->ring;
        events->ring = text->next;
        free(text);
    }
    while (events->queue != NULL) broker_events_pop_queue(events, OT_ERR_CLOSED);
    pthread_mutex_destroy(&events->mutex);
    pthread_cond_destroy(&events->changed);
    free(events);
}
