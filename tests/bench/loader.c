/* Load for ./dev bench: blocking connections, requests built once and sent again and again, answers checked and dropped.
 *
 *   produce HOST PORT TOPIC PARTITIONS BYTES BATCH_RECORDS RECORD_BYTES ACKS IN_FLIGHT [CODEC]    Produce 7, one batch a request
 *   pace    HOST PORT TOPIC PARTITIONS BYTES BATCH_RECORDS RECORD_BYTES ACKS PER_SECOND    the same at a steady rate; tells the times from when a
 *                                                                        request was due to its answer, so that a stall counts for all that it holds up
 *   fetch   HOST PORT TOPIC PARTITIONS BYTES BATCH_RECORDS RECORD_BYTES MAX_BYTES [CONNECTIONS]   Fetch 11 of what produce wrote
 *   sink    PORT FILE      the least a server can do with produce requests: receive, pwrite, answer; FILE - leaves the pwrite out
 *   source  PORT FILE      the least it can do with fetches: a header and sendfile
 *
 * The client modes print one JSON line; bytes are those on the wire, plain_bytes those of the records before compression. CODEC is none, lz4 or
 * zstd. Record bytes are words from a small vocabulary, which shrink about as text does. Batches are all alike, so a fetch knows the next offset
 * from the byte count. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <lz4frame.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
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
#include <zstd.h>
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
    int codec;                 /* as in a batch's attributes */
};

/* Bytes that shrink about as text does: words of 2 to 9 letters out of 512. */
static void fill(uint8_t *data, int bytes, unsigned *seed)
{
    for (int at = 0; at < bytes;) {
        *seed = *seed * 1664525U + 1013904223U;
        unsigned word = (*seed >> 16) % 512, letters = word * 2654435761U;
        for (unsigned i = 0; i < 2 + word % 8 && at < bytes; i++) {
            data[at++] = (uint8_t)('a' + letters % 26);
            letters = letters / 26 + word;
        }
        if (at < bytes) data[at++] = ' ';
    }
}

/* The records behind the head, compressed in place. */
static void shrink(struct out *out, int codec)
{
    size_t plain = out->bytes - HEAD, cap = codec == 3 ? LZ4F_compressFrameBound(plain, NULL) : ZSTD_compressBound(plain);
    uint8_t *packed = malloc(HEAD + cap);
    if (packed == NULL) die("memory");
    const LZ4F_preferences_t preferences = { .frameInfo = { .blockMode = LZ4F_blockIndependent } };    /* Kafka's own reader takes no other */
    size_t bytes = codec == 3 ? LZ4F_compressFrame(packed + HEAD, cap, out->data + HEAD, plain, &preferences)
                              : ZSTD_compress(packed + HEAD, cap, out->data + HEAD, plain, 3);
    if (codec == 3 ? LZ4F_isError(bytes) != 0 : ZSTD_isError(bytes) != 0) die("compression");
    free(out->data);
    *out = (struct out){ packed, HEAD + bytes };
}

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
        fill(out.data + out.bytes, job->record_bytes, &seed);
        out.bytes += (size_t)job->record_bytes;
        put_varint(&out, 0);
    }
    if (job->codec != 0) shrink(&out, job->codec);
    struct out head = { out.data, 0 };
    put_int(&head, 0, 8);
    put_int(&head, (int64_t)out.bytes - 12, 4);
    put_int(&head, -1, 4);
    put_int(&head, 2, 1);
    head.bytes += 4;
    put_int(&head, job->codec, 2);
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

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* How long requests took, from their sending to the end of their answers. */
static int64_t *took_ns;
static size_t took_count, took_cap;

static void took(int64_t ns)
{
    if (took_count == took_cap && (took_ns = realloc(took_ns, (took_cap = took_cap * 2 + 65536) * sizeof(*took_ns))) == NULL) die("memory");
    took_ns[took_count++] = ns;
}

static double took_us(double part) { return took_count == 0 ? 0 : (double)took_ns[(size_t)((double)(took_count - 1) * part)] / 1e3; }

static void report(const char *mode, const struct job *job, int64_t bytes, int64_t requests, const struct timespec *start)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - start->tv_sec) + (double)(end.tv_nsec - start->tv_nsec) / 1e9;
    qsort(took_ns, took_count, sizeof(*took_ns), compare);
    printf("{\"mode\":\"%s\",\"bytes\":%lld,\"plain_bytes\":%lld,\"requests\":%lld,\"seconds\":%.6f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f}\n", mode,
        (long long)bytes, (long long)requests * job->batch_records * job->record_bytes, (long long)requests, seconds, took_us(0.5), took_us(0.99), took_us(0.999));
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

/* So many that the records before compression have job->bytes. */
static int64_t total_requests(const struct job *job)
{
    int64_t plain = (int64_t)job->batch_records * job->record_bytes;
    return (job->bytes + plain - 1) / plain;
}

static void produce(const char *host, int port, const struct job *job, int acks, int in_flight)
{
    struct out records = batch(job), *requests = calloc((size_t)job->partitions, sizeof(*requests));
    if (requests == NULL) die("memory");
    for (int p = 0; p < job->partitions; p++) {
        requests[p] = produce_request(job, &records, p, acks);
    }
    int fd = dial(host, port);
    int64_t total = total_requests(job), answered = acks == 0 ? total : 0, *sent_ns = calloc((size_t)in_flight + 1, sizeof(*sent_ns));
    struct timespec start;
    if (sent_ns == NULL) die("memory");
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int64_t sent = 0; sent < total; sent++) {
        const struct out *next = &requests[sent % job->partitions];
        sent_ns[sent % (in_flight + 1)] = now_ns();
        send_all(fd, next->data, next->bytes, 0);
        if (acks != 0 && sent + 1 - answered >= in_flight) {
            produce_answer(fd, job);
            took(now_ns() - sent_ns[answered++ % (in_flight + 1)]);
        }
    }
    for (; answered < total; answered++) {
        produce_answer(fd, job);
        took(now_ns() - sent_ns[answered % (in_flight + 1)]);
    }
    free(sent_ns);
    report("produce", job, total * (int64_t)records.bytes, total, &start);
}

/* ---- a steady rate: one thread sends what is due, the other takes the answers */
struct pace {
    const struct job *job;
    const struct out *requests;
    int64_t total, start_ns, per_second;
    int fd;
};

static int64_t due_ns(const struct pace *pace, int64_t number) { return pace->start_ns + number * 1000000000 / pace->per_second; }

static void *pace_send(void *arg)
{
    const struct pace *pace = arg;
    for (int64_t sent = 0; sent < pace->total; sent++) {
        int64_t due = due_ns(pace, sent);
        int64_t left = due - now_ns();
        struct timespec wait = { left / 1000000000, left % 1000000000 };
        if (left > 0 && ppoll(NULL, 0, &wait, NULL) < 0) die("ppoll");
        const struct out *next = &pace->requests[sent % pace->job->partitions];
        send_all(pace->fd, next->data, next->bytes, 0);
    }
    return NULL;
}

static void paced(const char *host, int port, const struct job *job, int acks, int per_second)
{
    struct out records = batch(job), *requests = calloc((size_t)job->partitions, sizeof(*requests));
    struct pace pace = { job, requests, total_requests(job), 0, per_second, dial(host, port) };
    int64_t *pace_ns = calloc((size_t)pace.total, sizeof(*pace_ns));
    if (requests == NULL || pace_ns == NULL) die("memory");
    for (int p = 0; p < job->partitions; p++) requests[p] = produce_request(job, &records, p, acks);
    pace.start_ns = now_ns() + 1000000;
    pthread_t sender;
    if (pthread_create(&sender, NULL, pace_send, &pace) != 0) die("thread");
    for (int64_t i = 0; i < pace.total; i++) {
        produce_answer(pace.fd, job);
        pace_ns[i] = now_ns() - due_ns(&pace, i);
    }
    pthread_join(sender, NULL);
    qsort(pace_ns, (size_t)pace.total, sizeof(*pace_ns), compare);
    printf("{\"mode\":\"pace\",\"bytes\":%lld,\"requests\":%lld,\"p50_ms\":%.4f,\"p99_ms\":%.4f,\"p999_ms\":%.4f,\"max_ms\":%.4f}\n",
        (long long)(pace.total * (int64_t)records.bytes), (long long)pace.total, (double)pace_ns[pace.total / 2] / 1e6,
        (double)pace_ns[pace.total * 99 / 100] / 1e6, (double)pace_ns[pace.total * 999 / 1000] / 1e6, (double)pace_ns[pace.total - 1] / 1e6);
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

/* Every connection reads each partition from its start and begins again at the end; all ask, then all are read. */
static void fetch(const char *host, int port, const struct job *job, int max_bytes, int connections)
{
    struct out records = batch(job), request = { malloc(1024), 0 };
    int64_t *offsets = calloc((size_t)(job->partitions * connections), sizeof(*offsets));
    int *fds = calloc((size_t)connections, sizeof(*fds));
    if (request.data == NULL || offsets == NULL || fds == NULL) die("memory");
    for (int c = 0; c < connections; c++) fds[c] = dial(host, port);
    int64_t got = 0, count = 0;
    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int64_t round = 0; got < job->bytes; round++) {
        int partition = (int)(round % job->partitions);
        int64_t asked_ns = now_ns();
        for (int c = 0; c < connections; c++) {
            fetch_request(&request, job, partition, offsets[c * job->partitions + partition], max_bytes);
            send_all(fds[c], request.data, request.bytes, 0);
        }
        for (int c = 0; c < connections; c++, count++) {
            int64_t *offset = &offsets[c * job->partitions + partition], high_watermark = 0, bytes = fetch_answer(fds[c], job, &high_watermark);
            took(now_ns() - asked_ns);
            got += bytes;
            *offset += bytes / (int64_t)records.bytes * job->batch_records;
            if (*offset >= high_watermark) *offset = 0;
            if (bytes == 0 && high_watermark == 0) die("an empty partition");
        }
    }
    report("fetch", job, got, count, &start);
}

/* ---- the bare servers */
static void sink(int port, const char *path)
{
    static uint8_t frame[FRAME_MAX];
    bool keep = strcmp(path, "-") != 0;
    int peer = accept_one(port), file = keep ? open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600) : -1;
    if (keep && file < 0) die(path);
    uint8_t size[4];
    off_t pos = 0;
    while (receive(peer, size, 4)) {
        size_t bytes = (size_t)get_int(size, 4);
        if (bytes > sizeof(frame) || !receive(peer, frame, bytes)) die("frame");
        const uint8_t *topic = frame + 8 + 2 + 5 + 2 + 2 + 4 + 4; /* after api, version, correlation, client, id, acks, timeout, count */
        size_t name = 2 + (size_t)get_int(topic, 2), skip = (size_t)(topic - frame) + name + 4 + 4 + 4;
        if (keep && pwrite(file, frame + skip, bytes - skip, pos) != (ssize_t)(bytes - skip)) die("pwrite");
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
        const char *codec = argc == 12 ? argv[11] : "none";
        struct job job = { argv[4], atoi(argv[5]), atoi(argv[7]), atoi(argv[8]), atoll(argv[6]), strcmp(codec, "lz4") == 0 ? 3 : strcmp(codec, "zstd") == 0 ? 4 : 0 };
        int last = argc > 10 ? atoi(argv[10]) : 1;
        if (job.partitions > 0 && job.batch_records > 0 && job.record_bytes > 0 && last > 0) {
            if ((argc == 11 || argc == 12) && strcmp(mode, "produce") == 0) {
                produce(argv[2], atoi(argv[3]), &job, atoi(argv[9]), last);
                return 0;
            }
            if (argc == 11 && strcmp(mode, "pace") == 0) {
                paced(argv[2], atoi(argv[3]), &job, atoi(argv[9]), last);
                return 0;
            }
            if ((argc == 10 || argc == 11) && strcmp(mode, "fetch") == 0) {
                fetch(argv[2], atoi(argv[3]), &job, atoi(argv[9]), last);
                return 0;
            }
        }
    }
    fprintf(stderr, "usage: produce|pace|fetch|sink|source, see the head of loader.c\n");
    return 2;
}
