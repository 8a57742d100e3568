/* The server that runs: is it reached, what do its health checks say, do its clock and ours agree, do clients reach what they are told. */
#include "base/net/address.h"
#include "base/util.h"
#include "cli/cluster.h"
#include "cli/doctor.h"
#include "cli/kafka_client.h"
#include "cli/port.h"
#include "cli/server_config.h"
#include "cli/shared.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SKEW_WARN_MS = 1000, SKEW_PROBLEM_MS = 60000, KAFKA_MS = 3000 };

static const char *advice_for(const char *check)
{
    static const struct { const char *check, *advice; } rows[] = {
        {"no_offline_partitions", "bring back a broker that holds them; GET /v1/unclean-election says what another one would lose"},
        {"no_under_min_isr", "acks=all is refused there: bring back replicas, or lower min.insync.replicas knowing what that means"},
        {"no_under_replicated", "look at the brokers that are out of sync: ottla topic isr TOPIC"},
        {"controller_active", "a majority of the coordinator's voters must run"},
        {"disk_free", "delete topics or records, shorten retention, or add space"},
        {"log_dirs_online", "the log of the server says which call failed; mend the disk and restart"},
        {"clock_skew", "the broker's wall clock jumped: let chrony or systemd-timesyncd slew it. Retention and offsets by time go by it"},
        {"no_stuck_transactions", "it holds back readers of committed records: ottla cluster txn list --longer-than-ms 900000, then ottla cluster txn abort ID"},
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++)
        if (strcmp(rows[i].check, check) == 0) return rows[i].advice;
    return NULL;
}

static void health(struct cli_doctor *doctor, struct cli_api *api)
{
    json_t *body = NULL;
    size_t i;
    const json_t *check;
    if (cli_api_call(api, "GET", "/v1/cluster/health", NULL, NULL, &body, NULL) >= 0) {
        cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "health", "its log says more", "the server does not tell its health");
        return;
    }
    const bool failing = strcmp(cli_json_text(body, "status", ""), "failing") == 0;
    json_array_foreach(json_object_get(body, "checks"), i, check)
    {
        char offenders[400];
        const char *name = cli_json_text(check, "name", "?");
        cli_offenders(check, offenders, sizeof(offenders));
        if (json_is_true(json_object_get(check, "ok"))) cli_doctor_tell(doctor, CLI_FINDING_OK, "health", NULL, "%s", name);
        else cli_doctor_tell(doctor, failing ? CLI_FINDING_PROBLEM : CLI_FINDING_WARNING, "health", advice_for(name), "%s: %s, since %s", name, offenders[0] != 0 ? offenders : "not so",
            cli_json_text(check, "since", "?"));
    }
    json_decref(body);
}

/* Half of the way there and back is forgiven. */
static void skew(struct cli_doctor *doctor, struct cli_api *api)
{
    json_t *body = NULL;
    int64_t server_ms;
    const int64_t before_ms = ot_clock_wall_ms();
    if (cli_api_call(api, "GET", "/v1/metrics", NULL, NULL, &body, NULL) >= 0) return;
    const int64_t after_ms = ot_clock_wall_ms();
    if (ot_time_parse(cli_json_text(body, "at", ""), &server_ms)) {
        const int64_t apart_ms = server_ms < before_ms ? before_ms - server_ms : server_ms > after_ms ? server_ms - after_ms : 0;
        const enum cli_finding kind = apart_ms >= SKEW_PROBLEM_MS ? CLI_FINDING_PROBLEM : apart_ms >= SKEW_WARN_MS ? CLI_FINDING_WARNING : CLI_FINDING_OK;
        cli_doctor_tell(doctor, kind, "clock skew", kind == CLI_FINDING_OK ? NULL : "synchronise both clocks: producers' times decide about retention", "%" PRId64 " ms between the server's clock and this one's", apart_ms);
    }
    json_decref(body);
}

static void kafka(struct cli_doctor *doctor, const struct cli_api *api)
{
    char all[1024];
    if (!cli_api_bootstrap_at(&api->address, all, sizeof(all))) return;
    for (char *rest = all, *one = strsep(&rest, ","); one != NULL; one = strsep(&rest, ",")) {
        struct cli_kafka *client = NULL;
        const enum ot_err err = cli_kafka_open(one, KAFKA_MS, &client);
        if (err == OT_OK) cli_doctor_tell(doctor, CLI_FINDING_OK, "kafka", NULL, "%s answers", one);
        else cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "kafka", "is advertised.listeners what clients reach from here? Does a firewall stand between?",
            "clients are told %s, and that does not answer from here: %s", one, client == NULL ? ot_err_text(err) : cli_kafka_why(client));
        cli_kafka_close(client);
    }
}

void cli_doctor_server(struct cli_doctor *doctor)
{
    struct cli_api api;
    json_t *body = NULL;
    if (cli_api_open(doctor->args, &api) >= 0) {
        cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "api", "--api http://HOST:PORT", "the address of the API is wrong");
        return;
    }
    const int code = cli_api_call(&api, "GET", "/v1/version", NULL, NULL, &body, NULL);
    if (code >= 0) {
        if (code == CLI_UNREACHABLE) cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "api", "ottla server, or name its API with --api; --local leaves it out", "no server answers at %s", api.url);
        else cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "api", "its log says what it does or waits for; --local leaves it out", "%s answers, and does not serve yet, or not this", api.url);
        return;
    }
    cli_doctor_tell(doctor, CLI_FINDING_OK, "api", NULL, "%s answers, version %s", api.url, cli_json_text(body, "version", "?"));
    json_decref(body);
    health(doctor, &api);
    skew(doctor, &api);
    kafka(doctor, &api);
}

/* ---- the configuration that it runs with */

/* Paths of the server, as seen from here: it may have been started elsewhere. False: that is not known. */
static bool resolve_dirs(const char *dirs, uint16_t port, char *out, size_t out_bytes)
{
    char storage[4096], cwd[2048];
    const char *paths[CLI_DIRS_MAX];
    size_t used = 0;
    const uint32_t count = cli_dirs_split(dirs, storage, sizeof(storage), paths, CLI_DIRS_MAX);
    const bool known = cli_port_holder_cwd(port, cwd, sizeof(cwd));
    for (uint32_t i = 0; i < count; i++) {
        const bool whole = paths[i][0] == '/';
        if (!whole && !known) return false;
        const int more = snprintf(out + used, out_bytes - used, "%s%s%s%s", i > 0 ? "," : "", whole ? "" : cwd, whole ? "" : "/", paths[i] + (strncmp(paths[i], "./", 2) == 0 ? 2 : 0));
        if (more < 0 || (size_t)more >= out_bytes - used) return false;
        used += (size_t)more;
    }
    return count > 0;
}

static void take_entries(struct cli_doctor *doctor, const json_t *config, uint16_t port)
{
    size_t i;
    const json_t *entry;
    char dirs[8192], why[512];
    json_array_foreach(json_object_get(config, "entries"), i, entry)
    {
        const char *key = cli_json_text(entry, "name", ""), *value = cli_json_text(entry, "value", NULL);
        if (value == NULL || strcmp(cli_json_text(entry, "source", "built_in"), "built_in") == 0) continue;
        if (strcmp(key, "log.dirs") == 0) {
            if (!resolve_dirs(value, port, dirs, sizeof(dirs))) {
                cli_doctor_tell(doctor, CLI_FINDING_NOTE, "disk", "say where they are: --data DIR", "the server keeps its records in %s, seen from where it was started, and that is not known here", value);
                continue;
            }
            value = dirs;
        }
        ot_ignore(broker_config_set(doctor->store, BROKER_SOURCE_FLAG, "the server", key, value, why, sizeof(why)), "a key of another version: the server knows what it means");
    }
}

bool cli_doctor_take_config(struct cli_doctor *doctor)
{
    struct cli_api api;
    char target[64];
    if (cli_api_open(doctor->args, &api) >= 0 || (api.address.port != 0 && !ot_net_is_loopback(api.address.host))) return false;
    json_t *metrics = cli_api_peek(&api.address, "/v1/metrics");
    snprintf(target, sizeof(target), "/v1/brokers/%" PRId64 "/config", cli_json_number(metrics, "broker", -1));
    json_t *config = metrics == NULL ? NULL : cli_api_peek(&api.address, target);
    if (config != NULL) take_entries(doctor, config, api.address.port);
    const bool taken = config != NULL && broker_config_current(doctor->store)->log_dirs != NULL;
    json_decref(config);
    json_decref(metrics);
    return taken;
}
