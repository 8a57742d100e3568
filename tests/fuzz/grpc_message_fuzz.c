/* The decoders of gRPC requests: the first byte says which, the rest is the message. What they borrow must lie in the message, what they count must be there. */
#include "rpc/grpc/messages.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct ot_arena arena;
static const uint8_t *begin, *end;

/* Touches the bytes, so that a sanitizer sees a borrowed piece that is too long. */
static void look(const void *data, size_t bytes)
{
    static volatile uint8_t sum;
    const uint8_t *at = data;
    if (bytes > 0 && (at < begin || at + bytes > end)) abort();
    for (size_t i = 0; i < bytes; i++) sum = (uint8_t)(sum + at[i]);
}

static void look_str(struct ot_str text) { if (!text.null) look(text.data, text.bytes); }
static void look_blob(struct ot_blob blob) { if (!blob.null) look(blob.data, blob.bytes); }

static void produce(struct ot_blob body)
{
    struct rpcg_produce_ask ask;
    const char *why;
    if (rpcg_produce_decode(body, 1, &arena, &ask, &why) != OT_OK) return;
    if ((ask.record_count == 0) == ask.batches.null) abort();
    look_str(ask.topic);
    look_str(ask.transactional_id);
    look_blob(ask.batches);
    for (uint32_t i = 0; i < ask.record_count; i++) {
        look_blob(ask.records[i].key);
        look_blob(ask.records[i].value);
        for (uint32_t k = 0; k < ask.records[i].header_count; k++) {
            look_str(ask.records[i].headers[k].key);
            look_blob(ask.records[i].headers[k].value);
        }
    }
}

static void fetch(struct ot_blob body)
{
    struct rpcg_fetch_ask ask;
    const char *why;
    if (rpcg_fetch_decode(body, &ask, &why) != OT_OK) return;
    if (ask.partition < 0 || ask.max_bytes < 0 || ask.min_bytes < 0 || ask.max_wait_ms < 0 || ask.leader_epoch < -1) abort();
    look_str(ask.topic);
}

static void subscribe(struct ot_blob body)
{
    struct rpcg_subscribe_ask ask;
    const char *why;
    if (rpcg_subscribe_decode(body, &arena, &ask, &why) != OT_OK) return;
    if (ask.part_count == 0) abort();
    for (uint32_t i = 0; i < ask.part_count; i++) {
        if (ask.parts[i].partition < -1 || ask.parts[i].start < RPCG_START_LATEST || ask.parts[i].start > RPCG_START_TIMESTAMP) abort();
        look_str(ask.parts[i].topic);
    }
}

static void offsets(struct ot_blob body)
{
    struct rpcg_offsets_ask ask;
    const char *why;
    if (rpcg_offsets_decode(body, &arena, &ask, &why) != OT_OK) return;
    for (uint32_t i = 0; i < ask.part_count; i++) {
        if (ask.parts[i].partition < 0 || ask.parts[i].at < -3) abort();
        look_str(ask.parts[i].topic);
    }
}

static void metadata(struct ot_blob body)
{
    struct rpcg_metadata_ask ask;
    const char *why;
    if (rpcg_metadata_decode(body, &arena, &ask, &why) != OT_OK) return;
    for (uint32_t i = 0; i < ask.topic_count; i++) look_str(ask.topics[i]);
}

static void small(struct ot_blob body)
{
    struct rpcg_init_ask init;
    struct rpcg_health_ask health;
    struct rpcg_reflect_ask reflect;
    const char *why;
    if (rpcg_init_decode(body, &init, &why) == OT_OK) look_str(init.transactional_id);
    if (rpcg_health_decode(body, &health, &why) == OT_OK) look_str(health.service);
    if (rpcg_reflect_decode(body, &reflect, &why) == OT_OK) {
        look_str(reflect.host);
        look_str(reflect.name);
    }
}

static void commit(struct ot_blob body)
{
    struct rpcg_commit_ask ask;
    struct rpcg_committed_ask committed;
    struct rpcg_end_txn_ask ended;
    const char *why;
    if (rpcg_commit_decode(body, &arena, &ask, &why) == OT_OK) {
        if (ask.part_count == 0 || ask.group.bytes == 0 || ask.transactional_id.null != (ask.producer_id < 0)) abort();
        look_str(ask.group);
        look_str(ask.member_id);
        look_str(ask.instance_id);
        look_str(ask.transactional_id);
        for (uint32_t i = 0; i < ask.part_count; i++) {
            if (ask.parts[i].partition < 0 || ask.parts[i].offset < 0 || ask.parts[i].leader_epoch < -1) abort();
            look_str(ask.parts[i].topic);
            look_str(ask.parts[i].metadata);
        }
    }
    ot_arena_reset(&arena);
    if (rpcg_committed_decode(body, &arena, &committed, &why) == OT_OK)
        for (uint32_t i = 0; i < committed.part_count; i++) look_str(committed.parts[i].topic);
    if (rpcg_end_txn_decode(body, &ended, &why) == OT_OK) look_str(ended.transactional_id);
}

static void consume(struct ot_blob body)
{
    struct rpcg_consume_ask ask;
    const char *why;
    if (rpcg_consume_decode(body, &arena, &ask, &why) != OT_OK) return;
    for (uint32_t i = 0; i < ask.position_count; i++) look_str(ask.positions[i].topic);
    if (!ask.has_join) return;
    const struct rpcg_join_ask *join = &ask.join;
    if ((join->topic_count == 0) == (join->pattern.bytes == 0) || join->start == RPCG_START_OFFSET || join->max_bytes < 0) abort();
    const struct ot_str texts[] = { join->group, join->member_id, join->instance_id, join->assignor, join->rack, join->pattern };
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(texts); i++)
        if (texts[i].bytes > 0) look_str(texts[i]);
    for (uint32_t i = 0; i < join->topic_count; i++) look_str(join->topics[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static void (*const decoders[])(struct ot_blob body) = { produce, fetch, subscribe, offsets, metadata, small, commit, consume };
    static const uint8_t nothing[1];
    if (bytes == 0) return 0;
    begin = bytes > 1 ? data + 1 : nothing;
    end = begin + bytes - 1;
    ot_arena_init(&arena, 1u << 20);
    decoders[data[0] % OT_ARRAY_COUNT(decoders)]((struct ot_blob){ begin, (uint32_t)(bytes - 1), false });
    ot_arena_free(&arena);
    return 0;
}
