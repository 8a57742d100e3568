/* Hashes that clients compute too (murmur2 over keys, Java's over group names), our own for tables, and UTF-8. */
#include "base/util.h"

#include <string.h>

uint32_t ot_murmur2(const void *data, size_t bytes)
{
    const uint32_t m = 0x5bd1e995u;
    const uint8_t *p = data;
    uint32_t h = 0x9747b28cu ^ (uint32_t)bytes;
    for (; bytes >= 4; bytes -= 4, p += 4) {
        uint32_t k = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        k *= m;
        k ^= k >> 24;
        h = (h * m) ^ (k * m);
    }
    if (bytes >= 3) h ^= (uint32_t)p[2] << 16;
    if (bytes >= 2) h ^= (uint32_t)p[1] << 8;
    if (bytes >= 1) h = (h ^ p[0]) * m;
    h = (h ^ (h >> 13)) * m;
    return h ^ (h >> 15);
}

int32_t ot_partition_for_key(const void *key, size_t bytes, int32_t partition_count)
{
    OT_ASSERT(partition_count > 0);
    return (int32_t)(ot_murmur2(key, bytes) & 0x7fffffffu) % partition_count;
}

/* One code point from p[0, bytes), bytes > 0; *length_out of it. 0xFFFFFFFF and length 1 for what is not UTF-8. */
static uint32_t decode(const uint8_t *p, size_t bytes, size_t *length_out)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t lead = p[0];
    *length_out = 1;
    if (lead < 0x80) return lead;
    const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || bytes < length) return UINT32_MAX;
    uint32_t point = lead & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) return UINT32_MAX;
        point = (point << 6) | (p[i] & 0x3fu);
    }
    if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return UINT32_MAX;
    *length_out = length;
    return point;
}

int32_t ot_java_hash(struct ot_str utf8)
{
    const uint8_t *p = (const uint8_t *)utf8.data;
    uint32_t h = 0;
    for (size_t left = utf8.bytes, length; left > 0; left -= length, p += length) {
        uint32_t point = decode(p, left, &length);
        if (point == UINT32_MAX) point = 0xfffd; /* as Java reads what it cannot decode */
        if (point >= 0x10000) {
            h = h * 31 + (0xd800 + ((point - 0x10000) >> 10));
            point = 0xdc00 + ((point - 0x10000) & 0x3ff);
        }
        h = h * 31 + point;
    }
    return (int32_t)h;
}

int32_t ot_coordinator_partition(struct ot_str utf8, int32_t partition_count)
{
    OT_ASSERT(partition_count > 0);
    const int32_t h = ot_java_hash(utf8);
    return (h == INT32_MIN ? 0 : h < 0 ? -h : h) % partition_count;
}

bool ot_utf8_valid(const void *data, size_t bytes)
{
    const uint8_t *p = data;
    while (bytes > 0) {
        uint64_t word;
        if (bytes >= 8 && (memcpy(&word, p, 8), (word & 0x8080808080808080u) == 0)) {
            p += 8;
            bytes -= 8;
            continue;
        }
        size_t length;
        if (decode(p, bytes, &length) == UINT32_MAX) return false;
        p += length;
        bytes -= length;
    }
    return true;
}

/* Folds a 64x64 multiplication; both inputs differ from zero in practice because they are keyed. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t ot_hash64(const void *data, size_t bytes, uint64_t seed)
{
    const uint64_t k0 = 0x9e3779b97f4a7c15u, k1 = 0xd1b54a32d192ed03u;
    const uint8_t *p = data;
    uint64_t h = fold(seed ^ k0, (uint64_t)bytes ^ k1), a, b;
    for (; bytes > 16; bytes -= 16, p += 16) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, 8);
        h = fold(a ^ k0 ^ h, b ^ k1);
    }
    a = b = 0;
    if (bytes > 8) {
        memcpy(&a, p, 8);
        memcpy(&b, p + 8, bytes - 8);
    } else if (bytes > 0) {
        memcpy(&a, p, bytes);
    }
    return fold(fold(a ^ k0 ^ h, b ^ k1), h ^ k1);
}
