#include "broker/room.h"
#include "broker/losses_inner.h"
#include "broker/replication_links.h"
#include "broker/voters.h"

#include "base/log.h"
#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define DEFAULT_LOG_DIR "ottla-data"
enum { BROKERS_MAX = 1024 };
#define WAITING_TOLD_US 10000000

/* ---- what the coordinator tells */

static void tell(struct broker *broker, bool *what)
{
    pthread_mutex_lock(&broker->starting.mutex);
    *what = true;
    pthread_cond_broadcast(&broker->starting.changed);
    pthread_mutex_unlock(&broker->starting.mutex);
}

static void publish(struct broker *broker, const struct coord_value *value)
{
    int32_t leader, term;
    broker_coordinator_leader(broker->coordinator, &leader, &term);
    enum ot_err err = broker_views_publish(&broker->views, value, leader, term, broker->node_id);
    if (err != OT_OK) {
        ot_log(OT_LOG_ERROR, "broker", "view_not_published", "version=%lld error=%s", (long long)value->stamp.version, ot_err_name(err));
    }
}

static void hook_applied(void *arg, const struct coord_value *value, struct ot_blob delta, bool whole, struct broker_batch *batch)
{
    struct broker *broker = arg;
    const struct broker_view *was = broker->views.current == NULL ? NULL : broker_view_take(broker);   /* only this thread replaces it */
    const struct coord_value *before = was == NULL ? NULL : &was->value;
    if (broker->applying && whole) {
        broker_apply_whole(broker, before, value, batch);
    }
    publish(broker, value);
    if (broker->applying && !whole) {
        broker_apply_delta(broker, value, delta, batch);
    }
    broker_events_applied(broker->events, was, broker->views.current == NULL ? NULL : broker_view_take(broker), delta, whole);
    broker_member_applied(broker, delta);
    broker_elections_applied(broker, value, delta, whole);
    if (value->row_count > 0 && !broker->starting.founded) {
        tell(broker, &broker->starting.founded);
    }
}

static void hook_role(void *arg, bool leading, int32_t leader, int32_t term)
{
    struct broker *broker = arg;
    if (broker->peers != NULL) {
        ot_log(OT_LOG_INFO, "coordinator", "role", "node=%d leading=%s leader=%d term=%d", broker->node_id, leading ? "yes" : "no", leader, term);
    }
    if (broker->views.current != NULL) {       /* the same state, and another controller */
        publish(broker, broker_coordinator_value(broker->coordinator));
        broker_events_role(broker->events, leading, leader, term, broker->views.current->value.stamp.version);
    } else if (!leading) {                     /* heard of before there is a state: whoever leads next came after this one */
        broker_events_role(broker->events, leading, leader, term, 0);
    }
    broker_elections_role(broker, leading);
    if (leading) {
        tell(broker, &broker->starting.founded);
    }
}

static void hook_halted(void *arg, enum ot_err err, const char *text)
{
    struct broker *broker = arg;
    snprintf(broker->halted_words, sizeof broker->halted_words, "%s", text);       /* once: nothing halts twice */
    atomic_store(&broker->halted_text, err == OT_ERR_UNSUPPORTED_VERSION ? broker->halted_words : err == OT_ERR_IO ? "the metadata journal cannot be written (I/O error): restart on a working disk"
        : "the metadata journal cannot be written");
    atomic_store(&broker->stage, BROKER_HALTED);
    tell(broker, &broker->starting.failed);
}

static void hook_closing(void *arg) { broker_views_free(&((struct broker *)arg)->views); }

static void give_reserve(void *arg)
{
    struct broker *broker = arg;
    eng_store_reserve_release(broker->core.store, broker->meta_dir);
}

/* ---- opening, step by step */

static uint32_t split_dirs(char *list, const char **out, uint32_t max)
{
    uint32_t count = 0;
    for (char *at = list, *end; at != NULL && count < max; at = end) {
        end = strchr(at, ',');
        if (end != NULL) {
            *end++ = 0;
        }
        at += strspn(at, " \t");
        for (size_t bytes = strlen(at); bytes > 0 && (at[bytes - 1] == ' ' || at[bytes - 1] == '\t'); bytes--) {
            at[bytes - 1] = 0;
        }
        if (*at != 0) {
            out[count++] = at;
        }
    }
    return count;
}

static uint32_t files_max(const struct broker_config *config)
{
    struct rlimit limit;
    if (config->ottla_open_files_max > 0) {
        return (uint32_t)config->ottla_open_files_max;
    }
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (uint32_t)OT_MIN(OT_MAX(limit.rlim_cur / 2, 64u), 1u << 20) : 512;
}

static enum ot_err open_store(struct broker *broker)
{
    const struct broker_config *config = broker_config_current(broker->setup.config);
    const char *dirs[BROKER_DIRS_MAX];
    char *list = strdup(config->log_dirs == NULL || config->log_dirs[0] == 0 ? DEFAULT_LOG_DIR : config->log_dirs);
    uint32_t bad = 0;
    if (list == NULL) {
        return OT_ERR_NO_MEMORY;
    }
    struct eng_store_config how = { .dirs = dirs, .dir_count = split_dirs(list, dirs, BROKER_DIRS_MAX), .files_max = files_max(config),
        .append_mapped_bytes_max = (uint64_t)config->log_append_mapped_bytes_max };
    how.maps_max = how.files_max / 2;
    enum ot_err err = how.dir_count == 0 ? OT_ERR_INVALID_CONFIG : eng_store_open(broker->setup.io, &how, &broker->core.store, &bad);
    if (err == OT_ERR_LOCKED) {
        ot_log(OT_LOG_ERROR, "broker", "log_dir_locked", "log_dir=%s text=\"another server uses this directory\"", dirs[OT_MIN(bad, how.dir_count - 1)]);
    } else if (err != OT_OK) {
        ot_log(OT_LOG_ERROR, "broker", "log_dirs_not_opened", "log_dirs=\"%s\" error=%s", config->log_dirs == NULL ? DEFAULT_LOG_DIR : config->log_dirs, ot_err_name(err));
    }
    broker->has_store = err == OT_OK;
    free(list);
    return err;
}

static enum ot_err coordinator_config(struct broker *broker, const struct broker_identity *identity, struct coord_config *out, char hosts[COORD_VOTERS_MAX][BROKER_VOTER_HOST_BYTES],
    char *text, size_t text_bytes)
{
    const struct broker_config *config = broker_config_current(broker->setup.config);
    const struct broker_peers *peers = broker->peers;
    *out = (struct coord_config){ .node_id = broker->node_id, .dir_id = identity->dir_ids[broker->meta_dir], .cluster_id = ot_str_of(identity->cluster_id),
        .voter_host = ot_str_of(peers == NULL ? "127.0.0.1" : peers->host), .voter_port = peers == NULL ? 9093 : peers->port, .min_isr_default = config->min_insync_replicas,
        .partitions_max = config->max_topic_partitions, .brokers_max = BROKERS_MAX,
        .delta_bytes_max = (uint32_t)OT_MIN(OT_MAX((int64_t)16 << 20, (int64_t)config->max_topic_partitions * 96), (int64_t)200 << 20) };
    if (peers == NULL) {
        return OT_OK;
    }
    out->session_us = (uint64_t)config->broker_session_timeout_ms * 1000;
    out->election_timeout_us = (uint64_t)config->coordinator_election_timeout_ms * 1000;
    out->heartbeat_us = out->election_timeout_us / 10;
    const bool joins = config->coordinator_join != NULL && config->coordinator_join[0] != 0;
    int count = broker_voters_parse(joins ? config->coordinator_join : config->coordinator_voters, out->voters, hosts, text, text_bytes);
    if (count < 0) {
        return OT_ERR_INVALID_CONFIG;
    }
    out->voter_count = (uint32_t)count;
    out->join = joins || count > 0;
    for (uint32_t i = 0; i < out->voter_count; i++) {
        out->join &= joins || out->voters[i].id != broker->node_id;    /* not on the list of founders: it follows them */
        broker_peers_address(broker->peers, out->voters[i].id, out->voters[i].host, out->voters[i].port, false);
    }
    return OT_OK;
}

/* With strict leases nobody leads instead before the lease of who leads has run out, whatever its connection looks like. */
static void peer_gone(void *arg, int32_t node_id)
{
    const struct broker *broker = arg;
    if (strcmp(broker_config_current(broker->setup.config)->ottla_leader_lease, "strict") == 0) return;
    broker_events_gone(broker->events, node_id);
    broker_coordinator_gone(broker->coordinator, node_id);
}

static enum ot_err start_coordinator(struct broker *broker, struct broker_identity *identity)
{
    const struct broker_config *config = broker_config_current(broker->setup.config);
    char text[1024] = "", hosts[COORD_VOTERS_MAX][BROKER_VOTER_HOST_BYTES];
    struct coord_config coordinator;
    struct broker_coordinator_setup setup = { .io = broker->setup.io, .exec = broker->setup.coord_exec, .io_exec = broker->setup.io_exec,
        .pages_bytes_max = ((uint64_t)64 << 20) + (uint64_t)config->max_topic_partitions * 1024, .make_room = give_reserve, .make_room_arg = broker,
        .peers = broker->peers, .hooks = { broker, hook_applied, hook_role, hook_halted, hook_closing } };
    uint64_t seed;
    ot_random_bytes(&seed, sizeof seed);
    enum ot_err err = broker_identity_find(broker, text, sizeof text);
    setup.dir = broker->meta_path;
    if (err == OT_OK && (err = broker_coordinator_load(&setup, &broker->coordinator, text, sizeof text)) == OT_OK
        && (err = broker_identity_check(broker, broker_coordinator_image(broker->coordinator), identity, text, sizeof text)) == OT_OK
        && (err = coordinator_config(broker, identity, &coordinator, hosts, text, sizeof text)) == OT_OK) {
        broker->first_start = broker_coordinator_image(broker->coordinator)->blank;
        broker->starting.founded = broker->peers != NULL && broker_coordinator_image(broker->coordinator)->committed.row_count > 0;
        if (broker->peers != NULL) {
            broker->peers->gone_arg = broker;
            broker->peers->gone = peer_gone;
        }
        err = broker_coordinator_start(broker->coordinator, &coordinator, seed, text, sizeof text);
    }
    if (err != OT_OK) {
        ot_log(OT_LOG_ERROR, "broker", "start_refused", "error=%s text=\"%s\"", ot_err_name(err), text);
    }
    return err;
}

/* Until there is a cluster that this broker is part of. Alone that takes the time of a disk write. */
static enum ot_err wait_founded(struct broker *broker)
{
    int64_t next_told_us = ot_exec_now_us(broker->setup.coord_exec) + WAITING_TOLD_US;
    bool given_up = false;
    char missing[100];
    pthread_mutex_lock(&broker->starting.mutex);
    while (!broker->starting.founded && !broker->starting.failed && !given_up) {
        broker_wait_a_little(broker, &broker->starting.mutex, &broker->starting.changed);
        given_up = broker->setup.give_up != NULL && broker->setup.give_up(broker->setup.give_up_arg);
        if (broker->peers != NULL && ot_exec_now_us(broker->setup.coord_exec) >= next_told_us) {
            next_told_us += WAITING_TOLD_US;
            broker_peers_missing(broker->peers, missing, sizeof missing);
            ot_log(OT_LOG_WARN, "broker", "waiting_for_cluster", "peers_connected=%u missing=%s text=\"a new cluster begins when every node of coordinator.voters is there\"", broker_peers_up(broker->peers),
                missing[0] == 0 ? "none" : missing);
        }
    }
    bool founded = broker->starting.founded;
    pthread_mutex_unlock(&broker->starting.mutex);
    return founded ? OT_OK : given_up ? OT_ERR_CANCELLED : OT_ERR_IO;
}

static void run_applied(void *arg)
{
    struct broker *broker = arg;
    broker->starting.applied = broker_coordinator_value(broker->coordinator)->stamp.version;
}

static bool has_applied(struct broker *broker)
{
    broker_coordinator_run(broker->setup.coord_exec, run_applied, broker);
    return broker->starting.applied >= atomic_load(&broker->broker_epoch);
}

/* Until this node has applied its own registration, however long that takes: what it knew before may be of the time when it led, and others do since (coordinator.md §7). */
static enum ot_err wait_applied(struct broker *broker)
{
    int64_t next_told_us = ot_exec_now_us(broker->setup.coord_exec) + WAITING_TOLD_US;
    while (broker->peers != NULL && !has_applied(broker)) {        /* alone, nobody else led */
        pthread_mutex_lock(&broker->starting.mutex);
        broker_wait_a_little(broker, &broker->starting.mutex, &broker->starting.changed);
        const bool failed = broker->starting.failed;
        pthread_mutex_unlock(&broker->starting.mutex);
        if (failed) return OT_ERR_IO;
        if (broker->setup.give_up != NULL && broker->setup.give_up(broker->setup.give_up_arg)) return OT_ERR_CANCELLED;
        if (ot_exec_now_us(broker->setup.coord_exec) >= next_told_us) {
            next_told_us += WAITING_TOLD_US;
            ot_log(OT_LOG_WARN, "broker", "waiting_for_registration", "node=%d applied_version=%lld broker_epoch=%lld text=\"nothing is served before this node has applied its own registration\"",
                broker->node_id, (long long)broker->starting.applied, (long long)atomic_load(&broker->broker_epoch));
        }
    }
    return OT_OK;
}

/* ---- partitions */

static void run_configs(void *arg)
{
    struct broker *broker = arg;
    broker_apply_configs(broker, broker_coordinator_value(broker->coordinator));
}

static void run_sweep(void *arg)
{
    struct broker *broker = arg;
    broker_identity_sweep(broker, broker_coordinator_value(broker->coordinator));
}

static void opened_all(struct broker_ask *ask)
{
    struct broker *broker = OT_CONTAINER(ask, struct broker, open_ask);
    tell(broker, &broker->starting.opened);
}

static void run_apply(void *arg)
{
    struct broker *broker = arg;
    broker->applying = true;
    broker->open_ask.answered = opened_all;
    struct broker_batch *batch = broker_batch_begin(broker->setup.coord_exec, &broker->open_ask);
    broker_apply_all(broker, broker_coordinator_value(broker->coordinator), true, batch);
    broker_batch_opened(batch, OT_OK);
}

/* At most so long, 0 for ever: is every partition of the start open? */
static bool wait_opened(struct broker *broker, uint32_t most_ms)
{
    const struct timespec until = broker_until(most_ms);
    pthread_mutex_lock(&broker->starting.mutex);
    for (int waited = 0; !broker->starting.opened && waited == 0;) {
        waited = most_ms == 0 ? pthread_cond_wait(&broker->starting.changed, &broker->starting.mutex)
                              : pthread_cond_clockwait(&broker->starting.changed, &broker->starting.mutex, CLOCK_MONOTONIC, &until);
    }
    bool opened = broker->starting.opened;
    pthread_mutex_unlock(&broker->starting.mutex);
    return opened;
}

/* What lay there may be made anew elsewhere once it is on record that this directory is behind from now on. */
static bool dir_failed(struct broker_core *core, uint32_t dir)
{
    (void)dir;
    return broker_evidence_dirs(broker_of_core(core));
}

static void ticked(struct broker_core *core, int64_t now_us)
{
    broker_groups_ticked(core, now_us);
    broker_losses_tell(broker_of_core(core));
    broker_losses_settle(broker_of_core(core));
}

static enum ot_err open_partitions(struct broker *broker)
{
    broker_coordinator_run(broker->setup.coord_exec, run_configs, broker);
    broker_coordinator_run(broker->setup.coord_exec, run_sweep, broker);
    enum ot_err err = broker_losses_open(broker->setup.io, broker->meta_path, &broker->core.losses);
    if (err != OT_OK) {
        ot_log(OT_LOG_ERROR, "loss", "ledger_not_opened", "folder=%s error=%s", broker->meta_path, ot_err_name(err));
        return err;
    }
    err = broker_core_init(&broker->core, &broker->setup, broker->core.store, broker->node_id);
    broker->has_core = err == OT_OK;
    broker_groups_init(broker);
    if (err == OT_OK && broker->peers != NULL) {
        err = broker_replication_links_start(broker, &broker->replication);
    }
    if (err == OT_OK) {
        broker_txns_init(broker);
        err = broker_shards_init(broker);
    }
    if (err != OT_OK) {
        return err;
    }
    broker->core.dir_failed = dir_failed;
    broker->core.partition_exists = broker_apply_exists;
    broker->core.broker_in_rack = broker_apply_in_rack;
    broker->core.internal_changed = broker_shards_partition_changed;
    broker->core.marker_committed = broker_shards_marker;
    broker->core.ticked = ticked;
    broker->core.transactions_served = broker->core.transactions_verified = true;
    broker_coordinator_run(broker->setup.coord_exec, run_apply, broker);
    /* among others one is not unfenced before its logs are there: they can lead meanwhile */
    if (!wait_opened(broker, broker->peers != NULL ? 0 : broker->setup.start_wait_ms)) {
        ot_log(OT_LOG_INFO, "broker", "recovering", "open=%u partitions=%u text=\"the others open meanwhile, those first that clients ask for\"",
            atomic_load(&broker->core.partitions_open), atomic_load(&broker->core.partitions_total));
    }
    return OT_OK;
}

/* The id that the cluster has: a node that did not found it learned it from the others. */
static void run_cluster_id(void *arg)
{
    struct broker *broker = arg;
    struct ot_str id = broker_coordinator_cluster(broker->coordinator);
    snprintf(broker->identity->cluster_id, sizeof broker->identity->cluster_id, "%.*s", (int)id.bytes, id.data);
}

enum ot_err broker_begin(struct broker *broker)
{
    struct broker_evidence evidence = { .boot = COORD_BOOT_MACHINE_CRASH };
    static const char *const boots[] = { "clean", "process_crash", "machine_crash" };
    enum ot_err err = wait_founded(broker);
    if (err == OT_OK) {
        broker_coordinator_run(broker->setup.coord_exec, run_cluster_id, broker);
        memcpy(broker->dir_ids, broker->identity->dir_ids, sizeof broker->dir_ids);
        if ((err = broker_identity_write(broker, broker->identity)) == OT_OK && (err = broker_evidence_judge(broker, &evidence)) == OT_OK
            && (err = broker_member_register(broker, broker->identity, &evidence)) == OT_OK && (err = wait_applied(broker)) == OT_OK) {
            if ((err = broker_evidence_returned(broker)) == OT_OK) err = open_partitions(broker);
        }
    }
    if (err == OT_OK) {
        broker_metrics_cluster_watch(broker);
        broker_core_start(&broker->core);
        broker_scrub_start(broker);
        int expected = BROKER_STARTING;        /* not if it halted meanwhile */
        atomic_compare_exchange_strong(&broker->stage, &expected, BROKER_SERVING);
        broker_member_serve(broker);
        broker_events_start(broker->events);
        const struct broker_view *view = broker_view_take(broker);
        ot_log(OT_LOG_INFO, "broker", "started", "node=%d cluster=%s term=%d broker_epoch=%lld last_stop=%s partitions=%u", broker->node_id, broker->identity->cluster_id,
            view->term, (long long)atomic_load(&broker->broker_epoch), broker->first_start ? "none" : boots[evidence.boot], atomic_load(&broker->core.partitions_total));
        struct broker_view_cluster cluster;
        broker_view_cluster(view, &cluster);
        if (cluster.forced_ms != 0) {
            ot_log(OT_LOG_ERROR, "broker", "metadata_may_be_lost", "forced_wall_ms=%lld text=\"the voters of this cluster were forced: what the lost ones had decided and nobody else knew is gone\"",
                (long long)cluster.forced_ms);
        }
        broker_view_give(view);
    }
    free(broker->identity);
    broker->identity = NULL;
    return err;
}

enum ot_err broker_make(const struct broker_setup *setup, struct broker **out)
{
    struct broker *broker = calloc(1, sizeof *broker);
    if (broker == NULL) {
        return OT_ERR_NO_MEMORY;
    }
    broker->setup = *setup;
    broker->node_id = broker_config_current(setup->config)->node_id;
    broker->started_wall_ms = ot_exec_wall_ms(setup->coord_exec);
    broker->started_us = ot_exec_now_us(setup->coord_exec);
    broker_views_init(&broker->views);
    broker_producer_ids_init(broker);
    broker_telemetry_init(&broker->telemetry, setup->metrics);
    broker_jobs_init(broker);
    broker_scrub_init(broker);
    broker_member_init(broker);
    broker_elections_init(broker);
    pthread_mutex_init(&broker->auto_creates.mutex, NULL);
    pthread_mutex_init(&broker->rest.mutex, NULL);
    ot_map_init(&broker->auto_creates.names);
    pthread_mutex_init(&broker->starting.mutex, NULL);
    pthread_cond_init(&broker->starting.changed, NULL);
    broker->identity = calloc(1, sizeof *broker->identity);
    enum ot_err err = broker->identity == NULL ? OT_ERR_NO_MEMORY : broker_events_new(broker, &broker->events);
    if (err == OT_OK) {
        err = open_store(broker);
    }
    if (err == OT_OK && setup->peer != NULL) {
        err = broker_peers_new(setup->peer, broker->node_id, &broker->peers);
    }
    if (err == OT_OK) {
        err = start_coordinator(broker, broker->identity);
    }
    if (err != OT_OK) {
        broker_close(broker);
        return err;
    }
    *out = broker;
    return OT_OK;
}

enum ot_err broker_open(const struct broker_setup *setup, struct broker **out)
{
    struct broker *broker;
    enum ot_err err = broker_make(setup, &broker);
    if (err == OT_OK && (err = broker_begin(broker)) != OT_OK) {
        broker_close(broker);
        return err;
    }
    if (err == OT_OK) {
        *out = broker;
    }
    return err;
}

/* ---- the end */

void broker_stop(struct broker *broker)
{
    int stage = atomic_exchange(&broker->stage, BROKER_STOPPING);
    if (stage == BROKER_STOPPING || !broker->has_core) {
        return;
    }
    if (stage == BROKER_SERVING) {
        broker_member_leave(broker);
        broker_events_stop(broker->events);
        broker_coordinator_refuse(broker->coordinator);
    }
    broker_scrub_stop(broker);
    broker_jobs_stop(broker);
    broker_shards_stop(broker);
    broker_replication_links_stop(broker->replication);
    broker->flushed = broker_core_stop(&broker->core, broker_config_current(broker->setup.config)->ottla_shutdown_flush_timeout_ms);
    ot_log(broker->flushed ? OT_LOG_INFO : OT_LOG_WARN, "broker", "stopped", "node=%d flushed=%s", broker->node_id, broker->flushed ? "yes" : "no");
}

/* Once every log is closed: the marker vouches for index files and true sizes too, and those are written at the close. */
static void leave_clean(struct broker *broker, uint64_t unclean)
{
    for (uint32_t dir = 0; broker->flushed && dir < eng_store_dir_count(broker->core.store) && dir < BROKER_DIRS_MAX; dir++) {
        if (eng_store_dir_offline(broker->core.store, dir)) {
            continue;
        }
        bool closed = (unclean >> dir & 1) == 0;
        enum ot_err err = closed ? eng_store_leave_clean(broker->core.store, dir, atomic_load(&broker->broker_epoch)) : OT_ERR_IO;
        if (err != OT_OK) {
            ot_log(OT_LOG_WARN, "broker", "clean_marker_not_written", "log_dir=%s error=%s text=\"%s\"", eng_store_dir_path(broker->core.store, dir), ot_err_name(err),
                closed ? "the next start reads the ends of the logs" : "a log did not close whole: the next start reads the ends of the logs");
        }
    }
}

void broker_leave(struct broker *broker)
{
    if (broker->coordinator != NULL) {
        broker_coordinator_run(broker->setup.coord_exec, broker_member_end, broker);
        broker_coordinator_stop(broker->coordinator);
    }
}

void broker_close(struct broker *broker)
{
    if (broker == NULL) {
        return;
    }
    broker_stop(broker);
    if (broker->applying) {
        (void)wait_opened(broker, 0);          /* those that had not begun were given up */
    }
    broker_leave(broker);
    broker_peers_free(broker->peers);
    if (broker->coordinator != NULL) {         /* what its links said last has run */
        broker_coordinator_run(broker->setup.coord_exec, broker_member_end, broker);
    }
    broker_events_end(broker->events);
    broker_coordinator_close(broker->coordinator);
    broker_replication_links_free(broker->replication);
    if (broker->has_core) {
        leave_clean(broker, broker_core_free(&broker->core));
    }
    if (broker->has_store) {
        eng_store_close(broker->core.store);
    }
    broker_events_free(broker->events);        /* what it did not get rid of is answered */
    broker_losses_close(broker->core.losses);
    broker_shards_free(broker);
    broker_groups_free(broker);
    broker_producer_ids_free(broker);
    broker_telemetry_free(&broker->telemetry);
    broker_jobs_free(broker);
    broker_scrub_free(broker);
    broker_member_free(broker);
    broker_elections_free(broker);
    ot_map_free(&broker->auto_creates.names);
    pthread_mutex_destroy(&broker->auto_creates.mutex);
    pthread_mutex_destroy(&broker->rest.mutex);
    pthread_mutex_destroy(&broker->starting.mutex);
    pthread_cond_destroy(&broker->starting.changed);
    free(broker->identity);
    free(broker->meta_path);
    free(broker);
}

/* ---- what everybody may ask */

void broker_health(struct broker *broker, struct broker_health *out)
{
    static const char *const reasons[] = { [BROKER_STARTING] = "starting", [BROKER_SERVING] = "", [BROKER_STOPPING] = "stopping" };
    int stage = atomic_load(&broker->stage);
    pthread_mutex_lock(&broker->starting.mutex);
    bool recovering = stage == BROKER_SERVING && !broker->starting.opened;
    pthread_mutex_unlock(&broker->starting.mutex);
    const bool fenced = stage == BROKER_SERVING && !broker_member_electable(broker);
    const bool ready = stage == BROKER_SERVING && !recovering && !fenced, hands_over = stage == BROKER_STOPPING && atomic_load(&broker->core.handing_over) && !atomic_load(&broker->core.stopping);
    *out = (struct broker_health){ .ready = ready, .serves_peers = ready || hands_over, .cut_off = ready && broker_member_cut_off(broker),
        .reason = stage == BROKER_HALTED ? atomic_load(&broker->halted_text) : recovering ? "recovering" : fenced ? "the coordinator does not let it lead yet" : reasons[stage],
        .partitions_total = atomic_load(&broker->core.partitions_total), .partitions_open = atomic_load(&broker->core.partitions_open),
        .partitions_failed = atomic_load(&broker->core.partitions_failed) };
}

struct ot_exec *broker_io_exec(struct broker *broker) { return broker->setup.io_exec; }
struct eng_store *broker_store(struct broker *broker) { return broker->core.store; }
const struct broker_config *broker_config(struct broker *broker) { return broker_config_current(broker->setup.config); }
struct broker_config_store *broker_config_store(struct broker *broker) { return broker->setup.config; }
struct ot_metrics *broker_metrics(struct broker *broker) { return broker->core.metrics; }
struct broker_telemetry *broker_telemetry(struct broker *broker) { return &broker->telemetry; }
int32_t broker_node_id(const struct broker *broker) { return broker->node_id; }
int64_t broker_started_wall_ms(const struct broker *broker) { return broker->started_wall_ms; }
int64_t broker_steady_wall_ms(const struct broker *broker, int64_t now_us) { return broker->started_wall_ms + (now_us - broker->started_us) / 1000; }
