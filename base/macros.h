/* Words that the compiler or the reader needs everywhere. */
#ifndef OT_BASE_MACROS_H
#define OT_BASE_MACROS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OT_MUST_CHECK __attribute__((warn_unused_result))
#define OT_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))
#define OT_NORETURN __attribute__((noreturn, cold))
#define OT_LIKELY(x) __builtin_expect(!!(x), 1)
#define OT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define OT_STATIC_ASSERT(what, text) _Static_assert(what, text)
#define OT_ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OT_MIN(a, b) ((a) < (b) ? (a) : (b))
#define OT_MAX(a, b) ((a) > (b) ? (a) : (b))
#define OT_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

/* Stays on in release builds: a stopped broker is covered by its replicas, a wrong high watermark is not. */
#define OT_ASSERT(fact) (OT_LIKELY(fact) ? (void)0 : ot_assert_failed(#fact, __FILE__, __LINE__, __func__))
#ifdef OT_SLOW_ASSERTS
#define OT_ASSERT_SLOW(fact) OT_ASSERT(fact)
#else
#define OT_ASSERT_SLOW(fact) ((void)0)
#endif
OT_NORETURN void ot_assert_failed(const char *fact, const char *file, int line, const char *function);

/* ot_ignore(err, "why it may be ignored"): the only way to drop an error. */
#define ot_ignore(err, reason) do { __typeof__(err) ot_ignored_ = (err); (void)ot_ignored_; (void)sizeof(reason); } while (0)

#endif
