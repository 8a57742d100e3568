/* Requests that are not served, told once per client and counted always (trap N13); and the counters of those that are. */
#include "rpc/kafka/request.h"

#include "base/log.h"
#include "base/util.h"

#include <stdio.h>
#include <string.h>

/* A set that never grows: once it is half full, news are no longer logged, only counted. A peer can make at most that many lines. */
static bool first_time(struct rpc_kafka_server *server, uint64_t hash)
{
    bool first = false;
    const size_t mask = OT_ARRAY_COUNT(server->refused_seen) - 1;
    if (hash == 0) hash = 1;
    pthread_mutex_lock(&server->refused_mutex);
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        if (server->refused_seen[i] == hash) break;
        if (server->refused_seen[i] != 0) continue;
        if (server->refused_count < OT_ARRAY_COUNT(server->refused_seen) / 2) {
            server->refused_seen[i] = hash;
            server->refused_count++;
            first = true;
        }
        break;
    }
    pthread_mutex_unlock(&server->refused_mutex);
    return first;
}

/* Texts of a peer in a log line: printable ASCII, else '?'. */
static void plain(char *to, size_t to_bytes, const char *data, size_t bytes)
{
    size_t n = OT_MIN(bytes, to_bytes - 1);
    for (size_t i = 0; i < n; i++) to[i] = data[i] > ' ' && data[i] < 127 && data[i] != '"' && data[i] != '\\' ? data[i] : '?';
    to[n] = '\0';
}

static const char *said(const char *text) { return text[0] != '\0' ? text : "-"; }

struct about { char software[RPC_NAME_BYTES], version[RPC_NAME_BYTES], client_id[RPC_NAME_BYTES]; uint64_t hash; };

static void about_of(struct ot_conn *conn, const struct ot_wire_request_header *header, const char *kind, struct about *out)
{
    const struct rpc_conn *door = ot_conn_door(conn);
    char all[400];
    plain(out->software, sizeof out->software, door->software_name, strlen(door->software_name));
    plain(out->version, sizeof out->version, door->software_version, strlen(door->software_version));
    plain(out->client_id, sizeof out->client_id, header->client_id.data, header->client_id.null ? 0 : header->client_id.bytes);
    const int n = snprintf(all, sizeof all, "%s|%s|%s|%s|%d|%d", kind, out->software, out->version, ot_conn_peer_host(conn), header->key, header->version);
    out->hash = ot_hash64(all, (size_t)n, 0);
}

void rpc_refused(struct rpc_kafka_server *server, struct ot_conn *conn, const struct ot_wire_request_header *header)
{
    struct about about;
    const struct rpc_api *row = NULL;
    char range[32] = "none", api[32], version[16];
    for (uint32_t i = 0; i < rpc_api_count; i++) {
        if (rpc_apis[i].key == header->key) row = &rpc_apis[i];
    }
    about_of(conn, header, "refused", &about);
    if (row != NULL && header->api != NULL) (void)snprintf(range, sizeof range, "%d-%d", header->api->version_min, rpc_api_max(row, header->api));
    if (header->api != NULL) (void)snprintf(api, sizeof api, "%s", header->api->name);
    else (void)snprintf(api, sizeof api, "key_%d", header->key);
    (void)snprintf(version, sizeof version, "%d", header->version);
    if (first_time(server, about.hash)) {
        ot_log(OT_LOG_WARN, "kafka", "request_refused", "api=%s version=%s served=%s software=%s software_version=%s client_id=%s address=%s", api, version, range,
            said(about.software), said(about.version), said(about.client_id), ot_conn_peer_host(conn));
    }
    if (server->metrics == NULL || server->peer) return;
    const char *labels[] = { api, version, about.software, about.version };
    struct ot_series *series = ot_series_get(server->metrics, OT_METRIC_requests_refused_total, labels);
    ot_series_add(series, 1);
    ot_series_release(server->metrics, series);
}

void rpc_undecodable(struct rpc_kafka_server *server, struct ot_conn *conn, const struct ot_wire_request_header *header, const struct ot_wire_error *error)
{
    struct about about;
    about_of(conn, header, "undecodable", &about);
    if (!first_time(server, about.hash)) return;
    ot_log(OT_LOG_WARN, "kafka", "request_undecodable", "api=%s version=%d field=\"%s\" reason=\"%s\" software=%s software_version=%s client_id=%s address=%s",
        header->api != NULL ? header->api->name : "?", header->version, error->field, error->reason, said(about.software), said(about.version),
        said(about.client_id), ot_conn_peer_host(conn));
}

/* ---- counters */

/* Of series that other doors add to as well. */
static void more(struct ot_series *series, _Atomic uint64_t *told, uint64_t now)
{
    uint64_t before = atomic_load(told);
    do if (now <= before) return;          /* another reader was here just now */
    while (!atomic_compare_exchange_weak(told, &before, now));
    ot_series_add(series, now - before);
}

static void metrics_fill(void *arg, struct ot_metrics *metrics)
{
    struct rpc_kafka_server *server = arg;
    struct ot_net_stats stats;
    double busy = 0;
    const uint32_t loops = ot_net_loop_count(server->net);
    (void)metrics;
    ot_net_stats(server->net, &stats);
    more(server->sent_sendfile, &server->told_sendfile, stats.sendfile_bytes);
    more(server->sent_copy, &server->told_copy, stats.bytes_out - OT_MIN(stats.bytes_out, stats.sendfile_bytes));
    more(server->cold_reads, &server->told_cold_reads, stats.cold_reads);
    if (server->peer) return;
    for (uint32_t i = 0; i < loops; i++) busy += ot_net_loop_busy_ratio(server->net, i);
    ot_series_set(server->busy, busy / loops);
    ot_series_set_total(server->rejected_limit, stats.refused_limit);
    ot_series_set_total(server->rejected_ip, stats.refused_limit_ip);
    ot_series_set_total(server->rejected_descriptor, stats.refused_no_descriptor);
}

static struct ot_series *series(struct rpc_kafka_server *server, enum ot_metric metric, const char *first, const char *second)
{
    const char *labels[] = { first, second };
    return ot_series_get(server->metrics, metric, first == NULL ? NULL : labels);
}

void rpc_metrics_listener(struct rpc_kafka_server *server, struct rpc_listener *listener)
{
    if (server->metrics == NULL || server->peer) return;
    listener->open = series(server, OT_METRIC_connections, listener->name, NULL);
    listener->accepted = series(server, OT_METRIC_connections_accepted_total, listener->name, NULL);
}

void rpc_metrics_init(struct rpc_kafka_server *server)
{
    if (server->metrics == NULL) return;
    server->sent_sendfile = series(server, OT_METRIC_sent_bytes_total, "sendfile", NULL);
    server->sent_copy = series(server, OT_METRIC_sent_bytes_total, "copy", NULL);
    server->cold_reads = series(server, OT_METRIC_log_cold_reads_total, NULL, NULL);
    ot_metrics_before_read(server->metrics, metrics_fill, server);
    if (server->peer) return;              /* of brokers what goes out is counted; how long a client waits and who is let in are about clients */
    for (uint32_t i = 0; i < rpc_api_count; i++) {
        const char *name = ot_api_find(rpc_apis[i].key)->name;
        server->series[i] = (struct rpc_series){ series(server, OT_METRIC_requests_total, name, "NONE"),
            series(server, OT_METRIC_request_duration_seconds, name, NULL), series(server, OT_METRIC_request_bytes_total, name, NULL) };
    }
    server->busy = series(server, OT_METRIC_handler_busy_ratio, NULL, NULL);
    server->rejected_limit = series(server, OT_METRIC_connections_rejected_total, "kafka", "max.connections");
    server->rejected_ip = series(server, OT_METRIC_connections_rejected_total, "kafka", "max.connections.per.ip");
    server->rejected_descriptor = series(server, OT_METRIC_connections_rejected_total, "kafka", "descriptors");
}

void rpc_metrics_answered(struct rpc_request *request)
{
    struct rpc_kafka_server *server = request->server;
    const int64_t now_us = ot_exec_now_us(ot_conn_exec(request->conn));
    rpc_slow_look(request, now_us);
    if (server->metrics == NULL || server->peer) return;
    const struct rpc_series *mine = &server->series[request->row - rpc_apis];
    ot_series_observe_us(mine->duration, now_us - request->reply->received_us);
    ot_series_add(mine->bytes, request->reply->bytes);
    if (request->error == OT_OK) {
        ot_series_add(mine->ok, 1);
        return;
    }
    const char *labels[] = { request->header.api->name, ot_err_name(request->error) };
    struct ot_series *failed = ot_series_get(server->metrics, OT_METRIC_requests_total, labels);
    ot_series_add(failed, 1);
    ot_series_release(server->metrics, failed);
}
