/* Leaders and replicas: `ottla cluster elect`, `ottla cluster reassign`, and their short forms `cluster rebalance`, `topic elect`, `topic move`. */
#include "cli/api.h"
#include "cli/operate.h"
#include "cli/shared.h"
#include "cli/text.h"
#include "cli/topic_table.h"
#include "base/util.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const struct cli_flag cli_cluster_elect_flags[] = {
    {"type", 0, "preferred|unclean", false, "preferred (default): back to the first replica, nothing is lost; unclean: whoever has most, what only others have is lost"},
    {"leader", 0, "ID", false, "unclean: this replica, whatever others have (the longest log)"},
    {"dry-run", 'n', NULL, false, "show who would lead and what would be lost, do nothing"},
    {0},
};
const struct cli_flag cli_cluster_reassign_flags[] = {
    {"rebalance", 0, NULL, false, "plan, start: as many replicas and leaders on each broker"},
    {"empty", 0, "BROKER", true, "plan, start: nothing on this one"},
    {"replication-factor", 0, "N", false, "plan, start: so many replicas of the topics"},
    {"topic", 0, "TOPIC", true, "plan, start: only this one (all)"},
    {"max-moves", 0, "N", false, "plan, start: at most so many partitions"},
    {"file", 0, "FILE", false, "start: a plan, as `plan -o json` printed it, or a file of kafka-reassign-partitions; - is stdin"},
    {"throttle", 0, "BYTES", false, "start: bytes a second of each broker, as 20m"},
    {"all", 0, NULL, false, "cancel: whatever is being moved"},
    {"dry-run", 'n', NULL, false, "start, cancel: check and show, do nothing"},
    CLI_WATCH_FLAG,
    {0},
};
const struct cli_flag cli_cluster_rebalance_flags[] = {
    {"topic", 0, "TOPIC", true, "only this one (all)"},
    {"max-moves", 0, "N", false, "at most so many partitions"},
    {"throttle", 0, "BYTES", false, "bytes a second of each broker, as 20m"},
    {"dry-run", 'n', NULL, false, "check and show, do nothing"},
    {0},
};
const struct cli_flag cli_topic_move_flags[] = {
    {"replicas", 0, "ID,ID,…", false, "the brokers that shall hold it, the preferred leader first"},
    {"throttle", 0, "BYTES", false, "bytes a second of each broker, as 20m"},
    {"dry-run", 'n', NULL, false, "check and show, do nothing"},
    {0},
};

static int no_memory(void) { return cli_fail(CLI_FAILED, NULL, "out of memory"); }

static bool wants_json(const struct cli_args *args)
{
    const char *output = cli_flag_value(args, "output");
    return output != NULL && strcmp(output, "json") == 0;
}

bool cli_place_of(const char *text, char topic_out[static 250], int64_t *partition_out)
{
    const char *colon = strrchr(text, ':');
    const size_t bytes = colon == NULL ? strlen(text) : (size_t)(colon - text);
    *partition_out = -1;
    if (bytes == 0 || bytes > 249) return false;
    memcpy(topic_out, text, bytes);
    topic_out[bytes] = 0;
    return colon == NULL || cli_number(colon + 1, 0, INT32_MAX, partition_out);
}

/* ---- elect */

#define NOT_NEEDED "ELECTION_NOT_NEEDED"

static void add_place(json_t *partitions, const char *topic, int64_t partition, int64_t leader)
{
    json_t *place = json_pack("{s:s,s:I}", "topic", topic, "partition", (json_int_t)partition);
    if (leader >= 0) json_object_set_new(place, "leader", json_integer((json_int_t)leader));
    json_array_append_new(partitions, place);
}

/* All partitions of a topic, or the one that is named. leader: -1: nobody is named. */
static int add_places(struct cli_api *api, const char *text, int64_t leader, json_t *partitions)
{
    char topic[250], target[900], encoded[768];
    int64_t partition;
    json_t *items = NULL, *row;
    size_t i;
    if (!cli_place_of(text, topic, &partition)) return cli_fail(CLI_USAGE, "ottla cluster elect orders:0", "`%s` is neither a topic nor topic:partition", text);
    if (partition >= 0) {
        add_place(partitions, topic, partition, leader);
        return -1;
    }
    cli_http_encode(topic, encoded);
    snprintf(target, sizeof(target), "/v1/topics/%s/partitions?limit=1000", encoded);
    const int code = cli_api_list(api, target, "ottla topic list", &items, NULL);
    json_array_foreach(items, i, row) add_place(partitions, topic, cli_json_number(row, "partition", 0), leader);
    json_decref(items);
    return code;
}

/* Members of "lost" and "error" as columns of their own. */
static json_t *flat_elections(const json_t *items)
{
    json_t *rows = json_array(), *row;
    const json_t *item;
    size_t i;
    json_array_foreach(items, i, item) {
        if ((row = json_copy((json_t *)(uintptr_t)item)) == NULL) continue;
        const json_t *lost = json_object_get(item, "lost"), *error = json_object_get(item, "error");
        json_object_set(row, "lost_from", json_is_null(lost) ? json_null() : json_object_get(lost, "start"));
        json_object_set(row, "lost_to", json_is_null(lost) ? json_null() : json_object_get(lost, "end"));
        json_object_set(row, "error", json_is_null(error) ? json_null() : json_object_get(error, "error"));
        json_array_append_new(rows, row);
    }
    return rows;
}

/* Those whose leader is the right one already are done. */
static int count_failed(const json_t *items)
{
    const json_t *item;
    size_t i;
    int failed = 0;
    json_array_foreach(items, i, item) {
        const json_t *error = json_object_get(item, "error");
        failed += !json_is_null(error) && strcmp(cli_json_text(error, "error", ""), NOT_NEEDED) != 0;
    }
    return failed;
}

/* None of them needs one: an answer without items. */
static int post_election(struct cli_api *api, const json_t *partitions, bool unclean, bool dry_run, json_t **body, char **text)
{
    json_t *ask = json_pack("{s:s,s:b}", "type", unclean ? "unclean" : "preferred", "dry_run", (int)dry_run);
    if (ask == NULL) return no_memory();
    if (partitions != NULL) json_object_set(ask, "partitions", (json_t *)(uintptr_t)partitions);
    if (unclean) json_object_set_new(ask, "accept_data_loss", json_true());
    const int code = cli_api_call(api, "POST", "/v1/elections", ask, unclean ? "ottla topic list --internal --state offline" : "ottla topic isr", body, text);
    json_decref(ask);
    if (code >= 0 || *body != NULL || api->only_curl) return code;
    *body = json_pack("{s:s,s:b,s:[]}", "type", unclean ? "unclean" : "preferred", "dry_run", (int)dry_run, "items");
    *text = *body == NULL ? NULL : json_dumps(*body, JSON_COMPACT);
    return *text == NULL ? no_memory() : -1;
}

static int show_elections(const struct cli_args *args, json_t *body, char *text)
{
    static const struct cli_column columns[] = {
        {"topic", CLI_COLUMN_TEXT, false}, {"partition", CLI_COLUMN_NUMBER, false}, {"old_leader", CLI_COLUMN_NUMBER, false}, {"new_leader", CLI_COLUMN_NUMBER, false},
        {"lost_from", CLI_COLUMN_NUMBER, false}, {"lost_to", CLI_COLUMN_NUMBER, false}, {"error", CLI_COLUMN_TEXT, false},
    };
    if (body == NULL) return CLI_DONE;
    json_t *items = json_object_get(body, "items"), *rows = wants_json(args) ? json_incref(items) : flat_elections(items);
    const int failed = count_failed(items);
    if (json_array_size(items) == 0) fputs("nothing to do: no partition needs an election\n", stderr);
    json_decref(body);
    const int code = cli_print_list(args, columns, OT_ARRAY_COUNT(columns), rows, text);
    return code == CLI_DONE && failed > 0 ? CLI_PARTLY : code;
}

int cli_cluster_elect_run(const struct cli_args *args)
{
    static const char *const types[] = {"preferred", "unclean"};
    struct cli_api api;
    json_t *partitions = cli_name_count(args) > 0 ? json_array() : NULL, *body = NULL;
    char *text = NULL;
    uint32_t type = 0;
    int64_t leader = -1;
    const bool dry_run = cli_flag_given(args, "dry-run");
    int code = cli_flag_choice(args, "type", types, 2, 0, &type);
    if (code < 0) code = cli_flag_number(args, "leader", 0, INT32_MAX, -1, &leader);
    if (code < 0 && leader >= 0 && (type != 1 || partitions == NULL))
        code = cli_fail(CLI_USAGE, "ottla cluster elect orders:0 --type unclean --leader 2", "--leader is for an unclean election of partitions that are named");
    if (code < 0) code = cli_api_open(args, &api);
    if (code < 0) api.fine_error = NOT_NEEDED;
    for (uint32_t i = 0; code < 0 && i < cli_name_count(args); i++) code = add_places(&api, cli_name(args, i), leader, partitions);
    if (code < 0 && type == 1 && !dry_run && !api.only_curl) {         /* the plan first, then the question */
        code = post_election(&api, partitions, true, true, &body, &text);
        if (code < 0) {
            const bool any = json_array_size(json_object_get(body, "items")) > 0;
            const int shown = show_elections(args, body, text);
            body = NULL;
            text = NULL;
            if (!any || (shown != CLI_DONE && shown != CLI_PARTLY)) code = shown;
            else if (!cli_confirm(args, "Records that only other replicas have will be lost.", "lose")) code = CLI_USAGE;
        }
    }
    if (code < 0) code = post_election(&api, partitions, type == 1, dry_run, &body, &text);
    json_decref(partitions);
    return code < 0 ? show_elections(args, body, text) : code;
}

/* ---- reassign: the goal */

static int goal_of(const struct cli_args *args, json_t **out)
{
    json_t *goal = json_object(), *brokers = json_array(), *topics = json_array();
    int64_t factor = 0, most = 0, id;
    int code = goal == NULL || brokers == NULL || topics == NULL ? no_memory() : -1;
    const char *value;
    if (code < 0) code = cli_flag_number(args, "replication-factor", 1, 64, 0, &factor);
    if (code < 0) code = cli_flag_number(args, "max-moves", 1, 10000, 0, &most);
    for (uint32_t i = 0; code < 0 && (value = cli_flag_nth(args, "empty", i)) != NULL; i++) {
        if (!cli_number(value, 0, INT32_MAX, &id)) code = cli_fail(CLI_USAGE, "ottla cluster brokers", "--empty: `%s` is not the id of a broker", value);
        else json_array_append_new(brokers, json_integer(id));
    }
    for (uint32_t i = 0; code < 0 && (value = cli_flag_nth(args, "topic", i)) != NULL; i++) json_array_append_new(topics, json_string(value));
    const bool empties = json_array_size(brokers) > 0, balances = cli_flag_given(args, "rebalance") || strcmp(cli_args_command(args)->verb, "rebalance") == 0;
    if (code < 0 && empties + balances + (factor > 0) != 1)
        code = cli_fail(CLI_USAGE, "ottla cluster reassign plan --rebalance", "one of --rebalance, --empty and --replication-factor says what the plan is for");
    if (code < 0) {
        json_object_set_new(goal, "goal", json_string(empties ? "empty" : balances ? "rebalance" : "replication_factor"));
        if (empties) json_object_set(goal, "brokers", brokers);
        if (json_array_size(topics) > 0) json_object_set(goal, "topics", topics);
        if (factor > 0) json_object_set_new(goal, "replication_factor", json_integer(factor));
        if (most > 0) json_object_set_new(goal, "max_moves", json_integer(most));
    }
    json_decref(brokers);
    json_decref(topics);
    *out = goal;
    return code;
}

static int ask_plan(const struct cli_args *args, struct cli_api *api, json_t **body, char **text)
{
    json_t *goal = NULL;
    int code = goal_of(args, &goal);
    if (code < 0) code = cli_api_call(api, "POST", "/v1/reassignments/plan", goal, "ottla topic list", body, text);
    json_decref(goal);
    return code;
}

static int show_moves(const struct cli_args *args, json_t *body, const char *list, char *text)
{
    static const struct cli_column columns[] = {
        {"topic", CLI_COLUMN_TEXT, false}, {"partition", CLI_COLUMN_NUMBER, false}, {"from", CLI_COLUMN_TEXT, false}, {"replicas", CLI_COLUMN_TEXT, false},
        {"bytes_to_move", CLI_COLUMN_BYTES, false}, {"error", CLI_COLUMN_TEXT, false},
    };
    if (body == NULL) return CLI_DONE;
    json_t *rows = json_incref(json_object_get(body, list));
    const int failed = strcmp(list, "items") == 0 ? count_failed(rows) : 0;
    if (!wants_json(args) && !cli_flag_given(args, "quiet")) {
        char bytes[24];
        if (json_is_integer(json_object_get(body, "bytes_to_move")))
            fprintf(stderr, "%zu partition%s, %s to copy\n", json_array_size(rows), json_array_size(rows) == 1 ? "" : "s", cli_human_bytes((uint64_t)cli_json_number(body, "bytes_to_move", 0), bytes));
        if (cli_json_number(body, "stuck", 0) > 0) fprintf(stderr, "%" PRId64 " partitions can go nowhere: too few brokers\n", cli_json_number(body, "stuck", 0));
        if (cli_json_number(body, "being_moved", 0) > 0) fprintf(stderr, "%" PRId64 " partitions are left out: they are being moved\n", cli_json_number(body, "being_moved", 0));
    }
    json_decref(body);
    const int code = cli_print_list(args, columns, OT_ARRAY_COUNT(columns), rows, text);
    return code == CLI_DONE && failed > 0 ? CLI_PARTLY : code;
}

static int plan(const struct cli_args *args, struct cli_api *api)
{
    json_t *body = NULL;
    char *text = NULL;
    const int code = ask_plan(args, api, &body, &text);
    return code < 0 ? show_moves(args, body, "moves", text) : code;
}

/* ---- start */

/* Kafka's tool names its list otherwise, and where on a broker a replica is to lie, which here is the broker's to choose. */
static json_t *moves_of(json_t *all)
{
    json_t *moves = json_is_array(all) ? all : json_object_get(all, "moves"), *one;
    size_t i;
    if (moves != NULL) return moves;
    json_array_foreach(moves = json_object_get(all, "partitions"), i, one) {
        if (json_is_object(one)) (void)json_object_del(one, "log_dirs");
    }
    return moves;
}

static int read_plan(const char *path, json_t **moves_out)
{
    json_error_t why;
    json_t *all = strcmp(path, "-") == 0 ? json_loadf(stdin, JSON_REJECT_DUPLICATES, &why) : json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (all == NULL) return cli_fail(CLI_USAGE, "ottla cluster reassign plan --rebalance -o json > plan.json", "%s: %s", path, why.text);
    json_t *moves = moves_of(all);
    if (!json_is_array(moves)) {
        json_decref(all);
        return cli_fail(CLI_USAGE, "ottla cluster reassign plan --rebalance -o json > plan.json", "%s: there is no list of moves in it", path);
    }
    *moves_out = json_incref(moves);
    json_decref(all);
    return -1;
}

static int post_moves(struct cli_api *api, json_t *moves, int64_t throttle, bool dry_run, json_t **body, char **text)
{
    json_t *ask = json_pack("{s:O,s:b}", "moves", moves, "dry_run", (int)dry_run);
    if (ask == NULL) return no_memory();
    if (throttle > 0) json_object_set_new(ask, "throttle_bytes_per_second", json_integer(throttle));
    const int code = cli_api_call(api, "POST", "/v1/reassignments", ask, "ottla cluster reassign status", body, text);
    json_decref(ask);
    return code;
}

/* Another first replica: whoever leads now goes on, if it stays, until an election. */
static bool any_leads_elsewhere(const json_t *items)
{
    const json_t *item;
    size_t i;
    json_array_foreach(items, i, item) {
        const int64_t was = json_integer_value(json_array_get(json_object_get(item, "from"), 0)), is = json_integer_value(json_array_get(json_object_get(item, "replicas"), 0));
        const json_t *id;
        size_t k;
        json_array_foreach(json_object_get(item, "replicas"), k, id) if (was != is && json_integer_value(id) == was) return true;
    }
    return false;
}

/* The plan first, then the question, then the moves, which it takes over. */
static int start_moves(const struct cli_args *args, struct cli_api *api, json_t *moves)
{
    const char *throttle_text = cli_flag_value(args, "throttle");
    const bool dry_run = cli_flag_given(args, "dry-run");
    json_t *body = NULL;
    char *text = NULL, question[120];
    int64_t throttle = 0;
    int code = -1;
    if (throttle_text != NULL && !cli_size(throttle_text, 1, INT64_MAX, &throttle)) code = cli_fail(CLI_USAGE, "--throttle 20m", "--throttle: `%s` is not a number of bytes", throttle_text);
    if (code >= 0) {
        json_decref(moves);
        return code;
    }
    if (!dry_run && !api->only_curl) {
        code = post_moves(api, moves, throttle, true, &body, &text);
        snprintf(question, sizeof(question), "The replicas of %zu partitions will be moved.", json_array_size(moves));
        if (code < 0 && !wants_json(args)) (void)show_moves(args, body, "items", text);
        else {
            json_decref(body);
            free(text);
        }
        body = NULL;
        text = NULL;
        if (code < 0 && !cli_confirm(args, question, NULL)) code = CLI_USAGE;
    }
    if (code < 0) code = post_moves(api, moves, throttle, dry_run, &body, &text);
    json_decref(moves);
    if (code >= 0) return code;
    if (dry_run || wants_json(args) || body == NULL) return show_moves(args, body, "items", text);
    const int failed = count_failed(json_object_get(body, "items"));
    if (!cli_flag_given(args, "quiet")) printf("%zu begun, %d refused: ottla cluster reassign status\n", json_array_size(json_object_get(body, "items")) - (size_t)failed, failed);
    if (!cli_flag_given(args, "quiet") && any_leads_elsewhere(json_object_get(body, "items")))
        puts("leaders follow once that is done: ottla cluster elect, or within five minutes by themselves (auto.leader.rebalance.enable)");
    json_decref(body);
    free(text);
    return failed > 0 ? CLI_PARTLY : CLI_DONE;
}

static int start(const struct cli_args *args, struct cli_api *api)
{
    const char *file = cli_flag_value(args, "file");
    json_t *moves = NULL, *body = NULL;
    const int code = file != NULL ? read_plan(file, &moves) : ask_plan(args, api, &body, NULL);
    if (code >= 0) return code;
    if (file == NULL && body == NULL) return CLI_DONE;         /* --curl */
    if (file == NULL) moves = json_incref(json_object_get(body, "moves"));
    json_decref(body);
    if (json_array_size(moves) > 0) return start_moves(args, api, moves);
    json_decref(moves);
    if (!cli_flag_given(args, "quiet")) puts("nothing to move");
    return CLI_DONE;
}

int cli_cluster_rebalance_run(const struct cli_args *args)
{
    struct cli_api api;
    const int code = cli_api_open(args, &api);
    return code >= 0 ? code : start(args, &api);
}

/* "1,2,3"; NULL: not that. */
static json_t *ids_of(const char *text)
{
    json_t *ids = json_array();
    for (const char *at = text; at != NULL;) {
        const size_t bytes = strcspn(at, ",");
        char one[16];
        int64_t id;
        snprintf(one, sizeof(one), "%.*s", (int)OT_MIN(bytes, sizeof(one)), at);
        if (!cli_number(one, 0, INT32_MAX, &id)) {
            json_decref(ids);
            return NULL;
        }
        json_array_append_new(ids, json_integer(id));
        at = at[bytes] == ',' ? at + bytes + 1 : NULL;
    }
    return ids;
}

int cli_topic_move_run(const struct cli_args *args)
{
    struct cli_api api;
    char topic[250];
    int64_t partition;
    const char *replicas = cli_flag_value(args, "replicas");
    if (!cli_place_of(cli_name(args, 0), topic, &partition) || partition < 0) return cli_fail(CLI_USAGE, "ottla topic move orders:0 --replicas 1,2,3", "`%s` is not topic:partition", cli_name(args, 0));
    if (replicas == NULL) return cli_fail(CLI_USAGE, "ottla topic move orders:0 --replicas 1,2,3", "--replicas is missing");
    json_t *ids = ids_of(replicas);
    if (ids == NULL) return cli_fail(CLI_USAGE, "ottla topic move orders:0 --replicas 1,2,3", "--replicas: `%s` is no list of brokers", replicas);
    json_t *moves = json_pack("[{s:s,s:I,s:o}]", "topic", topic, "partition", (json_int_t)partition, "replicas", ids);
    if (moves == NULL) return no_memory();
    const int code = cli_api_open(args, &api);
    if (code < 0) return start_moves(args, &api, moves);
    json_decref(moves);
    return code;
}

/* ---- status, cancel */

static int status(const struct cli_args *args, struct cli_api *api)
{
    static const struct cli_column columns[] = {
        {"topic", CLI_COLUMN_TEXT, false}, {"partition", CLI_COLUMN_NUMBER, false}, {"from", CLI_COLUMN_TEXT, false}, {"to", CLI_COLUMN_TEXT, false}, {"copied_bytes", CLI_COLUMN_BYTES, false},
        {"total_bytes", CLI_COLUMN_BYTES, false}, {"eta_ms", CLI_COLUMN_NUMBER, false}, {"throttle_bytes_per_second", CLI_COLUMN_BYTES, false},
    };
    json_t *items = NULL;
    char *text = NULL;
    const int code = cli_api_list(api, "/v1/reassignments?limit=1000", NULL, &items, &text);
    return code >= 0 ? code : cli_print_list(args, columns, OT_ARRAY_COUNT(columns), items, text);
}

static int cancel_one(const struct cli_args *args, struct cli_api *api, const char *topic, int64_t partition)
{
    const bool dry_run = cli_flag_given(args, "dry-run");
    char encoded[768], target[900];
    json_t *body = NULL;
    cli_http_encode(topic, encoded);
    snprintf(target, sizeof(target), "/v1/reassignments/%s/%" PRId64 "%s", encoded, partition, dry_run ? "?validate_only=true" : "");
    const int code = cli_api_call(api, "DELETE", target, NULL, "ottla cluster reassign status", &body, NULL);
    json_decref(body);
    if (code < 0 && !api->only_curl && !cli_flag_given(args, "quiet")) printf("%s:%" PRId64 " %s\n", topic, partition, dry_run ? "could be cancelled" : "goes back");
    return code;
}

static int cancel(const struct cli_args *args, struct cli_api *api)
{
    json_t *items = NULL, *row;
    char topic[250];
    int64_t partition;
    size_t i;
    int failed = -1, done = 0, code = -1;
    const bool all = cli_flag_given(args, "all");
    if (all != (cli_name_count(args) == 1)) return cli_fail(CLI_USAGE, "ottla cluster reassign cancel orders:3", "cancel takes topic:partition, or --all");
    if (all) code = cli_api_list(api, "/v1/reassignments?limit=1000", NULL, &items, NULL);
    if (code >= 0) return code;
    for (uint32_t n = 1; n < cli_name_count(args); n++) {
        if (!cli_place_of(cli_name(args, n), topic, &partition) || partition < 0) return cli_fail(CLI_USAGE, "ottla cluster reassign cancel orders:3", "`%s` is not topic:partition", cli_name(args, n));
        code = cancel_one(args, api, topic, partition);
        if (code >= 0) failed = code;
        else done++;
    }
    json_array_foreach(items, i, row) {
        if (json_is_true(json_object_get(row, "goes_back"))) continue;         /* cancelled before */
        code = cancel_one(args, api, cli_json_text(row, "topic", ""), cli_json_number(row, "partition", 0));
        if (code >= 0) failed = code;
        else done++;
    }
    json_decref(items);
    return failed < 0 ? CLI_DONE : done > 0 ? CLI_PARTLY : failed;
}

int cli_cluster_reassign_run(const struct cli_args *args)
{
    static const struct { const char *name; int (*run)(const struct cli_args *args, struct cli_api *api); } verbs[] = {{"status", status}, {"plan", plan}, {"start", start}, {"cancel", cancel}};
    static const char *const names[] = {"status", "plan", "start", "cancel"};
    struct cli_api api;
    const char *verb = cli_name_count(args) == 0 ? "status" : cli_name(args, 0);
    for (size_t i = 0; i < OT_ARRAY_COUNT(verbs); i++) {
        if (strcmp(verb, verbs[i].name) != 0) continue;
        if (verbs[i].run != cancel && cli_name_count(args) > 1) return cli_fail(CLI_USAGE, NULL, "cluster reassign %s takes no names", verb);
        if (verbs[i].run != status && cli_flag_given(args, "watch")) return cli_fail(CLI_USAGE, "ottla cluster reassign status --watch", "--watch is for status");
        const int code = cli_api_open(args, &api);
        return code >= 0 ? code : verbs[i].run(args, &api);
    }
    return cli_fail(CLI_USAGE, ot_nearest(verb, names, OT_ARRAY_COUNT(names)), "cluster reassign: `%s` is none of status, plan, start, cancel", verb);
}
