/* HTTP/1.1 as a client of the REST API needs it: one request a connection, over TCP or a unix socket, answers with a length, in chunks or to the end.
 *
 * An answer may have CLI_HTTP_HEAD_MAX bytes of headers and CLI_HTTP_BODY_MAX of body; more, and anything that is no HTTP, is refused. One thread. */
#ifndef OT_CLI_HTTP_H
#define OT_CLI_HTTP_H

#include "cli/socket.h"

#define CLI_HTTP_HEAD_MAX (64u << 10)
#define CLI_HTTP_BODY_MAX ((size_t)64 << 20)

struct cli_http_address {
    char host[CLI_HOST_BYTES]; /* or the path of the socket */
    uint16_t port;             /* 0: a unix socket */
};
/* http://host[:port][/], unix:/path. MALFORMED with words in why (https too: not in this version). */
OT_MUST_CHECK enum ot_err cli_http_address(const char *url, struct cli_http_address *out, char why[static CLI_WHY_BYTES]);

struct cli_http_reply {
    int status;
    char content_type[64], request_id[72], location[256], etag[72]; /* empty when absent, cut when longer */
    char *body;                                           /* zero-terminated; NULL when there is none */
    size_t body_bytes;
};
/* errors: NETWORK_EXCEPTION, REQUEST_TIMED_OUT, CANCELLED, MALFORMED (what came is no answer), NO_MEMORY; words in why. *sent_out says whether the request had
 * left whole, so that its outcome is unknown after a failure. target is percent-encoded already. body NULL: none, else JSON. */
OT_MUST_CHECK enum ot_err cli_http_ask(const struct cli_http_address *address, const char *method, const char *target, const char *body, int64_t deadline_us,
    struct cli_http_reply *out, bool *sent_out, char why[static CLI_WHY_BYTES]);
/* The same under a condition: If-Match, an ETag of an earlier answer; NULL: none. */
OT_MUST_CHECK enum ot_err cli_http_ask_if(const struct cli_http_address *address, const char *method, const char *target, const char *body, const char *if_match, int64_t deadline_us,
    struct cli_http_reply *out, bool *sent_out, char why[static CLI_WHY_BYTES]);
void cli_http_reply_free(struct cli_http_reply *reply);

/* What has come so far; ended: no more will. OK: a whole answer. SHORT: more is wanted. MALFORMED, TOO_LARGE, NO_MEMORY. */
OT_MUST_CHECK enum ot_err cli_http_parse(const char *data, size_t bytes, bool ended, bool head_only, struct cli_http_reply *out);
/* One segment of a path: everything but unreserved characters as %XX. to has 3 * strlen(text) + 1 bytes. */
void cli_http_encode(const char *text, char *to);

#endif
