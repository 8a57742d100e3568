/* The end of a producer's epochs: what comes after the last one, and who is let go on with it. */
#include "base/wire/frame.h"
#include "base/wire/transaction_log_key.h"
#include "base/wire/transaction_log_value.h"
#include "txn_producer.h"

/* Puts an id at this epoch by a record, as a log of long ago would. */
static void at_epoch(const char *id, int16_t epoch)
{
    struct ot_transaction_log_value value;
    struct ot_transaction_log_key key = { ot_str_of(id) };
    uint8_t key_data[64], value_data[128];
    struct ot_writer key_out = ot_writer_over(key_data, sizeof key_data), value_out = ot_writer_over(value_data, sizeof value_data);
    ot_transaction_log_value_defaults(&value);
    value.producer_id = 500;
    value.producer_epoch = epoch;
    value.transaction_timeout_ms = 60000;
    value.transaction_last_update_timestamp_ms = desk.now.wall_ms;
    value.transaction_start_timestamp_ms = -1;
    value.transaction_partitions.count = -1;
    assert_int_equal(ot_wire_framed_encode(&ot_transaction_log_key_message, 0, &key, &key_out), OT_OK);
    assert_int_equal(ot_wire_framed_encode(&ot_transaction_log_value_message, 1, &value, &value_out), OT_OK);
    struct coord_txn_out out = { .key = { key_data, (uint32_t)(key_out.at - key_data), false }, .value = { value_data, (uint32_t)(value_out.at - value_data), false } };
    txn_desk_keep(&desk, &out);
    txn_desk_stop(&desk);
    txn_desk_start(&desk, desk.record_count);
}

static void an_exhausted_epoch_brings_a_new_id(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    at_epoch("a", 32765);
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(a.epoch, 32766);
    assert_int_equal(a.producer_id, 500);
    struct producer goes_on = a;
    assert_int_equal(go_on(&goes_on), OT_OK);
    assert_int_equal(goes_on.producer_id, 1000);
    assert_int_equal(goes_on.epoch, 0);
    struct producer lost = a;
    assert_int_equal(go_on(&lost), OT_OK);     /* again: the new one */
    assert_int_equal(lost.producer_id, 1000);
    assert_int_equal(lost.epoch, 0);
}

static void version_2_ends_the_last_epoch_with_a_new_id(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    at_epoch("a", 32765);
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    struct producer before = a;
    desk.hold_marks = true;
    assert_int_equal(finish(&a, true, 2), OT_OK);
    assert_int_equal(a.producer_id, 1000);
    assert_int_equal(a.epoch, 0);
    assert_int_equal(desk.marks[desk.mark_first].producer_id, 500);
    assert_int_equal(desk.marks[desk.mark_first].producer_epoch, 32767);
    txn_desk_stop(&desk);                      /* also over a restart */
    txn_desk_start(&desk, desk.record_count);
    txn_desk_mark(&desk, OT_OK);
    desk.hold_marks = false;
    struct producer repeated = before;
    assert_int_equal(finish(&repeated, true, 2), OT_OK);
    assert_int_equal(repeated.producer_id, 1000);
    assert_int_equal(repeated.epoch, 0);
    repeated = before;
    assert_int_equal(finish(&repeated, false, 2), OT_ERR_INVALID_TXN_STATE);
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    assert_int_equal(finish(&a, true, 2), OT_OK);
    assert_int_equal(a.epoch, 1);
}

/* The producer has its new id before the transaction of the old one is complete, and goes on with it at once. */
static void the_new_id_of_an_exhausted_epoch_waits_for_the_end_of_the_old_one(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    at_epoch("a", 32765);
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    desk.hold_marks = true;
    assert_int_equal(finish(&a, true, 2), OT_OK);
    assert_int_equal(a.producer_id, 1000);
    assert_int_equal(add(&a, "t", 1, 2), OT_ERR_CONCURRENT_TRANSACTIONS);
    struct producer ends = a;
    assert_int_equal(finish(&ends, false, 2), OT_ERR_CONCURRENT_TRANSACTIONS);
    struct coord_txn_place place = place_of("t", 1);
    struct coord_txn_request next = asking(COORD_TXN_ADD, &a);
    next.places = &place;
    next.place_count = 1;
    next.version = 2;
    txn_desk_ask(&desk, &next);
    assert_false(txn_desk_answered(&next));
    txn_desk_mark(&desk, OT_OK);
    assert_true(txn_desk_answered(&next));
    assert_int_equal(next.error, OT_OK);
    assert_int_equal(look("a").producer_id, 1000);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_ONGOING);
}

static void a_producer_that_goes_on_with_its_new_id_is_not_fenced(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    at_epoch("a", 32765);
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    desk.hold_marks = true;
    assert_int_equal(finish(&a, true, 2), OT_OK);
    struct coord_txn_request again = init_request("a");
    again.producer_id = a.producer_id;
    again.producer_epoch = a.epoch;
    txn_desk_ask(&desk, &again);
    assert_false(txn_desk_answered(&again));
    txn_desk_mark(&desk, OT_OK);
    assert_true(txn_desk_answered(&again));
    assert_int_equal(again.error, OT_OK);
    assert_int_equal(again.producer_id_out, a.producer_id);
    assert_int_equal(again.producer_epoch_out, 1);
}

static void a_timeout_at_the_last_epoch_fences_for_good(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 }, b = a;
    at_epoch("a", 32765);
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    txn_desk_pass(&desk, 60000);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_COMPLETE_ABORT);
    struct producer late = a;
    assert_int_equal(finish(&late, false, 2), OT_ERR_PRODUCER_FENCED);
    late.epoch = 32767;
    assert_int_equal(add(&late, "t", 0, 2), OT_ERR_PRODUCER_FENCED);
    assert_int_equal(finish(&late, false, 2), OT_ERR_PRODUCER_FENCED);
    assert_int_equal(init(&b), OT_OK);
    assert_int_equal(b.producer_id, 1000);
    assert_int_equal(b.epoch, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    static const struct CMUnitTest tests[] = { T(an_exhausted_epoch_brings_a_new_id), T(version_2_ends_the_last_epoch_with_a_new_id),
        T(the_new_id_of_an_exhausted_epoch_waits_for_the_end_of_the_old_one),
        T(a_producer_that_goes_on_with_its_new_id_is_not_fenced),
        T(a_timeout_at_the_last_epoch_fences_for_good) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
