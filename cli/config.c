#include "cli/config.h"
#include "base/util.h"
#include "cli/shared.h"
#include "cli/topic.h"
#include "cli/topic_table.h"
#include <stdlib.h>
#include <string.h>

const struct cli_flag cli_config_get_flags[] = {
    {"topic", 't', "NAME", false, "of this topic"},
    {"broker", 0, "ID", false, "of this broker"},
    {"cluster", 0, NULL, false, "what is set for all brokers"},
    {"all", 'a', NULL, false, "also the keys that keep their built-in value"},
    CLI_WATCH_FLAG,
    {0},
};
const struct cli_flag cli_config_set_flags[] = {
    {"topic", 't', "NAME", false, "of this topic"},
    {"broker", 0, "ID", false, "of this broker alone"},
    {"cluster", 0, NULL, false, "the default of all brokers and topics"},
    {"dry-run", 'n', NULL, false, "check, do nothing"},
    {0},
};

static int no_memory(void)
{
    return cli_fail(CLI_FAILED, NULL, "out of memory");
}

int cli_config_target(const char *topic, const char *broker, const char *query, char **out)
{
    char encoded[96];
    *out = NULL;
    if (topic != NULL) {
        *out = cli_topic_target(topic, "/config%s", query);
    } else if (broker != NULL) {
        if (strlen(broker) > 16) return cli_fail(CLI_USAGE, NULL, "--broker: `%s` is no id", broker);
        cli_http_encode(broker, encoded);
        if (asprintf(out, "/v1/brokers/%s/config%s", encoded, query) < 0) *out = NULL;
    } else if (asprintf(out, "/v1/cluster/config%s", query) < 0) {
        *out = NULL;
    }
    return *out == NULL ? no_memory() : -1;
}

/* Whose configuration is meant; to be freed. who: for people. */
static int target_of(const struct cli_args *args, const char *query, char **out, char *who, size_t who_bytes)
{
    const char *topic = cli_flag_value(args, "topic"), *broker = cli_flag_value(args, "broker");
    const bool cluster = cli_flag_given(args, "cluster");
    *out = NULL;
    if ((topic != NULL) + (broker != NULL) + cluster != 1) {
        char hint[64];
        snprintf(hint, sizeof(hint), "ottla config %s --topic NAME", cli_args_command(args)->verb);
        return cli_fail(CLI_USAGE, hint, "one of --topic, --broker and --cluster is wanted");
    }
    snprintf(who, who_bytes, "%s%s", topic != NULL ? topic : broker != NULL ? "broker " : "all brokers", broker != NULL && topic == NULL ? broker : "");
    return cli_config_target(topic, broker, query, out);
}

static bool asked_for(const struct cli_args *args, const json_t *entry)
{
    const char *name = cli_json_text(entry, "name", "");
    if (cli_name_count(args) == 0) return cli_flag_given(args, "all") || strcmp(cli_json_text(entry, "source", ""), "built_in") != 0;
    for (uint32_t i = 0; i < cli_name_count(args); i++)
        if (strcmp(cli_name(args, i), name) == 0) return true;
    return false;
}

static int unknown_key(const struct cli_args *args, const json_t *entries)
{
    size_t i;
    const json_t *entry;
    for (uint32_t n = 0; n < cli_name_count(args); n++) {
        const char *names[1024];
        size_t count = 0;
        bool found = false;
        json_array_foreach(entries, i, entry)
        {
            if (count < OT_ARRAY_COUNT(names)) names[count++] = cli_json_text(entry, "name", "");
            if (strcmp(cli_json_text(entry, "name", ""), cli_name(args, n)) == 0) found = true;
        }
        const char *near = found ? NULL : ot_nearest(cli_name(args, n), names, count);
        if (!found) return cli_fail(CLI_NOT_FOUND, near, "no key `%s`", cli_name(args, n));
    }
    return -1;
}

int cli_config_get_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"name", CLI_COLUMN_TEXT, false}, {"value", CLI_COLUMN_TEXT, false}, {"source", CLI_COLUMN_TEXT, false}, {"type", CLI_COLUMN_TEXT, true}, {"read_only", CLI_COLUMN_TEXT, true},
    };
    struct cli_api api;
    json_t *body = NULL, *kept = NULL;
    char *target = NULL, *text = NULL, who[300];
    size_t i;
    json_t *entry;
    int code = cli_api_open(args, &api);
    if (code < 0) code = target_of(args, "", &target, who, sizeof(who));
    if (code < 0) code = cli_api_call(&api, "GET", target, NULL, NULL, &body, &text);
    free(target);
    if (code >= 0) return code;
    const json_t *entries = json_object_get(body, "entries");
    if (entries == NULL) entries = json_object_get(body, "items");
    code = unknown_key(args, entries);
    if (code < 0 && (kept = json_array()) == NULL) code = no_memory();
    if (code < 0) {
        json_array_foreach(entries, i, entry)
            if (asked_for(args, entry)) json_array_append(kept, entry);
        if (json_array_size(kept) == 0 && !cli_flag_given(args, "quiet") && !api.only_curl) fprintf(stderr, "nothing is set for %s; --all shows what counts\n", who);
        code = cli_print_list(args, columns, OT_ARRAY_COUNT(columns), kept, text);
        text = NULL;
    }
    free(text);
    json_decref(body);
    return code;
}

static int patch(const struct cli_args *args, json_t *changes, const char *done)
{
    struct cli_api api;
    json_t *answer = NULL;
    char *target = NULL, *text = NULL, who[300];
    int code = cli_api_open(args, &api);
    if (code < 0) code = target_of(args, cli_flag_given(args, "dry-run") ? "?validate_only=true" : "", &target, who, sizeof(who));
    if (code < 0) code = cli_api_call(&api, "PATCH", target, changes, NULL, &answer, &text);
    free(target);
    json_decref(changes);
    json_decref(answer);
    const char *output = cli_flag_value(args, "output");
    if (code < 0 && output != NULL && strcmp(output, "json") == 0) return cli_print_body(text);
    free(text);
    if (code < 0 && !cli_flag_given(args, "quiet")) printf("%s: %s\n", who, cli_flag_given(args, "dry-run") ? "would be accepted" : done);
    return code < 0 ? CLI_DONE : code;
}

int cli_config_set_run(const struct cli_args *args)
{
    json_t *changes = json_object();
    int code = changes == NULL ? no_memory() : -1;
    for (uint32_t i = 0; code < 0 && i < cli_name_count(args); i++) code = cli_config_pair(changes, cli_name(args, i));
    if (code < 0) return patch(args, changes, "set");
    json_decref(changes);
    return code;
}

int cli_config_unset_run(const struct cli_args *args)
{
    json_t *changes = json_object();
    if (changes == NULL) return no_memory();
    for (uint32_t i = 0; i < cli_name_count(args); i++) json_object_set_new(changes, cli_name(args, i), json_null());
    return patch(args, changes, "inherited again");
}
