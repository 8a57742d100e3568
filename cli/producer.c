#include "cli/producer.h"
#include "base/util.h"
#include "base/wire/apis.h"
#include "base/wire/init_producer_id_request.h"
#include "base/wire/init_producer_id_response.h"
#include "base/wire/produce_request.h"
#include "base/wire/produce_response.h"
#include "cli/wait.h"
#include "engine/batch_build.h"
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PRODUCE_VERSIONS     3, 9
#define PRODUCE_FOR_ZSTD     7
#define PRODUCER_ID_VERSIONS 0, 4
#define RETRY_PAUSE_MS       100
#define BATCH_BYTES_MAX      (1u << 30)
#define DECODING_BYTES       (64u << 20)

/* One batch: gathered, then under way. */
struct batch {
    struct eng_sink sink;
    struct eng_batch_builder builder; /* while it gathers */
    uint32_t records;
    bool open;     /* gathers */
    bool sent;     /* under way, or to be sent again */
    bool answered; /* of those sent */
    enum ot_err err;
};
struct lane {
    struct batch batches[2]; /* the one that gathers, the one under way */
    uint32_t gathering;
    int32_t next_sequence;
};
struct cli_producer {
    struct cli_kafka *kafka;
    struct cli_producer_config config;
    struct cli_kafka_topic topic;
    struct lane *lanes;
    struct ot_pool *pool;
    struct eng_encode *encode;
    struct eng_decode *decode;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t turn; /* partition of records without key: one batch long, then the next */
    uint64_t gathered_bytes, acknowledged, unknown;
    bool under_way, failed;
    int64_t give_up_us; /* for what is under way */
    char why[CLI_WHY_BYTES + 320];
};

static enum ot_err fail(struct cli_producer *producer, enum ot_err err, int32_t partition, const char *words)
{
    producer->failed = true;
    if (producer->why[0] != 0) return err; /* the first one tells the story */
    if (partition < 0) snprintf(producer->why, sizeof(producer->why), "%s", words);
    else snprintf(producer->why, sizeof(producer->why), "%s-%d: %s: %s", producer->topic.name, partition, ot_err_name(err), words);
    return err;
}

/* Without an id the producer works all the same, only that a lost answer may store a batch twice. */
static enum ot_err ask_producer_id(struct cli_producer *producer)
{
    struct cli_conn *conn;
    struct ot_init_producer_id_request request;
    struct ot_init_producer_id_response response;
    enum ot_err err = cli_kafka_broker(producer->kafka, producer->topic.partitions[0].leader, &conn);
    if (err != OT_OK) return err;
    const int16_t version = cli_conn_version(conn, OT_API_INIT_PRODUCER_ID, PRODUCER_ID_VERSIONS);
    if (version < 0) return OT_OK;
    ot_init_producer_id_request_defaults(&request);
    request.transactional_id.null = true;
    request.transaction_timeout_ms = INT32_MAX;
    err = cli_conn_ask(conn, OT_API_INIT_PRODUCER_ID, version, &request, &response, cli_deadline_us(producer->config.timeout_ms));
    if (err == OT_OK && response.error_code == 0) {
        producer->producer_id = response.producer_id;
        producer->producer_epoch = response.producer_epoch;
    }
    return err;
}

enum ot_err cli_producer_open(struct cli_kafka *kafka, const char *topic, const struct cli_producer_config *config, struct cli_producer **out)
{
    struct cli_producer *producer = calloc(1, sizeof(*producer));
    struct eng_decode_limits limits = {0};
    *out = producer;
    if (producer == NULL) return OT_ERR_NO_MEMORY;
    producer->kafka = kafka;
    producer->config = *config;
    producer->producer_id = -1;
    enum ot_err err = cli_kafka_topic(kafka, topic, true, &producer->topic);
    if (err != OT_OK) return err;
    if (config->partition >= 0 && (uint32_t)config->partition >= producer->topic.partition_count) return OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if ((producer->lanes = calloc(producer->topic.partition_count, sizeof(*producer->lanes))) == NULL) return OT_ERR_NO_MEMORY;
    if ((producer->pool = ot_pool_new("produce", DECODING_BYTES, 0)) == NULL) return OT_ERR_NO_MEMORY;
    if ((err = eng_encode_new(&producer->encode)) != OT_OK) return err;
    if ((err = eng_decode_new(producer->pool, &limits, &producer->decode)) != OT_OK) return err;
    producer->turn = (int32_t)((uint64_t)ot_clock_boot_us() % producer->topic.partition_count);
    return config->acks == -1 ? ask_producer_id(producer) : OT_OK;
}

void cli_producer_close(struct cli_producer *producer)
{
    if (producer == NULL) return;
    for (uint32_t i = 0; producer->lanes != NULL && i < producer->topic.partition_count; i++) {
        eng_sink_free(&producer->lanes[i].batches[0].sink);
        eng_sink_free(&producer->lanes[i].batches[1].sink);
    }
    free(producer->lanes);
    eng_encode_free(producer->encode);
    eng_decode_free(producer->decode);
    if (producer->pool != NULL) ot_pool_free(producer->pool);
    cli_kafka_topic_free(&producer->topic);
    free(producer);
}

/* ---- gathering */

static enum ot_err begin(struct cli_producer *producer, struct lane *lane, struct batch *batch)
{
    struct eng_batch_fields fields = eng_batch_fields_default();
    if (producer->producer_id >= 0) {
        fields.producer_id = producer->producer_id;
        fields.producer_epoch = producer->producer_epoch;
        fields.base_sequence = lane->next_sequence;
    }
    eng_sink_malloc(&batch->sink, BATCH_BYTES_MAX);
    batch->records = 0;
    batch->open = true;
    return eng_batch_build_begin(&batch->builder, &fields, NULL, &batch->sink);
}

/* Header and checksum; then compressed, as a whole, with the one encoder that all partitions share. */
static enum ot_err finish(struct cli_producer *producer, struct lane *lane, struct batch *batch)
{
    batch->open = false;
    enum ot_err err = eng_batch_build_finish(&batch->builder);
    producer->gathered_bytes -= OT_MIN(producer->gathered_bytes, batch->builder.plain_bytes);
    lane->next_sequence = eng_sequence_add(lane->next_sequence, (int32_t)batch->records);
    if (err != OT_OK || producer->config.codec == ENG_CODEC_NONE) return err;
    struct eng_batch_rules rules = eng_batch_rules_default(0);
    rules.timestamp_before_max_ms = rules.timestamp_after_max_ms = INT64_MAX;
    rules.max_message_bytes = INT32_MAX;
    rules.max_decompressed_bytes = INT32_MAX;
    rules.compression = producer->config.codec;
    rules.level = producer->config.level;
    struct eng_batch_verdict verdict = {0};
    struct eng_sink packed;
    eng_sink_malloc(&packed, BATCH_BYTES_MAX);
    err = eng_batch_check_shallow(batch->sink.data, batch->sink.bytes, &rules, &verdict);
    if (err == OT_OK && verdict.rebuild)
        err = eng_batch_rebuild(batch->sink.data, batch->sink.bytes, &rules, producer->decode, producer->encode, &verdict, &packed);
    if (err != OT_OK || !verdict.rebuild) {
        eng_sink_free(&packed);
        return err;
    }
    eng_sink_free(&batch->sink);
    batch->sink = packed;
    return OT_OK;
}

static int32_t choose(struct cli_producer *producer, const struct cli_record *record)
{
    const int32_t count = (int32_t)producer->topic.partition_count;
    if (record->partition >= 0) return record->partition < count ? record->partition : -1;
    if (producer->config.partition >= 0) return producer->config.partition;
    if (!record->key.null) return ot_partition_for_key(record->key.data, record->key.bytes, count);
    return producer->turn;
}

enum ot_err cli_producer_add(struct cli_producer *producer, const struct cli_record *record, int64_t now_ms)
{
    const int32_t partition = choose(producer, record);
    if (partition < 0) {
        char words[96];
        snprintf(words, sizeof(words), "the topic has %u partitions", producer->topic.partition_count);
        return fail(producer, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, record->partition, words);
    }
    struct lane *lane = &producer->lanes[partition];
    struct batch *batch = &lane->batches[lane->gathering];
    const int64_t timestamp = record->timestamp_ms >= 0 ? record->timestamp_ms : now_ms;
    const uint64_t before = batch->open ? batch->builder.plain_bytes : 0;
    enum ot_err err = OT_OK;
    if (batch->open) {
        const size_t bytes = eng_batch_build_record_bytes(
            &batch->builder, batch->records, timestamp, record->key, record->value, record->headers, record->header_count);
        if (before + bytes > producer->config.batch_bytes) {
            if ((err = cli_producer_flush(producer)) != OT_OK) return err;
            return cli_producer_add(producer, record, now_ms); /* in an empty batch now: no second turn */
        }
    } else {
        err = begin(producer, lane, batch);
    }
    if (err == OT_OK) err = eng_batch_build_next(&batch->builder, timestamp, record->key, record->value, record->headers, record->header_count);
    if (err != OT_OK) return fail(producer, err, partition, "the record does not fit into a batch");
    batch->records++;
    producer->gathered_bytes += batch->builder.plain_bytes - before;
    return producer->gathered_bytes > CLI_PRODUCER_BYTES ? cli_producer_flush(producer) : OT_OK;
}

/* ---- sending */

static struct batch *sent_batch(struct cli_producer *producer, uint32_t partition)
{
    struct lane *lane = &producer->lanes[partition];
    struct batch *batch = &lane->batches[lane->gathering ^ 1];
    return batch->sent ? batch : NULL;
}

static int32_t leader_of(const struct cli_producer *producer, uint32_t partition)
{
    return producer->topic.partitions[partition].leader;
}

static enum ot_err send_to(struct cli_producer *producer, struct cli_conn *conn, int32_t leader)
{
    struct ot_produce_request request;
    struct ot_produce_request_topic_produce_data topic;
    const uint32_t count = producer->topic.partition_count;
    const int16_t version = cli_conn_version(conn, OT_API_PRODUCE, PRODUCE_VERSIONS);
    if (version < 0 || (producer->config.codec == ENG_CODEC_ZSTD && version < PRODUCE_FOR_ZSTD)) return OT_ERR_UNSUPPORTED_VERSION;
    struct ot_produce_request_partition_produce_data *rows = calloc(count, sizeof(*rows));
    if (rows == NULL) return OT_ERR_NO_MEMORY;
    ot_produce_request_defaults(&request);
    ot_produce_request_topic_produce_data_defaults(&topic);
    for (uint32_t i = 0; i < count; i++) {
        struct batch *batch = sent_batch(producer, i);
        if (batch == NULL || batch->answered || leader_of(producer, i) != leader) continue;
        struct ot_produce_request_partition_produce_data *row = &rows[topic.partition_data.count++];
        ot_produce_request_partition_produce_data_defaults(row);
        row->index = (int32_t)i;
        row->records = (struct ot_blob){batch->sink.data, (uint32_t)batch->sink.bytes, false};
    }
    topic.name = ot_str_of(producer->topic.name);
    topic.partition_data.items = rows;
    request.acks = producer->config.acks;
    request.timeout_ms = producer->config.timeout_ms;
    request.topic_data.items = &topic;
    request.topic_data.count = 1;
    const enum ot_err err = cli_conn_send(conn, OT_API_PRODUCE, version, &request, producer->give_up_us);
    free(rows);
    return err;
}

static void set_err(struct cli_producer *producer, int32_t leader, enum ot_err err)
{
    for (uint32_t i = 0; i < producer->topic.partition_count; i++) {
        struct batch *batch = sent_batch(producer, i);
        if (batch != NULL && !batch->answered && leader_of(producer, i) == leader) batch->err = err;
    }
}

/* Calls each(leader) once for every leader that has something under way and unanswered. */
static void for_each_leader(struct cli_producer *producer, void (*each)(struct cli_producer *producer, int32_t leader))
{
    const uint32_t count = producer->topic.partition_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct batch *batch = sent_batch(producer, i);
        bool first = batch != NULL && !batch->answered;
        for (uint32_t j = 0; first && j < i; j++) {
            const struct batch *other = sent_batch(producer, j);
            if (other != NULL && !other->answered && leader_of(producer, j) == leader_of(producer, i)) first = false;
        }
        if (first) each(producer, leader_of(producer, i));
    }
}

static void send_each(struct cli_producer *producer, int32_t leader)
{
    struct cli_conn *conn;
    enum ot_err err = cli_kafka_broker(producer->kafka, leader, &conn);
    if (err == OT_OK) err = send_to(producer, conn, leader);
    set_err(producer, leader, err);
}

static void accept_row(struct cli_producer *producer, const struct ot_produce_response_partition_produce_response *row)
{
    if (row->index < 0 || (uint32_t)row->index >= producer->topic.partition_count) return;
    struct batch *batch = sent_batch(producer, (uint32_t)row->index);
    if (batch == NULL || batch->answered) return;
    batch->err = (enum ot_err)row->error_code;
    /* sent again after a lost answer, and the first one had arrived */
    if (batch->err == OT_ERR_DUPLICATE_SEQUENCE_NUMBER) batch->err = OT_OK;
    batch->answered = !cli_kafka_try_again(batch->err);
    if (batch->err == OT_OK) {
        producer->acknowledged += batch->records;
        if (producer->config.stored != NULL) producer->config.stored(producer->config.arg, row->index, row->base_offset, batch->records);
    } else if (batch->answered) {
        if (batch->err == OT_ERR_REQUEST_TIMED_OUT || batch->err == OT_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND) producer->unknown += batch->records;
        char words[320];
        struct ot_str text = row->error_message;
        if (text.null && row->record_errors.count > 0) text = row->record_errors.items[0].batch_index_error_message;
        if (text.null) snprintf(words, sizeof(words), "%s", ot_err_text(batch->err));
        else snprintf(words, sizeof(words), "%.*s", (int)OT_MIN(text.bytes, 300u), text.data);
        ot_ignore(fail(producer, batch->err, row->index, words), "kept in the batch");
    }
}

static void receive_each(struct cli_producer *producer, int32_t leader)
{
    struct cli_conn *conn;
    struct ot_produce_response response;
    for (uint32_t i = 0; i < producer->topic.partition_count; i++) { /* nothing was sent to it: nothing comes */
        const struct batch *batch = sent_batch(producer, i);
        if (batch != NULL && !batch->answered && leader_of(producer, i) == leader && batch->err != OT_OK) return;
    }
    enum ot_err err = cli_kafka_broker(producer->kafka, leader, &conn);
    const int16_t version = err == OT_OK ? cli_conn_version(conn, OT_API_PRODUCE, PRODUCE_VERSIONS) : -1;
    while (err == OT_OK && (err = cli_conn_receive_some(conn)) == OT_ERR_BUSY) err = cli_wait_one(conn->fd, POLLIN, producer->give_up_us);
    if (err == OT_OK) err = cli_conn_answer(conn, OT_API_PRODUCE, version, &response);
    if (err != OT_OK) {
        if (conn != NULL) cli_conn_close(conn);
        set_err(producer, leader, err);
        return;
    }
    set_err(producer, leader, OT_ERR_NETWORK_EXCEPTION); /* what the answer leaves out */
    for (int32_t t = 0; t < response.responses.count; t++)
        for (int32_t p = 0; p < response.responses.items[t].partition_responses.count; p++)
            accept_row(producer, &response.responses.items[t].partition_responses.items[p]);
}

enum ot_err cli_producer_flush(struct cli_producer *producer)
{
    enum ot_err err = cli_producer_wait(producer);
    if (err != OT_OK) return err;
    for (uint32_t i = 0; i < producer->topic.partition_count; i++) {
        struct lane *lane = &producer->lanes[i];
        struct batch *batch = &lane->batches[lane->gathering];
        if (!batch->open) continue;
        if ((err = finish(producer, lane, batch)) != OT_OK) return fail(producer, err, (int32_t)i, "the batch could not be built");
        batch->sent = true;
        batch->answered = false;
        batch->err = OT_OK;
        lane->gathering ^= 1;
        producer->under_way = true;
    }
    if (!producer->under_way) return OT_OK;
    producer->turn = (producer->turn + 1) % (int32_t)producer->topic.partition_count;
    producer->give_up_us = cli_deadline_us(producer->config.timeout_ms);
    for_each_leader(producer, send_each);
    return OT_OK;
}

static void drop_sent(struct cli_producer *producer, uint32_t partition)
{
    struct batch *batch = sent_batch(producer, partition);
    eng_sink_free(&batch->sink);
    batch->sent = false;
}

static enum ot_err give_up(struct cli_producer *producer, uint32_t partition, enum ot_err err)
{
    struct batch *batch = sent_batch(producer, partition);
    char words[CLI_WHY_BYTES + 64];
    struct cli_conn *conn = NULL;
    const bool open = err == OT_ERR_NETWORK_EXCEPTION || err == OT_ERR_REQUEST_TIMED_OUT || err == OT_ERR_CANCELLED;
    if (open) producer->unknown += batch->records;
    ot_ignore(cli_kafka_broker(producer->kafka, leader_of(producer, partition), &conn), "only its words are wanted");
    const char *why = err == OT_ERR_NETWORK_EXCEPTION && conn != NULL && conn->why[0] != 0 ? conn->why : ot_err_text(err);
    snprintf(words, sizeof(words), "%s", why);
    return fail(producer, err, (int32_t)partition, words);
}

/* One look at what is under way: what is done is dropped, what is lost is an error. BUSY: something is to be sent again. */
static enum ot_err settle(struct cli_producer *producer)
{
    enum ot_err worst = OT_OK;
    bool again = false;
    for (uint32_t i = 0; i < producer->topic.partition_count; i++) {
        struct batch *batch = sent_batch(producer, i);
        if (batch == NULL) continue;
        enum ot_err err = batch->err;
        if (!batch->answered && producer->config.acks == 0 && err == OT_OK) {
            producer->acknowledged += batch->records;
            batch->answered = true;
        }
        if (!batch->answered && cli_kafka_try_again(err) && ot_clock_boot_us() < producer->give_up_us && !cli_interrupted()) {
            again = true;
            continue;
        }
        if (!batch->answered) err = give_up(producer, i, err == OT_OK ? OT_ERR_NETWORK_EXCEPTION : err);
        if (worst == OT_OK) worst = err;
        drop_sent(producer, i);
    }
    return worst != OT_OK ? worst : again ? OT_ERR_BUSY : OT_OK;
}

enum ot_err cli_producer_wait(struct cli_producer *producer)
{
    if (!producer->under_way) return producer->failed ? OT_ERR_CLOSED : OT_OK;
    if (producer->config.acks != 0) for_each_leader(producer, receive_each);
    enum ot_err err;
    while ((err = settle(producer)) == OT_ERR_BUSY) {
        struct cli_kafka_topic now;
        if (cli_wait(NULL, 0, cli_deadline_us(RETRY_PAUSE_MS)) == OT_ERR_CANCELLED) continue;
        if (cli_kafka_topic(producer->kafka, producer->topic.name, false, &now) == OT_OK && now.partition_count >= producer->topic.partition_count)
            memcpy(producer->topic.partitions, now.partitions, producer->topic.partition_count * sizeof(*now.partitions));
        cli_kafka_topic_free(&now);
        for_each_leader(producer, send_each);
        if (producer->config.acks != 0) for_each_leader(producer, receive_each);
    }
    producer->under_way = false;
    return err;
}

bool cli_producer_idle(const struct cli_producer *producer)
{
    return !producer->under_way && producer->gathered_bytes == 0;
}

uint64_t cli_producer_acknowledged(const struct cli_producer *producer)
{
    return producer->acknowledged;
}

uint64_t cli_producer_unknown(const struct cli_producer *producer)
{
    return producer->unknown;
}

const char *cli_producer_why(const struct cli_producer *producer)
{
    return producer->why[0] != 0 ? producer->why : cli_kafka_why(producer->kafka);
}
