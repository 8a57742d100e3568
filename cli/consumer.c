#include "cli/consumer.h"
#include "base/util.h"
#include "base/wire/apis.h"
#include "base/wire/fetch_request.h"
#include "base/wire/fetch_response.h"
#include "cli/wait.h"
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define FETCH_VERSIONS       4, 12
#define PARTITION_BYTES      (1u << 20)
#define PARTITION_BYTES_MAX  (128u << 20)
#define RETRY_PAUSE_MS       100
#define DECODING_BYTES       ((size_t)512 << 20)

struct pull { /* one leader */
    int32_t leader;
    struct cli_conn *conn; /* NULL: nothing is under way */
    int16_t version;
    int64_t give_up_us;
};
struct cli_consumer {
    struct cli_kafka *kafka;
    struct cli_consumer_config config;
    struct cli_part *parts;
    uint32_t part_count, first_part; /* the first in the next request: each has its turn */
    struct pull *pulls;
    uint32_t pull_count;
    struct ot_pool *pool;
    struct eng_decode *decode;
    struct eng_record_header *headers;
    uint32_t header_cap;
    uint64_t records;
    bool stopped, renew;  /* renew: leaders are to be asked for */
    int64_t trouble_us;   /* since when nothing but errors came; 0: no trouble */
    enum ot_err trouble;
    char why[CLI_WHY_BYTES + 320];
};

const char *cli_consumer_why(const struct cli_consumer *consumer)
{
    return consumer->why[0] != 0 ? consumer->why : cli_kafka_why(consumer->kafka);
}

enum ot_err cli_consumer_open(struct cli_kafka *kafka, struct cli_part *parts, uint32_t part_count, const struct cli_consumer_config *config,
    struct cli_consumer **out)
{
    struct cli_consumer *consumer = calloc(1, sizeof(*consumer));
    struct eng_decode_limits limits = {0};
    *out = consumer;
    if (consumer == NULL) return OT_ERR_NO_MEMORY;
    consumer->kafka = kafka;
    consumer->config = *config;
    consumer->parts = parts;
    consumer->part_count = part_count;
    if ((consumer->pulls = calloc(part_count + 1u, sizeof(*consumer->pulls))) == NULL) return OT_ERR_NO_MEMORY;
    if ((consumer->pool = ot_pool_new("consume", DECODING_BYTES, 0)) == NULL) return OT_ERR_NO_MEMORY;
    return eng_decode_new(consumer->pool, &limits, &consumer->decode);
}

void cli_consumer_close(struct cli_consumer *consumer)
{
    if (consumer == NULL) return;
    eng_decode_free(consumer->decode);
    if (consumer->pool != NULL) ot_pool_free(consumer->pool);
    free(consumer->pulls);
    free(consumer->headers);
    free(consumer);
}

static int32_t leader_of(const struct cli_part *part)
{
    return part->topic->partitions[part->partition].leader;
}

static bool wanted(const struct cli_part *part)
{
    return !part->done && part->offset < part->stop_offset;
}

/* ---- asking */

static enum ot_err ask(struct cli_consumer *consumer, struct pull *pull, struct cli_conn *conn)
{
    struct ot_fetch_request request;
    struct ot_fetch_request_fetch_topic *topics = calloc(consumer->part_count, sizeof(*topics));
    struct ot_fetch_request_fetch_partition *rows = calloc(consumer->part_count, sizeof(*rows));
    enum ot_err err = OT_ERR_NO_MEMORY;
    if (topics == NULL || rows == NULL) goto end;
    ot_fetch_request_defaults(&request);
    request.max_wait_ms = consumer->config.max_wait_ms;
    request.min_bytes = 1;
    request.max_bytes = (int32_t)CLI_CONSUMER_BYTES;
    request.isolation_level = consumer->config.committed_only;
    request.topics.items = topics;
    for (uint32_t i = 0; i < consumer->part_count; i++) { /* a topic a partition: allowed, and the turn stays simple */
        const uint32_t at = (consumer->first_part + i) % consumer->part_count;
        struct cli_part *part = &consumer->parts[at];
        if (!wanted(part) || leader_of(part) != pull->leader) continue;
        if (part->max_bytes == 0) part->max_bytes = PARTITION_BYTES;
        struct ot_fetch_request_fetch_topic *topic = &topics[request.topics.count];
        struct ot_fetch_request_fetch_partition *row = &rows[request.topics.count++];
        ot_fetch_request_fetch_topic_defaults(topic);
        ot_fetch_request_fetch_partition_defaults(row);
        topic->topic = ot_str_of(part->topic->name);
        topic->partitions.items = row;
        topic->partitions.count = 1;
        row->partition = part->partition;
        row->fetch_offset = part->offset;
        row->partition_max_bytes = (int32_t)part->max_bytes;
    }
    consumer->first_part = (consumer->first_part + 1) % consumer->part_count;
    pull->give_up_us = cli_deadline_us((int64_t)consumer->config.max_wait_ms + consumer->config.timeout_ms);
    pull->version = cli_conn_version(conn, OT_API_FETCH, FETCH_VERSIONS);
    err = pull->version < 0 ? OT_ERR_UNSUPPORTED_VERSION : cli_conn_send(conn, OT_API_FETCH, pull->version, &request, pull->give_up_us);
end:
    free(topics);
    free(rows);
    return err;
}

/* What may heal is remembered, and asked again after a pause; the rest is given back. */
static enum ot_err trouble(struct cli_consumer *consumer, enum ot_err err, const char *words)
{
    if (words != NULL) snprintf(consumer->why, sizeof(consumer->why), "%s", words);
    const bool may_heal = cli_kafka_try_again(err) || err == OT_ERR_REQUEST_TIMED_OUT || err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if (!may_heal) return err;
    consumer->trouble = err;
    consumer->renew = true;
    if (consumer->trouble_us == 0) consumer->trouble_us = ot_clock_boot_us();
    if (err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION) consumer->trouble_us -= 1000000; /* a deleted topic does not come back: ten looks are enough */
    return OT_OK;
}

static enum ot_err ask_all(struct cli_consumer *consumer)
{
    for (uint32_t i = 0; i < consumer->part_count; i++) {
        if (!wanted(&consumer->parts[i])) continue;
        const int32_t leader = leader_of(&consumer->parts[i]);
        struct pull *pull = NULL, *free_pull = NULL;
        for (uint32_t j = 0; j < consumer->pull_count; j++) {
            if (consumer->pulls[j].leader == leader) pull = &consumer->pulls[j];
            if (consumer->pulls[j].conn == NULL) free_pull = &consumer->pulls[j];
        }
        if (pull != NULL && pull->conn != NULL) continue;
        if (pull == NULL) pull = free_pull != NULL ? free_pull : &consumer->pulls[consumer->pull_count++];
        pull->leader = leader;
        struct cli_conn *conn = NULL;
        enum ot_err err = cli_kafka_broker(consumer->kafka, leader, &conn);
        if (err == OT_OK) err = ask(consumer, pull, conn);
        if (err == OT_OK) pull->conn = conn;
        else if ((err = trouble(consumer, err, conn != NULL && conn->why[0] != 0 ? conn->why : cli_kafka_why(consumer->kafka))) != OT_OK) return err;
    }
    return OT_OK;
}

/* ---- taking */

/* Ids whose transaction was aborted, while the batches of one answer pass. */
struct aborted {
    const struct ot_fetch_response_aborted_transaction *rows;
    bool *over; /* of rows: its marker passed */
    int32_t count;
};

static bool is_aborted(struct aborted *aborted, const uint8_t *data, const struct eng_batch_info *info)
{
    struct eng_marker marker = {0};
    if (!info->transactional) return false;
    if (info->control) eng_batch_marker(data, info, &marker);
    for (int32_t i = 0; i < aborted->count; i++) {
        if (aborted->over[i] || aborted->rows[i].producer_id != info->producer_id || aborted->rows[i].first_offset > eng_batch_last_offset(info)) continue;
        if (marker.is_marker) aborted->over[i] = true;
        return true;
    }
    return false;
}

static bool take_headers(struct cli_consumer *consumer, const struct eng_record *record, struct cli_record *out)
{
    if (record->header_count > consumer->header_cap) {
        struct eng_record_header *more = realloc(consumer->headers, record->header_count * sizeof(*more));
        if (more == NULL) return false;
        consumer->headers = more;
        consumer->header_cap = record->header_count;
    }
    struct ot_reader cursor = ot_reader_over(record->headers.data, record->headers.bytes);
    out->headers = consumer->headers;
    while (out->header_count < record->header_count && eng_record_header(&cursor, &consumer->headers[out->header_count])) out->header_count++;
    return true;
}

static enum ot_err take_record(struct cli_consumer *consumer, struct cli_part *part, const struct eng_batch_info *info, const struct eng_record *record)
{
    if (record->offset < part->offset) return OT_OK;
    if (record->offset >= part->stop_offset || record->timestamp >= part->stop_time_ms) {
        part->done = true;
        return OT_OK;
    }
    struct cli_record out = {.topic = ot_str_of(part->topic->name), .partition = part->partition, .offset = record->offset, .timestamp_ms = record->timestamp,
        .key = record->key, .value = record->value, .append_time = info->timestamp_type == ENG_TIMESTAMP_APPEND, .transactional = info->transactional,
        .codec = info->codec, .producer_id = info->producer_id, .size_bytes = record->raw.null ? record->key.bytes + record->value.bytes : record->raw.bytes};
    if (!take_headers(consumer, record, &out)) return OT_ERR_NO_MEMORY;
    consumer->config.record(consumer->config.arg, &out);
    part->offset = record->offset + 1;
    consumer->records++;
    if (consumer->records >= consumer->config.records_max) consumer->stopped = true;
    return OT_OK;
}

static enum ot_err take_batch(struct cli_consumer *consumer, struct cli_part *part, const struct eng_batch_piece *piece, struct aborted *aborted)
{
    struct eng_batch_info info;
    struct eng_record_iter iter;
    struct eng_record record;
    enum ot_err err = eng_batch_parse(piece->data, piece->bytes, &info);
    if (err == OT_OK) err = eng_batch_check_crc(piece->data, &info);
    if (err != OT_OK) return err;
    const bool passed_over = is_aborted(aborted, piece->data, &info) || info.control;
    if (!passed_over) {
        err = eng_record_open(&iter, consumer->decode, piece->data, piece->bytes, 0);
        while (err == OT_OK && !part->done && !consumer->stopped && (err = eng_record_next(&iter, &record)) == OT_OK)
            err = take_record(consumer, part, &info, &record);
        if (err != OT_OK && err != OT_ERR_NOT_FOUND) return err;
    }
    if (!part->done && !consumer->stopped) part->offset = OT_MAX(part->offset, eng_batch_last_offset(&info) + 1);
    return OT_OK;
}

static enum ot_err take_records(struct cli_consumer *consumer, struct cli_part *part, const struct ot_fetch_response_partition_data *row)
{
    struct ot_reader cursor = ot_reader_over(row->records.data, row->records.bytes);
    struct aborted aborted = {row->aborted_transactions.items, NULL, consumer->config.committed_only ? OT_MAX(row->aborted_transactions.count, 0) : 0};
    struct eng_batch_piece piece;
    uint32_t batches = 0;
    if ((aborted.over = calloc((size_t)aborted.count + 1, sizeof(bool))) == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = OT_OK;
    while (err == OT_OK && !part->done && !consumer->stopped && (err = eng_batch_split(&cursor, &piece)) == OT_OK) {
        batches++;
        err = take_batch(consumer, part, &piece, &aborted);
    }
    free(aborted.over);
    if (err == OT_ERR_NOT_FOUND) err = OT_OK;
    if (err != OT_OK) {
        snprintf(consumer->why, sizeof(consumer->why), "%s-%d: the batch at or behind offset %" PRId64 ": %s", part->topic->name, part->partition, part->offset,
            ot_err_text(err));
        return err;
    }
    if (batches == 0 && row->records.bytes > 0) { /* a batch larger than asked for, cut by an old broker */
        part->max_bytes = part->max_bytes >= PARTITION_BYTES_MAX / 2 ? PARTITION_BYTES_MAX : part->max_bytes * 2;
    }
    if (part->offset >= part->stop_offset) part->done = true;
    return OT_OK;
}

static enum ot_err take_row(struct cli_consumer *consumer, struct cli_part *part, const struct ot_fetch_response_partition_data *row)
{
    enum ot_err err = (enum ot_err)row->error_code;
    if (err == OT_OK) {
        consumer->trouble_us = 0;
        return take_records(consumer, part, row);
    }
    if (err == OT_ERR_OFFSET_OUT_OF_RANGE) { /* deleted by retention while we read, or cut off by an unclean election */
        part->out_of_range = true;
        consumer->renew = true;
        return OT_OK;
    }
    char words[320];
    snprintf(words, sizeof(words), "%.200s-%d: %s", part->topic->name, part->partition, ot_err_text(err));
    return trouble(consumer, err, words);
}

static struct cli_part *find_part(struct cli_consumer *consumer, struct ot_str topic, int32_t partition)
{
    for (uint32_t i = 0; i < consumer->part_count; i++)
        if (consumer->parts[i].partition == partition && ot_str_equal(topic, ot_str_of(consumer->parts[i].topic->name))) return &consumer->parts[i];
    return NULL;
}

static enum ot_err take_answer(struct cli_consumer *consumer, struct pull *pull)
{
    struct ot_fetch_response response;
    struct cli_conn *conn = pull->conn;
    pull->conn = NULL;
    enum ot_err err = cli_conn_answer(conn, OT_API_FETCH, pull->version, &response);
    if (err == OT_OK) err = (enum ot_err)response.error_code;
    if (err != OT_OK) return trouble(consumer, err, conn->why);
    for (int32_t t = 0; t < response.responses.count; t++) {
        const struct ot_fetch_response_fetchable_topic_response *topic = &response.responses.items[t];
        for (int32_t p = 0; p < topic->partitions.count && err == OT_OK && !consumer->stopped; p++) {
            struct cli_part *part = find_part(consumer, topic->topic, topic->partitions.items[p].partition_index);
            if (part != NULL && wanted(part)) err = take_row(consumer, part, &topic->partitions.items[p]);
        }
    }
    if (!consumer->config.written(consumer->config.arg)) consumer->stopped = true;
    return err;
}

static enum ot_err find_range(struct cli_consumer *consumer, struct cli_part *part)
{
    int64_t earliest, latest;
    part->out_of_range = false;
    enum ot_err err = cli_kafka_offset(consumer->kafka, part->topic, part->partition, CLI_OFFSET_EARLIEST, false, &earliest);
    if (err == OT_OK) err = cli_kafka_offset(consumer->kafka, part->topic, part->partition, CLI_OFFSET_LATEST, false, &latest);
    if (err != OT_OK) return err;
    const int64_t to = part->offset < earliest ? earliest : OT_MIN(part->offset, latest);
    if (to != part->offset) consumer->config.skipped(consumer->config.arg, part, to);
    part->offset = to;
    if (part->offset >= part->stop_offset) part->done = true;
    return OT_OK;
}

/* Only while no answer is due: the same connections are used. */
static enum ot_err renew(struct cli_consumer *consumer)
{
    consumer->renew = false;
    for (uint32_t i = 0; i < consumer->part_count; i++) {
        const enum ot_err err = consumer->parts[i].out_of_range ? find_range(consumer, &consumer->parts[i]) : OT_OK;
        if (err != OT_OK) return err;
    }
    if (consumer->trouble_us == 0) return OT_OK;
    if (ot_clock_boot_us() - consumer->trouble_us > (int64_t)consumer->config.timeout_ms * 1000) return consumer->trouble;
    if (cli_wait(NULL, 0, cli_deadline_us(RETRY_PAUSE_MS)) == OT_ERR_CANCELLED) return OT_ERR_CANCELLED;
    for (uint32_t i = 0; i < consumer->part_count; i++) {
        struct cli_kafka_topic now, *topic = consumer->parts[i].topic;
        if (i > 0 && consumer->parts[i - 1].topic == topic) continue;
        const enum ot_err err = cli_kafka_topic(consumer->kafka, topic->name, false, &now);
        if (err == OT_OK && now.partition_count >= topic->partition_count)
            memcpy(topic->partitions, now.partitions, topic->partition_count * sizeof(*now.partitions));
        cli_kafka_topic_free(&now);
        if (err == OT_ERR_CANCELLED) return err;
        if (err != OT_OK) return trouble(consumer, err, cli_kafka_why(consumer->kafka));
    }
    return OT_OK;
}

/* Waits for any answer and takes those that are whole. */
static enum ot_err take_some(struct cli_consumer *consumer)
{
    struct pollfd fds[CLI_WAIT_MAX];
    struct pull *pulls[CLI_WAIT_MAX];
    uint32_t count = 0;
    int64_t deadline_us = INT64_MAX;
    for (uint32_t i = 0; i < consumer->pull_count && count < CLI_WAIT_MAX; i++) {
        if (consumer->pulls[i].conn == NULL) continue;
        pulls[count] = &consumer->pulls[i];
        fds[count++] = (struct pollfd){.fd = consumer->pulls[i].conn->fd, .events = POLLIN};
        deadline_us = OT_MIN(deadline_us, consumer->pulls[i].give_up_us);
    }
    if (count == 0) return OT_OK;
    enum ot_err err = cli_wait(fds, count, deadline_us);
    if (err == OT_ERR_CANCELLED) return err;
    for (uint32_t i = 0; i < count && !consumer->stopped; i++) {
        struct cli_conn *conn = pulls[i]->conn;
        if (fds[i].revents == 0 && ot_clock_boot_us() < pulls[i]->give_up_us) continue;
        err = fds[i].revents == 0 ? OT_ERR_REQUEST_TIMED_OUT : cli_conn_receive_some(conn);
        if (err == OT_ERR_BUSY) continue;
        if (err == OT_OK) {
            err = take_answer(consumer, pulls[i]);
        } else {
            cli_conn_close(conn);
            pulls[i]->conn = NULL;
            err = trouble(consumer, err, err == OT_ERR_REQUEST_TIMED_OUT ? "a broker did not answer in time" : conn->why);
        }
        if (err != OT_OK) return err;
    }
    return OT_OK;
}

static bool due(const struct cli_consumer *consumer)
{
    for (uint32_t i = 0; i < consumer->pull_count; i++)
        if (consumer->pulls[i].conn != NULL) return true;
    return false;
}

enum ot_err cli_consumer_run(struct cli_consumer *consumer)
{
    enum ot_err err = OT_OK;
    while (err == OT_OK && !consumer->stopped) {
        bool any = false;
        for (uint32_t i = 0; i < consumer->part_count; i++) any = any || wanted(&consumer->parts[i]);
        if (!any) break;
        if (consumer->renew && !due(consumer)) err = renew(consumer);
        if (err == OT_OK && !consumer->renew) err = ask_all(consumer);
        if (err == OT_OK) err = take_some(consumer);
        if (err == OT_OK && cli_interrupted()) err = OT_ERR_CANCELLED;
    }
    return err;
}
