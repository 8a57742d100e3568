/* Lines of kind `sequence` of batches.jsonl.gz: idempotence and transactions on one log. */
#include "sequence_vectors.h"
#include "vectors_run.h"

VECTORS_OF_KIND("batches", "sequence", vectors_sequence_line)
