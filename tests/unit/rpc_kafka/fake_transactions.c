/* The fake broker's transactions: the real coordinator's machine over a log in memory, everything committed and marked at once. */
#include "fake_broker.h"

#include "txn_desk.h"

#include "broker/transactions.h"

static struct txn_desk *desk;
static struct broker_marker last_marker;

static struct txn_desk *the_desk(void)
{
    if (desk == NULL) {
        desk = calloc(1, sizeof *desk);
        if (desk == NULL) abort();
        txn_desk_init(desk);
        desk->forgetful = true;
    }
    return desk;
}

void fake_transactions_free(void)
{
    if (desk != NULL) txn_desk_free(desk);
    free(desk);
    desk = NULL;
}

const struct broker_marker *fake_last_marker(void) { return &last_marker; }

void broker_txn_guard_end(struct broker_txn_guard *guard) { (void)guard; }

bool broker_txn_guard(struct broker *broker, const struct coord_txn_place *place, int64_t producer_id, int16_t producer_epoch, struct broker_txn_guard *guard)
{
    (void)broker, (void)place, (void)producer_id, (void)producer_epoch, (void)guard;
    return false;
}

static void txn_run(struct ot_task *task)
{
    struct broker_txn *txn = OT_CONTAINER(task, struct broker_txn, call.task);
    txn->call.done(&txn->call);
}

void broker_txn(struct broker *broker, struct broker_txn *txn)
{
    (void)broker;
    pthread_mutex_lock(&fake.mutex);
    the_desk()->hold_marks = fake.hold_marks;
    if (txn->request.id.bytes == 0) {
        txn->request.error = OT_ERR_INVALID_REQUEST;
    } else {
        txn_desk_ask(the_desk(), &txn->request);
        if (!txn_desk_answered(&txn->request)) txn_desk_pass(desk, 101);
        if (!txn_desk_answered(&txn->request)) abort();
    }
    pthread_mutex_unlock(&fake.mutex);
    txn->call.task.run = txn_run;
    ot_exec_post(txn->call.home, &txn->call.task);
}

static void list_run(struct ot_task *task)
{
    struct broker_txn_list *list = OT_CONTAINER(task, struct broker_txn_list, call.task);
    list->call.done(&list->call);
}

static void row_add(struct broker_txn_list *list, struct broker_txn_row ***last, const struct coord_txn_view *view)
{
    struct broker_txn_row *row = ot_arena_alloc(list->arena, sizeof *row);
    struct coord_txn_place *places = ot_arena_array(list->arena, view->part_count, sizeof *places);
    for (uint32_t i = 0; i < view->part_count; i++)
        places[i] = (struct coord_txn_place){ .topic = { view->parts[i].topic->name, view->parts[i].topic->bytes, false }, .partition = view->parts[i].partition };
    *row = (struct broker_txn_row){ .id = view->id, .state = view->state, .producer_id = view->producer_id, .producer_epoch = view->producer_epoch, .start_ms = view->start_ms,
        .timeout_ms = view->timeout_ms, .places = places, .place_count = view->part_count };
    **last = row;
    *last = &row->next;
    list->row_count++;
}

void broker_txn_list(struct broker *broker, struct broker_txn_list *list)
{
    struct broker_txn_row **last = &list->rows;
    struct coord_txn_view view;
    (void)broker;
    list->rows = NULL;
    list->row_count = 0;
    list->error = OT_OK;
    pthread_mutex_lock(&fake.mutex);
    const struct coord_txns *txns = the_desk()->txns;
    for (uint32_t i = 0; list->ids == NULL && i < coord_txns_count(txns); i++) {
        coord_txns_at(txns, i, &view);
        if (list->wants == NULL || list->wants(list, &view, desk->now.wall_ms)) row_add(list, &last, &view);
    }
    for (uint32_t i = 0; list->ids != NULL && i < list->id_count; i++) {
        if (coord_txns_find(txns, list->ids[i], &view)) {
            row_add(list, &last, &view);
            continue;
        }
        struct broker_txn_row *row = ot_arena_alloc(list->arena, sizeof *row);
        *row = (struct broker_txn_row){ .error = OT_ERR_TRANSACTIONAL_ID_NOT_FOUND, .id = list->ids[i] };
        *last = row;
        last = &row->next;
        list->row_count++;
    }
    pthread_mutex_unlock(&fake.mutex);
    list->call.task.run = list_run;
    ot_exec_post(list->call.home, &list->call.task);
}

static void markers_run(struct ot_task *task)
{
    struct broker_markers *markers = OT_CONTAINER(task, struct broker_markers, call.task);
    markers->call.done(&markers->call);
}

void broker_markers(struct broker *broker, struct broker_markers *markers)
{
    (void)broker;
    markers->error = OT_OK;
    for (uint32_t i = 0; i < markers->marker_count; i++) {
        last_marker = markers->markers[i];
        for (uint32_t j = 0; j < markers->markers[i].place_count; j++) {
            struct coord_txn_place *place = &markers->markers[i].places[j];
            place->error = broker_partition_find(broker, place->topic, place->partition) != NULL ? OT_OK : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        }
    }
    markers->call.task.run = markers_run;
    ot_exec_post(markers->call.home, &markers->call.task);
}
