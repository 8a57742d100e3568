/* Configuration: one declarative table from which parsing, validation, DescribeConfigs, REST, --help and the docs come.
 *
 * Rows that mean something here have a field in struct broker_config (broker/config_table.h) or struct broker_topic_config (broker/topic_config_table.h). Kafka's
 * other keys are known by name, type and default (generated from base/wire/configs-*.txt): setting one is one warning. An unknown key is an error that names
 * the nearest known one. Order, weakest first: built-in < file < drop-ins < environment < flags < cluster dynamic default < per-broker dynamic < topic override. */
#ifndef OT_BROKER_CONFIG_H
#define OT_BROKER_CONFIG_H

#include "base/err.h"
#include "base/bytes.h"
#include "broker/config_table.h"
#include "broker/topic_config_table.h"

enum broker_config_type { BROKER_CONFIG_BOOL, BROKER_CONFIG_INT, BROKER_CONFIG_LONG, BROKER_CONFIG_DOUBLE, BROKER_CONFIG_TEXT, BROKER_CONFIG_LIST,
    BROKER_CONFIG_CHOICE, BROKER_CONFIG_PASSWORD };
enum broker_config_change { BROKER_CONFIG_RESTART, BROKER_CONFIG_PER_BROKER, BROKER_CONFIG_CLUSTER_WIDE, BROKER_CONFIG_PER_TOPIC };
enum broker_config_source { BROKER_SOURCE_BUILT_IN, BROKER_SOURCE_FILE, BROKER_SOURCE_ENVIRONMENT, BROKER_SOURCE_FLAG, BROKER_SOURCE_CLUSTER_DEFAULT,
    BROKER_SOURCE_BROKER_DYNAMIC, BROKER_SOURCE_TOPIC };

/* C type of a field by its type word in the tables */
#define BROKER_FIELD_BOOL(name) bool name;
#define BROKER_FIELD_INT(name) int32_t name;
#define BROKER_FIELD_LONG(name) int64_t name;
#define BROKER_FIELD_DOUBLE(name) double name;
#define BROKER_FIELD_TEXT(name) const char *name;
#define BROKER_FIELD_LIST(name) const char *name;
#define BROKER_FIELD_CHOICE(name) const char *name;
#define BROKER_FIELD_PASSWORD(name) const char *name;

struct broker_config {
#define X(field, key, type, fallback, min, max, choices, change, synonyms, text) BROKER_FIELD_##type(field)
    BROKER_CONFIG_ROWS(X)
#undef X
};
struct broker_topic_config {                   /* effective values of one topic: plain values, texts live for ever (interned) */
#define X(field, key, type, fallback, min, max, choices, broker_key, text) BROKER_FIELD_##type(field)
    BROKER_TOPIC_CONFIG_ROWS(X)
#undef X
};

struct broker_config_row {                     /* one known key, honoured or not */
    const char *key;
    enum broker_config_type type;
    const char *fallback;                      /* text of the default; NULL = null */
    const char *valid;                         /* for people: "[1,...]" or "a|b|c" */
    enum broker_config_change change;
    bool honoured, sensitive;
    const char *text;                          /* one doc sentence */
    const char *synonyms;                      /* comma separated static keys, first set wins; NULL none */
};
const struct broker_config_row *broker_config_rows(uint32_t *count_out);           /* broker keys, sorted */
const struct broker_config_row *broker_topic_config_rows(uint32_t *count_out);     /* topic keys, sorted */

struct broker_config_store;
OT_MUST_CHECK enum ot_err broker_config_store_new(struct broker_config_store **out);
void broker_config_store_free(struct broker_config_store *store);
/* Set one static value. text_out gets words on error: INVALID_CONFIG (unknown: nearest named; out of range: range named). */
OT_MUST_CHECK enum ot_err broker_config_set(struct broker_config_store *store, enum broker_config_source source, const char *origin,
    const char *key, const char *value, char *text_out, size_t text_bytes);
/* Reads a file (Java properties with ${env:} ${file:} ${credential:}), then the drop-ins (all .properties files of FILE.d) in name order. */
/* A text file that a person named: NOT_FOUND, or INVALID_CONFIG, and why in words. Never waits: a FIFO is refused as a directory is. *data_out is malloc'ed and zero-terminated. */
OT_MUST_CHECK enum ot_err broker_config_read_text(const char *path, size_t max_bytes, char **data_out, size_t *bytes_out, char *text_out, size_t text_bytes);
OT_MUST_CHECK enum ot_err broker_config_load_file(struct broker_config_store *store, const char *path, char *text_out, size_t text_bytes);
/* What the file says now (fresh: a store into which it alone was loaded) takes the place of what it said before, for keys that may change while the server runs; each is told every
 * key that differs. On the coordinator's thread, like every change of a running store. NO_MEMORY: some keys are taken over, some not. */
enum broker_config_reloaded { BROKER_RELOAD_APPLIED, BROKER_RELOAD_HIDDEN /* a stronger source says something else */, BROKER_RELOAD_RESTART /* left as it was */ };
OT_MUST_CHECK enum ot_err broker_config_reload(struct broker_config_store *store, const struct broker_config_store *fresh,
    void (*each)(void *arg, const char *key, enum broker_config_reloaded how), void *arg);
/* OTTLA_… variables (environ style array). */
OT_MUST_CHECK enum ot_err broker_config_load_environment(struct broker_config_store *store, char *const *environment, char *text_out, size_t text_bytes);
/* Warnings gathered (keys without meaning here, plain secrets in a wide file…): each(arg, text). */
void broker_config_warnings(const struct broker_config_store *store, void (*each)(void *arg, const char *text), void *arg);

/* Current typed values, which change atomically as a whole (a new struct). What is read before the first tick, at a start, stays valid until store_free; later ones for
 * BROKER_CONFIG_KEEP_TICKS ticks after they were replaced: read and be done with it. The texts in them stay for ever. */
#define BROKER_CONFIG_KEEP_TICKS 60
const struct broker_config *broker_config_current(const struct broker_config_store *store);
void broker_config_tick(struct broker_config_store *store);    /* the housekeeper's, a second apart or more */
uint32_t broker_config_kept(struct broker_config_store *store);        /* how many structs there are, the current one included */

/* Be told when the current values changed by a dynamic one: on the thread that changed them (the coordinator's), which must not block there nor change configs.
 * Up to 8. After unwatch returned no call is under way. */
void broker_config_watch(struct broker_config_store *store, void (*changed)(void *arg, const struct broker_config *now), void *arg);
void broker_config_unwatch(struct broker_config_store *store, void (*changed)(void *arg, const struct broker_config *now), void *arg);

/* Dynamic values, from the coordinator's applied state (coordinator thread). value NULL: removed. broker_id -1: cluster default. */
OT_MUST_CHECK enum ot_err broker_config_apply_dynamic(struct broker_config_store *store, int32_t broker_id, const char *key, const char *value);
/* May this be set dynamically, and is the value valid? For AlterConfigs. */
OT_MUST_CHECK enum ot_err broker_config_check_dynamic(const struct broker_config_store *store, int32_t broker_id, const char *key, const char *value,
    char *text_out, size_t text_bytes);
bool broker_config_known(const char *key);     /* a broker key, with or without a meaning here */
OT_MUST_CHECK enum ot_err broker_topic_config_check(const char *key, const char *value, char *text_out, size_t text_bytes);
/* Effective topic config = built-in < broker's synonym < overrides. overrides: pairs of texts. */
void broker_topic_config_effective(const struct broker_config_store *store, const char *const *keys, const char *const *values, uint32_t count,
    struct broker_topic_config *out);

struct broker_config_value {                   /* for DescribeConfigs, REST and --print-config */
    const struct broker_config_row *row;
    const char *value;                         /* NULL: null; sensitive values are given as NULL */
    enum broker_config_source source;
    const char *origin;                        /* "server.properties:12", "OTTLA_LOG_DIRS", … or "" */
    struct { enum broker_config_source source; const char *name, *value; } synonyms[8];     /* strongest first, the value itself included */
    uint32_t synonym_count;
};
void broker_config_describe(const struct broker_config_store *store, int32_t broker_id, void (*each)(void *arg, const struct broker_config_value *value), void *arg);
void broker_topic_config_describe(const struct broker_config_store *store, const char *const *keys, const char *const *values, uint32_t count,
    void (*each)(void *arg, const struct broker_config_value *value), void *arg);

#endif
