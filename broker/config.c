/* Values with their sources, and the typed struct that everybody reads. A change makes a new struct; the old one lives on for those who have just taken it. */
#include "broker/config_checks.h"
#include "broker/config_private.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct broker_config_slot *slot_of(const struct broker_config_store *store, const struct broker_config_row *row)
{
    uint32_t count;
    return &store->slots[row - broker_config_rows(&count)];
}

const char *broker_config_intern(struct broker_config_store *store, const char *text)
{
    if (text == NULL) return NULL;
    size_t bytes = strlen(text) + 1;
    char *kept = ot_map_get(&store->texts, text, bytes);
    if (kept != NULL) return kept;
    kept = strdup(text);
    if (kept == NULL || ot_map_put(&store->texts, text, bytes, kept) != OT_OK) {
        free(kept);
        return NULL;
    }
    return kept;
}

const char *broker_config_own(const struct broker_config_store *store, const struct broker_config_row *row, enum broker_config_source *source_out,
    const char **origin_out)
{
    const struct broker_config_slot *slot = slot_of(store, row);
    *origin_out = "";
    if (slot->broker_dynamic != NULL) {
        *source_out = BROKER_SOURCE_BROKER_DYNAMIC;
        return slot->broker_dynamic;
    }
    if (slot->cluster_default != NULL) {
        *source_out = BROKER_SOURCE_CLUSTER_DEFAULT;
        return slot->cluster_default;
    }
    for (int source = BROKER_SOURCE_FLAG; source > BROKER_SOURCE_BUILT_IN; source--) {
        if (slot->fixed[source] == NULL) continue;
        *source_out = (enum broker_config_source)source;
        *origin_out = slot->origin[source];
        return slot->fixed[source];
    }
    return NULL;
}

/* "log.roll.hours*3600000": the key, and what its value is multiplied by. */
static const struct broker_config_row *synonym(const char **at, int64_t *factor)
{
    char key[128];
    size_t length = strcspn(*at, ",*");
    snprintf(key, sizeof(key), "%.*s", (int)length, *at);
    *at += length;
    *factor = 1;
    if (**at == '*') *factor = strtoll(*at + 1, (char **)(uintptr_t)at, 10);
    if (**at == ',') (*at)++;
    return broker_config_row_by_key(key);
}

const char *broker_config_effective(const struct broker_config_store *store, const struct broker_config_row *row, char buffer[static 32],
    enum broker_config_source *source_out, const char **origin_out)
{
    const char *text = broker_config_own(store, row, source_out, origin_out);
    const char *at = text == NULL && row->honoured && row->synonyms != NULL ? row->synonyms : "";
    while (*at != 0) {
        int64_t factor;
        const struct broker_config_row *other = synonym(&at, &factor);
        if (other == NULL || other == row) continue;
        text = broker_config_own(store, other, source_out, origin_out);
        if (text == NULL) continue;
        if (factor == 1) return text;
        int64_t value = strtoll(text, NULL, 10);
        if (value >= 0) value = value > INT64_MAX / factor ? INT64_MAX : value * factor;
        snprintf(buffer, 32, "%lld", (long long)value);
        return buffer;
    }
    if (text != NULL) return text;
    *source_out = BROKER_SOURCE_BUILT_IN;
    *origin_out = "";
    return row->fallback;
}

static bool is_text(const struct broker_config_row *row) { return row->type >= BROKER_CONFIG_TEXT; }

/* Structs that nobody can hold any more: the housekeeper has ticked often since they were replaced. Those of the start stay, for whoever read them then. */
static void let_go(struct broker_config_store *store, uint64_t ticks)
{
    for (struct broker_config_note **link = store->kept == NULL ? &store->kept : &store->kept->next; *link != NULL;) {
        struct broker_config_note *old = *link;
        if (old->until_tick == 0 || old->until_tick > ticks) {
            link = &old->next;
            continue;
        }
        *link = old->next;
        free(old->config);
        free(old);
    }
}

enum ot_err broker_config_refresh(struct broker_config_store *store)
{
    uint64_t ticks = atomic_load(&store->ticks);
    uint32_t count;
    const struct broker_config_row *rows = broker_config_rows(&count);
    struct broker_config *config = calloc(1, sizeof(*config));
    struct broker_config_note *note = calloc(1, sizeof(*note));
    enum ot_err err = OT_ERR_NO_MEMORY;
    if (config == NULL || note == NULL) goto fail;
    for (uint32_t i = 0; i < count; i++) {
        char buffer[32];
        enum broker_config_source source;
        const char *origin;
        if (!rows[i].honoured) continue;
        const char *text = broker_config_effective(store, &rows[i], buffer, &source, &origin);
        const char *kept = is_text(&rows[i]) ? broker_config_intern(store, text) : text;       /* a number leaves nothing behind */
        if (text != NULL && kept == NULL) goto fail;
        if (kept != NULL) broker_config_put(&rows[i], kept, config);
    }
    if (store->kept != NULL && memcmp(store->kept->config, config, sizeof(*config)) == 0) {    /* nothing that is read here changed */
        free(config);
        free(note);
        return OT_OK;
    }
    if (store->kept != NULL && ticks > 0) store->kept->until_tick = store->kept->until_tick == 0 ? 0 : ticks + BROKER_CONFIG_KEEP_TICKS;
    let_go(store, ticks);
    *note = (struct broker_config_note){ store->kept, config, ticks == 0 ? 0 : UINT64_MAX };
    store->kept = note;
    atomic_store_explicit(&store->current, config, memory_order_release);
    return OT_OK;
fail:
    free(config);
    free(note);
    return err;
}

enum ot_err broker_config_store_new(struct broker_config_store **out)
{
    uint32_t count;
    (void)broker_config_rows(&count);
    struct broker_config_store *store = calloc(1, sizeof(*store));
    if (store == NULL) return OT_ERR_NO_MEMORY;
    pthread_mutex_init(&store->mutex, NULL);
    pthread_mutex_init(&store->watch_mutex, NULL);
    ot_map_init(&store->texts);
    ot_map_init(&store->ignored);
    store->slots = calloc(count, sizeof(*store->slots));
    store->slot_count = count;
    enum ot_err err = store->slots == NULL ? OT_ERR_NO_MEMORY : broker_config_refresh(store);
    if (err == OT_OK) *out = store;
    else broker_config_store_free(store);
    return err;
}

void broker_config_store_free(struct broker_config_store *store)
{
    if (store == NULL) return;
    for (uint32_t i = 0; store->slots != NULL && i < store->slot_count; i++) {
        struct broker_config_slot *slot = &store->slots[i];
        for (int source = 0; source < BROKER_STATIC_SOURCES; source++) {
            free(slot->fixed[source]);
            free(slot->origin[source]);
        }
        free(slot->cluster_default);
        free(slot->broker_dynamic);
    }
    while (store->kept != NULL) {
        struct broker_config_note *next = store->kept->next;
        free(store->kept->config);
        free(store->kept);
        store->kept = next;
    }
    for (uint32_t i = 0; i < store->texts.count; i++) free(store->texts.entries[i].value);
    for (uint32_t i = 0; i < store->warning_count; i++) free(store->warnings[i]);
    ot_map_free(&store->texts);
    ot_map_free(&store->ignored);
    free(store->warnings);
    free(store->ignored_text);
    free(store->slots);
    pthread_mutex_destroy(&store->mutex);
    pthread_mutex_destroy(&store->watch_mutex);
    free(store);
}

void broker_config_warn(struct broker_config_store *store, const char *text)
{
    char **wider = realloc(store->warnings, (store->warning_count + 1) * sizeof(*wider));
    if (wider == NULL) return;
    store->warnings = wider;
    char *copy = strdup(text);
    if (copy != NULL) store->warnings[store->warning_count++] = copy;
}

void broker_config_warnings(const struct broker_config_store *store, void (*each)(void *arg, const char *text), void *arg)
{
    char line[4096];
    size_t at = (size_t)snprintf(line, sizeof(line), "keys of Kafka without a meaning here:");
    for (uint32_t i = 0; i < store->warning_count; i++) each(arg, store->warnings[i]);
    for (uint32_t i = 0; i < store->ignored.count && at < sizeof(line) - 300; i++) {
        const struct broker_config_row *row = store->ignored.entries[i].value;
        at += (size_t)snprintf(line + at, sizeof(line) - at, " %s", row->key);
    }
    if (store->ignored.count > 0) each(arg, line);
}

static void replace(char **field, const char *value)
{
    char *copy = value == NULL ? NULL : strdup(value);
    free(*field);
    *field = copy;
}

enum ot_err broker_config_set(struct broker_config_store *store, enum broker_config_source source, const char *origin, const char *key, const char *value,
    char *text_out, size_t text_bytes)
{
    OT_ASSERT(source > BROKER_SOURCE_BUILT_IN && source <= BROKER_SOURCE_FLAG);
    const struct broker_config_row *row = broker_config_row_by_key(key);
    if (row == NULL) {
        broker_config_nearest(key, text_out, text_bytes);
        return OT_ERR_INVALID_CONFIG;
    }
    enum ot_err err = broker_config_valid(row, value, text_out, text_bytes);
    if (err != OT_OK) return err;
    bool used = row->honoured;
    uint32_t count;
    const struct broker_config_row *rows = broker_config_rows(&count);
    for (uint32_t i = 0; i < count && !used; i++)      /* a synonym of a honoured key has a meaning too */
        used = rows[i].honoured && rows[i].synonyms != NULL && strstr(rows[i].synonyms, key) != NULL;
    pthread_mutex_lock(&store->mutex);
    struct broker_config_slot *slot = slot_of(store, row);
    replace(&slot->fixed[source], value);
    replace(&slot->origin[source], origin);
    if (!used) ot_ignore(ot_map_put(&store->ignored, key, strlen(key), (void *)(uintptr_t)row), "only a warning is lost");
    err = broker_config_refresh(store);
    pthread_mutex_unlock(&store->mutex);
    return err;
}

const struct broker_config *broker_config_current(const struct broker_config_store *store)
{
    return atomic_load_explicit(&store->current, memory_order_acquire);
}

void broker_config_tick(struct broker_config_store *store) { atomic_fetch_add(&store->ticks, 1); }

uint32_t broker_config_kept(struct broker_config_store *store)
{
    uint32_t count = 0;
    pthread_mutex_lock(&store->mutex);
    for (const struct broker_config_note *note = store->kept; note != NULL; note = note->next) count++;
    pthread_mutex_unlock(&store->mutex);
    return count;
}

void broker_config_watch(struct broker_config_store *store, void (*changed)(void *arg, const struct broker_config *now), void *arg)
{
    size_t at = 0;
    pthread_mutex_lock(&store->watch_mutex);
    while (at < OT_ARRAY_COUNT(store->watchers) && store->watchers[at].changed != NULL) at++;
    OT_ASSERT(at < OT_ARRAY_COUNT(store->watchers));
    store->watchers[at].changed = changed;
    store->watchers[at].arg = arg;
    pthread_mutex_unlock(&store->watch_mutex);
}

void broker_config_unwatch(struct broker_config_store *store, void (*changed)(void *arg, const struct broker_config *now), void *arg)
{
    pthread_mutex_lock(&store->watch_mutex);
    for (size_t i = 0; i < OT_ARRAY_COUNT(store->watchers); i++)
        if (store->watchers[i].changed == changed && store->watchers[i].arg == arg) store->watchers[i].changed = NULL;
    pthread_mutex_unlock(&store->watch_mutex);
}

void broker_config_tell(struct broker_config_store *store)
{
    pthread_mutex_lock(&store->watch_mutex);
    for (size_t i = 0; i < OT_ARRAY_COUNT(store->watchers); i++)
        if (store->watchers[i].changed != NULL) store->watchers[i].changed(store->watchers[i].arg, broker_config_current(store));
    pthread_mutex_unlock(&store->watch_mutex);
}

enum ot_err broker_config_apply_dynamic(struct broker_config_store *store, int32_t broker_id, const char *key, const char *value)
{
    const struct broker_config_row *row = broker_config_row_by_key(key);
    if (row == NULL) return OT_ERR_INVALID_CONFIG;     /* of a newer version: kept by the coordinator, unread here */
    if (broker_id != -1 && broker_id != broker_config_current(store)->node_id) return OT_OK;
    pthread_mutex_lock(&store->mutex);
    struct broker_config_slot *slot = slot_of(store, row);
    replace(broker_id == -1 ? &slot->cluster_default : &slot->broker_dynamic, value);
    enum ot_err err = broker_config_refresh(store);
    pthread_mutex_unlock(&store->mutex);
    if (err == OT_OK) broker_config_tell(store);
    return err;
}

static bool are_log_dirs(const struct broker_config_store *store, const char *value, char *text_out, size_t text_bytes)
{
    for (const char *at = value; *at != 0;) {
        char path[4096];
        const size_t bytes = strcspn(at, ",");
        snprintf(path, sizeof(path), "%.*s", (int)bytes, at);
        at += bytes + (at[bytes] == ',');
        if (bytes == 0 || strcmp(path, "*") == 0 || broker_config_list_has(broker_config_current(store)->log_dirs, path)) continue;
        snprintf(text_out, text_bytes, "Invalid value %.60s for configuration cordoned.log.dirs: %.60s is not in log.dirs", value, path);
        return false;
    }
    return true;
}

/* Each key by itself, with the others as they are now. */
static bool are_listeners(const struct broker_config_store *store, const char *key, const char *value, char *text_out, size_t text_bytes)
{
    const bool map = strcmp(key, "listener.security.protocol.map") == 0;
    char why[300] = "";
    if (!map && strcmp(key, "listeners") != 0) return true;
    if (broker_config_listeners_valid(broker_config_current(store), map ? NULL : value, map ? value : NULL, why, sizeof why)) return true;
    snprintf(text_out, text_bytes, "Invalid value %.60s for configuration %s: %s", value, key, why);
    return false;
}

enum ot_err broker_config_check_dynamic(const struct broker_config_store *store, int32_t broker_id, const char *key, const char *value, char *text_out,
    size_t text_bytes)
{
    const struct broker_config_row *row = broker_config_row_by_key(key);
    if (row == NULL) {
        broker_config_nearest(key, text_out, text_bytes);
        return OT_ERR_INVALID_CONFIG;
    }
    if (row->change == BROKER_CONFIG_RESTART) {
        snprintf(text_out, text_bytes, "Cannot update these configs dynamically: %s", key);
        return OT_ERR_INVALID_REQUEST;
    }
    if (broker_id == -1 && row->change == BROKER_CONFIG_PER_BROKER) {
        snprintf(text_out, text_bytes, "Cannot update these configs at default cluster level, broker id must be specified: %s", key);
        return OT_ERR_INVALID_REQUEST;
    }
    if (value != NULL && strcmp(key, "cordoned.log.dirs") == 0 && !are_log_dirs(store, value, text_out, text_bytes)) return OT_ERR_INVALID_CONFIG;
    const enum ot_err err = value == NULL ? OT_OK : broker_config_valid(row, value, text_out, text_bytes);
    if (err != OT_OK) return err;
    return value == NULL || are_listeners(store, key, value, text_out, text_bytes) ? OT_OK : OT_ERR_INVALID_CONFIG;
}

bool broker_config_known(const char *key) { return broker_config_row_by_key(key) != NULL; }

/* ---- describe ---- */

static void add_synonym(struct broker_config_value *value, enum broker_config_source source, const char *name, const char *text)
{
    if (text == NULL || value->synonym_count == OT_ARRAY_COUNT(value->synonyms)) return;
    value->synonyms[value->synonym_count].source = source;
    value->synonyms[value->synonym_count].name = name;
    value->synonyms[value->synonym_count++].value = text;
}

static void add_own(const struct broker_config_store *store, const struct broker_config_row *row, struct broker_config_value *value)
{
    const struct broker_config_slot *slot = slot_of(store, row);
    add_synonym(value, BROKER_SOURCE_BROKER_DYNAMIC, row->key, slot->broker_dynamic);
    add_synonym(value, BROKER_SOURCE_CLUSTER_DEFAULT, row->key, slot->cluster_default);
    for (int source = BROKER_SOURCE_FLAG; source > BROKER_SOURCE_BUILT_IN; source--)
        add_synonym(value, (enum broker_config_source)source, row->key, slot->fixed[source]);
}

static void add_all(const struct broker_config_store *store, const struct broker_config_row *row, struct broker_config_value *value)
{
    add_own(store, row, value);
    for (const char *at = row->synonyms != NULL ? row->synonyms : ""; *at != 0;) {
        int64_t factor;
        const struct broker_config_row *other = synonym(&at, &factor);
        if (other != NULL && other != row) add_own(store, other, value);
    }
    add_synonym(value, BROKER_SOURCE_BUILT_IN, row->key, row->fallback);
}

static void hide(struct broker_config_value *value)
{
    if (!value->row->sensitive) return;
    value->value = NULL;
    for (uint32_t i = 0; i < value->synonym_count; i++) value->synonyms[i].value = NULL;
}

void broker_config_describe(const struct broker_config_store *store, int32_t broker_id, void (*each)(void *arg, const struct broker_config_value *value), void *arg)
{
    uint32_t count;
    const struct broker_config_row *rows = broker_config_rows(&count);
    pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&store->mutex;
    pthread_mutex_lock(mutex);
    for (uint32_t i = 0; i < count; i++) {
        char buffer[32];
        struct broker_config_value value = { .row = &rows[i] };
        if (broker_id == -1) {                 /* the cluster default: only what was set there */
            value.value = slot_of(store, &rows[i])->cluster_default;
            value.source = BROKER_SOURCE_CLUSTER_DEFAULT;
            value.origin = "";
            if (value.value == NULL) continue;
            add_synonym(&value, BROKER_SOURCE_CLUSTER_DEFAULT, rows[i].key, value.value);
        } else {
            value.value = broker_config_effective(store, &rows[i], buffer, &value.source, &value.origin);
            add_all(store, &rows[i], &value);
        }
        hide(&value);
        each(arg, &value);
    }
    pthread_mutex_unlock(mutex);
}

/* ---- topics ---- */

#define THROTTLED ".replication.throttled.replicas"

/* "*", or "0:1,0:2,…", or nothing. */
static bool are_throttled_replicas(const char *value)
{
    if (strcmp(value, "*") == 0 || *value == 0) return true;
    for (const char *at = value;; at++) {
        const size_t partition = strspn(at, "0123456789");
        const size_t broker = partition > 0 && at[partition] == ':' ? strspn(at + partition + 1, "0123456789") : 0;
        if (broker == 0) return false;
        at += partition + 1 + broker;
        if (*at != ',') return *at == 0;
    }
}

enum ot_err broker_topic_config_check(const char *key, const char *value, char *text_out, size_t text_bytes)
{
    const struct broker_config_row *row = broker_topic_config_row_by_key(key);
    if (row == NULL) {
        snprintf(text_out, text_bytes, "Unknown topic config name: %s", key);
        return OT_ERR_INVALID_CONFIG;
    }
    if (value != NULL && strcmp(key, "remote.storage.enable") == 0 && strcasecmp(value, "true") == 0) {
        snprintf(text_out, text_bytes, "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.");
        return OT_ERR_INVALID_CONFIG;
    }
    const size_t bytes = strlen(key), tail = sizeof(THROTTLED) - 1;
    if (value != NULL && bytes > tail && strcmp(key + bytes - tail, THROTTLED) == 0 && !are_throttled_replicas(value)) {
        snprintf(text_out, text_bytes, "Invalid value %.60s for configuration %s: must be * or a list of partition:broker", value, key);
        return OT_ERR_INVALID_CONFIG;
    }
    return value == NULL ? OT_OK : broker_config_valid(row, value, text_out, text_bytes);
}

static const char *override(const char *key, const char *const *keys, const char *const *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(keys[i], key) == 0) return values[i];
    return NULL;
}

static const char *broker_text(const struct broker_config_store *store, const struct broker_config_row *row, char buffer[static 32],
    enum broker_config_source *source_out, const char **origin_out)
{
    const struct broker_config_meaning *meaning = broker_config_meaning_of(row);
    const struct broker_config_row *parent = meaning == NULL || meaning->broker_key == NULL ? NULL : broker_config_row_by_key(meaning->broker_key);
    *source_out = BROKER_SOURCE_BUILT_IN;
    *origin_out = "";
    return parent == NULL ? row->fallback : broker_config_effective(store, parent, buffer, source_out, origin_out);
}

void broker_topic_config_effective(const struct broker_config_store *store, const char *const *keys, const char *const *values, uint32_t count,
    struct broker_topic_config *out)
{
    uint32_t row_count;
    const struct broker_config_row *rows = broker_topic_config_rows(&row_count);
    struct broker_config_store *writable = (struct broker_config_store *)(uintptr_t)store;     /* interning changes no value */
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&writable->mutex);
    for (uint32_t i = 0; i < row_count; i++) {
        char buffer[32];
        enum broker_config_source source;
        const char *origin;
        if (!rows[i].honoured) continue;
        const char *text = override(rows[i].key, keys, values, count);
        if (text == NULL) text = broker_text(store, &rows[i], buffer, &source, &origin);
        const char *kept = is_text(&rows[i]) ? broker_config_intern(writable, text) : text;
        broker_config_put(&rows[i], kept == NULL ? rows[i].fallback : kept, out);
    }
    pthread_mutex_unlock(&writable->mutex);
}

void broker_topic_config_describe(const struct broker_config_store *store, const char *const *keys, const char *const *values, uint32_t count,
    void (*each)(void *arg, const struct broker_config_value *value), void *arg)
{
    uint32_t row_count;
    const struct broker_config_row *rows = broker_topic_config_rows(&row_count);
    pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&store->mutex;
    pthread_mutex_lock(mutex);
    for (uint32_t i = 0; i < row_count; i++) {
        char buffer[32];
        struct broker_config_value value = { .row = &rows[i], .origin = "" };
        const struct broker_config_meaning *meaning = broker_config_meaning_of(&rows[i]);
        const char *own = override(rows[i].key, keys, values, count);
        value.value = broker_text(store, &rows[i], buffer, &value.source, &value.origin);
        if (own != NULL) {
            value.value = own;
            value.source = BROKER_SOURCE_TOPIC;
            add_synonym(&value, BROKER_SOURCE_TOPIC, rows[i].key, own);
        }
        if (meaning != NULL && meaning->broker_key != NULL) add_all(store, broker_config_row_by_key(meaning->broker_key), &value);
        else add_synonym(&value, BROKER_SOURCE_BUILT_IN, rows[i].key, rows[i].fallback);
        hide(&value);
        each(arg, &value);
    }
    pthread_mutex_unlock(mutex);
}
