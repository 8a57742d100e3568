#include "cli/diagnostics.h"
#include "base/util.h"
#include "cli/shared.h"
#include "cli/topic_table.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const struct cli_flag cli_diagnostics_bundle_flags[] = {
    {"file", 'f', "FILE", false, "where to write it; - is stdout (ottla-diagnostics-TIME.tar.gz)"},
    {0},
};
const struct cli_flag cli_diagnostics_slow_flags[] = {
    {"door", 0, "kafka|rest", false, "only those that came by this door"},
    {"longer-than-ms", 0, "MS", false, "only those that took longer"},
    CLI_WATCH_FLAG,
    {0},
};
const struct cli_flag cli_diagnostics_threads_flags[] = {
    {"stacks", 0, NULL, false, "where each is, innermost first; interrupts each for some microseconds"},
    CLI_WATCH_FLAG,
    {0},
};

static bool wants_json(const struct cli_args *args)
{
    const char *output = cli_flag_value(args, "output");
    return output != NULL && (strcmp(output, "json") == 0 || strcmp(output, "ndjson") == 0);
}

/* ---- bundle */

static int write_whole(int fd, const char *data, size_t bytes, const char *path)
{
    for (size_t at = 0; at < bytes;) {
        const ssize_t more = write(fd, data + at, bytes - at);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return cli_fail(CLI_FAILED, NULL, "%s: %s", path, strerror(errno));
        at += (size_t)more;
    }
    return -1;
}

/* Only for its owner: it names topics, clients and addresses. A file that is there is left alone. */
static int write_bundle(const struct cli_args *args, const char *data, size_t bytes)
{
    char usual[64];
    const time_t now = (time_t)(ot_clock_wall_ms() / 1000);
    struct tm parts;
    const char *path = cli_flag_value(args, "file");
    if (path != NULL && strcmp(path, "-") == 0) {
        const int code = write_whole(STDOUT_FILENO, data, bytes, "stdout");
        return code < 0 ? CLI_DONE : code;
    }
    if (path == NULL && gmtime_r(&now, &parts) != NULL && strftime(usual, sizeof(usual), "ottla-diagnostics-%Y%m%dT%H%M%SZ.tar.gz", &parts) > 0) path = usual;
    if (path == NULL) return cli_fail(CLI_FAILED, "ottla diagnostics bundle --file FILE", "no name for the file");
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return cli_fail(errno == EEXIST ? CLI_CONFLICT : CLI_FAILED, errno == EEXIST ? "another --file" : NULL, "%s: %s", path, errno == EEXIST ? "is there already" : strerror(errno));
    int code = write_whole(fd, data, bytes, path);
    if (close(fd) != 0 && code < 0) code = cli_fail(CLI_FAILED, NULL, "%s: %s", path, strerror(errno));
    if (code >= 0) return code;
    if (!cli_flag_given(args, "quiet")) fprintf(stderr, "%s: %zu bytes. Records and secrets are not in it; names of topics, groups, clients and addresses are\n", path, bytes);
    return CLI_DONE;
}

int cli_diagnostics_bundle_run(const struct cli_args *args)
{
    struct cli_api api;
    char *data = NULL;
    size_t bytes = 0;
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_api_bytes(&api, "/v1/diagnostics/bundle", &data, &bytes);
    if (code >= 0) return code;
    code = data == NULL ? CLI_DONE /* --curl */ : write_bundle(args, data, bytes);
    free(data);
    return code;
}

/* ---- slow requests */

int cli_diagnostics_slow_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"at", CLI_COLUMN_TEXT, false}, {"door", CLI_COLUMN_TEXT, false}, {"operation", CLI_COLUMN_TEXT, false}, {"duration_ms", CLI_COLUMN_NUMBER, false},
        {"queued_ms", CLI_COLUMN_NUMBER, false}, {"handled_ms", CLI_COLUMN_NUMBER, false}, {"waited_ms", CLI_COLUMN_NUMBER, false}, {"result", CLI_COLUMN_TEXT, false},
        {"address", CLI_COLUMN_TEXT, false}, {"client_id", CLI_COLUMN_TEXT, false}, {"request_bytes", CLI_COLUMN_BYTES, true}, {"answer_bytes", CLI_COLUMN_BYTES, true},
        {"version", CLI_COLUMN_NUMBER, true}, {"request_id", CLI_COLUMN_TEXT, true},
    };
    static const char *const doors[] = {"kafka", "rest"};
    struct cli_api api;
    json_t *items;
    char *text, target[160];
    int64_t longer_ms = 0;
    uint32_t door = 2;
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_flag_number(args, "longer-than-ms", 0, INT64_MAX / 1000, 0, &longer_ms);
    if (code < 0) code = cli_flag_choice(args, "door", doors, 2, 2, &door);
    if (code >= 0) return code;
    snprintf(target, sizeof(target), "/v1/diagnostics/slow-requests?limit=1000&longer_than_ms=%" PRId64 "%s%s", longer_ms, door < 2 ? "&door=" : "", door < 2 ? doors[door] : "");
    code = cli_api_list(&api, target, NULL, &items, &text);
    if (code >= 0) return code;
    if (json_array_size(items) == 0 && !cli_flag_given(args, "quiet") && !api.only_curl)
        fputs("no request was slow; `ottla config explain ottla.slow.request.ms` says from when on one is\n", stderr);
    return cli_print_list(args, columns, OT_ARRAY_COUNT(columns), items, text);
}

/* ---- memory */

int cli_diagnostics_memory_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"name", CLI_COLUMN_TEXT, false}, {"used_bytes", CLI_COLUMN_BYTES, false}, {"peak_bytes", CLI_COLUMN_BYTES, false}, {"cap_bytes", CLI_COLUMN_BYTES, false},
        {"refused", CLI_COLUMN_NUMBER, false}, {"what", CLI_COLUMN_TEXT, false},
    };
    struct cli_api api;
    json_t *body = NULL;
    char *text = NULL;
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_api_call(&api, "GET", "/v1/diagnostics/memory", NULL, NULL, &body, &text);
    if (code >= 0) return code;
    if (body == NULL) return CLI_DONE; /* --curl */
    if (wants_json(args)) {
        json_decref(body);
        return cli_print_body(text);
    }
    const int64_t resident = cli_json_number(json_object_get(body, "process"), "resident_bytes", 0);
    if (!cli_flag_given(args, "quiet"))
        fprintf(stderr, "the process has %.1f MiB resident; the budget is %.1f MiB (%s)\n", (double)resident / 1048576, (double)cli_json_number(body, "limit_bytes", 0) / 1048576,
            cli_json_text(body, "limit_from", "unknown"));
    free(text);
    code = cli_print_list(args, columns, OT_ARRAY_COUNT(columns), json_incref(json_object_get(body, "pools")), NULL);
    json_decref(body);
    return code;
}

/* ---- threads */

static void print_stacks(const json_t *items)
{
    size_t i, k;
    const json_t *thread, *frame;
    json_array_foreach(items, i, thread)
    {
        printf("%s%s (%" PRId64 "), %s\n", i > 0 ? "\n" : "", cli_json_text(thread, "name", "?"), cli_json_number(thread, "id", 0), cli_json_text(thread, "state", "?"));
        json_array_foreach(json_object_get(thread, "stack"), k, frame) printf("  %s\n", json_string_value(frame));
        if (json_array_size(json_object_get(thread, "stack")) == 0) puts("  (did not answer)");
    }
}

int cli_diagnostics_threads_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"id", CLI_COLUMN_NUMBER, false}, {"name", CLI_COLUMN_TEXT, false}, {"state", CLI_COLUMN_TEXT, false}, {"cpu_ms", CLI_COLUMN_NUMBER, false}, {"runnable_ms", CLI_COLUMN_NUMBER, false},
    };
    struct cli_api api;
    json_t *items;
    char *text;
    const bool stacks = cli_flag_given(args, "stacks");
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_api_list(&api, stacks ? "/v1/diagnostics/threads?limit=1000&stacks=true" : "/v1/diagnostics/threads?limit=1000", NULL, &items, &text);
    if (code >= 0) return code;
    if (!stacks || cli_flag_value(args, "output") != NULL) return cli_print_list(args, columns, OT_ARRAY_COUNT(columns), items, text);
    print_stacks(items);
    json_decref(items);
    free(text);
    return CLI_DONE;
}

/* ---- log levels */

static int print_loggers(const struct cli_args *args, const json_t *body, char *text)
{
    static const struct cli_column columns[] = {{"subsystem", CLI_COLUMN_TEXT, false}, {"level", CLI_COLUMN_TEXT, false}};
    const char *name;
    json_t *level, *rows = json_array();
    json_object_foreach(json_object_get(body, "loggers"), name, level) json_array_append_new(rows, json_pack("{s:s,s:O}", "subsystem", name, "level", level));
    return cli_print_list(args, columns, OT_ARRAY_COUNT(columns), rows, text);
}

/* "net=debug": to debug; "net=": back to the level of all. */
static int read_level(const char *word, json_t *changes)
{
    static const char *const levels[] = {"error", "warn", "info", "debug", "trace"};
    const char *equals = strchr(word, '=');
    char name[64];
    if (equals == NULL || equals == word || (size_t)(equals - word) >= sizeof(name)) return cli_fail(CLI_USAGE, "ottla diagnostics loggers net=debug", "`%s` is not subsystem=level", word);
    snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
    bool known = equals[1] == 0;
    for (size_t i = 0; i < OT_ARRAY_COUNT(levels); i++) known |= strcmp(levels[i], equals + 1) == 0;
    if (!known) return cli_fail(CLI_USAGE, ot_nearest(equals + 1, levels, OT_ARRAY_COUNT(levels)), "`%s` is none of error, warn, info, debug, trace", equals + 1);
    json_object_set_new(changes, name, equals[1] == 0 ? json_null() : json_string(equals + 1));
    return -1;
}

int cli_diagnostics_loggers_run(const struct cli_args *args)
{
    struct cli_api api;
    json_t *body = NULL, *changes = json_object(), *here = NULL;
    char *text = NULL, target[64];
    int code = changes == NULL ? cli_fail(CLI_FAILED, NULL, "out of memory") : cli_api_open(args, &api);
    for (uint32_t i = 0; code < 0 && i < cli_name_count(args); i++) code = read_level(cli_name(args, i), changes);
    if (code < 0) code = cli_api_call(&api, "GET", "/v1/metrics", NULL, NULL, &here, NULL); /* who answers? */
    if (code < 0 && here != NULL) {
        snprintf(target, sizeof(target), "/v1/brokers/%" PRId64 "/loggers", cli_json_number(here, "broker", 0));
        code = json_object_size(changes) > 0 ? cli_api_call(&api, "PATCH", target, changes, "ottla diagnostics loggers", &body, &text) : cli_api_call(&api, "GET", target, NULL, NULL, &body, &text);
    }
    json_decref(changes);
    json_decref(here);
    if (code >= 0 || body == NULL) return code >= 0 ? code : CLI_DONE; /* --curl */
    code = print_loggers(args, body, text);
    json_decref(body);
    return code;
}
