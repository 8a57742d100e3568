/* What it costs a leader to check a produced batch: nanoseconds a batch and CPU seconds a gigabyte of record bytes (before
 * compression), the best of several rounds. Batches of about 64 KiB and 1 MiB; values are half noise, half text. The last
 * lines split the cost: CRC alone, walk alone. */
#include "base/util.h"
#include "engine/batch_build.h"
#include "engine/record.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS      7
#define NOW         1750000000000
#define ROUND_BYTES ((size_t)64 << 20) /* of plain bytes, so that a round takes a few milliseconds at least */

static struct ot_pool *pool;
static struct eng_decode *decode;
static struct eng_encode *encode;

static int64_t cpu_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void must(enum ot_err err)
{
    if (err != OT_OK) {
        (void)fprintf(stderr, "%s\n", ot_err_name(err));
        exit(1);
    }
}

static size_t build(struct eng_sink *sink, enum eng_codec codec, size_t record_bytes, size_t batch_bytes)
{
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct eng_batch_builder builder;
    struct ot_rng rng;
    uint8_t *value = malloc(record_bytes);
    if (value == NULL) {
        exit(1);
    }
    ot_rng_seed(&rng, 1);
    fields.codec = codec;
    sink->bytes = 0;
    must(eng_batch_build_begin(&builder, &fields, encode, sink));
    while (builder.plain_bytes + record_bytes <= batch_bytes) {
        for (size_t i = 0; i < record_bytes; i++) {
            value[i] = i % 16 < 8 ? (uint8_t)ot_rng_next(&rng) : (uint8_t)('a' + i % 8);
        }
        struct ot_blob key = {value, 8, false};
        must(eng_batch_build_next(&builder, NOW, key, (struct ot_blob){value, (uint32_t)record_bytes - 20, false}, NULL, 0));
    }
    must(eng_batch_build_finish(&builder));
    free(value);
    return builder.plain_bytes;
}

enum what { WHOLE, CRC, SKIM, NEXT };
static const char *const whats[] = {"check", "crc", "skim", "next"};

static void once(enum what what, const struct eng_sink *sink, const struct eng_batch_rules *rules)
{
    struct eng_batch_verdict verdict;
    struct eng_batch_info info;
    struct eng_record_iter iter;
    struct eng_record record;
    enum ot_err err = OT_OK;
    if (what == WHOLE) {
        must(eng_batch_check_shallow(sink->data, sink->bytes, rules, &verdict));
        must(verdict.needs_deep ? eng_batch_check_deep(sink->data, sink->bytes, rules, decode, &verdict) : OT_OK);
    } else if (what == CRC) {
        must(eng_batch_parse(sink->data, sink->bytes, &info));
        must(eng_batch_check_crc(sink->data, &info));
    } else {
        must(eng_record_open(&iter, decode, sink->data, sink->bytes, 0));
        while ((err = what == SKIM ? eng_record_skim(&iter, &record) : eng_record_next(&iter, &record)) == OT_OK) {
        }
    }
}

static void measure(enum what what, enum eng_codec codec, size_t record_bytes, size_t batch_bytes)
{
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_sink sink;
    double best = 1e18;
    rules.max_message_bytes = INT32_MAX;
    eng_sink_malloc(&sink, (size_t)64 << 20);
    size_t plain_bytes = build(&sink, codec, record_bytes, batch_bytes);
    int turns = (int)(ROUND_BYTES / (codec == ENG_CODEC_NONE ? 1 : 4) / plain_bytes);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = cpu_ns();
        for (int i = 0; i < turns; i++) {
            once(what, &sink, &rules);
        }
        best = OT_MIN(best, (double)(cpu_ns() - start) / turns);
    }
    printf("%s-%s-%zuB-records-%zuKiB-batch %.0f ns/batch %.4f s/GB (packed to %.0f %%)\n", whats[what], eng_codec_name(codec),
        record_bytes, batch_bytes >> 10, best, best / (double)plain_bytes, 100.0 * (double)sink.bytes / (double)plain_bytes);
    eng_sink_free(&sink);
}

int main(void)
{
    static const enum eng_codec codecs[] = {ENG_CODEC_NONE, ENG_CODEC_LZ4, ENG_CODEC_ZSTD, ENG_CODEC_SNAPPY, ENG_CODEC_GZIP};
    static const size_t record_sizes[] = {1024, 100}, batch_sizes[] = {64 << 10, 1 << 20};
    pool = ot_pool_new("bench", (size_t)64 << 20, 0);
    must(eng_decode_new(pool, NULL, &decode));
    must(eng_encode_new(&encode));
    for (size_t c = 0; c < OT_ARRAY_COUNT(codecs); c++) {
        for (size_t r = 0; r < OT_ARRAY_COUNT(record_sizes); r++) {
            for (size_t b = 0; b < OT_ARRAY_COUNT(batch_sizes); b++) {
                measure(WHOLE, codecs[c], record_sizes[r], batch_sizes[b]);
            }
        }
    }
    for (enum what what = CRC; what <= NEXT; what++) {
        measure(what, ENG_CODEC_NONE, 1024, 64 << 10);
        measure(what, ENG_CODEC_NONE, 100, 64 << 10);
    }
    eng_decode_free(decode);
    eng_encode_free(encode);
    ot_pool_free(pool);
    return 0;
}
