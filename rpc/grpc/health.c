/* grpc.health.v1: Check, and Watch, which tells every change until the client has enough. */
#include "rpc/grpc/door.h"

#include "base/util.h"

enum { UNKNOWN, SERVING, NOT_SERVING, SERVICE_UNKNOWN };
#define LOOK_US 250000

struct health_own {
    struct rpcg_call *call;
    struct rpcg_health_ask ask;
    struct ot_timer timer;
    int told;                              /* as the client was told last; -1: not yet */
};
const size_t rpcg_own_health = sizeof(struct health_own);

static bool service_known(struct ot_str name)
{
    static const char *const known[] = { "", "ottla.v1.Log", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection" };
    for (size_t i = 0; i < OT_ARRAY_COUNT(known); i++)
        if (ot_str_equal(name, ot_str_of(known[i]))) return true;
    return false;
}

static int status_of(struct rpc_grpc_server *server, struct ot_str service)
{
    struct broker_health health;
    if (!service_known(service)) return SERVICE_UNKNOWN;
    if (atomic_load(&server->draining)) return NOT_SERVING;
    broker_health(server->broker, &health);
    return health.ready ? SERVING : NOT_SERVING;
}

static void put_status(struct ot_writer *writer, const void *arg) { rpcg_put_int(writer, 1, *(const int *)arg); }

static bool decode(struct rpcg_call *call)
{
    struct health_own *own = call->own;
    const char *why = NULL;
    own->call = call;
    own->told = -1;
    if (rpcg_health_decode(call->body, &own->ask, &why) == OT_OK) return true;
    rpcg_fail_text(call, OT_ERR_INVALID_REQUEST, why);
    return false;
}

void rpcg_health_check_start(struct rpcg_call *call)
{
    struct health_own *own = call->own;
    if (!decode(call)) return;
    const int status = status_of(call->server, own->ask.service);
    if (status == SERVICE_UNKNOWN) rpcg_end(call, GRPC_STATUS_NOT_FOUND, "there is no such service");
    else rpcg_reply(call, rpcg_message(put_status, &status));
}

static void look(struct rpcg_call *call)
{
    struct health_own *own = call->own;
    const int status = status_of(call->server, own->ask.service);
    if (call->writing || call->ending || call->cancelled) return;
    if (status != own->told) {
        own->told = status;
        rpcg_send(call, rpcg_message(put_status, &status));
    } else {
        ot_exec_timer_set(&call->server->exec, &own->timer, ot_clock_boot_us() + LOOK_US);
    }
}

static void timer_fired(struct ot_timer *timer) { look(OT_CONTAINER(timer, struct health_own, timer)->call); }

void rpcg_health_watch_start(struct rpcg_call *call)
{
    struct health_own *own = call->own;
    if (!decode(call)) return;
    own->timer.fired = timer_fired;
    look(call);
}

void rpcg_health_watch_sent(struct rpcg_call *call)
{
    if (atomic_load(&call->server->draining)) rpcg_end(call, GRPC_STATUS_UNAVAILABLE, "the server is stopping: connect again");
    else look(call);
}

void rpcg_health_watch_cancel(struct rpcg_call *call, bool draining)
{
    struct health_own *own = call->own;
    if (own != NULL) ot_exec_timer_cancel(&call->server->exec, &own->timer);
    if (!draining) rpcg_end(call, GRPC_STATUS_CANCELLED, "");
    else if (own != NULL && own->told == NOT_SERVING && !call->writing) rpcg_health_watch_sent(call);
    else if (own != NULL && own->call != NULL && !call->writing) look(call);      /* NOT_SERVING first, then the end */
}
