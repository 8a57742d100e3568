#include "broker/voters.h"

#include "base/net/address.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool id_of(const char *text, size_t bytes, int32_t *out)
{
    int64_t id = 0;
    if (bytes == 0 || bytes > 10) return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        id = id * 10 + (text[i] - '0');
    }
    *out = (int32_t)id;
    return id <= INT32_MAX;
}

int broker_voters_parse(const char *list, struct coord_listed_voter out[COORD_VOTERS_MAX], char hosts[COORD_VOTERS_MAX][BROKER_VOTER_HOST_BYTES], char *text_out,
    size_t text_bytes)
{
    int count = 0;
    for (const char *at = list == NULL ? "" : list; *at != 0;) {
        at += strspn(at, " \t,");
        size_t bytes = strcspn(at, ",");
        const char *next = at + bytes;
        while (bytes > 0 && (at[bytes - 1] == ' ' || at[bytes - 1] == '\t')) bytes--;
        if (bytes == 0) break;
        const char *sign = memchr(at, '@', bytes);
        struct ot_net_address address;
        char why[200] = "";
        int32_t id = 0;
        if (sign == NULL || !id_of(at, (size_t)(sign - at), &id)) {
            snprintf(text_out, text_bytes, "\"%.*s\" is not ID@HOST:PORT", (int)bytes, at);
            return -1;
        }
        if (ot_net_address_parse(sign + 1, (size_t)(at + bytes - sign - 1), &address, why, sizeof why) != OT_OK || address.host[0] == 0 || address.port == 0) {
            snprintf(text_out, text_bytes, "\"%.*s\" is not ID@HOST:PORT", (int)bytes, at);
            return -1;
        }
        for (int i = 0; i < count; i++) {
            if (out[i].id != id) continue;
            snprintf(text_out, text_bytes, "node %d is there twice", id);
            return -1;
        }
        if (count == COORD_VOTERS_MAX) {
            snprintf(text_out, text_bytes, "there are more than %d voters", COORD_VOTERS_MAX);
            return -1;
        }
        snprintf(hosts[count], BROKER_VOTER_HOST_BYTES, "%s", address.host);
        out[count] = (struct coord_listed_voter){ id, ot_str_of(hosts[count]), address.port };
        count++;
        at = next;
    }
    return count;
}
