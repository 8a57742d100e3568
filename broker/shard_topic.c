/* Internal topics come to be when somebody first needs them: a client that looks for its coordinator. */
#include "broker/room.h"

#include "base/log.h"

#define WAIT_FOR_BROKERS_US 30000000

static void answer_run(struct ot_task *task)
{
    struct broker_shard_topic *ask = OT_CONTAINER(task, struct broker_shard_topic, call.task);
    ask->call.done(&ask->call);
}

static void answer(struct broker_shard_topic *ask, enum ot_err err)
{
    ask->error = err;
    ask->call.task.run = answer_run;
    ot_exec_post(ask->call.home, &ask->call.task);
}

static void answer_all(struct broker *broker, struct broker_shard_kinds *kinds, enum ot_err err)
{
    pthread_mutex_lock(&broker->shards.mutex);
    struct broker_shard_topic *ask = kinds->asks;
    kinds->asks = NULL;
    kinds->creating = false;
    pthread_mutex_unlock(&broker->shards.mutex);
    while (ask != NULL) {
        struct broker_shard_topic *next = ask->next;
        answer(ask, err == OT_OK ? OT_OK : OT_ERR_COORDINATOR_NOT_AVAILABLE);
        ask = next;
    }
}

static void created(struct broker_call *call)
{
    struct broker_shard_kinds *kinds = OT_CONTAINER(call, struct broker_shard_kinds, admin.call);
    const struct broker_admin_item *item = &kinds->item;
    enum ot_err err = item->error == OT_ERR_TOPIC_ALREADY_EXISTS ? OT_OK : item->error;
    if (err != OT_OK)
        ot_log(OT_LOG_ERROR, "shard", "topic_not_made", "topic=%s error=%s text=\"%s\"", kinds->kind->topic, ot_err_name(err), item->text);
    answer_all(kinds->admin.broker, kinds, err);
}

/* As many as are registered: who is away stands last, and holds it once it is back. What is made with fewer stays so, and its offsets, or the outcomes of its transactions, go with too few
 * brokers. A cluster that begins has its voters to wait for. 0: it is too early. */
static int16_t replicas_of(struct broker *broker, int16_t wanted)
{
    struct ot_arena arena;
    struct broker_view_broker row;
    int32_t ids[COORD_VOTERS_MAX];
    int16_t registered = 0;
    ot_arena_init(&arena, 1u << 20);
    const struct broker_view *view = broker_view_take(broker);
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &arena, &row); after = row.id) registered = (int16_t)(registered + (row.leaving ? 0 : 1));
    const int32_t voters = (int32_t)coord_voters_of(&view->value, ids, NULL);
    broker_view_give(view);
    ot_arena_free(&arena);
    if (registered < OT_MIN((int32_t)wanted, voters) && ot_exec_now_us(broker->setup.coord_exec) < broker->started_us + WAIT_FOR_BROKERS_US) return 0;
    return OT_MAX(OT_MIN(wanted, registered), (int16_t)1);
}

static void create(struct broker *broker, struct broker_shard_kinds *kinds)
{
    const struct broker_config *config = broker_config_current(broker->setup.config);
    int16_t replication = -1;
    const int32_t known = broker_shard_count(broker, (enum broker_shard_kind_id)(kinds - broker->shards.kinds));   /* it was deleted under us: keys stay where they were */
    const uint32_t count = kinds->kind->topic_configs(config, &replication, kinds->configs);
    replication = replicas_of(broker, replication);
    if (replication == 0) {
        answer_all(broker, kinds, OT_ERR_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    for (uint32_t i = 0; i < count; i++) kinds->entries[i] = (struct broker_config_entry){ ot_str_of(kinds->configs[i].key), ot_str_of(kinds->configs[i].value) };
    kinds->item = (struct broker_admin_item){ .kind = BROKER_CREATE_TOPIC, .topic = ot_str_of(kinds->kind->topic), .partition_count = known > 0 ? known : kinds->kind->partitions(config),
        .replication_factor = replication, .configs = kinds->entries, .config_count = count, .internal = true, .if_version = -1 };
    kinds->admin = (struct broker_admin){ .call = { .home = broker->setup.coord_exec, .done = created }, .timeout_ms = 30000, .items = &kinds->item, .item_count = 1 };
    broker_admin(broker, &kinds->admin);
}

void broker_shard_topic(struct broker *broker, enum broker_shard_kind_id kind, struct broker_shard_topic *ask)
{
    struct broker_shard_kinds *kinds = &broker->shards.kinds[kind];
    if (kinds->kind == NULL || atomic_load(&broker->shards.stopping)) {
        answer(ask, OT_ERR_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    if (broker_shard_count(broker, kind) > 0 && broker_topic_known(broker, ot_str_of(kinds->kind->topic), NULL, NULL)) {
        answer(ask, OT_OK);
        return;
    }
    pthread_mutex_lock(&broker->shards.mutex);
    ask->next = kinds->asks;
    kinds->asks = ask;
    const bool first = !kinds->creating;
    kinds->creating = true;
    pthread_mutex_unlock(&broker->shards.mutex);
    if (first) create(broker, kinds);
}
