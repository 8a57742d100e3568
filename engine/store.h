/* The log directories of one server: locks, identity, checkpoints, and the bounded caches of descriptors and maps that all logs share.
 *
 * A directory holds `topic-N` folders and Kafka's files: .lock, meta.properties (version 1: node.id, directory.id, cluster.id), recovery-point-offset-checkpoint,
 * log-start-offset-checkpoint, replication-offset-checkpoint, cleaner-offset-checkpoint (text, version 0), .kafka_cleanshutdown. One failing directory goes offline
 * and leaves the rest serving. Thread: any, unless said. */
#ifndef OT_ENGINE_STORE_H
#define OT_ENGINE_STORE_H

#include "base/bytes.h"
#include "engine/file_cache.h"

struct eng_store;
struct eng_store_config {
    const char *const *dirs;               /* log.dirs; made when absent */
    uint32_t dir_count;
    uint32_t files_max, maps_max;          /* caps of open descriptors and of mapped index files */
    uint64_t append_mapped_bytes_max;      /* log.append.mapped.bytes.max */
};

/* Opens what can be opened: locks, creates missing directories. LOCKED: another server holds one (*bad_dir_out says which). A directory that cannot be read
 * starts offline, unless all are: IO. */
OT_MUST_CHECK enum ot_err eng_store_open(struct ot_io *io, const struct eng_store_config *config, struct eng_store **out, uint32_t *bad_dir_out);
void eng_store_close(struct eng_store *store);
struct ot_io *eng_store_io(struct eng_store *store);

struct eng_store_meta { bool present; int32_t node_id; char cluster_id[64]; struct ot_uuid directory_id; };
OT_MUST_CHECK enum ot_err eng_store_meta(struct eng_store *store, uint32_t dir, struct eng_store_meta *out);      /* CORRUPT with a log line */
OT_MUST_CHECK enum ot_err eng_store_format(struct eng_store *store, uint32_t dir, const struct eng_store_meta *meta);   /* writes meta.properties, synced */

uint32_t eng_store_dir_count(const struct eng_store *store);
const char *eng_store_dir_path(const struct eng_store *store, uint32_t dir);
bool eng_store_dir_offline(const struct eng_store *store, uint32_t dir);
/* Take a directory offline: said once in the log, offline(arg, dir) told once. Any thread; the callback may only post. */
void eng_store_fail_dir(struct eng_store *store, uint32_t dir, enum ot_err why, const char *what);
void eng_store_on_offline(struct eng_store *store, void (*offline)(void *arg, uint32_t dir), void *arg);
/* Where a new partition goes: online, most free space first with the number of partitions as tie break (space within 10 % counts as equal). avoid: bits of directories
 * that take it only if no other can. */
OT_MUST_CHECK enum ot_err eng_store_place(struct eng_store *store, uint64_t avoid, uint32_t *dir_out);
void eng_store_count_partition(struct eng_store *store, uint32_t dir, int32_t change);

/* Partition folders found in a directory: each(arg, dir, name, topic, partition); folders being deleted or not ours are skipped (and *.deleted ones removed). */
OT_MUST_CHECK enum ot_err eng_store_scan(struct eng_store *store, uint32_t dir,
    void (*each)(void *arg, uint32_t dir, const char *topic, int32_t partition), void *arg);
/* Likewise, and removes nothing. */
OT_MUST_CHECK enum ot_err eng_store_look(struct eng_store *store, uint32_t dir,
    void (*each)(void *arg, uint32_t dir, const char *topic, int32_t partition), void *arg);
/* partition.metadata of a folder: NOT_FOUND, CORRUPT. */
OT_MUST_CHECK enum ot_err eng_store_topic_id(struct eng_store *store, uint32_t dir, const char *topic, int32_t partition, struct ot_uuid *out);
/* A folder that belongs to no topic any more makes room for one of its name: renamed to topic-N.<hex>-stray, synced, never deleted by us. May block. */
OT_MUST_CHECK enum ot_err eng_store_set_aside(struct eng_store *store, uint32_t dir, const char *topic, int32_t partition);

/* Checkpoints. load fills *out with a table (topic, partition -> offset); write replaces the file atomically. */
enum eng_checkpoint { ENG_CHECKPOINT_RECOVERY, ENG_CHECKPOINT_START, ENG_CHECKPOINT_HIGH_WATERMARK, ENG_CHECKPOINT_CLEANER, ENG_CHECKPOINT_COUNT };
struct eng_checkpoint_row { const char *topic; int32_t partition; int64_t offset; };
OT_MUST_CHECK enum ot_err eng_store_checkpoint_load(struct eng_store *store, uint32_t dir, enum eng_checkpoint kind,
    void (*each)(void *arg, const struct eng_checkpoint_row *row), void *arg);     /* missing: OK, none; damaged: CORRUPT after a log line */
OT_MUST_CHECK enum ot_err eng_store_checkpoint_write(struct eng_store *store, uint32_t dir, enum eng_checkpoint kind,
    const struct eng_checkpoint_row *rows, uint32_t count, bool sync);

/* Clean shutdown marker, Kafka's .kafka_cleanshutdown (JSON: version 0, brokerEpoch). see says whether it is there and which epoch it names (-1: none); take removes it too (synced);
 * leave writes it. */
OT_MUST_CHECK enum ot_err eng_store_see_clean(struct eng_store *store, uint32_t dir, bool *clean_out, int64_t *broker_epoch_out);
OT_MUST_CHECK enum ot_err eng_store_take_clean(struct eng_store *store, uint32_t dir, bool *was_clean_out, int64_t *broker_epoch_out);
OT_MUST_CHECK enum ot_err eng_store_leave_clean(struct eng_store *store, uint32_t dir, int64_t broker_epoch);

/* Disk-space reserve (ottla.disk.reserve.bytes): a preallocated file that eng_store_reserve_release gives back so that restart, deletes and the
 * journal work on a full disk. */
OT_MUST_CHECK enum ot_err eng_store_reserve_hold(struct eng_store *store, uint32_t dir, uint64_t bytes);
void eng_store_reserve_release(struct eng_store *store, uint32_t dir);

/* Big deleted files are shortened in steps once nobody reads them, so that freeing their blocks stalls nobody: frees up to about `bytes` and says whether
 * something is left. Logs call it after retention and deletion; the owner may in its housekeeping. May block. */
bool eng_store_reap(struct eng_store *store, uint64_t bytes);

uint32_t eng_store_recovering(const struct eng_store *store);   /* segments that logs being opened have still to read */

struct eng_store_stats { uint32_t open_files, open_maps; uint64_t mapped_append_bytes; uint64_t opens_total, evictions_total; };
void eng_store_stats(struct eng_store *store, struct eng_store_stats *out);

/* ---- for the log ---- */

struct eng_file_cache *eng_store_files(struct eng_store *store);
/* Room for append maps, within append_mapped_bytes_max. False: there is none now. Give back with a negative amount. */
bool eng_store_map_room(struct eng_store *store, int64_t bytes);
/* Open logs are known by folder name, so that a checkpoint can never say more than is synced, nor less than a compaction relies upon: eng_store_checkpoint_write takes for
 * ENG_CHECKPOINT_RECOVERY *flushed_end as it then is, whatever the row said when it was gathered. name is copied. */
OT_MUST_CHECK enum ot_err eng_store_register(struct eng_store *store, uint32_t dir, const char *name, const _Atomic int64_t *flushed_end);
void eng_store_unregister(struct eng_store *store, uint32_t dir, const char *name);
/* Before a compaction: the recovery point of this partition on disk is at least offset (or flushed_end, if that is lower), synced. */
OT_MUST_CHECK enum ot_err eng_store_recovery_raise(struct eng_store *store, uint32_t dir, const char *name, int64_t offset);
/* Before a truncation: recovery point and cleaner offset of this partition on disk are at most offset when this returns (rewritten and synced only if one was above). */
OT_MUST_CHECK enum ot_err eng_store_recovery_lower(struct eng_store *store, uint32_t dir, const char *name, int64_t offset);

#endif
