#include "broker/peer_rest.h"

#include "broker/room.h"

void broker_rest_door(struct broker *broker, const struct broker_rest_door *door)
{
    pthread_mutex_lock(&broker->rest.mutex);
    broker->rest.open = door != NULL;
    if (door != NULL) broker->rest.door = *door;
    pthread_mutex_unlock(&broker->rest.mutex);
}

static void refused(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

void broker_peer_rest(struct broker *broker, struct broker_peer_rest *rest)
{
    ot_peer_rest_response_defaults(&rest->out);
    rest->release = NULL;
    rest->own = NULL;
    pthread_mutex_lock(&broker->rest.mutex);
    const bool open = broker->rest.open;
    if (open) broker->rest.door.serve(broker->rest.door.arg, rest);
    pthread_mutex_unlock(&broker->rest.mutex);
    if (open) return;
    rest->call.task.run = refused;
    ot_exec_post(rest->call.home, &rest->call.task);
}

void broker_peer_rest_cancel(struct broker *broker, struct broker_peer_rest *rest)
{
    pthread_mutex_lock(&broker->rest.mutex);
    if (broker->rest.open && rest->own != NULL) broker->rest.door.cancel(broker->rest.door.arg, rest);
    pthread_mutex_unlock(&broker->rest.mutex);
}
