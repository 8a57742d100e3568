/* Who answers at rest.listeners while the broker is not there yet: its logs are opened, or it waits for other brokers, which may take as long as those are away. A probe or an operator that
 * comes then is told so; a connection that nobody takes would hang. */
#ifndef OT_CLI_REST_WAITING_H
#define OT_CLI_REST_WAITING_H

#include "rest/server.h"
#include <pthread.h>

struct cli_rest_waiting {
    const struct rest_listener *listeners; uint32_t listener_count;
    pthread_t thread;
    int stop_fd;
    bool runs;
};
/* A thread of its own, one connection after the other: /healthz is 200 (it lives), all else 503. Without a thread or descriptors nobody answers, as before. */
void cli_rest_waiting_start(struct cli_rest_waiting *waiting, const struct rest_listener *listeners, uint32_t listener_count);
/* The sockets are the caller's again; returns when the thread is gone. Fine when it never ran. */
void cli_rest_waiting_stop(struct cli_rest_waiting *waiting);

#endif
