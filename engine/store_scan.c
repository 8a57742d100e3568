/* Partition folders: finding them, their topic ids, and clearing away what is being deleted.
 *
 *   topic-N/                    a partition
 *   topic-N.<hex>-delete/       being deleted (Kafka's pattern): removed at start
 *   topic-N.<hex>-stray/        of a topic that is no more (Kafka's pattern): left to the operator
 *   topic-N/partition.metadata  text: "version: 0", "topic_id: <22 characters>" */
#include "base/log.h"
#include "engine/store_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool eng_store_parse_folder(const char *name, char topic_out[static 256], int32_t *partition_out)
{
    const char *dash = strrchr(name, '-');
    if (dash == NULL || dash == name || dash - name > 249) return false;
    int64_t partition = 0;
    const char *at = dash + 1;
    if (*at == '\0' || (*at == '0' && at[1] != '\0')) return false;
    for (; *at >= '0' && *at <= '9' && partition <= INT32_MAX; at++) partition = partition * 10 + (*at - '0');
    if (*at != '\0' || partition > INT32_MAX) return false;
    for (const char *c = name; c < dash; c++) {
        bool legal = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '.' || *c == '_' || *c == '-';
        if (!legal) return false;
    }
    memcpy(topic_out, name, (size_t)(dash - name));
    topic_out[dash - name] = '\0';
    *partition_out = (int32_t)partition;
    return strcmp(topic_out, ".") != 0 && strcmp(topic_out, "..") != 0;
}

static void names_add(void *arg, const struct ot_io_entry *entry)
{
    struct eng_names *names = arg;
    if (names->err != OT_OK || entry->is_dir != names->dirs) return;
    if (names->count == names->cap) {
        uint32_t cap = names->cap == 0 ? 64 : names->cap * 2;
        char **grown = realloc(names->list, cap * sizeof *grown);
        if (grown == NULL) {
            names->err = OT_ERR_NO_MEMORY;
            return;
        }
        names->list = grown;
        names->cap = cap;
    }
    char *copy = strdup(entry->name);
    if (copy == NULL) names->err = OT_ERR_NO_MEMORY;
    else names->list[names->count++] = copy;
}

void eng_names_free(struct eng_names *names)
{
    for (uint32_t i = 0; i < names->count; i++) free(names->list[i]);
    free(names->list);
}

static int names_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

enum ot_err eng_names_load(struct ot_io *io, const char *path, bool dirs, struct eng_names *names)
{
    *names = (struct eng_names){ .dirs = dirs };
    enum ot_err err = io->ops->list(io, path, names_add, names);
    if (err == OT_OK) err = names->err;
    if (names->count > 0) qsort(names->list, names->count, sizeof *names->list, names_compare);
    return err;
}

enum ot_err eng_store_remove_tree(struct ot_io *io, const char *path)
{
    struct eng_names names;
    char file[ENG_PATH_BYTES];
    enum ot_err err = eng_names_load(io, path, false, &names);
    for (uint32_t i = 0; i < names.count && err == OT_OK; i++) {
        if ((err = eng_path_join(file, path, names.list[i])) != OT_OK) break;
        err = io->ops->unlink(io, file);
        if (err == OT_ERR_NOT_FOUND) err = OT_OK;
    }
    eng_names_free(&names);
    if (err == OT_OK) err = io->ops->rmdir(io, path);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static bool ends_with(const char *name, const char *end)
{
    size_t name_bytes = strlen(name), end_bytes = strlen(end);
    return name_bytes > end_bytes && strcmp(name + name_bytes - end_bytes, end) == 0;
}

static enum ot_err scan(struct eng_store *store, uint32_t dir, bool clears, void (*each)(void *arg, uint32_t dir, const char *topic, int32_t partition), void *arg)
{
    struct eng_names names;
    char path[ENG_PATH_BYTES], topic[256];
    int32_t partition = 0;
    enum ot_err err = eng_names_load(store->io, eng_store_dir_path(store, dir), true, &names);
    for (uint32_t i = 0; i < names.count && err == OT_OK; i++) {
        if (ends_with(names.list[i], "-delete") && strchr(names.list[i], '.') != NULL) {
            if (!clears) continue;
            if ((err = eng_path_join(path, eng_store_dir_path(store, dir), names.list[i])) != OT_OK) break;
            enum ot_err gone = eng_store_remove_tree(store->io, path);
            if (gone != OT_OK) ot_log(OT_LOG_WARN, "storage", "delete_unfinished", "dir=%s error=%s", path, ot_err_name(gone));
        } else if (eng_store_parse_folder(names.list[i], topic, &partition)) {
            each(arg, dir, topic, partition);
        }
    }
    eng_names_free(&names);
    return err;
}

enum ot_err eng_store_scan(struct eng_store *store, uint32_t dir,
    void (*each)(void *arg, uint32_t dir, const char *topic, int32_t partition), void *arg)
{
    return scan(store, dir, true, each, arg);
}

enum ot_err eng_store_look(struct eng_store *store, uint32_t dir,
    void (*each)(void *arg, uint32_t dir, const char *topic, int32_t partition), void *arg)
{
    return scan(store, dir, false, each, arg);
}

enum ot_err eng_partition_metadata_read(struct ot_io *io, const char *dir_path, struct ot_uuid *out)
{
    char path[ENG_PATH_BYTES], *data = NULL;
    enum ot_err err = eng_path_join(path, dir_path, "partition.metadata");
    if (err != OT_OK) return err;
    err = ot_io_read_file(io, path, 4096, &data, NULL);
    if (err == OT_ERR_TOO_LARGE) return OT_ERR_CORRUPT;
    if (err != OT_OK) return err;
    int version = -1;
    char id[64] = "";
    const char *line = strstr(data, "topic_id:");
    if (sscanf(data, "version: %d", &version) != 1 || version != 0 || line == NULL || sscanf(line, "topic_id: %63s", id) != 1 ||
        !ot_uuid_parse(id, strlen(id), out))
        err = OT_ERR_CORRUPT;
    free(data);
    return err;
}

enum ot_err eng_partition_metadata_write(struct ot_io *io, const char *dir_path, const struct ot_uuid *id, bool sync)
{
    char path[ENG_PATH_BYTES], text[64], id_text[23];
    enum ot_err err = eng_path_join(path, dir_path, "partition.metadata");
    if (err != OT_OK) return err;
    ot_uuid_text(id, id_text);
    int bytes = snprintf(text, sizeof text, "version: 0\ntopic_id: %s", id_text);
    return ot_io_replace_file(io, path, text, (size_t)bytes, sync);
}

enum ot_err eng_store_topic_id(struct eng_store *store, uint32_t dir, const char *topic, int32_t partition, struct ot_uuid *out)
{
    char path[ENG_PATH_BYTES];
    int bytes = snprintf(path, sizeof path, "%s/%s-%d", eng_store_dir_path(store, dir), topic, (int)partition);
    if (bytes < 0 || (size_t)bytes >= sizeof path) return OT_ERR_TOO_LARGE;
    return eng_partition_metadata_read(store->io, path, out);
}

enum ot_err eng_store_set_aside(struct eng_store *store, uint32_t dir, const char *topic, int32_t partition)
{
    char from[ENG_PATH_BYTES], to[ENG_PATH_BYTES], hex[33];
    struct ot_uuid id;
    const char *dir_path = eng_store_dir_path(store, dir);
    ot_uuid_random(&id);
    for (int i = 0; i < 16; i++) snprintf(hex + 2 * i, 3, "%02x", id.bytes[i]);
    int from_bytes = snprintf(from, sizeof from, "%s/%s-%d", dir_path, topic, (int)partition);
    int to_bytes = snprintf(to, sizeof to, "%s/%.200s-%d.%s-stray", dir_path, topic, (int)partition, hex);
    if (from_bytes < 0 || to_bytes < 0 || (size_t)from_bytes >= sizeof from || (size_t)to_bytes >= sizeof to) return OT_ERR_TOO_LARGE;
    enum ot_err err = store->io->ops->rename(store->io, from, to);
    if (err == OT_OK) err = store->io->ops->sync_dir(store->io, dir_path);
    if (err == OT_OK) ot_log(OT_LOG_WARN, "storage", "folder_set_aside", "dir=%s as=%s", from, to);
    return err;
}
