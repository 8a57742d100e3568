/* Reads tests/golden/vectors/NAME.jsonl.gz (or that name under $OTTLA_VECTORS): one JSON object a line. Include once per test program,
 * after cmocka.h. */
#ifndef OT_TESTS_VECTORS_H
#define OT_TESTS_VECTORS_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Calls each(arg, line, object) for every line; answers the count of lines. Fails the test when a line is no object. */
static inline int vectors_each(const char *name, void (*each)(void *arg, int line, json_t *object), void *arg)
{
    const char *dir = getenv("OTTLA_VECTORS");
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s.jsonl.gz", dir != NULL ? dir : OT_TEST_GOLDEN "/vectors", name);
    gzFile file = gzopen(path, "rb");
    assert_non_null(file);
    size_t cap = 1 << 16, bytes = 0;
    char *text = malloc(cap);
    assert_non_null(text);
    int line = 0;
    while (gzgets(file, text + bytes, (int)(cap - bytes)) != NULL) {
        bytes += strlen(text + bytes);
        if (text[bytes - 1] != '\n' && !gzeof(file)) {
            text = realloc(text, cap *= 2);
            assert_non_null(text);
            continue;
        }
        line++;
        json_error_t error;
        json_t *object = json_loadb(text, bytes, JSON_ALLOW_NUL, &error);
        if (object == NULL) fail_msg("%s line %d: %s", path, line, error.text);
        each(arg, line, object);
        json_decref(object);
        bytes = 0;
    }
    free(text);
    gzclose(file);
    return line;
}

/* A string field of hex digits; answers the count of bytes in out. */
static inline size_t vectors_hex(json_t *object, const char *key, uint8_t *out, size_t cap)
{
    const char *hex = json_string_value(json_object_get(object, key));
    assert_non_null(hex);
    const size_t bytes = strlen(hex) / 2;
    assert_true(bytes <= cap);
    for (size_t i = 0; i < bytes; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return bytes;
}

#endif
