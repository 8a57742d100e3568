/* Lists of transactions: from shard to shard, one after the other, each on its own thread; rows gather in the asker's arena. */
#include "broker/room.h"

#include "broker/transactions.h"
#include <string.h>

static void done_run(struct ot_task *task)
{
    struct broker_txn_list *list = OT_CONTAINER(task, struct broker_txn_list, call.task);
    list->call.done(&list->call);
}

static void finish(struct broker_txn_list *list, enum ot_err err)
{
    list->error = err;
    list->call.task.run = done_run;
    ot_exec_post(list->call.home, &list->call.task);
}

static struct ot_str keep(struct ot_arena *arena, struct ot_str text)
{
    char *copy = ot_arena_alloc(arena, OT_MAX(text.bytes, 1u));
    if (copy == NULL) return (struct ot_str){ .null = true };
    memcpy(copy, text.data, text.bytes);
    return (struct ot_str){ copy, text.bytes, false };
}

static struct broker_txn_row *row_add(struct broker_txn_list *list)
{
    struct broker_txn_row *row = ot_arena_alloc(list->arena, sizeof *row);
    if (row == NULL) return NULL;
    *list->last = row;
    list->last = &row->next;
    list->row_count++;
    return row;
}

static bool places_fill(struct broker_txn_list *list, const struct coord_txn_view *view, struct broker_txn_row *row)
{
    struct coord_txn_place *places = ot_arena_array(list->arena, view->part_count, sizeof *places);
    if (places == NULL && view->part_count > 0) return false;
    for (uint32_t i = 0; i < view->part_count; i++) {
        const struct coord_txn_topic *topic = view->parts[i].topic;
        const bool same = i > 0 && topic == view->parts[i - 1].topic;
        places[i] = (struct coord_txn_place){ .topic = same ? places[i - 1].topic : keep(list->arena, (struct ot_str){ topic->name, topic->bytes, false }),
            .partition = view->parts[i].partition };
        if (places[i].topic.null) return false;
    }
    row->places = places;
    return true;
}

static bool row_fill(struct broker_txn_list *list, const struct coord_txn_view *view, int32_t partition)
{
    struct broker_txn_row *row = row_add(list);
    if (row == NULL) return false;
    row->id = keep(list->arena, view->id);
    row->coordinator_partition = partition;
    row->state = view->state;
    row->producer_id = view->producer_id;
    row->producer_epoch = view->producer_epoch;
    row->start_ms = coord_txn_view_is_open(view) ? view->start_ms : -1;
    row->update_ms = view->update_ms;
    row->timeout_ms = view->timeout_ms;
    row->version = view->version;
    row->place_count = view->part_count;
    return !row->id.null && (!list->with_places || places_fill(list, view, row));
}

static bool row_fail(struct broker_txn_list *list, enum ot_err err)
{
    struct broker_txn_row *row = row_add(list);
    if (row == NULL) return false;
    row->error = err;
    row->id = list->ids[list->at];
    return true;
}

/* False: the arena is full. */
static bool take(struct broker_txn_list *list, struct broker_shard *shard, const void *state)
{
    const struct coord_txns *txns = broker_txn_machine(state);
    const int64_t wall_ms = ot_exec_wall_ms(broker_shard_exec(shard));
    struct coord_txn_view view;
    if (list->ids != NULL) {
        return coord_txns_find(txns, list->ids[list->at], &view) ? row_fill(list, &view, broker_shard_partition(shard)) : row_fail(list, OT_ERR_TRANSACTIONAL_ID_NOT_FOUND);
    }
    for (uint32_t i = 0; i < coord_txns_count(txns); i++) {
        coord_txns_at(txns, i, &view);
        if (list->wants != NULL && !list->wants(list, &view, wall_ms)) continue;
        if (!row_fill(list, &view, broker_shard_partition(shard))) return false;
    }
    return true;
}

static void next(struct broker_txn_list *list);

static void op_run(struct broker_shard_op *op, void *state, enum ot_err err)
{
    struct broker_txn_list *list = OT_CONTAINER(op, struct broker_txn_list, op);
    bool enough = true;
    if (err == OT_OK) {
        enough = take(list, op->shard, state);
    } else if (list->ids != NULL) {
        enough = row_fail(list, err);
    } else if (err == OT_ERR_COORDINATOR_LOAD_IN_PROGRESS) {
        finish(list, err);
        return;
    }
    list->at++;
    if (enough) next(list);
    else finish(list, OT_ERR_NO_MEMORY);
}

static void next(struct broker_txn_list *list)
{
    struct broker *broker = list->broker;
    for (;;) {
        if (list->at >= (list->ids != NULL ? list->id_count : (uint32_t)broker_shard_count(broker, BROKER_SHARD_TRANSACTIONS))) {
            finish(list, OT_OK);
            return;
        }
        const bool empty = list->ids != NULL && list->ids[list->at].bytes == 0;
        const int32_t partition = list->ids == NULL ? (int32_t)list->at : empty ? -1 : broker_shard_of(broker, BROKER_SHARD_TRANSACTIONS, list->ids[list->at]);
        if (partition >= 0) {
            broker_shard_run(broker, BROKER_SHARD_TRANSACTIONS, partition, &list->op);
            return;
        }
        if (!row_fail(list, empty ? OT_ERR_INVALID_REQUEST : OT_ERR_TRANSACTIONAL_ID_NOT_FOUND)) {
            finish(list, OT_ERR_NO_MEMORY);
            return;
        }
        list->at++;
    }
}

void broker_txn_list(struct broker *broker, struct broker_txn_list *list)
{
    list->broker = broker;
    list->rows = NULL;
    list->last = &list->rows;
    list->row_count = list->at = 0;
    list->op.run = op_run;
    next(list);
}
