/* Taking in a partition directory that Kafka 4.4 wrote: a verified copy under our roof, made so that a crash leaves nothing half.
 *
 * Every batch's checksum, the order of offsets and of leader epochs are checked; indexes are made anew, leader epochs too when their file is missing or damaged;
 * transaction indexes are checked and kept, producer snapshots kept where they are sound. The source is only read. Kafka must not run on it. */
#ifndef OT_ENGINE_ADOPT_H
#define OT_ENGINE_ADOPT_H

#include "engine/store.h"

struct eng_adopt {
    const char *from_path;                 /* Kafka's folder, "…/orders-0" */
    uint32_t store_dir;                    /* of the store it goes to */
    const char *topic;                     /* its name here */
    int32_t partition;
    struct ot_uuid topic_id;               /* of the topic here; zero: the one that the folder brings */
    bool cut_damaged_tail;                 /* a torn or bad end is cut off rather than refused */
    bool restart_epochs;                   /* leader epochs of the batches become 0: the topic begins with low ones in this cluster, and they may never fall */
    int64_t wall_ms;
};
struct eng_adopted {
    uint32_t segments, snapshots;
    uint64_t bytes;
    int64_t log_start_offset, log_end_offset;
    uint64_t cut_bytes;                    /* with cut_damaged_tail */
    bool epochs_rebuilt;
    struct ot_uuid topic_id;
    char text[300];                        /* what is wrong, when it fails */
};
/* NOT_FOUND: no such folder, or no .log in it. EXISTS: the partition is here already. CORRUPT: damaged (text says where). MISMATCH: the folder of a compaction that
 * was not finished. NO_SPACE, IO. On any error nothing is left here. Blocks for as long as the copy takes; any thread. */
OT_MUST_CHECK enum ot_err eng_adopt(struct eng_store *store, const struct eng_adopt *how, struct eng_adopted *out);

#endif
