/* A hash map from bytes to pointers: open addressing, keys copied. Not thread-safe. Iteration order is insertion order while
 * nothing was removed (removal swaps the last entry in), the same on every run: simulators need that. */
#ifndef OT_BASE_MAP_H
#define OT_BASE_MAP_H

#include "base/bytes.h"

struct ot_map_entry { uint8_t *key; uint32_t key_bytes; uint64_t hash; void *value; };
struct ot_map { struct ot_map_entry *entries; uint32_t *slots; uint32_t count, cap, slot_count; };

void ot_map_init(struct ot_map *map);
void ot_map_free(struct ot_map *map);                                            /* values are the caller's */
void *ot_map_get(const struct ot_map *map, const void *key, size_t key_bytes);   /* NULL when absent */
OT_MUST_CHECK enum ot_err ot_map_put(struct ot_map *map, const void *key, size_t key_bytes, void *value);   /* adds or replaces */
void *ot_map_remove(struct ot_map *map, const void *key, size_t key_bytes);      /* gives the value back, or NULL */

#endif
