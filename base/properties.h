/* Java properties syntax: `key=value`, `key: value`, `key value`, `#` and `!` comments, `\` continuations, \uXXXX escapes. */
#ifndef OT_BASE_PROPERTIES_H
#define OT_BASE_PROPERTIES_H

#include "base/err.h"

/* Calls each(arg, line, key, value) in file order with zero-terminated UTF-8 texts that live during the call; a non-OK answer
 * stops and is returned. MALFORMED for a bad \u escape, a NUL or what is not UTF-8. *line_out is then the
 * line, counted from 1, where the key in question begins. Input is not modified; above 1 MiB: TOO_LARGE. */
OT_MUST_CHECK enum ot_err ot_properties_parse(const char *data, size_t bytes,
    enum ot_err (*each)(void *arg, int line, const char *key, const char *value), void *arg, int *line_out);

#endif
