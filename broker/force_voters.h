/* The last resort when most voters are lost for good (coordinator.md §6): what one node knows becomes what the cluster knows, and that node the only voter. Offline, on the folder of a server
 * that does not run; whatever the others had committed and this one had not heard of is lost, and old voters must not come back with their directories: they could go on as the old cluster.
 *
 * errors  LOCKED: a server runs on one of the directories. NOT_FOUND: no metadata there. MISMATCH: not of the cluster that confirm names, or confirm is NULL (then nothing is changed, and
 *         out says what there is). CORRUPT, IO, NO_SPACE, NO_MEMORY. text gets words.
 * thread  blocking; alone */
#ifndef OT_BROKER_FORCE_VOTERS_H
#define OT_BROKER_FORCE_VOTERS_H

#include "base/io.h"

enum { BROKER_FORCE_TERMS = 1000000 };         /* terms, versions, and epochs of each partition that are skipped: whatever the lost voters went on to is below */
#define BROKER_FORCE_PRODUCER_IDS INT64_C(1000000000000)

struct broker_forced {
    char cluster_id[64];
    int32_t node_id, term, voter_count; int32_t voters[16];    /* as they were */
    int64_t version;                           /* what is known here, accepted changes included */
    int64_t topic_count, partition_count;
    bool unsure;                               /* the journal's end was damaged: more may be missing */
    int32_t new_term; int64_t new_version;
};
OT_MUST_CHECK enum ot_err broker_force_voters(struct ot_io *io, const char *const *dirs, uint32_t dir_count, const char *confirm, int64_t wall_ms, struct broker_forced *out, char *text,
    size_t text_bytes);

#endif
