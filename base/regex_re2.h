/* Private to base/: what base/regex.c asks of the one C++ file. Plain types only, since the headers of the house are C. Nothing is thrown through it. */
#ifndef OT_BASE_REGEX_RE2_H
#define OT_BASE_REGEX_RE2_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 1: made; 0: not a regular expression of that size, why has words; -1: no memory. */
int ot_re2_new(const char *pattern, size_t pattern_bytes, long memory_bytes_max, void **out, char *why, size_t why_bytes);
int ot_re2_full_match(const void *regex, const char *text, size_t text_bytes);
void ot_re2_free(void *regex);

#ifdef __cplusplus
}
#endif
#endif
