#include "rest/merge.h"
#include "rest/inside.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool number_of(const json_t *value, int64_t *out)       /* also as ?int64=string writes it */
{
    char *end = NULL;
    if (json_is_integer(value)) *out = json_integer_value(value);
    else if (json_is_string(value) && json_string_length(value) > 0) *out = strtoll(json_string_value(value), &end, 10);
    else return false;
    return end == NULL || *end == 0;
}

static int compare_numbers(const json_t *a, const json_t *b)
{
    int64_t one = -1, two = -1;
    (void)number_of(a, &one);
    (void)number_of(b, &two);
    return (one > two) - (one < two);
}

static int compare_texts(const json_t *a, const json_t *b)
{
    if (!json_is_string(a) || !json_is_string(b)) return json_is_string(a) - json_is_string(b);
    const size_t one = json_string_length(a), two = json_string_length(b);
    const int bytes = memcmp(json_string_value(a), json_string_value(b), OT_MIN(one, two));
    return bytes != 0 ? bytes : (one > two) - (one < two);
}

static int by_keys(const void *a, const void *b, void *arg)
{
    const struct rest_merging *how = arg;
    json_t *const *one = a, *const *two = b;
    for (size_t i = 0; i < OT_ARRAY_COUNT(how->keys) && how->keys[i] != NULL; i++) {
        const bool number = how->keys[i][0] == '#';
        const char *name = how->keys[i] + number;
        const int order = (number ? compare_numbers : compare_texts)(json_object_get(*one, name), json_object_get(*two, name));
        if (order != 0) return order;
    }
    return 0;
}

/* "0:1" → the values of these members with colons between them. */
static struct ot_str token_of(struct rest_call *call, const struct rest_merging *how, const json_t *item)
{
    struct rest_json text;
    rest_json_init(&text, 1 << 16);
    for (const char *at = how->token; *at != 0; at++) {
        if (*at == ':') {
            rest_json_put(&text, ":", 1);
            continue;
        }
        const json_t *value = json_object_get(item, how->keys[*at - '0'] + (how->keys[*at - '0'][0] == '#'));
        char number[24];
        if (json_is_string(value)) rest_json_put(&text, json_string_value(value), json_string_length(value));
        else rest_json_put(&text, number, (size_t)snprintf(number, sizeof(number), "%" PRId64, (int64_t)json_integer_value(value)));
    }
    const char *kept = rest_json_failed(&text) ? NULL : ot_arena_str(&call->arena, (struct ot_str){ text.data, (uint32_t)text.bytes, false });
    const struct ot_str out = { kept, (uint32_t)text.bytes, kept == NULL };
    rest_json_free(&text);
    return out;
}

struct pages { json_t **items; size_t count; int64_t total; bool more; };

static void collect(const struct rest_gather *gather, struct pages *out)
{
    size_t cap = 0;
    for (uint32_t i = 0; i < gather->count; i++) cap += json_array_size(json_object_get(rest_gathered_of(gather, gather->brokers[i].broker), "items"));
    out->items = calloc(OT_MAX(cap, (size_t)1), sizeof(json_t *));
    for (uint32_t i = 0; i < gather->count && out->items != NULL; i++) {
        const json_t *page = rest_gathered_of(gather, gather->brokers[i].broker), *items = json_object_get(page, "items"), *total = json_object_get(page, "total");
        for (size_t k = 0; k < json_array_size(items); k++) out->items[out->count++] = json_array_get(items, k);
        out->more |= json_is_string(json_object_get(page, "next_page_token"));
        int64_t count = 0;
        if (page != NULL) out->total = out->total >= 0 && number_of(total, &count) ? out->total + count : -1;
    }
}

static void merged(struct rest_gather *gather)
{
    struct rest_call *call = gather->call;
    const struct rest_merging *how = gather->arg;
    struct pages pages = { 0 };
    if (rest_gather_refused(gather)) return;
    collect(gather, &pages);
    if (pages.items == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the list");
        return;
    }
    if (pages.count > 1) qsort_r(pages.items, pages.count, sizeof(json_t *), by_keys, (void *)(uintptr_t)how);
    size_t at = 0, last = 0;
    for (; at < pages.count && call->list.count < call->list.limit; at++) {
        if (!how->repeats && at > 0 && by_keys(&pages.items[at - 1], &pages.items[at], (void *)(uintptr_t)how) == 0) {     /* it is passing from one to the other */
            pages.total -= pages.total > 0;
            continue;
        }
        rest_list_item(call);
        rest_json_copy(&call->out, NULL, pages.items[at]);
        last = at;
    }
    const bool more = (at < pages.count || pages.more) && call->list.count > 0;
    const struct ot_str next = more ? token_of(call, how, pages.items[last]) : (struct ot_str){ .null = true };
    free(pages.items);
    rest_list_reply(call, how->kind, next, pages.total, rest_gather_extra(gather));
}

bool rest_merge_list(struct rest_call *call, const struct rest_merging *how)
{
    if (!rest_gather_wanted(call)) return false;
    if (!rest_list_begin(call, how->kind, false)) return true;
    rest_gather(call, rest_gather_target(call, NULL, NULL), (void *)(uintptr_t)how, merged);
    return true;
}
