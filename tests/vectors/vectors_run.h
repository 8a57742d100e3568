/* A file of golden vectors and the check of one of its lines. In NAME_vectors.c:
 *
 *   static bool check(json_t *line, char *why, size_t why_bytes) { ... }    false: why says what is wrong, without line breaks
 *   VECTORS_OF("misc", check)                                                 the file is misc.jsonl.gz
 *
 * Several checks may share a file when `kind` tells their lines apart: VECTORS_OF_KIND("misc", "murmur2", check) takes only
 * those. A line that nobody takes counts as failed, except of a kind that VECTORS_LATER("misc", "kind", name) puts off: those are told on
 * stderr and not counted. Checks link engine, coordinator, wire and base. */
#ifndef OT_TESTS_VECTORS_RUN_H
#define OT_TESTS_VECTORS_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct vectors_of {
    const char *file; /* without .jsonl.gz */
    const char *kind; /* NULL: every line that no other takes */
    bool (*check)(json_t *line, char *why, size_t why_bytes); /* NULL: later */
    struct vectors_of *next;
};
void vectors_register(struct vectors_of *of);

#define VECTORS_OF_KIND(file_name, kind_name, check_line)                                                                          \
    __attribute__((constructor)) static void register_##check_line(void)                                                           \
    {                                                                                                                              \
        static struct vectors_of of = {file_name, kind_name, check_line, NULL};                                                    \
        vectors_register(&of);                                                                                                     \
    }
#define VECTORS_OF(file_name, check_line) VECTORS_OF_KIND(file_name, NULL, check_line)
#define VECTORS_LATER(file_name, kind_name, name)                                                                                  \
    __attribute__((constructor)) static void register_later_##name(void)                                                           \
    {                                                                                                                              \
        static struct vectors_of of = {file_name, kind_name, NULL, NULL};                                                          \
        vectors_register(&of);                                                                                                     \
    }

#endif
