/* A leader of another cluster, played by the test: which versions it is asked in, what it is told, and what becomes of its refusals. */
#include "core_fixture.h"

#include "base/wire/api_versions_response.h"
#include "base/wire/apis.h"
#include "base/wire/fetch_request.h"
#include "base/wire/fetch_response.h"
#include "base/wire/frame.h"
#include "base/wire/list_offsets_request.h"
#include "base/wire/list_offsets_response.h"
#include "broker/replication.h"
#include <sys/mman.h>

enum { LEADER = 1000 };
struct leader {
    struct core_fixture f;
    struct broker_replication *replication;
    struct ot_exec *exec;
    int16_t fetch_min, fetch_max;              /* it serves */
    struct ot_fetch_response_partition_data row;           /* it answers */
    int32_t throttle_ms;
    int64_t start; int16_t start_error;        /* ListOffsets */
    bool silent, lost;                         /* holds Fetch requests; connections break */
    struct ot_link_call *held;
    /* seen */
    int16_t version;                           /* of the last Fetch */
    uint32_t versions, fetches, starts;        /* asked */
    int32_t replica_id;
    struct ot_fetch_request_fetch_partition part;
    struct ot_uuid topic_id; char topic[32];
    uint32_t refused; enum ot_err refused_error; int32_t refused_leader, refused_epoch;
    int32_t partition_epoch;
    char *name;                                /* of the topic there, for as long as it is lent; NULL: "there" */
};

/* ---- the leader */

static struct ot_buf *answer_of(struct leader *l, int16_t key, int16_t version, const void *message)
{
    const struct ot_api *api = ot_api_find(key);
    const size_t bytes = ot_wire_size(api->response, version, message) + 16;
    struct ot_buf *buf = ot_buf_new_forced(l->f.pool, bytes);
    struct ot_writer out = ot_writer_over(buf->data, bytes);
    assert_int_equal(ot_wire_response_header_encode(api, version, 7, &out), OT_OK);
    assert_int_equal(ot_wire_encode(api->response, version, message, &out, NULL), OT_OK);
    buf->bytes = (uint32_t)(out.at - out.start);
    return buf;
}

static struct ot_buf *versions_answer(struct leader *l)
{
    struct ot_api_versions_response_api_version rows[2] = { { .api_key = OT_API_FETCH, .min_version = l->fetch_min, .max_version = l->fetch_max },
        { .api_key = OT_API_LIST_OFFSETS, .min_version = 1, .max_version = 10 } };
    struct ot_api_versions_response said;
    ot_api_versions_response_defaults(&said);
    said.api_keys.items = rows;
    said.api_keys.count = 2;
    l->versions++;
    return answer_of(l, OT_API_API_VERSIONS, 0, &said);
}

static struct ot_buf *fetch_answer(struct leader *l)
{
    struct ot_fetch_response said;
    struct ot_fetch_response_fetchable_topic_response topic;
    ot_fetch_response_defaults(&said);
    ot_fetch_response_fetchable_topic_response_defaults(&topic);
    said.throttle_time_ms = l->throttle_ms;
    topic.topic = ot_str_of(l->topic);
    topic.topic_id = l->topic_id;
    topic.partitions.items = &l->row;
    topic.partitions.count = 1;
    said.responses.items = &topic;
    said.responses.count = 1;
    return answer_of(l, OT_API_FETCH, l->version, &said);
}

static struct ot_buf *starts_answer(struct leader *l, int16_t version)
{
    struct ot_list_offsets_response said;
    struct ot_list_offsets_response_list_offsets_topic_response topic;
    struct ot_list_offsets_response_list_offsets_partition_response part;
    ot_list_offsets_response_defaults(&said);
    ot_list_offsets_response_list_offsets_topic_response_defaults(&topic);
    ot_list_offsets_response_list_offsets_partition_response_defaults(&part);
    part.offset = l->start_error == 0 ? l->start : -1;
    part.error_code = l->start_error;
    topic.name = ot_str_of("there");
    topic.partitions.items = &part;
    topic.partitions.count = 1;
    said.topics.items = &topic;
    said.topics.count = 1;
    return answer_of(l, OT_API_LIST_OFFSETS, version, &said);
}

static void fetch_seen(struct leader *l, const struct ot_fetch_request *request)
{
    l->fetches++;
    l->replica_id = l->version < 15 ? request->replica_id : request->replica_state.replica_id;
    assert_int_equal(request->topics.count, 1);
    assert_int_equal(request->topics.items[0].partitions.count, 1);
    l->part = request->topics.items[0].partitions.items[0];
    l->part._tags = (struct ot_wire_tags){ .count = l->part._tags.count };
    l->topic_id = request->topics.items[0].topic_id;
    (void)snprintf(l->topic, sizeof l->topic, "%.*s", (int)request->topics.items[0].topic.bytes, request->topics.items[0].topic.data);
}

static void answered_run(struct ot_task *task)
{
    struct ot_link_call *call = OT_CONTAINER(task, struct ot_link_call, task);
    call->answered(call);
}

static void answer(struct ot_link_call *call, struct ot_buf *buf)
{
    call->error = buf == NULL ? OT_ERR_CLOSED : OT_OK;
    call->answer = buf;
    call->task.run = answered_run;
    ot_exec_post(call->home, &call->task);
}

static void leader_send(void *arg, int32_t node_id, uint32_t stream, struct ot_link_call *call)
{
    struct leader *l = arg;
    struct ot_wire_request_header header;
    struct ot_fetch_request fetch;
    struct ot_wire_error error;
    struct ot_arena arena;
    struct ot_buf *buf = NULL;
    (void)stream;
    assert_int_equal(node_id, LEADER);
    ot_arena_init(&arena, 1u << 20);
    struct ot_reader in = ot_reader_over(call->request->data + 4, call->request->bytes - 4);
    assert_int_equal(ot_wire_request_header_decode(&in, &arena, &header, &error), OT_OK);
    if (header.key == OT_API_FETCH) {
        l->version = header.version;
        assert_int_equal(ot_fetch_request_decode(&fetch, header.version, &in, &arena, &error), OT_OK);
        fetch_seen(l, &fetch);
        if (!l->silent) buf = fetch_answer(l);
    } else if (header.key == OT_API_LIST_OFFSETS) {
        l->starts++;
        buf = starts_answer(l, header.version);
    } else {
        assert_int_equal(header.key, OT_API_API_VERSIONS);
        buf = versions_answer(l);
    }
    ot_arena_free(&arena);
    ot_buf_unref(call->request);
    if (l->lost) {
        ot_buf_unref(buf);
        answer(call, NULL);
    } else if (buf == NULL) {
        l->held = call;
    } else {
        answer(call, buf);
    }
}

static bool leader_leads(void *arg, int32_t node_id) { (void)arg; return node_id == LEADER; }
static bool leader_origin(void *arg, struct broker_partition *partition, int32_t node_id, struct broker_fetch_origin *out)
{
    const struct leader *l = arg;
    (void)partition, (void)node_id;
    *out = (struct broker_fetch_origin){ .topic_id = fixture_id(77), .topic = l->name != NULL ? l->name : "there", .leader_epoch = 4 };
    return true;
}
static void leader_refused(void *arg, struct broker_partition *partition, enum ot_err error, int32_t leader, int32_t leader_epoch)
{
    struct leader *l = arg;
    (void)partition;
    l->refused++;
    l->refused_error = error;
    l->refused_leader = leader;
    l->refused_epoch = leader_epoch;
}
static void leader_ask(void *arg, struct broker_ask *ask) { (void)arg, (void)ask; fail_msg("a mirror has nothing to ask"); }
static int32_t leader_term(void *arg) { (void)arg; return 0; }
static int64_t leader_epoch(void *arg) { (void)arg; return 3; }

/* ---- life */

static void follow(struct leader *l, int32_t leader)
{
    static const int32_t self[] = { 1 };
    struct broker_topic_config config;
    struct broker_partition_row row = { .topic = "t", .topic_id = fixture_id(7), .partition = 0, .partition_epoch = ++l->partition_epoch, .leader = leader, .leader_epoch = 10 + l->partition_epoch,
        .min_isr = 1, .isr = self, .isr_count = 1, .replicas = self, .replica_count = 1 };
    broker_topic_config_effective(l->f.config, NULL, NULL, 0, &config);
    broker_partition_apply(l->f.broker, &row, &config, l->f.home, fixture_opened, &l->f);
}

static int leader_setup(void **state)
{
    static const struct broker_replication_foreign foreign = { leader_leads, leader_origin, leader_refused };
    struct leader *l = calloc(1, sizeof *l);
    struct core_fixture *f = &l->f;
    f->disk = sim_disk_new(1);
    f->sched = sim_sched_new(1, 1750000000000);
    f->io = sim_sched_exec(f->sched, "io", false);
    f->flush = sim_sched_exec(f->sched, "flush", false);
    f->background = sim_sched_exec(f->sched, "background", true);
    f->home = sim_sched_exec(f->sched, "home", true);
    l->exec = sim_sched_exec(f->sched, "replica", true);
    f->pool = ot_pool_new("test", 64u << 20, 1u << 20);
    assert_int_equal(broker_config_store_new(&f->config), OT_OK);
    fixture_set(f, "log.append.io", "pwritev");
    fixture_set(f, "ottla.disk.reserve.bytes", "0");
    fixture_start(f);
    struct broker_replication_setup setup = { .broker = f->broker, .exec = l->exec, .pool = f->pool, .arg = l, .send = leader_send, .ask = leader_ask, .term = leader_term,
        .broker_epoch = leader_epoch, .foreign = &foreign };
    assert_int_equal(broker_replication_start(&setup, &l->replication), OT_OK);
    l->fetch_min = 4;
    l->fetch_max = 17;
    l->silent = true;
    ot_fetch_response_partition_data_defaults(&l->row);
    *state = l;
    return 0;
}

static int leader_teardown(void **state)
{
    struct leader *l = *state;
    if (l->held != NULL) answer(l->held, NULL);
    l->lost = true;
    broker_replication_stop(l->replication);
    run(&l->f);
    (void)broker_core_stop(&l->f.broker->core, 8000);
    broker_replication_free(l->replication);
    fixture_close(&l->f);
    broker_config_store_free(l->f.config);
    ot_pool_free(l->f.pool);
    sim_disk_free(l->f.disk);
    sim_sched_free(l->f.sched);
    free(l);
    return 0;
}

static void give(struct leader *l)
{
    struct ot_link_call *call = l->held;
    assert_non_null(call);
    l->held = NULL;
    answer(call, fetch_answer(l));
    pass_ms(&l->f, 5);
}

/* ---- what must hold */

static void it_is_read_as_a_consumer_in_the_newest_version_of_both(void **state)
{
    struct leader *l = *state;
    follow(l, LEADER);
    pass_ms(&l->f, 200);
    assert_int_equal(l->versions, 1);
    assert_int_equal(l->fetches, 1);
    assert_int_equal(l->version, 17);
    assert_int_equal(l->replica_id, -1);
    assert_true(ot_uuid_equal(&l->topic_id, &(struct ot_uuid){ .bytes = { 77, 77, 77, 77, 77, 77, 77, 77, 77, 77, 77, 77, 77, 77, 77, 77 } }));
    assert_int_equal(l->part.current_leader_epoch, 4);     /* the source's, not ours */
    assert_int_equal(l->part.fetch_offset, 0);
    assert_int_equal(l->part.last_fetched_epoch, -1);
    assert_int_equal(l->part.log_start_offset, -1);
    assert_int_equal(l->part._tags.count, 0);
}

static void an_old_one_is_asked_by_name(void **state)
{
    struct leader *l = *state;
    l->fetch_max = 12;
    follow(l, LEADER);
    pass_ms(&l->f, 200);
    assert_int_equal(l->version, 12);
    assert_string_equal(l->topic, "there");
    assert_int_equal(l->replica_id, -1);
    l->row.high_watermark = 0;
    l->row.log_start_offset = 0;
    give(l);
    assert_int_equal(l->fetches, 2);           /* its answer found the partition by that name */
    assert_int_equal(l->refused, 0);
}

/* It was lent until then, and an answer may come later. */
static void the_name_is_not_read_once_another_leads(void **state)
{
    struct leader *l = *state;
    const size_t page = 4096;
    l->fetch_max = 12;
    l->name = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(l->name, MAP_FAILED);
    memcpy(l->name, "there", sizeof "there");
    follow(l, LEADER);
    pass_ms(&l->f, 200);
    follow(l, 1);
    pass_ms(&l->f, 200);
    assert_int_equal(munmap(l->name, page), 0);
    l->row.error_code = OT_ERR_FENCED_LEADER_EPOCH;
    give(l);
    assert_int_equal(l->refused, 0);
}

static void one_that_is_too_old_is_not_fetched_from(void **state)
{
    struct leader *l = *state;
    l->fetch_max = 11;                         /* no epochs that part: a cut could not be seen */
    follow(l, LEADER);
    pass_ms(&l->f, 3000);
    assert_int_equal(l->fetches, 0);
    assert_in_range(l->versions, 2, 40);       /* it may be another release of it next time; not in a circle */
}

static void it_is_asked_for_its_versions_again_after_a_failure(void **state)
{
    struct leader *l = *state;
    follow(l, LEADER);
    pass_ms(&l->f, 200);
    l->fetch_max = 13;                         /* it was taken back to an older release */
    answer(l->held, NULL);
    l->held = NULL;
    pass_ms(&l->f, 1000);
    assert_int_equal(l->versions, 2);
    assert_int_equal(l->version, 13);
}

static void a_log_that_begins_later_is_gone_on_with_there(void **state)
{
    struct leader *l = *state;
    follow(l, LEADER);
    pass_ms(&l->f, 200);
    l->row.error_code = OT_ERR_OFFSET_OUT_OF_RANGE;
    l->start = 120;
    give(l);
    assert_int_equal(l->starts, 1);
    assert_int_equal(l->part.fetch_offset, 120);
    assert_int_equal(eng_log_start_offset(fixture_partition(&l->f, 0)->log), 120);
    assert_int_equal(l->refused, 0);
    /* it ends before that, and does not say where histories part: nothing is cut, and somebody has to know */
    l->start = 0;
    give(l);
    assert_int_equal(l->starts, 2);
    assert_int_equal(l->refused, 1);
    assert_int_equal(l->refused_error, OT_ERR_OFFSET_OUT_OF_RANGE);
    assert_int_equal(eng_log_end_offset(fixture_partition(&l->f, 0)->log), 120);
    pass_ms(&l->f, 2000);
    assert_non_null(l->held);                  /* it is tried again */
    l->start_error = OT_ERR_NOT_LEADER_OR_FOLLOWER;
    give(l);
    assert_int_equal(l->refused_error, OT_ERR_NOT_LEADER_OR_FOLLOWER);
    assert_int_equal(l->refused, 2);
}

static void a_refusal_is_told_with_the_leader_it_names(void **state)
{
    struct leader *l = *state;
    follow(l, LEADER);
    pass_ms(&l->f, 200);
    l->row.error_code = OT_ERR_FENCED_LEADER_EPOCH;
    l->row.current_leader.leader_id = 2;
    l->row.current_leader.leader_epoch = 5;
    give(l);
    assert_int_equal(l->refused, 1);
    assert_int_equal(l->refused_error, OT_ERR_FENCED_LEADER_EPOCH);
    assert_int_equal(l->refused_leader, 2);
    assert_int_equal(l->refused_epoch, 5);
    assert_int_equal(l->fetches, 1);           /* a pause first */
    pass_ms(&l->f, 2000);
    assert_int_equal(l->fetches, 2);
}

static void a_quota_of_the_leader_is_kept(void **state)
{
    struct leader *l = *state;
    fixture_set(&l->f, "num.replica.fetchers", "1");
    follow(l, LEADER);
    pass_ms(&l->f, 200);
    l->throttle_ms = 900;
    l->row.log_start_offset = 0;
    give(l);
    const uint32_t fetches = l->fetches;
    l->throttle_ms = 900;
    if (l->held != NULL) give(l);              /* the other stream's; now both wait */
    const uint32_t both = l->fetches;
    assert_true(both - fetches <= 1);
    pass_ms(&l->f, 800);
    assert_int_equal(l->fetches, both);
    pass_ms(&l->f, 300);
    assert_int_equal(l->fetches, both + 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, leader_setup, leader_teardown)
    const struct CMUnitTest tests[] = {
        T(it_is_read_as_a_consumer_in_the_newest_version_of_both), T(an_old_one_is_asked_by_name), T(the_name_is_not_read_once_another_leads),
        T(one_that_is_too_old_is_not_fetched_from),
        T(it_is_asked_for_its_versions_again_after_a_failure), T(a_log_that_begins_later_is_gone_on_with_there), T(a_refusal_is_told_with_the_leader_it_names),
        T(a_quota_of_the_leader_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
