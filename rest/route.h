/* The table of everything that is served: dispatch, Allow, the index at /v1, permitted query parameters, and the test that holds openapi/ottla.yaml
 * against it read these rows. A new operation is a row, a handler, its OpenAPI entry with an example, and nothing else. */
#ifndef OT_REST_ROUTE_H
#define OT_REST_ROUTE_H

#include "base/bytes.h"

#define REST_PARAMS_MAX 4

enum rest_method { REST_GET, REST_POST, REST_PUT, REST_PATCH, REST_DELETE, REST_METHODS };
enum rest_route_flags {
    REST_LIST = 1,             /* limit, page_token, fields, format; ndjson, csv and table by Accept */
    REST_WRITE = 2,            /* changes something: same origin, audit line, timeout_ms */
    REST_JSON_BODY = 4,        /* a JSON object is required */
    REST_RECORD_BODY = 8,      /* JSON, text/plain, application/octet-stream or application/x-ndjson */
    REST_DRY = 16,             /* validate_only */
    REST_META = 32,            /* read from the metadata image: min_metadata_offset, Ottla-Metadata-Lag-Ms */
    REST_PROBE = 64,           /* never rate limited */
    REST_ANY_TYPE = 128,       /* the answer's type is what it is: Accept is not looked at */
    REST_HTML = 256,           /* also as a page for people */
    REST_LINES = 512,          /* also as NDJSON, one record a line: format, or Accept */
    REST_LOCAL = 1024,         /* about one broker alone, this one or that of ?broker= */
    REST_ONCE = 2048,          /* Idempotency-Key is heeded */
    REST_DEEP = 8192,          /* the last parameter of the path may be several segments */
    REST_EVENTS = 4096,        /* an event stream */
    /* who answers, when it is not whoever is asked (rest/hop.h) */
    REST_AT_LEADER = 16384,    /* of {topic}, {partition}: the first two parameters */
    REST_AT_GROUP = 32768,     /* the coordinator of {group}: the first parameter */
    REST_AT_TRANSACTION = 65536,       /* likewise */
    REST_AT_BROKER = 131072,   /* the broker of the first parameter */
    REST_AT_JOB = 524288,      /* the broker that has the job of the first parameter, by its id */
    REST_AT_NODE = 262144      /* of the registry: what is told of a group, at its coordinator */
};

struct rest_call;
struct rest_route {
    enum rest_method method;
    const char *pattern;       /* "/v1/topics/{topic}/config"; {topic_id} matches only what is one */
    const char *operation;     /* operationId */
    void (*handler)(struct rest_call *call);
    uint32_t flags;
    const char *query;         /* query parameters of its own, comma separated, or NULL */
    const char *summary;
};
const struct rest_route *rest_routes(uint32_t *count_out);
const char *rest_method_name(enum rest_method method);
bool rest_method_parse(const char *name, enum rest_method *out);

/* OK: *out and params are set. UNKNOWN path: NOT_FOUND. Another method is served there: INVALID_REQUEST, and allow_out lists the methods ("GET, HEAD, OPTIONS"). */
#define REST_ALLOW_BYTES 64
OT_MUST_CHECK enum ot_err rest_route_find(enum rest_method method, const struct ot_str *segments, uint32_t segment_count, const struct rest_route **out,
    struct ot_str params[static REST_PARAMS_MAX], char allow_out[static REST_ALLOW_BYTES]);
/* May the route be asked with this query parameter? near_out: the nearest that may, or empty. */
#define REST_NEAR_BYTES 40
bool rest_route_takes(const struct rest_route *route, struct ot_str name, char near_out[static REST_NEAR_BYTES]);
/* All of them, in a fixed order; how many. */
#define REST_ROUTE_QUERY_MAX 32
uint32_t rest_route_query(const struct rest_route *route, const char *out[static REST_ROUTE_QUERY_MAX], char storage[static 512]);

#endif
