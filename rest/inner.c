/* What one of our own routes would answer: the same handlers, without a connection. */
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

bool rest_inner_get(struct rest_call *as, const char *target, void (*done)(struct rest_call *inner), void *arg)
{
    char allow[REST_ALLOW_BYTES], text[160];
    struct rest_call *inner = calloc(1, sizeof(*inner));
    if (inner == NULL || (inner->target = strdup(target)) == NULL) goto fail;
    inner->server = as->server;
    inner->broker = as->broker;
    inner->home = as->home;
    inner->started_us = ot_clock_boot_us();
    inner->timeout_ms = as->timeout_ms;
    inner->task.run = told;
    inner->inner_done = done;
    inner->inner_arg = arg;
    inner->method = REST_GET;
    memcpy(inner->request_id, as->request_id, sizeof(inner->request_id));
    memcpy(inner->peer, as->peer, sizeof(inner->peer));
    memcpy(inner->principal, as->principal, sizeof(inner->principal));
    ot_arena_init(&inner->arena, REST_ARENA_MAX);
    rest_json_init(&inner->out, REST_ANSWER_MAX);
    if (rest_uri_parse(&inner->arena, inner->target, strlen(inner->target), &inner->uri, text, sizeof(text)) != OT_OK) goto fail;
    if (rest_route_find(REST_GET, inner->uri.segments, inner->uri.segment_count, &inner->route, inner->params, allow) != OT_OK) goto fail;
    inner->pretty = (inner->route->flags & REST_ANY_TYPE) == 0;
    atomic_store(&inner->stage, REST_WORKING);
    rest_work(inner);
    return true;
fail:
    rest_inner_free(inner);
    return false;
}

void rest_inner_free(struct rest_call *inner)
{
    if (inner == NULL) return;
    rest_json_free(&inner->out);
    json_decref(inner->json);
    ot_arena_free(&inner->arena);
    free(inner->target);
    free(inner);
}
