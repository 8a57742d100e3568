/* Who is behind asks; who has it answers from what is committed: the changes since, or, where those are forgotten, all rows in pieces.
 *
 * A coordinator that has nothing newer keeps the question and answers it with the next commit, so that those who follow without a vote hear of each at once. Who does not know yet that
 * it leads is told so at once besides: no heartbeat goes to who does not vote, and where nothing changes there is no next commit. */
#include "coordinator/state.h"
#include <string.h>

#define READER_IDLE_US UINT64_C(30000000)

/* ---- committed deltas, the latest few, in a ring of bytes */

void coord_history_clear(struct coord *coord) { coord->history_first = coord->history_count = 0; coord->history_end = 0; }

static struct coord_history_entry *entry_at(struct coord *coord, uint32_t index)
{
    return &coord->history[(coord->history_first + index) % COORD_HISTORY_MAX];
}

static void forget_oldest(struct coord *coord)
{
    coord->history_first = (coord->history_first + 1) % COORD_HISTORY_MAX;
    coord->history_count--;
}

void coord_history_add(struct coord *coord, const struct coord_mark *base, struct ot_blob delta)
{
    if (delta.bytes > coord->history_cap) {
        coord_history_clear(coord);
        return;
    }
    uint64_t pos = coord->history_end % coord->history_cap;
    uint64_t start = pos + delta.bytes <= coord->history_cap ? coord->history_end : coord->history_end + (coord->history_cap - pos);       /* in one piece */
    while (coord->history_count > 0 && (coord->history_count == COORD_HISTORY_MAX || entry_at(coord, 0)->pos + coord->history_cap < start + delta.bytes)) {
        forget_oldest(coord);
    }
    if (delta.bytes > 0) {
        memcpy(coord->history_data + start % coord->history_cap, delta.data, delta.bytes);
    }
    coord->history_count++;
    *entry_at(coord, coord->history_count - 1) = (struct coord_history_entry){ *base, coord_mark_of(&coord->committed), start, delta.bytes };
    coord->history_end = start + delta.bytes;
}

/* ---- answers */

/* What somebody reads is taken from it only if it would get the very same again, or asks no more: of five that read by turns while the value changes, none would come to its end. */
static bool may_take(const struct coord *coord, const struct coord_reader *reader, int32_t peer)
{
    return reader->peer == -1 || reader->peer == peer || coord_stamp_equal(reader->value.stamp, coord->committed.stamp)
        || coord->now_us - reader->used_us >= 2 * coord->config.election_timeout_us;
}

/* NULL: there are too many at once; it asks again. */
static struct coord_reader *reader_of(struct coord *coord, const struct coord_message *in)
{
    struct coord_reader *oldest = NULL;
    for (uint32_t i = 0; i < COORD_READERS_MAX; i++) {
        struct coord_reader *reader = &coord->readers[i];
        if (reader->peer == in->sender && coord_stamp_equal(reader->value.stamp, in->base.stamp)) {
            return reader;
        }
        if (!may_take(coord, reader, in->sender)) {
            continue;
        }
        oldest = oldest == NULL || reader->used_us < oldest->used_us || (reader->peer == in->sender && oldest->peer != in->sender) ? reader : oldest;
    }
    if (oldest == NULL) {
        return NULL;
    }
    if (oldest->peer != -1) {
        coord_value_drop(&oldest->value);
    }
    oldest->peer = in->sender;
    oldest->value = coord_value_share(&coord->committed);
    return oldest;
}

/* The next rows behind in->key, of the value that the asker began with; or of the value now, from its first row. */
static void answer_rows(struct coord *coord, const struct coord_message *in)
{
    static const uint8_t least[1] = { 0 };
    uint8_t rows[COORD_ROWS_BYTES];
    struct coord_reader *reader = reader_of(coord, in);
    if (reader == NULL) {
        return;
    }
    bool goes_on = coord_stamp_equal(reader->value.stamp, in->base.stamp) && in->key.bytes > 0 && in->key.bytes < COORD_KEY_BYTES_MAX;
    struct ot_blob key = goes_on ? in->key : coord_blob("", 0);
    struct coord_key from = { 0 };
    memcpy(from.data, goes_on ? in->key.data : least, goes_on ? in->key.bytes : 1);
    from.bytes = goes_on ? in->key.bytes + 1 : 1;          /* the least key above it ends with a zero */
    struct coord_snapshot_reader rest = { .pending = false };
    reader->used_us = coord->now_us;
    coord_cursor_seek(&rest.cursor, &reader->value.tree, coord_key_blob(&from));
    size_t bytes = coord_snapshot_read(&rest, rows, sizeof rows);
    bool last = !rest.pending;
    coord_send(coord, in->sender, &(struct coord_message){ .kind = COORD_ROWS, .committed = coord_mark_of(&reader->value), .key = key, .data = coord_blob(rows, bytes),
        .answer = last ? COORD_LAST : COORD_YES });
    if (last) {
        coord_value_drop(&reader->value);
        reader->peer = -1;
        reader->used_us = 0;
    }
}

/* The changes from what the asker has, as many as one message holds. False: they are forgotten, or end too early for it. */
static bool answer_changes(struct coord *coord, int32_t peer, const struct coord_mark *has, struct coord_stamp at_least)
{
    uint32_t first = coord->history_count;
    while (first > 0 && entry_at(coord, first - 1)->base.state_hash != has->state_hash) {
        first--;
    }
    if (first == 0 && coord->committed.state_hash != has->state_hash) {
        return false;
    }
    struct coord_message message = { .kind = COORD_CHANGES, .base = *has, .committed = *has };
    if (first == 0) {                          /* the same content by another name */
        message.committed = coord_mark_of(&coord->committed);
        coord_send(coord, peer, &message);
        return true;
    }
    uint8_t *data = coord->deltas_room;
    uint32_t bytes = 0;
    for (uint32_t i = first - 1; i < coord->history_count; i++) {
        const struct coord_history_entry *entry = entry_at(coord, i);
        if (bytes + entry->bytes > coord->config.delta_bytes_max) {
            break;
        }
        if (entry->bytes > 0) {
            memcpy(data + bytes, coord->history_data + entry->pos % coord->history_cap, entry->bytes);
        }
        bytes += entry->bytes;
        message.committed = entry->result;
    }
    if (coord_stamp_below(message.committed.stamp, at_least)) {
        return false;
    }
    message.data = coord_blob(data, bytes);
    coord_send(coord, peer, &message);
    return true;
}

static void park(struct coord *coord, const struct coord_message *in)
{
    uint32_t at = 0;
    while (at < coord->parked_count && coord->parked[at].peer != in->sender) {
        at++;
    }
    if (at == coord->parked_max) {
        return;
    }
    coord->parked_count += at == coord->parked_count;
    coord->parked[at] = (struct coord_parked){ in->sender, in->committed, coord->now_us, in->levels };
}

/* Who does not know the level has nothing to read; the level that every message has tells it why. */
static bool may_read(const struct coord *coord, struct coord_levels levels) { return coord_levels_have(levels, coord->level) || COORD_BUG(TAKES_ANY_LEVEL); }

static void asked(struct coord *coord, const struct coord_message *in)
{
    bool leads = coord->phase == COORD_PHASE_LEADING;
    if (leads) {
        coord_learner_note(coord, in);
        coord_session_said(coord, in->sender, in->committed.stamp.version);
    }
    if (!may_read(coord, in->levels)) {
        coord_send(coord, in->sender, &(struct coord_message){ .kind = COORD_CHANGES, .base = in->committed, .committed = in->committed });
    } else if (coord_stamp_below(in->committed.stamp, coord->committed.stamp)) {
        if (in->key.bytes > 0 || !answer_changes(coord, in->sender, &in->committed, in->accepted.stamp)) {
            if (!coord_stamp_below(coord->committed.stamp, in->accepted.stamp)) {
                answer_rows(coord, in);
            }
        }
    } else {
        if (leads) {
            park(coord, in);
        }
        if (!leads || in->leader != coord->config.node_id) {
            coord_send(coord, in->sender, &(struct coord_message){ .kind = COORD_CHANGES, .base = in->committed, .committed = in->committed });
        }
    }
}

static void drop_idle_readers(struct coord *coord)         /* their pages are memory */
{
    for (uint32_t i = 0; i < COORD_READERS_MAX; i++) {
        struct coord_reader *reader = &coord->readers[i];
        if (reader->peer != -1 && coord->now_us - reader->used_us > READER_IDLE_US) {
            coord_value_drop(&reader->value);
            reader->peer = -1;
            reader->used_us = 0;
        }
    }
}

static struct ot_blob last_body(const struct coord *coord, uint32_t outs_before)
{
    return coord->out_count > outs_before ? coord->outs[(coord->out_first + coord->out_count - 1) % coord->outs_max].body : (struct ot_blob){ 0 };
}

/* Most have the same, so the answer is made once and sent to each: a thousand copies of a large change are more than there is room for. */
void coord_parked_serve(struct coord *coord)
{
    struct coord_mark of = { { 0, 0 }, 0 };
    struct ot_blob body = { 0 };
    drop_idle_readers(coord);
    for (uint32_t i = 0; i < coord->parked_count; i++) {
        const struct coord_parked *parked = &coord->parked[i];
        if (body.data != NULL && may_read(coord, parked->levels) && coord_stamp_equal(of.stamp, parked->committed.stamp) && of.state_hash == parked->committed.state_hash
            && coord->out_count + 64 < coord->outs_max) {
            struct coord_out *out = coord_push(coord, COORD_SEND);
            out->peer = (uint32_t)parked->peer;
            out->body = body;
            continue;
        }
        const bool knows = may_read(coord, parked->levels);
        uint32_t outs_before = coord->out_count;
        if (!knows || !answer_changes(coord, parked->peer, &parked->committed, (struct coord_stamp){ 0, 0 })) {
            coord_send(coord, parked->peer, &(struct coord_message){ .kind = COORD_CHANGES, .base = parked->committed, .committed = parked->committed });
        }
        body = knows ? last_body(coord, outs_before) : (struct ot_blob){ 0 };
        of = parked->committed;
    }
    coord->parked_count = 0;
}

/* ---- questions */

void coord_whole_drop(struct coord *coord)
{
    coord_value_drop(&coord->whole);
    coord->whole_any = false;
    coord->whole_key_bytes = 0;
}

void coord_catch_up_ask(struct coord *coord, int32_t peer)
{
    if (coord->storing != COORD_STORING_NOTHING) {
        return;
    }
    if (coord->whole_any && !coord_stamp_below(coord->committed.stamp, coord->whole_mark.stamp)) {
        coord_whole_drop(coord);               /* it caught up by another way: changes are enough again */
    }
    struct coord_message message = { .kind = COORD_CATCH_UP, .committed = coord_mark_of(&coord->committed), .accepted = coord_accepted_mark(coord) };
    if (coord->whole_any) {
        message.base = coord->whole_mark;
        message.key = coord_blob(coord->whole_key, coord->whole_key_bytes);
    }
    coord->catch_up_due_us = coord->now_us + coord->config.election_timeout_us;
    coord_send(coord, peer, &message);
}

void coord_catch_up_next(struct coord *coord)
{
    if (coord->phase == COORD_PHASE_FOLLOWER && coord->leader >= 0 && coord_peer_self(coord) == NULL) {
        coord_catch_up_ask(coord, coord->leader);
    }
}

static int32_t whom_to_ask(struct coord *coord)
{
    if (coord->leader >= 0 && coord->leader != coord->config.node_id && coord->catch_up_turn % 3 != 2) {
        return coord->leader;
    }
    int32_t ids[2 * COORD_VOTERS_MAX];
    uint32_t count = coord_voters_of(&coord->committed, ids, NULL);
    for (uint32_t i = 0; i < coord->config.voter_count && count < OT_ARRAY_COUNT(ids); i++) {
        ids[count++] = coord->listed[i].id;
    }
    return count == 0 ? -1 : ids[coord->catch_up_turn / 3 % count];
}

/* Who hears no coordinator asks for what is new, one node after the other. */
void coord_catch_up_tick(struct coord *coord)
{
    if (coord->now_us < coord->catch_up_due_us) {
        return;
    }
    coord->catch_up_due_us = coord->now_us + coord->config.election_timeout_us;
    bool follows = coord->phase == COORD_PHASE_FOLLOWER || coord->phase == COORD_PHASE_PRE_VOTE;
    if (follows && coord->storing == COORD_STORING_NOTHING && !(coord->alone && !coord->config.observer)) {
        coord->catch_up_turn++;
        int32_t peer = whom_to_ask(coord);
        if (peer >= 0) {
            coord_catch_up_ask(coord, peer);
        }
    }
}

/* Who does not vote hears of a coordinator by answers alone. */
static void note_leader(struct coord *coord, const struct coord_message *in)
{
    if (coord_peer_self(coord) == NULL && in->term >= coord->term.term && coord->leader != in->leader && (in->leader >= 0 || in->sender == coord->leader)) {
        coord_follow(coord, in->leader);
    }
}

static void changes(struct coord *coord, const struct coord_message *in)
{
    bool learns = coord_peer_self(coord) == NULL;
    note_leader(coord, in);
    struct coord_stamp before = coord->committed.stamp;
    coord_changes_accept(coord, in);
    if (learns && coord->phase == COORD_PHASE_FOLLOWER && coord->config.observer && coord_stamp_below(before, coord->committed.stamp)) {
        coord_catch_up_ask(coord, in->sender); /* the next question waits at the coordinator */
    }
}

/* False: it came twice, is of a value that is not read any more, or does not fit. Whoever asked for it asks again in its own time: a chain of questions for each copy would never end. */
static bool take_rows(struct coord *coord, const struct coord_message *in)
{
    size_t taken;
    if (!coord->whole_any || !coord_stamp_equal(coord->whole_mark.stamp, in->committed.stamp)) {
        if (in->key.bytes > 0) {
            return false;
        }
        coord_whole_drop(coord);
        coord->whole_any = true;
        coord->whole_mark = in->committed;
    }
    if (in->key.bytes != coord->whole_key_bytes || memcmp(in->key.data == NULL ? coord->whole_key : in->key.data, coord->whole_key, in->key.bytes) != 0) {
        return false;
    }
    struct coord_delta_last last = { .key_bytes = 0 };     /* pieces are asked for by key, each for itself */
    if (coord_snapshot_load(&coord->whole, &last, in->data.data, in->data.bytes, &taken) != OT_OK || taken != in->data.bytes) {
        coord_whole_drop(coord);
        return false;
    }
    struct coord_delta_reader reader = coord_delta_reader_over(in->data);
    struct coord_delta_row row;
    while (coord_delta_next(&reader, &row)) {
        if (row.key.bytes <= sizeof coord->whole_key) {
            memcpy(coord->whole_key, row.key.data, row.key.bytes);
            coord->whole_key_bytes = row.key.bytes;
        }
    }
    return true;
}

static void become_whole(struct coord *coord)
{
    coord->accepted.has = false;
    coord_value_drop(&coord->accepted.value);
    coord_value_drop(&coord->committed);
    coord->committed = coord->whole;
    coord->committed.stamp = coord->whole_mark.stamp;
    coord_value_init(&coord->whole, coord->pages);
    coord_whole_drop(coord);
    coord_history_clear(coord);
    coord_members_load(coord);
    coord->version_used = OT_MAX(coord->version_used, coord->committed.stamp.version);
    struct coord_out *out = coord_push(coord, COORD_APPLY);
    out->stamp = coord->committed.stamp;
    out->whole = true;
}

void coord_whole_stored(struct coord *coord)
{
    if (coord_stamp_below(coord->committed.stamp, coord->whole_mark.stamp)) {
        become_whole(coord);
        coord_catch_up_next(coord);
    } else {
        coord_whole_drop(coord);               /* what was accepted here became it meanwhile: a heartbeat said that it is committed */
    }
}

static void rows(struct coord *coord, const struct coord_message *in)
{
    note_leader(coord, in);                    /* the rest is asked of it, and not of one that is lost in two tries of three */
    if (coord->phase > COORD_PHASE_PRE_VOTE || coord->storing != COORD_STORING_NOTHING || (!COORD_BUG(OLDER_ROWS) && (!coord_stamp_below(coord->committed.stamp, in->committed.stamp)
        || coord_stamp_below(in->committed.stamp, coord_accepted_mark(coord).stamp) || in->committed.stamp.version <= coord->committed.stamp.version))
        || (in->committed.stamp.term > coord->term.term && !coord_adopt_term(coord, in, false))) {
        return;
    }
    if (!take_rows(coord, in)) {
        return;
    }
    if (in->answer != COORD_LAST) {
        coord_catch_up_ask(coord, in->sender);
        return;
    }
    char text[100];
    if (coord->whole.state_hash != coord->whole_mark.state_hash || coord_rows_check(&coord->whole, text, sizeof text) != OT_OK) {
        coord_whole_drop(coord);               /* from the beginning */
        return;
    }
    if (coord->config.observer) {
        become_whole(coord);
        coord_catch_up_ask(coord, in->sender);
        return;
    }
    if (coord->snapshot_token != 0 || coord->lazy_token != 0) {
        coord_whole_drop(coord);               /* one snapshot at a time */
        return;
    }
    struct coord_out *out = coord_push(coord, COORD_SNAPSHOT);
    out->token = coord->token_waited = ++coord->token_last;
    out->stamp = coord->whole_mark.stamp;
    coord->whole.stamp = coord->whole_mark.stamp;
    out->value = &coord->whole;
    coord->storing = COORD_STORING_WHOLE;
    coord->journal_bytes = 0;
}

void coord_catch_up_message(struct coord *coord, const struct coord_message *message)
{
    switch (message->kind) {
    case COORD_CATCH_UP: asked(coord, message); break;
    case COORD_CHANGES: changes(coord, message); break;
    case COORD_ROWS: rows(coord, message); break;
    default: break;
    }
}
