/* mirror DIR TOPIC PARTITION ID: follows one partition of another cluster (any broker of Kafka) with the broker's own fetcher, into a log under DIR. ID: of the topic there, as Kafka writes it.
 * On stdin, a command a line; each is answered with a line:
 *   leader NODE PORT EPOCH   the partition is led by that node, on 127.0.0.1, in that epoch of the source
 *   nobody                   nobody leads it
 *   state                    {"start":, "end":, "high_watermark":, "asked": {"KEY:VERSION": times}, "refused": {"error":, "leader":, "leader_epoch":, "times":}}
 * At the end of stdin it stops and leaves the log as a server does. */
#include "base/util.h"
#include "base/wire/apis.h"
#include "broker/core.h"
#include "broker/replication.h"
#include "broker/room.h"
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SELF = 1, STREAMS = 16, KEYS = 64, VERSIONS = 32 };
struct place { int32_t node; uint16_t port; struct ot_link *links[STREAMS]; };
struct mirror {
    struct broker broker;
    struct broker_replication *replication;
    struct ot_links *links;
    struct ot_pool *pool;
    struct ot_uuid topic_id;
    const char *topic;
    int32_t partition, row_epoch;
    struct ot_exec *home;
    pthread_mutex_t mutex;                     /* guards what follows */
    struct place places[8]; uint32_t place_count;
    int32_t source_epoch, refused_leader, refused_epoch;
    enum ot_err refused_error;
    uint32_t refused, asked[KEYS][VERSIONS];
};

static void must(enum ot_err err, const char *what)
{
    if (err == OT_OK) return;
    (void)fprintf(stderr, "%s: %s\n", what, ot_err_name(err));
    exit(1);
}

static void nap(void *arg)
{
    (void)arg;
    (void)poll(NULL, 0, 1);
}

/* ---- the seam */

static struct place *place_of(struct mirror *mirror, int32_t node)
{
    for (uint32_t i = 0; i < mirror->place_count; i++)
        if (mirror->places[i].node == node) return &mirror->places[i];
    return NULL;
}

static void refused_run(struct ot_task *task)
{
    struct ot_link_call *call = OT_CONTAINER(task, struct ot_link_call, task);
    call->answered(call);
}

static void send(void *arg, int32_t node_id, uint32_t stream, struct ot_link_call *call)
{
    struct mirror *mirror = arg;
    const uint8_t *request = call->request->data + 4;
    struct ot_link_setup setup = { .host = "127.0.0.1", .pool = mirror->pool };
    pthread_mutex_lock(&mirror->mutex);
    struct place *place = place_of(mirror, node_id);
    mirror->asked[request[1] % KEYS][request[3] % VERSIONS]++;
    if (place != NULL && place->links[stream] == NULL) {
        setup.port = place->port;
        if (ot_link_open(mirror->links, &setup, &place->links[stream]) != OT_OK) place->links[stream] = NULL;
    }
    struct ot_link *link = place == NULL ? NULL : place->links[stream];
    pthread_mutex_unlock(&mirror->mutex);
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
    struct mirror *mirror = arg;
    pthread_mutex_lock(&mirror->mutex);
    for (uint32_t i = 0; i < mirror->place_count; i++)
        for (uint32_t s = 0; s < STREAMS; s++) ot_link_close(mirror->places[i].links[s]);
    mirror->place_count = 0;
    pthread_mutex_unlock(&mirror->mutex);
}

static bool leads(void *arg, int32_t node_id)
{
    (void)arg;
    return node_id != SELF;
}

static bool origin(void *arg, struct broker_partition *partition, int32_t node_id, struct broker_fetch_origin *out)
{
    struct mirror *mirror = arg;
    (void)partition, (void)node_id;
    pthread_mutex_lock(&mirror->mutex);
    *out = (struct broker_fetch_origin){ mirror->topic_id, mirror->topic, mirror->source_epoch };
    pthread_mutex_unlock(&mirror->mutex);
    return true;
}

static void refused(void *arg, struct broker_partition *partition, enum ot_err error, int32_t leader, int32_t leader_epoch)
{
    struct mirror *mirror = arg;
    (void)partition;
    pthread_mutex_lock(&mirror->mutex);
    mirror->refused++;
    mirror->refused_error = error;
    mirror->refused_leader = leader;
    mirror->refused_epoch = leader_epoch;
    pthread_mutex_unlock(&mirror->mutex);
}

static void ask(void *arg, struct broker_ask *asked)
{
    (void)arg;
    asked->request.error = OT_ERR_REQUEST_TIMED_OUT;
    asked->answered(asked);
}
static int32_t term(void *arg) { (void)arg; return 0; }
static int64_t broker_epoch(void *arg) { (void)arg; return 1; }

/* ---- the partition */

static void opened(void *arg, enum ot_err err)
{
    (void)arg;
    must(err, "open the partition");
}

/* The row's epoch is ours, and never below one of the source's. */
static void apply(struct mirror *mirror, int32_t leader, int32_t source_epoch)
{
    const int32_t replicas[] = { SELF };
    struct broker_topic_config config;
    mirror->row_epoch = OT_MAX(mirror->row_epoch + 1, source_epoch);
    struct broker_partition_row row = { .topic = mirror->topic, .topic_id = mirror->topic_id, .partition = mirror->partition, .partition_epoch = mirror->row_epoch, .leader = leader,
        .leader_epoch = mirror->row_epoch, .min_isr = 1, .isr = replicas, .isr_count = 1, .replicas = replicas, .replica_count = 1 };
    broker_topic_config_effective(mirror->broker.setup.config, NULL, NULL, 0, &config);
    broker_partition_apply(&mirror->broker, &row, &config, mirror->home, opened, mirror);
}

static void lead(struct mirror *mirror, int32_t node, uint16_t port, int32_t epoch)
{
    pthread_mutex_lock(&mirror->mutex);
    struct place *place = place_of(mirror, node);
    if (place == NULL && mirror->place_count < sizeof mirror->places / sizeof mirror->places[0])
        mirror->places[mirror->place_count++] = (struct place){ .node = node, .port = port };
    mirror->source_epoch = epoch;
    pthread_mutex_unlock(&mirror->mutex);
    apply(mirror, node, epoch);
    (void)puts("ok");
}

static void state(struct mirror *mirror)
{
    struct broker_partition *partition = broker_partition_find(&mirror->broker, ot_str_of(mirror->topic), mirror->partition);
    const bool open = partition != NULL && atomic_load(&partition->stage) == BROKER_PARTITION_OPEN;
    const char *between = "";
    printf("{\"start\": %" PRId64 ", \"end\": %" PRId64 ", \"high_watermark\": %" PRId64 ", \"asked\": {", open ? eng_log_start_offset(partition->log) : -1,
        open ? eng_log_end_offset(partition->log) : -1, open ? atomic_load(&partition->high_watermark) : -1);
    pthread_mutex_lock(&mirror->mutex);
    for (int k = 0; k < KEYS; k++) {
        for (int v = 0; v < VERSIONS; v++) {
            if (mirror->asked[k][v] == 0) continue;
            printf("%s\"%d:%d\": %u", between, k, v, mirror->asked[k][v]);
            between = ", ";
        }
    }
    printf("}, \"refused\": {\"error\": \"%s\", \"leader\": %d, \"leader_epoch\": %d, \"times\": %u}}\n", ot_err_name(mirror->refused_error), mirror->refused_leader, mirror->refused_epoch,
        mirror->refused);
    pthread_mutex_unlock(&mirror->mutex);
    broker_partition_put(partition);
}

static void commands(struct mirror *mirror)
{
    char line[256];
    int node, port, epoch;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "leader %d %d %d", &node, &port, &epoch) == 3) {
            lead(mirror, node, (uint16_t)port, epoch);
        } else if (strcmp(line, "nobody\n") == 0) {
            apply(mirror, -1, -1);
            (void)puts("ok");
        } else {
            state(mirror);
        }
        (void)fflush(stdout);
    }
}

int main(int count, char **words)
{
    static struct mirror mirror = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    struct ot_exec_pool *io, *flush;
    struct ot_exec_thread *background, *home;
    struct eng_store *store;
    uint32_t bad = 0;
    if (count != 5 || !ot_uuid_parse(words[4], strlen(words[4]), &mirror.topic_id)) {
        (void)fprintf(stderr, "usage: mirror DIR TOPIC PARTITION ID\n");
        return 2;
    }
    const char *const dirs[] = { words[1] };
    const struct eng_store_config store_config = { .dirs = dirs, .dir_count = 1, .files_max = 16, .maps_max = 4, .append_mapped_bytes_max = 1u << 20 };
    mirror.topic = words[2];
    mirror.partition = atoi(words[3]);
    mirror.refused_leader = mirror.refused_epoch = -1;
    must(ot_exec_pool_start("io", 2, &io), "threads");
    must(ot_exec_pool_start("flush", 1, &flush), "threads");
    must(ot_exec_thread_start("background", &background), "threads");
    must(ot_exec_thread_start("home", &home), "threads");
    must(ot_links_open("replica", NULL, 1, &mirror.links), "links");
    mirror.home = ot_exec_thread_exec(home);
    mirror.pool = ot_pool_new("mirror", 64u << 20, 1u << 20);
    struct broker *broker = &mirror.broker;
    broker->setup = (struct broker_setup){ .io = ot_io_real(), .io_exec = ot_exec_pool_exec(io), .flush_exec = ot_exec_pool_exec(flush),
        .background_exec = ot_exec_thread_exec(background), .coord_exec = ot_exec_thread_exec(background), .decode_pool = mirror.pool };
    must(broker_config_store_new(&broker->setup.config), "config");
    must(eng_store_open(ot_io_real(), &store_config, &store, &bad), "open DIR");
    broker->node_id = SELF;
    broker->core.nap = nap;
    must(broker_core_init(&broker->core, &broker->setup, store, SELF), "the core");
    static const struct broker_replication_foreign foreign = { leads, origin, refused };
    const struct broker_replication_setup setup = { .broker = broker, .exec = ot_links_exec(mirror.links), .pool = mirror.pool, .arg = &mirror, .send = send, .hang_up = hang_up,
        .ask = ask, .term = term, .broker_epoch = broker_epoch, .foreign = &foreign };
    must(broker_replication_start(&setup, &mirror.replication), "replication");
    commands(&mirror);
    broker_replication_stop(mirror.replication);
    (void)broker_core_stop(&broker->core, 8000);
    broker_replication_free(mirror.replication);
    (void)broker_core_free(&broker->core);
    ot_exec_thread_stop(home);
    ot_exec_thread_stop(background);
    ot_exec_pool_stop(flush);
    ot_exec_pool_stop(io);
    eng_store_close(store);
    ot_links_close(mirror.links);
    broker_config_store_free(broker->setup.config);
    ot_pool_free(mirror.pool);
    return 0;
}
