/* Terms: who stands for one, who gets the votes, and how everybody keeps knowing that the winner lives (§5).
 *
 * A vote is on the disk before it is given. A node asks first whether it would win (pre-vote), so that one that comes back, or one that hears nobody, does not
 * depose a coordinator that the others still hear. A process leads no term that it joined before its start: it may have published in it. */
#include "coordinator/state.h"

#define RESIGNED_TIMEOUTS 6                    /* who resigned stands again after so many: the others had two rounds */
#define STUCK_TIMEOUTS 10                      /* a coordinator whose own disk takes so long for one record, or whose first publication the others do, leaves the place to others */
#define FAILED_ROUNDS_MAX 4                    /* the time-out doubles with each, from 1 s to about 10 s */

static uint64_t timeout_us(struct coord *coord)
{
    uint64_t base = coord->config.election_timeout_us;
    uint64_t span = base << OT_MIN(coord->failed_rounds, (uint32_t)FAILED_ROUNDS_MAX);
    span = OT_MIN(span, 10 * base);
    return base + ot_rng_below(&coord->clock_rng, span);
}

static void wait_for_leader(struct coord *coord) { coord->election_due_us = coord->config.observer ? UINT64_MAX : coord->now_us + timeout_us(coord); }

static void role(struct coord *coord, bool leading)
{
    struct coord_out *out = coord_push(coord, COORD_ROLE);
    out->leading = leading;
    out->leader = coord->leader;
    out->stamp = leading ? coord->committed.stamp : (struct coord_stamp){ coord->term.term, coord->committed.stamp.version };
}

static void set_leader(struct coord *coord, int32_t leader)
{
    bool changed = coord->leader != leader;
    coord->leader = leader;
    if (changed) {                             /* also who is the only voter again, the change that added another having failed: it led, and does not now */
        role(coord, false);
    }
}

void coord_follow(struct coord *coord, int32_t leader)
{
    bool led = coord->phase == COORD_PHASE_FIRST || coord->phase == COORD_PHASE_LEADING;
    coord->phase = COORD_PHASE_FOLLOWER;
    coord->heartbeat_due_us = UINT64_MAX;
    coord->catch_up_due_us = OT_MIN(coord->catch_up_due_us, coord->now_us + coord->config.election_timeout_us);
    if (led) {
        coord->in_flight = false;
        if (coord->storing != COORD_STORING_OWN) {
            coord_drop_next(coord);            /* else it is dealt with when it is stored */
        }
        coord->parked_count = 0;
        coord_members_load(coord);
    }
    coord->leader = coord->leader == leader ? -2 : coord->leader;          /* so that the change of role is told */
    set_leader(coord, leader);
    if (led) {
        coord_answer_all(coord, &coord->merged, OT_ERR_CLOSED, "another coordinator took over; whether the change was made is not known");
    }
    wait_for_leader(coord);
}

static void ask_for_votes(struct coord *coord);

void coord_vote_start(struct coord *coord)
{
    coord->phase = COORD_PHASE_FOLLOWER;
    coord->catch_up_due_us = coord->now_us;
    bool founded = coord->committed.row_count > 0 || coord->accepted.has;
    if (coord->alone && (coord->founder || founded)) {
        coord_store_term(coord, coord->term.term + 1, coord->config.node_id);  /* nobody to ask */
        return;
    }
    wait_for_leader(coord);
    if (COORD_BUG(LEADS_AGAIN) && coord->term.voted_for == coord->config.node_id && coord_peer_self(coord) != NULL) {
        coord->phase = COORD_PHASE_CANDIDATE;
        coord->joined_term = coord->term.term;
        coord_peer_self(coord)->joined = true;
        ask_for_votes(coord);
        return;
    }
    if (coord->term.unsure_term > 0 && !coord->config.observer && coord->storing == COORD_STORING_NOTHING) {
        coord_store_term(coord, coord->term.term, coord->term.voted_for);      /* the doubt must outlive the next start */
    }
}

/* ---- standing */

static bool pre_voted(const struct coord *coord, const struct coord_peer *peer) { (void)coord; return peer->pre_voted; }
static bool pre_voted_surely(const struct coord *coord, const struct coord_peer *peer)
{
    (void)coord;
    return peer->pre_voted && (!peer->unsure || COORD_BUG(UNSURE_VOTES));
}

/* A vote in doubt counts only if everybody votes. */
static bool is_enough(struct coord *coord, bool (*votes)(const struct coord *, const struct coord_peer *), bool (*surely)(const struct coord *, const struct coord_peer *))
{
    bool all = true;
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        const struct coord_peer *peer = &coord->peers[i];
        all &= !(peer->in_committed || peer->in_next) || votes(coord, peer);
    }
    return coord_majority(coord, surely) || (all && coord_majority(coord, votes));
}

static void to_voters(struct coord *coord, const struct coord_message *message, bool (*skip)(const struct coord_peer *peer))
{
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        const struct coord_peer *peer = &coord->peers[i];
        if ((peer->in_committed || peer->in_next) && peer->id != coord->config.node_id && (skip == NULL || !skip(peer))) {
            struct coord_message copy = *message;
            coord_send(coord, peer->id, &copy);
        }
    }
}

static bool has_next_term(const struct coord *coord) { return OT_MAX(coord->term.term, coord->term_seen) < COORD_TERM_MAX; }

static void stand(struct coord *coord)
{
    if (coord->storing == COORD_STORING_NOTHING && has_next_term(coord)) {
        coord_store_term(coord, OT_MAX(coord->term.term, coord->term_seen) + 1, coord->config.node_id);
    }
}

/* Only what was founded can be led; and before that, only by the founder, once all said that they were blank. */
static bool may_stand(struct coord *coord)
{
    struct coord_peer *self = coord_peer_self(coord);
    bool founded = coord->committed.row_count > 0 || coord->accepted.has;
    return self != NULL && !coord->config.observer && (founded || coord->founded) && has_next_term(coord);
}

static void pre_vote(struct coord *coord)
{
    if (!may_stand(coord)) {
        if (coord->phase != COORD_PHASE_FOLLOWER) {
            coord_follow(coord, -1);           /* its vote was taken from it while it stood: nobody answers it, and only who follows asks what is new */
        }
        wait_for_leader(coord);
        return;
    }
    coord->phase = COORD_PHASE_PRE_VOTE;
    coord->heartbeat_due_us = UINT64_MAX;
    set_leader(coord, -1);
    coord->failed_rounds++;
    wait_for_leader(coord);
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        coord->peers[i].pre_voted = coord->peers[i].id == coord->config.node_id;
        coord->peers[i].unsure = coord->peers[i].pre_voted && coord->term.unsure_term > 0;
    }
    struct coord_message message = { .kind = COORD_PRE_VOTE, .term = OT_MAX(coord->term.term, coord->term_seen) + 1, .accepted = coord_accepted_mark(coord) };
    to_voters(coord, &message, NULL);
    if (is_enough(coord, pre_voted, pre_voted_surely)) {
        stand(coord);
    }
}

static bool hears_leader(const struct coord *coord)
{
    return coord->phase == COORD_PHASE_LEADING || coord->phase == COORD_PHASE_FIRST
        || (coord->leader >= 0 && coord->now_us - coord->leader_heard_us < coord->config.election_timeout_us);
}

static void pre_vote_asked(struct coord *coord, const struct coord_message *in)
{
    bool older = coord_stamp_below(in->accepted.stamp, coord_accepted_mark(coord).stamp);
    struct coord_message answer = { .kind = COORD_PRE_VOTE_ANSWER, .term = in->term, .answer = COORD_YES, .round = coord->term.term, .unsure = coord->term.unsure_term > 0 };
    if (hears_leader(coord) || (older && !COORD_BUG(OLDER_WINS)) || in->term <= coord->term.term) {
        answer.answer = COORD_NO;
    }
    coord_send(coord, in->sender, &answer);
}

static void pre_vote_answered(struct coord *coord, struct coord_peer *peer, const struct coord_message *in)
{
    coord->term_seen = OT_MAX(coord->term_seen, (int32_t)OT_MIN(in->round, (int64_t)INT32_MAX - 1));      /* else one that lags behind in terms never stands */
    if (coord->phase != COORD_PHASE_PRE_VOTE || peer == NULL || in->answer != COORD_YES || in->term <= coord->term.term || !may_stand(coord)) {
        return;                                /* !may_stand: it heard meanwhile that it votes no more */
    }
    peer->pre_voted = true;
    peer->unsure = in->unsure;
    if (is_enough(coord, pre_voted, pre_voted_surely)) {       /* as the votes will be counted: whoever stands and cannot win keeps those that could from standing */
        stand(coord);
    }
}

static bool has_joined(const struct coord_peer *peer) { return peer->joined; }

static void ask_for_votes(struct coord *coord)
{
    struct coord_message message = { .kind = COORD_START_JOIN };
    to_voters(coord, &message, has_joined);
    coord->heartbeat_due_us = coord->now_us + coord->config.heartbeat_us;
}

/* ---- giving and getting votes */

static void send_join(struct coord *coord, int32_t to)
{
    struct coord_message message = { .kind = COORD_JOIN, .accepted = coord_accepted_mark(coord), .committed = coord_mark_of(&coord->committed),
        .unsure = coord->term.unsure_term > 0 };
    coord_send(coord, to, &message);
}

static bool joined(const struct coord *coord, const struct coord_peer *peer) { (void)coord; return peer->joined; }
static bool joined_surely(const struct coord *coord, const struct coord_peer *peer)
{
    (void)coord;
    return peer->joined && (!peer->unsure || COORD_BUG(UNSURE_VOTES));
}

static void maybe_win(struct coord *coord)
{
    if (coord->phase != COORD_PHASE_CANDIDATE || coord->storing != COORD_STORING_NOTHING || !is_enough(coord, joined, joined_surely)) {
        return;
    }
    coord->phase = COORD_PHASE_FIRST;
    coord->failed_rounds = 0;
    coord->led_since_us = coord->now_us;
    coord->election_due_us = UINT64_MAX;
    coord->catch_up_due_us = UINT64_MAX;
    coord->leader = coord->config.node_id;
    coord->version_used = coord_accepted_mark(coord).stamp.version;
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        coord->peers[i].heard_us = coord->now_us;
        coord->peers[i].round = 0;
    }
    coord->round = coord->read_round = 0;
    coord_start_publication(coord, true);
    if (!coord->alone) {
        coord_heartbeat(coord, true);
    }
}

void coord_term_stored(struct coord *coord)
{
    bool again = coord->term_storing.term == coord->term.term && coord->term_storing.voted_for == coord->term.voted_for;
    coord->term = coord->term_storing;
    if (again) {
        return;
    }
    if (coord->phase == COORD_PHASE_FIRST || coord->phase == COORD_PHASE_LEADING) {
        coord_follow(coord, -1);
    }
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        struct coord_peer *peer = &coord->peers[i];
        peer->joined = peer->unsure = peer->has_accepted = peer->pre_voted = false;
        peer->levels = (struct coord_levels){ 0 };
    }
    coord->votes_missed_us = 0;
    coord->stands_again = false;
    coord->heartbeat_due_us = UINT64_MAX;
    if (coord->term.voted_for != coord->config.node_id) {
        coord->phase = COORD_PHASE_FOLLOWER;
        wait_for_leader(coord);
        if (coord->term.voted_for >= 0) {
            send_join(coord, coord->term.voted_for);
        }
        return;
    }
    struct coord_peer *self = coord_peer_self(coord);
    coord->joined_term = coord->term.term;
    coord->phase = COORD_PHASE_CANDIDATE;
    if (self != NULL) {
        self->joined = true;
        self->unsure = coord->term.unsure_term > 0;
    }
    if (!coord->alone) {
        wait_for_leader(coord);
        ask_for_votes(coord);
    }
    maybe_win(coord);
}

static void start_join(struct coord *coord, const struct coord_message *in)
{
    if (coord->config.observer || coord->storing != COORD_STORING_NOTHING || in->term < coord->term.term) {
        return;
    }
    if (COORD_BUG(SEND_FIRST) && in->term > coord->term.term) {
        coord->term.term = in->term;
        send_join(coord, in->sender);
    }
    if (in->term > coord->term.term || coord->term.voted_for == -1 || (COORD_BUG(SECOND_VOTE) && in->sender != coord->term.voted_for)) {
        coord_store_term(coord, in->term, in->sender);
    } else if (coord->term.voted_for == in->sender) {
        send_join(coord, in->sender);          /* it did not arrive */
    }
}

static void join(struct coord *coord, struct coord_peer *peer, const struct coord_message *in)
{
    bool stands = coord->phase == COORD_PHASE_CANDIDATE || coord->phase == COORD_PHASE_FIRST || coord->phase == COORD_PHASE_LEADING;
    if (peer == NULL || !stands || in->term != coord->term.term || coord->joined_term != coord->term.term) {
        return;
    }
    if (coord->phase == COORD_PHASE_CANDIDATE && !COORD_BUG(OLDER_WINS) && coord_stamp_below(coord_accepted_mark(coord).stamp, in->accepted.stamp)) {
        return;                                /* it knows more than this node: another must lead */
    }
    peer->joined = true;
    peer->unsure = in->unsure;
    peer->heard_us = coord->now_us;
    peer->committed = in->committed;
    if (coord->phase == COORD_PHASE_CANDIDATE) {
        maybe_win(coord);
    } else if (coord->in_flight && !peer->has_accepted) {
        coord_send_publish(coord, peer);
    }
}

bool coord_adopt_term(struct coord *coord, const struct coord_message *message, bool leads)
{
    if (message->term < coord->term.term) {
        return false;
    }
    if (message->term > coord->term.term) {
        if (coord->config.observer) {
            coord->term = (struct coord_term){ message->term, -1, 0 };
            return true;
        }
        if (coord->storing == COORD_STORING_NOTHING) {
            coord_store_term(coord, message->term, leads ? message->sender : -1);
        }
        return false;
    }
    if (leads && (coord->phase == COORD_PHASE_LEADING || coord->phase == COORD_PHASE_FIRST)) {
        coord_halt(coord, OT_ERR_MISMATCH, "another node leads the term that this node leads");
        return false;
    }
    if (leads) {
        if (coord->phase != COORD_PHASE_FOLLOWER) {
            coord_follow(coord, message->sender);
        }
        coord->failed_rounds = 0;
        coord->leader_heard_us = coord->now_us;
        set_leader(coord, message->sender);
        wait_for_leader(coord);
    }
    return true;
}

/* ---- heartbeats */

static void name_round(struct coord *coord)
{
    for (struct coord_request *request = coord->reads.first; request != NULL; request = request->next) {
        coord->read_round = request->round < 0 ? coord->round : coord->read_round;
        request->round = request->round < 0 ? coord->round : request->round;
    }
}

void coord_heartbeat(struct coord *coord, bool new_round)
{
    coord->round += new_round;
    if (new_round) {
        name_round(coord);                     /* it is sent after they came */
    }
    coord->heartbeat_due_us = coord->now_us + coord->config.heartbeat_us;
    struct coord_message message = { .kind = COORD_HEARTBEAT, .committed = coord_mark_of(&coord->committed), .accepted = coord_accepted_mark(coord),
        .round = coord->round };
    to_voters(coord, &message, NULL);
}

static void heartbeat(struct coord *coord, const struct coord_message *in)
{
    if (coord_adopt_term(coord, in, true)) {
        if (coord->accepted.has && (coord_stamp_equal(coord->accepted.value.stamp, in->committed.stamp)
            || (COORD_BUG(COMMIT_ALONE) && coord->accepted.value.stamp.version == in->committed.stamp.version))) {
            coord_commit_accepted(coord);
        } else if (coord->storing == COORD_STORING_ACCEPT && coord_stamp_equal(coord->next.stamp, in->committed.stamp)) {
            coord->committed_heard = in->committed.stamp;      /* the others were faster: not to be told again a heartbeat later */
        } else if (coord_stamp_below(coord->committed.stamp, in->committed.stamp) && coord->now_us >= coord->catch_up_due_us) {
            coord_catch_up_ask(coord, in->sender);
        }
        if (!coord_stamp_below(coord->committed.stamp, in->committed.stamp)) {
            coord->catch_up_due_us = coord->now_us + coord->config.election_timeout_us;    /* it is told what comes */
        }
    }
    if (coord->config.observer || coord->phase == COORD_PHASE_HALTED) {
        return;
    }
    /* a round of an older term says nothing in this one, where the same node may lead again and count them anew */
    struct coord_message answer = { .kind = COORD_HEARTBEAT_ACK, .round = in->term == coord->term.term ? in->round : 0, .committed = coord_mark_of(&coord->committed),
        .accepted = coord_accepted_mark(coord), .answer = coord->storing != COORD_STORING_NOTHING ? COORD_BUSY : COORD_YES };
    coord_send(coord, in->sender, &answer);
}

static bool answered_round(const struct coord *coord, const struct coord_peer *peer)
{
    return peer->id == coord->config.node_id || peer->round >= coord->round_asked;
}

static bool heard(const struct coord *coord, const struct coord_peer *peer)
{
    return peer->id == coord->config.node_id || coord->now_us - peer->heard_us < coord->config.election_timeout_us;
}

/* The last round that a majority answered; not the last that began: where an answer takes longer than the next round, that one is never answered. */
static int64_t heard_round(struct coord *coord)
{
    int64_t round = 0;
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        coord->round_asked = coord->peers[i].round;
        round = coord->round_asked > round && coord_majority(coord, answered_round) ? coord->round_asked : round;
    }
    return round;
}

static void answer_reads(struct coord *coord, int64_t round)
{
    struct coord_requests later = { 0 };
    for (struct coord_request *request; (request = coord_requests_take(&coord->reads)) != NULL;) {
        if (request->round >= 0 && request->round <= round) {
            request->version = request->ask == COORD_ASK_READ ? coord->committed.stamp.version : request->version;
            coord_requests_add(&coord->answered, request);
        } else {
            coord_requests_add(&later, request);
        }
    }
    coord->reads = later;
}

/* What rests on this node still leading is answered when a majority answered a heartbeat that was sent after it came: reads, brokers that say that they live, and whatever changes nothing. */
void coord_reads_start(struct coord *coord)
{
    bool any = false;
    if (coord->phase != COORD_PHASE_LEADING || coord->reads.first == NULL) {
        return;
    }
    for (const struct coord_request *request = coord->reads.first; request != NULL; request = request->next) {
        any |= request->round < 0;
    }
    if (coord->alone || COORD_BUG(READ_AT_ONCE)) {
        coord->round++;
        name_round(coord);
        answer_reads(coord, coord->round);
    } else if (any && heard_round(coord) >= coord->read_round) {       /* one round for them at a time: those that come meanwhile share the next */
        coord_heartbeat(coord, true);
    }
}

static void acknowledged(struct coord *coord, struct coord_peer *peer, const struct coord_message *in)
{
    if (peer == NULL || coord->phase < COORD_PHASE_FIRST || coord->phase == COORD_PHASE_HALTED) {
        return;
    }
    if (in->term > coord->term.term) {
        coord_follow(coord, -1);
        return;
    }
    if (in->term < coord->term.term || in->round > coord->round) {
        return;                                /* it has not followed yet: no sign that it heeds this term */
    }
    peer->heard_us = coord->now_us;
    peer->round = OT_MAX(peer->round, in->round);
    peer->committed = in->committed;
    coord_session_said(coord, peer->id, in->committed.stamp.version);
    if (coord->phase == COORD_PHASE_LEADING && coord->reads.first != NULL) {
        answer_reads(coord, heard_round(coord));
    }
    if (coord->in_flight && !peer->has_accepted && (coord_stamp_equal(in->accepted.stamp, coord->next.stamp)
        || (COORD_BUG(VERSION_ALONE) && in->accepted.stamp.version == coord->next.stamp.version))) {
        peer->has_accepted = true;
        coord_maybe_commit(coord);
    } else if (coord->in_flight && !peer->has_accepted && in->answer != COORD_BUSY && in->round > peer->publish_round && !COORD_BUG(NEVER_RESENT)) {
        coord_send_publish(coord, peer);       /* it was lost, or could not be taken */
    }
}

/* Steps down for the others' sake: they stand once they miss it, and it does not before they had the time to. What was in flight is asked again by who asked for it. */
void coord_resign(struct coord *coord, struct coord_request *request)
{
    const int32_t meant = request->u.resign.node_id;
    bool other = false;
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        const struct coord_peer *peer = &coord->peers[i];
        other |= peer->in_committed && peer->id != coord->config.node_id && heard(coord, peer);
    }
    request->version = coord->committed.stamp.version;
    if (meant >= 0 && meant != coord->config.node_id) {
        return;                                /* it leads no more: most likely it was this very request */
    }
    if (!other) {
        coord_refuse(request, OT_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE, "node %d is the only voter that lives", coord->config.node_id);
        return;
    }
    if (request->validate_only) {
        return;
    }
    coord_follow(coord, -1);
    coord->election_due_us = coord->now_us + RESIGNED_TIMEOUTS * coord->config.election_timeout_us;
}

/* ---- the clock */

static bool heard_elsewhere(const struct coord *coord, const struct coord_peer *peer) { return peer->id != coord->config.node_id && heard(coord, peer); }

/* It won, lives, and its first publication is taken by too few: somebody knows a later version than the one that it began with. In another term it begins behind that, or another one does. */
static bool is_not_taken(const struct coord *coord)
{
    return coord->phase == COORD_PHASE_FIRST && coord->storing == COORD_STORING_NOTHING && coord->now_us - coord->led_since_us >= STUCK_TIMEOUTS * coord->config.election_timeout_us;
}

/* Its disk hangs. Without its own acceptance nothing is committed, and as long as it says that it lives nobody stands in its place: the others that live can do without it. */
static bool is_stuck(const struct coord *coord)
{
    return coord->storing != COORD_STORING_NOTHING && coord->now_us - coord->storing_since_us >= STUCK_TIMEOUTS * coord->config.election_timeout_us
        && coord_majority(coord, heard_elsewhere);
}

void coord_vote_tick(struct coord *coord)
{
    bool leads = coord->phase == COORD_PHASE_FIRST || coord->phase == COORD_PHASE_LEADING;
    if (coord->now_us >= coord->heartbeat_due_us && coord->phase == COORD_PHASE_CANDIDATE) {
        ask_for_votes(coord);
    } else if (coord->now_us >= coord->heartbeat_due_us && leads) {
        if (!coord_majority(coord, heard) || is_stuck(coord) || is_not_taken(coord) || (coord->phase == COORD_PHASE_LEADING && coord_peer_self(coord) == NULL)) {
            coord_follow(coord, -1);
        } else {
            coord_heartbeat(coord, true);
        }
    }
    if (coord->stands_again && coord->phase == COORD_PHASE_LEADING) {
        stand(coord);                          /* what is in flight is asked again by who asked for it */
    }
    if (coord->now_us >= coord->election_due_us && !leads && coord->phase >= COORD_PHASE_FOLLOWER) {
        if (coord->storing == COORD_STORING_NOTHING) {
            pre_vote(coord);
        } else {
            wait_for_leader(coord);
        }
    }
}

uint64_t coord_vote_deadline_us(const struct coord *coord)
{
    return coord->phase < COORD_PHASE_FOLLOWER ? UINT64_MAX : OT_MIN(coord->election_due_us, coord->heartbeat_due_us);
}

void coord_vote_message(struct coord *coord, const struct coord_message *message)
{
    struct coord_peer *peer = coord_peer_find(coord, message->sender, &message->dir_id);
    switch (message->kind) {
    case COORD_PRE_VOTE: pre_vote_asked(coord, message); break;
    case COORD_PRE_VOTE_ANSWER: pre_vote_answered(coord, peer, message); break;
    case COORD_START_JOIN: start_join(coord, message); break;
    case COORD_JOIN: join(coord, peer, message); break;
    case COORD_HEARTBEAT: heartbeat(coord, message); break;
    case COORD_HEARTBEAT_ACK: acknowledged(coord, peer, message); break;
    default: break;
    }
}
