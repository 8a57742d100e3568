/* The log directories of this broker, for those who show them. */
#ifndef OT_BROKER_LOG_DIRS_H
#define OT_BROKER_LOG_DIRS_H

#include "base/bytes.h"

struct broker;
struct broker_log_dir {
    const char *path;                          /* as configured; lives as long as the broker */
    bool offline, has_space;
    enum { BROKER_LOG_DIR_OK, BROKER_LOG_DIR_LOW, BROKER_LOG_DIR_REFUSES } space;      /* against ottla.disk.free.{warn,refuse}.bytes, as produce is refused */
    uint64_t total_bytes, free_bytes;          /* of its file system; valid with has_space */
    uint64_t log_bytes;                        /* of the replicas there */
    uint32_t replicas;
};
/* Fills up to max rows, in the order of log.dirs; how many there are. Any thread; asks the file systems, so it may block for a moment. */
uint32_t broker_log_dirs(struct broker *broker, struct broker_log_dir *out, uint32_t max);

#endif
