/* Lookups in an index against a walk through it, and what they cost. */
#include "testing.h"

#include "base/io_fault.h"
#include "base/util.h"
#include "engine/index.h"
#include "temp_dir.h"

#include <fcntl.h>
#include <sys/stat.h>

#define BASE_OFFSET 5000
#define ENTRIES_MAX 20000u

struct bench {
    char dir[256];
    struct ot_io_fault fault;
    struct ot_io_ops ops;
    struct ot_io io;
    int fd;
    uint32_t count;
    struct eng_index_entry entries[ENTRIES_MAX];
};

static bool nothing_is_cached(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes) { (void)io, (void)fd, (void)pos, (void)bytes; return false; }

static int setup(void **state)
{
    struct bench *b = calloc(1, sizeof *b);
    char path[300];
    assert_non_null(b);
    temp_dir_make(b->dir, sizeof b->dir);
    ot_io_fault_init(&b->fault, ot_io_real());
    (void)snprintf(path, sizeof path, "%s/index", b->dir);
    assert_int_equal(b->fault.io.ops->open(&b->fault.io, path, OT_IO_WRITE | OT_IO_CREATE, &b->fd), OT_OK);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;
    b->fault.io.ops->close(&b->fault.io, b->fd);
    temp_dir_remove(b->dir);
    free(b);
    return 0;
}

/* Offsets grow by 1 to step_max, in half of the index a thousand times as fast as in the other when uneven. */
static void fill(struct bench *b, uint32_t count, uint64_t step_max, bool uneven, uint64_t seed)
{
    uint8_t *raw = malloc((size_t)count * ENG_INDEX_ENTRY_BYTES + 1);
    int64_t offset = BASE_OFFSET;
    uint32_t pos = 0;
    struct ot_rng rng;
    assert_non_null(raw);
    ot_rng_seed(&rng, seed);
    for (uint32_t i = 0; i < count; i++) {
        offset += (int64_t)(1 + ot_rng_next(&rng) % step_max) * (uneven && i > count / 2 ? 1000 : 1);
        pos += 4097 + (uint32_t)(ot_rng_next(&rng) % 1000);
        b->entries[i] = (struct eng_index_entry){ offset, pos };
        eng_index_entry_put(raw + (size_t)i * ENG_INDEX_ENTRY_BYTES, BASE_OFFSET, &b->entries[i]);
    }
    b->count = count;
    assert_int_equal(ot_io_write_all(&b->fault.io, b->fd, raw, (size_t)count * ENG_INDEX_ENTRY_BYTES, 0), OT_OK);
    free(raw);
}

static int64_t end_of(const struct bench *b) { return b->count == 0 ? BASE_OFFSET : b->entries[b->count - 1].offset + 1; }

static void look(struct bench *b, int64_t offset, int64_t end_offset)
{
    struct eng_index_look how = { &b->fault.io, b->fd, b->count, BASE_OFFSET, end_offset, false };
    struct eng_index_around around;
    uint32_t below = 0;
    while (below < b->count && b->entries[below].offset <= offset) below++;
    assert_int_equal(eng_index_around(&how, offset, &around), OT_OK);
    assert_int_equal(around.has_floor, below > 0);
    assert_int_equal(around.has_next, below < b->count);
    if (below > 0) assert_int_equal(around.floor.offset, b->entries[below - 1].offset);
    if (below > 0) assert_int_equal(around.floor.pos, b->entries[below - 1].pos);
    if (below < b->count) assert_int_equal(around.next.offset, b->entries[below].offset);
    if (below < b->count) assert_int_equal(around.next.pos, b->entries[below].pos);
}

static void a_lookup_finds_what_a_walk_finds(void **state)
{
    struct bench *b = *state;
    static const uint32_t counts[] = { 0, 1, 2, 63, 255, 256, 257, 513, 7777 };
    for (size_t c = 0; c < OT_ARRAY_COUNT(counts); c++) {
        for (int uneven = 0; uneven < 2; uneven++) {
            fill(b, counts[c], 40, uneven, c + 1);
            const int64_t end = end_of(b), step = 1 + (end - BASE_OFFSET) / 150;
            for (int64_t offset = BASE_OFFSET - 3; offset < end + 3; offset += step) {
                look(b, offset, BASE_OFFSET);              /* not known */
                look(b, offset, end);
                look(b, offset, end + 100000);             /* far off: a log that grew */
                look(b, offset, BASE_OFFSET + 1);
            }
            look(b, INT64_MAX, end);
            look(b, INT64_MIN, end);
            for (uint32_t i = 0; i < counts[c]; i += 1 + counts[c] / 50) look(b, b->entries[i].offset, end);
        }
    }
}

static void an_evenly_grown_index_is_read_once_or_twice(void **state)
{
    struct bench *b = *state;
    fill(b, ENTRIES_MAX, 40, false, 7);
    for (int64_t offset = BASE_OFFSET; offset < end_of(b); offset += 1009) {
        const uint64_t before = b->fault.counts[OT_IO_CALL_PREAD];
        look(b, offset, end_of(b));
        assert_in_range(b->fault.counts[OT_IO_CALL_PREAD] - before, 1, 2);
    }
    fill(b, ENTRIES_MAX, 40, true, 8);
    for (int64_t offset = BASE_OFFSET; offset < end_of(b); offset += 1000003) {
        const uint64_t before = b->fault.counts[OT_IO_CALL_PREAD];
        look(b, offset, end_of(b));
        assert_in_range(b->fault.counts[OT_IO_CALL_PREAD] - before, 1, 18);        /* at worst guesses, then halving */
    }
}

static void positions_and_counts_are_found_too(void **state)
{
    struct bench *b = *state;
    struct eng_index_entry entry;
    uint32_t below = 0;
    fill(b, 3000, 9, true, 3);
    for (uint32_t i = 0; i < b->count; i += 17) {
        assert_int_equal(eng_index_ceiling_pos(&b->fault.io, b->fd, b->count, BASE_OFFSET, b->entries[i].pos, &entry), OT_OK);
        assert_int_equal(entry.offset, b->entries[i].offset);
        assert_int_equal(eng_index_floor(&b->fault.io, b->fd, b->count, BASE_OFFSET, b->entries[i].offset, &entry), OT_OK);
        assert_int_equal(entry.pos, b->entries[i].pos);
        assert_int_equal(eng_index_count_below(&b->fault.io, b->fd, b->count, BASE_OFFSET, b->entries[i].offset, &below), OT_OK);
        assert_int_equal(below, i);
    }
    assert_int_equal(eng_index_floor(&b->fault.io, b->fd, b->count, BASE_OFFSET, BASE_OFFSET, &entry), OT_ERR_NOT_FOUND);
}

static void noise_in_the_place_of_entries_ends_every_search(void **state)
{
    struct bench *b = *state;
    struct ot_rng rng;
    uint8_t raw[4000 * ENG_INDEX_ENTRY_BYTES];
    ot_rng_seed(&rng, 99);
    for (size_t i = 0; i < sizeof raw; i++) raw[i] = (uint8_t)ot_rng_next(&rng);
    assert_int_equal(ot_io_write_all(&b->fault.io, b->fd, raw, sizeof raw, 0), OT_OK);
    for (int64_t offset = (int64_t)BASE_OFFSET - (1LL << 31); offset < (int64_t)BASE_OFFSET + (1LL << 31); offset += 10000019) {
        struct eng_index_look how = { &b->fault.io, b->fd, 4000, BASE_OFFSET, (int64_t)BASE_OFFSET + INT32_MAX, false };
        struct eng_index_around around;
        assert_int_equal(eng_index_around(&how, offset, &around), OT_OK);
        assert_true(around.has_floor || around.has_next);
    }
}

static void who_may_not_block_does_not_read_what_is_not_cached(void **state)
{
    struct bench *b = *state;
    struct eng_index_around around;
    fill(b, 500, 9, false, 4);
    b->ops = *b->fault.io.ops;
    b->ops.is_cached = nothing_is_cached;
    const struct ot_io_ops *kept = b->fault.io.ops;
    b->fault.io.ops = &b->ops;
    struct eng_index_look how = { &b->fault.io, b->fd, b->count, BASE_OFFSET, end_of(b), true };
    const uint64_t before = b->fault.counts[OT_IO_CALL_PREAD];
    assert_int_equal(eng_index_around(&how, BASE_OFFSET + 500, &around), OT_ERR_BUSY);
    assert_int_equal(b->fault.counts[OT_IO_CALL_PREAD], before);
    how.may_not_block = false;
    assert_int_equal(eng_index_around(&how, BASE_OFFSET + 500, &around), OT_OK);
    b->fault.io.ops = kept;
}

static void a_file_shorter_than_its_count_is_told(void **state)
{
    struct bench *b = *state;
    struct eng_index_around around;
    fill(b, 300, 9, false, 5);
    struct eng_index_look how = { &b->fault.io, b->fd, 5000, BASE_OFFSET, BASE_OFFSET + 50000, false };
    assert_int_equal(eng_index_around(&how, BASE_OFFSET + 49999, &around), OT_ERR_SHORT);
}

#define INDEX_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
TEST_MAIN(INDEX_TEST(a_lookup_finds_what_a_walk_finds), INDEX_TEST(an_evenly_grown_index_is_read_once_or_twice), INDEX_TEST(positions_and_counts_are_found_too),
    INDEX_TEST(noise_in_the_place_of_entries_ends_every_search), INDEX_TEST(who_may_not_block_does_not_read_what_is_not_cached),
    INDEX_TEST(a_file_shorter_than_its_count_is_told))
