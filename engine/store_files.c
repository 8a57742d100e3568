/* The small files of a log directory, in Kafka's formats.
 *
 *   meta.properties                      version=1, node.id, directory.id, cluster.id (Java properties)
 *   recovery-point-offset-checkpoint     text: "0", how many rows, then one "topic partition offset" a line
 *   log-start-offset-checkpoint          the same
 *   replication-offset-checkpoint        the same (high watermarks)
 *   .kafka_cleanshutdown                 {"version":0,"brokerEpoch":N}
 *
 * Each is replaced by temporary name, sync, rename: a crash leaves the old or the new one. A stale checkpoint is clamped by its reader; the
 * only one that must never be too high is the recovery point, see eng_store_recovery_lower. */
#include "base/log.h"
#include "base/properties.h"
#include "engine/store_inner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECKPOINT_BYTES_MAX (256u << 20)

static const char *const checkpoint_names[] = {
    [ENG_CHECKPOINT_RECOVERY] = "recovery-point-offset-checkpoint",
    [ENG_CHECKPOINT_START] = "log-start-offset-checkpoint",
    [ENG_CHECKPOINT_HIGH_WATERMARK] = "replication-offset-checkpoint",
    [ENG_CHECKPOINT_CLEANER] = "cleaner-offset-checkpoint",
};

/* ---- meta.properties ---- */

struct meta_parse { struct eng_store_meta *meta; bool version, node, cluster; };

static enum ot_err meta_property(void *arg, int line, const char *key, const char *value)
{
    struct meta_parse *parse = arg;
    (void)line;
    if (strcmp(key, "version") == 0) {
        parse->version = strcmp(value, "1") == 0;
    } else if (strcmp(key, "node.id") == 0 || strcmp(key, "broker.id") == 0) {
        char *end = NULL;
        long id = strtol(value, &end, 10);
        if (end == value || *end != '\0' || id < 0 || id > INT32_MAX) return OT_ERR_MALFORMED;
        parse->meta->node_id = (int32_t)id;
        parse->node = true;
    } else if (strcmp(key, "cluster.id") == 0) {
        if (strlen(value) >= sizeof parse->meta->cluster_id) return OT_ERR_TOO_LARGE;
        memcpy(parse->meta->cluster_id, value, strlen(value) + 1);
        parse->cluster = true;
    } else if (strcmp(key, "directory.id") == 0) {
        if (!ot_uuid_parse(value, strlen(value), &parse->meta->directory_id)) return OT_ERR_MALFORMED;
    }
    return OT_OK;
}

enum ot_err eng_store_meta(struct eng_store *store, uint32_t dir, struct eng_store_meta *out)
{
    char path[ENG_PATH_BYTES], *data = NULL;
    size_t bytes = 0;
    int line = 0;
    struct meta_parse parse = { .meta = out };
    *out = (struct eng_store_meta){ .node_id = -1 };
    enum ot_err err = eng_path_join(path, eng_store_dir_path(store, dir), "meta.properties");
    if (err != OT_OK) return err;
    err = ot_io_read_file(store->io, path, 1u << 16, &data, &bytes);
    if (err == OT_ERR_NOT_FOUND) return OT_OK;
    if (err == OT_OK) {
        err = ot_properties_parse(data, bytes, meta_property, &parse, &line);
        if (err != OT_ERR_NO_MEMORY && (err != OT_OK || !parse.version || !parse.node || !parse.cluster)) err = OT_ERR_CORRUPT;
    } else if (err == OT_ERR_TOO_LARGE) {
        err = OT_ERR_CORRUPT;
    }
    free(data);
    if (err == OT_ERR_CORRUPT) ot_log(OT_LOG_ERROR, "storage", "meta_damaged", "file=%s", path);
    out->present = err == OT_OK;
    return err;
}

enum ot_err eng_store_format(struct eng_store *store, uint32_t dir, const struct eng_store_meta *meta)
{
    char path[ENG_PATH_BYTES], text[256], directory_id[23];
    enum ot_err err = eng_path_join(path, eng_store_dir_path(store, dir), "meta.properties");
    if (err != OT_OK) return err;
    ot_uuid_text(&meta->directory_id, directory_id);
    int bytes = snprintf(text, sizeof text, "node.id=%" PRId32 "\ndirectory.id=%s\nversion=1\ncluster.id=%s\n", meta->node_id, directory_id,
        meta->cluster_id);
    OT_ASSERT(bytes > 0 && (size_t)bytes < sizeof text);
    return ot_io_replace_file(store->io, path, text, (size_t)bytes, true);
}

/* ---- checkpoints ---- */

/* One decimal number up to INT64_MAX, optionally negative; moves *at behind it. */
static bool parse_number(char **at, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(*at, &end, 10);
    if (end == *at || errno != 0) return false;
    *at = end;
    *out = value;
    return true;
}

/* "topic partition offset": the topic has no blanks. Cuts the line in place. */
static bool parse_row(char *line, struct eng_checkpoint_row *row)
{
    int64_t partition = -1;
    char *blank = strchr(line, ' ');
    if (blank == NULL || blank == line) return false;
    *blank = '\0';
    row->topic = line;
    char *at = blank + 1;
    if (!parse_number(&at, &partition) || *at != ' ' || partition < 0 || partition > INT32_MAX) return false;
    at++;
    row->partition = (int32_t)partition;
    return parse_number(&at, &row->offset) && (*at == '\0' || *at == '\r') && row->offset >= 0;
}

static char *next_line(char **at)
{
    if (*at == NULL || **at == '\0') return NULL;
    char *line = *at, *end = strchr(line, '\n');
    *at = end == NULL ? NULL : end + 1;
    if (end != NULL) *end = '\0';
    return line;
}

/* Walks the rows of a whole file twice: first to check, then (data is cut then) to give them out. */
static enum ot_err checkpoint_parse(char *data, size_t bytes, void (*each)(void *, const struct eng_checkpoint_row *), void *arg)
{
    char *at = data, *line;
    int64_t version = -1, count = -1, seen = 0;
    struct eng_checkpoint_row row;
    if (strlen(data) != bytes) return OT_ERR_CORRUPT;
    if ((line = next_line(&at)) == NULL || !parse_number(&line, &version) || version != 0) return OT_ERR_CORRUPT;
    if ((line = next_line(&at)) == NULL || !parse_number(&line, &count) || count < 0) return OT_ERR_CORRUPT;
    while ((line = next_line(&at)) != NULL) {
        if (*line == '\0') continue;
        if (!parse_row(line, &row)) return OT_ERR_CORRUPT;
        seen++;
        each(arg, &row);
    }
    return seen == count ? OT_OK : OT_ERR_CORRUPT;
}

static void row_nowhere(void *arg, const struct eng_checkpoint_row *row)
{
    (void)arg;
    (void)row;
}

static enum ot_err checkpoint_load(struct eng_store *store, uint32_t dir, enum eng_checkpoint kind,
    void (*each)(void *arg, const struct eng_checkpoint_row *row), void *arg)
{
    char path[ENG_PATH_BYTES], *data = NULL, *copy = NULL;
    size_t bytes = 0;
    enum ot_err err = eng_path_join(path, eng_store_dir_path(store, dir), checkpoint_names[kind]);
    if (err != OT_OK) return err;
    err = ot_io_read_file(store->io, path, CHECKPOINT_BYTES_MAX, &data, &bytes);
    if (err == OT_ERR_NOT_FOUND) return OT_OK;
    if (err == OT_ERR_TOO_LARGE) err = OT_ERR_CORRUPT;
    if (err != OT_OK) goto done;
    if ((copy = malloc(bytes + 1)) == NULL) {
        err = OT_ERR_NO_MEMORY;
        goto done;
    }
    memcpy(copy, data, bytes + 1);
    err = checkpoint_parse(copy, bytes, row_nowhere, NULL);        /* all rows or none */
    if (err == OT_OK) err = checkpoint_parse(data, bytes, each, arg);
done:
    if (err == OT_ERR_CORRUPT) ot_log(OT_LOG_WARN, "storage", "checkpoint_damaged", "file=%s", path);
    free(data);
    free(copy);
    return err;
}

enum ot_err eng_store_checkpoint_load(struct eng_store *store, uint32_t dir, enum eng_checkpoint kind,
    void (*each)(void *arg, const struct eng_checkpoint_row *row), void *arg)
{
    pthread_mutex_lock(&store->dirs[dir].checkpoint_lock);
    enum ot_err err = checkpoint_load(store, dir, kind, each, arg);
    pthread_mutex_unlock(&store->dirs[dir].checkpoint_lock);
    return err;
}

/* A row's text is at most a topic of 249 bytes and two numbers. */
struct text { char *data; size_t bytes, cap; enum ot_err err; };

static void text_row(struct text *text, const char *topic, int32_t partition, int64_t offset)
{
    size_t room = strlen(topic) + 48;
    if (text->err != OT_OK) return;
    if (text->bytes + room > text->cap) {
        size_t cap = OT_MAX(text->cap * 2, text->bytes + room);
        char *grown = realloc(text->data, cap);
        if (grown == NULL) {
            text->err = OT_ERR_NO_MEMORY;
            return;
        }
        text->data = grown;
        text->cap = cap;
    }
    int put = snprintf(text->data + text->bytes, text->cap - text->bytes, "%s %" PRId32 " %" PRId64 "\n", topic, partition, offset);
    text->bytes += (size_t)put;
}

static enum ot_err checkpoint_put(struct eng_store *store, uint32_t dir, enum eng_checkpoint kind, struct text *text, uint32_t count, bool sync)
{
    char path[ENG_PATH_BYTES], head[32];
    if (text->err != OT_OK) return text->err;
    enum ot_err err = eng_path_join(path, eng_store_dir_path(store, dir), checkpoint_names[kind]);
    if (err != OT_OK) return err;
    int head_bytes = snprintf(head, sizeof head, "0\n%" PRIu32 "\n", count);
    size_t bytes = (size_t)head_bytes + text->bytes;
    char *whole = malloc(bytes + 1);
    if (whole == NULL) return OT_ERR_NO_MEMORY;
    memcpy(whole, head, (size_t)head_bytes);
    if (text->bytes > 0) memcpy(whole + head_bytes, text->data, text->bytes);
    err = ot_io_replace_file(store->io, path, whole, bytes, sync);
    free(whole);
    return err;
}

static int64_t synced_end(struct eng_store_dir *dir, const struct eng_checkpoint_row *row)
{
    char name[320];
    int bytes = snprintf(name, sizeof name, "%s-%" PRId32, row->topic, row->partition);
    if (bytes < 0 || (size_t)bytes >= sizeof name) return row->offset;
    const _Atomic int64_t *flushed_end = ot_map_get(&dir->open_logs, name, (size_t)bytes);
    return flushed_end == NULL ? row->offset : atomic_load(flushed_end);
}

enum ot_err eng_store_checkpoint_write(struct eng_store *store, uint32_t dir, enum eng_checkpoint kind,
    const struct eng_checkpoint_row *rows, uint32_t count, bool sync)
{
    struct text text = { 0 };
    struct eng_store_dir *home = &store->dirs[dir];
    /* a recovery point is only good if it is there, and a log start that was told must not go back: these two are always synced */
    sync = sync || kind == ENG_CHECKPOINT_RECOVERY || kind == ENG_CHECKPOINT_START;
    pthread_mutex_lock(&home->checkpoint_lock);
    for (uint32_t i = 0; i < count; i++)
        text_row(&text, rows[i].topic, rows[i].partition, kind == ENG_CHECKPOINT_RECOVERY ? synced_end(home, &rows[i]) : rows[i].offset);
    enum ot_err err = checkpoint_put(store, dir, kind, &text, count, sync);
    pthread_mutex_unlock(&home->checkpoint_lock);
    free(text.data);
    return err;
}

struct lower { struct text text; const char *topic; int32_t partition; int64_t offset; uint32_t count; bool was_above; };

static void lower_row(void *arg, const struct eng_checkpoint_row *row)
{
    struct lower *lower = arg;
    int64_t offset = row->offset;
    if (row->partition == lower->partition && strcmp(row->topic, lower->topic) == 0 && offset > lower->offset) {
        offset = lower->offset;
        lower->was_above = true;
    }
    text_row(&lower->text, row->topic, row->partition, offset);
    lower->count++;
}

static enum ot_err lower_kind(struct eng_store *store, uint32_t dir, enum eng_checkpoint kind, const char *topic, int32_t partition, int64_t offset)
{
    struct lower lower = { .topic = topic, .partition = partition, .offset = offset };
    enum ot_err err = checkpoint_load(store, dir, kind, lower_row, &lower);
    if (err == OT_ERR_CORRUPT) err = OT_OK;            /* recovery will not believe it either */
    else if (err == OT_OK && lower.was_above) err = checkpoint_put(store, dir, kind, &lower.text, lower.count, true);
    free(lower.text.data);
    return err;
}

enum ot_err eng_store_recovery_lower(struct eng_store *store, uint32_t dir, const char *name, int64_t offset)
{
    char topic[256];
    int32_t partition;
    if (!eng_store_parse_folder(name, topic, &partition)) return OT_OK;            /* not a row's name: it has no row */
    pthread_mutex_lock(&store->dirs[dir].checkpoint_lock);
    enum ot_err err = lower_kind(store, dir, ENG_CHECKPOINT_RECOVERY, topic, partition, offset);
    if (err == OT_OK) err = lower_kind(store, dir, ENG_CHECKPOINT_CLEANER, topic, partition, offset);
    pthread_mutex_unlock(&store->dirs[dir].checkpoint_lock);
    return err;
}

struct raise { struct text text; const char *topic; int32_t partition; int64_t offset; uint32_t count; bool high_enough; };

static void raise_row(void *arg, const struct eng_checkpoint_row *row)
{
    struct raise *raise = arg;
    if (row->partition == raise->partition && strcmp(row->topic, raise->topic) == 0) {
        raise->high_enough = row->offset >= raise->offset;
        return;                            /* written last */
    }
    text_row(&raise->text, row->topic, row->partition, row->offset);
    raise->count++;
}

enum ot_err eng_store_recovery_raise(struct eng_store *store, uint32_t dir, const char *name, int64_t offset)
{
    char topic[256];
    struct raise raise = { .topic = topic };
    struct eng_store_dir *home = &store->dirs[dir];
    if (!eng_store_parse_folder(name, topic, &raise.partition)) return OT_OK;
    pthread_mutex_lock(&home->checkpoint_lock);
    const _Atomic int64_t *flushed_end = ot_map_get(&home->open_logs, name, strlen(name));
    raise.offset = flushed_end == NULL ? offset : OT_MIN(offset, atomic_load(flushed_end));
    enum ot_err err = checkpoint_load(store, dir, ENG_CHECKPOINT_RECOVERY, raise_row, &raise);
    if (err == OT_OK && !raise.high_enough) {
        text_row(&raise.text, topic, raise.partition, raise.offset);
        err = checkpoint_put(store, dir, ENG_CHECKPOINT_RECOVERY, &raise.text, raise.count + 1, true);
    }
    pthread_mutex_unlock(&home->checkpoint_lock);
    free(raise.text.data);
    return err;
}

enum ot_err eng_store_register(struct eng_store *store, uint32_t dir, const char *name, const _Atomic int64_t *flushed_end)
{
    pthread_mutex_lock(&store->dirs[dir].checkpoint_lock);
    enum ot_err err = ot_map_put(&store->dirs[dir].open_logs, name, strlen(name), (void *)(uintptr_t)flushed_end);
    pthread_mutex_unlock(&store->dirs[dir].checkpoint_lock);
    return err;
}

void eng_store_unregister(struct eng_store *store, uint32_t dir, const char *name)
{
    pthread_mutex_lock(&store->dirs[dir].checkpoint_lock);
    ot_map_remove(&store->dirs[dir].open_logs, name, strlen(name));
    pthread_mutex_unlock(&store->dirs[dir].checkpoint_lock);
}

/* ---- the clean marker ---- */

#define CLEAN_NAME ".kafka_cleanshutdown"

enum ot_err eng_store_see_clean(struct eng_store *store, uint32_t dir, bool *clean_out, int64_t *broker_epoch_out)
{
    char path[ENG_PATH_BYTES], *data = NULL;
    *clean_out = false;
    *broker_epoch_out = -1;
    enum ot_err err = eng_path_join(path, eng_store_dir_path(store, dir), CLEAN_NAME);
    if (err != OT_OK) return err;
    err = ot_io_read_file(store->io, path, 4096, &data, NULL);
    if (err == OT_ERR_NOT_FOUND) return OT_OK;
    if (err != OT_OK && err != OT_ERR_TOO_LARGE) return err;
    if (err == OT_OK) {                    /* Kafka takes the file itself as the word; so do we, whatever it holds */
        const char *epoch = strstr(data, "\"brokerEpoch\"");
        if (epoch != NULL && (epoch = strchr(epoch, ':')) != NULL) *broker_epoch_out = strtoll(epoch + 1, NULL, 10);
    }
    free(data);
    *clean_out = true;
    return OT_OK;
}

enum ot_err eng_store_take_clean(struct eng_store *store, uint32_t dir, bool *was_clean_out, int64_t *broker_epoch_out)
{
    char path[ENG_PATH_BYTES];
    bool clean;
    enum ot_err err = eng_store_see_clean(store, dir, &clean, broker_epoch_out);
    *was_clean_out = false;
    if (err != OT_OK || !clean || (err = eng_path_join(path, eng_store_dir_path(store, dir), CLEAN_NAME)) != OT_OK) return err;
    /* gone for good before anything is appended: a marker that came back after a crash would hide it */
    if ((err = store->io->ops->unlink(store->io, path)) != OT_OK) return err;
    if ((err = store->io->ops->sync_dir(store->io, eng_store_dir_path(store, dir))) != OT_OK) return err;
    *was_clean_out = true;
    return OT_OK;
}

enum ot_err eng_store_leave_clean(struct eng_store *store, uint32_t dir, int64_t broker_epoch)
{
    char path[ENG_PATH_BYTES], text[80];
    enum ot_err err = eng_path_join(path, eng_store_dir_path(store, dir), CLEAN_NAME);
    if (err != OT_OK) return err;
    int bytes = snprintf(text, sizeof text, "{\"version\":0,\"brokerEpoch\":%" PRId64 "}", broker_epoch);
    return ot_io_replace_file(store->io, path, text, (size_t)bytes, true);
}
