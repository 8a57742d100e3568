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

/* ---- what a broker that knew more does with it */

enum shape { LOST, NARROWER, ELSEWHERE, DELETED, SHAPES };
static const char *const shapes[SHAPES] = { "lost", "narrower", "elsewhere", "deleted" };

struct taking { struct house *house; bool forced; };

static struct ot_uuid id_of(const struct coord_value *value, const char *topic)
{
    struct ot_coord_topic_name_row row;
    assert_int_equal(coord_topic_name_get(value, ot_str_of(topic), &row), OT_OK);
    return row.topic_id;
}

static void take_value(void *arg)
{
    const struct taking *taking = arg;
    struct broker *broker = taking->house->broker;
    const struct coord_value *known = broker_coordinator_value(broker->coordinator);
    struct coord_value value = coord_value_share(known);
    static uint8_t room[65536];
    struct coord_delta delta = { .data = room, .cap_bytes = sizeof room };
    struct coord_edit edit = { &value, &delta };
    struct ot_coord_cluster_row cluster;
    struct coord_partition row;
    struct ot_uuid ids[SHAPES];
    for (int i = 0; i < SHAPES; i++) ids[i] = id_of(known, shapes[i]);
    assert_int_equal(coord_topic_remove(&edit, &ids[LOST]), OT_OK);
    assert_int_equal(coord_topic_remove(&edit, &ids[DELETED]), OT_OK);
    assert_int_equal(coord_deleted_put(&edit, &(struct coord_deleted_topic){ 1, ids[DELETED], ot_str_of(shapes[DELETED]) }), OT_OK);
    assert_int_equal(coord_partition_remove(&edit, &ids[NARROWER], 1), OT_OK);
    assert_int_equal(coord_partition_get(&value, &ids[ELSEWHERE], 1, &row), OT_OK);
    row.replicas[0] = row.leader = 2;
    assert_int_equal(coord_partition_put(&edit, &ids[ELSEWHERE], 1, &row), OT_OK);
    assert_int_equal(coord_cluster_get(&value, &cluster), OT_OK);
    cluster.forced_version = taking->forced ? 1000001 : cluster.forced_version;
    char cluster_id[64];
    snprintf(cluster_id, sizeof cluster_id, "%.*s", (int)cluster.cluster_id.bytes, cluster.cluster_id.data);
    cluster.cluster_id = ot_str_of(cluster_id);
    assert_int_equal(coord_cluster_put(&edit, &cluster), OT_OK);
    broker_apply_whole(broker, known, &value, NULL);
    coord_value_drop(&value);
}

static int folders(const struct house *house, const char *topic, int32_t partition, const char *more)
{
    char begin[64];
    int count = 0;
    DIR *dir = opendir(house->dirs);
    const int bytes = snprintf(begin, sizeof begin, "%s-%d%s", topic, partition, more[0] == 0 ? "" : ".");
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        const size_t name_bytes = strlen(entry->d_name), more_bytes = strlen(more);
        count += more_bytes == 0 ? strcmp(entry->d_name, begin) == 0 : strncmp(entry->d_name, begin, (size_t)bytes) == 0 && strcmp(entry->d_name + name_bytes - more_bytes, more) == 0;
    }
    if (dir != NULL) closedir(dir);
    return count;
}

static void take(struct house *house, bool forced)
{
    struct taking taking = { house, forced };
    start(house);
    assert_int_equal(house->err, OT_OK);
    for (int i = 0; i < SHAPES; i++) make_topic(house, shapes[i], 2);
    broker_coordinator_run(ot_exec_thread_exec(house->coord), take_value, &taking);
    stop(house);
    for (int i = 0; i < SHAPES; i++) {         /* whether it goes, and what is there still */
        const bool whole = i == LOST || i == DELETED, kept = forced && i != DELETED;
        assert_int_equal(folders(house, shapes[i], 1, ""), 0);
        assert_int_equal(folders(house, shapes[i], 1, "-stray"), kept);
        assert_int_equal(folders(house, shapes[i], 0, ""), !whole);
        assert_int_equal(folders(house, shapes[i], 0, "-stray"), whole && kept);
    }
}

/* Records that were acknowledged are not deleted because nobody is left who knew of them. */
static void what_a_forced_value_lacks_is_set_aside_unless_it_says_that_it_was_deleted(void **state) { take(*state, true); }
static void what_any_other_value_lacks_is_deleted(void **state) { take(*state, false); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_forced_is_later_than_all_that_was_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_forced_value_lacks_is_set_aside_unless_it_says_that_it_was_deleted, setup, teardown),
        cmocka_unit_test_setup_teardown(what_any_other_value_lacks_is_deleted, setup, teardown),
    };
    ot_log_set_level(NULL, OT_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
