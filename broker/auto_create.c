/* Topics that come to be because a client asked for them (auto.create.topics.enable). */
#include "broker/room.h"

#include <stdlib.h>
#include <string.h>

enum { UNDER_WAY_MAX = 1000 };

struct making { struct broker_call call; struct broker_admin admin; struct broker_admin_item item; struct broker *broker; char name[]; };

static void made(struct broker_call *call)
{
    struct making *making = OT_CONTAINER(call, struct making, admin.call);
    struct broker_auto *all = &making->broker->auto_creates;
    pthread_mutex_lock(&all->mutex);
    ot_map_remove(&all->names, making->name, strlen(making->name));
    pthread_mutex_unlock(&all->mutex);
    free(making);
}

static struct making *making_new(struct broker *broker, struct ot_str name)
{
    struct making *making = calloc(1, sizeof *making + name.bytes + 1);
    if (making != NULL) {
        memcpy(making->name, name.data, name.bytes);
        making->broker = broker;
        making->item = (struct broker_admin_item){ .kind = BROKER_CREATE_TOPIC, .topic = { making->name, name.bytes, false }, .partition_count = -1,
            .replication_factor = -1, .if_version = -1 };
        making->admin = (struct broker_admin){ .call = { .home = broker->setup.coord_exec, .done = made }, .items = &making->item, .item_count = 1 };
    }
    return making;
}

enum ot_err broker_auto_create(struct broker *broker, struct ot_str name, char *text, size_t text_bytes)
{
    struct broker_auto *all = &broker->auto_creates;
    enum ot_err err = OT_ERR_LEADER_NOT_AVAILABLE;
    struct making *making = NULL;
    if (!broker_topic_name_valid(name, text, text_bytes)) {
        return OT_ERR_INVALID_TOPIC_EXCEPTION;
    }
    text[0] = 0;
    if (!broker_auto_create_allowed(broker, name)) {
        return OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    }
    pthread_mutex_lock(&all->mutex);
    if (ot_map_get(&all->names, name.data, name.bytes) == NULL && all->names.count < UNDER_WAY_MAX) {      /* beyond: the client asks again anyway */
        making = making_new(broker, name);
        if (making == NULL || ot_map_put(&all->names, name.data, name.bytes, making) != OT_OK) {
            free(making);
            making = NULL;
            err = OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        }
    }
    pthread_mutex_unlock(&all->mutex);
    if (making != NULL) {
        broker_admin(broker, &making->admin);
    }
    return err;
}
