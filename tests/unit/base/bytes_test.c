#include "testing.h"

#include "base/bytes.h"

static void what_was_written_is_read_back(void **state)
{
    (void)state;
    uint8_t data[128];
    struct ot_writer w = ot_writer_over(data, sizeof(data));
    ot_write_u8(&w, 0xfe);
    ot_write_u16(&w, 0x1234);
    ot_write_u32(&w, 0xdeadbeef);
    ot_write_u64(&w, 0x0123456789abcdefu);
    ot_write_varint(&w, INT32_MIN);
    ot_write_varlong(&w, INT64_MIN);
    ot_write_uvarint(&w, UINT32_MAX);
    ot_write_uvarlong(&w, UINT64_MAX);
    ot_write_bytes(&w, "abc", 3);
    assert_int_equal(w.err, OT_OK);
    assert_int_equal(w.needed, (size_t)(w.at - data));
    assert_memory_equal(data, "\xfe\x12\x34\xde\xad\xbe\xef\x01\x23\x45\x67\x89\xab\xcd\xef", 15);
    struct ot_reader r = ot_reader_over(data, w.needed);
    assert_int_equal(ot_read_i8(&r), -2);
    assert_int_equal(ot_read_u16(&r), 0x1234);
    assert_int_equal(ot_read_u32(&r), 0xdeadbeef);
    assert_true(ot_read_u64(&r) == 0x0123456789abcdefu);
    assert_int_equal(ot_read_varint(&r), INT32_MIN);
    assert_true(ot_read_varlong(&r) == INT64_MIN);
    assert_int_equal(ot_read_uvarint(&r), UINT32_MAX);
    assert_true(ot_read_uvarlong(&r) == UINT64_MAX);
    assert_memory_equal(ot_read_bytes(&r, 3), "abc", 3);
    assert_int_equal(ot_reader_left(&r), 0);
    assert_int_equal(r.err, OT_OK);
}

static void every_proper_prefix_is_refused_and_then_all_is_zero(void **state)
{
    (void)state;
    const uint8_t data[] = {0x80, 0x80, 0x80, 0x80, 0x01, 1, 2, 3, 4, 5, 6, 7, 8};
    for (size_t bytes = 0; bytes < sizeof(data); bytes++) {
        uint8_t *exact = malloc(bytes + 1); /* so that a sanitizer sees a step too far */
        assert_non_null(exact);
        memcpy(exact + 1, data, bytes);
        struct ot_reader r = ot_reader_over(exact + 1, bytes);
        ot_read_uvarint(&r);
        ot_read_u64(&r);
        assert_int_equal(r.err, OT_ERR_SHORT);
        assert_int_equal(r.at - (exact + 1), bytes < 5 ? 0 : 5); /* where the bad field begins */
        assert_int_equal(ot_reader_left(&r), 0);
        assert_int_equal(ot_read_u8(&r), 0);
        assert_null(ot_read_bytes(&r, 0));
        free(exact);
    }
}

static void the_first_error_stays(void **state)
{
    (void)state;
    struct ot_reader r = ot_reader_over("\x01", 1);
    ot_reader_fail(&r, OT_ERR_TOO_LARGE);
    ot_read_u32(&r);
    ot_reader_fail(&r, OT_ERR_MALFORMED);
    assert_int_equal(r.err, OT_ERR_TOO_LARGE);
}

static void varints_beyond_their_width_are_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t bytes;
        bool wide;
        enum ot_err err;
    } rows[] = {
        {"\xff\xff\xff\xff\x0f", 5, false, OT_OK},
        {"\xff\xff\xff\xff\x1f", 5, false, OT_ERR_MALFORMED},
        {"\x80\x80\x80\x80\x80\x00", 6, false, OT_ERR_MALFORMED},
        {"\x80\x80\x80\x80\x00", 5, false, OT_OK}, /* longer than need be, as some clients pad */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, true, OT_OK},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, true, OT_ERR_MALFORMED},
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, true, OT_ERR_MALFORMED},
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        struct ot_reader r = ot_reader_over(rows[i].data, rows[i].bytes);
        if (rows[i].wide)
            ot_read_uvarlong(&r);
        else
            ot_read_uvarint(&r);
        assert_int_equal(r.err, rows[i].err);
    }
}

static void sizes_of_varints_are_what_is_written(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        for (int64_t off = -1; off <= 1; off++) {
            const int64_t value = (int64_t)(((uint64_t)1 << bit) + (uint64_t)off);
            struct ot_writer a = ot_writer_over(NULL, 0), b = a, c = a;
            ot_write_varlong(&a, value);
            assert_int_equal(a.needed, ot_varlong_bytes(value));
            ot_write_varint(&b, (int32_t)value);
            assert_int_equal(b.needed, ot_varint_bytes((int32_t)value));
            ot_write_uvarint(&c, (uint32_t)value);
            assert_int_equal(c.needed, ot_uvarint_bytes((uint32_t)value));
        }
    }
}

static void a_full_writer_writes_nothing_more_and_counts_on(void **state)
{
    (void)state;
    uint8_t data[8] = {0};
    struct ot_writer w = ot_writer_over(data, 5);
    ot_write_u32(&w, 0x01020304);
    ot_write_u16(&w, 0xffff);
    assert_int_equal(w.err, OT_ERR_TOO_LARGE);
    ot_write_u8(&w, 0xff); /* would fit, but not in its place */
    assert_int_equal(w.needed, 7);
    assert_memory_equal(data, "\1\2\3\4\0\0\0\0", 8);
}

static void over_nothing_a_writer_measures_without_error(void **state)
{
    (void)state;
    struct ot_writer w = ot_writer_over(NULL, 0);
    ot_write_u64(&w, 1);
    ot_write_bytes(&w, "abc", 3);
    assert_int_equal(w.needed, 11);
    assert_int_equal(w.err, OT_OK);
}

static void no_bytes_of_an_empty_reader_are_no_error(void **state)
{
    (void)state;
    struct ot_reader r = ot_reader_over(NULL, 0);
    assert_non_null(ot_read_bytes(&r, 0));
    assert_int_equal(r.err, OT_OK);
    assert_null(ot_read_bytes(&r, 1));
    assert_int_equal(r.err, OT_ERR_SHORT);
}

static void a_huge_length_does_not_wrap(void **state)
{
    (void)state;
    struct ot_reader r = ot_reader_over("abcd", 4);
    assert_null(ot_read_bytes(&r, SIZE_MAX));
    assert_int_equal(r.err, OT_ERR_SHORT);
}

static void ids_as_text_are_read_back_and_nothing_else_is(void **state)
{
    (void)state;
    struct ot_uuid id, back;
    char text[23];
    for (int i = 0; i < 200; i++) {
        ot_uuid_random(&id);
        assert_int_equal(id.bytes[6] >> 4, 4);
        assert_int_equal(id.bytes[8] >> 6, 2);
        assert_false(ot_uuid_is_zero(&id));
        ot_uuid_text(&id, text);
        assert_int_equal(strlen(text), 22);
        assert_int_not_equal(text[0], '-');
        assert_true(ot_uuid_parse(text, 22, &back));
        assert_true(ot_uuid_equal(&id, &back));
    }
    static const char *const bad[] = {"", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAB",
        "AAAAAAAAAAAAAAAAAAAA+A", "AAAAAAAAAAAAAAAAAAAA=A"};
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) assert_false(ot_uuid_parse(bad[i], strlen(bad[i]), &back));
    assert_false(ot_uuid_parse("AAAAAAAAAAAAAAAAAAAAA\0", 22, &back));
}

static void null_equals_only_null(void **state)
{
    (void)state;
    const struct ot_str null = ot_str_of(NULL), empty = ot_str_of(""), a = ot_str_of("a");
    assert_true(ot_str_equal(null, null));
    assert_false(ot_str_equal(null, empty));
    assert_true(ot_str_equal(empty, empty));
    assert_true(ot_str_equal(a, ot_str_of("a")));
    assert_false(ot_str_equal(a, ot_str_of("b")));
    assert_false(ot_str_equal(a, ot_str_of("ab")));
}

TEST_MAIN(cmocka_unit_test(what_was_written_is_read_back), cmocka_unit_test(every_proper_prefix_is_refused_and_then_all_is_zero),
    cmocka_unit_test(the_first_error_stays), cmocka_unit_test(varints_beyond_their_width_are_malformed),
    cmocka_unit_test(sizes_of_varints_are_what_is_written), cmocka_unit_test(a_full_writer_writes_nothing_more_and_counts_on),
    cmocka_unit_test(over_nothing_a_writer_measures_without_error), cmocka_unit_test(no_bytes_of_an_empty_reader_are_no_error),
    cmocka_unit_test(a_huge_length_does_not_wrap), cmocka_unit_test(ids_as_text_are_read_back_and_nothing_else_is),
    cmocka_unit_test(null_equals_only_null))
