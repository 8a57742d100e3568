/* Problems that HTTP has and Kafka does not, one row each; with the error table (base/err_table.h) they are all that a client can be told.
 *
 *    name                       status  retriable  title; what it means, for the page at /problems/{slug} */
#ifndef OT_REST_PROBLEM_H
#define OT_REST_PROBLEM_H

#include "base/err.h"

#define REST_PROBLEMS(X) \
    X(HTTP_BAD_REQUEST,           400, false, "The request makes no sense", "The request target or a header is malformed. The detail says which.") \
    X(HTTP_FORBIDDEN_ORIGIN,      403, false, "A page of another site may not write here", "A browser sent this on behalf of a page that did not come from this server. Writes are taken from the same origin, or from clients that are no browsers.") \
    X(HTTP_NOT_FOUND,             404, false, "Nothing is served at this path", "GET /v1 lists what is served. Names with a slash in them are written with %2F.") \
    X(HTTP_METHOD_NOT_ALLOWED,    405, false, "The path does not take this method", "The Allow header lists the methods that it takes.") \
    X(HTTP_NOT_ACCEPTABLE,        406, false, "No such format", "None of the formats of the Accept header is served at this path. Lists come as JSON, NDJSON, CSV and table.") \
    X(HTTP_CONFLICT,              409, false, "It is not in a state for that", "What is asked does not go with the state that it is in. The detail says which.") \
    X(HTTP_GONE,                  410, false, "It is no longer kept", "What is asked for is older than what the server keeps. The detail says where it begins now.") \
    X(HTTP_PRECONDITION_FAILED,   412, false, "It has changed meanwhile", "If-Match names a version that is no longer the current one, or If-None-Match: * forbids to replace what exists. Read again, decide again, then send the new ETag.") \
    X(HTTP_CONTENT_TOO_LARGE,     413, false, "The body is too large", "The body is above rest.max.request.bytes, nested more than 64 deep, or holds too many values. Send it in parts.") \
    X(HTTP_URI_TOO_LONG,          414, false, "The request target is too long", "A request target may have 8 KiB.") \
    X(HTTP_UNSUPPORTED_MEDIA_TYPE, 415, false, "The body has a type that is not taken here", "Bodies are application/json; records are also taken as text/plain, application/octet-stream and application/x-ndjson. Compressed bodies are not taken.") \
    X(HTTP_MISDIRECTED_REQUEST,   421, false, "The Host is not ours", "The Host header names something that is not this server. That stops pages that point a name of their own at this address. Use an IP address, localhost, the name of the machine, or the host of rest.listeners.") \
    X(HTTP_KEY_REUSED,            422, false, "The Idempotency-Key was used for another request", "The same key came before with another method, path or body within 24 hours. Nothing was done. A new request takes a new key.") \
    X(HTTP_PRECONDITION_REQUIRED, 428, false, "If-Match is required", "rest.require.if.match is set: a change of a topic or configuration names the version that it is meant for, as its ETag told, in If-Match (or sends If-None-Match: * to create only).") \
    X(HTTP_TOO_MANY_REQUESTS,     429, true,  "Too many requests", "One client address may send 200 requests a second. Retry-After tells when to come again.") \
    X(HTTP_HEADERS_TOO_LARGE,     431, false, "The headers are too large", "A header block may have 32 KiB.") \
    X(HTTP_INTERNAL_ERROR,        500, false, "The server met an error it has no name for", "The log of the broker has a line with the request id.") \
    X(HTTP_SERVICE_UNAVAILABLE,   503, true,  "Not now", "The server is starting or stopping, or a memory pool is at its cap. Retry-After tells when to come again.") \
    X(HTTP_INSUFFICIENT_STORAGE,  507, false, "The disk is full", "Free space in a log directory is below ottla.disk.free.refuse.bytes: produce is refused, reads and deletes go on. Delete topics or records, shorten retention, or add space.") \
    /* end */

struct rest_problem_row { const char *name; int status; bool retriable; const char *title, *text; };
/* NULL: no such row. */
const struct rest_problem_row *rest_problem_row(const char *name);

/* How an error is told: name and code of Kafka where it has them, else of HTTP. */
struct rest_problem_facts { const char *name; int status; int code; bool has_code, retriable; char title[120]; };
void rest_problem_of(enum ot_err err, struct rest_problem_facts *out);
void rest_problem_of_row(const struct rest_problem_row *row, struct rest_problem_facts *out);
/* "NOT_ENOUGH_REPLICAS" → "not-enough-replicas" */
#define REST_SLUG_BYTES 64
void rest_problem_slug(const char *name, char out[static REST_SLUG_BYTES]);

#endif
