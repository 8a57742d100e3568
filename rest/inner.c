/* Requests to our own routes without a connection: asked by a handler, or passed on by another broker. The same admission, the same handlers. */
#include "base/util.h"
#include "rest/inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void told(struct ot_task *task)
{
    struct rest_call *inner = OT_CONTAINER(task, struct rest_call, task);
    inner->inner_done(inner);
}

struct rest_call *rest_inner_start(const struct rest_inner_ask *ask, void (*done)(struct rest_call *inner), void *arg)
{
    struct rest_server *server = ask->server;
    struct rest_call *inner = calloc(1, sizeof(*inner));
    if (inner == NULL || (inner->target = strdup(ask->target)) == NULL) {
        free(inner);
        return NULL;
    }
    inner->server = server;
    inner->broker = server->broker;
    inner->home = server->exec;
    inner->started_us = ot_clock_boot_us();
    inner->timeout_ms = 30000;
    inner->task.run = told;
    inner->inner_done = done;
    inner->inner_arg = arg;
    inner->arrived = true;
    inner->given = ask->headers;
    inner->given_count = ask->header_count;
    inner->given_body = ask->body;
    snprintf(inner->request_id, sizeof(inner->request_id), "%s", ask->request_id);
    snprintf(inner->peer, sizeof(inner->peer), "%s", ask->address);
    snprintf(inner->principal, sizeof(inner->principal), "%s", ask->principal);
    ot_arena_init(&inner->arena, REST_ARENA_MAX);
    rest_json_init(&inner->out, REST_ANSWER_MAX);
    if (!rest_admit_request(inner, ask->method)) {
        ot_exec_post(server->exec, &inner->task);              /* refused: that is the answer */
        return inner;
    }
    if ((inner->route->flags & REST_EVENTS) != 0) {
        rest_problem_http(inner, "HTTP_NOT_ACCEPTABLE", "a stream is served where it was asked for");
        ot_exec_post(server->exec, &inner->task);
        return inner;
    }
    if (ask->timeout_ms > 0) inner->timeout_ms = OT_MIN(inner->timeout_ms, ask->timeout_ms);
    inner->pretty |= ask->pretty && (inner->route->flags & REST_ANY_TYPE) == 0;
    atomic_store(&inner->stage, REST_WORKING);
    rest_work(inner);
    return inner;
}

bool rest_inner_get(struct rest_call *as, const char *target, bool pretty, void (*done)(struct rest_call *inner), void *arg)
{
    const struct rest_inner_ask ask = { .server = as->server, .method = "GET", .target = target, .request_id = as->request_id, .address = as->peer, .principal = as->principal,
        .timeout_ms = as->timeout_ms, .pretty = pretty };
    return rest_inner_start(&ask, done, arg) != NULL;
}

void rest_inner_free(struct rest_call *inner)
{
    if (inner == NULL) return;
    ot_buf_unref(inner->body);
    rest_json_free(&inner->out);
    json_decref(inner->json);
    ot_arena_free(&inner->arena);
    free(inner->target);
    free(inner);
}
