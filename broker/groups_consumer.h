/* Private to broker/groups*.c: the configuration of consumer groups of the new protocol, as a step of the machine wants it. */
#ifndef OT_BROKER_GROUPS_CONSUMER_H
#define OT_BROKER_GROUPS_CONSUMER_H

#include "broker/broker.h"
#include "coordinator/consumer_group.h"

struct broker_groups_consumer {
    struct consumer_group_config config;       /* first: what the machine is given */
    struct broker *broker;
    enum coord_assignor assignors[4]; uint32_t assignor_count;
};
/* Filled anew for each step; begin zeroed. record_bytes_max: of all records of one change. */
void broker_groups_consumer_config(struct broker *broker, uint32_t record_bytes_max, struct broker_groups_consumer *out);

#endif
