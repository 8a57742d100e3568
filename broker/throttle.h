/* Private to broker/: how much replication may cost while replicas are moved or come back (Kafka's leader/follower.replication.throttled.rate, KIP-73).
 *
 * A rate holds for the replicas that a topic lists (leader/follower.replication.throttled.replicas) and that are not in sync: those wait while what the listed ones were given lately is more
 * than the rate allows. One in sync is counted and never held, so that a throttle cannot take it out of the ISR. A bucket that fills by time and may be overdrawn by what was on its way:
 * whoever asks is told to come later, nobody waits inside.
 *
 * thread  any */
#ifndef OT_BROKER_THROTTLE_H
#define OT_BROKER_THROTTLE_H

#include "base/err.h"
#include <pthread.h>

#define BROKER_THROTTLE_NONE INT64_MAX         /* bytes per second: Kafka's default */

struct broker_throttle {
    pthread_mutex_t mutex;
    int64_t tokens_bytes, at_us;               /* as of then; below 0: overdrawn */
    int64_t rate;                              /* bytes per second that it was filled with last */
    uint64_t spent_bytes;                      /* since the start */
};
void broker_throttle_init(struct broker_throttle *throttle);
void broker_throttle_free(struct broker_throttle *throttle);
/* 0: go on. Else how long it takes until somebody may again, in us. rate: bytes per second as configured now; 0 lets nothing through until it is raised. */
int64_t broker_throttle_wait_us(struct broker_throttle *throttle, int64_t rate, int64_t now_us);
void broker_throttle_spend(struct broker_throttle *throttle, uint64_t bytes);
uint64_t broker_throttle_spent(struct broker_throttle *throttle);

/* Does "*" or "0:1,0:2,…" (partition:broker) name this one? list may be NULL. */
bool broker_throttle_lists(const char *list, int32_t partition, int32_t broker_id);

#endif
