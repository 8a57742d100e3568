/* Appending to partitions that any broker leads: Kafka's Produce to those elsewhere, broker/produce.h for the others. For doors that are asked at one broker for all (REST). */
#ifndef OT_BROKER_PRODUCE_AWAY_H
#define OT_BROKER_PRODUCE_AWAY_H

#include "broker/produce.h"

struct broker_produce_everywhere;

/* As broker_produce, of parts by topic name and without `queued`. A part whose leader has changed is sent once more when the metadata has followed. One that was sent and not answered:
 * REQUEST_TIMED_OUT, it may be written. acks=0 is waited for elsewhere as if it were 1. On home, a serial executor with timers, where done runs later. NULL: no memory, nothing was done. */
OT_MUST_CHECK struct broker_produce_everywhere *broker_produce_anywhere(struct broker *broker, struct broker_produce *produce);
/* On home, before done ran: nobody waits any more; done comes soon. */
void broker_produce_anywhere_cancel(struct broker_produce_everywhere *all);

#endif
