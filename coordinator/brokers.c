/* Broker life: registration, fencing, and what it means for every partition that the broker holds (§7, §9). */
#include "coordinator/state.h"
#include <string.h>

enum { ROW_BYTES_USUAL = 32 /* of a partition in a delta, a little above what is measured */, RACKS_MAX = 256, DIRS_MAX = 64, MISSING_MAX = 16 /* a row has its bound */, ENDPOINTS_MAX = 16 };

static uint32_t rack_number(struct ot_str *racks, uint32_t *count, struct ot_str rack)
{
    uint32_t at = 0;
    if (rack.null) {
        return 0;
    }
    while (at < *count && !ot_str_equal(racks[at], rack)) {
        at++;
    }
    if (at == *count && at < RACKS_MAX) {
        racks[(*count)++] = rack;
    }
    return at < *count ? at + 1 : 0;
}

bool coord_broker_mark(const struct coord_value *value, int32_t id, const char *name)
{
    struct ot_str text;
    return coord_config_get(value, &(struct coord_scope){ .kind = COORD_SCOPE_BROKER, .broker_id = id }, ot_str_of(name), &text) == OT_OK
        && ot_str_equal(text, ot_str_of("true"));
}

enum ot_err coord_live_load(struct coord *coord)
{
    struct ot_str racks[RACKS_MAX];            /* those there are; brokers of any beyond that many count as of none */
    uint32_t rack_count = 0;
    struct ot_coord_broker_row row;
    int32_t id = INT32_MIN;
    enum ot_err err;
    uint32_t count = 0;
    if (coord->live_known && coord->live_hash == coord->next.state_hash) {     /* a heartbeat changes nothing, and there are many */
        return OT_OK;
    }
    coord->live_known = false;
    for (;; count++) {
        struct ot_arena arena;
        ot_arena_init_with(&arena, coord->scratch, COORD_SCRATCH_BYTES, 0);
        err = coord_broker_next(&coord->next, id, &arena, &id, &row);
        if (err != OT_OK || count >= coord->config.brokers_max) {
            break;
        }
        uint32_t rack = rack_number(racks, &rack_count, row.rack);
        coord->brokers[count] = (struct coord_live_broker){ .id = id, .live = !row.fenced, .stopping = row.in_controlled_shutdown, .rack = rack,
            .draining = coord_broker_mark(&coord->next, id, COORD_MAINTENANCE), .leaving = coord_broker_mark(&coord->next, id, COORD_DECOMMISSION) };
    }
    coord->live.count = count;
    coord->live_known = err == OT_ERR_NOT_FOUND;
    coord->live_hash = coord->next.state_hash;
    return err == OT_ERR_NOT_FOUND ? OT_OK : err == OT_OK ? OT_ERR_TOO_LARGE : err;
}

/* Every row that holds the broker anew. */
static enum ot_err recompute(struct coord_turn *turn, int32_t broker_id, const struct coord_leaving *leaving)
{
    struct coord_value before = coord_value_share(turn->edit.value);   /* the walk must not meet its own changes */
    struct coord_cursor cursor;
    struct ot_uuid topic_id;
    struct coord_partition row;
    int32_t index;
    enum ot_err err;
    coord_partitions_begin(&before, &cursor);
    while ((err = coord_partitions_next_of(&cursor, &broker_id, 1, &topic_id, &index, &row)) == OT_OK) {
        if (!coord_partition_recompute(&row, &turn->coord->live, leaving, turn->version)) {
            continue;
        }
        if ((err = coord_partition_put(&turn->edit, &topic_id, index, &row)) != OT_OK) {
            break;
        }
    }
    coord_value_drop(&before);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static bool has_dir(const struct ot_uuid *dirs, uint32_t count, const struct ot_uuid *id)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ot_uuid_equal(&dirs[i], id)) {
            return true;
        }
    }
    return false;
}

static void fill_endpoints(const struct coord_register *ask, struct ot_coord_broker_row_endpoint endpoints[static ENDPOINTS_MAX], struct ot_coord_broker_row *row)
{
    memset(endpoints, 0, ENDPOINTS_MAX * sizeof *endpoints);
    for (uint32_t i = 0; i < ask->endpoint_count; i++) {
        endpoints[i].name = ask->endpoints[i].name;
        endpoints[i].host = ask->endpoints[i].host;
        endpoints[i].port = ask->endpoints[i].port;
        endpoints[i].security = ask->endpoints[i].security;
    }
    row->endpoints = (struct ot_coord_broker_row_endpoint_array){ endpoints, (int32_t)ask->endpoint_count };
}

static struct coord_levels levels_of(const struct coord_register *ask) { return ask->levels.max == 0 ? coord_levels_known() : ask->levels; }

/* What earlier registrations tell: a repeat, a double, directories that are gone (of the last one: newly; of those before: still), and whether the clean markers are of the last life that
 * served. A directory put back from an older copy has a marker too, of an older life. */
struct earlier { bool repeat, newly_missing, older_copy; int64_t proven_epoch; struct ot_uuid missing[MISSING_MAX]; int32_t missing_count; };

static enum coord_boot boot_of(const struct coord_register *ask, const struct earlier *earlier) { return earlier->older_copy ? COORD_BOOT_MACHINE_CRASH : ask->boot_class; }

static enum ot_err put_registration(struct coord_turn *turn, struct earlier *earlier)
{
    const struct coord_register *ask = &turn->request->u.register_;
    struct ot_coord_broker_row row;
    struct ot_coord_broker_row_endpoint endpoints[ENDPOINTS_MAX];
    ot_coord_broker_row_defaults(&row);
    row.broker_epoch = turn->version;
    row.incarnation_id = ask->incarnation_id;
    row.dir_ids = (struct ot_uuid_array){ (struct ot_uuid *)(uintptr_t)ask->dir_ids, (int32_t)ask->dir_count };
    row.missing_dir_ids = (struct ot_uuid_array){ earlier->missing, earlier->missing_count };
    row.proven_epoch = earlier->proven_epoch;
    fill_endpoints(ask, endpoints, &row);
    row.rack = ask->rack;
    row.level_min = levels_of(ask).min;
    row.level_max = levels_of(ask).max;
    row.release = ask->release;
    row.boot_class = (int8_t)boot_of(ask, earlier);
    row.fenced = true;
    return coord_broker_put(&turn->edit, ask->broker_id, &row);
}

static void note_missing(const struct coord_register *ask, const struct ot_uuid_array *dirs, struct earlier *out, bool *any_common)
{
    for (int32_t i = 0; i < dirs->count; i++) {
        if (has_dir(ask->dir_ids, ask->dir_count, &dirs->items[i])) {
            *any_common = true;
        } else if (out->missing_count < MISSING_MAX) {
            out->missing[out->missing_count++] = dirs->items[i];
        }
    }
}

/* The markers stay until the registration that names them is known to be committed: the next process may name the same, and as long as nobody was unfenced in between nothing is missing. */
static void judge_marker(const struct coord_turn *turn, const struct ot_coord_broker_row *last, struct earlier *out)
{
    const int64_t named = turn->request->u.register_.stopped_epoch;
    if (named == 0 || coord_level_version(coord_value_level(turn->edit.value), &ot_coord_broker_row_message) < 1) {
        return;
    }
    out->older_copy = named != last->broker_epoch && (last->proven_epoch == 0 || named != last->proven_epoch);
    out->proven_epoch = out->older_copy ? 0 : named;
}

static enum ot_err find_earlier(struct coord_turn *turn, struct earlier *out)
{
    const struct coord_register *ask = &turn->request->u.register_;
    struct ot_coord_broker_row last;
    struct ot_arena arena;
    ot_arena_init_with(&arena, turn->coord->scratch, COORD_SCRATCH_BYTES, 0);
    *out = (struct earlier){ 0 };
    enum ot_err err = coord_broker_get(turn->edit.value, ask->broker_id, &arena, &last);
    if (err != OT_OK) {
        return err == OT_ERR_NOT_FOUND ? OT_OK : err;
    }
    if (ot_uuid_equal(&last.incarnation_id, &ask->incarnation_id)) {
        turn->request->version = last.broker_epoch;
        turn->request->dir_missing = last.missing_dir_ids.count > 0;
        out->repeat = true;
        return OT_OK;
    }
    judge_marker(turn, &last, out);
    bool any_common = last.dir_ids.count == 0;
    note_missing(ask, &last.dir_ids, out, &any_common);
    out->newly_missing = out->missing_count > 0;
    note_missing(ask, &last.missing_dir_ids, out, &any_common);
    turn->request->dir_missing = out->missing_count > 0;
    const bool lives = !last.fenced || coord_session_lives(turn->coord, ask->broker_id, last.broker_epoch);
    if (lives && !any_common && ask->broker_id != turn->coord->config.node_id) {
        return coord_refuse(turn->request, OT_ERR_DUPLICATE_BROKER_REGISTRATION, "broker %d is registered and alive with other directories", ask->broker_id);
    }
    return OT_OK;
}

static bool same_text(struct ot_str a, struct ot_str b) { return a.null == b.null && (a.null || ot_str_equal(a, b)); }

static bool same_endpoints(const struct coord_register *ask, const struct ot_coord_broker_row *row)
{
    bool same = row->endpoints.count == (int32_t)ask->endpoint_count;
    for (uint32_t i = 0; same && i < ask->endpoint_count; i++) {
        const struct ot_coord_broker_row_endpoint *old = &row->endpoints.items[i];
        const struct coord_endpoint *now = &ask->endpoints[i];
        same = same_text(old->name, now->name) && same_text(old->host, now->host) && old->port == now->port && same_text(old->security, now->security);
    }
    return same;
}

/* The same process again: its answer got lost, its listeners changed, or the feature level has room for more that it says of itself. Its epoch, and all that rests on it, stays. */
static enum ot_err note_again(struct coord_turn *turn)
{
    const struct coord_register *ask = &turn->request->u.register_;
    struct ot_coord_broker_row row;
    struct ot_coord_broker_row_endpoint endpoints[ENDPOINTS_MAX];
    struct ot_arena arena;
    ot_arena_init_with(&arena, turn->coord->scratch, COORD_SCRATCH_BYTES, 0);
    enum ot_err err = coord_broker_get(turn->edit.value, ask->broker_id, &arena, &row);
    if (err != OT_OK || (same_endpoints(ask, &row) && same_text(ask->release, row.release))) {
        return err;
    }
    row.release = ask->release;
    fill_endpoints(ask, endpoints, &row);
    return coord_broker_put(&turn->edit, ask->broker_id, &row);
}

enum ot_err coord_ask_register(struct coord_turn *turn)
{
    const struct coord_register *ask = &turn->request->u.register_;
    struct earlier earlier;
    if (ask->broker_id < 0 || ask->endpoint_count > ENDPOINTS_MAX || ask->dir_count > DIRS_MAX) {
        return coord_refuse(turn->request, OT_ERR_INVALID_REGISTRATION, "at most %d endpoints and %d directories; the id is not negative", ENDPOINTS_MAX, DIRS_MAX);
    }
    if (turn->coord->live.count >= turn->coord->config.brokers_max && coord_live_find(&turn->coord->live, ask->broker_id) == NULL) {
        return coord_refuse(turn->request, OT_ERR_INVALID_REGISTRATION, "there are %u brokers already, the most that are allowed", turn->coord->live.count);
    }
    const struct coord_levels levels = levels_of(ask);
    const int16_t level = coord_value_level(turn->edit.value);
    if (levels.min < COORD_LEVEL_FIRST || levels.min > levels.max) {
        return coord_refuse(turn->request, OT_ERR_INVALID_REGISTRATION, COORD_FEATURE_LEVEL " %d to %d is no range", levels.min, levels.max);
    }
    if (!coord_levels_have(levels, level)) {
        return coord_refuse(turn->request, OT_ERR_UNSUPPORTED_VERSION, "the cluster is at " COORD_FEATURE_LEVEL " %d, and broker %d knows %d to %d: start a build that knows it", level,
            ask->broker_id, levels.min, levels.max);
    }
    enum ot_err err = find_earlier(turn, &earlier);
    if (err != OT_OK || earlier.repeat) {
        return err != OT_OK ? err : note_again(turn);
    }
    if ((err = put_registration(turn, &earlier)) != OT_OK || (err = coord_live_load(turn->coord)) != OT_OK) {
        return err;
    }
    struct coord_leaving leaving = { ask->broker_id, .lost = boot_of(ask, &earlier) == COORD_BOOT_MACHINE_CRASH || earlier.newly_missing,
        .disk_gone = earlier.newly_missing };
    coord_session_registered(turn->coord, ask->broker_id, turn->version);
    return recompute(turn, ask->broker_id, &leaving);
}

/* A stopping broker hands over: rows where it leads, or is one of several in sync. */
static enum ot_err hand_over(struct coord_turn *turn, int32_t broker_id, bool *any_out)
{
    struct coord_value before = coord_value_share(turn->edit.value);
    struct coord_cursor cursor;
    struct ot_uuid topic_id;
    struct coord_partition row;
    struct coord_leaving leaving = { .broker_id = broker_id };
    int32_t index;
    enum ot_err err;
    *any_out = false;
    coord_partitions_begin(&before, &cursor);
    while ((err = coord_partitions_next_of(&cursor, &broker_id, 1, &topic_id, &index, &row)) == OT_OK) {
        uint64_t bit = coord_replica_bit(&row, broker_id);
        if ((row.isr & bit) == 0 || (row.isr & ~bit) == 0) {
            continue;                          /* the last one in sync stays: nobody can take over */
        }
        const bool changed = coord_partition_recompute(&row, &turn->coord->live, &leaving, turn->version);
        if (changed && (err = coord_partition_put(&turn->edit, &topic_id, index, &row)) != OT_OK) {
            break;
        }
        *any_out |= changed;
    }
    coord_value_drop(&before);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static enum ot_err get_broker(struct coord_turn *turn, int32_t id, struct ot_coord_broker_row *row)
{
    struct ot_arena arena;
    ot_arena_init_with(&arena, turn->coord->scratch, COORD_SCRATCH_BYTES, 0);
    enum ot_err err = coord_broker_get(turn->edit.value, id, &arena, row);
    return err == OT_ERR_NOT_FOUND ? coord_refuse(turn->request, OT_ERR_BROKER_ID_NOT_REGISTERED, "broker %d is not registered", id) : err;
}

static enum ot_err put_shutdown(struct coord_turn *turn, struct ot_coord_broker_row *row)
{
    row->in_controlled_shutdown = true;
    row->shutdown_version = turn->version;
    enum ot_err err = coord_broker_put(&turn->edit, turn->request->u.heartbeat.broker_id, row);
    return err != OT_OK ? err : coord_live_load(turn->coord);
}

/* A stop has two steps. From the first on it is given nothing more to lead. The second, once it has applied that and still wants to go, is the handover: by then it knew all that it
 * leads when it said that the others have what acks=1 was answered for. */
static enum ot_err shut_down(struct coord_turn *turn, struct ot_coord_broker_row *row)
{
    const struct coord_heartbeat *ask = &turn->request->u.heartbeat;
    bool any = false;
    if (ask->want_shutdown && !row->in_controlled_shutdown) {
        return put_shutdown(turn, row);
    }
    if (ask->want_shutdown && ask->applied_version >= row->shutdown_version && !coord_session_moved(turn->coord, ask->broker_id)) {
        enum ot_err err = hand_over(turn, ask->broker_id, &any);
        if (err == OT_OK && any) {
            err = get_broker(turn, ask->broker_id, row);       /* what it pointed to may have moved */
            return err != OT_OK ? err : put_shutdown(turn, row);
        }
        if (err != OT_OK) {
            return err;
        }
        coord_session_set_moved(turn->coord, ask->broker_id);
    }
    /* stays so until it registers anew; it stops when everybody knows who leads instead */
    turn->request->may_stop = coord_session_moved(turn->coord, ask->broker_id) && row->shutdown_version <= turn->coord->committed.stamp.version
        && coord_all_applied(turn->coord, row->shutdown_version);
    return OT_OK;
}

static enum ot_err set_fenced(struct coord_turn *turn, int32_t id, struct ot_coord_broker_row *row, bool fenced)
{
    row->fenced = fenced;
    row->proven_epoch = fenced ? row->proven_epoch : 0;        /* from here on it may have more than it stopped with */
    enum ot_err err = coord_broker_put(&turn->edit, id, row);
    if (err != OT_OK || (err = coord_live_load(turn->coord)) != OT_OK) {
        return err;
    }
    if (fenced) {
        coord_session_fenced(turn->coord, id, turn->version);
    }
    struct coord_leaving leaving = { .broker_id = id };
    return recompute(turn, id, fenced ? &leaving : NULL);
}

enum ot_err coord_ask_heartbeat(struct coord_turn *turn)
{
    const struct coord_heartbeat *ask = &turn->request->u.heartbeat;
    struct ot_coord_broker_row row;
    enum ot_err err = get_broker(turn, ask->broker_id, &row);
    if (err != OT_OK) {
        return err;
    }
    if (row.broker_epoch != ask->broker_epoch) {
        return coord_refuse(turn->request, OT_ERR_STALE_BROKER_EPOCH, "broker epoch %lld is not the current %lld: register again",
            (long long)ask->broker_epoch, (long long)row.broker_epoch);
    }
    coord_session_heard(turn->coord, ask);
    bool fenced = ask->want_fence || (row.fenced && (ask->applied_version < row.broker_epoch || !coord_session_knows(turn->coord, ask)));
    turn->request->fenced = fenced;
    turn->request->session_us = turn->coord->config.session_us;
    if (ask->want_shutdown || row.in_controlled_shutdown) {
        return shut_down(turn, &row);
    }
    return fenced == row.fenced ? OT_OK : set_fenced(turn, ask->broker_id, &row, fenced);
}

static bool newly_fenced(const struct coord_turn *turn, int32_t id)
{
    const struct coord_live_broker *was = coord_live_find(&turn->coord->live, id);
    return was != NULL && was->live && coord_session_over(turn->coord, id);
}

/* How many brokers one publication may fence so that those who follow can still be told of it by its delta: one that the history does not hold is read as a whole image, by each. */
static uint32_t fenced_at_once(const struct coord_turn *turn)
{
    struct ot_coord_cluster_row cluster;
    uint64_t rows = coord_cluster_get(turn->edit.value, &cluster) == OT_OK ? (uint64_t)cluster.partition_count * 3 / OT_MAX(turn->coord->live.count, 1u) : 0;
    return (uint32_t)OT_MAX(OT_MIN(turn->coord->config.history_bytes / ((rows + 1) * ROW_BYTES_USUAL), (uint64_t)INT32_MAX), (uint64_t)1);
}

/* Rows of brokers whose sessions are over, and their ids into fenced_ids. live: as it was before, by id. */
static enum ot_err fence_rows(struct coord_turn *turn, uint32_t *count_out)
{
    struct ot_coord_broker_row row;
    enum ot_err err = OT_OK;
    const uint32_t most = fenced_at_once(turn);
    *count_out = 0;
    for (uint32_t i = 0; err == OT_OK && i < turn->coord->live.count && *count_out < most; i++) {
        int32_t id = turn->coord->live.brokers[i].id;
        if (newly_fenced(turn, id) && (err = get_broker(turn, id, &row)) == OT_OK) {
            row.fenced = true;
            err = coord_broker_put(&turn->edit, id, &row);
            coord_session_fenced(turn->coord, id, turn->version);
            turn->coord->fenced_ids[(*count_out)++] = id;
        }
    }
    return err;
}

static bool leave(struct coord_turn *turn, struct coord_partition *row)
{
    bool changed = false;
    for (int32_t i = 0; i < row->replica_count; i++) {
        struct coord_leaving leaving = { .broker_id = row->replicas[i] };
        const struct coord_live_broker *now = coord_live_find(&turn->coord->live, leaving.broker_id);
        if (now != NULL && !now->live && (row->isr >> i & 1) != 0) {       /* fenced ones are in no isr but now */
            changed |= coord_partition_recompute(row, &turn->coord->live, &leaving, turn->version);
        }
    }
    return changed;
}

/* The coordinator's own: of a rack that went dark every session ends at once, and a walk over all partitions for each broker would take longer than the clients wait. */
static enum ot_err fence_silent(struct coord_turn *turn)
{
    struct coord_cursor cursor;
    struct ot_uuid topic_id;
    struct coord_partition row;
    int32_t index;
    uint32_t count;
    enum ot_err err = fence_rows(turn, &count);
    if (err != OT_OK || count == 0 || (err = coord_live_load(turn->coord)) != OT_OK) {
        return err;
    }
    struct coord_value before = coord_value_share(turn->edit.value);   /* the walk must not meet its own changes */
    coord_partitions_begin(&before, &cursor);
    while ((err = coord_partitions_next_of(&cursor, turn->coord->fenced_ids, count, &topic_id, &index, &row)) == OT_OK) {
        if (leave(turn, &row) && (err = coord_partition_put(&turn->edit, &topic_id, index, &row)) != OT_OK) {
            break;
        }
    }
    coord_value_drop(&before);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

enum ot_err coord_ask_fence(struct coord_turn *turn)
{
    const struct coord_fence_ask *ask = &turn->request->u.fence;
    if (turn->request == &turn->coord->fence_request) {
        return fence_silent(turn);
    }
    struct ot_coord_broker_row row;
    enum ot_err err = get_broker(turn, ask->broker_id, &row);
    if (err != OT_OK || row.broker_epoch != ask->broker_epoch) {
        return err;
    }
    coord_session_gone(turn->coord, ask->broker_id);
    if (row.fenced) {
        return OT_OK;
    }
    return set_fenced(turn, ask->broker_id, &row, true);
}

/* Whoever comes by that id later is neither drained nor on its way out. */
static enum ot_err forget_marks(struct coord_turn *turn, int32_t id)
{
    static const char *const marks[] = { COORD_MAINTENANCE, COORD_DECOMMISSION };
    const struct coord_scope scope = { .kind = COORD_SCOPE_BROKER, .broker_id = id };
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(marks); i++) {
        enum ot_err err = coord_config_remove(&turn->edit, &scope, ot_str_of(marks[i]));
        if (err != OT_OK && err != OT_ERR_NOT_FOUND) {
            return err;
        }
    }
    return OT_OK;
}

enum ot_err coord_ask_unregister(struct coord_turn *turn)
{
    int32_t id = turn->request->u.unregister.broker_id, index;
    struct ot_coord_broker_row broker;
    struct coord_cursor cursor;
    struct ot_uuid topic_id;
    struct coord_partition row;
    enum ot_err err = get_broker(turn, id, &broker);
    if (err != OT_OK) {
        return err;
    }
    if (!broker.fenced) {
        return coord_refuse(turn->request, OT_ERR_INVALID_REQUEST, "broker %d is alive", id);
    }
    struct ot_coord_voter_row voter;
    if ((err = coord_voter_get(turn->edit.value, id, &voter)) != OT_ERR_NOT_FOUND) {
        return err != OT_OK ? err : coord_refuse(turn->request, OT_ERR_INVALID_REQUEST, "broker %d has a vote: take it away first", id);
    }
    coord_partitions_begin(turn->edit.value, &cursor);
    if ((err = coord_partitions_next_of(&cursor, &id, 1, &topic_id, &index, &row)) == OT_OK) {
        return coord_refuse(turn->request, OT_ERR_INVALID_REQUEST, "broker %d still holds replicas: reassign them first", id);
    }
    if (err != OT_ERR_NOT_FOUND || (err = forget_marks(turn, id)) != OT_OK || (err = coord_broker_remove(&turn->edit, id)) != OT_OK) {
        return err;
    }
    return coord_live_load(turn->coord);
}

/* ---- replicas that are no good any more */

static enum ot_err lose(struct coord_turn *turn, int32_t broker_id, struct coord_lost *one)
{
    const struct coord_leaving leaving = { .broker_id = broker_id, .lost = true, .disk_gone = true };
    struct coord_partition row;
    enum ot_err err = coord_partition_get(turn->edit.value, &one->topic_id, one->partition, &row);
    one->error = err == OT_ERR_NOT_FOUND ? OT_ERR_UNKNOWN_TOPIC_ID : err != OT_OK ? err
        : coord_replica_bit(&row, broker_id) == 0 || row.replica_count == 1 ? OT_ERR_INVALID_REQUEST
        : row.partition_epoch != one->partition_epoch ? OT_ERR_INVALID_UPDATE_VERSION : OT_OK;
    if (one->error != OT_OK) {
        return err == OT_ERR_NOT_FOUND ? OT_OK : err;
    }
    const int32_t epoch = row.leader_epoch;
    const bool changed = coord_partition_recompute(&row, &turn->coord->live, &leaving, turn->version);
    const bool renews = row.leader != -1 && row.leader_epoch == epoch;
    if (renews) {
        row.leader_epoch++;                    /* late fetches still speak of the log that is gone: those are of the old epoch */
    }
    if (!changed && !renews) {
        return OT_OK;
    }
    row.partition_epoch += !changed;
    return coord_partition_put(&turn->edit, &one->topic_id, one->partition, &row);
}

enum ot_err coord_ask_lost(struct coord_turn *turn)
{
    struct coord_lost_ask *ask = &turn->request->u.lost;
    struct ot_coord_broker_row broker;
    enum ot_err err = get_broker(turn, ask->broker_id, &broker);
    if (err == OT_OK && broker.broker_epoch != ask->broker_epoch) {
        return coord_refuse(turn->request, OT_ERR_STALE_BROKER_EPOCH, "broker %d is registered with epoch %lld, not %lld", ask->broker_id, (long long)broker.broker_epoch,
            (long long)ask->broker_epoch);
    }
    for (uint32_t i = 0; err == OT_OK && i < ask->count; i++) {
        err = lose(turn, ask->broker_id, &ask->items[i]);
    }
    return err;
}

static enum ot_err report_error(const struct coord_durable_ask *ask, const struct coord_report *one, const struct coord_partition *row)
{
    if (row->leader != ask->broker_id || row->leader_epoch != one->leader_epoch) {
        return OT_ERR_FENCED_LEADER_EPOCH;
    }
    bool unasked = one->class_ == COORD_DURABLE_ALL && row->elr != 0;          /* eligible replicas */
    return row->partition_epoch != one->partition_epoch || unasked ? OT_ERR_INVALID_UPDATE_VERSION : OT_OK;
}

static enum ot_err take_report(struct coord_turn *turn, struct coord_report *one)
{
    struct coord_partition row;
    enum ot_err err = coord_partition_get(turn->edit.value, &one->topic_id, one->partition, &row);
    if (err != OT_OK && err != OT_ERR_NOT_FOUND) {
        return err;
    }
    one->error = err == OT_ERR_NOT_FOUND ? OT_ERR_UNKNOWN_TOPIC_ID : report_error(&turn->request->u.durable, one, &row);
    if (one->error != OT_OK) {
        return OT_OK;
    }
    row.durable_class = one->class_;
    row.durable_since = one->class_ == COORD_DURABLE_NONE ? -1 : turn->version;
    row.partition_epoch++;                     /* a report under way never counts for a later class */
    return coord_partition_put(&turn->edit, &one->topic_id, one->partition, &row);
}

enum ot_err coord_ask_durable(struct coord_turn *turn)
{
    struct coord_durable_ask *ask = &turn->request->u.durable;
    enum ot_err err = OT_OK;
    for (uint32_t i = 0; err == OT_OK && i < ask->count; i++) {
        err = take_report(turn, &ask->items[i]);
    }
    if (err == OT_OK && ask->count == 1 && ask->items[0].error != OT_OK) {
        return coord_refuse(turn->request, ask->items[0].error, "partition %d: %s", ask->items[0].partition, ot_err_text(ask->items[0].error));
    }
    return err;
}
