/* Whose directories are these? A server never begins an empty cluster over data of another one, and never over its own data whose metadata is missing. */
#include "broker/room.h"

#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct eng_store *store_of(struct broker *broker) { return broker->core.store; }

enum ot_err broker_identity_find(struct broker *broker, char *text, size_t text_bytes)
{
    struct ot_io *io = broker->setup.io;
    struct eng_store *store = store_of(broker);
    char path[4096];
    int found = -1, offline = -1;
    for (uint32_t dir = 0; dir < eng_store_dir_count(store); dir++) {
        struct ot_io_stat stat;
        if (eng_store_dir_offline(store, dir)) {
            offline = (int)dir;
            continue;
        }
        snprintf(path, sizeof path, "%s/" BROKER_META_FOLDER, eng_store_dir_path(store, dir));
        enum ot_err err = io->ops->stat(io, path, &stat);
        if (err == OT_OK && found != -1) {
            snprintf(text, text_bytes, "two log directories hold metadata: %s and %s", eng_store_dir_path(store, (uint32_t)found), eng_store_dir_path(store, dir));
            return OT_ERR_MISMATCH;
        }
        if (err != OT_OK && err != OT_ERR_NOT_FOUND) {
            snprintf(text, text_bytes, "%s cannot be read", path);
            return err;
        }
        found = err == OT_OK ? (int)dir : found;
    }
    if (found == -1 && offline != -1) {
        snprintf(text, text_bytes, "no log directory that can be read holds metadata, and %s cannot be read: it may be there", eng_store_dir_path(store, (uint32_t)offline));
        return OT_ERR_IO;
    }
    broker->meta_dir = found == -1 ? 0 : (uint32_t)found;
    snprintf(path, sizeof path, "%s/" BROKER_META_FOLDER, eng_store_dir_path(store, broker->meta_dir));
    broker->meta_path = strdup(path);
    return broker->meta_path == NULL ? OT_ERR_NO_MEMORY : OT_OK;
}

struct folders { uint32_t count; char first[280]; };

static void count_folder(void *arg, uint32_t dir, const char *topic, int32_t partition)
{
    struct folders *folders = arg;
    (void)dir;
    if (folders->count++ == 0) {
        snprintf(folders->first, sizeof folders->first, "%s-%d", topic, partition);
    }
}

/* A directory without meta.properties: fine when it is empty, or when founding was cut short. */
static enum ot_err check_unformatted(struct broker *broker, uint32_t dir, char *text, size_t text_bytes)
{
    struct folders folders = { 0 };
    const char *path = eng_store_dir_path(store_of(broker), dir);
    enum ot_err err = eng_store_scan(store_of(broker), dir, count_folder, &folders);
    if (err == OT_OK && folders.count > 0) {
        snprintf(text, text_bytes, "%s holds partitions (%s) and no meta.properties that says whose they are; this is node %d. Use an empty directory, or "
            "`ottla log adopt`", path, folders.first, broker->node_id);
        return OT_ERR_MISMATCH;
    }
    return err;
}

static enum ot_err check_formatted(struct broker *broker, uint32_t dir, const struct eng_store_meta *meta, const char *cluster_id, char *text, size_t text_bytes)
{
    const char *path = eng_store_dir_path(store_of(broker), dir);
    if (cluster_id[0] == 0) {
        snprintf(text, text_bytes, "%s belongs to cluster %s, but the metadata of that cluster (" BROKER_META_FOLDER ") is in none of the log directories; node %d does "
            "not begin an empty cluster over it", path, meta->cluster_id, broker->node_id);
        return OT_ERR_MISMATCH;
    }
    if (strcmp(meta->cluster_id, cluster_id) != 0) {
        snprintf(text, text_bytes, "%s belongs to cluster %s, the metadata in %s to cluster %s", path, meta->cluster_id, broker->meta_path, cluster_id);
        return OT_ERR_MISMATCH;
    }
    if (meta->node_id != broker->node_id) {
        snprintf(text, text_bytes, "%s belongs to node %d, this is node %d (node.id)", path, meta->node_id, broker->node_id);
        return OT_ERR_MISMATCH;
    }
    return OT_OK;
}

static enum ot_err check_doubles(struct broker *broker, const struct broker_identity *identity, uint32_t dir, char *text, size_t text_bytes)
{
    for (uint32_t other = 0; other < dir; other++) {
        if (ot_uuid_equal(&identity->dir_ids[other], &identity->dir_ids[dir]) && !eng_store_dir_offline(store_of(broker), other)) {
            snprintf(text, text_bytes, "%s and %s have the same directory.id: one is a copy of the other", eng_store_dir_path(store_of(broker), other),
                eng_store_dir_path(store_of(broker), dir));
            return OT_ERR_MISMATCH;
        }
    }
    return OT_OK;
}

enum ot_err broker_identity_check(struct broker *broker, const struct coord_disk_image *image, struct broker_identity *identity, char *text, size_t text_bytes)
{
    enum ot_err err = OT_OK;
    memset(identity, 0, sizeof *identity);
    snprintf(identity->cluster_id, sizeof identity->cluster_id, "%s", image->blank ? "" : image->cluster_id);
    for (uint32_t dir = 0; err == OT_OK && dir < eng_store_dir_count(store_of(broker)); dir++) {
        struct eng_store_meta meta = { 0 };
        if (eng_store_dir_offline(store_of(broker), dir)) {
            continue;
        }
        if ((err = eng_store_meta(store_of(broker), dir, &meta)) != OT_OK) {
            snprintf(text, text_bytes, "%s/meta.properties cannot be read", eng_store_dir_path(store_of(broker), dir));
        } else if (meta.present) {
            identity->formatted[dir] = true;
            identity->dir_ids[dir] = meta.directory_id;
            err = check_formatted(broker, dir, &meta, identity->cluster_id, text, text_bytes);
        } else {
            ot_uuid_random(&identity->dir_ids[dir]);
            if (dir == broker->meta_dir && !image->blank) {
                identity->dir_ids[dir] = image->format.dir_id;     /* the founding was cut short before meta.properties */
            }
            err = check_unformatted(broker, dir, text, text_bytes);
        }
        err = err == OT_OK ? check_doubles(broker, identity, dir, text, text_bytes) : err;
    }
    if (err == OT_OK && image->blank) {
        struct ot_uuid id;
        ot_uuid_random(&id);
        ot_uuid_text(&id, identity->cluster_id);
    }
    return err;
}

enum ot_err broker_identity_write(struct broker *broker, const struct broker_identity *identity)
{
    for (uint32_t dir = 0; dir < eng_store_dir_count(store_of(broker)); dir++) {
        if (identity->formatted[dir] || eng_store_dir_offline(store_of(broker), dir)) {
            continue;
        }
        struct eng_store_meta meta = { .present = true, .node_id = broker->node_id, .directory_id = identity->dir_ids[dir] };
        snprintf(meta.cluster_id, sizeof meta.cluster_id, "%s", identity->cluster_id);
        enum ot_err err = eng_store_format(store_of(broker), dir, &meta);
        if (err != OT_OK) {
            return err;
        }
    }
    return OT_OK;
}

/* ---- folders of deleted topics */

struct sweep { struct broker *broker; const struct coord_value *value; struct ot_map deleted; /* id -> anything */ struct ot_map names; bool forced; };

/* A replica that was moved away while this broker was down. Its own registration is in the value, so what it says of this broker is not old. After voters were forced a move may only have been lost. */
static bool was_moved_away(const struct sweep *sweep, const char *topic, int32_t partition, const struct ot_uuid *id)
{
    struct ot_coord_topic_name_row name;
    struct coord_partition row;
    return !sweep->forced && coord_topic_name_get(sweep->value, ot_str_of(topic), &name) == OT_OK && (id == NULL || ot_uuid_equal(&name.topic_id, id))
        && coord_partition_get(sweep->value, &name.topic_id, partition, &row) == OT_OK && coord_replica_bit(&row, sweep->broker->node_id) == 0;
}

static void sweep_folder(void *arg, uint32_t dir, const char *topic, int32_t partition)
{
    struct sweep *sweep = arg;
    struct ot_uuid id;
    char from[4096], to[4096 + 64];
    struct eng_store *store = store_of(sweep->broker);
    struct ot_io *io = sweep->broker->setup.io;
    if (ot_map_get(&sweep->names, topic, strlen(topic)) == NULL && !was_moved_away(sweep, topic, partition, NULL)) {
        return;
    }
    snprintf(from, sizeof from, "%s/%s-%d", eng_store_dir_path(store, dir), topic, partition);
    const enum ot_err err = eng_store_topic_id(store, dir, topic, partition, &id);
    if (err == OT_ERR_NOT_FOUND) {
        ot_ignore(io->ops->rmdir(io, from), "goes only when nothing is in it: never written to, and made again if a topic of today has that name");
    }
    if (err != OT_OK || (ot_map_get(&sweep->deleted, id.bytes, 16) == NULL && !was_moved_away(sweep, topic, partition, &id))) {
        return;
    }
    snprintf(to, sizeof to, "%s/%.180s-%d.%016llx%016llx-delete", eng_store_dir_path(store, dir), topic, partition, (unsigned long long)ot_load_u64(id.bytes),
        (unsigned long long)ot_load_u64(id.bytes + 8));
    ot_ignore(io->ops->rename(io, from, to), "it is found again at the next start");     /* the scan that follows removes it */
}

void broker_identity_sweep(struct broker *broker, const struct coord_value *value)
{
    struct ot_coord_cluster_row cluster;
    struct sweep sweep = { .broker = broker, .value = value, .forced = coord_cluster_get(value, &cluster) != OT_OK || cluster.forced_version > 0 };
    struct coord_deleted_topic deleted;
    ot_map_init(&sweep.deleted);
    ot_map_init(&sweep.names);
    for (enum ot_err err = coord_deleted_next(value, NULL, &deleted); err == OT_OK; err = coord_deleted_next(value, &deleted, &deleted)) {
        ot_ignore(ot_map_put(&sweep.deleted, deleted.id.bytes, 16, broker), "then its folder stays until the next start");
        ot_ignore(ot_map_put(&sweep.names, deleted.name.data, deleted.name.bytes, broker), "the same");
    }
    for (uint32_t dir = 0; dir < eng_store_dir_count(store_of(broker)); dir++) {
        if (!eng_store_dir_offline(store_of(broker), dir)) {
            ot_ignore(eng_store_look(store_of(broker), dir, sweep_folder, &sweep), "opening the directory's partitions will tell");
        }
    }
    ot_map_free(&sweep.deleted);
    ot_map_free(&sweep.names);
}
