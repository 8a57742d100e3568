#include "base/wire/coord_config_row.h"
#include "coordinator/rows.h"
#include <stdio.h>

struct walk { const struct coord_value *value; char *text; size_t text_bytes; int64_t topics, partitions, former, deleted; };

static enum ot_err wrong(struct walk *walk, const char *what)
{
    snprintf(walk->text, walk->text_bytes, "%s", what);
    return OT_ERR_CORRUPT;
}

static enum ot_err check_names(struct walk *walk)
{
    struct ot_str name = { 0 };
    struct ot_coord_topic_name_row row;
    struct ot_coord_topic_row topic;
    enum ot_err err;
    while ((err = coord_topic_name_next(walk->value, name, &name, &row)) == OT_OK) {
        if (name.bytes > COORD_NAME_BYTES_MAX) {
            return wrong(walk, "a topic name is too long");
        }
        if (ot_uuid_is_zero(&row.topic_id)) {
            walk->former++;
            continue;
        }
        if (coord_topic_get(walk->value, &row.topic_id, &topic) != OT_OK || !ot_str_equal(topic.name, name)) {
            return wrong(walk, "a topic name leads to no topic of that name");
        }
        walk->topics++;
        walk->partitions += topic.partition_count;
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : wrong(walk, "a topic name row does not decode");
}

static enum ot_err check_partitions(struct walk *walk)
{
    struct coord_cursor cursor;
    struct ot_uuid id, last = { { 0 } };
    struct ot_coord_topic_row topic;
    struct coord_partition row;
    int32_t index, expected = 0;
    int64_t seen = 0;
    enum ot_err err;
    coord_partitions_begin(walk->value, &cursor);
    while ((err = coord_partitions_next(&cursor, &id, &index, &row)) == OT_OK) {
        expected = ot_uuid_equal(&id, &last) ? expected + 1 : 0;
        last = id;
        uint64_t all = coord_all_replicas(&row);
        if (index != expected || coord_topic_get(walk->value, &id, &topic) != OT_OK || index >= topic.partition_count) {
            return wrong(walk, "a partition has no topic, or one before it is missing");
        }
        if (((row.isr | row.elr | row.adding | row.removing | row.last_members) & ~all) != 0 || (row.isr & row.elr) != 0 || row.min_isr < 1
            || row.min_isr > row.replica_count || (row.leader != -1 && (coord_replica_bit(&row, row.leader) & row.isr) == 0)
            || (row.elr != 0 && __builtin_popcountll(row.isr) >= row.min_isr)
            || (row.successor != 0 && (row.leader == -1 || (row.successor & ~row.isr) != 0 || row.successor == coord_replica_bit(&row, row.leader)))) {
            return wrong(walk, "the replica sets of a partition contradict each other");
        }
        seen++;
    }
    if (err != OT_ERR_NOT_FOUND) {
        return wrong(walk, "a partition row does not decode");
    }
    return seen == walk->partitions ? OT_OK : wrong(walk, "a topic lacks partitions");
}

static enum ot_err check_brokers(struct walk *walk)
{
    uint8_t room[32768];
    struct ot_coord_broker_row row;
    int32_t id = INT32_MIN;
    for (;;) {
        struct ot_arena arena;
        ot_arena_init_with(&arena, room, sizeof room, 0);
        enum ot_err err = coord_broker_next(walk->value, id, &arena, &id, &row);
        if (err != OT_OK) {
            return err == OT_ERR_NOT_FOUND ? OT_OK : wrong(walk, "a broker row does not decode");
        }
    }
}

static enum ot_err check_deleted(struct walk *walk)
{
    struct coord_deleted_topic deleted;
    enum ot_err err = coord_deleted_next(walk->value, NULL, &deleted);
    for (; err == OT_OK; err = coord_deleted_next(walk->value, &deleted, &deleted)) {
        walk->deleted++;
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : wrong(walk, "the row of a deleted topic does not decode");
}

enum ot_err coord_rows_check(const struct coord_value *value, char *text_out, size_t text_bytes)
{
    struct walk walk = { value, text_out, text_bytes, 0, 0, 0, 0 };
    struct ot_coord_cluster_row cluster;
    enum ot_err err;
    if (coord_cluster_get(value, &cluster) != OT_OK || cluster.cluster_id.bytes == 0) {
        return wrong(&walk, "the cluster row is missing or does not decode");
    }
    if ((err = check_names(&walk)) != OT_OK || (err = check_partitions(&walk)) != OT_OK || (err = check_brokers(&walk)) != OT_OK
        || (err = check_deleted(&walk)) != OT_OK) {
        if (coord_levels_have(coord_levels_known(), cluster.feature_level)) {
            return err;
        }
        coord_level_words(cluster.feature_level, coord_levels_known(), text_out, text_bytes);      /* they are not damaged, but of a build that knew more */
        return OT_ERR_UNSUPPORTED_VERSION;
    }
    if (cluster.topic_count != walk.topics || cluster.partition_count != walk.partitions || cluster.former_name_count != walk.former
        || cluster.deleted_topic_count != walk.deleted) {
        return wrong(&walk, "the counters of the cluster row do not agree with its tables");
    }
    return OT_OK;
}
