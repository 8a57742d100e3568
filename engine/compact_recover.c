/* What a crash left of a swap (engine/compact_swap.c has the steps). Before the segments are looked at. */
#include "base/log.h"
#include "engine/compact_inner.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BASE_DIGITS 20

struct leftovers { struct eng_names names; int64_t least_cleaned; };

static bool ends_with(const char *name, const char *end)
{
    size_t name_bytes = strlen(name), end_bytes = strlen(end);
    return name_bytes > end_bytes && strcmp(name + name_bytes - end_bytes, end) == 0;
}

/* The 20 digits in front of a file's name, or -1. */
static int64_t base_of(const char *name)
{
    int64_t base = 0;
    for (int i = 0; i < BASE_DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9' || base > (INT64_MAX - (name[i] - '0')) / 10) return -1;
        base = base * 10 + (name[i] - '0');
    }
    return base;
}

static enum ot_err unlink_name(struct eng_log *log, const char *name)
{
    char path[ENG_PATH_BYTES];
    enum ot_err err = eng_path_join(path, log->dir_path, name);
    if (err == OT_OK) err = log->io->ops->unlink(log->io, path);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

/* The last offset in b.log.swap. It was synced before it got that name: damage in it is no crash artefact. */
static enum ot_err last_offset_of(struct eng_log *log, const char *name, int64_t *out)
{
    char path[ENG_PATH_BYTES];
    struct eng_scan scan;
    struct eng_batch_info info;
    struct ot_io_stat stat = { 0 };
    int fd = -1;
    uint8_t *buffer = malloc(ENG_SCAN_BULK_BYTES);
    enum ot_err err = buffer == NULL ? OT_ERR_NO_MEMORY : eng_path_join(path, log->dir_path, name);
    *out = -1;
    if (err == OT_OK) err = log->io->ops->open(log->io, path, OT_IO_READ, &fd);
    if (err == OT_OK) err = log->io->ops->fstat(log->io, fd, &stat);
    if (err == OT_OK) {
        eng_scan_init(&scan, log->io, fd, 0, stat.bytes, buffer, ENG_SCAN_BULK_BYTES);
        while ((err = eng_scan_next(&scan, &info)) == OT_OK) *out = OT_MAX(*out, eng_batch_last_offset(&info));
        if (err == OT_ERR_NOT_FOUND) err = OT_OK;
        if (err == OT_ERR_SHORT) err = OT_ERR_CORRUPT;
    }
    log->io->ops->close(log->io, fd);
    free(buffer);
    return err;
}

/* Steps 3 and 4. */
static enum ot_err complete(struct eng_log *log, const struct leftovers *left, int64_t base)
{
    static const char *const indexes[] = { ".index", ".timeindex", ".txnindex" };
    char swap[64], from[ENG_PATH_BYTES], to[ENG_PATH_BYTES];
    int64_t last_offset;
    snprintf(swap, sizeof swap, "%020" PRId64 ".log.swap", base);
    enum ot_err err = last_offset_of(log, swap, &last_offset);
    for (uint32_t i = 0; i < left->names.count && err == OT_OK; i++) {
        const char *name = left->names.list[i];
        int64_t other = base_of(name);
        bool of_segment = ends_with(name, ".log") || ends_with(name, ".index") || ends_with(name, ".timeindex") || ends_with(name, ".txnindex");
        if (of_segment && other > base && other <= last_offset) err = unlink_name(log, name);
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(indexes) && err == OT_OK; i++) {
        char suffix[32];
        snprintf(suffix, sizeof suffix, "%s.swap", indexes[i]);
        if ((err = eng_segment_path(from, log->dir_path, base, suffix)) == OT_OK) err = eng_segment_path(to, log->dir_path, base, indexes[i]);
        if (err == OT_OK) err = log->io->ops->rename(log->io, from, to);
        if (err == OT_ERR_NOT_FOUND) err = OT_OK;          /* it has its name already, or is none */
    }
    if (err == OT_OK) err = log->io->ops->sync_dir(log->io, log->dir_path);
    if (err == OT_OK) err = eng_path_join(from, log->dir_path, swap);
    if (err == OT_OK) err = eng_segment_path(to, log->dir_path, base, ".log");
    if (err == OT_OK) err = log->io->ops->rename(log->io, from, to);
    if (err == OT_OK) err = log->io->ops->sync_dir(log->io, log->dir_path);
    ot_log(err == OT_OK ? OT_LOG_INFO : OT_LOG_ERROR, "log", "compaction_completed", "dir=%s base_offset=%" PRId64 " last_offset=%" PRId64 " error=%s", log->dir_path, base,
        last_offset, ot_err_name(err));
    return err;
}

/* The .log.swap files first, so that what is left of a half removed one is never taken for the word. */
static enum ot_err throw_away(struct eng_log *log, const struct leftovers *left)
{
    enum ot_err err = OT_OK;
    for (int round = 0; round < 2 && err == OT_OK; round++) {
        bool any = false;
        for (uint32_t i = 0; i < left->names.count && err == OT_OK; i++) {
            const char *name = left->names.list[i];
            if (!ends_with(name, ".swap") || ends_with(name, ".log.swap") != (round == 0)) continue;
            if (round == 0 && base_of(name) < left->least_cleaned) continue;       /* complete, and completed by now */
            err = unlink_name(log, name);
            any = true;
        }
        if (any && err == OT_OK) err = log->io->ops->sync_dir(log->io, log->dir_path);
    }
    return err;
}

enum ot_err eng_log_recover_swap(struct eng_log *log)
{
    struct leftovers left = { .least_cleaned = INT64_MAX };
    enum ot_err err = eng_names_load(log->io, log->dir_path, false, &left.names);
    for (uint32_t i = 0; i < left.names.count && err == OT_OK; i++)        /* Kafka's rule: a swap at or above a file still being made is not complete */
        if (ends_with(left.names.list[i], ".cleaned") && base_of(left.names.list[i]) >= 0) left.least_cleaned = OT_MIN(left.least_cleaned, base_of(left.names.list[i]));
    for (uint32_t i = 0; i < left.names.count && err == OT_OK; i++) {
        const char *name = left.names.list[i];
        int64_t base = base_of(name);
        if (ends_with(name, ".log.swap") && base >= 0 && base < left.least_cleaned) err = complete(log, &left, base);
    }
    if (err == OT_OK) err = throw_away(log, &left);
    eng_names_free(&left.names);
    return err;
}
