#include "rest/filter.h"
#include <stdlib.h>
#include <string.h>

static struct ot_blob blob_of(struct ot_str text) { return (struct ot_blob){ (const uint8_t *)text.data, text.bytes, text.null }; }

static int by_number(const void *a, const void *b)
{
    const int32_t one = *(const int32_t *)a, *two = b;
    return (one > *two) - (one < *two);
}

/* "0,3,5" */
static void read_partitions(struct rest_call *call, int32_t partition_count, struct rest_filter *out)
{
    const struct ot_str list = rest_query_text(call, "partition");
    for (uint32_t at = 0; !list.null && at <= list.bytes;) {
        uint32_t end = at;
        int64_t number = 0;
        while (end < list.bytes && list.data[end] >= '0' && list.data[end] <= '9' && end - at < 10) number = number * 10 + (list.data[end++] - '0');
        if (end == at || (end < list.bytes && list.data[end] != ',')) {
            rest_fault_query(call, "partition", "must be partitions, comma separated");
            return;
        }
        if (number >= partition_count) {
            rest_fault_query(call, "partition", "must be between 0 and %d", partition_count - 1);
            return;
        }
        if (out->partition_count == REST_FILTER_PARTITIONS_MAX) {
            rest_fault_query(call, "partition", "must name at most %d", REST_FILTER_PARTITIONS_MAX);
            return;
        }
        out->partitions[out->partition_count++] = (int32_t)number;
        at = end + 1;
    }
    qsort(out->partitions, out->partition_count, sizeof(out->partitions[0]), by_number);
    for (uint32_t i = 1; i < out->partition_count; i++) {
        if (out->partitions[i] != out->partitions[i - 1]) continue;
        rest_fault_query(call, "partition", "names %d twice", out->partitions[i]);
        return;
    }
}

void rest_filter_read(struct rest_call *call, int32_t partition_count, struct rest_filter *out)
{
    *out = (struct rest_filter){ .contains = blob_of(rest_query_text(call, "contains")), .key = blob_of(rest_query_text(call, "key")) };
    if (!out->contains.null && out->contains.bytes == 0) rest_fault_query(call, "contains", "must not be empty");
    read_partitions(call, partition_count, out);
}

static bool keep(struct ot_blob *blob, struct ot_arena *arena)
{
    if (blob->null || blob->bytes == 0) return true;
    void *copy = ot_arena_alloc(arena, blob->bytes);
    if (copy == NULL) return false;
    memcpy(copy, blob->data, blob->bytes);
    blob->data = copy;
    return true;
}

bool rest_filter_keep(struct rest_filter *filter, struct ot_arena *arena) { return keep(&filter->contains, arena) && keep(&filter->key, arena); }

static bool has(struct ot_blob data, struct ot_blob part)
{
    return !data.null && data.bytes >= part.bytes && memmem(data.data, data.bytes, part.data, part.bytes) != NULL;
}

static bool headers_have(const struct broker_record_view *record, struct ot_blob part)
{
    struct ot_reader cursor = ot_reader_over(record->headers.data, record->headers.bytes);
    for (struct broker_record_header header; broker_record_headers(&cursor, &header);)
        if (has(header.value, part)) return true;
    return false;
}

bool rest_filter_passes(const struct rest_filter *filter, const struct broker_record_view *record)
{
    if (!filter->key.null) {
        if (record->key.null || record->key.bytes != filter->key.bytes) return false;
        if (record->key.bytes > 0 && memcmp(record->key.data, filter->key.data, record->key.bytes) != 0) return false;
    }
    return filter->contains.null || has(record->value, filter->contains) || has(record->key, filter->contains) || headers_have(record, filter->contains);
}
