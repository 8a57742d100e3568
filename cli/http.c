#include "cli/http.h"
#include "base/util.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define REST_PORT 9095

enum ot_err cli_http_address(const char *url, struct cli_http_address *out, char why[static CLI_WHY_BYTES])
{
    *out = (struct cli_http_address){0};
    if (strncmp(url, "unix:", 5) == 0 && url[5] != 0 && strlen(url + 5) < sizeof(out->host)) {
        snprintf(out->host, sizeof(out->host), "%s", url + 5);
        return OT_OK;
    }
    if (strncasecmp(url, "https:", 6) == 0) {
        snprintf(why, CLI_WHY_BYTES, "`%.120s`: this version speaks http:// and unix: only", url);
        return OT_ERR_MALFORMED;
    }
    const char *from = strncasecmp(url, "http://", 7) == 0 ? url + 7 : strstr(url, "://") == NULL ? url : "";
    size_t bytes = strcspn(from, "/");
    const bool good = (from[bytes] == 0 || from[bytes + 1] == 0) && cli_address_split(from, bytes, REST_PORT, out->host, &out->port);
    if (!good) snprintf(why, CLI_WHY_BYTES, "`%.120s` is not http://host:port or unix:/path", url);
    return good ? OT_OK : OT_ERR_MALFORMED;
}

void cli_http_encode(const char *text, char *to)
{
    static const char hex[] = "0123456789ABCDEF";
    for (; *text != 0; text++) {
        const uint8_t c = (uint8_t)*text;
        if (isalnum(c) || strchr("-._~", c) != NULL) {
            *to++ = *text;
        } else {
            *to++ = '%';
            *to++ = hex[c >> 4];
            *to++ = hex[c & 15];
        }
    }
    *to = 0;
}

void cli_http_reply_free(struct cli_http_reply *reply)
{
    free(reply->body);
    reply->body = NULL;
}

/* ---- the answer */

struct head {
    int64_t length; /* -1: not said */
    bool chunked;
    size_t bytes; /* with the empty line */
};

static void keep(char *to, size_t to_bytes, const char *value, size_t bytes)
{
    snprintf(to, to_bytes, "%.*s", (int)OT_MIN(bytes, to_bytes - 1), value);
}

static bool is_name(const char *line, size_t name_bytes, const char *name)
{
    return strlen(name) == name_bytes && strncasecmp(line, name, name_bytes) == 0;
}

static enum ot_err take_header(const char *line, size_t bytes, struct head *head, struct cli_http_reply *out)
{
    const char *colon = memchr(line, ':', bytes);
    if (colon == NULL || colon == line || line[0] == ' ' || line[0] == '\t') return OT_ERR_MALFORMED;
    const size_t name_bytes = (size_t)(colon - line);
    const char *value = colon + 1, *end = line + bytes;
    while (value < end && (*value == ' ' || *value == '\t')) value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t')) end--;
    const size_t value_bytes = (size_t)(end - value);
    if (is_name(line, name_bytes, "content-length")) {
        int64_t length = 0;
        if (value_bytes == 0 || value_bytes > 15) return OT_ERR_MALFORMED;
        for (size_t i = 0; i < value_bytes; i++) {
            if (value[i] < '0' || value[i] > '9') return OT_ERR_MALFORMED;
            length = length * 10 + (value[i] - '0');
        }
        if (head->length >= 0 && head->length != length) return OT_ERR_MALFORMED;
        head->length = length;
    } else if (is_name(line, name_bytes, "transfer-encoding")) {
        if (!is_name(value, value_bytes, "chunked")) return OT_ERR_MALFORMED;
        head->chunked = true;
    } else if (is_name(line, name_bytes, "content-type")) {
        keep(out->content_type, sizeof(out->content_type), value, value_bytes);
    } else if (is_name(line, name_bytes, "ottla-request-id")) {
        keep(out->request_id, sizeof(out->request_id), value, value_bytes);
    } else if (is_name(line, name_bytes, "etag")) {
        keep(out->etag, sizeof(out->etag), value, value_bytes);
    } else if (is_name(line, name_bytes, "location")) {
        keep(out->location, sizeof(out->location), value, value_bytes);
    }
    return OT_OK;
}

static enum ot_err take_status(const char *line, size_t bytes, struct cli_http_reply *out)
{
    if (bytes < 12 || strncmp(line, "HTTP/1.", 7) != 0 || !isdigit((uint8_t)line[7]) || line[8] != ' ') return OT_ERR_MALFORMED;
    if (!isdigit((uint8_t)line[9]) || !isdigit((uint8_t)line[10]) || !isdigit((uint8_t)line[11]) || (bytes > 12 && line[12] != ' ')) return OT_ERR_MALFORMED;
    out->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    return out->status < 100 ? OT_ERR_MALFORMED : OT_OK;
}

static enum ot_err parse_head(const char *data, size_t bytes, struct head *head, struct cli_http_reply *out)
{
    *head = (struct head){.length = -1};
    out->content_type[0] = out->request_id[0] = out->location[0] = out->etag[0] = 0;
    for (size_t at = 0, lines = 0;; lines++) {
        const char *feed = at < bytes ? memchr(data + at, '\n', bytes - at) : NULL;
        if (feed == NULL) return bytes > CLI_HTTP_HEAD_MAX ? OT_ERR_TOO_LARGE : lines == 0 && bytes >= 5 && strncmp(data, "HTTP/", 5) != 0 ? OT_ERR_MALFORMED : OT_ERR_SHORT;
        size_t line_bytes = (size_t)(feed - data) - at;
        const char *line = data + at;
        at += line_bytes + 1;
        if (at > CLI_HTTP_HEAD_MAX) return OT_ERR_TOO_LARGE;
        if (line_bytes > 0 && line[line_bytes - 1] == '\r') line_bytes--;
        if (line_bytes == 0 && lines > 0) {
            head->bytes = at;
            return OT_OK;
        }
        const enum ot_err err = lines == 0 ? take_status(line, line_bytes, out) : take_header(line, line_bytes, head, out);
        if (err != OT_OK) return err;
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* to NULL: only measures. */
static enum ot_err unchunk(const char *data, size_t bytes, char *to, size_t *body_bytes_out)
{
    size_t at = 0, total = 0;
    for (;;) {
        size_t size = 0, digits = 0;
        while (at < bytes && hex_digit(data[at]) >= 0 && digits < 8) size = size * 16 + (size_t)hex_digit(data[at++]), digits++;
        const char *feed = at < bytes ? memchr(data + at, '\n', bytes - at) : NULL;
        if (at < bytes && (digits == 0 || (data[at] != '\r' && data[at] != '\n' && data[at] != ';' && data[at] != ' '))) return OT_ERR_MALFORMED;
        if (feed == NULL) return bytes - at > CLI_HTTP_HEAD_MAX ? OT_ERR_MALFORMED : OT_ERR_SHORT;
        at = (size_t)(feed - data) + 1;
        if (size == 0) break; /* trailers are not waited for: the connection is closed anyhow */
        if (total + size > CLI_HTTP_BODY_MAX) return OT_ERR_TOO_LARGE;
        if (bytes - at < size + 2) return OT_ERR_SHORT;
        if (to != NULL) memcpy(to + total, data + at, size);
        total += size;
        at += size;
        if (data[at] == '\r') at++;
        if (at >= bytes) return OT_ERR_SHORT;
        if (data[at++] != '\n') return OT_ERR_MALFORMED;
    }
    *body_bytes_out = total;
    return OT_OK;
}

enum ot_err cli_http_parse(const char *data, size_t bytes, bool ended, bool head_only, struct cli_http_reply *out)
{
    struct head head;
    size_t body_bytes = 0;
    enum ot_err err;
    do { /* 100 Continue and its like are passed over */
        err = parse_head(data, bytes, &head, out);
        if (err == OT_OK && out->status < 200) data += head.bytes, bytes -= head.bytes;
    } while (err == OT_OK && out->status < 200);
    if (err == OT_ERR_SHORT && ended) return OT_ERR_MALFORMED;
    if (err != OT_OK) return err;
    data += head.bytes;
    bytes -= head.bytes;
    const bool bare = head_only || out->status == 204 || out->status == 304;
    if (bare) return OT_OK;
    if (head.chunked) err = unchunk(data, bytes, NULL, &body_bytes);
    else if (head.length > (int64_t)CLI_HTTP_BODY_MAX || bytes > CLI_HTTP_BODY_MAX + CLI_HTTP_HEAD_MAX) err = OT_ERR_TOO_LARGE;
    else if (head.length >= 0) body_bytes = (size_t)head.length, err = bytes < body_bytes ? OT_ERR_SHORT : OT_OK;
    else body_bytes = bytes, err = ended ? OT_OK : OT_ERR_SHORT;
    if (err != OT_OK) return err == OT_ERR_SHORT && ended ? OT_ERR_MALFORMED : err;
    if ((out->body = malloc(body_bytes + 1)) == NULL) return OT_ERR_NO_MEMORY;
    if (head.chunked) err = unchunk(data, bytes, out->body, &body_bytes);
    else if (body_bytes > 0) memcpy(out->body, data, body_bytes);
    out->body[body_bytes] = 0;
    out->body_bytes = body_bytes;
    return err;
}

/* ---- the request */

static enum ot_err send_request(int fd, const struct cli_http_address *address, const char *method, const char *target, const char *body, const char *if_match,
    int64_t deadline_us)
{
    char host[CLI_HOST_BYTES + 16], condition[128] = "", *text = NULL;
    if (if_match != NULL) snprintf(condition, sizeof(condition), "If-Match: %.90s\r\n", if_match);
    if (address->port == 0) snprintf(host, sizeof(host), "localhost");
    else snprintf(host, sizeof(host), strchr(address->host, ':') != NULL ? "[%s]:%u" : "%s:%u", address->host, address->port);
    const int bytes = body == NULL
                          ? asprintf(&text, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\nUser-Agent: ottla\r\nConnection: close\r\n%s\r\n", method, target, host, condition)
                          : asprintf(&text,
                                "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\nUser-Agent: ottla\r\nConnection: close\r\n"
                                "%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                                method, target, host, condition, strlen(body), body);
    if (bytes < 0) return OT_ERR_NO_MEMORY;
    const enum ot_err err = cli_socket_send(fd, text, (size_t)bytes, deadline_us);
    free(text);
    return err;
}

static enum ot_err receive(int fd, bool head_only, int64_t deadline_us, struct cli_http_reply *out)
{
    char *data = NULL;
    size_t bytes = 0, cap = 0, tried = 0;
    enum ot_err err = OT_ERR_SHORT;
    for (bool ended = false; err == OT_ERR_SHORT && !ended;) {
        if (cap - bytes < 16384) {
            char *more = cap > 2 * CLI_HTTP_BODY_MAX ? NULL : realloc(data, cap * 2 + 32768);
            if (more == NULL) {
                err = OT_ERR_NO_MEMORY;
                break;
            }
            data = more;
            cap = cap * 2 + 32768;
        }
        size_t got = 0;
        if ((err = cli_socket_receive(fd, data + bytes, cap - bytes, deadline_us, &got)) != OT_OK) break;
        bytes += got;
        ended = got == 0;
        err = OT_ERR_SHORT;
        if (ended || bytes < 65536 || bytes >= tried * 2) { /* a long one is looked at again when it has doubled, and at its end */
            tried = bytes;
            err = cli_http_parse(data, bytes, ended, head_only, out);
        }
    }
    free(data);
    return err;
}

enum ot_err cli_http_ask(const struct cli_http_address *address, const char *method, const char *target, const char *body, int64_t deadline_us,
    struct cli_http_reply *out, bool *sent_out, char why[static CLI_WHY_BYTES])
{
    return cli_http_ask_if(address, method, target, body, NULL, deadline_us, out, sent_out, why);
}

enum ot_err cli_http_ask_if(const struct cli_http_address *address, const char *method, const char *target, const char *body, const char *if_match, int64_t deadline_us,
    struct cli_http_reply *out, bool *sent_out, char why[static CLI_WHY_BYTES])
{
    int fd = -1;
    *out = (struct cli_http_reply){0};
    *sent_out = false;
    enum ot_err err = address->port == 0 ? cli_socket_connect_unix(address->host, &fd, why) : cli_socket_connect(address->host, address->port, deadline_us, &fd, why);
    if (err != OT_OK) return err;
    err = send_request(fd, address, method, target, body, if_match, deadline_us);
    *sent_out = err == OT_OK;
    if (err == OT_OK) err = receive(fd, strcmp(method, "HEAD") == 0, deadline_us, out);
    close(fd);
    if (err == OT_OK) return OT_OK;
    cli_http_reply_free(out);
    const char *words = err == OT_ERR_REQUEST_TIMED_OUT ? "no answer in time" : err == OT_ERR_NETWORK_EXCEPTION ? "the server closed the connection" :
                        err == OT_ERR_CANCELLED ? "interrupted" : err == OT_ERR_MALFORMED ? "what answers there does not speak HTTP, or broke off" : ot_err_text(err);
    if (address->port == 0) snprintf(why, CLI_WHY_BYTES, "%.200s: %s", address->host, words);
    else snprintf(why, CLI_WHY_BYTES, "%.200s:%u: %s", address->host, address->port, words);
    return err;
}
