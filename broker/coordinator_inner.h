/* What coordinator.c and forward.c share. Nobody else includes this. */
#ifndef OT_BROKER_COORDINATOR_INNER_H
#define OT_BROKER_COORDINATOR_INNER_H

#include "broker/coordinator.h"

enum { JOBS_MAX = 8 };
enum job_kind { JOB_RECORD, JOB_MARK, JOB_SWITCH };
struct job { enum job_kind kind; uint64_t token; bool sync; struct coord_record record; };

struct broker_batch { struct ot_exec *exec; struct ot_timer timer; uint32_t open; struct broker_ask *first, **last; };

struct forward {                               /* requests that this node does not answer itself */
    struct broker_ask *held, **held_last;      /* wait for a coordinator; thousands may, and are looked at often */
    struct broker_ask *behind;                 /* answered elsewhere, not applied here yet */
    struct broker_ask *untold, *untold_last;   /* done here, not applied by all brokers yet */
    uint32_t passed; int32_t passed_to;        /* on their way to another node */
    struct ot_timer timer;
    struct ot_task look_task, refuse_task;
    bool refusing;                             /* this server stops: what cannot be answered here is not waited for */
};

/* When this node, as the coordinator, heard of each broker last. */
struct heard { pthread_mutex_t mutex; struct broker_heard *rows; uint32_t count; };

struct broker_coordinator {
    struct broker_coordinator_setup setup;
    char *dir;
    struct coord_pages *pages;
    struct coord_disk_image image;
    struct broker_journal journal;
    struct coord *coord;                       /* NULL before start */
    struct coord_format format; char cluster_id[64];
    struct ot_timer timer;
    struct ot_task start_task, stop_task;
    struct job jobs[JOBS_MAX]; uint32_t job_first, job_count;
    bool job_busy; enum ot_err job_err;
    struct ot_task job_task, job_done_task;
    struct {
        bool busy; uint64_t token; struct coord_value value; struct broker_journal_mark mark; char name[40]; struct coord_snapshot result; enum ot_err err;
        struct ot_task task, done_task;
    } snapshot;
    struct broker_batch *batch;                /* of the turn */
    struct forward forward;
    struct heard heard;
    bool stopping, stopped;
    pthread_mutex_t mutex; pthread_cond_t changed;         /* for stopped */
};

/* coordinator.c */
void coordinator_turn(struct broker_coordinator *c, struct coord_in in);
void coordinator_answer(struct broker_coordinator *c, struct broker_ask *ask);     /* now, or with the batch of this turn */
void coordinator_settle(struct broker_coordinator *c);             /* are we stopped? */

/* forward.c */
void forward_init(struct broker_coordinator *c);
void forward_ask(struct broker_coordinator *c, struct broker_ask *ask);
void forward_reply(struct broker_coordinator *c, struct broker_ask *ask);          /* the machine here answered */
void forward_give(struct broker_ask *ask);                         /* its answer to whoever asked, once all brokers know of the change */
void forward_told(struct broker_coordinator *c);                   /* somebody may have said that it knows */
void forward_message(struct broker_coordinator *c, uint32_t peer, struct ot_blob body);
void forward_applied(struct broker_coordinator *c);
void forward_role(struct broker_coordinator *c, bool leading);
void forward_stop(struct broker_coordinator *c);
/* What this very request did in an attempt the answer to which was lost (ask->uncertain) is no error. value: the committed state as this node has it. */
void forward_look_back(const struct coord_value *value, struct broker_ask *ask);
bool forward_busy(const struct broker_coordinator *c);

#endif
