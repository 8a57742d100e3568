/* Who votes: by the committed value and by the one that follows it, both of which must agree while the set changes. */
#include "coordinator/state.h"
#include <string.h>

uint32_t coord_voters_of(const struct coord_value *value, int32_t *ids_out, struct ot_uuid *dirs_out)
{
    struct ot_coord_voter_row row;
    int32_t id = INT32_MIN;
    uint32_t count = 0;
    while (count < COORD_VOTERS_MAX && coord_voter_next(value, id, &id, &row) == OT_OK) {
        ids_out[count] = id;
        if (dirs_out != NULL) {
            dirs_out[count] = row.dir_id;
        }
        count++;
    }
    return count;
}

bool coord_voter_heard(const struct coord *coord, int32_t id, uint64_t *heard_us_out, int64_t *version_out)
{
    for (uint32_t i = 0; i < coord->peer_count && coord->phase == COORD_PHASE_LEADING && id != coord->config.node_id; i++) {
        const struct coord_peer *peer = &coord->peers[i];
        if (peer->id == id && peer->in_committed && peer->round > 0) {
            *heard_us_out = peer->heard_us;
            *version_out = peer->committed.stamp.version;
            return true;
        }
    }
    return false;
}

static bool same_peer(const struct coord_peer *peer, int32_t id, const struct ot_uuid *dir_id)
{
    return peer->id == id && (!peer->knows_dir || COORD_BUG(ANY_DIRECTORY) || ot_uuid_equal(&peer->dir_id, dir_id));
}

struct coord_peer *coord_peer_find(struct coord *coord, int32_t id, const struct ot_uuid *dir_id)
{
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        if (same_peer(&coord->peers[i], id, dir_id)) {
            return &coord->peers[i];
        }
    }
    return NULL;
}

struct coord_peer *coord_peer_self(struct coord *coord)
{
    struct coord_peer *peer = coord_peer_find(coord, coord->config.node_id, &coord->config.dir_id);
    return peer != NULL && (peer->in_committed || peer->in_next) ? peer : NULL;
}

static struct coord_peer *add_peer(struct coord *coord, int32_t id, const struct ot_uuid *dir_id)
{
    struct coord_peer *peer = NULL;
    for (uint32_t i = 0; i < coord->peer_count && peer == NULL; i++) {     /* known already: what it said stays */
        peer = coord->peers[i].id == id && coord->peers[i].knows_dir && dir_id != NULL && ot_uuid_equal(&coord->peers[i].dir_id, dir_id) ? &coord->peers[i] : NULL;
    }
    if (peer == NULL && coord->peer_count < COORD_PEERS_MAX) {
        peer = &coord->peers[coord->peer_count++];
        *peer = (struct coord_peer){ .id = id, .knows_dir = dir_id != NULL, .publish_round = -1, .heard_us = coord->now_us };
        if (dir_id != NULL) {
            peer->dir_id = *dir_id;
        }
    }
    return peer;
}

static void mark_voters(struct coord *coord, const struct coord_value *value, bool committed)
{
    int32_t ids[COORD_VOTERS_MAX];
    struct ot_uuid dirs[COORD_VOTERS_MAX];
    uint32_t count = coord_voters_of(value, ids, dirs);
    for (uint32_t i = 0; i < count; i++) {
        struct coord_peer *peer = add_peer(coord, ids[i], &dirs[i]);
        OT_ASSERT(peer != NULL);               /* drop_unknown left room */
        *(committed ? &peer->in_committed : &peer->in_next) = true;
    }
}

/* Not founded: those on the list, or this node. The founder holds each to the directory that it answered with. */
static void mark_listed(struct coord *coord, bool committed, bool next)
{
    uint32_t count = OT_MAX(coord->config.voter_count, 1u);
    for (uint32_t i = 0; i < count; i++) {
        int32_t id = coord->config.voter_count == 0 ? coord->config.node_id : coord->listed[i].id;
        const struct ot_uuid *dir = id == coord->config.node_id ? &coord->config.dir_id : coord->founded ? &coord->found_dirs[i] : NULL;
        struct coord_peer *peer = add_peer(coord, id, dir);
        if (peer != NULL) {
            peer->in_committed |= committed;
            peer->in_next |= next;
        }
    }
}

static bool votes(const struct coord_peer *peer) { return peer->in_committed || peer->in_next; }

/* Learners that were not heard of for long, and former voters; all of them where there is not room for the voters of two more values: a voter that is not there would not be counted. */
static void drop_unknown(struct coord *coord)
{
    const bool room = coord->peer_count + 2 * COORD_VOTERS_MAX <= COORD_PEERS_MAX;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        const struct coord_peer *peer = &coord->peers[i];
        if (votes(peer) || (room && peer->knows_dir && coord->now_us - peer->heard_us < 10 * coord->config.election_timeout_us)) {
            coord->peers[kept++] = *peer;
        }
    }
    coord->peer_count = kept;
}

void coord_members_load(struct coord *coord)
{
    coord->level = coord_value_level(&coord->committed);
    const struct coord_value *next = coord->in_flight ? &coord->next : coord->accepted.has ? &coord->accepted.value : &coord->committed;
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        coord->peers[i].in_committed &= coord->peers[i].knows_dir;         /* the others are added anew */
        coord->peers[i].in_next &= coord->peers[i].knows_dir;
    }
    drop_unknown(coord);                       /* by the marks of before: a voter that is silent keeps what it said, and this node, which never hears itself, its own vote */
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        coord->peers[i].in_committed = coord->peers[i].in_next = false;
    }
    bool founded = coord->committed.row_count > 0, next_founded = next->row_count > 0;
    if (founded) {
        mark_voters(coord, &coord->committed, true);
    }
    if (next_founded) {
        mark_voters(coord, next, false);
        if (!founded) {
            mark_voters(coord, next, true);    /* accepted and not known to be committed: those who found it are those on the list, with their directories */
        }
    }
    if (!next_founded && !coord->config.observer && !coord->config.join) {
        mark_listed(coord, !founded, true);
    }
    coord->committed_voters.count = 0;
    coord->alone = coord_peer_self(coord) != NULL;
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        const struct coord_peer *peer = &coord->peers[i];
        coord->alone &= !votes(peer) || (peer->id == coord->config.node_id && peer->in_committed && peer->in_next);
        if (peer->in_committed && coord->committed_voters.count < COORD_VOTERS_MAX) {
            coord->committed_voters.ids[coord->committed_voters.count++] = peer->id;
        }
    }
}

bool coord_majority(const struct coord *coord, bool (*counts)(const struct coord *coord, const struct coord_peer *peer))
{
    int32_t committed = 0, next = 0, for_committed = 0, for_next = 0;
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        const struct coord_peer *peer = &coord->peers[i];
        bool yes = votes(peer) && counts(coord, peer);
        committed += peer->in_committed;
        next += peer->in_next;
        for_committed += peer->in_committed && yes;
        for_next += peer->in_next && yes;
    }
    if (COORD_BUG(MINORITY)) {
        return 2 * for_committed >= committed - 1 && 2 * for_next >= next - 1;
    }
    if (COORD_BUG(NEW_SET_ONLY)) {
        return next > 0 && 2 * for_next > next;
    }
    return committed > 0 && next > 0 && 2 * for_committed > committed && 2 * for_next > next;
}

/* For one more learner. Of a thousand brokers that follow few ever vote: those that nobody asked for do not displace each other, and one that somebody asked for has its place. */
static bool make_room(struct coord *coord, bool wanted)
{
    uint32_t learners = 0, oldest = COORD_PEERS_MAX;
    drop_unknown(coord);
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        if (votes(&coord->peers[i])) continue;
        learners++;
        oldest = oldest == COORD_PEERS_MAX || coord->peers[i].heard_us < coord->peers[oldest].heard_us ? i : oldest;
    }
    if (learners >= COORD_LEARNERS_MAX && wanted) {
        coord->peers[oldest] = coord->peers[--coord->peer_count];
        learners--;
    }
    return learners < COORD_LEARNERS_MAX;
}

void coord_learner_note(struct coord *coord, const struct coord_message *message)
{
    static const struct ot_uuid none;
    if (ot_uuid_equal(&message->dir_id, &none)) {
        return;                                /* an observer has no folder */
    }
    struct coord_peer *peer = coord_peer_find(coord, message->sender, &message->dir_id);
    if (peer == NULL && make_room(coord, false)) {
        peer = add_peer(coord, message->sender, &message->dir_id);
    }
    if (peer != NULL) {
        peer->committed = message->committed;
        peer->heard_us = coord->now_us;
    }
}

void coord_learner_want(struct coord *coord, int32_t id, const struct ot_uuid *dir_id)
{
    (void)make_room(coord, true);
    (void)add_peer(coord, id, dir_id);
}
