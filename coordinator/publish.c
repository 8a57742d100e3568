/* Publication, acceptance, commit (§5).
 *
 * What a publication rests on is known by its content (the state hash), not by its name alone: a new coordinator publishes what an earlier one had published under a
 * name of its own, so two nodes may know the same committed content by different stamps, one of them having missed the renaming. */
#include "coordinator/state.h"
#include <string.h>

#define COMMIT_IDLE_US UINT64_C(1000000)       /* a COMMIT record only spares the next start a guess: it waits for a quiet second */

void coord_drop_next(struct coord *coord) { coord_value_drop(&coord->next); }

static enum ot_err found_voter(struct coord_edit *edit, int32_t id, const struct ot_uuid *dir_id, struct ot_str host, int32_t port)
{
    struct ot_coord_voter_row voter;
    ot_coord_voter_row_defaults(&voter);
    voter.dir_id = *dir_id;
    voter.host = host;
    voter.port = port;
    return coord_voter_put(edit, id, &voter);
}

static enum ot_err found(struct coord *coord)              /* §6: version 1 */
{
    struct coord_edit edit = { &coord->next, &coord->deltas[coord->delta_at] };
    struct ot_coord_cluster_row cluster;
    ot_coord_cluster_row_defaults(&cluster);
    cluster.cluster_id = coord->config.cluster_id;
    cluster.feature_level = coord_level_of_founders(coord);
    enum ot_err err = coord_cluster_put(&edit, &cluster);
    if (err == OT_OK && coord->config.voter_count == 0) {
        err = found_voter(&edit, coord->config.node_id, &coord->config.dir_id, coord->config.voter_host, coord->config.voter_port);
    }
    for (uint32_t i = 0; err == OT_OK && i < coord->config.voter_count; i++) {
        const struct coord_listed_voter *one = &coord->listed[i];
        err = found_voter(&edit, one->id, one->id == coord->config.node_id ? &coord->config.dir_id : &coord->found_dirs[i], one->host, one->port);
    }
    return err;
}

/* ---- the coordinator's side */

static void publish_message_of(struct coord *coord, struct coord_message *out)
{
    const struct coord_delta *delta = &coord->deltas[coord->delta_at];
    *out = (struct coord_message){ .kind = COORD_PUBLISH, .accepted = coord_mark_of(&coord->next), .base = coord_mark_of(&coord->committed),
        .committed = coord_mark_of(&coord->committed), .data = coord_blob(delta->data, delta->bytes) };
}

/* The same bytes for all: encoded once a step, sent to each. */
static void publish_to_all(struct coord *coord)
{
    struct coord_message message;
    struct ot_blob body = { 0 };
    publish_message_of(coord, &message);
    for (uint32_t i = 0; i < coord->peer_count; i++) {
        struct coord_peer *peer = &coord->peers[i];
        peer->has_accepted = false;
        if (peer->id == coord->config.node_id || !(peer->in_committed || peer->in_next)) {
            continue;
        }
        peer->publish_round = coord->round;
        uint32_t before = coord->out_count;
        if (body.data == NULL) {
            coord_send(coord, peer->id, &message);
            body = coord->out_count > before ? coord->outs[(coord->out_first + before) % coord->outs_max].body : (struct ot_blob){ 0 };
        } else {
            struct coord_out *out = coord_push(coord, COORD_SEND);
            out->peer = (uint32_t)peer->id;
            out->body = body;
        }
    }
}

/* The first value of all: whoever forgot it could found once more (founding.c). */
static bool waits_for_own_disk(const struct coord *coord) { return coord->storing == COORD_STORING_OWN && coord->committed.row_count == 0; }

void coord_send_publish(struct coord *coord, struct coord_peer *peer)
{
    if (waits_for_own_disk(coord)) {
        return;
    }
    struct coord_message message;
    publish_message_of(coord, &message);
    peer->publish_round = coord->round;
    coord_send(coord, peer->id, &message);
}

static void store_accept(struct coord *coord, enum coord_storing what, struct coord_stamp base)
{
    const struct coord_delta *delta = &coord->deltas[coord->delta_at];
    coord->store = (struct coord_record){ .kind = COORD_RECORD_ACCEPT, .u.accept = { .stamp = coord->next.stamp, .base = base,
        .state_hash = coord->next.state_hash, .committed = what == COORD_STORING_CHANGES, .voter_count = coord->committed_voters.count,
        .delta = coord_blob(delta->data, delta->bytes) } };
    memcpy(coord->store.u.accept.voters, coord->committed_voters.ids, sizeof coord->committed_voters.ids);
    coord->journal_bytes += (delta->bytes + COORD_RECORD_OVERHEAD_MAX + 4095) / 4096 * 4096;
    coord_trace(coord, coord->next.state_hash);
    coord_store(coord, what);
}

static void publish(struct coord *coord)
{
    coord->version_used = coord->next.stamp.version;
    coord->in_flight = true;
    coord_members_load(coord);                 /* whom it makes voters must accept it too */
    store_accept(coord, COORD_STORING_OWN, coord->committed.stamp);
    if (!coord->alone) {
        if (!waits_for_own_disk(coord)) publish_to_all(coord);     /* beside the own disk: this process never leads the term again after a restart */
        coord->heartbeat_due_us = OT_MIN(coord->heartbeat_due_us, coord->now_us + coord->config.heartbeat_us);
    }
}

/* Nothing changes: answers rest on what is committed already, as far as this node knows. So nobody may have followed it when they were asked: who hears that it lives takes that for a lease
 * (coord_lease_end_us), and who hears that a setting is as it should be would not hear of the coordinator that changed it. */
static void answer_unchanged(struct coord *coord)
{
    struct coord_requests done = { 0 };
    for (struct coord_request *request; (request = coord_requests_take(&coord->merged)) != NULL;) {
        const bool waits = request->error == OT_OK && !request->validate_only && !(request->ask == COORD_ASK_HEARTBEAT && COORD_BUG(BEAT_AT_ONCE));
        request->version = request->version == coord->next.stamp.version ? coord->committed.stamp.version : request->version;
        request->round = -1;
        coord_requests_add(waits ? &coord->reads : &done, request);
    }
    coord_answer_all(coord, &done, OT_OK, "");
}

/* Start the next publication, if there is reason for one and none is in flight. first: the one that begins a term, published in any case. */
void coord_start_publication(struct coord *coord, bool first)
{
    if (coord->in_flight || coord->storing != COORD_STORING_NOTHING || (!first && (coord->phase != COORD_PHASE_LEADING || coord->waiting.first == NULL))) {
        return;
    }
    coord->delta_at ^= 1;
    struct coord_delta *delta = &coord->deltas[coord->delta_at];
    delta->bytes = delta->row_count = 0;
    coord->next = coord_value_share(&coord->committed);
    coord->next.stamp = (struct coord_stamp){ coord->term.term, coord->version_used + 1 };
    enum ot_err err = OT_OK;
    if (first && coord->accepted.has && !COORD_BUG(FORGETS_ACCEPTED)) {        /* what an earlier term accepted may be chosen: it goes first, unchanged, on the same base */
        if (coord->accepted.delta.data == delta->data) {
            coord->delta_at ^= 1;
            delta = &coord->deltas[coord->delta_at];
        }
        if ((err = coord_delta_take(delta, coord->accepted.delta, (struct ot_blob){ 0 })) == OT_OK) {
            err = coord_delta_apply(&coord->next, coord->accepted.delta);
        }
    } else if (first && coord->committed.row_count == 0) {
        err = found(coord);
    }
    if (err != OT_OK || (err = coord_live_load(coord)) != OT_OK) {
        coord_halt(coord, err, "the first publication of the term could not be made");
        return;
    }
    if (!first) {
        coord_merge_waiting(coord);
    }
    if (first || delta->row_count > 0) {
        publish(coord);
        return;
    }
    answer_unchanged(coord);
    coord_drop_next(coord);
}

static bool accepted_it(const struct coord *coord, const struct coord_peer *peer) { (void)coord; return peer->has_accepted; }

/* ---- committed */

void coord_maybe_snapshot(struct coord *coord)
{
    if (!COORD_BUG(NEVER_SNAPSHOTS) && coord->snapshot_token == 0 && coord->lazy_token == 0 && coord->storing == COORD_STORING_NOTHING && !coord->accepted.has && !coord->config.observer
        && coord->journal_bytes > OT_MAX(coord->config.snapshot_after_bytes, coord->committed.row_bytes)) {
        struct coord_out *out = coord_push(coord, COORD_SNAPSHOT);
        out->token = coord->snapshot_token = ++coord->token_last;
        out->stamp = coord->committed.stamp;
        out->value = &coord->committed;
        coord->journal_bytes = 0;
    }
}

/* value becomes the committed one, by delta. */
static void commit(struct coord *coord, struct coord_value *value, struct ot_blob delta)
{
    struct coord_mark base = coord_mark_of(&coord->committed);
    if (value->stamp.version <= coord->committed.stamp.version) {
        coord_halt(coord, OT_ERR_MISMATCH, "a committed version would go back");
        return;
    }
    coord_value_drop(&coord->committed);
    coord->committed = *value;
    coord_value_init(value, coord->pages);
    coord->commit_due_us = coord->config.observer ? UINT64_MAX : coord->now_us + COMMIT_IDLE_US;
    coord_history_add(coord, &base, delta);
    struct coord_out *out = coord_push(coord, COORD_APPLY);
    out->stamp = coord->committed.stamp;
    out->delta = delta;
}

void coord_commit_accepted(struct coord *coord)
{
    struct coord_accepted accepted = coord->accepted;
    coord->accepted = (struct coord_accepted){ 0 };
    coord_value_init(&coord->accepted.value, coord->pages);
    commit(coord, &accepted.value, accepted.delta);
    coord_value_drop(&accepted.value);
    coord_members_load(coord);
    coord_maybe_snapshot(coord);
}

static void begin_leading(struct coord *coord)
{
    coord->phase = COORD_PHASE_LEADING;
    coord_sessions_begin(coord);
    struct coord_out *out = coord_push(coord, COORD_ROLE);
    out->leading = true;
    out->leader = coord->config.node_id;
    out->stamp = coord->committed.stamp;
}

/* Accepted by a majority of the committed voters and of the new ones: committed, applied, answered. */
void coord_maybe_commit(struct coord *coord)
{
    if (!coord->in_flight || coord->storing == COORD_STORING_OWN || !coord->accepted.has || !coord_majority(coord, accepted_it)) {
        return;
    }
    coord->in_flight = false;
    coord_drop_next(coord);
    coord_commit_accepted(coord);
    if (coord->phase == COORD_PHASE_HALTED) {
        return;
    }
    if (coord->phase == COORD_PHASE_FIRST) {
        begin_leading(coord);
    }
    coord_answer_all(coord, &coord->merged, OT_OK, "");
    coord_parked_serve(coord);
    if (!coord->alone) {
        coord_heartbeat(coord, false);         /* says that it is committed */
    } else {
        coord->heartbeat_due_us = UINT64_MAX;
    }
    if (coord_peer_self(coord) == NULL) {
        coord_follow(coord, -1);               /* removed from the voters: that was the last act */
    }
}

/* ---- stored */

static void clear_doubt(struct coord *coord, const struct coord_value *value)
{
    if (coord->term.unsure_term > 0 && COORD_BUG(DOUBT_ENDS_EARLY)) {
        coord->term.unsure_term = 0;
    }
    if (coord->term.unsure_term > 0 && value->stamp.term > coord->term.unsure_term) {
        coord->term.unsure_term = 0;           /* on disk with the next term; an older doubt only costs a vote */
    }
}

void coord_publication_stored(struct coord *coord, enum coord_storing what)
{
    const struct coord_delta *delta = &coord->deltas[coord->delta_at];
    struct ot_blob bytes = coord_blob(delta->data, delta->bytes);
    if (what == COORD_STORING_CHANGES) {       /* committed elsewhere long since */
        coord_value_drop(&coord->accepted.value);
        coord->accepted.has = false;
        clear_doubt(coord, &coord->next);
        commit(coord, &coord->next, bytes);
        coord_members_load(coord);
        coord_maybe_snapshot(coord);
        if (!coord->config.observer) {
            coord_catch_up_next(coord);
        }
        return;
    }
    coord_value_drop(&coord->accepted.value);
    coord->accepted = (struct coord_accepted){ true, coord_value_share(&coord->next), bytes };
    clear_doubt(coord, &coord->accepted.value);
    if (what == COORD_STORING_OWN && coord->in_flight) {
        if (coord->committed.row_count == 0 && !coord->alone) publish_to_all(coord);
        struct coord_peer *self = coord_peer_self(coord);
        if (self != NULL) {
            self->has_accepted = true;
        }
        coord_maybe_commit(coord);
        return;
    }
    coord_drop_next(coord);
    coord_members_load(coord);
    if (what == COORD_STORING_ACCEPT) {
        struct coord_mark mark = coord_mark_of(&coord->accepted.value);
        if (coord_stamp_equal(mark.stamp, coord->committed_heard)) {
            coord_commit_accepted(coord);      /* the others were faster; the coordinator may wait to hear that it is known here */
        }
        coord_send(coord, coord->accepted_from, &(struct coord_message){ .kind = COORD_ACCEPTED, .accepted = mark, .committed = coord_mark_of(&coord->committed) });
    }
}

/* ---- the voter's side */

/* Make the value that first and then more lead to from the committed one, and the delta of both. False: it is not the result that was meant. */
static bool make_next(struct coord *coord, struct ot_blob first, struct ot_blob more, const struct coord_mark *result)
{
    uint32_t at = coord->accepted.has && coord->accepted.delta.data == coord->deltas[coord->delta_at ^ 1].data ? coord->delta_at : coord->delta_at ^ 1;
    struct coord_delta *delta = &coord->deltas[at];
    struct coord_value next = coord_value_share(&coord->committed);
    if (coord_delta_apply(&next, first) != OT_OK || coord_delta_apply(&next, more) != OT_OK || (next.state_hash != result->state_hash && !COORD_BUG(DELTA_UNCHECKED))
        || coord_delta_take(delta, first, more) != OT_OK) {
        coord_value_drop(&next);
        return false;
    }
    coord->delta_at = at;
    coord->next = next;
    coord->next.stamp = result->stamp;
    return true;
}

/* Does it stand behind what is committed here? Content alone does not tell: a change that is taken back (a voter that came and went, a broker without replicas that was fenced and is not) leads
 * to the content of before, and whoever missed both would be two versions behind what it accepts. */
static bool is_later(const struct coord *coord, struct coord_stamp base) { return coord_stamp_below(coord->committed.stamp, base) && base.version > coord->committed.stamp.version; }

/* What a publication rests on becomes committed by the name that the coordinator knows; the publication itself comes again. Taking both in one would leave a committed value behind that is
 * more than one step older than the accepted one: as a coordinator this node could not be followed. */
static void take_base(struct coord *coord, struct ot_blob delta, const struct coord_mark *base)
{
    struct ot_blob nothing = { 0 };
    if (make_next(coord, delta, nothing, base)) {
        store_accept(coord, COORD_STORING_CHANGES, coord->committed.stamp);
    }
}

/* Each publication that finds this node behind while it reads a whole value, piece by piece, would begin one more chain of questions beside the one that goes on by itself. */
static void ask_for_base(struct coord *coord, int32_t peer)
{
    if (!coord->whole_any || coord->now_us >= coord->catch_up_due_us) {
        coord_catch_up_ask(coord, peer);
    }
}

static void accept(struct coord *coord, const struct coord_message *in)
{
    struct ot_blob nothing = { 0 }, more = in->data;
    if (coord->accepted.has && coord_stamp_equal(coord->accepted.value.stamp, in->base.stamp)) {
        coord_commit_accepted(coord);          /* what the publication rests on is committed */
        if (coord->phase == COORD_PHASE_HALTED) {
            return;
        }
    }
    uint64_t have = coord->committed.state_hash;
    const bool later = is_later(coord, in->base.stamp);
    if (have == in->base.state_hash && later && !coord_stamp_below(in->base.stamp, coord_accepted_mark(coord).stamp)) {
        take_base(coord, nothing, &in->base);  /* its content is committed here, under an older name */
        return;
    }
    if (have == in->accepted.state_hash && !later) {
        more = nothing;                        /* its content is committed here already: a new name for it */
    } else if (have != in->base.state_hash && later && coord->accepted.has && coord->accepted.value.state_hash == in->base.state_hash) {
        if (coord_stamp_below(in->base.stamp, coord->accepted.value.stamp)) {      /* the later name may be committed too: who knows only the older one makes no other value of its number */
            coord->let_go = coord_mark_of(&coord->accepted.value);
        }
        take_base(coord, coord->accepted.delta, &in->base);    /* accepted here by another name */
        return;
    } else if (have != in->base.state_hash && !COORD_BUG(DELTA_UNCHECKED)) {
        ask_for_base(coord, in->sender);
        return;
    }
    coord->accepted_from = in->sender;
    if (make_next(coord, nothing, more, &in->accepted)) {
        store_accept(coord, COORD_STORING_ACCEPT, coord->committed.stamp);
    } else {
        ask_for_base(coord, in->sender);
    }
}

static void published(struct coord *coord, const struct coord_message *in)
{
    if (coord->config.observer || (!(COORD_BUG(STALE_PUBLICATION) && in->term < coord->term.term) && !coord_adopt_term(coord, in, true)) || coord->storing != COORD_STORING_NOTHING || in->accepted.stamp.term != in->term) {
        return;
    }
    struct coord_stamp have = coord_accepted_mark(coord).stamp;
    if (coord_stamp_equal(have, in->accepted.stamp)) {
        coord_send(coord, in->sender, &(struct coord_message){ .kind = COORD_ACCEPTED, .accepted = coord_accepted_mark(coord) });     /* the answer was lost */
    } else if ((coord_stamp_below(have, in->accepted.stamp) || COORD_BUG(STALE_PUBLICATION)) && in->accepted.stamp.version > coord->committed.stamp.version) {
        accept(coord, in);
    }
}

void coord_publish_message(struct coord *coord, const struct coord_message *message)
{
    if (message->kind == COORD_PUBLISH) {
        published(coord, message);
        return;
    }
    struct coord_peer *peer = coord_peer_find(coord, message->sender, &message->dir_id);
    if (peer != NULL && message->term == coord->term.term && coord->phase == COORD_PHASE_LEADING) {
        coord_session_said(coord, peer->id, message->committed.stamp.version);
    }
    if (peer == NULL || (message->term != coord->term.term && !COORD_BUG(STALE_PUBLICATION)) || !coord->in_flight || !coord_stamp_equal(message->accepted.stamp, coord->next.stamp)) {
        return;
    }
    peer->has_accepted = true;
    peer->heard_us = coord->now_us;
    coord_maybe_commit(coord);
}

/* Committed changes that were asked for. What is accepted here and may be chosen is not given up for less. */
void coord_changes_accept(struct coord *coord, const struct coord_message *in)
{
    const struct coord_mark *result = &in->committed;
    struct ot_blob nothing = { 0 };
    if (coord->phase > COORD_PHASE_PRE_VOTE || coord->storing != COORD_STORING_NOTHING || !coord_stamp_below(coord->committed.stamp, result->stamp) || in->base.state_hash != coord->committed.state_hash
        || (coord_stamp_below(result->stamp, coord_accepted_mark(coord).stamp) && !COORD_BUG(GIVES_UP_ACCEPTED)) || result->stamp.version <= coord->committed.stamp.version) {
        return;
    }
    if (result->stamp.term > coord->term.term && !coord_adopt_term(coord, in, false)) {
        return;                                /* terms on disk never lag behind values; it is asked for again */
    }
    if (coord->accepted.has && coord_stamp_equal(coord->accepted.value.stamp, result->stamp)) {
        coord_commit_accepted(coord);
        return;
    }
    if (!make_next(coord, nothing, in->data, result)) {
        return;
    }
    if (coord->config.observer) {
        coord_publication_stored(coord, COORD_STORING_CHANGES);
    } else {
        store_accept(coord, COORD_STORING_CHANGES, coord->committed.stamp);
    }
}
