/* Kafka's hash of a topic, as its groups keep it:
 *
 *     int8 0 | id, both halves | name | int32 partitions | for each: int32 its number | for each rack, sorted: int32 its length, rack
 *
 * Numbers are little-endian. Texts are UTF-16 units, two bytes each, and then their number. */
#include "base/xxh3.h"
#include "coordinator/consumer_group.h"

#include <stdlib.h>
#include <string.h>

enum { RACKS_MAX = 64 };

static void put_i32(struct ot_xxh3 *hash, int32_t value)
{
    const uint32_t bits = (uint32_t)value;
    const uint8_t bytes[] = { (uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16), (uint8_t)(bits >> 24) };
    ot_xxh3_put(hash, bytes, sizeof bytes);
}

static void put_half(struct ot_xxh3 *hash, const uint8_t *big)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = big[7 - i];
    ot_xxh3_put(hash, bytes, sizeof bytes);
}

/* The next code point of valid UTF-8; what is not valid counts byte by byte. */
static uint32_t code_point(struct ot_str text, uint32_t *at)
{
    const uint8_t *data = (const uint8_t *)text.data;
    const uint8_t first = data[(*at)++];
    const uint32_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
    if (more == 0 || *at + more > text.bytes) return first;
    uint32_t point = first & (0x3fu >> more);
    for (uint32_t i = 0; i < more; i++) point = point << 6 | (data[(*at)++] & 0x3fu);
    return point;
}

/* hash NULL: only counted. */
static int32_t units(struct ot_xxh3 *hash, struct ot_str text)
{
    int32_t count = 0;
    for (uint32_t at = 0; at < text.bytes;) {
        const uint32_t point = code_point(text, &at), above = point - 0x10000;
        const uint32_t pair[] = { point < 0x10000 ? point : 0xd800 + (above >> 10), 0xdc00 + (above & 0x3ff) };
        for (int i = 0; i < (point < 0x10000 ? 1 : 2); i++, count++) {
            const uint8_t bytes[] = { (uint8_t)pair[i], (uint8_t)(pair[i] >> 8) };
            if (hash != NULL) ot_xxh3_put(hash, bytes, sizeof bytes);
        }
    }
    return count;
}

static void put_text(struct ot_xxh3 *hash, struct ot_str text) { put_i32(hash, units(hash, text)); }

static int order(const void *a, const void *b)
{
    const struct ot_str *one = a, *two = b;
    const int bytes = memcmp(one->data, two->data, OT_MIN(one->bytes, two->bytes));
    return bytes != 0 ? bytes : (one->bytes > two->bytes) - (one->bytes < two->bytes);
}

uint64_t coord_cg_topic_hash(const struct ot_uuid *id, struct ot_str name, int32_t partition_count,
    uint32_t (*racks)(const void *arg, int32_t partition, struct ot_str *out, uint32_t max), const void *arg)
{
    struct ot_str found[RACKS_MAX];
    struct ot_xxh3 hash;
    ot_xxh3_init(&hash);
    ot_xxh3_put(&hash, "", 1);
    put_half(&hash, id->bytes);
    put_half(&hash, id->bytes + 8);
    put_text(&hash, name);
    put_i32(&hash, partition_count);
    for (int32_t p = 0; p < partition_count; p++) {
        const uint32_t count = racks == NULL ? 0 : racks(arg, p, found, RACKS_MAX);
        put_i32(&hash, p);
        if (count > 1) qsort(found, count, sizeof found[0], order);
        for (uint32_t i = 0; i < count; i++) {
            put_i32(&hash, units(NULL, found[i]));
            put_text(&hash, found[i]);
        }
    }
    return ot_xxh3_sum(&hash);
}
