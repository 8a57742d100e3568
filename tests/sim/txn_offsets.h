/* One partition of the transactions' simulation seen as one of __consumer_offsets: what producers append there are offsets of a group, in their transactions, between commits of others.
 *
 * Held against a model that only counts: an offset is that of the latest record, of those outside transactions and of those whose transaction was committed; it is unstable while
 * a transaction has one under way; and a state made anew from the log says the same. */
#ifndef OT_SIM_TXN_OFFSETS_H
#define OT_SIM_TXN_OFFSETS_H

#include <stdbool.h>
#include <stdint.h>

void txn_offsets_begin(uint64_t seed, bool forgets_markers);   /* forgets_markers: a bug, put in on purpose */
void txn_offsets_append(int64_t producer_id, int16_t producer_epoch);
void txn_offsets_marker(int64_t producer_id, int16_t producer_epoch, bool commit);
void txn_offsets_plain(void);              /* a commit of somebody outside any transaction */
void txn_offsets_restart(void);
void txn_offsets_end(void);

#endif
