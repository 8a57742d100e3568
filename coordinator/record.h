/* What a voter writes down: the payloads of meta.term and meta.journal (base/wire/schema_ottla/Coord*Record.txt, framed by their version). The frames
 * around them (checksums, chain, alignment) are the driver's: broker/journal.h.
 *
 * owner  texts and the delta are borrowed. thread any. */
#ifndef OT_COORDINATOR_RECORD_H
#define OT_COORDINATOR_RECORD_H

#include "coordinator/value.h"

enum coord_record_kind { COORD_RECORD_FORMAT = 1, COORD_RECORD_TERM, COORD_RECORD_ACCEPT, COORD_RECORD_COMMIT, COORD_RECORD_SNAPSHOT };
enum { COORD_VOTERS_MAX = 9, COORD_RECORD_OVERHEAD_MAX = 512 /* of an ACCEPT beyond its delta; of the others in all */ };

enum { COORD_FORMAT_JOINED = 0 };              /* instead of the hash of the list: this directory was blank when there was a cluster already */
struct coord_format { struct ot_str cluster_id; int32_t node_id; struct ot_uuid dir_id; uint64_t founding_hash; };
struct coord_term { int32_t term, voted_for, unsure_term; };     /* unsure_term: this voter may have forgotten what it accepted up to then (§4); -1 never */
struct coord_accept {
    struct coord_stamp stamp, base;            /* the delta leads from base to stamp */
    uint64_t state_hash;                       /* of the result */
    int32_t voters[COORD_VOTERS_MAX]; int32_t voter_count;     /* committed ones */
    struct ot_blob delta;
    bool committed;                            /* it was when it came: told by others, not voted on here. Several versions in one */
};
struct coord_snapshot { struct ot_str file_name; struct coord_stamp stamp; uint64_t state_hash, file_bytes; uint32_t file_crc; uint64_t chain_hash; };
struct coord_record {
    enum coord_record_kind kind;
    int16_t level;                             /* feature level that was final when it was made (level.h): it is written in the version of that one */
    union { struct coord_format format; struct coord_term term; struct coord_accept accept; struct coord_stamp commit; struct coord_snapshot snapshot; } u;
};

/* TOO_LARGE when it does not fit; payload bytes otherwise. */
OT_MUST_CHECK enum ot_err coord_record_encode(const struct coord_record *record, uint8_t *out, size_t cap_bytes, size_t *bytes_out);
/* CORRUPT: it does not decode or says what cannot be. */
OT_MUST_CHECK enum ot_err coord_record_decode(enum coord_record_kind kind, struct ot_blob payload, struct coord_record *out);

#endif
