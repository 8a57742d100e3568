#include "broker/group_configs.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct row { const char *key, *broker_key, *text; size_t field, min, max, own; } rows[] = {
#define X(field, key, least, most, of_broker, broker_key, text) { key, broker_key, text, offsetof(struct broker_group_config, field), \
    offsetof(struct broker_config, least), offsetof(struct broker_config, most), offsetof(struct broker_config, of_broker) },
    BROKER_GROUP_CONFIG_ROWS(X)
#undef X
};
OT_STATIC_ASSERT(OT_ARRAY_COUNT(rows) == BROKER_GROUP_CONFIG_COUNT, "as many as the header says");

static int32_t number_at(const void *base, size_t offset)
{
    int32_t number;
    memcpy(&number, (const char *)base + offset, sizeof number);
    return number;
}

static bool parse(struct ot_str text, int32_t *out)
{
    int64_t number = 0;
    for (uint32_t i = 0; i < text.bytes; i++)
        if (text.data[i] < '0' || text.data[i] > '9' || (number = number * 10 + (text.data[i] - '0')) > INT32_MAX) return false;
    *out = (int32_t)number;
    return text.bytes > 0;
}

static const struct row *find(struct ot_str key)
{
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++)
        if (ot_str_equal(key, ot_str_of(rows[i].key))) return &rows[i];
    return NULL;
}

void broker_group_config_effective(const struct broker_config *config, const struct broker_view *view, struct ot_str group, struct broker_group_config *out)
{
    struct broker_view_config own;
    struct ot_str after = { .null = true };
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        const int32_t number = number_at(config, rows[i].own);
        memcpy((char *)out + rows[i].field, &number, sizeof number);
    }
    for (; broker_view_next_named_config(view, BROKER_VIEW_GROUP, group, after, &own); after = own.name) {
        const struct row *row = find(own.name);
        int32_t number;
        if (row == NULL || !parse(own.value, &number)) continue;
        number = OT_MIN(OT_MAX(number, number_at(config, row->min)), number_at(config, row->max));
        memcpy((char *)out + row->field, &number, sizeof number);
    }
}

enum ot_err broker_group_config_check(const struct broker_config *config, struct ot_str key, struct ot_str value, char *text_out, size_t text_bytes)
{
    const struct row *row = find(key);
    int32_t number = 0;
    if (row == NULL) {
        (void)snprintf(text_out, text_bytes, "Unknown group config name: %.*s", (int)OT_MIN(key.bytes, 100u), key.data);
        return OT_ERR_INVALID_CONFIG;
    }
    if (value.null) return OT_OK;
    if (!parse(value, &number)) {
        (void)snprintf(text_out, text_bytes, "Invalid value %.*s for configuration %s: Not a number of type INT", (int)OT_MIN(value.bytes, 60u), value.data, row->key);
        return OT_ERR_INVALID_CONFIG;
    }
    const int32_t min = number_at(config, row->min), max = number_at(config, row->max);
    if (number >= min && number <= max) return OT_OK;
    (void)snprintf(text_out, text_bytes, "%s must be within the broker's bounds [%d, %d]", row->key, min, max);
    return OT_ERR_INVALID_CONFIG;
}

void broker_group_config_describe(const struct broker_config *config, const struct broker_view *view, struct ot_str group,
    struct broker_group_config_value out[static BROKER_GROUP_CONFIG_COUNT])
{
    struct broker_view_config own;
    struct ot_str after = { .null = true };
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        out[i] = (struct broker_group_config_value){ .key = rows[i].key, .text = rows[i].text, .broker_key = rows[i].broker_key };
        (void)snprintf(out[i].broker_value, sizeof out[i].broker_value, "%d", number_at(config, rows[i].own));
    }
    for (; broker_view_next_named_config(view, BROKER_VIEW_GROUP, group, after, &own); after = own.name) {
        const struct row *row = find(own.name);
        if (row == NULL) continue;
        struct broker_group_config_value *value = &out[row - rows];
        value->own = true;
        (void)snprintf(value->own_value, sizeof value->own_value, "%.*s", (int)OT_MIN(own.value.bytes, 15u), own.value.data);
    }
}
