/* Replication over real links: a connection of its own for each stream to each leader, on one loop that is the replication's executor as well. */
#include "broker/replication_links.h"

#include "base/util.h"
#include "broker/room.h"
#include <stdlib.h>
#include <string.h>

#define ASK_US 1500000                         /* asked again then, with what holds by then */

struct stream_link { struct stream_link *next; int32_t node_id; uint32_t stream; int32_t port; char host[BROKER_PEER_HOST_BYTES]; struct ot_link *link; };
struct broker_replication_links {
    struct broker *broker;
    struct ot_links *links;
    struct stream_link *first;                 /* of the loop's thread */
    struct broker_replication *replication;
    bool stopped;
};

static struct stream_link *find(struct broker_replication_links *all, int32_t node_id, uint32_t stream)
{
    struct stream_link *one = all->first;
    while (one != NULL && (one->node_id != node_id || one->stream != stream)) one = one->next;
    if (one != NULL || (one = calloc(1, sizeof *one)) == NULL) return one;
    *one = (struct stream_link){ .next = all->first, .node_id = node_id, .stream = stream };
    all->first = one;
    return one;
}

/* The link to where that node is now. */
static struct ot_link *link_of(struct broker_replication_links *all, int32_t node_id, uint32_t stream)
{
    const struct broker_config *config = broker_config_current(all->broker->setup.config);
    char host[BROKER_PEER_HOST_BYTES];
    struct ot_link_setup setup;
    if (all->stopped || broker_peer_link(all->broker, node_id, host, &setup) != OT_OK) return NULL;
    struct stream_link *one = find(all, node_id, stream);
    if (one == NULL) return NULL;
    if (one->link != NULL && (one->port != setup.port || strcmp(one->host, host) != 0)) {
        ot_link_close(one->link);
        one->link = NULL;
    }
    if (one->link == NULL) {
        memcpy(one->host, host, sizeof host);
        one->port = setup.port;
        setup.receive_buffer_bytes = config->replica_socket_receive_buffer_bytes;
        setup.silence_us = OT_MAX((int64_t)config->replica_socket_timeout_ms * 1000, ((int64_t)config->replica_fetch_wait_max_ms + 1000) * 1000);
        if (ot_link_open(all->links, &setup, &one->link) != OT_OK) one->link = NULL;
    }
    return one->link;
}

static void refused_run(struct ot_task *task)
{
    struct ot_link_call *call = OT_CONTAINER(task, struct ot_link_call, task);
    call->answered(call);
}

static void send(void *arg, int32_t node_id, uint32_t stream, struct ot_link_call *call)
{
    struct ot_link *link = link_of(arg, node_id, stream);
    if (link != NULL) {
        ot_link_send(link, call);
        return;
    }
    ot_buf_unref(call->request);
    call->request = call->answer = NULL;
    call->error = OT_ERR_CLOSED;
    call->task.run = refused_run;
    ot_exec_post(call->home, &call->task);
}

static void hang_up(void *arg)
{
    struct broker_replication_links *all = arg;
    all->stopped = true;
    while (all->first != NULL) {
        struct stream_link *one = all->first;
        all->first = one->next;
        ot_link_close(one->link);
        free(one);
    }
}

static void ask(void *arg, struct broker_ask *asked)
{
    struct broker_replication_links *all = arg;
    asked->timeout_us = ASK_US;
    broker_coordinator_ask(all->broker->coordinator, asked);
}

static int32_t term(void *arg)
{
    struct broker_replication_links *all = arg;
    const struct broker_view *view = broker_view_take(all->broker);
    const int32_t now = view->term;
    broker_view_give(view);
    return now;
}

static int64_t broker_epoch(void *arg) { return atomic_load(&((struct broker_replication_links *)arg)->broker->broker_epoch); }

enum ot_err broker_replication_links_start(struct broker *broker, struct broker_replication_links **out)
{
    uint64_t seed;
    struct broker_replication_links *all = calloc(1, sizeof *all);
    if (all == NULL) return OT_ERR_NO_MEMORY;
    ot_random_bytes(&seed, sizeof seed);
    all->broker = broker;
    enum ot_err err = ot_links_open("replica", broker->setup.peer->resolve_exec, seed, &all->links);
    if (err == OT_OK) {
        const struct broker_replication_setup setup = { .broker = broker, .exec = ot_links_exec(all->links), .pool = broker->setup.peer->pool, .arg = all, .send = send,
            .hang_up = hang_up, .ask = ask, .term = term, .broker_epoch = broker_epoch, .balances = true };
        err = broker_replication_start(&setup, &all->replication);
    }
    if (err != OT_OK) {
        ot_links_close(all->links);
        free(all);
        return err;
    }
    *out = all;
    return OT_OK;
}

void broker_replication_links_stop(struct broker_replication_links *all)
{
    if (all != NULL) broker_replication_stop(all->replication);
}

void broker_replication_links_free(struct broker_replication_links *all)
{
    if (all == NULL) return;
    broker_replication_free(all->replication);
    ot_links_close(all->links);
    free(all);
}
