/* Private to broker/: brokers that are on their way out (decommission.c). */
#ifndef OT_BROKER_DECOMMISSION_H
#define OT_BROKER_DECOMMISSION_H

struct broker_replication;
/* On the replication's executor, now and then. */
void broker_decommission_tick(struct broker_replication *all);

#endif
