/* What is measured, and how:
 *
 * produce   one batch a partition under way at a time, from this one thread. Its latency is from the send to the last acknowledgement; with --rate from when it was due, so that a
 *           stall is charged to all that had to wait for it
 * consume   records as they come out of fetches, decoded; latency is between two answers
 * latency   one record at a time into one partition, from before it is sent until a second connection has read it
 * replicate one record at a time into one partition of several replicas, in turn with acks=1 and acks=all: what lies between the two is what the other replicas cost
 *
 * Payloads come from a generator with a seed, so that a run can be repeated. */
#include "cli/bench.h"
#include "base/hist.h"
#include "base/util.h"
#include "cli/consumer.h"
#include "cli/place.h"
#include "cli/producer.h"
#include "cli/shared.h"
#include "cli/text.h"
#include "cli/wait.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOPIC_DEFAULT   "ottla-bench"
#define PAYLOAD_BYTES   (4u << 20)
#define RECORD_MAX      (1 << 20)
#define SLOT_US         10000            /* with --rate: how much is sent at a time */
#define WAIT_MS         500
#define RECORD_OVERHEAD 16               /* of one in a batch, at most */
#define PARTITIONS_MAX  4096

#define LOAD_FLAGS                                                                                                                                    \
    {"records", 0, "N", false, "stop after so many (none: by time)"}, {"seconds", 0, "N", false, "stop after so long (10)"},                           \
    {"output", 'o', "FORM", false, "table or json (table)"}
#define SEND_FLAGS(bytes, rate)                                                                                                                       \
    {"record-bytes", 0, "BYTES", false, "size of a value (" bytes ")"}, {"rate", 0, "N", false, "records a second (" rate ")"},                        \
    {"acks", 0, "all|1|0", false, "who must have it before it counts (all)"}, {"compression", 'z', "CODEC", false, "none, gzip, snappy, lz4, zstd (none)"}, \
    {"partition", 'p', "N", false, "into this partition alone"}, {"seed", 0, "N", false, "of the payload (1)"}

const struct cli_flag cli_bench_produce_flags[] = {
    LOAD_FLAGS, SEND_FLAGS("1000", "as fast as it goes"), {"batch-bytes", 0, "BYTES", false, "records of a batch (768k, which any default of a broker takes)"}, {0},
};
const struct cli_flag cli_bench_consume_flags[] = {
    LOAD_FLAGS, {"from", 0, "PLACE", false, "as of consume (earliest)"}, {0},
};
const struct cli_flag cli_bench_latency_flags[] = {
    LOAD_FLAGS, SEND_FLAGS("100", "100"), {0},
};

const struct cli_flag cli_bench_replicate_flags[] = {
    LOAD_FLAGS, {"record-bytes", 0, "BYTES", false, "size of a value (1000)"}, {"rate", 0, "N", false, "records a second (200)"},
    {"partition", 'p', "N", false, "into this partition (0)"}, {"seed", 0, "N", false, "of the payload (1)"}, {0},
};

struct bench {
    const struct cli_args *args;
    const char *topic;
    int64_t records_max, seconds, record_bytes, rate, batch_bytes, seed, partition;
    uint32_t codec, acks;
    bool json, quiet, terminal;
    struct cli_kafka *kafka;
    struct cli_producer *producer;
    uint8_t *payload;
    uint64_t dice;
    /* measured */
    struct ot_hist hist, leader;               /* leader: of replicate, what the leader alone acknowledged */
    uint64_t records, bytes;
    int64_t began_us, ended_us, told_us;
};

static const char *const codecs[] = {"none", "gzip", "snappy", "lz4", "zstd"};
static const char *const acks_words[] = {"all", "1", "0"};

static uint64_t roll(uint64_t *dice)
{
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    return *dice;
}

/* Text-like: half of it repeats, so that codecs have something to do. */
static bool make_payload(struct bench *bench)
{
    bench->dice = (uint64_t)bench->seed * 0x9e3779b97f4a7c15u | 1;
    bench->payload = malloc(PAYLOAD_BYTES);
    for (uint32_t i = 0; bench->payload != NULL && i < PAYLOAD_BYTES; i++)
        bench->payload[i] = (uint8_t)((i / 16) % 2 == 0 ? 'a' + i % 16 : ' ' + roll(&bench->dice) % 95);
    return bench->payload != NULL;
}

static int read_flags(struct bench *bench, const struct cli_args *args, int64_t record_bytes, int64_t rate)
{
    static const char *const outputs[] = {"table", "json"};
    uint32_t output = 0;
    *bench = (struct bench){.args = args, .topic = cli_name(args, 0), .quiet = cli_flag_given(args, "quiet"), .terminal = isatty(2) != 0};
    if (bench->topic == NULL) bench->topic = TOPIC_DEFAULT;
    int code = cli_flag_number(args, "records", 1, INT64_MAX, INT64_MAX, &bench->records_max);
    if (code < 0) code = cli_flag_number(args, "seconds", 1, 86400, cli_flag_given(args, "records") ? 86400 : 10, &bench->seconds);
    if (code < 0) code = cli_flag_number(args, "record-bytes", 1, RECORD_MAX, record_bytes, &bench->record_bytes);
    if (code < 0) code = cli_flag_number(args, "rate", 1, 100000000, rate, &bench->rate);
    if (code < 0) code = cli_flag_number(args, "batch-bytes", 1, 32 << 20, 768 << 10, &bench->batch_bytes);
    if (code < 0) code = cli_flag_number(args, "seed", 1, INT64_MAX, 1, &bench->seed);
    if (code < 0) code = cli_flag_number(args, "partition", 0, INT32_MAX, -1, &bench->partition);
    if (code < 0) code = cli_flag_choice(args, "compression", codecs, OT_ARRAY_COUNT(codecs), 0, &bench->codec);
    if (code < 0) code = cli_flag_choice(args, "acks", acks_words, OT_ARRAY_COUNT(acks_words), 0, &bench->acks);
    if (code < 0) code = cli_flag_choice(args, "output", outputs, OT_ARRAY_COUNT(outputs), 0, &output);
    bench->json = output == 1;
    return code < 0 && !make_payload(bench) ? cli_fail(CLI_FAILED, NULL, "out of memory") : code;
}

/* ---- telling */

static void progress(struct bench *bench)
{
    const int64_t now_us = ot_clock_boot_us();
    char rate[24];
    if (bench->quiet || now_us - bench->told_us < (bench->terminal ? 1000000 : 10000000)) return;
    bench->told_us = now_us;
    const double seconds = (double)OT_MAX(now_us - bench->began_us, 1) / 1e6;
    fprintf(stderr, "%s%.0f s: %" PRIu64 " records, %.0f/s, %s/s%s", bench->terminal ? "\r" : "", seconds, bench->records, (double)bench->records / seconds,
        cli_human_bytes((uint64_t)((double)bench->bytes / seconds), rate), bench->terminal ? "\033[K" : "\n");
}

static void put_command(struct bench *bench, FILE *to, const char *verb)
{
    fprintf(to, "ottla bench %s %s", verb, bench->topic);
    if (bench->records_max != INT64_MAX) fprintf(to, " --records %" PRId64, bench->records_max);
    else fprintf(to, " --seconds %" PRId64, bench->seconds);
    if (strcmp(verb, "consume") == 0) return;
    fprintf(to, " --record-bytes %" PRId64 " --seed %" PRId64, bench->record_bytes, bench->seed);
    if (strcmp(verb, "replicate") != 0) fprintf(to, " --acks %s --compression %s", acks_words[bench->acks], codecs[bench->codec]);
    if (bench->rate > 0) fprintf(to, " --rate %" PRId64, bench->rate);
    if (bench->partition >= 0) fprintf(to, " --partition %" PRId64, bench->partition);
    if (strcmp(verb, "produce") == 0) fprintf(to, " --batch-bytes %" PRId64, bench->batch_bytes);
}

static const struct { const char *name; double q; } points[] = {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}};

static void put_latency_json(const char *name, const struct ot_hist *hist)
{
    printf(",\"%s\":{", name);
    for (size_t i = 0; i < OT_ARRAY_COUNT(points); i++) printf("\"%s\":%.3f,", points[i].name, (double)ot_hist_quantile_us(hist, points[i].q) / 1000);
    printf("\"max\":%.3f,\"count\":%" PRIu64 "}", (double)atomic_load(&hist->max_us) / 1000, (uint64_t)atomic_load(&hist->count));
}

static void put_latency(const char *of_what, const struct ot_hist *hist)
{
    printf("latency of %s, ms:", of_what);
    for (size_t i = 0; i < OT_ARRAY_COUNT(points); i++) printf("  %s %.2f", points[i].name, (double)ot_hist_quantile_us(hist, points[i].q) / 1000);
    printf("  max %.2f  (%" PRIu64 " measured)\n", (double)atomic_load(&hist->max_us) / 1000, (uint64_t)atomic_load(&hist->count));
}

static void tell(struct bench *bench, const char *verb, const char *of_what)
{
    const double seconds = (double)OT_MAX(bench->ended_us - bench->began_us, 1) / 1e6;
    const bool replicates = strcmp(verb, "replicate") == 0;
    char all[24], rate[24];
    if (bench->terminal && !bench->quiet) fputs("\r\033[K", stderr);
    if (bench->json) {
        printf("{\"bench\":\"%s\",\"topic\":", verb);
        cli_json_print(stdout, bench->topic, strlen(bench->topic));
        printf(",\"records\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"seconds\":%.3f,\"records_per_second\":%.1f,\"bytes_per_second\":%.0f,\"latency_of\":\"%s\"", bench->records,
            bench->bytes, seconds, (double)bench->records / seconds, (double)bench->bytes / seconds, of_what);
        put_latency_json("latency_ms", &bench->hist);
        if (replicates) put_latency_json("leader_latency_ms", &bench->leader);
        fputs(",\"command\":\"", stdout);
        put_command(bench, stdout, verb);
        puts("\"}");
        return;
    }
    printf("%" PRIu64 " records, %s in %.1f s: %.0f records/s, %s/s\n", bench->records, cli_human_bytes(bench->bytes, all), seconds, (double)bench->records / seconds,
        cli_human_bytes((uint64_t)((double)bench->bytes / seconds), rate));
    put_latency(of_what, &bench->hist);
    if (replicates) put_latency("a record, until its leader had it", &bench->leader);
    fputs("again: ", stdout);
    put_command(bench, stdout, verb);
    putchar('\n');
}

/* ---- sending */

static int open_producer(struct bench *bench, bool one_partition, struct cli_producer **out)
{
    const struct cli_producer_config config = {.acks = bench->acks == 0 ? -1 : bench->acks == 1 ? 1 : 0, .codec = (enum eng_codec)bench->codec, .level = ENG_CODEC_LEVEL_DEFAULT,
        .batch_bytes = CLI_PRODUCER_BYTES / 2, .partition = one_partition && bench->partition < 0 ? 0 : (int32_t)bench->partition, .timeout_ms = 30000};
    const enum ot_err err = cli_producer_open(bench->kafka, bench->topic, &config, out);
    return err == OT_OK ? -1 : cli_topic_fail(err, bench->topic, bench->kafka);
}

static enum ot_err add_one(struct bench *bench, uint8_t *own, size_t own_bytes)
{
    const uint64_t from = roll(&bench->dice) % (PAYLOAD_BYTES - RECORD_MAX);
    struct cli_record record = {.partition = -1, .offset = -1, .timestamp_ms = -1, .key = {.null = true}, .value = {bench->payload + from, (uint32_t)bench->record_bytes, false}};
    if (own != NULL) record.value = (struct ot_blob){own, (uint32_t)own_bytes, false};
    bench->bytes += record.value.bytes;
    return cli_producer_add(bench->producer, &record, ot_clock_wall_ms());
}

static enum ot_err send_all(struct bench *bench, int64_t since_us)
{
    enum ot_err err = cli_producer_flush(bench->producer);
    if (err == OT_OK) err = cli_producer_wait(bench->producer);
    if (err == OT_OK) ot_hist_record(&bench->hist, ot_clock_boot_us() - since_us);
    return err;
}

/* How many are due now, at least one; when the first of them was due. With a rate it may sleep. OK, or CANCELLED. */
static enum ot_err due(struct bench *bench, uint64_t *count_out, int64_t *since_us_out)
{
    if (bench->rate == 0) {
        *count_out = (uint64_t)OT_MAX(bench->batch_bytes / (bench->record_bytes + RECORD_OVERHEAD), 1);
        *since_us_out = -1;                    /* when it is sent */
        return cli_interrupted() ? OT_ERR_CANCELLED : OT_OK;
    }
    const int64_t per_us = OT_MAX((int64_t)1000000 / bench->rate, 1);
    const int64_t slot_us = OT_MAX(per_us, (int64_t)SLOT_US), slot = (ot_clock_boot_us() - bench->began_us) / slot_us;
    const uint64_t owed = (uint64_t)((double)(slot + 1) * (double)slot_us * (double)bench->rate / 1e6 + 0.5);
    if (owed <= bench->records) {              /* this slot is served: wait for the next */
        const enum ot_err err = cli_wait(NULL, 0, bench->began_us + (slot + 1) * slot_us);
        return err == OT_ERR_CANCELLED ? err : due(bench, count_out, since_us_out);
    }
    *count_out = OT_MIN(owed - bench->records, (uint64_t)OT_MAX(bench->batch_bytes / (bench->record_bytes + RECORD_OVERHEAD), 1));
    *since_us_out = bench->began_us + (int64_t)((double)bench->records * 1e6 / (double)bench->rate);
    return cli_interrupted() ? OT_ERR_CANCELLED : OT_OK;
}

static enum ot_err produce(struct bench *bench)
{
    const int64_t end_us = bench->began_us + bench->seconds * 1000000;
    enum ot_err err = OT_OK;
    while (err == OT_OK && (int64_t)bench->records < bench->records_max && ot_clock_boot_us() < end_us) {
        uint64_t count = 0;
        int64_t since_us = 0;
        if ((err = due(bench, &count, &since_us)) != OT_OK) break;
        count = OT_MIN(count, (uint64_t)(bench->records_max - (int64_t)bench->records));
        for (uint64_t i = 0; i < count && err == OT_OK; i++) err = add_one(bench, NULL, 0);
        if (err == OT_OK) err = send_all(bench, since_us < 0 ? ot_clock_boot_us() : since_us);
        if (err == OT_OK) bench->records += count;
        progress(bench);
    }
    return err;
}

static int ended(struct bench *bench, enum ot_err err, const char *why, const char *verb, const char *of_what)
{
    bench->ended_us = ot_clock_boot_us();
    if (err != OT_OK && err != OT_ERR_CANCELLED) return cli_fail((enum cli_exit)cli_exit_of(err), NULL, "%s", why[0] != 0 ? why : ot_err_text(err));
    tell(bench, verb, of_what);
    return err == OT_ERR_CANCELLED ? CLI_INTERRUPTED : CLI_DONE;
}

static void bench_close(struct bench *bench)
{
    cli_producer_close(bench->producer);
    cli_kafka_close(bench->kafka);
    free(bench->payload);
}

int cli_bench_produce_run(const struct cli_args *args)
{
    static struct bench bench;
    int code = read_flags(&bench, args, 1000, 0);
    if (code < 0) code = cli_open_kafka(args, &bench.kafka);
    if (code < 0) code = open_producer(&bench, false, &bench.producer);
    if (code < 0) {
        bench.began_us = bench.told_us = ot_clock_boot_us();
        const enum ot_err err = produce(&bench);
        code = ended(&bench, err, cli_producer_why(bench.producer), "produce", bench.rate > 0 ? "what was due, until acknowledged" : "a batch, until acknowledged");
    }
    bench_close(&bench);
    return code;
}

/* ---- consume */

struct reading {
    struct bench *bench;
    int64_t answer_us;
};

static void on_record(void *arg, const struct cli_record *record)
{
    struct bench *bench = ((struct reading *)arg)->bench;
    bench->records++;
    bench->bytes += (record->key.null ? 0 : record->key.bytes) + (record->value.null ? 0 : record->value.bytes);
}

static bool on_answer(void *arg)
{
    struct reading *reading = arg;
    const int64_t now_us = ot_clock_boot_us();
    ot_hist_record(&reading->bench->hist, now_us - reading->answer_us);
    reading->answer_us = now_us;
    progress(reading->bench);
    return now_us < reading->bench->began_us + reading->bench->seconds * 1000000;
}

/* All partitions, or one, from a place to what is there now. Code or -1. */
static int place_parts(struct bench *bench, struct cli_kafka *kafka, struct cli_kafka_topic *topic, const struct cli_place *from, bool to_end, struct cli_part **parts_out, uint32_t *count_out)
{
    enum ot_err err = cli_kafka_topic(kafka, bench->topic, false, topic);
    if (err != OT_OK) return cli_topic_fail(err, bench->topic, kafka);
    if (topic->partition_count > PARTITIONS_MAX) return cli_fail(CLI_FAILED, NULL, "%s has more than %d partitions", bench->topic, PARTITIONS_MAX);
    struct cli_part *parts = calloc(topic->partition_count, sizeof(*parts));
    if (parts == NULL) return cli_fail(CLI_FAILED, NULL, "out of memory");
    *parts_out = parts;
    for (uint32_t i = 0; i < topic->partition_count; i++) {
        struct cli_part *part = &parts[*count_out];
        bool ahead;
        if (bench->partition >= 0 && (int64_t)i != bench->partition) continue;
        *part = (struct cli_part){.topic = topic, .partition = (int32_t)i, .stop_offset = INT64_MAX, .stop_time_ms = INT64_MAX};
        if ((err = cli_place_find(kafka, topic, (int32_t)i, from, false, &part->offset, &ahead)) != OT_OK) return cli_topic_fail(err, bench->topic, kafka);
        if (to_end && (err = cli_kafka_offset(kafka, topic, (int32_t)i, CLI_OFFSET_LATEST, false, &part->stop_offset)) != OT_OK) return cli_topic_fail(err, bench->topic, kafka);
        part->done = part->offset >= part->stop_offset;
        ++*count_out;
    }
    return *count_out > 0 ? -1 : cli_fail(CLI_NOT_FOUND, NULL, "%s has no partition %" PRId64, bench->topic, bench->partition);
}

int cli_bench_consume_run(const struct cli_args *args)
{
    static struct bench bench;
    struct reading reading = {.bench = &bench};
    struct cli_kafka_topic topic = {0};
    struct cli_part *parts = NULL;
    struct cli_place from;
    struct cli_consumer *consumer = NULL;
    uint32_t part_count = 0;
    int code = read_flags(&bench, args, 1, 0);
    const char *text = cli_flag_value(args, "from");
    if (code < 0 && !cli_place_parse(text == NULL ? "earliest" : text, ot_clock_wall_ms(), &from)) code = cli_fail(CLI_USAGE, "--from earliest", "--from: `%s` is no place", text);
    if (code < 0) code = cli_open_kafka(args, &bench.kafka);
    if (code < 0) code = place_parts(&bench, bench.kafka, &topic, &from, true, &parts, &part_count);
    if (code < 0) {
        const struct cli_consumer_config config = {.records_max = (uint64_t)bench.records_max, .max_wait_ms = WAIT_MS, .timeout_ms = 30000, .record = on_record, .written = on_answer, .arg = &reading};
        enum ot_err err = cli_consumer_open(bench.kafka, parts, part_count, &config, &consumer);
        bench.began_us = bench.told_us = reading.answer_us = ot_clock_boot_us();
        if (err == OT_OK) err = cli_consumer_run(consumer);
        code = ended(&bench, err, consumer == NULL ? "" : cli_consumer_why(consumer), "consume", "an answer, since the one before");
    }
    cli_consumer_close(consumer);
    cli_kafka_topic_free(&topic);
    free(parts);
    bench_close(&bench);
    return code;
}

/* ---- latency: a thread reads what this one writes */

#define STAMP_BYTES 24u                        /* when it was sent, which run it is of, and whether it is the last */

struct listener {
    struct bench *bench;
    struct cli_kafka *kafka;
    struct cli_kafka_topic topic;
    struct cli_part *parts;
    uint32_t part_count;
    struct cli_consumer *consumer;
    uint64_t run, heard;
    bool last;
    enum ot_err err;
    pthread_t thread;
};

static void on_stamped(void *arg, const struct cli_record *record)
{
    struct listener *listener = arg;
    int64_t sent_us;
    uint64_t run, last;
    if (record->value.null || record->value.bytes < STAMP_BYTES) return;
    memcpy(&sent_us, record->value.data, 8);
    memcpy(&run, record->value.data + 8, 8);
    memcpy(&last, record->value.data + 16, 8);
    if (run != listener->run) return;          /* of somebody else */
    if (last != 0) {
        listener->last = true;
        return;
    }
    listener->heard++;
    ot_hist_record(&listener->bench->hist, ot_clock_boot_us() - sent_us);
}

static bool on_heard(void *arg) { return !((struct listener *)arg)->last; }

static void *listen_run(void *arg)
{
    struct listener *listener = arg;
    listener->err = cli_consumer_run(listener->consumer);
    return NULL;
}

static int open_listener(struct bench *bench, struct listener *listener)
{
    const struct cli_place from = {CLI_PLACE_LATEST, 0};
    if (bench->partition < 0) bench->partition = 0;
    int code = cli_open_kafka(bench->args, &listener->kafka);
    if (code < 0) code = place_parts(bench, listener->kafka, &listener->topic, &from, false, &listener->parts, &listener->part_count);
    if (code >= 0) return code;
    const struct cli_consumer_config config = {.records_max = UINT64_MAX, .max_wait_ms = WAIT_MS, .timeout_ms = 30000, .record = on_stamped, .written = on_heard, .arg = listener};
    if (cli_consumer_open(listener->kafka, listener->parts, listener->part_count, &config, &listener->consumer) != OT_OK) return cli_fail(CLI_FAILED, NULL, "out of memory");
    if (pthread_create(&listener->thread, NULL, listen_run, listener) != 0) return cli_fail(CLI_FAILED, NULL, "no thread");
    return -1;
}

static enum ot_err send_stamped(struct bench *bench, uint64_t run, uint64_t last)
{
    uint8_t *value = bench->payload;           /* its first bytes; nobody else's here */
    const int64_t now_us = ot_clock_boot_us();
    memcpy(value, &now_us, 8);
    memcpy(value + 8, &run, 8);
    memcpy(value + 16, &last, 8);
    enum ot_err err = add_one(bench, value, (size_t)OT_MAX(bench->record_bytes, (int64_t)STAMP_BYTES));
    if (err == OT_OK) err = cli_producer_flush(bench->producer);
    return err == OT_OK ? cli_producer_wait(bench->producer) : err;
}

static enum ot_err ping(struct bench *bench, uint64_t run)
{
    const int64_t end_us = bench->began_us + bench->seconds * 1000000;
    enum ot_err err = OT_OK;
    while (err == OT_OK && (int64_t)bench->records < bench->records_max && ot_clock_boot_us() < end_us) {
        const int64_t due_us = bench->began_us + (int64_t)((double)bench->records * 1e6 / (double)bench->rate);
        if (cli_wait(NULL, 0, due_us) == OT_ERR_CANCELLED) return OT_ERR_CANCELLED;
        if ((err = send_stamped(bench, run, 0)) == OT_OK) bench->records++;
        progress(bench);
    }
    return err;
}

int cli_bench_latency_run(const struct cli_args *args)
{
    static struct bench bench;
    static struct listener listener;
    int code = read_flags(&bench, args, 100, 100);
    if (code < 0) code = cli_open_kafka(args, &bench.kafka);
    if (code < 0) code = open_producer(&bench, true, &bench.producer);
    listener = (struct listener){.bench = &bench, .run = (uint64_t)ot_clock_wall_ms() << 20 ^ (uint64_t)getpid()};
    if (code < 0) code = open_listener(&bench, &listener);
    if (code >= 0) {
        bench_close(&bench);
        return code;
    }
    bench.began_us = bench.told_us = ot_clock_boot_us();
    const enum ot_err err = ping(&bench, listener.run);
    const uint64_t bytes = bench.bytes;
    const bool interrupted = err == OT_ERR_CANCELLED;
    if (interrupted) cli_interrupt_take();     /* the last one is still sent */
    const enum ot_err closing = err == OT_OK || interrupted ? send_stamped(&bench, listener.run, 1) : err;
    bench.bytes = bytes;
    if (closing != OT_OK) return ended(&bench, closing, cli_producer_why(bench.producer), "latency", "");      /* nothing will end the other thread: the process does */
    (void)pthread_join(listener.thread, NULL);
    code = ended(&bench, listener.err != OT_OK && listener.err != OT_ERR_CANCELLED ? listener.err : err, cli_consumer_why(listener.consumer), "latency", "a record, until it was read");
    if (code == CLI_DONE && listener.heard != bench.records)
        code = cli_fail(CLI_PARTLY, NULL, "%" PRIu64 " of %" PRIu64 " records were read", listener.heard, bench.records);
    cli_consumer_close(listener.consumer);
    cli_kafka_topic_free(&listener.topic);
    cli_kafka_close(listener.kafka);
    free(listener.parts);
    bench_close(&bench);
    return code;
}

/* ---- replicate */

/* Code or -1. One replica has nobody to wait for. */
static int check_replicated(struct bench *bench)
{
    struct cli_kafka_topic topic = {0};
    if (bench->partition < 0) bench->partition = 0;
    const enum ot_err err = cli_kafka_topic(bench->kafka, bench->topic, false, &topic);
    int code = -1;
    if (err != OT_OK) code = cli_topic_fail(err, bench->topic, bench->kafka);
    else if (bench->partition >= (int64_t)topic.partition_count) code = cli_fail(CLI_NOT_FOUND, NULL, "%s has no partition %" PRId64, bench->topic, bench->partition);
    else if (topic.partitions[bench->partition].replica_count < 2)
        code = cli_fail(CLI_FAILED, "ottla topic create NAME --replication-factor 3", "partition %" PRId64 " of %s has one replica: nothing is replicated", bench->partition, bench->topic);
    cli_kafka_topic_free(&topic);
    return code;
}

/* One record with the acks of that producer. */
static enum ot_err replicate_one(struct bench *bench, struct cli_producer *with, struct ot_hist *hist)
{
    const int64_t since_us = ot_clock_boot_us();
    bench->producer = with;
    enum ot_err err = add_one(bench, NULL, 0);
    if (err == OT_OK) err = cli_producer_flush(with);
    if (err == OT_OK) err = cli_producer_wait(with);
    if (err != OT_OK) return err;
    ot_hist_record(hist, ot_clock_boot_us() - since_us);
    bench->records++;
    return OT_OK;
}

static enum ot_err replicate(struct bench *bench, struct cli_producer *leader, struct cli_producer *all)
{
    const int64_t end_us = bench->began_us + bench->seconds * 1000000;
    enum ot_err err = OT_OK;
    while (err == OT_OK && (int64_t)bench->records < bench->records_max && ot_clock_boot_us() < end_us) {
        const int64_t due_us = bench->began_us + (int64_t)((double)bench->records * 1e6 / (double)bench->rate);
        const bool alone = bench->records % 2 == 0;
        if (cli_wait(NULL, 0, due_us) == OT_ERR_CANCELLED) return OT_ERR_CANCELLED;
        err = replicate_one(bench, alone ? leader : all, alone ? &bench->leader : &bench->hist);
        progress(bench);
    }
    return err;
}

int cli_bench_replicate_run(const struct cli_args *args)
{
    static struct bench bench;
    struct cli_producer *leader = NULL, *all = NULL;
    int code = read_flags(&bench, args, 1000, 200);
    if (code < 0) code = cli_open_kafka(args, &bench.kafka);
    if (code < 0) code = check_replicated(&bench);
    bench.acks = 1;
    if (code < 0) code = open_producer(&bench, true, &leader);
    bench.acks = 0;
    if (code < 0) code = open_producer(&bench, true, &all);
    if (code < 0) {
        bench.began_us = bench.told_us = ot_clock_boot_us();
        const enum ot_err err = replicate(&bench, leader, all);
        code = ended(&bench, err, cli_producer_why(bench.producer), "replicate", "a record, until all in sync had it");
    }
    cli_producer_close(leader);
    bench.producer = all;
    bench_close(&bench);
    return code;
}
