/* What the codec refuses and why; tagged fields; fields that a version lacks; records that lie in files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/wire/add_partitions_to_txn_request.h"
#include "base/wire/consumer_group_heartbeat_response.h"
#include "base/wire/consumer_group_member_metadata_value.h"
#include "base/wire/enums.h"
#include "base/wire/fetch_request.h"
#include "base/wire/fetch_response.h"
#include "base/wire/list_groups_request.h"
#include "base/wire/metadata_request.h"
#include "base/wire/produce_request.h"
#include "base/wire/produce_response.h"
#include "base/wire/push_telemetry_request.h"
#include <stdlib.h>
#include <string.h>

static struct ot_arena arena;
static struct ot_wire_error error;

static int setup(void **state)
{
    (void)state;
    ot_arena_init(&arena, (size_t)64 << 20);
    memset(&error, 0x7f, sizeof error);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ot_arena_free(&arena);
    return 0;
}

/* Decodes from a heap block of exactly these bytes, so that a sanitizer sees a read past them. */
static enum ot_err decode(const struct ot_wire_message *message, int16_t version, const void *bytes, size_t count, void *out)
{
    uint8_t *copy = malloc(count == 0 ? 1 : count);
    memcpy(copy, bytes, count);
    struct ot_reader in = ot_reader_over(count == 0 ? copy + 1 : copy, count);
    enum ot_err err = ot_wire_decode_all(message, version, &in, &arena, out, &error);
    assert_int_equal(in.err, err);
    free(copy);
    return err;
}
#define DECODE(message, version, out, ...)                                                                                         \
    decode(&(message), version, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), out)

static void assert_error(const char *field, const char *reason)
{
    assert_string_equal(error.field, field);
    assert_non_null(strstr(error.reason, reason));
}

/* ---- lengths and counts */

static void a_count_that_the_bytes_cannot_hold_allocates_nothing(void **state)
{
    (void)state;
    struct ot_metadata_request request;
    assert_int_equal(DECODE(ot_metadata_request_message, 0, &request, 0, 0, 0, 3, 0, 0, 0, 0), OT_ERR_SHORT);
    assert_error("topics", "3 elements, but 4 bytes left");
    assert_int_equal(arena.used_bytes, 0);
    assert_int_equal(DECODE(ot_metadata_request_message, 0, &request, 0, 0, 0, 2, 0, 0, 0, 0), OT_OK);
    assert_int_equal(request.topics.count, 2);
}

static void a_count_above_the_limit_is_too_large_however_many_bytes_follow(void **state)
{
    (void)state;
    struct ot_fetch_request request, again;
    int32_t count = OT_DECODE_LIMIT_MAX_ARRAY_LENGTH;
    struct ot_fetch_request_forgotten_topic topic = {.partitions = {calloc((size_t)count + 1, sizeof(int32_t)), count}};
    ot_fetch_request_defaults(&request);
    request.forgotten_topics_data.items = &topic;
    request.forgotten_topics_data.count = 1;
    size_t bytes = (size_t)count * 4 + 4096;
    uint8_t *wire = malloc(bytes);
    for (int extra = 0; extra < 2; extra++) {
        topic.partitions.count = count + extra;
        struct ot_writer writer = ot_writer_over(wire, bytes);
        assert_int_equal(ot_fetch_request_encode(&request, 7, &writer), OT_OK);
        assert_int_equal(
            decode(&ot_fetch_request_message, 7, wire, (size_t)(writer.at - wire), &again), extra == 0 ? OT_OK : OT_ERR_TOO_LARGE);
    }
    assert_error("forgottenTopicsData[0].partitions", "1000001 elements, at most 1000000");
    free(wire);
    free(topic.partitions.items);
}

static void the_largest_count_is_refused_without_overflow(void **state)
{
    (void)state;
    struct ot_metadata_request request;
    assert_int_equal(DECODE(ot_metadata_request_message, 0, &request, 0x7f, 0xff, 0xff, 0xff), OT_ERR_TOO_LARGE);
    assert_int_equal(DECODE(ot_metadata_request_message, 9, &request, 0xff, 0xff, 0xff, 0xff, 0x0f, 0), OT_ERR_TOO_LARGE);
    assert_int_equal(arena.used_bytes, 0);
}

static void negative_lengths_are_malformed_and_the_field_is_named(void **state)
{
    (void)state;
    struct ot_metadata_request metadata;
    struct ot_produce_request produce;
    assert_int_equal(DECODE(ot_metadata_request_message, 1, &metadata, 0xff, 0xff, 0xff, 0xfe), OT_ERR_MALFORMED);
    assert_error("topics", "negative length -2");
    assert_int_equal(DECODE(ot_metadata_request_message, 1, &metadata, 0, 0, 0, 2, 0, 0, 0xff, 0xfe), OT_ERR_MALFORMED);
    assert_error("topics[1].name", "negative length -2");
    assert_int_equal(DECODE(ot_produce_request_message, 3, &produce, 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0,
                         0, 0, 7, 0x80, 0, 0, 0),
        OT_ERR_MALFORMED);
    assert_error("topicData[0].partitionData[0].records", "negative length");
}

static void a_length_beyond_the_input_is_short(void **state)
{
    (void)state;
    struct ot_produce_request produce;
    assert_int_equal(DECODE(ot_produce_request_message, 3, &produce, 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0,
                         0, 0, 7, 0x7f, 0xff, 0xff, 0xff, 1),
        OT_ERR_SHORT);
    assert_error("topicData[0].partitionData[0].records", "2147483647 bytes wanted, but 1 left");
}

static void null_is_refused_where_the_version_has_none(void **state)
{
    (void)state;
    struct ot_metadata_request request;
    assert_int_equal(DECODE(ot_metadata_request_message, 0, &request, 0xff, 0xff, 0xff, 0xff), OT_ERR_MALFORMED);
    assert_error("topics", "null");
    assert_int_equal(DECODE(ot_metadata_request_message, 1, &request, 0xff, 0xff, 0xff, 0xff), OT_OK);
    assert_int_equal(request.topics.count, -1);
    assert_int_equal(DECODE(ot_metadata_request_message, 9, &request, 2, 0, 0, 1, 0, 0, 0), OT_ERR_MALFORMED);
    assert_error("topics[0].name", "null");
}

static void a_varint_above_32_bits_is_malformed(void **state)
{
    (void)state;
    struct ot_metadata_request request;
    assert_int_equal(DECODE(ot_metadata_request_message, 9, &request, 0x80, 0x80, 0x80, 0x80, 0x10), OT_ERR_MALFORMED);
    assert_int_equal(DECODE(ot_metadata_request_message, 9, &request, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01), OT_ERR_MALFORMED);
    assert_error("topics", "varint");
    assert_int_equal(DECODE(ot_metadata_request_message, 9, &request, 0x80, 0x80, 0x80), OT_ERR_SHORT);
}

static void a_text_is_at_most_32767_bytes_both_ways(void **state)
{
    (void)state;
    static char text[32768];
    struct ot_metadata_request_metadata_request_topic topic = {.name = {text, 32767, false}};
    struct ot_metadata_request request, again;
    static uint8_t wire[40000];
    ot_metadata_request_defaults(&request);
    request.topics.items = &topic;
    request.topics.count = 1;
    struct ot_writer writer = ot_writer_over(wire, sizeof wire);
    assert_int_equal(ot_metadata_request_encode(&request, 9, &writer), OT_OK);
    assert_int_equal(decode(&ot_metadata_request_message, 9, wire, (size_t)(writer.at - wire), &again), OT_OK);
    topic.name.bytes++;
    writer = ot_writer_over(wire, sizeof wire);
    assert_int_equal(ot_metadata_request_encode(&request, 9, &writer), OT_ERR_MALFORMED);
    memset(wire, 'a', sizeof wire);
    memcpy(wire, (const uint8_t[]){2, 0x81, 0x80, 0x02}, 4);
    assert_int_equal(decode(&ot_metadata_request_message, 9, wire, sizeof wire, &again), OT_ERR_MALFORMED);
    assert_error("topics[0].name", "text of 32768 bytes");
}

static void a_pool_at_its_cap_is_no_memory_and_not_malformed(void **state)
{
    (void)state;
    struct ot_arena none;
    struct ot_metadata_request request;
    const uint8_t wire[] = {0, 0, 0, 1, 0, 1, 'a'};
    struct ot_reader in = ot_reader_over(wire, sizeof wire);
    ot_arena_init(&none, 0);
    assert_int_equal(ot_metadata_request_decode(&request, 0, &in, &none, &error), OT_ERR_NO_MEMORY);
    assert_error("topics", "1 elements do not fit");
    assert_int_equal(request.topics.count, 0);
}

static void a_version_that_does_not_exist_is_refused_both_ways(void **state)
{
    (void)state;
    struct ot_produce_request request;
    static const int16_t versions[] = {-1, 2, 14, INT16_MAX, INT16_MIN};
    uint8_t wire[100] = {0};
    ot_produce_request_defaults(&request);
    for (size_t i = 0; i < OT_ARRAY_COUNT(versions); i++) {
        struct ot_writer writer = ot_writer_over(wire, sizeof wire);
        assert_int_equal(decode(&ot_produce_request_message, versions[i], wire, sizeof wire, &request), OT_ERR_UNSUPPORTED_VERSION);
        assert_int_equal(ot_produce_request_encode(&request, versions[i], &writer, NULL), OT_ERR_UNSUPPORTED_VERSION);
        assert_int_equal(ot_produce_request_size(&request, versions[i]), 0);
    }
    assert_error("", "ProduceRequest has versions 3 to 13, not -32768");
}

static void what_follows_a_message_stays_in_the_reader(void **state)
{
    (void)state;
    struct ot_metadata_request request;
    const uint8_t wire[] = {0, 0, 0, 0, 9, 9};
    struct ot_reader in = ot_reader_over(wire, sizeof wire);
    assert_int_equal(ot_metadata_request_decode(&request, 0, &in, &arena, NULL), OT_OK);
    assert_int_equal(ot_reader_left(&in), 2);
    in = ot_reader_over(wire, sizeof wire);
    assert_int_equal(ot_wire_decode_all(&ot_metadata_request_message, 0, &in, &arena, &request, &error), OT_ERR_MALFORMED);
    assert_error("", "2 bytes left behind the message");
    ot_reader_fail(&in, OT_ERR_MALFORMED);
    assert_int_equal(ot_metadata_request_decode(&request, 0, &in, &arena, NULL), OT_ERR_MALFORMED);
}

static void a_message_of_nothing_is_nothing(void **state)
{
    (void)state;
    struct ot_list_groups_request request;
    assert_int_equal(decode(&ot_list_groups_request_message, 0, "", 0, &request), OT_OK);
    assert_int_equal(ot_list_groups_request_size(&request, 0), 0);
    assert_int_equal(ot_list_groups_request_size(&request, 3), 1);
    assert_int_equal(ot_list_groups_request_size(&request, 4), 2);
}

/* ---- tagged fields */

static void tags_in_wrong_order_twice_or_too_many_are_refused(void **state)
{
    (void)state;
    struct ot_list_groups_request request;
    assert_int_equal(DECODE(ot_list_groups_request_message, 4, &request, 1, 2, 7, 1, 'a', 9, 0), OT_OK);
    assert_int_equal(DECODE(ot_list_groups_request_message, 4, &request, 1, 2, 9, 0, 7, 1, 'a'), OT_ERR_MALFORMED);
    assert_error("", "tag 7 after tag 9");
    assert_int_equal(DECODE(ot_list_groups_request_message, 4, &request, 1, 2, 7, 0, 7, 0), OT_ERR_MALFORMED);
    assert_int_equal(DECODE(ot_list_groups_request_message, 4, &request, 1, 2, 7, 0, 8), OT_ERR_SHORT);
    assert_int_equal(DECODE(ot_list_groups_request_message, 4, &request, 1, 1, 7, 5, 'a'), OT_ERR_SHORT);
    assert_int_equal(DECODE(ot_list_groups_request_message, 4, &request, 1, 0x91, 0x4e, 0, 0), OT_ERR_TOO_LARGE);
    assert_error("", "10001 tagged fields, at most 10000");
    size_t used = arena.used_bytes;
    ot_arena_free(&arena);
    ot_arena_init(&arena, (size_t)1 << 20);
    assert_true(used > 0);
    assert_int_equal(DECODE(ot_list_groups_request_message, 4, &request, 1, 0x90, 0x4e, 0, 0), OT_ERR_SHORT);
    assert_int_equal(arena.used_bytes, 0); /* 10 000 of them were refused before there was room for them */
}

static void unknown_tags_are_kept_in_order_around_known_ones(void **state)
{
    (void)state;
    struct ot_fetch_request request;
    /* v12: cluster id is tag 0, replica state (tag 1) is not known yet */
    const uint8_t wire[] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 1,
        1, 3, 0, 2, 2, 'c', 1, 3, 1, 2, 3, 200, 1, 0};
    uint8_t again[sizeof wire];
    struct ot_writer writer = ot_writer_over(again, sizeof again);
    struct ot_reader in = ot_reader_over(wire, sizeof wire);
    assert_int_equal(ot_fetch_request_decode(&request, 12, &in, &arena, &error), OT_OK);
    assert_true(ot_str_equal(request.cluster_id, ot_str_of("c")));
    assert_int_equal(request._tags.count, 2);
    assert_int_equal(request._tags.items[0].tag, 1);
    assert_int_equal(request._tags.items[0].data.bytes, 3);
    assert_int_equal(request._tags.items[1].tag, 200);
    assert_int_equal(ot_fetch_request_encode(&request, 12, &writer), OT_OK);
    assert_memory_equal(again, wire, sizeof wire);
    /* tag 1 means the replica state from version 15 on: two of them cannot be written */
    request.replica_id = -1;
    writer = ot_writer_over(NULL, 0);
    assert_int_equal(ot_fetch_request_encode(&request, 15, &writer), OT_ERR_MALFORMED);
    assert_int_equal(ot_wire_encode_check(&ot_fetch_request_message, 15, &request, &error), OT_ERR_MALFORMED);
    assert_error("", "unknown tag 1");
}

static void unknown_tags_cannot_be_written_without_tags_or_out_of_order(void **state)
{
    (void)state;
    struct ot_wire_tag tags[2] = {{5, {NULL, 0, false}}, {5, {NULL, 0, false}}};
    struct ot_list_groups_request request;
    ot_list_groups_request_defaults(&request);
    request._tags.items = tags;
    request._tags.count = 1;
    assert_int_equal(ot_wire_encode_check(&ot_list_groups_request_message, 2, &request, &error), OT_ERR_UNSUPPORTED_VERSION);
    assert_int_equal(ot_wire_encode_check(&ot_list_groups_request_message, 3, &request, &error), OT_OK);
    request._tags.count = 2;
    assert_int_equal(ot_wire_encode_check(&ot_list_groups_request_message, 3, &request, &error), OT_ERR_MALFORMED);
}

static void a_tagged_field_must_fill_its_size(void **state)
{
    (void)state;
    struct ot_fetch_request request;
    uint8_t wire[] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 1, 1, 1,
        0, 3, 2, 'c', 0};
    assert_int_equal(decode(&ot_fetch_request_message, 12, wire, sizeof wire, &request), OT_ERR_MALFORMED);
    assert_error("clusterId", "1 bytes left in the tagged field");
    wire[sizeof wire - 3] = 3; /* the text would reach out of the field, though not out of the message */
    wire[sizeof wire - 4] = 2;
    assert_int_equal(decode(&ot_fetch_request_message, 12, wire, sizeof wire, &request), OT_ERR_SHORT);
    assert_error("clusterId", "2 bytes wanted, but 1 left");
}

static void a_tagged_field_at_its_default_is_left_out(void **state)
{
    (void)state;
    struct ot_fetch_response_partition_data partition;
    struct ot_fetch_response_fetchable_topic_response topic = {.partitions = {&partition, 1}};
    struct ot_fetch_response response;
    ot_fetch_response_partition_data_defaults(&partition);
    ot_fetch_response_defaults(&response);
    response.responses.items = &topic;
    response.responses.count = 1;
    assert_int_equal(partition.diverging_epoch.end_offset, -1);
    size_t bare = ot_fetch_response_size(&response, 17);
    partition.current_leader.leader_epoch = 0;
    assert_int_equal(ot_fetch_response_size(&response, 17), bare + 2 + 9);
    partition.current_leader.leader_epoch = -1;
    partition.current_leader._tags = (struct ot_wire_tags){&(struct ot_wire_tag){3, {NULL, 0, false}}, 1};
    assert_int_equal(ot_fetch_response_size(&response, 17), bare + 2 + 11);
}

/* ---- fields that a version lacks */

static void a_value_that_the_version_cannot_carry_is_an_error_unless_ignorable(void **state)
{
    (void)state;
    struct ot_fetch_request request;
    ot_fetch_request_defaults(&request);
    request.isolation_level = 1;
    request.rack_id = ot_str_of("r1"); /* ignorable, from 11 */
    assert_int_equal(ot_wire_encode_check(&ot_fetch_request_message, 4, &request, &error), OT_OK);
    struct ot_fetch_request_forgotten_topic topic = {.topic = ot_str_of("t")};
    request.forgotten_topics_data.items = &topic; /* not ignorable, from 7 */
    request.forgotten_topics_data.count = 1;
    assert_int_equal(ot_wire_encode_check(&ot_fetch_request_message, 7, &request, &error), OT_OK);
    assert_int_equal(ot_wire_encode_check(&ot_fetch_request_message, 6, &request, &error), OT_ERR_UNSUPPORTED_VERSION);
    assert_error("forgottenTopicsData", "no such field");
    assert_int_equal(ot_fetch_request_size(&request, 6), 0);
}

static void null_is_not_the_default_of_a_text(void **state)
{
    (void)state;
    struct ot_add_partitions_to_txn_request request;
    ot_add_partitions_to_txn_request_defaults(&request);
    assert_int_equal(ot_wire_encode_check(&ot_add_partitions_to_txn_request_message, 4, &request, &error), OT_OK);
    request.v3_and_below_transactional_id = ot_str_of(NULL);
    assert_int_equal(
        ot_wire_encode_check(&ot_add_partitions_to_txn_request_message, 4, &request, &error), OT_ERR_UNSUPPORTED_VERSION);
    assert_error("v3AndBelowTransactionalId", "no such field");
}

static void fields_that_the_version_lacks_are_read_as_defaults(void **state)
{
    (void)state;
    struct ot_fetch_request request;
    memset(&request, 0x55, sizeof request);
    assert_int_equal(DECODE(ot_fetch_request_message, 4, &request, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 1, 0, 0, 0, 1, 0,
                         1, 't', 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 8),
        OT_OK);
    assert_int_equal(request.replica_id, 9);
    assert_int_equal(request.session_epoch, -1);
    assert_true(request.cluster_id.null);
    assert_false(request.rack_id.null);
    assert_int_equal(request.replica_state.replica_epoch, -1);
    assert_int_equal(request.topics.items[0].partitions.items[0].current_leader_epoch, -1);
    assert_true(request.topics.items[0].partitions.items[0].high_watermark == INT64_MAX);
    assert_int_equal(request.topics.items[0].partitions.items[0].fetch_offset, 7);
}

static void null_cannot_be_written_where_the_version_has_none(void **state)
{
    (void)state;
    struct ot_metadata_request request;
    ot_metadata_request_defaults(&request);
    request.topics.count = -1;
    assert_int_equal(ot_wire_encode_check(&ot_metadata_request_message, 1, &request, &error), OT_OK);
    assert_int_equal(ot_wire_encode_check(&ot_metadata_request_message, 0, &request, &error), OT_ERR_UNSUPPORTED_VERSION);
    assert_error("topics", "null");
    request.topics.count = -2;
    assert_int_equal(ot_wire_encode_check(&ot_metadata_request_message, 1, &request, &error), OT_ERR_MALFORMED);
    request.topics.count = 1;
    assert_int_equal(ot_wire_encode_check(&ot_metadata_request_message, 1, &request, &error), OT_ERR_MALFORMED);
}

static void structures_that_may_be_null_are_marked(void **state)
{
    (void)state;
    struct ot_consumer_group_heartbeat_response response;
    const uint8_t start[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    uint8_t wire[19];
    memcpy(wire, start, sizeof start);
    memcpy(wire + 16, (const uint8_t[]){0xff, 0}, 2);
    assert_int_equal(decode(&ot_consumer_group_heartbeat_response_message, 0, wire, 18, &response), OT_OK);
    assert_null(response.assignment);
    memcpy(wire + 16, (const uint8_t[]){2, 1, 0}, 3);
    assert_int_equal(decode(&ot_consumer_group_heartbeat_response_message, 0, wire, 19, &response), OT_ERR_MALFORMED);
    assert_error("assignment", "mark 2");
}

static void an_absent_pointer_whose_default_is_a_structure_points_to_one(void **state)
{
    (void)state;
    struct ot_consumer_group_member_metadata_value value;
    ot_consumer_group_member_metadata_value_defaults(&value);
    assert_non_null(value.classic_member_metadata);
    assert_int_equal(value.classic_member_metadata->session_timeout_ms, 0);
    assert_int_equal(value.rebalance_timeout_ms, -1);
    assert_int_equal(ot_consumer_group_member_metadata_value_size(&value, 0), 12);
    value.classic_member_metadata = NULL; /* differs from the default: written */
    assert_int_equal(ot_consumer_group_member_metadata_value_size(&value, 0), 15);
}

/* ---- room and promises */

static void encoding_appends_and_a_full_writer_says_how_much_it_lacks(void **state)
{
    (void)state;
    struct ot_metadata_request request;
    uint8_t wire[16];
    ot_metadata_request_defaults(&request);
    struct ot_writer writer = ot_writer_over(wire, 7);
    ot_write_u32(&writer, 77);
    assert_int_equal(ot_metadata_request_encode(&request, 0, &writer), OT_ERR_TOO_LARGE);
    assert_int_equal(writer.needed, 8);
    writer = ot_writer_over(wire, 8);
    ot_write_u32(&writer, 77);
    assert_int_equal(ot_metadata_request_encode(&request, 0, &writer), OT_OK);
    assert_int_equal(writer.at - wire, 8);
    writer = ot_writer_over(NULL, 0);
    ot_write_u32(&writer, 77);
    assert_int_equal(ot_metadata_request_encode(&request, 0, &writer), OT_OK);
    assert_int_equal(writer.needed, 8);
}

static void nothing_is_written_behind_a_gap(void **state)
{
    (void)state;
    struct ot_produce_request request;
    uint8_t wire[10];
    ot_produce_request_defaults(&request);
    request.transactional_id = ot_str_of("a name that has no room here");
    struct ot_writer writer = ot_writer_over(wire, sizeof wire);
    memset(wire, 0xee, sizeof wire);
    assert_int_equal(ot_produce_request_encode(&request, 3, &writer, NULL), OT_ERR_TOO_LARGE);
    assert_int_equal(writer.at - wire, 2); /* the length of the name */
    assert_int_equal(wire[2], 0xee);
    assert_int_equal(writer.needed, ot_produce_request_size(&request, 3));
    assert_int_equal(writer.err, OT_ERR_TOO_LARGE);
}

static void fill_response(struct ot_fetch_response *response, struct ot_fetch_response_fetchable_topic_response *topic,
    struct ot_fetch_response_partition_data partitions[4], const uint8_t *records)
{
    for (int32_t i = 0; i < 4; i++) {
        ot_fetch_response_partition_data_defaults(&partitions[i]);
        partitions[i].partition_index = i;
        partitions[i].aborted_transactions.count = -1;
        partitions[i].records = (struct ot_blob){records, (uint32_t)i * 100, false};
    }
    *topic = (struct ot_fetch_response_fetchable_topic_response){.partitions = {partitions, 4}};
    ot_fetch_response_defaults(response);
    response->responses.items = topic;
    response->responses.count = 1;
}

/* Bytes and splices put together are what encoding everything from memory gives. */
static void check_splices(int16_t version)
{
    struct ot_fetch_response response;
    struct ot_fetch_response_fetchable_topic_response topic;
    struct ot_fetch_response_partition_data partitions[4];
    uint8_t records[400], whole[2000], parts[2000], joined[2000];
    memset(records, 'r', sizeof records);
    fill_response(&response, &topic, partitions, records);
    if (version < 13) topic.topic = ot_str_of("t");
    struct ot_writer writer = ot_writer_over(whole, sizeof whole);
    ot_write_u32(&writer, 1);
    assert_int_equal(ot_fetch_response_encode(&response, version, &writer, NULL), OT_OK);
    size_t whole_bytes = (size_t)(writer.at - whole);

    partitions[1].records.data = partitions[3].records.data = NULL; /* partition 2 stays in memory, 0 is empty */
    struct ot_wire_splice items[2];
    struct ot_wire_splices splices = {items, 0, 2, 0};
    writer = ot_writer_over(parts, sizeof parts);
    ot_write_u32(&writer, 1);
    assert_int_equal(ot_fetch_response_encode(&response, version, &writer, &splices), OT_OK);
    assert_int_equal(splices.count, 2);
    assert_int_equal(splices.bytes, 400);
    assert_int_equal(ot_fetch_response_size(&response, version) + 4, (size_t)(writer.at - parts));
    assert_ptr_equal(OT_CONTAINER(items[1].field, struct ot_fetch_response_partition_data, records), &partitions[3]);
    size_t from = 0, to = 0;
    for (uint32_t i = 0; i < splices.count; i++) {
        memcpy(joined + to, parts + from, items[i].pos - from);
        to += items[i].pos - from;
        memset(joined + to, 'r', items[i].bytes);
        to += items[i].bytes;
        from = items[i].pos;
    }
    memcpy(joined + to, parts + from, (size_t)(writer.at - parts) - from);
    assert_int_equal(to + (size_t)(writer.at - parts) - from, whole_bytes);
    assert_memory_equal(joined, whole, whole_bytes);

    splices = (struct ot_wire_splices){items, 0, 1, 0};
    writer = ot_writer_over(parts, sizeof parts);
    assert_int_equal(ot_fetch_response_encode(&response, version, &writer, &splices), OT_ERR_TOO_LARGE);
    writer = ot_writer_over(parts, sizeof parts);
    assert_int_equal(ot_fetch_response_encode(&response, version, &writer, NULL), OT_ERR_MALFORMED);
    splices = (struct ot_wire_splices){items, 0, 2, 0};
    partitions[1].records.bytes = (uint32_t)INT32_MAX + 1;
    writer = ot_writer_over(parts, sizeof parts);
    assert_int_equal(ot_fetch_response_encode(&response, version, &writer, &splices), OT_ERR_MALFORMED);
}

static void promised_records_leave_their_length_and_a_splice(void **state)
{
    (void)state;
    check_splices(4);
    check_splices(11);
    check_splices(12);
    check_splices(18);
}

static void only_records_can_be_promised(void **state)
{
    (void)state;
    struct ot_push_telemetry_request request;
    struct ot_wire_splice item;
    struct ot_wire_splices splices = {&item, 0, 1, 0};
    uint8_t wire[100];
    struct ot_writer writer = ot_writer_over(wire, sizeof wire);
    ot_push_telemetry_request_defaults(&request);
    request.metrics.bytes = 5;
    assert_int_equal(ot_wire_encode(&ot_push_telemetry_request_message, 0, &request, &writer, &splices), OT_ERR_MALFORMED);
}

static void a_deep_error_names_every_step_within_its_buffer(void **state)
{
    (void)state;
    struct ot_produce_response response;
    assert_int_equal(DECODE(ot_produce_response_message, 8, &response, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                         0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 5, 'a', 'b'),
        OT_ERR_SHORT);
    assert_error("responses[0].partitionResponses[0].recordErrors[0].batchIndexErrorMessage", "5 bytes wanted, but 2 left");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_count_that_the_bytes_cannot_hold_allocates_nothing),
        T(a_count_above_the_limit_is_too_large_however_many_bytes_follow),
        T(the_largest_count_is_refused_without_overflow),
        T(negative_lengths_are_malformed_and_the_field_is_named),
        T(a_length_beyond_the_input_is_short),
        T(null_is_refused_where_the_version_has_none),
        T(a_varint_above_32_bits_is_malformed),
        T(a_text_is_at_most_32767_bytes_both_ways),
        T(a_pool_at_its_cap_is_no_memory_and_not_malformed),
        T(a_version_that_does_not_exist_is_refused_both_ways),
        T(what_follows_a_message_stays_in_the_reader),
        T(a_message_of_nothing_is_nothing),
        T(tags_in_wrong_order_twice_or_too_many_are_refused),
        T(unknown_tags_are_kept_in_order_around_known_ones),
        T(unknown_tags_cannot_be_written_without_tags_or_out_of_order),
        T(a_tagged_field_must_fill_its_size),
        T(a_tagged_field_at_its_default_is_left_out),
        T(a_value_that_the_version_cannot_carry_is_an_error_unless_ignorable),
        T(null_is_not_the_default_of_a_text),
        T(fields_that_the_version_lacks_are_read_as_defaults),
        T(null_cannot_be_written_where_the_version_has_none),
        T(structures_that_may_be_null_are_marked),
        T(an_absent_pointer_whose_default_is_a_structure_points_to_one),
        T(encoding_appends_and_a_full_writer_says_how_much_it_lacks),
        T(nothing_is_written_behind_a_gap),
        T(promised_records_leave_their_length_and_a_splice),
        T(only_records_can_be_promised),
        T(a_deep_error_names_every_step_within_its_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
