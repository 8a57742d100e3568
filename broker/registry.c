/* Who finds partitions: topics by name and by id, partitions by index. Readers take the lock shared and leave with a reference. */
#include "broker/core.h"
#include "broker/replication.h"
#include "base/log.h"
#include <stdlib.h>
#include <string.h>

static struct broker_topic *topic_of(struct broker_core *core, struct ot_str name, const struct ot_uuid *id)
{
    if (id != NULL) return ot_map_get(&core->topics_by_id, id->bytes, sizeof(id->bytes));
    return ot_map_get(&core->topics_by_name, name.data, name.bytes);
}

static struct broker_partition *find(struct broker *broker, struct ot_str name, const struct ot_uuid *id, int32_t index)
{
    struct broker_core *core = broker_core_of(broker);
    struct broker_partition *partition = NULL;
    pthread_rwlock_rdlock(&core->registry);
    struct broker_topic *topic = topic_of(core, name, id);
    if (topic != NULL && index >= 0 && index < topic->partition_count) partition = topic->partitions[index];
    if (partition != NULL) broker_partition_ref(partition);
    pthread_rwlock_unlock(&core->registry);
    return partition;
}

struct broker_partition *broker_partition_find(struct broker *broker, struct ot_str topic, int32_t partition)
{
    return topic.null ? NULL : find(broker, topic, NULL, partition);
}

struct broker_partition *broker_partition_find_id(struct broker *broker, const struct ot_uuid *topic_id, int32_t partition)
{
    return find(broker, (struct ot_str){ 0 }, topic_id, partition);
}

bool broker_topic_known(struct broker *broker, struct ot_str name, const struct ot_uuid *topic_id, int32_t *partition_count_out)
{
    struct broker_core *core = broker_core_of(broker);
    pthread_rwlock_rdlock(&core->registry);
    struct broker_topic *topic = topic_of(core, name, topic_id);
    bool known = topic != NULL;
    if (known && partition_count_out != NULL) *partition_count_out = topic->partition_count;
    pthread_rwlock_unlock(&core->registry);
    return known;
}

enum ot_err broker_partition_missing(struct broker *broker, struct ot_str topic, const struct ot_uuid *topic_id, int32_t partition)
{
    struct broker_core *core = broker_core_of(broker);
    const bool by_id = topic.null;
    if (partition >= 0 && core->partition_exists != NULL && core->partition_exists(core, topic, topic_id, partition)) return OT_ERR_NOT_LEADER_OR_FOLLOWER;
    const bool known = broker_topic_known(broker, topic, by_id ? topic_id : NULL, NULL) || (core->partition_exists != NULL && core->partition_exists(core, topic, topic_id, -1));
    return by_id && !known ? OT_ERR_UNKNOWN_TOPIC_ID : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
}

struct broker_partition *broker_partition_ref(struct broker_partition *partition)
{
    atomic_fetch_add_explicit(&partition->refs, 1, memory_order_relaxed);
    return partition;
}

static void topic_free_run(struct ot_task *task)
{
    struct broker_topic *topic = OT_CONTAINER(task, struct broker_topic, end_task);
    struct broker_core *core = topic->core;
    broker_metrics_topic_end(core, topic);
    for (struct broker_topic_config_node *node = topic->configs; node != NULL;) {
        struct broker_topic_config_node *next = node->next;
        free(node);
        node = next;
    }
    free(topic->partitions);
    free(topic->name);
    free(topic);
    atomic_fetch_sub(&core->work_open, 1);
}

void broker_topic_put(struct broker_topic *topic)
{
    if (topic == NULL || atomic_fetch_sub_explicit(&topic->refs, 1, memory_order_acq_rel) != 1) return;
    atomic_fetch_add(&topic->core->work_open, 1);
    topic->end_task.run = topic_free_run;
    ot_exec_post(topic->core->background_exec, &topic->end_task);
}

/* A new version of the topic's config. The old one stays readable for those who have just taken it; older ones go. */
static enum ot_err set_config(struct broker_topic *topic, const struct broker_topic_config *config)
{
    uint64_t ticks = atomic_load(&topic->core->ticks);
    struct broker_topic_config_node *node = topic->configs, **link;
    if (node != NULL && memcmp(&node->config, config, sizeof(*config)) == 0) return OT_OK;     /* texts are interned: equal ones are the same */
    if (node != NULL) node->until_tick = ticks + BROKER_CONFIG_GRACE_TICKS;
    for (link = node == NULL ? &topic->configs : &node->next; *link != NULL;) {
        struct broker_topic_config_node *old = *link;
        if (old->until_tick > ticks) {
            link = &old->next;
            continue;
        }
        *link = old->next;
        free(old);
    }
    node = malloc(sizeof(*node));
    if (node == NULL) return OT_ERR_NO_MEMORY;
    memcpy(&node->config, config, sizeof(*config));            /* padding too, for the comparison */
    node->next = topic->configs;
    topic->configs = node;
    atomic_store_explicit(&topic->config, &node->config, memory_order_release);
    return OT_OK;
}

/* Before the registry's lock: whoever reads the metrics asks the registry under the lock of the series. */
static enum ot_err topic_make(struct broker_core *core, const struct broker_partition_row *row, const struct broker_topic_config *config,
    struct broker_topic **out)
{
    enum ot_err err = OT_ERR_NO_MEMORY;
    struct broker_topic *topic = calloc(1, sizeof(*topic));
    if (topic == NULL) return err;
    topic->refs = 1;                           /* the registry's */
    topic->core = core;
    topic->id = row->topic_id;
    topic->internal = row->internal;
    topic->name = strdup(row->topic);
    if (topic->name == NULL) goto fail;
    if ((err = set_config(topic, config)) != OT_OK) goto fail;
    broker_metrics_topic(core, topic);
    *out = topic;
    return OT_OK;
fail:
    broker_topic_put(topic);
    return err;
}

static enum ot_err topic_enter(struct broker_core *core, struct broker_topic *topic)
{
    enum ot_err err = ot_map_put(&core->topics_by_id, topic->id.bytes, sizeof(topic->id.bytes), topic);
    if (err != OT_OK) return err;
    err = ot_map_put(&core->topics_by_name, topic->name, strlen(topic->name), topic);
    if (err != OT_OK) (void)ot_map_remove(&core->topics_by_id, topic->id.bytes, sizeof(topic->id.bytes));
    return err;
}

static enum ot_err grow(struct broker_topic *topic, int32_t count)
{
    if (count <= topic->partition_count) return OT_OK;
    int32_t cap = OT_MAX(count, topic->partition_count == 0 ? count : topic->partition_count * 2);
    struct broker_partition **wider = realloc(topic->partitions, (size_t)cap * sizeof(*wider));
    if (wider == NULL) return OT_ERR_NO_MEMORY;
    memset(wider + topic->partition_count, 0, (size_t)(cap - topic->partition_count) * sizeof(*wider));
    topic->partitions = wider;
    topic->partition_count = count;
    return OT_OK;
}

static struct broker_partition *partition_new(struct broker_core *core, struct broker_topic *topic, int32_t index)
{
    struct broker_partition *partition = calloc(1, sizeof(*partition));
    if (partition == NULL) return NULL;
    partition->refs = 1;                       /* the registry's */
    partition->core = core;
    partition->index = index;
    partition->topic = topic;
    atomic_fetch_add_explicit(&topic->refs, 1, memory_order_relaxed);
    pthread_mutex_init(&partition->mutex, NULL);
    partition->opening_busy = true;
    partition->lane_closed = true;             /* until its log is open */
    partition->leader_id = -1;
    partition->lane_task.run = broker_lane_run;
    partition->flush_task.run = broker_flush_run;
    atomic_store(&partition->stage, BROKER_PARTITION_OPENING);
    return partition;
}

enum ot_err broker_registry_add(struct broker_core *core, const struct broker_partition_row *row, const struct broker_topic_config *config,
    struct broker_partition **out, bool *is_new_out)
{
    enum ot_err err = OT_OK;
    *out = NULL;
    *is_new_out = false;
    pthread_rwlock_rdlock(&core->registry);
    struct broker_topic *topic = ot_map_get(&core->topics_by_id, row->topic_id.bytes, sizeof(row->topic_id.bytes)), *fresh = NULL;
    pthread_rwlock_unlock(&core->registry);
    if (topic == NULL && (err = topic_make(core, row, config, &fresh)) != OT_OK) return err;
    pthread_rwlock_wrlock(&core->registry);    /* nobody else adds or removes: only the coordinator's thread does */
    if (fresh != NULL && (err = topic_enter(core, fresh)) == OT_OK) topic = fresh;
    if (err == OT_OK) err = grow(topic, row->partition + 1);
    if (err == OT_OK && topic->partitions[row->partition] == NULL) {
        struct broker_partition *partition = partition_new(core, topic, row->partition);
        if (partition == NULL) {
            err = OT_ERR_NO_MEMORY;
        } else {
            topic->partitions[row->partition] = partition;
            *is_new_out = true;
        }
    }
    if (err == OT_OK) *out = broker_partition_ref(topic->partitions[row->partition]);
    pthread_rwlock_unlock(&core->registry);
    if (topic == NULL) broker_topic_put(fresh);
    return err;
}

static struct broker_partition **copy_of(struct broker_partition *const *from, int32_t count, uint32_t *count_out)
{
    struct broker_partition **list = calloc((size_t)count + 1, sizeof(*list));
    *count_out = 0;
    for (int32_t i = 0; list != NULL && i < count; i++)
        if (from[i] != NULL) list[(*count_out)++] = broker_partition_ref(from[i]);
    return list;
}

void broker_partition_configure(struct broker *broker, const struct ot_uuid *topic_id, const struct broker_topic_config *config)
{
    struct broker_core *core = broker_core_of(broker);
    struct broker_partition **list = NULL;
    uint32_t count = 0;
    struct eng_log_config engine_config;
    pthread_rwlock_wrlock(&core->registry);
    struct broker_topic *topic = ot_map_get(&core->topics_by_id, topic_id->bytes, sizeof(topic_id->bytes));
    if (topic != NULL && set_config(topic, config) == OT_OK) list = copy_of(topic->partitions, topic->partition_count, &count);
    pthread_rwlock_unlock(&core->registry);
    broker_engine_config(core, config, &engine_config);
    for (uint32_t i = 0; i < count; i++) {
        struct broker_produce_part *done = NULL;
        struct broker_partition *partition = list[i];
        pthread_mutex_lock(&partition->mutex);
        if (partition->log != NULL) {
            eng_log_configure(partition->log, &engine_config);
            struct eng_producers *producers = broker_partition_producer_state(partition);
            if (producers != NULL) eng_producers_limits(producers, engine_config.producers_max, engine_config.producer_expiry_ms);
            broker_role_configure(partition);
            if (atomic_load(&partition->stage) == BROKER_PARTITION_OPEN) broker_partition_advance(partition, &done);   /* the class may have changed */
        }
        pthread_mutex_unlock(&partition->mutex);
        broker_parts_complete(done);
        broker_partition_put(partition);
    }
    free(list);
}

static void remove_partition(struct broker_partition *partition, bool stray, enum ot_err error, const char *text)
{
    struct broker_produce_part *done = NULL;
    if (stray)
        ot_log(OT_LOG_ERROR, "partition", "kept_as_stray", "topic=%s partition=%d text=\"the forced metadata of the cluster knows no such replica: its records are set aside\"", partition->topic->name, partition->index);
    pthread_mutex_lock(&partition->mutex);
    partition->stray = stray;
    partition->lane_closed = true;
    broker_partition_set_stage(partition, BROKER_PARTITION_REMOVED);
    broker_replication_look(partition);
    broker_partition_fail_all(partition, error, text, &done);
    broker_partition_wake_fetches(partition);
    broker_partition_settle_end(partition);
    pthread_mutex_unlock(&partition->mutex);
    broker_parts_complete(done);
    broker_partition_put(partition);
}

/* Their folders still bear the names: a new topic of that name waits for them. */
static void mark_dying(struct broker_core *core, const struct broker_topic *topic, int32_t index)
{
    char key[320];
    if (topic->partitions[index] == NULL) return;
    size_t bytes = broker_name_key(key, topic->name, index);
    uintptr_t dying = (uintptr_t)ot_map_get(&core->dying, key, bytes);
    ot_ignore(ot_map_put(&core->dying, key, bytes, (void *)(dying + 1)), "without it a name is taken too early and its open fails with words");
}

/* Out of the registry; the caller has a reference of its own. NULL: not here. */
static struct broker_partition *take_out(struct broker_core *core, const struct ot_uuid *topic_id, int32_t index)
{
    struct broker_partition *partition = NULL;
    pthread_rwlock_wrlock(&core->registry);
    struct broker_topic *topic = ot_map_get(&core->topics_by_id, topic_id->bytes, sizeof(topic_id->bytes));
    if (topic != NULL && index >= 0 && index < topic->partition_count) partition = topic->partitions[index];
    if (partition != NULL) {
        mark_dying(core, topic, index);
        topic->partitions[index] = NULL;
        (void)broker_partition_ref(partition);
    }
    pthread_rwlock_unlock(&core->registry);
    return partition;
}

void broker_partition_remove(struct broker *broker, const struct ot_uuid *topic_id, int32_t index, bool stray)
{
    struct broker_partition *partition = take_out(broker_core_of(broker), topic_id, index);
    if (partition == NULL) return;
    ot_log(OT_LOG_INFO, "partition", "moved_away", "topic=%s partition=%d", partition->topic->name, index);
    remove_partition(partition, stray, OT_ERR_NOT_LEADER_OR_FOLLOWER, "this broker holds no replica of this partition any more");
    broker_partition_tell_internal(partition);
    broker_partition_put(partition);
}

bool broker_partition_take_lost(struct broker *broker, const struct ot_uuid *topic_id, int32_t index, int32_t leader_epoch)
{
    struct broker_core *core = broker_core_of(broker);
    struct broker_partition *partition = broker_partition_find_id(broker, topic_id, index);
    if (partition == NULL) return false;
    pthread_mutex_lock(&partition->mutex);
    const bool lost = partition->lost && leader_epoch > partition->lost_epoch && !partition->opening_busy;
    pthread_mutex_unlock(&partition->mutex);
    broker_partition_put(partition);
    partition = lost ? take_out(core, topic_id, index) : NULL;
    if (partition == NULL) return false;
    ot_log(OT_LOG_WARN, "partition", "made_anew", "topic=%s partition=%d text=\"what this broker had of it is lost: all of it is fetched from its leader\"", partition->topic->name, index);
    remove_partition(partition, false, OT_ERR_NOT_LEADER_OR_FOLLOWER, "this broker fetches this partition anew");
    broker_partition_put(partition);
    return true;
}

void broker_topic_remove(struct broker *broker, const struct ot_uuid *topic_id, bool stray)
{
    struct broker_core *core = broker_core_of(broker);
    pthread_rwlock_wrlock(&core->registry);
    struct broker_topic *topic = ot_map_remove(&core->topics_by_id, topic_id->bytes, sizeof(topic_id->bytes));
    struct broker_partition **partitions = NULL;
    int32_t count = 0;
    if (topic != NULL) {
        if (ot_map_get(&core->topics_by_name, topic->name, strlen(topic->name)) == topic)
            (void)ot_map_remove(&core->topics_by_name, topic->name, strlen(topic->name));
        for (int32_t i = 0; i < topic->partition_count; i++) mark_dying(core, topic, i);
        partitions = topic->partitions;
        count = topic->partition_count;
        topic->partitions = NULL;
        topic->partition_count = 0;
    }
    pthread_rwlock_unlock(&core->registry);
    if (topic != NULL) broker_metrics_topic_gone(core, topic);
    for (int32_t i = 0; i < count; i++)
        if (partitions[i] != NULL) remove_partition(partitions[i], stray, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted");
    free(partitions);
    for (int32_t i = 0; i < count && topic->internal && core->internal_changed != NULL; i++) core->internal_changed(core, topic->name, i);
    broker_topic_put(topic);
}

struct broker_partition **broker_partitions_copy(struct broker_core *core, uint32_t *count_out)
{
    pthread_rwlock_rdlock(&core->registry);
    uint32_t total = 0;
    for (uint32_t t = 0; t < core->topics_by_id.count; t++)
        total += (uint32_t)((struct broker_topic *)core->topics_by_id.entries[t].value)->partition_count;
    struct broker_partition **list = calloc((size_t)total + 1, sizeof(*list));
    uint32_t count = 0;
    for (uint32_t t = 0; list != NULL && t < core->topics_by_id.count; t++) {
        struct broker_topic *topic = core->topics_by_id.entries[t].value;
        for (int32_t i = 0; i < topic->partition_count; i++)
            if (topic->partitions[i] != NULL) list[count++] = broker_partition_ref(topic->partitions[i]);
    }
    pthread_rwlock_unlock(&core->registry);
    *count_out = count;
    return list;
}

void broker_partitions_each(struct broker *broker, void (*each)(void *arg, struct broker_partition *partition), void *arg)
{
    uint32_t count = 0;
    struct broker_partition **list = broker_partitions_copy(broker_core_of(broker), &count);
    for (uint32_t i = 0; i < count; i++) {
        each(arg, list[i]);
        broker_partition_put(list[i]);
    }
    free(list);
}
