#include "cli/group.h"

#include "cli/shared.h"
#include "cli/text.h"
#include "cli/topic.h"
#include "cli/topic_table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define DRY_RUN_FLAG {"dry-run", 'n', NULL, false, "show what would be, do nothing"}
const struct cli_flag cli_group_list_flags[] = {
    {"prefix", 0, "TEXT", false, "only names that begin so"},
    {"state", 0, "STATE", false, "only empty, stable, preparingrebalance or completingrebalance ones"},
    {"type", 0, "TYPE", false, "only classic or consumer ones"},
    {"topic", 0, "TOPIC", false, "only those that read this topic or have committed offsets of it"},
    {"lag", 0, NULL, false, "how far each is behind, in records and in time"},
    CLI_WATCH_FLAG,
    {0},
};
const struct cli_flag cli_group_reset_flags[] = {
    {"topic", 0, "TOPIC[:P,P]", true, "only this topic, or these partitions of it (all that the group has committed)"},
    {"to-earliest", 0, NULL, false, "to where the log begins"},
    {"to-latest", 0, NULL, false, "to where it ends"},
    {"to-current", 0, NULL, false, "to what is committed, brought back into the log"},
    {"to-offset", 0, "N", false, "to this offset"},
    {"shift-by", 0, "N", false, "so many further, or back when negative"},
    {"to-datetime", 0, "TIME", false, "to the first record of that time or later: epoch ms or 2026-05-01T00:00:00Z"},
    {"by-duration", 0, "DURATION", false, "back from now, ISO 8601: PT30M, P1DT12H"},
    {"from-group", 0, "GROUP", false, "to where that group is"},
    DRY_RUN_FLAG,
    {0},
};
const struct cli_flag cli_group_set_flags[] = {
    {"topic", 0, "TOPIC", false, "of this topic"},
    {"partition", 'p', "N", false, "of this partition"},
    {"offset", 0, "N", false, "the next record that the group reads"},
    {"metadata", 0, "TEXT", false, "a note kept with it"},
    {0},
};
const struct cli_flag cli_group_drop_flags[] = {
    {"topic", 0, "TOPIC", false, "of this topic"},
    {"partition", 'p', "N", false, "of this partition only (all)"},
    {0},
};
const struct cli_flag cli_group_dry_flags[] = {DRY_RUN_FLAG, {0}};

static int no_memory(void) { return cli_fail(CLI_FAILED, NULL, "out of memory"); }

/* "/v1/groups/NAME" and what format adds; to be freed. */
static char *target_of(const char *group, const char *format, ...) OT_PRINTF(2, 3);
static char *target_of(const char *group, const char *format, ...)
{
    char *encoded = malloc(strlen(group) * 3 + 1), *rest = NULL, *whole = NULL;
    va_list list;
    if (encoded == NULL) return NULL;
    cli_http_encode(group, encoded);
    va_start(list, format);
    if (vasprintf(&rest, format, list) < 0) rest = NULL;
    va_end(list);
    if (rest != NULL && asprintf(&whole, "/v1/groups/%s%s", encoded, rest) < 0) whole = NULL;
    free(rest);
    free(encoded);
    return whole;
}

static int call(struct cli_api *api, const char *method, char *target, const json_t *body, json_t **answer, char **text)
{
    const int code = target == NULL ? no_memory() : cli_api_call(api, method, target, body, "ottla group list", answer, text);
    free(target);
    return code;
}

/* ---- looking */

int cli_group_list_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"group", CLI_COLUMN_TEXT, false}, {"state", CLI_COLUMN_STATE, false}, {"members", CLI_COLUMN_NUMBER, false}, {"type", CLI_COLUMN_TEXT, false},
        {"generation", CLI_COLUMN_NUMBER, false}, {"lag_records", CLI_COLUMN_NUMBER, false}, {"lag_ms", CLI_COLUMN_NUMBER, false}, {"protocol_type", CLI_COLUMN_TEXT, true},
        {"coordinator", CLI_COLUMN_NUMBER, true},
    };
    static const struct cli_column plain[] = {
        {"group", CLI_COLUMN_TEXT, false}, {"state", CLI_COLUMN_STATE, false}, {"members", CLI_COLUMN_NUMBER, false}, {"type", CLI_COLUMN_TEXT, false},
        {"generation", CLI_COLUMN_NUMBER, false}, {"protocol_type", CLI_COLUMN_TEXT, true}, {"coordinator", CLI_COLUMN_NUMBER, true},
    };
    static const char *const filters[] = {"prefix", "state", "type"};
    struct cli_api api;
    json_t *items;
    char *text, target[2048];
    const char *topic = cli_flag_value(args, "topic");
    const bool lag = cli_flag_given(args, "lag");
    char name[768] = "";
    if (topic != NULL && strlen(topic) > 249) return cli_fail(CLI_USAGE, NULL, "--topic is too long");
    if (topic != NULL) cli_http_encode(topic, name);
    int code = cli_api_open(args, &api), used = snprintf(target, sizeof(target), "/v1/%s%s%sgroups?limit=1000%s", topic != NULL ? "topics/" : "", name, topic != NULL ? "/" : "", lag ? "&with=lag" : "");
    for (size_t i = 0; i < OT_ARRAY_COUNT(filters) && code < 0; i++) {
        const char *value = cli_flag_value(args, filters[i]);
        char encoded[768];
        if (value == NULL) continue;
        if (topic != NULL) return cli_fail(CLI_USAGE, "ottla group list --topic TOPIC", "--topic and --%s do not go together", filters[i]);
        if (strlen(value) > 249) return cli_fail(CLI_USAGE, NULL, "--%s is too long", filters[i]);
        cli_http_encode(value, encoded);
        used += snprintf(target + used, sizeof(target) - (size_t)used, "&%s=%s", filters[i], encoded);
    }
    if (code < 0) code = cli_api_list(&api, target, topic != NULL ? "ottla topic list" : NULL, &items, &text);
    if (code >= 0) return code;
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        if (!lag) break;
        json_object_set(item, "lag_records", json_object_get(json_object_get(item, "lag"), "total"));
        json_object_set(item, "lag_ms", json_object_get(json_object_get(item, "lag"), "max_ms"));
    }
    return lag ? cli_print_list(args, columns, OT_ARRAY_COUNT(columns), items, text) : cli_print_list(args, plain, OT_ARRAY_COUNT(plain), items, text);
}

static void put_line(const char *name, const char *value) { printf("%-16s %s\n", name, value == NULL || value[0] == 0 ? "-" : value); }

static void put_group(const json_t *group)
{
    const json_t *lag = json_object_get(group, "lag");
    put_line("group", cli_json_text(group, "group", NULL));
    put_line("state", cli_json_text(group, "state", NULL));
    put_line("type", cli_json_text(group, "type", NULL));
    put_line("assignor", cli_json_text(group, "assignor", NULL));
    printf("%-16s %" PRId64 "\n%-16s %" PRId64 "\n%-16s %zu\n\n", "generation", cli_json_number(group, "generation", 0), "lag", cli_json_number(lag, "total", 0), "members",
        json_array_size(json_object_get(group, "members")));
}

/* What a command shows of one group: the list under key in the columns; key NULL: the answer's own items. */
static int show(const struct cli_args *args, const char *rest, const char *key, const struct cli_column *columns, uint32_t count, void (*head)(const json_t *))
{
    struct cli_api api;
    struct cli_table table;
    json_t *body = NULL;
    char *text = NULL;
    int code = cli_table_open(args, columns, count, &table);
    if (code < 0) code = cli_api_open(args, &api);
    if (code < 0) code = call(&api, "GET", target_of(cli_name(args, 0), "%s", rest), NULL, &body, &text);
    if (code >= 0) return code;
    if (table.output == CLI_OUT_JSON) {
        json_decref(body);
        return cli_print_body(text);
    }
    if (head != NULL && (table.output == CLI_OUT_TABLE || table.output == CLI_OUT_WIDE)) head(body);
    json_t *items = json_incref(json_object_get(body, key));
    json_array_extend(items, json_object_get(body, "unowned")); /* of owners: rows without a member */
    json_decref(body);
    return cli_print_list(args, columns, count, items, text);
}

int cli_group_describe_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"member_id", CLI_COLUMN_TEXT, false}, {"instance_id", CLI_COLUMN_TEXT, false}, {"client_id", CLI_COLUMN_TEXT, false}, {"host", CLI_COLUMN_TEXT, false},
        {"last_heartbeat_ms_ago", CLI_COLUMN_NUMBER, false}, {"session_timeout_ms", CLI_COLUMN_NUMBER, true}, {"rebalance_timeout_ms", CLI_COLUMN_NUMBER, true},
    };
    return show(args, "", "members", columns, OT_ARRAY_COUNT(columns), put_group);
}

int cli_group_owners_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {{"topic", CLI_COLUMN_TEXT, false}, {"partition", CLI_COLUMN_NUMBER, false}, {"member_id", CLI_COLUMN_TEXT, false}};
    return show(args, "/owners", "owners", columns, OT_ARRAY_COUNT(columns), NULL);
}

int cli_group_timeline_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"at", CLI_COLUMN_TEXT, false}, {"reason", CLI_COLUMN_TEXT, false}, {"member_id", CLI_COLUMN_TEXT, false}, {"duration_ms", CLI_COLUMN_NUMBER, false},
        {"generation", CLI_COLUMN_NUMBER, false}, {"members_before", CLI_COLUMN_NUMBER, false}, {"members_after", CLI_COLUMN_NUMBER, false},
        {"partitions_moved", CLI_COLUMN_NUMBER, false}, {"client_id", CLI_COLUMN_TEXT, true}, {"text", CLI_COLUMN_TEXT, true},
    };
    return show(args, "/timeline", "items", columns, OT_ARRAY_COUNT(columns), NULL);
}

int cli_group_offsets_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"topic", CLI_COLUMN_TEXT, false}, {"partition", CLI_COLUMN_NUMBER, false}, {"offset", CLI_COLUMN_NUMBER, false}, {"high_watermark", CLI_COLUMN_NUMBER, false},
        {"lag", CLI_COLUMN_NUMBER, false}, {"lag_ms", CLI_COLUMN_NUMBER, false}, {"owner", CLI_COLUMN_TEXT, false}, {"lag_read_committed", CLI_COLUMN_NUMBER, true}, {"committed_at", CLI_COLUMN_TEXT, true}, {"metadata", CLI_COLUMN_TEXT, true},
    };
    struct cli_api api;
    json_t *items;
    char *text, *target = target_of(cli_name(args, 0), "/offsets?limit=1000");
    int code = cli_api_open(args, &api);
    if (code < 0) code = target == NULL ? no_memory() : cli_api_list(&api, target, "ottla group list", &items, &text);
    free(target);
    return code >= 0 ? code : cli_print_list(args, columns, OT_ARRAY_COUNT(columns), items, text);
}

/* ---- reset */

/* "orders" or "orders:0,2" */
static int add_topic(json_t *topics, const char *text)
{
    const char *colon = strchr(text, ':');
    json_t *topic = json_object();
    json_object_set_new(topic, "topic", json_stringn(text, colon == NULL ? strlen(text) : (size_t)(colon - text)));
    if (colon != NULL) {
        json_t *list = json_array();
        for (const char *at = colon; at != NULL && *at != 0; at = strchr(at + 1, ',')) {
            char number[16];
            int64_t partition;
            snprintf(number, sizeof(number), "%.*s", (int)strcspn(at + 1, ","), at + 1);
            if (!cli_number(number, 0, INT32_MAX, &partition)) {
                json_decref(list);
                json_decref(topic);
                return cli_fail(CLI_USAGE, "--topic orders:0,2", "`%s`: partitions are numbers", text);
            }
            json_array_append_new(list, json_integer(partition));
        }
        json_object_set_new(topic, "partitions", list);
    }
    return json_array_append_new(topics, topic) == 0 ? -1 : no_memory();
}

/* One strategy, by its flag. */
static int add_strategy(const struct cli_args *args, json_t *body)
{
    static const struct { const char *flag, *strategy, *member; bool number; } ways[] = { {"to-earliest", "earliest", NULL, false}, {"to-latest", "latest", NULL, false},
        {"to-current", "current", NULL, false}, {"to-offset", "offset", "offset", true}, {"shift-by", "shift", "by", true}, {"to-datetime", "timestamp", "timestamp", false},
        {"by-duration", "duration", "duration", false}, {"from-group", "group", "group", false} };
    uint32_t found = 0;
    for (size_t i = 0; i < OT_ARRAY_COUNT(ways); i++) {
        const char *value = cli_flag_value(args, ways[i].flag);
        int64_t number;
        if (!cli_flag_given(args, ways[i].flag)) continue;
        found++;
        json_object_set_new(body, "strategy", json_string(ways[i].strategy));
        if (ways[i].member == NULL) continue;
        if (ways[i].number && !cli_number(value, INT64_MIN, INT64_MAX, &number)) return cli_fail(CLI_USAGE, NULL, "--%s: `%s` is not a number", ways[i].flag, value);
        json_object_set_new(body, ways[i].member, ways[i].number ? json_integer(number) : json_string(value));
    }
    return found == 1 ? -1 : cli_fail(CLI_USAGE, "ottla group reset GROUP --to-earliest --dry-run", found == 0 ? "where to?" : "only one place to go can be given");
}

static int post_reset(struct cli_api *api, const char *group, json_t *body, bool dry_run, json_t **items, char **text)
{
    json_t *answer = NULL;
    json_object_set_new(body, "dry_run", json_boolean(dry_run));
    const int code = call(api, "POST", target_of(group, "/offsets/reset"), body, &answer, text);
    *items = code < 0 ? json_incref(json_object_get(answer, "items")) : NULL;
    json_decref(answer);
    return code;
}

static int64_t moves(const json_t *items)
{
    size_t i;
    const json_t *item;
    int64_t count = 0;
    json_array_foreach(items, i, item) count += cli_json_number(item, "change", 1) != 0;
    return count;
}

int cli_group_reset_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"topic", CLI_COLUMN_TEXT, false}, {"partition", CLI_COLUMN_NUMBER, false}, {"from", CLI_COLUMN_NUMBER, false}, {"to", CLI_COLUMN_NUMBER, false},
        {"change", CLI_COLUMN_NUMBER, false}, {"clamped", CLI_COLUMN_TEXT, true}, {"error", CLI_COLUMN_TEXT, false},
    };
    struct cli_api api;
    json_t *body = json_object(), *topics = json_array(), *items = NULL;
    char *text = NULL, question[400];
    const char *topic, *group = cli_name(args, 0);
    const bool dry_run = cli_flag_given(args, "dry-run");
    int code = cli_api_open(args, &api);
    for (uint32_t i = 0; code < 0 && (topic = cli_flag_nth(args, "topic", i)) != NULL; i++) code = add_topic(topics, topic);
    if (code < 0 && json_array_size(topics) > 0) json_object_set(body, "topics", topics);
    if (code < 0) code = add_strategy(args, body);
    if (code < 0) code = post_reset(&api, group, body, true, &items, &text);
    if (code < 0 && !dry_run) {
        snprintf(question, sizeof(question), "Offsets of %" PRId64 " partitions of %.249s will be moved.", moves(items), group);
        if (!cli_confirm(args, question, group)) code = CLI_USAGE;
        json_decref(items);
        free(text);
        items = NULL;
        text = NULL;
        if (code < 0) code = post_reset(&api, group, body, false, &items, &text);
    }
    json_decref(body);
    json_decref(topics);
    if (code < 0) return cli_print_list(args, columns, OT_ARRAY_COUNT(columns), items, text);
    json_decref(items);
    free(text);
    return code;
}

/* ---- setting and dropping */

int cli_group_set_run(const struct cli_args *args)
{
    struct cli_api api;
    int64_t partition, offset;
    const char *topic = cli_flag_value(args, "topic"), *metadata = cli_flag_value(args, "metadata");
    json_t *answer = NULL;
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_flag_number(args, "partition", 0, INT32_MAX, -1, &partition);
    if (code < 0) code = cli_flag_number(args, "offset", 0, INT64_MAX, -1, &offset);
    if (code < 0 && (topic == NULL || partition < 0 || offset < 0)) code = cli_fail(CLI_USAGE, "ottla group set GROUP --topic T --partition 0 --offset 42", "topic, partition and offset are needed");
    if (code >= 0) return code;
    char *encoded = malloc(strlen(topic) * 3 + 1);
    json_t *body = json_pack("{s:I,s:s}", "offset", (json_int_t)offset, "metadata", metadata == NULL ? "" : metadata);
    if (encoded == NULL || body == NULL) code = no_memory();
    if (encoded != NULL) cli_http_encode(topic, encoded);
    if (code < 0) code = call(&api, "PUT", target_of(cli_name(args, 0), "/offsets/%s/%" PRId64, encoded, partition), body, &answer, NULL);
    if (code < 0 && !cli_flag_given(args, "quiet")) printf("%s %s/%" PRId64 " is at %" PRId64 "\n", cli_name(args, 0), topic, partition, offset);
    json_decref(body);
    json_decref(answer);
    free(encoded);
    return code < 0 ? CLI_DONE : code;
}

/* What is gone for good is asked for first. */
static int gone(const struct cli_args *args, const char *question, const char *rest, const char *done)
{
    struct cli_api api;
    json_t *answer = NULL;
    int code = cli_api_open(args, &api);
    if (code < 0 && question != NULL && !api.only_curl && !cli_confirm(args, question, cli_name(args, 0))) code = CLI_USAGE;
    if (code < 0) code = call(&api, "DELETE", target_of(cli_name(args, 0), "%s", rest), NULL, &answer, NULL);
    json_decref(answer);
    if (code < 0 && !cli_flag_given(args, "quiet")) printf("%s %s\n", cli_name(args, 0), done);
    return code < 0 ? CLI_DONE : code;
}

int cli_group_drop_run(const struct cli_args *args)
{
    const char *topic = cli_flag_value(args, "topic");
    int64_t partition;
    char rest[1024], encoded[768], question[400];
    int code = cli_flag_number(args, "partition", 0, INT32_MAX, -1, &partition);
    if (code < 0 && (topic == NULL || strlen(topic) > 249)) code = cli_fail(CLI_USAGE, "ottla group drop-offsets GROUP --topic T", "--topic is missing");
    if (code >= 0) return code;
    cli_http_encode(topic, encoded);
    if (partition < 0) snprintf(rest, sizeof(rest), "/offsets/%s", encoded);
    else snprintf(rest, sizeof(rest), "/offsets/%s/%" PRId64, encoded, partition);
    snprintf(question, sizeof(question), "What %.100s has committed for %.249s will be gone for good.", cli_name(args, 0), topic);
    return gone(args, question, rest, "offsets dropped");
}

int cli_group_evict_run(const struct cli_args *args)
{
    char *encoded = malloc(strlen(cli_name(args, 1)) * 3 + 1), *rest = NULL;
    if (encoded != NULL) cli_http_encode(cli_name(args, 1), encoded);
    if (encoded == NULL || asprintf(&rest, "/members/%s", encoded) < 0) rest = NULL;
    free(encoded);
    const int code = rest == NULL ? no_memory() : gone(args, NULL, rest, "member taken out");
    free(rest);
    return code;
}

int cli_group_delete_run(const struct cli_args *args)
{
    char question[400];
    if (cli_flag_given(args, "dry-run")) return gone(args, NULL, "?validate_only=true", "could be deleted");
    snprintf(question, sizeof(question), "Group %.249s and what it has committed will be gone for good.", cli_name(args, 0));
    return gone(args, question, "", "deleted");
}
