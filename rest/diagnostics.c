/* What is inside of this broker, for whoever looks for the reason: slow requests, memory, threads. */
#include "base/threads.h"
#include "base/os.h"
#include "base/util.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 1024 };

/* ---- slow requests */

static void ms(struct rest_json *out, const char *key, int64_t us) { rest_json_real(out, key, (double)us / 1000); }

static void write_slow(struct rest_call *call, const struct broker_slow_request *one)
{
    struct rest_json *out = &call->out;
    rest_list_item(call);
    rest_json_open(out, NULL, '{');
    rest_json_big(out, "id", (int64_t)one->id);
    rest_json_time(out, "at", one->at_ms);
    rest_json_text(out, "door", one->door);
    rest_json_text(out, "operation", one->operation);
    rest_json_big_or_null(out, "version", one->version);
    ms(out, "duration_ms", one->queued_us + one->handled_us + one->waited_us);
    ms(out, "queued_ms", one->queued_us);
    ms(out, "handled_ms", one->handled_us);
    ms(out, "waited_ms", one->waited_us);
    rest_json_text(out, "result", one->result);
    rest_json_text(out, "address", one->address);
    rest_json_text(out, "client_id", one->client_id[0] == 0 ? NULL : one->client_id);
    rest_json_text(out, "request_id", one->request_id[0] == 0 ? NULL : one->request_id);
    rest_json_big(out, "request_bytes", (int64_t)one->request_bytes);
    rest_json_big(out, "answer_bytes", (int64_t)one->answer_bytes);
    rest_json_close(out, '}');
}

void rest_slow_requests(struct rest_call *call)
{
    static const char *const doors[] = { "kafka", "rest" };
    char extra[64];
    const int door = rest_query_choice(call, "door", doors, 2, -1);
    const int64_t longer_us = rest_query_int(call, "longer_than_ms", 0, INT64_MAX / 1000, 0) * 1000, threshold_ms = broker_config(call->broker)->ottla_slow_request_ms;
    if (!rest_list_begin(call, 's', true)) return;
    struct broker_slow_request *rows = malloc(BROKER_SLOW_KEPT * sizeof(*rows));
    if (rows == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    const uint64_t before = call->list.after_int > 0 ? (uint64_t)call->list.after_int : 0;
    const uint32_t count = call->server->setup.slow == NULL ? 0 : broker_slow_list(call->server->setup.slow, before, rows, BROKER_SLOW_KEPT);
    int64_t last = 0;
    bool more = false;
    for (uint32_t i = 0; i < count && !more; i++) {
        if ((door >= 0 && strcmp(rows[i].door, doors[door]) != 0) || rows[i].queued_us + rows[i].handled_us + rows[i].waited_us < longer_us) continue;
        more = call->list.count == call->list.limit;
        if (more) break;
        write_slow(call, &rows[i]);
        last = (int64_t)rows[i].id;
    }
    free(rows);
    snprintf(extra, sizeof(extra), threshold_ms < 0 ? "\"threshold_ms\":null" : "\"threshold_ms\":%lld", (long long)threshold_ms);
    rest_list_reply_int(call, 's', more, last, -1, extra);
}

/* ---- memory */

void rest_memory(struct rest_call *call)
{
    struct rest_json *out = &call->out;
    const struct ot_mem_budget *budget = call->server->setup.budget;
    struct ot_os_process process;
    const struct mallinfo2 heap = mallinfo2();
    ot_os_process(&process);
    rest_json_open(out, NULL, '{');
    rest_json_big_or_null(out, "limit_bytes", budget == NULL ? -1 : (int64_t)budget->limit_bytes);
    rest_json_text(out, "limit_from", budget == NULL ? NULL : budget->source);
    rest_json_open(out, "pools", '[');
    for (uint32_t i = 0; budget != NULL && i < budget->pool_count; i++) {
        const struct ot_mem_pool *pool = &budget->pools[i];
        rest_json_open(out, NULL, '{');
        rest_json_text(out, "name", pool->name);
        rest_json_text(out, "what", ot_mem_specs[i].what);
        rest_json_big(out, "used_bytes", (int64_t)ot_mem_used_bytes(pool));
        rest_json_big_or_null(out, "peak_bytes", pool->buffers != NULL ? -1 : (int64_t)atomic_load(&pool->peak_bytes));      /* pooled buffers do not keep it */
        rest_json_big(out, "cap_bytes", (int64_t)pool->cap_bytes);
        rest_json_big(out, "refused", (int64_t)atomic_load(&pool->refused_count));
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_open(out, "process", '{');
    rest_json_big(out, "resident_bytes", (int64_t)process.resident_bytes);
    rest_json_big(out, "virtual_bytes", (int64_t)process.virtual_bytes);
    rest_json_close(out, '}');
    rest_json_open(out, "allocator", '{');
    rest_json_big(out, "used_bytes", (int64_t)heap.uordblks);
    rest_json_big(out, "free_bytes", (int64_t)heap.fordblks);
    rest_json_big(out, "mapped_bytes", (int64_t)heap.hblkhd);
    rest_json_close(out, '}');
    rest_json_close(out, '}');
    rest_reply_json(call, 200);
}

/* ---- threads */

static void write_thread(struct rest_call *call, const struct ot_thread_view *thread, bool stacks, const struct ot_functions *functions)
{
    struct rest_json *out = &call->out;
    const char state[2] = { thread->state, 0 };
    rest_list_item(call);
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "id", thread->id);
    rest_json_text(out, "name", thread->name);
    rest_json_text(out, "state", thread->state == 'R' ? "running" : thread->state == 'S' ? "sleeping" : thread->state == 'D' ? "in_disk_wait" : state);
    ms(out, "cpu_ms", (int64_t)thread->cpu_us);
    ms(out, "runnable_ms", (int64_t)thread->queued_us);
    if (stacks) rest_json_open(out, "stack", '[');
    for (uint32_t i = 0; stacks && i < thread->frame_count; i++) {
        char text[OT_FRAME_TEXT_BYTES];
        ot_threads_frame_text(functions, thread->frames[i], text);
        rest_json_text(out, NULL, text);
    }
    if (stacks) rest_json_close(out, ']');
    rest_json_close(out, '}');
}

void rest_threads(struct rest_call *call)
{
    const bool stacks = rest_query_flag(call, "stacks");
    if (!rest_list_begin(call, 't', true)) return;
    struct ot_thread_view *threads = malloc(THREADS_MAX * sizeof(*threads));
    if (threads == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    const uint32_t count = ot_threads_list(threads, THREADS_MAX, stacks);
    struct ot_functions *functions = stacks ? ot_functions_open() : NULL;
    int64_t last = 0;
    bool more = false;
    for (uint32_t i = 0; i < count; i++) {
        if (threads[i].id <= call->list.after_int) continue;
        more = call->list.count == call->list.limit;
        if (more) break;
        write_thread(call, &threads[i], stacks, functions);
        last = threads[i].id;
    }
    ot_functions_close(functions);
    free(threads);
    rest_list_reply_int(call, 't', more, last, count, NULL);
}
