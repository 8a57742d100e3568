/* All that one connection may send to the Kafka door: framing, dispatch, every handler, answers, and the closing, with a broker that answers anything.
 *
 *   first byte   even: the rest goes onto the wire as it is. odd: the rest is a list of requests that are framed here, so that bodies are reached quickly:
 *                API (index into keys), version, two bytes of length, body
 *   second byte  how the bytes are cut into sends */
#include "base/wire/apis.h"
#include "base/log.h"
#include "fake_broker.h"
#include "rpc/kafka/server.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* served, and some that are not, or not yet; seeds count on this order */
static const int16_t keys[] = { 0, 1, 2, 3, 10, 17, 18, 19, 20, 21, 22, 23, 29, 30, 31, 32, 36, 37, 60, 11, 8, 33, 34, 35, 43, 44, 45, 46, 48, 49, 50, 55, 57, 61, 71, 72, 74, 75,
    24, 25, 26, 27, 28, 65, 66, 9, 12, 13, 14, 15, 16, 42, 47, 51, 38, 39, 40, 41, 64, 68, 69, 76, 77, 78, 79, 80, 81, 88, 89, 90, 91, 92 };

static struct rpc_kafka_server *server;
static struct ot_pool *requests, *answers;

static void start(void)
{
    char path[] = "/tmp/ottla-fuzz-XXXXXX", filler[4096], text[200];
    fake_init();
    OT_ASSERT(broker_config_set(fake.config, BROKER_SOURCE_FLAG, "fuzz", "ottla.network.threads", "1", text, sizeof text) == OT_OK);
    OT_ASSERT(broker_config_set(fake.config, BROKER_SOURCE_FLAG, "fuzz", "socket.request.max.bytes", "1000000", text, sizeof text) == OT_OK);
    fake.file = mkstemp(path);
    OT_ASSERT(fake.file >= 0);
    unlink(path);
    memset(filler, 'r', sizeof filler);
    for (int i = 0; i < 2; i++) OT_ASSERT(write(fake.file, filler, sizeof filler) == sizeof filler);
    fake.fetch_bytes = 100;
    requests = ot_pool_new("requests", 8u << 20, 1u << 20);
    answers = ot_pool_new("answers", 8u << 20, 1u << 20);
    const struct rpc_kafka_setup setup = { .request_pool = requests, .response_pool = answers };
    ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, open("/dev/null", O_WRONLY));
    OT_ASSERT(rpc_kafka_server_start(fake_pointer(), &setup, &server) == OT_OK);
}

/* False: the door closed. What it answers meanwhile is read, so that neither side waits for the other. */
static bool put(int fd, const uint8_t *data, size_t bytes)
{
    uint8_t sink[65536];
    for (size_t done = 0; done < bytes;) {
        const ssize_t step = send(fd, data + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (step > 0) {
            done += (size_t)step;
            continue;
        }
        if (step == 0 || recv(fd, sink, sizeof sink, 0) <= 0) return false;
    }
    return true;
}

static bool put_pieces(int fd, const uint8_t *data, size_t bytes, uint8_t cut)
{
    const size_t piece = cut == 0 ? bytes : 1 + (size_t)cut * cut;
    for (size_t at = 0; at < bytes; at += piece) {
        if (!put(fd, data + at, OT_MIN(piece, bytes - at))) return false;
    }
    return true;
}

static void put_requests(int fd, const uint8_t *data, size_t bytes, uint8_t cut)
{
    uint8_t frame[70000];
    int32_t correlation = 0;
    while (bytes >= 4) {
        const struct ot_api *api = &*ot_api_find(keys[data[0] % OT_ARRAY_COUNT(keys)]);
        const size_t body_bytes = OT_MIN((size_t)data[2] << 8 | data[3], bytes - 4);
        const struct ot_wire_request_header header = { .api = api, .key = api->key, .version = (int16_t)(data[1] % 20), .correlation_id = correlation++,
            .client_id = { "fuzz", 4, false } };
        struct ot_writer out = ot_writer_over(frame, sizeof frame);
        ot_write_u32(&out, 0);
        if (ot_wire_request_header_encode(&header, &out) != OT_OK) return;
        ot_write_bytes(&out, data + 4, body_bytes);
        const size_t frame_bytes = (size_t)(out.at - frame);
        ot_store_u32(frame, (uint32_t)frame_bytes - 4);
        if (!put_pieces(fd, frame, frame_bytes, cut)) return;
        data += 4 + body_bytes;
        bytes -= 4 + body_bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int pair[2];
    uint8_t sink[65536];
    if (server == NULL) start();
    if (bytes < 2 || bytes > 200000) return 0;
    OT_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    OT_ASSERT(fcntl(pair[1], F_SETFL, O_NONBLOCK) == 0);
    OT_ASSERT(rpc_kafka_server_adopt(server, pair[1]) == OT_OK);
    if (data[0] % 2 == 0) (void)put_pieces(pair[0], data + 2, bytes - 2, data[1]);
    else put_requests(pair[0], data + 2, bytes - 2, data[1]);
    (void)shutdown(pair[0], SHUT_WR);
    while (recv(pair[0], sink, sizeof sink, 0) > 0) {}             /* to the end: the door always closes */
    close(pair[0]);
    return 0;
}
