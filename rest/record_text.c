#include "rest/record_text.h"
#include "base/util.h"

enum { JSON_VALUES_MAX = 20000 /* of one value, so that looking at it takes bounded memory */ };

void rest_record_form_read(struct rest_call *call, struct rest_record_form *out)
{
    static const char *const forms[] = { "auto", "string", "json", "base64" };
    const int both = rest_query_choice(call, "as", forms, 4, REST_DATA_AUTO);
    out->key = (enum rest_data_form)rest_query_choice(call, "key_as", forms, 4, both);
    out->value = (enum rest_data_form)rest_query_choice(call, "value_as", forms, 4, both);
    out->value_limit_bytes = rest_query_int(call, "value_limit_bytes", 1, INT32_MAX, 0);
}

static bool is_json(struct ot_blob data)
{
    struct rest_faults faults = { 0 };
    const char *text = (const char *)data.data;
    json_t *value = NULL;
    if (data.bytes == 0 || rest_json_scan(text, data.bytes, REST_JSON_DEPTH_MAX, JSON_VALUES_MAX, NULL, &faults) != OT_OK) return false;
    if (rest_json_parse(text, data.bytes, &value, &faults) != OT_OK) return false;
    json_decref(value);
    return true;
}

/* The longest start of a text, within bytes, that does not end inside a character. */
static uint32_t cut_text(struct ot_blob data, uint32_t bytes)
{
    while (bytes > 0 && (data.data[bytes] & 0xc0) == 0x80) bytes--;
    return bytes;
}

bool rest_data_write(struct rest_json *out, const char *key, struct ot_blob data, enum rest_data_form form, int64_t limit_bytes)
{
    if (data.null) {
        rest_json_null(out, key);
        return false;
    }
    const bool cut = limit_bytes > 0 && data.bytes > limit_bytes;
    rest_json_open(out, key, '{');
    if (!cut && (form == REST_DATA_AUTO || form == REST_DATA_JSON) && is_json(data)) {
        rest_json_raw(out, "json", (const char *)data.data, data.bytes);
    } else if (form != REST_DATA_BASE64 && ot_utf8_valid(data.data, data.bytes)) {
        const uint32_t bytes = cut ? cut_text(data, (uint32_t)limit_bytes) : data.bytes;
        rest_json_str(out, "string", (struct ot_str){ data.bytes == 0 ? "" : (const char *)data.data, bytes, false });
    } else {
        if (cut) data.bytes = (uint32_t)limit_bytes;
        rest_json_base64(out, "base64", data);
    }
    rest_json_close(out, '}');
    return cut;
}

void rest_record_write(struct rest_json *out, const struct broker_record_view *record, const struct rest_record_form *form, int32_t partition)
{
    rest_json_open(out, NULL, '{');
    if (partition >= 0) rest_json_int(out, "partition", partition);
    rest_json_big(out, "offset", record->offset);
    rest_json_big_or_null(out, "timestamp_ms", record->timestamp_ms);
    rest_json_text(out, "timestamp_type", record->append_time ? "log_append" : "create");
    rest_data_write(out, "key", record->key, form->key, 0);
    const bool cut = rest_data_write(out, "value", record->value, form->value, form->value_limit_bytes);
    rest_json_open(out, "headers", '[');
    struct ot_reader cursor = ot_reader_over(record->headers.data, record->headers.bytes);
    for (struct broker_record_header header; broker_record_headers(&cursor, &header);) {
        rest_json_open(out, NULL, '{');
        rest_json_str(out, "name", header.key);
        rest_data_write(out, "value", header.value, form->value, 0);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_big(out, "size_bytes", record->size_bytes);
    rest_json_big_or_null(out, "producer_id", record->producer_id);
    rest_json_bool(out, "transactional", record->transactional);
    rest_json_text(out, "codec", record->codec);
    if (cut) rest_json_bool(out, "truncated", true);
    rest_json_close(out, '}');
}

void rest_one_line(struct rest_json *out, size_t from)
{
    for (size_t i = from; i < out->bytes; i++)
        if (out->data[i] == '\n' || out->data[i] == '\r') out->data[i] = ' ';
}
