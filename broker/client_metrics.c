#include "broker/client_metrics.h"

#include "base/regex.h"
#include "base/util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INTERVAL_MS_MIN = 100, INTERVAL_MS_MAX = 3600000, PREFIXES_MAX = 1024 /* of one client */ };

const struct broker_client_metrics_row broker_client_metrics_rows[] = {
    { "interval.ms", BROKER_CONFIG_INT, "300000", "how often clients push: 100 ms to an hour" },
    { "match", BROKER_CONFIG_LIST, "", "of which clients this speaks: NAME=EXPRESSION of client_id, client_instance_id, client_software_name, client_software_version, client_source_address and "
        "client_source_port, which must all match as a whole; none = of all" },
    { "metrics", BROKER_CONFIG_LIST, "", "prefixes of the names of metrics that are pushed; * = all, none = nothing" },
};
const uint32_t broker_client_metrics_row_count = OT_ARRAY_COUNT(broker_client_metrics_rows);

/* What a match may look at. */
enum attribute { CLIENT_ID, CLIENT_INSTANCE_ID, SOFTWARE_NAME, SOFTWARE_VERSION, SOURCE_ADDRESS, SOURCE_PORT, ATTRIBUTES };
static const char *const attribute_names[ATTRIBUTES] = { "client_id", "client_instance_id", "client_software_name", "client_software_version", "client_source_address",
    "client_source_port" };

struct broker_client_metrics_one { struct ot_regex *match[ATTRIBUTES]; char *metrics; int32_t interval_ms; bool broken /* matches nobody */; };

const struct broker_client_metrics_row *broker_client_metrics_row(struct ot_str key)
{
    for (size_t i = 0; i < OT_ARRAY_COUNT(broker_client_metrics_rows); i++)
        if (ot_str_equal(key, ot_str_of(broker_client_metrics_rows[i].key))) return &broker_client_metrics_rows[i];
    return NULL;
}

static struct ot_str trimmed(struct ot_str text)
{
    while (text.bytes > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) text = (struct ot_str){ text.data + 1, text.bytes - 1, false };
    while (text.bytes > 0 && (text.data[text.bytes - 1] == ' ' || text.data[text.bytes - 1] == '\t')) text.bytes--;
    return text;
}

/* The next item of a comma separated list, without the spaces around it; *rest goes behind it. False: no more. */
static bool next_item(struct ot_str *rest, struct ot_str *item)
{
    if (rest->null || rest->data == NULL) return false;
    const char *comma = rest->bytes == 0 ? NULL : memchr(rest->data, ',', rest->bytes);
    const uint32_t bytes = comma == NULL ? rest->bytes : (uint32_t)(comma - rest->data);
    *item = trimmed((struct ot_str){ rest->data, bytes, false });
    *rest = comma == NULL ? (struct ot_str){ .null = true } : (struct ot_str){ comma + 1, rest->bytes - bytes - 1, false };
    return true;
}

static bool parse_number(struct ot_str text, int32_t *out)
{
    int64_t number = 0;
    const bool minus = text.bytes > 1 && text.data[0] == '-';
    for (uint32_t i = minus; i < text.bytes; i++)
        if (text.data[i] < '0' || text.data[i] > '9' || (number = number * 10 + (text.data[i] - '0')) > INT32_MAX) return false;
    *out = (int32_t)(minus ? -number : number);
    return text.bytes > 0;
}

/* NAME=EXPRESSION. The later one of a name counts, as in Kafka. */
static bool parse_match(struct ot_str item, struct ot_regex *match[static ATTRIBUTES])
{
    struct ot_regex *regex;
    char why[100];
    const char *equals = item.bytes == 0 ? NULL : memchr(item.data, '=', item.bytes);
    if (equals == NULL) return false;
    const struct ot_str name = trimmed((struct ot_str){ item.data, (uint32_t)(equals - item.data), false });
    const struct ot_str pattern = trimmed((struct ot_str){ equals + 1, item.bytes - (uint32_t)(equals - item.data) - 1, false });
    if (pattern.bytes == 0 || memchr(pattern.data, '=', pattern.bytes) != NULL) return false;
    for (size_t i = 0; i < ATTRIBUTES; i++) {
        if (!ot_str_equal(name, ot_str_of(attribute_names[i]))) continue;
        if (ot_regex_new(pattern, &regex, why, sizeof why) != OT_OK) return false;
        ot_regex_free(match[i]);
        match[i] = regex;
        return true;
    }
    return false;
}

static bool parse_matches(struct ot_str list, struct ot_regex *match[static ATTRIBUTES], struct ot_str *wrong)
{
    struct ot_str item;
    if (trimmed(list).bytes == 0) return true;
    while (next_item(&list, &item)) {
        if (parse_match(item, match)) continue;
        *wrong = item;
        return false;
    }
    return true;
}

static void free_matches(struct ot_regex *match[static ATTRIBUTES])
{
    for (size_t i = 0; i < ATTRIBUTES; i++) ot_regex_free(match[i]);
}

enum ot_err broker_client_metrics_check(struct ot_str key, struct ot_str value, char *text_out, size_t text_bytes)
{
    const struct broker_client_metrics_row *row = broker_client_metrics_row(key);
    int32_t number = 0;
    if (row == NULL) {
        (void)snprintf(text_out, text_bytes, "Unknown client metrics configuration: %.*s", (int)OT_MIN(key.bytes, 100u), key.data);
        return OT_ERR_INVALID_REQUEST;
    }
    if (value.null) return OT_OK;
    if (row->type == BROKER_CONFIG_INT && !parse_number(trimmed(value), &number)) {
        (void)snprintf(text_out, text_bytes, "Invalid value %.*s for configuration %s: Not a number of type INT", (int)OT_MIN(value.bytes, 60u), value.data, row->key);
        return OT_ERR_INVALID_CONFIG;
    }
    if (row->type == BROKER_CONFIG_INT && (number < INTERVAL_MS_MIN || number > INTERVAL_MS_MAX)) {
        (void)snprintf(text_out, text_bytes, "Invalid value %d for %s, interval must be between %d and %d (1 hour)", number, row->key, INTERVAL_MS_MIN, INTERVAL_MS_MAX);
        return OT_ERR_INVALID_REQUEST;
    }
    if (strcmp(row->key, "match") != 0) return OT_OK;
    struct ot_regex *match[ATTRIBUTES] = { NULL };
    struct ot_str wrong = { 0 };
    const bool good = parse_matches(value, match, &wrong);
    free_matches(match);
    if (good) return OT_OK;
    (void)snprintf(text_out, text_bytes, "Illegal client matching pattern: %.*s", (int)OT_MIN(wrong.bytes, 100u), wrong.bytes == 0 ? "" : wrong.data);
    return OT_ERR_INVALID_CONFIG;
}

/* ---- the set */

void broker_client_metrics_init(struct broker_client_metrics *set)
{
    *set = (struct broker_client_metrics){ 0 };
    pthread_mutex_init(&set->mutex, NULL);
}

static void forget(struct broker_client_metrics *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        free_matches(set->ones[i].match);
        free(set->ones[i].metrics);
    }
    free(set->ones);
    set->ones = NULL;
    set->count = 0;
    set->seen = 0;
}

void broker_client_metrics_free(struct broker_client_metrics *set)
{
    forget(set);
    pthread_mutex_destroy(&set->mutex);
}

static uint64_t mixed(uint64_t hash, struct ot_str text) { return ot_hash64(text.bytes == 0 ? "" : text.data, text.bytes, hash + text.bytes); }

/* Of all that is set now, names included; never 0, which is "never looked". */
static uint64_t fingerprint(const struct broker_view *view, uint32_t *count_out)
{
    struct ot_str after = { .null = true }, name;
    struct broker_view_config row;
    uint64_t hash = 1;
    for (*count_out = 0; *count_out < BROKER_CLIENT_METRICS_MAX && broker_view_next_named(view, BROKER_VIEW_CLIENT_METRICS, after, &name); after = name, ++*count_out) {
        struct ot_str key = { .null = true };
        hash = mixed(hash, name);
        for (; broker_view_next_named_config(view, BROKER_VIEW_CLIENT_METRICS, name, key, &row); key = row.name) hash = mixed(mixed(hash, row.name), row.value);
    }
    return hash | 1;
}

static bool take_row(struct broker_client_metrics_one *one, const struct broker_view_config *row)
{
    struct ot_str wrong;
    if (ot_str_equal(row->name, ot_str_of("interval.ms"))) {
        if (!parse_number(trimmed(row->value), &one->interval_ms)) one->broken = true;
        one->interval_ms = OT_MIN(OT_MAX(one->interval_ms, INTERVAL_MS_MIN), INTERVAL_MS_MAX);
    } else if (ot_str_equal(row->name, ot_str_of("match"))) {
        one->broken = one->broken || !parse_matches(row->value, one->match, &wrong);
    } else if (ot_str_equal(row->name, ot_str_of("metrics"))) {
        free(one->metrics);
        one->metrics = strndup(row->value.bytes == 0 ? "" : row->value.data, row->value.bytes);
        return one->metrics != NULL;
    }
    return true;
}

static bool look(struct broker_client_metrics *set, const struct broker_view *view)
{
    uint32_t count = 0;
    const uint64_t now = fingerprint(view, &count);
    struct ot_str after = { .null = true }, name;
    struct broker_view_config row;
    if (now == set->seen) return true;
    forget(set);
    set->ones = calloc(OT_MAX(count, 1u), sizeof *set->ones);
    if (set->ones == NULL) return false;
    for (; set->count < count && broker_view_next_named(view, BROKER_VIEW_CLIENT_METRICS, after, &name); after = name) {
        struct broker_client_metrics_one *one = &set->ones[set->count++];
        struct ot_str key = { .null = true };
        one->interval_ms = BROKER_CLIENT_METRICS_INTERVAL_MS;
        for (; broker_view_next_named_config(view, BROKER_VIEW_CLIENT_METRICS, name, key, &row); key = row.name) {
            if (take_row(one, &row)) continue;
            forget(set);
            return false;
        }
    }
    set->seen = now;
    return true;
}

static bool matches(const struct broker_client_metrics_one *one, const struct ot_str attributes[static ATTRIBUTES])
{
    for (size_t i = 0; i < ATTRIBUTES; i++)
        if (one->match[i] != NULL && (attributes[i].null || !ot_regex_matches(one->match[i], attributes[i]))) return false;
    return !one->broken;
}

static void attributes_of(const struct broker_client *client, const struct ot_uuid *instance, char id[static 23], char port[static 8], struct ot_str out[static ATTRIBUTES])
{
    ot_uuid_text(instance, id);
    (void)snprintf(port, 8, "%u", (unsigned)client->port);
    out[CLIENT_ID] = client->client_id;
    out[CLIENT_INSTANCE_ID] = ot_str_of(id);
    out[SOFTWARE_NAME] = client->software_name;
    out[SOFTWARE_VERSION] = client->software_version;
    out[SOURCE_ADDRESS] = client->address;
    out[SOURCE_PORT] = ot_str_of(port);
}

struct wish { struct ot_str prefixes[PREFIXES_MAX]; uint32_t count; bool all; };

static void wish_add(struct wish *wish, const char *metrics)
{
    struct ot_str rest = ot_str_of(metrics), item;
    while (next_item(&rest, &item)) {
        bool there = item.bytes == 0;
        wish->all = wish->all || ot_str_equal(item, ot_str_of("*"));
        for (uint32_t i = 0; i < wish->count && !there; i++) there = ot_str_equal(wish->prefixes[i], item);
        if (there) continue;
        if (wish->count == PREFIXES_MAX) wish->all = true;     /* more than that is as good as all */
        else wish->prefixes[wish->count++] = item;
    }
}

static bool give(const struct wish *wish, struct ot_arena *arena, struct broker_telemetry_subscription *out)
{
    uint64_t hash = (uint64_t)out->interval_ms;
    out->prefix_count = wish->count;
    for (uint32_t i = 0; i < wish->count; i++) hash = mixed(hash, wish->prefixes[i]);
    out->id = (int32_t)(hash & INT32_MAX);
    out->prefixes = NULL;
    if (arena == NULL || wish->count == 0) return true;
    out->prefixes = ot_arena_array(arena, wish->count, sizeof *out->prefixes);
    for (uint32_t i = 0; i < wish->count && out->prefixes != NULL; i++) {
        const char *copy = ot_arena_str(arena, wish->prefixes[i]);
        if (copy == NULL) return false;
        out->prefixes[i] = (struct ot_str){ copy, wish->prefixes[i].bytes, false };
    }
    return out->prefixes != NULL;
}

bool broker_client_metrics_find(struct broker_client_metrics *set, const struct broker_view *view, const struct broker_client *client, const struct ot_uuid *instance,
    struct ot_arena *arena, struct broker_telemetry_subscription *out)
{
    struct wish wish;
    struct ot_str attributes[ATTRIBUTES];
    char id[23], port[8];
    wish.count = 0;
    wish.all = false;
    attributes_of(client, instance, id, port, attributes);
    *out = (struct broker_telemetry_subscription){ 0 };
    pthread_mutex_lock(&set->mutex);
    bool good = look(set, view);
    for (uint32_t i = 0; i < set->count && good; i++) {
        const struct broker_client_metrics_one *one = &set->ones[i];
        if (!matches(one, attributes)) continue;
        out->interval_ms = out->interval_ms == 0 ? one->interval_ms : OT_MIN(out->interval_ms, one->interval_ms);
        if (one->metrics != NULL) wish_add(&wish, one->metrics);
    }
    if (out->interval_ms == 0) out->interval_ms = BROKER_CLIENT_METRICS_INTERVAL_MS;
    if (wish.all) {                            /* no matter what else */
        wish.prefixes[0] = ot_str_of("*");
        wish.count = 1;
    }
    good = good && give(&wish, arena, out);    /* the prefixes lie in the set: under its lock */
    pthread_mutex_unlock(&set->mutex);
    return good;
}
