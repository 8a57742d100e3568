/* coordinator.voters and coordinator.join as they are written: ID@HOST:PORT, comma separated. */
#ifndef OT_BROKER_VOTERS_H
#define OT_BROKER_VOTERS_H

#include "coordinator/coord.h"

#define BROKER_VOTER_HOST_BYTES 256
/* Count; the hosts of out lie in hosts. -1: text_out says what is wrong. NULL and "" are empty lists. */
int broker_voters_parse(const char *list, struct coord_listed_voter out[COORD_VOTERS_MAX], char hosts[COORD_VOTERS_MAX][BROKER_VOTER_HOST_BYTES], char *text_out,
    size_t text_bytes);

#endif
