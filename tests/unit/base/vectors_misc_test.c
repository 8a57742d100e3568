/* The hashes, checksums, varints and ids of misc.jsonl.gz; the assignors in it belong to the coordinator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/bytes.h"
#include "base/util.h"
#include "vectors.h"

struct tally { int murmur2, coordinator, share_coordinator, crc32c, varint, uuid; };

static void check_murmur2(json_t *object)
{
    uint8_t key[4096];
    const size_t bytes = vectors_hex(object, "key", key, sizeof(key));
    assert_int_equal((int32_t)ot_murmur2(key, bytes), (int32_t)json_integer_value(json_object_get(object, "murmur2")));
    const char *count;
    json_t *partition;
    json_object_foreach(json_object_get(object, "partition"), count, partition) {
        assert_int_equal(ot_partition_for_key(key, bytes, atoi(count)), json_integer_value(partition));
    }
}

static void check_coordinator(json_t *object)
{
    json_t *text = json_object_get(object, "id");
    const struct ot_str id = { json_string_value(text), (uint32_t)json_string_length(text), false };      /* one holds a NUL */
    assert_int_equal(ot_java_hash(id), json_integer_value(json_object_get(object, "hash")));
    const int32_t count = (int32_t)json_integer_value(json_object_get(object, "partitions"));
    assert_int_equal(ot_coordinator_partition(id, count), json_integer_value(json_object_get(object, "partition")));
}

static void check_share_coordinator(json_t *object)
{
    const struct ot_str key = ot_str_of(json_string_value(json_object_get(object, "key")));
    assert_int_equal(ot_coordinator_partition(key, 50), json_integer_value(json_object_get(object, "statePartition")));
}

static void check_crc32c(json_t *object)
{
    static uint8_t data[1 << 20];
    const size_t bytes = vectors_hex(object, "data", data, sizeof(data));
    const uint32_t want = (uint32_t)json_integer_value(json_object_get(object, "crc"));
    assert_int_equal(ot_crc32c(0, data, bytes), want);
    assert_int_equal(ot_crc32c_portable(0, data, bytes), want);
}

static void check_encoding(json_t *object, const char *key, int64_t value, void (*write)(struct ot_writer *w, int64_t value),
    int64_t (*read)(struct ot_reader *r))
{
    if (json_object_get(object, key) == NULL || json_is_null(json_object_get(object, key))) return;
    uint8_t want[16], got[16];
    const size_t bytes = vectors_hex(object, key, want, sizeof(want));
    struct ot_writer w = ot_writer_over(got, sizeof(got));
    write(&w, value);
    assert_int_equal(w.needed, bytes);
    assert_memory_equal(got, want, bytes);
    struct ot_reader r = ot_reader_over(want, bytes);
    assert_int_equal(read(&r), value);
    assert_int_equal(r.err, OT_OK);
    assert_int_equal(ot_reader_left(&r), 0);
}

static void write_varlong(struct ot_writer *w, int64_t v) { ot_write_varlong(w, v); }
static void write_uvarlong(struct ot_writer *w, int64_t v) { ot_write_uvarlong(w, (uint64_t)v); }
static void write_varint(struct ot_writer *w, int64_t v) { ot_write_varint(w, (int32_t)v); }
static void write_uvarint(struct ot_writer *w, int64_t v) { ot_write_uvarint(w, (uint32_t)v); }
static int64_t read_varlong(struct ot_reader *r) { return ot_read_varlong(r); }
static int64_t read_uvarlong(struct ot_reader *r) { return (int64_t)ot_read_uvarlong(r); }
static int64_t read_varint(struct ot_reader *r) { return ot_read_varint(r); }
static int64_t read_uvarint(struct ot_reader *r) { return (int32_t)ot_read_uvarint(r); }

static void check_varint(json_t *object)
{
    const int64_t value = json_integer_value(json_object_get(object, "value"));
    check_encoding(object, "varlong", value, write_varlong, read_varlong);
    check_encoding(object, "unsignedVarlong", value, write_uvarlong, read_uvarlong);
    check_encoding(object, "varint", value, write_varint, read_varint);
    check_encoding(object, "unsignedVarint", value, write_uvarint, read_uvarint);
}

static void check_uuid(json_t *object)
{
    struct ot_uuid want, got;
    assert_int_equal(vectors_hex(object, "hex", want.bytes, 16), 16);
    const char *text = json_string_value(json_object_get(object, "text"));
    char made[23];
    ot_uuid_text(&want, made);
    assert_string_equal(made, text);
    assert_true(ot_uuid_parse(text, strlen(text), &got));
    assert_true(ot_uuid_equal(&got, &want));
}

static void check(void *arg, int line, json_t *object)
{
    struct tally *tally = arg;
    const char *kind = json_string_value(json_object_get(object, "kind"));
    (void)line;
    assert_non_null(kind);
    if (strcmp(kind, "murmur2") == 0) check_murmur2(object), tally->murmur2++;
    else if (strcmp(kind, "coordinator-partition") == 0) check_coordinator(object), tally->coordinator++;
    else if (strcmp(kind, "share-coordinator-partition") == 0) check_share_coordinator(object), tally->share_coordinator++;
    else if (strcmp(kind, "crc32c") == 0) check_crc32c(object), tally->crc32c++;
    else if (strcmp(kind, "varint") == 0) check_varint(object), tally->varint++;
    else if (strcmp(kind, "uuid") == 0) check_uuid(object), tally->uuid++;
}

static void every_misc_vector_agrees(void **state)
{
    (void)state;
    struct tally tally = { 0 };
    vectors_each("misc", check, &tally);
    if (getenv("OTTLA_VECTORS") != NULL) return;
    assert_int_equal(tally.murmur2, 200);
    assert_int_equal(tally.coordinator, 100);
    assert_int_equal(tally.share_coordinator, 20);
    assert_int_equal(tally.crc32c, 60);
    assert_int_equal(tally.varint, 57);
    assert_int_equal(tally.uuid, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_misc_vector_agrees) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
