#include "coordinator/state.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMIT_IDLE_US UINT64_C(1000000)       /* a COMMIT record only spares the next start a guess: it waits for a quiet second */
#define SNAPSHOT_AFTER_BYTES (UINT64_C(64) << 20)

/* ---- making */

static void fill_config(struct coord *coord, const struct coord_config *config)
{
    coord->config = *config;
    snprintf(coord->cluster_id, sizeof coord->cluster_id, "%.*s", (int)config->cluster_id.bytes, config->cluster_id.null ? "" : config->cluster_id.data);
    snprintf(coord->voter_host, sizeof coord->voter_host, "%.*s", (int)config->voter_host.bytes, config->voter_host.null ? "" : config->voter_host.data);
    coord->config.cluster_id = ot_str_of(coord->cluster_id);
    coord->config.voter_host = ot_str_of(coord->voter_host);
    coord->config.snapshot_after_bytes = config->snapshot_after_bytes == 0 ? SNAPSHOT_AFTER_BYTES : config->snapshot_after_bytes;
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
    if (!config->cluster_id.null && !ot_str_equal(format->cluster_id, config->cluster_id)) {
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

static enum ot_err take_image(struct coord *coord, struct coord_disk_image *image, char *text, size_t text_bytes)
{
    coord->pages = image->pages;
    coord->blank = image->blank;
    if (!image->blank) {
        snprintf(coord->cluster_id, sizeof coord->cluster_id, "%.*s", (int)image->format.cluster_id.bytes, image->format.cluster_id.data);
        coord->config.cluster_id = ot_str_of(coord->cluster_id);
    }
    coord->term = image->term;
    coord->journal_bytes = image->journal_bytes;
    coord_value_init(&coord->next, image->pages);
    coord->version_used = image->committed.stamp.version;
    if (image->has_accepted) {
        const struct coord_accept *accepted = &image->accepted;
        struct coord_value trial = coord_value_share(&image->committed);
        bool fits = accepted->delta.bytes <= coord->deltas[0].cap_bytes && coord_delta_apply(&trial, accepted->delta) == OT_OK
            && trial.state_hash == accepted->state_hash;
        coord_value_drop(&trial);
        if (!fits) {
            snprintf(text, text_bytes, "the change accepted as version %lld does not lead to its state hash", (long long)accepted->stamp.version);
            return OT_ERR_CORRUPT;
        }
        if (accepted->delta.bytes > 0) {
            memcpy(coord->deltas[0].data, accepted->delta.data, accepted->delta.bytes);    /* the first publication is made in the other buffer */
        }
        coord->accepted_delta = coord_blob(coord->deltas[0].data, accepted->delta.bytes);
        coord->version_used = accepted->stamp.version;
    }
    coord->committed = image->committed;       /* the last thing that can happen: from here on it is ours */
    coord_value_init(&image->committed, image->pages);
    return OT_OK;
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
    for (int i = 0; i < 2; i++) {
        coord->deltas[i] = (struct coord_delta){ .data = malloc(config->delta_bytes_max), .cap_bytes = config->delta_bytes_max };
    }
    coord->brokers = calloc(config->brokers_max, sizeof *coord->brokers);
    coord->order = calloc(config->brokers_max, sizeof *coord->order);
    coord->scratch = malloc(COORD_SCRATCH_BYTES);
    coord->live.brokers = coord->brokers;
    coord->commit_due_us = UINT64_MAX;
    ot_rng_seed(&coord->rng, seed);
    err = OT_ERR_NO_MEMORY;
    if (coord->deltas[0].data == NULL || coord->deltas[1].data == NULL || coord->brokers == NULL || coord->order == NULL
        || coord->scratch == NULL) {
        goto fail;
    }
    if ((err = take_image(coord, image, text_out, text_bytes)) != OT_OK) {
        goto fail;
    }
    *out = coord;
    return OT_OK;
fail:
    coord_free(coord);
    return err;
}

void coord_free(struct coord *coord)
{
    if (coord == NULL) {
        return;
    }
    if (coord->pages != NULL) {
        coord_value_drop(&coord->committed);
        coord_value_drop(&coord->next);
    }
    free(coord->deltas[0].data);
    free(coord->deltas[1].data);
    free(coord->brokers);
    free(coord->order);
    free(coord->scratch);
    free(coord);
}

/* ---- outputs */

static void trace(struct coord *coord, uint64_t word) { coord->trace = (coord->trace ^ word) * UINT64_C(0x9fb21c651e98df25) + (coord->trace >> 29); }

static struct coord_out *push(struct coord *coord, enum coord_out_kind kind)
{
    OT_ASSERT(coord->out_count < COORD_OUTS_MAX);
    struct coord_out *out = &coord->outs[(coord->out_first + coord->out_count++) % COORD_OUTS_MAX];
    *out = (struct coord_out){ .kind = kind };
    trace(coord, (uint64_t)kind + 100);
    return out;
}

static void requests_add(struct coord_requests *list, struct coord_request *request)
{
    request->next = NULL;
    if (list->last != NULL) {
        list->last->next = request;
    } else {
        list->first = request;
    }
    list->last = request;
}

static struct coord_request *requests_take(struct coord_requests *list)
{
    struct coord_request *request = list->first;
    if (request != NULL) {
        list->first = request->next;
        list->last = list->first == NULL ? NULL : list->last;
        request->next = NULL;
    }
    return request;
}

static void answer_all(struct coord *coord, struct coord_requests *list, enum ot_err error, const char *text)
{
    for (struct coord_request *request; (request = requests_take(list)) != NULL;) {
        if (error != OT_OK && request->error == OT_OK) {
            coord_refuse(request, error, "%s", text);
        }
        requests_add(&coord->answered, request);
    }
}

static void halt(struct coord *coord, enum ot_err error, const char *text)
{
    if (coord->phase == COORD_PHASE_HALTED) {
        return;
    }
    coord->phase = COORD_PHASE_HALTED;
    coord->in_flight = false;
    struct coord_out *out = push(coord, COORD_HALT);
    out->error = error;
    snprintf(out->text, sizeof out->text, "%s", text);
    answer_all(coord, &coord->merged, OT_ERR_CLOSED, "the coordinator stopped; whether the change was made is not known");
    answer_all(coord, &coord->waiting, OT_ERR_CLOSED, "the coordinator stopped");
}

static void store(struct coord *coord, bool sync)
{
    struct coord_out *out = push(coord, COORD_STORE);
    out->token = coord->token_waited = ++coord->token_last;
    out->sync = sync;
    out->record = &coord->store;
    trace(coord, (uint64_t)coord->store.kind);
}

enum ot_err coord_refuse(struct coord_request *request, enum ot_err error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(request->text, sizeof request->text, format, args);
    va_end(args);
    request->error = error;
    return error;
}

/* ---- requests into a delta */

static enum ot_err decide(struct coord_turn *turn)
{
    static enum ot_err (*const asks[])(struct coord_turn *) = {
        [COORD_ASK_REGISTER] = coord_ask_register, [COORD_ASK_HEARTBEAT] = coord_ask_heartbeat, [COORD_ASK_CREATE_TOPIC] = coord_ask_create_topic,
        [COORD_ASK_DELETE_TOPIC] = coord_ask_delete_topic, [COORD_ASK_CREATE_PARTITIONS] = coord_ask_create_partitions,
        [COORD_ASK_CONFIGS] = coord_ask_configs, [COORD_ASK_PRODUCER_IDS] = coord_ask_producer_ids, [COORD_ASK_DURABLE] = coord_ask_durable
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

static enum ot_err found(struct coord *coord)              /* §6: version 1 of a cluster of one */
{
    struct coord_edit edit = { &coord->next, &coord->deltas[coord->delta_at] };
    struct ot_coord_cluster_row cluster;
    struct ot_coord_voter_row voter;
    ot_coord_cluster_row_defaults(&cluster);
    cluster.cluster_id = coord->config.cluster_id;
    cluster.feature_level = 1;
    ot_coord_voter_row_defaults(&voter);
    voter.dir_id = coord->config.dir_id;
    voter.host = coord->config.voter_host;
    voter.port = coord->config.voter_port;
    enum ot_err err = coord_cluster_put(&edit, &cluster);
    return err == OT_OK ? coord_voter_put(&edit, coord->config.node_id, &voter) : err;
}

static void publish(struct coord *coord)
{
    const struct coord_delta *delta = &coord->deltas[coord->delta_at];
    coord->version_used = coord->next.stamp.version;
    coord->in_flight = true;
    coord->store = (struct coord_record){ .kind = COORD_RECORD_ACCEPT, .u.accept = { .stamp = coord->next.stamp, .base = coord->committed.stamp,
        .state_hash = coord->next.state_hash, .voters = { coord->config.node_id }, .voter_count = 1, .delta = coord_blob(delta->data, delta->bytes) } };
    coord->journal_bytes += (delta->bytes + COORD_RECORD_OVERHEAD_MAX + 4095) / 4096 * 4096;
    trace(coord, coord->next.state_hash);
    store(coord, true);
}

/* Start the next publication, if there is reason for one and none is in flight. first: the one that begins a term, published in any case. */
static void start_publication(struct coord *coord, bool first)
{
    if (coord->in_flight || (!first && (coord->phase != COORD_PHASE_LEADING || coord->waiting.first == NULL))) {
        return;
    }
    coord->delta_at ^= 1;
    struct coord_delta *delta = &coord->deltas[coord->delta_at];
    delta->bytes = delta->row_count = 0;
    coord->next = coord_value_share(&coord->committed);
    coord->next.stamp = (struct coord_stamp){ coord->term.term, coord->version_used + 1 };
    enum ot_err err = OT_OK;
    if (first && coord->accepted_delta.bytes > 0) {        /* what an earlier term accepted may be chosen: it goes first, unchanged, on the same base */
        memcpy(delta->data, coord->accepted_delta.data, coord->accepted_delta.bytes);
        delta->bytes = coord->accepted_delta.bytes;
        delta->row_count = 1;
        err = coord_delta_apply(&coord->next, coord->accepted_delta);
    } else if (first && coord->committed.row_count == 0) {
        err = found(coord);
    }
    if (err != OT_OK || (err = coord_live_load(coord)) != OT_OK) {
        halt(coord, err, "the first publication of the term could not be made");
        return;
    }
    while (!first && coord->waiting.first != NULL) {
        struct coord_request *request = coord->waiting.first;
        if (!merge(coord, request)) {
            break;
        }
        requests_add(&coord->merged, requests_take(&coord->waiting));
    }
    if (first || delta->row_count > 0) {
        publish(coord);
        return;
    }
    coord_value_drop(&coord->next);            /* nothing changes: answers rest on what is committed already */
    answer_all(coord, &coord->merged, OT_OK, "");
}

/* ---- storage answered */

static void begin_term(struct coord *coord)
{
    coord->phase = COORD_PHASE_TERM;
    coord->term = (struct coord_term){ coord->term.term + 1, coord->config.node_id };  /* never again in a term of before the restart */
    coord->store = (struct coord_record){ .kind = COORD_RECORD_TERM, .u.term = coord->term };
    store(coord, true);
}

static void begin(struct coord *coord)
{
    if (!coord->blank) {
        begin_term(coord);
        return;
    }
    coord->phase = COORD_PHASE_FORMAT;
    uint64_t founding = coord_row_hash(coord_blob(&coord->config.node_id, sizeof coord->config.node_id), coord_blob(coord->config.dir_id.bytes, 16));
    coord->store = (struct coord_record){ .kind = COORD_RECORD_FORMAT,
        .u.format = { coord->config.cluster_id, coord->config.node_id, coord->config.dir_id, founding } };
    store(coord, true);
}

static void maybe_snapshot(struct coord *coord)
{
    if (coord->snapshot_token == 0 && coord->journal_bytes > OT_MAX(coord->config.snapshot_after_bytes, coord->committed.row_bytes)) {
        struct coord_out *out = push(coord, COORD_SNAPSHOT);
        out->token = coord->snapshot_token = ++coord->token_last;
        out->stamp = coord->committed.stamp;
        coord->journal_bytes = 0;
    }
}

/* Accepted by a majority of one: committed, applied, answered. */
static void commit(struct coord *coord)
{
    const struct coord_delta *delta = &coord->deltas[coord->delta_at];
    bool first = coord->phase == COORD_PHASE_FIRST;
    coord->in_flight = false;
    coord->accepted_delta = (struct ot_blob){ 0 };
    coord_value_drop(&coord->committed);
    coord->committed = coord->next;
    coord_value_init(&coord->next, coord->pages);
    coord->commit_due_us = coord->now_us + COMMIT_IDLE_US;
    struct coord_out *out = push(coord, COORD_APPLY);
    out->stamp = coord->committed.stamp;
    out->delta = coord_blob(delta->data, delta->bytes);
    if (first) {
        coord->phase = COORD_PHASE_LEADING;
        coord->blank = false;
        out = push(coord, COORD_ROLE);
        out->leading = true;
        out->stamp = coord->committed.stamp;
    }
    answer_all(coord, &coord->merged, OT_OK, "");
    maybe_snapshot(coord);
}

static void stored(struct coord *coord, uint64_t token)
{
    if (token == coord->snapshot_token && token != 0) {
        coord->snapshot_token = 0;
        return;
    }
    if (token != coord->token_waited || token == 0) {
        return;                                /* a COMMIT, written at leisure */
    }
    coord->token_waited = 0;
    switch (coord->phase) {
    case COORD_PHASE_FORMAT: begin_term(coord); break;
    case COORD_PHASE_TERM:                     /* joins of a majority: of one */
        coord->phase = COORD_PHASE_FIRST;
        start_publication(coord, true);
        break;
    case COORD_PHASE_FIRST:
    case COORD_PHASE_LEADING: commit(coord); break;
    case COORD_PHASE_NEW:
    case COORD_PHASE_HALTED: break;
    }
}

static void store_failed(struct coord *coord, uint64_t token, enum ot_err error)
{
    if (token == coord->snapshot_token && token != 0) {
        coord->snapshot_token = 0;             /* tried again after as much journal once more; the old files are whole */
    } else if (token == coord->token_waited && error == OT_ERR_NO_SPACE && coord->phase == COORD_PHASE_LEADING) {
        coord->token_waited = 0;
        coord->in_flight = false;
        coord_value_drop(&coord->next);        /* nobody saw it; its version is not used again */
        answer_all(coord, &coord->merged, OT_ERR_NO_SPACE, "the disk of the metadata is full: nothing was changed");
    } else if (token == coord->token_waited || error != OT_ERR_NO_SPACE) {     /* a COMMIT that found no room is not missed */
        halt(coord, error, "metadata could not be written");
    }
}

static void tick(struct coord *coord)
{
    if (coord->phase == COORD_PHASE_NEW) {
        begin(coord);
    } else if (coord->now_us >= coord->commit_due_us && !coord->in_flight) {
        coord->commit_due_us = UINT64_MAX;
        coord->lazy = (struct coord_record){ .kind = COORD_RECORD_COMMIT, .u.commit = coord->committed.stamp };
        struct coord_out *out = push(coord, COORD_STORE);
        out->token = ++coord->token_last;
        out->record = &coord->lazy;
        coord->journal_bytes += 4096;
    }
}

/* ---- the surface */

void coord_step(struct coord *coord, const struct coord_in *in)
{
    coord->now_us = in->now_us;
    trace(coord, (uint64_t)in->kind ^ in->token << 8 ^ in->now_us << 20);
    if (coord->phase == COORD_PHASE_HALTED) {
        if (in->kind == COORD_REQUEST) {
            coord_refuse(in->request, OT_ERR_CLOSED, "the coordinator stopped");
            requests_add(&coord->answered, in->request);
        }
        return;
    }
    switch (in->kind) {
    case COORD_TICK: tick(coord); break;
    case COORD_STORED: stored(coord, in->token); break;
    case COORD_STORE_FAILED: store_failed(coord, in->token, in->error); break;
    case COORD_REQUEST:
        trace(coord, (uint64_t)in->request->ask);
        requests_add(&coord->waiting, in->request);
        break;
    case COORD_MSG:
    case COORD_PEER_LOST: break;               /* one voter: nobody to hear from */
    }
    start_publication(coord, false);
}

bool coord_next(struct coord *coord, struct coord_out *out)
{
    if (coord->out_count > 0) {
        *out = coord->outs[coord->out_first];
        coord->out_first = (coord->out_first + 1) % COORD_OUTS_MAX;
        coord->out_count--;
        return true;
    }
    struct coord_request *request = requests_take(&coord->answered);
    if (request == NULL) {
        return false;
    }
    trace(coord, (uint64_t)request->error);
    *out = (struct coord_out){ .kind = COORD_REPLY, .request = request };
    return true;
}

uint64_t coord_deadline_us(const struct coord *coord)
{
    if (coord->phase == COORD_PHASE_NEW) {
        return 0;
    }
    return coord->phase == COORD_PHASE_HALTED || coord->in_flight ? UINT64_MAX : coord->commit_due_us;
}

const struct coord_value *coord_view(const struct coord *coord) { return &coord->committed; }
int32_t coord_term(const struct coord *coord) { return coord->term.term; }
uint64_t coord_hash(const struct coord *coord) { return coord->trace; }
