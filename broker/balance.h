/* Private to broker/: preferred leaders (balance.c). */
#ifndef OT_BROKER_BALANCE_H
#define OT_BROKER_BALANCE_H

struct broker_replication;
/* On the replication's executor, now and then. */
void broker_balance_tick(struct broker_replication *all);
void broker_balance_end(struct broker_replication *all);        /* no tick follows */

#endif
