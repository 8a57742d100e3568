/* Texts of events: one JSON object each, by hand, since the broker speaks no JSON otherwise. */
#include "broker/events_inner.h"

#include "base/util.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct broker_event_kind kinds[BROKER_EVENT_TYPE_COUNT] = {
#define X(type, name, family, begins, text) [BROKER_EVENT_##type] = { name, family, begins, text },
    BROKER_EVENT_TYPES(X)
#undef X
};

const struct broker_event_kind *broker_event_kind(enum broker_event_type type) { return &kinds[type]; }

bool broker_event_type_parse(struct ot_str name, enum broker_event_type *out)
{
    for (int i = 0; i < BROKER_EVENT_TYPE_COUNT; i++) {
        if (!ot_str_equal(name, ot_str_of(kinds[i].name))) continue;
        *out = (enum broker_event_type)i;
        return true;
    }
    return false;
}

/* ---- pieces; whatever is too long marks the writer, and is taken back by whoever began it */

struct out { char *at, *end; bool full; };

static void put(struct out *out, const char *text, size_t bytes)
{
    if (out->full || bytes > (size_t)(out->end - out->at)) {
        out->full = true;
        return;
    }
    memcpy(out->at, text, bytes);
    out->at += bytes;
}

static void put_text(struct out *out, const char *text) { put(out, text, strlen(text)); }

static void put_quoted(struct out *out, struct ot_str text)
{
    char escape[8];
    if (text.null || text.data == NULL) {
        put_text(out, "null");
        return;
    }
    const bool utf8 = ot_utf8_valid(text.data, text.bytes);
    put_text(out, "\"");
    for (uint32_t i = 0; i < text.bytes; i++) {
        const unsigned char c = (unsigned char)text.data[i];
        if (c == '"' || c == '\\') {
            put(out, (const char[]){ '\\', (char)c }, 2);
        } else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8)) {
            put(out, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c >= 0x80 ? 0xfffdu : c));
        } else {
            put(out, (const char *)&text.data[i], 1);
        }
    }
    put_text(out, "\"");
}

static void put_key(struct out *out, const char *key)
{
    put_text(out, ",\"");
    put_text(out, key);
    put_text(out, "\":");
}

static void put_number(struct out *out, int64_t value)
{
    char text[24];
    put(out, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

/* ---- fields: each begins with a comma */

static struct out field_begin(struct broker_event_fields *fields, const char *key)
{
    struct out out = { fields->text + fields->bytes, fields->text + sizeof fields->text, false };
    put_key(&out, key);
    return out;
}

static void field_end(struct broker_event_fields *fields, const struct out *out)
{
    if (out->full) fields->cut = true;
    else fields->bytes = (uint32_t)(out->at - fields->text);
}

void broker_event_int(struct broker_event_fields *fields, const char *key, int64_t value)
{
    struct out out = field_begin(fields, key);
    put_number(&out, value);
    field_end(fields, &out);
}

void broker_event_int_or_null(struct broker_event_fields *fields, const char *key, int64_t value)
{
    struct out out = field_begin(fields, key);
    if (value < 0) put_text(&out, "null");
    else put_number(&out, value);
    field_end(fields, &out);
}

void broker_event_bool(struct broker_event_fields *fields, const char *key, bool value)
{
    struct out out = field_begin(fields, key);
    put_text(&out, value ? "true" : "false");
    field_end(fields, &out);
}

void broker_event_str(struct broker_event_fields *fields, const char *key, struct ot_str text)
{
    struct out out = field_begin(fields, key);
    put_quoted(&out, text);
    field_end(fields, &out);
}

void broker_event_text(struct broker_event_fields *fields, const char *key, const char *text) { broker_event_str(fields, key, ot_str_of(text)); }

void broker_event_ids(struct broker_event_fields *fields, const char *key, const int32_t *ids, int32_t count)
{
    struct out out = field_begin(fields, key);
    put_text(&out, "[");
    for (int32_t i = 0; i < count; i++) {
        if (i > 0) put_text(&out, ",");
        put_number(&out, ids[i]);
    }
    put_text(&out, "]");
    field_end(fields, &out);
}

void broker_event_epochs(struct broker_event_fields *fields, const char *key, const struct broker_epoch_start *epochs, uint32_t count)
{
    struct out out = field_begin(fields, key);
    for (uint32_t i = 0; i < count; i++) {
        put_text(&out, i == 0 ? "[{\"epoch\":" : ",{\"epoch\":");
        put_number(&out, epochs[i].epoch);
        put_key(&out, "start_offset");
        put_number(&out, epochs[i].start);
        put_text(&out, "}");
    }
    put_text(&out, count == 0 ? "[]" : "]");
    field_end(fields, &out);
}

/* ---- whole events */

enum { TEXT_BYTES_MAX = 8192 };                /* more than all that can be in one: names of at most 249 bytes that may need six characters each, and the fields */
#define STATE_PREFIX "{\"version\":"

static void put_member(struct out *out, const char *key, struct ot_str text)
{
    if (text.null || text.data == NULL) return;
    put_key(out, key);
    put_quoted(out, text);
}

static void put_place(struct out *out, const struct broker_event_place *place, int32_t term)
{
    char text[128];
    put(out, text, (size_t)snprintf(text, sizeof text, STATE_PREFIX "%" PRId64 ",\"n\":%u,\"hash\":\"%016" PRIx64 "\",\"term\":%d", place->version, place->n, place->hash, term));
}

static void put_source(struct out *out, const struct broker_event_source *source)
{
    char text[128];
    put(out, text, (size_t)snprintf(text, sizeof text, "{\"source\":{\"broker\":%d,\"epoch\":%" PRId64 ",\"n\":%" PRIu64 "}", source->broker, source->epoch, source->n));
}

struct broker_event_text *broker_event_text_new(const struct broker_event *event, int64_t wall_ms, const struct broker_event_place *place, int32_t term, const struct broker_event_source *source)
{
    char room[TEXT_BYTES_MAX], time[25];
    struct out out = { room, room + sizeof room, false };
    if (place != NULL) put_place(&out, place, term);
    else put_source(&out, source);
    put_member(&out, "type", ot_str_of(kinds[event->type].name));
    ot_time_text(event->at_ms != 0 ? event->at_ms : wall_ms, time);
    put_member(&out, "at", ot_str_of(time));
    put_member(&out, "topic", event->topic);
    if (!event->topic.null && event->topic.data != NULL && event->partition >= 0) {
        put_key(&out, "partition");
        put_number(&out, event->partition);
    }
    if (event->broker >= 0) {
        put_key(&out, "broker");
        put_number(&out, event->broker);
    }
    put_member(&out, "group", event->group);
    put_member(&out, "reason", ot_str_of(event->reason));
    if (event->fields != NULL) put(&out, event->fields->text, event->fields->bytes);
    if (event->fields != NULL && event->fields->cut) put_text(&out, ",\"cut\":true");
    put_text(&out, "}");
    const size_t bytes = (size_t)(out.at - room);
    struct broker_event_text *text = out.full ? NULL : malloc(sizeof *text + bytes);
    if (text == NULL) return NULL;
    *text = (struct broker_event_text){ .type = event->type, .kept = event->kept, .arg = event->arg, .at_ms = event->at_ms != 0 ? event->at_ms : wall_ms, .bytes = (uint32_t)bytes };
    if (place != NULL) {
        text->version = place->version;
        text->n = place->n;
        text->hash = place->hash;
    }
    memcpy(text->text, room, bytes);
    return text;
}

bool broker_event_place_parse(struct ot_blob json, struct broker_event_place *out)
{
    char text[128];
    const size_t bytes = OT_MIN((size_t)json.bytes, sizeof text - 1);
    if (json.null || bytes < sizeof STATE_PREFIX) return false;
    memcpy(text, json.data, bytes);
    text[bytes] = 0;
    *out = (struct broker_event_place){ .known = true };
    return sscanf(text, STATE_PREFIX "%" SCNd64 ",\"n\":%u,\"hash\":\"%16" SCNx64 "\"", &out->version, &out->n, &out->hash) == 3;
}
