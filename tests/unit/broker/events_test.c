/* Events out of committed rows: what they are called, whom they are about, and why. */
#include "testing.h"

#include "broker/events_inner.h"
#include "coordinator/election.h"
#include <stdlib.h>
#include <string.h>

enum { TEXTS_MAX = 64 };
struct fixture {
    struct coord_pages *pages;
    struct coord_value before, after;
    uint8_t room[65536];
    struct coord_delta delta;
    struct coord_edit edit;
    struct ot_uuid topic;
    char *texts[TEXTS_MAX]; uint32_t count;
    char isr[256];                             /* who changed, before and after, of the last change of an ISR */
    uint32_t n;
};

static void begin(struct fixture *f)
{
    coord_value_drop(&f->before);
    f->before = coord_value_share(&f->after);
    f->after.stamp.version++;
    f->delta = (struct coord_delta){ .data = f->room, .cap_bytes = sizeof f->room };
    f->edit = (struct coord_edit){ &f->after, &f->delta };
    for (uint32_t i = 0; i < f->count; i++) free(f->texts[i]);
    f->count = 0;
}

static void told(void *arg, const struct broker_event *event)
{
    struct fixture *f = arg;
    const struct broker_event_place place = { .version = f->after.stamp.version, .n = f->n++, .hash = broker_events_hash(&f->after) };
    struct broker_event_text *text = broker_event_text_new(event, 1000, &place, 3, NULL);
    assert_non_null(text);
    assert_true(f->count < TEXTS_MAX);
    f->texts[f->count++] = strndup(text->text, text->bytes);
    free(text);
    if (event->isr.changed_count == 0) return;
    size_t at = 0;
    const struct { const char *word; const int32_t *ids; int32_t count; } sets[] = { { "who", event->isr.changed, event->isr.changed_count }, { "; from", event->isr.from, event->isr.from_count },
        { "; to", event->isr.to, event->isr.to_count } };
    for (size_t i = 0; i < OT_ARRAY_COUNT(sets); i++) {
        at += (size_t)snprintf(f->isr + at, sizeof f->isr - at, "%s", sets[i].word);
        for (int32_t k = 0; k < sets[i].count; k++) at += (size_t)snprintf(f->isr + at, sizeof f->isr - at, " %d", sets[i].ids[k]);
    }
}

static void end(struct fixture *f)
{
    f->n = 0;
    assert_int_equal(broker_events_of_delta(&f->before, &f->after, coord_blob(f->delta.data, f->delta.bytes), told, f), OT_OK);
}

/* The event has all of these, one behind the other. */
static void expect(struct fixture *f, uint32_t at, const char *type, const char *reason, const char *more)
{
    char piece[128];
    assert_true(at < f->count);
    snprintf(piece, sizeof piece, "\"type\":\"%s\"", type);
    if (strstr(f->texts[at], piece) == NULL) fail_msg("event %u is no %s: %s", at, type, f->texts[at]);
    snprintf(piece, sizeof piece, "\"reason\":\"%s\"", reason == NULL ? "" : reason);
    if ((reason != NULL && strstr(f->texts[at], piece) == NULL) || (reason == NULL && strstr(f->texts[at], "\"reason\"") != NULL)) fail_msg("not for %s: %s", reason, f->texts[at]);
    if (more != NULL && strstr(f->texts[at], more) == NULL) fail_msg("no %s in %s", more, f->texts[at]);
}

static void put_broker(struct fixture *f, int32_t id, int64_t epoch, bool fenced, bool stopping)
{
    struct ot_coord_broker_row row;
    ot_coord_broker_row_defaults(&row);
    row.broker_epoch = epoch;
    row.fenced = fenced;
    row.in_controlled_shutdown = stopping;
    assert_int_equal(coord_broker_put(&f->edit, id, &row), OT_OK);
}

static struct coord_partition get(struct fixture *f)
{
    struct coord_partition row;
    assert_int_equal(coord_partition_get(&f->after, &f->topic, 0, &row), OT_OK);
    return row;
}

static void put(struct fixture *f, struct coord_partition *row)
{
    row->partition_epoch++;
    row->last_members = (row->isr | row->elr) != 0 ? row->isr | row->elr : row->last_members;
    assert_int_equal(coord_partition_put(&f->edit, &f->topic, 0, row), OT_OK);
}

/* Topic `orders`: one partition on 1, 2 and 3, all in sync, 1 leads; so many replicas of it. */
static void make_topic(struct fixture *f, int32_t replicas)
{
    struct ot_coord_topic_row topic;
    struct coord_partition row = { .replicas = { 1, 2, 3 }, .replica_count = replicas, .isr = (UINT64_C(1) << replicas) - 1, .leader = 1, .min_isr = 1, .last_leader = -1, .last_leader_epoch = -1,
        .durable_since = -1, .loss_version = -1, .loss_epoch = -1 };
    ot_coord_topic_row_defaults(&topic);
    topic.name = ot_str_of("orders");
    topic.partition_count = 1;
    assert_int_equal(coord_topic_put(&f->edit, &f->topic, &topic), OT_OK);
    put(f, &row);
}

static int setup_with(void **state, int32_t replicas)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->pages = coord_pages_new(16 << 20);
    coord_value_init(&f->before, f->pages);
    coord_value_init(&f->after, f->pages);
    f->topic.bytes[3] = 7;
    f->after.stamp = (struct coord_stamp){ 3, 100 };
    begin(f);
    for (int32_t id = 1; id <= 3; id++) put_broker(f, id, id, false, false);
    make_topic(f, replicas);
    end(f);
    *state = f;
    return 0;
}

static int setup(void **state) { return setup_with(state, 3); }
static int setup_alone(void **state) { return setup_with(state, 1); }

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < f->count; i++) free(f->texts[i]);
    coord_value_drop(&f->before);
    coord_value_drop(&f->after);
    coord_pages_free(f->pages);
    free(f);
    return 0;
}

static void what_is_new_is_told_once(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(f->count, 4);
    for (uint32_t i = 0; i < 3; i++) expect(f, i, "broker_registered", NULL, "\"first\":true");
    expect(f, 3, "topic_created", NULL, "\"topic\":\"orders\"");
    expect(f, 3, "topic_created", NULL, "\"replication_factor\":3");
}

static void a_fenced_follower_leaves_the_isr_because_it_was_fenced(void **state)
{
    struct fixture *f = *state;
    begin(f);
    put_broker(f, 3, 3, true, false);
    struct coord_partition row = get(f);
    row.isr = 3;
    put(f, &row);
    end(f);
    assert_int_equal(f->count, 2);
    expect(f, 0, "broker_fenced", NULL, "\"broker\":3");
    expect(f, 1, "isr_shrink", "broker_fenced", "\"removed\":[3],\"from\":[1,2,3],\"leader\":1,\"leader_epoch\":0,\"partition_epoch\":2,\"isr\":[1,2],\"osr\":[3],\"elr\":[]");
}

static void a_slow_follower_leaves_for_lag_and_comes_back_caught_up(void **state)
{
    struct fixture *f = *state;
    begin(f);
    struct coord_partition row = get(f);
    row.isr = 3;
    put(f, &row);
    end(f);
    assert_int_equal(f->count, 1);
    expect(f, 0, "isr_shrink", "replica_lag_time", "\"broker\":3");
    assert_string_equal(f->isr, "who 3; from 1 2 3; to 1 2");
    begin(f);
    row = get(f);
    row.isr = 7;
    put(f, &row);
    end(f);
    assert_int_equal(f->count, 1);
    expect(f, 0, "isr_expand", "caught_up", "\"added\":[3]");
    assert_string_equal(f->isr, "who 3; from 1 2; to 1 2 3");
}

static void a_leader_that_is_fenced_is_followed_cleanly(void **state)
{
    struct fixture *f = *state;
    begin(f);
    put_broker(f, 1, 1, true, false);
    struct coord_partition row = get(f);
    row.isr = 6;
    row.leader = 2;
    row.leader_epoch++;
    put(f, &row);
    end(f);
    assert_int_equal(f->count, 3);
    expect(f, 1, "isr_shrink", "broker_fenced", "\"removed\":[1]");
    expect(f, 2, "leader_changed", "broker_fenced", "\"broker\":2,\"reason\":\"broker_fenced\",\"from\":1,\"election\":\"clean\"");
}

static void a_stopping_broker_and_one_that_began_again_say_so(void **state)
{
    struct fixture *f = *state;
    begin(f);
    put_broker(f, 1, 1, false, true);
    struct coord_partition row = get(f);
    row.isr = 6;
    row.leader = 2;
    row.leader_epoch++;
    put(f, &row);
    end(f);
    expect(f, 0, "broker_stopping", NULL, "\"broker\":1");
    expect(f, 1, "isr_shrink", "broker_shutdown", NULL);
    expect(f, 2, "leader_changed", "broker_shutdown", NULL);
    begin(f);
    put_broker(f, 2, 200, true, false);
    row = get(f);
    row.isr = 4;
    row.leader = 3;
    row.leader_epoch++;
    put(f, &row);
    end(f);
    expect(f, 0, "broker_registered", NULL, "\"first\":false");
    expect(f, 1, "isr_shrink", "broker_restarted", "\"removed\":[2]");
    expect(f, 2, "leader_changed", "broker_restarted", NULL);
}

static void nobody_leads_and_then_the_one_that_has_all_does(void **state)
{
    struct fixture *f = *state;
    begin(f);
    struct coord_partition row = get(f);
    row.isr = 1;
    row.elr = 2;
    row.min_isr = 2;
    put(f, &row);
    end(f);
    begin(f);
    put_broker(f, 1, 1, true, false);
    row.isr = 0;
    row.elr = 3;
    row.leader = -1;
    row.leader_epoch++;
    row.last_leader = 1;
    put(f, &row);
    end(f);
    expect(f, 2, "leader_changed", "broker_fenced", "\"election\":null,\"leader\":null");
    begin(f);
    put_broker(f, 2, 2, true, false);
    put_broker(f, 2, 2, false, false);
    row.isr = 2;
    row.elr = 1;
    row.leader = 2;
    row.leader_epoch++;
    put(f, &row);
    end(f);
    assert_int_equal(f->count, 4);
    expect(f, 0, "broker_fenced", NULL, NULL);
    expect(f, 1, "broker_unfenced", NULL, NULL);
    expect(f, 2, "isr_expand", "elected", NULL);
    expect(f, 3, "leader_changed", "replica_returned", "\"election\":\"elr\"");
}

static void an_unclean_election_is_called_so(void **state)
{
    struct fixture *f = *state;
    begin(f);
    struct coord_partition row = get(f);
    row.isr = 1;
    put(f, &row);
    end(f);
    begin(f);
    put_broker(f, 1, 1, true, false);
    row.isr = 0;
    row.elr = 1;
    row.leader = -1;
    row.leader_epoch++;
    put(f, &row);
    end(f);
    begin(f);
    row.isr = 4;
    row.elr = 0;
    row.leader = 3;
    row.leader_epoch++;
    row.loss_version = 103;
    row.loss_epoch = 1;
    row.loss = COORD_LOSS_UNCLEAN;
    put(f, &row);
    end(f);
    expect(f, 0, "isr_expand", "unclean", "\"added\":[3]");
    expect(f, 1, "leader_changed", "unclean", "\"election\":\"unclean\"");
}

static void a_preferred_leader_takes_over(void **state)
{
    struct fixture *f = *state;
    begin(f);
    struct coord_partition row = get(f);
    row.leader = 2;
    row.leader_epoch++;
    put(f, &row);
    end(f);
    expect(f, 0, "leader_changed", "elected", "\"from\":1");
    begin(f);
    row.leader = 1;
    row.leader_epoch++;
    put(f, &row);
    end(f);
    assert_int_equal(f->count, 1);
    expect(f, 0, "leader_changed", "preferred", "\"from\":2,\"election\":\"clean\"");
}

static void replicas_move_and_the_one_that_goes_was_reassigned(void **state)
{
    struct fixture *f = *state;
    begin(f);
    struct coord_partition row = get(f), moving = row;
    put_broker(f, 4, 4, false, false);
    const int32_t list[] = { 2, 3, 4, 1 };
    memcpy(moving.replicas, list, sizeof list);
    moving.replica_count = 4;
    moving.isr = 0xb;
    moving.adding = 4;
    moving.removing = 8;
    put(f, &moving);
    end(f);
    expect(f, 1, "reassignment_begun", NULL, "\"from\":[1,2,3],\"to\":[2,3,4],\"adding\":[4],\"removing\":[1]");
    assert_int_equal(f->count, 2);
    begin(f);
    struct coord_partition done = moving;
    done.replica_count = 3;
    done.isr = 7;
    done.adding = done.removing = 0;
    done.leader = 2;
    done.leader_epoch++;
    put(f, &done);
    end(f);
    expect(f, 0, "reassignment_ended", NULL, "\"to\":[2,3,4]");
    expect(f, 1, "isr_shrink", "reassigned", "\"removed\":[1]");
    expect(f, 2, "isr_expand", "caught_up", "\"added\":[4]");
    expect(f, 3, "leader_changed", "reassigned", "\"from\":1");
    assert_int_equal(f->count, 4);
    begin(f);
    moving.partition_epoch = done.partition_epoch;
    moving.leader_epoch = done.leader_epoch;
    put(f, &moving);
    end(f);
    begin(f);
    row.partition_epoch = moving.partition_epoch;
    row.leader_epoch = moving.leader_epoch;
    put(f, &row);
    end(f);
    expect(f, 0, "reassignment_cancelled", NULL, "\"to\":[1,2,3]");
}

static void of_a_sole_replica_only_a_loss_is_told(void **state)
{
    struct fixture *f = *state;
    begin(f);
    put_broker(f, 1, 50, true, false);
    struct coord_partition row = get(f);
    row.isr = 0;
    row.elr = 1;
    row.leader = -1;
    row.leader_epoch++;
    put(f, &row);
    end(f);
    assert_int_equal(f->count, 1);
    expect(f, 0, "broker_registered", NULL, NULL);
    begin(f);
    row.isr = 1;
    row.elr = 0;
    row.leader = 1;
    row.leader_epoch++;
    row.loss_version = 104;
    put(f, &row);
    end(f);
    expect(f, f->count - 1, "leader_changed", "sole_replica", "\"election\":\"sole_replica\"");
}

static void settings_are_told_with_what_they_were(void **state)
{
    struct fixture *f = *state;
    const struct coord_scope scope = { .kind = COORD_SCOPE_TOPIC, .topic_id = f->topic }, cluster = { .kind = COORD_SCOPE_CLUSTER };
    begin(f);
    assert_int_equal(coord_config_put(&f->edit, &scope, ot_str_of("retention.ms"), ot_str_of("1000")), OT_OK);
    assert_int_equal(coord_config_put(&f->edit, &cluster, ot_str_of("log.retention.ms"), ot_str_of("a\"b\n")), OT_OK);
    end(f);
    expect(f, 0, "config_changed", NULL, "\"topic\":\"orders\",\"scope\":\"topic\",\"name\":\"retention.ms\",\"from\":null,\"to\":\"1000\"");
    expect(f, 1, "config_changed", NULL, "\"scope\":\"cluster\",\"name\":\"log.retention.ms\",\"from\":null,\"to\":\"a\\\"b\\u000a\"");
    begin(f);
    assert_int_equal(coord_config_remove(&f->edit, &scope, ot_str_of("retention.ms")), OT_OK);
    end(f);
    expect(f, 0, "config_changed", NULL, "\"from\":\"1000\",\"to\":null");
    begin(f);                                  /* deleted with its topic: the topic says so */
    assert_int_equal(coord_partition_remove(&f->edit, &f->topic, 0), OT_OK);
    assert_int_equal(coord_topic_remove(&f->edit, &f->topic), OT_OK);
    end(f);
    assert_int_equal(f->count, 1);
    expect(f, 0, "topic_deleted", NULL, "\"partitions\":1");
}

static void what_operators_ask_of_a_broker_is_told_as_what_it_means(void **state)
{
    static const struct { const char *mark, *begun, *ended; } marks[] = { { COORD_MAINTENANCE, "maintenance_begun", "maintenance_ended" },
        { COORD_DECOMMISSION, "decommission_begun", "decommission_cancelled" } };
    struct fixture *f = *state;
    const struct coord_scope scope = { .kind = COORD_SCOPE_BROKER, .broker_id = 2 };
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        begin(f);
        assert_int_equal(coord_config_put(&f->edit, &scope, ot_str_of(marks[i].mark), ot_str_of("true")), OT_OK);
        end(f);
        assert_int_equal(f->count, 1);
        expect(f, 0, marks[i].begun, NULL, "\"broker\":2");
        begin(f);
        assert_int_equal(coord_config_put(&f->edit, &scope, ot_str_of(marks[i].mark), ot_str_of("false")), OT_OK);
        end(f);
        expect(f, 0, marks[i].ended, NULL, "\"broker\":2");
        begin(f);
        assert_int_equal(coord_config_remove(&f->edit, &scope, ot_str_of(marks[i].mark)), OT_OK);
        end(f);
        assert_int_equal(f->count, 0);
    }
    begin(f);
    assert_int_equal(coord_config_put(&f->edit, &scope, ot_str_of(COORD_DECOMMISSION), ot_str_of("true")), OT_OK);
    end(f);
    begin(f);                                  /* forgotten: its marks go with it, and it does not stay */
    assert_int_equal(coord_config_remove(&f->edit, &scope, ot_str_of(COORD_DECOMMISSION)), OT_OK);
    assert_int_equal(coord_broker_remove(&f->edit, 2), OT_OK);
    end(f);
    assert_int_equal(f->count, 1);
    expect(f, 0, "broker_unregistered", NULL, "\"broker\":2");
}

static void put_voter(struct fixture *f, int32_t id, uint8_t dir)
{
    struct ot_coord_voter_row row;
    ot_coord_voter_row_defaults(&row);
    row.dir_id.bytes[0] = dir;
    row.host = ot_str_of("127.0.0.1");
    row.port = 9093;
    assert_int_equal(coord_voter_put(&f->edit, id, &row), OT_OK);
}

static void voters_features_and_new_partitions_are_told(void **state)
{
    struct fixture *f = *state;
    struct ot_coord_cluster_row cluster;
    struct ot_coord_topic_row topic;
    ot_coord_cluster_row_defaults(&cluster);
    begin(f);
    put_voter(f, 4, 1);
    assert_int_equal(coord_cluster_put(&f->edit, &cluster), OT_OK);
    end(f);
    assert_int_equal(f->count, 1);
    expect(f, 0, "voter_added", NULL, "\"broker\":4");
    begin(f);
    put_voter(f, 4, 2);
    cluster.feature_level++;
    assert_int_equal(coord_cluster_put(&f->edit, &cluster), OT_OK);
    end(f);
    assert_int_equal(f->count, 2);
    expect(f, 0, "voter_replaced", NULL, "\"broker\":4");
    expect(f, 1, "features_changed", NULL, "\"from\":0,\"to\":1");
    begin(f);
    assert_int_equal(coord_voter_remove(&f->edit, 4), OT_OK);
    assert_int_equal(coord_topic_get(&f->after, &f->topic, &topic), OT_OK);
    topic.partition_count = 3;
    assert_int_equal(coord_topic_put(&f->edit, &f->topic, &topic), OT_OK);
    end(f);
    assert_int_equal(f->count, 2);
    expect(f, 0, "voter_removed", NULL, "\"broker\":4");
    expect(f, 1, "partitions_added", NULL, "\"partitions\":3,\"from\":1");
}

static void steps_that_came_as_one_are_told_one_by_one(void **state)
{
    struct fixture *f = *state;
    begin(f);
    struct coord_partition row = get(f);
    row.isr = 3;
    put(f, &row);
    row.isr = 7;
    put(f, &row);
    end(f);
    assert_int_equal(f->count, 2);
    expect(f, 0, "isr_shrink", "replica_lag_time", "\"partition_epoch\":2");
    expect(f, 1, "isr_expand", "caught_up", "\"partition_epoch\":3");
}

static void a_delta_that_does_not_read_is_an_error_and_no_crash(void **state)
{
    struct fixture *f = *state;
    begin(f);
    struct coord_partition row = get(f);
    row.isr = 3;
    put(f, &row);
    for (uint32_t cut = 1; cut < f->delta.bytes; cut++) {
        const enum ot_err err = broker_events_of_delta(&f->before, &f->after, coord_blob(f->delta.data, cut), told, f);
        assert_int_not_equal(err, OT_OK);
    }
    for (uint32_t i = 0; i < f->delta.bytes; i++) {
        f->room[i] ^= 0x41;
        ot_ignore(broker_events_of_delta(&f->before, &f->after, coord_blob(f->delta.data, f->delta.bytes), told, f), "any answer will do");
        f->room[i] ^= 0x41;
        for (uint32_t k = 0; k < f->count; k++) free(f->texts[k]);
        f->count = 0;
    }
}

static void a_place_is_read_back_from_its_text_only(void **state)
{
    struct fixture *f = *state;
    struct broker_event_place place;
    struct broker_event event = broker_event_of(BROKER_EVENT_OFFSETS_EXPIRED);
    const struct broker_event_source source = { 2, 30, 7 };
    assert_true(broker_event_place_parse((struct ot_blob){ (const uint8_t *)f->texts[3], (uint32_t)strlen(f->texts[3]), false }, &place));
    assert_int_equal(place.version, 101);
    assert_int_equal(place.n, 3);
    assert_true(place.hash == broker_events_hash(&f->after));
    event.group = ot_str_of("{\"version\":1,\"n\":2");
    struct broker_event_text *text = broker_event_text_new(&event, 0, NULL, 0, &source);
    assert_non_null(text);
    assert_false(broker_event_place_parse((struct ot_blob){ (const uint8_t *)text->text, text->bytes, false }, &place));
    static const char begins[] = "{\"source\":{\"broker\":2,\"epoch\":30,\"n\":7},\"type\":\"offsets_expired\"";
    assert_memory_equal(text->text, begins, sizeof begins - 1);
    free(text);
}

static void what_does_not_fit_is_left_out_whole(void **state)
{
    (void)state;
    struct broker_event_fields fields;
    struct broker_event event = broker_event_of(BROKER_EVENT_GAP);
    const struct broker_event_place place = { .version = 1 };
    char big[BROKER_EVENT_FIELDS_BYTES];
    memset(big, 'x', sizeof big);
    broker_event_fields_init(&fields);
    broker_event_int(&fields, "a", 1);
    broker_event_str(&fields, "big", (struct ot_str){ big, sizeof big, false });
    broker_event_bool(&fields, "b", true);
    broker_event_epochs(&fields, "none", NULL, 0);
    broker_event_epochs(&fields, "two", (const struct broker_epoch_start[]){ { 3, 70 }, { 5, INT64_MAX } }, 2);
    event.fields = &fields;
    struct broker_event_text *text = broker_event_text_new(&event, 0, &place, 0, NULL);
    assert_non_null(text);
    text->text[text->bytes - 1] = 0;
    assert_non_null(strstr(text->text, ",\"a\":1,\"b\":true,\"none\":[],\"two\":[{\"epoch\":3,\"start_offset\":70},{\"epoch\":5,\"start_offset\":9223372036854775807}],\"cut\":true"));
    free(text);
}

static void every_type_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < BROKER_EVENT_TYPE_COUNT; i++) {
        enum broker_event_type type;
        assert_true(broker_event_type_parse(ot_str_of(broker_event_kind((enum broker_event_type)i)->name), &type));
        assert_int_equal(type, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_new_is_told_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fenced_follower_leaves_the_isr_because_it_was_fenced, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_follower_leaves_for_lag_and_comes_back_caught_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_leader_that_is_fenced_is_followed_cleanly, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopping_broker_and_one_that_began_again_say_so, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_leads_and_then_the_one_that_has_all_does, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unclean_election_is_called_so, setup, teardown),
        cmocka_unit_test_setup_teardown(a_preferred_leader_takes_over, setup, teardown),
        cmocka_unit_test_setup_teardown(replicas_move_and_the_one_that_goes_was_reassigned, setup, teardown),
        cmocka_unit_test_setup_teardown(of_a_sole_replica_only_a_loss_is_told, setup_alone, teardown),
        cmocka_unit_test_setup_teardown(settings_are_told_with_what_they_were, setup, teardown),
        cmocka_unit_test_setup_teardown(what_operators_ask_of_a_broker_is_told_as_what_it_means, setup, teardown),
        cmocka_unit_test_setup_teardown(voters_features_and_new_partitions_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(steps_that_came_as_one_are_told_one_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(a_delta_that_does_not_read_is_an_error_and_no_crash, setup, teardown),
        cmocka_unit_test_setup_teardown(a_place_is_read_back_from_its_text_only, setup, teardown),
        cmocka_unit_test(what_does_not_fit_is_left_out_whole),
        cmocka_unit_test(every_type_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
