/* The feature level of the value (level.h): what is known of who knows it, and how it goes up.
 *
 * A broker says so when it registers, which its row keeps; a voter with every message. What a voter said of itself counts for the term: one that was started anew with an older build since, and was
 * not heard of yet, may be sent a value that it does not know. It takes none, and halts with words. */
#include "coordinator/state.h"

static enum ot_err lacks(struct coord_turn *turn, const char *what, int32_t id, struct coord_levels known)
{
    return coord_refuse(turn->request, OT_ERR_INVALID_UPDATE_VERSION, "%s %d knows " COORD_FEATURE_LEVEL " %d to %d", what, id, known.min, known.max);
}

static enum ot_err brokers_know(struct coord_turn *turn, int16_t level)
{
    struct ot_coord_broker_row row;
    int32_t id = INT32_MIN;
    for (;;) {
        struct ot_arena arena;
        ot_arena_init_with(&arena, turn->coord->scratch, COORD_SCRATCH_BYTES, 0);
        const enum ot_err err = coord_broker_next(turn->edit.value, id, &arena, &id, &row);
        const struct coord_levels known = { row.level_min, row.level_max };
        if (err != OT_OK) {
            return err == OT_ERR_NOT_FOUND ? OT_OK : err;
        }
        if (!coord_levels_have(known, level)) {
            return lacks(turn, "broker", id, known);
        }
    }
}

static enum ot_err voters_know(struct coord_turn *turn, int16_t level)
{
    const struct coord *coord = turn->coord;
    int32_t ids[COORD_VOTERS_MAX];
    struct ot_uuid dirs[COORD_VOTERS_MAX];
    const uint32_t count = coord_voters_of(turn->edit.value, ids, dirs);
    for (uint32_t i = 0; i < count; i++) {
        const struct coord_peer *peer = coord_peer_find(turn->coord, ids[i], &dirs[i]);
        const struct coord_levels known = ids[i] == coord->config.node_id ? coord->config.levels : peer != NULL ? peer->levels : (struct coord_levels){ 0 };
        if (known.max == 0) {
            return coord_refuse(turn->request, OT_ERR_INVALID_UPDATE_VERSION, "voter %d is not heard, and may not know " COORD_FEATURE_LEVEL " %d", ids[i], level);
        }
        if (!coord_levels_have(known, level)) {
            return lacks(turn, "voter", ids[i], known);
        }
    }
    return OT_OK;
}

enum ot_err coord_ask_level(struct coord_turn *turn)
{
    const int16_t level = turn->request->u.level.level;
    struct ot_coord_cluster_row cluster;
    enum ot_err err = coord_cluster_get(turn->edit.value, &cluster);
    if (err != OT_OK || level == cluster.feature_level) {
        return err;
    }
    if (level < cluster.feature_level) {
        return coord_refuse(turn->request, OT_ERR_INVALID_UPDATE_VERSION, COORD_FEATURE_LEVEL " is at %d and does not go down: its formats are in use", cluster.feature_level);
    }
    if (!coord_levels_have(turn->coord->config.levels, level)) {
        return lacks(turn, "the coordinator", turn->coord->config.node_id, turn->coord->config.levels);
    }
    if (!COORD_BUG(RAISES_BLINDLY) && ((err = brokers_know(turn, level)) != OT_OK || (err = voters_know(turn, level)) != OT_OK)) {
        return err;
    }
    cluster.feature_level = level;
    return coord_cluster_put(&turn->edit, &cluster);
}

bool coord_level_knows(struct coord *coord, int16_t level)
{
    char text[COORD_TEXT_MAX];
    if (coord_levels_have(coord->config.levels, level) || COORD_BUG(TAKES_ANY_LEVEL)) {
        return true;
    }
    coord_level_words(level, coord->config.levels, text, sizeof text);
    coord_halt(coord, OT_ERR_UNSUPPORTED_VERSION, text);
    return false;
}

int16_t coord_level_of_founders(struct coord *coord)
{
    struct coord_levels common = coord->config.levels;
    for (uint32_t i = 0; i < coord->config.voter_count && coord->config.voter_count > 1; i++) {
        common.min = OT_MAX(common.min, coord->found_levels[i].min);
        common.max = OT_MIN(common.max, coord->found_levels[i].max);
    }
    return common.min <= common.max ? common.max : 0;
}
