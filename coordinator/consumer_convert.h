/* Private to consumer_*.c: the embedded protocol of classic consumers. */
#ifndef OT_COORDINATOR_CONSUMER_CONVERT_H
#define OT_COORDINATOR_CONSUMER_CONVERT_H

#include "coordinator/consumer_inner.h"

struct cg_subscription { struct ot_str *topics, rack_id; uint32_t topic_count; struct coord_cg_parts owned; };

/* MALFORMED, NO_MEMORY. Topics that do not exist (any more) are left out of partitions. */
OT_MUST_CHECK enum ot_err cg_read_subscription(struct coord_cg_call *call, struct ot_blob metadata, struct cg_subscription *out);
OT_MUST_CHECK enum ot_err cg_read_assignment(struct coord_cg_call *call, struct ot_blob assignment, struct coord_cg_parts *out, bool *user_data_out);
/* In the version that the member's metadata is in. */
OT_MUST_CHECK enum ot_err cg_write_assignment(struct coord_cg_call *call, const struct coord_cg_parts *parts, struct ot_blob metadata, struct ot_blob *out);

#endif
