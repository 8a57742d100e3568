#include "broker/throttle.h"

#include "base/util.h"
#include <stdlib.h>
#include <string.h>

#define SECOND_US INT64_C(1000000)
#define DEBT_MAX_BYTES (INT64_C(1) << 42)
#define WAIT_MIN_US 10000
#define WAIT_MAX_US SECOND_US                  /* the rate may be raised meanwhile */

void broker_throttle_init(struct broker_throttle *throttle)
{
    *throttle = (struct broker_throttle){ .rate = BROKER_THROTTLE_NONE };
    pthread_mutex_init(&throttle->mutex, NULL);
}

void broker_throttle_free(struct broker_throttle *throttle) { pthread_mutex_destroy(&throttle->mutex); }

/* Bytes of that time at this rate; both may be large. */
static int64_t filled(int64_t rate, int64_t us) { return rate / SECOND_US * us + rate % SECOND_US * us / SECOND_US; }

/* At most a second's worth is saved up. A rate that was just set begins with an empty account: what went before it is forgiven, and nothing is saved. */
static void fill(struct broker_throttle *throttle, int64_t rate, int64_t now_us)
{
    const int64_t us = OT_MIN(OT_MAX(now_us - throttle->at_us, 0), 3600 * SECOND_US);
    if (throttle->rate == BROKER_THROTTLE_NONE) throttle->tokens_bytes = OT_MAX(throttle->tokens_bytes, 0);
    else if (rate > (INT64_C(1) << 40)) throttle->tokens_bytes = rate;         /* more than any disk: not worth counting */
    else throttle->tokens_bytes = OT_MIN(throttle->tokens_bytes + filled(rate, us), rate);
    throttle->at_us = OT_MAX(now_us, throttle->at_us);
    throttle->rate = rate;
}

int64_t broker_throttle_wait_us(struct broker_throttle *throttle, int64_t rate, int64_t now_us)
{
    int64_t wait_us = 0;
    pthread_mutex_lock(&throttle->mutex);
    if (rate == BROKER_THROTTLE_NONE) {
        throttle->rate = rate;
        throttle->tokens_bytes = 0;
    } else {
        fill(throttle, rate, now_us);
        if (rate == 0) wait_us = WAIT_MAX_US;
        else if (throttle->tokens_bytes <= 0) wait_us = OT_MIN(OT_MAX((1 - throttle->tokens_bytes) * SECOND_US / rate, WAIT_MIN_US), WAIT_MAX_US);
    }
    pthread_mutex_unlock(&throttle->mutex);
    return wait_us;
}

void broker_throttle_spend(struct broker_throttle *throttle, uint64_t bytes)
{
    pthread_mutex_lock(&throttle->mutex);
    throttle->spent_bytes += bytes;
    if (throttle->rate != BROKER_THROTTLE_NONE) throttle->tokens_bytes = OT_MAX(throttle->tokens_bytes - (int64_t)OT_MIN(bytes, (uint64_t)1 << 40), -DEBT_MAX_BYTES);
    pthread_mutex_unlock(&throttle->mutex);
}

uint64_t broker_throttle_spent(struct broker_throttle *throttle)
{
    pthread_mutex_lock(&throttle->mutex);
    const uint64_t bytes = throttle->spent_bytes;
    pthread_mutex_unlock(&throttle->mutex);
    return bytes;
}

bool broker_throttle_lists(const char *list, int32_t partition, int32_t broker_id)
{
    if (list == NULL || *list == 0) return false;
    if (strcmp(list, "*") == 0) return true;
    for (const char *at = list; *at != 0;) {
        char *end;
        const long one = strtol(at, &end, 10);
        if (end == at || *end != ':') return false;
        at = end + 1;
        const long broker = strtol(at, &end, 10);
        if (end == at) return false;
        if (one == partition && broker == broker_id) return true;
        at = *end == ',' ? end + 1 : end;
        if (at == end && *at != 0) return false;
    }
    return false;
}
