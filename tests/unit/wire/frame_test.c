/* Headers, prefixes, and the generated tables against the text tables that they come from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/wire/apis.h"
#include "base/wire/enums.h"
#include "base/wire/features.h"
#include "base/wire/group_metadata_key.h"
#include "base/wire/group_metadata_value.h"
#include "base/wire/messages.h"
#include "base/wire/offset_commit_key.h"
#include "base/wire/request_header.h"
#include "base/wire/topic_record.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ot_arena arena;
static struct ot_wire_error error;

static int setup(void **state)
{
    (void)state;
    ot_arena_init(&arena, (size_t)1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ot_arena_free(&arena);
    return 0;
}

/* Calls each(columns, count) for the rows of a table beside the schemas; answers the number of rows. */
static int rows(const char *name, int columns, void (*each)(char **column))
{
    char path[1024], line[4096];
    int count = 0;
    (void)snprintf(path, sizeof path, "%s/base/wire/%s", OT_SOURCE_DIR, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        char *column[16] = {line};
        int found = 1;
        line[strcspn(line, "\n")] = '\0';
        for (char *tab = strchr(line, '\t'); tab != NULL && found < 16; tab = strchr(column[found - 1], '\t')) {
            *tab = '\0';
            column[found++] = tab + 1;
        }
        if (line[0] != '#') {
            assert_int_equal(found, columns);
            each(column);
            count++;
        }
    }
    (void)fclose(file);
    return count;
}

/* ---- tables */

static void check_ranges(const struct ot_api *api, char *text, int16_t (*header)(const struct ot_api *, int16_t))
{
    int next = api->version_min;
    for (char *save = NULL, *part = strtok_r(text, ",", &save); part != NULL; part = strtok_r(NULL, ",", &save)) {
        int low, high, version;
        if (sscanf(part, "%d-%d:%d", &low, &high, &version) != 3) {
            assert_int_equal(sscanf(part, "%d:%d", &low, &version), 2);
            high = low;
        }
        assert_int_equal(low, next);
        for (; next <= high; next++) {
            assert_int_equal(header(api, (int16_t)next), version);
        }
    }
    assert_int_equal(next, api->version_max + 1);
}

static void check_api(char **column)
{
    const struct ot_api *api = ot_api_find((int16_t)atoi(column[0]));
    if (strcmp(column[3], "-") == 0) {
        assert_null(api);
        return;
    }
    assert_non_null(api);
    assert_string_equal(api->upper, column[1]);
    assert_string_equal(api->name, column[2]);
    assert_int_equal(api->version_min, atoi(column[3]));
    assert_int_equal(api->version_max, atoi(column[4]));
    assert_int_equal(api->flags & OT_API_LATEST_UNSTABLE ? 1 : 0, strcmp(column[5], "yes") == 0);
    assert_int_equal(api->flags & OT_API_ON_BROKER ? 1 : 0, strstr(column[8], "broker") != NULL);
    assert_int_equal(api->flags & OT_API_ON_CONTROLLER ? 1 : 0, strstr(column[8], "controller") != NULL);
    assert_int_equal(api->flags & OT_API_CLUSTER_ACTION ? 1 : 0, strcmp(column[9], "yes") == 0);
    assert_int_equal(api->flags & OT_API_FORWARDABLE ? 1 : 0, strcmp(column[10], "yes") == 0);
    assert_int_equal(api->request->api, api->key);
    assert_int_equal(api->response->api, api->key);
    assert_int_equal(strncmp(api->request->name, column[2], strlen(column[2])), 0);
    assert_string_equal(api->response->name + strlen(column[2]), "Response");
    check_ranges(api, column[6], ot_api_request_header_version);
    check_ranges(api, column[7], ot_api_response_header_version);
}

static void every_api_is_served_as_the_table_says(void **state)
{
    (void)state;
    assert_int_equal(rows("apis.txt", 12, check_api), 95);
    for (size_t i = 1; i < ot_api_count; i++) {
        assert_true(ot_apis[i - 1].key < ot_apis[i].key);
    }
    assert_int_equal(ot_api_count, OT_API_COUNT);
    assert_null(ot_api_find(-1));
    assert_null(ot_api_find(95));
    assert_null(ot_api_find(INT16_MAX));
}

static void produce_advertises_versions_that_it_does_not_serve(void **state)
{
    (void)state;
    for (size_t i = 0; i < ot_api_count; i++) {
        assert_int_equal(ot_apis[i].advertised_min, ot_apis[i].key == OT_API_PRODUCE ? 0 : ot_apis[i].version_min);
    }
    assert_false(ot_api_serves(ot_api_find(OT_API_PRODUCE), 2, true));
    assert_true(ot_api_serves(ot_api_find(OT_API_PRODUCE), 3, false));
    assert_false(ot_api_serves(ot_api_find(OT_API_PRODUCE), 14, true));
    assert_false(ot_api_serves(ot_api_find(OT_API_PRODUCE), -1, true));
}

static void an_unstable_version_is_served_only_when_asked_for(void **state)
{
    (void)state;
    const struct ot_api *api = ot_api_find(OT_API_INIT_PRODUCER_ID);
    assert_int_equal(ot_api_version_max(api, true), 6);
    assert_int_equal(ot_api_version_max(api, false), 5);
    assert_true(ot_api_serves(api, 6, true));
    assert_false(ot_api_serves(api, 6, false));
}

static void check_error(char **column)
{
    enum ot_err err;
    int code = atoi(column[0]);
    if (code == 0) {
        return;
    }
    assert_true(ot_err_by_name(column[1], &err));
    assert_int_equal(err, code);
    assert_int_equal(ot_err_kafka(err), code);
    assert_int_equal(ot_err_retriable(err), strcmp(column[2], "yes") == 0);
}

static void errors_are_those_of_the_protocol(void **state)
{
    (void)state;
    assert_int_equal(rows("errors.txt", 4, check_error), 138);
}

static void features_keep_their_levels(void **state)
{
    (void)state;
    int16_t last = -1;
    assert_int_equal(ot_feature_level_count, 42);
    assert_string_equal(OT_FEATURE_METADATA_VERSION, "metadata.version");
    assert_int_equal(OT_FEATURE_METADATA_VERSION_MIN, 7);
    assert_int_equal(OT_FEATURE_METADATA_VERSION_MAX, 33); /* 34 is not for production */
    assert_int_equal(OT_FEATURE_SHARE_VERSION_MAX, 2);
    for (size_t i = 0; i < ot_feature_level_count; i++) {
        bool same = i > 0 && strcmp(ot_feature_levels[i].feature, ot_feature_levels[i - 1].feature) == 0;
        assert_true(!same || ot_feature_levels[i].level > last);
        last = ot_feature_levels[i].level;
    }
}

static void enumerations_are_found_by_number_and_by_text(void **state)
{
    (void)state;
    int64_t id = 99;
    assert_int_equal(OT_LIST_OFFSETS_TIMESTAMP_MAX_TIMESTAMP, -3);
    assert_int_equal(OT_CONFIG_RESOURCE_BROKER, 4);
    assert_string_equal(ot_wire_enum_text(&ot_transaction_state_enum, OT_TRANSACTION_STATE_PREPARE_COMMIT), "PrepareCommit");
    assert_null(ot_wire_enum_text(&ot_transaction_state_enum, 8));
    assert_true(ot_wire_enum_by_text(&ot_compression_enum, ot_str_of("ZSTD"), &id));
    assert_int_equal(id, OT_COMPRESSION_ZSTD);
    assert_false(ot_wire_enum_by_text(&ot_compression_enum, ot_str_of("zst"), &id));
    assert_false(ot_wire_enum_by_text(&ot_compression_enum, ot_str_of(NULL), &id));
    assert_string_equal(ot_wire_enum_text(&ot_group_state_enum, OT_GROUP_STATE_PREPARING_REBALANCE), "PreparingRebalance");
}

static void messages_are_found_by_name_and_by_type(void **state)
{
    (void)state;
    for (size_t i = 1; i < ot_wire_message_count; i++) {
        assert_true(strcmp(ot_wire_messages[i - 1]->name, ot_wire_messages[i]->name) < 0);
    }
    assert_ptr_equal(ot_wire_find_name("OffsetCommitKey"), &ot_offset_commit_key_message);
    assert_null(ot_wire_find_name("OffsetCommit"));
    assert_ptr_equal(ot_wire_find(OT_WIRE_COORDINATOR_KEY, OT_WIRE_AREA_GROUP, 1), &ot_offset_commit_key_message);
    assert_string_equal(ot_wire_find(OT_WIRE_COORDINATOR_KEY, OT_WIRE_AREA_TRANSACTION, 0)->name, "TransactionLogKey");
    assert_string_equal(ot_wire_find(OT_WIRE_COORDINATOR_VALUE, OT_WIRE_AREA_SHARE, 1)->name, "ShareUpdateValue");
    assert_null(ot_wire_find(OT_WIRE_COORDINATOR_KEY, OT_WIRE_AREA_GROUP, 999));
    assert_null(ot_wire_find(OT_WIRE_DATA, OT_WIRE_AREA_COMMON, -1));
}

/* ---- request and response headers */

static enum ot_err read_header(const uint8_t *bytes, size_t count, struct ot_wire_request_header *out, size_t *left)
{
    uint8_t *copy = malloc(count == 0 ? 1 : count);
    memcpy(copy, bytes, count);
    struct ot_reader in = ot_reader_over(count == 0 ? copy + 1 : copy, count);
    enum ot_err err = ot_wire_request_header_decode(&in, &arena, out, &error);
    *left = ot_reader_left(&in);
    free(copy);
    return err;
}

static void request_headers_follow_the_version_of_their_api(void **state)
{
    (void)state;
    struct ot_wire_request_header header;
    size_t left;
    const uint8_t plain[] = {0, 0, 0, 8, 0, 0, 0, 5, 0, 2, 'm', 'e', 77}; /* Produce 8: no tags */
    assert_int_equal(read_header(plain, sizeof plain, &header, &left), OT_OK);
    assert_int_equal(left, 1);
    assert_int_equal(header.api->key, OT_API_PRODUCE);
    assert_int_equal(header.version, 8);
    assert_int_equal(header.correlation_id, 5);
    assert_int_equal(header.client_id.bytes, 2);
    const uint8_t tagged[] = {0, 0, 0, 9, 0, 0, 0, 5, 0xff, 0xff, 1, 3, 1, 9, 77}; /* Produce 9: a tag of somebody's */
    assert_int_equal(read_header(tagged, sizeof tagged, &header, &left), OT_OK);
    assert_int_equal(left, 1);
    assert_true(header.client_id.null);
    assert_int_equal(header.tags.count, 1);
    for (size_t cut = 0; cut < sizeof tagged - 1; cut++) {
        assert_int_equal(read_header(tagged, cut, &header, &left), OT_ERR_SHORT);
    }
}

static void a_request_from_the_future_still_has_a_correlation_id(void **state)
{
    (void)state;
    struct ot_wire_request_header header;
    size_t left;
    const uint8_t versions[] = {0, 18, 0, 99, 0, 0, 1, 5, 0, 2, 'm', 'e', 0};
    assert_int_equal(read_header(versions, sizeof versions, &header, &left), OT_OK);
    assert_int_equal(header.correlation_id, 261);
    assert_false(ot_api_serves(header.api, header.version, true));
    assert_int_equal(ot_api_response_header_version(header.api, header.version), 0);
    const uint8_t unknown[] = {3, 0xe7, 0, 0, 0, 0, 1, 5, 0xff, 0xff};
    assert_int_equal(read_header(unknown, sizeof unknown, &header, &left), OT_ERR_UNSUPPORTED_VERSION);
    assert_null(header.api);
    assert_int_equal(header.key, 999);
    assert_int_equal(header.correlation_id, 261);
    const uint8_t reserved[] = {0, 4, 0, 0, 0, 0, 1, 5, 0xff, 0xff};
    assert_int_equal(read_header(reserved, sizeof reserved, &header, &left), OT_ERR_UNSUPPORTED_VERSION);
}

static void headers_are_read_back_as_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < ot_api_count; i++) {
        const struct ot_api *api = &ot_apis[i];
        for (int16_t version = api->version_min; version <= api->version_max; version++) {
            uint8_t wire[64];
            struct ot_writer writer = ot_writer_over(wire, sizeof wire);
            struct ot_wire_request_header header = {.api = api,
                                              .version = version,
                                              .correlation_id = -7,
                                              .client_id = ot_str_of("me")},
                                          again;
            assert_int_equal(ot_wire_request_header_encode(&header, &writer), OT_OK);
            struct ot_reader reader = ot_reader_over(wire, (size_t)(writer.at - wire));
            assert_int_equal(ot_wire_request_header_decode(&reader, &arena, &again, &error), OT_OK);
            assert_int_equal(ot_reader_left(&reader), 0);
            assert_ptr_equal(again.api, api);
            assert_int_equal(again.version, version);
            int32_t correlation_id;
            writer = ot_writer_over(wire, sizeof wire);
            assert_int_equal(ot_wire_response_header_encode(api, version, 41, &writer), OT_OK);
            assert_int_equal(writer.at - wire, ot_wire_response_header_bytes(api, version));
            reader = ot_reader_over(wire, (size_t)(writer.at - wire));
            assert_int_equal(ot_wire_response_header_decode(api, version, &reader, &arena, &correlation_id, &error), OT_OK);
            assert_int_equal(correlation_id, 41);
        }
    }
}

/* ---- prefixes */

static void a_record_of_another_type_or_version_is_refused(void **state)
{
    (void)state;
    struct ot_offset_commit_key key = {.group = ot_str_of("g"), .topic = ot_str_of("t"), .partition = 3};
    union {
        struct ot_offset_commit_key commit;
        struct ot_group_metadata_key group;
        struct ot_group_metadata_value value;
        struct ot_topic_record topic;
    } out;
    uint8_t wire[64];
    int16_t version, type;
    struct ot_writer writer = ot_writer_over(wire, sizeof wire);
    assert_int_equal(ot_wire_framed_encode(&ot_offset_commit_key_message, 0, &key, &writer), OT_OK);
    struct ot_reader reader = ot_reader_over(wire, (size_t)(writer.at - wire));
    assert_int_equal(ot_wire_frame_peek(OT_WIRE_FRAME_API, &reader, &type), OT_OK);
    assert_int_equal(type, 1);
    assert_int_equal(ot_reader_left(&reader), (size_t)(writer.at - wire));
    assert_int_equal(
        ot_wire_framed_decode(&ot_group_metadata_key_message, &reader, &arena, &out, &version, &error), OT_ERR_MISMATCH);
    const uint8_t future[] = {0, 99, 0, 0};
    reader = ot_reader_over(future, sizeof future);
    assert_int_equal(ot_wire_framed_decode(&ot_group_metadata_value_message, &reader, &arena, &out, &version, &error),
        OT_ERR_UNSUPPORTED_VERSION);
    const uint8_t other_format[] = {2, 2, 0, 0},
                  wide[] = {1, 2, 0x80, 0x80, 0x04, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                  wide_type[] = {1, 0x82, 0x80, 0x04, 0, 0};
    reader = ot_reader_over(other_format, sizeof other_format);
    assert_int_equal(
        ot_wire_framed_decode(&ot_topic_record_message, &reader, &arena, &out, &version, &error), OT_ERR_UNSUPPORTED_VERSION);
    reader = ot_reader_over(wide, sizeof wide); /* 65536 is no version: it must not wrap to 0 */
    assert_int_equal(
        ot_wire_framed_decode(&ot_topic_record_message, &reader, &arena, &out, &version, &error), OT_ERR_UNSUPPORTED_VERSION);
    reader = ot_reader_over(wide_type, sizeof wide_type); /* 65538 is not record type 2 */
    assert_int_equal(ot_wire_frame_peek(OT_WIRE_FRAME_METADATA, &reader, &type), OT_ERR_MALFORMED);
    assert_int_equal(ot_wire_framed_decode(&ot_topic_record_message, &reader, &arena, &out, &version, &error), OT_ERR_MISMATCH);
}

static void a_message_without_a_prefix_cannot_be_read_as_a_record(void **state)
{
    (void)state;
    struct ot_request_header out;
    int16_t version = 77;
    struct ot_reader reader = ot_reader_over("\0\0\0\0\0\0\0\0\0\0", 10);
    assert_int_equal(ot_wire_framed_decode(&ot_request_header_message, &reader, &arena, &out, &version, &error), OT_ERR_MALFORMED);
    assert_int_equal(reader.err, OT_ERR_MALFORMED);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(every_api_is_served_as_the_table_says),
        T(produce_advertises_versions_that_it_does_not_serve),
        T(an_unstable_version_is_served_only_when_asked_for),
        T(errors_are_those_of_the_protocol),
        T(features_keep_their_levels),
        T(enumerations_are_found_by_number_and_by_text),
        T(messages_are_found_by_name_and_by_type),
        T(request_headers_follow_the_version_of_their_api),
        T(a_request_from_the_future_still_has_a_correlation_id),
        T(headers_are_read_back_as_written),
        T(a_record_of_another_type_or_version_is_refused),
        T(a_message_without_a_prefix_cannot_be_read_as_a_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
