#include "base/util.h"
#include "rest/inside.h"
#include <string.h>

void rest_limits_init(struct rest_limits *limits, double per_second, double burst)
{
    *limits = (struct rest_limits){ .per_second = per_second, .burst = burst };
    pthread_mutex_init(&limits->mutex, NULL);
}

static struct rest_bucket *bucket_of(struct rest_limits *limits, uint64_t key)
{
    struct rest_bucket *oldest = NULL;
    for (uint32_t i = 0; i < 8; i++) {                         /* eight places for a key; the one unused for longest gives way */
        struct rest_bucket *bucket = &limits->buckets[(key + i) % REST_BUCKETS];
        if (bucket->key == key) return bucket;
        if (oldest == NULL || bucket->at_us < oldest->at_us) oldest = bucket;
    }
    *oldest = (struct rest_bucket){ .key = key, .tokens = limits->burst };
    return oldest;
}

bool rest_limits_take(struct rest_limits *limits, const char *principal, int64_t now_us, int *retry_s_out)
{
    const uint64_t key = ot_hash64(principal, strlen(principal), 1) | 1;      /* 0 is an empty place */
    pthread_mutex_lock(&limits->mutex);
    struct rest_bucket *bucket = bucket_of(limits, key);
    if (bucket->at_us != 0 && now_us > bucket->at_us)
        bucket->tokens = OT_MIN(limits->burst, bucket->tokens + (double)(now_us - bucket->at_us) / 1e6 * limits->per_second);
    bucket->at_us = now_us;
    const bool room = bucket->tokens >= 1;
    if (room) bucket->tokens -= 1;
    const double wait_s = room ? 0 : (1 - bucket->tokens) / limits->per_second;
    pthread_mutex_unlock(&limits->mutex);
    *retry_s_out = (int)wait_s + 1;
    return room;
}
