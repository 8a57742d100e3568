/* Record batches of every kind but sequences: tests/lib/batch_vectors.h says what is checked. */
#include "batch_vectors.h"
#include "vectors_run.h"

static bool batches_check(json_t *line, char *why, size_t why_bytes)
{
    return batch_vector_check(line, why, why_bytes);
}
VECTORS_OF("batches", batches_check)
