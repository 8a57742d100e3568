/* The cluster and its brokers. */
#include "rest/checks.h"
#include "rest/handlers.h"
#include "rest/hop.h"
#include "rest/inside.h"
#include "rest/topic_view.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void count_brokers(struct rest_call *call, const struct broker_view *view, int *total, int *alive)
{
    struct broker_view_broker row;
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &call->arena, &row); after = row.id) {
        ++*total;
        *alive += !row.fenced;
    }
}

static void find_unclean(void *arg, const struct broker_config_value *value)
{
    if (strcmp(value->row->key, "unclean.leader.election.enable") == 0) *(bool *)arg = value->value != NULL && strcmp(value->value, "true") == 0;
}

struct sums { int32_t offline, under_replicated, under_min_isr, osr, overriding; };

static struct sums sums_of(struct rest_call *call, const struct broker_view *view)
{
    struct sums sums = { 0 };
    struct broker_view_topic topic;
    struct broker_view_config own;
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        struct rest_topic_sum sum;
        rest_topic_sum(call, view, &topic, false, &sum);
        sums.offline += sum.offline;
        sums.under_replicated += sum.under_replicated;
        sums.under_min_isr += sum.under_min_isr;
        sums.osr += sum.osr_replicas;
        for (struct ot_str at = { .null = true }; broker_view_next_topic_config(view, &topic.id, at, &own); at = own.name)
            sums.overriding += ot_str_equal(own.name, ot_str_of("unclean.leader.election.enable"));
    }
    return sums;
}

static void cluster(struct rest_call *call, const struct rest_gather *all)
{
    struct rest_json *out = &call->out;
    struct broker_view_cluster facts;
    int total = 0, alive = 0;
    bool unclean = false;
    const struct broker_view *view = broker_view_take(call->broker);
    broker_view_cluster(view, &facts);
    count_brokers(call, view, &total, &alive);
    const struct sums sums = sums_of(call, view);
    broker_config_describe(broker_config_store(call->broker), facts.this_broker, find_unclean, &unclean);
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "cluster_id", facts.cluster_id);
    rest_json_open(out, "controller", '{');
    if (facts.controller_id >= 0) rest_json_int(out, "broker", facts.controller_id);
    else rest_json_null(out, "broker");
    rest_json_int(out, "epoch", facts.term);
    rest_json_close(out, '}');
    rest_json_open(out, "brokers", '{');
    rest_json_int(out, "total", total);
    rest_json_int(out, "alive", alive);
    rest_json_int(out, "fenced", total - alive);
    rest_json_close(out, '}');
    rest_json_big(out, "topics", broker_view_topic_count(view));
    rest_json_big(out, "partitions", broker_view_partition_count(view));
    rest_json_text(out, "health", all != NULL ? rest_checks_told(all) : rest_checks_status(call, view));
    rest_json_int(out, "offline_partitions", sums.offline);
    rest_json_int(out, "under_replicated", sums.under_replicated);
    rest_json_int(out, "under_min_isr", sums.under_min_isr);
    rest_json_int(out, "osr_replicas", sums.osr);
    rest_json_open(out, "unclean_leader_election", '{');
    rest_json_bool(out, "default", unclean);
    rest_json_int(out, "topics_overriding", sums.overriding);
    rest_json_close(out, '}');
    rest_json_big(out, "metadata_offset", facts.version);
    rest_features_write(out, "feature_levels", call->broker);
    if (all != NULL) rest_gather_partial(all);
    rest_json_close(out, '}');
    broker_view_give(view);
    rest_reply_json(call, 200);
}

static void checks_told(struct rest_gather *all) { cluster(all->call, all); }

void rest_cluster_get(struct rest_call *call)
{
    if (rest_gather_wanted(call)) rest_gather(call, REST_CHECKS_TARGET, NULL, checks_told);
    else cluster(call, NULL);
}

/* ---- finding brokers */

bool rest_broker_find(struct rest_call *call, const struct broker_view *view, struct broker_view_broker *out)
{
    int64_t id = 0;
    if (!rest_param_int(call, 0, "broker", 0, INT32_MAX, &id)) return false;
    if (broker_view_next_broker(view, (int32_t)id - 1, &call->arena, out) && out->id == id) return true;
    rest_problem_more(call, OT_ERR_BROKER_ID_NOT_REGISTERED, NULL, "GET /v1/brokers", "no broker has the id %lld", (long long)id);
    return false;
}

bool rest_broker_is_here(struct rest_call *call)
{
    int64_t id = 0;
    if (!rest_param_int(call, 0, "broker", 0, INT32_MAX, &id)) return false;
    if (id == broker_node_id(call->broker)) return true;
    rest_problem_more(call, OT_ERR_BROKER_ID_NOT_REGISTERED, NULL, "GET /v1/brokers", "this is broker %d, and it knows nothing of the inside of broker %lld", broker_node_id(call->broker), (long long)id);
    return false;
}

/* ---- connections: copied while the door lists them in its own order, then shown by id */

enum { CONNECTIONS_MAX = 100000 };
struct connections { struct rest_call *call; struct rest_connection_row *rows; uint32_t count, cap; bool full; };

static const char *kept(struct rest_call *call, const char *text) { return text == NULL ? NULL : ot_arena_str(&call->arena, ot_str_of(text)); }

static void keep_connection(void *arg, const struct rest_connection_row *row)
{
    struct connections *list = arg;
    if (list->count == list->cap) {
        const uint32_t cap = OT_MIN(OT_MAX(list->cap * 2, 256u), (uint32_t)CONNECTIONS_MAX);
        struct rest_connection_row *grown = cap == list->cap ? NULL : realloc(list->rows, cap * sizeof(*grown));
        if (grown == NULL) {
            list->full = true;
            return;
        }
        list->rows = grown;
        list->cap = cap;
    }
    struct rest_connection_row *copy = &list->rows[list->count++];
    *copy = *row;
    copy->listener = kept(list->call, row->listener);
    copy->address = kept(list->call, row->address);
    copy->client_id = kept(list->call, row->client_id);
    copy->software_name = kept(list->call, row->software_name);
    copy->software_version = kept(list->call, row->software_version);
}

static int by_id(const void *a, const void *b)
{
    const struct rest_connection_row *one = a, *two = b;
    return (one->id > two->id) - (one->id < two->id);
}

static void write_connection(struct rest_call *call, const struct rest_connection_row *row)
{
    struct rest_json *out = &call->out;
    rest_list_item(call);
    rest_json_open(out, NULL, '{');
    rest_json_big(out, "id", (int64_t)row->id);
    rest_json_text(out, "listener", row->listener);
    rest_json_text(out, "address", row->address);
    rest_json_text(out, "client_id", row->client_id);
    rest_json_text(out, "software_name", row->software_name);
    rest_json_text(out, "software_version", row->software_version);
    rest_json_time(out, "opened_at", row->opened_wall_ms);
    rest_json_big(out, "requests", (int64_t)row->requests);
    rest_json_big(out, "bytes_in", (int64_t)row->bytes_in);
    rest_json_big(out, "bytes_out", (int64_t)row->bytes_out);
    rest_json_close(out, '}');
}

struct looking { uint64_t id; bool found; };

static void look_for(void *arg, const struct rest_connection_row *row)
{
    struct looking *looking = arg;
    looking->found |= row->id == looking->id;
}

void rest_connection_close(struct rest_call *call)
{
    const struct rest_setup *setup = &call->server->setup;
    int64_t id = 0;
    const bool validate_only = rest_validate_only(call);
    if (rest_faulty(call) || !rest_broker_is_here(call) || !rest_param_int(call, 1, "connection", 0, INT64_MAX, &id)) return;
    struct looking looking = { .id = (uint64_t)id };
    if (validate_only && setup->connections != NULL) setup->connections(setup->connections_arg, look_for, &looking);
    if (validate_only && looking.found) rest_reply_empty(call, 204);
    else if (!validate_only && setup->close_connection != NULL && setup->close_connection(setup->connections_arg, (uint64_t)id)) rest_reply_empty(call, 204);
    else rest_problem_more(call, OT_ERR_RESOURCE_NOT_FOUND, NULL, "GET /v1/brokers/{broker}/connections", "there is no client connection %lld", (long long)id);
}

void rest_broker_connections(struct rest_call *call)
{
    const struct rest_setup *setup = &call->server->setup;
    struct connections list = { .call = call };
    if (!rest_broker_is_here(call) || !rest_list_begin(call, 'k', true)) return;
    if (setup->connections != NULL) setup->connections(setup->connections_arg, keep_connection, &list);
    if (list.count > 0) qsort(list.rows, list.count, sizeof(*list.rows), by_id);
    uint32_t first = 0;
    while (first < list.count && (int64_t)list.rows[first].id <= call->list.after_int) first++;
    const uint32_t end = OT_MIN(list.count, first + call->list.limit);
    for (uint32_t i = first; i < end; i++) write_connection(call, &list.rows[i]);
    const int64_t last = end > first ? (int64_t)list.rows[end - 1].id : 0, total = setup->connections == NULL || list.full ? -1 : (int64_t)list.count;
    free(list.rows);
    rest_list_reply_int(call, 'k', end < list.count, last, total, NULL);
}
