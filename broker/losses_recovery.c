/* What a start found to be gone from a log, on its way into the ledger.
 *
 * Bytes that recovery cut lie beside the log then, in files that no tool takes for segments (N.cut: engine/log_recover.c). As long as one lies there it is not told of, or not wholly moved:
 *
 *   1 recovery copies the bytes aside, and cuts the log
 *   2 a folder is made in __ottla_lost
 *   3 the entry is written: it names that folder, and says how many bytes go there
 *   4 the files are moved
 *
 * A crash before 3: the next start finds files that no entry counts, and begins at 2. A crash in 4: what lies in the folder and what lies beside the log are together as much as an entry says, and the
 * next start moves the rest. Where nothing fits, files of several crashes being there at once, an entry is written: told twice is better than never. */
#include "base/util.h"
#include "broker/core.h"
#include "broker/losses_inner.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = BROKER_LOSS_PATH_BYTES, FOLDER_TRIES = 100 };

struct cuts { struct ot_io *io; const char *path; int64_t first; uint64_t bytes; };        /* beside a log */

static bool is_cut(const struct ot_io_entry *entry)
{
    const size_t bytes = strlen(entry->name);
    return !entry->is_dir && bytes >= 24 && strcmp(entry->name + bytes - 4, ".cut") == 0;
}

static bool join(char out[static PATH_BYTES], const char *folder, const char *name, size_t name_bytes, const char *suffix)
{
    const int bytes = snprintf(out, PATH_BYTES, "%s/%.*s%s", folder, (int)name_bytes, name, suffix);
    return bytes > 0 && bytes < PATH_BYTES;
}

static uint64_t bytes_of(struct ot_io *io, const char *folder, const char *name)
{
    char path[PATH_BYTES];
    struct ot_io_stat stat;
    return join(path, folder, name, strlen(name), "") && io->ops->stat(io, path, &stat) == OT_OK ? stat.bytes : 0;
}

static void see_cut(void *arg, const struct ot_io_entry *entry)
{
    struct cuts *cuts = arg;
    if (!is_cut(entry)) return;
    const int64_t offset = strtoll(entry->name, NULL, 10);
    cuts->first = cuts->first < 0 ? offset : OT_MIN(cuts->first, offset);
    cuts->bytes += bytes_of(cuts->io, cuts->path, entry->name);
}

struct held { struct ot_io *io; const char *folder; uint64_t bytes; };

static void see_held(void *arg, const struct ot_io_entry *entry)
{
    struct held *held = arg;
    if (!entry->is_dir) held->bytes += bytes_of(held->io, held->folder, entry->name);
}

/* Is there an entry that counts these files as its own? */
static bool begun(const struct broker_partition *partition, const struct cuts *cuts, struct broker_cut *out)
{
    out->loss = (struct broker_loss){ .kind = BROKER_LOSS_RECOVERY };
    broker_loss_name(partition, &out->loss);
    while (broker_loss_keeper_next(partition->core->losses, out)) {
        struct held held = { .io = cuts->io, .folder = out->folder };
        if (strcmp(out->folder, cuts->path) != 0) ot_ignore(cuts->io->ops->list(cuts->io, out->folder, see_held, &held), "then nothing lies there");
        if (held.bytes + cuts->bytes == out->loss.kept_bytes) return true;
    }
    return false;
}

struct moving { const struct cuts *cuts; const char *to; enum ot_err err; };

static void move_one(void *arg, const struct ot_io_entry *entry)
{
    struct moving *moving = arg;
    struct ot_io *io = moving->cuts->io;
    char from[PATH_BYTES], to[PATH_BYTES];
    const size_t bytes = strlen(entry->name);
    if (moving->err != OT_OK || !is_cut(entry) || !join(from, moving->cuts->path, entry->name, bytes, "") || !join(to, moving->to, entry->name, bytes - 4, ".log")) return;
    moving->err = io->ops->rename(io, from, to);
}

static void move_all(const struct cuts *cuts, const char *folder)
{
    struct ot_io *io = cuts->io;
    struct moving moving = { .cuts = cuts, .to = folder };
    enum ot_err err = io->ops->list(io, cuts->path, move_one, &moving);
    if (err == OT_OK) err = moving.err;
    if (err == OT_OK) err = io->ops->sync_dir(io, folder);
    if (err == OT_OK) err = io->ops->sync_dir(io, cuts->path);
    ot_ignore(err, "the next start moves the rest");
}

/* A folder of its own, there for good. False: they stay where recovery put them. */
static bool make_folder(const struct broker_partition *partition, uint32_t dir, char out[static PATH_BYTES])
{
    struct ot_io *io = partition->core->io;
    enum ot_err err = OT_ERR_EXISTS;           /* of a start that made one and died: what lies there is not ours */
    for (int i = 0; i < FOLDER_TRIES && err == OT_ERR_EXISTS; i++) {
        err = broker_loss_folder(partition, dir, broker_loss_number(partition->core->losses), out);
        if (err == OT_OK) err = io->ops->mkdir(io, out);
    }
    return err == OT_OK && broker_loss_folder_sync(partition, dir) == OT_OK;
}

void broker_loss_of_recovery(struct broker_partition *partition, struct eng_log *log, const struct eng_recovery *recovery)
{
    struct broker_core *core = partition->core;
    struct cuts cuts = { .io = core->io, .path = eng_log_dir_path(log), .first = -1 };
    struct broker_cut known;
    char folder[PATH_BYTES];
    if (core->losses == NULL || core->io->ops->list(core->io, cuts.path, see_cut, &cuts) != OT_OK || cuts.bytes == 0) return;
    if (!recovery->kept_aside && begun(partition, &cuts, &known)) {
        if (strcmp(known.folder, cuts.path) != 0) move_all(&cuts, known.folder);
        return;
    }
    const bool moves = make_folder(partition, eng_log_store_dir(log), folder);
    struct broker_loss loss = { .kind = BROKER_LOSS_RECOVERY, .reason = "damage", .from = recovery->kept_aside ? OT_MIN(recovery->cut_offset, cuts.first) : cuts.first, .end = -1,
        .high_watermark = atomic_load(&partition->high_watermark), .leader_epoch = -1, .last_epoch = -1, .cut_bytes = recovery->kept_aside ? recovery->cut_bytes : cuts.bytes,
        .kept_bytes = cuts.bytes /* they take no more room than they did before: the bound is not for them */, .kept_end = -1, .kept = BROKER_LOSS_KEPT_ALL,
        .folder = moves ? folder : cuts.path };
    broker_loss_name(partition, &loss);
    if (broker_loss_note(core->losses, &loss) == OT_OK && moves) move_all(&cuts, folder);
    else if (moves) ot_ignore(core->io->ops->rmdir(core->io, folder), "it is empty; the files stay beside the log, and the next start tries again");
}

void broker_loss_of_gone(void *arg, int64_t from, int64_t end)
{
    struct broker_partition *partition = arg;
    struct broker_loss loss = { .kind = BROKER_LOSS_RECOVERY, .reason = "damage", .from = from, .end = end, .high_watermark = atomic_load(&partition->high_watermark), .leader_epoch = -1,
        .last_epoch = -1, .kept_end = -1, .folder = "" };
    if (partition->core->losses == NULL) return;
    broker_loss_name(partition, &loss);
    ot_ignore(broker_loss_note(partition->core->losses, &loss), "told in the log");
}
