#include "cli/cluster.h"
#include "base/util.h"
#include "cli/job.h"
#include "cli/shared.h"
#include "cli/topic_table.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OFFENDERS_SHOWN = 3 };

const struct cli_flag cli_cluster_health_flags[] = {
    {"local", 0, NULL, false, "only whether the one that answers is alive and ready, for probes"},
    CLI_WATCH_FLAG,
    {0},
};
const struct cli_flag cli_cluster_jobs_flags[] = {
    {"state", 0, "STATE", false, "only queued, running, cancelling, done, failed or cancelled ones"},
    {"cancel", 0, "JOB", false, "cancel this one"},
    {"follow", 0, "JOB", false, "show how far this one is until it ends"},
    CLI_WATCH_FLAG,
    {0},
};
const struct cli_flag cli_cluster_feature_flags[] = {
    {"dry-run", 'n', NULL, false, "check, do nothing"},
    {"allow-downgrade", 0, "safe|unsafe", false, "take a level below the present one"},
    {0},
};

static bool wants_json(const struct cli_args *args)
{
    const char *output = cli_flag_value(args, "output");
    return output != NULL && strcmp(output, "json") == 0;
}

/* ---- info */

static void line(const char *name, const char *value) { printf("%-22s %s\n", name, value == NULL ? "-" : value); }

static void number(const char *name, const json_t *object, const char *member)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, cli_json_number(object, member, 0));
    line(name, text);
}

int cli_cluster_info_run(const struct cli_args *args)
{
    struct cli_api api;
    json_t *body = NULL;
    char *text = NULL, brokers[64], controller[64];
    const char *name;
    json_t *level;
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_api_call(&api, "GET", "/v1/cluster", NULL, NULL, &body, &text);
    if (code >= 0) return code;
    if (wants_json(args)) {
        json_decref(body);
        return cli_print_body(text);
    }
    const json_t *count = json_object_get(body, "brokers"), *lead = json_object_get(body, "controller"), *features = json_object_get(body, "feature_levels");
    snprintf(brokers, sizeof(brokers), "%" PRId64 " of %" PRId64 " alive", cli_json_number(count, "alive", 0), cli_json_number(count, "total", 0));
    if (json_is_integer(json_object_get(lead, "broker"))) snprintf(controller, sizeof(controller), "broker %" PRId64 ", epoch %" PRId64, cli_json_number(lead, "broker", -1), cli_json_number(lead, "epoch", 0));
    else snprintf(controller, sizeof(controller), "none now, the last epoch was %" PRId64, cli_json_number(lead, "epoch", 0));
    line("cluster", cli_json_text(body, "cluster_id", NULL));
    line("health", cli_json_text(body, "health", NULL));
    line("controller", controller);
    line("brokers", brokers);
    number("topics", body, "topics");
    number("partitions", body, "partitions");
    number("offline partitions", body, "offline_partitions");
    number("under-replicated", body, "under_replicated");
    number("under min ISR", body, "under_min_isr");
    json_object_foreach((json_t *)(uintptr_t)features, name, level) printf("%-22s %s %" JSON_INTEGER_FORMAT "\n", "feature", name, json_integer_value(level));
    free(text);
    json_decref(body);
    return cli_print_body(NULL);
}

/* ---- health */

/* Alive and ready, of the one that answers: what a container's probe wants to know. */
static int local_health(const struct cli_args *args, struct cli_api *api)
{
    json_t *body = NULL;
    int code = cli_api_call(api, "GET", "/readyz", NULL, "ottla cluster health", &body, NULL);
    if (code < 0 && !cli_flag_given(args, "quiet")) printf("%s\n", cli_json_text(body, "status", "?"));
    json_decref(body);
    return code < 0 ? CLI_DONE : code == CLI_FAILED ? CLI_PROBLEMS : code;
}

void cli_hints_print(const json_t *body)
{
    const json_t *hint;
    size_t i;
    json_array_foreach(json_object_get(body, "hints"), i, hint) fprintf(stderr, "hint: %s\n", json_string_value(hint));
}

/* How one is named, without what is known of it besides. */
static void name_offender(const json_t *one, char out[static 400])
{
    const char *topic = cli_json_text(one, "topic", NULL), *dir = cli_json_text(one, "log_dir", NULL), *forced = cli_json_text(one, "voters_forced_at", NULL);
    const int64_t broker = cli_json_number(one, "broker", -1);
    if (topic != NULL) snprintf(out, 400, "%s-%" PRId64, topic, cli_json_number(one, "partition", 0));
    else if (dir != NULL) snprintf(out, 400, "broker %" PRId64 ": %s", broker, dir);
    else if (broker >= 0) snprintf(out, 400, "broker %" PRId64, broker);
    else snprintf(out, 400, "%s%s", forced != NULL ? "voters forced at " : "", forced != NULL ? forced : "?");
}

void cli_offenders(const json_t *check, char *out, size_t out_bytes)
{
    size_t i, used = 0;
    const json_t *one;
    const int64_t count = cli_json_number(check, "count", 0);
    out[0] = 0;
    json_array_foreach(json_object_get(check, "offenders"), i, one) {
        char name[400];
        if (i == OFFENDERS_SHOWN || used >= out_bytes) break;
        name_offender(one, name);
        const int more = snprintf(out + used, out_bytes - used, "%s%s", i > 0 ? ", " : "", name);
        used += more > 0 ? (size_t)more : 0;
    }
    if (i > 0 && count > OFFENDERS_SHOWN && used < out_bytes) snprintf(out + used, out_bytes - used, " and %" PRId64 " more", count - OFFENDERS_SHOWN);
}

/* As lines of the table: who is not well in one cell. */
static json_t *flat_checks(const json_t *checks)
{
    json_t *rows = json_array(), *row;
    const json_t *check;
    size_t i;
    json_array_foreach(checks, i, check) {
        char offenders[1300];
        if ((row = json_copy((json_t *)(uintptr_t)check)) == NULL) continue;
        cli_offenders(check, offenders, sizeof(offenders));
        json_object_set_new(row, "offenders", offenders[0] == 0 ? json_null() : json_string(offenders));
        json_array_append_new(rows, row);
    }
    return rows;
}

int cli_cluster_health_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"name", CLI_COLUMN_TEXT, false}, {"ok", CLI_COLUMN_STATE, false}, {"count", CLI_COLUMN_NUMBER, false}, {"since", CLI_COLUMN_TEXT, false},
        {"offenders", CLI_COLUMN_TEXT, false},
    };
    struct cli_api api;
    json_t *body = NULL;
    char *text = NULL;
    int code = cli_api_open(args, &api);
    if (code < 0 && cli_flag_given(args, "local")) return local_health(args, &api);
    if (code < 0) code = cli_api_call(&api, "GET", "/v1/cluster/health", NULL, NULL, &body, &text);
    if (code >= 0) return code;
    const bool good = strcmp(cli_json_text(body, "status", ""), "ok") == 0;
    if (!cli_flag_given(args, "quiet")) {
        if (!wants_json(args)) fprintf(stderr, "%s\n", cli_json_text(body, "status", "?"));
        if (!wants_json(args)) cli_hints_print(body);
        const char *output = cli_flag_value(args, "output");
        json_t *list = json_object_get(body, "checks"), *rows = output != NULL && strcmp(output, "ndjson") == 0 ? json_incref(list) : flat_checks(list);
        code = cli_print_list(args, columns, OT_ARRAY_COUNT(columns), rows, text);
        text = NULL;
    }
    free(text);
    json_decref(body);
    return !good ? CLI_PROBLEMS : code < 0 ? CLI_DONE : code;
}

/* ---- brokers, jobs */

int cli_cluster_brokers_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"broker", CLI_COLUMN_NUMBER, false}, {"state", CLI_COLUMN_STATE, false}, {"is_controller", CLI_COLUMN_TEXT, false}, {"leaders", CLI_COLUMN_NUMBER, false}, {"replicas", CLI_COLUMN_NUMBER, false},
        {"osr_replicas", CLI_COLUMN_NUMBER, false}, {"rack", CLI_COLUMN_TEXT, false}, {"version", CLI_COLUMN_TEXT, false}, {"started_at", CLI_COLUMN_TEXT, true}, {"epoch", CLI_COLUMN_NUMBER, true},
    };
    struct cli_api api;
    json_t *items;
    char *text;
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_api_list(&api, "/v1/brokers?limit=1000", NULL, &items, &text);
    return code >= 0 ? code : cli_print_list(args, columns, OT_ARRAY_COUNT(columns), items, text);
}

static int cancel_job(struct cli_api *api, const char *id)
{
    json_t *body = NULL;
    char target[512], encoded[300];
    if (strlen(id) > 90) return cli_fail(CLI_USAGE, NULL, "--cancel: `%s` is no id", id);
    cli_http_encode(id, encoded);
    snprintf(target, sizeof(target), "/v1/jobs/%s", encoded);
    const int code = cli_api_call(api, "DELETE", target, NULL, "ottla cluster jobs", &body, NULL);
    if (code < 0 && body != NULL) printf("%s: %s\n", id, cli_json_text(body, "state", "?"));
    json_decref(body);
    return code < 0 ? CLI_DONE : code;
}

static int follow_job(const struct cli_args *args, struct cli_api *api, const char *id)
{
    json_t *begun = json_pack("{s:s}", "job_id", id), *ended = NULL;
    char *text = NULL;
    if (begun == NULL) return cli_fail(CLI_USAGE, NULL, "--follow: `%s` is no id", id);
    int code = cli_job_follow(api, begun, &ended, &text);
    json_decref(begun);
    if (code >= 0) return code;
    const bool done = strcmp(cli_json_text(ended, "state", ""), "done") == 0;
    if (wants_json(args)) {
        code = cli_print_body(text);
        text = NULL;
    } else {
        printf("%s: %s\n", id, cli_json_text(ended, "state", "?"));
    }
    free(text);
    json_decref(ended);
    return done ? CLI_DONE : CLI_FAILED;
}

/* Members of the progress as columns of their own. */
static json_t *flat(const json_t *items)
{
    json_t *rows = json_array(), *row;
    size_t i;
    const json_t *item;
    json_array_foreach(items, i, item)
    {
        if ((row = json_copy((json_t *)(uintptr_t)item)) == NULL) continue;
        json_object_set(row, "done_bytes", json_object_get(json_object_get(item, "progress"), "done"));
        json_object_set(row, "total_bytes", json_object_get(json_object_get(item, "progress"), "total"));
        json_object_set(row, "faults", json_object_get(json_object_get(item, "result"), "faults"));
        json_array_append_new(rows, row);
    }
    return rows;
}

int cli_cluster_jobs_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"job_id", CLI_COLUMN_TEXT, false}, {"kind", CLI_COLUMN_TEXT, false}, {"state", CLI_COLUMN_STATE, false}, {"topic", CLI_COLUMN_TEXT, false}, {"done_bytes", CLI_COLUMN_BYTES, false},
        {"total_bytes", CLI_COLUMN_BYTES, false}, {"faults", CLI_COLUMN_NUMBER, false}, {"started_at", CLI_COLUMN_TEXT, false}, {"ended_at", CLI_COLUMN_TEXT, true},
    };
    struct cli_api api;
    json_t *items, *rows;
    char *text, target[128], encoded[96];
    const char *cancel = cli_flag_value(args, "cancel"), *follow = cli_flag_value(args, "follow"), *state = cli_flag_value(args, "state");
    int code = cli_api_open(args, &api);
    if (code >= 0) return code;
    if (cancel != NULL) return cancel_job(&api, cancel);
    if (follow != NULL) return follow_job(args, &api, follow);
    if (state != NULL && strlen(state) > 30) return cli_fail(CLI_USAGE, NULL, "--state: `%s` is none", state);
    cli_http_encode(state == NULL ? "" : state, encoded);
    snprintf(target, sizeof(target), "/v1/jobs?limit=1000%s%s", state == NULL ? "" : "&state=", encoded);
    if ((code = cli_api_list(&api, target, NULL, &items, &text)) >= 0) return code;
    rows = wants_json(args) ? json_incref(items) : flat(items);
    json_decref(items);
    return cli_print_list(args, columns, OT_ARRAY_COUNT(columns), rows, text);
}

/* Members of what was kept as columns of their own. */
static json_t *flat_losses(const json_t *items)
{
    json_t *rows = json_array(), *row;
    size_t i;
    const json_t *item;
    json_array_foreach(items, i, item)
    {
        if ((row = json_copy((json_t *)(uintptr_t)item)) == NULL) continue;
        const json_t *kept = json_object_get(item, "kept");
        json_object_set(row, "kept", json_object_get(kept, "what"));
        json_object_set(row, "kept_bytes", json_object_get(kept, "bytes"));
        json_object_set(row, "folder", json_object_get(kept, "folder"));
        json_array_append_new(rows, row);
    }
    return rows;
}

int cli_cluster_losses_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"at", CLI_COLUMN_TEXT, false}, {"broker", CLI_COLUMN_NUMBER, false}, {"kind", CLI_COLUMN_TEXT, false}, {"reason", CLI_COLUMN_TEXT, false}, {"topic", CLI_COLUMN_TEXT, false},
        {"partition", CLI_COLUMN_NUMBER, false}, {"from_offset", CLI_COLUMN_NUMBER, false}, {"end_offset", CLI_COLUMN_NUMBER, false}, {"kept", CLI_COLUMN_TEXT, false},
        {"kept_bytes", CLI_COLUMN_BYTES, true}, {"high_watermark", CLI_COLUMN_NUMBER, true}, {"leader_epoch", CLI_COLUMN_NUMBER, true}, {"folder", CLI_COLUMN_TEXT, true},
    };
    struct cli_api api;
    json_t *items, *rows;
    char *text;
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_api_list(&api, "/v1/losses?limit=1000", NULL, &items, &text);
    if (code >= 0) return code;
    rows = wants_json(args) ? json_incref(items) : flat_losses(items);
    json_decref(items);
    return cli_print_list(args, columns, OT_ARRAY_COUNT(columns), rows, text);
}

/* ---- feature list | upgrade NAME=LEVEL | downgrade NAME=LEVEL */

static int list_features(const struct cli_args *args, struct cli_api *api)
{
    static const struct cli_column columns[] = {
        {"name", CLI_COLUMN_TEXT, false}, {"level", CLI_COLUMN_NUMBER, false}, {"min", CLI_COLUMN_NUMBER, false}, {"max", CLI_COLUMN_NUMBER, false},
        {"raisable_to", CLI_COLUMN_NUMBER, false},
    };
    json_t *body = NULL;
    char *text = NULL;
    const int code = cli_api_call(api, "GET", "/v1/cluster/features", NULL, NULL, &body, &text);
    if (code >= 0) return code;
    const int printed = cli_print_list(args, columns, OT_ARRAY_COUNT(columns), json_incref(json_object_get(body, "features")), text);
    json_decref(body);
    return printed;
}

static int change_features(const struct cli_args *args, struct cli_api *api)
{
    json_t *changes = json_object(), *body = NULL;
    const char *downgrade = cli_flag_value(args, "allow-downgrade");
    char target[128];
    int code = changes == NULL ? cli_fail(CLI_FAILED, NULL, "out of memory") : -1;
    for (uint32_t i = 1; code < 0 && i < cli_name_count(args); i++) {
        const char *pair = cli_name(args, i), *equals = strchr(pair, '=');
        char name[128], *end = NULL;
        const long level = equals == NULL ? -1 : strtol(equals + 1, &end, 10);
        if (equals == NULL || *end != 0 || end == equals + 1 || level < 0 || (size_t)(equals - pair) >= sizeof(name)) {
            code = cli_fail(CLI_USAGE, "ottla cluster feature upgrade transaction.version=2", "`%s` is not name=level", pair);
            break;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(equals - pair), pair);
        json_object_set_new(changes, name, json_integer(level));
    }
    if (code < 0 && json_object_size(changes) == 0) code = cli_fail(CLI_USAGE, "ottla cluster feature upgrade transaction.version=2", "name=level is missing");
    if (code < 0 && downgrade != NULL && strcmp(downgrade, "safe") != 0 && strcmp(downgrade, "unsafe") != 0) code = cli_fail(CLI_USAGE, "--allow-downgrade safe", "--allow-downgrade: `%s`", downgrade);
    snprintf(target, sizeof(target), "/v1/cluster/features?validate_only=%s%s%s", cli_flag_given(args, "dry-run") ? "true" : "false", downgrade != NULL ? "&allow_downgrade=" : "",
        downgrade != NULL ? downgrade : "");
    if (code < 0) code = cli_api_call(api, "PATCH", target, changes, "ottla cluster feature list", &body, NULL);
    if (code < 0 && !cli_flag_given(args, "quiet")) puts(cli_flag_given(args, "dry-run") ? "would be accepted" : "set");
    json_decref(changes);
    json_decref(body);
    return code < 0 ? CLI_DONE : code;
}

int cli_cluster_feature_run(const struct cli_args *args)
{
    static const char *const verbs[] = {"list", "upgrade", "downgrade"};
    struct cli_api api;
    const char *verb = cli_name_count(args) == 0 ? "list" : cli_name(args, 0);
    int code = cli_api_open(args, &api);
    if (code >= 0) return code;
    if (strcmp(verb, "list") == 0) return list_features(args, &api);
    if (strcmp(verb, "upgrade") == 0) return change_features(args, &api);
    if (strcmp(verb, "downgrade") != 0) return cli_fail(CLI_USAGE, ot_nearest(verb, verbs, 3), "cluster feature: `%s` is none of list, upgrade, downgrade", verb);
    if (!cli_flag_given(args, "allow-downgrade")) return cli_fail(CLI_USAGE, "--allow-downgrade safe", "a level is lowered only with --allow-downgrade");
    return change_features(args, &api);
}
