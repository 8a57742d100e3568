#include "rest/event_filter.h"

#include "base/util.h"
#include <stdio.h>
#include <string.h>

#define ALL ((UINT64_C(1) << BROKER_EVENT_TYPE_COUNT) - 1)
OT_STATIC_ASSERT(BROKER_EVENT_TYPE_COUNT < 64, "a bit each");

/* ---- asked */

static uint64_t types_of(struct ot_str word)
{
    uint64_t bits = 0;
    for (int i = 0; i < BROKER_EVENT_TYPE_COUNT; i++) {
        const struct broker_event_kind *kind = broker_event_kind((enum broker_event_type)i);
        if (ot_str_equal(word, ot_str_of(kind->name)) || ot_str_equal(word, ot_str_of(kind->family))) bits |= UINT64_C(1) << i;
    }
    return bits;
}

static void bad_type(struct rest_call *call, struct ot_str word)
{
    const char *names[2 * BROKER_EVENT_TYPE_COUNT];
    char text[64];
    for (int i = 0; i < BROKER_EVENT_TYPE_COUNT; i++) {
        names[2 * i] = broker_event_kind((enum broker_event_type)i)->name;
        names[2 * i + 1] = broker_event_kind((enum broker_event_type)i)->family;
    }
    snprintf(text, sizeof(text), "%.*s", (int)OT_MIN(word.bytes, 40u), word.data);
    const char *near = ot_nearest(text, names, OT_ARRAY_COUNT(names));
    rest_fault_query(call, "types", "names something that is no type of events and no family of them%s%s", near != NULL ? "; the nearest is " : "", near != NULL ? near : "");
}

static void read_types(struct rest_call *call, bool stream, struct rest_event_filter *out)
{
    const struct ot_str list = rest_query_text(call, "types");
    if (list.null) return;
    out->types = 0;
    for (uint32_t at = 0; at <= list.bytes;) {
        const char *comma = at < list.bytes ? memchr(list.data + at, ',', list.bytes - at) : NULL;
        const struct ot_str word = { list.data + at, comma == NULL ? list.bytes - at : (uint32_t)(comma - list.data) - at, false };
        const uint64_t bits = types_of(word);
        if (stream && ot_str_equal(word, ot_str_of("metrics"))) out->metrics = true;
        else if (bits == 0) bad_type(call, word);
        out->types |= bits;
        at += word.bytes + 1;
    }
    out->gaps_asked = (out->types >> BROKER_EVENT_GAP & 1) != 0;
}

void rest_event_filter_read(struct rest_call *call, bool stream, struct rest_event_filter *out)
{
    *out = (struct rest_event_filter){ .types = ALL, .topic = rest_query_text(call, "topic"), .group = rest_query_text(call, "group"), .partition = -1, .since_ms = -1 };
    read_types(call, stream, out);
    out->broker = rest_query_int(call, "broker", 0, INT32_MAX, -1);
}

bool rest_event_filter_keep(struct rest_event_filter *filter, struct ot_arena *arena)
{
    struct ot_str *texts[] = { &filter->topic, &filter->group };
    for (size_t i = 0; i < OT_ARRAY_COUNT(texts); i++) {
        if (texts[i]->null) continue;
        const char *copy = ot_arena_str(arena, *texts[i]);
        if (copy == NULL) return false;
        texts[i]->data = copy;
    }
    return true;
}

/* ---- held against an event */

static bool text_is(const json_t *event, const char *name, struct ot_str text)
{
    const json_t *member = json_object_get(event, name);
    return json_is_string(member) && json_string_length(member) == text.bytes && memcmp(json_string_value(member), text.data, text.bytes) == 0;
}

/* From what to what: brokers, of leaders, coordinators and replicas that move. Else it is numbers of something else, or a whole ISR, of which those count who left or joined. */
static bool goes_between_brokers(enum broker_event_type type)
{
    return type == BROKER_EVENT_LEADER_CHANGED || type == BROKER_EVENT_COORDINATOR_CHANGED || type == BROKER_EVENT_REASSIGNMENT_BEGUN || type == BROKER_EVENT_REASSIGNMENT_ENDED
        || type == BROKER_EVENT_REASSIGNMENT_CANCELLED;
}

static bool names_broker(const json_t *event, enum broker_event_type type, int64_t id)
{
    static const char *const members[] = { "broker", "leader", "removed", "added", "adding", "removing", "from", "to" };
    for (size_t i = 0; i < OT_ARRAY_COUNT(members) - (goes_between_brokers(type) ? 0 : 2); i++) {
        const json_t *member = json_object_get(event, members[i]), *one;
        size_t k;
        if (json_is_integer(member) && json_integer_value(member) == id) return true;
        json_array_foreach(member, k, one) if (json_is_integer(one) && json_integer_value(one) == id) return true;
    }
    return false;
}

static bool read_event(const json_t *event, struct rest_event *out)
{
    const json_t *type = json_object_get(event, "type"), *at = json_object_get(event, "at"), *version = json_object_get(event, "version");
    *out = (struct rest_event){ .at_ms = -1, .of_state = json_is_integer(version), .version = json_integer_value(version), .n = json_integer_value(json_object_get(event, "n")) };
    if (!json_is_string(type) || !broker_event_type_parse((struct ot_str){ json_string_value(type), (uint32_t)json_string_length(type), false }, &out->type)) return false;
    if (json_is_string(at)) (void)ot_time_parse(json_string_value(at), &out->at_ms);
    return true;
}

bool rest_event_passes(const struct rest_event_filter *filter, struct ot_blob blob, struct rest_event *out)
{
    json_t *event = blob.null ? NULL : json_loadb((const char *)blob.data, blob.bytes, JSON_REJECT_DUPLICATES, NULL);
    bool passes = event != NULL && read_event(event, out);
    const bool gap = passes && out->type == BROKER_EVENT_GAP;  /* what is not known may have been what is asked for */
    if (passes && !gap) {
        passes = (filter->types >> out->type & 1) != 0 && (filter->since_ms < 0 || out->at_ms >= filter->since_ms);
        if (passes && !filter->topic.null) passes = text_is(event, "topic", filter->topic);
        if (passes && filter->partition >= 0) {
            const json_t *partition = json_object_get(event, "partition");
            passes = json_is_integer(partition) && json_integer_value(partition) == filter->partition;
        }
        if (passes && !filter->group.null) passes = text_is(event, "group", filter->group);
        if (passes && filter->broker >= 0) passes = names_broker(event, out->type, filter->broker);
    }
    json_decref(event);
    return passes;
}

void rest_event_write(struct rest_json *out, int64_t id, struct ot_blob json)
{
    rest_json_open(out, NULL, '{');
    rest_json_big(out, "id", id);
    rest_json_put(out, ",", 1);
    rest_json_put(out, (const char *)json.data + 1, json.bytes - 1);   /* it is an object, and closes this one */
    out->comma = true;
}

bool rest_event_again(struct rest_event_seen *seen, const struct rest_event *event)
{
    if (!event->of_state || event->type == BROKER_EVENT_GAP) return false;
    const bool again = event->version < seen->version || (event->version == seen->version && event->n <= seen->n);
    if (!again) *seen = (struct rest_event_seen){ event->version, event->n };
    return again;
}
