/* Checks one line of the batch vectors (kinds valid, control, legacy, invalid, accepted, bomb) against engine/batch.h,
 * record.h, codec.h and batch_build.h. False: why says what differs. Keeps one decoding context with a pool of
 * BATCH_VECTORS_POOL_BYTES: what a line makes the engine hold beyond that fails it, which is how bombs are measured. One thread. */
#ifndef OT_TESTS_BATCH_VECTORS_H
#define OT_TESTS_BATCH_VECTORS_H

#include "base/buf.h"
#include <jansson.h>

#define BATCH_VECTORS_POOL_BYTES ((size_t)16 << 20)

bool batch_vector_check(json_t *line, char *why, size_t why_bytes);
struct ot_pool *batch_vectors_pool(void);
/* Decode through windows of this size from now on; 0: the default. */
void batch_vectors_window(uint32_t window_bytes);
void batch_vectors_free(void);

#endif
