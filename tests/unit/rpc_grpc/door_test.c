/* The door before a broker that does what the test says, with a client of the C core: leaders elsewhere, what is held back, and the order of things. */
#include "testing.h"

#include "fake_broker.h"
#include "rpc/grpc/server.h"
#include "rpc/grpc/wire.h"

#include <pthread.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

static struct rpc_grpc_server *server;
static struct ot_pool *requests, *responses;
static grpc_completion_queue *queue;
static grpc_channel *channel;

static size_t pool_bytes = 64 << 20;
static struct rpc_grpc_security security;
static void (*prepare)(void);                      /* what the next server finds: its thread reads it without a lock */

static void server_open(const char *key, const char *value)
{
    char text[400];
    const struct rpc_grpc_listener listener = { "127.0.0.1", 0 };
    fake_init();
    if (prepare != NULL) prepare();
    prepare = NULL;
    if (key != NULL) assert_int_equal(broker_config_set(fake.config, BROKER_SOURCE_FLAG, "test", key, value, text, sizeof text), OT_OK);
    requests = ot_pool_new("requests", pool_bytes, 0);
    responses = ot_pool_new("responses", 64 << 20, 1 << 20);
    const struct rpc_grpc_setup setup = { .listeners = &listener, .listener_count = 1, .config = broker_config_current(fake.config), .request_pool = requests,
        .response_pool = responses, .quota_bytes = 256 << 20, .io = ot_io_real(), .io_exec = ot_exec_pool_exec(fake.pool), .security = security };
    assert_int_equal(rpc_grpc_server_open(&setup, &server, text, sizeof text), OT_OK);
    assert_int_equal(rpc_grpc_server_start(server, (struct broker *)(void *)&fake), OT_OK);
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    (void)snprintf(text, sizeof text, "127.0.0.1:%u", rpc_grpc_server_port(server, 0));
    grpc_init();
    queue = grpc_completion_queue_create_for_next(NULL);
    channel = grpc_channel_create(text, plain, NULL);
    grpc_channel_credentials_release(plain);
}

static void server_close(void)
{
    grpc_channel_destroy(channel);
    rpc_grpc_server_stop(server, 5000);
    grpc_completion_queue_shutdown(queue);
    while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type != GRPC_QUEUE_SHUTDOWN) {
    }
    grpc_completion_queue_destroy(queue);
    grpc_shutdown_blocking();
    ot_pool_free(requests);
    ot_pool_free(responses);
    fake_free();
}

/* ---- a client that waits for each thing */

struct call {
    grpc_call *call;
    grpc_metadata_array first, last;
    grpc_status_code status;
    grpc_slice words;
    grpc_byte_buffer *answer;
    uint8_t bytes[4096];                   /* of the last answer, or of the status details */
    size_t count;
};

static gpr_timespec soon(int64_t ms) { return gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_millis(ms, GPR_TIMESPAN)); }

static void call_open(struct call *call, const char *method)
{
    *call = (struct call){ .words = grpc_empty_slice() };
    grpc_metadata_array_init(&call->first);
    grpc_metadata_array_init(&call->last);
    call->call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue, grpc_slice_from_static_string(method), NULL, soon(30000), NULL);
}

static bool run(struct call *call, const grpc_op *ops, size_t count)
{
    assert_int_equal(grpc_call_start_batch(call->call, ops, count, call, NULL), GRPC_CALL_OK);
    const grpc_event event = grpc_completion_queue_next(queue, soon(30000), NULL);
    assert_int_equal(event.type, GRPC_OP_COMPLETE);
    return event.success != 0;
}

static grpc_byte_buffer *message_of(const void *data, size_t bytes)
{
    grpc_slice slice = grpc_slice_from_copied_buffer(data, bytes);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return message;
}

static void call_send(struct call *call, const void *data, size_t bytes, bool begin, bool end)
{
    grpc_op ops[3];
    size_t count = 0;
    grpc_byte_buffer *message = message_of(data, bytes);
    if (begin) ops[count++] = (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
    ops[count++] = (grpc_op){ .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message };
    if (end) ops[count++] = (grpc_op){ .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };
    assert_true(run(call, ops, count));
    grpc_byte_buffer_destroy(message);
}

static bool call_receive(struct call *call)
{
    const grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->answer };
    grpc_byte_buffer_reader reader;
    if (!run(call, &op, 1) || call->answer == NULL) return false;
    grpc_byte_buffer_reader_init(&reader, call->answer);
    grpc_slice flat = grpc_byte_buffer_reader_readall(&reader);
    call->count = GRPC_SLICE_LENGTH(flat);
    assert_true(call->count <= sizeof call->bytes);
    memcpy(call->bytes, GRPC_SLICE_START_PTR(flat), call->count);
    grpc_slice_unref(flat);
    grpc_byte_buffer_reader_destroy(&reader);
    grpc_byte_buffer_destroy(call->answer);
    call->answer = NULL;
    return true;
}

/* The status; its details, if there are any, in bytes. */
static grpc_status_code call_close(struct call *call)
{
    const grpc_op op = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
        .data.recv_status_on_client = { .trailing_metadata = &call->last, .status = &call->status, .status_details = &call->words } };
    (void)run(call, &op, 1);
    for (size_t i = 0; i < call->last.count; i++) {
        call->count = GRPC_SLICE_LENGTH(call->last.metadata[i].value);
        assert_true(call->count <= sizeof call->bytes);
        memcpy(call->bytes, GRPC_SLICE_START_PTR(call->last.metadata[i].value), call->count);
    }
    grpc_slice_unref(call->words);
    grpc_metadata_array_destroy(&call->first);
    grpc_metadata_array_destroy(&call->last);
    grpc_call_unref(call->call);
    return call->status;
}

static grpc_status_code unary(struct call *call, const char *method, const void *data, size_t bytes)
{
    const grpc_op first = { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &call->first };
    call_open(call, method);
    call_send(call, data, bytes, true, true);
    (void)run(call, &first, 1);
    (void)call_receive(call);
    return call_close(call);
}
#define UNARY(call, method, text) unary(call, "/ottla.v1.Log/" method, text, sizeof(text) - 1)

static bool says(const struct call *call, const char *text) { return memmem(call->bytes, call->count, text, strlen(text)) != NULL; }

/* ---- tests */

static void a_partition_led_elsewhere_names_its_leader(void **state)
{
    (void)state;
    struct call call;
    server_open(NULL, NULL);
    pthread_mutex_lock(&fake.mutex);           /* the door's thread reads them under it */
    fake.other_host = "there";
    fake.leader_elsewhere = 2;
    fake.produce_error = fake.row_error = OT_ERR_NOT_LEADER_OR_FOLLOWER;
    pthread_mutex_unlock(&fake.mutex);
    assert_int_equal(UNARY(&call, "Produce", "\x0a\x01" "a\x7a\x01x"), GRPC_STATUS_FAILED_PRECONDITION);
    assert_true(says(&call, "NOT_LEADER_OR_FOLLOWER") && says(&call, "\x0eleader_address\x12\x0athere:9194") && says(&call, "leader_epoch\x12\x01" "9"));
    assert_int_equal(UNARY(&call, "Fetch", "\x0a\x01" "a\x40\x02"), GRPC_STATUS_FAILED_PRECONDITION);
    assert_true(says(&call, "\x0eleader_address\x12\x0athere:9194"));
    assert_int_equal(UNARY(&call, "Subscribe", "\x0a\x05\x0a\x01" "a\x18\x02"), GRPC_STATUS_FAILED_PRECONDITION);
    assert_true(says(&call, "NOT_LEADER_OR_FOLLOWER"));
    server_close();
}

/* A stream's request: topic a, a batch of one byte that says which in the order it is, and filler. */
static size_t request(uint8_t *out, uint8_t number, size_t bytes)
{
    struct ot_writer writer = ot_writer_over(out, 65536);
    static uint8_t batch[60000];
    batch[0] = number;
    rpcg_put_text(&writer, 1, "a");
    rpcg_put_int(&writer, 9, number);
    rpcg_put_bytes(&writer, 15, batch, bytes);
    return writer.needed;
}

/* A count of the fake's, which other threads move. */
static uint64_t count_of(const uint32_t *what)
{
    pthread_mutex_lock(&fake.mutex);
    const uint64_t count = *what;
    pthread_mutex_unlock(&fake.mutex);
    return count;
}

static uint64_t produces(void) { return count_of(&fake.produces); }

static void queued_late(void) { fake.late_queued = true; }

static void appends_start_in_their_order_even_when_they_are_queued_late(void **state)
{
    (void)state;
    static uint8_t data[65536];
    struct call call;
    uint32_t acks = 0;
    prepare = queued_late;
    server_open(NULL, NULL);
    call_open(&call, "/ottla.v1.Log/ProduceStream");
    for (uint8_t i = 0; i < 100; i++) call_send(&call, data, request(data, i, 100), i == 0, i == 99);
    const grpc_op first = { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &call.first };
    (void)run(&call, &first, 1);
    while (call_receive(&call)) {
        struct ot_reader reader = ot_reader_over(call.bytes, call.count);
        struct rpcg_field ack, field;
        while (rpcg_field_next(&reader, &ack)) {
            struct ot_reader inside = ot_reader_over(ack.bytes.data, ack.bytes.bytes);
            int64_t id = 0;
            while (rpcg_field_next(&inside, &field)) {
                if (field.number == 1) id = (int64_t)field.value;
                assert_int_not_equal(field.number, 7);
            }
            assert_int_equal(id, acks++);
        }
    }
    assert_int_equal(call_close(&call), GRPC_STATUS_OK);
    assert_int_equal(acks, 100);
    assert_int_equal(fake.out_of_order, 0);
    server_close();
}

static void produce_held(void) { fake.hold_produce = true; }

static void no_more_is_read_than_may_be_in_flight(void **state)
{
    (void)state;
    static uint8_t data[65536];
    struct call call;
    prepare = produce_held;
    server_open("grpc.stream.inflight.bytes.max", "100000");
    call_open(&call, "/ottla.v1.Log/ProduceStream");
    /* two of them fill the limit; the third stays in the windows of HTTP/2, and so may be some more */
    for (uint8_t i = 0; i < 3; i++) {
        grpc_byte_buffer *message = message_of(data, request(data, i, 55000));
        const grpc_op ops[] = { { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message }, { .op = GRPC_OP_SEND_INITIAL_METADATA } };
        assert_int_equal(grpc_call_start_batch(call.call, ops, i == 0 ? 2 : 1, &call, NULL), GRPC_CALL_OK);
        if (grpc_completion_queue_next(queue, soon(2000), NULL).type != GRPC_OP_COMPLETE) break;
        grpc_byte_buffer_destroy(message);
    }
    for (int i = 0; i < 200 && produces() < 2; i++) (void)grpc_completion_queue_next(queue, soon(10), NULL);
    (void)grpc_completion_queue_next(queue, soon(200), NULL);
    assert_int_equal(produces(), 2);
    assert_int_equal(ot_pool_used_bytes(requests) > 110000, 1);
    pthread_mutex_lock(&fake.mutex);
    fake.hold_produce = false;
    pthread_mutex_unlock(&fake.mutex);
    fake_release();
    for (int i = 0; i < 500 && produces() < 3; i++) (void)grpc_completion_queue_next(queue, soon(10), NULL);
    assert_int_equal(produces(), 3);
    (void)grpc_call_cancel(call.call, NULL);
    assert_int_equal(call_close(&call), GRPC_STATUS_CANCELLED);
    server_close();
}

static void messages_wait_in_line_for_room_in_the_pool(void **state)
{
    (void)state;
    static uint8_t data[65536];
    struct call call;
    uint32_t acks = 0;
    pool_bytes = 60000;                    /* room for one of them */
    prepare = produce_held;
    server_open(NULL, NULL);
    pool_bytes = 64 << 20;
    call_open(&call, "/ottla.v1.Log/ProduceStream");
    for (uint8_t i = 0; i < 2; i++) call_send(&call, data, request(data, i, 40000), i == 0, i == 1);
    for (int i = 0; i < 500 && produces() < 1; i++) (void)grpc_completion_queue_next(queue, soon(10), NULL);
    (void)grpc_completion_queue_next(queue, soon(200), NULL);
    assert_int_equal(produces(), 1);
    pthread_mutex_lock(&fake.mutex);
    fake.hold_produce = false;
    pthread_mutex_unlock(&fake.mutex);
    fake_release();
    const grpc_op first = { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &call.first };
    (void)run(&call, &first, 1);
    while (call_receive(&call))
        for (size_t i = 0; i + 1 < call.count; i += 2u + call.bytes[i + 1]) acks++;
    assert_int_equal(call_close(&call), GRPC_STATUS_OK);
    assert_int_equal(acks, 2);
    assert_int_equal(produces(), 2);
    server_close();
}

static void fetch_held(void) { fake.hold_fetch = true; }

static void a_waiting_fetch_is_cancelled_with_its_call(void **state)
{
    (void)state;
    struct call call;
    prepare = fetch_held;
    server_open(NULL, NULL);
    call_open(&call, "/ottla.v1.Log/Fetch");
    call_send(&call, "\x0a\x01" "a\x20\x80\x80\x04", 7, true, true);
    for (int i = 0; i < 500 && count_of(&fake.fetches) == 0; i++) (void)grpc_completion_queue_next(queue, soon(10), NULL);
    (void)grpc_call_cancel(call.call, NULL);
    assert_int_equal(call_close(&call), GRPC_STATUS_CANCELLED);
    for (int i = 0; i < 500 && count_of(&fake.cancelled) == 0; i++) (void)grpc_completion_queue_next(queue, soon(10), NULL);
    assert_int_equal(count_of(&fake.cancelled), 1);
    server_close();
}

static void a_request_that_is_too_large_for_its_kind_is_refused(void **state)
{
    (void)state;
    static uint8_t data[2 << 20];
    struct call call;
    server_open(NULL, NULL);
    struct ot_writer writer = ot_writer_over(data, sizeof data);
    rpcg_put_text(&writer, 1, "a");
    rpcg_put_head(&writer, 30, (1 << 20) + 10);
    assert_int_equal(unary(&call, "/ottla.v1.Log/Fetch", data, writer.needed + (1 << 20) + 10), GRPC_STATUS_RESOURCE_EXHAUSTED);
    server_close();
}

static void a_server_that_never_started_goes_quietly(void **state)
{
    (void)state;
    char text[200];
    const struct rpc_grpc_listener listener = { "127.0.0.1", 0 };
    fake_init();
    requests = ot_pool_new("requests", 1 << 20, 0);
    const struct rpc_grpc_setup setup = { .listeners = &listener, .listener_count = 1, .config = broker_config_current(fake.config), .request_pool = requests,
        .response_pool = requests, .quota_bytes = 256 << 20, .io = ot_io_real(), .io_exec = ot_exec_pool_exec(fake.pool) };
    assert_int_equal(rpc_grpc_server_open(&setup, &server, text, sizeof text), OT_OK);
    rpc_grpc_server_stop(server, 1000);
    const struct rpc_grpc_listener nowhere = { "192.0.2.1", 1 };
    const struct rpc_grpc_setup bad = { .listeners = &nowhere, .listener_count = 1, .config = broker_config_current(fake.config), .request_pool = requests,
        .response_pool = requests, .quota_bytes = 256 << 20, .io = ot_io_real(), .io_exec = ot_exec_pool_exec(fake.pool) };
    assert_int_equal(rpc_grpc_server_open(&bad, &server, text, sizeof text), OT_ERR_IO);
    assert_true(text[0] != '\0');
    ot_pool_free(requests);
    fake_free();
}

/* ---- the hooks of security */

static struct guard { uint32_t asked, credentials; bool strange; char method[64], token[64]; } guard;
static pthread_mutex_t guard_mutex = PTHREAD_MUTEX_INITIALIZER;        /* written on the door's thread; that a call came back orders it, but nobody can see that */

static struct guard guard_now(void)
{
    pthread_mutex_lock(&guard_mutex);
    const struct guard now = guard;
    pthread_mutex_unlock(&guard_mutex);
    return now;
}

static void *guard_credentials(void *arg)
{
    (void)arg;
    guard.credentials++;
    return grpc_insecure_server_credentials_create();
}

static enum ot_err guard_admit(void *arg, const void *call, struct ot_str (*metadata_get)(const void *call, const char *name), const char *method)
{
    const struct ot_str token = metadata_get(call, "authorization"), none = metadata_get(call, "not-there");
    pthread_mutex_lock(&guard_mutex);
    guard.strange |= arg != &guard || !none.null;      /* on the door's thread: told at the end */
    guard.asked++;
    (void)snprintf(guard.method, sizeof guard.method, "%s", method);
    (void)snprintf(guard.token, sizeof guard.token, "%.*s", (int)token.bytes, token.null ? "" : token.data);
    pthread_mutex_unlock(&guard_mutex);
    if (token.null) return OT_ERR_SASL_AUTHENTICATION_FAILED;
    return ot_str_equal(token, ot_str_of("Bearer reader")) && strstr(method, "Produce") != NULL ? OT_ERR_TOPIC_AUTHORIZATION_FAILED : OT_OK;
}

static void call_send_as(struct call *call, const char *method, const char *token, const void *data, size_t bytes)
{
    grpc_metadata header = { .key = grpc_slice_from_static_string("authorization"), .value = grpc_slice_from_static_string(token == NULL ? "" : token) };
    grpc_byte_buffer *message = message_of(data, bytes);
    call_open(call, method);
    const grpc_op ops[] = { { .op = GRPC_OP_SEND_INITIAL_METADATA, .data.send_initial_metadata = { .count = token == NULL ? 0 : 1, .metadata = &header } },
        { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message }, { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT } };
    assert_true(run(call, ops, 3));
    grpc_byte_buffer_destroy(message);
    const grpc_op first = { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &call->first };
    (void)run(call, &first, 1);
}

static grpc_status_code unary_as(struct call *call, const char *method, const char *token, const void *data, size_t bytes)
{
    call_send_as(call, method, token, data, bytes);
    (void)call_receive(call);
    return call_close(call);
}

static void callers_are_admitted_by_what_they_say_of_themselves(void **state)
{
    (void)state;
    static const char produce[] = "\x0a\x01" "a\x7a\x01x", fetch[] = "\x0a\x01" "a\x40\x02";
    struct call call;
    memset(&guard, 0, sizeof guard);
    security = (struct rpc_grpc_security){ &guard, guard_credentials, guard_admit };
    server_open(NULL, NULL);
    security = (struct rpc_grpc_security){ NULL, NULL, NULL };
    assert_int_equal(guard.credentials, 1);
    assert_int_equal(unary_as(&call, "/ottla.v1.Log/Produce", NULL, produce, sizeof produce - 1), ot_err_grpc(OT_ERR_SASL_AUTHENTICATION_FAILED));
    assert_true(says(&call, "SASL_AUTHENTICATION_FAILED"));
    assert_int_equal(unary_as(&call, "/ottla.v1.Log/Produce", "Bearer reader", produce, sizeof produce - 1), ot_err_grpc(OT_ERR_TOPIC_AUTHORIZATION_FAILED));
    assert_int_equal(produces(), 0);
    assert_string_equal(guard_now().token, "Bearer reader");
    assert_string_equal(guard_now().method, "/ottla.v1.Log/Produce");
    assert_int_equal(unary_as(&call, "/ottla.v1.Log/Fetch", "Bearer reader", fetch, sizeof fetch - 1), GRPC_STATUS_OK);
    assert_int_equal(unary_as(&call, "/ottla.v1.Log/Produce", "Bearer writer", produce, sizeof produce - 1), GRPC_STATUS_OK);
    assert_int_equal(produces(), 1);
    /* methods that are found by their path, and streams, before anything is read from them */
    assert_int_equal(unary_as(&call, "/ottla.v1.Log/Metadata", NULL, "", 0), ot_err_grpc(OT_ERR_SASL_AUTHENTICATION_FAILED));
    assert_string_equal(guard_now().method, "/ottla.v1.Log/Metadata");
    assert_int_equal(unary_as(&call, "/ottla.v1.Log/ProduceStream", NULL, produce, sizeof produce - 1), ot_err_grpc(OT_ERR_SASL_AUTHENTICATION_FAILED));
    assert_int_equal(unary_as(&call, "/ottla.v1.Log/Consume", NULL, "", 0), ot_err_grpc(OT_ERR_SASL_AUTHENTICATION_FAILED));
    assert_int_equal(unary_as(&call, "/ottla.v1.Log/Nothing", NULL, "", 0), GRPC_STATUS_UNIMPLEMENTED);
    assert_int_equal(guard_now().asked, 7);
    assert_false(guard_now().strange);
    server_close();
}

/* ---- members of groups */

static struct ot_blob field_of(struct ot_blob body, uint32_t number)
{
    struct ot_reader reader = ot_reader_over(body.data, body.bytes);
    struct rpcg_field field;
    while (rpcg_field_next(&reader, &field))
        if (field.number == number) return field.type == RPCG_BYTES ? field.bytes : (struct ot_blob){ .data = (const uint8_t *)"", .bytes = (uint32_t)field.value };
    return (struct ot_blob){ .null = true };
}

static struct ot_blob answer_of(const struct call *call) { return (struct ot_blob){ call->bytes, (uint32_t)call->count, false }; }

/* The next assignment with so many partitions. */
static struct ot_blob assignment_with(struct call *call, uint32_t wanted)
{
    for (int i = 0; i < 20; i++) {
        assert_true(call_receive(call));
        const struct ot_blob assignment = field_of(answer_of(call), 9);
        struct ot_reader reader = ot_reader_over(assignment.data, assignment.null ? 0 : assignment.bytes);
        struct rpcg_field field;
        uint32_t count = 0;
        while (rpcg_field_next(&reader, &field)) count += field.number == 3 ? 1u : 0u;
        if (!assignment.null && count == wanted) return assignment;
    }
    fail_msg("no assignment with %u partitions", wanted);
    return (struct ot_blob){ .null = true };
}

#define JOIN_ORDERS "\x0a\x0d\x0a\x01g\x12\x06" "orders\x20\x02"       /* group g, topic orders, from the earliest on */

static void consume_open(struct call *call, const char *join, size_t bytes)
{
    call_open(call, "/ottla.v1.Log/Consume");
    call_send(call, join, bytes, true, false);
    const grpc_op first = { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &call->first };
    (void)run(call, &first, 1);
}

static grpc_status_code half_close(struct call *call)
{
    const grpc_op op = { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT };
    (void)run(call, &op, 1);
    while (call_receive(call)) {
    }
    return call_close(call);
}

static void orders_made(void)
{
    struct fake_topic *topic = fake_topic("orders", 3);
    topic->id = (struct ot_uuid){ { 7 } };
}

static void a_member_gets_its_partitions_and_leaves(void **state)
{
    (void)state;
    struct call call, again;
    prepare = orders_made;
    server_open(NULL, NULL);
    consume_open(&call, JOIN_ORDERS, sizeof JOIN_ORDERS - 1);
    const struct ot_blob assignment = assignment_with(&call, 3);
    assert_int_equal(field_of(assignment, 1).bytes, 22);       /* a member id was made */
    assert_int_equal(half_close(&call), GRPC_STATUS_OK);
    /* what it left is there for the next one at once */
    consume_open(&again, JOIN_ORDERS, sizeof JOIN_ORDERS - 1);
    (void)assignment_with(&again, 3);
    (void)grpc_call_cancel(again.call, NULL);
    assert_int_equal(call_close(&again), GRPC_STATUS_CANCELLED);
    server_close();
}

static void orders_led_elsewhere(void)
{
    orders_made();
    fake.other_host = "there";
    fake.leader_elsewhere = 2;
    fake.row_error = OT_ERR_NOT_LEADER_OR_FOLLOWER;
}

static void partitions_led_elsewhere_are_told_with_their_leader(void **state)
{
    (void)state;
    struct call call;
    prepare = orders_led_elsewhere;
    server_open(NULL, NULL);
    consume_open(&call, JOIN_ORDERS, sizeof JOIN_ORDERS - 1);
    struct ot_blob position = { .null = true };
    for (int i = 0; i < 20 && (position.null || field_of(position, 5).null); i++) position = field_of(assignment_with(&call, 3), 3);
    const struct ot_blob address = field_of(position, 5);
    assert_true(ot_str_equal((struct ot_str){ (const char *)address.data, address.bytes, false }, ot_str_of("there:9194")));
    /* what was read there is acknowledged here */
    uint8_t data[64];
    struct ot_writer inside = ot_writer_over(data + 2, sizeof data - 2);
    rpcg_put_text(&inside, 1, "orders");
    rpcg_put_int(&inside, 2, field_of(position, 2).null ? 0 : field_of(position, 2).bytes);
    rpcg_put_int(&inside, 3, 100000);
    rpcg_put_int(&inside, 4, field_of(position, 4).bytes);
    data[0] = 0x12;
    data[1] = (uint8_t)inside.needed;
    call_send(&call, data, inside.needed + 2, false, false);
    struct ot_blob committed = { .null = true };
    for (int i = 0; i < 20 && committed.null; i++) {
        assert_true(call_receive(&call));
        committed = field_of(answer_of(&call), 10);
    }
    assert_int_equal(field_of(committed, 3).bytes, 100000);
    assert_int_equal(half_close(&call), GRPC_STATUS_OK);
    server_close();
}

static void orders_coordinated_elsewhere(void)
{
    orders_made();
    fake.group_error = OT_ERR_NOT_COORDINATOR;
    fake.other_host = "there";
    fake.coordinator = 2;
}

static void a_group_that_is_coordinated_elsewhere_says_where(void **state)
{
    (void)state;
    struct call call;
    prepare = orders_coordinated_elsewhere;
    server_open(NULL, NULL);
    consume_open(&call, JOIN_ORDERS, sizeof JOIN_ORDERS - 1);
    while (call_receive(&call)) {
    }
    assert_int_equal(call_close(&call), GRPC_STATUS_UNAVAILABLE);
    assert_true(says(&call, "NOT_COORDINATOR") && says(&call, "there:9194"));
    assert_int_equal(UNARY(&call, "FetchOffsets", "\x0a\x01g"), GRPC_STATUS_UNAVAILABLE);
    assert_true(says(&call, "NOT_COORDINATOR") && says(&call, "there:9194"));
    assert_int_equal(UNARY(&call, "CommitOffsets", "\x0a\x01g\x12\x03\x0a\x01" "a"), GRPC_STATUS_UNAVAILABLE);
    assert_true(says(&call, "there:9194"));
    server_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_partition_led_elsewhere_names_its_leader),
        cmocka_unit_test(appends_start_in_their_order_even_when_they_are_queued_late), cmocka_unit_test(no_more_is_read_than_may_be_in_flight), cmocka_unit_test(messages_wait_in_line_for_room_in_the_pool),
        cmocka_unit_test(a_waiting_fetch_is_cancelled_with_its_call), cmocka_unit_test(a_request_that_is_too_large_for_its_kind_is_refused),
        cmocka_unit_test(callers_are_admitted_by_what_they_say_of_themselves), cmocka_unit_test(a_member_gets_its_partitions_and_leaves),
        cmocka_unit_test(partitions_led_elsewhere_are_told_with_their_leader), cmocka_unit_test(a_group_that_is_coordinated_elsewhere_says_where),
        cmocka_unit_test(a_server_that_never_started_goes_quietly) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
