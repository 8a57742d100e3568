/* What leaders want of the coordinator: another ISR (AlterPartition), many in one request; and that durable_since be set or struck out, likewise.
 *
 * One request is under way at a time. Nothing is forgotten when it is not answered: a partition stays in the list until its machine has nothing to ask, and what it asks is
 * compare-and-set on its partition epoch, so that a second copy does no harm. */
#include "broker/replication_inner.h"

#include "base/log.h"
#include <stdlib.h>

#define AGAIN_US 300000

void broker_news_add(struct broker_replication *all, struct broker_partition *partition)
{
    if (partition->in_news) return;
    if (all->news_count == all->news_cap) {
        const uint32_t cap = OT_MAX(all->news_cap * 2, 64u);
        struct broker_partition **wider = realloc(all->news, cap * sizeof *wider);
        if (wider == NULL) return;             /* the next tick sees it again */
        all->news = wider;
        all->news_cap = cap;
    }
    partition->in_news = true;
    all->news[all->news_count++] = broker_partition_ref(partition);
}

static void news_leave(struct broker_partition *partition)
{
    partition->in_news = false;
    broker_partition_put(partition);
}

void broker_news_drop(struct broker_replication *all)
{
    for (uint32_t i = 0; i < all->news_count; i++) news_leave(all->news[i]);
    all->news_count = 0;
}

static void again(struct broker_replication *all)
{
    if (!atomic_load(&all->stopping) && all->news_count > 0) ot_exec_timer_set(all->setup.exec, &all->alter_timer, ot_exec_now_us(all->setup.exec) + AGAIN_US);
}

/* ---- answers */

static void alter_item_done(struct broker_replication *all, uint32_t i, enum ot_err request_error)
{
    struct broker_alter *alter = &all->alter;
    struct broker_partition *partition = alter->partitions[i];
    struct broker_produce_part *done = NULL;
    const enum ot_err error = alter->items[i].error;
    if (request_error == OT_OK && error != OT_OK) {
        atomic_fetch_add(&all->refusals, 1);
        pthread_mutex_lock(&partition->mutex);
        replica_refused(&partition->replica, alter->numbers[i], error);
        if (atomic_load(&partition->stage) == BROKER_PARTITION_OPEN) broker_partition_advance(partition, &done);
        pthread_mutex_unlock(&partition->mutex);
        broker_parts_complete(done);
        ot_log(OT_LOG_INFO, "replica", "isr_refused", "topic=%s partition=%d error=%s", partition->topic->name, partition->index, ot_err_name(error));
    }
}

static void report_done(struct broker_replication *all, uint32_t i, enum ot_err request_error)
{
    struct broker_partition *partition = all->alter.partitions[i];
    const struct coord_report *told = &all->alter.reports[i];
    if (request_error != OT_OK) return;
    pthread_mutex_lock(&partition->mutex);
    struct replica *replica = &partition->replica;
    if (told->error == OT_ERR_UNSUPPORTED_VERSION) partition->ask_due_us = 0;      /* it was not looked at: at once again */
    if (told->error == OT_OK && replica->role == REPLICA_LEADER && replica->row.leader_epoch == told->leader_epoch && replica->row.partition_epoch == told->partition_epoch)
        replica_durable_told(replica);
    pthread_mutex_unlock(&partition->mutex);
}

static void done_run(struct ot_task *task)
{
    struct broker_replication *all = OT_CONTAINER(task, struct broker_replication, alter.done_task);
    struct broker_alter *alter = &all->alter;
    const enum ot_err error = alter->ask.request.error;
    struct broker_partition *asked[BROKER_ALTERS_MAX];
    const uint32_t count = alter->count;
    for (uint32_t i = 0; i < count; i++) {
        if (alter->what == BROKER_ASKS_ISR) alter_item_done(all, i, error);
        if (alter->what == BROKER_TELLS_DURABLE) report_done(all, i, error);
        asked[(i + count - 1) % count] = alter->partitions[i];     /* the first goes last: a coordinator of an older build looks at the first report alone */
    }
    alter->count = 0;
    alter->busy = false;
    broker_news_pump(all);                     /* the others first */
    for (uint32_t i = 0; i < count; i++) {     /* looked at again, until its machine has nothing to ask */
        if (!atomic_load(&all->stopping)) broker_news_add(all, asked[i]);
        broker_partition_put(asked[i]);
    }
    again(all);
    atomic_fetch_sub(&all->busy, 1);
}

static void answered(struct broker_ask *ask)   /* on the coordinator's thread */
{
    struct broker_replication *all = OT_CONTAINER(ask, struct broker_replication, alter.ask);
    all->alter.done_task.run = done_run;
    ot_exec_post(all->setup.exec, &all->alter.done_task);
}

/* ---- asking */

static void ask_begin(struct broker_replication *all)
{
    struct broker_alter *alter = &all->alter;
    alter->busy = true;
    alter->ask.answered = answered;
    atomic_fetch_add(&all->busy, 1);
    all->setup.ask(all->setup.arg, &alter->ask);
}

static void add_item(struct broker_replication *all, struct broker_partition *partition, const struct replica_proposal *proposal)
{
    struct broker_alter *alter = &all->alter;
    const uint32_t at = alter->count++;
    const struct replica *replica = &partition->replica;
    struct coord_member *members = &alter->members[at * COORD_REPLICAS_MAX];
    struct coord_alter *item = &alter->items[at];
    *item = (struct coord_alter){ .topic_id = partition->topic->id, .partition = partition->index, .leader_epoch = proposal->leader_epoch,
        .partition_epoch = proposal->partition_epoch, .members = members, .handover = proposal->handover };
    for (int32_t i = 0; i < replica->row.replica_count; i++)
        if ((proposal->isr >> i & 1) != 0) members[item->member_count++] = (struct coord_member){ replica->peers[i].id, replica->peers[i].proposed_epoch };
    alter->partitions[at] = broker_partition_ref(partition);
    alter->numbers[at] = proposal->number;
}

static void durable_item(struct broker_replication *all, struct broker_partition *partition, enum coord_durable class_)
{
    struct broker_alter *alter = &all->alter;
    const struct coord_partition *row = &partition->replica.row;
    alter->what = BROKER_TELLS_DURABLE;
    alter->reports[alter->count] = (struct coord_report){ partition->topic->id, partition->index, row->leader_epoch, row->partition_epoch, class_, OT_OK };
    alter->partitions[alter->count++] = broker_partition_ref(partition);
}

static void loss_item(struct broker_replication *all, struct broker_partition *partition)
{
    struct broker_alter *alter = &all->alter;
    alter->what = BROKER_TELLS_LOSS;
    alter->losses[alter->count] = (struct coord_lost){ .topic_id = partition->topic->id, .partition = partition->index, .partition_epoch = partition->partition_epoch };
    alter->partitions[alter->count++] = broker_partition_ref(partition);
}

/* The same thing is not asked in a circle. */
static bool may_ask(struct broker_replication *all, struct broker_partition *partition, int64_t number)
{
    const int64_t now_us = ot_exec_now_us(all->setup.exec);
    if (partition->asked_number == number && now_us < partition->ask_due_us) return false;
    partition->asked_number = number;
    partition->ask_due_us = now_us + AGAIN_US;
    return true;
}

enum wish { WISH_NONE, WISH_ISR, WISH_DURABLE, WISH_LOSS, WISH_LATER };
#define LOSS_NUMBER(partition_epoch) (INT64_MIN + (partition_epoch))

/* What the partition wants goes into the request if there is room for it. */
static enum wish look_at(struct broker_replication *all, struct broker_partition *partition)
{
    struct replica_proposal proposal;
    enum coord_durable durable;
    enum wish wish = WISH_NONE;
    pthread_mutex_lock(&partition->mutex);
    if (broker_role_tells_loss(partition)) {
        const bool room = (all->alter.count == 0 || all->alter.what == BROKER_TELLS_LOSS) && all->alter.count < BROKER_ALTERS_MAX;
        wish = room && may_ask(all, partition, LOSS_NUMBER(partition->partition_epoch)) ? WISH_LOSS : WISH_LATER;
        if (wish == WISH_LOSS) loss_item(all, partition);
    } else if (atomic_load(&partition->stage) != BROKER_PARTITION_OPEN || !broker_role_has_news(partition)) {
        wish = WISH_NONE;
    } else if (replica_proposal(&partition->replica, &proposal)) {
        const bool room = (all->alter.count == 0 || all->alter.what == BROKER_ASKS_ISR) && all->alter.count < BROKER_ALTERS_MAX;
        wish = room && may_ask(all, partition, proposal.number) ? WISH_ISR : WISH_LATER;
        if (wish == WISH_ISR) add_item(all, partition, &proposal);
    } else if (replica_durable_due(&partition->replica, &durable)) {
        const bool room = (all->alter.count == 0 || all->alter.what == BROKER_TELLS_DURABLE) && all->alter.count < BROKER_ALTERS_MAX;
        wish = room && may_ask(all, partition, -1 - (int64_t)durable) ? WISH_DURABLE : WISH_LATER;
        if (wish == WISH_DURABLE) durable_item(all, partition, durable);
    }
    pthread_mutex_unlock(&partition->mutex);
    return wish;
}

void broker_news_pump(struct broker_replication *all)
{
    struct broker_alter *alter = &all->alter;
    uint32_t kept = 0;
    if (alter->busy || atomic_load(&all->stopping)) return;
    alter->what = BROKER_ASKS_ISR;
    for (uint32_t i = 0; i < all->news_count; i++) {
        struct broker_partition *partition = all->news[i];
        /* of thousands that lost a member at one time, each request looks at those that it takes */
        const enum wish wish = alter->count == BROKER_ALTERS_MAX ? WISH_LATER : look_at(all, partition);
        if (wish == WISH_LATER) all->news[kept++] = partition;
        else news_leave(partition);            /* the request holds it, and puts it back into the list */
    }
    all->news_count = kept;
    again(all);
    if (alter->count == 0) return;
    if (alter->what == BROKER_TELLS_LOSS) {
        alter->ask.request = (struct coord_request){ .ask = COORD_ASK_LOST, .if_version = -1, .u.lost = { .broker_id = all->core->node_id,
            .broker_epoch = all->setup.broker_epoch(all->setup.arg), .items = alter->losses, .count = alter->count } };
    } else if (alter->what == BROKER_TELLS_DURABLE) {
        alter->ask.request = (struct coord_request){ .ask = COORD_ASK_DURABLE, .if_version = -1, .u.durable = { .broker_id = all->core->node_id,
            .broker_epoch = all->setup.broker_epoch(all->setup.arg), .items = alter->reports, .count = alter->count } };
    } else {
        alter->ask.request = (struct coord_request){ .ask = COORD_ASK_ALTER, .if_version = -1, .u.alter = { .broker_id = all->core->node_id,
            .broker_epoch = all->setup.broker_epoch(all->setup.arg), .term = all->setup.term(all->setup.arg), .sequence = ++all->alter_sequence, .items = alter->items,
            .count = alter->count } };
        atomic_fetch_add(&all->proposals, alter->count);
    }
    ask_begin(all);
}
