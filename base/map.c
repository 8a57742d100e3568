#include "base/map.h"
#include "base/util.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* slots hold entry index + 1, 0 is free; linear probing, at most half full, so a search ends at a free slot soon. Removal shifts
 * the run back instead of leaving tombstones. The seed differs per process: keys come from peers. Order does not depend on it. */

static uint64_t seed;
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static void seed_draw(void)
{
    ot_random_bytes(&seed, sizeof(seed));
}

void ot_map_init(struct ot_map *map)
{
    *map = (struct ot_map){0};
}

void ot_map_free(struct ot_map *map)
{
    for (uint32_t i = 0; i < map->count; i++) free(map->entries[i].key);
    free(map->entries);
    free(map->slots);
    *map = (struct ot_map){0};
}

static uint64_t key_hash(const void *key, size_t key_bytes)
{
    pthread_once(&seed_once, seed_draw);
    return ot_hash64(key, key_bytes, seed);
}

/* The slot that holds the key, or the free one where it would go. The map has slots. */
static uint32_t find_slot(const struct ot_map *map, const void *key, size_t key_bytes, uint64_t hash)
{
    const uint32_t mask = map->slot_count - 1;
    for (uint32_t slot = (uint32_t)hash & mask;; slot = (slot + 1) & mask) {
        if (map->slots[slot] == 0) return slot;
        const struct ot_map_entry *entry = &map->entries[map->slots[slot] - 1];
        if (entry->hash == hash && entry->key_bytes == key_bytes && (key_bytes == 0 || memcmp(entry->key, key, key_bytes) == 0))
            return slot;
    }
}

void *ot_map_get(const struct ot_map *map, const void *key, size_t key_bytes)
{
    if (map->count == 0) return NULL;
    const uint32_t at = map->slots[find_slot(map, key, key_bytes, key_hash(key, key_bytes))];
    return at == 0 ? NULL : map->entries[at - 1].value;
}

static enum ot_err grow(struct ot_map *map)
{
    if (map->cap > UINT32_MAX / 8) return OT_ERR_NO_MEMORY;
    const uint32_t cap = map->cap == 0 ? 8 : map->cap * 2, slot_count = cap * 2;
    uint32_t *slots = calloc(slot_count, sizeof(*slots));
    if (slots == NULL) return OT_ERR_NO_MEMORY;
    struct ot_map_entry *entries = realloc(map->entries, cap * sizeof(*entries));
    if (entries == NULL) {
        free(slots);
        return OT_ERR_NO_MEMORY;
    }
    free(map->slots);
    map->entries = entries;
    map->slots = slots;
    map->cap = cap;
    map->slot_count = slot_count;
    for (uint32_t i = 0; i < map->count; i++) {
        uint32_t slot = (uint32_t)entries[i].hash & (slot_count - 1);
        while (slots[slot] != 0) slot = (slot + 1) & (slot_count - 1);
        slots[slot] = i + 1;
    }
    return OT_OK;
}

enum ot_err ot_map_put(struct ot_map *map, const void *key, size_t key_bytes, void *value)
{
    if (key_bytes > UINT32_MAX) return OT_ERR_TOO_LARGE;
    const uint64_t hash = key_hash(key, key_bytes);
    if (map->slot_count > 0) {
        const uint32_t at = map->slots[find_slot(map, key, key_bytes, hash)];
        if (at != 0) {
            map->entries[at - 1].value = value;
            return OT_OK;
        }
    }
    if (map->count == map->cap) {
        const enum ot_err err = grow(map);
        if (err != OT_OK) return err;
    }
    uint8_t *copy = malloc(OT_MAX(key_bytes, (size_t)1));
    if (copy == NULL) return OT_ERR_NO_MEMORY;
    if (key_bytes > 0) memcpy(copy, key, key_bytes);
    map->entries[map->count++] = (struct ot_map_entry){copy, (uint32_t)key_bytes, hash, value};
    map->slots[find_slot(map, key, key_bytes, hash)] = map->count;
    return OT_OK;
}

static void free_slot(struct ot_map *map, uint32_t hole)
{
    const uint32_t mask = map->slot_count - 1;
    for (uint32_t slot = (hole + 1) & mask; map->slots[slot] != 0; slot = (slot + 1) & mask) {
        const uint32_t home = (uint32_t)map->entries[map->slots[slot] - 1].hash & mask;
        if (((slot - home) & mask) < ((slot - hole) & mask)) continue; /* it would move before its home */
        map->slots[hole] = map->slots[slot];
        hole = slot;
    }
    map->slots[hole] = 0;
}

void *ot_map_remove(struct ot_map *map, const void *key, size_t key_bytes)
{
    if (map->count == 0) return NULL;
    const uint32_t slot = find_slot(map, key, key_bytes, key_hash(key, key_bytes)), at = map->slots[slot];
    if (at == 0) return NULL;
    struct ot_map_entry gone = map->entries[at - 1];
    free_slot(map, slot);
    if (at != map->count) { /* the last entry takes the place: its slot must say so */
        const struct ot_map_entry *last = &map->entries[map->count - 1];
        map->slots[find_slot(map, last->key, last->key_bytes, last->hash)] = at;
        map->entries[at - 1] = *last;
    }
    map->count--;
    free(gone.key);
    return gone.value;
}
