/* Feature levels of the cluster (KIP-584): which there are, and what UpdateFeatures may ask. Each is final at its highest level from the founding on; an operator may
 * hold it lower. A level is kept as a setting of the cluster, under a key of its own.
 *
 * ottla.version is of ottla itself (coordinator/level.h): which formats brokers may write for each other. It is in the cluster's value and no setting: a new cluster begins at the highest that its
 * founders know, one that is upgraded stays where it was until an operator raises it, once every broker and voter knows the next one (control.h, BROKER_RAISE); it never goes down.
 *
 * transaction.version: below 2 clients use the protocol before KIP-890. group.version: at 0 the consumer group protocol of KIP-848 is refused. metadata.version says to
 * clients and tools which Kafka the cluster speaks as; nothing here depends on it. It goes down only where no format of Kafka's metadata came in between, as there. */
#ifndef OT_BROKER_FEATURES_H
#define OT_BROKER_FEATURES_H

#include "broker/call.h"
#include "broker/config.h"

#define BROKER_FEATURE_OWN "ottla.version"
struct broker_feature { const char *name; int16_t min, max; const char *key; size_t field /* of struct broker_config */; };     /* key NULL: ottla.version */
enum { BROKER_FEATURE_COUNT = 4 };
const struct broker_feature *broker_features(uint32_t *count_out);

/* By these settings, and this level of ottla.version. */
int16_t broker_feature_level_of(const struct broker_config *config, int16_t own, const struct broker_feature *feature);
/* The level that is final now. Any thread. */
int16_t broker_feature_level(struct broker *broker, const struct broker_feature *feature);
/* The highest level of ottla.version that every registered broker of this view and this build know, where that is above the final one: an upgrade is done and may be made final. 0: there is none. */
struct broker_view;
int16_t broker_feature_raisable(const struct broker_view *view);
int16_t broker_transaction_version(struct broker *broker);     /* the same of transaction.version */
bool broker_consumer_groups_served(struct broker *broker);     /* group.version and group.coordinator.rebalance.protocols say so */

enum broker_feature_change { BROKER_FEATURE_UPGRADE = 1, BROKER_FEATURE_SAFE_DOWNGRADE, BROKER_FEATURE_UNSAFE_DOWNGRADE };     /* Kafka's numbers */
/* OK: it has that level (*sets_out NULL), or may be set to it by the cluster's config that *sets_out names; BROKER_FEATURE_OWN names none, it is raised, and by itself. INVALID_UPDATE_VERSION,
 * with words: no such feature or level, or not this way. Any thread. */
OT_MUST_CHECK enum ot_err broker_feature_update(int32_t node_id, const struct broker_config *config, int16_t own, struct ot_str name, int16_t level, int8_t change, const char **sets_out,
    char text[static BROKER_TEXT_MAX]);

#endif
