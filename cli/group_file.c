/* JSON: {"group":"billing","exported_at":"…","offsets":[{"topic":"orders","partition":0,"offset":4120,"metadata":""}]}, the body that PUT /v1/groups/{group}/offsets takes
 * and a little more. CSV: topic,partition,offset a line, without heads, as kafka-consumer-groups --export has it; group,topic,partition,offset is read too. */
#include "cli/group_file.h"
#include "base/util.h"
#include "cli/shared.h"
#include "cli/text.h"
#include "cli/topic_table.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES_MAX (16u << 20)
#define PUT_MAX        10000u /* offsets that one request takes */

const struct cli_flag cli_group_export_flags[] = {
    {"topic", 0, "TOPIC", true, "only this topic (all that the group has committed)"},
    {"format", 'f', "json|csv", false, "json, or csv as Kafka's own tool has it: topic,partition,offset (json)"},
    {0},
};
const struct cli_flag cli_group_import_flags[] = {
    {"topic", 0, "TOPIC", true, "only this topic (all that the file has)"},
    {"dry-run", 'n', NULL, false, "show what would be, do nothing"},
    {0},
};

static int no_memory(void) { return cli_fail(CLI_FAILED, NULL, "out of memory"); }

static bool wanted(const struct cli_args *args, const char *topic)
{
    const char *one;
    for (uint32_t i = 0; (one = cli_flag_nth(args, "topic", i)) != NULL; i++)
        if (strcmp(one, topic) == 0) return true;
    return cli_flag_nth(args, "topic", 0) == NULL;
}

static char *target_of(const char *group, const char *rest)
{
    char *encoded = malloc(strlen(group) * 3 + 1), *whole = NULL;
    if (encoded == NULL) return NULL;
    cli_http_encode(group, encoded);
    if (asprintf(&whole, "/v1/groups/%s%s", encoded, rest) < 0) whole = NULL;
    free(encoded);
    return whole;
}

/* What the group has committed; etag_out, when not NULL, gets the version of that. A group that is not there has nothing. */
static int committed(struct cli_api *api, const char *group, bool absent_is_fine, json_t **items_out)
{
    char *target = target_of(group, "/offsets?limit=1000"), *text = NULL;
    if (target == NULL) return no_memory();
    const int code = absent_is_fine ? cli_api_list_or_none(api, target, items_out, &text) : cli_api_list(api, target, "ottla group list", items_out, &text);
    free(target);
    free(text);
    return code;
}

/* ---- export */

static int print_csv(const json_t *offsets)
{
    size_t i;
    const json_t *one;
    json_array_foreach(offsets, i, one) printf("%s,%" PRId64 ",%" PRId64 "\n", cli_json_text(one, "topic", ""), cli_json_number(one, "partition", 0), cli_json_number(one, "offset", 0));
    return cli_print_body(NULL);
}

static json_t *file_of(const char *group, const struct cli_args *args, const json_t *items)
{
    char now[25];
    size_t i;
    const json_t *item;
    json_t *offsets = json_array();
    json_array_foreach(items, i, item)
    {
        if (!wanted(args, cli_json_text(item, "topic", "")) || cli_json_number(item, "offset", -1) < 0) continue;
        json_array_append_new(offsets, json_pack("{s:O,s:O,s:O,s:s}", "topic", json_object_get(item, "topic"), "partition", json_object_get(item, "partition"), "offset",
                                           json_object_get(item, "offset"), "metadata", cli_json_text(item, "metadata", "")));
    }
    ot_time_text(ot_clock_wall_ms(), now);
    return json_pack("{s:s,s:s#,s:o}", "group", group, "exported_at", now, (int)24, "offsets", offsets);
}

int cli_group_export_run(const struct cli_args *args)
{
    static const char *const forms[] = {"json", "csv"};
    struct cli_api api;
    uint32_t form = 0;
    json_t *items = NULL;
    int code = cli_api_open(args, &api);
    if (code < 0) code = cli_flag_choice(args, "format", forms, 2, 0, &form);
    if (code < 0) code = committed(&api, cli_name(args, 0), false, &items);
    if (code >= 0) return code;
    json_t *file = file_of(cli_name(args, 0), args, items);
    json_decref(items);
    if (file == NULL) return no_memory();
    const json_t *offsets = json_object_get(file, "offsets");
    if (json_array_size(offsets) == 0 && !cli_flag_given(args, "quiet")) fprintf(stderr, "%s has committed nothing%s\n", cli_name(args, 0), cli_flag_given(args, "topic") ? " for that" : "");
    if (form == 1) code = print_csv(offsets);
    else code = json_dumpf(file, stdout, JSON_INDENT(2)) != 0 ? cli_fail(CLI_FAILED, NULL, "standard output: it takes no more") : (putchar('\n'), cli_print_body(NULL));
    json_decref(file);
    return code;
}

/* ---- import: reading */

static char *read_all(const char *path, size_t *bytes_out)
{
    const bool stdin_it_is = strcmp(path, "-") == 0;
    const int fd = stdin_it_is ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd < 0 ? NULL : malloc(FILE_BYTES_MAX + 1);
    size_t bytes = 0;
    ssize_t more = 0;
    while (text != NULL && bytes < FILE_BYTES_MAX && (more = read(fd, text + bytes, FILE_BYTES_MAX - bytes)) != 0) {
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) break;
        bytes += (size_t)more;
    }
    const int why = errno;
    if (fd >= 0 && !stdin_it_is) close(fd);
    if (fd < 0 || text == NULL || more < 0 || bytes == FILE_BYTES_MAX) {
        (void)cli_fail(CLI_USAGE, NULL, "%s: %s", path, bytes == FILE_BYTES_MAX ? "larger than a file of offsets may be" : strerror(why));
        free(text);
        return NULL;
    }
    if (memchr(text, 0, bytes) != NULL) {
        (void)cli_fail(CLI_USAGE, NULL, "%s: it has a zero byte, so it is no file of offsets", path);
        free(text);
        return NULL;
    }
    text[bytes] = 0;
    if (memcmp(text, "\xef\xbb\xbf", OT_MIN(bytes, 3u)) == 0 && bytes >= 3) memset(text, ' ', 3); /* a byte order mark, of spreadsheets */
    *bytes_out = bytes;
    return text;
}

static int add(const struct cli_args *args, json_t *offsets, const char *path, size_t line, const char *topic, const char *partition, const char *offset)
{
    int64_t p, o;
    if (!cli_number(partition, 0, INT32_MAX, &p) || !cli_number(offset, 0, INT64_MAX, &o)) return cli_fail(CLI_USAGE, NULL, "%s:%zu: not topic,partition,offset", path, line);
    if (wanted(args, topic)) json_array_append_new(offsets, json_pack("{s:s,s:I,s:I,s:s}", "topic", topic, "partition", (json_int_t)p, "offset", (json_int_t)o, "metadata", ""));
    return -1;
}

/* With four fields the first is the group: lines of others are left out. Names of topics need no quotes. */
static int read_csv(const struct cli_args *args, const char *path, char *text, json_t *offsets)
{
    int code = -1;
    size_t number = 0;
    const char *other = NULL;
    bool ours = false;
    text += strspn(text, " ");
    for (char *line; code < 0 && (line = strsep(&text, "\n")) != NULL;) {
        char *fields[5], *at = line;
        size_t count = 0;
        number++;
        line[strcspn(line, "\r")] = 0;
        if (line[0] == 0) continue;
        while (count < 5 && at != NULL) {
            char *comma = strchr(at, ',');
            fields[count++] = at;
            if (comma != NULL) *comma++ = 0;
            at = comma;
        }
        if (count != 3 && count != 4) code = cli_fail(CLI_USAGE, NULL, "%s:%zu: not topic,partition,offset", path, number);
        else if (count == 4 && strcmp(fields[0], cli_name(args, 0)) != 0) other = fields[0];
        else code = add(args, offsets, path, number, fields[count - 3], fields[count - 2], fields[count - 1]);
        ours |= count == 3 || other != fields[0];
    }
    if (code < 0 && other != NULL && !ours) code = cli_fail(CLI_USAGE, NULL, "%s has no offsets of group %s, only of others, such as %s", path, cli_name(args, 0), other);
    return code;
}

static int read_json(const struct cli_args *args, const char *path, const char *text, size_t bytes, json_t *offsets)
{
    json_error_t error;
    size_t i;
    const json_t *one;
    json_t *file = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    const json_t *list = json_object_get(file, "offsets");
    int code = file == NULL ? cli_fail(CLI_USAGE, NULL, "%s:%d: %s", path, error.line, error.text) : !json_is_array(list) ? cli_fail(CLI_USAGE, NULL, "%s: it has no list of offsets", path) : -1;
    for (i = 0; code < 0 && i < json_array_size(list); i++) {
        one = json_array_get(list, i);
        const char *topic = cli_json_text(one, "topic", NULL);
        if (topic == NULL || !json_is_integer(json_object_get(one, "partition")) || !json_is_integer(json_object_get(one, "offset")))
            code = cli_fail(CLI_USAGE, NULL, "%s: offset %zu of the list has no topic, partition or offset", path, i);
        else if (wanted(args, topic))
            json_array_append_new(offsets, json_pack("{s:s,s:O,s:O,s:s}", "topic", topic, "partition", json_object_get(one, "partition"), "offset", json_object_get(one, "offset"), "metadata",
                                               cli_json_text(one, "metadata", "")));
    }
    json_decref(file);
    return code;
}

/* Which of two offsets would be meant? */
static int check_once(const char *path, const json_t *offsets)
{
    size_t i;
    const json_t *one;
    int code = -1;
    json_t *seen = json_object();
    if (seen == NULL) return no_memory();
    json_array_foreach(offsets, i, one)
    {
        char key[512];
        const char *topic = cli_json_text(one, "topic", "");
        const int64_t partition = cli_json_number(one, "partition", 0);
        snprintf(key, sizeof(key), "%" PRId64 " %.400s", partition, topic);
        if (json_object_get(seen, key) != NULL) code = cli_fail(CLI_USAGE, NULL, "%s names partition %" PRId64 " of %.250s twice", path, partition, topic);
        if (code >= 0) break;
        json_object_set_new(seen, key, json_true());
    }
    json_decref(seen);
    return code;
}

static int read_file(const struct cli_args *args, json_t *offsets)
{
    size_t bytes = 0;
    const char *path = cli_name(args, 1);
    char *text = read_all(path, &bytes);
    if (text == NULL) return CLI_USAGE;
    int code = text[strspn(text, " \t\r\n")] == '{' ? read_json(args, path, text, bytes, offsets) : read_csv(args, path, text, offsets);
    free(text);
    if (code < 0 && json_array_size(offsets) == 0) code = cli_fail(CLI_USAGE, NULL, "%s has no offsets%s", path, cli_flag_given(args, "topic") ? " of that topic" : "");
    if (code < 0 && json_array_size(offsets) > PUT_MAX) code = cli_fail(CLI_USAGE, "--topic TOPIC", "%s has more than %u offsets; take them in topic by topic", path, PUT_MAX);
    return code < 0 ? check_once(path, offsets) : code;
}

/* ---- import: the plan, and doing it */

static int64_t offset_at(const json_t *items, const json_t *place)
{
    size_t i;
    const json_t *item;
    json_array_foreach(items, i, item)
    {
        if (cli_json_number(item, "partition", -1) == cli_json_number(place, "partition", -2) && strcmp(cli_json_text(item, "topic", ""), cli_json_text(place, "topic", "")) == 0)
            return cli_json_number(item, "offset", -1);
    }
    return -1;
}

/* Rows of from and to; how many move. */
static int64_t plan_of(const json_t *offsets, const json_t *now, json_t *rows)
{
    size_t i;
    const json_t *one;
    int64_t moves = 0;
    json_array_foreach(offsets, i, one)
    {
        const int64_t from = offset_at(now, one), to = cli_json_number(one, "offset", 0);
        json_t *row = json_pack("{s:O,s:O,s:I}", "topic", json_object_get(one, "topic"), "partition", json_object_get(one, "partition"), "to", (json_int_t)to);
        json_object_set_new(row, "from", from < 0 ? json_null() : json_integer(from));
        json_object_set_new(row, "change", from < 0 ? json_null() : json_integer(to - from));
        json_array_append_new(rows, row);
        moves += from != to;
    }
    return moves;
}

static int apply(struct cli_api *api, const char *group, const json_t *offsets)
{
    json_t *answer = NULL, *body = json_pack("{s:O}", "offsets", offsets);
    char *target = target_of(group, "/offsets"), etag[72];
    size_t i, failed = 0;
    const json_t *item;
    snprintf(etag, sizeof(etag), "%s", api->etag);
    api->if_match = etag[0] != 0 ? etag : NULL; /* what was shown is what is changed */
    int code = body == NULL || target == NULL ? no_memory() : cli_api_call(api, "PUT", target, body, "ottla group describe GROUP", &answer, NULL);
    json_array_foreach(json_object_get(answer, "items"), i, item)
    {
        const char *error = cli_json_text(item, "error", NULL);
        if (error == NULL) continue;
        failed++;
        fprintf(stderr, "error: %s-%" PRId64 ": %s\n", cli_json_text(item, "topic", "?"), cli_json_number(item, "partition", 0), error);
    }
    if (code < 0 && failed > 0) code = failed == json_array_size(offsets) ? CLI_FAILED : CLI_PARTLY;
    free(target);
    json_decref(body);
    json_decref(answer);
    return code;
}

int cli_group_import_run(const struct cli_args *args)
{
    static const struct cli_column columns[] = {
        {"topic", CLI_COLUMN_TEXT, false}, {"partition", CLI_COLUMN_NUMBER, false}, {"from", CLI_COLUMN_NUMBER, false}, {"to", CLI_COLUMN_NUMBER, false}, {"change", CLI_COLUMN_NUMBER, false},
    };
    struct cli_api api;
    char question[400];
    const char *group = cli_name(args, 0);
    json_t *offsets = json_array(), *now = NULL, *rows = json_array();
    int64_t moves = 0;
    int code = offsets == NULL || rows == NULL ? no_memory() : cli_api_open(args, &api);
    if (code < 0) code = read_file(args, offsets);
    if (code < 0) code = committed(&api, group, true, &now);
    if (code < 0) moves = plan_of(offsets, now, rows);
    if (code < 0 && !cli_flag_given(args, "quiet")) {
        char *text = json_dumps(rows, JSON_COMPACT);
        const int printed = cli_print_list(args, columns, OT_ARRAY_COUNT(columns), json_incref(rows), text);
        if (printed != CLI_DONE) code = printed;
    }
    if (code < 0 && !cli_flag_given(args, "dry-run") && !api.only_curl) {
        snprintf(question, sizeof(question), "Offsets of %" PRId64 " partitions of %.249s will be set.", moves, group);
        if (!cli_confirm(args, question, group)) code = CLI_USAGE;
    }
    if (code < 0 && !cli_flag_given(args, "dry-run")) code = apply(&api, group, offsets);
    json_decref(rows);
    json_decref(now);
    json_decref(offsets);
    return code < 0 ? CLI_DONE : code;
}
