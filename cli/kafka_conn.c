#include "cli/kafka_conn.h"
#include "base/wire/api_versions_request.h"
#include "base/wire/api_versions_response.h"
#include "cli/wait.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ARENA_BYTES_MAX ((size_t)256 << 20)

void cli_conn_init(struct cli_conn *conn, const char *host, uint16_t port, const char *client_id)
{
    *conn = (struct cli_conn){.fd = -1, .port = port, .client_id = client_id};
    snprintf(conn->host, sizeof(conn->host), "%s", host);
    ot_arena_init(&conn->arena, ARENA_BYTES_MAX);
}

void cli_conn_close(struct cli_conn *conn)
{
    if (conn->fd >= 0) close(conn->fd);
    conn->fd = -1;
    conn->in_bytes = 0;
}

void cli_conn_free(struct cli_conn *conn)
{
    cli_conn_close(conn);
    free(conn->in);
    free(conn->out);
    ot_arena_free(&conn->arena);
    conn->in = conn->out = NULL;
}

static enum ot_err lost(struct cli_conn *conn, enum ot_err err, const char *words)
{
    snprintf(conn->why, sizeof(conn->why), "%.120s:%u: %.300s", conn->host, conn->port, words);
    cli_conn_close(conn);
    return err;
}

/* Room for bytes in a buffer of ours; keeps what is in it. */
static bool room(uint8_t **data, size_t *cap, size_t bytes)
{
    if (bytes <= *cap) return true;
    uint8_t *more = realloc(*data, bytes);
    if (more == NULL) return false;
    *data = more;
    *cap = bytes;
    return true;
}

static enum ot_err send_err(struct cli_conn *conn, enum ot_err err)
{
    if (err == OT_ERR_NETWORK_EXCEPTION) return lost(conn, err, "the broker closed the connection");
    if (err == OT_ERR_REQUEST_TIMED_OUT) return lost(conn, err, "no answer in time");
    if (err != OT_OK) cli_conn_close(conn);
    return err;
}

enum ot_err cli_conn_send(struct cli_conn *conn, int16_t api, int16_t version, const void *request, int64_t deadline_us)
{
    const struct ot_api *row = ot_api_find(api);
    struct ot_wire_request_header header = {
        .api = row, .key = api, .version = version, .correlation_id = conn->next_correlation_id, .client_id = ot_str_of(conn->client_id)};
    const size_t bytes = 4 + 64 + strlen(conn->client_id) + ot_wire_size(row->request, version, request);
    if (bytes > CLI_FRAME_BYTES_MAX) return OT_ERR_MESSAGE_TOO_LARGE;
    if (!room(&conn->out, &conn->out_cap, bytes)) return OT_ERR_NO_MEMORY;
    struct ot_writer out = ot_writer_over(conn->out, bytes);
    ot_write_u32(&out, 0);
    enum ot_err err = ot_wire_request_header_encode(&header, &out);
    if (err == OT_OK) err = ot_wire_encode(row->request, version, request, &out, NULL);
    if (err != OT_OK) {
        snprintf(conn->why, sizeof(conn->why), "%s version %d cannot be written: %s", row->name, version, ot_err_text(err));
        return err;
    }
    const size_t written = (size_t)(out.at - out.start);
    ot_store_u32(conn->out, (uint32_t)(written - 4));
    if (conn->next_correlation_id == INT32_MAX) conn->next_correlation_id = -1;
    conn->next_correlation_id++;
    return send_err(conn, cli_socket_send(conn->fd, conn->out, written, deadline_us));
}

/* How many bytes the frame has, or may have as far as is known. 0: refused. */
static size_t wanted(const struct cli_conn *conn)
{
    if (conn->in_bytes < 4) return 4;
    const uint32_t bytes = ot_load_u32(conn->in);
    return bytes < 4 || bytes > CLI_FRAME_BYTES_MAX ? 0 : 4 + (size_t)bytes;
}

enum ot_err cli_conn_receive_some(struct cli_conn *conn)
{
    for (;;) {
        const size_t want = wanted(conn);
        if (want == 0) return lost(conn, OT_ERR_NETWORK_EXCEPTION, "what answers there does not speak Kafka's protocol");
        if (want > 4 && conn->in_bytes == want) return OT_OK;
        /* grows with what comes, not with what is promised */
        if (!room(&conn->in, &conn->in_cap, OT_MIN(want, OT_MAX(conn->in_bytes * 2, 65536)))) return OT_ERR_NO_MEMORY;
        const ssize_t got = recv(conn->fd, conn->in + conn->in_bytes, OT_MIN(want, conn->in_cap) - conn->in_bytes, 0);
        if (got > 0) conn->in_bytes += (size_t)got;
        if (got == 0) return lost(conn, OT_ERR_NETWORK_EXCEPTION, "the broker closed the connection");
        if (got < 0 && errno == EAGAIN) return OT_ERR_BUSY;
        if (got < 0 && errno != EINTR) return lost(conn, OT_ERR_NETWORK_EXCEPTION, strerror(errno));
    }
}

enum ot_err cli_conn_answer(struct cli_conn *conn, int16_t api, int16_t version, void *response_out)
{
    const struct ot_api *row = ot_api_find(api);
    struct ot_reader in = ot_reader_over(conn->in + 4, conn->in_bytes - 4);
    struct ot_wire_error error = {0};
    int32_t correlation_id = 0;
    ot_arena_reset(&conn->arena);
    conn->in_bytes = 0; /* the bytes stay where they are until the next call */
    enum ot_err err = ot_wire_response_header_decode(row, version, &in, &conn->arena, &correlation_id, &error);
    if (err == OT_OK && correlation_id != conn->awaited_correlation_id)
        return lost(conn, OT_ERR_NETWORK_EXCEPTION, "answered another request than the one that was sent");
    if (conn->awaited_correlation_id == INT32_MAX) conn->awaited_correlation_id = -1;
    conn->awaited_correlation_id++;
    if (err == OT_OK) err = ot_wire_decode_all(row->response, version, &in, &conn->arena, response_out, &error);
    if (err == OT_OK) return OT_OK;
    char words[288];
    snprintf(words, sizeof(words), "%s answer not understood: %s: %s", row->name, error.field, error.reason);
    return lost(conn, OT_ERR_NETWORK_EXCEPTION, words);
}

enum ot_err cli_conn_ask(
    struct cli_conn *conn, int16_t api, int16_t version, const void *request, void *response_out, int64_t deadline_us)
{
    enum ot_err err = cli_conn_send(conn, api, version, request, deadline_us);
    while (err == OT_OK && (err = cli_conn_receive_some(conn)) == OT_ERR_BUSY) err = cli_wait_one(conn->fd, POLLIN, deadline_us);
    if (err == OT_ERR_REQUEST_TIMED_OUT || err == OT_ERR_CANCELLED) return send_err(conn, err);
    return err == OT_OK ? cli_conn_answer(conn, api, version, response_out) : err;
}

static enum ot_err learn_versions(struct cli_conn *conn, int64_t deadline_us)
{
    struct ot_api_versions_request request;
    struct ot_api_versions_response response;
    ot_api_versions_request_defaults(&request);
    enum ot_err err = cli_conn_ask(conn, OT_API_VERSIONS_REQUEST_API, 0, &request, &response, deadline_us);
    if (err != OT_OK) return err;
    if (response.error_code != 0) return lost(conn, (enum ot_err)response.error_code, "does not tell which versions it speaks");
    for (int32_t i = 0; i < response.api_keys.count; i++) {
        const struct ot_api_versions_response_api_version *row = &response.api_keys.items[i];
        if (row->api_key < 0 || row->api_key >= CLI_APIS_MAX) continue;
        conn->version_min[row->api_key] = row->min_version;
        conn->version_max[row->api_key] = row->max_version;
    }
    return OT_OK;
}

enum ot_err cli_conn_open(struct cli_conn *conn, int64_t deadline_us)
{
    cli_conn_close(conn);
    conn->next_correlation_id = conn->awaited_correlation_id = 0;
    for (uint32_t i = 0; i < CLI_APIS_MAX; i++) conn->version_max[i] = -1;
    enum ot_err err = cli_socket_connect(conn->host, conn->port, deadline_us, &conn->fd, conn->why);
    return err == OT_OK ? learn_versions(conn, deadline_us) : err;
}

int16_t cli_conn_version(const struct cli_conn *conn, int16_t api, int16_t least, int16_t most)
{
    if (api < 0 || api >= CLI_APIS_MAX || conn->version_max[api] < 0) return -1;
    const int16_t low = OT_MAX(conn->version_min[api], least), high = OT_MIN(conn->version_max[api], most);
    return high >= low ? high : -1;
}
