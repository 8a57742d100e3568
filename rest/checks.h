/* Health checks of the cluster as this broker sees it: one row each, for /v1/cluster/health, /readyz?verbose and alerting. Private to rest/. */
#ifndef OT_REST_CHECKS_H
#define OT_REST_CHECKS_H

#include "rest/call.h"

/* "ok", "degraded" (something is wrong, nothing is refused), "failing". */
const char *rest_checks_status(struct rest_call *call, const struct broker_view *view);

/* The same from what every broker told of REST_CHECKS_TARGET; a broker that did not answer degrades. */
#define REST_CHECKS_TARGET "/v1/cluster/health"
struct rest_gather;
const char *rest_checks_told(const struct rest_gather *all);

/* The wall clock against the one that only ever goes on: how far the former jumped. Retention, lag in time and time indexes go by the wall clock. */
#define REST_CLOCK_STEP_MS  1000               /* a jump; slewing is slower by far */
#define REST_CLOCK_TOLD_US  INT64_C(600000000) /* a jump is told for so long */
struct rest_clock { bool begun; int64_t apart_ms; int64_t stepped_us, stepped_ms; };      /* stepped_us 0: it never did */
void rest_clock_look(struct rest_clock *clock, int64_t wall_ms, int64_t boot_us);
bool rest_clock_steady(const struct rest_clock *clock, int64_t boot_us);

/* Looks at all of them. */
void rest_checks_tick(struct rest_server *server);

#endif
