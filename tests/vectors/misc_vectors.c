/* misc.jsonl.gz: hashes, checksums, varints and ids. The assignors come with groups. */
#include "misc_vectors.h"
#include "vectors_run.h"

static bool check_misc(json_t *line, char *why, size_t why_bytes)
{
    return misc_vector_check(line, why, why_bytes);
}

VECTORS_OF("misc", check_misc)
VECTORS_LATER("misc", "assignor-uniform", uniform)
VECTORS_LATER("misc", "assignor-range", range)
VECTORS_LATER("misc", "assignor-share-simple", share_simple)
VECTORS_LATER("misc", "client-range", client_range)
VECTORS_LATER("misc", "client-roundrobin", client_roundrobin)
VECTORS_LATER("misc", "client-cooperative-sticky", client_cooperative_sticky)
