/* The first start of several voters (§6). Only the lowest of the list founds, and only when every one of the list has said that it is blank, or promised to this very
 * cluster: a survivor of an older cluster says no, so a majority that was wiped founds no second one beside it. Who came blank to a cluster that there was is no
 * founder of it, and promises nothing, for good: its FORMAT record says so. The first value is on the founder's disk before anybody hears of it, since a founder that
 * forgot it could be promised the same cluster once more, by other directories. tests/model/found.pml checks it. */
#include "coordinator/state.h"

#define ASK_AGAIN_US UINT64_C(500000)

static void store_format(struct coord *coord)
{
    coord->store = (struct coord_record){ .kind = COORD_RECORD_FORMAT,
        .u.format = { coord->config.cluster_id, coord->config.node_id, coord->config.dir_id, coord->joins ? COORD_FORMAT_JOINED : coord->list_hash } };
    if (coord->config.voter_count == 0) {
        coord->store.u.format.founding_hash = coord_row_hash(coord_blob(&coord->config.node_id, sizeof coord->config.node_id), coord_blob(coord->config.dir_id.bytes, 16));
    }
    coord_store(coord, COORD_STORING_FORMAT);
}

static bool has_state(const struct coord *coord) { return coord->committed.row_count > 0 || coord->accepted.has; }

void coord_founding_start(struct coord *coord)
{
    coord->phase = COORD_PHASE_BLANK;
    if (coord->alone && coord->founder) {
        store_format(coord);
        return;
    }
    coord->found_due_us = coord->now_us;
}

void coord_format_stored(struct coord *coord)
{
    coord->blank = false;
    if (!coord->founder || coord->alone || coord->joins) {
        coord_vote_start(coord);
    } else {
        coord->phase = COORD_PHASE_FOLLOWER;
        coord->found_due_us = coord->now_us;
    }
    if (coord->format_for != -1) {
        coord_send(coord, coord->format_for, &(struct coord_message){ .kind = COORD_FOUND_ANSWER, .answer = COORD_YES, .base.state_hash = coord->list_hash,
            .cluster_id = coord->config.cluster_id });
    }
}

static uint32_t all_of_list(const struct coord *coord) { return (UINT32_C(1) << coord->config.voter_count) - 1; }

/* Blank nodes ask whether there is a cluster; the founder asks until all have promised. */
void coord_founding_tick(struct coord *coord)
{
    if (coord->now_us < coord->found_due_us) {
        return;
    }
    if (coord->phase != COORD_PHASE_BLANK && (has_state(coord) || !coord->founder || coord->founded || coord->joins)) {
        coord->found_due_us = UINT64_MAX;
        return;
    }
    coord->found_due_us = coord->now_us + ASK_AGAIN_US;
    for (uint32_t i = 0; i < coord->config.voter_count; i++) {
        struct coord_message message = { .kind = COORD_FOUND, .base.state_hash = coord->list_hash, .answer = coord->blank ? COORD_NO : COORD_YES,
            .cluster_id = coord->blank ? (struct ot_str){ .null = true } : coord->config.cluster_id };
        coord_send(coord, coord->listed[i].id, &message);
    }
}

static void asked(struct coord *coord, const struct coord_message *in)
{
    struct coord_message answer = { .kind = COORD_FOUND_ANSWER, .base.state_hash = coord->list_hash, .answer = COORD_NO, .committed = coord_accepted_mark(coord) };
    bool same_list = in->base.state_hash == coord->list_hash && coord->config.voter_count > 1 && !coord->config.join;
    bool founder = coord->config.voter_count > 0 && in->sender == coord->listed[0].id;
    if (coord->blank) {
        if (in->answer == COORD_YES && founder && same_list && coord->storing == COORD_STORING_NOTHING && in->cluster_id.bytes > 0 && in->cluster_id.bytes < sizeof coord->cluster_id) {
            coord_set_cluster_id(coord, in->cluster_id);
            coord->format_for = in->sender;
            store_format(coord);
            return;
        }
        answer.answer = same_list && in->answer == COORD_NO && coord->storing == COORD_STORING_NOTHING ? COORD_YES : COORD_NO;
    } else {
        answer.cluster_id = coord->config.cluster_id;
        answer.answer = same_list && !has_state(coord) && !coord->joins && ot_str_equal(in->cluster_id, coord->config.cluster_id) ? COORD_YES : COORD_NO;
    }
    coord_send(coord, in->sender, &answer);
}

static void count_yes(struct coord *coord, const struct coord_message *in)
{
    for (uint32_t i = 0; i < coord->config.voter_count; i++) {
        if (coord->listed[i].id == in->sender) {
            coord->found_yes |= UINT32_C(1) << i;
            coord->found_dirs[i] = in->dir_id;
            coord->found_levels[i] = in->levels;
        }
        if (coord->listed[i].id == coord->config.node_id) {
            coord->found_yes |= UINT32_C(1) << i;
            coord->found_dirs[i] = coord->config.dir_id;
            coord->found_levels[i] = coord->config.levels;
        }
    }
    bool enough = COORD_BUG(FOUND_BY_MAJORITY) && 2 * (uint32_t)__builtin_popcount(coord->found_yes) > coord->config.voter_count;
    if (coord->found_yes != all_of_list(coord) && !enough) {
        return;
    }
    for (uint32_t i = 0; enough && i < coord->config.voter_count; i++) {
        coord->found_levels[i] = (coord->found_yes >> i & 1) != 0 ? coord->found_levels[i] : coord->config.levels;     /* whoever was not asked knows what this one does */
    }
    coord->found_yes = 0;
    if (coord_level_of_founders(coord) == 0) {
        coord_halt(coord, OT_ERR_UNSUPPORTED_VERSION, "there is no " COORD_FEATURE_LEVEL " that all founders know");
        return;
    }
    if (coord->blank) {
        store_format(coord);                   /* all are blank: from here on this node is of that cluster, and asks for promises */
        return;
    }
    coord->founded = true;
    coord->found_due_us = UINT64_MAX;
    coord_members_load(coord);
    coord_vote_start(coord);
    coord->election_due_us = coord->now_us;
}

static void answered(struct coord *coord, const struct coord_message *in)
{
    if (has_state(coord) || coord->founded || coord->storing != COORD_STORING_NOTHING) {
        return;
    }
    if (coord->blank && in->answer == COORD_NO && in->cluster_id.bytes > 0 && in->cluster_id.bytes < sizeof coord->cluster_id && in->committed.stamp.version > 0) {
        if (!coord_level_knows(coord, in->level)) {
            return;
        }
        coord->joins = true;                   /* there is a cluster: this directory is new to it, and follows until somebody makes it a voter */
        coord_set_cluster_id(coord, in->cluster_id);
        store_format(coord);
        return;
    }
    bool for_us = coord->blank ? in->cluster_id.bytes == 0 : ot_str_equal(in->cluster_id, coord->config.cluster_id);
    if (coord->founder && !coord->joins && in->answer == COORD_YES && in->base.state_hash == coord->list_hash && for_us) {
        count_yes(coord, in);
    } else if (!coord->blank && in->committed.stamp.version > 0 && for_us && coord_level_knows(coord, in->level)) {
        coord->found_due_us = UINT64_MAX;      /* it was founded, and this node has not heard of it yet */
        coord_vote_start(coord);
    }
}

void coord_founding_message(struct coord *coord, const struct coord_message *message)
{
    if (coord->phase == COORD_PHASE_NEW || coord->config.observer) {
        return;
    }
    if (message->kind == COORD_FOUND) {
        asked(coord, message);
    } else if (coord->phase == COORD_PHASE_BLANK || coord->phase == COORD_PHASE_FOLLOWER || coord->phase == COORD_PHASE_PRE_VOTE) {
        answered(coord, message);
    }
}
