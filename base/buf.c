#include "base/buf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Size classes: powers of two and the halves between them, 512 B to 4 MiB; beyond that whole pages, which are never kept. A
 * buffer is one allocation, its header in the first cache line. The pool's mutex guards everything but the counts. */
#define CLASS_BYTES_MIN 512u
#define CLASS_COUNT     27u
#define HEADER_BYTES    64u
OT_STATIC_ASSERT(sizeof(struct ot_buf) <= HEADER_BYTES, "the header fits its line");

struct kept {
    struct kept *next;
}; /* lies where the ot_buf was */

struct ot_pool {
    const char *name;
    size_t cap_bytes, kept_bytes_max;
    _Atomic uint64_t refused_count;
    _Atomic size_t used_bytes; /* written under the mutex, read by metrics */
    pthread_mutex_t mutex;
    size_t kept_bytes;
    struct kept *kept[CLASS_COUNT];
    struct ot_pool_waiter *waiters, **waiters_end;
};

static size_t class_bytes(unsigned class)
{
    const size_t power = (size_t)CLASS_BYTES_MIN << (class / 2);
    return class % 2 == 0 ? power : power + power / 2;
}

/* The smallest class that holds bytes, or CLASS_COUNT. */
static unsigned class_of(size_t bytes)
{
    unsigned class = 0;
    while (class < CLASS_COUNT && class_bytes(class) < bytes) class ++;
    return class;
}

struct ot_pool *ot_pool_new(const char *name, size_t cap_bytes, size_t kept_bytes)
{
    struct ot_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) return NULL;
    pool->name = name;
    pool->cap_bytes = cap_bytes;
    pool->kept_bytes_max = kept_bytes;
    pool->waiters_end = &pool->waiters;
    pthread_mutex_init(&pool->mutex, NULL);
    return pool;
}

void ot_pool_free(struct ot_pool *pool)
{
    if (pool == NULL) return;
    OT_ASSERT(atomic_load(&pool->used_bytes) == 0);
    OT_ASSERT(pool->waiters == NULL);
    for (unsigned class = 0; class < CLASS_COUNT; class ++) {
        for (struct kept *kept = pool->kept[class], *next; kept != NULL; kept = next) {
            next = kept->next;
            free(kept);
        }
    }
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

static struct ot_buf *buf_make(struct ot_pool *pool, size_t bytes, bool forced)
{
    if (bytes > UINT32_MAX - 8192) return NULL;
    const unsigned class = class_of(bytes);
    const size_t cap = class < CLASS_COUNT ? class_bytes(class) : (bytes + 4095) & ~(size_t)4095;
    struct kept *memory = NULL;
    pthread_mutex_lock(&pool->mutex);
    const size_t used = atomic_load_explicit(&pool->used_bytes, memory_order_relaxed);
    if (!forced && (cap > pool->cap_bytes || used > pool->cap_bytes - cap)) {
        pthread_mutex_unlock(&pool->mutex);
        atomic_fetch_add_explicit(&pool->refused_count, 1, memory_order_relaxed);
        return NULL;
    }
    atomic_store_explicit(&pool->used_bytes, used + cap, memory_order_relaxed);
    if (class < CLASS_COUNT && pool->kept[class] != NULL) {
        memory = pool->kept[class];
        pool->kept[class] = memory->next;
        pool->kept_bytes -= cap;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (memory == NULL) memory = aligned_alloc(HEADER_BYTES, (HEADER_BYTES + cap + 63) & ~(size_t)63);
    if (memory == NULL) {
        pthread_mutex_lock(&pool->mutex);
        atomic_fetch_sub_explicit(&pool->used_bytes, cap, memory_order_relaxed);
        pthread_mutex_unlock(&pool->mutex);
        return NULL;
    }
    struct ot_buf *buf = (struct ot_buf *)memory;
    *buf = (struct ot_buf){.bytes = 0, .cap_bytes = (uint32_t)cap, .pool = pool, .data = (uint8_t *)memory + HEADER_BYTES};
    atomic_init(&buf->refs, 1);
    return buf;
}

struct ot_buf *ot_buf_new(struct ot_pool *pool, size_t bytes)
{
    return buf_make(pool, bytes, false);
}
struct ot_buf *ot_buf_new_forced(struct ot_pool *pool, size_t bytes)
{
    return buf_make(pool, bytes, true);
}

struct ot_buf *ot_buf_ref(struct ot_buf *buf)
{
    const uint32_t before = atomic_fetch_add_explicit(&buf->refs, 1, memory_order_relaxed);
    OT_ASSERT(before > 0 && before < UINT32_MAX);
    return buf;
}

void ot_buf_unref(struct ot_buf *buf)
{
    if (buf == NULL) return;
    const uint32_t before = atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel);
    OT_ASSERT(before > 0);
    if (before > 1) return;
    struct ot_pool *pool = buf->pool;
    const size_t cap = buf->cap_bytes;
    const unsigned class = class_of(cap);
    struct kept *memory = (struct kept *)(void *)buf;
    pthread_mutex_lock(&pool->mutex);
    OT_ASSERT(atomic_load_explicit(&pool->used_bytes, memory_order_relaxed) >= cap);
    atomic_fetch_sub_explicit(&pool->used_bytes, cap, memory_order_relaxed);
    if (class < CLASS_COUNT && cap <= pool->kept_bytes_max && pool->kept_bytes <= pool->kept_bytes_max - cap) {
        memory->next = pool->kept[class];
        pool->kept[class] = memory;
        pool->kept_bytes += cap;
        memory = NULL;
    }
    /* Everybody is woken: what came back may be enough for the second in the row and not for the first. */
    struct ot_pool_waiter *waiter = pool->waiters;
    pool->waiters = NULL;
    pool->waiters_end = &pool->waiters;
    while (waiter != NULL) {
        struct ot_pool_waiter *next = waiter->next;
        waiter->next = NULL;
        waiter->armed = false;
        waiter->woken(waiter);
        waiter = next;
    }
    pthread_mutex_unlock(&pool->mutex);
    free(memory);
}

size_t ot_pool_used_bytes(const struct ot_pool *pool)
{
    return atomic_load_explicit(&pool->used_bytes, memory_order_relaxed);
}
size_t ot_pool_cap_bytes(const struct ot_pool *pool)
{
    return pool->cap_bytes;
}
uint64_t ot_pool_refused_count(const struct ot_pool *pool)
{
    return atomic_load_explicit(&pool->refused_count, memory_order_relaxed);
}
const char *ot_pool_name(const struct ot_pool *pool)
{
    return pool->name;
}

void ot_pool_wait(struct ot_pool *pool, struct ot_pool_waiter *waiter)
{
    pthread_mutex_lock(&pool->mutex);
    if (!waiter->armed) {
        waiter->armed = true;
        waiter->next = NULL;
        *pool->waiters_end = waiter;
        pool->waiters_end = &waiter->next;
    }
    pthread_mutex_unlock(&pool->mutex);
}

void ot_pool_wait_cancel(struct ot_pool *pool, struct ot_pool_waiter *waiter)
{
    pthread_mutex_lock(&pool->mutex);
    for (struct ot_pool_waiter **link = &pool->waiters; waiter->armed && *link != NULL; link = &(*link)->next) {
        if (*link != waiter) continue;
        *link = waiter->next;
        if (pool->waiters_end == &waiter->next) pool->waiters_end = link;
        waiter->next = NULL;
        waiter->armed = false;
        break;
    }
    pthread_mutex_unlock(&pool->mutex);
}
