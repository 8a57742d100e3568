/* Private to broker/config*.c. */
#ifndef OT_BROKER_CONFIG_PRIVATE_H
#define OT_BROKER_CONFIG_PRIVATE_H

#include "broker/config.h"
#include "base/map.h"
#include <pthread.h>
#include <stdatomic.h>

/* What a honoured row adds to its public face. */
struct broker_config_meaning {
    size_t field;              /* offset in struct broker_config or broker_topic_config */
    double min, max;
    int64_t min_integer, max_integer;
    const char *choices;
    const char *broker_key;    /* topic rows: who gives the default */
};
const struct broker_config_meaning *broker_config_meaning_of(const struct broker_config_row *row);     /* NULL: not honoured */
const struct broker_config_row *broker_config_row_by_key(const char *key);
const struct broker_config_row *broker_topic_config_row_by_key(const char *key);
/* Is text a value of the row? Words into text_out if not. */
OT_MUST_CHECK enum ot_err broker_config_valid(const struct broker_config_row *row, const char *value, char *text_out, size_t text_bytes);
/* Store a valid text as the row's C type at base + field. TEXT-like fields point to text. */
void broker_config_put(const struct broker_config_row *row, const char *text, void *base);
void broker_config_nearest(const char *key, char *text_out, size_t text_bytes);

#define BROKER_STATIC_SOURCES 4        /* BUILT_IN … FLAG; BUILT_IN unused */
struct broker_config_slot {
    const struct broker_config_row *row;
    char *fixed[BROKER_STATIC_SOURCES], *origin[BROKER_STATIC_SOURCES];
    char *cluster_default, *broker_dynamic;
};
struct broker_config_note { struct broker_config_note *next; struct broker_config *config; uint64_t until_tick; };

struct broker_config_store {
    pthread_mutex_t mutex;
    struct broker_config_slot *slots; uint32_t slot_count;
    _Atomic(const struct broker_config *) current;
    struct broker_config_note *kept;                   /* the current struct, and old ones that readers may still hold; newest first */
    _Atomic uint64_t ticks;
    struct ot_map texts;                               /* interned */
    struct ot_map ignored;                             /* Kafka keys without meaning here that were set */
    char **warnings; uint32_t warning_count;
    char *ignored_text;
    pthread_mutex_t watch_mutex;                       /* guards the watchers; held while they are told; before mutex */
    struct { void (*changed)(void *arg, const struct broker_config *now); void *arg; } watchers[8];
};
/* New current values from the slots (mutex held), and the watchers told (mutex not held). */
OT_MUST_CHECK enum ot_err broker_config_refresh(struct broker_config_store *store);
void broker_config_tell(struct broker_config_store *store);
void broker_config_warn(struct broker_config_store *store, const char *text);
const char *broker_config_intern(struct broker_config_store *store, const char *text);
/* Strongest value of one key by itself (NULL: nowhere set) and where from. Mutex held. */
const char *broker_config_own(const struct broker_config_store *store, const struct broker_config_row *row, enum broker_config_source *source_out,
    const char **origin_out);
/* Effective text: own, else synonyms (multiplied), else the default. buffer is used when a synonym is multiplied. Mutex held. */
const char *broker_config_effective(const struct broker_config_store *store, const struct broker_config_row *row, char buffer[static 32],
    enum broker_config_source *source_out, const char **origin_out);

#endif
