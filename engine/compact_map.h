/* The last offset of each key, in memory of a fixed size.
 *
 * A slot is 16 bytes where Kafka's are 24: 96 bits of a keyed hash and the offset, counted from the pass's first. Keys themselves are not kept: two keys with the same
 * 96 bits would be taken for one, which for 2^27 keys happens with a chance of about 2^-43, and nobody can aim at it without the seed. The table begins small and
 * grows with the keys, so that few keys in a long log stay in the processor's caches; while it grows the old one and the new one together stay within the limit. One thread. */
#ifndef OT_ENGINE_COMPACT_MAP_H
#define OT_ENGINE_COMPACT_MAP_H

#include "base/bytes.h"

struct eng_compact_hash { uint32_t word[3]; };                     /* the first one also chooses the slot */
struct eng_compact_slot { uint32_t word[3], offset; };             /* offset: 1 + distance from base; 0: free */
struct eng_compact_map {
    struct eng_compact_slot *slots;
    uint64_t seed[2];
    uint32_t slot_count, used, used_max;   /* used_max: then it grows, or is full */
    uint32_t slots_max;                    /* by the limit, for old and new table together */
    double load_factor;
    int64_t base_offset;
};
/* For at most `bytes`; keys_max: no more can come. NO_MEMORY. */
OT_MUST_CHECK enum ot_err eng_compact_map_init(struct eng_compact_map *map, uint64_t bytes, double load_factor, uint64_t keys_max, const uint64_t seed[2]);
void eng_compact_map_free(struct eng_compact_map *map);
void eng_compact_map_clear(struct eng_compact_map *map, int64_t base_offset);
struct eng_compact_hash eng_compact_map_hash(const struct eng_compact_map *map, const void *key, size_t bytes);
static inline void eng_compact_map_prefetch(const struct eng_compact_map *map, const struct eng_compact_hash *hash)
{
    __builtin_prefetch(&map->slots[(uint64_t)hash->word[0] * map->slot_count >> 32]);
}
/* False: a key not seen before, and no place for it (or an offset too far from base, or no memory to grow). Offsets come in ascending order. */
bool eng_compact_map_put(struct eng_compact_map *map, const struct eng_compact_hash *hash, int64_t offset);
double eng_compact_map_fill(const struct eng_compact_map *map);       /* 0 to 1 of what the limit allows */
int64_t eng_compact_map_get(const struct eng_compact_map *map, const struct eng_compact_hash *hash);       /* -1: not there */

#endif
