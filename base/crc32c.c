/* CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), as in the header of a record batch. Through ISA-L, which picks the
 * instructions of the machine, or eight table lookups for eight bytes. */
#include "base/util.h"

#include <pthread.h>
#ifdef OT_HAVE_ISAL
#include <isa-l/crc.h>
#endif

static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_fill(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1)));
        table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int slice = 1; slice < 8; slice++) {
            const uint32_t before = table[slice - 1][i];
            table[slice][i] = (before >> 8) ^ table[0][before & 255];
        }
    }
}

uint32_t ot_crc32c_portable(uint32_t crc, const void *data, size_t bytes)
{
    pthread_once(&table_once, table_fill);
    const uint8_t *p = data;
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        const uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = table[7][low & 255] ^ table[6][(low >> 8) & 255] ^ table[5][(low >> 16) & 255] ^ table[4][low >> 24] ^
              table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; bytes > 0; bytes--) crc = (crc >> 8) ^ table[0][(crc ^ *p++) & 255];
    return ~crc;
}

#ifdef OT_HAVE_ISAL
uint32_t ot_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    unsigned char *p = (unsigned char *)(uintptr_t)data; /* ISA-L takes no const, and writes nothing */
    uint32_t state = ~crc;                               /* it leaves the inversions before and after to us */
    while (bytes > 0) {
        const int piece = bytes > (1u << 30) ? (int)(1u << 30) : (int)bytes;
        state = crc32_iscsi(p, piece, state);
        p += piece;
        bytes -= (size_t)piece;
    }
    return ~state;
}
#else
uint32_t ot_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return ot_crc32c_portable(crc, data, bytes);
}
#endif
