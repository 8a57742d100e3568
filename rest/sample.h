/* Totals at a moment, and the one kept from about a time ago. On the server's executor. Private to rest/. */
#ifndef OT_REST_SAMPLE_H
#define OT_REST_SAMPLE_H

#include "rest/inside.h"

void rest_sample_now(struct rest_server *server, struct rest_sample *out, bool topics);
/* The newest kept sample that is at least as old as at_us, else the oldest there is; NULL: none yet. */
const struct rest_sample *rest_sample_before(const struct rest_server *server, int64_t at_us);

#endif
