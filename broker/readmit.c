/* A voter whose directory is new gets its vote back (coordinator.md §6): a node that the voters know by another directory asks to be taken in with this one. That is a change of the set of
 * voters like any other: it commits under a majority of the old set, in which the lost directory counts and cannot answer, so most of the others have to be there; and what the lost
 * directory promised binds nobody, for this one is another voter. */
#include "broker/room.h"

#include "base/log.h"

#define ATTEMPT_US 3000000

static void answered(struct broker_ask *ask)   /* on the coordinator's thread */
{
    struct broker *broker = OT_CONTAINER(ask, struct broker, readmit.ask);
    const enum ot_err error = ask->request.error;
    broker->readmit.asking = false;
    if (error == OT_OK) ot_log(OT_LOG_WARN, "coordinator", "readmitted", "node=%d text=\"this node votes again, with another directory than before\"", broker->node_id);
    else if (error != OT_ERR_REQUEST_TIMED_OUT && error != OT_ERR_CLOSED)
        ot_log(OT_LOG_WARN, "coordinator", "not_readmitted", "node=%d error=%s text=\"%s\"", broker->node_id, ot_err_name(error), ask->request.text);
}

void broker_readmit_look(struct broker *broker)
{
    const struct ot_uuid *dir_id = &broker->member.dirs[0];
    struct ot_coord_voter_row row;
    if (broker->readmit.asking || broker->peers == NULL || atomic_load(&broker->stage) != BROKER_SERVING || !broker_config_current(broker->setup.config)->coordinator_auto_readmit
        || coord_voter_get(broker_coordinator_value(broker->coordinator), broker->node_id, &row) != OT_OK || ot_uuid_equal(&row.dir_id, dir_id)) return;
    broker->readmit.asking = true;
    broker->readmit.ask = (struct broker_ask){ .answered = answered, .timeout_us = ATTEMPT_US, .request = { .ask = COORD_ASK_VOTERS, .if_version = -1, .u.voters = { .add = true,
        .remove = true, .id = broker->node_id, .remove_id = broker->node_id, .dir_id = *dir_id, .host = ot_str_of(broker->peers->host), .port = broker->peers->port } } };
    broker_coordinator_ask(broker->coordinator, &broker->readmit.ask);
}
