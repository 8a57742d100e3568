/* Requests that took long, of every door: the last ones, with where their time went. Waiting that was asked for (a long poll for data, a member that waits for the
 * others of its group) does not count.
 *
 * Memory is fixed; noting takes a mutex, but only for what is slow. Any thread. */
#ifndef OT_BROKER_SLOW_H
#define OT_BROKER_SLOW_H

#include "base/bytes.h"

#include <pthread.h>

#define BROKER_SLOW_KEPT 256

struct broker_slow_request {
    uint64_t id;                               /* set when it is noted: 1, 2, … */
    int64_t at_ms;                             /* wall time of its answer; set when it is noted */
    const char *door;                          /* "kafka", "rest": static text */
    char operation[40], client_id[64], address[48], request_id[65];
    int64_t queued_us;                         /* read, and not begun: others of its connection came first, or memory was short */
    int64_t handled_us;                        /* worked on by the thread that took it */
    int64_t waited_us;                         /* for the disk, replicas, the coordinator, other members */
    uint64_t request_bytes, answer_bytes;
    char result[40];                           /* name of its top error, "NONE"; of REST the status */
    int16_t version;                           /* of the API; -1: it has none */
};
struct broker_slow { pthread_mutex_t mutex; uint64_t next; struct broker_slow_request kept[BROKER_SLOW_KEPT]; };

void broker_slow_init(struct broker_slow *slow);
void broker_slow_free(struct broker_slow *slow);
/* threshold_ms < 0: nothing is slow. */
static inline bool broker_slow_is(int64_t threshold_ms, int64_t took_us) { return threshold_ms >= 0 && took_us >= threshold_ms * 1000; }
void broker_slow_note(struct broker_slow *slow, const struct broker_slow_request *request);       /* slow NULL: nothing */
/* Newest first, of those before this id (0: all), at most max; how many were written. */
uint32_t broker_slow_list(struct broker_slow *slow, uint64_t before, struct broker_slow_request *out, uint32_t max);

#endif
