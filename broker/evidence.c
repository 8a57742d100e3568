/* What the last life of this server left behind, and what that says about unsynced writes (coordinator.md §7).
 *
 *   meta.boot   text: "version: 0", "boot_id: …", then "mount: …" of each log directory in order
 * Same kernel boot and same mounts: the page cache survived the process, nothing that was written is lost. The clean markers (Kafka's .kafka_cleanshutdown) say
 * that all was flushed. Both are renewed only after the registration that reports them was committed, but the markers go at once: a second start before
 * that finds none and is judged by the rest, never better than the first. */
#include "broker/room.h"

#include "base/log.h"
#include "base/os.h"
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

enum ot_err broker_evidence_judge(struct broker *broker, enum coord_boot *out)
{
    bool all_clean = true;
    for (uint32_t dir = 0; dir < eng_store_dir_count(broker->core.store) && dir < BROKER_DIRS_MAX; dir++) {
        int64_t epoch;
        bool clean = false;
        if (!eng_store_dir_offline(broker->core.store, dir)) {
            enum ot_err err = eng_store_take_clean(broker->core.store, dir, &clean, &epoch);
            if (err != OT_OK) {
                return err;
            }
        }
        broker->core.clean[dir] = clean;
        all_clean &= clean;
    }
    *out = all_clean ? COORD_BOOT_CLEAN : same_boot(broker) ? COORD_BOOT_PROCESS_CRASH : COORD_BOOT_MACHINE_CRASH;
    return OT_OK;
}

void broker_evidence_renew(struct broker *broker)
{
    char path[4096], now[EVIDENCE_BYTES];
    gather(broker, now);
    snprintf(path, sizeof path, "%s/meta.boot", broker->meta_path);
    if (now[0] != 0) {
        enum ot_err err = ot_io_replace_file(broker->setup.io, path, now, strlen(now), true);
        if (err != OT_OK) {
            ot_log(OT_LOG_WARN, "broker", "evidence_not_written", "file=%s error=%s", path, ot_err_name(err));
        }
    }
}
