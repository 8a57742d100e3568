/* misc.jsonl.gz: hashes, checksums, varints, ids and the server-side assignors of consumer groups. Client-side assignors run in
 * clients: what they made of a group must come through. The share assignor comes with share groups. */
#include "assign_vectors.h"
#include "carry_vectors.h"
#include "vectors_run.h"

static bool check_misc(json_t *line, char *why, size_t why_bytes)
{
    return misc_vector_check(line, why, why_bytes);
}

VECTORS_OF("misc", check_misc)
static bool check_uniform(json_t *line, char *why, size_t why_bytes)
{
    return assign_vector_check(line, why, why_bytes);
}

static bool check_range(json_t *line, char *why, size_t why_bytes)
{
    return assign_vector_check(line, why, why_bytes);
}

VECTORS_OF_KIND("misc", "assignor-uniform", check_uniform)
VECTORS_OF_KIND("misc", "assignor-range", check_range)
VECTORS_LATER("misc", "assignor-share-simple", share_simple)

static bool check_client_range(json_t *line, char *why, size_t why_bytes) { return carry_vector_check(line, why, why_bytes); }
static bool check_client_roundrobin(json_t *line, char *why, size_t why_bytes) { return carry_vector_check(line, why, why_bytes); }
static bool check_client_sticky(json_t *line, char *why, size_t why_bytes) { return carry_vector_check(line, why, why_bytes); }
VECTORS_OF_KIND("misc", "client-range", check_client_range)
VECTORS_OF_KIND("misc", "client-roundrobin", check_client_roundrobin)
VECTORS_OF_KIND("misc", "client-cooperative-sticky", check_client_sticky)
