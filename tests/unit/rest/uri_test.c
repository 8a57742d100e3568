/* Request targets: split first, decode then; base64 has one text for one meaning. */
#include "testing.h"
#include "rest/uri.h"
#include <string.h>

static struct ot_arena arena;
static char text[160];

static enum ot_err parse(const char *target, struct rest_uri *out)
{
    ot_arena_reset(&arena);
    return rest_uri_parse(&arena, target, strlen(target), out, text, sizeof(text));
}

static bool is(struct ot_str got, const char *want) { return ot_str_equal(got, ot_str_of(want)); }

static void a_path_is_split_before_it_is_decoded(void **state)
{
    struct rest_uri uri;
    (void)state;
    assert_int_equal(parse("/v1/groups/a%2Fb/offsets", &uri), OT_OK);
    assert_int_equal(uri.segment_count, 4);
    assert_true(is(uri.segments[2], "a/b"));
    assert_int_equal(parse("/v1/groups/%00%ff+", &uri), OT_OK);
    assert_int_equal(uri.segments[2].bytes, 3);
    assert_memory_equal(uri.segments[2].data, "\0\xff+", 3);
}

static void empty_segments_are_kept(void **state)
{
    struct rest_uri uri;
    (void)state;
    assert_int_equal(parse("/", &uri), OT_OK);
    assert_int_equal(uri.segment_count, 0);
    assert_int_equal(parse("/v1/", &uri), OT_OK);
    assert_int_equal(uri.segment_count, 2);
    assert_int_equal(uri.segments[1].bytes, 0);
    assert_int_equal(parse("//v1", &uri), OT_OK);
    assert_int_equal(uri.segment_count, 2);
}

static void a_query_is_decoded_and_plus_is_a_space(void **state)
{
    struct rest_uri uri;
    (void)state;
    assert_int_equal(parse("/x?a=1+2&b=%2B%26&&pretty&c=", &uri), OT_OK);
    assert_int_equal(uri.query_count, 4);
    assert_true(is(uri.query[0].value, "1 2"));
    assert_true(is(uri.query[1].value, "+&"));
    assert_true(uri.query[2].value.null && is(uri.query[2].name, "pretty"));
    assert_true(!uri.query[3].value.null && uri.query[3].value.bytes == 0);
}

static void what_is_malformed_is_refused_with_words(void **state)
{
    static const char *const targets[] = { "", "v1", "*", "/a%", "/a%4", "/a%zz", "/a?b=%g0", "/a?x=1&x=2", "/a?x=1&%78=2", "http://h/a" };
    struct rest_uri uri;
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(targets); i++) {
        assert_int_equal(parse(targets[i], &uri), OT_ERR_MALFORMED);
        assert_true(text[0] != 0);
    }
}

static void segments_and_parameters_are_bounded(void **state)
{
    char target[400] = "";
    struct rest_uri uri;
    (void)state;
    for (int i = 0; i < REST_SEGMENTS_MAX; i++) strncat(target, "/a", sizeof(target) - strlen(target) - 1);
    assert_int_equal(parse(target, &uri), OT_OK);
    strncat(target, "/a", sizeof(target) - strlen(target) - 1);
    assert_int_equal(parse(target, &uri), OT_ERR_TOO_LARGE);
    size_t at = (size_t)snprintf(target, sizeof(target), "/a?");
    for (int i = 0; i <= REST_QUERY_MAX; i++) at += (size_t)snprintf(target + at, sizeof(target) - at, "p%d=1&", i);
    assert_int_equal(parse(target, &uri), OT_ERR_TOO_LARGE);
}

static void encoding_and_decoding_give_the_same_back(void **state)
{
    char all[256], decoded[256];
    uint32_t bytes = 0;
    (void)state;
    ot_arena_reset(&arena);
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    char *encoded = rest_percent_encode(&arena, (struct ot_str){ all, 256, false });
    assert_non_null(encoded);
    assert_null(strpbrk(encoded, "/?#&+ "));
    char *room = ot_arena_alloc(&arena, strlen(encoded));
    assert_true(rest_percent_decode(ot_str_of(encoded), true, room, &bytes));
    memcpy(decoded, room, 256);
    assert_int_equal(bytes, 256);
    assert_memory_equal(decoded, all, 256);
}

static void base64_of_every_length_comes_back(void **state)
{
    uint8_t data[40], back[64];
    char out[64];
    (void)state;
    for (size_t bytes = 0; bytes < sizeof(data); bytes++) {
        size_t got = 99;
        ot_arena_reset(&arena);
        for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)(i * 37 + bytes);
        rest_base64(data, bytes, out);
        assert_true(rest_base64_decode((struct ot_str){ out, (uint32_t)rest_base64_bytes(bytes), false }, back, &got));
        assert_int_equal(got, bytes);
        assert_memory_equal(back, data, bytes);
        char *url = rest_base64url(&arena, data, bytes);
        const uint8_t *plain = rest_base64url_decode(&arena, ot_str_of(url), &got);
        assert_non_null(plain);
        assert_int_equal(got, bytes);
        assert_memory_equal(plain, data, bytes);
    }
}

static void base64_known_answers(void **state)
{
    static const struct { const char *plain, *encoded; } rows[] = { { "", "" }, { "f", "Zg==" }, { "fo", "Zm8=" }, { "foo", "Zm9v" }, { "foob", "Zm9vYg==" } };
    char out[16];
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        rest_base64(rows[i].plain, strlen(rows[i].plain), out);
        assert_memory_equal(out, rows[i].encoded, strlen(rows[i].encoded));
    }
}

static void odd_base64_is_refused(void **state)
{
    static const char *const wrong[] = { "Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "Zm9v=", "Zm 9", "Zg==Zg==", "-_==" };
    uint8_t back[16];
    size_t bytes;
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(wrong); i++) assert_false(rest_base64_decode(ot_str_of(wrong[i]), back, &bytes));
    ot_arena_reset(&arena);
    assert_null(rest_base64url_decode(&arena, ot_str_of("Zg=="), &bytes));
    assert_null(rest_base64url_decode(&arena, ot_str_of("Zh"), &bytes));
}

static int set_up(void **state)
{
    (void)state;
    ot_arena_init(&arena, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ot_arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_split_before_it_is_decoded),
        cmocka_unit_test(empty_segments_are_kept),
        cmocka_unit_test(a_query_is_decoded_and_plus_is_a_space),
        cmocka_unit_test(what_is_malformed_is_refused_with_words),
        cmocka_unit_test(segments_and_parameters_are_bounded),
        cmocka_unit_test(encoding_and_decoding_give_the_same_back),
        cmocka_unit_test(base64_of_every_length_comes_back),
        cmocka_unit_test(base64_known_answers),
        cmocka_unit_test(odd_base64_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
