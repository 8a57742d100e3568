#include "cli/topic.h"
#include "base/util.h"
#include "cli/events.h"
#include "cli/shared.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/topic_table.h"
#include "cli/wait.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const struct cli_flag cli_no_flags[] = {{0}};
const struct cli_flag cli_watch_flags[] = {CLI_WATCH_FLAG, {0}};
const struct cli_flag cli_topic_list_flags[] = {
    {"prefix", 0, "TEXT", false, "only names that begin so"},
    {"state", 0, "STATE", false, "only offline, under_min_isr, under_replicated or online ones"},
    {"internal", 0, NULL, false, "also the internal ones"},
    CLI_WATCH_FLAG,
    {0},
};
const struct cli_flag cli_topic_create_flags[] = {
    {"partitions", 0, "N", false, "how many (num.partitions)"},
    {"replication-factor", 0, "N", false, "how many brokers hold each (default.replication.factor)"},
    {"config", 0, "KEY=VALUE", true, "a topic configuration"},
    {"if-not-exists", 0, NULL, false, "fine when it is there already"},
    {"dry-run", 'n', NULL, false, "check and say what would be, do nothing"},
    {0},
};
const struct cli_flag cli_topic_grow_flags[] = {
    {"partitions", 0, "N", false, "how many it has afterwards"},
    {"dry-run", 'n', NULL, false, "check and say what would be, do nothing"},
    {0},
};
const struct cli_flag cli_topic_offsets_flags[] = {
    {"at", 0, "TIME", false, "earliest, latest, max_timestamp, epoch ms or 2026-05-01T00:00:00Z: the offset of that"},
    CLI_WATCH_FLAG,
    {0},
};
const struct cli_flag cli_topic_trim_flags[] = {
    {"before-offset", 0, "N", false, "delete what lies below this offset; -1: all that is there"},
    {"partition", 'p', "N", false, "of this partition only (all)"},
    {"dry-run", 'n', NULL, false, "show what would go, do nothing"},
    {0},
};

const struct cli_flag cli_topic_isr_flags[] = {
    {"history", 0, NULL, false, "who left and joined the ISRs and who led instead of whom, and why; the newest last"},
    {"replicas", 0, NULL, false, "a line for each replica: where its log ends, how far it is behind and since when"},
    CLI_WATCH_FLAG,
    {0},
};

char *cli_topic_target(const char *topic, const char *format, ...)
{
    char *encoded = malloc(strlen(topic) * 3 + 1), *rest = NULL, *whole = NULL;
    va_list list;
    if (encoded == NULL) return NULL;
    cli_http_encode(topic, encoded);
    va_start(list, format);
    if (vasprintf(&rest, format, list) < 0) rest = NULL;
    va_end(list);
    if (rest != NULL && asprintf(&whole, "/v1/topics/%s%s", encoded, rest) < 0) whole = NULL;
    free(rest);
    free(encoded);
    return whole;
}

int cli_config_pair(json_t *object, const char *text)
{
    const char *equals = strchr(text, '=');
    char key[256];
    if (equals == NULL || equals == text || (size_t)(equals - text) >= sizeof(key)) return cli_fail(CLI_USAGE, "--config retention.ms=86400000", "`%s` is not key=value", text);
    snprintf(key, sizeof(key), "%.*s", (int)(equals - text), text);
    if (json_object_get(object, key) != NULL) return cli_fail(CLI_USAGE, NULL, "%s is given twice", key);
    return json_object_set_new(object, key, json_string(equals + 1)) == 0 ? -1 : cli_fail(CLI_USAGE, NULL, "`%s` is not UTF-8", text);
}

static int no_memory(void)
{
    return cli_fail(CLI_FAILED, NULL, "out of memory");
}

static int output_of(const struct cli_args *args, enum cli_output *out)
{
    struct cli_table table;
    const int code = cli_table_open(args, NULL, 0, &table);
    *out = table.output;
    return code;
}

/* ---- list, isr */

int cli_topic_list_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"topic", CLI_COLUMN_TEXT, false}, {"partitions", CLI_COLUMN_NUMBER, false}, {"replication_factor", CLI_COLUMN_NUMBER, false}, {"state", CLI_COLUMN_STATE, false},
        {"size_bytes", CLI_COLUMN_BYTES, false}, {"records_estimate", CLI_COLUMN_NUMBER, false}, {"topic_id", CLI_COLUMN_TEXT, true}, {"created_at", CLI_COLUMN_TEXT, true},
    };
    struct cli_api api;
    json_t *items;
    char *text, target[1024], encoded[768];
    const char *prefix = cli_flag_value(args, "prefix"), *state = cli_flag_value(args, "state");
    int code = cli_api_open(args, &api);
    if (code >= 0) return code;
    int used = snprintf(target, sizeof(target), "/v1/topics?limit=1000%s", cli_flag_given(args, "internal") ? "" : "&internal=false");
    if (prefix != NULL && strlen(prefix) > 249) return cli_fail(CLI_USAGE, NULL, "--prefix: longer than any topic name");
    if (prefix != NULL) {
        cli_http_encode(prefix, encoded);
        used += snprintf(target + used, sizeof(target) - (size_t)used, "&prefix=%s", encoded);
    }
    if (state != NULL && strlen(state) < 32) {
        cli_http_encode(state, encoded);
        snprintf(target + used, sizeof(target) - (size_t)used, "&state=%.96s", encoded);
    }
    code = cli_api_list(&api, target, NULL, &items, &text);
    return code >= 0 ? code : cli_print_list(args, columns, OT_ARRAY_COUNT(columns), items, text);
}

static int list_partitions(const struct cli_args *args, struct cli_api *api, const char *topic, json_t **items, char **text)
{
    char *target = cli_topic_target(topic, "/partitions?limit=1000");
    (void)args;
    const int code = target == NULL ? no_memory() : cli_api_list(api, target, "ottla topic list", items, text);
    free(target);
    return code;
}

/* Of each partition the time, the kind and the reason in one line of text. */
static void tell_isr_changes(json_t *items)
{
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item) {
        const json_t *change = json_object_get(item, "last_isr_change");
        if (!json_is_object(change)) continue;
        json_object_set_new(item, "last_isr_change", json_sprintf("%s %s %s", cli_json_text(change, "at", "-"), cli_json_text(change, "type", "-"), cli_json_text(change, "reason", "-")));
    }
}

/* A row for each replica of each partition. */
static json_t *replicas_of(const json_t *items)
{
    json_t *rows = json_array(), *row;
    const json_t *item, *replica;
    size_t i, k;
    json_array_foreach(items, i, item) {
        json_array_foreach(json_object_get(item, "replica_state"), k, replica) {
            if ((row = json_pack("{s:O}", "partition", json_object_get(item, "partition"))) == NULL) continue;
            json_object_update(row, (json_t *)(uintptr_t)replica);
            json_array_append_new(rows, row);
        }
    }
    return rows;
}

static int show_replicas(const struct cli_args *args, json_t *items, char *text)
{
    static const struct cli_column columns[] = {
        {"partition", CLI_COLUMN_NUMBER, false}, {"broker", CLI_COLUMN_NUMBER, false}, {"role", CLI_COLUMN_TEXT, false}, {"in_sync", CLI_COLUMN_STATE, false},
        {"log_end_offset", CLI_COLUMN_NUMBER, false}, {"lag", CLI_COLUMN_NUMBER, false}, {"caught_up_ms_ago", CLI_COLUMN_NUMBER, false}, {"last_fetch_ms_ago", CLI_COLUMN_NUMBER, false},
        {"high_watermark", CLI_COLUMN_NUMBER, true}, {"last_epoch", CLI_COLUMN_NUMBER, true}, {"size_bytes", CLI_COLUMN_BYTES, false}, {"log_dir", CLI_COLUMN_TEXT, true},
    };
    json_t *rows = replicas_of(items);
    json_decref(items);
    return cli_print_list(args, columns, OT_ARRAY_COUNT(columns), rows, text);
}

int cli_topic_isr_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"partition", CLI_COLUMN_NUMBER, false}, {"state", CLI_COLUMN_STATE, false}, {"leader", CLI_COLUMN_NUMBER, false}, {"replicas", CLI_COLUMN_TEXT, false},
        {"isr", CLI_COLUMN_TEXT, false}, {"osr", CLI_COLUMN_TEXT, false}, {"elr", CLI_COLUMN_TEXT, false}, {"offline", CLI_COLUMN_TEXT, false}, {"min_insync_replicas", CLI_COLUMN_NUMBER, false},
        {"durability", CLI_COLUMN_TEXT, false}, {"spare_for_writes", CLI_COLUMN_NUMBER, true}, {"spare_for_data", CLI_COLUMN_NUMBER, true}, {"last_isr_change", CLI_COLUMN_TEXT, true}, {"leader_epoch", CLI_COLUMN_NUMBER, true}, {"successor", CLI_COLUMN_NUMBER, true},
        {"partition_epoch", CLI_COLUMN_NUMBER, true},
    };
    struct cli_api api;
    json_t *items;
    char *text;
    const char *output = cli_flag_value(args, "output");
    const bool rows = output != NULL && strcmp(output, "ndjson") == 0, replicas = cli_flag_given(args, "replicas");
    if (replicas && cli_flag_given(args, "history")) return cli_fail(CLI_USAGE, NULL, "--history and --replicas are two different views");
    if (cli_flag_given(args, "history")) return cli_topic_history(args, cli_name(args, 0));
    int code = cli_api_open(args, &api);
    if (code < 0) code = list_partitions(args, &api, cli_name(args, 0), &items, &text);
    if (code < 0 && replicas) return show_replicas(args, items, text);
    if (code < 0 && !rows) tell_isr_changes(items);
    return code >= 0 ? code : cli_print_list(args, columns, OT_ARRAY_COUNT(columns), items, text);
}

/* ---- describe */

static void put_line(const char *name, const char *value)
{
    printf("%-20s %s\n", name, value == NULL ? "-" : value);
}

static void put_number(const char *name, int64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, number);
    put_line(name, number < 0 ? NULL : text);
}

static void put_topic(const json_t *topic, bool exact)
{
    char bytes[24], exact_text[24];
    const int64_t size = cli_json_number(topic, "size_bytes", -1);
    const char *key;
    const json_t *value;
    put_line("topic", cli_json_text(topic, "topic", NULL));
    put_line("id", cli_json_text(topic, "topic_id", NULL));
    put_line("state", cli_json_text(topic, "state", NULL));
    put_number("partitions", cli_json_number(topic, "partitions", -1));
    put_number("replication factor", cli_json_number(topic, "replication_factor", -1));
    snprintf(exact_text, sizeof(exact_text), "%" PRId64, size);
    put_line("size", size < 0 ? NULL : exact ? exact_text : cli_human_bytes((uint64_t)size, bytes));
    put_number("records, about", cli_json_number(topic, "records_estimate", -1));
    put_line("created", cli_json_text(topic, "created_at", NULL));
    json_object_foreach(json_object_get(topic, "overrides"), key, value)
        printf("%-20s %s=%s\n", "config", key, json_is_string(value) ? json_string_value(value) : "?");
    putchar('\n');
}

int cli_topic_describe_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"partition", CLI_COLUMN_NUMBER, false}, {"state", CLI_COLUMN_STATE, false}, {"leader", CLI_COLUMN_NUMBER, false}, {"replicas", CLI_COLUMN_TEXT, false},
        {"isr", CLI_COLUMN_TEXT, false}, {"osr", CLI_COLUMN_TEXT, false}, {"log_start_offset", CLI_COLUMN_NUMBER, false}, {"high_watermark", CLI_COLUMN_NUMBER, false},
        {"log_end_offset", CLI_COLUMN_NUMBER, true}, {"size_bytes", CLI_COLUMN_BYTES, false}, {"durability", CLI_COLUMN_TEXT, true}, {"leader_epoch", CLI_COLUMN_NUMBER, true},
    };
    struct cli_api api;
    enum cli_output output;
    json_t *topic = NULL, *items = NULL;
    char *text = NULL, *target = cli_topic_target(cli_name(args, 0), "%s", "");
    int code = output_of(args, &output);
    if (target == NULL) return no_memory();
    if (code < 0) code = cli_api_open(args, &api);
    if (code < 0) code = cli_api_call(&api, "GET", target, NULL, "ottla topic list", &topic, &text);
    free(target);
    if (code >= 0) return code;
    if (output == CLI_OUT_JSON) {
        json_decref(topic);
        return cli_print_body(text);
    }
    free(text);
    code = list_partitions(args, &api, cli_name(args, 0), &items, &text);
    if (code < 0 && (output == CLI_OUT_TABLE || output == CLI_OUT_WIDE)) put_topic(topic, cli_flag_given(args, "bytes"));
    json_decref(topic);
    return code >= 0 ? code : cli_print_list(args, columns, OT_ARRAY_COUNT(columns), items, text);
}

/* ---- create, grow, delete */

static int told(const struct cli_args *args, json_t *body, char *text, const char *done)
{
    enum cli_output output;
    int code = output_of(args, &output);
    if (code < 0 && output == CLI_OUT_JSON) {
        json_decref(body);
        return cli_print_body(text);
    }
    if (code < 0 && !cli_flag_given(args, "quiet")) {
        const int64_t partitions = cli_json_number(body, "partitions", -1), factor = cli_json_number(body, "replication_factor", -1);
        printf("%s %s: %" PRId64 " partition%s, replication factor %" PRId64 "\n", cli_json_text(body, "topic", "topic"), done, partitions, partitions == 1 ? "" : "s", factor);
    }
    json_decref(body);
    free(text);
    return code >= 0 ? code : cli_print_body(NULL);
}

int cli_topic_create_run(const struct cli_args *args)
{
    struct cli_api api;
    int64_t partitions, factor;
    json_t *body = json_object(), *configs = json_object(), *answer = NULL;
    char *text = NULL;
    const char *pair;
    const bool dry_run = cli_flag_given(args, "dry-run");
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_flag_number(args, "partitions", 1, INT32_MAX, -1, &partitions);
    if (code < 0) code = cli_flag_number(args, "replication-factor", 1, INT16_MAX, -1, &factor);
    for (uint32_t i = 0; code < 0 && (pair = cli_flag_nth(args, "config", i)) != NULL; i++) code = cli_config_pair(configs, pair);
    if (code < 0) {
        json_object_set_new(body, "name", json_string(cli_name(args, 0)));
        if (partitions > 0) json_object_set_new(body, "partitions", json_integer(partitions));
        if (factor > 0) json_object_set_new(body, "replication_factor", json_integer(factor));
        if (json_object_size(configs) > 0) json_object_set(body, "config", configs);
        if (json_object_get(body, "name") == NULL) code = cli_fail(CLI_USAGE, NULL, "the name is not UTF-8");
    }
    if (code < 0 && cli_flag_given(args, "if-not-exists") && !api.only_curl) {
        char *target = cli_topic_target(cli_name(args, 0), "%s", "");
        struct cli_http_reply reply;
        bool sent;
        char why[CLI_WHY_BYTES];
        if (target != NULL && cli_http_ask(&api.address, "GET", target, NULL, cli_deadline_us(api.timeout_ms), &reply, &sent, why) == OT_OK) {
            if (reply.status == 200) code = CLI_DONE;
            cli_http_reply_free(&reply);
        }
        free(target);
    }
    if (code < 0) code = cli_api_call(&api, "POST", dry_run ? "/v1/topics?validate_only=true" : "/v1/topics", body, NULL, &answer, &text);
    json_decref(body);
    json_decref(configs);
    return code >= 0 ? code : told(args, answer, text, dry_run ? "could be created" : "created");
}

int cli_topic_grow_run(const struct cli_args *args)
{
    struct cli_api api;
    int64_t partitions;
    json_t *answer = NULL;
    char *text = NULL;
    const bool dry_run = cli_flag_given(args, "dry-run");
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_flag_number(args, "partitions", 1, INT32_MAX, -1, &partitions);
    if (code < 0 && partitions < 0) code = cli_fail(CLI_USAGE, "ottla topic grow TOPIC --partitions N", "--partitions is missing");
    if (code >= 0) return code;
    char *target = cli_topic_target(cli_name(args, 0), "/partitions%s", dry_run ? "?validate_only=true" : "");
    json_t *body = json_pack("{s:I}", "count", (json_int_t)partitions);
    code = target == NULL || body == NULL ? no_memory() : cli_api_call(&api, "POST", target, body, NULL, &answer, &text);
    free(target);
    json_decref(body);
    return code >= 0 ? code : told(args, answer, text, dry_run ? "could grow" : "grown");
}

int cli_topic_delete_run(const struct cli_args *args)
{
    struct cli_api api;
    int code = cli_api_open(args, &api), failed = CLI_DONE;
    uint32_t done = 0;
    if (code >= 0) return code;
    for (uint32_t i = 0; i < cli_name_count(args); i++) {
        const char *name = cli_name(args, i);
        char question[400];
        json_t *answer = NULL;
        snprintf(question, sizeof(question), "Topic %.249s and all its records will be gone for good.", name);
        if (!api.only_curl && !cli_confirm(args, question, name)) return CLI_USAGE;
        char *target = cli_topic_target(name, "%s", "");
        code = target == NULL ? no_memory() : cli_api_call(&api, "DELETE", target, NULL, "ottla topic list", &answer, NULL);
        free(target);
        json_decref(answer);
        if (code > CLI_DONE) failed = code;
        else done++;
        if (code < 0 && !cli_flag_given(args, "quiet")) printf("%s deleted\n", name);
    }
    return failed != CLI_DONE && done > 0 ? CLI_PARTLY : failed;
}

/* ---- offsets, trim */

static int one_offset(struct cli_api *api, const char *topic, int64_t partition, const char *at, json_t *row)
{
    char *encoded = malloc(strlen(at) * 3 + 1), *target = NULL;
    json_t *answer = NULL;
    if (encoded != NULL) {
        cli_http_encode(at, encoded);
        target = cli_topic_target(topic, "/partitions/%" PRId64 "/offsets?at=%s", partition, encoded);
    }
    const int code = target == NULL ? no_memory() : cli_api_call(api, "GET", target, NULL, NULL, &answer, NULL);
    if (code < 0) {
        json_object_set_new(row, "at", json_string(at));
        json_object_set(row, "offset", json_object_get(answer, "offset"));
        json_object_set(row, "timestamp_ms", json_object_get(answer, "timestamp_ms"));
    }
    json_decref(answer);
    free(target);
    free(encoded);
    return code;
}

int cli_topic_offsets_run(const struct cli_args *args)
{
    static const struct cli_column ends[] = {
        {"topic", CLI_COLUMN_TEXT, true}, {"partition", CLI_COLUMN_NUMBER, false}, {"log_start_offset", CLI_COLUMN_NUMBER, false},
        {"last_stable_offset", CLI_COLUMN_NUMBER, true}, {"high_watermark", CLI_COLUMN_NUMBER, false}, {"log_end_offset", CLI_COLUMN_NUMBER, false},
    };
    static const struct cli_column places[] = {
        {"topic", CLI_COLUMN_TEXT, true}, {"partition", CLI_COLUMN_NUMBER, false}, {"at", CLI_COLUMN_TEXT, false}, {"offset", CLI_COLUMN_NUMBER, false},
        {"timestamp_ms", CLI_COLUMN_NUMBER, false},
    };
    const char *at = cli_flag_value(args, "at");
    struct cli_api api;
    json_t *items = NULL, *item;
    char *text = NULL;
    size_t i;
    int code = cli_api_open(args, &api);
    if (code < 0) code = list_partitions(args, &api, cli_name(args, 0), &items, &text);
    if (code >= 0) return code;
    if (at == NULL) return cli_print_list(args, ends, OT_ARRAY_COUNT(ends), items, text);
    free(text);
    json_array_foreach(items, i, item)
    {
        if ((code = one_offset(&api, cli_name(args, 0), cli_json_number(item, "partition", 0), at, item)) >= 0) break;
        json_t *row = json_pack("{s:O,s:O,s:O?,s:O?,s:O?}", "topic", json_object_get(item, "topic"), "partition", json_object_get(item, "partition"), "at",
            json_object_get(item, "at"), "offset", json_object_get(item, "offset"), "timestamp_ms", json_object_get(item, "timestamp_ms"));
        if (row != NULL) json_array_set_new(items, i, row);
    }
    if (code >= 0) {
        json_decref(items);
        return code;
    }
    json_t *whole = json_pack("{s:O}", "items", items);
    text = json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    return cli_print_list(args, places, OT_ARRAY_COUNT(places), items, text);
}

/* An empty partition has nothing to delete, whatever was asked of the topic: it is asked to keep what it has. */
static int64_t before_in(const json_t *partition, int64_t before)
{
    const int64_t start = cli_json_number(partition, "log_start_offset", -1), end = cli_json_number(partition, "high_watermark", -1);
    return start >= 0 && start == end && before > end ? end : before;
}

static int trim_one(struct cli_api *api, const char *topic, int64_t partition, int64_t before, bool dry_run, json_t **answer)
{
    char *target = cli_topic_target(topic, "/partitions/%" PRId64 "/records/delete", partition);
    json_t *body = json_pack("{s:I,s:b}", "before_offset", (json_int_t)before, "dry_run", (int)dry_run);
    const int code = target == NULL || body == NULL ? no_memory() : cli_api_call(api, "POST", target, body, "ottla topic offsets TOPIC", answer, NULL);
    free(target);
    json_decref(body);
    return code;
}

/* One pass over the partitions; items becomes their answers. */
static int trim_all(struct cli_api *api, const char *topic, const json_t *partitions, int64_t only, int64_t before, bool dry_run, json_t *answers)
{
    size_t i;
    const json_t *row;
    int failed = -1;
    json_array_foreach(partitions, i, row)
    {
        json_t *answer = NULL;
        const int64_t partition = cli_json_number(row, "partition", 0);
        if (only >= 0 && partition != only) continue;
        const int code = trim_one(api, topic, partition, before_in(row, before), dry_run, &answer);
        if (code >= 0 && failed < 0) failed = code;
        if (code < 0 && answer != NULL) json_array_append_new(answers, answer);
    }
    return failed > CLI_DONE && json_array_size(answers) > 0 ? CLI_PARTLY : failed;
}

int cli_topic_trim_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"topic", CLI_COLUMN_TEXT, true}, {"partition", CLI_COLUMN_NUMBER, false}, {"log_start_offset", CLI_COLUMN_NUMBER, false},
        {"deleted_offsets", CLI_COLUMN_NUMBER, false}, {"high_watermark", CLI_COLUMN_NUMBER, false}, {"applied", CLI_COLUMN_TEXT, false},
    };
    struct cli_api api;
    const char *topic = cli_name(args, 0);
    int64_t before, only, count = 0;
    json_t *partitions = NULL, *answers = json_array(), *row;
    char *text = NULL, question[400];
    size_t i;
    const bool dry_run = cli_flag_given(args, "dry-run");
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_flag_number(args, "before-offset", -1, INT64_MAX, INT64_MIN, &before);
    if (code < 0) code = cli_flag_number(args, "partition", 0, INT32_MAX, -1, &only);
    if (code < 0 && before == INT64_MIN) code = cli_fail(CLI_USAGE, "ottla topic trim TOPIC --before-offset N", "--before-offset is missing");
    if (code < 0 && only >= 0) partitions = json_pack("[{s:I}]", "partition", (json_int_t)only);
    else if (code < 0) code = list_partitions(args, &api, topic, &partitions, &text);
    free(text);
    if (code < 0) code = trim_all(&api, topic, partitions, only, before, true, answers); /* the plan */
    if (code < 0 && !dry_run) {
        json_array_foreach(answers, i, row) count += cli_json_number(row, "deleted_offsets", 0);
        snprintf(question, sizeof(question), "%" PRId64 " records of %.249s will be gone for good.", count, topic);
        if (!cli_confirm(args, question, topic)) code = CLI_USAGE;
        else json_array_clear(answers);
        if (code < 0) code = trim_all(&api, topic, partitions, only, before, false, answers);
    }
    json_decref(partitions);
    if (code >= 0 && code != CLI_PARTLY) {
        json_decref(answers);
        return code;
    }
    json_t *whole = json_pack("{s:O}", "items", answers);
    text = json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    const int printed = cli_print_list(args, columns, OT_ARRAY_COUNT(columns), answers, text);
    return code >= 0 ? code : printed;
}
