/* Client quotas are not enforced, so none are kept: questions are checked as Kafka checks them and find nothing, changes are refused with words. */
#ifndef OT_BROKER_CLIENT_QUOTAS_H
#define OT_BROKER_CLIENT_QUOTAS_H

#include "broker/call.h"

struct broker_quota_filter { struct ot_str entity_type; int8_t match_type; };
/* UNSUPPORTED_VERSION: an entity type that is unknown; INVALID_REQUEST: a filter that makes no sense. OK: it does, and nothing matches it. */
OT_MUST_CHECK enum ot_err broker_quota_filter_check(const struct broker_quota_filter *filters, uint32_t count, char text[static BROKER_TEXT_MAX]);

struct broker_quota_entity { struct ot_str type, name; /* null: the default */ };
struct broker_quota_op { struct ot_str key; double value; bool remove; };
/* One entity's changes. OK: nothing had to change (only removals, which find nothing). INVALID_REQUEST with words: not a quota, or one that would have to be kept. */
OT_MUST_CHECK enum ot_err broker_quota_alter(const struct broker_quota_entity *entity, uint32_t entity_count, const struct broker_quota_op *ops, uint32_t op_count,
    char text[static BROKER_TEXT_MAX]);

#endif
