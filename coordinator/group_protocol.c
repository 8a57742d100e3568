#include "coordinator/group_protocol.h"

#include "base/wire/consumer_protocol_assignment.h"
#include "base/wire/consumer_protocol_subscription.h"
#include "base/wire/frame.h"

#include <string.h>

enum { ARENA_BYTES = 4 << 20, COMPARE_MAX = 4000000 };

/* Version in front; a newer one is read as the newest known, as Kafka's consumers do. */
static bool read_message(const struct ot_wire_message *message, int16_t version_max, struct ot_blob blob, struct ot_arena *arena, void *out)
{
    struct ot_reader in = ot_reader_over(blob.data, blob.null ? 0 : blob.bytes);
    struct ot_wire_error error;
    const int16_t version = ot_read_i16(&in);
    if (in.err != OT_OK || version < 0) return false;
    return ot_wire_decode(message, OT_MIN(version, version_max), &in, arena, out, &error) == OT_OK;
}

static bool read_subscription(struct ot_blob blob, struct ot_arena *arena, struct ot_consumer_protocol_subscription *out)
{
    return read_message(&ot_consumer_protocol_subscription_message, OT_CONSUMER_PROTOCOL_SUBSCRIPTION_VERSION_MAX, blob, arena, out);
}

static bool read_assignment(struct ot_blob blob, struct ot_arena *arena, struct ot_consumer_protocol_assignment *out)
{
    ot_consumer_protocol_assignment_defaults(out);
    if (blob.null || blob.bytes == 0) return true;
    return read_message(&ot_consumer_protocol_assignment_message, OT_CONSUMER_PROTOCOL_ASSIGNMENT_VERSION_MAX, blob, arena, out);
}

static bool has(const struct ot_consumer_protocol_subscription *subscription, struct ot_str topic)
{
    for (int32_t i = 0; i < subscription->topics.count; i++)
        if (ot_str_equal(subscription->topics.items[i], topic)) return true;
    return false;
}

bool group_subscription_has(struct ot_blob blob, struct ot_str topic)
{
    struct ot_consumer_protocol_subscription subscription;
    struct ot_arena arena;
    ot_arena_init(&arena, ARENA_BYTES);
    const bool found = read_subscription(blob, &arena, &subscription) && has(&subscription, topic);
    ot_arena_free(&arena);
    return found;
}

bool group_subscription_equal(struct ot_blob a, struct ot_blob b)
{
    struct ot_consumer_protocol_subscription left, right;
    struct ot_arena arena;
    if (a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0)) return true;
    ot_arena_init(&arena, ARENA_BYTES);
    bool equal = read_subscription(a, &arena, &left) && read_subscription(b, &arena, &right) && left.topics.count == right.topics.count
        && (int64_t)left.topics.count * right.topics.count <= COMPARE_MAX;
    for (int32_t i = 0; equal && i < left.topics.count; i++) equal = has(&right, left.topics.items[i]);
    ot_arena_free(&arena);
    return equal;
}

typedef struct ot_consumer_protocol_assignment_topic_partition topic_partitions;

static const topic_partitions *topic_of(const struct ot_consumer_protocol_assignment *assignment, struct ot_str topic)
{
    for (int32_t i = 0; i < assignment->assigned_partitions.count; i++)
        if (ot_str_equal(assignment->assigned_partitions.items[i].topic, topic)) return &assignment->assigned_partitions.items[i];
    return NULL;
}

static bool contains(const topic_partitions *topic, int32_t partition)
{
    for (int32_t i = 0; topic != NULL && i < topic->partitions.count; i++)
        if (topic->partitions.items[i] == partition) return true;
    return false;
}

bool group_assignment_moved(struct ot_blob before, struct ot_blob after, uint32_t *partitions_out, uint32_t *moved_out)
{
    struct ot_consumer_protocol_assignment old, new;
    struct ot_arena arena;
    int64_t work = 0;
    *partitions_out = *moved_out = 0;
    ot_arena_init(&arena, ARENA_BYTES);
    bool read = read_assignment(before, &arena, &old) && read_assignment(after, &arena, &new);
    for (int32_t t = 0; read && t < new.assigned_partitions.count; t++) {
        const topic_partitions *topic = &new.assigned_partitions.items[t], *was = topic_of(&old, topic->topic);
        work += old.assigned_partitions.count + (int64_t)topic->partitions.count * (was == NULL ? 1 : was->partitions.count);
        read = work <= COMPARE_MAX;
        for (int32_t i = 0; read && i < topic->partitions.count; i++) *moved_out += contains(was, topic->partitions.items[i]) ? 0 : 1;
        *partitions_out += (uint32_t)topic->partitions.count;
    }
    ot_arena_free(&arena);
    return read;
}
