/* A directory for one test under ${TMPDIR:-/tmp}, removed with all that lies in it. Include after cmocka.h. */
#ifndef OT_TESTS_TEMP_DIR_H
#define OT_TESTS_TEMP_DIR_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void temp_dir_make(char *out, size_t out_bytes)
{
    const char *tmp = getenv("TMPDIR");
    int bytes = snprintf(out, out_bytes, "%s/ottla-test-XXXXXX", tmp == NULL ? "/tmp" : tmp);
    assert_true(bytes > 0 && (size_t)bytes < out_bytes);
    assert_non_null(mkdtemp(out));
}

static inline int temp_dir_remove_one(const char *path, const struct stat *stat, int flag, struct FTW *walk)
{
    (void)stat, (void)flag, (void)walk;
    return remove(path);
}

static inline void temp_dir_remove(const char *path)
{
    (void)nftw(path, temp_dir_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
