#include "engine/adopt.h"
#include "engine/batch.h"
#include "engine/epochs.h"
#include "engine/log.h"
#include "engine/store_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES (1u << 20)
#define EPOCH_POS  12u             /* of a batch's leader epoch */

/* The copy is made under a name that start clears away if we do not come to the end. */
struct adopt {
    struct eng_store *store;
    struct ot_io *io;
    const struct eng_adopt *how;
    struct eng_adopted *out;
    struct eng_names names;
    char work[ENG_PATH_BYTES], final[ENG_PATH_BYTES];
    bool work_made, epochs_seen;
};

static bool ends_with(const char *name, const char *end)
{
    size_t name_bytes = strlen(name), end_bytes = strlen(end);
    return name_bytes > end_bytes && strcmp(name + name_bytes - end_bytes, end) == 0;
}

static bool is_segment_file(const char *name, const char *suffix)
{
    return strlen(name) == 20 + strlen(suffix) && strspn(name, "0123456789") == 20 && ends_with(name, suffix);
}

static enum ot_err look(struct adopt *a)
{
    struct ot_io_stat stat;
    enum ot_err err = a->io->ops->stat(a->io, a->final, &stat);
    if (err == OT_OK) {
        snprintf(a->out->text, sizeof a->out->text, "%s-%" PRId32 " is here already", a->how->topic, a->how->partition);
        return OT_ERR_EXISTS;
    }
    if (err != OT_ERR_NOT_FOUND) return err;
    if ((err = eng_names_load(a->io, a->how->from_path, false, &a->names)) != OT_OK) return err;
    for (uint32_t i = 0; i < a->names.count; i++) {
        const char *name = a->names.list[i];
        if (ends_with(name, ".swap") || ends_with(name, ".cleaned")) {
            snprintf(a->out->text, sizeof a->out->text, "%.100s: a compaction was cut short; let Kafka start and stop once on the folder", name);
            return OT_ERR_MISMATCH;
        }
        if (is_segment_file(name, ".log")) a->out->segments++;
        if (is_segment_file(name, ".snapshot")) a->out->snapshots++;
        if (strcmp(name, "leader-epoch-checkpoint") == 0) a->epochs_seen = true;
    }
    if (a->out->segments > 0) return OT_OK;
    snprintf(a->out->text, sizeof a->out->text, "no .log file in %.200s", a->how->from_path);
    return OT_ERR_NOT_FOUND;
}

static enum ot_err copy_bytes(struct ot_io *io, int from_fd, int to_fd, uint64_t *bytes_io)
{
    uint64_t pos = 0;
    uint8_t *buffer = malloc(COPY_BYTES);
    enum ot_err err = buffer == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    while (err == OT_OK) {
        size_t got = 0;
        if ((err = io->ops->pread(io, from_fd, buffer, COPY_BYTES, pos, &got)) != OT_OK || got == 0) break;
        err = ot_io_write_all(io, to_fd, buffer, got, pos);
        pos += got;
    }
    free(buffer);
    *bytes_io += pos;
    return err == OT_OK ? io->ops->fdatasync(io, to_fd) : err;
}

static enum ot_err copy_file(struct adopt *a, const char *name)
{
    char from[ENG_PATH_BYTES], to[ENG_PATH_BYTES];
    int from_fd = -1, to_fd = -1;
    enum ot_err err = eng_path_join(from, a->how->from_path, name);
    if (err == OT_OK) err = eng_path_join(to, a->work, name);
    if (err == OT_OK) err = a->io->ops->open(a->io, from, OT_IO_READ, &from_fd);
    if (err == OT_OK) err = a->io->ops->open(a->io, to, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, &to_fd);
    if (err == OT_OK) err = copy_bytes(a->io, from_fd, to_fd, &a->out->bytes);
    a->io->ops->close(a->io, from_fd);
    a->io->ops->close(a->io, to_fd);
    if (err != OT_OK) snprintf(a->out->text, sizeof a->out->text, "copying %.100s: %s", name, ot_err_text(err));
    return err;
}

/* Every batch of a copied .log gets leader epoch 0, which lies outside its checksum. What is no batch ends the walk: check() finds it. */
static enum ot_err restart_epochs(struct adopt *a, const char *name)
{
    static const uint8_t zero[4];
    char path[ENG_PATH_BYTES];
    uint8_t head[ENG_BATCH_PREFIX_BYTES];
    struct ot_io_stat stat = { 0 };
    int fd = -1;
    enum ot_err err = eng_path_join(path, a->work, name);
    if (err == OT_OK) err = a->io->ops->open(a->io, path, OT_IO_WRITE, &fd);
    if (err == OT_OK) err = a->io->ops->fstat(a->io, fd, &stat);
    for (uint64_t pos = 0; err == OT_OK && pos + sizeof head <= stat.bytes;) {
        int64_t bytes;
        int8_t magic;
        if ((err = ot_io_read_exact(a->io, fd, head, sizeof head, pos)) != OT_OK) break;
        if (eng_batch_bytes(head, sizeof head, &bytes, &magic) != OT_OK || (uint64_t)bytes > stat.bytes - pos) break;
        if (magic >= 2 && memcmp(head + EPOCH_POS, zero, sizeof zero) != 0) err = ot_io_write_all(a->io, fd, zero, sizeof zero, pos + EPOCH_POS);
        pos += (uint64_t)bytes;
    }
    if (err == OT_OK) err = a->io->ops->fdatasync(a->io, fd);
    a->io->ops->close(a->io, fd);
    if (err != OT_OK) snprintf(a->out->text, sizeof a->out->text, "leader epochs of %.100s: %s", name, ot_err_text(err));
    return err;
}

static enum ot_err copy_all(struct adopt *a)
{
    enum ot_err err = eng_store_remove_tree(a->io, a->work);       /* of an earlier attempt */
    if (err == OT_OK) err = a->io->ops->mkdir(a->io, a->work);
    a->work_made = err == OT_OK;
    for (uint32_t i = 0; i < a->names.count && err == OT_OK; i++) {
        const char *name = a->names.list[i];
        bool wanted = is_segment_file(name, ".log") || is_segment_file(name, ".txnindex") || is_segment_file(name, ".snapshot") ||
            (!a->how->restart_epochs && strcmp(name, "leader-epoch-checkpoint") == 0);
        if (wanted) err = copy_file(a, name);
        if (err == OT_OK && a->how->restart_epochs && is_segment_file(name, ".log")) err = restart_epochs(a, name);
    }
    if (err != OT_OK) return err;
    a->out->topic_id = a->how->topic_id;
    if (ot_uuid_is_zero(&a->out->topic_id)) {
        err = eng_partition_metadata_read(a->io, a->how->from_path, &a->out->topic_id);
        if (err != OT_OK) snprintf(a->out->text, sizeof a->out->text, "partition.metadata: %s", ot_err_text(err));
    }
    return err == OT_OK ? eng_partition_metadata_write(a->io, a->work, &a->out->topic_id, true) : err;
}

static void note_fault(void *arg, const char *text)
{
    struct eng_adopted *out = arg;
    if (out->text[0] == '\0') snprintf(out->text, sizeof out->text, "%.280s", text);
}

/* Opening with nothing believed walks every batch, with its checksum; what is missing is made. */
static enum ot_err check(struct adopt *a)
{
    struct eng_log *log = NULL;
    struct eng_recovery recovery;
    struct eng_log_open open = { .dir_path = a->work, .store_dir = a->how->store_dir, .topic_id = a->out->topic_id, .wall_ms = a->how->wall_ms };
    open.config = (struct eng_log_config){ .segment_bytes = INT32_MAX, .segment_ms = INT64_MAX, .segment_index_bytes = 10 << 20, .index_interval_bytes = 4096,
        .retention_ms = -1, .retention_bytes = -1, .compact_enabled = true, .producer_expiry_ms = INT64_MAX, .producers_max = UINT32_MAX };
    enum ot_err err = eng_log_open(a->store, &open, &log, &recovery);
    if (err != OT_OK) {
        if (a->out->text[0] == '\0') snprintf(a->out->text, sizeof a->out->text, "opening the copy: %s", ot_err_text(err));
        return err;
    }
    a->out->log_start_offset = eng_log_start_offset(log);
    a->out->log_end_offset = eng_log_end_offset(log);
    a->out->cut_bytes = recovery.cut_bytes;
    a->out->epochs_rebuilt = a->how->restart_epochs || !a->epochs_seen;
    if (recovery.cut_offset >= 0 && !a->how->cut_damaged_tail) {
        snprintf(a->out->text, sizeof a->out->text, "bad from offset %" PRId64 " on (%" PRIu64 " bytes)%s", recovery.cut_offset, recovery.cut_bytes,
            recovery.kept_aside ? ", with good batches behind it" : "");
        err = OT_ERR_CORRUPT;
    }
    if (err == OT_OK) err = eng_log_verify(log, note_fault, a->out);
    if (err == OT_OK && a->out->text[0] != '\0') err = OT_ERR_CORRUPT;
    enum ot_err closed = eng_log_close(log, true);
    return err == OT_OK ? closed : err;
}

static enum ot_err settle(struct adopt *a)
{
    enum ot_err err = a->io->ops->rename(a->io, a->work, a->final);
    if (err != OT_OK) return err;
    a->work_made = false;
    return a->io->ops->sync_dir(a->io, eng_store_dir_path(a->store, a->how->store_dir));
}

enum ot_err eng_adopt(struct eng_store *store, const struct eng_adopt *how, struct eng_adopted *out)
{
    char folder[320];
    struct adopt *a = calloc(1, sizeof *a);
    *out = (struct eng_adopted){ 0 };
    if (a == NULL) return OT_ERR_NO_MEMORY;
    a->store = store;
    a->io = eng_store_io(store);
    a->how = how;
    a->out = out;
    int bytes = snprintf(folder, sizeof folder, "%s-%" PRId32 ".adopt-delete", how->topic, how->partition);
    enum ot_err err = bytes < 0 || (size_t)bytes >= sizeof folder ? OT_ERR_TOO_LARGE : eng_path_join(a->work, eng_store_dir_path(store, how->store_dir), folder);
    folder[(size_t)bytes < sizeof folder ? (size_t)bytes - strlen(".adopt-delete") : 0] = '\0';
    if (err == OT_OK) err = eng_path_join(a->final, eng_store_dir_path(store, how->store_dir), folder);
    if (err == OT_OK) err = look(a);
    if (err == OT_OK) err = copy_all(a);
    if (err == OT_OK) err = check(a);
    if (err == OT_OK) err = settle(a);
    if (a->work_made) {
        enum ot_err gone = eng_store_remove_tree(a->io, a->work);
        ot_ignore(gone, "start clears the name away");
    }
    eng_names_free(&a->names);
    free(a);
    return err;
}
