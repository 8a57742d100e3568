/* Steps, each harmless without the next: the term goes up, then the new value stands in a snapshot, then the journal that rests on it takes the old one's place by rename. Accepted changes are taken in:
 * most of the old voters may have accepted them too, and then somebody was told so. */
#include "broker/force_voters.h"

#include "base/util.h"
#include "broker/journal.h"
#include "broker/peers.h"
#include "broker/room.h"
#include "engine/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES_BYTES = 1 << 30, DELTA_BYTES = 1 << 20 };

struct forcing {
    struct ot_io *io;
    struct coord_pages *pages;
    struct coord_disk_image image;
    struct broker_journal journal;
    struct coord_value value;                  /* what is made of the image */
    uint8_t *delta_room;
    char path[4096];
    struct broker_forced *out;
    char *text; size_t text_bytes;
};

static enum ot_err words(const struct forcing *forcing, enum ot_err err, const char *what)
{
    snprintf(forcing->text, forcing->text_bytes, "%s", what);
    return err;
}

static enum ot_err find_folder(struct forcing *forcing, struct eng_store *store)
{
    for (uint32_t dir = 0; dir < eng_store_dir_count(store); dir++) {
        struct ot_io_stat stat;
        snprintf(forcing->path, sizeof forcing->path, "%s/" BROKER_META_FOLDER, eng_store_dir_path(store, dir));
        if (!eng_store_dir_offline(store, dir) && forcing->io->ops->stat(forcing->io, forcing->path, &stat) == OT_OK) return OT_OK;
    }
    return words(forcing, OT_ERR_NOT_FOUND, "none of the directories holds metadata (" BROKER_META_FOLDER ")");
}

static enum ot_err take_accepted(struct forcing *forcing)
{
    const struct coord_disk_image *image = &forcing->image;
    if (!image->has_accepted) return OT_OK;
    const enum ot_err err = coord_delta_apply(&forcing->value, image->accepted.delta);
    if (err != OT_OK || forcing->value.state_hash != image->accepted.state_hash) return words(forcing, err == OT_ERR_NO_MEMORY ? err : OT_ERR_CORRUPT, "the change accepted last does not lead to its state hash");
    forcing->value.stamp = image->accepted.stamp;
    return OT_OK;
}

static enum ot_err look(struct forcing *forcing)
{
    struct broker_forced *out = forcing->out;
    struct ot_coord_cluster_row cluster;
    struct ot_coord_voter_row voter;
    int32_t id = INT32_MIN;
    enum ot_err err = coord_cluster_get(&forcing->value, &cluster);
    if (err != OT_OK) return words(forcing, err == OT_ERR_NOT_FOUND ? OT_ERR_NOT_FOUND : err, "the metadata of this node says nothing of a cluster yet");
    snprintf(out->cluster_id, sizeof out->cluster_id, "%.*s", (int)cluster.cluster_id.bytes, cluster.cluster_id.data);
    out->node_id = forcing->image.format.node_id;
    out->term = OT_MAX(forcing->image.term.term, forcing->value.stamp.term);
    out->version = forcing->value.stamp.version;
    out->topic_count = cluster.topic_count;
    out->partition_count = cluster.partition_count;
    out->unsure = forcing->image.unsure || forcing->image.term.unsure_term > 0;
    while (out->voter_count < (int32_t)OT_ARRAY_COUNT(out->voters) && coord_voter_next(&forcing->value, id, &id, &voter) == OT_OK) out->voters[out->voter_count++] = id;
    if (out->term > INT32_MAX - BROKER_FORCE_TERMS) return words(forcing, OT_ERR_TOO_LARGE, "there are no terms left");
    out->new_term = out->term + BROKER_FORCE_TERMS;
    out->new_version = out->version + BROKER_FORCE_TERMS;
    return OT_OK;
}

/* Where peers reached this node, as a voter or as a broker. */
static enum ot_err place_of(struct forcing *forcing, struct ot_coord_voter_row *out, struct ot_arena *arena)
{
    struct ot_coord_broker_row broker;
    const int32_t id = forcing->image.format.node_id;
    enum ot_err err = coord_voter_get(&forcing->value, id, out);
    if (err == OT_OK || err != OT_ERR_NOT_FOUND) return err;
    ot_coord_voter_row_defaults(out);
    if (coord_broker_get(&forcing->value, id, arena, &broker) != OT_OK) return words(forcing, OT_ERR_NOT_FOUND, "this node is neither a voter nor a registered broker of its cluster");
    for (int32_t i = 0; i < broker.endpoints.count; i++) {
        const struct ot_coord_broker_row_endpoint *one = &broker.endpoints.items[i];
        if (!ot_str_equal(one->name, ot_str_of(BROKER_PEER_LISTENER)) || one->host.null) continue;
        out->host = one->host;
        out->port = one->port;
        return OT_OK;
    }
    return words(forcing, OT_ERR_NOT_FOUND, "this node has no peer listener");
}

static bool lift(int32_t *epoch)
{
    const bool room = *epoch <= INT32_MAX - BROKER_FORCE_TERMS;
    *epoch = room ? OT_MAX(*epoch, 0) + BROKER_FORCE_TERMS : *epoch;
    return room;
}

/* Brokers that live on know rows that this node never heard of. With epochs beyond whatever the lost voters went on to, those here are the later ones for everybody, and nobody leads in an epoch in
 * which another one led: two logs with different records of one epoch would be taken for equal. Nor is a report on a disk believed that may have been struck out since. */
static enum ot_err raise_partitions(struct forcing *forcing, struct coord_edit *edit)
{
    struct coord_value before = coord_value_share(&forcing->value);        /* the walk must not meet its own changes */
    struct coord_cursor cursor;
    struct coord_partition row;
    struct ot_uuid topic_id;
    int32_t index;
    enum ot_err err;
    coord_partitions_begin(&before, &cursor);
    while ((err = coord_partitions_next(&cursor, &topic_id, &index, &row)) == OT_OK) {
        if (!lift(&row.leader_epoch) || !lift(&row.partition_epoch)) {
            err = words(forcing, OT_ERR_TOO_LARGE, "there are no epochs left for a partition");
            break;
        }
        row.durable_since = -1;
        edit->delta->bytes = edit->delta->row_count = 0;       /* it goes into a snapshot: nobody reads how it came about */
        if ((err = coord_partition_put(edit, &topic_id, index, &row)) != OT_OK) break;
    }
    coord_value_drop(&before);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

/* Partitions that were made, and producer ids that were given, by the lost voters alone. */
static enum ot_err raise_cluster(struct forcing *forcing, struct ot_coord_cluster_row *cluster)
{
    if (!lift(&cluster->leader_epoch_floor) || cluster->next_producer_id > INT64_MAX - BROKER_FORCE_PRODUCER_IDS) return words(forcing, OT_ERR_TOO_LARGE, "there are no epochs or producer ids left");
    cluster->next_producer_id += BROKER_FORCE_PRODUCER_IDS;
    return OT_OK;
}

static enum ot_err edit(struct forcing *forcing, int64_t wall_ms)
{
    struct coord_delta delta = { .data = forcing->delta_room, .cap_bytes = DELTA_BYTES };
    struct coord_edit edit = { &forcing->value, &delta };
    const struct broker_forced *forced = forcing->out;
    struct ot_coord_cluster_row cluster;
    struct ot_coord_voter_row self;
    uint8_t room[32768], host[256];
    struct ot_arena arena;
    ot_arena_init_with(&arena, room, sizeof room, 0);
    enum ot_err err = place_of(forcing, &self, &arena);
    if (err != OT_OK) return err;
    const uint32_t host_bytes = OT_MIN(self.host.bytes, (uint32_t)sizeof host);
    memcpy(host, self.host.data, host_bytes);  /* the row that it points into is replaced */
    self.host = (struct ot_str){ .data = (const char *)host, .bytes = host_bytes };
    self.dir_id = forcing->image.format.dir_id;
    for (int32_t i = 0; err == OT_OK && i < forced->voter_count; i++) err = coord_voter_remove(&edit, forced->voters[i]);
    if (err == OT_OK) err = coord_voter_put(&edit, forcing->image.format.node_id, &self);
    if (err == OT_OK) err = coord_cluster_get(&forcing->value, &cluster);
    char cluster_id[64];
    snprintf(cluster_id, sizeof cluster_id, "%s", forced->cluster_id);
    cluster.cluster_id = ot_str_of(cluster_id);
    cluster.forced_version = forced->new_version;
    cluster.forced_ms = wall_ms;
    if (err == OT_OK) err = raise_cluster(forcing, &cluster);
    if (err == OT_OK) err = coord_cluster_put(&edit, &cluster);
    if (err == OT_OK) err = raise_partitions(forcing, &edit);
    forcing->value.stamp = (struct coord_stamp){ forced->new_term, forced->new_version };
    return err;
}

static enum ot_err write_all(struct forcing *forcing)
{
    struct coord_record term = { .kind = COORD_RECORD_TERM, .u.term = { .term = forcing->out->new_term, .voted_for = -1, .unsure_term = -1 } };
    const struct broker_journal_mark end = broker_journal_mark(&forcing->journal);
    struct coord_snapshot snapshot;
    char name[40];
    enum ot_err err = broker_journal_write(&forcing->journal, &term, true);
    if (err == OT_OK) err = broker_snapshot_write(forcing->io, forcing->path, &forcing->value, name, &snapshot);
    if (err == OT_OK) err = broker_journal_switch(&forcing->journal, &forcing->image.format, &snapshot, &end);
    return err;
}

static enum ot_err force(struct forcing *forcing, const char *confirm, int64_t wall_ms)
{
    enum ot_err err = broker_journal_open(&forcing->journal, forcing->io, forcing->path, &forcing->image, forcing->text, forcing->text_bytes);
    if (err != OT_OK) return err;
    if (forcing->image.blank) return words(forcing, OT_ERR_NOT_FOUND, "the metadata of this node is empty");
    forcing->value = coord_value_share(&forcing->image.committed);
    if ((err = take_accepted(forcing)) != OT_OK || (err = look(forcing)) != OT_OK) return err;
    if (confirm == NULL || strcmp(confirm, forcing->out->cluster_id) != 0) return words(forcing, OT_ERR_MISMATCH, confirm == NULL ? "nothing was changed" : "this node is of another cluster");
    words(forcing, OT_OK, "the metadata could not be written");
    err = edit(forcing, wall_ms);
    return err == OT_OK ? write_all(forcing) : err;
}

enum ot_err broker_force_voters(struct ot_io *io, const char *const *dirs, uint32_t dir_count, const char *confirm, int64_t wall_ms, struct broker_forced *out, char *text, size_t text_bytes)
{
    const struct eng_store_config config = { .dirs = dirs, .dir_count = dir_count, .files_max = 64, .maps_max = 16 };
    struct forcing forcing = { .io = io, .journal = { .fd = -1, .term_fd = -1 }, .out = out, .text = text, .text_bytes = text_bytes };
    struct eng_store *store = NULL;
    uint32_t bad = 0;
    *out = (struct broker_forced){ .node_id = -1 };
    enum ot_err err = eng_store_open(io, &config, &store, &bad);
    if (err != OT_OK) {
        snprintf(text, text_bytes, "%s: %s", dirs[OT_MIN(bad, dir_count - 1)], err == OT_ERR_LOCKED ? "a server runs on it" : ot_err_text(err));
        return err;
    }
    forcing.pages = coord_pages_new(PAGES_BYTES);
    forcing.delta_room = malloc(DELTA_BYTES);
    if (forcing.pages != NULL) {
        coord_image_init(&forcing.image, forcing.pages);
        coord_value_init(&forcing.value, forcing.pages);
    }
    err = forcing.pages == NULL || forcing.delta_room == NULL ? words(&forcing, OT_ERR_NO_MEMORY, "out of memory") : find_folder(&forcing, store);
    if (err == OT_OK) err = force(&forcing, confirm, wall_ms);
    broker_journal_close(&forcing.journal);
    if (forcing.pages != NULL) {
        coord_value_drop(&forcing.value);
        coord_image_free(&forcing.image);
    }
    coord_pages_free(forcing.pages);
    free(forcing.delta_room);
    eng_store_close(store);
    return err;
}
