/* Events into their topic: it is made, read from its end, grown, and written to; one of these at a time (events.c says which). */
#include "broker/events_state.h"

#include "base/log.h"
#include "base/util.h"
#include "engine/batch_build.h"
#include <stdlib.h>

/* ---- what the topic is asked */

static void again(struct broker_events *events)
{
    events->again_us = events->again_us == 0 ? AGAIN_US : OT_MIN(events->again_us * 2, (int64_t)AGAIN_MAX_US);
    ot_exec_timer_set(events->exec, &events->timer, ot_exec_now_us(events->exec) + events->again_us);
}

static const struct broker_event_text *first_from(const struct broker_events *events, uint64_t seq)
{
    const struct broker_event_text *text = events->ring;
    while (text != NULL && text->seq < seq) text = text->next;
    return text;
}

/* The place that was found says what of the ring is written. */
static void settle(struct broker_events *events, const struct broker_event_place *place)
{
    const struct broker_event_text *text = events->ring;
    bool same = false;
    uint64_t next = events->ring == NULL ? events->seq_last + 1 : events->ring->seq;
    for (; place->known && text != NULL; text = text->next) {
        if (text->version < place->version || (text->version == place->version && text->n <= place->n)) {
            next = text->seq + 1;
        } else if (text->type != BROKER_EVENT_COORDINATOR_CHANGED && text->hash == place->hash && text->n <= place->n) {       /* the same content by another name */
            next = text->seq + 1;
            same = true;
        }
    }
    events->seq_next = next;
    events->synced = true;
    events->again_us = 0;
    if (place->known && events->gap_to != 0 && events->gap_to <= place->version) {     /* somebody else knew */
        events->gap_to = 0;
        events->gap_count = 0;
    }
    if (place->known && !same && place->version < events->base_version && place->hash != events->base_hash) broker_events_note_gap(events, place->version, events->base_version, 0);
}

/* Where the last event about the cluster's state is, looked for from the topic's end. */
static bool each_scanned(struct broker_event_read *read, int64_t id, struct ot_blob json)
{
    struct broker_events *events = read->arg;
    struct broker_event_place place;
    if (id >= events->scan_high) return false;
    if (broker_event_place_parse(json, &place)) events->scan_place = place;
    return true;
}

/* Another one leads meanwhile, and what it shows of its log ends below what is looked at: what lies there, it has, but nobody sees it yet. */
static bool ends_below(const struct broker_events *events)
{
    const struct broker_event_read *read = &events->read;
    if (read->error == OT_ERR_OFFSET_OUT_OF_RANGE) return read->first >= 0 && read->from >= read->first;
    return read->error == OT_OK && read->from >= 0 && read->next == read->from && read->end < events->scan_high;
}

static void scanned(struct broker_call *call)
{
    struct broker_events *events = OT_CONTAINER(call, struct broker_events, read.call);
    const struct broker_event_read *read = &events->read;
    events->doing = DOING_NOTHING;
    if (ends_below(events)) {
        again(events);
    } else if (read->error == OT_ERR_OFFSET_OUT_OF_RANGE) {    /* retention was faster */
        events->scan_place = (struct broker_event_place){ 0 };
        settle(events, &events->scan_place);
    } else if (read->error != OT_OK) {
        again(events);
    } else if (read->from < 0) {
        events->scan_high = read->end;
        events->scan_low = OT_MAX(read->first, read->end - SCAN_EVENTS);
        events->scan_place = (struct broker_event_place){ 0 };
        if (events->scan_low < events->scan_high) broker_events_read_on(events, events->scan_low);
        else settle(events, &events->scan_place);
    } else if (read->next > read->from && read->next < events->scan_high) {
        broker_events_read_on(events, read->next);
    } else if (events->scan_place.known || events->scan_low <= read->first) {
        settle(events, &events->scan_place);
    } else {
        events->scan_high = events->scan_low;
        events->scan_low = OT_MAX(read->first, events->scan_low - SCAN_EVENTS);
        broker_events_read_on(events, events->scan_low);
    }
    broker_events_pump(events);
}

void broker_events_read_on(struct broker_events *events, int64_t from)
{
    events->doing = DOING_READ;
    events->read = (struct broker_event_read){ .call = { .home = events->exec, .done = scanned }, .from = from, .max_bytes = READ_BYTES, .leader_only = true, .pool = events->broker->shards.pool, .each = each_scanned,
        .arg = events };
    broker_event_read(events->broker, &events->read);
}

/* ---- the topic */

static void created(struct broker_call *call)
{
    struct broker_events *events = OT_CONTAINER(call, struct broker_events, admin.call);
    const struct broker_admin_item *item = &events->item;
    events->doing = DOING_NOTHING;
    if (item->error != OT_OK && item->error != OT_ERR_TOPIC_ALREADY_EXISTS) {
        ot_log(OT_LOG_WARN, "events", "topic_not_made", "topic=%s error=%s text=\"%s\"", BROKER_EVENTS_TOPIC, ot_err_name(item->error), item->text);
        again(events);
    }
    broker_events_pump(events);
}

/* Who shall hold it: the first three brokers that live. 0: wait for more of them. */
static int32_t choose_replicas(struct broker_events *events)
{
    struct ot_arena arena;
    struct broker_view_broker row;
    int32_t live = 0, ids[COORD_VOTERS_MAX];
    ot_arena_init(&arena, 1u << 20);
    const struct broker_view *view = broker_view_take(events->broker);
    for (int32_t after = INT32_MIN; live < REPLICAS && broker_view_next_broker(view, after, &arena, &row); after = row.id)
        if (!row.fenced) events->replicas[live++] = row.id;
    const int32_t voters = (int32_t)coord_voters_of(&view->value, ids, NULL);
    broker_view_give(view);
    ot_arena_free(&arena);
    const bool early = live < OT_MIN(voters, (int32_t)REPLICAS) && ot_exec_now_us(events->exec) < events->begins_us + WAIT_FOR_BROKERS_US;
    return early && !events->wanted ? 0 : live;
}

void broker_events_create(struct broker_events *events)
{
    static const struct { const char *key, *value; } own[CONFIGS] = { { "cleanup.policy", "delete" }, { "retention.ms", "2592000000" }, { "retention.bytes", "268435456" },
        { "segment.bytes", "8388608" }, { "min.insync.replicas", "1" }, { "max.message.bytes", "1048588" } };
    const int32_t count = choose_replicas(events);
    if (count == 0) {
        again(events);
        return;
    }
    for (uint32_t i = 0; i < CONFIGS; i++) events->configs[i] = (struct broker_config_entry){ ot_str_of(own[i].key), ot_str_of(own[i].value) };
    events->assignment = (struct broker_assignment){ 0, events->replicas, count };
    events->item = (struct broker_admin_item){ .kind = BROKER_CREATE_TOPIC, .topic = ot_str_of(BROKER_EVENTS_TOPIC), .partition_count = -1, .replication_factor = -1,
        .assignments = &events->assignment, .assignment_count = 1, .configs = events->configs, .config_count = CONFIGS, .internal = true, .if_version = -1 };
    events->admin = (struct broker_admin){ .call = { .home = events->exec, .done = created }, .timeout_ms = 30000, .items = &events->item, .item_count = 1 };
    events->doing = DOING_CREATE;
    broker_admin(events->broker, &events->admin);
}

/* A topic that began with few brokers takes more as they come, up to three: history is to outlive the ones that it tells of. */
static void grown(struct broker_call *call)
{
    struct broker_events *events = OT_CONTAINER(call, struct broker_events, moves.call);
    events->doing = DOING_NOTHING;
    if (events->move.error != OT_OK) ot_log(OT_LOG_WARN, "events", "topic_not_grown", "topic=%s error=%s text=\"%s\"", BROKER_EVENTS_TOPIC, ot_err_name(events->move.error), events->move.text);
    broker_events_pump(events);
}

static bool holds(const struct broker_events *events, int32_t count, int32_t id)
{
    for (int32_t i = 0; i < count; i++)
        if (events->replicas[i] == id) return true;
    return false;
}

/* True: it is asked for. */
bool broker_events_grow(struct broker_events *events, const struct ot_uuid *topic_id)
{
    struct ot_arena arena;
    struct broker_view_broker row;
    struct broker_view_partition partition;
    int32_t count = 0;
    bool more = false;
    events->may_grow = false;
    ot_arena_init(&arena, 1u << 20);
    const struct broker_view *view = broker_view_take(events->broker);
    if (broker_view_partition(view, topic_id, 0, &arena, &partition) && partition.replicas.count < REPLICAS && partition.adding.count + partition.removing.count == 0) {
        for (; count < partition.replicas.count; count++) events->replicas[count] = partition.replicas.ids[count];
        for (int32_t after = INT32_MIN; count < REPLICAS && broker_view_next_broker(view, after, &arena, &row); after = row.id) {
            if (row.fenced || holds(events, count, row.id)) continue;
            events->replicas[count++] = row.id;
            more = true;
        }
    }
    broker_view_give(view);
    ot_arena_free(&arena);
    if (!more) return false;
    events->doing = DOING_GROW;
    events->move = (struct broker_move){ .kind = BROKER_MOVE_REASSIGN, .topic = ot_str_of(BROKER_EVENTS_TOPIC), .target = events->replicas, .count = count };
    events->moves = (struct broker_moves){ .call = { .home = events->exec, .done = grown }, .moves = &events->move, .count = 1, .timeout_ms = 10000 };
    ot_log(OT_LOG_INFO, "events", "topic_grows", "topic=%s replicas=%d", BROKER_EVENTS_TOPIC, count);
    broker_moves(events->broker, &events->moves);
    return true;
}

/* ---- writing */

void broker_events_pop_queue(struct broker_events *events, enum ot_err err)
{
    struct broker_event_text *text = events->queue;
    events->queue = text->next;
    if (events->queue == NULL) events->queue_last = &events->queue;
    pthread_mutex_lock(&events->mutex);
    events->queue_count--;
    events->queue_bytes -= text->bytes;
    pthread_mutex_unlock(&events->mutex);
    if (text->kept != NULL) text->kept(text->arg, err);
    free(text);
}

/* A batch that the topic will never take is dropped, or nothing else were written any more. */
static bool is_final(enum ot_err err)
{
    return err == OT_ERR_MESSAGE_TOO_LARGE || err == OT_ERR_RECORD_LIST_TOO_LARGE || err == OT_ERR_INVALID_RECORD || err == OT_ERR_CORRUPT_MESSAGE || err == OT_ERR_INVALID_TIMESTAMP;
}

static void wrote(struct broker_event_write *write)
{
    struct broker_events *events = OT_CONTAINER(write, struct broker_events, write);
    const bool final = is_final(write->error), over = write->error == OT_OK || final;
    events->doing = DOING_NOTHING;
    if (final) ot_log(OT_LOG_ERROR, "events", "batch_refused", "error=%s text=\"these events are not kept\"", ot_err_name(write->error));
    if (over) {
        for (; events->write_queued > 0; events->write_queued--) broker_events_pop_queue(events, final ? OT_ERR_BUSY : OT_OK);
        events->seq_next = OT_MAX(events->seq_next, events->write_seq_end);
        if (events->write_gap) {
            events->gap_to = 0;
            events->gap_count = 0;
        }
        pthread_mutex_lock(&events->mutex);
        events->refused -= final ? 0 : events->write_refused;  /* kept until it is told */
        pthread_mutex_unlock(&events->mutex);
        events->again_us = 0;
    } else {
        events->synced = false;                /* was it appended? The topic says so */
        again(events);
    }
    broker_events_pump(events);
}

struct batch { struct eng_sink sink; struct eng_batch_builder builder; uint32_t count; enum ot_err err; };

static bool has_room(const struct batch *batch, uint32_t bytes) { return batch->err == OT_OK && batch->count < BATCH_EVENTS && (batch->count == 0 || batch->sink.bytes + bytes < BATCH_BYTES); }

static void batch_add(struct batch *batch, const struct broker_event_text *text)
{
    const struct ot_blob key = { .null = true }, value = { (const uint8_t *)text->text, text->bytes, false };
    batch->err = eng_batch_build_next(&batch->builder, text->at_ms, key, value, NULL, 0);
    batch->count++;
}

static void add_gap(struct broker_events *events, struct batch *batch)
{
    struct broker_event event = broker_event_of(BROKER_EVENT_GAP);
    struct broker_event_fields fields;
    struct broker_event_place place = { .known = true, .version = events->gap_to, .n = UINT32_MAX, .hash = 0 };
    const struct broker_event_text *next = first_from(events, events->seq_next);
    if (next != NULL && next->version == place.version) {      /* in the middle of a version: it stands before what is left of it */
        place.version -= next->n == 0;
        place.n = next->n == 0 ? UINT32_MAX : next->n - 1;
    }
    broker_event_fields_init(&fields);
    broker_event_int(&fields, "from_version", events->gap_from + 1);
    broker_event_int(&fields, "to_version", events->gap_to);
    broker_event_int(&fields, "dropped", (int64_t)events->gap_count);
    event.reason = events->gap_count > 0 ? "dropped" : "unknown_changes";
    event.fields = &fields;
    struct broker_event_text *text = broker_event_text_new(&event, ot_exec_wall_ms(events->exec), &place, events->term, NULL);
    if (text == NULL) return;
    batch_add(batch, text);
    free(text);
    events->write_gap = true;
}

/* Events that were refused here are counted in the topic too. */
static void add_refused(struct broker_events *events, struct batch *batch)
{
    struct broker_event event = broker_event_of(BROKER_EVENT_GAP);
    struct broker_event_fields fields;
    struct broker_event_source source = { events->broker->node_id, atomic_load(&events->broker->broker_epoch), 0 };
    pthread_mutex_lock(&events->mutex);
    const uint64_t refused = events->refused;
    source.n = events->source_n++;
    pthread_mutex_unlock(&events->mutex);
    if (refused == 0) return;
    broker_event_fields_init(&fields);
    broker_event_int(&fields, "dropped", (int64_t)refused);
    event.reason = "dropped";
    event.broker = source.broker;
    event.fields = &fields;
    struct broker_event_text *text = broker_event_text_new(&event, ot_exec_wall_ms(events->exec), NULL, 0, &source);
    if (text == NULL) return;
    batch_add(batch, text);
    free(text);
    events->write_refused = refused;
}

bool broker_events_has_work(const struct broker_events *events)
{
    return events->queue != NULL || (events->leading && (!events->synced || events->gap_to != 0 || events->seq_next <= events->seq_last));
}

void broker_events_write_batch(struct broker_events *events)
{
    struct batch batch = { .err = OT_OK };
    struct eng_batch_fields fields = eng_batch_fields_default();
    fields.base_sequence = -1;
    eng_sink_pool(&batch.sink, events->broker->shards.pool, (1u << 20) + ENG_BATCH_HEADER_BYTES);
    batch.err = eng_batch_build_begin(&batch.builder, &fields, NULL, &batch.sink);
    events->write_seq_end = events->seq_next;
    events->write_queued = 0;
    events->write_gap = false;
    events->write_refused = 0;
    if (broker_events_live(events) && events->gap_to != 0 && batch.err == OT_OK) add_gap(events, &batch);
    for (const struct broker_event_text *text = broker_events_live(events) ? first_from(events, events->seq_next) : NULL; text != NULL && has_room(&batch, text->bytes); text = text->next) {
        batch_add(&batch, text);
        events->write_seq_end = text->seq + 1;
    }
    for (const struct broker_event_text *text = events->queue; text != NULL && has_room(&batch, text->bytes); text = text->next) {
        batch_add(&batch, text);
        events->write_queued++;
    }
    if (batch.err == OT_OK && events->queue != NULL) add_refused(events, &batch);
    if (batch.err == OT_OK && batch.count > 0) batch.err = eng_batch_build_finish(&batch.builder);
    if (batch.err == OT_OK && batch.count > 0) {
        events->doing = DOING_WRITE;
        events->write = (struct broker_event_write){ .home = events->exec, .buf = eng_sink_take(&batch.sink), .done = wrote };
        broker_event_write(events->broker, &events->write);
    } else if (batch.err != OT_OK) {
        again(events);                         /* no memory now */
    } else {
        events->seq_next = events->seq_last + 1;               /* what the ring had from here was dropped */
    }
    eng_sink_free(&batch.sink);
}
