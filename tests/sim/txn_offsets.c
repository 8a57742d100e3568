#include "txn_offsets.h"

#include "base/util.h"
#include "coordinator/group.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 80000, PRODUCERS_MAX = 256 };
#define HOLDS(fact) ((fact) ? (void)0 : failed(#fact, __LINE__))

struct entry { bool marker, commit; int64_t producer_id; int16_t producer_epoch; struct ot_blob key, value; };
struct pending { int64_t producer_id, order, offset; };
static struct {
    uint64_t seed;
    bool forgets_markers;
    struct group_set *set;
    struct group_config config;
    struct ot_mem_pool pool;
    struct ot_arena step;
    struct entry *log; int64_t count;
    int64_t next, order;                       /* the next offset to be committed; records so far */
    struct pending pending[PRODUCERS_MAX]; int pending_count;
    int64_t best_order, best_offset;           /* as the model has it */
} o;

OT_NORETURN static void failed(const char *fact, int line)
{
    fprintf(stderr, "FAILED seed %llu, offsets, line %d: %s\n", (unsigned long long)o.seed, line, fact);
    exit(1);
}

static struct group_env env(void) { return (struct group_env){ .now_us = o.count + 1, .wall_ms = 1700000000000, .config = &o.config }; }

static struct ot_blob keep(struct ot_blob from)
{
    uint8_t *copy = malloc(from.bytes + 1u);
    HOLDS(copy != NULL);
    if (from.bytes > 0) memcpy(copy, from.data, from.bytes);
    return (struct ot_blob){ copy, from.bytes, from.null };
}

static void load(void)
{
    struct group_out out;
    const struct group_env now = env();
    HOLDS(group_set_new(&o.pool, o.seed, &o.set) == OT_OK);
    for (int64_t i = 0; i < o.count; i++) {
        const struct entry *entry = &o.log[i];
        const struct group_set_record record = { i, entry->producer_id, entry->producer_epoch, entry->producer_id >= 0, entry->key, entry->value };
        if (entry->marker) group_set_marker(o.set, entry->producer_id, entry->producer_epoch, entry->commit);
        else HOLDS(group_set_replay(o.set, &record) == OT_OK);
    }
    group_out_init(&out, &o.step);
    group_set_loaded(o.set, &now, &out);
    ot_arena_reset(&o.step);
}

static void check(void)
{
    struct group_part part;
    struct group_out out;
    const struct group_env now = env();
    for (int stable = 0; stable < 2; stable++) {
        part = (struct group_part){ .topic = ot_str_of("t") };
        struct group_ask ask = { .kind = GROUP_ASK_OFFSET_FETCH, .group_id = ot_str_of("g"), .parts = &part, .part_count = 1, .arena = &o.step, .generation = -1, .require_stable = stable == 1 };
        group_out_init(&out, &o.step);
        group_set_ask(o.set, &now, &ask, &out);
        HOLDS(ask.error == OT_OK);
        if (stable == 1 && o.pending_count > 0) HOLDS(part.error == OT_ERR_UNSTABLE_OFFSET_COMMIT);
        else HOLDS(part.error == OT_OK && part.offset == o.best_offset);
        ot_arena_reset(&o.step);
    }
}

static void commit(int64_t producer_id, int16_t producer_epoch)
{
    struct group_part part = { .topic = ot_str_of("t"), .offset = o.next++, .leader_epoch = -1, .metadata = ot_str_of("") };
    struct group_ask ask = { .kind = producer_id < 0 ? GROUP_ASK_OFFSET_COMMIT : GROUP_ASK_TXN_OFFSET_COMMIT, .version = 8, .group_id = ot_str_of("g"), .client_id = ot_str_of(""),
        .client_host = ot_str_of(""), .arena = &o.step, .parts = &part, .part_count = 1, .member_id = ot_str_of(""), .instance_id = { .null = true }, .generation = -1, .retention_ms = -1,
        .producer_id = producer_id, .producer_epoch = producer_epoch };
    struct group_out out;
    const struct group_env now = env();
    group_out_init(&out, &o.step);
    group_set_ask(o.set, &now, &ask, &out);
    HOLDS(ask.error == OT_OK && part.error == OT_OK && out.fail == OT_OK && out.record_count == 1 && out.producer_id == producer_id);
    HOLDS(o.count < ENTRIES_MAX);
    o.log[o.count++] = (struct entry){ .producer_id = producer_id, .producer_epoch = producer_epoch, .key = keep(out.records->key), .value = keep(out.records->value) };
    ot_arena_reset(&o.step);
    const int64_t order = ++o.order;
    if (producer_id < 0) {
        o.best_order = order;
        o.best_offset = part.offset;
        return;
    }
    group_out_init(&out, &o.step);
    group_set_txn_written(o.set, &now, &ask, &out);
    HOLDS(out.fail == OT_OK);
    ot_arena_reset(&o.step);
    int at = 0;
    while (at < o.pending_count && o.pending[at].producer_id != producer_id) at++;
    HOLDS(at < PRODUCERS_MAX);
    if (at == o.pending_count) o.pending_count++;
    o.pending[at] = (struct pending){ producer_id, order, part.offset };
}

void txn_offsets_append(int64_t producer_id, int16_t producer_epoch)
{
    commit(producer_id, producer_epoch);
    check();
}

void txn_offsets_plain(void)
{
    commit(-1, -1);
    check();
}

void txn_offsets_marker(int64_t producer_id, int16_t producer_epoch, bool commits)
{
    HOLDS(o.count < ENTRIES_MAX);
    o.log[o.count++] = (struct entry){ .marker = true, .commit = commits, .producer_id = producer_id, .producer_epoch = producer_epoch };
    for (int i = 0; i < o.pending_count; i++) {
        if (o.pending[i].producer_id != producer_id) continue;
        if (commits && o.pending[i].order > o.best_order) {
            o.best_order = o.pending[i].order;
            o.best_offset = o.pending[i].offset;
        }
        o.pending[i] = o.pending[--o.pending_count];
        break;
    }
    if (!o.forgets_markers || o.count % 50 != 0) group_set_marker(o.set, producer_id, producer_epoch, commits);
    check();
}

static void close_set(void)
{
    struct group_out out;
    group_out_init(&out, &o.step);
    group_set_close(o.set, OT_ERR_NOT_COORDINATOR, &out);
    group_set_free(o.set);
    HOLDS(ot_mem_used_bytes(&o.pool) == 0);
}

void txn_offsets_restart(void)
{
    close_set();
    load();
    check();
}

void txn_offsets_begin(uint64_t seed, bool forgets_markers)
{
    memset(&o, 0, sizeof o);
    o.seed = seed;
    o.forgets_markers = forgets_markers;
    o.best_offset = -1;
    o.pool = (struct ot_mem_pool){ .name = "groups", .cap_bytes = 64u << 20 };
    o.config = (struct group_config){ .session_timeout_min_ms = 6000, .session_timeout_max_ms = 1800000, .group_size_max = 1000, .offset_metadata_bytes_max = 4096,
        .offsets_retention_ms = 604800000, .offsets_check_interval_ms = 600000, .record_bytes_max = 1 << 20 };
    o.log = calloc(ENTRIES_MAX, sizeof *o.log);
    HOLDS(o.log != NULL);
    ot_arena_init(&o.step, 16u << 20);
    load();
}

void txn_offsets_end(void)
{
    HOLDS(o.pending_count == 0);               /* every transaction ended */
    txn_offsets_restart();
    close_set();
    for (int64_t i = 0; i < o.count; i++) {
        free((void *)(uintptr_t)o.log[i].key.data);
        free((void *)(uintptr_t)o.log[i].value.data);
    }
    free(o.log);
    ot_arena_free(&o.step);
}
