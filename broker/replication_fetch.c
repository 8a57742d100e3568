/* Streams of fetches: one request at a time; its answer goes to the partitions' lanes, and when the last of them is done the next request goes out. What a request asks for
 * tells the leader what this broker has.
 *
 *   loose ──► held ──► request (parked at the leader up to replica.fetch.wait.max.ms) ──► answer ──► fresh (lanes) ──► held
 *
 * Each stream to a member has a session at it (KIP-227): a request names the partitions of which something is new, and those that are not to be asked about any more; of all
 * others it says that they are as they were. After an answer its partitions are named again, whatever became of it; of the others it is looked twice a second whether something moved by
 * itself (what the disk has, the log's start). A session ends with any failure, and with a new epoch of this broker: the next request names everything and begins another. A leader
 * that has no room for sessions is asked so each time, and so is one of another cluster. */
#include "broker/replication_inner.h"

#include "base/log.h"
#include "base/util.h"
#include "base/wire/apis.h"
#include "base/wire/fetch_request.h"
#include "base/wire/fetch_response.h"
#include "base/wire/frame.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_FLUSHED_END = 10000 };
#define ARENA_BYTES (64u << 20)
#define ANSWER_BYTES_MAX (1u << 30)
#define PAUSE_MIN_US 20000
#define FOREIGN_PAUSE_US 200000                /* until it is asked again where a partition of another cluster is */
#define THROTTLE_US_MAX 60000000               /* a leader's quota: no longer than this at a time */
#define SWEEP_US_MIN 100000
#define SWEEP_US_MAX 500000
#define CALL_SLACK_US 10000000                 /* a request may take as much longer than its wait */

/* ---- slots */

static void slot_unlink(struct broker_fetch_slot *slot)
{
    if (slot->prev != NULL) slot->prev->next = slot->next;
    else slot->list->first = slot->next;
    if (slot->next != NULL) slot->next->prev = slot->prev;
    else slot->list->last = slot->prev;
    slot->next = slot->prev = NULL;
    slot->list = NULL;
}

/* To the end. */
static void slot_link(struct broker_fetch_slot *slot, struct broker_fetch_list *list)
{
    slot->list = list;
    slot->prev = list->last;
    slot->next = NULL;
    if (list->last != NULL) list->last->next = slot;
    else list->first = slot;
    list->last = slot;
}

static void slot_move(struct broker_fetch_slot *slot, struct broker_fetch_list *list)
{
    slot_unlink(slot);
    slot_link(slot, list);
}

/* The leader is told with the next request. */
static void forget(struct broker_fetch_stream *stream, const struct broker_fetch_slot *slot)
{
    if (stream->source->foreign || (stream->session_epoch == 0 && !stream->calling)) return;
    if (stream->forget_count == stream->forget_cap) {
        const uint32_t cap = OT_MAX(stream->forget_cap * 2, 16u);
        struct broker_fetch_forget *wider = realloc(stream->forgets, cap * sizeof(*wider));
        if (wider == NULL) {
            stream->forget_all = true;
            return;
        }
        stream->forgets = wider;
        stream->forget_cap = cap;
    }
    stream->forgets[stream->forget_count++] = (struct broker_fetch_forget){ slot->partition->topic->id, slot->partition->index };
}

void broker_fetch_let_go(struct broker_fetch_slot *slot)
{
    forget(slot->stream, slot);
    slot->stream = NULL;
    slot_move(slot, &slot->source->loose);
}

static void slot_free(struct broker_fetch_slot *slot)
{
    slot_unlink(slot);
    atomic_fetch_sub(&slot->all->partition_count, 1);
    broker_partition_put(slot->partition);
    free(slot);
}

/* Nobody is asked for it any more. What is under way ends by itself, and counts for nothing. */
static void slot_drop(struct broker_fetch_slot *slot)
{
    const bool waits = slot->working || (slot->source->foreign && slot->stream != NULL);       /* the round has it in its list */
    slot->partition->slot = NULL;
    slot->gone = true;
    if (slot->stream != NULL) forget(slot->stream, slot);
    if (!waits) slot_free(slot);
}

static struct broker_fetch_source *source_of(struct broker_replication *all, int32_t node_id)
{
    struct broker_fetch_source *source = all->sources;
    while (source != NULL && source->node_id != node_id) source = source->next;
    if (source != NULL) return source;
    const uint32_t count = (uint32_t)OT_MIN(broker_config_current(all->core->config)->num_replica_fetchers + 1, BROKER_STREAMS_MAX);
    if ((source = calloc(1, sizeof *source)) == NULL) return NULL;
    if ((source->streams = calloc(count, sizeof *source->streams)) == NULL) {
        free(source);
        return NULL;
    }
    source->node_id = node_id;
    source->foreign = all->setup.foreign != NULL && all->setup.foreign->leads(all->setup.arg, node_id);
    source->stream_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct broker_fetch_stream *stream = &source->streams[i];
        stream->all = all;
        stream->source = source;
        stream->number = i;
        stream->version = source->foreign ? BROKER_VERSION_UNKNOWN : BROKER_FETCH_VERSION;
        ot_arena_init(&stream->arena, ARENA_BYTES);
    }
    source->next = all->sources;
    all->sources = source;
    atomic_fetch_add(&all->source_count, 1);
    return source;
}

void broker_fetch_assign(struct broker_replication *all, struct broker_partition *partition, int32_t leader)
{
    struct broker_fetch_slot *slot = partition->slot;
    if (slot != NULL && leader == slot->source->node_id) {
        slot->due_us = 0;                      /* a new epoch: at once */
        slot->failures = 0;
        if (slot->stream != NULL) slot->stream->swept_us = 0;
        return;
    }
    if (slot != NULL) slot_drop(slot);
    if (leader < 0) return;
    struct broker_fetch_source *source = source_of(all, leader);
    if (source == NULL || (slot = calloc(1, sizeof *slot)) == NULL) {
        ot_log(OT_LOG_ERROR, "replica", "not_fetched", "topic=%s partition=%d error=NO_MEMORY", partition->topic->name, partition->index);
        return;
    }
    slot->all = all;
    slot->partition = broker_partition_ref(partition);
    slot->source = source;
    partition->slot = slot;
    atomic_fetch_add(&all->partition_count, 1);
    slot_link(slot, &source->loose);
}

/* ---- asking */

static bool round_add(struct broker_fetch_stream *stream, struct broker_fetch_slot *slot)
{
    if (stream->slot_count == stream->slot_cap) {
        const uint32_t cap = OT_MAX(stream->slot_cap * 2, 16u);
        struct broker_fetch_slot **wider = realloc(stream->slots, cap * sizeof(*wider));
        if (wider == NULL) return false;
        stream->slots = wider;
        stream->slot_cap = cap;
    }
    stream->slots[stream->slot_count++] = slot;
    return true;
}

/* How long the follower's throttle holds it; 0: not at all. */
static int64_t held_us(const struct broker_replication *all, const struct broker_follow_place *place, int64_t now_us)
{
    const int64_t rate = broker_config_current(all->core->config)->follower_replication_throttled_rate;
    return place->throttled && !place->in_sync ? broker_throttle_wait_us(&all->core->throttles.follower, rate, now_us) : 0;
}

/* May it be asked about now? Otherwise due_us is when it is looked at again. */
static bool slot_ready(struct broker_fetch_slot *slot, struct broker_follow_place *place, int64_t now_us)
{
    const struct broker_fetch_source *source = slot->source;
    struct broker_replication *all = slot->all;
    int64_t wait_us = 0;
    if (slot->due_us > now_us) return false;
    if (!broker_follow_place(slot->partition, place) || place->leader != source->node_id) wait_us = PAUSE_MIN_US;
    else if (source->foreign && !all->setup.foreign->origin(all->setup.arg, slot->partition, source->node_id, &slot->origin)) wait_us = FOREIGN_PAUSE_US;
    else wait_us = held_us(all, place, now_us);
    if (wait_us > 0) slot->due_us = now_us + wait_us;
    return wait_us == 0;
}

/* Does the leader know all of it? */
static bool same_place(const struct broker_follow_place *a, const struct broker_follow_place *b)
{
    return a->leader_epoch == b->leader_epoch && a->offset == b->offset && a->last_epoch == b->last_epoch && a->flushed_end == b->flushed_end
        && a->log_start_offset == b->log_start_offset && a->high_watermark == b->high_watermark;
}

/* Into the session, or out of it. */
static void slot_gather(struct broker_fetch_stream *stream, struct broker_fetch_slot *slot, bool named, int64_t now_us)
{
    struct broker_follow_place place;
    if (!slot_ready(slot, &place, now_us)) {
        if (slot->stream != NULL) broker_fetch_let_go(slot);
        return;
    }
    named |= slot->stream == NULL || !same_place(&place, &slot->asked);
    if (named && !round_add(stream, slot)) {
        if (slot->stream != NULL) broker_fetch_let_go(slot);
        return;
    }
    slot->asked = place;
    slot->stream = stream;
    slot_move(slot, &stream->held);
}

static void list_gather(struct broker_fetch_stream *stream, struct broker_fetch_list *list, bool named, int64_t now_us)
{
    struct broker_fetch_slot *slot = list->first, *last = list->last, *next;
    for (; slot != NULL; slot = next) {        /* those that go to its end are not met again */
        next = slot == last ? NULL : slot->next;
        slot_gather(stream, slot, named, now_us);
    }
}

/* What the next request names. */
static void round_gather(struct broker_fetch_stream *stream, int64_t now_us)
{
    struct broker_replication *all = stream->all;
    const int64_t wait_us = (int64_t)broker_config_current(all->core->config)->replica_fetch_wait_max_ms * 1000, broker_epoch = all->setup.broker_epoch(all->setup.arg);
    if (stream->broker_epoch != broker_epoch || stream->forget_all) stream->session_epoch = 0;
    const bool whole = stream->session_epoch == 0;
    stream->broker_epoch = broker_epoch;
    stream->forget_all = false;
    stream->slot_count = 0;
    if (whole || now_us - stream->swept_us >= OT_MIN(OT_MAX(wait_us, SWEEP_US_MIN), SWEEP_US_MAX)) {
        stream->swept_us = now_us;
        list_gather(stream, &stream->held, whole, now_us);
    }
    list_gather(stream, &stream->fresh, true, now_us);
    list_gather(stream, &stream->source->loose, true, now_us);
    if (whole) stream->forget_count = 0;
}

static bool partition_fill(struct broker_fetch_stream *stream, const struct broker_fetch_slot *slot, int32_t max_bytes, struct ot_fetch_request_fetch_partition *out)
{
    const struct broker_follow_place *asked = &slot->asked;
    const bool foreign = stream->source->foreign;
    ot_fetch_request_fetch_partition_defaults(out);
    out->partition = slot->partition->index;
    out->current_leader_epoch = foreign ? slot->origin.leader_epoch : asked->leader_epoch;
    out->fetch_offset = asked->offset;
    out->last_fetched_epoch = asked->last_epoch;
    out->partition_max_bytes = max_bytes;
    if (foreign) return true;                  /* who reads as a consumer tells nothing of its own log */
    out->log_start_offset = asked->log_start_offset;
    out->high_watermark = asked->high_watermark;
    struct ot_wire_tag *tag = ot_arena_alloc(&stream->arena, sizeof *tag);
    uint8_t *data = ot_arena_alloc(&stream->arena, 8);
    if (tag == NULL || data == NULL) return false;
    ot_store_u64(data, (uint64_t)asked->flushed_end);
    *tag = (struct ot_wire_tag){ TAG_FLUSHED_END, { data, 8, false } };
    out->_tags.items = tag;
    out->_tags.count = 1;
    return true;
}

/* What the leader calls its topic. */
static const struct ot_uuid *topic_id_of(const struct broker_fetch_slot *slot) { return slot->source->foreign ? &slot->origin.topic_id : &slot->partition->topic->id; }

/* Slots of one topic that follow each other become one topic of the request. */
static bool topics_fill(struct broker_fetch_stream *stream, int32_t max_bytes, struct ot_fetch_request *request)
{
    struct ot_fetch_request_fetch_partition *parts = ot_arena_array(&stream->arena, stream->slot_count, sizeof *parts);
    struct ot_fetch_request_fetch_topic *topics = ot_arena_array(&stream->arena, stream->slot_count, sizeof *topics), *topic = NULL;
    int32_t count = 0;
    if (parts == NULL || topics == NULL) return false;
    for (uint32_t i = 0; i < stream->slot_count; i++) {
        const struct ot_uuid *id = topic_id_of(stream->slots[i]);
        if (topic == NULL || !ot_uuid_equal(&topic->topic_id, id)) {
            topic = &topics[count++];
            ot_fetch_request_fetch_topic_defaults(topic);
            topic->topic_id = *id;
            if (stream->source->foreign) topic->topic = ot_str_of(stream->slots[i]->origin.topic);
            topic->partitions.items = &parts[i];
        }
        topic->partitions.count++;
        if (!partition_fill(stream, stream->slots[i], max_bytes, &parts[i])) return false;
    }
    request->topics.items = topics;
    request->topics.count = count;
    return true;
}

static bool session_fill(struct broker_fetch_stream *stream, struct ot_fetch_request *request)
{
    struct ot_fetch_request_forgotten_topic *topics = ot_arena_array(&stream->arena, stream->forget_count, sizeof *topics), *topic = NULL;
    int32_t *parts = ot_arena_array(&stream->arena, stream->forget_count, sizeof *parts), count = 0;
    if (stream->forget_count > 0 && (topics == NULL || parts == NULL)) return false;
    for (uint32_t i = 0; i < stream->forget_count; i++) {
        const struct broker_fetch_forget *one = &stream->forgets[i];
        if (topic == NULL || !ot_uuid_equal(&topic->topic_id, &one->topic_id)) {
            topic = &topics[count++];
            ot_fetch_request_forgotten_topic_defaults(topic);
            topic->topic_id = one->topic_id;
            topic->partitions.items = &parts[i];
        }
        parts[i] = one->partition;
        topic->partitions.count++;
    }
    request->forgotten_topics_data.items = topics;
    request->forgotten_topics_data.count = count;
    request->session_id = stream->session_id;
    request->session_epoch = stream->session_epoch;
    return true;
}

struct ot_buf *broker_fetch_frame(struct broker_fetch_stream *stream, int16_t key, int16_t version, const void *message)
{
    struct broker_replication *all = stream->all;
    const struct ot_api *api = ot_api_find(key);
    char client[64];
    const int text = snprintf(client, sizeof client, "broker-%d-fetcher-%u", all->core->node_id, stream->number);
    const struct ot_wire_request_header header = { .api = api, .key = key, .version = version, .client_id = { .data = client, .bytes = (uint32_t)text } };
    const size_t bytes = ot_wire_size(api->request, version, message) + 64 + sizeof client;
    struct ot_buf *buf = ot_buf_new_forced(all->setup.pool, bytes);
    if (buf == NULL) return NULL;
    struct ot_writer out = ot_writer_over(buf->data, bytes);
    ot_write_u32(&out, 0);                     /* the size: the link's */
    enum ot_err err = ot_wire_request_header_encode(&header, &out);
    if (err == OT_OK) err = ot_wire_encode(api->request, version, message, &out, NULL);
    if (err != OT_OK || out.needed > bytes) {
        ot_buf_unref(buf);
        return NULL;
    }
    buf->bytes = (uint32_t)(out.at - out.start);
    return buf;
}

static struct ot_buf *request_make(struct broker_fetch_stream *stream)
{
    struct broker_replication *all = stream->all;
    const struct broker_config *config = broker_config_current(all->core->config);
    struct ot_fetch_request request;
    ot_fetch_request_defaults(&request);
    if (stream->source->foreign) {
        request.replica_id = -1;
    } else {
        request.replica_state.replica_id = all->core->node_id;
        request.replica_state.replica_epoch = stream->broker_epoch;
        if (!session_fill(stream, &request)) return NULL;
    }
    request.max_wait_ms = config->replica_fetch_wait_max_ms;
    request.min_bytes = config->replica_fetch_min_bytes;
    request.max_bytes = config->replica_fetch_response_max_bytes;
    return topics_fill(stream, config->replica_fetch_max_bytes, &request) ? broker_fetch_frame(stream, OT_API_FETCH, stream->version, &request) : NULL;
}

/* ---- answers */

static void slot_pause(struct broker_fetch_slot *slot)
{
    const int64_t most_us = (int64_t)broker_config_current(slot->all->core->config)->replica_fetch_backoff_ms * 1000;
    slot->failures = OT_MIN(slot->failures + 1, 16u);
    slot->due_us = ot_exec_now_us(slot->all->setup.exec) + OT_MIN(PAUSE_MIN_US << slot->failures, OT_MAX(most_us, PAUSE_MIN_US));
}

/* The stream has no session: whichever is idle first takes what it had. */
static void stream_empty(struct broker_fetch_stream *stream)
{
    for (struct broker_fetch_slot *slot; (slot = stream->held.first != NULL ? stream->held.first : stream->fresh.first) != NULL;) {
        if (slot->gone) slot_free(slot);
        else broker_fetch_let_go(slot);
    }
}

static void round_end(struct broker_fetch_stream *stream)
{
    ot_buf_unref(stream->answer);
    stream->answer = NULL;
    stream->slot_count = 0;
    for (struct broker_fetch_slot *slot = stream->fresh.first, *next; slot != NULL; slot = next) {
        next = slot->next;
        if (slot->gone) slot_free(slot);
    }
    if (stream->session_epoch == 0) stream_empty(stream);
    broker_fetch_pump(stream->all);
}

static void slot_done(struct ot_task *task)    /* on the executor */
{
    struct broker_fetch_slot *slot = OT_CONTAINER(task, struct broker_fetch_slot, done_task);
    struct broker_fetch_stream *stream = slot->stream;
    struct broker_replication *all = slot->all;
    const struct broker_follow *follow = &slot->follow;
    atomic_fetch_add(&all->bytes, follow->appended_bytes);
    if (slot->asked.throttled) broker_throttle_spend(&all->core->throttles.follower, follow->appended_bytes);
    if (follow->error != OT_OK) {
        atomic_fetch_add(&all->failures, 1);
        slot_pause(slot);
        ot_log(OT_LOG_WARN, "replica", "answer_not_taken", "topic=%s partition=%d leader=%d offset=%lld error=%s", slot->partition->topic->name, slot->partition->index,
            slot->asked.leader, (long long)slot->asked.offset, ot_err_name(follow->error));
    } else {
        slot->failures = 0;
        slot->due_us = 0;
    }
    slot->working = false;
    stream->in_work--;
    if (stream->in_work == 0) round_end(stream);
    atomic_fetch_sub(&all->busy, 1);
}

static void follow_done(struct broker_follow *follow)      /* on an I/O thread */
{
    struct broker_fetch_slot *slot = OT_CONTAINER(follow, struct broker_fetch_slot, follow);
    slot->done_task.run = slot_done;
    ot_exec_post(slot->all->setup.exec, &slot->done_task);
}

/* Of a leader of another cluster: what follows from an error. True: the slot is asked about in another way at once. */
static bool foreign_refused(struct broker_fetch_slot *slot, enum ot_err error, const struct ot_fetch_response_partition_data *row)
{
    const struct broker_replication_setup *setup = &slot->all->setup;
    /* Kafka does not say with it where its log begins */
    slot->seeks = error == OT_ERR_OFFSET_OUT_OF_RANGE && row->log_start_offset < 0;
    if (!slot->seeks) setup->foreign->refused(setup->arg, slot->partition, error, row->current_leader.leader_id, row->current_leader.leader_epoch);
    return slot->seeks;
}

/* The log here has no record and begins behind the leader's end, which an unclean election set back: histories of which one is empty do not part anywhere, so nobody says where to cut. */
static bool empty_behind(const struct broker_fetch_stream *stream, const struct broker_fetch_slot *slot, const struct ot_fetch_response_partition_data *row)
{
    const struct broker_follow_place *asked = &slot->asked;
    return !stream->source->foreign && asked->last_epoch < 0 && asked->log_start_offset == asked->offset && row->log_start_offset >= 0 && row->log_start_offset < asked->offset;
}

/* One partition of the answer. True: it is in work. */
static bool row_take(struct broker_fetch_stream *stream, struct broker_fetch_slot *slot, const struct ot_fetch_response_partition_data *row)
{
    struct broker_follow *follow = &slot->follow;
    const enum ot_err error = (enum ot_err)row->error_code;
    *follow = (struct broker_follow){ .done = follow_done, .kind = BROKER_FOLLOW_APPEND, .log_start_offset = row->log_start_offset,
        .answer = { slot->asked.leader_epoch, slot->asked.offset, slot->asked.last_epoch, row->high_watermark }, .records = row->records.data, .records_bytes = row->records.bytes };
    if (error == OT_ERR_OFFSET_OUT_OF_RANGE && (row->log_start_offset > slot->asked.offset || empty_behind(stream, slot, row))) {
        follow->kind = BROKER_FOLLOW_RESTART;
    } else if (error != OT_OK) {
        if (stream->source->foreign && foreign_refused(slot, error, row)) return false;
        slot_pause(slot);
        if (slot->failures > 3)
            ot_log(OT_LOG_WARN, "replica", "fetch_refused", "topic=%s partition=%d leader=%d offset=%lld error=%s", slot->partition->topic->name, slot->partition->index,
                slot->asked.leader, (long long)slot->asked.offset, ot_err_name(error));
        return false;
    } else if (row->diverging_epoch.end_offset >= 0) {
        follow->kind = BROKER_FOLLOW_CUT;
        follow->parts = (struct replica_epoch_end){ row->diverging_epoch.epoch, row->diverging_epoch.end_offset };
    } else if (row->records.bytes == 0 && broker_follow_note(slot->partition, follow)) {
        slot->failures = 0;
        slot->due_us = 0;
        return false;
    }
    slot->working = true;
    stream->in_work++;
    atomic_fetch_add(&stream->all->busy, 1);
    return true;
}

/* By the id, where there is no name: Fetch from version 13 on. */
static bool names(const struct ot_fetch_response_fetchable_topic_response *topic, const struct broker_fetch_slot *slot)
{
    return topic->topic.bytes == 0 ? ot_uuid_equal(topic_id_of(slot), &topic->topic_id) : ot_str_equal(topic->topic, ot_str_of(slot->origin.topic));
}

/* Answers come in the order asked; one that does not is looked for. The name of one that is gone may be gone too. */
static struct broker_fetch_slot *foreign_slot(struct broker_fetch_stream *stream, uint32_t *at, const struct ot_fetch_response_fetchable_topic_response *topic, int32_t index)
{
    for (uint32_t tried = 0; tried < stream->slot_count; tried++) {
        struct broker_fetch_slot *slot = stream->slots[(*at + tried) % stream->slot_count];
        if (!slot->gone && slot->partition->index == index && names(topic, slot)) {
            *at += tried + 1;
            return slot;
        }
    }
    return NULL;
}

/* A session answers about any of its partitions. */
static struct broker_fetch_slot *member_slot(struct broker_fetch_stream *stream, const struct ot_uuid *topic_id, int32_t index)
{
    struct broker_partition *partition = broker_partition_find_id(stream->all->setup.broker, topic_id, index);
    struct broker_fetch_slot *slot = partition == NULL ? NULL : partition->slot;       /* which holds it too */
    if (partition != NULL) broker_partition_put(partition);
    return slot;
}

enum ot_err broker_fetch_answer_take(struct broker_fetch_stream *stream, const struct ot_fetch_response *response)
{
    uint32_t at = 0, started = 0, rows = 0;
    for (int32_t t = 0; t < response->responses.count; t++) rows += (uint32_t)response->responses.items[t].partitions.count;
    struct broker_fetch_slot **work = ot_arena_array(&stream->arena, (size_t)rows + 1, sizeof(*work));
    if (work == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t t = 0; t < response->responses.count; t++) {
        const struct ot_fetch_response_fetchable_topic_response *topic = &response->responses.items[t];
        for (int32_t p = 0; p < topic->partitions.count; p++) {
            const int32_t index = topic->partitions.items[p].partition_index;
            struct broker_fetch_slot *slot = stream->source->foreign ? foreign_slot(stream, &at, topic, index) : member_slot(stream, &topic->topic_id, index);
            if (slot == NULL || slot->gone || slot->list != &stream->held) continue;           /* one that it names again is not heard */
            slot_move(slot, &stream->fresh);
            if (row_take(stream, slot, &topic->partitions.items[p])) work[started++] = slot;
        }
    }
    for (uint32_t i = 0; i < started; i++) broker_follow_put(work[i]->partition, &work[i]->follow);      /* none ends before all are counted */
    return OT_OK;
}

static enum ot_err answer_read(struct broker_fetch_stream *stream)
{
    const struct ot_buf *buf = stream->answer;
    struct ot_reader in = ot_reader_over(buf->data, buf->bytes);
    struct ot_fetch_response response;
    struct ot_wire_error error;
    int32_t correlation_id;
    enum ot_err err = ot_wire_response_header_decode(ot_api_find(OT_API_FETCH), stream->version, &in, &stream->arena, &correlation_id, &error);
    if (err == OT_OK) err = ot_fetch_response_decode(&response, stream->version, &in, &stream->arena, &error);
    if (err == OT_OK && response.error_code != 0) err = (enum ot_err)response.error_code;
    if (err == OT_OK && stream->source->foreign && response.throttle_time_ms > 0)
        stream->due_us = ot_exec_now_us(stream->all->setup.exec) + OT_MIN((int64_t)response.throttle_time_ms * 1000, (int64_t)THROTTLE_US_MAX);
    if (err != OT_OK) return err;
    stream->session_id = response.session_id;
    if (response.session_id == 0 || stream->source->foreign) stream->session_epoch = 0;
    else stream->session_epoch = stream->session_epoch == INT32_MAX ? 1 : stream->session_epoch + 1;
    return broker_fetch_answer_take(stream, &response);
}

static void stream_pause(struct broker_fetch_stream *stream, enum ot_err err)
{
    struct broker_replication *all = stream->all;
    const int64_t most_us = (int64_t)broker_config_current(all->core->config)->replica_fetch_backoff_ms * 1000;
    if (stream->failures == 0 && !atomic_load(&all->stopping))
        ot_log(OT_LOG_WARN, "replica", "fetch_failed", "leader=%d stream=%u partitions=%u error=%s", stream->source->node_id, stream->number, stream->slot_count, ot_err_name(err));
    stream->failures = OT_MIN(stream->failures + 1, 16u);
    stream->due_us = ot_exec_now_us(all->setup.exec) + OT_MIN(PAUSE_MIN_US << stream->failures, OT_MAX(most_us, PAUSE_MIN_US));
    atomic_fetch_add(&all->failures, 1);
}

/* The leader gave the session up, or was begun anew: no failure, everything is named at once. */
static bool session_over(const struct broker_fetch_stream *stream, enum ot_err err)
{
    return stream->session_epoch > 0 && (err == OT_ERR_FETCH_SESSION_ID_NOT_FOUND || err == OT_ERR_INVALID_FETCH_SESSION_EPOCH || err == OT_ERR_FETCH_SESSION_TOPIC_ID_ERROR);
}

static void stream_answered(struct ot_link_call *call)     /* on the executor */
{
    struct broker_fetch_stream *stream = OT_CONTAINER(call, struct broker_fetch_stream, call);
    struct broker_replication *all = stream->all;
    enum ot_err err = call->error;
    stream->calling = false;
    stream->answer = err == OT_OK ? call->answer : NULL;
    stream->in_work = 1;                       /* ours, while the rows are taken */
    ot_arena_reset(&stream->arena);
    if (err == OT_OK && !atomic_load(&all->stopping)) err = stream->asks == BROKER_ASKS_FETCH ? answer_read(stream) : broker_foreign_answer(stream);
    if (err != OT_OK && stream->source->foreign) stream->version = BROKER_VERSION_UNKNOWN;      /* who answers next may be another release of it */
    if (err == OT_OK) stream->failures = 0;
    else if (!session_over(stream, err)) stream_pause(stream, err);
    if (err != OT_OK) stream->session_epoch = 0;
    stream->in_work--;
    if (stream->in_work == 0) round_end(stream);
    atomic_fetch_sub(&all->busy, 1);
}

static void stream_send(struct broker_fetch_stream *stream, int64_t now_us)
{
    struct broker_replication *all = stream->all;
    ot_arena_reset(&stream->arena);
    stream->asks = stream->source->foreign ? broker_foreign_asks(stream) : BROKER_ASKS_FETCH;
    struct ot_buf *buf = stream->asks == BROKER_ASKS_FETCH ? request_make(stream) : broker_foreign_request(stream);
    if (buf == NULL) {
        stream_pause(stream, OT_ERR_NO_MEMORY);
        stream->session_epoch = 0;
        stream->slot_count = 0;
        stream_empty(stream);
        return;
    }
    stream->forget_count = 0;
    const int64_t wait_us = (int64_t)broker_config_current(all->core->config)->replica_fetch_wait_max_ms * 1000;
    stream->call = (struct ot_link_call){ .answered = stream_answered, .home = all->setup.exec, .request = buf, .answer_bytes_max = ANSWER_BYTES_MAX,
        .deadline_us = now_us + wait_us + CALL_SLACK_US };
    stream->calling = true;
    atomic_fetch_add(&all->busy, 1);
    atomic_fetch_add(&all->fetches, 1);
    all->setup.send(all->setup.arg, stream->source->node_id, stream->number, &stream->call);
}

/* ---- all of them */

static bool stream_idle(const struct broker_fetch_stream *stream) { return !stream->calling && stream->in_work == 0; }

/* Is there anything to ask, or to tell of what is not to be asked? */
static bool stream_asks(const struct broker_fetch_stream *stream)
{
    return stream->held.first != NULL || stream->fresh.first != NULL || (stream->session_epoch > 0 && stream->forget_count > 0);
}

/* When the source has something to do that nothing else will wake us for. */
static int64_t source_due_us(const struct broker_fetch_source *source)
{
    int64_t slot_due = INT64_MAX, stream_due = INT64_MAX, due_us = INT64_MAX;
    for (const struct broker_fetch_slot *slot = source->loose.first; slot != NULL; slot = slot->next) slot_due = OT_MIN(slot_due, slot->due_us);
    for (uint32_t i = 0; i < source->stream_count; i++) {
        if (!stream_idle(&source->streams[i])) continue;
        stream_due = OT_MIN(stream_due, source->streams[i].due_us);
        if (stream_asks(&source->streams[i])) due_us = OT_MIN(due_us, source->streams[i].due_us);
    }
    return slot_due == INT64_MAX || stream_due == INT64_MAX ? due_us : OT_MIN(due_us, OT_MAX(slot_due, stream_due));
}

void broker_fetch_pump(struct broker_replication *all)
{
    const int64_t now_us = ot_exec_now_us(all->setup.exec);
    int64_t due_us = INT64_MAX;
    if (atomic_load(&all->stopping)) return;
    for (struct broker_fetch_source *source = all->sources; source != NULL; source = source->next) {
        for (uint32_t i = 0; i < source->stream_count; i++) {
            struct broker_fetch_stream *stream = &source->streams[i];
            if (!stream_idle(stream) || stream->due_us > now_us) continue;
            round_gather(stream, now_us);
            if (stream_asks(stream)) stream_send(stream, now_us);
        }
        due_us = OT_MIN(due_us, source_due_us(source));
    }
    if (due_us != INT64_MAX) ot_exec_timer_set(all->setup.exec, &all->fetch_timer, OT_MAX(due_us, now_us + 1000));
}

static void list_drop(struct broker_fetch_list *list)
{
    for (struct broker_fetch_slot *slot = list->first, *next; slot != NULL; slot = next) {
        next = slot->next;
        if (!slot->gone) slot_drop(slot);
    }
}

void broker_fetch_stop(struct broker_replication *all)
{
    for (struct broker_fetch_source *source = all->sources; source != NULL; source = source->next) {
        list_drop(&source->loose);
        for (uint32_t i = 0; i < source->stream_count; i++) {
            list_drop(&source->streams[i].held);
            list_drop(&source->streams[i].fresh);
        }
    }
}

void broker_fetch_sources_free(struct broker_replication *all)
{
    while (all->sources != NULL) {
        struct broker_fetch_source *source = all->sources;
        all->sources = source->next;
        for (uint32_t i = 0; i < source->stream_count; i++) {
            ot_arena_free(&source->streams[i].arena);
            free(source->streams[i].slots);
            free(source->streams[i].forgets);
        }
        free(source->streams);
        free(source);
    }
}
