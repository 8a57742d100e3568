/* Who was heard of, and which version each broker has applied: in the coordinator's memory, not in the value. A new coordinator grants everyone a full session. */
#include "coordinator/state.h"

#define LEASE_PERCENT 85
#define SILENCE_PERCENT 95           /* so that others lead before the session that was set is over: fencing, publishing and being heard of take time too */
#define SILENT_TIMEOUTS 2            /* a node says what it has at least once in an election time-out */
#define SLEPT_PART 4                 /* later than this part of a session is no busy machine any more */

/* Of a broker that was forgotten: there are as many as brokers may be registered, and in a long term more come and go. */
static struct coord_session *session_of_nobody(struct coord *coord)
{
    for (uint32_t i = 0; i < coord->session_count; i++) {
        if (coord_live_find(&coord->live, coord->sessions[i].id) == NULL) {
            return &coord->sessions[i];
        }
    }
    return NULL;
}

static struct coord_session *session_of(struct coord *coord, int32_t id)
{
    for (uint32_t i = 0; i < coord->session_count; i++) {
        if (coord->sessions[i].id == id) {
            return &coord->sessions[i];
        }
    }
    struct coord_session *session = coord->session_count < coord->config.brokers_max ? &coord->sessions[coord->session_count++] : session_of_nobody(coord);
    if (session == NULL) {
        return NULL;
    }
    *session = (struct coord_session){ .id = id, .heard_us = coord->now_us, .applied_version = -1, .broker_epoch = -1, .alter_sequence = -1, .fenced_version = -1, .lives_epoch = -1, .said_us = coord->now_us, .said_version = -1 };
    return session;
}

static uint64_t silence_us(const struct coord *coord) { return coord->config.session_us / 100 * SILENCE_PERCENT; }

uint64_t coord_lease_end_us(uint64_t sent_us, uint64_t session_us)
{
    return sent_us + (COORD_BUG(LONG_LEASE) ? session_us : session_us / 100 * LEASE_PERCENT);
}

void coord_session_heard(struct coord *coord, const struct coord_heartbeat *ask)
{
    struct coord_session *session = session_of(coord, ask->broker_id);
    if (session != NULL) {
        session->heard_us = coord->now_us;
        session->alter_sequence = session->broker_epoch == ask->broker_epoch ? session->alter_sequence : -1;
        session->applied_version = session->broker_epoch == ask->broker_epoch ? OT_MAX(session->applied_version, ask->applied_version) : ask->applied_version;
        session->moved &= session->broker_epoch == ask->broker_epoch;
        session->broker_epoch = session->lives_epoch = ask->broker_epoch;
        coord->sessions_due_us = OT_MIN(coord->sessions_due_us, coord->now_us + silence_us(coord));
    }
}

void coord_session_fenced(struct coord *coord, int32_t id, int64_t version)
{
    struct coord_session *session = session_of(coord, id);
    if (session != NULL) {
        session->fenced_version = version;
    }
}

void coord_session_registered(struct coord *coord, int32_t id, int64_t broker_epoch)
{
    struct coord_session *session = session_of(coord, id);
    if (session != NULL) {
        session->heard_us = coord->now_us;
        session->lives_epoch = broker_epoch;
    }
}

void coord_session_gone(struct coord *coord, int32_t id)
{
    struct coord_session *session = session_of(coord, id);
    if (session != NULL) {
        session->lives_epoch = -1;
    }
}

bool coord_session_lives(struct coord *coord, int32_t id, int64_t broker_epoch)
{
    const struct coord_session *session = session_of(coord, id);
    return session != NULL && session->lives_epoch == broker_epoch && session->heard_us + silence_us(coord) > coord->now_us;
}

bool coord_session_knows(struct coord *coord, const struct coord_heartbeat *ask)
{
    const struct coord_session *session = session_of(coord, ask->broker_id);
    return session == NULL || ask->applied_version >= session->fenced_version;
}

void coord_session_set_moved(struct coord *coord, int32_t id)
{
    struct coord_session *session = session_of(coord, id);
    if (session != NULL) {
        session->moved = true;
    }
}

bool coord_session_moved(struct coord *coord, int32_t id)
{
    const struct coord_session *session = session_of(coord, id);
    return session != NULL && session->moved;
}

bool coord_session_in_order(struct coord *coord, int32_t id, int64_t broker_epoch, int64_t sequence)
{
    struct coord_session *session = session_of(coord, id);
    if (session == NULL || COORD_BUG(ALTER_REORDERED)) {
        return session != NULL;
    }
    if (session->broker_epoch != broker_epoch) {
        session->broker_epoch = broker_epoch;
        session->alter_sequence = -1;
        session->applied_version = -1;
        session->moved = false;
    }
    return sequence > session->alter_sequence;
}

void coord_session_came(struct coord *coord, int32_t id, int64_t sequence)
{
    struct coord_session *session = session_of(coord, id);
    if (session != NULL) {
        session->alter_sequence = OT_MAX(session->alter_sequence, sequence);
    }
}

void coord_sessions_begin(struct coord *coord)
{
    coord->session_count = 0;
    for (uint32_t i = 0; i < coord->live.count; i++) {
        coord_session_fenced(coord, coord->live.brokers[i].id, coord->committed.stamp.version);    /* who is fenced was so by then */
    }
    coord->sessions_due_us = coord->now_us + silence_us(coord);
}

/* While this node stood still (paused, suspended, starved) nobody could be heard: what they said waits in front of it. That time counts for no session; leases end as they did. */
void coord_sessions_slept(struct coord *coord, uint64_t due_us, uint64_t before_us)
{
    if (coord->config.session_us == 0 || coord->phase != COORD_PHASE_LEADING || coord->now_us <= due_us || coord->now_us - due_us < silence_us(coord) / SLEPT_PART) {
        return;
    }
    for (uint32_t i = 0; i < coord->session_count; i++) {
        struct coord_session *session = &coord->sessions[i];
        session->heard_us = OT_MIN(session->heard_us + (coord->now_us - before_us), coord->now_us);
    }
    coord->sessions_due_us = coord->now_us;    /* looked at anew */
}

static bool is_live(const struct coord *coord, int32_t id)
{
    const struct coord_live_broker *broker = coord_live_find(&coord->live, id);
    return broker != NULL && broker->live;
}

bool coord_session_over(struct coord *coord, int32_t id)
{
    const struct coord_session *session = session_of(coord, id);
    return session != NULL && session->heard_us + silence_us(coord) <= coord->now_us;
}

/* All that are over go in one publication: see coord_ask_fence. */
void coord_sessions_tick(struct coord *coord)
{
    if (coord->config.session_us == 0 || coord->phase != COORD_PHASE_LEADING || coord->now_us < coord->sessions_due_us) {
        return;
    }
    coord->sessions_due_us = UINT64_MAX;
    for (uint32_t i = 0; i < coord->session_count; i++) {
        const struct coord_session *session = &coord->sessions[i];
        uint64_t ends_us = session->heard_us + silence_us(coord);
        if (!is_live(coord, session->id)) {
            continue;
        }
        if (ends_us > coord->now_us) {
            coord->sessions_due_us = OT_MIN(coord->sessions_due_us, ends_us);
            continue;
        }
        coord->sessions_due_us = OT_MIN(coord->sessions_due_us, coord->now_us + 10000);        /* seen again once it is fenced */
        if (!coord->fencing) {
            coord->fencing = true;
            coord->fence_request = (struct coord_request){ .ask = COORD_ASK_FENCE, .if_version = -1 };
            coord_requests_add(&coord->waiting, &coord->fence_request);
        }
    }
}

uint64_t coord_sessions_deadline_us(const struct coord *coord)
{
    return coord->config.session_us == 0 || coord->phase != COORD_PHASE_LEADING ? UINT64_MAX : coord->sessions_due_us;
}

bool coord_all_applied(const struct coord *coord, int64_t version)
{
    for (uint32_t i = 0; i < coord->live.count; i++) {
        const struct coord_live_broker *broker = &coord->live.brokers[i];
        const struct coord_session *session = NULL;
        for (uint32_t j = 0; j < coord->session_count && session == NULL; j++) {
            session = coord->sessions[j].id == broker->id ? &coord->sessions[j] : NULL;
        }
        if (broker->live && !broker->stopping && (session == NULL || session->applied_version < version)) {
            return false;
        }
    }
    return true;
}

void coord_session_said(struct coord *coord, int32_t id, int64_t version)
{
    for (uint32_t i = 0; i < coord->session_count; i++) {
        struct coord_session *session = &coord->sessions[i];
        if (session->id == id) {
            session->said_us = coord->now_us;
            session->said_version = OT_MAX(session->said_version, version);
            return;
        }
    }
}

int64_t coord_told_version(const struct coord *coord)
{
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; coord->phase == COORD_PHASE_LEADING && i < coord->session_count; i++) {
        const struct coord_session *session = &coord->sessions[i];
        const struct coord_live_broker *broker = coord_live_find(&coord->live, session->id);
        bool waited_for = broker != NULL && broker->live && !broker->stopping && session->id != coord->config.node_id
            && coord->now_us - session->said_us < SILENT_TIMEOUTS * coord->config.election_timeout_us;
        least = waited_for ? OT_MIN(least, session->said_version) : least;
    }
    return least;
}
