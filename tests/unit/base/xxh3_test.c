#include "testing.h"

#include "base/xxh3.h"

/* By hash4j 0.22.0, the library that Kafka takes its hashes from: of byte i = 7 i + 3 up to 600, and i = 13 i + 1 above. */
static const struct { size_t bytes; uint64_t hash; } vectors[] = {
    { 0, 0x2d06800538d394c2 }, { 1, 0x13e608bc156defed }, { 2, 0x1c9074b93943b86c }, { 3, 0xa9088dda485b481c },
    { 4, 0x6d9253b16c8b1ed3 }, { 5, 0x998620e10e3a4b37 }, { 8, 0x60539db630471163 }, { 9, 0xfeff668361d723a8 },
    { 16, 0xb8c859b0f030b585 }, { 17, 0x714a04408e79b80f }, { 32, 0x19ff4ee1d6ba1a55 }, { 33, 0x3e44983ad21679c8 },
    { 64, 0x287eb1fa9e4be2c1 }, { 65, 0x829218de4d798646 }, { 96, 0xf084e7cfbc624743 }, { 97, 0x1daa83271a8e7b7c },
    { 127, 0x998fa0631fd78d0b }, { 128, 0x67425a03650261bf }, { 129, 0xc664bf3311c6abc4 }, { 130, 0xa620cbbc569eeeab },
    { 160, 0xd70dea8de694b883 }, { 200, 0x746cd0025327bf5b }, { 239, 0x1d861931c1f3cafa }, { 240, 0x64556dc6b462a6cf },
    { 241, 0x8beadd3a8874fe17 }, { 256, 0x3c38817f6d79c0da }, { 300, 0xfd9aa0f0d62e0227 }, { 512, 0xf58202b8d9019d1d },
    { 513, 0xb14f40af8c0a4286 }, { 600, 0x20c6fe13784cf163 }, { 1023, 0xc3feea56fcd5467c }, { 1024, 0xaedacc061194d534 },
    { 1025, 0x5acb48ae6baa5f2b }, { 1088, 0x7893311f1436d53c }, { 2048, 0xbeb0626b68fd9a1c }, { 4999, 0x841780159d5b0785 },
    { 5000, 0xbc7918ac7a9459c },
};

static uint64_t hash_of(const uint8_t *data, size_t bytes, size_t piece)
{
    struct ot_xxh3 hash;
    ot_xxh3_init(&hash);
    for (size_t at = 0; at < bytes; at += piece) ot_xxh3_put(&hash, data + at, OT_MIN(piece, bytes - at));
    return ot_xxh3_sum(&hash);
}

static void it_is_the_hash_of_the_library_that_kafka_uses_however_the_bytes_come(void **state)
{
    static uint8_t small[600], large[5000];
    (void)state;
    for (size_t i = 0; i < sizeof small; i++) small[i] = (uint8_t)(i * 7 + 3);
    for (size_t i = 0; i < sizeof large; i++) large[i] = (uint8_t)(i * 13 + 1);
    for (size_t i = 0; i < OT_ARRAY_COUNT(vectors); i++) {
        const uint8_t *data = vectors[i].bytes <= sizeof small ? small : large;
        static const size_t pieces[] = { 1, 3, 64, 255, 256, 257, 8192 };
        for (size_t p = 0; p < OT_ARRAY_COUNT(pieces); p++) assert_true(hash_of(data, vectors[i].bytes, pieces[p]) == vectors[i].hash);
    }
}

TEST_MAIN(cmocka_unit_test(it_is_the_hash_of_the_library_that_kafka_uses_however_the_bytes_come))
