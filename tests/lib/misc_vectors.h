/* One line of the misc vectors against base: kinds murmur2, coordinator-partition, share-coordinator-partition, crc32c, varint and uuid. False: why
 * says what differs. Lines come from outside: a missing or odd field is a difference too. */
#ifndef OT_TESTS_MISC_VECTORS_H
#define OT_TESTS_MISC_VECTORS_H

#include "base/bytes.h"
#include "base/util.h"
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct misc_line {
    json_t *json;
    char *why;
    size_t why_bytes;
};

__attribute__((format(printf, 2, 3))) static bool misc_differs(const struct misc_line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line->why, line->why_bytes, format, args);
    va_end(args);
    return false;
}

/* The bytes of a hex field, malloc'ed; NULL when it is not there or no hex. */
static uint8_t *misc_hex(const struct misc_line *line, const char *key, size_t *bytes_out)
{
    const char *hex = json_string_value(json_object_get(line->json, key));
    const size_t digits = hex == NULL ? 1 : strlen(hex);
    if (digits % 2 != 0 || strspn(hex, "0123456789abcdefABCDEF") != digits) {
        misc_differs(line, "%s is no hex", key);
        return NULL;
    }
    uint8_t *data = malloc(digits / 2 + 1);
    for (size_t i = 0; data != NULL && i < digits / 2; i++) {
        const char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        data[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    *bytes_out = digits / 2;
    return data;
}

static json_int_t misc_int(const struct misc_line *line, const char *key)
{
    return json_integer_value(json_object_get(line->json, key));
}

static struct ot_str misc_str(const struct misc_line *line, const char *key)
{
    json_t *text = json_object_get(line->json, key); /* may hold a NUL */
    return (struct ot_str){json_string_value(text), (uint32_t)json_string_length(text), text == NULL};
}

static bool misc_murmur2(const struct misc_line *line)
{
    size_t bytes;
    uint8_t *key = misc_hex(line, "key", &bytes);
    if (key == NULL) return false;
    const int32_t hash = (int32_t)ot_murmur2(key, bytes);
    bool same = hash == misc_int(line, "murmur2") || misc_differs(line, "murmur2 gives %d", hash);
    const char *count;
    json_t *want;
    json_object_foreach(json_object_get(line->json, "partition"), count, want)
    {
        const int32_t partition = same && atoi(count) > 0 ? ot_partition_for_key(key, bytes, atoi(count)) : -1;
        if (same && partition != json_integer_value(want)) same = misc_differs(line, "partition %d of %s", partition, count);
    }
    free(key);
    return same;
}

static bool misc_coordinator(const struct misc_line *line)
{
    const struct ot_str id = misc_str(line, "id");
    const json_int_t count = misc_int(line, "partitions");
    if (id.null || count <= 0 || count > INT32_MAX) return misc_differs(line, "no id or partitions");
    if (ot_java_hash(id) != misc_int(line, "hash")) return misc_differs(line, "hash gives %d", ot_java_hash(id));
    const int32_t partition = ot_coordinator_partition(id, (int32_t)count);
    return partition == misc_int(line, "partition") || misc_differs(line, "partition %d", partition);
}

static bool misc_share_coordinator(const struct misc_line *line)
{
    const struct ot_str key = misc_str(line, "key");
    if (key.null) return misc_differs(line, "no key");
    const int32_t partition = ot_coordinator_partition(key, 50);
    return partition == misc_int(line, "statePartition") || misc_differs(line, "partition %d", partition);
}

static bool misc_crc32c(const struct misc_line *line)
{
    size_t bytes;
    uint8_t *data = misc_hex(line, "data", &bytes);
    if (data == NULL) return false;
    const uint32_t crc = ot_crc32c(0, data, bytes), portable = ot_crc32c_portable(0, data, bytes);
    free(data);
    if (crc != portable) return misc_differs(line, "crc %u, portable %u", crc, portable);
    return crc == misc_int(line, "crc") || misc_differs(line, "crc gives %u", crc);
}

enum misc_varint { MISC_VARLONG, MISC_UVARLONG, MISC_VARINT, MISC_UVARINT };

static void misc_write_varint(struct ot_writer *w, enum misc_varint kind, int64_t v)
{
    if (kind == MISC_VARLONG)
        ot_write_varlong(w, v);
    else if (kind == MISC_UVARLONG)
        ot_write_uvarlong(w, (uint64_t)v);
    else if (kind == MISC_VARINT)
        ot_write_varint(w, (int32_t)v);
    else
        ot_write_uvarint(w, (uint32_t)v);
}

static int64_t misc_read_varint(struct ot_reader *r, enum misc_varint kind)
{
    if (kind == MISC_VARLONG) return ot_read_varlong(r);
    if (kind == MISC_UVARLONG) return (int64_t)ot_read_uvarlong(r);
    return kind == MISC_VARINT ? ot_read_varint(r) : (int32_t)ot_read_uvarint(r);
}

/* Encodings that a line does not carry (a value beyond 32 bits has two) are not checked. */
static bool misc_varint(const struct misc_line *line)
{
    static const char *const names[] = {"varlong", "unsignedVarlong", "varint", "unsignedVarint"};
    const int64_t value = misc_int(line, "value");
    size_t seen = 0;
    for (size_t i = 0; i < OT_ARRAY_COUNT(names); i++) {
        const enum misc_varint kind = (enum misc_varint)i;
        if (!json_is_string(json_object_get(line->json, names[i]))) continue;
        size_t bytes;
        uint8_t made[16], *want = misc_hex(line, names[i], &bytes);
        if (want == NULL) return false;
        struct ot_writer w = ot_writer_over(made, sizeof(made));
        misc_write_varint(&w, kind, value);
        struct ot_reader r = ot_reader_over(want, bytes);
        const bool same = w.needed == bytes && memcmp(made, want, bytes) == 0 && misc_read_varint(&r, kind) == value &&
                          r.err == OT_OK && r.at == r.end;
        free(want);
        if (!same) return misc_differs(line, "%s", names[i]);
        seen++;
    }
    return seen >= 2 || misc_differs(line, "no encodings");
}

static bool misc_uuid(const struct misc_line *line)
{
    size_t bytes;
    uint8_t *want = misc_hex(line, "hex", &bytes);
    if (want == NULL) return false;
    struct ot_uuid id = {{0}}, back;
    char made[23];
    memcpy(id.bytes, want, OT_MIN(bytes, (size_t)16));
    free(want);
    ot_uuid_text(&id, made);
    const struct ot_str text = misc_str(line, "text");
    if (bytes != 16 || text.null || strcmp(made, text.data) != 0) return misc_differs(line, "text gives %s", made);
    return (ot_uuid_parse(text.data, text.bytes, &back) && ot_uuid_equal(&id, &back)) || misc_differs(line, "is not read back");
}

static const struct {
    const char *kind;
    bool (*check)(const struct misc_line *line);
} misc_kinds[] = {{"murmur2", misc_murmur2}, {"coordinator-partition", misc_coordinator},
    {"share-coordinator-partition", misc_share_coordinator}, {"crc32c", misc_crc32c}, {"varint", misc_varint}, {"uuid", misc_uuid}};

/* -1: not of these kinds. */
__attribute__((unused)) static int misc_kind(json_t *json)
{
    const char *kind = json_string_value(json_object_get(json, "kind"));
    for (int i = 0; kind != NULL && i < (int)OT_ARRAY_COUNT(misc_kinds); i++) {
        if (strcmp(kind, misc_kinds[i].kind) == 0) return i;
    }
    return -1;
}

__attribute__((unused)) static bool misc_vector_check(json_t *json, char *why, size_t why_bytes)
{
    const struct misc_line line = {json, why, why_bytes};
    const int kind = misc_kind(json);
    return kind < 0 ? misc_differs(&line, "no such kind") : misc_kinds[kind].check(&line);
}

#endif
