#include "rest/once.h"
#include "base/util.h"
#include "rest/inside.h"
#include <stdlib.h>
#include <string.h>

#define DAY_US (INT64_C(24) * 3600 * 1000000)
enum { HEADERS = 3 };
static const char *const kept_headers[HEADERS] = { "Location", "ETag", "Ottla-Metadata-Offset" };

struct rest_once {
    struct rest_once *older, *newer;
    char *key; size_t key_bytes;               /* principal, zero, key */
    uint64_t print[2];                         /* of method, target and body */
    int64_t at_us;
    bool working;
    int status;
    const char *content_type;                  /* static text */
    char *headers[HEADERS];                    /* NULL: none */
    char *body; size_t body_bytes;
};
struct rest_onces { struct ot_map by_key; struct rest_once *oldest, *newest; size_t bytes; };

static size_t size_of(const struct rest_once *once) { return sizeof(*once) + once->key_bytes + once->body_bytes; }

static void forget(struct rest_onces *onces, struct rest_once *once)
{
    (void)ot_map_remove(&onces->by_key, once->key, once->key_bytes);
    if (once->older != NULL) once->older->newer = once->newer;
    else onces->oldest = once->newer;
    if (once->newer != NULL) once->newer->older = once->older;
    else onces->newest = once->older;
    onces->bytes -= size_of(once);
    for (int i = 0; i < HEADERS; i++) free(once->headers[i]);
    free(once->body);
    free(once->key);
    free(once);
}

/* What is too old goes, and the oldest when there are too many; what is in work stays. */
static void make_room(struct rest_onces *onces, int64_t now_us)
{
    for (struct rest_once *once = onces->oldest, *next; once != NULL; once = next) {
        next = once->newer;
        if (now_us - once->at_us < DAY_US && onces->by_key.count < REST_ONCE_KEYS && onces->bytes < REST_ONCE_BYTES) return;
        if (!once->working) forget(onces, once);
    }
}

static void print_of(const struct rest_call *call, uint64_t out[static 2])
{
    const void *body = call->body == NULL ? "" : (const void *)call->body->data;
    const size_t bytes = call->body == NULL ? 0 : call->body->bytes;
    for (uint64_t seed = 0; seed < 2; seed++) {
        const uint64_t target = ot_hash64(call->target, strlen(call->target), seed + 1) ^ (uint64_t)call->method;
        out[seed] = ot_hash64(body, bytes, target);
    }
}

static void replay(struct rest_call *call, const struct rest_once *once)
{
    for (int i = 0; i < HEADERS; i++)
        if (once->headers[i] != NULL) rest_header(call, kept_headers[i], ot_arena_str(&call->arena, ot_str_of(once->headers[i])));
    rest_header(call, "Idempotency-Replayed", "true");
    rest_json_put(&call->out, once->body, once->body_bytes);
    rest_reply_raw(call, once->status, once->content_type);
}

static struct rest_once *add(struct rest_onces *onces, const char *key, size_t key_bytes, int64_t now_us)
{
    struct rest_once *once = calloc(1, sizeof(*once));
    if (once == NULL || (once->key = malloc(key_bytes)) == NULL || ot_map_put(&onces->by_key, key, key_bytes, once) != OT_OK) {
        if (once != NULL) free(once->key);
        free(once);
        return NULL;
    }
    memcpy(once->key, key, key_bytes);
    once->key_bytes = key_bytes;
    once->at_us = now_us;
    once->working = true;
    once->older = onces->newest;
    if (once->older != NULL) once->older->newer = once;
    else onces->oldest = once;
    onces->newest = once;
    onces->bytes += size_of(once);
    return once;
}

static bool is_key(const char *text)
{
    const size_t bytes = strlen(text);
    for (size_t i = 0; i < bytes; i++)
        if (text[i] <= 0x20 || text[i] > 0x7e) return false;
    return bytes >= 1 && bytes <= REST_ONCE_KEY_BYTES;
}

static struct rest_onces *onces_of(struct rest_server *server)
{
    if (server->onces != NULL) return server->onces;
    server->onces = calloc(1, sizeof(*server->onces));
    if (server->onces != NULL) ot_map_init(&server->onces->by_key);
    return server->onces;
}

bool rest_once_begin(struct rest_call *call)
{
    char key[sizeof(call->principal) + REST_ONCE_KEY_BYTES + 1];
    uint64_t print[2];
    if (call->once_key == NULL) return false;
    if (!is_key(call->once_key)) {
        rest_problem_http(call, "HTTP_BAD_REQUEST", "Idempotency-Key must be 1 to %d visible ASCII characters", REST_ONCE_KEY_BYTES);
        return true;
    }
    struct rest_onces *onces = onces_of(call->server);
    const int64_t now_us = ot_clock_boot_us();
    const size_t principal_bytes = strlen(call->principal) + 1, key_bytes = principal_bytes + strlen(call->once_key);
    memcpy(key, call->principal, principal_bytes);
    memcpy(key + principal_bytes, call->once_key, strlen(call->once_key));
    print_of(call, print);
    if (onces != NULL) make_room(onces, now_us);
    struct rest_once *once = onces == NULL ? NULL : ot_map_get(&onces->by_key, key, key_bytes);
    if (once != NULL && (once->print[0] != print[0] || once->print[1] != print[1])) {
        rest_problem_http(call, "HTTP_KEY_REUSED", "the Idempotency-Key '%.100s' came before with another request", call->once_key);
        return true;
    }
    if (once != NULL && once->working) {
        rest_problem(call, OT_ERR_BUSY, "the first request with this Idempotency-Key is still in work");
        return true;
    }
    if (once != NULL) {
        replay(call, once);
        return true;
    }
    once = onces == NULL ? NULL : add(onces, key, key_bytes, now_us);
    if (once == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory to keep the Idempotency-Key");
        return true;
    }
    memcpy(once->print, print, sizeof(print));
    call->once = once;
    return false;
}

/* False: no memory; then it is as if there had been no key. */
static bool keep_answer(struct rest_onces *onces, struct rest_once *once, const struct rest_call *call)
{
    onces->bytes -= size_of(once);
    for (uint32_t i = 0; i < call->header_count; i++)
        for (int k = 0; k < HEADERS; k++)
            if (strcmp(call->headers[i].name, kept_headers[k]) == 0 && once->headers[k] == NULL && (once->headers[k] = strdup(call->headers[i].value)) == NULL) goto fail;
    if (call->out.bytes > 0 && (once->body = malloc(call->out.bytes)) == NULL) goto fail;
    if (call->out.bytes > 0) memcpy(once->body, call->out.data, call->out.bytes);
    once->body_bytes = call->out.bytes;
    once->status = call->status;
    once->content_type = call->content_type;
    onces->bytes += size_of(once);
    return true;
fail:
    onces->bytes += size_of(once);
    return false;
}

void rest_once_answered(struct rest_call *call)
{
    struct rest_once *once = call->once;
    if (once == NULL) return;
    call->once = NULL;
    once->working = false;
    const bool final = call->status < 500 && call->status != 429 && !rest_json_failed(&call->out);
    if (!final || !keep_answer(call->server->onces, once, call)) forget(call->server->onces, once);
}

void rest_onces_free(struct rest_server *server)
{
    struct rest_onces *onces = server->onces;
    while (onces != NULL && onces->oldest != NULL) forget(onces, onces->oldest);
    if (onces != NULL) ot_map_free(&onces->by_key);
    free(onces);
}
