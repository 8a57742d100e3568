#include "broker/fetch_set.h"

void broker_fetch_dirty(struct broker_fetch_node *node)
{
    struct broker_fetch_set *set = node->set;
    if (node->dirty) return;
    node->dirty = true;
    node->dirty_next = NULL;
    node->dirty_prev = set->dirty_last;
    if (set->dirty_last != NULL) set->dirty_last->dirty_next = node;
    else set->dirty_first = node;
    set->dirty_last = node;
    set->dirty_count++;
}

void broker_fetch_clean(struct broker_fetch_node *node)
{
    struct broker_fetch_set *set = node->set;
    if (!node->dirty) return;
    node->dirty = false;
    if (node->dirty_prev != NULL) node->dirty_prev->dirty_next = node->dirty_next;
    else set->dirty_first = node->dirty_next;
    if (node->dirty_next != NULL) node->dirty_next->dirty_prev = node->dirty_prev;
    else set->dirty_last = node->dirty_prev;
    node->dirty_next = node->dirty_prev = NULL;
    set->dirty_count--;
}

void broker_fetch_node_ask(struct broker_fetch_node *node, const struct broker_fetch_ask *ask)
{
    node->offset = ask->offset;
    node->log_start_offset = ask->log_start_offset;
    node->leader_epoch = ask->leader_epoch;
    node->last_epoch = ask->last_epoch;
    node->max_bytes = ask->max_bytes;
    node->flushed_end = ask->flushed_end;
    node->known_high_watermark = ask->high_watermark;
    node->counted = false;
    broker_fetch_dirty(node);
}

void broker_fetch_node_init(struct broker_fetch_node *node, struct broker_fetch_set *set, const struct broker_fetch_ask *ask)
{
    node->set = set;
    node->topic = ask->topic;
    node->topic_id = ask->topic_id;
    node->by_id = ask->topic.null;
    node->index = ask->partition;
    node->sent_high_watermark = node->sent_log_start = -1;
    broker_fetch_node_ask(node, ask);
}

void broker_fetch_node_unhang(struct broker_fetch_node *node)
{
    struct broker_partition *partition = node->partition;
    if (partition == NULL) return;
    pthread_mutex_lock(&partition->mutex);
    *node->hang_link = node->hang_next;
    if (node->set->follower) partition->follower_nodes--;
    if (node->hang_next != NULL) node->hang_next->hang_link = node->hang_link;
    pthread_mutex_unlock(&partition->mutex);
    node->hang_next = NULL;
    node->hang_link = NULL;
    node->partition = NULL;
    broker_partition_put(partition);
}

/* Find the partition, and hang the node in before its offsets are read. A removed partition is let go and looked up anew. */
void broker_fetch_node_resolve(struct broker *broker, struct broker_fetch_node *node)
{
    if (node->partition != NULL && atomic_load(&node->partition->stage) != BROKER_PARTITION_REMOVED) return;
    broker_fetch_node_unhang(node);
    struct broker_partition *partition = node->by_id ? broker_partition_find_id(broker, &node->topic_id, node->index)
                                                     : broker_partition_find(broker, node->topic, node->index);
    if (partition == NULL) return;
    node->partition = partition;
    pthread_mutex_lock(&partition->mutex);
    node->hang_next = partition->fetch_nodes;
    node->hang_link = &partition->fetch_nodes;
    if (node->hang_next != NULL) node->hang_next->hang_link = &node->hang_next;
    partition->fetch_nodes = node;
    if (node->set->follower) partition->follower_nodes++;
    if (partition->flush_later) broker_flush_ask(partition);   /* there is a reader now */
    pthread_mutex_unlock(&partition->mutex);
}

static void signal_node(struct broker_fetch_node *node)
{
    struct broker_fetch_set *set = node->set;
    if (atomic_exchange(&node->signalled, true)) return;
    struct broker_fetch_node *head = atomic_load(&set->ready);
    do node->ready_next = head;
    while (!atomic_compare_exchange_weak(&set->ready, &head, node));
    struct broker_fetch *fetch = atomic_exchange(&set->parked, NULL);
    if (fetch != NULL) ot_exec_post(fetch->call.home, &fetch->step);
}

void broker_partition_wake_fetches(struct broker_partition *partition)
{
    for (struct broker_fetch_node *node = partition->fetch_nodes; node != NULL; node = node->hang_next) signal_node(node);
}

void broker_partition_wake_followers(struct broker_partition *partition)
{
    for (struct broker_fetch_node *node = partition->fetch_nodes; node != NULL; node = node->hang_next)
        if (node->set->follower) signal_node(node);
}

/* A follower's session names a partition when something about it is new; every request of it says of all others that they are as they were. What had everything then still has it. */
void broker_partition_followers_hold(struct broker_partition *partition)
{
    for (struct broker_fetch_node *node = partition->fetch_nodes; node != NULL; node = node->hang_next) {
        const int64_t asked_us = node->set->id == 0 ? 0 : atomic_load(&node->set->asked_us);
        if (!node->holds || asked_us <= node->told_us || node->told.offset < partition->replica.log_end) continue;
        node->told_us = asked_us;
        node->holds = replica_fetched(&partition->replica, &node->told, (uint64_t)asked_us) == OT_OK;
    }
}

void broker_fetch_collect(struct broker_fetch_set *set)
{
    struct broker_fetch_node *node = atomic_exchange(&set->ready, NULL);
    while (node != NULL) {
        struct broker_fetch_node *next = node->ready_next;
        atomic_store(&node->signalled, false);
        broker_fetch_dirty(node);
        node = next;
    }
}

struct broker_fetch_set *broker_fetch_set_of_request(struct broker_fetch *fetch)
{
    struct broker_fetch_set *set = ot_arena_alloc(fetch->arena, sizeof(*set));
    struct broker_fetch_node *nodes = ot_arena_array(fetch->arena, OT_MAX(fetch->ask_count, 1), sizeof(*nodes));
    if (set == NULL || nodes == NULL) {
        fetch->error = OT_ERR_NO_MEMORY;
        return NULL;
    }
    set->follower = fetch->follower;
    for (uint32_t i = 0; i < fetch->ask_count; i++) broker_fetch_node_init(&nodes[i], set, &fetch->asks[i]);
    set->node_count = fetch->ask_count;
    return set;
}

/* The dirty list still reaches every node of a request: nodes are never cleaned there. */
void broker_fetch_set_unhang_request(struct broker_fetch_set *set)
{
    for (struct broker_fetch_node *node = set->dirty_first; node != NULL; node = node->dirty_next) broker_fetch_node_unhang(node);
}
