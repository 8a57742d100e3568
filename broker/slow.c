#include "broker/slow.h"

#include "base/util.h"

#include <string.h>

void broker_slow_init(struct broker_slow *slow)
{
    memset(slow, 0, sizeof(*slow));
    slow->next = 1;
    pthread_mutex_init(&slow->mutex, NULL);
}

void broker_slow_free(struct broker_slow *slow) { pthread_mutex_destroy(&slow->mutex); }

void broker_slow_note(struct broker_slow *slow, const struct broker_slow_request *request)
{
    if (slow == NULL) return;
    pthread_mutex_lock(&slow->mutex);
    struct broker_slow_request *kept = &slow->kept[slow->next % BROKER_SLOW_KEPT];
    *kept = *request;
    kept->id = slow->next++;
    kept->at_ms = ot_clock_wall_ms();
    pthread_mutex_unlock(&slow->mutex);
}

uint32_t broker_slow_list(struct broker_slow *slow, uint64_t before, struct broker_slow_request *out, uint32_t max)
{
    uint32_t count = 0;
    pthread_mutex_lock(&slow->mutex);
    const uint64_t newest = before == 0 ? slow->next - 1 : OT_MIN(before - 1, slow->next - 1);
    for (uint64_t id = newest; id > 0 && slow->next - id <= BROKER_SLOW_KEPT && count < max; id--) out[count++] = slow->kept[id % BROKER_SLOW_KEPT];
    pthread_mutex_unlock(&slow->mutex);
    return count;
}
