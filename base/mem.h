/* The memory budget: one limit, split into named pools with hard caps. A pool only counts; who takes from it allocates, and at the cap
 * pushes back on its peer instead. The table below is the split: what it leaves over is for the heap that nothing here counts
 * (code, stacks, idle partitions, descriptors of connections). */
#ifndef OT_BASE_MEM_H
#define OT_BASE_MEM_H

#include "base/buf.h"

/*    name             permille  min bytes  max bytes        what */
#define OT_MEM_POOLS(X) \
    X(requests,             140,   4 << 20, INT64_C(8) << 30, "request bytes in flight, from the socket to the disk") \
    X(small_requests,        10,   4 << 20, INT64_C(1) << 28, "those of requests of at most 16 KiB each: large ones that are long on their way take no room from them") \
    X(responses,             80,   4 << 20, INT64_C(4) << 30, "response bytes that wait for a socket") \
    X(decoding,              80,   4 << 20, INT64_C(2) << 30, "decoding windows and recompressed batches") \
    X(producers,             50,   1 << 20, INT64_C(2) << 30, "idempotent and transactional producer state") \
    X(peers,                 50,   8 << 20, INT64_C(2) << 30, "messages to other brokers and their answers, and what they send that is large") \
    X(peer_requests,         10,   4 << 20, INT64_C(1) << 28, "requests of other brokers of at most 64 KiB each: large ones that are long on their way take no room from them") \
    X(peer_responses,        10,   8 << 20, INT64_C(1) << 30, "answers to other brokers that wait for a socket: clients that do not read theirs take no room from them") \
    X(metadata,              80,   4 << 20, INT64_C(4) << 30, "pages of the metadata image and its history") \
    X(cleaning,              60,   1 << 20, INT64_C(8) << 30, "keys of partitions that are being compacted") \
    X(groups,                50,   1 << 20, INT64_C(2) << 30, "consumer groups and their offsets, transactional ids") \
    X(sessions,              30,   1 << 20, INT64_C(1) << 30, "fetch sessions") \
    X(rest,                  30,   2 << 20, INT64_C(1) << 28, "bodies of the REST API") \
    X(metrics,               20,   1 << 20, INT64_C(1) << 28, "metric series and their history") \
    /* end */

enum ot_mem_pool_id {
#define X(name, permille, min, max, what) OT_MEM_##name,
    OT_MEM_POOLS(X)
#undef X
    OT_MEM_POOL_COUNT
};

struct ot_mem_spec { const char *name; uint32_t permille; uint64_t min_bytes, max_bytes; const char *what; };
extern const struct ot_mem_spec ot_mem_specs[OT_MEM_POOL_COUNT];

struct ot_mem_pool {
    const char *name;
    uint64_t cap_bytes;
    _Atomic uint64_t used_bytes, peak_bytes, refused_count;
    struct ot_pool *buffers;           /* when the pool's memory is counted there; freed with the budget */
};
struct ot_mem_budget {
    uint64_t limit_bytes;
    const char *source;                /* "ottla.memory.bytes", "cgroup v2", …: static text, for the log */
    uint64_t over_bytes;               /* by how much the caps exceed the limit, since minima and overrides win; 0 is usual */
    uint32_t pool_count;
    struct ot_mem_pool *pools;
};
struct ot_mem_override { const char *name; uint64_t bytes; };      /* bytes 0: as the table says */

/* limit_bytes 0: from the cgroup or the machine. A cap is the override if there is one, else permille of the limit within min and max.
 * NOT_FOUND: an override names no pool. NO_MEMORY. pools may be borrowed until free; no thread may use it before init returned. */
OT_MUST_CHECK enum ot_err ot_mem_budget_init(struct ot_mem_budget *budget, uint64_t limit_bytes, const struct ot_mem_spec *specs, uint32_t spec_count,
    const struct ot_mem_override *overrides, size_t override_count);
void ot_mem_budget_free(struct ot_mem_budget *budget);
struct ot_mem_pool *ot_mem_pool_find(const struct ot_mem_budget *budget, const char *name);      /* NULL when there is none */

/* The pooled buffers of that name: cap from the budget, an eighth of it kept in reserve at most; used counts there from then on.
 * The same at each call; freed with the budget, when every buffer is back. */
OT_MUST_CHECK struct ot_pool *ot_mem_pool_buffers(struct ot_mem_pool *pool);

/* Any thread. take answers false at the cap and counts nothing; force counts in any case; give returns what was counted. */
OT_MUST_CHECK bool ot_mem_take(struct ot_mem_pool *pool, uint64_t bytes);
void ot_mem_force(struct ot_mem_pool *pool, uint64_t bytes);
void ot_mem_give(struct ot_mem_pool *pool, uint64_t bytes);
uint64_t ot_mem_used_bytes(const struct ot_mem_pool *pool);

/* Shows limit, use, cap and refusals of every pool as memory_*. The budget outlives the metrics. */
struct ot_metrics;
void ot_mem_watch(struct ot_mem_budget *budget, struct ot_metrics *metrics);

#endif
