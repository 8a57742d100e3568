/* Waiting on descriptors with a deadline, and Ctrl-C that ends cleanly.
 *
 * The first SIGINT or SIGTERM sets a flag and wakes whoever waits here; the second ends the process at once with 130. One thread. */
#ifndef OT_CLI_WAIT_H
#define OT_CLI_WAIT_H

#include "base/err.h"

struct pollfd;

OT_MUST_CHECK enum ot_err cli_interrupt_install(void); /* IO: no pipe */
bool cli_interrupted(void);
void cli_interrupt_take(void); /* the first one was heeded: what is left to do may wait again. The second still ends at once */

/* As poll(2), until deadline_us (ot_clock_boot_us; INT64_MAX: none). OK: something is ready;
 * REQUEST_TIMED_OUT; CANCELLED: interrupted, also when something is ready. At most CLI_WAIT_MAX descriptors: TOO_LARGE. */
#define CLI_WAIT_MAX 1024
OT_MUST_CHECK enum ot_err cli_wait(struct pollfd *fds, uint32_t count, int64_t deadline_us);
OT_MUST_CHECK enum ot_err cli_wait_one(int fd, short events, int64_t deadline_us);
int64_t cli_deadline_us(int64_t timeout_ms);

#endif
