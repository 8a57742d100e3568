#include "broker/control.h"

#include "base/log.h"
#include "broker/room.h"
#include <stdio.h>
#include <stdlib.h>

struct broker_control_asked { struct broker_ask ask; struct broker_control *control; struct broker *broker; struct ot_task begin; };

static void done_run(struct ot_task *task)
{
    struct broker_control *control = OT_CONTAINER(task, struct broker_control, call.task);
    free(control->asked);
    control->asked = NULL;
    control->call.done(&control->call);
}

static void end(struct broker_control *control, enum ot_err error, const char *text)
{
    control->error = error;
    snprintf(control->text, sizeof control->text, "%s", text);
    control->call.task.run = done_run;
    ot_exec_post(control->call.home, &control->call.task);
}

static void answered(struct broker_ask *ask)   /* on the coordinator's thread */
{
    struct broker_control *control = OT_CONTAINER(ask, struct broker_control_asked, ask)->control;
    static const char *const names[] = { [BROKER_RESIGN] = "resign", [BROKER_RAISE] = "raise", [BROKER_FORGET] = "forget" };
    control->version_out = ask->request.version;
    if (control->kind == BROKER_RESIGN) control->broker_id = ask->request.u.resign.node_id;
    if (!control->validate_only && control->kind != BROKER_READ)
        ot_log(OT_LOG_INFO, "coordinator", "control", "what=%s broker=%d level=%d error=%s text=\"%s\"", names[control->kind], control->kind == BROKER_RAISE ? -1 : control->broker_id,
            control->kind == BROKER_RAISE ? control->level : -1, ot_err_name(ask->request.error), ask->request.error == OT_OK ? "" : ask->request.text);
    end(control, ask->request.error, ask->request.error == OT_OK ? "" : ask->request.text);
}

static void begin_run(struct ot_task *task)
{
    struct broker_control_asked *asked = OT_CONTAINER(task, struct broker_control_asked, begin);
    const struct broker_control *control = asked->control;
    static const enum coord_ask asks[] = { [BROKER_RESIGN] = COORD_ASK_RESIGN, [BROKER_RAISE] = COORD_ASK_LEVEL, [BROKER_FORGET] = COORD_ASK_UNREGISTER,
        [BROKER_READ] = COORD_ASK_READ };
    asked->ask = (struct broker_ask){ .answered = answered, .timeout_us = (int64_t)OT_MAX(control->timeout_ms, 0) * 1000,
        .request = { .ask = asks[control->kind], .if_version = -1, .validate_only = control->validate_only } };
    if (control->kind == BROKER_RESIGN) asked->ask.request.u.resign.node_id = control->broker_id;
    if (control->kind == BROKER_FORGET) asked->ask.request.u.unregister.broker_id = control->broker_id;
    if (control->kind == BROKER_RAISE) asked->ask.request.u.level.level = control->level;
    broker_coordinator_ask(asked->broker->coordinator, &asked->ask);
}

void broker_control(struct broker *broker, struct broker_control *control)
{
    control->asked = calloc(1, sizeof *control->asked);
    if (control->asked == NULL || atomic_load(&broker->stage) != BROKER_SERVING) {
        end(control, control->asked == NULL ? OT_ERR_NO_MEMORY : OT_ERR_NOT_CONTROLLER, control->asked == NULL ? "out of memory" : "the server is not serving");
        return;
    }
    *control->asked = (struct broker_control_asked){ .control = control, .broker = broker, .begin.run = begin_run };
    ot_exec_post(broker->setup.coord_exec, &control->asked->begin);
}

int64_t broker_heard_ms_ago(struct broker *broker, int32_t broker_id)
{
    struct broker_view_cluster cluster;
    const struct broker_view *view = broker_view_take(broker);
    broker_view_cluster(view, &cluster);
    broker_view_give(view);
    struct broker_heard heard;
    if (cluster.controller_id != broker->node_id || !broker_coordinator_heard(broker->coordinator, broker_id, &heard)) return -1;
    return OT_MAX(ot_exec_now_us(broker->setup.coord_exec) - heard.at_us, 0) / 1000;
}
