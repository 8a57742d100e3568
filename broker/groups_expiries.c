/* What became of committed offsets that were dropped for their age: each is an event in the log, and remembered for whoever asks where they went. */
#include "broker/room.h"

#include "base/log.h"
#include "broker/groups_watch.h"
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 1024 };                /* of a group's id that is remembered */

static char *copy(struct ot_str text) { return strndup(text.data, OT_MIN(text.bytes, (uint32_t)NAME_BYTES_MAX)); }

static void keep(struct broker_groups *groups, const struct group_expiry *expired, int64_t wall_ms)
{
    struct broker_group_expiry one = { wall_ms, expired->offset, expired->commit_ms, expired->partition, copy(expired->group), copy(expired->topic) };
    pthread_mutex_lock(&groups->mutex);
    if (groups->expiries == NULL) groups->expiries = calloc(BROKER_GROUP_EXPIRIES, sizeof *groups->expiries);
    if (groups->expiries != NULL && one.group != NULL && one.topic != NULL) {
        struct broker_group_expiry *place = &groups->expiries[groups->expiry_count++ % BROKER_GROUP_EXPIRIES], old = *place;
        *place = one;
        one = old;
    }
    pthread_mutex_unlock(&groups->mutex);
    free(one.group);                           /* the one that made room, or the one that found none */
    free(one.topic);
}

void broker_groups_expired(struct broker *broker, const struct group_expiry *expired, int64_t wall_ms)
{
    for (; expired != NULL; expired = expired->next) {
        ot_log(OT_LOG_INFO, "groups", "offset_expired", "group=\"%.*s\" topic=%s partition=%d offset=%lld committed_ms=%lld", (int)OT_MIN(expired->group.bytes, (uint32_t)NAME_BYTES_MAX),
            expired->group.data, expired->topic.data, expired->partition, (long long)expired->offset, (long long)expired->commit_ms);
        keep(&broker->groups, expired, wall_ms);
    }
}

uint32_t broker_group_expiries(struct broker *broker, struct ot_str group, struct ot_arena *arena, struct broker_group_expiry *out, uint32_t max)
{
    struct broker_groups *groups = &broker->groups;
    const struct ot_str wanted = { group.data, OT_MIN(group.bytes, (uint32_t)NAME_BYTES_MAX), false };
    uint32_t count = 0;
    pthread_mutex_lock(&groups->mutex);
    const uint64_t kept = OT_MIN(groups->expiry_count, (uint64_t)BROKER_GROUP_EXPIRIES);
    for (uint64_t i = 0; i < kept && count < max; i++) {
        const struct broker_group_expiry *one = &groups->expiries[(groups->expiry_count - 1 - i) % BROKER_GROUP_EXPIRIES];
        if (!ot_str_equal(ot_str_of(one->group), wanted)) continue;
        out[count] = *one;
        out[count].group = ot_arena_str(arena, ot_str_of(one->group));
        out[count].topic = ot_arena_str(arena, ot_str_of(one->topic));
        if (out[count].group == NULL || out[count].topic == NULL) break;
        count++;
    }
    pthread_mutex_unlock(&groups->mutex);
    return count;
}
