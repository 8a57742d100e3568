#include "cli/produce.h"
#include "base/util.h"
#include "cli/input.h"
#include "cli/producer.h"
#include "cli/shared.h"
#include "cli/text.h"
#include "cli/wait.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINGER_MS        5
#define BATCH_BYTES      (256u << 10)
#define RECORD_BYTES     (64u << 20)
#define PROGRESS_MS      1000
#define PROGRESS_PIPE_MS 10000
#define HEADERS_MAX      128

const struct cli_flag cli_produce_flags[] = {
    {"key", 'k', "KEY", false, "the key of every record that brings none"},
    {"format", 'f', "FORMAT", false, "lines, raw (a file is a record), ndjson, or a pattern like '%k\\t%v\\n' (lines)"},
    {"header", 'H', "NAME=VALUE", true, "a header for every record"},
    {"partition", 'p', "N", false, "all into this partition (by key as Kafka's clients hash it, else in turn)"},
    {"timestamp", 0, "TIME", false, "epoch ms or 2026-05-01T00:00:00Z for records that bring none (now)"},
    {"null", 0, "TEXT", false, "a key or value of exactly this text is null"},
    {"acks", 0, "all|1|0", false, "who must have it before it counts (all)"},
    {"compression", 'z', "CODEC", false, "none, gzip, snappy, lz4, zstd (none)"},
    {"level", 0, "N", false, "of the codec (as Kafka's default)"},
    {"batch-bytes", 0, "BYTES", false, "send when a partition has so much (256k)"},
    {"max-record-bytes", 0, "BYTES", false, "refuse a longer record (64m)"},
    {"output", 'o', "FORM", false, "ndjson: a line on stdout for each batch that was stored"},
    {0},
};

struct job {
    const struct cli_args *args;
    const char *topic;
    struct cli_format format;
    struct cli_input *input;
    struct cli_producer *producer;
    struct cli_kafka *kafka;
    struct cli_producer_config config;
    struct ot_blob key;
    struct eng_record_header headers[HEADERS_MAX], *joined; /* those of the flags; with those of the record in hand */
    uint32_t header_count, joined_cap;
    int64_t timestamp_ms, record_bytes_max, began_us, told_us;
    uint64_t read_records;
    bool quiet, terminal, acknowledgements;
};

static void stored(void *arg, int32_t partition, int64_t base_offset, uint32_t records)
{
    struct job *job = arg;
    if (!job->acknowledgements) return;
    fputs("{\"topic\":", stdout);
    cli_json_print(stdout, job->topic, strlen(job->topic));
    if (base_offset < 0) printf(",\"partition\":%d,\"base_offset\":null,\"records\":%u}\n", partition, records);
    else printf(",\"partition\":%d,\"base_offset\":%" PRId64 ",\"records\":%u}\n", partition, base_offset, records);
}

static void progress(struct job *job, bool last)
{
    const int64_t now_us = ot_clock_boot_us();
    const int64_t every_ms = job->terminal ? PROGRESS_MS : PROGRESS_PIPE_MS;
    char bytes[24], rate[24];
    if (job->quiet || (!last && now_us - job->told_us < every_ms * 1000)) return;
    if (last && !job->terminal && now_us - job->began_us < every_ms * 1000) return;
    job->told_us = now_us;
    const uint64_t taken = cli_input_bytes(job->input);
    const int64_t spent_us = OT_MAX(now_us - job->began_us, 1);
    cli_human_bytes(taken, bytes);
    cli_human_bytes((uint64_t)((double)taken * 1e6 / (double)spent_us), rate);
    fprintf(stderr, "%s%" PRIu64 " records stored in %s, %s read, %s/s%s", job->terminal ? "\r" : "", cli_producer_acknowledged(job->producer), job->topic,
        bytes, rate, job->terminal && !last ? "\033[K" : job->terminal ? "\033[K\n" : "\n");
}

static int read_headers(struct job *job)
{
    const char *text;
    for (uint32_t i = 0; (text = cli_flag_nth(job->args, "header", i)) != NULL; i++) {
        if (i == HEADERS_MAX) return cli_fail(CLI_USAGE, NULL, "more than %d headers", HEADERS_MAX);
        if (!cli_header_parse(text, strlen(text), &job->headers[i])) return cli_fail(CLI_USAGE, "--header name=value", "--header: `%s` has no name and `=`", text);
        job->header_count++;
    }
    return -1;
}

static int read_flags(struct job *job)
{
    static const char *const acks[] = {"all", "1", "0", "-1"}, *const codecs[] = {"none", "gzip", "snappy", "lz4", "zstd"},
                             *const outputs[] = {"quiet", "ndjson", "json"};
    const struct cli_args *args = job->args;
    const char *format = cli_flag_value(args, "format"), *key = cli_flag_value(args, "key"), *time = cli_flag_value(args, "timestamp");
    char why[160];
    uint32_t choice;
    int64_t number;
    int code;
    if (cli_format_parse(format == NULL ? "lines" : format, &job->format, why) != OT_OK) return cli_fail(CLI_USAGE, "ottla produce --help", "--format: %s", why);
    job->format.null_text = cli_flag_value(args, "null");
    job->key = (struct ot_blob){(const uint8_t *)key, key == NULL ? 0 : (uint32_t)strlen(key), key == NULL};
    job->timestamp_ms = -1;
    if (time != NULL && (!ot_time_parse(time, &job->timestamp_ms) || job->timestamp_ms < 0))
        return cli_fail(CLI_USAGE, "--timestamp 2026-05-01T00:00:00Z", "--timestamp: `%s` is no time", time);
    if ((code = read_headers(job)) >= 0) return code;
    if ((code = cli_flag_choice(args, "acks", acks, 4, 0, &choice)) >= 0) return code;
    job->config.acks = choice == 1 ? 1 : choice == 2 ? 0 : -1;
    if ((code = cli_flag_choice(args, "compression", codecs, 5, 0, &choice)) >= 0) return code;
    job->config.codec = (enum eng_codec)choice;
    if ((code = cli_flag_choice(args, "output", outputs, 3, 0, &choice)) >= 0) return code;
    job->acknowledgements = choice != 0;
    if ((code = cli_flag_number(args, "level", INT32_MIN + 1, INT32_MAX, ENG_CODEC_LEVEL_DEFAULT, &number)) >= 0) return code;
    job->config.level = (int32_t)number;
    if ((code = cli_flag_number(args, "partition", 0, INT32_MAX, -1, &number)) >= 0) return code;
    job->config.partition = (int32_t)number;
    if ((code = cli_flag_number(args, "batch-bytes", 1, 512 << 20, BATCH_BYTES, &number)) >= 0) return code;
    job->config.batch_bytes = (uint32_t)number;
    if ((code = cli_flag_number(args, "timeout-ms", 1, INT32_MAX, 30000, &number)) >= 0) return code;
    job->config.timeout_ms = (int32_t)number;
    return cli_flag_number(args, "max-record-bytes", 1, 1 << 30, RECORD_BYTES, &job->record_bytes_max);
}

/* What the flags add to a record. */
static enum ot_err complete(struct job *job, struct cli_record *record)
{
    if (record->key.null && !job->key.null && job->format.null_text == NULL) record->key = job->key;
    if (record->timestamp_ms < 0) record->timestamp_ms = job->timestamp_ms;
    if (job->header_count == 0) return OT_OK;
    const uint32_t count = job->header_count + record->header_count;
    if (count > job->joined_cap) {
        struct eng_record_header *more = realloc(job->joined, count * sizeof(*more));
        if (more == NULL) return OT_ERR_NO_MEMORY;
        job->joined = more;
        job->joined_cap = count;
    }
    memcpy(job->joined, job->headers, job->header_count * sizeof(*job->headers));
    if (record->header_count > 0) memcpy(job->joined + job->header_count, record->headers, record->header_count * sizeof(*record->headers));
    record->headers = job->joined;
    record->header_count = count;
    return OT_OK;
}

/* The loop: read while something is there, send what was gathered when nothing comes for a moment, then sleep on the input. */
static int pump(struct job *job)
{
    struct cli_record record;
    enum ot_err err;
    for (;;) {
        const bool idle = cli_producer_idle(job->producer);
        err = cli_input_next(job->input, idle ? INT64_MAX : cli_deadline_us(LINGER_MS), &record);
        if (err == OT_ERR_BUSY) {
            if ((err = cli_producer_flush(job->producer)) == OT_OK) err = cli_producer_wait(job->producer);
            if (err == OT_OK && fflush(stdout) != 0) return cli_fail(CLI_FAILED, NULL, "standard output: it takes no more");
            if (err != OT_OK) break;
            continue;
        }
        if (err != OT_OK) break;
        job->read_records++;
        if ((err = complete(job, &record)) != OT_OK) return cli_fail(CLI_FAILED, NULL, "out of memory");
        if ((err = cli_producer_add(job->producer, &record, ot_clock_wall_ms())) != OT_OK) break;
        if (cli_interrupted()) break;
        progress(job, false);
    }
    const bool of_input = err == OT_ERR_INVALID_RECORD || err == OT_ERR_TOO_LARGE || err == OT_ERR_IO || err == OT_ERR_NO_MEMORY;
    if (of_input && cli_input_why(job->input)[0] != 0) { /* what stands before the bad record is sent */
        const enum ot_err sent = cli_producer_flush(job->producer);
        if (sent == OT_OK && cli_producer_wait(job->producer) == OT_OK)
            return cli_fail(cli_producer_acknowledged(job->producer) > 0 ? CLI_PARTLY : CLI_FAILED, NULL, "%s", cli_input_why(job->input));
    }
    const bool interrupted = cli_interrupted();
    if (interrupted) cli_interrupt_take(); /* what was read is still sent */
    if (err == OT_ERR_NOT_FOUND || err == OT_ERR_CANCELLED) err = OT_OK;
    if (err == OT_OK && (err = cli_producer_flush(job->producer)) == OT_OK) err = cli_producer_wait(job->producer);
    if (err == OT_OK) return interrupted ? CLI_INTERRUPTED : CLI_DONE;
    const uint64_t done = cli_producer_acknowledged(job->producer), unknown = cli_producer_unknown(job->producer);
    const int code = interrupted ? CLI_INTERRUPTED : done > 0 ? CLI_PARTLY : cli_exit_of(err);
    char tail[160] = "";
    if (unknown > 0) snprintf(tail, sizeof(tail), "; of %" PRIu64 " it is not known whether they were stored", unknown);
    return cli_fail((enum cli_exit)code, NULL, "%s (%" PRIu64 " of %" PRIu64 " records stored%s)",
        cli_producer_why(job->producer)[0] != 0 ? cli_producer_why(job->producer) : ot_err_text(err), done, job->read_records, tail);
}

static int open_all(struct job *job, const char *const *paths, uint32_t path_count)
{
    char why[160];
    enum ot_err err = cli_input_open(&job->format, paths, path_count, (size_t)job->record_bytes_max, &job->input, why);
    if (err == OT_ERR_MALFORMED) return cli_fail(CLI_USAGE, NULL, "--format: %s", why);
    if (err != OT_OK) return cli_fail(CLI_FAILED, NULL, "%s", ot_err_text(err));
    const int code = cli_open_kafka(job->args, &job->kafka);
    if (code >= 0) return code;
    err = cli_producer_open(job->kafka, job->topic, &job->config, &job->producer);
    if (err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION && job->config.partition >= 0 && cli_kafka_why(job->kafka)[0] == 0)
        return cli_fail(CLI_NOT_FOUND, NULL, "%s has no partition %d", job->topic, job->config.partition);
    if (err != OT_OK) return cli_topic_fail(err, job->topic, job->kafka);
    return -1;
}

int cli_produce_run(const struct cli_args *args)
{
    static struct job job;
    const char *paths[64];
    job = (struct job){.args = args, .topic = cli_name(args, 0), .began_us = ot_clock_boot_us(), .told_us = ot_clock_boot_us()};
    const uint32_t path_count = cli_name_count(args) - 1;
    if (path_count > OT_ARRAY_COUNT(paths)) return cli_fail(CLI_USAGE, NULL, "more than %zu files", OT_ARRAY_COUNT(paths));
    for (uint32_t i = 0; i < path_count; i++) paths[i] = cli_name(args, i + 1);
    job.quiet = cli_flag_given(args, "quiet");
    job.terminal = isatty(2) != 0;
    job.config.stored = stored;
    job.config.arg = &job;
    int code = read_flags(&job);
    if (code < 0) code = open_all(&job, paths, path_count);
    if (code < 0) {
        if (path_count == 0 && isatty(0) && !job.quiet) fprintf(stderr, "a record a line, Ctrl-D ends\n");
        code = pump(&job);
        progress(&job, true);
    }
    if (fflush(stdout) != 0 && code == CLI_DONE) code = cli_fail(CLI_FAILED, NULL, "standard output: it takes no more");
    cli_producer_close(job.producer);
    cli_kafka_close(job.kafka);
    cli_input_close(job.input);
    cli_format_free(&job.format);
    free(job.joined);
    return code;
}
