/* Record batches of every kind from any bytes. The first byte chooses the way: bit 0 mends length and CRC, so that mutations
 * get behind them; bits 1-3 the codec to rebuild with; bits 4-5 the window; bit 6 the origin; bit 7 a compacted topic. What
 * the checks take must also be read, rebuilt and read again to the same records; what is skimmed must be what is read. */
#include "base/util.h"
#include "engine/batch_build.h"
#include "engine/record.h"
#include <stdlib.h>
#include <string.h>

#define POOL_BYTES        ((size_t)16 << 20)
#define RECORD_BYTES_MAX  (64 << 10)
#define MESSAGE_BYTES_MAX (1 << 20)
#define BATCHES_MAX       16
#define NOW               1750000000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct ot_pool *pool;
static struct eng_decode *decodes[4];
static struct eng_encode *encode;

static void setup(void)
{
    static const uint32_t windows[4] = {65536, 1, 17, 1000};
    if (pool != NULL) {
        return;
    }
    pool = ot_pool_new("fuzz", POOL_BYTES, 0);
    OT_ASSERT(eng_encode_new(&encode) == OT_OK);
    for (int i = 0; i < 4; i++) {
        struct eng_decode_limits limits = {.window_bytes = windows[i], .zstd_window_log_max = 21};
        OT_ASSERT(eng_decode_new(pool, &limits, &decodes[i]) == OT_OK);
    }
}

struct seen {
    enum ot_err err;
    int64_t count;
    uint64_t sum;
};

static void seen_add(struct seen *seen, const struct eng_record *record)
{
    seen->count++;
    seen->sum =
        seen->sum * 31 + (uint64_t)record->offset * 7 + (uint64_t)record->timestamp * 3 + record->key.bytes + record->value.bytes;
}

static struct seen read_all(struct eng_decode *decode, const struct eng_batch_piece *piece, bool skim)
{
    struct eng_record_iter iter;
    struct eng_record record;
    struct seen seen = {0};
    uint8_t touched = 0;
    seen.err = eng_record_open(&iter, decode, piece->data, piece->bytes, RECORD_BYTES_MAX);
    while (seen.err == OT_OK && (seen.err = skim ? eng_record_skim(&iter, &record) : eng_record_next(&iter, &record)) == OT_OK) {
        seen_add(&seen, &record);
        for (uint32_t i = 0; !skim && i < record.value.bytes; i++) {
            touched ^= record.value.data[i];
        }
        struct ot_reader cursor = ot_reader_over(record.headers.data, skim ? 0 : record.headers.bytes);
        struct eng_record_header header;
        uint32_t headers = 0;
        while (eng_record_header(&cursor, &header)) {
            headers++;
        }
        OT_ASSERT(skim || record.headers.null || headers == record.header_count);
    }
    __asm__ volatile("" : : "r"(touched)); /* the reads above must happen */
    if (seen.err == OT_ERR_NOT_FOUND) {
        seen.err = OT_OK;
    }
    return seen;
}

static void rebuild(uint8_t way, const struct eng_batch_piece *piece, struct eng_decode *decode, struct eng_batch_rules *rules,
    struct eng_batch_verdict *verdict, int64_t count)
{
    struct eng_sink sink;
    eng_sink_pool(&sink, pool, MESSAGE_BYTES_MAX);
    enum ot_err err = eng_batch_rebuild(piece->data, piece->bytes, rules, decode, encode, verdict, &sink);
    OT_ASSERT(err == OT_OK || err == OT_ERR_MESSAGE_TOO_LARGE || err == OT_ERR_NO_MEMORY);
    if (err == OT_OK) {
        struct eng_batch_piece again = {sink.data, (uint32_t)sink.bytes, 2};
        OT_ASSERT(eng_batch_check_crc(sink.data, &verdict->info) == OT_OK);
        struct seen seen = read_all(decodes[way % 4], &again, false);
        OT_ASSERT(seen.err == OT_ERR_NO_MEMORY || (seen.err == OT_OK && seen.count == count));
    }
    eng_sink_free(&sink);
}

static void append(uint8_t way, struct eng_batch_piece *piece, struct eng_decode *decode, const struct seen *seen)
{
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    rules.compression = (enum eng_codec)((way >> 1 & 7) % (ENG_CODEC_PRODUCER + 1));
    rules.origin = (way & 0x40) != 0 ? ENG_ORIGIN_COORDINATOR : ENG_ORIGIN_CLIENT;
    rules.compact_only = (way & 0x80) != 0;
    rules.timestamp_type = (way & 0x21) == 0x21 ? ENG_TIMESTAMP_APPEND : ENG_TIMESTAMP_CREATE;
    rules.max_decompressed_bytes = RECORD_BYTES_MAX;
    rules.max_message_bytes = MESSAGE_BYTES_MAX;
    enum ot_err err = eng_batch_check_shallow(piece->data, piece->bytes, &rules, &verdict);
    err = err == OT_OK && verdict.needs_deep ? eng_batch_check_deep(piece->data, piece->bytes, &rules, decode, &verdict) : err;
    OT_ASSERT(err == verdict.err && (err == OT_OK) == (verdict.text[0] == 0) && (err != OT_ERR_UNKNOWN_SERVER_ERROR));
    if (err != OT_OK) {
        return;
    }
    OT_ASSERT(seen->err == OT_ERR_NO_MEMORY || (seen->err == OT_OK && seen->count == verdict.info.record_count));
    if (verdict.rebuild) {
        rebuild(way, piece, decode, &rules, &verdict, verdict.info.record_count);
        return;
    }
    uint8_t *stored = malloc(piece->bytes);
    OT_ASSERT(stored != NULL);
    memcpy(stored, piece->data, piece->bytes);
    eng_batch_settle(stored, piece->bytes, &verdict);
    eng_batch_stamp(stored, 77, 5);
    struct eng_batch_info info;
    OT_ASSERT(eng_batch_parse(stored, piece->bytes, &info) == OT_OK && eng_batch_check_crc(stored, &info) == OT_OK);
    OT_ASSERT(info.max_timestamp == verdict.max_timestamp && info.base_offset == 77 && info.timestamp_type == rules.timestamp_type);
    free(stored);
}

/* length and CRC of the only batch set right */
static void mend(uint8_t *data, size_t bytes)
{
    if (bytes < ENG_BATCH_HEADER_BYTES) {
        return;
    }
    ot_store_u32(data + 8, (uint32_t)(bytes - 12));
    if (data[16] == 2) {
        ot_store_u32(data + ENG_BATCH_CRC_POS, ot_crc32c(0, data + ENG_BATCH_CRC_FROM, bytes - ENG_BATCH_CRC_FROM));
    }
}

static void run(uint8_t way, uint8_t *data, size_t bytes)
{
    struct ot_reader cursor = ot_reader_over(data, bytes);
    struct eng_batch_piece piece;
    struct eng_batch_info info;
    struct eng_batch_verdict verdict;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    rules.produce_api_version = (int16_t)(way >> 4);
    enum ot_err err = eng_batch_take(data, bytes, &rules, &piece, &verdict);
    OT_ASSERT((err == OT_OK) == (verdict.text[0] == 0));
    for (int i = 0; i < BATCHES_MAX && eng_batch_split(&cursor, &piece) == OT_OK; i++) {
        struct eng_decode *decode = decodes[way >> 4 & 3];
        struct seen seen = read_all(decode, &piece, false), skimmed = read_all(decode, &piece, true);
        OT_ASSERT(seen.err == OT_ERR_NO_MEMORY || skimmed.err == OT_ERR_NO_MEMORY ||
                  (seen.err == skimmed.err && seen.count == skimmed.count && seen.sum == skimmed.sum) ||
                  (seen.err != OT_OK && skimmed.err != OT_OK));
        append(way, &piece, decode, &seen);
        if (eng_batch_parse(piece.data, piece.bytes, &info) == OT_OK) {
            struct eng_marker marker;
            eng_batch_marker(piece.data, &info, &marker);
        }
    }
    OT_ASSERT(ot_pool_used_bytes(pool) <= POOL_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    setup();
    if (bytes < 1) {
        return 0;
    }
    uint8_t *copy = malloc(bytes == 1 ? 1 : bytes - 1);
    OT_ASSERT(copy != NULL);
    memcpy(copy, data + 1, bytes - 1);
    if ((data[0] & 1) != 0) {
        mend(copy, bytes - 1);
    }
    run(data[0], copy, bytes - 1);
    free(copy);
    return 0;
}
