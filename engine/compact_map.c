#include "engine/compact_map.h"
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN 16u

enum ot_err eng_compact_map_init(struct eng_compact_map *map, uint64_t bytes, double load_factor, uint64_t keys_max, const uint64_t seed[2])
{
    double load = load_factor > 0.05 && load_factor < 0.99 ? load_factor : 0.9;
    uint64_t slots = OT_MIN(bytes / sizeof(struct eng_compact_slot), (uint64_t)INT32_MAX);
    uint64_t enough = keys_max >= INT32_MAX ? INT32_MAX : (uint64_t)((double)keys_max / load) + SLOTS_MIN;
    slots = OT_MAX(OT_MIN(slots, enough), (uint64_t)SLOTS_MIN);
    *map = (struct eng_compact_map){ .seed = { seed[0], seed[1] }, .slot_count = (uint32_t)slots };
    map->used_max = OT_MAX((uint32_t)((double)slots * load), 1u);
    map->slots = calloc(slots, sizeof *map->slots);
    return map->slots == NULL ? OT_ERR_NO_MEMORY : OT_OK;
}

void eng_compact_map_free(struct eng_compact_map *map)
{
    free(map->slots);
    map->slots = NULL;
}

void eng_compact_map_clear(struct eng_compact_map *map, int64_t base_offset)
{
    if (map->used > 0) memset(map->slots, 0, (size_t)map->slot_count * sizeof *map->slots);
    map->used = 0;
    map->base_offset = base_offset;
}

/* ---- SipHash-1-3, 128 bits out ---- */

static inline uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);           /* the machine's order: the hash never leaves this process */
    return v;
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1]; v[1] = rotate(v[1], 13); v[1] ^= v[0]; v[0] = rotate(v[0], 32);
    v[2] += v[3]; v[3] = rotate(v[3], 16); v[3] ^= v[2];
    v[0] += v[3]; v[3] = rotate(v[3], 21); v[3] ^= v[0];
    v[2] += v[1]; v[1] = rotate(v[1], 17); v[1] ^= v[2]; v[2] = rotate(v[2], 32);
}

struct eng_compact_hash eng_compact_map_hash(const struct eng_compact_map *map, const void *key, size_t bytes)
{
    const uint8_t *at = key;
    uint64_t v[4] = { map->seed[0] ^ 0x736f6d6570736575u, map->seed[1] ^ 0x646f72616e646f6du ^ 0xee, map->seed[0] ^ 0x6c7967656e657261u,
        map->seed[1] ^ 0x7465646279746573u };
    uint64_t last = (uint64_t)bytes << 56;
    size_t left = bytes;
    for (; left >= 8; left -= 8, at += 8) {
        uint64_t word = load64(at);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    for (size_t i = 0; i < left; i++) last |= (uint64_t)at[i] << (8 * i);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xee;
    for (int i = 0; i < 3; i++) sip_round(v);
    uint64_t one = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    for (int i = 0; i < 3; i++) sip_round(v);
    uint64_t two = v[0] ^ v[1] ^ v[2] ^ v[3];
    return (struct eng_compact_hash){ (uint32_t)(one >> 32), { (uint32_t)one, (uint32_t)(two >> 32), (uint32_t)two } };
}

/* ---- slots ---- */

static inline uint32_t find(const struct eng_compact_map *map, const struct eng_compact_hash *hash)
{
    uint32_t at = (uint32_t)((uint64_t)hash->home * map->slot_count >> 32);
    for (;;) {                             /* ends: used_max is below slot_count */
        const struct eng_compact_slot *slot = &map->slots[at];
        if (slot->offset == 0) return at;
        if (slot->word[0] == hash->word[0] && slot->word[1] == hash->word[1] && slot->word[2] == hash->word[2]) return at;
        if (++at == map->slot_count) at = 0;
    }
}

bool eng_compact_map_put(struct eng_compact_map *map, const struct eng_compact_hash *hash, int64_t offset)
{
    OT_ASSERT(offset >= map->base_offset);
    if (offset - map->base_offset >= UINT32_MAX - 1) return false;
    struct eng_compact_slot *slot = &map->slots[find(map, hash)];
    if (slot->offset == 0) {
        if (map->used >= map->used_max) return false;
        map->used++;
        memcpy(slot->word, hash->word, sizeof slot->word);
    }
    slot->offset = (uint32_t)(offset - map->base_offset) + 1;
    return true;
}

int64_t eng_compact_map_get(const struct eng_compact_map *map, const struct eng_compact_hash *hash)
{
    const struct eng_compact_slot *slot = &map->slots[find(map, hash)];
    return slot->offset == 0 ? -1 : map->base_offset + (int64_t)slot->offset - 1;
}
