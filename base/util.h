/* Small shared things: checksums, hashes, a seeded generator, time text. No state, any thread, unless said. */
#ifndef OT_BASE_UTIL_H
#define OT_BASE_UTIL_H

#include "base/bytes.h"

uint32_t ot_crc32c(uint32_t crc, const void *data, size_t bytes);   /* Castagnoli; start with 0; ISA-L, or portable without it */
uint32_t ot_crc32c_portable(uint32_t crc, const void *data, size_t bytes);
uint32_t ot_murmur2(const void *data, size_t bytes);                /* as Kafka's partitioner */
int32_t ot_partition_for_key(const void *key, size_t bytes, int32_t partition_count);    /* murmur2 with the sign bit cleared */
int32_t ot_java_hash(struct ot_str utf8);                           /* String.hashCode over UTF-16 */
int32_t ot_coordinator_partition(struct ot_str utf8, int32_t partition_count);
uint64_t ot_hash64(const void *data, size_t bytes, uint64_t seed);  /* for tables; not for disk or wire */
bool ot_utf8_valid(const void *data, size_t bytes);

struct ot_rng { uint64_t state[4]; };                               /* xoshiro256**; same seed, same numbers */
void ot_rng_seed(struct ot_rng *rng, uint64_t seed);
uint64_t ot_rng_next(struct ot_rng *rng);
uint64_t ot_rng_below(struct ot_rng *rng, uint64_t bound);          /* [0, bound), bound > 0 */
bool ot_rng_chance(struct ot_rng *rng, double probability);
void ot_random_bytes(void *out, size_t bytes);                      /* from the system */

int64_t ot_clock_boot_us(void);
int64_t ot_clock_wall_ms(void);
void ot_time_text(int64_t wall_ms, char out[static 25]);            /* RFC 3339 UTC with milliseconds */
bool ot_time_parse(const char *text, int64_t *wall_ms_out);         /* RFC 3339, or epoch ms */

/* Nearest of count names by edit distance; NULL when nothing is near. */
const char *ot_nearest(const char *word, const char *const *names, size_t count);

#endif
