/* What stands around messages: the header of a request or response, and the prefix of a message kept in a record.
 *
 *   request   int32 size | int16 key | int16 version | int32 correlation id | int16-length client id | [tags] | body
 *   response  int32 size | int32 correlation id | [tags] | body
 *   API       int16 record type | message                         keys of coordinator records
 *   VERSION   int16 version | message                             values of coordinator records, versioned data
 *   METADATA  uvarint 1 | uvarint record type | uvarint version | message
 *
 * The response of ApiVersions never has tags in its header: a client that asks in a version we do not know must be able to
 * read the answer. */
#ifndef OT_WIRE_FRAME_H
#define OT_WIRE_FRAME_H

#include "base/wire/codec.h"

/* ---- the API table (apis.h has the keys; rows ascend by key) */

enum ot_api_flag {
    OT_API_ON_BROKER = 1,
    OT_API_ON_CONTROLLER = 2,
    OT_API_ON_PEER = 4, /* listeners; peer: our own, keys from 10000 */
    OT_API_CLUSTER_ACTION = 8,
    OT_API_FORWARDABLE = 16,
    OT_API_LATEST_UNSTABLE = 32
};
struct ot_api {
    int16_t key;
    const char *name;                 /* "Produce" */
    const char *upper;                /* "PRODUCE" */
    int16_t version_min, version_max; /* served; version_max only with unstable versions on where LATEST_UNSTABLE is set */
    int16_t advertised_min; /* as version_min but for Produce, which advertises 0: old librdkafka infers its codecs from it */
    int16_t flexible_min;
    uint16_t flags;
    const struct ot_wire_message *request, *response;
};
extern const struct ot_api ot_apis[];
extern const size_t ot_api_count;
const struct ot_api *ot_api_find(int16_t key); /* NULL: unknown or reserved */
int16_t ot_api_version_max(const struct ot_api *api, bool unstable);
bool ot_api_serves(const struct ot_api *api, int16_t version, bool unstable);
/* Header versions, also for versions beyond ours (the next ones are flexible if the last one is). */
int16_t ot_api_request_header_version(const struct ot_api *api, int16_t version);
int16_t ot_api_response_header_version(const struct ot_api *api, int16_t version);

/* ---- requests and responses, without the size in front */

struct ot_wire_request_header {
    const struct ot_api *api;
    int16_t key, version;
    int32_t correlation_id;
    struct ot_str client_id; /* borrowed */
    struct ot_wire_tags tags;
};
/* Reads the header and leaves the reader at the body. UNSUPPORTED_VERSION: the key is unknown (api NULL); key, version and
 * correlation id are filled whenever 8 bytes were there. A known key in a version that is not served is not an error here:
 * ask ot_api_serves. */
OT_MUST_CHECK enum ot_err ot_wire_request_header_decode(
    struct ot_reader *in, struct ot_arena *arena, struct ot_wire_request_header *out, struct ot_wire_error *error);
OT_MUST_CHECK enum ot_err ot_wire_request_header_encode(const struct ot_wire_request_header *in, struct ot_writer *out);
/* The header of the answer to a request of this API and version; and of the answer that came. */
OT_MUST_CHECK enum ot_err ot_wire_response_header_encode(
    const struct ot_api *api, int16_t version, int32_t correlation_id, struct ot_writer *out);
OT_MUST_CHECK enum ot_err ot_wire_response_header_decode(const struct ot_api *api, int16_t version, struct ot_reader *in,
    struct ot_arena *arena, int32_t *correlation_id_out, struct ot_wire_error *error);
size_t ot_wire_response_header_bytes(const struct ot_api *api, int16_t version);

/* ---- messages in records */

/* With the prefix that message->frame names. A message without one is written bare. */
OT_MUST_CHECK enum ot_err ot_wire_framed_encode(
    const struct ot_wire_message *message, int16_t version, const void *in, struct ot_writer *out);
/* Refuses another record type (MISMATCH), a version that is not known (UNSUPPORTED_VERSION) and bytes left over. Keys have no
 * version in front: they are read in their only one. A message with frame NONE cannot be read this way (MALFORMED). */
OT_MUST_CHECK enum ot_err ot_wire_framed_decode(const struct ot_wire_message *message, struct ot_reader *in, struct ot_arena *arena,
    void *out, int16_t *version_out, struct ot_wire_error *error);
/* The record type (API, METADATA) or the version (VERSION) in front, without moving the reader. */
OT_MUST_CHECK enum ot_err ot_wire_frame_peek(enum ot_wire_frame frame, const struct ot_reader *in, int16_t *out);
/* Which message a record holds: by kind, area and record type; and by name. NULL when there is none. */
const struct ot_wire_message *ot_wire_find(enum ot_wire_kind kind, enum ot_wire_area area, int16_t api);
const struct ot_wire_message *ot_wire_find_name(const char *name);

#endif
