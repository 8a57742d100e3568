/* Events out of a committed delta: each row is held against what stood at its key before, in the delta's order.
 *
 * Why something happened is not in the rows, but it can be read from them: whoever fences, registers or stops a broker writes its row first and the rows of its partitions behind it, in
 * one publication. So a replica that leaves an ISR behind the row of its broker left because of that; one that is no replica any more was reassigned; else its leader took it out, for lag.
 *
 * Of a partition with one replica, coming and going with its broker is told by the broker's own events: a lone broker with ten thousand partitions starts with a few events. */
#include "broker/events_inner.h"

#include "base/map.h"
#include "base/util.h"
#include "broker/config.h"
#include <string.h>

enum { ROWS_ARENA_BYTES = 64 << 20, BROKER_ROOM_BYTES = 32768 };

struct walk {
    const struct coord_value *before, *after;
    void (*emit)(void *arg, const struct broker_event *event); void *arg;
    struct ot_map seen;                        /* key -> struct coord_delta_row *, the last one of this delta */
    struct ot_arena arena;
    int32_t left; const char *why;             /* the broker whose row came last, and what became of it; -1: none */
    struct broker_event_fields fields;
};
struct change { bool had, has; struct ot_blob old, now; };

static bool stands(const struct walk *walk, struct ot_blob key, struct ot_blob *out)
{
    const struct coord_delta_row *row = ot_map_get(&walk->seen, key.data, key.bytes);
    if (row == NULL) return coord_value_get(walk->before, key, out);
    *out = row->bytes;
    return !row->removed;
}

static struct broker_event *event_of(struct walk *walk, struct broker_event *event, enum broker_event_type type)
{
    *event = broker_event_of(type);
    broker_event_fields_init(&walk->fields);
    event->fields = &walk->fields;
    return event;
}

static void emit(struct walk *walk, const struct broker_event *event) { walk->emit(walk->arg, event); }

/* ---- brokers */

static const char *const boots[] = { "clean", "process_crash", "machine_crash" };

static const char *boot_of(const struct ot_coord_broker_row *row) { return row->boot_class >= 0 && row->boot_class < (int8_t)OT_ARRAY_COUNT(boots) ? boots[row->boot_class] : NULL; }

static void registered(struct walk *walk, int32_t id, const struct ot_coord_broker_row *old, const struct ot_coord_broker_row *now)
{
    struct broker_event event;
    const int32_t known = old == NULL ? 0 : old->missing_dir_ids.count;
    const bool dir_lost = now->missing_dir_ids.count > known;
    walk->left = id;
    walk->why = dir_lost ? "log_dir_failed" : "broker_restarted";
    event_of(walk, &event, BROKER_EVENT_BROKER_REGISTERED)->broker = id;
    broker_event_int(&walk->fields, "epoch", now->broker_epoch);
    broker_event_text(&walk->fields, "boot", boot_of(now));
    broker_event_bool(&walk->fields, "first", old == NULL);
    broker_event_str(&walk->fields, "rack", now->rack);
    broker_event_int(&walk->fields, "log_dirs", now->dir_ids.count);
    broker_event_int(&walk->fields, "log_dirs_missing", now->missing_dir_ids.count);
    emit(walk, &event);
}

static void broker_plain(struct walk *walk, enum broker_event_type type, int32_t id, int64_t epoch)
{
    struct broker_event event;
    event_of(walk, &event, type)->broker = id;
    broker_event_int(&walk->fields, "epoch", epoch);
    emit(walk, &event);
}

static enum ot_err broker_row(struct walk *walk, int32_t id, const struct change *change)
{
    uint8_t rooms[2][BROKER_ROOM_BYTES];
    struct ot_arena arenas[2];
    struct ot_coord_broker_row old, now;
    ot_arena_init_with(&arenas[0], rooms[0], sizeof rooms[0], 0);
    ot_arena_init_with(&arenas[1], rooms[1], sizeof rooms[1], 0);
    if ((change->had && coord_broker_of(change->old, &arenas[0], &old) != OT_OK) || (change->has && coord_broker_of(change->now, &arenas[1], &now) != OT_OK)) return OT_ERR_CORRUPT;
    if (!change->has) {
        if (change->had) broker_plain(walk, BROKER_EVENT_BROKER_UNREGISTERED, id, old.broker_epoch);
        return OT_OK;
    }
    if (!change->had || old.broker_epoch != now.broker_epoch) {
        registered(walk, id, change->had ? &old : NULL, &now);
        return OT_OK;
    }
    if (now.in_controlled_shutdown && !old.in_controlled_shutdown) {
        walk->left = id;
        walk->why = "broker_shutdown";
        broker_plain(walk, BROKER_EVENT_BROKER_STOPPING, id, now.broker_epoch);
    }
    if (now.fenced && !old.fenced) {
        walk->left = id;
        walk->why = "broker_fenced";
        broker_plain(walk, BROKER_EVENT_BROKER_FENCED, id, now.broker_epoch);
    } else if (!now.fenced && old.fenced) {
        walk->left = -1;
        broker_plain(walk, BROKER_EVENT_BROKER_UNFENCED, id, now.broker_epoch);
    }
    return OT_OK;
}

/* Why a broker cannot be in sync or lead, apart from this delta; NULL: it could. */
static const char *out_of_service(const struct walk *walk, int32_t id)
{
    uint8_t room[BROKER_ROOM_BYTES];
    struct ot_arena arena;
    struct ot_coord_broker_row row;
    struct ot_blob bytes;
    const struct coord_key key = coord_key_broker(id);
    ot_arena_init_with(&arena, room, sizeof room, 0);
    if (!stands(walk, coord_key_blob(&key), &bytes) || coord_broker_of(bytes, &arena, &row) != OT_OK) return "broker_unregistered";
    return row.in_controlled_shutdown ? "broker_shutdown" : row.fenced ? "broker_fenced" : NULL;
}

/* ---- partitions */

static int32_t ids_of(const struct coord_partition *row, uint64_t set, int32_t out[static COORD_REPLICAS_MAX])
{
    int32_t count = 0;
    for (int32_t i = 0; i < row->replica_count; i++)
        if ((set >> i & 1) != 0) out[count++] = row->replicas[i];
    return count;
}

static void put_set(struct walk *walk, const char *key, const struct coord_partition *row, uint64_t set)
{
    int32_t ids[COORD_REPLICAS_MAX];
    const int32_t count = ids_of(row, set, ids);
    broker_event_ids(&walk->fields, key, ids, count);
}

/* Of the members of a set of one row, those that are not in a set of the other. */
static int32_t only_in(const struct coord_partition *row, uint64_t set, const struct coord_partition *other, uint64_t other_set, int32_t out[static COORD_REPLICAS_MAX])
{
    int32_t count = 0;
    for (int32_t i = 0; i < row->replica_count; i++)
        if ((set >> i & 1) != 0 && (coord_replica_bit(other, row->replicas[i]) & other_set) == 0) out[count++] = row->replicas[i];
    return count;
}

static bool set_has(const struct coord_partition *row, uint64_t set, int32_t id) { return (coord_replica_bit(row, id) & set) != 0; }

static const char *why_left(const struct walk *walk, const struct coord_partition *now, int32_t id, const char *otherwise)
{
    if (coord_replica_bit(now, id) == 0) return "reassigned";
    if (walk->left == id) return walk->why;
    const char *out = out_of_service(walk, id);
    return out != NULL ? out : otherwise;
}

static void put_state(struct walk *walk, const struct coord_partition *now)
{
    broker_event_int_or_null(&walk->fields, "leader", now->leader);
    broker_event_int(&walk->fields, "leader_epoch", now->leader_epoch);
    broker_event_int(&walk->fields, "partition_epoch", now->partition_epoch);
    put_set(walk, "isr", now, now->isr);
    put_set(walk, "osr", now, coord_all_replicas(now) & ~now->isr);
    put_set(walk, "elr", now, now->elr);
}

struct place { struct ot_str topic; int32_t index; const struct coord_partition *old, *now; bool lossy; };

static struct broker_event *partition_event(struct walk *walk, const struct place *place, struct broker_event *event, enum broker_event_type type)
{
    event_of(walk, event, type);
    event->topic = place->topic;
    event->partition = place->index;
    return event;
}

/* How the leader was found: `clean` from the ISR, `elr` from those that have all committed records, else with a loss that may be. */
static const char *election_of(const struct place *place)
{
    const struct coord_partition *old = place->old, *now = place->now;
    if (now->leader == -1) return NULL;
    if (place->lossy) return now->loss >= COORD_LOSS_UNCLEAN ? "unclean" : now->replica_count == 1 ? "sole_replica" : "longest_log";
    if (set_has(old, old->isr, now->leader)) return "clean";
    if (set_has(old, old->elr, now->leader)) return "elr";
    return set_has(now, now->isr, now->leader) && old->leader != -1 ? "clean" : "unclean";     /* reassigned and in sync in one step */
}

static const char *why_elected(const struct walk *walk, const struct place *place, const char *election)
{
    const struct coord_partition *old = place->old, *now = place->now;
    if (old->leader == -1) return place->lossy ? election : "replica_returned";
    const char *why = why_left(walk, now, old->leader, NULL);
    if (why != NULL) return why;
    return now->leader == now->replicas[0] ? "preferred" : "elected";
}

static void leader_change(struct walk *walk, const struct place *place)
{
    const struct coord_partition *old = place->old, *now = place->now;
    struct broker_event event;
    if (old->leader == now->leader) return;
    const char *election = election_of(place);
    partition_event(walk, place, &event, BROKER_EVENT_LEADER_CHANGED)->broker = now->leader != -1 ? now->leader : old->leader;
    event.reason = now->leader == -1 ? why_left(walk, now, old->leader, "elected") : why_elected(walk, place, election);
    broker_event_int_or_null(&walk->fields, "from", old->leader);
    event.election = election;
    broker_event_text(&walk->fields, "election", election);
    put_state(walk, now);
    emit(walk, &event);
}

static void isr_change(struct walk *walk, const struct place *place)
{
    const struct coord_partition *old = place->old, *now = place->now;
    int32_t ids[COORD_REPLICAS_MAX], from[COORD_REPLICAS_MAX], to[COORD_REPLICAS_MAX];
    const int32_t from_count = ids_of(old, old->isr, from), to_count = ids_of(now, now->isr, to);
    struct broker_event event;
    int32_t count = only_in(old, old->isr, now, now->isr, ids);
    if (count > 0) {
        partition_event(walk, place, &event, BROKER_EVENT_ISR_SHRINK)->broker = ids[0];
        event.reason = why_left(walk, now, ids[0], place->lossy ? "unclean_election" : "replica_lag_time");
        event.isr = (struct broker_event_isr){ ids, from, to, count, from_count, to_count };
        broker_event_ids(&walk->fields, "removed", ids, count);
        broker_event_ids(&walk->fields, "from", from, from_count);
        put_state(walk, now);
        emit(walk, &event);
    }
    count = only_in(now, now->isr, old, old->isr, ids);
    if (count > 0) {
        partition_event(walk, place, &event, BROKER_EVENT_ISR_EXPAND)->broker = ids[0];
        event.reason = place->lossy ? election_of(place) : old->isr == 0 && set_has(old, old->elr, ids[0]) ? "elected" : "caught_up";
        event.isr = (struct broker_event_isr){ ids, from, to, count, from_count, to_count };
        broker_event_ids(&walk->fields, "added", ids, count);
        broker_event_ids(&walk->fields, "from", from, from_count);
        put_state(walk, now);
        emit(walk, &event);
    }
}

static bool same_replicas(const struct coord_partition *a, const struct coord_partition *b)
{
    return a->replica_count == b->replica_count && memcmp(a->replicas, b->replicas, (size_t)a->replica_count * sizeof a->replicas[0]) == 0;
}

/* Where the row was to go: what is left when those that are to go have gone. */
static bool is_target_of(const struct coord_partition *now, const struct coord_partition *old)
{
    int32_t at = 0;
    for (int32_t i = 0; i < old->replica_count; i++) {
        if ((old->removing >> i & 1) != 0) continue;
        if (at == now->replica_count || now->replicas[at++] != old->replicas[i]) return false;
    }
    return at == now->replica_count;
}

static void reassignment(struct walk *walk, const struct place *place)
{
    const struct coord_partition *old = place->old, *now = place->now;
    struct broker_event event;
    const bool was = (old->adding | old->removing) != 0, is = (now->adding | now->removing) != 0;
    if (same_replicas(old, now) && old->adding == now->adding && old->removing == now->removing) return;
    const enum broker_event_type type = is && (!coord_move_goes_back(now) || !was) ? BROKER_EVENT_REASSIGNMENT_BEGUN
        : is || (was && !is_target_of(now, old)) ? BROKER_EVENT_REASSIGNMENT_CANCELLED : BROKER_EVENT_REASSIGNMENT_ENDED;
    partition_event(walk, place, &event, type);
    put_set(walk, "from", old, coord_all_replicas(old) & ~coord_coming(old));
    put_set(walk, "to", now, coord_all_replicas(now) & ~now->removing);
    put_set(walk, "adding", now, coord_coming(now));
    put_set(walk, "removing", now, now->removing);
    put_state(walk, now);
    emit(walk, &event);
}

/* Name of a topic as it stands, or will stand (its row may come behind those of its partitions), or stood. */
static bool topic_name(const struct walk *walk, const struct ot_uuid *id, struct ot_str *out)
{
    struct ot_coord_topic_row row;
    struct ot_blob bytes;
    const struct coord_key key = coord_key_topic(id);
    if (!stands(walk, coord_key_blob(&key), &bytes) && !coord_value_get(walk->after, coord_key_blob(&key), &bytes) && !coord_value_get(walk->before, coord_key_blob(&key), &bytes)) return false;
    if (coord_topic_of(bytes, &row) != OT_OK) return false;
    *out = row.name;
    return true;
}

static enum ot_err partition_row(struct walk *walk, const struct coord_key_parts *key, const struct change *change)
{
    struct coord_partition old, now;
    struct place place = { .index = key->index, .old = &old, .now = &now };
    if (!change->had || !change->has) return OT_OK;            /* its topic tells */
    if (coord_partition_of(change->old, &old) != OT_OK || coord_partition_of(change->now, &now) != OT_OK) return OT_ERR_CORRUPT;
    if (!topic_name(walk, &key->topic_id, &place.topic)) return OT_ERR_CORRUPT;
    place.lossy = old.loss_version != now.loss_version;
    reassignment(walk, &place);
    if (old.replica_count == 1 && now.replica_count == 1 && same_replicas(&old, &now) && !place.lossy) return OT_OK;
    isr_change(walk, &place);
    leader_change(walk, &place);
    return OT_OK;
}

/* ---- topics, configs, voters, the cluster */

static enum ot_err topic_row(struct walk *walk, const struct coord_key_parts *key, const struct change *change)
{
    struct ot_coord_topic_row old, now;
    struct coord_partition first;
    struct broker_event event;
    char id[23];
    if ((change->had && coord_topic_of(change->old, &old) != OT_OK) || (change->has && coord_topic_of(change->now, &now) != OT_OK)) return OT_ERR_CORRUPT;
    if (!change->had && !change->has) return OT_OK;
    if (change->had && change->has && old.partition_count == now.partition_count) return OT_OK;
    event_of(walk, &event, !change->had ? BROKER_EVENT_TOPIC_CREATED : !change->has ? BROKER_EVENT_TOPIC_DELETED : BROKER_EVENT_PARTITIONS_ADDED);
    event.topic = change->has ? now.name : old.name;
    ot_uuid_text(&key->topic_id, id);
    broker_event_text(&walk->fields, "topic_id", id);
    broker_event_int(&walk->fields, "partitions", change->has ? now.partition_count : old.partition_count);
    if (change->had && change->has) broker_event_int(&walk->fields, "from", old.partition_count);
    if (change->has && coord_partition_get(walk->after, &key->topic_id, 0, &first) == OT_OK) broker_event_int(&walk->fields, "replication_factor", first.replica_count);
    broker_event_bool(&walk->fields, "internal", change->has ? now.internal : old.internal);
    emit(walk, &event);
    return OT_OK;
}

static bool topic_in(const struct coord_value *value, const struct ot_uuid *id)
{
    struct ot_coord_topic_row row;
    return coord_topic_get(value, id, &row) == OT_OK;
}

static bool is_secret(struct ot_str name)
{
    uint32_t count;
    const struct broker_config_row *rows = broker_config_rows(&count);
    for (uint32_t i = 0; i < count; i++)
        if (ot_str_equal(name, ot_str_of(rows[i].key))) return rows[i].sensitive;
    return false;
}

/* A config by which an operator marks a broker (coord_broker_mark) is told as what it means. False: it is none. */
static bool mark_row(struct walk *walk, const struct coord_key_parts *key, struct ot_str old, struct ot_str now)
{
    static const struct { const char *name; enum broker_event_type begun, ended; } marks[] = { { COORD_MAINTENANCE, BROKER_EVENT_MAINTENANCE_BEGUN, BROKER_EVENT_MAINTENANCE_ENDED },
        { COORD_DECOMMISSION, BROKER_EVENT_DECOMMISSION_BEGUN, BROKER_EVENT_DECOMMISSION_CANCELLED } };
    const bool was = ot_str_equal(old, ot_str_of("true")), is = ot_str_equal(now, ot_str_of("true"));
    const struct coord_key broker = coord_key_broker(key->scope.broker_id);
    struct ot_blob row;
    struct broker_event event;
    for (size_t i = 0; i < OT_ARRAY_COUNT(marks); i++) {
        if (key->scope.kind != COORD_SCOPE_BROKER || !ot_str_equal(key->name, ot_str_of(marks[i].name))) continue;
        if (was == is || !coord_value_get(walk->after, coord_key_blob(&broker), &row)) return true;      /* forgotten: its own row says so */
        event_of(walk, &event, is ? marks[i].begun : marks[i].ended)->broker = key->scope.broker_id;
        emit(walk, &event);
        return true;
    }
    return false;
}

static enum ot_err config_row(struct walk *walk, const struct coord_key_parts *key, const struct change *change)
{
    static const char *const scopes[] = { [COORD_SCOPE_CLUSTER] = "cluster", [COORD_SCOPE_BROKER] = "broker", [COORD_SCOPE_TOPIC] = "topic", [COORD_SCOPE_GROUP] = "group",
        [COORD_SCOPE_CLIENT_METRICS] = "client_metrics" };
    struct ot_str old = { .null = true }, now = { .null = true };
    struct broker_event event;
    if ((change->had && coord_config_of(change->old, &old) != OT_OK) || (change->has && coord_config_of(change->now, &now) != OT_OK)) return OT_ERR_CORRUPT;
    if ((!change->had && !change->has) || (change->had && change->has && ot_str_equal(old, now)) || key->scope.kind >= OT_ARRAY_COUNT(scopes)) return OT_OK;
    if (mark_row(walk, key, old, now)) return OT_OK;
    event_of(walk, &event, BROKER_EVENT_CONFIG_CHANGED);
    if (key->scope.kind == COORD_SCOPE_TOPIC) {
        if (!topic_in(walk->before, &key->scope.topic_id) || !topic_in(walk->after, &key->scope.topic_id) || !topic_name(walk, &key->scope.topic_id, &event.topic)) return OT_OK;   /* made, or deleted, with it */
    }
    if (key->scope.kind == COORD_SCOPE_BROKER) event.broker = key->scope.broker_id;
    if (key->scope.kind == COORD_SCOPE_GROUP) event.group = key->scope.name;
    const bool secret = is_secret(key->name);
    broker_event_text(&walk->fields, "scope", scopes[key->scope.kind]);
    if (key->scope.kind == COORD_SCOPE_CLIENT_METRICS) broker_event_str(&walk->fields, "subscription", key->scope.name);
    broker_event_str(&walk->fields, "name", key->name);
    broker_event_str(&walk->fields, "from", secret && change->had ? ot_str_of("(hidden)") : old);
    broker_event_str(&walk->fields, "to", secret && change->has ? ot_str_of("(hidden)") : now);
    emit(walk, &event);
    return OT_OK;
}

static enum ot_err voter_row(struct walk *walk, int32_t id, const struct change *change)
{
    struct ot_coord_voter_row old, now;
    struct broker_event event;
    if ((change->had && coord_voter_of(change->old, &old) != OT_OK) || (change->has && coord_voter_of(change->now, &now) != OT_OK)) return OT_ERR_CORRUPT;
    if ((!change->had && !change->has) || (change->had && change->has && ot_uuid_equal(&old.dir_id, &now.dir_id))) return OT_OK;
    event_of(walk, &event, !change->had ? BROKER_EVENT_VOTER_ADDED : !change->has ? BROKER_EVENT_VOTER_REMOVED : BROKER_EVENT_VOTER_REPLACED)->broker = id;
    emit(walk, &event);
    return OT_OK;
}

static enum ot_err cluster_row(struct walk *walk, const struct change *change)
{
    struct ot_coord_cluster_row old, now;
    struct broker_event event;
    if (!change->had || !change->has) return OT_OK;
    if (coord_cluster_of(change->old, &old) != OT_OK || coord_cluster_of(change->now, &now) != OT_OK) return OT_ERR_CORRUPT;
    if (old.feature_level == now.feature_level) return OT_OK;
    event_of(walk, &event, BROKER_EVENT_FEATURES_CHANGED);
    broker_event_int(&walk->fields, "from", old.feature_level);
    broker_event_int(&walk->fields, "to", now.feature_level);
    emit(walk, &event);
    return OT_OK;
}

/* ---- the walk */

static enum ot_err row_tells(struct walk *walk, const struct coord_key_parts *key, const struct change *change)
{
    switch (key->table) {
    case COORD_TABLE_CLUSTER: return cluster_row(walk, change);
    case COORD_TABLE_VOTER: return voter_row(walk, key->id, change);
    case COORD_TABLE_BROKER: return broker_row(walk, key->id, change);
    case COORD_TABLE_TOPIC: return topic_row(walk, key, change);
    case COORD_TABLE_PARTITION: return partition_row(walk, key, change);
    case COORD_TABLE_CONFIG: return config_row(walk, key, change);
    default: return OT_OK;
    }
}

static enum ot_err one(struct walk *walk, const struct coord_delta_row *row)
{
    struct coord_key_parts key;
    struct change change = { .has = !row->removed, .now = row->bytes };
    struct coord_delta_row *kept = ot_arena_alloc(&walk->arena, sizeof *kept);
    if (kept == NULL) return OT_ERR_NO_MEMORY;
    change.had = stands(walk, row->key, &change.old);
    uint8_t *bytes = ot_arena_alloc(&walk->arena, row->bytes.bytes);           /* the reader's are gone with the next row */
    if (bytes == NULL && row->bytes.bytes > 0) return OT_ERR_NO_MEMORY;
    if (row->bytes.bytes > 0) memcpy(bytes, row->bytes.data, row->bytes.bytes);
    *kept = (struct coord_delta_row){ .removed = row->removed, .bytes = { bytes, row->bytes.bytes, false } };
    const enum ot_err err = coord_key_parse(row->key, &key) ? row_tells(walk, &key, &change) : OT_OK;
    return err == OT_OK ? ot_map_put(&walk->seen, row->key.data, row->key.bytes, kept) : err;
}

enum ot_err broker_events_of_delta(const struct coord_value *before, const struct coord_value *after, struct ot_blob delta, void (*emit_)(void *arg, const struct broker_event *event),
    void *arg)
{
    struct walk walk = { .before = before, .after = after, .emit = emit_, .arg = arg, .left = -1 };
    struct coord_delta_reader in = coord_delta_reader_over(delta);
    struct coord_delta_row row;
    enum ot_err err = OT_OK;
    ot_map_init(&walk.seen);
    ot_arena_init(&walk.arena, ROWS_ARENA_BYTES);
    while (err == OT_OK && coord_delta_next(&in, &row)) err = one(&walk, &row);
    ot_map_free(&walk.seen);
    ot_arena_free(&walk.arena);
    return err == OT_OK ? in.in.err : err;
}

uint64_t broker_events_hash(const struct coord_value *value)
{
    static const uint8_t cluster[1] = { COORD_TABLE_CLUSTER };
    struct ot_blob bytes;
    const struct ot_blob key = coord_blob(cluster, 1);
    return coord_value_get(value, key, &bytes) ? value->state_hash - coord_row_hash(key, bytes) : value->state_hash;
}
