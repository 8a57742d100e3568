/* A desk whose node is voter 1 of three: it speaks for the two others. */
#ifndef OT_TEST_PEERS_DESK_H
#define OT_TEST_PEERS_DESK_H

#include "desk.h"

#include "coordinator/state.h"

static const struct ot_uuid dirs_of_three[] = { { { 1, 2, 3 } }, { { 2 } }, { { 3 } } };

/* It leads in term 1, with the vote of 2. */
static inline struct desk *desk_of_three(void **state)
{
    static uint8_t room[4096];
    struct desk *desk = *state;
    desk->auto_store = true;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    assert_int_equal(desk_register(desk, 1, 1, COORD_BOOT_CLEAN), OT_OK);
    struct coord *coord = desk->coord;
    struct coord_delta delta = { .data = room, .cap_bytes = sizeof room };
    struct coord_edit edit = { &coord->committed, &delta };
    desk->has_peers = true;
    coord->config.election_timeout_us = 1000000;
    coord->config.heartbeat_us = 100000;
    for (int32_t id = 2; id <= 3; id++) {
        struct ot_coord_voter_row row;
        ot_coord_voter_row_defaults(&row);
        row.dir_id = dirs_of_three[id - 1];
        row.host = ot_str_of("127.0.0.1");
        row.port = 9093;
        assert_int_equal(coord_voter_put(&edit, id, &row), OT_OK);
    }
    coord_history_clear(coord);
    coord_members_load(coord);
    coord_peer_find(coord, 2, &dirs_of_three[1])->joined = true;
    return desk;
}

static inline void desk_hears(struct desk *desk, int32_t sender, struct coord_message message)
{
    static uint8_t room[COORD_MESSAGE_OVERHEAD_MAX + 65536];
    size_t bytes;
    message.sender = sender;
    if (sender >= 1 && sender <= 3 && ot_uuid_is_zero(&message.dir_id)) message.dir_id = dirs_of_three[sender - 1];
    message.levels = message.levels.max == 0 ? coord_levels_known() : message.levels;
    message.cluster = coord_cluster_hash(ot_str_of("desk-cluster"));
    assert_int_equal(coord_message_encode(&message, room, sizeof room, &bytes), OT_OK);
    desk_in(desk, (struct coord_in){ .kind = COORD_MSG, .peer = (uint32_t)sender, .body = coord_blob(room, bytes) });
}

/* From here on 2 leads, in that term. */
static inline void desk_follows(struct desk *desk, int32_t leader, int32_t term)
{
    for (int i = 0; i < 2; i++) {              /* the first one only tells of the term */
        desk_hears(desk, leader, (struct coord_message){ .kind = COORD_HEARTBEAT, .term = term, .leader = leader, .round = i + 1 });
    }
    assert_int_equal(coord_term(desk->coord), term);
    assert_int_equal(coord_leader(desk->coord), leader);
}

static inline void desk_later(struct desk *desk, uint64_t us)
{
    desk->now_us += us;
    desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
}

static inline int desk_setup(void **state)
{
    *state = malloc(sizeof(struct desk));
    desk_init(*state);
    return 0;
}

static inline int desk_teardown(void **state)
{
    desk_free(*state);
    free(*state);
    return 0;
}

#endif
