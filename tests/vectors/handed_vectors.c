/* Messages of every kind and version: tests/lib/wire_vectors.h says what is checked. */
#include "vectors_run.h"
#include "wire_vectors.h"
#include <stdio.h>

static bool handed_check(json_t *line, char *why, size_t why_bytes)
{
    struct wire_json_why reason = {""};
    bool good = wire_vector_check(line, &reason);
    (void)snprintf(why, why_bytes, "%s", reason.text);
    return good;
}
VECTORS_OF("handed", handed_check)
