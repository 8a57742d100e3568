/* vectors_run DIR [NAME]: check every line of each NAME.jsonl.gz in DIR (only of that NAME when one is given). Failures go to
 * stderr, a line each (the first 50 of a file); then a count for each file, and last 'N passed, N failed'. Exit 0: all
 * passed; 1: some failed; 2: nothing to check, or not readable. */
#include "vectors_run.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define LINE_BYTES_MAX ((size_t)256 << 20)
#define SHOWN_MAX      50

struct tally {
    long passed, failed, later;
};
static struct vectors_of *registered;

void vectors_register(struct vectors_of *of)
{
    of->next = registered;
    registered = of;
}

static const struct vectors_of *taker(const char *file, json_t *line)
{
    const char *kind = json_string_value(json_object_get(line, "kind"));
    const struct vectors_of *general = NULL;
    for (const struct vectors_of *of = registered; of != NULL; of = of->next) {
        if (strcmp(of->file, file) != 0) {
            continue;
        }
        if (of->kind == NULL) {
            general = of;
        } else if (kind != NULL && strcmp(of->kind, kind) == 0) {
            return of;
        }
    }
    return general;
}

static void check_line(const char *file, long number, const char *text, size_t bytes, struct tally *tally)
{
    char why[512] = "no check takes this line";
    json_error_t error;
    json_t *line = json_loadb(text, bytes, JSON_ALLOW_NUL, &error);
    const struct vectors_of *of = line == NULL ? NULL : taker(file, line);
    if (line == NULL) {
        (void)snprintf(why, sizeof why, "no JSON: %s", error.text);
    }
    if (of != NULL && of->check == NULL) {
        tally->later++;
    } else if (of != NULL && of->check(line, why, sizeof why)) {
        tally->passed++;
    } else if (tally->failed++ < SHOWN_MAX) {
        (void)fprintf(stderr, "%s:%ld: %s\n", file, number, why);
    }
    json_decref(line);
}

/* Reads one line of any length into *text. 1: there is one; 0: the end; -1: not readable. */
static int read_line(gzFile in, char **text, size_t *cap, size_t *bytes)
{
    *bytes = 0;
    for (;;) {
        if (*cap - *bytes < 4096) {
            size_t larger = *cap == 0 ? 1 << 16 : *cap * 2;
            char *moved = larger > LINE_BYTES_MAX ? NULL : realloc(*text, larger);
            if (moved == NULL) {
                return -1;
            }
            *text = moved;
            *cap = larger;
        }
        if (gzgets(in, *text + *bytes, (int)(*cap - *bytes)) == NULL) {
            int code;
            (void)gzerror(in, &code);
            return code != Z_OK && code != Z_STREAM_END ? -1 : *bytes > 0;
        }
        *bytes += strlen(*text + *bytes);
        if ((*text)[*bytes - 1] == '\n') {
            return 1;
        }
    }
}

static bool check_file(const char *dir, const char *name, struct tally *total)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s.jsonl.gz", dir, name);
    gzFile in = gzopen(path, "rb");
    struct tally tally = {0, 0, 0};
    char *text = NULL;
    size_t cap = 0, bytes;
    int more = -1;
    if (in != NULL) {
        for (long number = 1; (more = read_line(in, &text, &cap, &bytes)) == 1; number++) {
            if (bytes > 1) {
                check_line(name, number, text, bytes, &tally);
            }
        }
        (void)gzclose(in);
    }
    free(text);
    if (more < 0) {
        (void)fprintf(stderr, "%s: not readable\n", path);
    }
    if (tally.later > 0) {
        (void)fprintf(stderr, "%s: %ld lines are of kinds that nothing here implements yet\n", name, tally.later);
    }
    printf("%s: %ld passed, %ld failed\n", name, tally.passed, tally.failed);
    total->passed += tally.passed;
    total->failed += tally.failed;
    return more == 0;
}

static int is_vectors(const struct dirent *entry)
{
    size_t bytes = strlen(entry->d_name);
    return bytes > 9 && strcmp(entry->d_name + bytes - 9, ".jsonl.gz") == 0;
}

int main(int count, char **words)
{
    struct tally total = {0, 0, 0};
    struct dirent **entries = NULL;
    if (count != 2 && count != 3) {
        (void)fprintf(stderr, "usage: vectors_run DIR [NAME]\n");
        return 2;
    }
    int files = scandir(words[1], &entries, is_vectors, alphasort);
    bool good = files > 0;
    if (!good) {
        (void)fprintf(stderr, "%s: no *.jsonl.gz there\n", words[1]);
    }
    for (int i = 0; i < files; i++) {
        char name[256];
        (void)snprintf(name, sizeof name, "%.*s", (int)(strlen(entries[i]->d_name) - 9), entries[i]->d_name);
        if (count == 2 || strcmp(name, words[2]) == 0) {
            good = check_file(words[1], name, &total) && good;
        }
        free(entries[i]);
    }
    free(entries);
    printf("%ld passed, %ld failed\n", total.passed, total.failed);
    return !good || total.passed + total.failed == 0 ? 2 : total.failed > 0;
}
