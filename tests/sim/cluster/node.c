#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIR_PATH "/data/meta"

struct node *node_by_id(struct cluster *w, int32_t id) { return id >= 1 && id <= (int32_t)w->node_count ? &w->nodes[id - 1] : NULL; }

static uint64_t clock_us(const struct cluster *w, const struct node *node)
{
    return node->clock_base_us + (uint64_t)((double)(w->now_us - node->clock_start_us) * node->rate);
}

uint64_t node_deadline_us(const struct cluster *w, const struct node *node)
{
    if (!node->up || node->halted) {
        return UINT64_MAX;
    }
    uint64_t deadline = coord_deadline_us(node->coord), now = clock_us(w, node), at = w->now_us;
    if (deadline == UINT64_MAX) {
        return UINT64_MAX;
    }
    if (deadline > now) {
        at += (uint64_t)((double)(deadline - now) / node->rate) + 1;
    }
    return OT_MAX(at, node->paused_until_us);
}

/* ---- storage: one job at a time, done some time after it was asked for */

static void job_next(struct cluster *w, struct node *node)
{
    if (!node->job_busy && node->job_count > 0) {
        node->job_busy = true;
        uint64_t delay = ot_rng_chance(&w->rng, 0.05) ? ot_rng_below(&w->rng, 300000) : 30 + ot_rng_below(&w->rng, 3000);
        delay += node->disk_slow_until_us > w->now_us ? ot_rng_below(&w->rng, 3000000) : 0;
        cluster_event(w, (struct event){ .kind = EVENT_JOB, .at_us = w->now_us + delay, .node = (uint32_t)(node - w->nodes), .life = node->life });
    }
}

static enum ot_err write_record(struct cluster *w, struct node *node, const struct job *job)
{
    uint64_t pos = node->journal.end_pos;
    enum ot_err err = broker_journal_write(&node->journal, &job->record, job->sync);
    if (err != OT_OK) {
        return err;
    }
    if (job->record.kind == COORD_RECORD_TERM) {
        node->durable_term = job->record.u.term.term;
        node->durable_vote = job->record.u.term.voted_for;
        node->term_rotten = 0;
    } else {
        node->last_record_pos = pos;
        node->last_is_accept = job->record.kind == COORD_RECORD_ACCEPT && job->sync;
    }
    if (job->record.kind == COORD_RECORD_ACCEPT) {
        node->durable_accepted = job->record.u.accept.stamp;
        if (node->damaged_term >= 0 && job->record.u.accept.stamp.term > node->damaged_term) {
            node->damaged_term = -1;
        }
    }
    check_store(w, node, &job->record);
    return OT_OK;
}

void node_job(struct cluster *w, struct node *node)
{
    struct job job = node->jobs[node->job_first];
    enum ot_err err = write_record(w, node, &job);
    node->job_first = (node->job_first + 1) % JOBS_MAX;
    node->job_count--;
    node->job_busy = false;
    if (!w->calm && err == OT_OK && ot_rng_chance(&w->rng, w->swarm.kills_at_store)) {         /* stored, and it never hears of it */
        node_stop(w, node, ot_rng_chance(&w->rng, 0.5));
        cluster_event(w, (struct event){ .kind = EVENT_START, .at_us = w->now_us + ot_rng_below(&w->rng, 500000), .node = (uint32_t)(node - w->nodes), .life = node->life });
        return;
    }
    job_next(w, node);
    node_step(w, node, (struct coord_in){ .kind = err == OT_OK ? COORD_STORED : COORD_STORE_FAILED, .token = job.token, .error = err });
}

static void snapshot_begin(struct cluster *w, struct node *node, const struct coord_out *out)
{
    struct coord_value share = coord_value_share(out->value);
    CHECK(node->snapshot.token == 0);
    CHECK(node->job_count == 0);
    w->wholes += out->value != coord_view(node->coord);
    node->snapshot.token = out->token;
    node->snapshot.mark = broker_journal_mark(&node->journal);
    node->snapshot.written = broker_snapshot_write(sim_disk_io(node->disk), DIR_PATH, &share, node->snapshot.name, &node->snapshot.result) == OT_OK;
    coord_value_drop(&share);
    cluster_event(w, (struct event){ .kind = EVENT_SNAPSHOT, .at_us = w->now_us + ot_rng_below(&w->rng, 20000), .node = (uint32_t)(node - w->nodes), .life = node->life });
}

void node_snapshot_end(struct cluster *w, struct node *node)
{
    if (node->job_busy) {                      /* a job of its own, behind what is being written */
        cluster_event(w, (struct event){ .kind = EVENT_SNAPSHOT, .at_us = w->now_us + 1000, .node = (uint32_t)(node - w->nodes), .life = node->life });
        return;
    }
    uint64_t token = node->snapshot.token;
    struct ot_str id = coord_cluster_id(node->coord);
    snprintf(node->cluster_id, sizeof node->cluster_id, "%.*s", (int)id.bytes, id.data);
    node->format = (struct coord_format){ .cluster_id = ot_str_of(node->cluster_id), .node_id = node->id, .dir_id = node->dir_id };
    enum ot_err err = node->snapshot.written ? broker_journal_switch(&node->journal, &node->format, &node->snapshot.result, &node->snapshot.mark) : OT_ERR_IO;
    node->snapshot.token = 0;
    node->last_is_accept = false;
    if (err == OT_OK && coord_stamp_below(node->durable_accepted, node->snapshot.result.stamp)) {
        node->durable_accepted = node->snapshot.result.stamp;
        if (node->damaged_term >= 0 && node->snapshot.result.stamp.term > node->damaged_term) {
            node->damaged_term = -1;
        }
    }
    w->snapshots += err == OT_OK;
    node_step(w, node, (struct coord_in){ .kind = err == OT_OK ? COORD_STORED : COORD_STORE_FAILED, .token = token, .error = err });
}

/* ---- steps */

static void carry_out(struct cluster *w, struct node *node, const struct coord_out *out)
{
    if (w->setup.verbose && (out->kind == COORD_ROLE || out->kind == COORD_APPLY)) {
        int32_t ids[COORD_VOTERS_MAX];
        uint32_t count = coord_voters_of(coord_view(node->coord), ids, NULL);
        printf("%.6f node %d %s leading %d stamp %d/%lld leader %d voters", (double)w->now_us / 1e6, node->id, out->kind == COORD_ROLE ? "ROLE" : "APPLY", out->leading,
            out->stamp.term, (long long)out->stamp.version, out->leader);
        for (uint32_t i = 0; i < count; i++) {
            printf(" %d", ids[i]);
        }
        printf("\n");
    }
    switch (out->kind) {
    case COORD_STORE:
        CHECK(node->job_count < JOBS_MAX);
        CHECK(!node->observer);
        node->jobs[(node->job_first + node->job_count++) % JOBS_MAX] = (struct job){ .token = out->token, .sync = true, .record = *out->record };     /* as the server does */
        job_next(w, node);
        break;
    case COORD_SNAPSHOT: snapshot_begin(w, node, out); break;
    case COORD_APPLY:
        check_apply(w, node, out);
        if (w->setup.host != NULL) {
            w->setup.applied(w->setup.host, (uint32_t)(node - w->nodes));
        }
        break;
    case COORD_ROLE:
        node->leading = out->leading;
        if (out->leading) {
            check_leading(w, node);
        }
        break;
    case COORD_REPLY: client_answered(w, node, out->request); break;
    case COORD_HALT:
        if (out->error == OT_ERR_UNSUPPORTED_VERSION && w->swarm.builds && !w->calm) {
            w->levels_unknown++;               /* it is started again, with another build by and by */
            node->halted = true;
            break;
        }
        if (out->error != OT_ERR_IO && out->error != OT_ERR_NO_SPACE) {
            fprintf(stderr, "node %d halts: %s: %s\n", node->id, ot_err_name(out->error), out->text);
        }
        CHECK(out->error == OT_ERR_IO || out->error == OT_ERR_NO_SPACE);
        node->halted = true;
        break;
    case COORD_SEND: {
        struct node *to = node_by_id(w, (int32_t)out->peer);
        CHECK(to != NULL && to != node);
        check_send(w, node, out);
        cluster_send(w, (uint32_t)(node - w->nodes), (uint32_t)(to - w->nodes), out->body);
        break;
    }
    }
}

void node_step(struct cluster *w, struct node *node, struct coord_in in)
{
    struct coord_out out;
    uint64_t life = node->life;
    in.now_us = clock_us(w, node);
    if (w->setup.verbose && in.kind == COORD_MSG) {
        struct coord_message m;
        if (coord_message_decode(in.body, &m) == OT_OK && m.kind != COORD_HEARTBEAT && m.kind != COORD_HEARTBEAT_ACK) {
            printf("%.6f node %d <- %d kind %d term %d accepted %d/%lld committed %d/%lld answer %d unsure %d leader %d\n", (double)w->now_us / 1e6, node->id, m.sender, m.kind,
                m.term, m.accepted.stamp.term, (long long)m.accepted.stamp.version, m.committed.stamp.term, (long long)m.committed.stamp.version, m.answer, m.unsure,
                m.leader);
        }
    }
    coord_step(node->coord, &in);
    while (node->life == life && coord_next(node->coord, &out)) {
        carry_out(w, node, &out);
    }
    if (node->life == life) {
        check_bounds(w, node);
        w->trace = w->trace * UINT64_C(0x100000001b3) ^ coord_hash(node->coord) ^ w->now_us;
    }
}

/* ---- life */

static struct coord_config config_of(const struct cluster *w, const struct node *node)
{
    struct coord_config config = { .node_id = node->id, .dir_id = node->dir_id, .min_isr_default = w->setup.min_isr, .session_us = w->setup.session_us, .partitions_max = 100000, .brokers_max = 8,
        .delta_bytes_max = 64 << 10, .snapshot_after_bytes = SNAPSHOT_AFTER_BYTES, .observer = node->observer, .join = node->learner,
        .history_bytes = 24 << 10, .cluster_id = { .null = true }, .levels = node->levels };
    static char founding[NODES_MAX][24];
    snprintf(founding[node->id - 1], sizeof founding[0], "cluster-%d-%u", node->id, node->dir_number);
    if (!node->observer && !node->learner) {
        config.cluster_id = ot_str_of(founding[node->id - 1]);
    } else if (node->observer) {
        config.cluster_id = ot_str_of(w->founded_as);
    }
    for (uint32_t i = 0; i < w->voter_count; i++) {
        config.voters[config.voter_count++] = (struct coord_listed_voter){ w->nodes[i].id, ot_str_of("h"), 9093 };
    }
    return config;
}

void node_rebuild(struct cluster *w, struct node *node)
{
    static const struct coord_levels builds[] = { { 1, 1 }, { 1, 1 }, { 1, 2 }, { 1, 2 }, { 1, BUILDS_NEWEST }, { 2, BUILDS_NEWEST } };
    if (w->swarm.builds && w->calm) {
        node->levels = (struct coord_levels){ 1, BUILDS_NEWEST };
    } else if (w->swarm.builds && (node->levels.max == 0 || ot_rng_chance(&w->build_rng, 0.4))) {
        node->levels = builds[ot_rng_below(&w->build_rng, OT_ARRAY_COUNT(builds))];
    }
}

void node_starts(struct cluster *w, struct node *node)
{
    if (w->setup.host != NULL) {
        w->setup.starts(w->setup.host, (uint32_t)(node - w->nodes));
    } else {
        node_start(w, node);
    }
}

void node_start(struct cluster *w, struct node *node)
{
    char text[400] = "";
    struct coord_disk_image image;
    if (node->observer && w->founded_as[0] == 0) {         /* nothing to observe yet */
        cluster_event(w, (struct event){ .kind = EVENT_START, .at_us = w->now_us + 500000, .node = (uint32_t)(node - w->nodes), .life = node->life });
        return;
    }
    node_rebuild(w, node);
    struct coord_config config = config_of(w, node);
    struct ot_io *io = sim_disk_io(node->disk);
    sim_disk_faults(node->disk, &(struct sim_faults){ 0 });
    ot_ignore(io->ops->mkdir(io, "/data"), "it is there already, but for a crash before anything was");
    coord_image_init(&image, node->pages);
    enum ot_err err = node->observer ? OT_OK : broker_journal_open(&node->journal, sim_disk_io(node->disk), DIR_PATH, &image, text, sizeof text);
    /* it says so, and its owner gives it an empty folder; one copy of the term is enough, if no write of the other one failed */
    if (err == OT_ERR_CORRUPT && (node->rotten || node->term_rotten == 3 || (node->term_rotten != 0 && w->swarm.disk_faults))) {
        coord_image_free(&image);
        w->rots_told++;
        node_wipe(w, node);
        node_start(w, node);
        return;
    }
    if (err != OT_OK) {
        fprintf(stderr, "node %d: %s %s\n", node->id, ot_err_name(err), text);
    }
    CHECK(err == OT_OK);
    check_begin(w, node, &image);
    node->rotten = node->torn = false;
    if (image.unsure && node->damaged_term < 0) {          /* torn: nobody was told of it, but it cannot know that */
        node->damaged_term = node->durable_term;
    }
    node->durable_term = image.term.term;      /* a write that was cut off may be there all the same */
    node->durable_vote = image.term.voted_for;
    const struct coord_stamp there = image.has_accepted && coord_stamp_below(image.committed.stamp, image.accepted.stamp) ? image.accepted.stamp : image.committed.stamp;
    if (coord_stamp_below(node->durable_accepted, there)) {    /* accepted and committed, both cut off */
        node->durable_accepted = there;
    }
    if (!image.blank) {                        /* as it was founded, not as this start would found */
        config.cluster_id = (struct ot_str){ .null = true };
    }
    node->clock_base_us = ot_rng_below(&w->rng, 1000000000);
    node->clock_start_us = w->now_us;
    node->rate = 1 - w->swarm.rate_spread + 2 * w->swarm.rate_spread * (double)ot_rng_below(&w->rng, 1000) / 1000;
    node->up = true;
    node->halted = node->leading = node->job_busy = false;
    node->job_first = node->job_count = 0;
    node->snapshot.token = 0;
    node->applied = image.committed.stamp;
    node->last_is_accept = false;
    err = coord_new(&config, &image, ot_rng_next(&w->rng), &node->coord, text, sizeof text);
    coord_image_free(&image);
    if (err == OT_ERR_UNSUPPORTED_VERSION && w->swarm.builds && !w->calm) {        /* what it has on its disk is of a later build */
        w->levels_unknown++;
        broker_journal_close(&node->journal);
        node->up = false;
        node->life++;
        cluster_event(w, (struct event){ .kind = EVENT_START, .at_us = w->now_us + 100000 + ot_rng_below(&w->build_rng, 2000000), .node = (uint32_t)(node - w->nodes), .life = node->life });
        return;
    }
    if (err != OT_OK) {
        fprintf(stderr, "node %d: %s %s\n", node->id, ot_err_name(err), text);
    }
    CHECK(err == OT_OK);
    node_step(w, node, (struct coord_in){ .kind = COORD_TICK });
}

void node_stop(struct cluster *w, struct node *node, bool machine)
{
    if (!node->up) {
        return;
    }
    if (!node->observer) {
        if (node->job_count > 0 && !node->halted && !cluster_in_doubt(w) && ot_rng_chance(&w->rng, 0.5)) {         /* in the middle of a write; of a process: it is there, and not on the disk */
            struct job job = node->jobs[node->job_first];
            sim_disk_power_off_after(node->disk, 1 + ot_rng_below(&w->rng, 4));
            ot_ignore(write_record(w, node, &job), "nobody is told");
        }
        if (machine && node->journal.unsynced && cluster_misses_one(w)) {
            node->journal.unsynced = sim_disk_io(node->disk)->ops->fdatasync(sim_disk_io(node->disk), node->journal.fd) != OT_OK;
        }
        node->torn = node->journal.broken || (machine && node->journal.unsynced);
        broker_journal_close(&node->journal);
        sim_disk_power_off_after(node->disk, UINT64_MAX);
        if (machine) {
            sim_disk_crash_machine(node->disk);
        } else {
            sim_disk_crash_process(node->disk);
        }
    }
    node->life++;
    node->up = false;
    w->crashes++;
    clients_of_stopped(w, node);
    coord_free(node->coord);
    node->coord = NULL;
    CHECK(coord_pages_used_bytes(node->pages) == 0);
    if (w->setup.host != NULL) {
        w->setup.stopped(w->setup.host, (uint32_t)(node - w->nodes));
    }
}

void node_wipe(struct cluster *w, struct node *node)
{
    sim_disk_free(node->disk);
    node->disk = sim_disk_new(ot_rng_next(&w->rng));
    struct ot_io *io = sim_disk_io(node->disk);
    ot_ignore(io->ops->mkdir(io, "/data"), "new");
    ot_ignore(io->ops->sync_dir(io, "/"), "new");
    node->dir_number += NODES_MAX;
    ot_store_u32(node->dir_id.bytes, node->dir_number);
    node->wiped = true;
    node->durable_term = 0;
    node->durable_vote = -1;
    node->durable_accepted = (struct coord_stamp){ 0 };
    node->damaged_term = -1;
    node->rotten = node->torn = false;
    node->term_rotten = 0;
    w->wipes++;
}
