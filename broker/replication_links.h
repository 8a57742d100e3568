/* The replication of a broker that has peers (replication.h), over connections of its own to them. */
#ifndef OT_BROKER_REPLICATION_LINKS_H
#define OT_BROKER_REPLICATION_LINKS_H

#include "broker/replication.h"

struct broker_replication_links;
/* Once the core is there, before its first partition. NO_MEMORY, IO. */
OT_MUST_CHECK enum ot_err broker_replication_links_start(struct broker *broker, struct broker_replication_links **out);
void broker_replication_links_stop(struct broker_replication_links *all);   /* as broker_replication_stop, before the coordinator stops. NULL is fine */
void broker_replication_links_free(struct broker_replication_links *all);   /* after broker_core_stop, before broker_core_free. NULL is fine */

#endif
