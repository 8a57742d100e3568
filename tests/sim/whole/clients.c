/* Clients that ask anybody: a producer of each partition whose records are idempotent and acknowledged by all, one at a time and again until it knows; records with acks=1; a consumer of each. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

struct sent { struct whole *whole; uint32_t broker, partition; uint64_t id, number; };

static uint32_t anybody(struct whole *whole, uint32_t partition)
{
    struct world *w = &whole->w;
    const int32_t leader = w->rows[partition].leader;
    return leader > 0 && ot_rng_chance(&w->rng, 0.7) ? (uint32_t)leader - 1 : (uint32_t)ot_rng_below(&w->rng, w->broker_count);
}

static bool serves(const struct whole *whole, uint32_t index)
{
    return whole->w.brokers[index].up && cluster_paused_until_us(whole->cluster, index) <= whole->w.now_us && !server_is_off(whole->hosts[index].server);
}

static struct ot_buf *batch(struct whole *whole, uint64_t id, const struct batch_producer *producer)
{
    return batch_of(whole->pool, (struct record){ -1, id }, 0, 1750000000000 + (int64_t)(whole->w.now_us / 1000), producer);
}

static bool is_committed(const struct world *w, uint32_t partition, int64_t offset, uint64_t id)
{
    return offset < w->committed_end[partition] && w->committed[partition][offset].id == id;
}

/* ---- acks=all */

/* What was acknowledged is committed, where the answer says. */
static void acked_all(void *arg, enum ot_err err, int64_t base_offset)
{
    struct sent *sent = arg;
    struct whole *whole = sent->whole;
    struct world *w = &whole->w;
    struct sender *sender = &whole->senders[sent->partition];
    if (sender->number == sent->number) {
        sender->busy = false;
        sender->again_us = w->now_us + ot_rng_below(&w->rng, err == OT_OK ? 60000 : 200000);
        if (err == OT_OK) {
            mirror_look(whole, sent->broker);  /* the answer comes with the step that made it true */
            HOLDS(18, w->swarm.beyond || (base_offset >= 0 && is_committed(w, sent->partition, base_offset, sent->id)));
            w->producers[sent->partition].acked = sent->id;
            w->producers[sent->partition].open = false;
            sender->sequence++;
            w->acked++;
        }
    }
    free(sent);
}

static void produce_all(struct whole *whole, uint32_t partition)
{
    struct world *w = &whole->w;
    struct sender *sender = &whole->senders[partition];
    struct producer *producer = &w->producers[partition];
    const uint32_t index = anybody(whole, partition);
    if (sender->losses != w->ledger_count[partition] || sender->producer_id == 0) {        /* it was told that something may be gone: it begins anew */
        *sender = (struct sender){ .producer_id = (int64_t)++w->ids, .losses = w->ledger_count[partition], .number = sender->number + 1 };
        producer->open = false;
    }
    if (sender->busy || sender->again_us > w->now_us || !serves(whole, index)) {
        return;
    }
    if (!producer->open) {
        producer->id = PRODUCED | ++w->ids;
        producer->open = true;
    }
    struct sent *sent = malloc(sizeof *sent);
    *sent = (struct sent){ whole, index, partition, producer->id, ++sender->number };
    sender->busy = true;
    whole->puts++;
    const struct batch_producer as = { sender->producer_id, 0, sender->sequence };
    server_produce(whole->hosts[index].server, (int32_t)partition, batch(whole, producer->id, &as), -1, 400 + (int32_t)ot_rng_below(&w->rng, 1500), acked_all, sent);
    mirror_look(whole, index);
}

/* ---- acks=1 */

/* 20: under a strict lease nobody had written as its successor when it took that. 26: if it was moved since, whoever leads instead had it, or was given it before it knew. */
static void told_once(struct whole *whole, const struct sent *sent, const struct held *held)
{
    struct world *w = &whole->w;
    const struct taken *taken = &whole->taken[sent->id];
    CHECK(taken->is);
    const int64_t moved_end = w->moved_end[sent->partition][taken->epoch];
    const bool stays = held->replica.role == REPLICA_LEADER && held->replica.row.leader_epoch >= w->last_append_epoch[sent->partition] && held->end > taken->offset
        && held->log[taken->offset].id == sent->id;        /* it leads again, and has it */
    HOLDS(20, !w->swarm.strict || !taken->late || stays);
    HOLDS(26, stays || moved_end == 0 || taken->offset < moved_end - 1 || is_committed(w, sent->partition, taken->offset, sent->id));
    if (held->end > taken->offset && held->log[taken->offset].id == sent->id) {
        w->once[sent->partition][taken->offset] = sent->id;
    }
    whole->once_at[sent->partition] = sent->broker;
    w->acked_once++;
}

/* Taken by who led, at that offset: it may be gone later, and nothing else is there before it is. */
static void acked_once(void *arg, enum ot_err err, int64_t base_offset)
{
    struct sent *sent = arg;
    struct world *w = &sent->whole->w;
    if (err == OT_OK) {
        mirror_look(sent->whole, sent->broker);
        const struct held *held = &w->brokers[sent->broker].held[sent->partition];
        HOLDS(18, base_offset >= 0 && (base_offset >= held->end || held->log[base_offset].id == sent->id || held->replica.role != REPLICA_LEADER));
        told_once(sent->whole, sent, held);
    }
    free(sent);
}

void client_asks_once(struct whole *whole, uint32_t partition, uint32_t index)
{
    struct world *w = &whole->w;
    if (!serves(whole, index)) {
        return;
    }
    struct sent *sent = malloc(sizeof *sent);
    *sent = (struct sent){ whole, index, partition, ++w->ids, 0 };
    server_produce(whole->hosts[index].server, (int32_t)partition, batch(whole, sent->id, NULL), 1, 1000, acked_once, sent);
    mirror_look(whole, index);
}

/* ---- consumers */

/* 19: what anybody is shown was committed, and stays. */
static void consumed(void *arg, enum ot_err err, const uint8_t *data, size_t bytes)
{
    struct sent *sent = arg;
    struct whole *whole = sent->whole;
    struct world *w = &whole->w;
    struct consumer *consumer = &whole->consumers[sent->partition];
    struct ot_reader cursor = ot_reader_over((void *)(uintptr_t)data, bytes);
    struct eng_batch_piece piece;
    struct eng_batch_info info;
    consumer->busy = false;
    if (err == OT_OK || err == OT_ERR_OFFSET_OUT_OF_RANGE) {
        mirror_look(whole, sent->broker);
    }
    if (err == OT_ERR_OFFSET_OUT_OF_RANGE) {   /* what it wants next was deleted */
        consumer->offset = OT_MAX(consumer->offset, w->brokers[sent->broker].held[sent->partition].start);
    }
    while (err == OT_OK && eng_batch_split(&cursor, &piece) == OT_OK) {
        CHECK(eng_batch_parse(piece.data, piece.bytes, &info) == OT_OK);
        if (info.base_offset < consumer->offset) {
            continue;
        }
        const struct record record = batch_record(&piece, &info);
        HOLDS(19, w->swarm.beyond || (info.base_offset == consumer->offset && info.base_offset < w->committed_end[sent->partition]
            && w->committed[sent->partition][info.base_offset].id == record.id));
        consumer->offset = info.base_offset + 1;
        whole->seen_by_consumers++;
    }
    free(sent);
}

static void consume(struct whole *whole, uint32_t partition)
{
    struct world *w = &whole->w;
    struct consumer *consumer = &whole->consumers[partition];
    const uint32_t index = anybody(whole, partition);
    if (w->swarm.beyond) {
        consumer->offset = OT_MIN(consumer->offset, w->committed_end[partition]);
    }
    if (consumer->busy || !serves(whole, index)) {
        return;
    }
    struct sent *sent = malloc(sizeof *sent);
    *sent = (struct sent){ whole, index, partition, 0, 0 };
    consumer->busy = true;
    server_fetch(whole->hosts[index].server, (int32_t)partition, consumer->offset, consumed, sent);
    mirror_look(whole, index);
}

/* ---- DeleteRecords */

/* 30: who was told so finds it so, whatever crashes. */
static void deleted(void *arg, enum ot_err err, int64_t start)
{
    struct sent *sent = arg;
    struct whole *whole = sent->whole;
    struct held *held = &whole->w.brokers[sent->broker].held[sent->partition];
    if (err == OT_OK) {
        mirror_look(whole, sent->broker);
    }
    if (err == OT_OK && held->truncations == (int64_t)sent->number) {      /* else it is no replica any more, or was none for a while: that log is gone */
        HOLDS(30, held->start >= start);
        held->told_start = OT_MAX(held->told_start, start);
        whole->deletions++;
    }
    free(sent);
}

static void delete_some(struct whole *whole, uint32_t partition)
{
    struct world *w = &whole->w;
    const uint32_t index = anybody(whole, partition);
    if (!serves(whole, index)) {
        return;
    }
    const bool all = ot_rng_chance(&w->rng, 0.3);      /* that is committed */
    const int64_t end = w->committed_end[partition], before = all ? end : w->deleted_to[partition] + (int64_t)ot_rng_below(&w->rng, (uint64_t)(end - w->deleted_to[partition]) + 1);
    struct sent *sent = malloc(sizeof *sent);
    *sent = (struct sent){ whole, index, partition, 0, (uint64_t)w->brokers[index].held[partition].truncations };
    w->deleted_to[partition] = OT_MAX(w->deleted_to[partition], before);
    server_delete(whole->hosts[index].server, (int32_t)partition, before, deleted, sent);
    mirror_look(whole, index);
}

void clients_look(struct whole *whole)
{
    struct world *w = &whole->w;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        produce_all(whole, p);
        if (ot_rng_chance(&w->rng, 0.1)) {
            consume(whole, p);
        }
    }
    if (w->now_us >= w->next_produce_us) {
        const uint32_t partition = (uint32_t)ot_rng_below(&w->rng, PARTITIONS);
        client_asks_once(whole, partition, ot_rng_chance(&w->rng, 0.3) ? whole->once_at[partition] : anybody(whole, partition));
        w->next_produce_us = w->now_us + ot_rng_below(&w->rng, 60000);
    }
    if (w->now_us < whole->stranded.until_us && ot_rng_chance(&w->rng, 0.3)) {
        client_asks_once(whole, whole->stranded.partition, whole->stranded.broker);
    }
    if (w->swarm.deletes && w->now_us >= whole->next_delete_us) {
        delete_some(whole, (uint32_t)ot_rng_below(&w->rng, PARTITIONS));
        whole->next_delete_us = w->now_us + ot_rng_below(&w->rng, 3000000);
    }
}
