/* Stream sockets of the tools: connect with a deadline, to a host and port or to a unix socket. One thread. */
#ifndef OT_CLI_SOCKET_H
#define OT_CLI_SOCKET_H

#include "base/err.h"

/* "host:port", "[v6]:port", "host" (default_port), "v6" bare. host_out without brackets. False: not an address. */
#define CLI_HOST_BYTES 256
bool cli_address_split(const char *text, size_t bytes, uint16_t default_port, char host_out[static CLI_HOST_BYTES], uint16_t *port_out);

/* Non-blocking, close-on-exec. Every address of the name is tried in turn. NETWORK_EXCEPTION: no address, refused, unreachable; REQUEST_TIMED_OUT;
 * CANCELLED. why: words for people, at least 160 bytes. */
#define CLI_WHY_BYTES 512
OT_MUST_CHECK enum ot_err cli_socket_connect(const char *host, uint16_t port, int64_t deadline_us, int *fd_out, char why[static CLI_WHY_BYTES]);
OT_MUST_CHECK enum ot_err cli_socket_connect_unix(const char *path, int *fd_out, char why[static CLI_WHY_BYTES]);
/* All of it. NETWORK_EXCEPTION: the peer is gone; REQUEST_TIMED_OUT, CANCELLED. */
OT_MUST_CHECK enum ot_err cli_socket_send(int fd, const void *data, size_t bytes, int64_t deadline_us);
/* What is there, at most bytes; *got_out 0 at the end of the stream. Waits for the first byte. */
OT_MUST_CHECK enum ot_err cli_socket_receive(int fd, void *data, size_t bytes, int64_t deadline_us, size_t *got_out);

#endif
