/* Configuration values as the protocol tells them, copied into a request's arena. */
#ifndef OT_RPC_KAFKA_CONFIG_VALUES_H
#define OT_RPC_KAFKA_CONFIG_VALUES_H

#include "rpc/kafka/request.h"

struct rpc_config_synonym { struct ot_str name, value; int8_t source; };
struct rpc_config_row {
    struct ot_str name, value, text;
    bool read_only, sensitive;
    int8_t source, type;                   /* Kafka's numbers */
    struct rpc_config_synonym *synonyms; uint32_t synonym_count;
};
struct rpc_config_values {
    struct rpc_request *request;
    struct rpc_config_row *rows; uint32_t count, cap;
    const struct ot_str *only; int32_t only_count;     /* -1: all */
    bool topic, failed;
};
/* Effective values of a topic with these overrides; of a broker. False: no memory. */
bool rpc_config_values_topic(struct rpc_request *request, struct rpc_config_values *out, const char *const *keys, const char *const *values, uint32_t count);
bool rpc_config_values_broker(struct rpc_request *request, struct rpc_config_values *out, int32_t broker_id);
bool rpc_config_values_group(struct rpc_request *request, struct rpc_config_values *out, struct ot_str group);
bool rpc_config_values_client_metrics(struct rpc_request *request, struct rpc_config_values *out, struct ot_str subscription);
bool rpc_config_values_loggers(struct rpc_request *request, struct rpc_config_values *out);        /* levels of this broker's loggers */

#endif
