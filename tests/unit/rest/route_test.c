/* The table of routes: dispatch, Allow, parameters; header values. */
#include "testing.h"
#include "rest/accept.h"
#include "rest/problem.h"
#include "rest/route.h"
#include "rest/uri.h"
#include <string.h>

static struct ot_arena arena;
static struct ot_str params[REST_PARAMS_MAX];
static char allow[REST_ALLOW_BYTES];

static const struct rest_route *find(enum rest_method method, const char *path, enum ot_err want)
{
    struct rest_uri uri;
    char text[160];
    const struct rest_route *route = NULL;
    ot_arena_reset(&arena);
    assert_int_equal(rest_uri_parse(&arena, path, strlen(path), &uri, text, sizeof(text)), OT_OK);
    assert_int_equal(rest_route_find(method, uri.segments, uri.segment_count, &route, params, allow), want);
    return route;
}

static void every_route_is_found_by_its_pattern(void **state)
{
    uint32_t count = 0;
    const struct rest_route *routes = rest_routes(&count);
    (void)state;
    assert_true(count > 40);
    for (uint32_t i = 0; i < count; i++) {
        char path[200];
        size_t at = 0;
        for (const char *from = routes[i].pattern; *from != 0; from++) {
            if (*from != '{') {
                path[at++] = *from;
                continue;
            }
            const bool id = strncmp(from, "{topic_id}", 10) == 0;
            at += (size_t)snprintf(path + at, sizeof(path) - at, "%s", id ? "7Zt0sXq9TgW0k1VJxkqGcw" : "x");
            from = strchr(from, '}');
        }
        path[at] = 0;
        assert_ptr_equal(find(routes[i].method, path, OT_OK), &routes[i]);
    }
}

static void operations_have_names_of_their_own(void **state)
{
    uint32_t count = 0;
    const struct rest_route *routes = rest_routes(&count);
    (void)state;
    for (uint32_t i = 0; i < count; i++) {
        const char *names[REST_ROUTE_QUERY_MAX];
        char storage[512];
        assert_non_null(routes[i].handler);
        for (uint32_t k = 0; k < i; k++) assert_string_not_equal(routes[i].operation, routes[k].operation);
        const uint32_t query = rest_route_query(&routes[i], names, storage);
        for (uint32_t a = 0; a < query; a++)
            for (uint32_t b = 0; b < a; b++) assert_string_not_equal(names[a], names[b]);
    }
}

static void a_topic_may_be_called_as_a_word_of_ours(void **state)
{
    (void)state;
    assert_string_equal(find(REST_GET, "/v1/topics/id/config", OT_OK)->operation, "listTopicConfig");
    assert_true(ot_str_equal(params[0], ot_str_of("id")));
    assert_string_equal(find(REST_GET, "/v1/topics/id/7Zt0sXq9TgW0k1VJxkqGcw", OT_OK)->operation, "getTopicById");
    assert_string_equal(find(REST_GET, "/v1/topics/-", OT_OK)->operation, "getTopic");
    assert_string_equal(find(REST_GET, "/v1/topics/a%2Fb", OT_OK)->operation, "getTopic");
    assert_true(ot_str_equal(params[0], ot_str_of("a/b")));
}

static void wrong_methods_are_told_the_right_ones(void **state)
{
    (void)state;
    find(REST_PUT, "/v1/topics", OT_ERR_INVALID_REQUEST);
    assert_string_equal(allow, "GET, HEAD, POST, OPTIONS");
    find(REST_POST, "/v1/topics/x/config/y", OT_ERR_INVALID_REQUEST);
    assert_string_equal(allow, "GET, HEAD, PUT, DELETE, OPTIONS");
}

static void other_paths_are_not_found(void **state)
{
    static const char *const paths[] = { "/", "/v2", "/v1/", "/v1/topics/", "/v1/topics/x/", "/v1/topics//config", "/v1/topics/x/nope", "/v1/topics/id/x" };
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(paths); i++) find(REST_GET, paths[i], OT_ERR_NOT_FOUND);
}

static void unknown_query_parameters_have_a_neighbour(void **state)
{
    char near[REST_NEAR_BYTES];
    const struct rest_route *route;
    (void)state;
    route = find(REST_GET, "/v1/topics", OT_OK);
    assert_true(rest_route_takes(route, ot_str_of("limit"), near));
    assert_true(rest_route_takes(route, ot_str_of("internal"), near));
    assert_false(rest_route_takes(route, ot_str_of("limt"), near));
    assert_string_equal(near, "limit");
    assert_false(rest_route_takes(route, ot_str_of("validate_only"), near));
    assert_false(rest_route_takes(route, ot_str_of(""), near));
}

static void accept_is_negotiated(void **state)
{
    static const char *const offers[] = { "application/json", "application/x-ndjson", "text/csv", "text/plain" };
    static const struct { const char *accept; int want; } rows[] = {
        { NULL, 0 }, { "", 0 }, { "*/*", 0 }, { "text/csv", 2 }, { "text/html, text/plain;q=0.5, */*;q=0.1", 3 }, { "text/*", 2 }, { "image/png", -1 },
        { "application/json;q=0, */*", 1 }, { "*/*;q=0", -1 }, { "application/json;q=0.3,text/csv;q=0.9", 2 }, { "APPLICATION/JSON", 0 }, { "application/jsonx", -1 },
        { "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", 0 }, { ",,", -1 },
    };
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) assert_int_equal(rest_accept_best(rows[i].accept, offers, 4), rows[i].want);
}

static void entity_tags_are_compared(void **state)
{
    (void)state;
    assert_true(rest_etag_in("\"4\"", "\"4\"", false));
    assert_true(rest_etag_in("\"1\", \"4\"", "\"4\"", false));
    assert_true(rest_etag_in("*", "\"4\"", false));
    assert_false(rest_etag_in("\"44\"", "\"4\"", false));
    assert_false(rest_etag_in("4", "\"4\"", false));
    assert_false(rest_etag_in("W/\"4\"", "\"4\"", false));
    assert_true(rest_etag_in("W/\"4\"", "\"4\"", true));
    assert_false(rest_etag_in("\"", "\"4\"", true));
}

static void hosts_are_ours_or_not(void **state)
{
    static const char *const names[] = { "broker-1.lan", "" };
    static const char *const ours[] = { "127.0.0.1:9095", "127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:9095", "[::1]", "10.1.2.3:80", "broker-1.lan:9095" };
    static const char *const others[] = { "evil.example", "127.0.0.1.evil.example", "localhost.evil", "", ":80", "[::1", "[evil]", "127.0.0.1:80x", "a@127.0.0.1", "broker-2.lan" };
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(ours); i++) assert_true(rest_host_is_ours(ours[i], names, 2));
    for (size_t i = 0; i < OT_ARRAY_COUNT(others); i++) assert_false(rest_host_is_ours(others[i], names, 2));
    assert_true(rest_origin_is_ours("http://127.0.0.1:9095", "127.0.0.1:9095"));
    assert_false(rest_origin_is_ours("http://127.0.0.1:9096", "127.0.0.1:9095"));
    assert_false(rest_origin_is_ours("null", "127.0.0.1:9095"));
    assert_false(rest_origin_is_ours("http://127.0.0.1:9095", NULL));
}

static void media_types_and_request_ids(void **state)
{
    (void)state;
    assert_true(rest_media_is("application/json", "application/json"));
    assert_true(rest_media_is(" Application/JSON ; charset=utf-8", "application/json"));
    assert_false(rest_media_is("application/jsonp", "application/json"));
    assert_false(rest_media_is(NULL, "application/json"));
    assert_true(rest_media_foreign_charset("text/plain; charset=latin1"));
    assert_false(rest_media_foreign_charset("text/plain; charset=\"UTF-8\""));
    assert_true(rest_request_id_valid("a-B_c.9"));
    assert_false(rest_request_id_valid(""));
    assert_false(rest_request_id_valid("a b"));
    assert_false(rest_request_id_valid("a\r\nX: y"));
    char id[70];
    memset(id, 'a', 65);
    id[65] = 0;
    assert_false(rest_request_id_valid(id));
    id[64] = 0;
    assert_true(rest_request_id_valid(id));
}

static void errors_are_told_by_a_name_that_clients_know(void **state)
{
    struct rest_problem_facts facts;
    char slug[REST_SLUG_BYTES];
    (void)state;
    for (int err = -1; err < OT_ERR_HOUSE_END; err++) {
        if (err == 0 || (err > 136 && err <= OT_ERR_HOUSE_FIRST)) continue;
        rest_problem_of((enum ot_err)err, &facts);
        assert_true(facts.status >= 400 && facts.status < 600 && facts.title[0] != 0);
        assert_true(facts.has_code == (strncmp(facts.name, "HTTP_", 5) != 0));
    }
    rest_problem_of(OT_ERR_NO_SPACE, &facts);
    assert_int_equal(facts.status, 507);
    rest_problem_of(OT_ERR_MISMATCH, &facts);
    assert_int_equal(facts.status, 412);
    rest_problem_of(OT_ERR_NOT_ENOUGH_REPLICAS, &facts);
    rest_problem_slug(facts.name, slug);
    assert_string_equal(slug, "not-enough-replicas");
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
        cmocka_unit_test(every_route_is_found_by_its_pattern),
        cmocka_unit_test(operations_have_names_of_their_own),
        cmocka_unit_test(a_topic_may_be_called_as_a_word_of_ours),
        cmocka_unit_test(wrong_methods_are_told_the_right_ones),
        cmocka_unit_test(other_paths_are_not_found),
        cmocka_unit_test(unknown_query_parameters_have_a_neighbour),
        cmocka_unit_test(accept_is_negotiated),
        cmocka_unit_test(entity_tags_are_compared),
        cmocka_unit_test(hosts_are_ours_or_not),
        cmocka_unit_test(media_types_and_request_ids),
        cmocka_unit_test(errors_are_told_by_a_name_that_clients_know),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
