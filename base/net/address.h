/* Addresses as configuration writes them, and listening sockets. May block (names are resolved): at start, not on a loop. */
#ifndef OT_NET_ADDRESS_H
#define OT_NET_ADDRESS_H

#include "base/err.h"

struct ot_net_address { char scheme[32]; char host[256]; uint16_t port; };   /* scheme "" when there is none; host "" = every address */

/* "PLAINTEXT://127.0.0.1:9092", "http://[::1]:9095", "127.0.0.1:9093", "SSL://:9092". MALFORMED: text_out says what is wrong. */
OT_MUST_CHECK enum ot_err ot_net_address_parse(const char *text, size_t bytes, struct ot_net_address *out, char *text_out, size_t text_bytes);
/* Only this machine gets there: "localhost", an address of 127.0.0.0/8, "::1". */
bool ot_net_is_loopback(const char *host);

#define OT_NET_SOCKETS_MAX 8
/* Bind and listen on every address that host means ("localhost": over IPv4 and IPv6; "": all of both; IPv6 that the machine lacks is left out).
 * Port 0: one free port for all of them; *port_out is the port that was bound. Sockets are non-blocking.
 * errors  EXISTS: in use. NOT_FOUND: no such host or address here. IO. Words in text_out. Nothing is open then. */
OT_MUST_CHECK enum ot_err ot_net_listen(const char *host, uint16_t port, int backlog, int fds_out[static OT_NET_SOCKETS_MAX], uint32_t *count_out,
    uint16_t *port_out, char *text_out, size_t text_bytes);

/* The congestion control that connections accepted on this listening socket begin with. "auto": the system's, but cubic in the place of bbr, which arms a timer for what it paces: among
 * brokers that costs more than the sending. NOT_FOUND: the system has none of this name. */
OT_MUST_CHECK enum ot_err ot_net_congestion(int listen_fd, const char *name);

#define OT_NET_NAME_BYTES 64   /* "[ffff:…]:65535" and its end */
/* "127.0.0.1:50412" of the other side or, with local, of ours; an IPv4 address that came over IPv6 is written as IPv4. host_out (46 bytes, or NULL) is the address alone. */
void ot_net_socket_name(int fd, bool local, char out[static OT_NET_NAME_BYTES], char *host_out, uint16_t *port_out);

#endif
