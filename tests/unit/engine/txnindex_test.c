#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/log.h"
#include "engine/txnindex.h"
#include "base/util.h"
#include "temp_dir.h"
#include "vectors.h"

struct bench { char dir[200]; int fd; uint64_t bytes; };

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    temp_dir_make(bench->dir, sizeof bench->dir);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/00000000000000000010.txnindex", bench->dir);
    assert_int_equal(ot_io_real()->ops->open(ot_io_real(), path, OT_IO_WRITE | OT_IO_CREATE, &bench->fd), OT_OK);
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    ot_io_real()->ops->close(ot_io_real(), bench->fd);
    temp_dir_remove(bench->dir);
    free(bench);
    return 0;
}

static void append(struct bench *bench, int64_t id, int64_t first, int64_t last, int64_t stable)
{
    struct eng_completed_txn txn = { id, first, last, stable, true };
    assert_int_equal(eng_txn_index_append(ot_io_real(), bench->fd, &txn, &bench->bytes), OT_OK);
}

static enum ot_err check(struct bench *bench, int64_t base, int64_t end)
{
    return eng_txn_index_check(ot_io_real(), bench->fd, bench->bytes, base, end);
}

static void entries_equal_the_vectors_line(void *arg, int line, json_t *object)
{
    int *seen = arg;
    (void)line;
    if (strcmp(json_string_value(json_object_get(object, "name")), "AbortedTxn") != 0) return;
    uint8_t framed[64], encoded[ENG_TXN_ENTRY_BYTES];
    assert_int_equal(vectors_hex(object, "framed", framed, sizeof framed), ENG_TXN_ENTRY_BYTES);
    json_t *json = json_object_get(object, "json");
    struct eng_txn_entry entry;
    assert_int_equal(eng_txn_entry_decode(framed, &entry), OT_OK);
    assert_int_equal(entry.producer_id, json_integer_value(json_object_get(json, "producerId")));
    assert_int_equal(entry.first_offset, json_integer_value(json_object_get(json, "firstOffset")));
    assert_int_equal(entry.last_offset, json_integer_value(json_object_get(json, "lastOffset")));
    assert_int_equal(entry.last_stable_offset, json_integer_value(json_object_get(json, "lastStableOffset")));
    eng_txn_entry_encode(&entry, encoded);
    assert_memory_equal(encoded, framed, sizeof encoded);
    framed[1] = 1;
    assert_int_equal(eng_txn_entry_decode(framed, &entry), OT_ERR_CORRUPT);
    (*seen)++;
}

static void entries_equal_the_vectors(void **state)
{
    int seen = 0;
    (void)state;
    (void)vectors_each("handed", entries_equal_the_vectors_line, &seen);
    assert_true(seen >= 3);
}

static void committed_transactions_are_not_written(void **state)
{
    struct bench *bench = *state;
    struct eng_completed_txn txn = { 7, 1, 5, 6, false };
    assert_int_equal(eng_txn_index_append(ot_io_real(), bench->fd, &txn, &bench->bytes), OT_OK);
    assert_int_equal(bench->bytes, 0);
}

static void truncation_drops_markers_at_and_above(void **state)
{
    struct bench *bench = *state;
    for (int64_t i = 0; i < 300; i++) append(bench, i, i * 10, i * 10 + 15, i * 10 + 10);
    assert_int_equal(eng_txn_index_truncate(ot_io_real(), bench->fd, 3006, &bench->bytes), OT_OK);
    assert_int_equal(bench->bytes, 300 * ENG_TXN_ENTRY_BYTES);
    assert_int_equal(eng_txn_index_truncate(ot_io_real(), bench->fd, 1015, &bench->bytes), OT_OK);
    assert_int_equal(bench->bytes, 100 * ENG_TXN_ENTRY_BYTES);
    struct ot_io_stat stat;
    assert_int_equal(ot_io_real()->ops->fstat(ot_io_real(), bench->fd, &stat), OT_OK);
    assert_int_equal(stat.bytes, bench->bytes);
    assert_int_equal(check(bench, 10, 1006), OT_OK);
    assert_int_equal(eng_txn_index_truncate(ot_io_real(), bench->fd, 0, &bench->bytes), OT_OK);
    assert_int_equal(bench->bytes, 0);
}

static void check_names_what_cannot_be(void **state)
{
    struct bench *bench = *state;
    append(bench, 7, 5, 12, 13);
    append(bench, 8, 11, 15, 16);
    assert_int_equal(check(bench, 10, 16), OT_OK);
    assert_int_equal(check(bench, 13, 16), OT_ERR_CORRUPT);        /* a marker of an earlier segment */
    assert_int_equal(check(bench, 10, 15), OT_ERR_CORRUPT);        /* a marker behind the end */
    bench->bytes -= 1;
    assert_int_equal(check(bench, 10, 16), OT_ERR_CORRUPT);
    bench->bytes += 1;
    append(bench, 9, 14, 15, 16);                                  /* does not grow */
    assert_int_equal(check(bench, 10, 16), OT_ERR_CORRUPT);
    assert_int_equal(eng_txn_index_truncate(ot_io_real(), bench->fd, 13, &bench->bytes), OT_OK);
    append(bench, 9, 15, 15, 16);                                  /* ends where it begins */
    assert_int_equal(check(bench, 10, 16), OT_ERR_CORRUPT);
    bench->bytes = 4 * ENG_TXN_ENTRY_BYTES;                        /* larger than the file */
    assert_int_equal(check(bench, 10, 16), OT_ERR_CORRUPT);
}

/* Random transactions against a plain search; the early stop must never lose one. */
static void collect_finds_what_a_plain_search_finds(void **state)
{
    struct bench *bench = *state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct ot_rng rng;
        ot_rng_seed(&rng, seed);
        int64_t open[6], at = 10;                                  /* first offset of each producer's transaction, -1 */
        struct eng_txn_entry all[400];
        uint32_t count = 0;
        bench->bytes = 0;
        memset(open, 0xff, sizeof open);
        while (count < 150) {
            uint64_t who = ot_rng_below(&rng, 6);
            int64_t stable = at + 1;
            if (open[who] < 0) {
                open[who] = at++;
                continue;
            }
            for (uint64_t i = 0; i < 6; i++) stable = i != who && open[i] >= 0 && open[i] < stable ? open[i] : stable;
            if (ot_rng_below(&rng, 3) != 0) {
                all[count++] = (struct eng_txn_entry){ (int64_t)who, open[who], at, stable };
                append(bench, (int64_t)who, open[who], at, stable);
            }
            open[who] = -1;
            at += 1 + (int64_t)ot_rng_below(&rng, 4);
        }
        int64_t from = (int64_t)ot_rng_below(&rng, (uint64_t)at + 5), to = from + (int64_t)ot_rng_below(&rng, 60);
        struct eng_aborted out[400];
        struct eng_txn_collect collect = { .from = from, .to = to, .out = out, .max = 400 };
        assert_int_equal(eng_txn_index_collect(ot_io_real(), bench->fd, bench->bytes, &collect), OT_OK);
        eng_txn_collect_sort(&collect);
        uint32_t expected = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (all[i].last_offset < from || all[i].first_offset >= to) continue;
            bool found = false;
            for (uint32_t j = 0; j < collect.count; j++) found = found || out[j].first_offset == all[i].first_offset;
            assert_true(found);
            expected++;
        }
        assert_int_equal(collect.count, expected);
        for (uint32_t i = 1; i < collect.count; i++) assert_true(out[i - 1].first_offset < out[i].first_offset);
        struct eng_txn_collect small = { .from = from, .to = to, .out = out, .max = 1 };
        assert_int_equal(eng_txn_index_collect(ot_io_real(), bench->fd, bench->bytes, &small), OT_OK);
        assert_int_equal(small.count, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        cmocka_unit_test(entries_equal_the_vectors), T(committed_transactions_are_not_written), T(truncation_drops_markers_at_and_above),
        T(check_names_what_cannot_be), T(collect_finds_what_a_plain_search_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
