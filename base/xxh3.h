/* XXH3, 64 bits, seed 0, of bytes that come in pieces. For hashes that others compute too (Kafka's of the topics of a group); not for tables of ours. */
#ifndef OT_BASE_XXH3_H
#define OT_BASE_XXH3_H

#include "base/bytes.h"

struct ot_xxh3 {
    uint64_t lanes[8];
    uint64_t total_bytes;
    uint32_t stripes;                          /* of the block so far */
    uint32_t held_bytes;
    uint8_t held[256];                         /* not yet in the lanes; behind held_bytes what was there before */
};
void ot_xxh3_init(struct ot_xxh3 *hash);
void ot_xxh3_put(struct ot_xxh3 *hash, const void *data, size_t bytes);
uint64_t ot_xxh3_sum(const struct ot_xxh3 *hash);      /* of all so far; more may be put afterwards */

#endif
