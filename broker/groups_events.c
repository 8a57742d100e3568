/* What happens to groups, as events: rebalances and expired offsets. Bounded: a broker tells of so many a second and no more, since thousands of groups rebalance when a broker comes
 * back; the others are in the groups' timelines, and counted. */
#include "broker/room.h"

#include "coordinator/group.h"

enum { BURST = 1000, PER_SECOND = 50, NAME_BYTES_MAX = 1024 };

/* True: it may be told. */
static bool take_turn(struct broker *broker)
{
    struct broker_groups *groups = &broker->groups;
    const int64_t now_us = ot_exec_now_us(broker->setup.coord_exec);
    pthread_mutex_lock(&groups->mutex);
    const int64_t passed_us = OT_MIN(now_us - groups->told_us, (int64_t)BURST * 1000000 / PER_SECOND);
    const int64_t earned = passed_us * PER_SECOND / 1000000;
    if (earned > 0) {
        groups->tells_left = OT_MIN(groups->tells_left + (uint32_t)earned, (uint32_t)BURST);
        groups->told_us = now_us;
    }
    const bool may = groups->tells_left > 0;
    groups->tells_left -= may;
    pthread_mutex_unlock(&groups->mutex);
    return may;
}

static struct ot_str short_of(struct ot_str text) { return (struct ot_str){ text.data, OT_MIN(text.bytes, (uint32_t)NAME_BYTES_MAX), text.null }; }

static void tell_rebalanced(struct broker *broker, const struct group_rebalanced *one)
{
    const struct group_event *what = &one->event;
    struct broker_event event = broker_event_of(BROKER_EVENT_GROUP_REBALANCED);
    struct broker_event_fields fields;
    broker_event_fields_init(&fields);
    broker_event_int(&fields, "generation", what->generation);
    broker_event_int_or_null(&fields, "duration_ms", what->duration_ms);
    broker_event_int(&fields, "members", what->members_after);
    broker_event_int(&fields, "members_before", what->members_before);
    broker_event_int(&fields, "partitions", what->partitions);
    broker_event_int(&fields, "partitions_moved", what->partitions_moved);
    if (what->member[0] != 0) broker_event_text(&fields, "member", what->member);
    if (what->client[0] != 0) broker_event_text(&fields, "client", what->client);
    event.group = short_of(one->group);
    event.reason = group_reason_name(what->reason);
    event.fields = &fields;
    (void)broker_event(broker, &event);
}

/* Those of one group together. */
static void tell_expired(struct broker *broker, const struct group_expiry *first, uint32_t count)
{
    struct broker_event event = broker_event_of(BROKER_EVENT_OFFSETS_EXPIRED);
    struct broker_event_fields fields;
    broker_event_fields_init(&fields);
    broker_event_int(&fields, "count", count);
    broker_event_int(&fields, "offset", first->offset);
    event.topic = first->topic;
    event.partition = first->partition;
    event.group = short_of(first->group);
    event.fields = &fields;
    (void)broker_event(broker, &event);
}

void broker_groups_tell(struct broker *broker, const struct group_out *out)
{
    for (const struct group_rebalanced *one = out->rebalanced; one != NULL; one = one->next)
        if (take_turn(broker)) tell_rebalanced(broker, one);
    for (const struct group_expiry *first = out->expired; first != NULL;) {
        const struct group_expiry *next = first->next;
        uint32_t count = 1;
        for (; next != NULL && ot_str_equal(next->group, first->group); next = next->next) count++;
        if (take_turn(broker)) tell_expired(broker, first, count);
        first = next;
    }
}
