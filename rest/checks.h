/* Health checks of the cluster as this broker sees it: one row each, for /v1/cluster/health, /readyz?verbose and alerting. Private to rest/. */
#ifndef OT_REST_CHECKS_H
#define OT_REST_CHECKS_H

#include "rest/call.h"

/* "ok", "degraded" (something is wrong, nothing is refused), "failing". */
const char *rest_checks_status(struct rest_call *call, const struct broker_view *view);

/* Looks at all of them. */
void rest_checks_tick(struct rest_server *server);

#endif
