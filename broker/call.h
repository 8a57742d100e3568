/* What every asynchronous call of a door (Kafka, gRPC, REST) into the broker has in common.
 *
 * The door owns the call's memory and keeps it until done(call) runs, once, on the executor `home` that made it: whoever satisfies the
 * call posts it there. done may run before the function that started the call returns only if that function says so. */
#ifndef OT_BROKER_CALL_H
#define OT_BROKER_CALL_H

#include "base/exec.h"
#include "base/arena.h"
#include "base/buf.h"

struct broker;
struct broker_call {
    struct ot_task task;                       /* of the broker */
    struct ot_exec *home;                      /* a serial executor; the call is started on its thread */
    void (*done)(struct broker_call *call);
};

/* For the client who asks: logs, quotas, metrics. Borrowed texts. */
struct broker_client { struct ot_str client_id, software_name, software_version, address, listener; uint16_t port; /* of the client, where it matters */ };

#define BROKER_TEXT_MAX 200                    /* error_message texts, zero-terminated */

#endif
