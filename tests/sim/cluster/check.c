/* What must hold at every step (the numbers are those of the design's invariants). */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 1. */
static void leads(struct cluster *w, const struct node *node, int32_t term)
{
    CHECK(term >= 0 && term < TERMS_MAX);
    HOLDS(1, w->leader_of[term] == 0 || w->leader_of[term] == node->id);
    w->leader_of[term] = node->id;
}

/* 2, of who gave the name; 5, of who made the value from a delta. */
static struct publication *names(struct cluster *w, const struct node *node, struct coord_stamp stamp, uint64_t hash)
{
    uint8_t key[12];
    ot_store_u32(key, (uint32_t)stamp.term);
    ot_store_u64(key + 4, (uint64_t)stamp.version);
    struct publication *known = ot_map_get(&w->publications, key, sizeof key);
    if (known == NULL) {
        known = calloc(1, sizeof *known);
        known->hash = hash;
        CHECK(ot_map_put(&w->publications, key, sizeof key, known) == OT_OK);
        w->publications_count++;
    }
    if (w->leader_of[stamp.term] == node->id) {
        HOLDS(2, known->hash == hash);
    } else {
        HOLDS(5, known->hash == hash);
    }
    return known;
}

/* 8. A vote is of a node with its folder. */
static void votes(struct cluster *w, const struct node *node, int32_t term, int32_t candidate)
{
    uint8_t key[12];
    if (candidate < 0) {
        return;
    }
    ot_store_u32(key, (uint32_t)node->id);
    ot_store_u32(key + 4, node->dir_number);
    ot_store_u32(key + 8, (uint32_t)term);
    void *known = ot_map_get(&w->votes, key, sizeof key);
    HOLDS(8, known == NULL || (uintptr_t)known == (uintptr_t)(candidate + 1));
    CHECK(ot_map_put(&w->votes, key, sizeof key, (void *)(uintptr_t)(candidate + 1)) == OT_OK);  // NOLINT
}

/* 7. What a message says of the disk is on the disk. */
void check_send(struct cluster *w, struct node *node, const struct coord_out *out)
{
    struct coord_message message;
    CHECK(coord_message_decode(out->body, &message) == OT_OK);
    if (message.kind == COORD_JOIN) {
        HOLDS(7, node->durable_term == message.term && node->durable_vote == (int32_t)out->peer);
        votes(w, node, message.term, (int32_t)out->peer);
    } else if (message.kind == COORD_ACCEPTED) {
        HOLDS(7, !coord_stamp_below(node->durable_accepted, message.accepted.stamp));
    } else if (message.kind == COORD_PUBLISH) {
        leads(w, node, message.term);
        CHECK(message.accepted.stamp.term == message.term);
        struct publication *publication = names(w, node, message.accepted.stamp, message.accepted.state_hash);
        HOLDS(2, !publication->has_base || publication->base_hash == message.base.state_hash);
        publication->has_base = true;
        publication->base_hash = message.base.state_hash;
    } else if (message.kind == COORD_HEARTBEAT) {
        leads(w, node, message.term);
    } else if (message.kind == COORD_START_JOIN) {
        HOLDS(7, node->durable_term == message.term && (node->durable_vote == node->id));
    }
}

/* 27: a row that this node's build, or a build that knows no more than the level, could not read. */
static void row_is_known(const struct node *node, const struct coord_delta_row *row, int16_t level)
{
    if (row->removed || row->key.data[0] != COORD_TABLE_BROKER) {
        HOLDS(27, row->removed || ot_load_u16(row->bytes.data) == 0);
        return;
    }
    const int16_t known = node->levels.max == 0 ? coord_levels_known().max : node->levels.max, version = (int16_t)ot_load_u16(row->bytes.data);
    HOLDS(27, version <= coord_level_version(OT_MIN(known, level), &ot_coord_broker_row_message));
}

static void rows_are_known(const struct node *node, struct ot_blob delta, int16_t level)
{
    struct coord_delta_reader in = coord_delta_reader_over(delta);
    struct coord_delta_row row;
    while (coord_delta_next(&in, &row)) {
        row_is_known(node, &row, level);
    }
}

/* 27: neither this node nor a broker that is registered is told of a level that it does not know. */
static void level_is_known(const struct node *node, const struct coord_value *view)
{
    struct ot_coord_broker_row row;
    const int16_t level = coord_value_level(view);
    HOLDS(27, node->levels.max == 0 || coord_levels_have(node->levels, level));
    for (int32_t id = INT32_MIN;;) {
        uint8_t room[4096];
        struct ot_arena arena;
        ot_arena_init_with(&arena, room, sizeof room, 0);
        if (coord_broker_next(view, id, &arena, &id, &row) != OT_OK) {
            return;
        }
        const struct coord_levels known = { row.level_min, row.level_max };
        HOLDS(27, coord_levels_have(known, level));
    }
}

/* Of an acceptance: the level that it leads to, if it changes it. */
static int16_t level_after(const struct node *node, struct ot_blob delta)
{
    struct coord_delta_reader in = coord_delta_reader_over(delta);
    struct coord_delta_row row;
    struct ot_coord_cluster_row cluster;
    int16_t level = coord_value_level(coord_view(node->coord));
    while (coord_delta_next(&in, &row)) {
        if (!row.removed && row.key.data[0] == COORD_TABLE_CLUSTER && coord_cluster_of(row.bytes, &cluster) == OT_OK) {
            level = cluster.feature_level;
        }
    }
    return level;
}

void check_store(struct cluster *w, struct node *node, const struct coord_record *record)
{
    if (record->kind == COORD_RECORD_ACCEPT) {
        const int16_t level = level_after(node, record->u.accept.delta);
        HOLDS(27, node->levels.max == 0 || coord_levels_have(node->levels, level));
        rows_are_known(node, record->u.accept.delta, level);
    }
    if (record->kind == COORD_RECORD_TERM) {
        votes(w, node, record->u.term.term, record->u.term.voted_for);
    } else if (record->kind == COORD_RECORD_ACCEPT) {
        CHECK(record->u.accept.stamp.term <= node->durable_term);
        struct publication *publication = names(w, node, record->u.accept.stamp, record->u.accept.state_hash);
        struct coord_stamp base = record->u.accept.base;
        int32_t leader = w->leader_of[record->u.accept.stamp.term];
        if (!publication->has_base && (leader == 0 || leader == node->id) && base.version <= w->commit_max
            && (base.version == 0 || w->commits[base.version].term == base.term)) {        /* a coordinator alone sends nothing */
            publication->has_base = true;
            publication->base_hash = base.version == 0 ? 0 : w->commits[base.version].hash;
        }
    } else if (record->kind == COORD_RECORD_FORMAT && w->founded_as[0] != 0) {
        HOLDS(10, record->u.format.cluster_id.bytes == strlen(w->founded_as)
            && memcmp(record->u.format.cluster_id.data, w->founded_as, record->u.format.cluster_id.bytes) == 0);
    }
}

static uint32_t missing(const struct voters *these, const struct voters *among)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < these->count; i++) {
        bool found = false;
        for (uint32_t j = 0; j < among->count; j++) {
            found |= these->ids[i] == among->ids[j] && ot_uuid_equal(&these->dirs[i], &among->dirs[j]);
        }
        count += !found;
    }
    return count;
}

/* 9, of a value that rests on the last one. */
static void votes_change(struct cluster *w, const struct coord_value *view)
{
    struct voters now = { 0 };
    now.count = coord_voters_of(view, now.ids, now.dirs);
    if (w->voters.count > 0) {
        HOLDS(9, missing(&now, &w->voters) <= 1 && missing(&w->voters, &now) <= 1);
    }
    w->voters = now;
}

/* 5: the content is what its hash says. */
static void adds_up(const struct coord_value *view)
{
    struct coord_cursor cursor;
    struct ot_blob key, bytes;
    uint64_t sum = 0;
    coord_cursor_seek(&cursor, &view->tree, coord_blob("", 0));
    while (coord_cursor_next(&cursor, &key, &bytes)) {
        sum += coord_row_hash(key, bytes);
    }
    HOLDS(5, sum == view->state_hash);
}

/* 3 and 4: a new version rests on the last one, or says the same by a new name; an old one is what it was. */
static void committed(struct cluster *w, const struct node *node, struct coord_stamp stamp, const struct coord_value *view)
{
    uint64_t hash = view->state_hash;
    CHECK(stamp.version < COMMITS_MAX);
    if (stamp.version < w->commit_max && w->commits[stamp.version].hash == 0) {        /* chosen, and committed by a later coordinator under its own name first */
        int64_t later = stamp.version + 1;
        while (w->commits[later].hash == 0) {
            later++;
        }
        HOLDS(3, w->commits[later].hash == hash && w->commits[later].term > stamp.term);
        w->commits[stamp.version] = (struct commit){ stamp.term, hash };
        return;
    }
    if (stamp.version <= w->commit_max) {
        if (w->commits[stamp.version].term != stamp.term || w->commits[stamp.version].hash != hash) {
            fprintf(stderr, "node %d: version %lld term %d hash %llx; known term %d hash %llx; last %lld\n", node->id, (long long)stamp.version, stamp.term, (unsigned long long)hash,
                w->commits[stamp.version].term, (unsigned long long)w->commits[stamp.version].hash, (long long)w->commit_max);
        }
        HOLDS(3, w->commits[stamp.version].term == stamp.term && w->commits[stamp.version].hash == hash);
        return;
    }
    const struct publication *publication = names(w, node, stamp, hash);
    uint64_t last = w->commit_max == 0 ? 0 : w->commits[w->commit_max].hash;
    CHECK(publication->has_base);
    HOLDS(3, publication->base_hash == last || hash == last);
    HOLDS(3, w->commits[w->commit_max].term <= stamp.term);
    votes_change(w, view);
    w->commits[stamp.version] = (struct commit){ stamp.term, hash };
    w->commit_max = stamp.version;
    if (w->setup.host != NULL) {
        w->setup.committed(w->setup.host, view);
    }
}

void check_apply(struct cluster *w, struct node *node, const struct coord_out *out)
{
    const struct coord_value *view = coord_view(node->coord);
    HOLDS(6, out->stamp.version > node->applied.version);
    HOLDS(6, coord_stamp_below(node->applied, out->stamp));
    if (out->whole || out->stamp.version % 16 == 0) {
        adds_up(view);
    }
    node->applied = out->stamp;
    level_is_known(node, view);
    rows_are_known(node, out->delta, coord_value_level(view));
    if (view->stamp.version == out->stamp.version) {                   /* a later one may have come in the same step */
        CHECK(coord_stamp_equal(view->stamp, out->stamp));
        committed(w, node, out->stamp, view);
    } else {
        CHECK(out->stamp.version < view->stamp.version);
    }
    if (w->founded_as[0] == 0) {
        struct ot_str id = coord_cluster_id(node->coord);
        snprintf(w->founded_as, sizeof w->founded_as, "%.*s", (int)id.bytes, id.data);
    }
    struct ot_coord_cluster_row row;
    HOLDS(10, coord_cluster_get(view, &row) == OT_OK && ot_str_equal(row.cluster_id, ot_str_of(w->founded_as)));
    struct ot_coord_voter_row voter;
    if (node->wiped && (coord_voter_get(view, node->id, &voter) != OT_OK || ot_uuid_equal(&voter.dir_id, &node->dir_id))) {
        node->wiped = false;
    }
}

/* 24: journal and memory follow the size of the value, however long it goes on. Values that somebody still reads keep their pages. */
void check_bounds(struct cluster *w, const struct node *node)
{
    uint64_t rows = coord_view(node->coord)->row_bytes;
    (void)w;
    HOLDS(24, node->observer || node->journal.end_pos <= 4 * OT_MAX(rows, (uint64_t)SNAPSHOT_AFTER_BYTES) + (1 << 20));
    HOLDS(24, coord_pages_used_bytes(node->pages) <= 24 * rows + (4 << 20));
    HOLDS(24, node->job_count <= 2);
}

/* 7, from the other side: what was on the disk when something was said of it is there at the next start, or it is known that it may not be. 5: and what is there is what it was. */
void check_begin(const struct cluster *w, const struct node *node, const struct coord_disk_image *image)
{
    const bool newer = image->has_accepted && coord_stamp_below(image->committed.stamp, image->accepted.stamp);
    const struct coord_stamp last = newer ? image->accepted.stamp : image->committed.stamp;
    if (w->setup.host != NULL || node->observer) {
        return;
    }
    const struct coord_value *value = &image->committed;
    if (value->row_count > 0 && value->stamp.version <= w->commit_max && w->commits[value->stamp.version].term == value->stamp.term) {
        HOLDS(5, w->commits[value->stamp.version].hash == value->state_hash);
        adds_up(value);
    }
    HOLDS(7, image->term.term >= node->durable_term);
    HOLDS(7, image->unsure || node->damaged_term >= 0 || !coord_stamp_below(last, node->durable_accepted));
}

static bool has_topic(const struct coord_value *view, const struct topic *topic)
{
    struct ot_coord_topic_name_row row;
    return coord_topic_name_get(view, ot_str_of(topic->name), &row) == OT_OK && ot_uuid_equal(&row.topic_id, &topic->id);
}

/* 4 and 18, of metadata: who leads has everything that anybody was told of. */
void check_leading(struct cluster *w, struct node *node)
{
    char text[200] = "";
    const struct coord_value *view = coord_view(node->coord);
    leads(w, node, coord_term(node->coord));
    w->elections++;
    w->led_term = OT_MAX(w->led_term, coord_term(node->coord));
    if (w->commits[w->commit_max].term > coord_term(node->coord)) {    /* an old one, whose first publication was chosen, hears so late that another leads already */
        return;
    }
    HOLDS(4, view->stamp.version >= w->acked_version);
    for (uint32_t i = 0; i < w->topic_count; i++) {
        HOLDS(4, has_topic(view, &w->topics[i]));
    }
    if (coord_rows_check(view, text, sizeof text) != OT_OK) {
        fprintf(stderr, "%s\n", text);
        CHECK(!"the rows agree");
    }
}

/* 23: faults over, all agree and somebody leads. */
void check_cluster_end(struct cluster *w)
{
    uint32_t leaders = 0;
    if (w->refounded) {                        /* nothing may work any more; but nothing else may take its place, which is checked all the time */
        return;
    }
    HOLDS(23, w->acked > w->acked_at_calm);
    for (uint32_t i = 0; i < w->node_count; i++) {
        struct node *node = &w->nodes[i];
        HOLDS(23, node->up && !node->halted);
        leaders += node->leading;
        HOLDS(23, !node->wiped);
        if (coord_view(node->coord)->state_hash != w->commits[w->commit_max].hash) {
            fprintf(stderr, "node %d (learner %d observer %d) has version %lld of %lld, term %d, leader %d\n", node->id, node->learner, node->observer,
                (long long)node->applied.version, (long long)w->commit_max, coord_term(node->coord), coord_leader(node->coord));
        }
        HOLDS(23, coord_view(node->coord)->state_hash == w->commits[w->commit_max].hash);
        for (uint32_t t = 0; t < w->topic_count; t++) {
            HOLDS(4, has_topic(coord_view(node->coord), &w->topics[t]));
        }
    }
    HOLDS(23, leaders == 1);
}
