#include "cli/txn.h"
#include "base/util.h"
#include "cli/shared.h"
#include "cli/topic_table.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct cli_flag cli_txn_flags[] = {
    {"state", 0, "STATE", false, "list: only in this state: ongoing, prepare_commit, prepare_abort, complete_commit, complete_abort, empty"},
    {"longer-than-ms", 0, "MS", false, "list: only open for longer than this"},
    {"producer-id", 0, "ID", false, "list: only of this producer"},
    {"prefix", 0, "TEXT", false, "list: only ids that begin so"},
    {"dry-run", 'n', NULL, false, "abort: check, do nothing"},
    CLI_WATCH_FLAG,
    {0},
};

static int list(const struct cli_args *args, struct cli_api *api)
{
    static const struct cli_column columns[] = {
        {"transactional_id", CLI_COLUMN_TEXT, false}, {"state", CLI_COLUMN_TEXT, false}, {"producer_id", CLI_COLUMN_NUMBER, false}, {"producer_epoch", CLI_COLUMN_NUMBER, false},
        {"age_ms", CLI_COLUMN_NUMBER, false}, {"timeout_ms", CLI_COLUMN_NUMBER, false}, {"coordinator_partition", CLI_COLUMN_NUMBER, true}, {"transaction_version", CLI_COLUMN_NUMBER, true},
    };
    static const char *const filters[][2] = {{"state", "state"}, {"longer-than-ms", "longer_than_ms"}, {"producer-id", "producer_id"}, {"prefix", "prefix"}};
    char target[2048], *text = NULL;
    json_t *items = NULL;
    int used = snprintf(target, sizeof(target), "/v1/transactions?limit=1000");
    for (size_t i = 0; i < OT_ARRAY_COUNT(filters); i++) {
        const char *value = cli_flag_value(args, filters[i][0]);
        char encoded[768];
        if (value == NULL) continue;
        if (strlen(value) > 249) return cli_fail(CLI_USAGE, NULL, "--%s is too long", filters[i][0]);
        cli_http_encode(value, encoded);
        used += snprintf(target + used, sizeof(target) - (size_t)used, "&%s=%s", filters[i][1], encoded);
    }
    const int code = cli_api_list(api, target, NULL, &items, &text);
    return code >= 0 ? code : cli_print_list(args, columns, OT_ARRAY_COUNT(columns), items, text);
}

static char *target_of(const char *id, const char *rest)
{
    char *encoded = malloc(strlen(id) * 3 + 1), *whole = NULL;
    if (encoded == NULL) return NULL;
    cli_http_encode(id, encoded);
    if (asprintf(&whole, "/v1/transactions/%s%s", encoded, rest) < 0) whole = NULL;
    free(encoded);
    return whole;
}

static int look(struct cli_api *api, const char *id, json_t **body, char **text)
{
    char *target = target_of(id, "");
    const int code = target == NULL ? cli_fail(CLI_FAILED, NULL, "out of memory") : cli_api_call(api, "GET", target, NULL, "ottla cluster txn list", body, text);
    free(target);
    return code;
}

static int describe(const struct cli_args *args, struct cli_api *api, const char *id)
{
    static const struct cli_column columns[] = {{"topic", CLI_COLUMN_TEXT, false}, {"partition", CLI_COLUMN_NUMBER, false}};
    struct cli_table table;
    json_t *body = NULL;
    char *text = NULL;
    int code = cli_table_open(args, columns, OT_ARRAY_COUNT(columns), &table);
    if (code < 0) code = look(api, id, &body, &text);
    if (code >= 0) return code;
    if (body == NULL) return CLI_DONE; /* --curl */
    if (table.output == CLI_OUT_JSON) {
        json_decref(body);
        return cli_print_body(text);
    }
    if (table.output == CLI_OUT_TABLE || table.output == CLI_OUT_WIDE) {
        static const char *const texts[] = {"transactional_id", "state"}, *const numbers[] = {"producer_id", "producer_epoch", "age_ms", "timeout_ms"};
        for (size_t i = 0; i < OT_ARRAY_COUNT(texts); i++) printf("%-16s %s\n", texts[i], cli_json_text(body, texts[i], "-"));
        for (size_t i = 0; i < OT_ARRAY_COUNT(numbers); i++) {
            if (json_is_null(json_object_get(body, numbers[i]))) printf("%-16s -\n", numbers[i]);
            else printf("%-16s %" PRId64 "\n", numbers[i], cli_json_number(body, numbers[i], 0));
        }
        putchar('\n');
    }
    json_t *places = json_incref(json_object_get(body, "partitions"));
    json_decref(body);
    return cli_print_list(args, columns, OT_ARRAY_COUNT(columns), places, text);
}

static int abort_it(const struct cli_args *args, struct cli_api *api, const char *id)
{
    const bool dry_run = cli_flag_given(args, "dry-run");
    json_t *body = NULL;
    char question[700], *target = target_of(id, dry_run ? "/abort?validate_only=true" : "/abort");
    int code = target == NULL ? cli_fail(CLI_FAILED, NULL, "out of memory") : -1;
    snprintf(question, sizeof(question), "What %.400s has written in its open transaction will never be seen by readers of committed records, and its producer is fenced.", id);
    if (code < 0 && !dry_run && !api->only_curl && !cli_confirm(args, question, id)) code = CLI_USAGE;
    if (code < 0) code = cli_api_call(api, "POST", target, NULL, "ottla cluster txn list", &body, NULL);
    if (code < 0 && !api->only_curl && !cli_flag_given(args, "quiet")) printf("%s %s\n", id, dry_run ? "could be aborted" : "aborted");
    free(target);
    json_decref(body);
    return code < 0 ? CLI_DONE : code;
}

int cli_txn_run(const struct cli_args *args)
{
    static const char *const verbs[] = {"list", "describe", "abort"};
    struct cli_api api;
    const uint32_t count = cli_name_count(args);
    const char *verb = count == 0 ? "list" : cli_name(args, 0);
    const bool listed = strcmp(verb, "list") == 0;
    if (!listed && strcmp(verb, "describe") != 0 && strcmp(verb, "abort") != 0)
        return cli_fail(CLI_USAGE, ot_nearest(verb, verbs, 3), "cluster txn: `%s` is none of list, describe, abort", verb);
    if (listed ? count > 1 : count != 2) return cli_fail(CLI_USAGE, "ottla cluster txn list", listed ? "cluster txn list takes no names" : "cluster txn %s: one transactional id is needed", verb);
    const int code = cli_api_open(args, &api);
    if (code >= 0) return code;
    return listed ? list(args, &api) : strcmp(verb, "abort") == 0 ? abort_it(args, &api, cli_name(args, 1)) : describe(args, &api, cli_name(args, 1));
}
