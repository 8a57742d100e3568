#include "engine/compact_map.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLOTS_FIRST 65536u
#define SLOTS_MIN 16u
#define GROWTH 4u
#define HUGE_BYTES (4u << 20)

static struct eng_compact_slot *slots_new(uint64_t count)
{
    struct eng_compact_slot *slots = calloc(count, sizeof *slots);
    /* random access all over it: with small pages each one costs a walk through the page tables */
    if (slots != NULL && count * sizeof *slots >= HUGE_BYTES) {
        uintptr_t from = ((uintptr_t)slots + 4095) & ~(uintptr_t)4095, to = (uintptr_t)(slots + count) & ~(uintptr_t)4095;
        (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
    }
    return slots;
}

static void use_slots(struct eng_compact_map *map, struct eng_compact_slot *slots, uint64_t count)
{
    map->slots = slots;
    map->slot_count = (uint32_t)count;
    map->used_max = OT_MAX((uint32_t)((double)count * map->load_factor), 1u);
}

enum ot_err eng_compact_map_init(struct eng_compact_map *map, uint64_t bytes, double load_factor, uint64_t keys_max, const uint64_t seed[2])
{
    *map = (struct eng_compact_map){ .seed = { seed[0], seed[1] }, .load_factor = load_factor > 0.05 && load_factor < 0.99 ? load_factor : 0.9 };
    uint64_t most = OT_MIN(bytes / sizeof(struct eng_compact_slot), (uint64_t)INT32_MAX);
    uint64_t enough = keys_max >= INT32_MAX ? INT32_MAX : (uint64_t)((double)keys_max / map->load_factor) + SLOTS_MIN;
    map->slots_max = (uint32_t)OT_MAX(most, (uint64_t)SLOTS_MIN);
    uint64_t first = OT_MIN(OT_MIN((uint64_t)map->slots_max, enough), (uint64_t)SLOTS_FIRST);
    struct eng_compact_slot *slots = slots_new(first);
    if (slots == NULL) return OT_ERR_NO_MEMORY;
    use_slots(map, slots, first);
    return OT_OK;
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
    return (struct eng_compact_hash){ { (uint32_t)(one >> 32), (uint32_t)one, (uint32_t)two } };
}

/* ---- slots ---- */

static inline uint32_t find(const struct eng_compact_map *map, const uint32_t word[3])
{
    uint32_t at = (uint32_t)((uint64_t)word[0] * map->slot_count >> 32);
    for (;;) {                             /* ends: used_max is below slot_count */
        const struct eng_compact_slot *slot = &map->slots[at];
        if (slot->offset == 0) return at;
        if (slot->word[0] == word[0] && slot->word[1] == word[1] && slot->word[2] == word[2]) return at;
        if (++at == map->slot_count) at = 0;
    }
}

/* How large the table becomes next; 0: it stays. The last step takes all that the limit leaves beside the old one. */
static uint32_t next_size(const struct eng_compact_map *map)
{
    uint64_t next = (uint64_t)map->slot_count * GROWTH, room = map->slots_max > map->slot_count ? map->slots_max - map->slot_count : 0;
    if (next * GROWTH > room) next = room;
    return next > map->slot_count + map->slot_count / 4 ? (uint32_t)next : 0;
}

static bool grow(struct eng_compact_map *map)
{
    uint32_t next = next_size(map), old_count = map->slot_count;
    struct eng_compact_slot *old = map->slots, *slots = next == 0 ? NULL : slots_new(next);
    if (slots == NULL) return false;
    use_slots(map, slots, next);
    for (uint32_t i = 0; i < old_count; i++)
        if (old[i].offset != 0) map->slots[find(map, old[i].word)] = old[i];
    free(old);
    return true;
}

bool eng_compact_map_put(struct eng_compact_map *map, const struct eng_compact_hash *hash, int64_t offset)
{
    OT_ASSERT(offset >= map->base_offset);
    if (offset - map->base_offset >= UINT32_MAX - 1) return false;
    struct eng_compact_slot *slot = &map->slots[find(map, hash->word)];
    if (slot->offset == 0 && map->used >= map->used_max) {
        if (!grow(map)) return false;
        slot = &map->slots[find(map, hash->word)];
    }
    if (slot->offset == 0) {
        map->used++;
        memcpy(slot->word, hash->word, sizeof slot->word);
    }
    slot->offset = (uint32_t)(offset - map->base_offset) + 1;
    return true;
}

int64_t eng_compact_map_get(const struct eng_compact_map *map, const struct eng_compact_hash *hash)
{
    const struct eng_compact_slot *slot = &map->slots[find(map, hash->word)];
    return slot->offset == 0 ? -1 : map->base_offset + (int64_t)slot->offset - 1;
}

double eng_compact_map_fill(const struct eng_compact_map *map)
{
    uint32_t next = next_size(map);
    double most = (double)OT_MAX(map->slot_count, next == 0 ? 0 : map->slots_max - OT_MIN(map->slots_max, map->slot_count)) * map->load_factor;
    return most <= 0 ? 1 : OT_MIN((double)map->used / most, 1.0);
}
