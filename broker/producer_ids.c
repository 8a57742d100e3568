/* Producer ids from this broker's blocks of 1000; the next block is fetched when a quarter is left, so that nobody waits for the journal in the normal case. */
#include "broker/room.h"

#include <string.h>

enum { BLOCK_IDS = 1000, AHEAD_IDS = BLOCK_IDS / 4 };

static void block_answered(struct broker_ask *ask);

void broker_producer_ids_init(struct broker *broker)
{
    struct broker_producer_ids *ids = &broker->producer_ids;
    pthread_mutex_init(&ids->mutex, NULL);
    ids->last = &ids->first;
    ids->ask.answered = block_answered;
}

void broker_producer_ids_free(struct broker *broker) { pthread_mutex_destroy(&broker->producer_ids.mutex); }

static void done_run(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

static void give(struct broker_producer_id *ask, enum ot_err err, int64_t id)
{
    ask->error = err;
    ask->producer_id = err == OT_OK ? id : -1;
    ask->producer_epoch = err == OT_OK ? 0 : -1;
    ot_exec_post(ask->call.home, &ask->call.task);
}

static bool take(struct broker_producer_ids *ids, int64_t *out)
{
    if (ids->next == ids->end) {
        ids->next = ids->spare_first;
        ids->end = ids->spare_end;
        ids->spare_first = ids->spare_end = 0;
    }
    if (ids->next == ids->end) {
        return false;
    }
    *out = ids->next++;
    return true;
}

static bool wants_block(struct broker_producer_ids *ids)
{
    return !ids->asking && ids->spare_first == ids->spare_end && ids->end - ids->next < AHEAD_IDS;
}

static void ask_block(struct broker *broker)   /* asking is set already */
{
    broker->producer_ids.ask.request = (struct coord_request){ .ask = COORD_ASK_PRODUCER_IDS, .if_version = -1, .u.producer_ids = { BLOCK_IDS } };
    broker_coordinator_ask(broker->coordinator, &broker->producer_ids.ask);
}

static void block_answered(struct broker_ask *ask)
{
    struct broker *broker = OT_CONTAINER(ask, struct broker, producer_ids.ask);
    struct broker_producer_ids *ids = &broker->producer_ids;
    enum ot_err err = ask->request.error;
    pthread_mutex_lock(&ids->mutex);
    if (err == OT_OK) {
        ids->spare_first = ask->request.producer_id_first;
        ids->spare_end = ids->spare_first + BLOCK_IDS;
    }
    for (struct broker_producer_id *waiter; (waiter = ids->first) != NULL;) {
        int64_t id = -1;
        if (err == OT_OK && !take(ids, &id)) {
            break;
        }
        ids->first = waiter->next;
        ids->last = ids->first == NULL ? &ids->first : ids->last;
        give(waiter, err == OT_OK ? OT_OK : OT_ERR_COORDINATOR_NOT_AVAILABLE, id);
    }
    ids->asking = err == OT_OK && (ids->first != NULL || ids->end - ids->next < AHEAD_IDS) && ids->spare_first == ids->spare_end;
    bool again = ids->asking;
    pthread_mutex_unlock(&ids->mutex);
    if (again) {
        ask_block(broker);
    }
}

void broker_producer_id(struct broker *broker, struct broker_producer_id *ask)
{
    struct broker_producer_ids *ids = &broker->producer_ids;
    int64_t id;
    ask->broker = broker;
    ask->call.task.run = done_run;
    ask->next = NULL;
    pthread_mutex_lock(&ids->mutex);
    if (take(ids, &id)) {
        give(ask, OT_OK, id);
    } else {
        *ids->last = ask;
        ids->last = &ask->next;
    }
    bool fetch = wants_block(ids);
    ids->asking |= fetch;
    pthread_mutex_unlock(&ids->mutex);
    if (fetch) {
        ask_block(broker);
    }
}
