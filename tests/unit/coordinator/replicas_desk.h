/* A coordinator with three brokers and a partition of three replicas, and what leaders and operators ask of it. */
#ifndef OT_REPLICAS_DESK_H
#define OT_REPLICAS_DESK_H

#include "desk.h"

static struct ot_uuid topic_id;

static inline int setup(void **state)
{
    struct desk *desk = malloc(sizeof *desk);
    desk_init(desk);
    desk->auto_store = true;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    for (int32_t id = 1; id <= 4; id++) {
        assert_int_equal(desk_register(desk, id, (uint8_t)id, COORD_BOOT_CLEAN), OT_OK);
    }
    static const int32_t brokers[] = { 1, 2, 3 };
    static const struct coord_assignment assignment = { 0, brokers, 3 };
    static const struct coord_config_change change = { { "min.insync.replicas", 19, false }, { "2", 1, false } };
    struct coord_request ask = { .ask = COORD_ASK_CREATE_TOPIC,
        .u.topic = { .name = ot_str_of("t"), .assignments = &assignment, .assignment_count = 1, .configs = &change, .config_count = 1 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    topic_id = ask.topic_id;
    *state = desk;
    return 0;
}

static inline int teardown(void **state)
{
    desk_free(*state);
    free(*state);
    return 0;
}

static inline struct coord_partition row_of(struct desk *desk)
{
    struct coord_partition row;
    assert_int_equal(coord_partition_get(coord_view(desk->coord), &topic_id, 0, &row), OT_OK);
    return row;
}

static inline int64_t epoch_of(struct desk *desk, int32_t id)
{
    struct ot_coord_broker_row row;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 0);
    assert_int_equal(coord_broker_get(coord_view(desk->coord), id, &arena, &row), OT_OK);
    return row.broker_epoch;
}

static int64_t sequence;

/* Leader says: these are in sync. */
static inline enum ot_err alter_with(struct desk *desk, int32_t broker, int32_t leader_epoch, int32_t partition_epoch, const int32_t *ids, uint32_t count, int64_t epoch_off,
    enum coord_handover handover)
{
    struct coord_member members[8];
    for (uint32_t i = 0; i < count; i++) {
        members[i] = (struct coord_member){ ids[i], epoch_of(desk, ids[i]) + epoch_off };
    }
    struct coord_alter one = { .topic_id = topic_id, .leader_epoch = leader_epoch, .partition_epoch = partition_epoch, .members = members, .member_count = count, .handover = handover };
    struct coord_request ask = { .ask = COORD_ASK_ALTER,
        .u.alter = { .broker_id = broker, .broker_epoch = epoch_of(desk, broker), .term = coord_term(desk->coord), .sequence = ++sequence, .items = &one, .count = 1 } };
    desk_ask(desk, &ask);
    return ask.error != OT_OK ? ask.error : one.error;
}

static inline enum ot_err alter_as(struct desk *desk, int32_t broker, int32_t leader_epoch, int32_t partition_epoch, const int32_t *ids, uint32_t count, int64_t epoch_off)
{
    return alter_with(desk, broker, leader_epoch, partition_epoch, ids, count, epoch_off, COORD_STAYS);
}

/* Its leader says what became of the handover, by the row as it is. */
static inline enum ot_err says(struct desk *desk, enum coord_handover handover)
{
    struct coord_partition row = row_of(desk);
    int32_t ids[8];
    uint32_t count = 0;
    for (int32_t i = 0; i < row.replica_count; i++) {
        if ((row.isr >> i & 1) != 0) {
            ids[count++] = row.replicas[i];
        }
    }
    return alter_with(desk, row.leader, row.leader_epoch, row.partition_epoch, ids, count, 0, handover);
}

static inline enum ot_err alter(struct desk *desk, const int32_t *ids, uint32_t count)
{
    struct coord_partition row = row_of(desk);
    return alter_as(desk, row.leader, row.leader_epoch, row.partition_epoch, ids, count, 0);
}

static inline enum ot_err fence(struct desk *desk, int32_t id)
{
    struct coord_request ask = { .ask = COORD_ASK_FENCE, .u.fence = { id, epoch_of(desk, id) } };
    desk_ask(desk, &ask);
    return ask.error;
}

/* The candidate, by what these said they have. */
static inline enum ot_err elect_by(struct desk *desk, enum coord_loss loss, int32_t candidate, int64_t loss_from, const int32_t *ids, uint32_t count, int64_t epoch_off, int32_t row_off)
{
    struct coord_member members[8];
    for (uint32_t i = 0; i < count; i++) {
        members[i] = (struct coord_member){ ids[i], epoch_of(desk, ids[i]) + epoch_off };
    }
    struct coord_request ask = { .ask = COORD_ASK_ELECT, .u.elect = { .topic_id = topic_id, .candidate = candidate, .loss = loss, .loss_from = loss_from,
        .partition_epoch = row_of(desk).partition_epoch + row_off, .answers = members, .answer_count = count } };
    desk_ask(desk, &ask);
    return ask.error;
}

static inline enum ot_err reassign(struct desk *desk, const int32_t *target, int32_t count)
{
    struct coord_request ask = { .ask = COORD_ASK_REASSIGN, .u.reassign = { .topic_id = topic_id, .target = target, .count = count } };
    desk_ask(desk, &ask);
    return ask.error;
}

static inline struct coord_request beat(struct desk *desk, int32_t id, bool stops)
{
    struct coord_request ask = { .ask = COORD_ASK_HEARTBEAT,
        .u.heartbeat = { .broker_id = id, .broker_epoch = epoch_of(desk, id), .applied_version = coord_view(desk->coord)->stamp.version, .want_shutdown = stops } };
    desk_ask(desk, &ask);
    return ask;
}

#endif
