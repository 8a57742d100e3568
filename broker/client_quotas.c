#include "broker/client_quotas.h"
#include <stdarg.h>
#include <stdio.h>

enum type { USER = 1, CLIENT_ID = 2, IP = 4 };

static enum ot_err refuse(char *text, enum ot_err error, const char *format, ...) OT_PRINTF(3, 4);
static enum ot_err refuse(char *text, enum ot_err error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, BROKER_TEXT_MAX, format, args);
    va_end(args);
    return error;
}

static int shown(struct ot_str text) { return text.null ? 0 : (int)OT_MIN(text.bytes, 80u); }

static unsigned type_of(struct ot_str name)
{
    if (ot_str_equal(name, ot_str_of("user"))) return USER;
    if (ot_str_equal(name, ot_str_of("client-id"))) return CLIENT_ID;
    return ot_str_equal(name, ot_str_of("ip")) ? IP : 0;
}

enum ot_err broker_quota_filter_check(const struct broker_quota_filter *filters, uint32_t count, char text[static BROKER_TEXT_MAX])
{
    unsigned seen = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct broker_quota_filter *filter = &filters[i];
        const unsigned type = type_of(filter->entity_type);
        if (filter->entity_type.bytes == 0) return refuse(text, OT_ERR_INVALID_REQUEST, "Invalid empty entity type.");
        if ((seen & type) != 0)
            return refuse(text, OT_ERR_INVALID_REQUEST, "Entity type %.*s cannot appear more than once in the filter.", shown(filter->entity_type), filter->entity_type.data);
        if (type == 0) return refuse(text, OT_ERR_UNSUPPORTED_VERSION, "Unsupported entity type %.*s", shown(filter->entity_type), filter->entity_type.data);
        if (filter->match_type < 0 || filter->match_type > 2) return refuse(text, OT_ERR_INVALID_REQUEST, "Unknown match type %d", filter->match_type);
        seen |= type;
    }
    if ((seen & IP) != 0 && (seen & (USER | CLIENT_ID)) != 0)
        return refuse(text, OT_ERR_INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.");
    return OT_OK;
}

static enum ot_err check_entity(const struct broker_quota_entity *entity, uint32_t count, unsigned *types_out, char *text)
{
    unsigned seen = 0;
    if (count == 0) return refuse(text, OT_ERR_INVALID_REQUEST, "Invalid empty client quota entity");
    for (uint32_t i = 0; i < count; i++) {
        const unsigned type = type_of(entity[i].type);
        if (type == 0) return refuse(text, OT_ERR_INVALID_REQUEST, "Unhandled client quota entity type: %.*s", shown(entity[i].type), entity[i].type.data);
        if ((seen & type) != 0) return refuse(text, OT_ERR_INVALID_REQUEST, "Client quota entity with duplicate types: %.*s", shown(entity[i].type), entity[i].type.data);
        if (!entity[i].name.null && entity[i].name.bytes == 0) return refuse(text, OT_ERR_INVALID_REQUEST, "Empty %.*s not supported", shown(entity[i].type), entity[i].type.data);
        seen |= type;
    }
    *types_out = seen;
    return (seen & IP) != 0 && seen != IP ? refuse(text, OT_ERR_INVALID_REQUEST, "Invalid empty client quota entity") : OT_OK;
}

static enum ot_err check_op(const struct broker_quota_op *op, unsigned types, char *text)
{
    static const char *const of_clients[] = { "producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate" };
    bool known = types == IP && ot_str_equal(op->key, ot_str_of("connection_creation_rate"));
    for (uint32_t i = 0; types != IP && i < OT_ARRAY_COUNT(of_clients); i++) known |= ot_str_equal(op->key, ot_str_of(of_clients[i]));
    if (!known) return refuse(text, OT_ERR_INVALID_REQUEST, "Invalid configuration key %.*s", shown(op->key), op->key.data);
    if (!op->remove && !(op->value > 0)) return refuse(text, OT_ERR_INVALID_REQUEST, "Quota %.*s must be greater than 0", shown(op->key), op->key.data);
    return OT_OK;
}

enum ot_err broker_quota_alter(const struct broker_quota_entity *entity, uint32_t entity_count, const struct broker_quota_op *ops, uint32_t op_count,
    char text[static BROKER_TEXT_MAX])
{
    unsigned types = 0;
    bool keeps = false;
    text[0] = 0;
    enum ot_err err = check_entity(entity, entity_count, &types, text);
    for (uint32_t i = 0; err == OT_OK && i < op_count; i++) {
        err = check_op(&ops[i], types, text);
        keeps |= !ops[i].remove;
    }
    if (err != OT_OK || !keeps) return err;
    return refuse(text, OT_ERR_INVALID_REQUEST, "client quotas are not enforced by this version, so none is kept");
}
