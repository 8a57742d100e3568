/* What one node knows becomes what the cluster knows. */
#include "open_house.h"

#include "base/log.h"
#include "broker/force_voters.h"
#include "broker/journal.h"
#include "broker/room.h"

struct found { struct coord_pages *pages; struct coord_disk_image image; struct broker_journal journal; struct ot_coord_cluster_row cluster; };

static void read_meta(struct house *house, struct found *out)
{
    char path[2048], text[400];
    snprintf(path, sizeof path, "%s/" BROKER_META_FOLDER, house->dirs);
    out->pages = coord_pages_new(16 << 20);
    coord_image_init(&out->image, out->pages);
    if (broker_journal_open(&out->journal, ot_io_real(), path, &out->image, text, sizeof text) != OT_OK) fail_msg("%s", text);
    if (out->image.has_accepted) {
        assert_int_equal(coord_delta_apply(&out->image.committed, out->image.accepted.delta), OT_OK);
        out->image.committed.stamp = out->image.accepted.stamp;
    }
    assert_int_equal(coord_cluster_get(&out->image.committed, &out->cluster), OT_OK);
}

static void drop_meta(struct found *found)
{
    broker_journal_close(&found->journal);
    coord_image_free(&found->image);
    coord_pages_free(found->pages);
}

static uint32_t partitions_of(const struct coord_value *value, struct coord_partition *rows, uint32_t max)
{
    struct coord_cursor cursor;
    struct ot_uuid topic_id;
    int32_t index;
    uint32_t count = 0;
    coord_partitions_begin(value, &cursor);
    while (count < max && coord_partitions_next(&cursor, &topic_id, &index, &rows[count]) == OT_OK) count++;
    return count;
}

struct made { struct broker_admin admin; struct broker_admin_item item; struct waited waited; struct ot_task go; struct house *house; };
static void made_done(struct broker_call *call) { wake(&OT_CONTAINER(call, struct made, admin.call)->waited); }

static void made_go(struct ot_task *task)
{
    struct made *made = OT_CONTAINER(task, struct made, go);
    broker_admin(made->house->broker, &made->admin);
}

static void make_topic(struct house *house, const char *name, int32_t partitions)
{
    struct made made = { .item = { .kind = BROKER_CREATE_TOPIC, .topic = ot_str_of(name), .partition_count = partitions, .replication_factor = -1, .if_version = -1 },
        .admin = { .call = { .home = ot_exec_thread_exec(house->door), .done = made_done }, .item_count = 1, .timeout_ms = 5000 },
        .waited = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false }, .go.run = made_go, .house = house };
    made.admin.items = &made.item;
    ot_exec_post(made.admin.call.home, &made.go);
    wait_for(&made.waited);
    assert_int_equal(made.item.error, OT_OK);
}

/* Whatever the lost voters went on to, no row, epoch or id of it comes again. */
static void what_was_forced_is_later_than_all_that_was_lost(void **state)
{
    enum { MOST = 64 };
    struct house *house = *state;
    struct coord_partition before[MOST], after[MOST];
    struct broker_forced forced;
    struct found found;
    char text[400], cluster_id[64];
    const char *dirs[] = { house->dirs };
    start(house);
    assert_int_equal(house->err, OT_OK);
    make_topic(house, "kept", 3);
    stop(house);
    read_meta(house, &found);
    const uint32_t count = partitions_of(&found.image.committed, before, MOST);
    const int64_t next_producer_id = found.cluster.next_producer_id;
    assert_true(count >= 3);
    snprintf(cluster_id, sizeof cluster_id, "%.*s", (int)found.cluster.cluster_id.bytes, found.cluster.cluster_id.data);
    drop_meta(&found);
    if (broker_force_voters(ot_io_real(), dirs, 1, cluster_id, 1, &forced, text, sizeof text) != OT_OK) fail_msg("%s", text);
    read_meta(house, &found);
    assert_int_equal(partitions_of(&found.image.committed, after, MOST), count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(after[i].leader_epoch, before[i].leader_epoch + BROKER_FORCE_TERMS);
        assert_int_equal(after[i].partition_epoch, before[i].partition_epoch + BROKER_FORCE_TERMS);
        assert_int_equal(after[i].leader, before[i].leader);
        assert_true(after[i].durable_since == -1);
    }
    assert_true(found.cluster.leader_epoch_floor >= BROKER_FORCE_TERMS);
    assert_true(found.cluster.next_producer_id > next_producer_id + 1000000);
    drop_meta(&found);
    start(house);                              /* and it is served */
    assert_int_equal(house->err, OT_OK);
    make_topic(house, "after", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(what_was_forced_is_later_than_all_that_was_lost, setup, teardown) };
    ot_log_set_level(NULL, OT_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
