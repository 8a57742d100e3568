/* One connection to a broker of any Kafka-compatible cluster: frames, correlation ids and the versions that it speaks.
 *
 * A request is sent whole; its answer is taken whole, blocking or a piece at a time (for loops over several connections). Answers come
 * in the order of the requests. A frame above CLI_FRAME_BYTES_MAX is refused before memory is taken for it. One thread. */
#ifndef OT_CLI_KAFKA_CONN_H
#define OT_CLI_KAFKA_CONN_H

#include "base/wire/frame.h"
#include "cli/socket.h"

#define CLI_FRAME_BYTES_MAX (256u << 20)
#define CLI_APIS_MAX        128

struct cli_conn {
    int fd; /* -1: not connected */
    char host[CLI_HOST_BYTES];
    uint16_t port;
    int16_t version_min[CLI_APIS_MAX], version_max[CLI_APIS_MAX]; /* max -1: not served */
    int32_t next_correlation_id, awaited_correlation_id;         /* of the next answer */
    const char *client_id;                                        /* static text */
    uint8_t *in;                                                  /* the frame that is coming in, with its size in front */
    size_t in_bytes, in_cap;
    uint8_t *out;
    size_t out_cap;
    struct ot_arena arena; /* of the last decoded answer */
    char why[CLI_WHY_BYTES];
};

void cli_conn_init(struct cli_conn *conn, const char *host, uint16_t port, const char *client_id);
void cli_conn_close(struct cli_conn *conn); /* can be opened again */
void cli_conn_free(struct cli_conn *conn);
/* Connects and asks for the versions. NETWORK_EXCEPTION, REQUEST_TIMED_OUT, CANCELLED, UNSUPPORTED_VERSION; words in why. */
OT_MUST_CHECK enum ot_err cli_conn_open(struct cli_conn *conn, int64_t deadline_us);
/* The highest version of the API that both know, within [least, most] of ours. -1: none. */
int16_t cli_conn_version(const struct cli_conn *conn, int16_t api, int16_t least, int16_t most);

/* Any failure but CANCELLED and REQUEST_TIMED_OUT leaves the connection closed; after these two it must be closed too if an answer was due. */
OT_MUST_CHECK enum ot_err cli_conn_send(struct cli_conn *conn, int16_t api, int16_t version, const void *request, int64_t deadline_us);
/* Takes in what is there without waiting. OK: a whole answer; BUSY: not yet. */
OT_MUST_CHECK enum ot_err cli_conn_receive_some(struct cli_conn *conn);
/* Decodes the answer taken in; it lives until the next call on this connection. */
OT_MUST_CHECK enum ot_err cli_conn_answer(struct cli_conn *conn, int16_t api, int16_t version, void *response_out);
/* Send, wait, decode. */
OT_MUST_CHECK enum ot_err cli_conn_ask(
    struct cli_conn *conn, int16_t api, int16_t version, const void *request, void *response_out, int64_t deadline_us);

#endif
