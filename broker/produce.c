/* One produce request through the checks into the lanes, and back to its door.
 *
 *   home          take, shallow check ──────────────► lane put ──► (I/O thread writes) ──► answered or waits for the high watermark
 *   I/O thread               ├─ compressed: deep check, rebuild ─┤
 *   home                     └─ first of a transaction: coordinator ┘ (produce_verify.c; the deep check comes after it)
 *
 * open_parts counts parts not answered yet, plus one while `queued` has not been told: so done never overtakes queued. */
#include "broker/core.h"
#include "broker/events.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A small compressed batch is checked on the reactor: waking a thread for it, and the reactor again when it is done, costs several times what the check does, and the
 * connection's next request would wait for both. Not when the turn has lasted a while: others wait for its end. */
#define HERE_BYTES_MAX (16u << 10)     /* compressed */
#define HERE_PLAIN_BYTES_MAX (64u << 10)
#define HERE_TURN_US_MAX 1000

struct broker_decoder *broker_decoder_take(struct broker_core *core)
{
    pthread_mutex_lock(&core->decoders_mutex);
    struct broker_decoder *decoder = core->decoders;
    if (decoder != NULL) core->decoders = decoder->next;
    pthread_mutex_unlock(&core->decoders_mutex);
    if (decoder != NULL) return decoder;
    decoder = calloc(1, sizeof(*decoder));
    if (decoder == NULL) return NULL;
    struct eng_decode_limits limits = { 0 };
    if (eng_decode_new(core->decode_pool, &limits, &decoder->decode) == OT_OK && eng_encode_new(&decoder->encode) == OT_OK) return decoder;
    eng_decode_free(decoder->decode);
    free(decoder);
    return NULL;
}

void broker_decoder_give(struct broker_core *core, struct broker_decoder *decoder)
{
    eng_decode_trim(decoder->decode);
    pthread_mutex_lock(&core->decoders_mutex);
    decoder->next = core->decoders;
    core->decoders = decoder;
    pthread_mutex_unlock(&core->decoders_mutex);
}

static void count_rejected(struct broker_produce_part *part)
{
    if (part->error != OT_OK && part->owner != NULL)
        broker_metrics_rejected(part->owner->core, part->owner->topic->name, ot_err_name(part->error), part->records_bytes);
}

/* Before the call is answered: what its asker does next finds the marker told. */
static void tell_marker(const struct broker_produce_part *part)
{
    if (part->error != OT_OK || part->owner == NULL || !part->marker.is_marker || !part->owner->topic->internal) return;
    struct broker_core *core = part->owner->core;
    const struct eng_batch_info *info = &part->verdict.info;
    if (core->marker_committed != NULL)
        core->marker_committed(core, part->owner->topic->name, part->owner->index, part->base_offset, &part->marker, info->producer_id, info->producer_epoch);
}

static void done_run(struct ot_task *task)
{
    struct broker_produce *produce = OT_CONTAINER(task, struct broker_produce, call.task);
    ot_exec_timer_cancel(produce->call.home, &produce->timer);
    if (produce->acks == -1) atomic_fetch_sub_explicit(&broker_core_of(produce->broker)->waiting_produces, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < produce->part_count; i++) {
        struct broker_produce_part *part = &produce->parts[i];
        count_rejected(part);
        tell_marker(part);
        broker_partition_put(part->owner);
        ot_buf_unref(part->own_buf);
        part->owner = NULL;
        part->own_buf = NULL;
    }
    produce->call.done(&produce->call);
}

static void release(struct broker_produce *produce, uint32_t parts)
{
    if (atomic_fetch_sub_explicit(&produce->open_parts, parts, memory_order_acq_rel) == parts) ot_exec_post_soon(produce->call.home, &produce->call.task, 0);
}

void broker_parts_complete(struct broker_produce_part *done)
{
    while (done != NULL) {
        struct broker_produce_part *next = done->next;     /* the call may be gone after release */
        release(done->call, 1);
        done = next;
    }
}

static void queued_run(struct ot_task *task)
{
    struct broker_produce *produce = OT_CONTAINER(task, struct broker_produce, queued_task);
    produce->queued(produce);
    release(produce, 1);
}

static void timer_fired(struct ot_timer *timer)
{
    struct broker_produce *produce = OT_CONTAINER(timer, struct broker_produce, timer);
    atomic_store(&produce->expired, true);     /* before the mutexes: the lane looks at it under them when it has a part wait */
    for (uint32_t i = 0; i < produce->part_count; i++) {
        struct broker_produce_part *part = &produce->parts[i];
        if (part->owner == NULL || !broker_part_stop_waiting(part)) continue;
        broker_part_time_out(part);
        release(produce, 1);
    }
}

/* ---- checks ---- */

static void refuse(struct broker_produce_part *part, enum ot_err error, const char *text)
{
    part->error = error;
    snprintf(part->text, sizeof(part->text), "%s", text);
}

bool broker_lease_over(const struct broker_core *core, int64_t now_us)
{
    const int64_t lease_end_us = atomic_load_explicit(&core->lease_end_us, memory_order_relaxed);
    return lease_end_us != 0 && now_us >= lease_end_us;
}

static bool is_client(const struct broker_produce_part *part) { return part->call->origin != ENG_ORIGIN_COORDINATOR; }

/* What the coordinators write stays as it is, but for __consumer_offsets where that is wanted. */
static enum eng_codec codec_of_coordinator(const struct broker_produce_part *part)
{
    const int32_t codec = broker_config_current(part->owner->core->config)->offsets_topic_compression_codec;
    return codec > 0 && strcmp(part->owner->topic->name, "__consumer_offsets") == 0 ? (enum eng_codec)codec : ENG_CODEC_PRODUCER;
}

static struct eng_batch_rules rules_of(const struct broker_produce_part *part)
{
    const struct broker_produce *produce = part->call;
    const struct broker_topic_config *topic = atomic_load_explicit(&part->owner->topic->config, memory_order_acquire);
    struct eng_batch_rules rules = eng_batch_rules_default(produce->started_wall_ms);
    rules.timestamp_before_max_ms = topic->message_timestamp_before_max_ms;
    rules.timestamp_after_max_ms = topic->message_timestamp_after_max_ms;
    rules.timestamp_type = strcmp(topic->message_timestamp_type, "LogAppendTime") == 0 ? ENG_TIMESTAMP_APPEND : ENG_TIMESTAMP_CREATE;
    rules.max_message_bytes = topic->max_message_bytes;
    rules.max_decompressed_bytes = topic->max_decompressed_message_bytes;
    rules.compact_only = strstr(topic->cleanup_policy, "compact") != NULL;
    rules.origin = produce->origin;
    rules.produce_api_version = produce->api_version;
    if (produce->origin == ENG_ORIGIN_COORDINATOR) rules.compression = codec_of_coordinator(part);
    else if (!eng_codec_by_name(topic->compression_type, &rules.compression)) rules.compression = ENG_CODEC_PRODUCER;
    rules.level = rules.compression == ENG_CODEC_GZIP ? topic->compression_gzip_level
        : rules.compression == ENG_CODEC_LZ4 ? topic->compression_lz4_level
        : rules.compression == ENG_CODEC_ZSTD ? topic->compression_zstd_level : ENG_CODEC_LEVEL_DEFAULT;
    return rules;
}

static struct broker_partition *owner_of(struct broker *broker, struct broker_produce_part *part)
{
    bool by_id = part->topic.null;
    struct broker_partition *owner = by_id ? broker_partition_find_id(broker, &part->topic_id, part->partition)
                                           : broker_partition_find(broker, part->topic, part->partition);
    if (owner != NULL) return owner;
    const enum ot_err missing = broker_partition_missing(broker, part->topic, &part->topic_id, part->partition);
    refuse(part, missing, missing == OT_ERR_UNKNOWN_TOPIC_ID ? "no topic has this id" : missing == OT_ERR_NOT_LEADER_OR_FOLLOWER ? "another broker leads this partition"
        : "no such topic or partition here");
    return owner;
}

/* True: the part goes on to the lane or to the deep check. */
static bool check(struct broker *broker, struct broker_produce_part *part)
{
    struct broker_core *core = broker_core_of(broker);
    struct broker_produce *produce = part->call;
    if (produce->acks < -1 || produce->acks > 1) {
        refuse(part, OT_ERR_INVALID_REQUIRED_ACKS, "acks is 0, 1 or -1");
        return false;
    }
    if (produce->acks != -1 && broker_lease_over(core, produce->started_us)) {
        refuse(part, OT_ERR_NOT_LEADER_OR_FOLLOWER, "the coordinator has not been heard of for so long that another broker may lead (ottla.leader.lease=strict)");
        return false;
    }
    if ((part->owner = owner_of(broker, part)) == NULL) return false;
    const bool is_event = produce->from_peer && strcmp(part->owner->topic->name, BROKER_EVENTS_TOPIC) == 0;
    if (produce->origin == ENG_ORIGIN_CLIENT && part->owner->topic->internal && !is_event) {      /* what coordinators believe comes from coordinators */
        refuse(part, OT_ERR_INVALID_TOPIC_EXCEPTION, "clients may not write to internal topics");
        return false;
    }
    ot_series_add(part->owner->topic->series.produce_requests, 1);
    if (atomic_load(&core->stopping)) {
        refuse(part, OT_ERR_NOT_LEADER_OR_FOLLOWER, "the server is stopping");
        return false;
    }
    const bool is_marker = produce->origin == ENG_ORIGIN_COORDINATOR && produce->transaction_version > 0;     /* small, and readers wait for it: from the reserve */
    if (!is_marker && atomic_load(&part->owner->stage) == BROKER_PARTITION_OPEN && broker_space_refuses(core, part->owner->store_dir)) {
        part->error = OT_ERR_NO_SPACE;
        snprintf(part->text, sizeof(part->text), "the disk of this partition has %llu bytes free beside its reserve, produce needs more than the %lld of ottla.disk.free.refuse.bytes",
            (unsigned long long)atomic_load(&core->dir_free_bytes[part->owner->store_dir]), (long long)broker_config_current(core->config)->ottla_disk_free_refuse_bytes);
        return false;
    }
    struct eng_batch_rules rules = rules_of(part);
    struct eng_batch_piece piece = { 0 };
    part->error = eng_batch_take(part->records, part->records_bytes, &rules, &piece, &part->verdict);
    if (part->error == OT_OK) {
        part->records = part->records + (piece.data - part->records);
        part->records_bytes = piece.bytes;
        part->error = eng_batch_check_shallow(part->records, part->records_bytes, &rules, &part->verdict);
    }
    if (part->error != OT_OK) {
        snprintf(part->text, sizeof(part->text), "%s", part->verdict.text);
        return false;
    }
    /* and what has to do with a transaction is checked on the thread that wrote it, which the transaction's guards live on */
    if (!is_client(part) && (part->verdict.info.transactional || part->verdict.info.control)) part->verdict.rebuild = part->verdict.needs_deep = false;
    if (produce->origin == ENG_ORIGIN_CLIENT && part->verdict.info.transactional && produce->transactional_id.null) {
        refuse(part, OT_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch without a transactional id");
        return false;
    }
    if (!core->transactions_served && produce->origin == ENG_ORIGIN_CLIENT && part->verdict.info.transactional) {      /* nothing would ever end this one */
        refuse(part, OT_ERR_INVALID_TXN_STATE, "transactions are not served");
        return false;
    }
    return true;
}

/* Into the lane; false: answered already. */
static bool enqueue(struct broker_produce_part *part)
{
    struct broker_partition *partition = part->owner;
    const struct eng_batch_info *info = &part->verdict.info;
    int64_t wall_ms = part->call->started_wall_ms;
    part->append_time_ms = part->verdict.append_time;
    part->marker = (struct eng_marker){ 0 };
    if (info->control) eng_batch_marker(part->records, info, &part->marker);
    pthread_mutex_lock(&partition->mutex);
    enum broker_lane_fate fate = broker_lane_put(partition, part, wall_ms);
    pthread_mutex_unlock(&partition->mutex);
    if (fate == BROKER_LANE_RUN_HERE) broker_lane_run(&partition->lane_task);      /* it holds a reference of its own */
    return fate != BROKER_LANE_ANSWERED;
}

/* The checks of this part, which did not end within broker_produce, are over: it is in the lane or answered. */
static void leave_checks(struct broker_produce_part *part, bool queued)
{
    struct broker_produce *produce = part->call;
    struct broker_partition *partition = part->owner;
    if (!queued && part->verifying) {
        pthread_mutex_lock(&partition->mutex);
        (void)broker_verify_end(partition, part);
        pthread_mutex_unlock(&partition->mutex);
    }
    bool last = atomic_fetch_sub_explicit(&produce->unqueued_parts, 1, memory_order_acq_rel) == 1;
    if (last) ot_exec_post(produce->call.home, &produce->queued_task);
    if (!queued) release(produce, 1);
}

/* True: it is settled and may go into the lane. False: it goes the long way, as if nothing had been looked at (what is wrong with a batch is found out there too). */
static bool check_here(struct broker_produce_part *part)
{
    struct broker_core *core = part->owner->core;
    const enum eng_codec codec = part->verdict.info.codec;
    if (part->records_bytes > HERE_BYTES_MAX || part->verdict.rebuild || codec == ENG_CODEC_GZIP) return false;
    if (ot_exec_turn_age_us(ot_exec_now_us(part->call->call.home)) > HERE_TURN_US_MAX) return false;
    struct broker_decoder *decoder = broker_decoder_take(core);
    if (decoder == NULL) return false;
    struct eng_batch_rules rules = rules_of(part);
    struct eng_batch_verdict before = part->verdict;
    rules.deep_bytes_max = HERE_PLAIN_BYTES_MAX;
    bool good = eng_batch_check_deep(part->records, part->records_bytes, &rules, decoder->decode, &part->verdict) == OT_OK && !part->verdict.rebuild;
    if (!good) part->verdict = before;
    broker_decoder_give(core, decoder);
    return good;
}

static void rebuild(struct broker_produce_part *part, const struct eng_batch_rules *rules, struct broker_decoder *decoder)
{
    struct eng_sink sink;
    eng_sink_pool(&sink, part->owner->core->decode_pool, (size_t)rules->max_message_bytes);
    part->error = eng_batch_rebuild(part->records, part->records_bytes, rules, decoder->decode, decoder->encode, &part->verdict, &sink);
    if (part->error == OT_OK) {
        part->own_buf = eng_sink_take(&sink);
        part->records = part->own_buf->data;
        part->records_bytes = part->own_buf->bytes;
    }
    eng_sink_free(&sink);
}

static void check_deep(struct broker_produce_part *part)
{
    struct broker_core *core = part->owner->core;
    struct eng_batch_rules rules = rules_of(part);
    struct broker_decoder *decoder = broker_decoder_take(core);
    if (decoder == NULL) {
        refuse(part, OT_ERR_NO_MEMORY, "no memory for a decoding window");
    } else {
        part->error = eng_batch_check_deep(part->records, part->records_bytes, &rules, decoder->decode, &part->verdict);
        if (part->error == OT_OK && part->verdict.rebuild) rebuild(part, &rules, decoder);
        broker_decoder_give(core, decoder);
        if (part->error != OT_OK) snprintf(part->text, sizeof(part->text), "%s", part->verdict.text);
    }
    if (part->error == OT_OK || is_client(part)) return;
    part->verdict.rebuild = false;             /* a coordinator lives on what it writes: rather plain than not at all */
    part->verdict.err = part->error = OT_OK;
    part->text[0] = 0;
}

static void deep_run(struct ot_task *task)
{
    struct broker_produce_part *part = OT_CONTAINER(task, struct broker_produce_part, task);
    bool queued = false;
    check_deep(part);
    if (part->error == OT_OK) {
        if (!part->verdict.rebuild) eng_batch_settle(part->records, part->records_bytes, &part->verdict);
        queued = enqueue(part);
    }
    leave_checks(part, queued);
}

void broker_produce_verified(struct broker_produce_part *part)
{
    bool queued = false;
    if (part->error == OT_OK && part->verdict.needs_deep) {
        ot_exec_post(part->owner->core->io_exec, &part->task);
        return;
    }
    if (part->error == OT_OK) {
        eng_batch_settle(part->records, part->records_bytes, &part->verdict);
        queued = enqueue(part);
    }
    leave_checks(part, queued);
}

static void start(struct broker_produce *produce, struct broker_produce_part *part)
{
    part->call = produce;
    part->owner = NULL;
    part->own_buf = NULL;
    part->error = OT_OK;
    part->text[0] = 0;
    part->base_offset = part->append_time_ms = part->log_start_offset = -1;
    part->leader_id = part->leader_epoch = -1;
    part->too_few = part->waiting = part->verifying = part->verify_stale = part->only_open = false;
    part->verify_epoch = -1;
    part->marker = (struct eng_marker){ 0 };
    part->next = part->prev = NULL;
    part->verdict.record_error_count = 0;
    part->verdict.text[0] = 0;
    part->task.run = deep_run;
}

bool broker_produce(struct broker *broker, struct broker_produce *produce)
{
    uint32_t answered = 0, deep = 0, verify = 0;
    produce->broker = broker;
    produce->call.task.run = done_run;
    produce->queued_task.run = queued_run;
    produce->timer = (struct ot_timer){ .fired = timer_fired };
    produce->started_us = ot_exec_now_us(produce->call.home);
    produce->started_wall_ms = ot_exec_wall_ms(broker_core_of(broker)->background_exec);
    atomic_store(&produce->open_parts, produce->part_count + 2);           /* +1 for this function, +1 for queued */
    atomic_store(&produce->unqueued_parts, 1);
    atomic_store(&produce->expired, false);
    for (uint32_t i = 0; i < produce->part_count; i++) start(produce, &produce->parts[i]);
    if (produce->acks == -1) {
        atomic_fetch_add_explicit(&broker_core_of(broker)->waiting_produces, 1, memory_order_relaxed);
        ot_exec_timer_set(produce->call.home, &produce->timer, produce->started_us + (int64_t)OT_MAX(produce->timeout_ms, 0) * 1000);
    }
    for (uint32_t i = 0; i < produce->part_count; i++) {
        struct broker_produce_part *part = &produce->parts[i];
        if (!check(broker, part)) {
            answered++;
        } else if (part->verdict.info.transactional && broker_verify_begin(part)) {
            verify++;
            atomic_fetch_add_explicit(&produce->unqueued_parts, 1, memory_order_relaxed);
        } else if (part->verdict.needs_deep && !check_here(part)) {
            deep++;
            atomic_fetch_add_explicit(&produce->unqueued_parts, 1, memory_order_relaxed);
            ot_exec_post(part->owner->core->io_exec, &part->task);
        } else {
            eng_batch_settle(part->records, part->records_bytes, &part->verdict);
            if (!enqueue(part)) answered++;
        }
    }
    if (verify > 0) broker_verify_start(broker, produce);
    bool all_queued = deep == 0 && verify == 0;
    if (!all_queued && atomic_fetch_sub_explicit(&produce->unqueued_parts, 1, memory_order_acq_rel) == 1)
        ot_exec_post(produce->call.home, &produce->queued_task);
    release(produce, answered + 1 + (all_queued ? 1 : 0));
    return all_queued;
}
