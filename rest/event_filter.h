/* Which events a client wants to see: types (or families of them), topic, partition, broker, group. Private to rest/. */
#ifndef OT_REST_EVENT_FILTER_H
#define OT_REST_EVENT_FILTER_H

#include "broker/events.h"
#include "rest/call.h"

struct rest_event_filter {
    uint64_t types;                            /* a bit each */
    bool gaps_asked;                           /* gap is among them because somebody named it; it always passes */
    bool metrics;                              /* of a stream: ticks too */
    struct ot_str topic, group;                /* null: any; of the call's arena until kept */
    int64_t partition, broker;                 /* -1: any */
    int64_t since_ms;                          /* -1: any */
};
/* types, topic, broker, group; faults go to the call. stream: `metrics` is a type too. */
void rest_event_filter_read(struct rest_call *call, bool stream, struct rest_event_filter *out);
/* Its texts into memory that lives longer. False: no memory. */
bool rest_event_filter_keep(struct rest_event_filter *filter, struct ot_arena *arena);

/* What was read of one event. A record that is none passes no filter. */
struct rest_event { enum broker_event_type type; int64_t at_ms; bool of_state; int64_t version, n; };
bool rest_event_passes(const struct rest_event_filter *filter, struct ot_blob json, struct rest_event *out);
/* The event with its id as first member. */
void rest_event_write(struct rest_json *out, int64_t id, struct ot_blob json);
/* Events about the cluster's state that were written twice (a coordinator that was cut off wrote what its successor had written) are shown once: true, it was seen before. */
struct rest_event_seen { int64_t version, n; };
bool rest_event_again(struct rest_event_seen *seen, const struct rest_event *event);

#endif
