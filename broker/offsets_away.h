/* Offsets by time of partitions that any broker leads: Kafka's ListOffsets to those elsewhere, broker/offsets.h for the others. */
#ifndef OT_BROKER_OFFSETS_AWAY_H
#define OT_BROKER_OFFSETS_AWAY_H

#include "broker/offsets.h"

/* LIST_OFFSETS with parts by topic name; as broker_offsets, but parts that others lead are asked of them, for ten seconds at most: then LEADER_NOT_AVAILABLE. On home, where done runs. */
void broker_offsets_anywhere(struct broker *broker, struct broker_offsets *offsets);

#endif
