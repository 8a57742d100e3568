/* Requests into the delta of the next publication, and the one that changes who votes. */
#include "coordinator/state.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum ot_err coord_refuse(struct coord_request *request, enum ot_err error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(request->text, sizeof request->text, format, args);
    va_end(args);
    request->error = error;
    return error;
}

static enum ot_err decide(struct coord_turn *turn)
{
    static enum ot_err (*const asks[])(struct coord_turn *) = {
        [COORD_ASK_REGISTER] = coord_ask_register, [COORD_ASK_HEARTBEAT] = coord_ask_heartbeat, [COORD_ASK_CREATE_TOPIC] = coord_ask_create_topic,
        [COORD_ASK_DELETE_TOPIC] = coord_ask_delete_topic, [COORD_ASK_CREATE_PARTITIONS] = coord_ask_create_partitions,
        [COORD_ASK_CONFIGS] = coord_ask_configs, [COORD_ASK_PRODUCER_IDS] = coord_ask_producer_ids, [COORD_ASK_DURABLE] = coord_ask_durable, [COORD_ASK_VOTERS] = coord_ask_voters,
        [COORD_ASK_ALTER] = coord_ask_alter, [COORD_ASK_ELECT] = coord_ask_elect, [COORD_ASK_REASSIGN] = coord_ask_reassign, [COORD_ASK_FENCE] = coord_ask_fence,
        [COORD_ASK_UNREGISTER] = coord_ask_unregister, [COORD_ASK_LOST] = coord_ask_lost,
        [COORD_ASK_PREFER] = coord_ask_prefer, [COORD_ASK_LEVEL] = coord_ask_level
    };
    return asks[turn->request->ask](turn);
}

/* One request. False: it does not fit behind the others and waits for the next publication. */
static bool merge(struct coord *coord, struct coord_request *request)
{
    struct coord_delta *delta = &coord->deltas[coord->delta_at];
    struct coord_delta delta_before = *delta;
    struct coord_value before = coord_value_share(&coord->next);
    struct coord_turn turn = { coord, request, { &coord->next, delta }, coord->next.stamp.version };
    request->error = OT_OK;
    request->text[0] = 0;
    request->version = turn.version;
    enum ot_err err = decide(&turn);
    if (err == OT_OK && !request->validate_only) {
        coord_value_drop(&before);
        return true;
    }
    coord_value_drop(&coord->next);
    coord->next = before;
    *delta = delta_before;
    enum ot_err reload = coord_live_load(coord);
    OT_ASSERT(reload == OT_OK);                /* it loaded before */
    if (err == OT_ERR_TOO_LARGE && request->error == OT_OK && delta->row_count > 0) {
        return false;
    }
    if (err != OT_OK && request->error == OT_OK) {
        coord_refuse(request, err == OT_ERR_TOO_LARGE ? OT_ERR_POLICY_VIOLATION : err, "%s", err == OT_ERR_TOO_LARGE
            ? "the change is larger than one publication may be; ask for fewer partitions at a time"
            : err == OT_ERR_NO_MEMORY ? "the memory for metadata is used up" : ot_err_text(err));
    }
    return true;
}

void coord_merge_waiting(struct coord *coord)
{
    coord->voters_change = false;
    while (coord->waiting.first != NULL && merge(coord, coord->waiting.first)) {
        coord_requests_add(&coord->merged, coord_requests_take(&coord->waiting));
    }
}

/* ---- who votes (§6) */

#define LIVES_TIMEOUTS 2                       /* who follows without a vote asks once in an election time-out at least */

static bool joined(const struct coord *coord, const struct coord_peer *peer)
{
    (void)coord;
    return peer->joined && !peer->unsure;
}

/* Does that hold for most of the set of voters? They are in peers, a newcomer among the learners. */
static bool most_of(struct coord *coord, const struct coord_value *value, bool (*counts)(const struct coord *coord, const struct coord_peer *peer))
{
    int32_t ids[COORD_VOTERS_MAX];
    struct ot_uuid dirs[COORD_VOTERS_MAX];
    uint32_t count = coord_voters_of(value, ids, dirs), some = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct coord_peer *peer = coord_peer_find(coord, ids[i], &dirs[i]);
        some += peer != NULL && counts(coord, peer);
    }
    return 2 * some > count;
}

static bool has_votes_of(struct coord *coord, const struct coord_value *value) { return most_of(coord, value, joined); }

/* A change lacks votes of this term. helps: in the next term they may come. */
static void miss_votes(struct coord *coord, bool helps)
{
    if (coord->votes_missed_us == 0) {
        coord->votes_missed_us = OT_MAX(coord->now_us, UINT64_C(1));
    } else if (helps && coord->now_us - coord->votes_missed_us >= coord->config.election_timeout_us) {
        coord->stands_again = true;
    }
}

static bool lives(const struct coord *coord, const struct coord_peer *peer) { return coord->now_us - peer->heard_us < coord->config.election_timeout_us; }

/* Those of the new set that live and did not vote for this node in this term are asked once more, in case their vote did not arrive. Who gave it to another cannot give it twice: then
 * this node stands again, and has it in the next term. Without that, a dead voter could not be taken out of three as long as the third had stood in the same election. */
static void ask_for_missing_votes(struct coord *coord, const struct coord_value *value)
{
    int32_t ids[COORD_VOTERS_MAX];
    struct ot_uuid dirs[COORD_VOTERS_MAX];
    uint32_t count = coord_voters_of(value, ids, dirs), votes = 0, may_come = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct coord_peer *peer = coord_peer_find(coord, ids[i], &dirs[i]);
        if (peer == NULL || joined(coord, peer)) {
            votes += peer != NULL;
        } else if (lives(coord, peer)) {
            may_come++;
            coord_send(coord, ids[i], &(struct coord_message){ .kind = COORD_START_JOIN });
        }
    }
    miss_votes(coord, 2 * (votes + may_come) > count);
}

static enum ot_err check_newcomer(struct coord_turn *turn, const struct coord_voters_ask *ask)
{
    struct coord *coord = turn->coord;
    struct coord_peer *peer = coord_peer_find(coord, ask->id, &ask->dir_id);
    if (peer == NULL) {
        coord_learner_want(coord, ask->id, &ask->dir_id);
    }
    if (peer == NULL || peer->committed.stamp.version == 0) {
        return coord_refuse(turn->request, OT_ERR_REQUEST_TIMED_OUT, "node %d does not follow with that directory yet", ask->id);
    }
    if (!peer->joined && !COORD_BUG(NO_VOTE_PROOF)) {
        coord_send(coord, ask->id, &(struct coord_message){ .kind = COORD_START_JOIN });
        if (!turn->request->validate_only) {
            miss_votes(coord, lives(coord, peer));
        }
        return coord_refuse(turn->request, OT_ERR_REQUEST_TIMED_OUT, "node %d has not given its vote yet", ask->id);
    }
    const int16_t level = coord_value_level(turn->edit.value);
    if (!coord_levels_have(peer->levels, level)) {             /* it does not know the cluster's rows; what it said before it was started anew with another build may be out of date */
        return coord_refuse(turn->request, OT_ERR_UNSUPPORTED_VERSION, "node %d knows " COORD_FEATURE_LEVEL " %d to %d, and the cluster is at %d", ask->id, peer->levels.min,
            peer->levels.max, level);
    }
    if (coord_stamp_below(peer->committed.stamp, (struct coord_stamp){ coord->term.term, 0 })) {
        return coord_refuse(turn->request, OT_ERR_REQUEST_TIMED_OUT, "node %d has not caught up yet", ask->id);
    }
    return OT_OK;
}

static enum ot_err edit_voters(struct coord_turn *turn, const struct coord_voters_ask *ask)
{
    struct ot_coord_voter_row row;
    enum ot_err err = ask->remove ? coord_voter_remove(&turn->edit, ask->remove_id) : OT_OK;
    if (err == OT_ERR_NOT_FOUND) {
        return coord_refuse(turn->request, OT_ERR_VOTER_NOT_FOUND, "node %d is no voter", ask->remove_id);
    }
    if (err != OT_OK || !ask->add) {
        return err;
    }
    err = coord_voter_get(turn->edit.value, ask->id, &row);
    if (err == OT_OK) {
        return coord_refuse(turn->request, OT_ERR_DUPLICATE_VOTER, "node %d is a voter already", ask->id);
    }
    if (err != OT_ERR_NOT_FOUND) {
        return err;
    }
    ot_coord_voter_row_defaults(&row);
    row.dir_id = ask->dir_id;
    row.host = ask->host;
    row.port = ask->port;
    return coord_voter_put(&turn->edit, ask->id, &row);
}

static bool is_heard(const struct coord *coord, const struct coord_peer *peer)
{
    return peer->id == coord->config.node_id || coord->now_us - peer->heard_us < LIVES_TIMEOUTS * coord->config.election_timeout_us;
}

/* Votes of this term may be of nodes that died since. Published, a set most of which is dead would be accepted by too few, and no other one could be published in its place: whoever accepted it
 * is elected by a majority of it alone. So it is refused while most of the voters that there are can still say so. */
static bool most_live(struct coord *coord, const struct coord_value *value) { return most_of(coord, value, is_heard); }

enum ot_err coord_ask_voters(struct coord_turn *turn)
{
    const struct coord_voters_ask *ask = &turn->request->u.voters;
    int32_t ids[COORD_VOTERS_MAX];
    if (ask->add == ask->remove && (!ask->add || ask->id != ask->remove_id)) {
        return coord_refuse(turn->request, OT_ERR_INVALID_REQUEST, "one voter is added, removed or given another directory at a time");
    }
    if (turn->coord->voters_change && !COORD_BUG(TWO_CHANGES)) {
        return turn->edit.delta->row_count > 0 ? OT_ERR_TOO_LARGE : OT_ERR_INVALID_REQUEST;       /* one change at a time: the next publication */
    }
    uint32_t count = coord_voters_of(turn->edit.value, ids, NULL);
    if ((ask->add && !ask->remove && count == COORD_VOTERS_MAX) || (ask->remove && !ask->add && count <= 1)) {
        return coord_refuse(turn->request, OT_ERR_INVALID_REQUEST, "there are 1 to %d voters", COORD_VOTERS_MAX);
    }
    enum ot_err err = ask->add ? check_newcomer(turn, ask) : OT_OK;
    if (err != OT_OK || (err = edit_voters(turn, ask)) != OT_OK) {
        return err;
    }
    if (!COORD_BUG(NO_VOTE_PROOF) && !has_votes_of(turn->coord, turn->edit.value)) {    /* safety, not politeness: without it two could lead one term (§17) */
        if (!turn->request->validate_only) {
            ask_for_missing_votes(turn->coord, turn->edit.value);
        }
        return coord_refuse(turn->request, OT_ERR_REQUEST_TIMED_OUT, "most of the new voters have not given their vote for this term yet");
    }
    if (!most_live(turn->coord, turn->edit.value)) {
        return coord_refuse(turn->request, OT_ERR_REQUEST_TIMED_OUT, "most of the new voters are not heard: with them nothing could be decided any more");
    }
    turn->coord->votes_missed_us = 0;
    turn->coord->voters_change = !turn->request->validate_only;
    return OT_OK;
}
