#include "broker/features.h"
#include "base/wire/features.h"
#include "broker/broker.h"
#include "broker/config_checks.h"
#include "broker/view.h"
#include "coordinator/level.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct broker_feature features[] = {
    { OT_FEATURE_METADATA_VERSION, OT_FEATURE_METADATA_VERSION_MIN, OT_FEATURE_METADATA_VERSION_MAX, "ottla.metadata.version", offsetof(struct broker_config, ottla_metadata_version) },
    { OT_FEATURE_TRANSACTION_VERSION, OT_FEATURE_TRANSACTION_VERSION_MIN, OT_FEATURE_TRANSACTION_VERSION_MAX, "ottla.transaction.version",
        offsetof(struct broker_config, ottla_transaction_version) },
    { OT_FEATURE_GROUP_VERSION, OT_FEATURE_GROUP_VERSION_MIN, OT_FEATURE_GROUP_VERSION_MAX, "ottla.group.version", offsetof(struct broker_config, ottla_group_version) },
    { .name = BROKER_FEATURE_OWN },            /* the rest is filled in */
};
OT_STATIC_ASSERT(OT_ARRAY_COUNT(features) == BROKER_FEATURE_COUNT, "as many as the header says");
/* The levels of metadata.version that came with another format of Kafka's metadata: below such a one it does not go down. */
static const int16_t metadata_changes[] = { 7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33 };

static void fill_own(void)
{
    const struct coord_levels known = coord_levels_known();
    struct broker_feature *own = &features[BROKER_FEATURE_COUNT - 1];
    own->min = known.min;
    own->max = known.max;
}

const struct broker_feature *broker_features(uint32_t *count_out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, fill_own);
    *count_out = OT_ARRAY_COUNT(features);
    return features;
}

int16_t broker_feature_level_of(const struct broker_config *config, int16_t own, const struct broker_feature *feature)
{
    int32_t level;
    if (feature->key == NULL) return own;
    memcpy(&level, (const char *)config + feature->field, sizeof level);
    return (int16_t)level;
}

int16_t broker_feature_level(struct broker *broker, const struct broker_feature *feature)
{
    struct broker_view_cluster cluster = { 0 };
    if (feature->key == NULL) {
        const struct broker_view *view = broker_view_take(broker);
        broker_view_cluster(view, &cluster);
        broker_view_give(view);
    }
    return broker_feature_level_of(broker_config(broker), cluster.level, feature);
}

int16_t broker_feature_raisable(const struct broker_view *view)
{
    struct coord_levels common = coord_levels_known();
    struct broker_view_cluster cluster;
    struct broker_view_broker row;
    struct ot_arena arena;
    uint8_t room[8192];
    ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
    broker_view_cluster(view, &cluster);
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &arena, &row); after = row.id) {
        common.min = OT_MAX(common.min, row.level_min);
        common.max = OT_MIN(common.max, row.level_max);
        ot_arena_reset(&arena);
    }
    ot_arena_free(&arena);
    return common.max > cluster.level && common.min <= common.max ? common.max : 0;
}

int16_t broker_transaction_version(struct broker *broker) { return (int16_t)broker_config(broker)->ottla_transaction_version; }
bool broker_consumer_groups_served(struct broker *broker) 
{
    const struct broker_config *config = broker_config(broker);
    return config->ottla_group_version >= 1 && broker_config_list_has(config->group_coordinator_rebalance_protocols, "consumer");
}

/* Each level of our own brought formats. */
static bool changes_metadata(const struct broker_feature *feature, int16_t from, int16_t to)
{
    if (feature->key == NULL) return from > to;
    for (size_t i = 0; i < OT_ARRAY_COUNT(metadata_changes); i++)
        if (metadata_changes[i] > to && metadata_changes[i] <= from) return true;
    return false;
}

enum ot_err broker_feature_update(int32_t node_id, const struct broker_config *config, int16_t own, struct ot_str name, int16_t level, int8_t change, const char **sets_out,
    char text[static BROKER_TEXT_MAX])
{
    const struct broker_feature *feature = NULL;
    char head[90];
    uint32_t count = 0;
    const struct broker_feature *all = broker_features(&count);
    for (uint32_t i = 0; i < count; i++)
        if (ot_str_equal(name, ot_str_of(all[i].name))) feature = &all[i];
    const int16_t current = feature != NULL ? broker_feature_level_of(config, own, feature) : 0;
    const bool of_metadata = feature != NULL && (feature == &all[0] || feature->key == NULL);
    snprintf(head, sizeof head, "Invalid update version %d for feature %.*s.", level, (int)OT_MIN(name.bytes, 40u), name.data);
    text[0] = 0;
    *sets_out = NULL;
    if (change < BROKER_FEATURE_UPGRADE || change > BROKER_FEATURE_UNSAFE_DOWNGRADE)
        snprintf(text, BROKER_TEXT_MAX, "%s The controller does not support the given upgrade type.", head);
    else if (level < 0) snprintf(text, BROKER_TEXT_MAX, "%s A feature version cannot be less than 0.", head);
    else if (feature == NULL && level > 0) snprintf(text, BROKER_TEXT_MAX, "%s Local controller %d does not support this feature.", head, node_id);
    else if (feature != NULL && (level < feature->min || level > feature->max))
        snprintf(text, BROKER_TEXT_MAX, "%s Local controller %d only supports versions %d-%d", head, node_id, feature->min, feature->max);
    else if (change == BROKER_FEATURE_UPGRADE && level < current)
        snprintf(text, BROKER_TEXT_MAX, "%s Can't downgrade it without setting the upgrade type to either safe or unsafe downgrade.", head);
    else if (change != BROKER_FEATURE_UPGRADE && level > current) snprintf(text, BROKER_TEXT_MAX, "%s Can't downgrade to a newer version.", head);
    else if (of_metadata && level < current && changes_metadata(feature, current, level))
        snprintf(text, BROKER_TEXT_MAX, "Invalid %s %d. %s", feature->name, level, change == BROKER_FEATURE_UNSAFE_DOWNGRADE
            ? "Unsafe metadata downgrade is not supported in this version." : "Refusing to perform the requested downgrade because it might delete metadata information.");
    else if (feature != NULL && level != current) *sets_out = feature->key == NULL ? feature->name : feature->key;
    return text[0] == 0 ? OT_OK : OT_ERR_INVALID_UPDATE_VERSION;
}
