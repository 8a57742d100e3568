/* Other brokers' part in an answer. Any broker takes any request; what it cannot answer itself it asks of another one, over the peer connection, once: a request that has come
 * by a hop (call->arrived) is answered where it is and goes no further. Private to rest/. On the server's executor. */
#ifndef OT_REST_HOP_H
#define OT_REST_HOP_H

#include "rest/call.h"

/* Answers the call with what broker node_id answers, the writes included; Ottla-Served-By names it. When it turns out not to be the one (its leadership or coordinatorship has
 * passed on) or was not reached, the request is sent once more after the metadata had time to follow: where call->whither says then, or to the same one. After that 503 with
 * Retry-After, or 504 when it may have been done. The call is gone for the caller. */
void rest_hop_to(struct rest_call *call, int32_t node_id);

/* Where the request belongs by its route and path: the leader of its partition, the coordinator of its group or transaction, the broker that it names. This broker's own id: here.
 * -1: nobody serves it now. */
int32_t rest_whither(struct rest_call *call);
/* ?broker= and the broker of the path are known. False: answered with 404 or 400. */
bool rest_whither_good(struct rest_call *call);

/* ---- all of them */

#define REST_GATHER_US INT64_C(2000000)
struct rest_gathered { int32_t broker; int status; json_t *json; };     /* status 0: it did not answer in time; json NULL: not JSON */
struct rest_gather {
    struct rest_call *call;
    void *arg;
    void (*done)(struct rest_gather *gather);
    struct rest_gathered *brokers; uint32_t count;     /* ascending ids */
    uint32_t missing;                          /* so many did not answer with 200 and JSON */
};
/* Is there anybody else to ask? False too for a call that has come by a hop: it is answered from here alone. */
bool rest_gather_wanted(struct rest_call *call);
/* GET of target at every live broker, this one included, all at once, with the principal of the call; others are waited for two seconds at the latest, and the part of this
 * one has them as its timeout; done gets what came until then. What has no room in memory beside the answers of other gatherings is missing. It answers the call before it returns, or takes what it wants with it (json_incref): afterwards the gather is gone. */
void rest_gather(struct rest_call *call, const char *target, void *arg, void (*done)(struct rest_gather *gather));
/* The same of some. Ids of brokers that are not alive count as missing. */
void rest_gather_of(struct rest_call *call, const char *target, const int32_t *ids, uint32_t count, void *arg, void (*done)(struct rest_gather *gather));
/* The JSON of one broker; NULL: it has not answered with 200. */
json_t *rest_gathered_of(const struct rest_gather *gather, int32_t broker);
/* True: this broker itself says that the request is wrong (4xx), and the call was answered with that. */
bool rest_gather_refused(const struct rest_gather *gather);
/* When some are missing: the members "partial":true,"missing_brokers":[…] of the object that is open, and the header Ottla-Partial. Else nothing. */
void rest_gather_partial(const struct rest_gather *gather);
void rest_gather_tell(const struct rest_gather *gather);   /* the header alone */
void rest_gather_mend(const struct rest_gather *gather);   /* the same, in the object that was closed last */
/* The same as text for rest_list_reply's extra (in the call's arena), and the header. NULL: all are there. */
const char *rest_gather_extra(const struct rest_gather *gather);
/* The call's target without the query parameters that shape the answer (fields, format, pretty) and without those of `without` (comma separated, may be NULL), and with
 * `more` ("a=b&c=d", may be NULL). NULL: no memory. */
#define REST_GATHER_SHAPE "int64,consistency,min_metadata_offset,timeout_ms"     /* of what is written anew from what was gathered */
const char *rest_gather_target(struct rest_call *call, const char *without, const char *more);

#endif
