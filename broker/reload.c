/* The configuration file read again while the broker runs: keys that may change are taken over as if they had been set dynamically, others are named. */
#include "base/log.h"
#include "base/util.h"
#include "broker/config_private.h"
#include "broker/room.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

/* ---- the store */

static bool same(const char *one, const char *two) { return one == NULL || two == NULL ? one == two : strcmp(one, two) == 0; }

/* log.retention.hours is not read itself, but log.retention.ms takes its value from it, and that may change. */
static bool may_change(const struct broker_config_row *row)
{
    uint32_t count;
    const struct broker_config_row *rows = broker_config_rows(&count);
    if (row->honoured) return row->change != BROKER_CONFIG_RESTART;
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].honoured && rows[i].change != BROKER_CONFIG_RESTART && rows[i].synonyms != NULL && strstr(rows[i].synonyms, row->key) != NULL) return true;
    return false;
}

static enum ot_err take(char **to, const char *text)
{
    char *copy = text == NULL ? NULL : strdup(text);
    if (text != NULL && copy == NULL) return OT_ERR_NO_MEMORY;
    free(*to);
    *to = copy;
    return OT_OK;
}

enum ot_err broker_config_reload(struct broker_config_store *store, const struct broker_config_store *fresh, void (*each)(void *arg, const char *key, enum broker_config_reloaded how),
    void *arg)
{
    uint32_t count;
    const struct broker_config_row *rows = broker_config_rows(&count);
    enum ot_err err = OT_OK;
    pthread_mutex_lock(&store->mutex);
    for (uint32_t i = 0; i < count && err == OT_OK; i++) {
        struct broker_config_slot *slot = &store->slots[i];
        const struct broker_config_slot *now = &fresh->slots[i];
        const bool changed = !same(slot->fixed[BROKER_SOURCE_FILE], now->fixed[BROKER_SOURCE_FILE]);
        if (changed && !may_change(&rows[i])) {
            if (rows[i].honoured) each(arg, rows[i].key, BROKER_RELOAD_RESTART);
            continue;
        }
        if ((err = take(&slot->fixed[BROKER_SOURCE_FILE], now->fixed[BROKER_SOURCE_FILE])) == OT_OK) err = take(&slot->origin[BROKER_SOURCE_FILE], now->origin[BROKER_SOURCE_FILE]);
        if (!changed || err != OT_OK) continue;
        const bool hidden = slot->fixed[BROKER_SOURCE_ENVIRONMENT] != NULL || slot->fixed[BROKER_SOURCE_FLAG] != NULL || slot->cluster_default != NULL || slot->broker_dynamic != NULL;
        each(arg, rows[i].key, hidden ? BROKER_RELOAD_HIDDEN : BROKER_RELOAD_APPLIED);
    }
    const enum ot_err refreshed = broker_config_refresh(store);
    pthread_mutex_unlock(&store->mutex);
    if (refreshed == OT_OK) broker_config_tell(store);
    return err != OT_OK ? err : refreshed;
}

/* ---- the broker */

struct reload { struct ot_task task; struct broker *broker; const struct broker_config_store *fresh; uint32_t counts[3]; sem_t done; };

static void told(void *arg, const char *key, enum broker_config_reloaded how)
{
    static const char *const words[] = { "applied", "hidden", "needs_restart" };
    struct reload *reload = arg;
    reload->counts[how]++;
    ot_log(how == BROKER_RELOAD_RESTART ? OT_LOG_WARN : OT_LOG_INFO, "config", "file_key_changed", "key=%s effect=%s", key, words[how]);
}

static void run(struct ot_task *task)
{
    struct reload *reload = OT_CONTAINER(task, struct reload, task);
    struct broker *broker = reload->broker;
    const enum ot_err err = broker_config_reload(broker->setup.config, reload->fresh, told, reload);
    broker_apply_defaults(broker, broker_coordinator_value(broker->coordinator));
    ot_log(err == OT_OK ? OT_LOG_INFO : OT_LOG_ERROR, "config", "file_reloaded", "applied=%u hidden=%u needs_restart=%u error=%s", reload->counts[BROKER_RELOAD_APPLIED],
        reload->counts[BROKER_RELOAD_HIDDEN], reload->counts[BROKER_RELOAD_RESTART], ot_err_name(err));
    sem_post(&reload->done);
}

void broker_reload(struct broker *broker, const struct broker_config_store *fresh)
{
    struct reload reload = { .task.run = run, .broker = broker, .fresh = fresh };
    sem_init(&reload.done, 0, 0);
    ot_exec_post(broker->setup.coord_exec, &reload.task);
    while (sem_wait(&reload.done) != 0) {}
    sem_destroy(&reload.done);
}
