/* What REST takes from outside before anything is asked of the broker: request targets, header values, JSON bodies, record data, list shapes. The
 * first byte chooses which; each result is checked against what must hold. */
#include "base/util.h"
#include "rest/accept.h"
#include "rest/json_in.h"
#include "rest/json_out.h"
#include "rest/list.h"
#include "rest/record_text.h"
#include "rest/route.h"
#include "rest/uri.h"

#include <stdlib.h>
#include <string.h>

static void target(const char *text, size_t bytes)
{
    struct ot_arena arena;
    struct rest_uri uri;
    char words[160];
    ot_arena_init(&arena, 4 << 20);
    enum ot_err err = rest_uri_parse(&arena, text, bytes, &uri, words, sizeof(words));
    OT_ASSERT(err == OT_OK || err == OT_ERR_MALFORMED || err == OT_ERR_TOO_LARGE || err == OT_ERR_NO_MEMORY);
    if (err == OT_OK) {
        const struct rest_route *route = NULL;
        struct ot_str params[REST_PARAMS_MAX];
        char allow[REST_ALLOW_BYTES], near[REST_NEAR_BYTES];
        size_t decoded = 0;
        for (uint32_t i = 0; i < uri.segment_count; i++) decoded += uri.segments[i].bytes;
        OT_ASSERT(decoded <= bytes);
        for (int method = 0; method <= REST_METHODS; method++) {
            err = rest_route_find((enum rest_method)method, uri.segments, uri.segment_count, &route, params, allow);
            OT_ASSERT((err == OT_OK) == (route != NULL));
            for (uint32_t i = 0; route != NULL && i < uri.query_count; i++) (void)rest_route_takes(route, uri.query[i].name, near);
        }
        for (uint32_t i = 0; i < uri.segment_count; i++) {     /* encoding and decoding again gives the same */
            char *encoded = rest_percent_encode(&arena, uri.segments[i]);
            char *back = encoded == NULL ? NULL : ot_arena_alloc(&arena, strlen(encoded) + 1);
            uint32_t back_bytes = 0;
            if (back == NULL) break;
            OT_ASSERT(rest_percent_decode(ot_str_of(encoded), false, back, &back_bytes));
            OT_ASSERT(back_bytes == uri.segments[i].bytes && memcmp(back, uri.segments[i].data, back_bytes) == 0);
        }
    }
    ot_arena_free(&arena);
}

static void headers(const char *text, size_t bytes)
{
    static const char *const offers[] = { "application/json", "text/csv", "text/plain" };
    static const char *const names[] = { "broker.lan" };
    char *copy = strndup(text, bytes);
    const int best = rest_accept_best(copy, offers, 3);
    OT_ASSERT(best >= -1 && best < 3);
    (void)rest_etag_in(copy, "\"1\"", true);
    (void)rest_media_is(copy, "application/json");
    (void)rest_media_foreign_charset(copy);
    (void)rest_host_is_ours(copy, names, 1);
    (void)rest_origin_is_ours(copy, "127.0.0.1:9095");
    if (rest_request_id_valid(copy)) OT_ASSERT(strlen(copy) <= 64 && strpbrk(copy, "\r\n: ") == NULL);
    free(copy);
}

static void check_faults(const struct rest_faults *faults)
{
    for (uint32_t i = 0; i < OT_MIN(faults->count, (uint32_t)REST_FAULTS_MAX); i++) {
        OT_ASSERT(faults->list[i].pointer[0] == 0 || faults->list[i].pointer[0] == '/');
        OT_ASSERT(faults->list[i].text[0] != 0);
    }
}

/* A body is bounded, then parsed, then read by a table; what parses is copied exactly and pretty text means the same. */
static void body(const char *text, size_t bytes)
{
    struct rest_faults faults = { 0 };
    json_t *value = NULL;
    if (rest_json_scan(text, bytes, REST_JSON_DEPTH_MAX, 20000, NULL, &faults) == OT_OK && rest_json_parse(text, bytes, &value, &faults) == OT_OK) {
        struct rest_json copy, pretty;
        json_t *again = NULL, *nice = NULL, *object = NULL, *array = NULL;
        struct ot_str name = { 0 };
        int64_t number = 0;
        bool flag = false;
        const struct rest_member members[] = { { .name = "name", .kind = REST_TEXT, .required = true, .out = &name, .max = 10 },
            { .name = "partitions", .kind = REST_INT, .out = &number, .min = 1, .max = 5 }, { .name = "dry_run", .kind = REST_BOOL, .out = &flag, .nullable = true },
            { .name = "config", .kind = REST_OBJECT, .out = &object }, { .name = "records", .kind = REST_ARRAY, .out = &array, .max = 3 } };
        rest_json_init(&copy, 16 << 20);
        rest_json_init(&pretty, 16 << 20);
        rest_json_copy(&copy, NULL, value);
        rest_json_pretty(&pretty, copy.data, copy.bytes);
        OT_ASSERT(!rest_json_failed(&copy) && rest_json_parse(copy.data, copy.bytes, &again, &faults) == OT_OK && json_equal(value, again));
        OT_ASSERT(rest_json_parse(pretty.data, pretty.bytes, &nice, &faults) == OT_OK && json_equal(value, nice));
        (void)rest_members(value, "", members, OT_ARRAY_COUNT(members), &faults);
        rest_json_free(&copy);
        rest_json_free(&pretty);
        json_decref(again);
        json_decref(nice);
        json_decref(value);
    }
    check_faults(&faults);
}

/* Any bytes as the value of a record: what is written is JSON. */
static void data(const uint8_t *bytes, size_t size, uint8_t choice)
{
    struct rest_json out;
    struct rest_faults faults = { 0 };
    json_t *value = NULL;
    rest_json_init(&out, 16 << 20);
    rest_json_open(&out, NULL, '{');
    (void)rest_data_write(&out, "value", (struct ot_blob){ bytes, (uint32_t)size, false }, (enum rest_data_form)(choice & 3), choice >> 2);
    rest_json_close(&out, '}');
    OT_ASSERT(!rest_json_failed(&out) && rest_json_parse(out.data, out.bytes, &value, &faults) == OT_OK);
    const char *base64 = json_string_value(json_object_get(json_object_get(value, "value"), "base64"));
    if (base64 != NULL && choice >> 2 == 0) {
        uint8_t *back = malloc(strlen(base64) + 1);
        size_t back_bytes = 0;
        OT_ASSERT(back != NULL && rest_base64_decode(ot_str_of(base64), back, &back_bytes) && back_bytes == size && memcmp(back, bytes, size) == 0);
        free(back);
    }
    json_decref(value);
    rest_json_free(&out);
}

static void shapes(const char *text, size_t bytes, uint8_t choice)
{
    struct rest_json out;
    rest_json_init(&out, 16 << 20);
    (void)rest_list_shape(&out, text, bytes, (enum rest_format)(choice & 3), (choice & 4) != 0 ? ot_str_of("a,b.c,a.b") : (struct ot_str){ .null = true });
    rest_json_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (size < 2) return 0;
    const char *text = (const char *)input + 2;
    switch (input[0] % 5) {
    case 0: target(text, size - 2); break;
    case 1: headers(text, size - 2); break;
    case 2: body(text, size - 2); break;
    case 3: data(input + 2, size - 2, input[1]); break;
    default: shapes(text, size - 2, input[1]); break;
    }
    return 0;
}
