/* XXH3 as its specification has it: inputs of up to 240 bytes have formulas of their own by length; longer ones go through eight lanes, stripe by stripe of 64 bytes, sixteen
 * stripes a block, with the lanes scrambled between blocks. The last 64 bytes are a stripe again, whatever they share with the one before. */
#include "base/xxh3.h"

#include <string.h>

enum { STRIPE_BYTES = 64, STRIPES_PER_BLOCK = 16, SHORT_BYTES_MAX = 240, SECRET_BYTES = 192, SECRET_LAST = SECRET_BYTES - 64 };
#define P32_1 UINT64_C(0x9E3779B1)
#define P32_2 UINT64_C(0x85EBCA77)
#define P32_3 UINT64_C(0xC2B2AE3D)
#define P64_1 UINT64_C(0x9E3779B185EBCA87)
#define P64_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define P64_3 UINT64_C(0x165667B19E3779F9)
#define P64_4 UINT64_C(0x85EBCA77C2B2AE63)
#define P64_5 UINT64_C(0x27D4EB2F165667C5)
#define MIX_1 UINT64_C(0x165667919E3779F9)
#define MIX_2 UINT64_C(0x9FB21C651E98DF25)

static const uint8_t secret[SECRET_BYTES] = {           /* of the specification */
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

/* Little-endian, as everything here. */
static uint64_t u64(const uint8_t *at) { return __builtin_bswap64(ot_load_u64(at)); }
static uint32_t u32(const uint8_t *at) { return __builtin_bswap32(ot_load_u32(at)); }

static uint64_t fold(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t avalanche(uint64_t hash)
{
    hash = (hash ^ (hash >> 37)) * MIX_1;
    return hash ^ (hash >> 32);
}

static uint64_t avalanche_short(uint64_t hash)
{
    hash = (hash ^ (hash >> 33)) * P64_2;
    hash = (hash ^ (hash >> 29)) * P64_3;
    return hash ^ (hash >> 32);
}

static uint64_t mix16(const uint8_t *data, const uint8_t *key) { return fold(u64(data) ^ u64(key), u64(data + 8) ^ u64(key + 8)); }
static uint64_t rotate(uint64_t value, unsigned by) { return value << by | value >> (64 - by); }

static uint64_t upto_16(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return avalanche_short(u64(secret + 56) ^ u64(secret + 64));
    if (bytes < 4) {
        const uint32_t joined = (uint32_t)data[0] << 16 | (uint32_t)data[bytes >> 1] << 24 | data[bytes - 1] | (uint32_t)bytes << 8;
        return avalanche_short(joined ^ (uint64_t)(u32(secret) ^ u32(secret + 4)));
    }
    if (bytes <= 8) {
        uint64_t hash = (u32(data + bytes - 4) + ((uint64_t)u32(data) << 32)) ^ u64(secret + 8) ^ u64(secret + 16);
        hash ^= rotate(hash, 49) ^ rotate(hash, 24);
        hash *= MIX_2;
        hash = (hash ^ ((hash >> 35) + bytes)) * MIX_2;
        return hash ^ (hash >> 28);
    }
    const uint64_t low = u64(data) ^ u64(secret + 24) ^ u64(secret + 32), high = u64(data + bytes - 8) ^ u64(secret + 40) ^ u64(secret + 48);
    return avalanche(bytes + __builtin_bswap64(low) + high + fold(low, high));
}

static uint64_t upto_240(const uint8_t *data, size_t bytes)
{
    uint64_t sum = bytes * P64_1;
    if (bytes <= 128) {
        for (size_t i = (bytes - 1) / 32 + 1; i > 0; i--) sum += mix16(data + 16 * (i - 1), secret + 32 * (i - 1)) + mix16(data + bytes - 16 * i, secret + 32 * (i - 1) + 16);
        return avalanche(sum);
    }
    for (size_t i = 0; i < 8; i++) sum += mix16(data + 16 * i, secret + 16 * i);
    sum = avalanche(sum);
    for (size_t i = 8; i < bytes / 16; i++) sum += mix16(data + 16 * i, secret + 16 * (i - 8) + 3);
    return avalanche(sum + mix16(data + bytes - 16, secret + 136 - 17));
}

/* ---- longer ones */

static void stripe(uint64_t lanes[8], const uint8_t *data, const uint8_t *key)
{
    for (int i = 0; i < 8; i++) {
        const uint64_t value = u64(data + 8 * i), keyed = value ^ u64(key + 8 * i);
        lanes[i ^ 1] += value;
        lanes[i] += (keyed & UINT32_MAX) * (keyed >> 32);
    }
}

static void next_stripe(uint64_t lanes[8], uint32_t *stripes, const uint8_t *data)
{
    stripe(lanes, data, secret + 8 * *stripes);
    if (++*stripes < STRIPES_PER_BLOCK) return;
    for (int i = 0; i < 8; i++) lanes[i] = (lanes[i] ^ (lanes[i] >> 47) ^ u64(secret + SECRET_LAST + 8 * i)) * P32_1;
    *stripes = 0;
}

void ot_xxh3_init(struct ot_xxh3 *hash)
{
    static const uint64_t lanes[8] = { P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1 };
    *hash = (struct ot_xxh3){ 0 };
    memcpy(hash->lanes, lanes, sizeof lanes);
}

void ot_xxh3_put(struct ot_xxh3 *hash, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    hash->total_bytes += bytes;
    while (bytes > 0) {
        if (hash->held_bytes == sizeof hash->held) {           /* and there is more, so none of it is the last stripe */
            for (size_t i = 0; i < sizeof hash->held; i += STRIPE_BYTES) next_stripe(hash->lanes, &hash->stripes, hash->held + i);
            hash->held_bytes = 0;
        }
        const size_t some = OT_MIN(bytes, sizeof hash->held - hash->held_bytes);
        memcpy(hash->held + hash->held_bytes, at, some);
        hash->held_bytes += (uint32_t)some;
        at += some;
        bytes -= some;
    }
}

uint64_t ot_xxh3_sum(const struct ot_xxh3 *hash)
{
    uint64_t lanes[8], sum = hash->total_bytes * P64_1;
    uint8_t last[STRIPE_BYTES];
    uint32_t stripes = hash->stripes;
    if (hash->total_bytes <= 16) return upto_16(hash->held, (size_t)hash->total_bytes);
    if (hash->total_bytes <= SHORT_BYTES_MAX) return upto_240(hash->held, (size_t)hash->total_bytes);
    memcpy(lanes, hash->lanes, sizeof lanes);
    for (size_t i = 0; i + STRIPE_BYTES < hash->held_bytes; i += STRIPE_BYTES) next_stripe(lanes, &stripes, hash->held + i);
    const size_t ours = OT_MIN(hash->held_bytes, (uint32_t)STRIPE_BYTES);     /* the rest of the last stripe went before, and still lies at the end */
    memcpy(last, hash->held + sizeof hash->held - (STRIPE_BYTES - ours), STRIPE_BYTES - ours);
    memcpy(last + STRIPE_BYTES - ours, hash->held + hash->held_bytes - ours, ours);
    stripe(lanes, last, secret + SECRET_LAST - 7);
    for (int i = 0; i < 4; i++) sum += fold(lanes[2 * i] ^ u64(secret + 11 + 16 * i), lanes[2 * i + 1] ^ u64(secret + 11 + 16 * i + 8));
    return avalanche(sum);
}
