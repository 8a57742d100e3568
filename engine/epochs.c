/* leader-epoch-checkpoint
 *
 *     0\n                     version
 *     2\n                     how many entries follow
 *     0 0\n                   epoch, start offset
 *     3 1587\n                both grow from line to line
 *
 * The file is replaced whole, before the first record of a new epoch is written: a history may know an epoch without records (the next assign or truncate drops
 * it), but no record is without its epoch. */
#include "engine/epochs.h"
#include "base/log.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "leader-epoch-checkpoint"
#define FILE_BYTES_MAX (16u << 20)         /* some 500 000 entries */
#define LINE_BYTES_MAX 33u                 /* "2147483647 9223372036854775807\n" */

struct history { struct eng_epoch_end *starts; uint32_t count; };

struct eng_epochs {
    struct ot_io *io;
    char *path;
    pthread_mutex_t writing;               /* one change at a time, held over the disk; taken before `reading` */
    pthread_mutex_t reading;               /* guards now, never held over the disk */
    struct history now;                    /* changed under both, so either is enough to read it */
};

/* ---- text ---- */

struct history_text { const char *at, *end; };

static bool text_number(struct history_text *text, int64_t max, char end, int64_t *out)
{
    int64_t value = 0;
    const char *from = text->at;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
        int64_t digit = *text->at - '0';
        if (value > (max - digit) / 10) return false;
        value = value * 10 + digit;
    }
    if (text->at == from || text->at == text->end || *text->at != end) return false;
    text->at++;
    *out = value;
    return true;
}

enum ot_err eng_epochs_parse(const char *data, size_t bytes, void (*row)(void *arg, const struct eng_epoch_end *start), void *arg, uint32_t *line_out)
{
    struct history_text text = { data, data + bytes };
    int64_t version, count, epoch, start_offset;
    struct eng_epoch_end last = { -1, -1 };
    *line_out = 1;
    if (!text_number(&text, INT32_MAX, '\n', &version) || version != 0) return OT_ERR_CORRUPT;
    *line_out = 2;
    if (!text_number(&text, INT32_MAX, '\n', &count)) return OT_ERR_CORRUPT;
    for (int64_t i = 0; i < count; i++) {
        *line_out = (uint32_t)i + 3;
        if (!text_number(&text, INT32_MAX, ' ', &epoch) || !text_number(&text, INT64_MAX, '\n', &start_offset)) return OT_ERR_CORRUPT;
        if (epoch <= last.epoch || start_offset <= last.end_offset) return OT_ERR_CORRUPT;
        last = (struct eng_epoch_end){ (int32_t)epoch, start_offset };
        row(arg, &last);
    }
    *line_out = (uint32_t)count + 3;
    return text.at == text.end ? OT_OK : OT_ERR_CORRUPT;
}

static enum ot_err history_write(struct eng_epochs *epochs, const struct history *history, bool sync)
{
    size_t room = 24 + (size_t)history->count * LINE_BYTES_MAX;
    char *text = malloc(room);
    if (text == NULL) return OT_ERR_NO_MEMORY;
    int bytes = snprintf(text, room, "0\n%" PRIu32 "\n", history->count);
    for (uint32_t i = 0; i < history->count; i++) {
        bytes += snprintf(text + bytes, room - (size_t)bytes, "%" PRId32 " %" PRId64 "\n", history->starts[i].epoch, history->starts[i].end_offset);
    }
    enum ot_err err = ot_io_replace_file(epochs->io, epochs->path, text, (size_t)bytes, sync);
    free(text);
    return err;
}

/* ---- open ---- */

struct collecting { struct history history; uint32_t cap; bool no_memory; };

static void collect_row(void *arg, const struct eng_epoch_end *start)
{
    struct collecting *to = arg;
    if (to->no_memory) return;
    if (to->history.count == to->cap) {
        uint32_t cap = to->cap == 0 ? 4 : to->cap * 2;
        struct eng_epoch_end *starts = realloc(to->history.starts, cap * sizeof *starts);
        to->no_memory = starts == NULL;
        if (starts == NULL) return;
        to->history.starts = starts;
        to->cap = cap;
    }
    to->history.starts[to->history.count++] = *start;
}

static enum ot_err history_read(struct eng_epochs *epochs)
{
    char *data = NULL;
    size_t bytes = 0;
    uint32_t line;
    struct collecting to = { 0 };
    enum ot_err err = ot_io_read_file(epochs->io, epochs->path, FILE_BYTES_MAX, &data, &bytes);
    if (err == OT_ERR_NOT_FOUND) return OT_OK;
    if (err != OT_OK) return err == OT_ERR_TOO_LARGE ? OT_ERR_CORRUPT : err;
    err = eng_epochs_parse(data, bytes, collect_row, &to, &line);
    free(data);
    if (err != OT_OK) ot_log(OT_LOG_WARN, "log", "leader_epochs_damaged", "path=%s line=%" PRIu32, epochs->path, line);
    if (err == OT_OK && to.no_memory) err = OT_ERR_NO_MEMORY;
    if (err != OT_OK) {
        free(to.history.starts);
        return err;
    }
    epochs->now = to.history;
    return OT_OK;
}

enum ot_err eng_epochs_open(struct ot_io *io, const char *dir_path, struct eng_epochs **out)
{
    *out = NULL;
    struct eng_epochs *epochs = calloc(1, sizeof *epochs);
    if (epochs == NULL) return OT_ERR_NO_MEMORY;
    size_t path_bytes = strlen(dir_path) + sizeof "/" FILE_NAME;
    epochs->io = io;
    epochs->path = malloc(path_bytes);
    if (epochs->path == NULL) {
        free(epochs);
        return OT_ERR_NO_MEMORY;
    }
    (void)snprintf(epochs->path, path_bytes, "%s/" FILE_NAME, dir_path);
    (void)pthread_mutex_init(&epochs->writing, NULL);
    (void)pthread_mutex_init(&epochs->reading, NULL);
    enum ot_err err = history_read(epochs);
    if (err == OT_OK || err == OT_ERR_CORRUPT) *out = epochs;
    else eng_epochs_close(epochs);
    return err;
}

void eng_epochs_close(struct eng_epochs *epochs)
{
    if (epochs == NULL) return;
    (void)pthread_mutex_destroy(&epochs->writing);
    (void)pthread_mutex_destroy(&epochs->reading);
    free(epochs->now.starts);
    free(epochs->path);
    free(epochs);
}

/* ---- changes: a new history is made aside, written, and only then put in place. All with `writing` held ---- */

static enum ot_err history_put(struct eng_epochs *epochs, struct history *next, bool sync)
{
    enum ot_err err = history_write(epochs, next, sync);
    if (err != OT_OK) {
        free(next->starts);
        return err;
    }
    (void)pthread_mutex_lock(&epochs->reading);
    struct history old = epochs->now;
    epochs->now = *next;
    (void)pthread_mutex_unlock(&epochs->reading);
    free(old.starts);
    return OT_OK;
}

/* Entries [from, to) of the present history with room for one more. */
static enum ot_err history_slice(const struct eng_epochs *epochs, uint32_t from, uint32_t to, struct history *out)
{
    out->count = to - from;
    out->starts = calloc((size_t)out->count + 1, sizeof *out->starts);
    if (out->starts == NULL) return OT_ERR_NO_MEMORY;
    if (out->count > 0) memcpy(out->starts, epochs->now.starts + from, out->count * sizeof *out->starts);
    return OT_OK;
}

/* How many entries start below offset (or at it). */
static uint32_t entries_below(const struct history *history, int64_t offset, bool or_at)
{
    uint32_t low = 0, high = history->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int64_t start = history->starts[middle].end_offset;
        if (start < offset || (or_at && start == offset)) low = middle + 1;
        else high = middle;
    }
    return low;
}

static enum ot_err assign_locked(struct eng_epochs *epochs, int32_t epoch, int64_t start_offset)
{
    const struct history *now = &epochs->now;
    int32_t latest = now->count == 0 ? -1 : now->starts[now->count - 1].epoch;
    struct history next;
    if (epoch < 0 || start_offset < 0) return OT_ERR_MALFORMED;
    if (epoch == latest) return OT_OK;
    if (epoch < latest) return OT_ERR_FENCED_LEADER_EPOCH;
    enum ot_err err = history_slice(epochs, 0, entries_below(now, start_offset, false), &next);
    if (err != OT_OK) return err;
    next.starts[next.count++] = (struct eng_epoch_end){ epoch, start_offset };
    return history_put(epochs, &next, true);
}

enum ot_err eng_epochs_assign(struct eng_epochs *epochs, int32_t epoch, int64_t start_offset)
{
    (void)pthread_mutex_lock(&epochs->writing);
    enum ot_err err = assign_locked(epochs, epoch, start_offset);
    (void)pthread_mutex_unlock(&epochs->writing);
    return err;
}

static enum ot_err truncate_end_locked(struct eng_epochs *epochs, int64_t end_offset, bool sync)
{
    struct history next;
    uint32_t kept = entries_below(&epochs->now, end_offset, false);
    if (kept == epochs->now.count) return OT_OK;
    enum ot_err err = history_slice(epochs, 0, kept, &next);
    return err != OT_OK ? err : history_put(epochs, &next, sync);
}

enum ot_err eng_epochs_truncate_end(struct eng_epochs *epochs, int64_t end_offset, bool sync)
{
    (void)pthread_mutex_lock(&epochs->writing);
    enum ot_err err = truncate_end_locked(epochs, end_offset, sync);
    (void)pthread_mutex_unlock(&epochs->writing);
    return err;
}

static enum ot_err truncate_start_locked(struct eng_epochs *epochs, int64_t start_offset)
{
    struct history next;
    uint32_t reached = entries_below(&epochs->now, start_offset, true);
    if (reached == 0 || (reached == 1 && epochs->now.starts[0].end_offset == start_offset)) return OT_OK;
    enum ot_err err = history_slice(epochs, reached - 1, epochs->now.count, &next);
    if (err != OT_OK) return err;
    next.starts[0].end_offset = start_offset;
    return history_put(epochs, &next, true);
}

enum ot_err eng_epochs_truncate_start(struct eng_epochs *epochs, int64_t start_offset)
{
    (void)pthread_mutex_lock(&epochs->writing);
    enum ot_err err = truncate_start_locked(epochs, start_offset);
    (void)pthread_mutex_unlock(&epochs->writing);
    return err;
}

static bool history_grows(const struct eng_epoch_end *starts, uint32_t count)
{
    struct eng_epoch_end last = { -1, -1 };
    for (uint32_t i = 0; i < count; i++) {
        if (starts[i].epoch <= last.epoch || starts[i].end_offset <= last.end_offset) return false;
        last = starts[i];
    }
    return true;
}

enum ot_err eng_epochs_replace(struct eng_epochs *epochs, const struct eng_epoch_end *starts, uint32_t count)
{
    if (!history_grows(starts, count)) return OT_ERR_MALFORMED;
    struct history next = { .starts = calloc((size_t)count + 1, sizeof *next.starts), .count = count };
    if (next.starts == NULL) return OT_ERR_NO_MEMORY;
    if (count > 0) memcpy(next.starts, starts, count * sizeof *starts);
    (void)pthread_mutex_lock(&epochs->writing);
    enum ot_err err = history_put(epochs, &next, true);
    (void)pthread_mutex_unlock(&epochs->writing);
    return err;
}

/* ---- reads ---- */

int32_t eng_epochs_latest(struct eng_epochs *epochs)
{
    (void)pthread_mutex_lock(&epochs->reading);
    int32_t epoch = epochs->now.count == 0 ? -1 : epochs->now.starts[epochs->now.count - 1].epoch;
    (void)pthread_mutex_unlock(&epochs->reading);
    return epoch;
}

int32_t eng_epochs_for_offset(struct eng_epochs *epochs, int64_t offset)
{
    (void)pthread_mutex_lock(&epochs->reading);
    uint32_t below = entries_below(&epochs->now, offset, true);
    int32_t epoch = below == 0 ? -1 : epochs->now.starts[below - 1].epoch;
    (void)pthread_mutex_unlock(&epochs->reading);
    return epoch;
}

static struct eng_epoch_end end_in(const struct history *history, int32_t asked, int64_t log_end_offset)
{
    uint32_t low = 0, high = history->count;           /* low: how many epochs are at or below asked */
    if (asked < 0 || history->count == 0 || asked > history->starts[history->count - 1].epoch) return (struct eng_epoch_end){ -1, -1 };
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (history->starts[middle].epoch <= asked) low = middle + 1;
        else high = middle;
    }
    if (low == history->count) return (struct eng_epoch_end){ asked, log_end_offset };
    return (struct eng_epoch_end){ low == 0 ? asked : history->starts[low - 1].epoch, history->starts[low].end_offset };
}

struct eng_epoch_end eng_epochs_end(struct eng_epochs *epochs, int32_t asked, int64_t log_end_offset)
{
    (void)pthread_mutex_lock(&epochs->reading);
    struct eng_epoch_end end = end_in(&epochs->now, asked, log_end_offset);
    (void)pthread_mutex_unlock(&epochs->reading);
    return end;
}

uint32_t eng_epochs_list(struct eng_epochs *epochs, struct eng_epoch_end *out, uint32_t max)
{
    (void)pthread_mutex_lock(&epochs->reading);
    uint32_t count = epochs->now.count;
    for (uint32_t i = 0; i < OT_MIN(count, max); i++) out[i] = epochs->now.starts[i];
    (void)pthread_mutex_unlock(&epochs->reading);
    return count;
}
