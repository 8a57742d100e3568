/* Private to broker/: what transactions ask of other brokers (txn_away.c). False: no memory, nothing was asked. */
#ifndef OT_BROKER_TXN_AWAY_H
#define OT_BROKER_TXN_AWAY_H

#include "broker/room.h"
#include "broker/transactions.h"

/* ADD or VERIFY, at the broker that coordinates the transactional id; done as broker_txn says. */
bool broker_txn_away(struct broker *broker, struct broker_txn *txn, int32_t leader);
/* One marker to the places that `leader` leads (leaders: of each place); their errors are set when done is called, on home. */
bool broker_markers_away(struct broker_markers *markers, struct broker_marker *marker, const int32_t *leaders, int32_t leader, void (*done)(struct broker_markers *markers));

#endif
