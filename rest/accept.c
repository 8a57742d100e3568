#include "rest/accept.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t') at++;
    return at;
}

/* q in thousandths of the range at [from, to); 1000 without one. */
static int quality(const char *from, const char *to)
{
    for (const char *at = from; at < to; at++) {
        if (*at != ';') continue;
        const char *name = skip_blanks(at + 1);
        if ((name[0] != 'q' && name[0] != 'Q') || name[1] != '=') continue;
        const double q = strtod(name + 2, NULL);
        return q >= 1 ? 1000 : q > 0 ? (int)(q * 1000) : 0;
    }
    return 1000;
}

/* How closely the range names the type: 0 not at all, 1 by its wildcards, 2 by a type wildcard, 3 exactly. */
static int closeness(const char *from, const char *to, const char *type)
{
    const char *end = from;
    while (end < to && *end != ';' && *end != ' ' && *end != '\t') end++;
    const size_t bytes = (size_t)(end - from);
    if (bytes == 3 && memcmp(from, "*/*", 3) == 0) return 1;
    const char *slash = strchr(type, '/');
    const size_t major = (size_t)(slash - type) + 1;
    if (bytes == major + 1 && from[major] == '*' && strncasecmp(from, type, major) == 0) return 2;
    return bytes == strlen(type) && strncasecmp(from, type, bytes) == 0 ? 3 : 0;
}

static int quality_of(const char *accept, const char *type)
{
    int best_close = 0, best = 0;
    for (const char *at = skip_blanks(accept); *at != 0;) {
        const char *end = at + strcspn(at, ",");
        const int close = closeness(at, end, type);
        if (close > best_close) {
            best_close = close;
            best = quality(at, end);
        }
        at = *end == 0 ? end : skip_blanks(end + 1);
    }
    return best;
}

int rest_accept_best(const char *accept, const char *const *offers, uint32_t count)
{
    int best = -1, best_quality = 0;
    if (accept == NULL || *skip_blanks(accept) == 0) return 0;
    for (uint32_t i = 0; i < count; i++) {
        const int q = quality_of(accept, offers[i]);
        if (q <= best_quality) continue;
        best_quality = q;
        best = (int)i;
    }
    return best;
}

bool rest_etag_in(const char *header, const char *etag, bool weak)
{
    for (const char *at = skip_blanks(header); *at != 0;) {
        const char *start = at, *end;
        if (*at == '*') return true;
        const bool is_weak = at[0] == 'W' && at[1] == '/';
        if (is_weak) start += 2;
        if (*start != '"' || (end = strchr(start + 1, '"')) == NULL) return false;
        end++;
        if ((weak || !is_weak) && (size_t)(end - start) == strlen(etag) && memcmp(start, etag, strlen(etag)) == 0) return true;
        at = skip_blanks(end);
        if (*at == ',') at = skip_blanks(at + 1);
    }
    return false;
}

bool rest_media_is(const char *header, const char *type)
{
    if (header == NULL) return false;
    header = skip_blanks(header);
    const size_t bytes = strcspn(header, "; \t");
    return bytes == strlen(type) && strncasecmp(header, type, bytes) == 0;
}

bool rest_media_foreign_charset(const char *header)
{
    const char *at = header == NULL ? NULL : strcasestr(header, "charset=");
    if (at == NULL) return false;
    at += 8;
    at += *at == '"';
    return strncasecmp(at, "utf-8", 5) != 0 && strncasecmp(at, "utf8", 4) != 0 && strncasecmp(at, "us-ascii", 8) != 0;
}

/* The host of "host[:port]" without brackets; false: it is malformed. */
static bool host_name(const char *host, char *out, size_t out_bytes)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : host + strcspn(host, ":");
    if (host[0] == '[' && end == NULL) return false;
    const char *start = host + (host[0] == '[');
    const char *rest = end + (host[0] == '[');
    if (*rest != 0 && (*rest != ':' || rest[1 + strspn(rest + 1, "0123456789")] != 0)) return false;
    if ((size_t)(end - start) >= out_bytes || end == start) return false;
    memcpy(out, start, (size_t)(end - start));
    out[end - start] = 0;
    return true;
}

bool rest_host_is_ours(const char *host, const char *const *names, uint32_t count)
{
    char name[256], address[16];
    if (!host_name(host, name, sizeof(name))) return false;
    if (host[0] == '[') return inet_pton(AF_INET6, name, address) == 1;
    if (inet_pton(AF_INET, name, address) == 1 || strcasecmp(name, "localhost") == 0) return true;
    for (uint32_t i = 0; i < count; i++)
        if (names[i] != NULL && names[i][0] != 0 && strcasecmp(name, names[i]) == 0) return true;
    return false;
}

bool rest_origin_is_ours(const char *origin, const char *host)
{
    const char *rest = strncasecmp(origin, "http://", 7) == 0 ? origin + 7 : strncasecmp(origin, "https://", 8) == 0 ? origin + 8 : NULL;
    return rest != NULL && host != NULL && strcasecmp(rest, host) == 0;
}

bool rest_request_id_valid(const char *id)
{
    size_t bytes = 0;
    for (; id[bytes] != 0 && bytes <= 64; bytes++)
        if (!isalnum((unsigned char)id[bytes]) && strchr("._-", id[bytes]) == NULL) return false;
    return bytes >= 1 && bytes <= 64;
}
