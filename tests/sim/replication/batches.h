/* One record, one batch: its id in the key, a value that follows from it. */
#ifndef OT_SIM_REPLICATION_BATCHES_H
#define OT_SIM_REPLICATION_BATCHES_H

#include "base/buf.h"
#include "engine/batch_build.h"
#include "engine/log.h"
#include "world.h"

struct batch_producer { int64_t id; int16_t epoch; int32_t sequence; };
struct ot_buf *batch_of(struct ot_pool *pool, struct record record, int64_t offset, int64_t wall_ms, const struct batch_producer *producer /* NULL: none */);
struct record batch_record(const struct eng_batch_piece *piece, const struct eng_batch_info *info);        /* checks its CRC */

#endif
