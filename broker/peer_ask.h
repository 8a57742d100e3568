/* Private to broker/: requests to the coordinator as peers send them to each other (base/wire/schema_ottla/PeerAsk*.txt). */
#ifndef OT_BROKER_PEER_ASK_H
#define OT_BROKER_PEER_ASK_H

#include "base/wire/peer_ask_request.h"
#include "base/wire/peer_ask_response.h"
#include "coordinator/coord.h"

/* out borrows from request; arrays come from the arena. NO_MEMORY. */
OT_MUST_CHECK enum ot_err broker_peer_ask_write(const struct coord_request *request, struct ot_arena *arena, struct ot_peer_ask_request *out);
/* The other way. MALFORMED: it says what cannot be, or says nothing of what it asks. sender: who asks; what only concerns a broker itself is taken from nobody else. */
OT_MUST_CHECK enum ot_err broker_peer_ask_read(const struct ot_peer_ask_request *in, int32_t sender, struct ot_arena *arena, struct coord_request *out);

/* Of an answered request. NO_MEMORY. */
OT_MUST_CHECK enum ot_err broker_peer_answer_write(const struct coord_request *request, struct ot_arena *arena, struct ot_peer_ask_response *out);
/* Fills in what was asked. MALFORMED: it does not fit; the request is as before. */
OT_MUST_CHECK enum ot_err broker_peer_answer_read(const struct ot_peer_ask_response *in, struct coord_request *request);

#endif
