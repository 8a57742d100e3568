#include "rpc/kafka/config_values.h"

#include "base/wire/enums.h"
#include "broker/client_metrics.h"
#include "broker/group_configs.h"
#include "broker/loggers.h"

static int8_t source_of(enum broker_config_source source)
{
    switch (source) {
    case BROKER_SOURCE_BUILT_IN: return OT_CONFIG_SOURCE_DEFAULT_CONFIG;
    case BROKER_SOURCE_FILE:
    case BROKER_SOURCE_ENVIRONMENT:
    case BROKER_SOURCE_FLAG: return OT_CONFIG_SOURCE_STATIC_BROKER_CONFIG;
    case BROKER_SOURCE_CLUSTER_DEFAULT: return OT_CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG;
    case BROKER_SOURCE_BROKER_DYNAMIC: return OT_CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG;
    case BROKER_SOURCE_TOPIC: return OT_CONFIG_SOURCE_TOPIC_CONFIG;
    }
    return OT_CONFIG_SOURCE_UNKNOWN;
}

static int8_t type_of(enum broker_config_type type)
{
    switch (type) {
    case BROKER_CONFIG_BOOL: return OT_CONFIG_TYPE_BOOLEAN;
    case BROKER_CONFIG_INT: return OT_CONFIG_TYPE_INT;
    case BROKER_CONFIG_LONG: return OT_CONFIG_TYPE_LONG;
    case BROKER_CONFIG_DOUBLE: return OT_CONFIG_TYPE_DOUBLE;
    case BROKER_CONFIG_TEXT:
    case BROKER_CONFIG_CHOICE: return OT_CONFIG_TYPE_STRING;
    case BROKER_CONFIG_LIST: return OT_CONFIG_TYPE_LIST;
    case BROKER_CONFIG_PASSWORD: return OT_CONFIG_TYPE_PASSWORD;
    }
    return OT_CONFIG_TYPE_UNKNOWN;
}

static bool wanted(const struct rpc_config_values *values, const char *key)
{
    if (values->only_count < 0) return true;
    for (int32_t i = 0; i < values->only_count; i++) {
        if (ot_str_equal(values->only[i], ot_str_of(key))) return true;
    }
    return false;
}

static struct ot_str kept(struct rpc_config_values *values, const char *text)
{
    if (text == NULL) return (struct ot_str){ .null = true };
    char *copy = ot_arena_str(&values->request->arena, ot_str_of(text));
    if (copy == NULL) values->failed = true;
    return ot_str_of(copy);
}

static void one(void *arg, const struct broker_config_value *value)
{
    struct rpc_config_values *values = arg;
    if (values->failed || values->count >= values->cap || !wanted(values, value->row->key)) return;
    struct rpc_config_row *row = &values->rows[values->count++];
    const bool hidden = value->row->sensitive;
    *row = (struct rpc_config_row){ .name = ot_str_of(value->row->key), .value = kept(values, hidden ? NULL : value->value), .text = ot_str_of(value->row->text),
        .read_only = !values->topic && value->row->change == BROKER_CONFIG_RESTART, .sensitive = hidden, .source = source_of(value->source),
        .type = type_of(value->row->type) };
    row->synonyms = rpc_alloc(values->request, value->synonym_count, sizeof *row->synonyms);
    if (row->synonyms == NULL && value->synonym_count > 0) {
        values->failed = true;
        return;
    }
    row->synonym_count = value->synonym_count;
    for (uint32_t i = 0; i < value->synonym_count; i++) {
        row->synonyms[i] = (struct rpc_config_synonym){ kept(values, value->synonyms[i].name), kept(values, hidden ? NULL : value->synonyms[i].value),
            source_of(value->synonyms[i].source) };
    }
}

static bool values_begin(struct rpc_request *request, struct rpc_config_values *out, uint32_t cap)
{
    out->request = request;
    out->count = 0;
    out->cap = cap;
    out->failed = false;
    out->rows = rpc_alloc(request, cap, sizeof *out->rows);
    return out->rows != NULL;
}

bool rpc_config_values_topic(struct rpc_request *request, struct rpc_config_values *out, const char *const *keys, const char *const *values, uint32_t count)
{
    uint32_t cap = 0;
    (void)broker_topic_config_rows(&cap);
    out->topic = true;
    if (!values_begin(request, out, cap)) return false;
    broker_topic_config_describe(broker_config_store(request->server->broker), keys, values, count, one, out);
    return !out->failed;
}

bool rpc_config_values_broker(struct rpc_request *request, struct rpc_config_values *out, int32_t broker_id)
{
    uint32_t cap = 0;
    (void)broker_config_rows(&cap);
    out->topic = false;
    if (!values_begin(request, out, cap)) return false;
    broker_config_describe(broker_config_store(request->server->broker), broker_id, one, out);
    return !out->failed;
}

static void group_row(struct rpc_config_values *out, const struct broker_group_config_value *value)
{
    struct rpc_config_row *row = &out->rows[out->count++];
    *row = (struct rpc_config_row){ .name = ot_str_of(value->key), .value = kept(out, value->own ? value->own_value : value->broker_value), .text = ot_str_of(value->text),
        .source = value->own ? OT_CONFIG_SOURCE_GROUP_CONFIG : OT_CONFIG_SOURCE_DEFAULT_CONFIG, .type = OT_CONFIG_TYPE_INT };
    row->synonyms = rpc_alloc(out->request, 2, sizeof *row->synonyms);
    if (row->synonyms == NULL) {
        out->failed = true;
        return;
    }
    if (value->own) row->synonyms[row->synonym_count++] = (struct rpc_config_synonym){ ot_str_of(value->key), row->value, OT_CONFIG_SOURCE_GROUP_CONFIG };
    row->synonyms[row->synonym_count++] = (struct rpc_config_synonym){ ot_str_of(value->broker_key), kept(out, value->broker_value), OT_CONFIG_SOURCE_DEFAULT_CONFIG };
}

bool rpc_config_values_group(struct rpc_request *request, struct rpc_config_values *out, struct ot_str group)
{
    struct broker_group_config_value values[BROKER_GROUP_CONFIG_COUNT];
    struct broker *broker = request->server->broker;
    if (!values_begin(request, out, BROKER_GROUP_CONFIG_COUNT)) return false;
    const struct broker_view *view = broker_view_take(broker);
    broker_group_config_describe(broker_config_current(broker_config_store(broker)), view, group, values);
    broker_view_give(view);
    for (uint32_t i = 0; i < BROKER_GROUP_CONFIG_COUNT; i++)
        if (wanted(out, values[i].key)) group_row(out, &values[i]);
    return !out->failed;
}

static void subscription_row(struct rpc_config_values *out, const struct broker_view *view, struct ot_str name, const struct broker_client_metrics_row *from)
{
    struct rpc_config_row *row = &out->rows[out->count++];
    struct broker_view_config own;
    struct ot_str at = { .null = true };
    *row = (struct rpc_config_row){ .name = ot_str_of(from->key), .value = ot_str_of(from->fallback), .text = ot_str_of(from->text), .source = OT_CONFIG_SOURCE_DEFAULT_CONFIG,
        .type = type_of(from->type) };
    row->synonyms = rpc_alloc(out->request, 2, sizeof *row->synonyms);
    if (row->synonyms == NULL) {
        out->failed = true;
        return;
    }
    for (; broker_view_next_named_config(view, BROKER_VIEW_CLIENT_METRICS, name, at, &own); at = own.name) {
        if (!ot_str_equal(own.name, row->name)) continue;
        const char *copy = ot_arena_str(&out->request->arena, own.value);
        out->failed = out->failed || copy == NULL;
        row->value = ot_str_of(copy);
        row->source = OT_CONFIG_SOURCE_CLIENT_METRICS_CONFIG;
        row->synonyms[row->synonym_count++] = (struct rpc_config_synonym){ row->name, row->value, row->source };
        break;
    }
    row->synonyms[row->synonym_count++] = (struct rpc_config_synonym){ row->name, ot_str_of(from->fallback), OT_CONFIG_SOURCE_DEFAULT_CONFIG };
}

bool rpc_config_values_client_metrics(struct rpc_request *request, struct rpc_config_values *out, struct ot_str subscription)
{
    if (!values_begin(request, out, broker_client_metrics_row_count)) return false;
    const struct broker_view *view = broker_view_take(request->server->broker);
    for (uint32_t i = 0; i < broker_client_metrics_row_count; i++)
        if (wanted(out, broker_client_metrics_rows[i].key)) subscription_row(out, view, subscription, &broker_client_metrics_rows[i]);
    broker_view_give(view);
    return !out->failed;
}

bool rpc_config_values_loggers(struct rpc_request *request, struct rpc_config_values *out)
{
    if (!values_begin(request, out, broker_logger_count)) return false;
    for (uint32_t i = 0; i < broker_logger_count; i++) {
        const struct ot_str name = ot_str_of(broker_logger_names[i]);
        if (!wanted(out, broker_logger_names[i])) continue;
        out->rows[out->count++] = (struct rpc_config_row){ .name = name, .value = ot_str_of(broker_logger_level(broker_logger_names[i])), .text = ot_str_of(""),
            .source = OT_CONFIG_SOURCE_DYNAMIC_BROKER_LOGGER_CONFIG };
    }
    return true;
}
