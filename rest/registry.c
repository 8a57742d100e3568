/* GET /v1/registry/{path}: the names that operators know from the ZooKeeper days, computed when they are asked for.
 *
 *   brokers/ids/{id}   brokers/topics/{t}[/partitions/{p}/state]   controller   controller_epoch   cluster/id
 *   config/{topics|brokers|users|clients}/{name}   admin/{delete_topics|reassign_partitions}   consumers/…
 *
 * A watch looks again ten times a second: nodes are small, and nobody is told of changes of a node that nobody keeps. */
#include "rest/registry.h"
#include "base/util.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include "rest/topic_view.h"
#include <stdlib.h>
#include <string.h>

enum { WAIT_MAX_MS = 120000, LOOK_US = 100000, FIXED = 2 /* segments of "/v1/registry" */ };

/* ---- what a node is made of */

void rest_registry_child(struct rest_registry *node, struct ot_str name)
{
    if (node->child_count == node->child_cap) {
        const uint32_t cap = node->child_cap == 0 ? 64 : node->child_cap * 2;
        struct ot_str *children = cap > REST_REGISTRY_CHILDREN_MAX * 2 ? NULL : ot_arena_array(&node->call->arena, cap, sizeof(*children));
        node->too_many |= children == NULL;
        if (children == NULL) return;
        if (node->child_count > 0) memcpy(children, node->children, node->child_count * sizeof(*children));
        node->children = children;
        node->child_cap = cap;
    }
    node->children[node->child_count++] = name;
}

void rest_registry_child_text(struct rest_registry *node, const char *name)
{
    const char *copy = ot_arena_str(&node->call->arena, ot_str_of(name));
    if (copy == NULL) node->too_many = true;
    else rest_registry_child(node, ot_str_of(copy));
}

void rest_registry_child_int(struct rest_registry *node, int64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)number);
    rest_registry_child_text(node, text);
}

bool rest_registry_number(struct ot_str text, int64_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < text.bytes && i < 12; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        *out = *out * 10 + (text.data[i] - '0');
    }
    return text.bytes > 0 && text.bytes < 12 && (text.bytes == 1 || text.data[0] != '0');
}

static void folder(struct rest_registry *node, const char *const *names)
{
    node->found = true;
    for (; *names != NULL; names++) rest_registry_child_text(node, *names);
}

/* ---- brokers/ids: as long as their broker lives */

static void broker_node(struct rest_registry *node, const struct broker_view_broker *broker)
{
    struct rest_json *out = &node->data;
    node->found = node->ephemeral = true;
    node->version = broker->epoch;
    snprintf(node->owner, sizeof(node->owner), "%lld", (long long)broker->epoch);
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "version", 5);
    rest_json_str(out, "host", broker->endpoint_count > 0 ? broker->endpoints[0].host : (struct ot_str){ .null = true });
    if (broker->endpoint_count > 0) rest_json_int(out, "port", broker->endpoints[0].port);
    else rest_json_null(out, "port");
    rest_json_open(out, "endpoints", '[');
    for (uint32_t i = 0; i < broker->endpoint_count; i++) {
        char text[400];
        const struct broker_view_endpoint *at = &broker->endpoints[i];
        snprintf(text, sizeof(text), "%.*s://%.*s:%d", (int)at->listener.bytes, at->listener.data, at->host.null ? 0 : (int)at->host.bytes, at->host.null ? "" : at->host.data, at->port);
        rest_json_text(out, NULL, text);
    }
    rest_json_close(out, ']');
    rest_json_open(out, "listener_security_protocol_map", '{');
    for (uint32_t i = 0; i < broker->endpoint_count; i++) {
        rest_json_str_key(out, broker->endpoints[i].listener);
        rest_json_str(out, NULL, broker->endpoints[i].security);
    }
    rest_json_close(out, '}');
    rest_json_str(out, "rack", broker->rack);
    rest_json_bool(out, "fenced", broker->fenced);
    rest_json_close(out, '}');
}

static void brokers_ids(struct rest_registry *node, const struct broker_view *view)
{
    struct broker_view_broker broker;
    int64_t id = -1;
    node->found = node->depth == 2;
    if (node->depth > 3 || (node->depth == 3 && !rest_registry_number(node->path[2], &id))) return;
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &node->call->arena, &broker); after = broker.id) {
        if (broker.fenced && !node->all) continue;
        if (node->depth == 2) rest_registry_child_int(node, broker.id);
        else if (broker.id == id) broker_node(node, &broker);
    }
}

/* ---- brokers/topics */

static void topic_node(struct rest_registry *node, const struct broker_view *view, const struct broker_view_topic *topic)
{
    struct rest_json *out = &node->data;
    struct broker_view_partition row;
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "version", 3);
    rest_json_uuid(out, "topic_id", &topic->id);
    rest_json_open(out, "partitions", '{');
    for (int32_t i = 0; i < topic->partition_count; i++) {
        char name[16];
        if (!broker_view_partition(view, &topic->id, i, &node->call->arena, &row)) continue;
        snprintf(name, sizeof(name), "%d", i);
        rest_ids_write(out, name, row.replicas);
    }
    rest_json_close(out, '}');
    rest_json_close(out, '}');
    node->version = node->modified_offset = -1;        /* the topic's own version knows nothing of replicas that moved */
    rest_registry_child_text(node, "partitions");
}

static void state_node(struct rest_registry *node, const struct broker_view *view, const struct broker_view_partition *row)
{
    struct rest_json *out = &node->data;
    struct broker_view_cluster cluster;
    broker_view_cluster(view, &cluster);
    node->version = row->partition_epoch;
    node->modified_offset = -1;                /* which version of the cluster's state that was is not kept */
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "controller_epoch", cluster.term);
    rest_json_int(out, "leader", row->leader);
    rest_json_int(out, "leader_epoch", row->leader_epoch);
    rest_json_int(out, "version", 1);
    rest_ids_write(out, "isr", row->isr);
    rest_osr_write(out, "osr", row);
    rest_ids_write(out, "elr", row->elr);
    rest_json_int(out, "partition_epoch", row->partition_epoch);
    rest_json_close(out, '}');
}

/* brokers / topics / {t} / partitions / {p} / state */
static void brokers_topics(struct rest_registry *node, const struct broker_view *view)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    int64_t index = -1;
    if (node->depth == 2) {
        node->found = true;
        for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
            const char *copy = ot_arena_str(&node->call->arena, topic.name);       /* the view is given back before the answer is written */
            node->too_many |= copy == NULL;
            if (copy != NULL) rest_registry_child(node, (struct ot_str){ copy, topic.name.bytes, false });
        }
        return;
    }
    if (!broker_view_topic(view, node->path[2], &topic) || (node->depth > 3 && !rest_registry_is(node, 3, "partitions"))) return;
    node->version = node->modified_offset = topic.version;
    if (node->depth > 4 && (!rest_registry_number(node->path[4], &index) || index >= topic.partition_count)) return;
    if (node->depth > 5 && (!rest_registry_is(node, 5, "state") || node->depth > 6)) return;
    node->found = true;
    if (node->depth == 3) topic_node(node, view, &topic);
    for (int32_t i = 0; node->depth == 4 && i < topic.partition_count; i++) rest_registry_child_int(node, i);
    if (node->depth == 5) rest_registry_child_text(node, "state");
    node->found = node->depth < 6 || broker_view_partition(view, &topic.id, (int32_t)index, &node->call->arena, &row);
    if (node->depth == 6 && node->found) state_node(node, view, &row);
}

static void brokers(struct rest_registry *node, const struct broker_view *view)
{
    if (node->depth == 1) folder(node, (const char *const[]){ "ids", "topics", NULL });
    else if (rest_registry_is(node, 1, "ids")) brokers_ids(node, view);
    else if (rest_registry_is(node, 1, "topics")) brokers_topics(node, view);
}

/* ---- config */

static bool is_secret(struct ot_str name)
{
    uint32_t count;
    const struct broker_config_row *rows = broker_config_rows(&count);
    for (uint32_t i = 0; i < count; i++)
        if (ot_str_equal(name, ot_str_of(rows[i].key))) return rows[i].sensitive;
    return false;
}

static void config_begin(struct rest_registry *node)
{
    node->found = true;
    rest_json_open(&node->data, NULL, '{');
    rest_json_int(&node->data, "version", 1);
    rest_json_open(&node->data, "config", '{');
}

static void config_pair(struct rest_registry *node, const struct broker_view_config *own)
{
    rest_json_str_key(&node->data, own->name);
    rest_json_str(&node->data, NULL, is_secret(own->name) ? (struct ot_str){ .null = true } : own->value);
}

static void config_end(struct rest_registry *node)
{
    rest_json_close(&node->data, '}');
    rest_json_close(&node->data, '}');
}

static void config_topic(struct rest_registry *node, const struct broker_view *view)
{
    struct broker_view_topic topic;
    struct broker_view_config own;
    if (node->depth != 3 || !broker_view_topic(view, node->path[2], &topic)) return;
    node->version = node->modified_offset = topic.version;
    config_begin(node);
    for (struct ot_str after = { .null = true }; broker_view_next_topic_config(view, &topic.id, after, &own); after = own.name) config_pair(node, &own);
    config_end(node);
}

/* "<default>" is what holds for all brokers. */
static void config_brokers(struct rest_registry *node, const struct broker_view *view)
{
    struct broker_view_broker broker;
    struct broker_view_config own;
    int64_t id = -1;
    if (node->depth == 2) {
        folder(node, (const char *const[]){ "<default>", NULL });
        for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &node->call->arena, &broker); after = broker.id) rest_registry_child_int(node, broker.id);
        return;
    }
    bool known = node->depth == 3 && rest_registry_is(node, 2, "<default>");
    if (!known && node->depth == 3 && rest_registry_number(node->path[2], &id))
        for (int32_t after = INT32_MIN; !known && broker_view_next_broker(view, after, &node->call->arena, &broker); after = broker.id) known = broker.id == id;
    if (!known) return;
    node->version = node->modified_offset = broker_view_broker_config_version(view, (int32_t)id);
    config_begin(node);
    for (struct ot_str after = { .null = true }; broker_view_next_broker_config(view, (int32_t)id, after, &own); after = own.name) config_pair(node, &own);
    config_end(node);
}

static void config(struct rest_registry *node, const struct broker_view *view)
{
    if (node->depth == 1) folder(node, (const char *const[]){ "brokers", "clients", "topics", "users", NULL });
    else if (rest_registry_is(node, 1, "topics") && node->depth == 2) brokers_topics(node, view);      /* the same names */
    else if (rest_registry_is(node, 1, "topics")) config_topic(node, view);
    else if (rest_registry_is(node, 1, "brokers")) config_brokers(node, view);
    else node->found = node->depth == 2 && (rest_registry_is(node, 1, "users") || rest_registry_is(node, 1, "clients"));
}

/* ---- controller, cluster, admin */

static bool among(struct broker_view_ids ids, int32_t id)
{
    for (int32_t i = 0; i < ids.count; i++)
        if (ids.ids[i] == id) return true;
    return false;
}

static void controller(struct rest_registry *node, const struct broker_view_cluster *cluster, bool epoch)
{
    if (node->depth != 1 || cluster->controller_id < 0) return;
    node->found = true;
    node->version = cluster->term;
    node->ephemeral = !epoch;
    snprintf(node->owner, sizeof(node->owner), "%d", cluster->controller_id);
    if (epoch) {
        rest_json_int(&node->data, NULL, cluster->term);
        return;
    }
    rest_json_open(&node->data, NULL, '{');
    rest_json_int(&node->data, "version", 2);
    rest_json_int(&node->data, "brokerid", cluster->controller_id);
    rest_json_int(&node->data, "controller_epoch", cluster->term);
    rest_json_close(&node->data, '}');
}

static void cluster_id(struct rest_registry *node, const struct broker_view_cluster *cluster)
{
    if (node->depth == 1) folder(node, (const char *const[]){ "id", NULL });
    if (node->depth != 2 || !rest_registry_is(node, 1, "id")) return;
    node->found = true;
    node->version = 0;
    rest_json_open(&node->data, NULL, '{');
    rest_json_text(&node->data, "version", "1");
    rest_json_str(&node->data, "id", cluster->cluster_id);
    rest_json_close(&node->data, '}');
}

/* Where it goes, as whoever started it had written there. */
static void write_target(struct rest_json *out, const struct broker_view_partition *row)
{
    rest_json_open(out, "replicas", '[');
    for (int32_t i = 0; i < row->replicas.count; i++)
        if (!among(row->removing, row->replicas.ids[i])) rest_json_int(out, NULL, row->replicas.ids[i]);
    rest_json_close(out, ']');
}

static void reassigning(struct rest_registry *node, const struct broker_view *view)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct rest_json *out = &node->data;
    node->found = true;
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "version", 1);
    rest_json_open(out, "partitions", '[');
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count; i++) {
            if (!broker_view_partition(view, &topic.id, i, &node->call->arena, &row) || (row.adding.count == 0 && row.removing.count == 0)) continue;
            rest_json_open(out, NULL, '{');
            rest_json_str(out, "topic", topic.name);
            rest_json_int(out, "partition", i);
            write_target(out, &row);
            rest_json_close(out, '}');
        }
    }
    rest_json_close(out, ']');
    rest_json_close(out, '}');
}

static void admin(struct rest_registry *node, const struct broker_view *view)
{
    if (node->depth == 1) folder(node, (const char *const[]){ "delete_topics", "reassign_partitions", NULL });
    else if (node->depth == 2 && rest_registry_is(node, 1, "reassign_partitions")) reassigning(node, view);
    else node->found = node->depth == 2 && rest_registry_is(node, 1, "delete_topics");     /* deletion is one step here: nothing waits */
}

/* ---- answering */

static int by_name(const void *a, const void *b)
{
    const struct ot_str *one = a, *two = b;
    int64_t x, y;
    if (rest_registry_number(*one, &x) && rest_registry_number(*two, &y)) return (x > y) - (x < y);
    const int bytes = memcmp(one->data, two->data, OT_MIN(one->bytes, two->bytes));
    return bytes != 0 ? bytes : (one->bytes > two->bytes) - (one->bytes < two->bytes);
}

/* 32 bits, so that every client can hold it. */
static int64_t version_of(const struct rest_registry *node)
{
    if (node->version >= 0) return node->version;
    uint64_t hash = ot_hash64(node->data.data, node->data.bytes, node->child_count);
    for (uint32_t i = 0; i < node->child_count; i++) hash = ot_hash64(node->children[i].data, node->children[i].bytes, hash);
    return (int64_t)(hash >> 33) + 1;
}

static void write_children(struct rest_registry *node)
{
    struct rest_call *call = node->call;
    struct rest_json *out = &call->out;
    uint32_t first = 0;
    while (first < node->child_count && !call->list.after.null && by_name(&node->children[first], &call->list.after) <= 0) first++;
    const uint32_t end = OT_MIN(node->child_count, first + call->list.limit);
    rest_json_open(out, "children", '[');
    for (uint32_t i = first; i < end; i++) rest_json_str(out, NULL, node->children[i]);
    rest_json_close(out, ']');
    rest_json_text(out, "next_page_token", end < node->child_count && end > first ? rest_list_token(call, 'z', node->children[end - 1]) : NULL);
}

static void answer(struct rest_registry *node, int64_t version)
{
    struct rest_json *out = &node->call->out;
    char path[600] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < node->depth && at < sizeof(path); i++) {
        const int more = snprintf(path + at, sizeof(path) - at, "/%.*s", (int)node->path[i].bytes, node->path[i].data);
        at += more > 0 ? (size_t)more : 0;
    }
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "path", path[0] == 0 ? "/" : path);
    if (node->data.bytes > 0) rest_json_raw(out, "data", node->data.data, node->data.bytes);
    else rest_json_null(out, "data");
    rest_json_open(out, "stat", '{');
    rest_json_big(out, "version", version);
    rest_json_big_or_null(out, "modified_offset", node->modified_offset);
    rest_json_bool(out, "ephemeral", node->ephemeral);
    rest_json_text(out, "owner", node->ephemeral ? node->owner : NULL);
    rest_json_int(out, "children", node->child_count);
    rest_json_close(out, '}');
    rest_json_int(out, "controller_epoch", node->term);
    rest_json_big(out, "metadata_offset", node->metadata_offset);
    write_children(node);
    rest_json_close(out, '}');
    rest_json_free(&node->data);
    rest_reply_json(node->call, 200);
}

static void look(struct rest_registry *node);

static void look_again(struct ot_timer *timer) { look(OT_CONTAINER(timer, struct rest_call, timer)->state); }
static void hurry(struct rest_call *call)
{
    struct rest_registry *node = call->state;
    node->wait_until_us = 0;                   /* the next look is the last; it comes within a tenth of a second */
}

void rest_registry_done(struct rest_registry *node)
{
    struct rest_call *call = node->call;
    const int64_t version = !node->found ? 0 : version_of(node);
    const bool same = node->watch >= 0 && version == node->watch;
    if (node->too_many || rest_json_failed(&node->data)) {
        rest_json_free(&node->data);           /* before the answer: with it the call is gone, and the node */
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the answer");
    } else if (same && ot_clock_boot_us() < node->wait_until_us && !call->stopping) {
        call->timer.fired = look_again;
        ot_exec_timer_set(call->home, &call->timer, ot_exec_now_us(call->home) + LOOK_US);
        return;                                /* look begins anew */
    } else if (!node->found) {
        rest_json_free(&node->data);
        rest_problem_more(call, OT_ERR_RESOURCE_NOT_FOUND, NULL, "GET /v1/registry", "there is no such node");
    } else {
        if (node->child_count > 0) qsort(node->children, node->child_count, sizeof(*node->children), by_name);
        answer(node, version);
    }
}

static void find(struct rest_registry *node)
{
    static const char *const roots[] = { "admin", "brokers", "cluster", "config", "consumers", "controller", "controller_epoch", NULL };
    struct broker_view_cluster cluster;
    const struct broker_view *view = broker_view_take(node->call->broker);
    broker_view_cluster(view, &cluster);
    if (node->depth == 0) folder(node, roots);
    else if (rest_registry_is(node, 0, "brokers")) brokers(node, view);
    else if (rest_registry_is(node, 0, "config")) config(node, view);
    else if (rest_registry_is(node, 0, "controller")) controller(node, &cluster, false);
    else if (rest_registry_is(node, 0, "controller_epoch")) controller(node, &cluster, true);
    else if (rest_registry_is(node, 0, "cluster")) cluster_id(node, &cluster);
    else if (rest_registry_is(node, 0, "admin")) admin(node, view);
    broker_view_give(view);
    rest_registry_done(node);
}

static void note_state(struct rest_registry *node)
{
    struct broker_view_cluster cluster;
    const struct broker_view *view = broker_view_take(node->call->broker);
    broker_view_cluster(view, &cluster);
    broker_view_give(view);
    node->term = cluster.term;
    node->metadata_offset = cluster.version;
}

static void look(struct rest_registry *node)
{
    ot_arena_rewind(&node->call->arena, &node->mark);
    rest_json_free(&node->data);
    rest_json_init(&node->data, REST_ANSWER_MAX);
    node->found = node->ephemeral = false;
    node->children = NULL;
    node->child_count = node->child_cap = 0;
    node->version = node->modified_offset = -1;
    note_state(node);
    if (node->depth > 0 && rest_registry_is(node, 0, "consumers")) rest_registry_consumers(node);
    else find(node);
}

/* A path in one segment with its slashes as %2F is taken too: that is how generated clients send it. */
static bool unfold(struct rest_call *call, struct rest_registry *node)
{
    const struct ot_str whole = call->uri.segment_count > FIXED ? call->uri.segments[FIXED] : ot_str_of("");
    struct rest_uri uri;
    char text[160];
    node->path = call->uri.segments + FIXED;
    node->depth = call->uri.segment_count - FIXED;
    if (node->depth == 1 && memchr(whole.data, '/', whole.bytes) != NULL) {
        char *target = ot_arena_alloc(&call->arena, whole.bytes + 2u);
        struct rest_uri *kept = ot_arena_alloc(&call->arena, sizeof(*kept));
        if (target == NULL || kept == NULL) return false;
        const uint32_t slash = whole.data[0] != '/';
        target[0] = '/';
        memcpy(target + slash, whole.data, whole.bytes);
        if (memchr(target, '?', whole.bytes + slash) != NULL || rest_uri_parse(&call->arena, target, whole.bytes + slash, &uri, text, sizeof(text)) != OT_OK) return false;
        *kept = uri;
        node->path = kept->segments;
        node->depth = kept->segment_count;
    }
    if (node->depth > 0 && node->path[node->depth - 1].bytes == 0) node->depth--;      /* "brokers/" */
    return true;
}

void rest_registry(struct rest_call *call)
{
    struct rest_registry *node = ot_arena_alloc(&call->arena, sizeof(*node));
    const bool all = rest_query_flag(call, "all");
    const int64_t watch = rest_query_int(call, "watch", 0, INT64_MAX, -1), wait_ms = rest_query_int(call, "wait_ms", 0, WAIT_MAX_MS, watch < 0 ? 0 : 30000);
    if (!rest_list_begin(call, 'z', false)) return;
    if (node == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    node->call = call;
    node->watch = watch;
    node->all = all;
    node->wait_until_us = call->started_us + wait_ms * 1000;
    call->granted_us = wait_ms * 1000;
    call->state = node;
    call->cancel = hurry;
    const bool good = unfold(call, node);
    node->mark = ot_arena_mark(&call->arena);
    if (good) look(node);
    else rest_problem_more(call, OT_ERR_RESOURCE_NOT_FOUND, NULL, "GET /v1/registry", "there is no such node");
}
