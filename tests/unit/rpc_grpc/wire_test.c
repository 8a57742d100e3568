/* The wire format: what is written is read back, and what is no message is refused where it goes wrong. */
#include "testing.h"

#include "rpc/grpc/messages.h"

#include <string.h>

static uint8_t space[4096];
static struct ot_arena arena;

static struct ot_blob blob(const void *data, size_t bytes) { return (struct ot_blob){ data, (uint32_t)bytes, false }; }
#define BYTES(text) blob(text, sizeof(text) - 1)

static int setup(void **state)
{
    (void)state;
    ot_arena_init(&arena, 1u << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ot_arena_free(&arena);
    return 0;
}

static void fields_come_back_as_they_were_written(void **state)
{
    (void)state;
    struct ot_writer writer = ot_writer_over(space, sizeof space);
    rpcg_put_int(&writer, 1, 300);
    rpcg_put_int(&writer, 2, -1);
    rpcg_put_int(&writer, 3, 0);           /* left out */
    rpcg_put_text(&writer, 4, "abc");
    rpcg_put_text(&writer, 5, NULL);       /* left out */
    const int32_t list[] = { 1, 300, -1 };
    rpcg_put_i32s(&writer, 16, list, 3);
    assert_int_equal(writer.err, OT_OK);
    struct ot_reader reader = ot_reader_over(space, writer.needed);
    struct rpcg_field field;
    assert_true(rpcg_field_next(&reader, &field));
    assert_int_equal(field.number, 1);
    assert_int_equal(rpcg_field_int(&reader, &field), 300);
    assert_true(rpcg_field_next(&reader, &field));
    assert_int_equal(rpcg_field_i32(&reader, &field), -1);
    assert_true(rpcg_field_next(&reader, &field));
    assert_int_equal(field.number, 4);
    assert_true(ot_str_equal(rpcg_field_str(&reader, &field), ot_str_of("abc")));
    assert_true(rpcg_field_next(&reader, &field));
    assert_int_equal(field.number, 16);
    assert_int_equal(field.bytes.bytes, 1 + 2 + 10);
    assert_false(rpcg_field_next(&reader, &field));
    assert_int_equal(reader.err, OT_OK);
}

static void what_is_no_message_is_refused(void **state)
{
    (void)state;
    static const struct { const char *what; const char *data; size_t bytes; enum ot_err err; } bad[] = {
        { "a tag alone", "\x08", 1, OT_ERR_SHORT },
        { "a length past the end", "\x0a\x05" "ab", 4, OT_ERR_SHORT },
        { "a length of 2^64 - 1", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, OT_ERR_SHORT },
        { "a varint that does not end", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12, OT_ERR_MALFORMED },
        { "field number 0", "\x00\x01", 2, OT_ERR_MALFORMED },
        { "wire type 6", "\x0e", 1, OT_ERR_MALFORMED },
        { "the end of a group that never began", "\x0c", 1, OT_ERR_MALFORMED },
        { "a group that does not end", "\x0b\x08\x01", 3, OT_ERR_SHORT },
        { "a group that ends under another number", "\x0b\x14", 2, OT_ERR_MALFORMED },
        { "four bytes of which two are there", "\x0d\x01\x02", 3, OT_ERR_SHORT },
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        struct ot_reader reader = ot_reader_over(bad[i].data, bad[i].bytes);
        struct rpcg_field field;
        while (rpcg_field_next(&reader, &field)) {
        }
        if (reader.err == OT_OK) fail_msg("%s was taken", bad[i].what);
        if (reader.err != bad[i].err && !(bad[i].err == OT_ERR_SHORT && reader.err == OT_ERR_MALFORMED)) fail_msg("%s: %s", bad[i].what, ot_err_name(reader.err));
    }
}

static void groups_and_unknown_fields_are_passed_over(void **state)
{
    (void)state;
    /* group 1 { group 2 { 3: 1 } } | 9: fixed64 | 10: fixed32 | 11: "x" | 1: "t" */
    struct rpcg_init_ask ask;
    const char *why = NULL;
    assert_int_equal(rpcg_init_decode(BYTES("\x9b\x06\x13\x18\x01\x14\x9c\x06\x49\x01\x02\x03\x04\x05\x06\x07\x08\x55\x01\x02\x03\x04\x5a\x01x\x0a\x01t"), &ask, &why), OT_OK);
    assert_true(ot_str_equal(ask.transactional_id, ot_str_of("t")));
    uint8_t deep[40];
    memset(deep, 0x0b, sizeof deep);       /* groups in groups, deeper than anybody writes them */
    assert_int_equal(rpcg_init_decode(blob(deep, sizeof deep), &ask, &why), OT_ERR_MALFORMED);
}

/* ---- produce */

#define BAD(text, words) { text, sizeof(text) - 1, words }

static struct rpcg_produce_ask asked;
static const char *why;

static enum ot_err produce(const void *data, size_t bytes)
{
    ot_arena_reset(&arena);
    return rpcg_produce_decode(blob(data, bytes), 1234, &arena, &asked, &why);
}
#define PRODUCE(text) produce(text, sizeof(text) - 1)

static void a_produce_request_of_batches_borrows_them(void **state)
{
    (void)state;
    static const char body[] = "\x0a\x01t\x10\x05\x18\x02\x20\x64\x48\x07\x7a\x03xyz";
    assert_int_equal(PRODUCE(body), OT_OK);
    assert_true(ot_str_equal(asked.topic, ot_str_of("t")));
    assert_int_equal(asked.partition, 5);
    assert_int_equal(asked.acks, 1);
    assert_int_equal(asked.timeout_ms, 100);
    assert_int_equal(asked.id, 7);
    assert_int_equal(asked.batches.bytes, 3);
    assert_ptr_equal(asked.batches.data, (const uint8_t *)body + sizeof body - 4);
    assert_int_equal(arena.used_bytes, 0);
    /* not the last field, and twice: legal, the last one counts */
    assert_int_equal(PRODUCE("\x7a\x01x\x7a\x02yz\x0a\x01t"), OT_OK);
    assert_int_equal(asked.batches.bytes, 2);
    assert_int_equal(asked.acks, -1);      /* unspecified: all */
}

static void records_tell_null_from_empty(void **state)
{
    (void)state;
    assert_int_equal(PRODUCE("\x0a\x01t\x3a\x00\x3a\x02\x38\x01\x3a\x02\x30\x01\x3a\x0e\x10\x05\x1a\x01k\x2a\x03\x0a\x01h\x2a\x02\x18\x01"), OT_OK);
    assert_int_equal(asked.record_count, 4);
    assert_true(asked.records[0].key.null);
    assert_false(asked.records[0].value.null);
    assert_int_equal(asked.records[0].value.bytes, 0);
    assert_int_equal(asked.records[0].timestamp_ms, 1234);
    assert_false(asked.records[1].key.null);
    assert_int_equal(asked.records[1].key.bytes, 0);
    assert_true(asked.records[2].value.null);
    assert_int_equal(asked.records[3].timestamp_ms, 5);
    assert_int_equal(asked.records[3].header_count, 2);
    assert_true(ot_str_equal(asked.records[3].headers[0].key, ot_str_of("h")));
    assert_false(asked.records[3].headers[0].value.null);
    assert_true(asked.records[3].headers[1].value.null);
}

static void requests_that_make_no_sense_say_why(void **state)
{
    (void)state;
    static const struct { const char *data; size_t bytes; const char *words; } bad[] = {
        BAD("\x7a\x01x", "topic"), BAD("\x0a\x01t", "no records"), BAD("\x0a\x01t\x7a\x01x\x3a\x00", "one of them"),
        BAD("\x0a\x01t\x18\x04\x7a\x01x", "Acks"), BAD("\x0a\x01t\x40\x05\x3a\x00", "Compression"),
        BAD("\x0a\x01t\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x7a\x01x", "partition -1"),
        BAD("\x0a\x01t\x10\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x3a\x00", "negative"),
        BAD("\x0a\x01t\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x3a\x00", "timeout_ms"),
        BAD("\x0a\x01t\x32\x02\x08\x01\x7a\x01x", "name their producer"), BAD("\x0a\x01t\x32\x04\x10\x80\x80\x02\x3a\x00", "out of range"),
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        if (produce(bad[i].data, bad[i].bytes) != OT_ERR_INVALID_REQUEST) fail_msg("row %zu was taken", i);
        if (strstr(why, bad[i].words) == NULL) fail_msg("row %zu says: %s", i, why);
    }
    assert_int_equal(PRODUCE("\x0a\x01t\x3d\x00\x00\x00\x00"), OT_ERR_MALFORMED);      /* records as a fixed32 */
    assert_int_equal(PRODUCE("\x0a\x01\xff\x7a\x01x"), OT_ERR_MALFORMED);              /* no UTF-8 */
    assert_int_equal(PRODUCE("\x0a\x01t\x3a\x03\x1a\x05k"), OT_ERR_SHORT);             /* a key that is longer than its record */
}

static void many_empty_records_end_at_the_cap_of_the_arena(void **state)
{
    (void)state;
    static uint8_t body[100000];
    for (size_t i = 0; i + 1 < sizeof body; i += 2) memcpy(body + i, "\x3a", 2);
    assert_int_equal(produce(body, sizeof body), OT_ERR_NO_MEMORY);
}

static void every_prefix_of_a_message_is_refused_or_understood(void **state)
{
    (void)state;
    static const char body[] = "\x0a\x01t\x10\x05\x18\x02\x32\x04\x08\x01\x18\x02\x3a\x0e\x10\x05\x1a\x01k\x2a\x03\x0a\x01h\x2a\x02\x18\x01\x7a\x03xyz";
    for (size_t bytes = 0; bytes < sizeof body; bytes++) {
        uint8_t *exact = malloc(bytes > 0 ? bytes : 1);        /* so that a sanitizer sees a step too far */
        assert_non_null(exact);
        memcpy(exact, body, bytes);
        (void)produce(exact, bytes);
        free(exact);
    }
}

/* ---- the others */

static void fetch_and_subscribe_have_their_defaults(void **state)
{
    (void)state;
    struct rpcg_fetch_ask fetch;
    struct rpcg_subscribe_ask subscribe;
    assert_int_equal(rpcg_fetch_decode(BYTES("\x0a\x01t\x18\x09"), &fetch, &why), OT_OK);
    assert_int_equal(fetch.offset, 9);
    assert_int_equal(fetch.leader_epoch, -1);
    assert_int_equal(fetch.format, RPCG_FORMAT_RECORDS);
    assert_false(fetch.read_committed);
    assert_int_equal(rpcg_fetch_decode(BYTES("\x0a\x01t\x38\x02\x40\x02\x48\x01"), &fetch, &why), OT_OK);
    assert_int_equal(fetch.leader_epoch, 0);
    assert_int_equal(fetch.format, RPCG_FORMAT_BATCHES);
    assert_true(fetch.read_committed);
    assert_int_equal(rpcg_fetch_decode(BYTES("\x0a\x01t\x40\x03"), &fetch, &why), OT_ERR_INVALID_REQUEST);
    assert_int_equal(rpcg_fetch_decode(BYTES("\x18\x01"), &fetch, &why), OT_ERR_INVALID_REQUEST);
    assert_int_equal(rpcg_subscribe_decode(BYTES("\x0a\x05\x0a\x01t\x18\x03\x0a\x03\x0a\x01u"), &arena, &subscribe, &why), OT_OK);
    assert_int_equal(subscribe.part_count, 2);
    assert_int_equal(subscribe.parts[0].start, RPCG_START_OFFSET);
    assert_int_equal(subscribe.parts[1].start, RPCG_START_LATEST);
    assert_int_equal(rpcg_subscribe_decode(BYTES("\x0a\x05\x0a\x01t\x18\x05"), &arena, &subscribe, &why), OT_ERR_INVALID_REQUEST);
    assert_int_equal(rpcg_subscribe_decode(BYTES(""), &arena, &subscribe, &why), OT_ERR_INVALID_REQUEST);
}

/* ---- groups and transactions */

struct decoder { const char *data; size_t bytes; const char *words; };

static void requests_of_groups_that_make_no_sense_say_why(void **state)
{
    (void)state;
    static const struct decoder commits[] = {
        BAD("", "group is empty"), BAD("\x0a\x01g", "no offsets"), BAD("\x0a\x01g\x12\x00", "no topic"), BAD("\x0a\x01g\x12\x0e\x0a\x01t\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "negative"),
        BAD("\x0a\x01g\x12\x03\x0a\x01t\x22\x01x", "both"), BAD("\x0a\x01g\x12\x03\x0a\x01t\x2a\x00", "both"),
        BAD("\x0a\x01g\x12\x03\x0a\x01t\x1a\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "epoch of the member"),
        BAD("\x0a\x01g\x12\x03\x0a\x01t\x22\x01x\x2a\x04\x10\x80\x80\x02", "out of range"),
    };
    static const struct decoder joins[] = {
        BAD("\x0a\x00", "group is empty"), BAD("\x0a\x03\x0a\x01g", "no topics"), BAD("\x0a\x09\x0a\x01g\x12\x01t\x1a\x01p", "one of them"), BAD("\x0a\x08\x0a\x01g\x12\x01t\x20\x03", "start"),
        BAD("\x0a\x08\x0a\x01g\x12\x01t\x20\x05", "start"), BAD("\x0a\x08\x0a\x01g\x12\x01t\x30\x03", "IsolationLevel"), BAD("\x0a\x08\x0a\x01g\x12\x01t\x38\x03", "PayloadFormat"),
        BAD("\x0a\x11\x0a\x01g\x12\x01t\x50\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "not negative"),
    };
    static const struct decoder ends[] = { BAD("", "transactional_id"), BAD("\x0a\x01t", "no producer"), BAD("\x0a\x01t\x12\x04\x10\x80\x80\x02", "out of range") };
    static const struct decoder inits[] = { BAD("\x10\x01", "transactional_id"), BAD("\x1a\x00", "transactional_id"), BAD("\x0a\x01t\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "negative") };
    struct rpcg_commit_ask commit;
    struct rpcg_consume_ask consume;
    struct rpcg_end_txn_ask end;
    struct rpcg_init_ask init;
#define REFUSED(rows, call) \
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) { \
        const struct ot_blob body = blob(rows[i].data, rows[i].bytes); \
        if ((call) != OT_ERR_INVALID_REQUEST) fail_msg(#rows " %zu was taken", i); \
        if (strstr(why, rows[i].words) == NULL) fail_msg(#rows " %zu says: %s", i, why); \
    }
    REFUSED(commits, rpcg_commit_decode(body, &arena, &commit, &why))
    REFUSED(joins, rpcg_consume_decode(body, &arena, &consume, &why))
    REFUSED(ends, rpcg_end_txn_decode(body, &end, &why))
    REFUSED(inits, rpcg_init_decode(body, &init, &why))
}

/* A message with a name of so many bytes and what is beside it; inside the field outer of another message when that is not 0. */
static struct ot_blob named(uint32_t outer, uint32_t number, uint32_t bytes, struct ot_blob beside, struct ot_blob after)
{
    static char name[40000];
    static uint8_t inside[41000], whole[42000];
    memset(name, 'n', sizeof name);
    struct ot_writer writer = ot_writer_over(inside, sizeof inside);
    rpcg_put_str(&writer, number, (struct ot_str){ name, bytes, false });
    ot_write_bytes(&writer, beside.data, beside.bytes);
    assert_int_equal(writer.err, OT_OK);
    if (outer == 0) return blob(inside, writer.needed);
    struct ot_writer around = ot_writer_over(whole, sizeof whole);
    rpcg_put_bytes(&around, outer, inside, writer.needed);
    ot_write_bytes(&around, after.data, after.bytes);
    assert_int_equal(around.err, OT_OK);
    return blob(whole, around.needed);
}

static void names_that_are_too_long_are_refused(void **state)
{
    (void)state;
    struct rpcg_commit_ask commit;
    struct rpcg_committed_ask committed;
    struct rpcg_consume_ask consume;
    struct rpcg_end_txn_ask end;
    struct rpcg_init_ask init;
    struct rpcg_produce_ask produce;
    const struct ot_blob none = BYTES(""), offset = BYTES("\x12\x03\x0a\x01t"), commits = BYTES("\x0a\x01g\x12\x03\x0a\x01t");
    const struct ot_blob offset_and_producer = BYTES("\x0a\x01g\x12\x03\x0a\x01t\x2a\x00"), topic = BYTES("\x12\x01t"), joins = BYTES("\x0a\x01g\x12\x01t");
#define LIMITED(max, outer, number, beside, after, call) \
    for (size_t i = 0; i < 3; i++) { \
        const struct ot_blob body = named(outer, number, i == 0 ? max##u : i == 1 ? max##u + 1u : 40000u, beside, after); \
        assert_int_equal(call, i == 0 ? OT_OK : OT_ERR_INVALID_REQUEST); \
        if (i > 0) assert_non_null(strstr(why, #max " bytes at most")); \
    }
    LIMITED(255, 0, 1, none, none, rpcg_init_decode(body, &init, &why))
    LIMITED(255, 0, 1, BYTES("\x12\x00"), none, rpcg_end_txn_decode(body, &end, &why))
    LIMITED(255, 0, 5, BYTES("\x0a\x01t\x7a\x01x"), none, rpcg_produce_decode(body, 1, &arena, &produce, &why))
    LIMITED(255, 0, 1, none, none, rpcg_committed_decode(body, &arena, &committed, &why))
    LIMITED(255, 0, 1, offset, none, rpcg_commit_decode(body, &arena, &commit, &why))
    LIMITED(255, 0, 4, offset_and_producer, none, rpcg_commit_decode(body, &arena, &commit, &why))
    LIMITED(255, 3, 1, none, commits, rpcg_commit_decode(body, &arena, &commit, &why))
    LIMITED(255, 3, 3, none, commits, rpcg_commit_decode(body, &arena, &commit, &why))
    LIMITED(255, 1, 1, topic, none, rpcg_consume_decode(body, &arena, &consume, &why))
    LIMITED(255, 1, 11, joins, none, rpcg_consume_decode(body, &arena, &consume, &why))
    LIMITED(255, 1, 12, joins, none, rpcg_consume_decode(body, &arena, &consume, &why))
    LIMITED(255, 1, 14, joins, none, rpcg_consume_decode(body, &arena, &consume, &why))
    LIMITED(249, 1, 2, BYTES("\x0a\x01g"), none, rpcg_consume_decode(body, &arena, &consume, &why))
}

static void requests_of_groups_are_understood(void **state)
{
    (void)state;
    struct rpcg_commit_ask commit;
    struct rpcg_committed_ask committed;
    struct rpcg_consume_ask consume;
    assert_int_equal(rpcg_commit_decode(BYTES("\x0a\x01g\x12\x0c\x0a\x01t\x10\x02\x18\x07\x20\x04\x2a\x01m\x1a\x05\x0a\x01i\x10\x09"), &arena, &commit, &why), OT_OK);
    assert_int_equal(commit.part_count, 1);
    assert_int_equal(commit.parts[0].partition, 2);
    assert_int_equal(commit.parts[0].offset, 7);
    assert_int_equal(commit.parts[0].leader_epoch, 3);
    assert_true(ot_str_equal(commit.parts[0].metadata, ot_str_of("m")));
    assert_int_equal(commit.generation, 9);
    assert_true(commit.instance_id.null && commit.transactional_id.null);
    assert_int_equal(rpcg_commit_decode(BYTES("\x0a\x01g\x12\x03\x0a\x01t"), &arena, &commit, &why), OT_OK);
    assert_int_equal(commit.generation, -1);           /* nobody in the group */
    assert_int_equal(rpcg_committed_decode(BYTES("\x0a\x01g\x18\x01"), &arena, &committed, &why), OT_OK);
    assert_int_equal(committed.part_count, 0);
    assert_true(committed.require_stable);
    assert_int_equal(rpcg_consume_decode(BYTES("\x0a\x06\x0a\x01g\x12\x01t"), &arena, &consume, &why), OT_OK);
    assert_true(consume.has_join);
    assert_int_equal(consume.join.start, RPCG_START_LATEST);
    assert_int_equal(consume.join.format, RPCG_FORMAT_RECORDS);
    assert_int_equal(rpcg_consume_decode(BYTES("\x12\x09\x0a\x01t\x10\x01\x18\x05\x20\x03\x12\x00"), &arena, &consume, &why), OT_OK);
    assert_false(consume.has_join);
    assert_int_equal(consume.position_count, 2);
    assert_int_equal(consume.positions[0].next_offset, 5);
    assert_int_equal(consume.positions[0].assignment_id, 3);
    assert_int_equal(consume.positions[1].topic.bytes, 0);
    assert_int_equal(rpcg_consume_decode(BYTES("\x0a\x05\x0a\x01g\x12\x01"), &arena, &consume, &why), OT_ERR_SHORT);
}

static void offsets_become_kafkas_special_times(void **state)
{
    (void)state;
    struct rpcg_offsets_ask ask;
    assert_int_equal(rpcg_offsets_decode(BYTES("\x0a\x03\x0a\x01t\x0a\x05\x0a\x01t\x18\x02\x0a\x07\x0a\x01t\x18\x03\x20\x09\x0a\x05\x0a\x01t\x18\x04"), &arena, &ask, &why), OT_OK);
    assert_int_equal(ask.part_count, 4);
    assert_int_equal(ask.parts[0].at, -1);
    assert_int_equal(ask.parts[1].at, -2);
    assert_int_equal(ask.parts[2].at, 9);
    assert_int_equal(ask.parts[3].at, -3);
    assert_int_equal(rpcg_offsets_decode(BYTES("\x0a\x05\x0a\x01t\x18\x05"), &arena, &ask, &why), OT_ERR_INVALID_REQUEST);
}

static void an_error_info_has_its_reason_domain_and_leader(void **state)
{
    (void)state;
    struct rpcg_error error = { .error = OT_ERR_NOT_LEADER_OR_FOLLOWER, .topic = ot_str_of("t"), .partition = 3, .leader_id = 2, .leader_epoch = 7, .leader_address = "h:1" };
    const struct rpcg_status status = { 9, "words", &error };
    struct ot_writer writer = ot_writer_over(space, sizeof space);
    rpcg_put_status(&writer, &status);
    assert_int_equal(writer.err, OT_OK);
    static const char *const parts[] = { "\x08\x09\x12\x05words", "\x0a\x28type.googleapis.com/google.rpc.ErrorInfo", "\x0a\x16NOT_LEADER_OR_FOLLOWER\x12\x05ottla",
        "\x0a\x09leader_id\x12\x01" "2", "\x0a\x0cleader_epoch\x12\x01" "7", "\x0a\x0eleader_address\x12\x03h:1", "\x0a\x09retriable\x12\x04true", "\x0a\x0akafka_code\x12\x01" "6",
        "\x0a\x05topic\x12\x01t", "\x0a\x09partition\x12\x01" "3" };
    for (size_t i = 0; i < OT_ARRAY_COUNT(parts); i++)
        if (memmem(space, writer.needed, parts[i], strlen(parts[i])) == NULL) fail_msg("part %zu is missing", i);
    /* an error of the house goes out under Kafka's name, and its own beside it */
    error = (struct rpcg_error){ .error = OT_ERR_NO_SPACE, .topic = { .null = true }, .leader_id = -1 };
    writer = ot_writer_over(space, sizeof space);
    rpcg_put_status(&writer, &status);
    assert_non_null(memmem(space, writer.needed, "ottla_error\x12\x08NO_SPACE", 21));
    assert_null(memmem(space, writer.needed, "leader_id", 9));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(fields_come_back_as_they_were_written), cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(groups_and_unknown_fields_are_passed_over), cmocka_unit_test(a_produce_request_of_batches_borrows_them),
        cmocka_unit_test(records_tell_null_from_empty), cmocka_unit_test(requests_that_make_no_sense_say_why),
        cmocka_unit_test(many_empty_records_end_at_the_cap_of_the_arena), cmocka_unit_test(every_prefix_of_a_message_is_refused_or_understood),
        cmocka_unit_test(fetch_and_subscribe_have_their_defaults), cmocka_unit_test(offsets_become_kafkas_special_times),
        cmocka_unit_test(requests_of_groups_that_make_no_sense_say_why), cmocka_unit_test(names_that_are_too_long_are_refused),
        cmocka_unit_test(requests_of_groups_are_understood),
        cmocka_unit_test(an_error_info_has_its_reason_domain_and_leader) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
