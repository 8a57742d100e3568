/* Which replicas lie in which log directory, one by one, for DescribeLogDirs. */
#ifndef OT_BROKER_REPLICA_DIRS_H
#define OT_BROKER_REPLICA_DIRS_H

#include "broker/call.h"

struct broker_dir_replica { const char *topic; int32_t partition; uint32_t dir; uint64_t size_bytes; };
struct broker_replica_dir {
    const char *path;
    enum ot_err error;                         /* KAFKA_STORAGE_ERROR: offline, nothing is known of it */
    int64_t total_bytes, usable_bytes;         /* of its file system; usable: to an unprivileged user. -1: the system does not say */
    uint32_t first, count;                     /* its replicas */
};
struct broker_replica_dirs {
    struct broker_call call;
    struct ot_arena *arena;                    /* the answer's memory; nobody else's until done */
    /* answered */
    enum ot_err error;                         /* NO_MEMORY: nothing below is filled in */
    struct broker_replica_dir *dirs; uint32_t dir_count;
    struct broker_dir_replica *replicas; uint32_t replica_count;       /* by directory, topic, partition */
    struct broker *broker;                     /* own from here */
    struct ot_task io_task;
};
/* Asks the file systems, on an I/O thread. done is never called before this returns. */
void broker_replica_dirs(struct broker *broker, struct broker_replica_dirs *ask);

/* May this replica lie in the directory of that path? OK: it does. LOG_DIR_NOT_FOUND: not one of ours; UNKNOWN_TOPIC_OR_PARTITION: no such partition;
 * REPLICA_NOT_AVAILABLE: none of its replicas is here (yet); KAFKA_STORAGE_ERROR: the directory is offline; OPERATION_NOT_ATTEMPTED: it lies in another one, and replicas are not moved. Any thread. */
OT_MUST_CHECK enum ot_err broker_replica_dir_check(struct broker *broker, struct ot_str path, struct ot_str topic, int32_t partition);

#endif
