#include "rest/rows.h"
#include <stdio.h>
#include <string.h>

enum { KEY_BYTES = 300 };

int64_t rest_row_int(const json_t *row, const char *name)
{
    const json_t *value = row == NULL ? NULL : json_object_get(row, name);
    return json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
}

static double real_of(const json_t *row, const char *name)
{
    const json_t *value = json_object_get(row, name);
    return json_is_number(value) ? json_number_value(value) : -1;
}

static bool add_topic(struct rest_rows *rows, const json_t *row)
{
    const char *topic = json_string_value(json_object_get(row, "topic"));
    if (topic == NULL) return true;
    struct rest_topic_share *share = ot_map_get(&rows->map, topic, strlen(topic));
    if (share == NULL) {
        share = ot_arena_alloc(&rows->call->arena, sizeof(*share));
        if (share == NULL || ot_map_put(&rows->map, topic, strlen(topic), share) != OT_OK) return false;
    }
    const double in = real_of(row, "bytes_in_per_second"), out = real_of(row, "bytes_out_per_second");
    share->size_bytes += OT_MAX(rest_row_int(row, "size_bytes"), 0);
    share->records_estimate += OT_MAX(rest_row_int(row, "records_estimate"), 0);
    share->rates_known |= in >= 0;
    if (in > 0) share->bytes_in += in;
    if (out > 0) share->bytes_out += out;
    return true;
}

/* Each item of a list, or what was told itself. */
static bool each(struct rest_rows *rows, const struct rest_gather *gather, bool (*add)(struct rest_rows *rows, int32_t broker, json_t *row))
{
    ot_map_init(&rows->map);
    rows->call = gather->call;
    for (uint32_t i = 0; i < gather->count; i++) {
        const int32_t broker = gather->brokers[i].broker;
        json_t *told = rest_gathered_of(gather, broker), *items = json_object_get(told, "items");
        bool good = told == NULL || items != NULL || add(rows, broker, told);
        for (size_t k = 0; good && k < json_array_size(items); k++) good = add(rows, broker, json_array_get(items, k));
        if (!good) return false;
    }
    return true;
}

static bool add_share(struct rest_rows *rows, int32_t broker, json_t *row)
{
    (void)broker;
    return add_topic(rows, row);
}

bool rest_rows_topics(struct rest_rows *rows, const struct rest_gather *gather) { return each(rows, gather, add_share); }

const struct rest_topic_share *rest_rows_topic(const struct rest_rows *rows, struct ot_str topic) { return ot_map_get(&rows->map, topic.data, topic.bytes); }

static size_t key_of(char out[static KEY_BYTES], int32_t broker, const char *topic, size_t topic_bytes, int64_t partition)
{
    const int bytes = snprintf(out, KEY_BYTES, "%d:%lld:%.*s", broker, (long long)partition, (int)OT_MIN(topic_bytes, (size_t)249), topic);
    return (size_t)bytes;
}

static bool add_place(struct rest_rows *rows, int32_t broker, json_t *row)
{
    char key[KEY_BYTES];
    const json_t *topic = json_object_get(row, "topic");
    if (!json_is_string(topic)) return true;
    /* of replicas, a broker knows its own best */
    const json_t *of = json_object_get(row, "broker");
    if (json_is_integer(of) && json_integer_value(of) != broker) return true;
    const size_t bytes = key_of(key, broker, json_string_value(topic), json_string_length(topic), rest_row_int(row, "partition"));
    return ot_map_put(&rows->map, key, bytes, row) == OT_OK;
}

bool rest_rows_places(struct rest_rows *rows, const struct rest_gather *gather) { return each(rows, gather, add_place); }

json_t *rest_rows_place(const struct rest_rows *rows, int32_t broker, struct ot_str topic, int32_t partition)
{
    char key[KEY_BYTES];
    return ot_map_get(&rows->map, key, key_of(key, broker, topic.data, topic.bytes, partition));
}

void rest_rows_free(struct rest_rows *rows) { ot_map_free(&rows->map); }
