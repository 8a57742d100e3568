/* What the last life of this server left behind, and what that says about unsynced writes (coordinator.md §7).
 *
 *   meta.boot   text: "version: 0", "boot_id: …", then "mount: …" of each log directory in order
 * Same kernel boot and same mounts: the page cache survived the process, nothing that was written is lost. The clean markers (Kafka's .kafka_cleanshutdown) say
 * that all was flushed by the life that had the broker_epoch in them: the coordinator takes those of another life than the last (a directory put back from an older copy) for none. Both are
 * renewed only after the registration that reports them was committed, and before any log is opened: a second start before that finds the same, and is judged as the first.
 *
 *   meta.dirs   text: "version: 0", then "dir: " and the directory.id of each log directory that the last life used to its end
 * A directory that was away for a life (not in log.dirs, or failed) may come back with folders of partitions that were made anew on others meanwhile and are relied upon there. Those in
 * the one that comes back are set aside before anything is opened; what has no double is good. The file is renewed when a start has done that, and when a directory fails before its
 * partitions are made anew elsewhere. */
#include "broker/room.h"

#include "base/log.h"
#include "base/os.h"
#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVIDENCE_BYTES = 128 + BROKER_DIRS_MAX * (OT_OS_MOUNT_BYTES + 16) };

/* The text as it would be written now; empty when the system does not say. */
static void gather(struct broker *broker, char *out)
{
    char boot[37], mount[OT_OS_MOUNT_BYTES];
    size_t at = 0;
    out[0] = 0;
    if (broker->setup.io != ot_io_real() || ot_os_boot_id(boot) != OT_OK) {
        return;
    }
    at += (size_t)snprintf(out + at, EVIDENCE_BYTES - at, "version: 0\nboot_id: %s\n", boot);
    for (uint32_t dir = 0; dir < eng_store_dir_count(broker->core.store) && dir < BROKER_DIRS_MAX; dir++) {
        bool known = !eng_store_dir_offline(broker->core.store, dir) && ot_os_mount_id(eng_store_dir_path(broker->core.store, dir), mount) == OT_OK;
        at += (size_t)snprintf(out + at, EVIDENCE_BYTES - at, "mount: %s\n", known ? mount : "unknown");
    }
}

static bool same_boot(struct broker *broker)
{
    char path[4096], now[EVIDENCE_BYTES], *then = NULL;
    size_t bytes;
    gather(broker, now);
    snprintf(path, sizeof path, "%s/meta.boot", broker->meta_path);
    bool same = now[0] != 0 && ot_io_read_file(broker->setup.io, path, EVIDENCE_BYTES, &then, &bytes) == OT_OK && strcmp(now, then) == 0;
    free(then);
    return same;
}

/* Is the directory in the file's text? Without a file all are. */
static bool used_last(const struct broker *broker, const char *text, uint32_t dir)
{
    char line[32], id[23];
    if (text == NULL) return true;
    ot_uuid_text(&broker->dir_ids[dir], id);
    snprintf(line, sizeof line, "\ndir: %s\n", id);
    return strstr(text, line) != NULL;
}

/* NULL where the file is not there yet. */
static enum ot_err read_used(struct broker *broker, char **out)
{
    char path[4096];
    size_t bytes;
    *out = NULL;
    snprintf(path, sizeof path, "%s/meta.dirs", broker->meta_path);
    enum ot_err err = ot_io_read_file(broker->setup.io, path, 32 + BROKER_DIRS_MAX * 32, out, &bytes);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

/* What the clean markers say together. That of a directory that was away for the last life is of an earlier one, and nobody relies on what lies there. */
static enum ot_err see_markers(struct broker *broker, const char *used, struct broker_evidence *out, bool *all_clean_out, bool *one_life_out)
{
    for (uint32_t dir = 0; dir < eng_store_dir_count(broker->core.store) && dir < BROKER_DIRS_MAX; dir++) {
        int64_t epoch;
        bool clean = false;
        enum ot_err err = eng_store_dir_offline(broker->core.store, dir) ? OT_OK : eng_store_see_clean(broker->core.store, dir, &clean, &epoch);
        if (err != OT_OK) return err;
        broker->core.clean[dir] = clean;
        *all_clean_out &= clean;
        if (clean && used_last(broker, used, dir)) {
            *one_life_out &= out->stopped_epoch == 0 || out->stopped_epoch == epoch;
            out->stopped_epoch = epoch;
        }
    }
    return OT_OK;
}

enum ot_err broker_evidence_judge(struct broker *broker, struct broker_evidence *out)
{
    bool all_clean = true, one_life = true;
    char *used;
    out->stopped_epoch = 0;
    enum ot_err err = read_used(broker, &used);
    if (err == OT_OK) err = see_markers(broker, used, out, &all_clean, &one_life);
    free(used);
    if (!one_life) {
        ot_log(OT_LOG_ERROR, "broker", "log_dirs_of_several_lives", "text=\"the clean markers of the log directories name different registrations, as when one is put back from an older copy: nothing is believed complete\"");
    }
    out->boot = !one_life ? COORD_BOOT_MACHINE_CRASH : all_clean ? COORD_BOOT_CLEAN : same_boot(broker) ? COORD_BOOT_PROCESS_CRASH : COORD_BOOT_MACHINE_CRASH;
    broker->core.survived = out->boot != COORD_BOOT_MACHINE_CRASH;
    return err;
}

enum ot_err broker_evidence_renew(struct broker *broker)
{
    char path[4096], now[EVIDENCE_BYTES];
    for (uint32_t dir = 0; dir < eng_store_dir_count(broker->core.store) && dir < BROKER_DIRS_MAX; dir++) {
        bool clean;
        int64_t epoch;
        enum ot_err err = eng_store_dir_offline(broker->core.store, dir) ? OT_OK : eng_store_take_clean(broker->core.store, dir, &clean, &epoch);
        if (err != OT_OK) return err;
    }
    gather(broker, now);
    snprintf(path, sizeof path, "%s/meta.boot", broker->meta_path);
    if (now[0] != 0) {
        enum ot_err err = ot_io_replace_file(broker->setup.io, path, now, strlen(now), true);
        if (err != OT_OK) {
            ot_log(OT_LOG_WARN, "broker", "evidence_not_written", "file=%s error=%s", path, ot_err_name(err));
        }
    }
    return OT_OK;
}

/* ---- directories that were away */

bool broker_evidence_dirs(struct broker *broker)
{
    char path[4096], text[32 + BROKER_DIRS_MAX * 32], id[23];
    struct eng_store *store = broker->core.store;
    size_t at = (size_t)snprintf(text, sizeof text, "version: 0\n");
    for (uint32_t dir = 0; dir < eng_store_dir_count(store) && dir < BROKER_DIRS_MAX; dir++) {
        if (eng_store_dir_offline(store, dir)) continue;
        ot_uuid_text(&broker->dir_ids[dir], id);
        at += (size_t)snprintf(text + at, sizeof text - at, "dir: %s\n", id);
    }
    snprintf(path, sizeof path, "%s/meta.dirs", broker->meta_path);
    enum ot_err err = ot_io_replace_file(broker->setup.io, path, text, at, true);
    if (err != OT_OK) ot_log(OT_LOG_ERROR, "broker", "evidence_not_written", "file=%s error=%s", path, ot_err_name(err));
    return err == OT_OK;
}

struct returned { struct broker *broker; uint64_t back; enum ot_err err; };

static void returned_folder(void *arg, uint32_t dir, const char *topic, int32_t partition)
{
    struct returned *returned = arg;
    struct eng_store *store = returned->broker->core.store;
    struct ot_uuid id, other_id;
    if (returned->err != OT_OK || eng_store_topic_id(store, dir, topic, partition, &id) != OT_OK) return;
    for (uint32_t other = 0; other < eng_store_dir_count(store) && other < BROKER_DIRS_MAX; other++) {
        if ((returned->back >> other & 1) != 0 || eng_store_dir_offline(store, other) || eng_store_topic_id(store, other, topic, partition, &other_id) != OT_OK
            || !ot_uuid_equal(&id, &other_id)) continue;
        returned->err = eng_store_set_aside(store, dir, topic, partition);
        return;
    }
}

enum ot_err broker_evidence_returned(struct broker *broker)
{
    char *text;
    struct eng_store *store = broker->core.store;
    struct returned returned = { .broker = broker };
    enum ot_err err = read_used(broker, &text);
    if (err != OT_OK) return err;
    for (uint32_t dir = 0; dir < eng_store_dir_count(store) && dir < BROKER_DIRS_MAX; dir++)
        if (!eng_store_dir_offline(store, dir) && !used_last(broker, text, dir)) returned.back |= UINT64_C(1) << dir;
    free(text);
    for (uint32_t dir = 0; returned.err == OT_OK && dir < eng_store_dir_count(store) && dir < BROKER_DIRS_MAX; dir++) {
        if ((returned.back >> dir & 1) == 0) continue;
        err = eng_store_scan(store, dir, returned_folder, &returned);
        if (err != OT_OK) return err;
    }
    if (returned.err == OT_OK && !broker_evidence_dirs(broker)) return OT_ERR_IO;
    return returned.err;
}
