#include "cli/operate.h"
#include "cli/api.h"
#include "cli/cluster.h"
#include "cli/shared.h"
#include "cli/text.h"
#include "cli/topic_table.h"
#include "cli/wait.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_MS 500

const struct cli_flag cli_cluster_dry_flags[] = {
    {"dry-run", 'n', NULL, false, "check, do nothing"},
    {0},
};
const struct cli_flag cli_cluster_drain_flags[] = {
    {"wait", 0, NULL, false, "until it leads nothing that another broker could lead"},
    {"dry-run", 'n', NULL, false, "check, do nothing"},
    {0},
};
const struct cli_flag cli_cluster_decommission_flags[] = {
    {"wait", 0, NULL, false, "until it holds nothing any more"},
    {"status", 0, NULL, false, "only show how far it is"},
    {"cancel", 0, NULL, false, "it stays, with what it still holds"},
    {"dry-run", 'n', NULL, false, "check, do nothing"},
    {0},
};

static bool wants_json(const struct cli_args *args)
{
    const char *output = cli_flag_value(args, "output");
    return output != NULL && strcmp(output, "json") == 0;
}

/* -1: fine; else the exit code after a message. */
static int open_for(const struct cli_args *args, struct cli_api *api, int64_t *broker)
{
    if (!cli_number(cli_name(args, 0), 0, INT32_MAX, broker)) return cli_fail(CLI_USAGE, "ottla cluster brokers", "`%s` is not the id of a broker", cli_name(args, 0));
    return cli_api_open(args, api);
}

static int ask(struct cli_api *api, const char *method, int64_t broker, const char *rest, json_t **body, char **text)
{
    char target[160];
    snprintf(target, sizeof(target), "/v1/brokers/%" PRId64 "%s%s", broker, rest, cli_flag_given(api->args, "dry-run") && strcmp(method, "GET") != 0 ? "?validate_only=true" : "");
    return cli_api_call(api, method, target, NULL, "ottla cluster brokers", body, text);
}

/* One line for people, the body for programs. */
static int tell(const struct cli_args *args, json_t *body, char *text, void (*line)(const json_t *body))
{
    if (body == NULL || (!wants_json(args) && cli_flag_given(args, "quiet"))) {
        json_decref(body);
        free(text);
        return CLI_DONE;
    }
    if (wants_json(args)) {
        json_decref(body);
        return cli_print_body(text);
    }
    line(body);
    json_decref(body);
    free(text);
    return CLI_DONE;
}

static bool is_state(const json_t *body, const char *state) { return strcmp(cli_json_text(body, "state", ""), state) == 0; }

/* Asks until the state is the one. -1: it is, with the last body; else the exit code. */
static int wait_for(struct cli_api *api, int64_t broker, const char *rest, const char *state, void (*line)(const json_t *body), json_t **body, char **text)
{
    const bool quiet = cli_flag_given(api->args, "quiet") || wants_json(api->args);
    int64_t told = -1;
    while (*body != NULL && !is_state(*body, state)) {
        const int64_t left = cli_json_number(*body, "replicas", cli_json_number(*body, "leaders_to_move", 0));
        if (!quiet && left != told) line(*body);
        told = left;
        ot_ignore(cli_wait(NULL, 0, cli_deadline_us(LOOK_MS)), "asked again, or interrupted");
        if (cli_interrupted()) return CLI_INTERRUPTED;
        json_decref(*body);
        free(*text);
        *body = NULL;
        *text = NULL;
        const int code = ask(api, "GET", broker, rest, body, text);
        if (code >= 0) return code;
    }
    return -1;
}

/* ---- drain, undrain */

static void drain_line(const json_t *body)
{
    if (is_state(body, "none"))                /* a dry run */
        printf("broker %" PRId64 ": not drained, leads %" PRId64 ", of which others could lead %" PRId64 "\n", cli_json_number(body, "broker", -1), cli_json_number(body, "leaders", 0),
            cli_json_number(body, "leaders_to_move", 0));
    else printf("broker %" PRId64 ": %s, leads %" PRId64 ", %" PRId64 " to move\n", cli_json_number(body, "broker", -1), cli_json_text(body, "state", "?"), cli_json_number(body, "leaders", 0),
        cli_json_number(body, "leaders_to_move", 0));
}

int cli_cluster_drain_run(const struct cli_args *args)
{
    struct cli_api api;
    json_t *body = NULL;
    char *text = NULL;
    int64_t broker;
    int code = open_for(args, &api, &broker);
    if (code < 0) code = ask(&api, "PUT", broker, "/maintenance", &body, &text);
    if (code < 0 && cli_flag_given(args, "wait") && !cli_flag_given(args, "dry-run")) code = wait_for(&api, broker, "/maintenance", "drained", drain_line, &body, &text);
    if (code < 0) return tell(args, body, text, drain_line);
    json_decref(body);
    free(text);
    return code;
}

int cli_cluster_undrain_run(const struct cli_args *args)
{
    struct cli_api api;
    json_t *body = NULL;
    int64_t broker;
    int code = open_for(args, &api, &broker);
    if (code < 0) code = ask(&api, "DELETE", broker, "/maintenance", &body, NULL);
    json_decref(body);
    if (code < 0 && !api.only_curl && !cli_flag_given(args, "quiet")) printf("broker %" PRId64 " may lead again\n", broker);
    return code < 0 ? CLI_DONE : code;
}

/* ---- decommission, forget */

static void decommission_line(const json_t *body)
{
    char done[24], total[24];
    printf("broker %" PRId64 ": %s, holds %" PRId64 ", %" PRId64 " moving", cli_json_number(body, "broker", -1), cli_json_text(body, "state", "?"), cli_json_number(body, "replicas", 0),
        cli_json_number(body, "moving", 0));
    if (json_is_integer(json_object_get(body, "total_bytes")) && cli_json_number(body, "total_bytes", 0) > 0)
        printf(" (%s of %s)", cli_human_bytes((uint64_t)cli_json_number(body, "copied_bytes", 0), done), cli_human_bytes((uint64_t)cli_json_number(body, "total_bytes", 0), total));
    if (json_is_true(json_object_get(body, "stuck"))) fputs("; the other brokers are too few for the replication factors", stdout);
    if (json_is_true(json_object_get(body, "is_voter")) && is_state(body, "done")) printf("; it still votes: ottla cluster voters remove %" PRId64, cli_json_number(body, "broker", -1));
    putchar('\n');
}

int cli_cluster_decommission_run(const struct cli_args *args)
{
    struct cli_api api;
    json_t *body = NULL;
    char *text = NULL, question[200];
    int64_t broker;
    const bool cancel = cli_flag_given(args, "cancel"), status = cli_flag_given(args, "status"), dry_run = cli_flag_given(args, "dry-run");
    int code = open_for(args, &api, &broker);
    if (code >= 0) return code;
    if (cancel) {
        if ((code = ask(&api, "DELETE", broker, "/decommission", &body, NULL)) < 0 && !api.only_curl && !cli_flag_given(args, "quiet")) printf("broker %" PRId64 " stays\n", broker);
        json_decref(body);
        return code < 0 ? CLI_DONE : code;
    }
    snprintf(question, sizeof(question), "Every replica of broker %" PRId64 " will be moved to the others.", broker);
    if (!status && !dry_run && !api.only_curl && !cli_confirm(args, question, NULL)) return CLI_USAGE;
    code = ask(&api, status ? "GET" : "PUT", broker, "/decommission", &body, &text);
    if (code < 0 && cli_flag_given(args, "wait") && !dry_run) code = wait_for(&api, broker, "/decommission", "done", decommission_line, &body, &text);
    if (code < 0) return tell(args, body, text, decommission_line);
    json_decref(body);
    free(text);
    return code;
}

int cli_cluster_forget_run(const struct cli_args *args)
{
    struct cli_api api;
    json_t *body = NULL;
    char question[200];
    int64_t broker;
    const bool dry_run = cli_flag_given(args, "dry-run");
    int code = open_for(args, &api, &broker);
    if (code >= 0) return code;
    snprintf(question, sizeof(question), "Broker %" PRId64 " will no longer be part of the cluster.", broker);
    if (!dry_run && !api.only_curl && !cli_confirm(args, question, NULL)) return CLI_USAGE;
    code = ask(&api, "DELETE", broker, "", &body, NULL);
    json_decref(body);
    if (code < 0 && !api.only_curl && !cli_flag_given(args, "quiet")) printf("broker %" PRId64 " %s\n", broker, dry_run ? "could be forgotten" : "is forgotten");
    return code < 0 ? CLI_DONE : code;
}

static const char *plural(int64_t count) { return count == 1 ? "" : "s"; }

/* ---- restart-check */

static void check_line(const json_t *body)
{
    const json_t *reason, *parts = json_object_get(body, "coordinates");
    size_t i;
    printf("broker %" PRId64 ": %s\n", cli_json_number(body, "broker", -1), json_is_true(json_object_get(body, "safe")) ? "may stop now" : "should not stop now");
    json_array_foreach(json_object_get(body, "reasons"), i, reason) printf("  %s\n", json_string_value(reason));
    printf("  it leads %" PRId64 " partition%s", cli_json_number(body, "leaders", 0), plural(cli_json_number(body, "leaders", 0)));
    if (cli_json_number(parts, "groups", 0) + cli_json_number(parts, "transactions", 0) > 0)
        printf(", and coordinates %" PRId64 " group%s and %" PRId64 " transactional id%s; others take them over", cli_json_number(parts, "groups", 0), plural(cli_json_number(parts, "groups", 0)),
            cli_json_number(parts, "transactions", 0), plural(cli_json_number(parts, "transactions", 0)));
    putchar('\n');
}

int cli_cluster_restart_check_run(const struct cli_args *args)
{
    struct cli_api api;
    json_t *body = NULL;
    char *text = NULL;
    int64_t broker;
    int code = open_for(args, &api, &broker);
    if (code < 0) code = ask(&api, "GET", broker, "/restart-check", &body, &text);
    if (code >= 0) return code;
    const bool safe = body == NULL || json_is_true(json_object_get(body, "safe"));
    cli_hints_print(body);
    code = tell(args, body, text, check_line);
    return code == CLI_DONE && !safe ? CLI_PROBLEMS : code;
}

/* ---- resign */

int cli_cluster_resign_run(const struct cli_args *args)
{
    struct cli_api api;
    json_t *body = NULL;
    const bool dry_run = cli_flag_given(args, "dry-run");
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_api_call(&api, "POST", dry_run ? "/v1/cluster/controller/resign?validate_only=true" : "/v1/cluster/controller/resign", NULL, "ottla cluster voters", &body, NULL);
    if (code < 0 && body != NULL && !cli_flag_given(args, "quiet")) printf("broker %" PRId64 " %s\n", cli_json_number(body, "resigned", -1), dry_run ? "could hand its role over" : "hands its role over");
    json_decref(body);
    return code < 0 ? CLI_DONE : code;
}

/* ---- status: the cluster, its brokers, what is being moved */

static int get(struct cli_api *api, const char *target, const char *name, json_t *into)
{
    json_t *body = NULL;
    const int code = cli_api_call(api, "GET", target, NULL, NULL, &body, NULL);
    if (code < 0 && body != NULL) json_object_set_new(into, name, body);
    return code;
}

static void status_lines(const json_t *all)
{
    const json_t *cluster = json_object_get(all, "cluster"), *count = json_object_get(cluster, "brokers"), *row;
    const json_t *moves = json_object_get(json_object_get(all, "reassignments"), "items");
    const int64_t moving = cli_json_number(json_object_get(all, "reassignments"), "total", 0);
    int64_t done = 0, total = 0;
    const int64_t controller = cli_json_number(json_object_get(cluster, "controller"), "broker", -1);
    char done_text[24], total_text[24], id[24] = "none";
    size_t i;
    if (controller >= 0) snprintf(id, sizeof(id), "%" PRId64, controller);
    printf("%s: %s, coordinator %s, %" PRId64 " of %" PRId64 " brokers alive\n", cli_json_text(cluster, "cluster_id", "?"), cli_json_text(cluster, "health", "?"), id,
        cli_json_number(count, "alive", 0), cli_json_number(count, "total", 0));
    printf("%" PRId64 " partition%s: %" PRId64 " offline, %" PRId64 " under min ISR, %" PRId64 " under-replicated\n", cli_json_number(cluster, "partitions", 0), plural(cli_json_number(cluster, "partitions", 0)),
        cli_json_number(cluster, "offline_partitions", 0), cli_json_number(cluster, "under_min_isr", 0), cli_json_number(cluster, "under_replicated", 0));
    json_array_foreach(moves, i, row) {
        done += cli_json_number(row, "copied_bytes", 0);
        total += cli_json_number(row, "total_bytes", 0);
    }
    if (json_array_size(moves) > 0)
        printf("%" PRId64 " partition%s being moved: %s of %s\n", moving, moving == 1 ? " is" : "s are", cli_human_bytes((uint64_t)done, done_text),
            cli_human_bytes((uint64_t)total, total_text));
    putchar('\n');
}

int cli_cluster_status_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"broker", CLI_COLUMN_NUMBER, false}, {"state", CLI_COLUMN_STATE, false}, {"is_controller", CLI_COLUMN_TEXT, false}, {"leaders", CLI_COLUMN_NUMBER, false},
        {"replicas", CLI_COLUMN_NUMBER, false}, {"osr_replicas", CLI_COLUMN_NUMBER, false}, {"last_heartbeat_ms_ago", CLI_COLUMN_NUMBER, false}, {"rack", CLI_COLUMN_TEXT, true},
    };
    struct cli_api api;
    json_t *all = json_object();
    int code = all == NULL ? cli_fail(CLI_FAILED, NULL, "out of memory") : cli_api_open(args, &api);
    if (code < 0) code = get(&api, "/v1/cluster", "cluster", all);
    if (code < 0) code = get(&api, "/v1/brokers?limit=1000", "brokers", all);
    if (code < 0) code = get(&api, "/v1/reassignments?limit=1000", "reassignments", all);
    if (code >= 0 || api.only_curl) {
        json_decref(all);
        return code >= 0 ? code : CLI_DONE;
    }
    if (wants_json(args)) {
        char *text = json_dumps(all, JSON_COMPACT);
        json_decref(all);
        return text == NULL ? cli_fail(CLI_FAILED, NULL, "out of memory") : cli_print_body(text);
    }
    const char *output = cli_flag_value(args, "output");
    if (output == NULL || strcmp(output, "table") == 0 || strcmp(output, "wide") == 0) status_lines(all);
    json_t *rows = json_incref(json_object_get(json_object_get(all, "brokers"), "items"));
    json_decref(all);
    return cli_print_list(args, columns, OT_ARRAY_COUNT(columns), rows, NULL);
}
