/* What voters and their followers say to each other: the bodies of COORD_SEND and COORD_MSG (base/wire/schema_ottla/CoordPeerMessage.txt, version in front,
 * CRC-32C of all that behind). Each stands alone: it may come late, twice, out of order or never. A bit that was flipped on the way, which TCP's checksum lets through now and then,
 * would be a vote or an acceptance that nobody gave: such a message is as good as lost.
 *
 *   kind             says                                                              fields beyond sender, dir_id, cluster, term, leader
 *   PRE_VOTE         would you vote for me in this term?                               accepted
 *   PRE_VOTE_ANSWER                                                                    answer: YES or NO, unsure (the vote would be)
 *   START_JOIN       vote for me                                                       -
 *   JOIN             my vote is yours, for this term; it is on my disk                 accepted, unsure
 *   PUBLISH          accept this value                                                 accepted (the value), base, committed (= base), data: delta
 *   ACCEPTED         it is on my disk                                                  accepted, committed
 *   HEARTBEAT        I lead; this is committed                                         committed, accepted (in flight, or committed), round
 *   HEARTBEAT_ACK    also from a later term: then the leader steps down                committed, accepted, round, answer: BUSY or YES
 *   CATCH_UP         give me what was committed since                                  committed, accepted (at least that far), base and key: of the rows
 *                                                                                      read so far
 *                    (who leads keeps it until there is something; if `leader` is another one, it is told at once who leads)
 *   CHANGES          here; empty: there is nothing newer, ask `leader`                 base, committed (the result), data: delta
 *   ROWS             too much has changed: here are rows of the whole, in key order    committed (the whole), key (of the row before), data, answer: LAST or YES
 *   FOUND            are you blank, with this list? (base.state_hash)                  cluster_id, answer: YES: then be of this cluster
 *   FOUND_ANSWER     YES: blank, or promised to that cluster; NO: of cluster_id        cluster_id, base, answer, committed
 *
 * owner  texts and bytes are borrowed. thread any. */
#ifndef OT_COORDINATOR_PEER_H
#define OT_COORDINATOR_PEER_H

#include "coordinator/level.h"
#include "coordinator/value.h"

enum coord_message_kind {
    COORD_PRE_VOTE = 1, COORD_PRE_VOTE_ANSWER, COORD_START_JOIN, COORD_JOIN, COORD_PUBLISH, COORD_ACCEPTED, COORD_HEARTBEAT, COORD_HEARTBEAT_ACK, COORD_CATCH_UP,
    COORD_CHANGES, COORD_ROWS, COORD_FOUND, COORD_FOUND_ANSWER, COORD_MESSAGE_KINDS
};
enum coord_answer { COORD_NO, COORD_YES, COORD_BUSY, COORD_LAST };
/* No cluster comes so far. Who says so would leave no term for anybody, and no version. */
#define COORD_TERM_MAX (INT32_MAX - 1)
#define COORD_VERSION_MAX (INT64_MAX / 2)
enum { COORD_MESSAGE_OVERHEAD_MAX = 1024 /* beyond data */ };

struct coord_mark { struct coord_stamp stamp; uint64_t state_hash; };      /* one value */
struct coord_message {
    enum coord_message_kind kind;
    uint64_t cluster;                          /* hash of the cluster's id; 0: sender has none yet */
    int32_t sender, term, leader;              /* leader: that the sender knows of; -1 none */
    struct ot_uuid dir_id;
    struct coord_levels levels;                /* that the sender knows */
    int16_t level;                             /* final at the sender; of PUBLISH: by the value that it publishes. COORD_LEVEL_FIRST also before there is a cluster */
    struct coord_mark accepted, committed, base;
    int64_t round;
    enum coord_answer answer;
    bool unsure;
    struct ot_str cluster_id;
    struct ot_blob key, data;
};
/* TOO_LARGE when it does not fit. */
OT_MUST_CHECK enum ot_err coord_message_encode(const struct coord_message *message, uint8_t *out, size_t cap_bytes, size_t *bytes_out);
/* MALFORMED: it does not decode or says what cannot be. */
OT_MUST_CHECK enum ot_err coord_message_decode(struct ot_blob body, struct coord_message *out);
uint64_t coord_cluster_hash(struct ot_str cluster_id);         /* never 0 */

static inline bool coord_stamp_equal(struct coord_stamp a, struct coord_stamp b) { return a.term == b.term && a.version == b.version; }
static inline bool coord_stamp_below(struct coord_stamp a, struct coord_stamp b) { return a.term != b.term ? a.term < b.term : a.version < b.version; }

#endif
