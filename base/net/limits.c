#include "base/net/limits.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct entry { uint8_t ip[16]; uint32_t max; };
struct ot_net_ip_limits { uint32_t count; struct entry entries[]; };

static bool parse_ip(const char *text, size_t bytes, uint8_t out[16])
{
    char host[INET6_ADDRSTRLEN];
    if (bytes >= 2 && text[0] == '[' && text[bytes - 1] == ']') text++, bytes -= 2;
    if (bytes >= sizeof host) return false;
    memcpy(host, text, bytes);
    host[bytes] = 0;
    memset(out, 0, 16);
    out[10] = out[11] = 0xff;
    return inet_pton(AF_INET, host, out + 12) == 1 || inet_pton(AF_INET6, host, out) == 1;
}

static bool parse_count(const char *text, size_t bytes, uint32_t *out)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++)
        if (text[i] < '0' || text[i] > '9' || (number = number * 10 + (uint64_t)(text[i] - '0')) > INT32_MAX) return false;
    *out = (uint32_t)number;
    return bytes > 0;
}

static bool add(struct ot_net_ip_limits *limits, const char *item, size_t bytes)
{
    const char *colon = memrchr(item, ':', bytes);
    struct entry *to = &limits->entries[limits->count];
    const size_t host_bytes = colon == NULL ? 0 : (size_t)(colon - item);
    if (colon == NULL || !parse_count(colon + 1, bytes - host_bytes - 1, &to->max)) return false;
    if (host_bytes == 9 && strncasecmp(item, "localhost", 9) == 0) {
        to[1].max = to->max;
        limits->count += 2;
        return parse_ip("127.0.0.1", 9, to->ip) && parse_ip("::1", 3, to[1].ip);
    }
    limits->count++;
    return parse_ip(item, host_bytes, to->ip);
}

bool ot_net_ip_limits_parse(const char *text, struct ot_net_ip_limits **out, char *why, size_t why_bytes)
{
    size_t items = 1;
    *out = NULL;
    for (const char *at = text; *at != 0; at++) items += *at == ',';
    if (text[strspn(text, " ,")] == 0) return true;
    struct ot_net_ip_limits *limits = items > OT_NET_IP_LIMITS_MAX ? NULL : calloc(1, sizeof *limits + 2 * items * sizeof limits->entries[0]);
    if (limits == NULL) {
        (void)snprintf(why, why_bytes, items > OT_NET_IP_LIMITS_MAX ? "%zu addresses are too many" : "no memory for %zu addresses", items);
        return false;
    }
    for (const char *at = text; *at != 0;) {
        size_t bytes = strcspn(at, ",");
        const char *item = at;
        at += bytes + (at[bytes] == ',');
        while (bytes > 0 && *item == ' ') item++, bytes--;
        while (bytes > 0 && item[bytes - 1] == ' ') bytes--;
        if (bytes == 0 || add(limits, item, bytes)) continue;
        (void)snprintf(why, why_bytes, "%.*s is not ADDRESS:COUNT (names are not looked up)", (int)(bytes < 80 ? bytes : 80), item);
        free(limits);
        return false;
    }
    *out = limits;
    return true;
}

void ot_net_ip_limits_free(struct ot_net_ip_limits *limits) { free(limits); }

uint32_t ot_net_ip_limits_find(const struct ot_net_ip_limits *limits, const uint8_t ip[16], uint32_t otherwise)
{
    for (uint32_t i = 0; limits != NULL && i < limits->count; i++)
        if (memcmp(limits->entries[i].ip, ip, 16) == 0) return limits->entries[i].max;
    return otherwise;
}

/* next_us is when the next one would be due if all came evenly; it may lie up to a second back, which is what may come at once. */

enum { SECOND_US = 1000000 };

int64_t ot_net_pace_wait_us(const struct ot_net_pace *pace, int64_t now_us)
{
    if (pace->per_second == UINT32_MAX) return 0;
    if (pace->per_second == 0) return SECOND_US;
    return pace->next_us > now_us ? pace->next_us - now_us : 0;
}

void ot_net_pace_take(struct ot_net_pace *pace, int64_t now_us)
{
    if (pace->per_second == UINT32_MAX || pace->per_second == 0) return;
    const int64_t step_us = SECOND_US / (int64_t)pace->per_second, back_us = now_us - SECOND_US + step_us;
    pace->next_us = (pace->next_us > back_us ? pace->next_us : back_us) + step_us;
}
