/* What an active log remembers of its end, so that tail reads and limit offsets need neither index nor file: the last batches, and index entries that
 * are not in their files yet. One allocation, made at the first append, given back when the log has been idle. Guarded by the log's mutex. */
#ifndef OT_ENGINE_TAIL_H
#define OT_ENGINE_TAIL_H

#include "engine/index.h"

#define ENG_TAIL_BATCHES 128u              /* a power of two */
#define ENG_TAIL_ENTRIES 32u

struct eng_tail_batch { int64_t base_offset; uint32_t last_delta, pos; };
struct eng_tail {
    uint32_t next, count;                  /* of batches; the newest is at next - 1 */
    uint32_t index_pending, time_pending;
    struct eng_tail_batch batches[ENG_TAIL_BATCHES];
    struct eng_index_entry index[ENG_TAIL_ENTRIES];
    struct eng_time_entry time[ENG_TAIL_ENTRIES];
};

void eng_tail_clear(struct eng_tail *tail);
void eng_tail_push(struct eng_tail *tail, int64_t base_offset, int64_t last_offset, uint64_t pos);
/* The first batch whose last offset is at or above offset. False: not remembered (or there is none). NULL tail is fine. */
bool eng_tail_find(const struct eng_tail *tail, int64_t offset, struct eng_tail_batch *out);
/* Position of the last pending index entry at or below offset. False: none. */
bool eng_tail_floor(const struct eng_tail *tail, int64_t offset, uint64_t *pos_out);

#endif
