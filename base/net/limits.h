/* How many connections may come, and how fast: limits that may change while we run.
 *
 * thread  each struct under a lock of its owner */
#ifndef OT_NET_LIMITS_H
#define OT_NET_LIMITS_H

#include "base/bytes.h"

/* Addresses with a limit of their own: "ADDRESS:COUNT,…"; an address is IPv4, IPv6 (its last colon is before the count), or localhost for both families. */
struct ot_net_ip_limits;
enum { OT_NET_IP_LIMITS_MAX = 10000 };
/* *out: NULL for none. False: a form or number that is none, too many, or no memory; why has words. Names are not looked up: that would block. */
bool ot_net_ip_limits_parse(const char *text, struct ot_net_ip_limits **out, char *why, size_t why_bytes);
void ot_net_ip_limits_free(struct ot_net_ip_limits *limits);
/* ip: 16 bytes, IPv4 as the mapped address. The limit of that address, or otherwise. */
uint32_t ot_net_ip_limits_find(const struct ot_net_ip_limits *limits, const uint8_t ip[16], uint32_t otherwise);

/* So many a second, evenly; after a pause as many as a second has at once. per_second UINT32_MAX: no limit; 0: nobody. */
struct ot_net_pace { uint32_t per_second; int64_t next_us; };
/* How long to wait until one more may come; 0: now. */
int64_t ot_net_pace_wait_us(const struct ot_net_pace *pace, int64_t now_us);
void ot_net_pace_take(struct ot_net_pace *pace, int64_t now_us);

#endif
