/* Feature levels of the cluster (KIP-584): which there are, and what UpdateFeatures may ask. Each is final at its highest level from
 * the founding on; transaction.version may be set lower, for clients that misbehave with the newer protocol. */
#ifndef OT_BROKER_FEATURES_H
#define OT_BROKER_FEATURES_H

#include "broker/call.h"

struct broker_feature { const char *name; int16_t min, max, level; };
const struct broker_feature *broker_features(uint32_t *count_out);

/* The level that is final now: the one of the table, or the one that an operator holds the cluster at. Any thread. */
int16_t broker_feature_level(struct broker *broker, const struct broker_feature *feature);
int16_t broker_transaction_version(struct broker *broker);     /* the same of transaction.version */

enum broker_feature_change { BROKER_FEATURE_UPGRADE = 1, BROKER_FEATURE_SAFE_DOWNGRADE, BROKER_FEATURE_UNSAFE_DOWNGRADE };     /* Kafka's numbers */
/* OK: it has that level, or may be set to it (*sets_out: by the config key "ottla.transaction.version"; only transaction.version can). current: the level that
 * is final now. INVALID_UPDATE_VERSION, with words: no such feature or level, or one that cannot change. Any thread. */
OT_MUST_CHECK enum ot_err broker_feature_update(int32_t node_id, int16_t transaction_version, struct ot_str name, int16_t level, int8_t change, bool *sets_out,
    char text[static BROKER_TEXT_MAX]);
#define BROKER_FEATURE_CONFIG "ottla.transaction.version"

#endif
