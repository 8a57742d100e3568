/* Known bugs, put in on purpose: a simulator that does not find them is of no use. Each is a lie of the disk or a step left out by the linker's --wrap; the code
 * under test is the one that ships. */
#ifndef OT_SIM_MUTATIONS_H
#define OT_SIM_MUTATIONS_H

#include "base/err.h"
#include <stdio.h>

enum sim_mutation {
    SIM_BUG_NONE,
    SIM_BUG_NO_DIR_SYNC,               /* a directory is never synced */
    SIM_BUG_ACK_BEFORE_FLUSH,          /* a flush of a log says OK and does nothing */
    SIM_BUG_NO_CUT_BACK,               /* a file is not cut back after a short write */
    SIM_BUG_REUSED_OFFSET,             /* a batch gets the offset that the one before it has */
    SIM_BUG_PHANTOM_SEQUENCE,          /* a failed write leaves its pending sequences */
    SIM_BUG_NO_EPOCH_SYNC,             /* the epoch file is renamed without a sync */
    SIM_BUG_NO_CHECKPOINT_LOWERED,     /* a truncation leaves the recovery point on disk above the cut */
    SIM_BUG_FORGETS_DUPLICATES,        /* a repeated batch is appended again */
    SIM_BUG_EARLY_STABLE_OFFSET,       /* open transactions do not hold back the last stable offset */
    SIM_BUG_START_NOT_KEPT,            /* DeleteRecords is answered before the checkpoint is written */
    SIM_BUG_SHORT_READ_TAKEN,          /* a short read counts as the end of the file */
    SIM_BUG_OFFLINE_TAKES_ALL,         /* a failing directory takes the others offline */
    SIM_BUG_TOPIC_ID_IGNORED,          /* a folder that bears the name of a topic is taken for its own */
    SIM_BUG_EPOCH_BELIEVED,            /* recovery believes a leader epoch that nobody gave */
    SIM_BUG_CHECKSUM_BELIEVED,         /* recovery does not look at checksums */
    SIM_BUG_VERIFY_BLIND,              /* a verification finds nothing */
    SIM_BUG_SETTLED_UNSYNCED,          /* a restart takes what a killed process left for synced */
    SIM_BUG_STATE_NOT_KEPT,            /* retention lets a segment go with what it told of its producers */
    SIM_BUG_COUNT
};
extern enum sim_mutation sim_mutation;
bool sim_mutation_choose(const char *name);            /* false: no such name */
void sim_mutations_print(FILE *out);

#endif
