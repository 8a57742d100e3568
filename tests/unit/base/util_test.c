#include "testing.h"

#include "base/util.h"

static void both_checksums_agree_however_the_data_is_cut(void **state)
{
    (void)state;
    uint8_t data[600];
    struct ot_rng rng;
    ot_rng_seed(&rng, 7);
    for (size_t i = 0; i < sizeof(data); i++) data[i] = (uint8_t)ot_rng_next(&rng);
    for (size_t start = 0; start < 16; start++) {
        for (size_t bytes = 0; bytes + start <= sizeof(data); bytes += 13) {
            const uint32_t whole = ot_crc32c(0, data + start, bytes);
            assert_int_equal(whole, ot_crc32c_portable(0, data + start, bytes));
            const size_t cut = (size_t)ot_rng_below(&rng, bytes + 1);
            assert_int_equal(whole, ot_crc32c(ot_crc32c_portable(0, data + start, cut), data + start + cut, bytes - cut));
            assert_int_equal(whole, ot_crc32c_portable(ot_crc32c(0, data + start, cut), data + start + cut, bytes - cut));
        }
    }
    assert_int_equal(ot_crc32c(0, "123456789", 9), 0xe3069283);
}

static void one_flipped_bit_changes_the_checksum(void **state)
{
    (void)state;
    uint8_t data[64] = {0};
    const uint32_t clean = ot_crc32c(0, data, sizeof(data));
    for (size_t bit = 0; bit < 512; bit++) {
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(ot_crc32c(0, data, sizeof(data)), clean);
        data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void java_hash_counts_utf16_units(void **state)
{
    (void)state;
    assert_int_equal(ot_java_hash(ot_str_of("")), 0);
    assert_int_equal(ot_java_hash(ot_str_of("abc")), 96354);
    assert_int_equal(ot_java_hash(ot_str_of("\xf0\x9f\x98\x80")), 0xd83d * 31 + 0xde00); /* a pair of surrogates */
    assert_int_equal(ot_java_hash((struct ot_str){"\xff", 1, false}), 0xfffd);
    assert_int_equal(ot_java_hash((struct ot_str){"\xe2\x82", 2, false}), 0xfffd * 31 + 0xfffd);
    assert_int_equal(ot_java_hash(ot_str_of("polygenelubricants")), INT32_MIN);
    assert_int_equal(ot_coordinator_partition(ot_str_of("polygenelubricants"), 50), 0);
}

static void only_shortest_utf8_without_surrogates_is_valid(void **state)
{
    (void)state;
    static const char *const good[] = {"", "plain ascii text", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf",
        "12345678\xc3\xa9", "\xed\x9f\xbf", "\xee\x80\x80"};
    static const char *const bad[] = {"\x80", "\xc3", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "1234567\xc3", "12345678\xe2\x82", "\xe2\x28\xa1"};
    for (size_t i = 0; i < OT_ARRAY_COUNT(good); i++) assert_true(ot_utf8_valid(good[i], strlen(good[i])));
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) assert_false(ot_utf8_valid(bad[i], strlen(bad[i])));
}

static void table_hashes_differ_by_seed_length_and_content(void **state)
{
    (void)state;
    uint8_t data[40] = {0};
    uint64_t seen[41 * 2];
    size_t count = 0;
    for (size_t bytes = 0; bytes <= 40; bytes++) {
        seen[count++] = ot_hash64(data, bytes, 1);
        seen[count++] = ot_hash64(data, bytes, 2);
        assert_true(ot_hash64(data, bytes, 1) == seen[count - 2]);
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) assert_true(seen[i] != seen[j]);
    }
}

static void the_same_seed_gives_the_same_numbers(void **state)
{
    (void)state;
    struct ot_rng a, b, c;
    ot_rng_seed(&a, 42);
    ot_rng_seed(&b, 42);
    ot_rng_seed(&c, 43);
    bool differs = false;
    for (int i = 0; i < 100; i++) {
        const uint64_t next = ot_rng_next(&a);
        assert_true(next == ot_rng_next(&b));
        differs |= next != ot_rng_next(&c);
    }
    assert_true(differs);
}

static void xoshiro_gives_the_published_sequence(void **state)
{
    (void)state;
    struct ot_rng rng = {{1, 2, 3, 4}};
    static const uint64_t want[] = {11520, 0, 1509978240, 1215971899390074240u};
    for (size_t i = 0; i < OT_ARRAY_COUNT(want); i++) assert_true(ot_rng_next(&rng) == want[i]);
}

static void below_is_below_and_reaches_all(void **state)
{
    (void)state;
    struct ot_rng rng;
    ot_rng_seed(&rng, 1);
    int seen[7] = {0};
    for (int i = 0; i < 7000; i++) seen[ot_rng_below(&rng, 7)]++;
    for (int i = 0; i < 7; i++) assert_in_range(seen[i], 800, 1200);
    for (int i = 0; i < 100; i++) {
        assert_true(ot_rng_below(&rng, 1) == 0);
        assert_true(ot_rng_below(&rng, UINT64_MAX) < UINT64_MAX);
    }
    int hits = 0;
    for (int i = 0; i < 10000; i++) hits += ot_rng_chance(&rng, 0.25);
    assert_in_range(hits, 2200, 2800);
    assert_false(ot_rng_chance(&rng, 0.0));
    assert_true(ot_rng_chance(&rng, 1.0));
}

static void times_are_told_in_utc_with_milliseconds(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {1777709463120, "2026-05-02T08:11:03.120Z"},
        {951827696789, "2000-02-29T12:34:56.789Z"},
        {-2203891200000, "1900-03-01T00:00:00.000Z"},
        {4107542399999, "2100-02-28T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
        {INT64_MIN, "0000-01-01T00:00:00.000Z"},
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        char text[25];
        ot_time_text(rows[i].ms, text);
        assert_string_equal(text, rows[i].text);
        int64_t back = 1;
        assert_true(ot_time_parse(text, &back));
        if (rows[i].ms > INT64_MIN && rows[i].ms < INT64_MAX) assert_true(back == rows[i].ms);
    }
}

static void times_are_read_with_zones_and_fractions_or_as_milliseconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {
        {"1777709463120", 1777709463120},
        {"0", 0},
        {"-1", -1},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"2026-05-02T10:11:03.12+02:00", 1777709463120},
        {"2026-05-02t08:11:03.1209999z", 1777709463120},
        {"2026-05-02 03:41:03.120-04:30", 1777709463120},
        {"2026-05-02T08:11:03Z", 1777709463000},
        {"2016-12-31T23:59:60Z", 1483228800000},
        {"2000-02-29T00:00:00Z", 951782400000},
    };
    static const char *const bad[] = {"", "-", "abc", "12x", "9223372036854775808", "-9223372036854775809", "2026-05-02",
        "2026-05-02T08:11:03", "2026-13-02T08:11:03Z", "2026-02-29T08:11:03Z", "1900-02-29T00:00:00Z", "2026-00-02T08:11:03Z",
        "2026-05-32T08:11:03Z", "2026-05-02T24:00:00Z", "2026-05-02T08:60:00Z", "2026-05-02T08:11:61Z", "2026-05-02T08:11:03.Z",
        "2026-05-02T08:11:03+0200", "2026-05-02T08:11:03+24:00", "2026-05-02T08:11:03Zx", "2026-5-2T08:11:03Z", " 12"};
    for (size_t i = 0; i < OT_ARRAY_COUNT(good); i++) {
        int64_t ms = 7;
        assert_true(ot_time_parse(good[i].text, &ms));
        assert_true(ms == good[i].ms);
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        int64_t ms;
        if (ot_time_parse(bad[i], &ms)) fail_msg("taken for a time: '%s'", bad[i]);
    }
}

static void the_nearest_name_is_near(void **state)
{
    (void)state;
    static const char *const names[] = {
        "log.retention.ms", "log.retention.bytes", "log.segment.bytes", "listeners", "node.id", "topic", "group"};
    const size_t count = OT_ARRAY_COUNT(names);
    assert_string_equal(ot_nearest("log.retentoin.ms", names, count), "log.retention.ms");
    assert_string_equal(ot_nearest("LISTENER", names, count), "listeners");
    assert_string_equal(ot_nearest("topci", names, count), "topic");
    assert_string_equal(ot_nearest("nodeid", names, count), "node.id");
    assert_null(ot_nearest("compression", names, count));
    assert_null(ot_nearest("", names, count));
    assert_null(ot_nearest("xyz", names, count));
    char longer[300];
    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    const char *const long_names[] = {longer, "aaa"};
    assert_null(ot_nearest(longer, long_names, 2));
    assert_string_equal(ot_nearest("aab", long_names, 2), "aaa");
}

static void clocks_do_not_go_back(void **state)
{
    (void)state;
    const int64_t a = ot_clock_boot_us(), b = ot_clock_boot_us();
    assert_true(a > 0 && b >= a);
    assert_true(ot_clock_wall_ms() > 1600000000000);
}

TEST_MAIN(cmocka_unit_test(both_checksums_agree_however_the_data_is_cut), cmocka_unit_test(one_flipped_bit_changes_the_checksum),
    cmocka_unit_test(java_hash_counts_utf16_units), cmocka_unit_test(only_shortest_utf8_without_surrogates_is_valid),
    cmocka_unit_test(table_hashes_differ_by_seed_length_and_content), cmocka_unit_test(the_same_seed_gives_the_same_numbers),
    cmocka_unit_test(xoshiro_gives_the_published_sequence), cmocka_unit_test(below_is_below_and_reaches_all),
    cmocka_unit_test(times_are_told_in_utc_with_milliseconds),
    cmocka_unit_test(times_are_read_with_zones_and_fractions_or_as_milliseconds), cmocka_unit_test(the_nearest_name_is_near),
    cmocka_unit_test(clocks_do_not_go_back))
