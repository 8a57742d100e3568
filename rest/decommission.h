/* A decommission as a job (jobs.c): "decommission-4". Whoever leads the coordinator makes its moves, so it is no broker's own, and any broker tells of it, from the cluster's state alone: a restart forgets
 * nothing, when it began is not known, and it stands until the broker is forgotten or may stay. Private to rest/. On the server's executor. */
#ifndef OT_REST_DECOMMISSION_H
#define OT_REST_DECOMMISSION_H

#include "rest/call.h"

/* Is that the id of such a job? */
bool rest_decommission_job(struct ot_str id, int32_t *broker_out);
void rest_decommission_job_get(struct rest_call *call, int32_t broker);
void rest_decommission_job_cancel(struct rest_call *call, int32_t broker);
/* As items of the open list from the one numbered `from` on, as long as its limit allows; state: running, done, or NULL for both. Answers how many there are in all. */
uint32_t rest_decommission_jobs(struct rest_call *call, uint32_t from, const char *state);

/* jobs.c */
void rest_no_such_job(struct rest_call *call);

#endif
