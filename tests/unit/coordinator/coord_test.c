#include "desk.h"

#include "coordinator/state.h"

static struct desk *open_desk(void **state)
{
    struct desk *desk = *state;
    desk->auto_store = true;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    assert_true(desk->leading);
    assert_int_equal(desk_register(desk, 1, 1, COORD_BOOT_CLEAN), OT_OK);
    return desk;
}

static int setup(void **state)
{
    *state = malloc(sizeof(struct desk));
    desk_init(*state);
    return 0;
}

static int teardown(void **state)
{
    desk_free(*state);
    free(*state);
    return 0;
}

static void restart(struct desk *desk)
{
    desk_stop(desk);
    assert_int_equal(desk_start(desk, desk->record_count), OT_OK);
}

static enum ot_err create(struct desk *desk, const char *name, int32_t partitions)
{
    struct coord_request ask = desk_create(name, partitions);
    desk_ask(desk, &ask);
    return ask.error;
}

static struct ot_uuid id_of(struct desk *desk, const char *name)
{
    struct ot_coord_topic_name_row row;
    if (coord_topic_name_get(coord_view(desk->coord), ot_str_of(name), &row) != OT_OK) {
        memset(&row, 0, sizeof row);
    }
    return row.topic_id;
}

static bool exists(struct desk *desk, const char *name)
{
    struct ot_uuid id = id_of(desk, name);
    return !ot_uuid_is_zero(&id);
}

static struct coord_partition partition_of(struct desk *desk, const char *name, int32_t index)
{
    struct coord_partition row;
    struct ot_uuid id = id_of(desk, name);
    assert_int_equal(coord_partition_get(coord_view(desk->coord), &id, index, &row), OT_OK);
    return row;
}

/* ---- founding and terms */

static void founding_writes_format_then_term_then_the_first_state(void **state)
{
    struct desk *desk = *state;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    assert_int_equal(desk->writing->kind, COORD_RECORD_FORMAT);
    assert_true(desk_store(desk));
    assert_int_equal(desk->writing->kind, COORD_RECORD_TERM);
    assert_int_equal(desk->writing->u.term.term, 1);
    assert_int_equal(desk->applies, 0);
    assert_true(desk_store(desk));
    assert_int_equal(desk->writing->kind, COORD_RECORD_ACCEPT);
    assert_false(desk->leading);
    assert_true(desk_store(desk));
    assert_int_equal(desk->applies, 1);
    assert_true(desk->leading);
    assert_int_equal(desk->applied.version, 1);
    struct ot_coord_cluster_row cluster;
    assert_int_equal(coord_cluster_get(coord_view(desk->coord), &cluster), OT_OK);
    assert_true(ot_str_equal(cluster.cluster_id, ot_str_of("desk-cluster")));
}

static void a_restart_leads_only_in_a_new_term(void **state)
{
    struct desk *desk = open_desk(state);
    for (int32_t term = 1; term < 5; term++) {
        assert_int_equal(coord_term(desk->coord), term);
        assert_int_equal(coord_view(desk->coord)->stamp.term, term);
        restart(desk);
    }
}

static void a_lone_voter_keeps_its_own_vote_however_long_it_leads(void **state)
{
    struct desk *desk = open_desk(state);
    desk->now_us += 3600000000U;               /* it never hears itself; without its vote a second voter could not be added */
    assert_int_equal(create(desk, "late", 1), OT_OK);
    coord_members_load(desk->coord);
    assert_non_null(coord_peer_self(desk->coord));
    assert_true(coord_peer_self(desk->coord)->joined);
}

static const struct ot_uuid dirs_of_three[] = { { { 1, 2, 3 } }, { { 2 } }, { { 3 } } };

/* Two more voters: 2 voted for this node, 3 for itself. */
static void with_two_more_voters(struct desk *desk)
{
    static uint8_t room[4096];
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
    coord_members_load(coord);
    coord_peer_find(coord, 2, &dirs_of_three[1])->joined = true;
}

static enum ot_err remove_voter(struct desk *desk, int32_t id, uint64_t after_us, bool hears_third)
{
    struct coord_request ask = { .ask = COORD_ASK_VOTERS, .if_version = -1, .u.voters = { .remove = true, .remove_id = id } };
    desk->now_us += after_us;
    coord_peer_find(desk->coord, 2, &dirs_of_three[1])->heard_us = desk->now_us;
    if (hears_third) {
        coord_peer_find(desk->coord, 3, &dirs_of_three[2])->heard_us = desk->now_us;
    }
    desk_ask(desk, &ask);
    desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
    return ask.error;
}

static void who_lacks_a_vote_for_fewer_voters_stands_again(void **state)
{
    struct desk *desk = open_desk(state);
    with_two_more_voters(desk);
    const int32_t term = coord_term(desk->coord);
    assert_int_equal(remove_voter(desk, 2, 0, true), OT_ERR_REQUEST_TIMED_OUT);
    assert_true(desk->sends > 0);              /* its vote may only have been lost */
    assert_int_equal(remove_voter(desk, 2, 600000, true), OT_ERR_REQUEST_TIMED_OUT);
    assert_int_equal(coord_term(desk->coord), term);
    assert_int_equal(remove_voter(desk, 2, 600000, true), OT_ERR_REQUEST_TIMED_OUT);
    assert_int_equal(coord_term(desk->coord), term + 1);
    assert_false(desk->leading);               /* until they have voted */
}

static void who_would_not_have_the_vote_in_a_new_term_either_goes_on(void **state)
{
    struct desk *desk = open_desk(state);
    with_two_more_voters(desk);
    const int32_t term = coord_term(desk->coord);
    desk->now_us += 5000000;                   /* the third is silent */
    for (int i = 0; i < 10; i++) {
        assert_int_equal(remove_voter(desk, 2, 300000, false), OT_ERR_REQUEST_TIMED_OUT);
    }
    for (int i = 0; i < 10; i++) {             /* nor for a question alone */
        struct coord_request ask = { .ask = COORD_ASK_VOTERS, .if_version = -1, .validate_only = true, .u.voters = { .remove = true, .remove_id = 2 } };
        desk->now_us += 300000;
        for (int32_t id = 2; id <= 3; id++) {
            coord_peer_find(desk->coord, id, &dirs_of_three[id - 1])->heard_us = desk->now_us;
        }
        desk_ask(desk, &ask);
        assert_int_equal(ask.error, OT_ERR_REQUEST_TIMED_OUT);
        desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
    }
    assert_int_equal(coord_term(desk->coord), term);
    assert_true(desk->leading);
}

static void another_nodes_disk_is_refused(void **state)
{
    struct desk *desk = open_desk(state);
    desk_stop(desk);
    struct coord_disk_image image;
    struct coord_record record;
    char text[200];
    coord_image_init(&image, desk->pages);
    assert_int_equal(coord_record_decode(COORD_RECORD_FORMAT, coord_blob(desk->records[0].data, desk->records[0].bytes), &record), OT_OK);
    assert_int_equal(coord_image_take(&image, &record, text, sizeof text), OT_OK);
    struct coord_config config = desk_config(desk);
    config.node_id = 2;
    assert_int_equal(coord_new(&config, &image, 1, &desk->coord, text, sizeof text), OT_ERR_MISMATCH);
    assert_non_null(strstr(text, "node 1"));
    config = desk_config(desk);
    config.cluster_id = ot_str_of("other");
    assert_int_equal(coord_new(&config, &image, 1, &desk->coord, text, sizeof text), OT_ERR_MISMATCH);
    assert_non_null(strstr(text, "desk-cluster"));
    assert_non_null(strstr(text, "other"));
    coord_image_free(&image);
}

/* ---- persist before apply and answer */

static void nothing_is_applied_or_answered_before_it_is_stored(void **state)
{
    struct desk *desk = open_desk(state);
    desk->auto_store = false;
    uint32_t applies = desk->applies, replies = desk->replies;
    struct coord_request ask = desk_create("a", 3);
    desk_ask(desk, &ask);
    assert_int_equal(desk->applies, applies);
    assert_int_equal(desk->replies, replies);
    assert_false(exists(desk, "a"));
    assert_true(desk_store(desk));
    assert_int_equal(desk->applies, applies + 1);
    assert_int_equal(desk->replies, replies + 1);
    assert_int_equal(ask.error, OT_OK);
    assert_int_equal(partition_of(desk, "a", 2).leader, 1);
}

static void requests_that_come_meanwhile_share_one_publication(void **state)
{
    struct desk *desk = open_desk(state);
    desk->auto_store = false;
    struct coord_request asks[500];
    char names[500][16];
    uint32_t stores = desk->stores;
    for (int i = 0; i < 500; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i % 499);   /* the last one asks for a name that the same delta takes */
        asks[i] = desk_create(names[i], 2);
        desk_ask(desk, &asks[i]);
    }
    assert_true(desk_store(desk));
    assert_true(desk_store(desk));
    assert_false(desk_store(desk));
    assert_int_equal(desk->stores, stores + 2);
    for (int i = 0; i < 499; i++) {
        assert_int_equal(asks[i].error, OT_OK);
    }
    assert_int_equal(asks[499].error, OT_ERR_TOPIC_ALREADY_EXISTS);
    struct ot_coord_cluster_row cluster;
    assert_int_equal(coord_cluster_get(coord_view(desk->coord), &cluster), OT_OK);
    assert_int_equal(cluster.topic_count, 499);
    assert_int_equal(cluster.partition_count, 998);
}

static void a_full_delta_leaves_the_rest_for_the_next(void **state)
{
    struct desk *desk = *state;
    desk->delta_bytes_max = 8000;
    open_desk(state);
    desk->auto_store = false;
    struct coord_request asks[20];
    char names[20][16];
    for (int i = 0; i < 20; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        asks[i] = desk_create(names[i], 80);
        desk_ask(desk, &asks[i]);
    }
    uint32_t publications = 0;
    while (desk_store(desk)) {
        publications++;
    }
    assert_in_range(publications, 4, 12);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(asks[i].error, OT_OK);
    }
    struct coord_request huge = desk_create("huge", 5000);
    desk_ask(desk, &huge);
    assert_int_equal(huge.error, OT_ERR_POLICY_VIOLATION);
    assert_false(exists(desk, "huge"));
    assert_int_equal(coord_rows_check(coord_view(desk->coord), (char[200]){ 0 }, 200), OT_OK);
}

static void a_failed_write_halts_and_answers_everybody(void **state)
{
    struct desk *desk = open_desk(state);
    desk->auto_store = false;
    struct coord_request one = desk_create("a", 1), two = desk_create("b", 1), three = desk_create("c", 1);
    desk_ask(desk, &one);
    desk_ask(desk, &two);
    desk->fail_next = OT_ERR_IO;
    desk_store(desk);
    assert_int_equal(desk->halts, 1);
    assert_int_equal(one.error, OT_ERR_CLOSED);
    assert_int_equal(two.error, OT_ERR_CLOSED);
    desk_ask(desk, &three);
    assert_int_equal(three.error, OT_ERR_CLOSED);
    assert_null(desk->writing);
}

static void a_full_disk_refuses_and_goes_on(void **state)
{
    struct desk *desk = open_desk(state);
    desk->auto_store = false;
    int64_t version = coord_view(desk->coord)->stamp.version;
    struct coord_request one = desk_create("a", 1), two = desk_create("b", 1);
    desk_ask(desk, &one);
    desk->fail_next = OT_ERR_NO_SPACE;
    desk_store(desk);
    assert_int_equal(desk->halts, 0);
    assert_int_equal(one.error, OT_ERR_NO_SPACE);
    assert_int_equal(coord_view(desk->coord)->stamp.version, version);
    desk_ask(desk, &two);
    assert_true(desk_store(desk));
    assert_int_equal(two.error, OT_OK);
    assert_int_equal(coord_view(desk->coord)->stamp.version, version + 2);     /* the failed version is not used twice */
    restart(desk);
    desk->auto_store = true;
    desk_store(desk);
    assert_true(exists(desk, "b"));
}

/* ---- crashes: every prefix of what was stored is a state that was */

static void every_prefix_of_the_journal_gives_a_state_that_was_published(void **state)
{
    struct desk *desk = open_desk(state);
    uint64_t hashes[64];
    uint32_t ends[64], count = 0;
    for (int i = 0; i < 12; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(create(desk, name, i + 1), OT_OK);
        if (i % 4 == 3) {
            struct coord_request gone = { .ask = COORD_ASK_DELETE_TOPIC, .u.topic = { .name = ot_str_of("t1"), .topic_id = { { 0 } } } };
            gone.u.topic.name = ot_str_of(i == 3 ? "t1" : i == 7 ? "t4" : "t9");
            desk_ask(desk, &gone);
            assert_int_equal(gone.error, OT_OK);
            desk->now_us += 2000000;
            desk_in(desk, (struct coord_in){ .kind = COORD_TICK });    /* a COMMIT record */
        }
        hashes[count] = desk->applied_hash;
        ends[count++] = desk->record_count;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct desk again;
        desk_init(&again);
        again.term = desk->term;
        memcpy(again.records, desk->records, sizeof again.records);
        again.record_count = ends[i];
        again.auto_store = true;
        for (uint32_t k = 0; k < again.record_count; k++) {
            again.records[k].data = memcpy(malloc(again.records[k].bytes), desk->records[k].data, again.records[k].bytes);
        }
        assert_int_equal(desk_start(&again, again.record_count), OT_OK);
        assert_true(again.leading);
        assert_true(coord_view(again.coord)->state_hash == hashes[i]);         /* accepted and not known to be committed: found again, and committed */
        assert_int_equal(coord_rows_check(coord_view(again.coord), (char[200]){ 0 }, 200), OT_OK);
        desk_free(&again);
    }
}

static void a_record_that_does_not_follow_is_corrupt(void **state)
{
    struct desk *desk = open_desk(state);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(create(desk, (char[2]){ (char)('a' + i), 0 }, 1), OT_OK);
    }
    desk_stop(desk);
    struct desk_record lost = desk->records[4];
    memmove(&desk->records[4], &desk->records[5], (desk->record_count - 5) * sizeof lost);
    desk->record_count--;
    assert_int_equal(desk_start(desk, desk->record_count), OT_ERR_CORRUPT);
    free(lost.data);
}

static void the_same_inputs_give_the_same_trace(void **state)
{
    (void)state;
    uint64_t traces[2], hashes[2];
    for (int run = 0; run < 2; run++) {
        struct desk desk;
        desk_init(&desk);
        void *at = &desk;
        open_desk(&at);
        for (int i = 0; i < 20; i++) {
            char name[16];
            snprintf(name, sizeof name, "n%d", i);
            create(&desk, name, 1 + i % 5);
        }
        traces[run] = coord_hash(desk.coord);
        hashes[run] = coord_view(desk.coord)->state_hash;
        desk_free(&desk);
    }
    assert_true(traces[0] == traces[1]);
    assert_true(hashes[0] == hashes[1]);
}

static void a_snapshot_is_asked_for_once_the_journal_is_long(void **state)
{
    struct desk *desk = open_desk(state);
    char name[16];
    for (int i = 0; i < 400 && desk->snapshots == 0; i++) {
        snprintf(name, sizeof name, "s%d", i);
        create(desk, name, 1);
    }
    assert_int_equal(desk->snapshots, 1);      /* 1 MiB at 4 KiB each */
    create(desk, "more", 1);
    assert_int_equal(desk->snapshots, 1);
}

/* Not by the next look, but when it was due: whoever waits for another leader waits for that. */
static void a_session_is_over_at_its_deadline(void **state)
{
    enum { SESSION_US = 9000000, SILENCE_US = SESSION_US / 100 * 95 };
    struct desk *desk = *state;
    struct ot_coord_broker_row row;
    struct ot_arena arena;
    uint8_t room[4096];
    desk->session_us = SESSION_US;
    desk->auto_store = true;
    desk->now_us = 1000;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    desk->now_us += 500;
    assert_int_equal(desk_register(desk, 1, 1, COORD_BOOT_CLEAN), OT_OK);
    desk->now_us += 700;
    assert_int_equal(desk_register(desk, 2, 2, COORD_BOOT_CLEAN), OT_OK);
    const uint64_t heard_us = desk->now_us;
    for (uint64_t due_us; (due_us = coord_deadline_us(desk->coord)) < heard_us + SILENCE_US;) {        /* as its driver does: whenever something is due, and 1 is heard of meanwhile */
        desk->now_us = due_us;
        ot_arena_init_with(&arena, room, sizeof room, 0);
        assert_int_equal(coord_broker_get(coord_view(desk->coord), 1, &arena, &row), OT_OK);
        struct coord_request beat = { .ask = COORD_ASK_HEARTBEAT, .u.heartbeat = { .broker_id = 1, .broker_epoch = row.broker_epoch, .applied_version = desk->applied.version } };
        desk_ask(desk, &beat);
        desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
    }
    assert_int_equal(coord_deadline_us(desk->coord), heard_us + SILENCE_US);
    desk->now_us = heard_us + SILENCE_US;
    desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
    for (int32_t id = 1; id <= 2; id++) {
        ot_arena_init_with(&arena, room, sizeof room, 0);
        assert_int_equal(coord_broker_get(coord_view(desk->coord), id, &arena, &row), OT_OK);
        assert_int_equal(row.fenced, id == 2);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(founding_writes_format_then_term_then_the_first_state),
        TEST(a_restart_leads_only_in_a_new_term), TEST(a_lone_voter_keeps_its_own_vote_however_long_it_leads),
        TEST(who_lacks_a_vote_for_fewer_voters_stands_again), TEST(who_would_not_have_the_vote_in_a_new_term_either_goes_on),
        TEST(another_nodes_disk_is_refused),
        TEST(nothing_is_applied_or_answered_before_it_is_stored),
        TEST(requests_that_come_meanwhile_share_one_publication),
        TEST(a_full_delta_leaves_the_rest_for_the_next),
        TEST(a_failed_write_halts_and_answers_everybody),
        TEST(a_full_disk_refuses_and_goes_on),
        TEST(every_prefix_of_the_journal_gives_a_state_that_was_published),
        TEST(a_record_that_does_not_follow_is_corrupt),
        TEST(the_same_inputs_give_the_same_trace),
        TEST(a_snapshot_is_asked_for_once_the_journal_is_long),
        TEST(a_session_is_over_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
