#include "base/regex.h"
#include "base/regex_re2.h"
#include <stdio.h>

/* struct ot_regex has no members: it is RE2's object. */

enum ot_err ot_regex_new(struct ot_str pattern, struct ot_regex **out, char *why, size_t why_bytes)
{
    void *made = NULL;
    *out = NULL;
    if (pattern.bytes > OT_REGEX_PATTERN_BYTES_MAX) {
        (void)snprintf(why, why_bytes, "longer than %d bytes", OT_REGEX_PATTERN_BYTES_MAX);
        return OT_ERR_INVALID_REGULAR_EXPRESSION;
    }
    const int fate = ot_re2_new(pattern.data, pattern.bytes, OT_REGEX_BYTES_MAX, &made, why, why_bytes);
    *out = made;
    return fate > 0 ? OT_OK : fate == 0 ? OT_ERR_INVALID_REGULAR_EXPRESSION : OT_ERR_NO_MEMORY;
}

bool ot_regex_matches(const struct ot_regex *regex, struct ot_str text)
{
    return ot_re2_full_match(regex, text.data, text.bytes) != 0;
}

void ot_regex_free(struct ot_regex *regex)
{
    ot_re2_free(regex);
}
