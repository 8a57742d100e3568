/* Headers of requests and responses, prefixes of records, and look-ups in the generated tables. */
#include "base/wire/apis.h"
#include "base/wire/internal.h"
#include "base/wire/messages.h"
#include "base/wire/request_header.h"
#include "base/wire/response_header.h"
#include <string.h>

/* ---- the API table */

const struct ot_api *ot_api_find(int16_t key)
{
    size_t low = 0, high = ot_api_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ot_apis[middle].key < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < ot_api_count && ot_apis[low].key == key ? &ot_apis[low] : NULL;
}

int16_t ot_api_version_max(const struct ot_api *api, bool unstable)
{
    return (int16_t)(api->version_max - ((api->flags & OT_API_LATEST_UNSTABLE) && !unstable ? 1 : 0));
}

bool ot_api_serves(const struct ot_api *api, int16_t version, bool unstable)
{
    return version >= api->version_min && version <= ot_api_version_max(api, unstable);
}

int16_t ot_api_request_header_version(const struct ot_api *api, int16_t version)
{
    return version >= api->flexible_min ? 2 : 1;
}

int16_t ot_api_response_header_version(const struct ot_api *api, int16_t version)
{
    return version >= api->flexible_min && api->key != OT_API_API_VERSIONS ? 1 : 0;
}

/* ---- requests and responses */

__attribute__((cold, format(printf, 3, 4))) static enum ot_err refuse(
    struct ot_wire_error *error, enum ot_err err, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    ot_wire_error_fill(error, NULL, NULL, format, arguments);
    va_end(arguments);
    return err;
}

enum ot_err ot_wire_request_header_decode(
    struct ot_reader *in, struct ot_arena *arena, struct ot_wire_request_header *out, struct ot_wire_error *error)
{
    *out = (struct ot_wire_request_header){.client_id.null = true};
    if (ot_reader_left(in) < 8) {
        ot_reader_fail(in, OT_ERR_SHORT);
        return refuse(error, OT_ERR_SHORT, "%zu bytes are no request header", ot_reader_left(in));
    }
    out->key = ot_load_i16(in->at);
    out->version = ot_load_i16(in->at + 2);
    out->correlation_id = ot_load_i32(in->at + 4);
    out->api = ot_api_find(out->key);
    if (out->api == NULL) {
        return refuse(error, OT_ERR_UNSUPPORTED_VERSION, "no API has key %d", out->key);
    }
    struct ot_request_header header;
    enum ot_err err = ot_request_header_decode(&header, ot_api_request_header_version(out->api, out->version), in, arena, error);
    if (err == OT_OK) {
        out->client_id = header.client_id;
        out->tags = header._tags;
    }
    return err;
}

enum ot_err ot_wire_request_header_encode(const struct ot_wire_request_header *in, struct ot_writer *out)
{
    struct ot_request_header header = {.request_api_key = in->api->key,
        .request_api_version = in->version,
        .correlation_id = in->correlation_id,
        .client_id = in->client_id,
        ._tags = in->tags};
    return ot_request_header_encode(&header, ot_api_request_header_version(in->api, in->version), out);
}

enum ot_err ot_wire_response_header_encode(const struct ot_api *api, int16_t version, int32_t correlation_id, struct ot_writer *out)
{
    struct ot_response_header header = {.correlation_id = correlation_id};
    return ot_response_header_encode(&header, ot_api_response_header_version(api, version), out);
}

enum ot_err ot_wire_response_header_decode(const struct ot_api *api, int16_t version, struct ot_reader *in, struct ot_arena *arena,
    int32_t *correlation_id_out, struct ot_wire_error *error)
{
    struct ot_response_header header;
    enum ot_err err = ot_response_header_decode(&header, ot_api_response_header_version(api, version), in, arena, error);
    *correlation_id_out = header.correlation_id;
    return err;
}

size_t ot_wire_response_header_bytes(const struct ot_api *api, int16_t version)
{
    return ot_api_response_header_version(api, version) == 0 ? 4 : 5;
}

/* ---- messages in records */

enum ot_err ot_wire_framed_encode(const struct ot_wire_message *message, int16_t version, const void *in, struct ot_writer *out)
{
    switch ((enum ot_wire_frame)message->frame) {
    case OT_WIRE_FRAME_NONE: break;
    case OT_WIRE_FRAME_API: ot_write_u16(out, (uint16_t)message->api); break;
    case OT_WIRE_FRAME_VERSION: ot_write_u16(out, (uint16_t)version); break;
    case OT_WIRE_FRAME_METADATA:
        ot_write_uvarint(out, 1);
        ot_write_uvarint(out, (uint32_t)message->api);
        ot_write_uvarint(out, (uint32_t)version);
        break;
    }
    return ot_wire_encode(message, version, in, out, NULL);
}

/* Reads the prefix. *api_out is the record type where the prefix has one, *version_out the version where it has one; else
 * untouched. */
static enum ot_err read_prefix(enum ot_wire_frame frame, struct ot_reader *in, int64_t *api_out, int64_t *version_out)
{
    switch (frame) {
    case OT_WIRE_FRAME_API: *api_out = ot_read_i16(in); break;
    case OT_WIRE_FRAME_VERSION: *version_out = ot_read_i16(in); break;
    case OT_WIRE_FRAME_METADATA: {
        uint32_t format = ot_read_uvarint(in);
        *api_out = ot_read_uvarint(in);
        *version_out = ot_read_uvarint(in);
        if (in->err == OT_OK && format != 1) {
            ot_reader_fail(in, OT_ERR_UNSUPPORTED_VERSION);
        }
        break;
    }
    case OT_WIRE_FRAME_NONE: ot_reader_fail(in, OT_ERR_MALFORMED); break;
    }
    return in->err;
}

enum ot_err ot_wire_framed_decode(const struct ot_wire_message *message, struct ot_reader *in, struct ot_arena *arena, void *out,
    int16_t *version_out, struct ot_wire_error *error)
{
    int64_t api = message->api, version = message->version_max;
    enum ot_err err = read_prefix((enum ot_wire_frame)message->frame, in, &api, &version);
    if (err != OT_OK) {
        return refuse(error, err, "no prefix of a record's %s", message->name);
    }
    if (api != message->api) {
        ot_reader_fail(in, OT_ERR_MISMATCH);
        return refuse(
            error, OT_ERR_MISMATCH, "record type %lld is not that of %s, %d", (long long)api, message->name, message->api);
    }
    if (version < message->version_min || version > message->version_max) {
        ot_reader_fail(in, OT_ERR_UNSUPPORTED_VERSION);
        return refuse(error, OT_ERR_UNSUPPORTED_VERSION, "%s has versions %d to %d, not %lld", message->name, message->version_min,
            message->version_max, (long long)version);
    }
    *version_out = (int16_t)version;
    return ot_wire_decode_all(message, (int16_t)version, in, arena, out, error);
}

enum ot_err ot_wire_frame_peek(enum ot_wire_frame frame, const struct ot_reader *in, int16_t *out)
{
    struct ot_reader copy = *in;
    int64_t api = -1, version = -1;
    enum ot_err err = read_prefix(frame, &copy, &api, &version);
    int64_t asked = frame == OT_WIRE_FRAME_VERSION ? version : api;
    if (err == OT_OK && asked > INT16_MAX) {
        err = OT_ERR_MALFORMED;
    }
    *out = err == OT_OK ? (int16_t)asked : -1;
    return err;
}

const struct ot_wire_message *ot_wire_find(enum ot_wire_kind kind, enum ot_wire_area area, int16_t api)
{
    for (size_t i = 0; i < ot_wire_message_count; i++) {
        const struct ot_wire_message *message = ot_wire_messages[i];
        if (message->kind == kind && message->area == area && message->api == api && api >= 0) {
            return message;
        }
    }
    return NULL;
}

const struct ot_wire_message *ot_wire_find_name(const char *name)
{
    for (size_t i = 0; i < ot_wire_message_count; i++) {
        if (strcmp(ot_wire_messages[i]->name, name) == 0) {
            return ot_wire_messages[i];
        }
    }
    return NULL;
}
