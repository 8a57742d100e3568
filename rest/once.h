/* Idempotency-Key: the first answer to a POST is kept under its key for 24 hours and given again to whoever repeats the request. Private to rest/.
 *
 * Kept in this broker's memory: a restart forgets. At most REST_ONCE_KEYS keys and REST_ONCE_BYTES of answers; the oldest give way. Answers that tell of a
 * failure that may pass (5xx, 429) are not kept, so that a repetition is a new try. On the server's executor. */
#ifndef OT_REST_ONCE_H
#define OT_REST_ONCE_H

#include "rest/call.h"

#define REST_ONCE_KEYS 10000
#define REST_ONCE_BYTES (32u << 20)
#define REST_ONCE_KEY_BYTES 255

/* True: answered (again, or because the key is wrong, was used for something else, or its request is in work). False: go on; the answer will be kept. */
bool rest_once_begin(struct rest_call *call);
void rest_once_answered(struct rest_call *call);           /* the answer of a call stands */
void rest_onces_free(struct rest_server *server);

#endif
