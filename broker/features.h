/* Feature levels of the cluster (KIP-584): which there are, and what UpdateFeatures may ask. Each is final at its highest level from the founding on; an operator may
 * hold it lower. A level is kept as a setting of the cluster, under a key of its own.
 *
 * transaction.version: below 2 clients use the protocol before KIP-890. group.version: at 0 the consumer group protocol of KIP-848 is refused. metadata.version says to
 * clients and tools which Kafka the cluster speaks as; nothing here depends on it. It goes down only where no format of Kafka's metadata came in between, as there. */
#ifndef OT_BROKER_FEATURES_H
#define OT_BROKER_FEATURES_H

#include "broker/call.h"
#include "broker/config.h"

struct broker_feature { const char *name; int16_t min, max; const char *key; size_t field /* of struct broker_config */; };
enum { BROKER_FEATURE_COUNT = 3 };
const struct broker_feature *broker_features(uint32_t *count_out);

int16_t broker_feature_level_of(const struct broker_config *config, const struct broker_feature *feature);
/* The level that is final now. Any thread. */
int16_t broker_feature_level(struct broker *broker, const struct broker_feature *feature);
int16_t broker_transaction_version(struct broker *broker);     /* the same of transaction.version */
bool broker_consumer_groups_served(struct broker *broker);     /* group.version and group.coordinator.rebalance.protocols say so */

enum broker_feature_change { BROKER_FEATURE_UPGRADE = 1, BROKER_FEATURE_SAFE_DOWNGRADE, BROKER_FEATURE_UNSAFE_DOWNGRADE };     /* Kafka's numbers */
/* OK: it has that level (*sets_out NULL), or may be set to it by the cluster's config that *sets_out names. INVALID_UPDATE_VERSION, with words: no such feature or level,
 * or not this way. Any thread. */
OT_MUST_CHECK enum ot_err broker_feature_update(int32_t node_id, const struct broker_config *config, struct ot_str name, int16_t level, int8_t change, const char **sets_out,
    char text[static BROKER_TEXT_MAX]);

#endif
