#include "engine/tail.h"

void eng_tail_clear(struct eng_tail *tail)
{
    if (tail == NULL) return;
    tail->next = tail->count = tail->index_pending = tail->time_pending = 0;
}

void eng_tail_push(struct eng_tail *tail, int64_t base_offset, int64_t last_offset, uint64_t pos)
{
    tail->batches[tail->next] = (struct eng_tail_batch){ base_offset, (uint32_t)(last_offset - base_offset), (uint32_t)pos };
    tail->next = (tail->next + 1) % ENG_TAIL_BATCHES;
    if (tail->count < ENG_TAIL_BATCHES) tail->count++;
}

bool eng_tail_find(const struct eng_tail *tail, int64_t offset, struct eng_tail_batch *out)
{
    if (tail == NULL || tail->count == 0) return false;
    uint32_t oldest = (tail->next + ENG_TAIL_BATCHES - tail->count) % ENG_TAIL_BATCHES;
    if (offset < tail->batches[oldest].base_offset) return false;
    uint32_t low = 0, high = tail->count;  /* the first batch that ends at or above offset is in [low, high] */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct eng_tail_batch *batch = &tail->batches[(oldest + middle) % ENG_TAIL_BATCHES];
        if (batch->base_offset + (int64_t)batch->last_delta < offset) low = middle + 1;
        else high = middle;
    }
    if (low == tail->count) return false;
    *out = tail->batches[(oldest + low) % ENG_TAIL_BATCHES];
    return true;
}

bool eng_tail_floor(const struct eng_tail *tail, int64_t offset, uint64_t *pos_out)
{
    if (tail == NULL) return false;
    for (uint32_t i = tail->index_pending; i-- > 0;) {
        if (tail->index[i].offset > offset) continue;
        *pos_out = tail->index[i].pos;
        return true;
    }
    return false;
}
