#include "coordinator/state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SNAPSHOT_AFTER_BYTES (UINT64_C(64) << 20)
#define HISTORY_BYTES (UINT64_C(4) << 20)
#define OR_DEFAULT(value, usual) ((value) == 0 ? (usual) : (value))

/* ---- making */

void coord_set_cluster_id(struct coord *coord, struct ot_str id)
{
    char text[sizeof coord->cluster_id];
    snprintf(text, sizeof text, "%.*s", (int)id.bytes, id.null || id.data == NULL ? "" : id.data);
    memcpy(coord->cluster_id, text, sizeof text);
    coord->config.cluster_id = ot_str_of(coord->cluster_id);
    coord->cluster = coord->cluster_id[0] == 0 ? 0 : coord_cluster_hash(coord->config.cluster_id);
}

static void copy_text(char *out, size_t cap_bytes, struct ot_str text)
{
    snprintf(out, cap_bytes, "%.*s", (int)text.bytes, text.null || text.data == NULL ? "" : text.data);
}

/* The list in order of ids, and what it is known by. */
static void fill_list(struct coord *coord, const struct coord_config *config)
{
    coord->list_hash = 0;
    for (uint32_t i = 0; i < config->voter_count; i++) {
        uint32_t at = i;
        for (; at > 0 && coord->listed[at - 1].id > config->voters[i].id; at--) {
            coord->listed[at] = coord->listed[at - 1];
            memcpy(coord->listed_hosts[at], coord->listed_hosts[at - 1], sizeof coord->listed_hosts[at]);
        }
        coord->listed[at] = config->voters[i];
        copy_text(coord->listed_hosts[at], sizeof coord->listed_hosts[at], config->voters[i].host);
    }
    for (uint32_t i = 0; i < config->voter_count; i++) {
        struct coord_listed_voter *one = &coord->listed[i];
        one->host = ot_str_of(coord->listed_hosts[i]);
        coord->list_hash += coord_row_hash(coord_blob(&one->id, sizeof one->id), coord_blob(one->host.data, one->host.bytes)) ^ (uint64_t)one->port;
    }
    coord->founder = !config->join && !config->observer && (config->voter_count == 0 || coord->listed[0].id == config->node_id);
}

static void fill_config(struct coord *coord, const struct coord_config *config)
{
    coord->config = *config;
    coord_set_cluster_id(coord, config->cluster_id);
    copy_text(coord->voter_host, sizeof coord->voter_host, config->voter_host);
    coord->config.voter_host = ot_str_of(coord->voter_host);
    coord->config.snapshot_after_bytes = OR_DEFAULT(config->snapshot_after_bytes, SNAPSHOT_AFTER_BYTES);
    coord->config.election_timeout_us = OR_DEFAULT(config->election_timeout_us, UINT64_C(1000000));
    coord->config.heartbeat_us = OR_DEFAULT(config->heartbeat_us, UINT64_C(100000));
    coord->config.history_bytes = OR_DEFAULT(config->history_bytes, HISTORY_BYTES);
    coord->config.levels = config->levels.max == 0 ? coord_levels_known() : config->levels;
    coord->config.voter_count = OT_MIN(config->voter_count, (uint32_t)COORD_VOTERS_MAX);
    fill_list(coord, &coord->config);
}

static enum ot_err check_image(const struct coord_config *config, const struct coord_disk_image *image, char *text, size_t text_bytes)
{
    const struct coord_format *format = &image->format;
    if (image->blank) {
        return OT_OK;
    }
    if (format->node_id != config->node_id) {
        snprintf(text, text_bytes, "the metadata belongs to node %d, this is node %d", format->node_id, config->node_id);
        return OT_ERR_MISMATCH;
    }
    if (!config->cluster_id.null && config->cluster_id.data != NULL && !ot_str_equal(format->cluster_id, config->cluster_id)) {
        snprintf(text, text_bytes, "the metadata belongs to cluster %.*s, the data to cluster %.*s", (int)format->cluster_id.bytes, format->cluster_id.data,
            (int)config->cluster_id.bytes, config->cluster_id.data);
        return OT_ERR_MISMATCH;
    }
    if (!ot_uuid_equal(&format->dir_id, &config->dir_id)) {
        snprintf(text, text_bytes, "the metadata was written in another directory than the one it lies in");
        return OT_ERR_MISMATCH;
    }
    return OT_OK;
}

static enum ot_err take_accepted(struct coord *coord, const struct coord_disk_image *image, char *text, size_t text_bytes)
{
    const struct coord_accept *accepted = &image->accepted;
    struct coord_value trial = coord_value_share(&image->committed);
    if (accepted->delta.bytes > coord->deltas[0].cap_bytes || coord_delta_apply(&trial, accepted->delta) != OT_OK || trial.state_hash != accepted->state_hash) {
        coord_value_drop(&trial);
        snprintf(text, text_bytes, "the change accepted as version %lld does not lead to its state hash", (long long)accepted->stamp.version);
        return OT_ERR_CORRUPT;
    }
    if (accepted->delta.bytes > 0) {
        memcpy(coord->deltas[0].data, accepted->delta.data, accepted->delta.bytes);    /* the next one is made in the other buffer */
    }
    trial.stamp = accepted->stamp;
    coord->accepted = (struct coord_accepted){ true, trial, coord_blob(coord->deltas[0].data, accepted->delta.bytes) };
    coord->version_used = accepted->stamp.version;
    return OT_OK;
}

/* A value that this build could not read whole, or write as the others do. */
static enum ot_err check_level(const struct coord *coord, const struct coord_value *value, char *text, size_t text_bytes)
{
    const struct coord_levels known = coord->config.levels;
    const int16_t level = coord_value_level(value);
    if (coord_levels_have(known, level)) {
        return OT_OK;
    }
    coord_level_words(level, known, text, text_bytes);
    return OT_ERR_UNSUPPORTED_VERSION;
}

static enum ot_err take_image(struct coord *coord, struct coord_disk_image *image, char *text, size_t text_bytes)
{
    coord->pages = image->pages;
    coord->blank = image->blank;
    if (!image->blank) {
        coord_set_cluster_id(coord, image->format.cluster_id);
        coord->joins = image->format.founding_hash == COORD_FORMAT_JOINED;
    }
    coord->term = image->term;
    coord->term_seen = image->term.term;
    int32_t term_known = image->has_accepted ? image->accepted.stamp.term : image->committed.stamp.term;
    if (term_known > coord->term.unsure_term) {
        coord->term.unsure_term = 0;           /* it accepted in a later term since */
    }
    if (image->unsure) {
        coord->term.unsure_term = OT_MAX(image->term.term, 1);
    }
    coord->journal_bytes = image->journal_bytes;
    coord_value_init(&coord->next, image->pages);
    coord_value_init(&coord->whole, image->pages);
    coord_value_init(&coord->accepted.value, image->pages);
    coord->version_used = image->committed.stamp.version;
    enum ot_err err = check_level(coord, &image->committed, text, text_bytes);
    if (err == OT_OK && image->has_accepted && (err = take_accepted(coord, image, text, text_bytes)) == OT_OK) {
        err = check_level(coord, &coord->accepted.value, text, text_bytes);
    }
    if (err == OT_OK) {
        coord->committed = image->committed;   /* the last thing that can happen: from here on it is ours */
        coord_value_init(&image->committed, image->pages);
        coord_members_load(coord);
    }
    return err;
}

static bool get_memory(struct coord *coord)
{
    const struct coord_config *config = &coord->config;
    for (int i = 0; i < 2; i++) {
        coord->deltas[i] = (struct coord_delta){ .data = malloc(config->delta_bytes_max), .cap_bytes = config->delta_bytes_max };
    }
    coord->parked_max = config->brokers_max + COORD_VOTERS_MAX;
    coord->outs_max = 256 + 2 * coord->parked_max;
    coord->bodies_cap = 2 * (uint64_t)config->delta_bytes_max + 512 * (uint64_t)coord->outs_max;
    coord->history_cap = config->history_bytes;
    coord->brokers = calloc(config->brokers_max, sizeof *coord->brokers);
    coord->order = calloc(config->brokers_max, sizeof *coord->order);
    coord->fenced_ids = calloc(config->brokers_max, sizeof *coord->fenced_ids);
    coord->scratch = malloc(COORD_SCRATCH_BYTES);
    coord->outs = calloc(coord->outs_max, sizeof *coord->outs);
    coord->bodies = malloc(coord->bodies_cap);
    coord->deltas_room = malloc(config->delta_bytes_max);
    coord->history_data = malloc(coord->history_cap);
    coord->sessions = calloc(config->brokers_max, sizeof *coord->sessions);
    coord->parked = calloc(coord->parked_max, sizeof *coord->parked);
    return coord->deltas[0].data != NULL && coord->deltas[1].data != NULL && coord->brokers != NULL && coord->order != NULL && coord->fenced_ids != NULL && coord->scratch != NULL
        && coord->outs != NULL && coord->bodies != NULL && coord->deltas_room != NULL && coord->sessions != NULL && coord->history_data != NULL && coord->parked != NULL;
}

enum ot_err coord_new(const struct coord_config *config, struct coord_disk_image *image, uint64_t seed, struct coord **out, char *text_out, size_t text_bytes)
{
    enum ot_err err = check_image(config, image, text_out, text_bytes);
    if (err != OT_OK) {
        return err;
    }
    struct coord *coord = calloc(1, sizeof *coord);
    if (coord == NULL) {
        return OT_ERR_NO_MEMORY;
    }
    fill_config(coord, config);
    coord->commit_due_us = coord->election_due_us = coord->heartbeat_due_us = coord->catch_up_due_us = coord->found_due_us = UINT64_MAX;
    coord->joined_term = coord->format_for = -1;
    coord->leader = -1;
    for (uint32_t i = 0; i < COORD_READERS_MAX; i++) {
        coord->readers[i].peer = -1;
    }
    ot_rng_seed(&coord->rng, seed);
    seed ^= COORD_BUG_CHANCE;
    ot_rng_seed(&coord->clock_rng, seed ^ UINT64_C(0x5deece66d) ^ ((uint64_t)config->node_id << 40));
    err = get_memory(coord) ? take_image(coord, image, text_out, text_bytes) : OT_ERR_NO_MEMORY;
    coord->live.brokers = coord->brokers;
    if (err != OT_OK) {
        coord_free(coord);
        return err;
    }
    *out = coord;
    return OT_OK;
}

void coord_free(struct coord *coord)
{
    if (coord == NULL) {
        return;
    }
    if (coord->pages != NULL) {
        coord_value_drop(&coord->committed);
        coord_value_drop(&coord->next);
        coord_value_drop(&coord->accepted.value);
        coord_value_drop(&coord->whole);
        for (uint32_t i = 0; i < COORD_READERS_MAX; i++) {
            if (coord->readers[i].peer != -1) {
                coord_value_drop(&coord->readers[i].value);
            }
        }
    }
    free(coord->deltas[0].data);
    free(coord->deltas[1].data);
    free(coord->brokers);
    free(coord->fenced_ids);
    free(coord->order);
    free(coord->scratch);
    free(coord->outs);
    free(coord->bodies);
    free(coord->deltas_room);
    free(coord->history_data);
    free(coord->sessions);
    free(coord->parked);
    free(coord);
}

/* ---- outputs */

void coord_trace(struct coord *coord, uint64_t word) { coord->trace = (coord->trace ^ word) * UINT64_C(0x9fb21c651e98df25) + (coord->trace >> 29); }

struct coord_out *coord_push(struct coord *coord, enum coord_out_kind kind)
{
    OT_ASSERT(coord->out_count < coord->outs_max);
    struct coord_out *out = &coord->outs[(coord->out_first + coord->out_count++) % coord->outs_max];
    *out = (struct coord_out){ .kind = kind };
    coord_trace(coord, (uint64_t)kind + 100);
    return out;
}

void coord_requests_add(struct coord_requests *list, struct coord_request *request)
{
    request->next = NULL;
    if (list->last != NULL) {
        list->last->next = request;
    } else {
        list->first = request;
    }
    list->last = request;
}

struct coord_request *coord_requests_take(struct coord_requests *list)
{
    struct coord_request *request = list->first;
    if (request != NULL) {
        list->first = request->next;
        list->last = list->first == NULL ? NULL : list->last;
        request->next = NULL;
    }
    return request;
}

void coord_answer_all(struct coord *coord, struct coord_requests *list, enum ot_err error, const char *text)
{
    for (struct coord_request *request; (request = coord_requests_take(list)) != NULL;) {
        if (error != OT_OK && request->error == OT_OK) {
            coord_refuse(request, error, "%s", text);
        }
        request->leader = coord->leader;
        coord_requests_add(&coord->answered, request);
    }
}

void coord_halt(struct coord *coord, enum ot_err error, const char *text)
{
    if (coord->phase == COORD_PHASE_HALTED) {
        return;
    }
    coord->phase = COORD_PHASE_HALTED;
    coord->in_flight = false;
    snprintf(coord->halt_text, sizeof coord->halt_text, "%s", text);
    struct coord_out *out = coord_push(coord, COORD_HALT);
    out->error = error;
    out->text = coord->halt_text;
    coord_answer_all(coord, &coord->merged, OT_ERR_CLOSED, "the coordinator stopped; whether the change was made is not known");
    coord_answer_all(coord, &coord->waiting, OT_ERR_CLOSED, "the coordinator stopped");
    coord_answer_all(coord, &coord->reads, OT_ERR_CLOSED, "the coordinator stopped");
}

void coord_store(struct coord *coord, enum coord_storing what)
{
    OT_ASSERT(coord->storing == COORD_STORING_NOTHING);
    struct coord_out *out = coord_push(coord, COORD_STORE);
    out->token = coord->token_waited = ++coord->token_last;
    out->sync = true;
    out->record = &coord->store;
    coord->storing = what;
    coord->storing_since_us = coord->now_us;
    coord->store.level = coord->level;
    coord_trace(coord, (uint64_t)coord->store.kind);
}

void coord_store_term(struct coord *coord, int32_t term, int32_t voted_for)
{
    coord->term_storing = (struct coord_term){ term, voted_for, coord->term.unsure_term };
    coord->term_seen = OT_MAX(coord->term_seen, term);
    coord->store = (struct coord_record){ .kind = COORD_RECORD_TERM, .u.term = coord->term_storing };
    coord_store(coord, COORD_STORING_TERM);
}

struct coord_mark coord_mark_of(const struct coord_value *value) { return (struct coord_mark){ value->stamp, value->state_hash }; }

struct coord_mark coord_accepted_mark(const struct coord *coord)
{
    const struct coord_mark mark = coord_mark_of(coord->accepted.has ? &coord->accepted.value : &coord->committed);
    return coord_stamp_below(mark.stamp, coord->let_go.stamp) ? coord->let_go : mark;
}

void coord_send(struct coord *coord, int32_t peer, struct coord_message *message)
{
    size_t bytes;
    if (peer == coord->config.node_id || peer < 0 || coord->out_count + 64 >= coord->outs_max) {
        return;                                /* as if the network had lost it */
    }
    message->sender = coord->config.node_id;
    message->dir_id = coord->config.dir_id;
    message->cluster = coord->blank && !coord->config.observer ? 0 : coord->cluster;
    message->term = message->kind == COORD_PRE_VOTE || message->kind == COORD_PRE_VOTE_ANSWER ? message->term : coord->term.term;
    message->leader = coord->leader;
    message->levels = coord->config.levels;
    message->level = message->kind == COORD_PUBLISH ? coord_value_level(&coord->next) : coord->level;
    if (coord_message_encode(message, coord->bodies + coord->bodies_used, coord->bodies_cap - coord->bodies_used, &bytes) != OT_OK) {
        return;
    }
    struct coord_out *out = coord_push(coord, COORD_SEND);
    out->peer = (uint32_t)peer;
    out->body = coord_blob(coord->bodies + coord->bodies_used, bytes);
    coord->bodies_used += bytes;
    coord_trace(coord, (uint64_t)message->kind << 32 ^ (uint64_t)(uint32_t)peer ^ message->committed.state_hash);
}

/* ---- storage answered */

static void start(struct coord *coord)
{
    if (coord->blank && !coord->config.observer) {
        coord_founding_start(coord);
        return;
    }
    coord_vote_start(coord);
    coord->found_due_us = coord->alone ? UINT64_MAX : coord->now_us;     /* a founder that was stopped in the middle goes on */
}

static void stored(struct coord *coord, uint64_t token)
{
    if (token == coord->snapshot_token && token != 0) {
        coord->snapshot_token = 0;
        return;
    }
    if (token == coord->lazy_token && token != 0) {
        coord->lazy_token = 0;
        return;
    }
    if (token != coord->token_waited || token == 0) {
        return;
    }
    enum coord_storing what = coord->storing;
    coord->token_waited = 0;
    coord->storing = COORD_STORING_NOTHING;
    switch (what) {
    case COORD_STORING_FORMAT: coord_format_stored(coord); break;
    case COORD_STORING_TERM: coord_term_stored(coord); break;
    case COORD_STORING_WHOLE: coord_whole_stored(coord); break;
    case COORD_STORING_OWN:
    case COORD_STORING_ACCEPT:
    case COORD_STORING_CHANGES: coord_publication_stored(coord, what); break;
    case COORD_STORING_NOTHING: break;
    }
}

/* The disk is full, and the record is not there. */
static void no_room(struct coord *coord)
{
    enum coord_storing what = coord->storing;
    coord->token_waited = 0;
    coord->storing = COORD_STORING_NOTHING;
    coord_whole_drop(coord);
    coord_drop_next(coord);
    if (what != COORD_STORING_OWN) {
        coord->delta_at ^= coord->accepted.has && coord->accepted.delta.data != coord->deltas[coord->delta_at].data;       /* what stays accepted was made last: it is not written over while it is applied */
        return;                                /* asked again by and by */
    }
    coord->in_flight = false;
    if (coord->alone) {                        /* nobody saw it; its version is not used again */
        coord_answer_all(coord, &coord->merged, OT_ERR_NO_SPACE, "the disk of the metadata is full: nothing was changed");
    } else {                                   /* others may have taken it */
        coord_answer_all(coord, &coord->merged, OT_ERR_CLOSED, "the disk of the metadata is full; whether the change was made is not known");
        coord_follow(coord, -1);
    }
}

static void store_failed(struct coord *coord, uint64_t token, enum ot_err error)
{
    if (token == coord->snapshot_token && token != 0) {
        coord->snapshot_token = 0;             /* tried again after as much journal once more; the old files are whole */
    } else if (token == coord->lazy_token && error == OT_ERR_NO_SPACE) {
        coord->lazy_token = 0;                 /* a COMMIT that found no room is not missed */
    } else if (token == coord->token_waited && coord->storing == COORD_STORING_WHOLE) {
        coord->storing = COORD_STORING_NOTHING;
        coord->token_waited = 0;
        coord_whole_drop(coord);
    } else if (token == coord->token_waited && error == OT_ERR_NO_SPACE && coord->storing >= COORD_STORING_OWN && coord->phase != COORD_PHASE_FIRST) {
        no_room(coord);
    } else {
        coord_halt(coord, error, "metadata could not be written");
    }
}

static void tick(struct coord *coord)
{
    if (coord->phase == COORD_PHASE_NEW) {
        start(coord);
        return;
    }
    if (coord->now_us >= coord->commit_due_us && coord->storing == COORD_STORING_NOTHING && coord->lazy_token == 0) {
        coord->commit_due_us = UINT64_MAX;
        coord->lazy = (struct coord_record){ .kind = COORD_RECORD_COMMIT, .level = coord->level, .u.commit = coord->committed.stamp };
        struct coord_out *out = coord_push(coord, COORD_STORE);
        out->token = coord->lazy_token = ++coord->token_last;
        out->record = &coord->lazy;
        coord->journal_bytes += 4096;
    }
    coord_vote_tick(coord);
    coord_founding_tick(coord);
    coord_catch_up_tick(coord);
    coord_sessions_tick(coord);
}

/* ---- the surface */

static void message(struct coord *coord, const struct coord_in *in)
{
    struct coord_message message;
    if (coord_message_decode(in->body, &message) != OT_OK || message.sender == coord->config.node_id || message.sender != (int32_t)in->peer) {
        return;
    }
    coord_trace(coord, (uint64_t)message.kind << 32 ^ (uint64_t)(uint32_t)message.sender ^ message.committed.state_hash);
    if (message.kind == COORD_FOUND || message.kind == COORD_FOUND_ANSWER) {
        coord_founding_message(coord, &message);
        return;
    }
    if (coord->phase == COORD_PHASE_NEW || coord->phase == COORD_PHASE_BLANK || message.cluster != coord->cluster) {
        return;                                /* of another cluster, or of none yet */
    }
    if (message.level >= coord->level && !coord_level_knows(coord, message.level)) {   /* below: it is behind, and hears of the level from this node */
        return;
    }
    struct coord_peer *peer = coord_peer_find(coord, message.sender, &message.dir_id);
    if (peer != NULL && message.term == coord->term.term) {
        peer->levels = message.levels;
    }
    if (message.kind != COORD_PRE_VOTE && message.kind != COORD_PRE_VOTE_ANSWER) {     /* those only ask what if */
        coord->term_seen = OT_MAX(coord->term_seen, message.term);
    }
    switch (message.kind) {
    case COORD_PRE_VOTE:
    case COORD_PRE_VOTE_ANSWER:
    case COORD_START_JOIN:
    case COORD_JOIN:
    case COORD_HEARTBEAT:
    case COORD_HEARTBEAT_ACK: coord_vote_message(coord, &message); break;
    case COORD_PUBLISH:
    case COORD_ACCEPTED: coord_publish_message(coord, &message); break;
    case COORD_CATCH_UP:
    case COORD_CHANGES:
    case COORD_ROWS: coord_catch_up_message(coord, &message); break;
    case COORD_FOUND:
    case COORD_FOUND_ANSWER:
    case COORD_MESSAGE_KINDS: break;
    }
}

static void stop(struct coord *coord)
{
    coord->phase = COORD_PHASE_HALTED;
    coord->in_flight = false;
    coord_answer_all(coord, &coord->merged, OT_ERR_CLOSED, "this server is stopping; whether the change was made is not known");
    coord_answer_all(coord, &coord->waiting, OT_ERR_CLOSED, "this server is stopping");
    coord_answer_all(coord, &coord->reads, OT_ERR_CLOSED, "this server is stopping");
}

static void refuse_all_waiting(struct coord *coord)
{
    char text[COORD_TEXT_MAX];
    if (coord->leader != -1 && coord->leader != coord->config.node_id) {
        snprintf(text, sizeof text, "node %d is the coordinator", coord->leader);
    } else {
        snprintf(text, sizeof text, "there is no coordinator at the moment");
    }
    coord_answer_all(coord, &coord->waiting, OT_ERR_NOT_CONTROLLER, text);
    coord_answer_all(coord, &coord->reads, OT_ERR_NOT_CONTROLLER, text);
}

static void request(struct coord *coord, struct coord_request *request)
{
    coord_trace(coord, (uint64_t)request->ask);
    request->error = OT_OK;
    request->text[0] = 0;
    if (coord->phase == COORD_PHASE_HALTED) {
        coord_refuse(request, OT_ERR_CLOSED, "the coordinator stopped");
        coord_requests_add(&coord->answered, request);
        return;
    }
    request->round = -1;
    if (request->ask == COORD_ASK_RESIGN) {        /* no change of the value: nothing is published for it */
        if (coord->phase == COORD_PHASE_LEADING) {
            coord_resign(coord, request);
        } else {
            coord_refuse(request, OT_ERR_NOT_CONTROLLER, "node %d does not lead", coord->config.node_id);
        }
        coord_requests_add(&coord->answered, request);
        return;
    }
    coord_requests_add(request->ask == COORD_ASK_READ ? &coord->reads : &coord->waiting, request);
}

void coord_step(struct coord *coord, const struct coord_in *in)
{
    const uint64_t due_us = coord_deadline_us(coord), before_us = coord->now_us;
    coord->now_us = in->now_us;
    coord_sessions_slept(coord, due_us, before_us);
    coord->bodies_used = 0;
    coord_trace(coord, (uint64_t)in->kind ^ in->token << 8 ^ in->now_us << 20);
    if (in->kind == COORD_REQUEST) {
        request(coord, in->request);
    }
    if (coord->phase == COORD_PHASE_HALTED) {
        return;
    }
    switch (in->kind) {
    case COORD_TICK: tick(coord); break;
    case COORD_STORED: stored(coord, in->token); break;
    case COORD_STORE_FAILED: store_failed(coord, in->token, in->error); break;
    case COORD_MSG: message(coord, in); break;
    case COORD_REQUEST:
    case COORD_PEER_LOST: break;               /* time-outs see it soon enough */
    case COORD_STOP: stop(coord); return;
    }
    coord_start_publication(coord, false);
    coord_reads_start(coord);
    if (!coord->alone && coord->phase >= COORD_PHASE_BLANK && coord->phase <= COORD_PHASE_CANDIDATE) {
        refuse_all_waiting(coord);
    }
}

bool coord_next(struct coord *coord, struct coord_out *out)
{
    if (coord->out_count > 0) {
        *out = coord->outs[coord->out_first];
        coord->out_first = (coord->out_first + 1) % coord->outs_max;
        coord->out_count--;
        return true;
    }
    struct coord_request *request = coord_requests_take(&coord->answered);
    if (request == &coord->fence_request) {
        coord->fencing = false;
        request = coord_requests_take(&coord->answered);
    }
    if (request == NULL) {
        return false;
    }
    coord_trace(coord, (uint64_t)request->error);
    *out = (struct coord_out){ .kind = COORD_REPLY, .request = request };
    return true;
}

uint64_t coord_deadline_us(const struct coord *coord)
{
    if (coord->phase == COORD_PHASE_NEW) {
        return 0;
    }
    if (coord->phase == COORD_PHASE_HALTED) {
        return UINT64_MAX;
    }
    uint64_t commit_us = coord->storing != COORD_STORING_NOTHING || coord->lazy_token != 0 ? UINT64_MAX : coord->commit_due_us;
    return OT_MIN(OT_MIN(commit_us, coord_vote_deadline_us(coord)), OT_MIN(OT_MIN(coord->found_due_us, coord->catch_up_due_us), coord_sessions_deadline_us(coord)));
}

const struct coord_value *coord_view(const struct coord *coord) { return &coord->committed; }
int32_t coord_term(const struct coord *coord) { return coord->term.term; }
int32_t coord_leader(const struct coord *coord) { return coord->leader; }
struct ot_str coord_cluster_id(const struct coord *coord) { return coord->config.cluster_id; }
uint64_t coord_hash(const struct coord *coord) { return coord->trace; }
