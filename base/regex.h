/* Regular expressions in RE2 syntax, matched in time linear in the text, whatever the pattern. What a pattern may take in memory is bounded: its
 * compiled form and the states that matching caches fit OT_REGEX_BYTES_MAX together.
 *
 * errors  INVALID_REGULAR_EXPRESSION: the syntax is wrong, or the pattern is too large; why gets words. NO_MEMORY
 * thread  matching from any number of threads; free by one when no other matches */
#ifndef OT_BASE_REGEX_H
#define OT_BASE_REGEX_H

#include "base/bytes.h"

enum { OT_REGEX_PATTERN_BYTES_MAX = 8192, OT_REGEX_BYTES_MAX = 1 << 20 };

struct ot_regex;
OT_MUST_CHECK enum ot_err ot_regex_new(struct ot_str pattern, struct ot_regex **out, char *why, size_t why_bytes);
bool ot_regex_matches(const struct ot_regex *regex, struct ot_str text);       /* the whole text, not a part of it */
void ot_regex_free(struct ot_regex *regex);                    /* NULL is fine */

#endif
