#include "base/util.h"
#include "coordinator/value.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The plain model: one slot for each key that there may be. */
enum { KEYS = 3000, VIEWS = 8 };
struct model { bool present[KEYS]; uint32_t bytes[KEYS]; uint8_t fill[KEYS]; uint64_t count; };

static uint32_t make_key(uint32_t index, uint8_t *out)     /* of all lengths, many with long common beginnings; ascending with the index */
{
    uint32_t bytes = 3 + (index % 7 == 0 ? 300 : index % 5 == 0 ? 40 : 6);
    memset(out, 'k', bytes);
    ot_store_u16(out + 1, (uint16_t)index);
    return bytes;
}

static uint8_t row_data[COORD_ROW_BYTES_MAX];
static struct ot_blob make_value(uint32_t bytes, uint8_t fill)
{
    memset(row_data, fill, bytes);
    return coord_blob(row_data, bytes);
}

static void expect_same(const struct coord_value *value, const struct model *model)
{
    struct coord_cursor cursor;
    struct ot_blob key, bytes;
    uint8_t name[COORD_KEY_BYTES_MAX];
    uint64_t hash = 0, row_bytes = 0;
    coord_cursor_seek(&cursor, &value->tree, coord_blob("", 0));
    for (uint32_t i = 0; i < KEYS; i++) {
        if (!model->present[i]) {
            continue;
        }
        uint32_t name_bytes = make_key(i, name);
        assert_true(coord_cursor_next(&cursor, &key, &bytes));
        assert_int_equal(key.bytes, name_bytes);
        assert_memory_equal(key.data, name, name_bytes);
        assert_int_equal(bytes.bytes, model->bytes[i]);
        assert_true(bytes.bytes == 0 || (bytes.data[0] == model->fill[i] && bytes.data[bytes.bytes - 1] == model->fill[i]));
        hash += coord_row_hash(key, bytes);
        row_bytes += key.bytes + bytes.bytes;
    }
    assert_false(coord_cursor_next(&cursor, &key, &bytes));
    assert_int_equal(coord_tree_check(&value->tree), model->count);
    assert_int_equal(value->row_count, model->count);
    assert_int_equal(value->row_bytes, row_bytes);
    assert_true(value->state_hash == hash);
}

static uint32_t pick_bytes(struct ot_rng *rng)
{
    return ot_rng_chance(rng, 0.1) ? (uint32_t)ot_rng_below(rng, 1450) : (uint32_t)ot_rng_below(rng, 60);
}

static void change(struct ot_rng *rng, struct coord_value *value, struct coord_delta *delta, struct model *model, double remove_share)
{
    uint8_t name[COORD_KEY_BYTES_MAX];
    uint32_t index = (uint32_t)ot_rng_below(rng, KEYS);
    struct ot_blob key = coord_blob(name, make_key(index, name));
    struct ot_blob found;
    assert_int_equal(coord_value_get(value, key, &found), model->present[index]);
    if (ot_rng_chance(rng, remove_share)) {
        assert_int_equal(coord_delta_remove(delta, value, key), model->present[index] ? OT_OK : OT_ERR_NOT_FOUND);
        model->count -= model->present[index];
        model->present[index] = false;
        return;
    }
    model->count += !model->present[index];
    model->present[index] = true;
    model->bytes[index] = pick_bytes(rng);
    model->fill[index] = (uint8_t)ot_rng_next(rng);
    assert_int_equal(coord_delta_set(delta, value, key, make_value(model->bytes[index], model->fill[index])), OT_OK);
}

static void random_changes_agree_with_a_plain_model_and_views_stay(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct ot_rng rng;
        ot_rng_seed(&rng, seed);
        struct coord_pages *pages = coord_pages_new(64 << 20);
        struct coord_value value, views[VIEWS], follower;
        struct model *model = calloc(1, sizeof *model), *seen = calloc(VIEWS, sizeof *seen);
        struct coord_delta delta = { .data = malloc(1 << 20), .cap_bytes = 1 << 20 };
        coord_value_init(&value, pages);
        coord_value_init(&follower, pages);
        for (int i = 0; i < VIEWS; i++) {
            coord_value_init(&views[i], pages);
        }
        for (int round = 0; round < 120; round++) {
            double share = round < 60 ? 0.3 : round < 90 ? 0.5 : 0.9;
            delta.bytes = 0;
            for (int i = 0; i < 100; i++) {
                change(&rng, &value, &delta, model, share);
            }
            assert_int_equal(coord_delta_apply(&follower, coord_blob(delta.data, delta.bytes)), OT_OK);
            assert_true(follower.state_hash == value.state_hash);
            int at = round % VIEWS;
            expect_same(&views[at], &seen[at]);        /* taken eight rounds ago, unchanged since */
            coord_value_drop(&views[at]);
            views[at] = coord_value_share(&value);
            seen[at] = *model;
        }
        expect_same(&value, model);
        expect_same(&follower, model);
        for (int i = 0; i < VIEWS; i++) {
            coord_value_drop(&views[i]);
        }
        coord_value_drop(&value);
        coord_value_drop(&follower);
        assert_int_equal(coord_pages_used_bytes(pages), 0);
        coord_pages_free(pages);
        free(delta.data);
        free(model);
        free(seen);
    }
}

static void fill(struct coord_value *value, uint32_t rows, uint32_t bytes)
{
    uint8_t name[COORD_KEY_BYTES_MAX];
    for (uint32_t i = 0; i < rows; i++) {
        assert_int_equal(coord_value_set(value, coord_blob(name, make_key(i, name)), make_value(bytes, (uint8_t)i)), OT_OK);
    }
}

static void rows_added_in_order_fill_their_pages(void **state)
{
    (void)state;
    struct coord_pages *pages = coord_pages_new(64 << 20);
    struct coord_value value;
    coord_value_init(&value, pages);
    fill(&value, KEYS, 50);
    assert_int_equal(coord_tree_check(&value.tree), KEYS);
    assert_true(coord_pages_used_bytes(pages) < value.row_bytes * 5 / 4 + 4 * COORD_PAGE_BYTES);
    coord_value_drop(&value);
    coord_pages_free(pages);
}

static void a_full_pool_changes_nothing(void **state)
{
    (void)state;
    struct coord_pages *pages = coord_pages_new(40 * COORD_PAGE_BYTES);
    struct coord_value value;
    coord_value_init(&value, pages);
    uint8_t name[COORD_KEY_BYTES_MAX];
    enum ot_err err = OT_OK;
    uint32_t count = 0;
    while (err == OT_OK) {
        struct coord_value before = value;
        err = coord_value_set(&value, coord_blob(name, make_key(count, name)), make_value(500, 1));
        if (err != OT_OK) {
            assert_memory_equal(&before, &value, sizeof before);
        }
        count += err == OT_OK;
    }
    assert_int_equal(err, OT_ERR_NO_MEMORY);
    assert_int_equal(coord_tree_check(&value.tree), count);
    struct coord_value view = coord_value_share(&value);       /* now every change would need copies */
    assert_int_equal(coord_value_remove(&value, coord_blob(name, make_key(0, name))), OT_ERR_NO_MEMORY);
    assert_true(view.state_hash == value.state_hash);
    coord_value_drop(&view);
    coord_value_drop(&value);
    coord_pages_free(pages);
}

/* Neighbours that differ a little cost a little, a delta behind another one is one, and what was told comes out. */
static void like_rows_are_told_by_what_differs(void **state)
{
    (void)state;
    static uint8_t room[1 << 16], twice[1 << 17];
    struct coord_pages *pages = coord_pages_new(16 << 20);
    struct coord_value value, twin;
    struct coord_delta deltas[2] = { { .data = room, .cap_bytes = sizeof room / 2 }, { .data = room + sizeof room / 2, .cap_bytes = sizeof room / 2 } }, both = { .data = twice, .cap_bytes = sizeof twice };
    coord_value_init(&value, pages);
    coord_value_init(&twin, pages);
    uint8_t key[21] = { 9, 1, 2, 3 }, bytes[COORD_LIKE_BYTES_MAX + 1] = { 0 };
    for (uint32_t i = 0; i < 500; i++) {
        struct coord_delta *delta = &deltas[i / 250];
        const uint32_t count = i % 50 == 7 ? sizeof bytes : i % 10 == 3 ? 0 : 40 + i % 7;      /* longer than may be told so, empty, shorter and longer than the one before */
        ot_store_u32(key + 17, i);
        ot_store_u32(bytes + 4 + i % 30, i);
        assert_int_equal(coord_delta_set(delta, &value, coord_blob(key, sizeof key), coord_blob(bytes, count)), OT_OK);
        if (i % 20 == 11) assert_int_equal(coord_delta_remove(delta, &value, coord_blob(key, sizeof key)), OT_OK);
    }
    assert_true(deltas[0].bytes < 250 * 20 + 5 * sizeof bytes);         /* whole they would be about 65 bytes each */
    assert_int_equal(coord_delta_take(&both, coord_blob(deltas[0].data, deltas[0].bytes), coord_blob(deltas[1].data, deltas[1].bytes)), OT_OK);
    assert_int_equal(coord_delta_apply(&twin, coord_blob(both.data, both.bytes)), OT_OK);
    assert_true(twin.state_hash == value.state_hash && twin.row_count == value.row_count);
    assert_int_equal(coord_delta_set(&both, &value, coord_blob(key, sizeof key), coord_blob("x", 1)), OT_OK);      /* whole again: what stands before was not noted here */
    assert_int_equal(coord_delta_apply(&twin, coord_blob(both.data, both.bytes)), OT_OK);
    assert_true(twin.state_hash == value.state_hash);
    coord_value_drop(&twin);
    coord_value_drop(&value);
    coord_pages_free(pages);
}

/* What stands behind nothing, goes beyond what is there, or marks bytes behind the end. */
static void a_row_like_none_is_refused(void **state)
{
    (void)state;
    static const struct { uint32_t bytes; uint8_t data[16]; } bad[] = {
        { 5, { 3, 0, 1, 'x', 0 } },                                    /* like what? */
        { 9, { 1, 1, 'a', 1, 'b', 3, 2, 0, 0 } },                      /* two bytes of a key of one */
        { 9, { 1, 1, 'a', 1, 'b', 3, 0, 0, 0 } },                      /* no key */
        { 10, { 1, 1, 'a', 1, 'b', 3, 0, 1, 'c', 1 } },                /* a value without its mask */
        { 12, { 1, 1, 'a', 1, 'b', 3, 0, 1, 'c', 1, 2, 'd' } },        /* the second byte of a value of one */
        { 12, { 1, 1, 'a', 1, 'b', 3, 0, 1, 'c', 0xc1, 0x01, 0 } },    /* a value of 193 */
        { 11, { 1, 1, 'a', 1, 'b', 3, 0, 65, 'c', 1, 0 } },            /* a key of 65 */
    };
    struct coord_pages *pages = coord_pages_new(1 << 20);
    struct coord_value value;
    coord_value_init(&value, pages);
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        assert_int_equal(coord_delta_apply(&value, coord_blob(bad[i].data, bad[i].bytes)), OT_ERR_MALFORMED);
        assert_int_equal(value.row_count, 0);
    }
    static const uint8_t good[] = { 1, 1, 'a', 1, 'b', 3, 0, 1, 'c', 1, 1, 'd' };
    assert_int_equal(coord_delta_apply(&value, coord_blob(good, sizeof good)), OT_OK);
    assert_int_equal(value.row_count, 2);
    coord_value_drop(&value);
    coord_pages_free(pages);
}

static void a_bad_delta_changes_nothing(void **state)
{
    (void)state;
    struct coord_pages *pages = coord_pages_new(16 << 20);
    struct coord_value value, twin;
    coord_value_init(&value, pages);
    fill(&value, 50, 30);
    twin = coord_value_share(&value);
    uint8_t room[8192], name[COORD_KEY_BYTES_MAX];
    struct coord_delta delta = { .data = room, .cap_bytes = sizeof room };
    for (uint32_t i = 40; i < 60; i++) {
        assert_int_equal(coord_delta_set(&delta, &value, coord_blob(name, make_key(i, name)), make_value(9, 9)), OT_OK);
    }
    for (uint32_t cut = 1; cut < delta.bytes; cut++) {         /* every prefix that ends inside a row is refused */
        struct coord_value before = twin;
        enum ot_err err = coord_delta_apply(&twin, coord_blob(room, cut));
        assert_true(err == OT_OK || (err == OT_ERR_MALFORMED && twin.state_hash == before.state_hash && twin.row_count == before.row_count));
    }
    room[0] = 7;
    assert_int_equal(coord_delta_apply(&twin, coord_blob(room, delta.bytes)), OT_ERR_MALFORMED);
    uint8_t gone[] = { 2, 1, 'x' };
    assert_int_equal(coord_delta_apply(&twin, coord_blob(gone, sizeof gone)), OT_ERR_NOT_FOUND);
    uint8_t huge[] = { 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 'x' };
    assert_int_equal(coord_delta_apply(&twin, coord_blob(huge, sizeof huge)), OT_ERR_MALFORMED);
    coord_value_drop(&twin);
    coord_value_drop(&value);
    coord_pages_free(pages);
}

static void oversized_rows_are_refused(void **state)
{
    (void)state;
    struct coord_pages *pages = coord_pages_new(16 << 20);
    struct coord_value value;
    coord_value_init(&value, pages);
    static uint8_t big[4096];
    assert_int_equal(coord_value_set(&value, coord_blob(big, COORD_KEY_BYTES_MAX + 1), coord_blob(big, 1)), OT_ERR_TOO_LARGE);
    assert_int_equal(coord_value_set(&value, coord_blob(big, 100), coord_blob(big, COORD_ROW_BYTES_MAX - 99)), OT_ERR_TOO_LARGE);
    assert_int_equal(coord_value_set(&value, coord_blob(big, 0), coord_blob(big, 1)), OT_ERR_TOO_LARGE);
    for (uint32_t i = 0; i < 200; i++) {                       /* the largest rows, in an order that splits everywhere */
        uint8_t name[COORD_KEY_BYTES_MAX] = { 0 };
        ot_store_u32(name, (i * 77) % 200);
        assert_int_equal(coord_value_set(&value, coord_blob(name, 4 + (i % 3) * 150), make_value(COORD_ROW_BYTES_MAX - 320 - i, 3)), OT_OK);
    }
    assert_int_equal(coord_tree_check(&value.tree), 200);
    coord_value_drop(&value);
    coord_pages_free(pages);
}

static enum ot_err load_in_pieces(struct coord_value *value, const uint8_t *data, size_t bytes, size_t piece)
{
    static uint8_t window[4096 + 2048];
    struct coord_delta_last last = { .key_bytes = 0 };
    size_t held = 0, at = 0;
    while (at < bytes || held > 0) {
        size_t more = OT_MIN(piece, bytes - at), taken;
        memcpy(window + held, data + at, more);
        held += more;
        at += more;
        enum ot_err err = coord_snapshot_load(value, &last, window, held, &taken);
        if (err != OT_OK) {
            return err;
        }
        memmove(window, window + taken, held - taken);
        held -= taken;
        if (more == 0 && taken == 0) {
            return OT_ERR_MALFORMED;
        }
    }
    return OT_OK;
}

static void a_snapshot_comes_back_equal_in_pieces_of_any_size(void **state)
{
    (void)state;
    struct coord_pages *pages = coord_pages_new(64 << 20);
    struct coord_value value, back;
    coord_value_init(&value, pages);
    fill(&value, 700, 130);
    struct coord_value view = coord_value_share(&value);
    struct coord_snapshot_reader reader;
    uint8_t *data = malloc(1 << 20);
    size_t bytes = 0, got;
    coord_snapshot_begin(&reader, &view);
    uint8_t name[COORD_KEY_BYTES_MAX];
    for (uint32_t i = 0; (got = coord_snapshot_read(&reader, data + bytes, 2048)) > 0; i++) {
        bytes += got;
        assert_int_equal(coord_value_remove(&value, coord_blob(name, make_key(i, name))), OT_OK);      /* the value goes on meanwhile */
    }
    for (size_t piece = 1; piece <= 4096; piece = piece * 5 + 1) {
        coord_value_init(&back, pages);
        assert_int_equal(load_in_pieces(&back, data, bytes, piece), OT_OK);
        assert_true(back.state_hash == view.state_hash);
        assert_int_equal(back.row_count, 700);
        coord_value_drop(&back);
    }
    coord_value_init(&back, pages);
    assert_int_equal(load_in_pieces(&back, data, bytes - 1, 4096), OT_ERR_MALFORMED);
    coord_value_drop(&back);
    coord_value_drop(&view);
    coord_value_drop(&value);
    coord_pages_free(pages);
    free(data);
}

/* A row of another table has nothing of the key before it, and may have nothing of its bytes: told by it, it is longer than told whole. */
static void a_snapshot_of_rows_like_none_is_whole(void **state)
{
    (void)state;
    struct coord_pages *pages = coord_pages_new(64 << 20);
    struct coord_value value, back;
    coord_value_init(&value, pages);
    for (uint32_t i = 0; i < 200; i++) {
        uint8_t name[COORD_LIKE_KEY_BYTES_MAX], bytes[COORD_LIKE_BYTES_MAX];
        memset(name, (int)i + 1, sizeof name);
        memset(bytes, (int)i + 1, sizeof bytes);
        assert_int_equal(coord_value_set(&value, coord_blob(name, sizeof name), coord_blob(bytes, sizeof bytes)), OT_OK);
    }
    for (size_t cap = 2048; cap < 2048 + 300; cap++) {         /* every place in a row where a piece can be full */
        static uint8_t data[1 << 17];
        struct coord_snapshot_reader reader;
        size_t bytes = 0, got;
        coord_snapshot_begin(&reader, &value);
        while ((got = coord_snapshot_read(&reader, data + bytes, cap)) > 0) bytes += got;
        coord_value_init(&back, pages);
        assert_int_equal(load_in_pieces(&back, data, bytes, 4096), OT_OK);
        assert_true(back.state_hash == value.state_hash);
        coord_value_drop(&back);
    }
    coord_value_drop(&value);
    coord_pages_free(pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_changes_agree_with_a_plain_model_and_views_stay),
        cmocka_unit_test(rows_added_in_order_fill_their_pages),
        cmocka_unit_test(a_full_pool_changes_nothing),
        cmocka_unit_test(like_rows_are_told_by_what_differs), cmocka_unit_test(a_row_like_none_is_refused),
        cmocka_unit_test(a_bad_delta_changes_nothing),
        cmocka_unit_test(oversized_rows_are_refused),
        cmocka_unit_test(a_snapshot_comes_back_equal_in_pieces_of_any_size),
        cmocka_unit_test(a_snapshot_of_rows_like_none_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
