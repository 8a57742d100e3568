/* Feature levels of ottla itself (`ottla.version`): which formats may be written while brokers of different versions run side by side.
 *
 * Each build knows the levels [min, max]; the cluster's value has the one that is final (coord_cluster_row.feature_level). A format that others than the one asked have to read (rows of the value,
 * records of the journal, messages of the coordinator) is written in the version that the final level has, whatever newer one this build knows: so a build that knows no more than that level
 * can be started again at any time before the next one is final. A request from one broker to another is between these two: it goes in the highest version that both know (broker/peers.h).
 *
 *   level   brought
 *   1       all that there was at first: version 0 of everything
 *   2       CoordBrokerRow 1, PeerAskRequest 1: a broker says which release it runs, and which registration its clean markers end
 *
 * A new version of a message that is kept or published has a row in level.c, or nothing writes it. docs/cluster.md has the table for operators.
 *
 * thread  any. */
#ifndef OT_COORDINATOR_LEVEL_H
#define OT_COORDINATOR_LEVEL_H

#include "base/wire/codec.h"

#define COORD_FEATURE_LEVEL "ottla.version"
enum { COORD_LEVEL_FIRST = 1 };                /* of what says nothing of levels: rows and messages of builds before there were any */

struct coord_levels { int16_t min, max; };
static inline bool coord_levels_have(struct coord_levels levels, int16_t level) { return levels.min <= level && level <= levels.max; }
struct coord_levels coord_levels_known(void);  /* by this build */
/* The version in which a message is written at that level. 0 of what has no row in the table. */
int16_t coord_level_version(int16_t level, const struct ot_wire_message *message);
/* The highest version that this build reads: that of the highest level it knows. */
int16_t coord_level_version_max(const struct ot_wire_message *message);

#endif
