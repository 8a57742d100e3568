#include "cli/api.h"
#include "base/util.h"
#include "cli/profile.h"
#include "cli/shared.h"
#include "cli/wait.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API_DEFAULT  "http://127.0.0.1:9095"
#define ADMIN_SOCKET "/run/ottla/admin.sock"
#define PAGES_MAX    10000
#define BOOTSTRAP_MS 3000          /* a broker that hangs is waited for by whoever is asked, for two seconds */

const struct cli_flag cli_api_flags[] = {
    {"api", 0, "URL", false, "http://host:port or unix:/path ($OTTLA_API, else the admin socket, else " API_DEFAULT ")"},
    {"profile", 0, "NAME", false, "the one of that name in ~/.config/ottla/profiles.ini"},
    {"timeout-ms", 0, "MS", false, "give up on an answer after this long (30000)"},
    {"output", 'o', "FORM", false, "table, wide, json, ndjson, csv, name (table); json is the body of the API"},
    {"no-headers", 0, NULL, false, "without the line of column names"},
    {"bytes", 0, NULL, false, "sizes in bytes, not rounded"},
    {"yes", 'y', NULL, false, "do not ask"},
    {"verbose", 'v', NULL, false, "print the curl command that does the same"},
    {"curl", 0, NULL, false, "print it and do nothing"},
    {"quiet", 'q', NULL, false, "say nothing but errors and data"},
    {0},
};

/* $OTTLA_API, the admin socket if it is there, else loopback. */
static const char *usual_url(void)
{
    const char *url = getenv("OTTLA_API");
    return url != NULL && url[0] != 0 ? url : access(ADMIN_SOCKET, W_OK) == 0 ? "unix:" ADMIN_SOCKET : API_DEFAULT;
}

int cli_api_open(const struct cli_args *args, struct cli_api *out)
{
    char why[CLI_WHY_BYTES];
    static char profile[CLI_PROFILE_VALUE_BYTES];
    *out = (struct cli_api){.args = args, .url = cli_flag_value(args, "api"), .verbose = cli_flag_given(args, "verbose"), .only_curl = cli_flag_given(args, "curl")};
    const int code = cli_profile_value(args, "api", profile);
    if (code >= 0) return code;
    if (out->url == NULL && profile[0] != 0) out->url = profile;
    if (out->url == NULL) out->url = usual_url();
    if (cli_http_address(out->url, &out->address, why) != OT_OK) return cli_fail(CLI_USAGE, "--api " API_DEFAULT, "%s", why);
    if (cli_interrupt_install() != OT_OK) return cli_fail(CLI_FAILED, NULL, "no pipe");
    return cli_flag_number(args, "timeout-ms", 1, INT32_MAX, 30000, &out->timeout_ms);
}

/* Quoted for a shell. */
static void put_quoted(FILE *to, const char *text)
{
    fputc('\'', to);
    for (; *text != 0; text++) {
        if (*text == '\'') fputs("'\\''", to);
        else fputc(*text, to);
    }
    fputc('\'', to);
}

static void put_curl(const struct cli_api *api, FILE *to, const char *method, const char *target, const char *body, bool file)
{
    char url[CLI_HOST_BYTES + 64];
    const struct cli_http_address *address = &api->address;
    fputs("curl -sS", to);
    if (file) fputs(" -OJ", to);
    if (strcmp(method, "GET") != 0) fprintf(to, " -X %s", method);
    if (strcmp(method, "GET") != 0 && api->if_match != NULL) {
        char condition[100];
        snprintf(condition, sizeof(condition), "If-Match: %s", api->if_match);
        fputs(" -H ", to);
        put_quoted(to, condition);
    }
    if (address->port == 0) {
        fputs(" --unix-socket ", to);
        put_quoted(to, address->host);
        snprintf(url, sizeof(url), "http://localhost");
    } else {
        snprintf(url, sizeof(url), strchr(address->host, ':') != NULL ? "http://[%s]:%u" : "http://%s:%u", address->host, address->port);
    }
    if (body != NULL) {
        fputs(" -H 'Content-Type: application/json' -d ", to);
        put_quoted(to, body);
    }
    char whole[9000];
    snprintf(whole, sizeof(whole), "%s%s", url, target);
    fputc(' ', to);
    put_quoted(to, whole);
    fputc('\n', to);
}

const char *cli_json_text(const json_t *object, const char *name, const char *absent)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text == NULL ? absent : text;
}

int64_t cli_json_number(const json_t *object, const char *name, int64_t absent)
{
    const json_t *value = json_object_get(object, name);
    if (json_is_integer(value)) return json_integer_value(value);
    return json_is_real(value) ? (int64_t)json_real_value(value) : absent;
}

static enum cli_exit exit_of_status(int status)
{
    switch (status) {
    case 401:
    case 403: return CLI_FORBIDDEN;
    case 404: return CLI_NOT_FOUND;
    case 409:
    case 412:
    case 428: return CLI_CONFLICT;
    case 504: return CLI_UNREACHABLE;
    default: return CLI_FAILED;
    }
}

/* One fault is in the detail already; of several each has its line. */
static void tell_fault(const json_t *row, size_t count)
{
    const char *where = cli_json_text(row, "pointer", cli_json_text(row, "parameter", ""));
    if (count > 1) fprintf(stderr, "  %s%s%s\n", where, where[0] != 0 ? ": " : "", cli_json_text(row, "detail", ""));
}

/* Hints of the server are for those who speak REST; where a command does the same, that is said. */
static void tell_hint(const char *hint)
{
    static const char *const same[][2] = {{"GET /v1/topics", "ottla topic list"}};
    for (size_t i = 0; i < OT_ARRAY_COUNT(same); i++)
        if (strcmp(hint, same[i][0]) == 0) hint = same[i][1];
    fprintf(stderr, "try: %s\n", hint);
}

static int tell_problem(const struct cli_http_reply *reply, const json_t *problem, const char *hint)
{
    const char *error = cli_json_text(problem, "error", NULL), *detail = cli_json_text(problem, "detail", cli_json_text(problem, "title", NULL));
    const char *id = cli_json_text(problem, "request_id", reply->request_id[0] != 0 ? reply->request_id : NULL);
    const char *their_hint = cli_json_text(problem, "hint", NULL);
    char end[128] = "", status[32];
    snprintf(status, sizeof(status), "HTTP %d", reply->status);
    if (id != NULL) snprintf(end, sizeof(end), " (request %.80s)", id);
    const bool unknown = reply->status == 504 || strcmp(cli_json_text(problem, "outcome", ""), "unknown") == 0;
    const int code = cli_fail(exit_of_status(reply->status), NULL, "%s%s%s%s%s", error == NULL ? status : error, detail == NULL ? "" : ": ", detail == NULL ? "" : detail,
        unknown ? "; it is not known whether it was done" : "", end);
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(problem, "errors"), i, row)
        tell_fault(row, json_array_size(json_object_get(problem, "errors")));
    if (hint != NULL) fprintf(stderr, "try: %s\n", hint);
    else if (their_hint != NULL) tell_hint(their_hint);
    return code;
}

static int tell_failure(enum ot_err err, bool sent, const char *method, const char *why)
{
    if (err == OT_ERR_CANCELLED) return CLI_INTERRUPTED;
    const bool unknown = sent && strcmp(method, "GET") != 0;
    if (err == OT_ERR_NO_MEMORY || err == OT_ERR_TOO_LARGE) return cli_fail(CLI_FAILED, NULL, "%s", ot_err_text(err));
    return cli_fail(CLI_UNREACHABLE, sent ? NULL : "ottla server, or name its API with --api http://HOST:PORT", "%s%s", why, unknown ? "; it is not known whether it was done" : "");
}

/* An answer of all brokers, which some of them have not given. */
static void tell_partial(const struct cli_api *api, const json_t *body)
{
    const json_t *missing = json_object_get(body, "missing_brokers"), *id;
    const size_t count = json_array_size(missing);
    size_t i;
    if (!json_is_true(json_object_get(body, "partial")) || count == 0 || cli_flag_given(api->args, "quiet")) return;
    fprintf(stderr, "note: broker%s ", count == 1 ? "" : "s");
    json_array_foreach(missing, i, id) fprintf(stderr, "%s%" JSON_INTEGER_FORMAT, i == 0 ? "" : ", ", json_integer_value(id));
    fprintf(stderr, " %s not answered: what only %s missing\n", count == 1 ? "has" : "have", count == 1 ? "it knows is" : "they know is");
}

int cli_api_call(struct cli_api *api, const char *method, const char *target, const json_t *body, const char *hint, json_t **body_out, char **text_out)
{
    struct cli_http_reply reply;
    char why[CLI_WHY_BYTES] = "";
    json_error_t error;
    bool sent;
    char *text = body == NULL ? NULL : json_dumps(body, JSON_COMPACT);
    *body_out = NULL;
    if (text_out != NULL) *text_out = NULL;
    if (body != NULL && text == NULL) return cli_fail(CLI_USAGE, NULL, "not UTF-8, or out of memory");
    if (api->verbose && !api->only_curl) put_curl(api, stderr, method, target, text, false);
    if (api->only_curl) put_curl(api, stdout, method, target, text, false);
    if (api->only_curl) {
        free(text);
        return CLI_DONE;
    }
    const char *if_match = strcmp(method, "GET") == 0 ? NULL : api->if_match;
    const enum ot_err err = cli_http_ask_if(&api->address, method, target, text, if_match, cli_deadline_us(api->timeout_ms), &reply, &sent, why);
    free(text);
    if (err != OT_OK) return tell_failure(err, sent, method, why);
    snprintf(api->etag, sizeof(api->etag), "%s", reply.etag);
    const bool is_json = strstr(reply.content_type, "json") != NULL;
    if (is_json && reply.body_bytes > 0) *body_out = json_loadb(reply.body, reply.body_bytes, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    int code = -1;
    const bool is_fine = api->fine_error != NULL && reply.status >= 300 && strcmp(cli_json_text(*body_out, "error", ""), api->fine_error) == 0;
    if (is_fine || (reply.status == 404 && api->absent_is_fine)) {
        json_decref(*body_out);
        *body_out = NULL;
    } else if (reply.status >= 300) {
        code = tell_problem(&reply, *body_out, hint);
    } else if (reply.body_bytes > 0 && *body_out == NULL) {
        code = cli_fail(CLI_FAILED, NULL, "%s answers with something that is not the API of ottla", api->url);
    } else if (text_out != NULL) {
        *text_out = reply.body;
        reply.body = NULL;
    }
    if (code >= 0) {
        json_decref(*body_out);
        *body_out = NULL;
    }
    tell_partial(api, *body_out);
    cli_http_reply_free(&reply);
    return code;
}

int cli_api_bytes(struct cli_api *api, const char *target, char **data_out, size_t *bytes_out)
{
    struct cli_http_reply reply;
    char why[CLI_WHY_BYTES] = "";
    bool sent;
    *data_out = NULL;
    *bytes_out = 0;
    if (api->verbose || api->only_curl) put_curl(api, api->only_curl ? stdout : stderr, "GET", target, NULL, true);
    if (api->only_curl) return -1;
    const enum ot_err err = cli_http_ask(&api->address, "GET", target, NULL, cli_deadline_us(api->timeout_ms), &reply, &sent, why);
    if (err != OT_OK) return tell_failure(err, sent, "GET", why);
    int code = -1;
    if (reply.status >= 300) {
        json_t *problem = reply.body_bytes > 0 ? json_loadb(reply.body, reply.body_bytes, JSON_ALLOW_NUL, NULL) : NULL;
        code = tell_problem(&reply, problem, NULL);
        json_decref(problem);
    } else {
        *data_out = reply.body;
        *bytes_out = reply.body_bytes;
        reply.body = NULL;
    }
    cli_http_reply_free(&reply);
    return code;
}

/* A token goes into the query as it is but for what has a meaning there. */
static char *page_target(const char *target, const char *token)
{
    char *encoded = malloc(strlen(token) * 3 + 1), *whole = NULL;
    if (encoded == NULL) return NULL;
    cli_http_encode(token, encoded);
    if (asprintf(&whole, "%s%cpage_token=%s", target, strchr(target, '?') == NULL ? '?' : '&', encoded) < 0) whole = NULL;
    free(encoded);
    return whole;
}

int cli_api_list(struct cli_api *api, const char *target, const char *hint, json_t **items_out, char **text_out)
{
    json_t *body = NULL, *items = NULL;
    char *next = NULL, *text = NULL;
    int code = -1;
    *items_out = NULL;
    if (text_out != NULL) *text_out = NULL;
    for (int page = 0; page < PAGES_MAX; page++) {
        code = cli_api_call(api, "GET", page == 0 ? target : next, NULL, hint, &body, page == 0 ? &text : NULL);
        if (code >= 0) break;
        json_t *more = json_object_get(body, "items");
        if (!json_is_array(more)) {
            code = cli_fail(CLI_FAILED, NULL, "%s answers with something that is not a list", api->url);
            break;
        }
        if (items == NULL) items = json_incref(more);
        else json_array_extend(items, more);
        const char *token = cli_json_text(body, "next_page_token", NULL);
        free(next);
        next = token == NULL || token[0] == 0 ? NULL : page_target(target, token);
        if (next == NULL) break;
        json_decref(body);
        body = NULL;
    }
    if (code < 0 && next == NULL && body != NULL && json_array_size(items) != json_array_size(json_object_get(body, "items"))) {
        free(text); /* several pages: the same shape with all of them */
        json_t *whole = json_pack("{s:O,s:n,s:I}", "items", items, "next_page_token", "total", (json_int_t)json_array_size(items));
        text = whole == NULL ? NULL : json_dumps(whole, JSON_COMPACT);
        json_decref(whole);
    }
    free(next);
    json_decref(body);
    if (code >= 0) {
        json_decref(items);
        free(text);
        return code;
    }
    *items_out = items;
    if (text_out != NULL) *text_out = text;
    else free(text);
    return -1;
}

int cli_api_list_or_none(struct cli_api *api, const char *target, json_t **items_out, char **text_out)
{
    json_t *body = NULL;
    *items_out = NULL;
    *text_out = NULL;
    api->absent_is_fine = true;
    int code = cli_api_call(api, "GET", target, NULL, NULL, &body, NULL);
    api->absent_is_fine = false;
    if (code < 0 && body == NULL) {
        api->etag[0] = 0;
        *items_out = json_array();
        return *items_out == NULL ? cli_fail(CLI_FAILED, NULL, "out of memory") : -1;
    }
    const bool one_page = code < 0 && json_is_null(json_object_get(body, "next_page_token"));
    if (one_page) *items_out = json_incref(json_object_get(body, "items"));
    json_decref(body);
    return code >= 0 || one_page ? code : cli_api_list(api, target, NULL, items_out, text_out);
}

bool cli_confirm(const struct cli_args *args, const char *question, const char *word)
{
    char line[512];
    if (cli_flag_given(args, "yes")) return true;
    if (!isatty(0)) {
        (void)cli_fail(CLI_USAGE, "the same with --yes", "%s Nothing was done: there is no terminal to ask on", question);
        return false;
    }
    fprintf(stderr, "%s Type `%s` to go on: ", question, word);
    if (fgets(line, sizeof(line), stdin) == NULL) return false;
    line[strcspn(line, "\r\n")] = 0;
    if (strcmp(line, word) == 0) return true;
    fputs("nothing was done\n", stderr);
    return false;
}

/* "host:port" of the first listener that is told of a broker, behind what there is; the host as the API was reached when clients are told what they reached. */
static void add_listener(const json_t *broker, const char *api_host, char *out, size_t out_bytes)
{
    size_t k;
    const json_t *listener;
    json_array_foreach(json_object_get(broker, "listeners"), k, listener)
    {
        const char *host = cli_json_text(listener, "host", NULL);
        const int64_t port = cli_json_number(listener, "port", 0);
        const size_t used = strlen(out);
        if (port <= 0 || strcmp(cli_json_text(listener, "security", "PLAINTEXT"), "PLAINTEXT") != 0) continue;
        if (host == NULL || host[0] == 0) host = api_host;
        const int more = snprintf(out + used, out_bytes - used, strchr(host, ':') != NULL ? "%s[%s]:%lld" : "%s%s:%lld", used > 0 ? "," : "", host, (long long)port);
        if (more < 0 || (size_t)more >= out_bytes - used) out[used] = 0;       /* no room: those before are enough */
        return;
    }
}

/* Of the brokers that live, or of all when none is told to. */
static bool listeners(const json_t *brokers, const char *api_host, char *out, size_t out_bytes)
{
    size_t i;
    const json_t *broker;
    out[0] = 0;
    for (int all = 0; all < 2 && out[0] == 0; all++) {
        json_array_foreach(json_object_get(brokers, "items"), i, broker)
            if (all == 1 || strcmp(cli_json_text(broker, "state", ""), "fenced") != 0) add_listener(broker, api_host, out, out_bytes);
    }
    return out[0] != 0;
}

json_t *cli_api_peek(const struct cli_http_address *address, const char *target)
{
    struct cli_http_reply reply;
    char why[CLI_WHY_BYTES] = "";
    bool sent;
    if (cli_interrupt_install() != OT_OK) return NULL;
    if (cli_http_ask(address, "GET", target, NULL, cli_deadline_us(BOOTSTRAP_MS), &reply, &sent, why) != OT_OK) return NULL;
    json_t *body = reply.status == 200 && reply.body != NULL ? json_loadb(reply.body, reply.body_bytes, 0, NULL) : NULL;
    cli_http_reply_free(&reply);
    return body;
}

bool cli_api_bootstrap_at(const struct cli_http_address *address, char *out, size_t out_bytes)
{
    json_t *body = cli_api_peek(address, "/v1/brokers?limit=10");
    const bool found = body != NULL && listeners(body, address->port == 0 ? "127.0.0.1" : address->host, out, out_bytes);
    json_decref(body);
    return found;
}

bool cli_api_bootstrap(const char *url, char *out, size_t out_bytes)
{
    struct cli_http_address address;
    char why[CLI_WHY_BYTES] = "";
    return cli_http_address(url == NULL ? usual_url() : url, &address, why) == OT_OK && cli_api_bootstrap_at(&address, out, out_bytes);
}
