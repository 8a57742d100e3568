/* The rows: those with a meaning here first, Kafka's others behind them, sorted by key once. */
#include "broker/config_private.h"
#include "broker/config_checks.h"
#include "base/util.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ROWS_MAX 640
struct table {
    struct broker_config_row rows[ROWS_MAX];
    struct broker_config_meaning meanings[ROWS_MAX];
    uint32_t count;
};
static struct table broker_table, topic_table;
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void range_text(char **out, enum broker_config_type type, double min, double max, const char *choices)
{
    char text[128] = "";
    bool number = type == BROKER_CONFIG_INT || type == BROKER_CONFIG_LONG || type == BROKER_CONFIG_DOUBLE;
    if (choices != NULL) snprintf(text, sizeof(text), "%s", choices);
    else if (number && max < 2147483647.0) snprintf(text, sizeof(text), "[%.0f,...,%.0f]", min, max);
    else if (number) snprintf(text, sizeof(text), "[%.0f,...]", min);
    *out = text[0] == 0 ? NULL : strdup(text);
}

static const struct broker_config_row *find(const struct table *table, const char *key)
{
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->rows[i].key, key) == 0) return &table->rows[i];
    return NULL;
}

#define ADD(table, key_, type_, fallback_, min_, max_, choices_, change_, synonyms_, text_, field_, broker_key_) do { \
    struct broker_config_row *row = &(table).rows[(table).count]; \
    struct broker_config_meaning *meaning = &(table).meanings[(table).count++]; \
    char *valid; \
    range_text(&valid, BROKER_CONFIG_##type_, (double)(min_), (double)(max_), choices_); \
    *row = (struct broker_config_row){ key_, BROKER_CONFIG_##type_, fallback_, valid, change_, true, BROKER_CONFIG_##type_ == BROKER_CONFIG_PASSWORD, text_, synonyms_ }; \
    *meaning = (struct broker_config_meaning){ field_, (double)(min_), (double)(max_), (int64_t)(min_), (int64_t)(max_), choices_, broker_key_ }; \
} while (0)

enum kafka_type { BOOLEAN, INT, SHORT, LONG, DOUBLE, STRING, CLASS, LIST, PASSWORD };
static void add_kafka(struct table *table, const char *key, enum kafka_type type, const char *fallback, const char *valid, const char *update, const char *synonyms)
{
    static const enum broker_config_type types[] = { BROKER_CONFIG_BOOL, BROKER_CONFIG_INT, BROKER_CONFIG_INT, BROKER_CONFIG_LONG, BROKER_CONFIG_DOUBLE,
        BROKER_CONFIG_TEXT, BROKER_CONFIG_TEXT, BROKER_CONFIG_LIST, BROKER_CONFIG_PASSWORD };
    if (find(table, key) != NULL) return;
    OT_ASSERT(table->count < ROWS_MAX);
    enum broker_config_change change = strncmp(update, "per-broker", 10) == 0 ? BROKER_CONFIG_PER_BROKER
        : strncmp(update, "cluster-wide", 12) == 0 ? BROKER_CONFIG_CLUSTER_WIDE
        : strncmp(update, "per-topic", 9) == 0 ? BROKER_CONFIG_PER_TOPIC : BROKER_CONFIG_RESTART;
    table->rows[table->count++] = (struct broker_config_row){ key, types[type], fallback, valid, change, false, type == PASSWORD,
        "known from Kafka; has no meaning here", synonyms };
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct broker_config_row *)a)->key, ((const struct broker_config_row *)b)->key);
}

/* Meanings are found by key after sorting, so they are sorted alongside. */
static void sort(struct table *table)
{
    static struct broker_config_row rows[ROWS_MAX];
    static struct broker_config_meaning meanings[ROWS_MAX];
    memcpy(rows, table->rows, sizeof(rows));
    memcpy(meanings, table->meanings, sizeof(meanings));
    qsort(table->rows, table->count, sizeof(table->rows[0]), by_key);
    for (uint32_t i = 0; i < table->count; i++)
        for (uint32_t k = 0; k < table->count; k++)
            if (rows[k].key == table->rows[i].key) table->meanings[i] = meanings[k];
}

static void make(void)
{
#define X(field, key, type, fallback, min, max, choices, change, synonyms, text) \
    ADD(broker_table, key, type, fallback, min, max, choices, BROKER_CONFIG_##change, synonyms, text, offsetof(struct broker_config, field), NULL);
    BROKER_CONFIG_ROWS(X)
#undef X
#define X(field, key, type, fallback, min, max, choices, broker_key, text) \
    ADD(topic_table, key, type, fallback, min, max, choices, BROKER_CONFIG_PER_TOPIC, NULL, text, offsetof(struct broker_topic_config, field), broker_key);
    BROKER_TOPIC_CONFIG_ROWS(X)
#undef X
#define K(name, type, fallback, valid, update, synonyms) add_kafka(&broker_table, name, type, fallback, valid, update, synonyms);
#include "kafka_broker_configs.inc"
#undef K
#define K(name, type, fallback, valid, update, synonyms) add_kafka(&topic_table, name, type, fallback, valid, "per-topic", synonyms);
#include "kafka_topic_configs.inc"
#undef K
    sort(&broker_table);
    sort(&topic_table);
}

static const struct table *table_of(bool topic)
{
    pthread_once(&made, make);
    return topic ? &topic_table : &broker_table;
}

const struct broker_config_row *broker_config_rows(uint32_t *count_out)
{
    *count_out = table_of(false)->count;
    return broker_table.rows;
}

const struct broker_config_row *broker_topic_config_rows(uint32_t *count_out)
{
    *count_out = table_of(true)->count;
    return topic_table.rows;
}

static const struct broker_config_row *search(const struct table *table, const char *key)
{
    struct broker_config_row wanted = { .key = key };
    return bsearch(&wanted, table->rows, table->count, sizeof(table->rows[0]), by_key);
}

const struct broker_config_row *broker_config_row_by_key(const char *key) { return search(table_of(false), key); }
const struct broker_config_row *broker_topic_config_row_by_key(const char *key) { return search(table_of(true), key); }

const struct broker_config_meaning *broker_config_meaning_of(const struct broker_config_row *row)
{
    if (!row->honoured) return NULL;
    bool topic = row >= topic_table.rows && row < topic_table.rows + ROWS_MAX;
    const struct table *table = table_of(topic);
    return &table->meanings[row - table->rows];
}

/* ---- values ---- */

static bool parse_integer(const char *text, int64_t *out)
{
    char *end = NULL;
    while (*text == ' ') text++;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || errno == ERANGE) return false;
    while (*end == ' ') end++;
    *out = value;
    return *end == 0;
}

static bool in_choices(const char *choices, const char *word, size_t bytes)
{
    for (const char *at = choices; *at != 0;) {
        size_t length = strcspn(at, "|");
        if (length == bytes && strncmp(at, word, bytes) == 0) return true;
        at += length + (at[length] == '|');
    }
    return false;
}

static bool list_in_choices(const char *choices, const char *value)
{
    for (const char *at = value; *at != 0;) {
        while (*at == ' ' || *at == ',') at++;
        size_t length = strcspn(at, ", ");
        if (length > 0 && !in_choices(choices, at, length)) return false;
        at += length;
    }
    return true;
}

static bool is_bool(const char *value) { return strcasecmp(value, "true") == 0 || strcasecmp(value, "false") == 0; }

enum ot_err broker_config_valid(const struct broker_config_row *row, const char *value, char *text_out, size_t text_bytes)
{
    const struct broker_config_meaning *meaning = broker_config_meaning_of(row);
    int64_t number = 0;
    char *end = NULL;
    bool right = true, in_range = true;
    switch (row->type) {
    case BROKER_CONFIG_BOOL: right = is_bool(value); break;
    case BROKER_CONFIG_INT:
    case BROKER_CONFIG_LONG:
        right = parse_integer(value, &number) && (row->type == BROKER_CONFIG_LONG || (number >= INT32_MIN && number <= INT32_MAX));
        if (right && meaning != NULL) in_range = number >= meaning->min_integer && number <= meaning->max_integer;
        break;
    case BROKER_CONFIG_DOUBLE: {
        double real = strtod(value, &end);
        right = end != value && *end == 0;
        if (right && meaning != NULL) in_range = real >= meaning->min && (real <= meaning->max || meaning->max_integer == INT64_MAX);
        break;
    }
    case BROKER_CONFIG_CHOICE: in_range = in_choices(meaning->choices, value, strlen(value)); break;
    case BROKER_CONFIG_LIST: in_range = meaning == NULL || meaning->choices == NULL || list_in_choices(meaning->choices, value); break;
    case BROKER_CONFIG_TEXT:
    case BROKER_CONFIG_PASSWORD: break;
    }
    char why[160] = "";
    if (right && in_range && !broker_config_form_valid(row->key, value, why, sizeof why)) {
        snprintf(text_out, text_bytes, "Invalid value %.60s for configuration %s: %s", value, row->key, why);
        return OT_ERR_INVALID_CONFIG;
    }
    static const char *const types[] = { "true or false", "a 32-bit number", "a 64-bit number", "a number", "a text", "a list", "a word", "a text" };
    if (right && in_range) return OT_OK;
    if (row->sensitive) value = "(hidden)";
    if (!right) snprintf(text_out, text_bytes, "Invalid value %.60s for configuration %s: not %s", value, row->key, types[row->type]);
    else snprintf(text_out, text_bytes, "Invalid value %.60s for configuration %s: must be in %s", value, row->key, row->valid);
    return OT_ERR_INVALID_CONFIG;
}

void broker_config_put(const struct broker_config_row *row, const char *text, void *base)
{
    void *field = (char *)base + broker_config_meaning_of(row)->field;
    int64_t number = 0;
    switch (row->type) {
    case BROKER_CONFIG_BOOL: *(bool *)field = strcasecmp(text, "true") == 0; break;
    case BROKER_CONFIG_INT: (void)parse_integer(text, &number); *(int32_t *)field = (int32_t)number; break;
    case BROKER_CONFIG_LONG: (void)parse_integer(text, &number); *(int64_t *)field = number; break;
    case BROKER_CONFIG_DOUBLE: *(double *)field = strtod(text, NULL); break;
    default: *(const char **)field = text; break;
    }
}

void broker_config_nearest(const char *key, char *text_out, size_t text_bytes)
{
    const struct table *table = table_of(false);
    const char *names[ROWS_MAX];
    for (uint32_t i = 0; i < table->count; i++) names[i] = table->rows[i].key;
    const char *near = ot_nearest(key, names, table->count);
    if (near != NULL) snprintf(text_out, text_bytes, "unknown key %s: did you mean %s?", key, near);
    else snprintf(text_out, text_bytes, "unknown key %s", key);
}
