/* Load for ./dev bench: one blocking connection, requests built once and sent again and again, answers checked and dropped.
 *
 *   produce HOST PORT TOPIC PARTITIONS BYTES BATCH_RECORDS RECORD_BYTES ACKS IN_FLIGHT    Produce 7, one batch a request
 *   fetch   HOST PORT TOPIC PARTITIONS BYTES BATCH_RECORDS RECORD_BYTES MAX_BYTES         Fetch 11 of what produce wrote
 *   sink    PORT FILE      the least a server can do with produce requests: receive, pwrite, answer
 *   source  PORT FILE      the least it can do with fetches: a header and sendfile
 *
 * The client modes print one JSON line. Batches are all alike, so a fetch knows the next offset from the byte count. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/util.h"

enum { HEAD = 61, FRAME_MAX = 8 << 20, FILE_MAX = 1 << 30 };

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "loader: %s: %s\n", what, errno ? strerror(errno) : "wrong answer");
    exit(1);
}

/* ---- bytes: a growing big-endian writer */
struct out {
    uint8_t *data;
    size_t bytes;
};

static void put(struct out *out, const void *data, size_t bytes)
{
    memcpy(out->data + out->bytes, data, bytes);
    out->bytes += bytes;
}

static void put_int(struct out *out, int64_t value, int width)
{
    for (int shift = (width - 1) * 8; shift >= 0; shift -= 8) {
        out->data[out->bytes++] = (uint8_t)((uint64_t)value >> shift);
    }
}

static void put_text(struct out *out, const char *text)
{
    put_int(out, (int64_t)strlen(text), 2);
    put(out, text, strlen(text));
}

static void put_varint(struct out *out, int64_t value)
{
    uint64_t left = ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
    for (; left > 0x7f; left >>= 7) {
        out->data[out->bytes++] = (uint8_t)(left | 0x80);
    }
    out->data[out->bytes++] = (uint8_t)left;
}

static int64_t get_int(const uint8_t *data, int width)
{
    uint64_t value = 0;
    for (int i = 0; i < width; i++) {
        value = value << 8 | data[i];
    }
    return width == 4 ? (int32_t)value : width == 2 ? (int16_t)value : (int64_t)value;
}

/* ---- sockets */
static int dial(const char *host, int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static int accept_one(int port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1) != 0) die("listen");
    int peer = accept(fd, NULL, NULL);
    if (peer < 0) die("accept");
    close(fd);
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return peer;
}

static void send_all(int fd, const uint8_t *data, size_t bytes, int flags)
{
    while (bytes > 0) {
        ssize_t done = send(fd, data, bytes, MSG_NOSIGNAL | flags);
        if (done <= 0) die("send");
        data += done;
        bytes -= (size_t)done;
    }
}

/* false at a clean end; data NULL drops the bytes without copying them */
static bool receive(int fd, uint8_t *data, size_t bytes)
{
    static uint8_t dropped[1 << 20];
    size_t got = 0;
    while (got < bytes) {
        size_t want = bytes - got;
        if (data == NULL && want > sizeof(dropped)) want = sizeof(dropped);
        ssize_t done = recv(fd, data ? data + got : dropped, want, data ? 0 : MSG_TRUNC);
        if (done == 0 && got == 0) return false;
        if (done <= 0) die("receive");
        got += (size_t)done;
    }
    return true;
}

/* ---- requests */
struct job {
    const char *topic;
    int partitions, batch_records, record_bytes;
    int64_t bytes;
};

static struct out batch(const struct job *job)
{
    struct out out = { malloc((size_t)(HEAD + job->batch_records * (job->record_bytes + 32))), 0 };
    if (out.data == NULL) die("memory");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000;
    out.bytes = HEAD;
    unsigned seed = 12345;
    for (int i = 0; i < job->batch_records; i++) {
        uint8_t scratch[32];
        struct out delta = { scratch, 0 }, size = { scratch + 16, 0 };
        put_varint(&delta, i);
        put_varint(&size, job->record_bytes);
        put_varint(&out, (int64_t)(1 + 1 + delta.bytes + 1 + size.bytes + (size_t)job->record_bytes + 1));
        put_int(&out, 0, 1);
        put_varint(&out, 0);
        put(&out, delta.data, delta.bytes);
        put_varint(&out, -1);
        put(&out, size.data, size.bytes);
        for (int b = 0; b < job->record_bytes; b++) {
            seed = seed * 1664525U + 1013904223U;
            out.data[out.bytes++] = (uint8_t)(seed >> 24);
        }
        put_varint(&out, 0);
    }
    struct out head = { out.data, 0 };
    put_int(&head, 0, 8);
    put_int(&head, (int64_t)out.bytes - 12, 4);
    put_int(&head, -1, 4);
    put_int(&head, 2, 1);
    head.bytes += 4;
    put_int(&head, 0, 2);
    put_int(&head, job->batch_records - 1, 4);
    put_int(&head, now_ms, 8);
    put_int(&head, now_ms, 8);
    put_int(&head, -1, 8);
    put_int(&head, -1, 2);
    put_int(&head, -1, 4);
    put_int(&head, job->batch_records, 4);
    struct out crc = { out.data + 17, 0 };
    put_int(&crc, ot_crc32c(0, out.data + 21, out.bytes - 21), 4);
    return out;
}

static void header(struct out *out, int api, int version)
{
    out->bytes = 4;
    put_int(out, api, 2);
    put_int(out, version, 2);
    put_int(out, 0, 4);
    put_text(out, "bench");
}

static void close_frame(struct out *out)
{
    struct out size = { out->data, 0 };
    put_int(&size, (int64_t)out->bytes - 4, 4);
}

static struct out produce_request(const struct job *job, const struct out *records, int partition, int acks)
{
    struct out out = { malloc(records->bytes + 1024), 0 };
    if (out.data == NULL) die("memory");
    header(&out, 0, 7);
    put_int(&out, -1, 2);
    put_int(&out, acks, 2);
    put_int(&out, 30000, 4);
    put_int(&out, 1, 4);
    put_text(&out, job->topic);
    put_int(&out, 1, 4);
    put_int(&out, partition, 4);
    put_int(&out, (int64_t)records->bytes, 4);
    put(&out, records->data, records->bytes);
    close_frame(&out);
    return out;
}

static void report(const char *mode, int64_t bytes, int64_t requests, const struct timespec *start)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - start->tv_sec) + (double)(end.tv_nsec - start->tv_nsec) / 1e9;
    printf("{\"mode\":\"%s\",\"bytes\":%lld,\"requests\":%lld,\"seconds\":%.6f}\n", mode, (long long)bytes, (long long)requests, seconds);
}

static void produce_answer(int fd, const struct job *job)
{
    uint8_t size[4], frame[1024];
    if (!receive(fd, size, 4)) die("closed");
    int64_t bytes = get_int(size, 4);
    if (bytes < 30 || bytes > (int64_t)sizeof(frame) || !receive(fd, frame, (size_t)bytes)) die("answer");
    int64_t code = get_int(frame + 4 + 4 + 2 + strlen(job->topic) + 4 + 4, 2);
    if (code != 0) {
        fprintf(stderr, "loader: produce error %lld\n", (long long)code);
        exit(1);
    }
}

static void produce(const char *host, int port, const struct job *job, int acks, int in_flight)
{
    struct out records = batch(job), *requests = calloc((size_t)job->partitions, sizeof(*requests));
    if (requests == NULL) die("memory");
    for (int p = 0; p < job->partitions; p++) {
        requests[p] = produce_request(job, &records, p, acks);
    }
    int fd = dial(host, port);
    int64_t total = (job->bytes + (int64_t)records.bytes - 1) / (int64_t)records.bytes, answered = acks == 0 ? total : 0;
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int64_t sent = 0; sent < total; sent++) {
        const struct out *next = &requests[sent % job->partitions];
        send_all(fd, next->data, next->bytes, 0);
        if (acks != 0 && sent + 1 - answered >= in_flight) {
            produce_answer(fd, job);
            answered++;
        }
    }
    for (; answered < total; answered++) {
        produce_answer(fd, job);
    }
    report("produce", total * (int64_t)records.bytes, total, &start);
}

static void fetch_request(struct out *out, const struct job *job, int partition, int64_t offset, int max_bytes)
{
    header(out, 1, 11);
    put_int(out, -1, 4);
    put_int(out, 500, 4);
    put_int(out, 1, 4);
    put_int(out, max_bytes, 4);
    put_int(out, 0, 1);
    put_int(out, 0, 4);
    put_int(out, -1, 4);
    put_int(out, 1, 4);
    put_text(out, job->topic);
    put_int(out, 1, 4);
    put_int(out, partition, 4);
    put_int(out, -1, 4);
    put_int(out, offset, 8);
    put_int(out, -1, 8);
    put_int(out, max_bytes, 4);
    put_int(out, 0, 4);
    put_text(out, "");
    close_frame(out);
}

static int64_t fetch_answer(int fd, const struct job *job, int64_t *high_watermark)
{
    uint8_t frame[1024];
    if (!receive(fd, frame, 4)) die("closed");
    int64_t bytes = get_int(frame, 4), fixed = 4 + 4 + 2 + 4 + 4 + 2 + (int64_t)strlen(job->topic) + 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4 + 4;
    if (bytes < fixed || fixed > (int64_t)sizeof(frame) || !receive(fd, frame, (size_t)fixed)) die("answer");
    const uint8_t *part = frame + 4 + 4 + 2 + 4 + 4 + 2 + strlen(job->topic) + 4;
    if (get_int(part + 4, 2) != 0) die("fetch error");
    *high_watermark = get_int(part + 6, 8);
    int64_t records = get_int(frame + fixed - 4, 4);
    if (records < 0) records = 0;
    if (fixed + records != bytes) die("answer size");
    if (records > 0 && !receive(fd, NULL, (size_t)records)) die("closed");
    return records;
}

static void fetch(const char *host, int port, const struct job *job, int max_bytes)
{
    struct out records = batch(job), request = { malloc(1024), 0 };
    int64_t *offsets = calloc((size_t)job->partitions, sizeof(*offsets));
    if (request.data == NULL || offsets == NULL) die("memory");
    int fd = dial(host, port);
    int64_t got = 0, count = 0;
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (; got < job->bytes; count++) {
        int64_t *offset = &offsets[count % job->partitions], high_watermark = 0;
        fetch_request(&request, job, (int)(count % job->partitions), *offset, max_bytes);
        send_all(fd, request.data, request.bytes, 0);
        int64_t bytes = fetch_answer(fd, job, &high_watermark);
        got += bytes;
        *offset += bytes / (int64_t)records.bytes * job->batch_records;
        if (*offset >= high_watermark) *offset = 0;
        if (bytes == 0 && high_watermark == 0) die("an empty partition");
    }
    report("fetch", got, count, &start);
}

/* ---- the bare servers */
static void sink(int port, const char *path)
{
    static uint8_t frame[FRAME_MAX];
    int peer = accept_one(port), file = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) die(path);
    uint8_t size[4];
    off_t pos = 0;
    while (receive(peer, size, 4)) {
        size_t bytes = (size_t)get_int(size, 4);
        if (bytes > sizeof(frame) || !receive(peer, frame, bytes)) die("frame");
        const uint8_t *topic = frame + 8 + 2 + 5 + 2 + 2 + 4 + 4; /* after api, version, correlation, client, id, acks, timeout, count */
        size_t name = 2 + (size_t)get_int(topic, 2), skip = (size_t)(topic - frame) + name + 4 + 4 + 4;
        if (pwrite(file, frame + skip, bytes - skip, pos) != (ssize_t)(bytes - skip)) die("pwrite");
        pos = pos > FILE_MAX ? 0 : pos + (off_t)(bytes - skip);
        uint8_t space[512];
        struct out answer = { space, 4 };
        put_int(&answer, 0, 4);
        put_int(&answer, 1, 4);
        put(&answer, topic, name);
        put_int(&answer, 1, 4);
        for (int i = 0; i < 34; i++) {
            put_int(&answer, 0, 1); /* partition, error, offset, times, throttle */
        }
        close_frame(&answer);
        send_all(peer, answer.data, answer.bytes, 0);
    }
}

static void source(int port, const char *path)
{
    int peer = accept_one(port), file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (file < 0 || fstat(file, &st) != 0) die(path);
    uint8_t frame[1024];
    while (receive(peer, frame, 4)) {
        size_t bytes = (size_t)get_int(frame, 4);
        if (bytes > sizeof(frame) || !receive(peer, frame, bytes)) die("frame");
        const uint8_t *topic = frame + 8 + 2 + 5 + 4 + 4 + 4 + 4 + 1 + 4 + 4 + 4;
        size_t name = 2 + (size_t)get_int(topic, 2);
        int64_t want = get_int(topic + name + 4 + 4 + 4 + 8 + 8, 4);
        if (want > st.st_size) want = st.st_size;
        uint8_t space[512] = { 0 };
        struct out answer = { space, 4 + 4 + 4 + 2 + 4 };
        put_int(&answer, 1, 4);
        put(&answer, topic, name);
        put_int(&answer, 1, 4);
        put_int(&answer, 0, 4 + 2);
        put_int(&answer, INT64_MAX, 8);
        put_int(&answer, 0, 8);
        put_int(&answer, 0, 8);
        put_int(&answer, 0, 4);
        put_int(&answer, -1, 4);
        put_int(&answer, want, 4);
        struct out size = { space, 0 };
        put_int(&size, (int64_t)answer.bytes - 4 + want, 4);
        send_all(peer, answer.data, answer.bytes, MSG_MORE);
        for (off_t pos = 0; pos < want;) {
            if (sendfile(peer, file, &pos, (size_t)(want - pos)) <= 0) die("sendfile");
        }
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (argc == 4 && strcmp(mode, "sink") == 0) {
        sink(atoi(argv[2]), argv[3]);
        return 0;
    }
    if (argc == 4 && strcmp(mode, "source") == 0) {
        source(atoi(argv[2]), argv[3]);
        return 0;
    }
    if (argc >= 10) {
        struct job job = { argv[4], atoi(argv[5]), atoi(argv[7]), atoi(argv[8]), atoll(argv[6]) };
        if (job.partitions > 0 && job.batch_records > 0 && job.record_bytes > 0) {
            if (argc == 11 && strcmp(mode, "produce") == 0) {
                produce(argv[2], atoi(argv[3]), &job, atoi(argv[9]), atoi(argv[10]));
                return 0;
            }
            if (argc == 10 && strcmp(mode, "fetch") == 0) {
                fetch(argv[2], atoi(argv[3]), &job, atoi(argv[9]));
                return 0;
            }
        }
    }
    fprintf(stderr, "usage: produce|fetch|sink|source, see the head of loader.c\n");
    return 2;
}
