#include "broker/features.h"
#include "base/wire/features.h"
#include "broker/broker.h"
#include <stdio.h>
#include <string.h>

static const struct broker_feature features[] = {
    { OT_FEATURE_TRANSACTION_VERSION, OT_FEATURE_TRANSACTION_VERSION_MIN, OT_FEATURE_TRANSACTION_VERSION_MAX, OT_FEATURE_TRANSACTION_VERSION_MAX },
    { OT_FEATURE_GROUP_VERSION, OT_FEATURE_GROUP_VERSION_MIN, OT_FEATURE_GROUP_VERSION_MAX, OT_FEATURE_GROUP_VERSION_MAX },
};

const struct broker_feature *broker_features(uint32_t *count_out)
{
    *count_out = OT_ARRAY_COUNT(features);
    return features;
}

int16_t broker_transaction_version(struct broker *broker) { return (int16_t)broker_config(broker)->ottla_transaction_version; }

int16_t broker_feature_level(struct broker *broker, const struct broker_feature *feature)
{
    return strcmp(feature->name, OT_FEATURE_TRANSACTION_VERSION) == 0 ? broker_transaction_version(broker) : feature->level;
}

enum ot_err broker_feature_update(int32_t node_id, int16_t transaction_version, struct ot_str name, int16_t level, int8_t change, bool *sets_out,
    char text[static BROKER_TEXT_MAX])
{
    const struct broker_feature *feature = NULL;
    char head[100];
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(features); i++)
        if (ot_str_equal(name, ot_str_of(features[i].name))) feature = &features[i];
    const bool settable = feature != NULL && strcmp(feature->name, OT_FEATURE_TRANSACTION_VERSION) == 0;
    const int16_t current = settable ? transaction_version : feature != NULL ? feature->level : 0;
    snprintf(head, sizeof head, "Invalid update version %d for feature %.*s.", level, (int)OT_MIN(name.bytes, 50u), name.data);
    text[0] = 0;
    *sets_out = false;
    if (feature == NULL) snprintf(text, BROKER_TEXT_MAX, "%s Local controller %d does not support this feature.", head, node_id);
    else if (change < BROKER_FEATURE_UPGRADE || change > BROKER_FEATURE_UNSAFE_DOWNGRADE)
        snprintf(text, BROKER_TEXT_MAX, "%s The controller does not support the given upgrade type.", head);
    else if (level < 0) snprintf(text, BROKER_TEXT_MAX, "%s A feature version cannot be less than 0.", head);
    else if (level < feature->min || level > feature->max)
        snprintf(text, BROKER_TEXT_MAX, "%s Local controller %d only supports versions %d-%d", head, node_id, feature->min, feature->max);
    else if (change == BROKER_FEATURE_UPGRADE && level < current)
        snprintf(text, BROKER_TEXT_MAX, "%s Can't downgrade it without setting the upgrade type to either safe or unsafe downgrade.", head);
    else if (level != current && !settable) snprintf(text, BROKER_TEXT_MAX, "%s It stays at %d in this version.", head, current);
    else *sets_out = level != current;
    return text[0] == 0 ? OT_OK : OT_ERR_INVALID_UPDATE_VERSION;
}
