/* What configuration means: differences, one key explained, and a Kafka server.properties judged line by line. */
#include "base/properties.h"
#include "base/util.h"
#include "broker/config.h"
#include "broker/config_checks.h"
#include "cli/config.h"
#include "cli/server_config.h"
#include "cli/shared.h"
#include "cli/topic.h"
#include "cli/topic_table.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FILE_BYTES_MAX (1u << 20)

const struct cli_flag cli_config_diff_flags[] = {
    {"topic", 't', "NAME", true, "of this topic"},
    {"broker", 0, "ID", true, "of this broker"},
    CLI_WATCH_FLAG,
    {0},
};
const struct cli_flag cli_config_explain_flags[] = {
    {"topic", 't', "NAME", false, "as it is for this topic"},
    {"broker", 0, "ID", false, "as it is for this broker (the one that answers)"},
    {0},
};
const struct cli_flag cli_config_import_flags[] = {
    {"all", 'a', NULL, false, "also the keys that apply as they are"},
    {0},
};

/* ---- diff */

struct side {
    const char *topic, *broker;
    char name[280];
    json_t *body;
};

/* The n-th of --topic and --broker, topics first. */
static bool side_of(const struct cli_args *args, uint32_t n, struct side *out)
{
    uint32_t topics = 0;
    while (cli_flag_nth(args, "topic", topics) != NULL) topics++;
    *out = (struct side){.topic = n < topics ? cli_flag_nth(args, "topic", n) : NULL, .broker = n < topics ? NULL : cli_flag_nth(args, "broker", n - topics)};
    if (out->topic == NULL && out->broker == NULL) return false;
    snprintf(out->name, sizeof(out->name), "%s%.250s", out->topic != NULL ? "" : "broker ", out->topic != NULL ? out->topic : out->broker);
    return true;
}

static int fetch_side(struct cli_api *api, struct side *side)
{
    char *target = NULL;
    int code = cli_config_target(side->topic, side->broker, "", &target);
    if (code < 0) code = cli_api_call(api, "GET", target, NULL, NULL, &side->body, NULL);
    free(target);
    return code;
}

static const json_t *entry_of(const json_t *body, const char *name)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(body, "entries"), i, entry)
        if (strcmp(cli_json_text(entry, "name", ""), name) == 0) return entry;
    return NULL;
}

/* The built-in value is the weakest of the synonyms. */
static const char *built_in_value(const json_t *entry)
{
    size_t i;
    const json_t *synonym;
    const char *value = NULL;
    json_array_foreach(json_object_get(entry, "synonyms"), i, synonym)
        if (strcmp(cli_json_text(synonym, "source", ""), "built_in") == 0) value = cli_json_text(synonym, "value", NULL);
    return value;
}

static bool differ(const char *a, const char *b) { return a == NULL || b == NULL ? a != b : strcmp(a, b) != 0; }

static json_t *differences(const struct side *left, const struct side *right)
{
    json_t *rows = json_array();
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(left->body, "entries"), i, entry)
    {
        const char *name = cli_json_text(entry, "name", ""), *mine = cli_json_text(entry, "value", NULL);
        const json_t *other = right->body == NULL ? NULL : entry_of(right->body, name);
        if (right->body != NULL && other == NULL) continue; /* a broker key beside topic keys */
        const char *theirs = right->body == NULL ? built_in_value(entry) : cli_json_text(other, "value", NULL);
        const bool set = strcmp(cli_json_text(entry, "source", ""), "built_in") != 0;
        if (!differ(mine, theirs) || (right->body == NULL && !set)) continue;
        json_array_append_new(rows, json_pack("{s:s,s:s?,s:s,s:s?,s:s}", "name", name, "left", mine, "left_source", cli_json_text(entry, "source", ""), "right", theirs, "right_source",
                                        other == NULL ? "built_in" : cli_json_text(other, "source", "")));
    }
    return rows;
}

int cli_config_diff_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"name", CLI_COLUMN_TEXT, false}, {"left", CLI_COLUMN_TEXT, false}, {"left_source", CLI_COLUMN_TEXT, false}, {"right", CLI_COLUMN_TEXT, false}, {"right_source", CLI_COLUMN_TEXT, false},
    };
    struct cli_api api;
    struct side left, right, third;
    if (!side_of(args, 0, &left)) return cli_fail(CLI_USAGE, "ottla config diff --topic orders --topic payments", "--topic or --broker is missing");
    const bool two = side_of(args, 1, &right);
    if (side_of(args, 2, &third)) return cli_fail(CLI_USAGE, NULL, "more than two configurations");
    if (two && (left.topic == NULL) != (right.topic == NULL)) return cli_fail(CLI_USAGE, NULL, "a topic and a broker have no keys in common");
    int code = cli_api_open(args, &api);
    if (code < 0) code = fetch_side(&api, &left);
    if (code < 0 && two) code = fetch_side(&api, &right);
    if (code < 0) {
        json_t *rows = differences(&left, &right);
        if (!cli_flag_given(args, "quiet")) fprintf(stderr, "left: %s, right: %s; %zu differences\n", left.name, two ? right.name : "what is built in", json_array_size(rows));
        json_t *whole = json_pack("{s:O}", "items", rows);
        code = cli_print_list(args, columns, OT_ARRAY_COUNT(columns), rows, whole == NULL ? NULL : json_dumps(whole, JSON_COMPACT));
        json_decref(whole);
    }
    json_decref(left.body);
    json_decref(right.body);
    return code;
}

/* ---- explain */

static const struct broker_config_row *row_in(const struct broker_config_row *rows, uint32_t count, const char *key)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(rows[i].key, key) == 0) return &rows[i];
    return NULL;
}

static const struct broker_config_row *broker_row(const char *key)
{
    uint32_t count = 0;
    const struct broker_config_row *rows = broker_config_rows(&count);
    return row_in(rows, count, key);
}

static const struct broker_config_row *topic_row(const char *key)
{
    uint32_t count = 0;
    const struct broker_config_row *rows = broker_topic_config_rows(&count);
    return row_in(rows, count, key);
}

/* The key whose value this one supplies ("log.retention.hours" → "log.retention.ms"); NULL: none. */
static const char *supplies(const char *key)
{
    uint32_t count = 0;
    const struct broker_config_row *rows = broker_config_rows(&count);
    for (uint32_t i = 0; i < count; i++) {
        for (const char *at = rows[i].honoured ? rows[i].synonyms : NULL; at != NULL && *at != 0;) {
            const size_t bytes = strcspn(at, ",*");
            if (bytes == strlen(key) && memcmp(at, key, bytes) == 0) return rows[i].key;
            at += strcspn(at, ",");
            at += *at == ',';
        }
    }
    return NULL;
}

static int unknown_key(const char *key)
{
    const char *names[2048];
    uint32_t count, used = 0;
    for (int kind = 0; kind < 2; kind++) {
        const struct broker_config_row *rows = kind == 0 ? broker_config_rows(&count) : broker_topic_config_rows(&count);
        for (uint32_t i = 0; i < count && used < OT_ARRAY_COUNT(names); i++) names[used++] = rows[i].key;
    }
    char hint[300];
    const char *near = ot_nearest(key, names, used);
    snprintf(hint, sizeof(hint), "ottla config explain %.200s", near == NULL ? "KEY" : near);
    return cli_fail(CLI_NOT_FOUND, near == NULL ? NULL : hint, "there is no key `%s`", key);
}

static void print_row(const char *scope, const struct broker_config_row *row)
{
    static const char *const types[] = {"boolean", "int", "long", "double", "string", "list", "one of", "password"};
    static const char *const changes[] = {"with a restart", "at run time, per broker", "at run time, per broker or for all", "at run time, per topic"};
    printf("%s (%s key)\n", row->key, scope);
    if (row->text != NULL) printf("  %s\n", row->text);
    printf("  type      %s%s%s\n", types[row->type], row->valid != NULL && row->valid[0] != 0 ? " " : "", row->valid != NULL ? row->valid : "");
    printf("  built in  %s\n", row->fallback == NULL ? "nothing" : row->fallback[0] == 0 ? "\"\"" : row->fallback);
    printf("  changes   %s\n", changes[row->change]);
    if (!row->honoured && supplies(row->key) != NULL) printf("  effect    another way to set %s\n", supplies(row->key));
    else if (!row->honoured) puts("  effect    none here: it is known so that Kafka's files are taken, and does nothing");
}

static void print_now(const json_t *entry, const char *who)
{
    size_t i;
    const json_t *synonym;
    const char *value = cli_json_text(entry, "value", NULL), *origin = cli_json_text(entry, "origin", NULL);
    printf("  now       %s for %s, from %s%s%s\n", json_is_true(json_object_get(entry, "sensitive")) ? "(hidden)" : value == NULL ? "nothing" : value, who,
        cli_json_text(entry, "source", "?"), origin != NULL ? " " : "", origin != NULL ? origin : "");
    json_array_foreach(json_object_get(entry, "synonyms"), i, synonym)
    {
        if (i == 0) continue; /* the one that wins */
        const char *hidden = cli_json_text(synonym, "value", NULL);
        printf("  hides     %s=%s, from %s\n", cli_json_text(synonym, "name", "?"), hidden == NULL ? "" : hidden, cli_json_text(synonym, "source", "?"));
    }
}

/* As a server tells it; what the key means is known without one. */
static int tell_now(const struct cli_args *args, const char *key, bool topic_key)
{
    struct cli_api api;
    struct side side = {.topic = cli_flag_value(args, "topic"), .broker = cli_flag_value(args, "broker")};
    json_t *brokers = NULL;
    char id[24];
    int code = cli_api_open(args, &api);
    if (code >= 0) return code;
    if (topic_key && side.topic == NULL) {
        puts("  now       asked with --topic NAME");
        return CLI_DONE;
    }
    if (side.topic == NULL && side.broker == NULL) {
        if ((code = cli_api_call(&api, "GET", "/v1/metrics", NULL, NULL, &brokers, NULL)) >= 0) return code;
        snprintf(id, sizeof(id), "%lld", (long long)cli_json_number(brokers, "broker", 1));
        json_decref(brokers);
        side.broker = id;
    }
    snprintf(side.name, sizeof(side.name), "%s%.250s", side.topic != NULL ? "topic " : "broker ", side.topic != NULL ? side.topic : side.broker);
    if ((code = fetch_side(&api, &side)) >= 0) return code;
    const json_t *entry = entry_of(side.body, key);
    if (entry != NULL) print_now(entry, side.name);
    json_decref(side.body);
    return CLI_DONE;
}

int cli_config_explain_run(const struct cli_args *args)
{
    const char *key = cli_name(args, 0);
    const struct broker_config_row *of_broker = broker_row(key), *of_topic = topic_row(key);
    if (of_broker == NULL && of_topic == NULL) return unknown_key(key);
    const bool topic_key = of_topic != NULL && (of_broker == NULL || cli_flag_given(args, "topic"));
    print_row(topic_key ? "topic" : "broker", topic_key ? of_topic : of_broker);
    if (of_topic != NULL && of_broker != NULL) printf("  also      a %s key of this name\n", topic_key ? "broker" : "topic");
    if (fflush(stdout) != 0) return CLI_FAILED;
    return tell_now(args, key, topic_key);
}

/* ---- import */

struct import {
    json_t *rows;
    bool all;
    uint32_t applies, ignored, stops;
    char controllers[512], protocols[1024]; /* what the file says that decides about its listeners */
};

static enum ot_err note_names(void *arg, int line, const char *key, const char *value)
{
    struct import *import = arg;
    (void)line;
    if (strcmp(key, "controller.listener.names") == 0) snprintf(import->controllers, sizeof(import->controllers), "%s", value);
    if (strcmp(key, "listener.security.protocol.map") == 0) snprintf(import->protocols, sizeof(import->protocols), "%s", value);
    return OT_OK;
}

/* Each address is right by itself; whether it is served is another matter. NULL: it is, all in all, and why has words if something is left out. */
static const char *judge_listeners(const struct import *import, const char *value, char *why, size_t why_bytes)
{
    struct ot_net_address addresses[CLI_LISTENERS_MAX];
    const int count = cli_addresses_parse(value, addresses, CLI_LISTENERS_MAX, why, why_bytes);
    int served = 0;
    for (int i = 0; i < count; i++) {
        char protocol[16] = "none";
        const char *name = addresses[i].scheme[0] == 0 ? "PLAINTEXT" : addresses[i].scheme;
        if (broker_config_listener_is_controllers(import->controllers, name)) {
            snprintf(why, why_bytes, "without %.31s: Kafka's controllers speak there, ours on peer.listeners", name);
            continue;
        }
        (void)broker_config_protocol_of(import->protocols, name, protocol);
        served++;
        if (strcasecmp(protocol, "PLAINTEXT") == 0) continue;
        snprintf(why, why_bytes, "%.31s: its protocol is %s, and only PLAINTEXT is served yet", name, protocol);
        return "refused";
    }
    if (count >= 0 && served > 0) return NULL;
    if (count >= 0) snprintf(why, why_bytes, "no listener is left for clients");
    return "refused";
}

/* Whether one value is taken, by a configuration of its own, since a bad one stops the reading of a file. */
static const char *judge(const char *key, const char *value, char *why, size_t why_bytes, bool *stops)
{
    struct broker_config_store *store = NULL;
    const struct broker_config_row *row = broker_row(key);
    *stops = true;
    why[0] = 0;
    if (broker_config_store_new(&store) != OT_OK) return "out of memory";
    const bool placeholder = strncmp(value, "${", 2) == 0;
    const enum ot_err err = placeholder && broker_config_known(key) ? OT_OK : broker_config_set(store, BROKER_SOURCE_FILE, "", key, value, why, why_bytes);
    broker_config_store_free(store);
    if (err != OT_OK) return broker_config_known(key) ? "refused" : "unknown";
    *stops = false;
    if (supplies(key) != NULL) {
        snprintf(why, why_bytes, "as %s", supplies(key));
        return "applies";
    }
    if (row != NULL && !row->honoured) {
        snprintf(why, why_bytes, "known, and without a meaning here");
        return "ignored";
    }
    return "applies";
}

static enum ot_err import_pair(void *arg, int line, const char *key, const char *value)
{
    struct import *import = arg;
    char why[512];
    bool stops;
    const char *verdict = judge(key, value, why, sizeof(why), &stops), *refused = NULL;
    if (!stops && strcmp(key, "listeners") == 0 && strncmp(value, "${", 2) != 0) refused = judge_listeners(import, value, why, sizeof(why));
    if (refused != NULL) {
        verdict = refused;
        stops = true;
    }
    import->stops += stops;
    import->ignored += strcmp(verdict, "ignored") == 0;
    import->applies += strcmp(verdict, "applies") == 0;
    if (!import->all && strcmp(verdict, "applies") == 0 && (why[0] == 0 || supplies(key) != NULL)) return OT_OK;
    const struct broker_config_row *row = broker_row(key);
    json_array_append_new(import->rows, json_pack("{s:i,s:s,s:s,s:s,s:s}", "line", line, "key", key, "value", row != NULL && row->sensitive ? "(hidden)" : value, "verdict", verdict, "note", why));
    return OT_OK;
}

int cli_config_import_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"line", CLI_COLUMN_NUMBER, false}, {"key", CLI_COLUMN_TEXT, false}, {"value", CLI_COLUMN_TEXT, false}, {"verdict", CLI_COLUMN_STATE, false}, {"note", CLI_COLUMN_TEXT, false},
    };
    const char *path = cli_name(args, 0);
    struct import import = {.rows = json_array(), .all = cli_flag_given(args, "all")};
    char *text = NULL, said[200] = "out of memory";
    size_t bytes = 0;
    int line = 0;
    enum ot_err err = import.rows == NULL ? OT_ERR_NO_MEMORY : broker_config_read_text(path, FILE_BYTES_MAX, &text, &bytes, said, sizeof(said));
    if (err == OT_OK) {
        snprintf(import.protocols, sizeof(import.protocols), "%s", broker_row("listener.security.protocol.map")->fallback);
        err = ot_properties_parse(text, bytes, note_names, &import, &line);
        if (err == OT_OK) err = ot_properties_parse(text, bytes, import_pair, &import, &line);
        free(text);
        if (err != OT_OK) {
            json_decref(import.rows);
            return cli_fail(CLI_PROBLEMS, NULL, "%s:%d: %s", path, line, err == OT_ERR_MALFORMED ? "not a line of a properties file" : ot_err_text(err));
        }
    } else {
        json_decref(import.rows);
        return cli_fail(err == OT_ERR_NOT_FOUND ? CLI_NOT_FOUND : CLI_FAILED, NULL, "%s: %s", path, err == OT_ERR_NOT_FOUND ? "there is no such file" : said);
    }
    json_t *whole = json_pack("{s:O,s:i,s:i,s:i}", "items", import.rows, "applies", (int)import.applies, "ignored", (int)import.ignored, "stops", (int)import.stops);
    int code = cli_print_list(args, columns, OT_ARRAY_COUNT(columns), import.rows, whole == NULL ? NULL : json_dumps(whole, JSON_COMPACT));
    json_decref(whole);
    fprintf(stderr, "%u keys apply, %u are ignored, %u would stop a start\n", import.applies, import.ignored, import.stops);
    return code == CLI_DONE && import.stops > 0 ? CLI_PROBLEMS : code;
}
