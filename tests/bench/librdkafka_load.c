/* Load by librdkafka, a client that neither side wrote: what applications really send.
 *
 *   produce HOST:PORT TOPIC BYTES RECORD_BYTES LINGER_MS BATCH_BYTES CODEC      acks=1, waits for every delivery report
 *   consume HOST:PORT TOPIC PARTITIONS BYTES                                    assigns all partitions, from the start
 *
 * Prints one JSON line; a failed delivery or a minute without progress ends it with status 1. */
#include <librdkafka/rdkafka.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t failed, delivered;

static _Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "librdkafka_load: %s: %s\n", what, why);
    exit(1);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value)
{
    char why[256];
    if (rd_kafka_conf_set(conf, key, value, why, sizeof(why)) != RD_KAFKA_CONF_OK) die(key, why);
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
    char why[256];
    rd_kafka_t *made = rd_kafka_new(type, conf, why, sizeof(why));
    if (made == NULL) die("client", why);
    return made;
}

static void report(const char *mode, int64_t bytes, int64_t records, double start_s)
{
    printf("{\"mode\":\"%s\",\"plain_bytes\":%lld,\"records\":%lld,\"seconds\":%.6f}\n", mode, (long long)bytes, (long long)records, now_s() - start_s);
}

static void told(rd_kafka_t *producer, const rd_kafka_message_t *message, void *opaque)
{
    (void)producer, (void)opaque;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) failed++;
    else delivered++;
}

static void fill(char *data, size_t bytes)
{
    static const char *const words[] = {"offset", "segment", "follower", "leader", "epoch", "batch", "record", "watermark", "producer", "consumer", "log", "in", "sync"};
    uint32_t seed = 7;
    for (size_t at = 0; at < bytes;) {
        seed = seed * 1664525U + 1013904223U;
        const char *word = words[(seed >> 16) % (sizeof(words) / sizeof(words[0]))];
        for (; *word != 0 && at < bytes; word++) data[at++] = *word;
        if (at < bytes) data[at++] = (char)('0' + (seed >> 24) % 10);
    }
}

static void produce(char **argv)
{
    const int64_t bytes = atoll(argv[4]);
    const size_t record_bytes = (size_t)atoll(argv[5]);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", argv[2]);
    set(conf, "acks", "1");
    set(conf, "linger.ms", argv[6]);
    set(conf, "batch.size", argv[7]);
    set(conf, "compression.type", argv[8]);
    set(conf, "queue.buffering.max.messages", "200000");
    rd_kafka_conf_set_dr_msg_cb(conf, told);
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, conf);
    char *value = malloc(record_bytes);
    if (value == NULL) die("produce", "no memory");
    fill(value, record_bytes);
    const double start_s = now_s();
    int64_t sent = 0;
    for (int64_t total = bytes / (int64_t)record_bytes; sent < total;) {
        const rd_kafka_resp_err_t err = rd_kafka_producev(producer, RD_KAFKA_V_TOPIC(argv[3]), RD_KAFKA_V_VALUE(value, record_bytes),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
        if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            rd_kafka_poll(producer, 10);
            continue;
        }
        if (err != RD_KAFKA_RESP_ERR_NO_ERROR) die("produce", rd_kafka_err2str(err));
        if (++sent % 1000 == 0) rd_kafka_poll(producer, 0);
    }
    if (rd_kafka_flush(producer, 120000) != RD_KAFKA_RESP_ERR_NO_ERROR || failed > 0 || delivered != sent) die("produce", "not all was delivered");
    report("produce", sent * (int64_t)record_bytes, sent, start_s);
    rd_kafka_destroy(producer);
}

static void consume(char **argv)
{
    const int64_t bytes = atoll(argv[5]);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", argv[2]);
    set(conf, "group.id", "bench");
    set(conf, "enable.auto.commit", "false");
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(8);
    for (int32_t partition = 0; partition < atoi(argv[4]); partition++) {
        rd_kafka_topic_partition_list_add(all, argv[3], partition)->offset = RD_KAFKA_OFFSET_BEGINNING;
    }
    if (rd_kafka_assign(consumer, all) != RD_KAFKA_RESP_ERR_NO_ERROR) die("consume", "assign");
    const double start_s = now_s();
    double progress_s = start_s;
    int64_t got = 0, records = 0;
    while (got < bytes) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, 1000);
        if (message != NULL && message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            got += (int64_t)message->len;
            records++;
            progress_s = now_s();
        }
        if (message != NULL) rd_kafka_message_destroy(message);
        if (now_s() - progress_s > 60) die("consume", "nothing for a minute");
    }
    report("consume", got, records, start_s);
    rd_kafka_topic_partition_list_destroy(all);
    rd_kafka_consumer_close(consumer);
    rd_kafka_destroy(consumer);
}

int main(int argc, char **argv)
{
    if (argc == 9 && strcmp(argv[1], "produce") == 0) produce(argv);
    else if (argc == 6 && strcmp(argv[1], "consume") == 0) consume(argv);
    else die("usage", "see the head of librdkafka_load.c");
    return 0;
}
