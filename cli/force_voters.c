#include "cli/force_voters.h"
#include "base/log.h"
#include "base/util.h"
#include "broker/force_voters.h"
#include "cli/server_config.h"
#include <inttypes.h>
#include <stdio.h>

const struct cli_flag cli_force_voters_flags[] = {
    {"data", 0, "DIR", false, "its data directory (log.dirs)"},
    {"config", 0, "FILE", false, "server.properties of the server"},
    {"set", 0, "KEY=VALUE", true, "one configuration value of the server"},
    {"confirm", 0, "CLUSTER-ID", false, "do it: what the lost voters knew and this node does not is given up"},
    {0},
};

static void print_state(const struct broker_forced *forced)
{
    printf("cluster %s, node %d: term %d, version %" PRId64 ", %" PRId64 " topics with %" PRId64 " partitions; voters", forced->cluster_id, forced->node_id, forced->term, forced->version,
        forced->topic_count, forced->partition_count);
    for (int32_t i = 0; i < forced->voter_count; i++) printf("%s %d", i == 0 ? "" : ",", forced->voters[i]);
    printf("\n%s", forced->unsure ? "the end of its journal was damaged: it may have known more once\n" : "");
}

static int told(enum ot_err err, const struct broker_forced *forced, const char *confirm, const char *text)
{
    if (err == OT_OK) {
        printf("node %d is the only voter now (term %d, version %" PRId64 "). Start it. The other former voters must not come back with what they have: empty their directories, then\n"
               "start them, and `ottla cluster voters add` gives them a vote\n", forced->node_id, forced->new_term, forced->new_version);
        return CLI_DONE;
    }
    if (err == OT_ERR_MISMATCH && confirm == NULL) {
        printf("Nothing was changed. Look at every voter that is left, and take the one with the highest version. Then, on that one:\n");
        return cli_fail(CLI_USAGE, NULL, "not confirmed: --confirm %s", forced->cluster_id);
    }
    return cli_fail(err == OT_ERR_LOCKED ? CLI_CONFLICT : err == OT_ERR_NOT_FOUND ? CLI_NOT_FOUND : err == OT_ERR_MISMATCH ? CLI_USAGE : CLI_FAILED, err == OT_ERR_LOCKED ? "stop it first" : NULL, "%s", text);
}

int cli_force_voters_run(const struct cli_args *args)
{
    struct broker_config_store *store = NULL;
    struct broker_forced forced;
    char storage[4096], text[1024] = "";
    const char *dirs[CLI_DIRS_MAX], *confirm = cli_flag_value(args, "confirm");
    if (broker_config_store_new(&store) != OT_OK) return cli_fail(CLI_FAILED, NULL, "out of memory");
    int code = cli_server_config(args, store);
    if (code < 0) {
        ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, 2);
        const uint32_t count = cli_dirs_split(broker_config_current(store)->log_dirs, storage, sizeof(storage), dirs, CLI_DIRS_MAX);
        const enum ot_err err = count == 0 ? OT_ERR_NOT_FOUND : broker_force_voters(ot_io_real(), dirs, count, confirm, ot_clock_wall_ms(), &forced, text, sizeof(text));
        if (count > 0 && forced.node_id >= 0) print_state(&forced);
        code = told(err, &forced, confirm, text);
    }
    broker_config_store_free(store);
    return code;
}
