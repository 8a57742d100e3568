#include "base/mem.h"
#include "base/metrics.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

const struct ot_mem_spec ot_mem_specs[OT_MEM_POOL_COUNT] = {
#define X(name, permille, min, max, what) {#name, permille, min, max, what},
    OT_MEM_POOLS(X)
#undef X
};

struct ot_mem_pool *ot_mem_pool_find(const struct ot_mem_budget *budget, const char *name)
{
    for (uint32_t i = 0; i < budget->pool_count; i++) {
        if (strcmp(budget->pools[i].name, name) == 0) return &budget->pools[i];
    }
    return NULL;
}

static uint64_t share_bytes(uint64_t limit_bytes, const struct ot_mem_spec *spec)
{
    const uint64_t share = limit_bytes / 1000 * spec->permille;
    return OT_MAX(OT_MIN(share, spec->max_bytes), spec->min_bytes);
}

enum ot_err ot_mem_budget_init(struct ot_mem_budget *budget, uint64_t limit_bytes, const struct ot_mem_spec *specs,
    uint32_t spec_count, const struct ot_mem_override *overrides, size_t override_count)
{
    *budget = (struct ot_mem_budget){.limit_bytes = limit_bytes, .source = "configuration"};
    if (limit_bytes == 0) budget->limit_bytes = ot_os_memory_limit_bytes(&ot_os_files_real, &budget->source);
    budget->pools = calloc(OT_MAX(spec_count, 1u), sizeof(*budget->pools));
    if (budget->pools == NULL) return OT_ERR_NO_MEMORY;
    budget->pool_count = spec_count;
    for (uint32_t i = 0; i < spec_count; i++) {
        budget->pools[i].name = specs[i].name;
        budget->pools[i].cap_bytes = share_bytes(budget->limit_bytes, &specs[i]);
    }
    for (size_t i = 0; i < override_count; i++) {
        struct ot_mem_pool *pool = ot_mem_pool_find(budget, overrides[i].name);
        if (pool == NULL) {
            ot_mem_budget_free(budget);
            return OT_ERR_NOT_FOUND;
        }
        if (overrides[i].bytes > 0) pool->cap_bytes = overrides[i].bytes;
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < spec_count; i++) {
        if (__builtin_add_overflow(total, budget->pools[i].cap_bytes, &total)) total = UINT64_MAX;
    }
    budget->over_bytes = total > budget->limit_bytes ? total - budget->limit_bytes : 0;
    return OT_OK;
}

void ot_mem_budget_free(struct ot_mem_budget *budget)
{
    for (uint32_t i = 0; budget->pools != NULL && i < budget->pool_count; i++)
        if (budget->pools[i].buffers != NULL) ot_pool_free(budget->pools[i].buffers);
    free(budget->pools);
    budget->pools = NULL;
    budget->pool_count = 0;
}

struct ot_pool *ot_mem_pool_buffers(struct ot_mem_pool *pool)
{
    const size_t cap = (size_t)pool->cap_bytes;
    if (pool->buffers == NULL) pool->buffers = ot_pool_new(pool->name, cap, OT_MIN(cap / 8, (size_t)64 << 20));
    return pool->buffers;
}

static void raise_peak(struct ot_mem_pool *pool, uint64_t used)
{
    uint64_t peak = atomic_load_explicit(&pool->peak_bytes, memory_order_relaxed);
    while (peak < used &&
           !atomic_compare_exchange_weak_explicit(&pool->peak_bytes, &peak, used, memory_order_relaxed, memory_order_relaxed)) {
    }
}

bool ot_mem_take(struct ot_mem_pool *pool, uint64_t bytes)
{
    uint64_t used = atomic_load_explicit(&pool->used_bytes, memory_order_relaxed);
    do {
        if (bytes > pool->cap_bytes || used > pool->cap_bytes - bytes) {
            atomic_fetch_add_explicit(&pool->refused_count, 1, memory_order_relaxed);
            return false;
        }
    } while (
        !atomic_compare_exchange_weak_explicit(&pool->used_bytes, &used, used + bytes, memory_order_relaxed, memory_order_relaxed));
    raise_peak(pool, used + bytes);
    return true;
}

void ot_mem_force(struct ot_mem_pool *pool, uint64_t bytes)
{
    raise_peak(pool, atomic_fetch_add_explicit(&pool->used_bytes, bytes, memory_order_relaxed) + bytes);
}

void ot_mem_give(struct ot_mem_pool *pool, uint64_t bytes)
{
    const uint64_t before = atomic_fetch_sub_explicit(&pool->used_bytes, bytes, memory_order_relaxed);
    OT_ASSERT(before >= bytes);
}

uint64_t ot_mem_used_bytes(const struct ot_mem_pool *pool)
{
    return pool->buffers != NULL ? ot_pool_used_bytes(pool->buffers)
                                 : atomic_load_explicit(&pool->used_bytes, memory_order_relaxed);
}

static void give_used(void *arg, struct ot_metric_sink *sink)
{
    const struct ot_mem_budget *budget = arg;
    for (uint32_t i = 0; i < budget->pool_count; i++) {
        ot_metric_give(sink, &budget->pools[i].name, (double)ot_mem_used_bytes(&budget->pools[i]));
    }
}

static void give_caps(void *arg, struct ot_metric_sink *sink)
{
    const struct ot_mem_budget *budget = arg;
    for (uint32_t i = 0; i < budget->pool_count; i++) {
        ot_metric_give(sink, &budget->pools[i].name, (double)budget->pools[i].cap_bytes);
    }
}

static void give_refusals(void *arg, struct ot_metric_sink *sink)
{
    const struct ot_mem_budget *budget = arg;
    for (uint32_t i = 0; i < budget->pool_count; i++) {
        const struct ot_mem_pool *pool = &budget->pools[i];
        uint64_t refused = atomic_load_explicit(&pool->refused_count, memory_order_relaxed);
        if (pool->buffers != NULL) refused += ot_pool_refused_count(pool->buffers);
        ot_metric_give(sink, &pool->name, (double)refused);
    }
}

void ot_mem_watch(struct ot_mem_budget *budget, struct ot_metrics *metrics)
{
    struct ot_series *limit = ot_series_get(metrics, OT_METRIC_memory_limit_bytes, NULL);
    ot_series_set(limit, (double)budget->limit_bytes);
    ot_series_release(metrics, limit);
    ot_metrics_source(metrics, OT_METRIC_memory_pool_used_bytes, give_used, budget);
    ot_metrics_source(metrics, OT_METRIC_memory_pool_cap_bytes, give_caps, budget);
    ot_metrics_source(metrics, OT_METRIC_memory_pool_refused_total, give_refusals, budget);
}
