#include "cli/events.h"
#include "base/util.h"
#include "cli/api.h"
#include "cli/shared.h"
#include "cli/topic_table.h"
#include "cli/wait.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 50, FOLLOW_LIMIT = 20, LOOK_MS = 1000, TARGET_BYTES = 4096 };

const struct cli_flag cli_cluster_events_flags[] = {
    {"types", 0, "TYPES", false, "only these, comma separated: types (isr_shrink) or families (isr, leader, broker, topic, group, config, loss, …)"},
    {"topic", 't', "NAME", false, "only of this topic"},
    {"broker", 0, "ID", false, "only those that name this broker"},
    {"group", 0, "NAME", false, "only of this group"},
    {"since", 0, "ID|TIME", false, "only those behind this id, or from this time on (2026-05-01T00:00:00Z)"},
    {"limit", 'n', "N", false, "the newest so many, at most 1000 (50; 20 before --follow)"},
    {"follow", 'f', NULL, false, "go on with what happens, until Ctrl-C"},
    {0},
};

/* ---- asked */

static bool add(char target[static TARGET_BYTES], const char *name, const char *value)
{
    const size_t at = strlen(target);
    if (value == NULL) return true;
    if (strlen(value) * 3 + strlen(name) + 3 > TARGET_BYTES - at) return false;
    const int bytes = snprintf(target + at, TARGET_BYTES - at, "&%s=", name);
    cli_http_encode(value, target + at + bytes);
    return true;
}

static bool target_of(const struct cli_args *args, const char *since, bool oldest, int64_t limit, char target[static TARGET_BYTES])
{
    snprintf(target, TARGET_BYTES, "/v1/events?order=%s&limit=%" PRId64, oldest ? "oldest" : "newest", limit);
    return add(target, "types", cli_flag_value(args, "types")) && add(target, "topic", cli_flag_value(args, "topic")) && add(target, "broker", cli_flag_value(args, "broker"))
        && add(target, "group", cli_flag_value(args, "group")) && add(target, "since", since);
}

/* ---- told */

static void put_ids(char *out, size_t bytes, const char *word, const json_t *ids)
{
    const json_t *id;
    size_t i, at = strlen(out);
    if (!json_is_array(ids)) return;
    at += (size_t)snprintf(out + at, bytes - at, "%s%s ", at > 0 ? ", " : "", word);
    json_array_foreach(ids, i, id) if (at < bytes) at += (size_t)snprintf(out + at, bytes - at, "%s%" JSON_INTEGER_FORMAT, i == 0 ? "" : ",", json_integer_value(id));
    if (i == 0 && at < bytes) snprintf(out + at, bytes - at, "none");
}

static void put_text(char *out, size_t bytes, const char *word, const json_t *value)
{
    const size_t at = strlen(out);
    char *text = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text != NULL && at < bytes) snprintf(out + at, bytes - at, "%s%s %.80s", at > 0 ? ", " : "", word, text);
    free(text);
}

/* The rest of an event in words: what it is about, by type. */
static void detail_of(const json_t *event, char *out, size_t bytes)
{
    static const char *const texts[] = {"name", "from", "to", "election", "partitions", "epoch", "boot", "from_version", "to_version", "dropped", "members", "generation", "count", "kind",
        "from_offset", "end_offset", "kept"};
    static const char *const sets[] = {"removed", "added", "from", "to", "adding", "removing", "isr"};
    out[0] = 0;
    for (size_t i = 0; i < OT_ARRAY_COUNT(sets); i++) put_ids(out, bytes, sets[i], json_object_get(event, sets[i]));
    for (size_t i = 0; i < OT_ARRAY_COUNT(texts); i++) {
        const json_t *value = json_object_get(event, texts[i]);
        if (strcmp(texts[i], "boot") == 0 && json_is_true(json_object_get(event, "first"))) continue; /* there was no stop before it */
        if (value != NULL && !json_is_array(value) && !json_is_null(value)) put_text(out, bytes, texts[i], value);
    }
}

static json_t *with_detail(const json_t *event)
{
    char detail[600];
    json_t *row = json_copy((json_t *)(uintptr_t)event);
    if (row == NULL) return NULL;
    detail_of(event, detail, sizeof(detail));
    json_object_set_new(row, "detail", json_string(detail));
    return row;
}

static const struct cli_column columns[] = {
    {"at", CLI_COLUMN_TEXT, false}, {"type", CLI_COLUMN_TEXT, false}, {"topic", CLI_COLUMN_TEXT, false}, {"partition", CLI_COLUMN_NUMBER, false}, {"broker", CLI_COLUMN_NUMBER, false},
    {"reason", CLI_COLUMN_TEXT, false}, {"detail", CLI_COLUMN_TEXT, false}, {"group", CLI_COLUMN_TEXT, true}, {"id", CLI_COLUMN_NUMBER, true}, {"version", CLI_COLUMN_NUMBER, true},
};

/* The newest last, as one reads a log. */
static int show(const struct cli_args *args, json_t *items, char *text)
{
    const char *output = cli_flag_value(args, "output");
    json_t *rows = output != NULL && strcmp(output, "json") == 0 ? json_incref(items) : json_array();
    for (size_t i = json_array_size(items); rows != items && i > 0; i--) json_array_append_new(rows, with_detail(json_array_get(items, i - 1)));
    json_decref(items);
    return cli_print_list(args, columns, OT_ARRAY_COUNT(columns), rows, text);
}

static void show_line(const json_t *event, bool json)
{
    char detail[600], place[320] = "";
    if (json) {
        json_dumpf(event, stdout, JSON_COMPACT);
        fputc('\n', stdout);
        return;
    }
    detail_of(event, detail, sizeof(detail));
    const char *topic = cli_json_text(event, "topic", NULL), *group = cli_json_text(event, "group", NULL), *reason = cli_json_text(event, "reason", NULL);
    const int64_t partition = cli_json_number(event, "partition", -1), broker = cli_json_number(event, "broker", -1);
    if (topic != NULL && partition >= 0) snprintf(place, sizeof(place), " %s-%" PRId64, topic, partition);
    else if (topic != NULL) snprintf(place, sizeof(place), " %s", topic);
    else if (group != NULL) snprintf(place, sizeof(place), " group %s", group);
    printf("%s %-19s%s", cli_json_text(event, "at", "?"), cli_json_text(event, "type", "?"), place);
    if (broker >= 0) printf(" broker %" PRId64, broker);
    if (reason != NULL) printf(" (%s)", reason);
    printf("%s%s\n", detail[0] != 0 ? ": " : "", detail);
}

static int follow(const struct cli_args *args, struct cli_api *api, int64_t limit)
{
    char target[TARGET_BYTES], since[24];
    const char *output = cli_flag_value(args, "output");
    const bool json = output != NULL && (strcmp(output, "json") == 0 || strcmp(output, "ndjson") == 0);
    int64_t last = -1;
    for (bool first = true;; first = false) {
        json_t *body = NULL;
        size_t i;
        const json_t *event;
        snprintf(since, sizeof(since), "%" PRId64, last);
        if (!target_of(args, last < 0 ? cli_flag_value(args, "since") : since, !first, first ? limit : 1000, target)) return cli_fail(CLI_USAGE, NULL, "too long a filter");
        const int code = cli_api_call(api, "GET", target, NULL, "ottla cluster events --help", &body, NULL);
        if (code >= 0) return code;
        const json_t *items = json_object_get(body, "items");
        const size_t count = json_array_size(items);
        json_array_foreach(items, i, event) show_line(first ? json_array_get(items, count - 1 - i) : event, json);
        if (count > 0) last = cli_json_number(json_array_get(items, first ? 0 : count - 1), "id", last);
        const bool only_curl = body == NULL;
        json_decref(body);
        if (fflush(stdout) != 0) return cli_fail(CLI_FAILED, NULL, "standard output: it takes no more");
        if (only_curl) return CLI_DONE;
        if (count < 1000 && cli_wait(NULL, 0, cli_deadline_us(LOOK_MS)) == OT_ERR_CANCELLED) return CLI_DONE;
    }
}

static int list(const struct cli_args *args, struct cli_api *api, const char *target)
{
    json_t *body = NULL;
    char *text = NULL;
    const int code = cli_api_call(api, "GET", target, NULL, "ottla cluster events --help", &body, &text);
    if (code >= 0) return code;
    json_t *items = json_incref(json_object_get(body, "items"));
    json_decref(body);
    return show(args, items, text);
}

int cli_cluster_events_run(const struct cli_args *args)
{
    struct cli_api api;
    char target[TARGET_BYTES];
    int64_t limit;
    const bool follows = cli_flag_given(args, "follow");
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_flag_number(args, "limit", 1, 1000, follows ? FOLLOW_LIMIT : LIMIT, &limit);
    if (code >= 0) return code;
    if (follows) return follow(args, &api, limit);
    if (!target_of(args, cli_flag_value(args, "since"), false, limit, target)) return cli_fail(CLI_USAGE, NULL, "too long a filter");
    return list(args, &api, target);
}

int cli_topic_history(const struct cli_args *args, const char *topic)
{
    struct cli_api api;
    char target[TARGET_BYTES], encoded[768];
    const int code = cli_api_open(args, &api);
    if (code >= 0) return code;
    if (strlen(topic) > 249) return cli_fail(CLI_USAGE, NULL, "longer than any topic name");
    cli_http_encode(topic, encoded);
    snprintf(target, sizeof(target), "/v1/events?order=newest&limit=1000&types=isr,leader&topic=%s", encoded);
    return list(args, &api, target);
}
