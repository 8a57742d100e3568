/* A page of docs/ that is a table in words: written by its test with OTTLA_UPDATE_DOCS=1, else held against the table. */
#ifndef OT_TEST_DOCS_PAGE_H
#define OT_TEST_DOCS_PAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char docs_page[1 << 18];
static size_t docs_page_bytes;

__attribute__((format(printf, 1, 2))) static inline void docs_put(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int bytes = vsnprintf(docs_page + docs_page_bytes, sizeof(docs_page) - docs_page_bytes, format, args);
    va_end(args);
    assert_true(bytes >= 0 && (size_t)bytes < sizeof(docs_page) - docs_page_bytes);
    docs_page_bytes += (size_t)bytes;
}

static inline void docs_check(const char *name)
{
    static char found[sizeof(docs_page)];
    char path[512];
    snprintf(path, sizeof(path), "%s/docs/%s", OT_SOURCE_DIR, name);
    if (getenv("OTTLA_UPDATE_DOCS") != NULL) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        assert_int_equal(fwrite(docs_page, 1, docs_page_bytes, out), docs_page_bytes);
        assert_int_equal(fclose(out), 0);
    }
    FILE *in = fopen(path, "r");
    if (in == NULL) fail_msg("docs/%s is missing: run this test with OTTLA_UPDATE_DOCS=1", name);
    const size_t bytes = fread(found, 1, sizeof(found) - 1, in);
    (void)fclose(in);
    if (bytes != docs_page_bytes || memcmp(found, docs_page, bytes) != 0) fail_msg("docs/%s is stale: run this test with OTTLA_UPDATE_DOCS=1", name);
}

#endif
