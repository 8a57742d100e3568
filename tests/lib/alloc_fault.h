/* "By counter, every allocation is made to fail once." For tests named NAME_alloc_test.c: those are linked so that malloc and its
 * kin, called from our own code (not from inside a library), come here first. Include once in a program.
 *
 *     for (uint64_t n = 1;; n++) {
 *         alloc_fail_at(n);
 *         …the thing under test: an error and nothing half done, or success…
 *         if (!alloc_fired()) break;
 *     }
 *
 * And for what must not allocate at all: alloc_count() before and after. Threads may allocate meanwhile; they share the counts. */
#ifndef OT_TESTS_ALLOC_FAULT_H
#define OT_TESTS_ALLOC_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static _Atomic uint64_t alloc_seen_, alloc_at_, alloc_total_;
static _Atomic int64_t alloc_live_;
static _Atomic bool alloc_fired_;

/* The n-th allocation from now fails, counted from 1; 0: none does. */
__attribute__((unused)) static void alloc_fail_at(uint64_t n)
{
    atomic_store(&alloc_seen_, 0);
    atomic_store(&alloc_fired_, false);
    atomic_store(&alloc_at_, n);
}
/* Whether it came to that; from here on none fails. */
__attribute__((unused)) static bool alloc_fired(void)
{
    atomic_store(&alloc_at_, 0);
    return atomic_load(&alloc_fired_);
}
__attribute__((unused)) static uint64_t alloc_count(void)
{
    return atomic_load(&alloc_total_);
}
__attribute__((unused)) static int64_t alloc_live(void)
{
    return atomic_load(&alloc_live_);
} /* allocated and not freed */

static inline bool alloc_fails(void)
{
    atomic_fetch_add(&alloc_total_, 1);
    const uint64_t at = atomic_load(&alloc_at_);
    if (at == 0 || atomic_fetch_add(&alloc_seen_, 1) + 1 != at) return false;
    atomic_store(&alloc_fired_, true);
    return true;
}

static inline void *alloc_counted(void *p)
{
    if (p != NULL) atomic_fetch_add(&alloc_live_, 1);
    return p;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t bytes);
void __real_free(void *p);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t bytes);
void __wrap_free(void *p);

void *__wrap_malloc(size_t bytes)
{
    return alloc_fails() ? NULL : alloc_counted(__real_malloc(bytes));
}
void *__wrap_calloc(size_t count, size_t bytes)
{
    return alloc_fails() ? NULL : alloc_counted(__real_calloc(count, bytes));
}
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return alloc_fails() ? NULL : alloc_counted(__real_aligned_alloc(alignment, bytes));
}
char *__wrap_strdup(const char *text)
{
    return alloc_fails() ? NULL : alloc_counted(__real_strdup(text));
}
char *__wrap_strndup(const char *text, size_t bytes)
{
    return alloc_fails() ? NULL : alloc_counted(__real_strndup(text, bytes));
}

void *__wrap_realloc(void *p, size_t bytes)
{
    if (alloc_fails()) return NULL;
    return p == NULL ? alloc_counted(__real_realloc(NULL, bytes)) : __real_realloc(p, bytes);
}

void __wrap_free(void *p)
{
    if (p != NULL) atomic_fetch_sub(&alloc_live_, 1);
    __real_free(p);
}

#endif
