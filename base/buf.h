/* A pooled, reference-counted byte buffer: a request lives in one from the socket to the disk.
 *
 * Every buffer is charged to a pool with a hard cap (the named pools of the memory budget). The pool keeps freed buffers of
 * a few size classes for reuse. ref/unref from any thread; the bytes are written only by whoever made the buffer,
 * before it shares it. */
#ifndef OT_BASE_BUF_H
#define OT_BASE_BUF_H

#include "base/bytes.h"
#include <stdatomic.h>

struct ot_pool;
struct ot_buf {
    _Atomic uint32_t refs;
    uint32_t bytes;            /* in use */
    uint32_t cap_bytes;
    struct ot_pool *pool;
    uint8_t *data;
};

/* cap_bytes bounds what is out at one time; kept_bytes what lies in reserve. name is static text, shown in metrics. */
struct ot_pool *ot_pool_new(const char *name, size_t cap_bytes, size_t kept_bytes);
void ot_pool_free(struct ot_pool *pool);                       /* every buffer must be back */
OT_MUST_CHECK struct ot_buf *ot_buf_new(struct ot_pool *pool, size_t bytes);      /* refs 1, bytes 0; NULL at the cap */
/* As ot_buf_new but beyond the cap too: for the one buffer without which nothing could ever be given back. */
OT_MUST_CHECK struct ot_buf *ot_buf_new_forced(struct ot_pool *pool, size_t bytes);
struct ot_buf *ot_buf_ref(struct ot_buf *buf);
void ot_buf_unref(struct ot_buf *buf);                         /* NULL is fine */
size_t ot_pool_used_bytes(const struct ot_pool *pool);
size_t ot_pool_cap_bytes(const struct ot_pool *pool);
uint64_t ot_pool_refused_count(const struct ot_pool *pool);
const char *ot_pool_name(const struct ot_pool *pool);
/* When the next buffer comes back, every armed waiter is disarmed and its woken(waiter) is called once, on the freeing thread and under
 * the pool's mutex: it may only post a task, and must not touch the pool. Arm first, then try ot_buf_new once more: a buffer may
 * have come back between the refusal and the arming. After wait_cancel returned woken is not running and will not be called. */
struct ot_pool_waiter { struct ot_pool_waiter *next; void (*woken)(struct ot_pool_waiter *waiter); bool armed; };   /* zeroed by its owner but for woken; armed is the pool's */
void ot_pool_wait(struct ot_pool *pool, struct ot_pool_waiter *waiter);
void ot_pool_wait_cancel(struct ot_pool *pool, struct ot_pool_waiter *waiter);

#endif
