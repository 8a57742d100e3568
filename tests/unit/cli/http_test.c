#include "testing.h"

#include "cli/http.h"

static enum ot_err parse(const char *text, bool ended, struct cli_http_reply *out)
{
    const size_t bytes = strlen(text);
    char *exact = malloc(bytes == 0 ? 1 : bytes);
    assert_non_null(exact);
    memcpy(exact, text, bytes);
    *out = (struct cli_http_reply){0};
    const enum ot_err err = cli_http_parse(exact, bytes, ended, false, out);
    free(exact);
    return err;
}

static void answers_with_length_in_chunks_and_to_the_end_are_read(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\nOttla-Request-Id: r-1\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type:application/json \r\nottla-request-id: r-1\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
        "HTTP/1.0 200\r\nContent-type: application/json\r\nOttla-Request-Id: r-1\r\n\r\nhello",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\ncontent-type: application/json\nOTTLA-REQUEST-ID: r-1\nContent-Length: 5\n\nhello",
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        struct cli_http_reply reply;
        assert_int_equal(parse(rows[i], true, &reply), OT_OK);
        assert_int_equal(reply.status, 200);
        assert_string_equal(reply.content_type, "application/json");
        assert_string_equal(reply.request_id, "r-1");
        assert_int_equal(reply.body_bytes, 5);
        assert_string_equal(reply.body, "hello");
        cli_http_reply_free(&reply);
    }
}

static void every_prefix_wants_more_and_none_is_taken_for_whole(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n",
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        for (size_t bytes = 0; bytes < strlen(rows[i]); bytes++) {
            char text[256];
            struct cli_http_reply reply;
            snprintf(text, sizeof(text), "%.*s", (int)bytes, rows[i]);
            assert_int_equal(parse(text, false, &reply), OT_ERR_SHORT);
            assert_int_equal(parse(text, true, &reply), OT_ERR_MALFORMED); /* broken off: never a shorter answer */
        }
    }
}

static void malformed_answers_are_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "SSH-2.0-x\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 20\r\n\r\n", "HTTP/1.1 0200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhexx\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n123456789\r\n",
        "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        struct cli_http_reply reply;
        const enum ot_err err = parse(rows[i], false, &reply);
        if (err != OT_ERR_MALFORMED) fail_msg("%s: %s", rows[i], ot_err_name(err));
    }
}

static void sizes_above_the_limits_are_refused_before_they_are_read(void **state)
{
    (void)state;
    struct cli_http_reply reply;
    assert_int_equal(parse("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", false, &reply), OT_ERR_TOO_LARGE);
    assert_int_equal(parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n", false, &reply), OT_ERR_TOO_LARGE);
    char *head = malloc(CLI_HTTP_HEAD_MAX + 200);
    assert_non_null(head);
    const int used = snprintf(head, 200, "HTTP/1.1 200 OK\r\nX: ");
    memset(head + used, 'x', CLI_HTTP_HEAD_MAX);
    assert_int_equal(cli_http_parse(head, CLI_HTTP_HEAD_MAX + (size_t)used, false, false, &reply), OT_ERR_TOO_LARGE);
    free(head);
}

static void empty_answers_have_no_body(void **state)
{
    (void)state;
    struct cli_http_reply reply;
    assert_int_equal(parse("HTTP/1.1 204 No Content\r\n\r\n", false, &reply), OT_OK);
    assert_null(reply.body);
    assert_int_equal(cli_http_parse("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 38, false, true, &reply), OT_OK);
}

static void addresses_are_told_apart(void **state)
{
    (void)state;
    struct cli_http_address address;
    char why[CLI_WHY_BYTES];
    assert_int_equal(cli_http_address("http://127.0.0.1:80/", &address, why), OT_OK);
    assert_string_equal(address.host, "127.0.0.1");
    assert_int_equal(address.port, 80);
    assert_int_equal(cli_http_address("http://[::1]", &address, why), OT_OK);
    assert_string_equal(address.host, "::1");
    assert_int_equal(address.port, 9095);
    assert_int_equal(cli_http_address("unix:/run/x.sock", &address, why), OT_OK);
    assert_string_equal(address.host, "/run/x.sock");
    assert_int_equal(address.port, 0);
    static const char *const bad[] = {"https://x", "ftp://x", "http://", "http://x:0", "http://x:99999", "http://x/path", "unix:", "http://[::1"};
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        if (cli_http_address(bad[i], &address, why) != OT_ERR_MALFORMED) fail_msg("taken: %s", bad[i]);
        assert_true(strlen(why) > 0);
    }
    char encoded[64];
    cli_http_encode("a b/c%\xc3\xa9-._~", encoded);
    assert_string_equal(encoded, "a%20b%2Fc%25%C3%A9-._~");
}

TEST_MAIN(cmocka_unit_test(answers_with_length_in_chunks_and_to_the_end_are_read), cmocka_unit_test(every_prefix_wants_more_and_none_is_taken_for_whole),
    cmocka_unit_test(malformed_answers_are_refused), cmocka_unit_test(sizes_above_the_limits_are_refused_before_they_are_read),
    cmocka_unit_test(empty_answers_have_no_body), cmocka_unit_test(addresses_are_told_apart))
