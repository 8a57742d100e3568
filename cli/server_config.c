#include "cli/server_config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char default_file[] = "/etc/ottla/server.properties";

static int set_flag(struct broker_config_store *store, const char *pair)
{
    char key[256], why[512];
    const char *equals = strchr(pair, '=');
    if (equals == NULL || (size_t)(equals - pair) >= sizeof(key)) return cli_fail(CLI_USAGE, "--set num.partitions=4", "--set %s: not KEY=VALUE", pair);
    snprintf(key, sizeof(key), "%.*s", (int)(equals - pair), pair);
    if (broker_config_set(store, BROKER_SOURCE_FLAG, "--set", key, equals + 1, why, sizeof(why)) != OT_OK) return cli_fail(CLI_USAGE, NULL, "--set: %s", why);
    return -1;
}

static void warn(void *arg, const char *text)
{
    (void)arg;
    fprintf(stderr, "warning: %s\n", text);
}

const char *cli_server_config_file(const struct cli_args *args)
{
    const char *path = cli_flag_value(args, "config");
    if (path == NULL) path = getenv("OTTLA_CONFIG");
    if (path == NULL && access(default_file, R_OK) == 0) path = default_file;
    return path == NULL || *path == 0 ? NULL : path;
}

static int load_file(const struct cli_args *args, struct broker_config_store *store)
{
    char why[512];
    const char *path = cli_server_config_file(args);
    if (path == NULL) return -1;
    if (broker_config_load_file(store, path, why, sizeof(why)) != OT_OK) return cli_fail(CLI_USAGE, NULL, "%s", why);
    return -1;
}

int cli_server_config(const struct cli_args *args, struct broker_config_store *store)
{
    extern char **environ;
    char why[512];
    int code = load_file(args, store);
    if (code >= 0) return code;
    if (broker_config_load_environment(store, environ, why, sizeof(why)) != OT_OK) return cli_fail(CLI_USAGE, NULL, "%s", why);
    const char *data = cli_flag_value(args, "data");
    if (data != NULL && broker_config_set(store, BROKER_SOURCE_FLAG, "--data", "log.dirs", data, why, sizeof(why)) != OT_OK)
        return cli_fail(CLI_USAGE, NULL, "--data: %s", why);
    for (uint32_t n = 0; cli_flag_nth(args, "set", n) != NULL; n++) {
        code = set_flag(store, cli_flag_nth(args, "set", n));
        if (code >= 0) return code;
    }
    if (broker_config_current(store)->log_dirs == NULL
        && broker_config_set(store, BROKER_SOURCE_FLAG, "no log.dirs given", "log.dirs", "./ottla-data", why, sizeof(why)) != OT_OK)
        return cli_fail(CLI_USAGE, NULL, "%s", why);
    broker_config_warnings(store, warn, NULL);
    return -1;
}

static void print_value(void *arg, const struct broker_config_value *value)
{
    (void)arg;
    static const char *const sources[] = { "built-in", "file", "environment", "flag", "cluster default", "broker", "topic" };
    if (!value->row->honoured) return;
    printf("%s=%s  # %s%s%s", value->row->key, value->row->sensitive ? "(hidden)" : value->value == NULL ? "" : value->value, sources[value->source],
        value->origin[0] != 0 ? " " : "", value->origin);
    for (uint32_t i = 1; i < value->synonym_count; i++)
        if (value->synonyms[i].source != BROKER_SOURCE_BUILT_IN)
            printf(", hides %s=%s of %s", value->synonyms[i].name, value->synonyms[i].value == NULL ? "" : value->synonyms[i].value, sources[value->synonyms[i].source]);
    putchar('\n');
}

int cli_server_print_config(const struct broker_config_store *store)
{
    broker_config_describe(store, broker_config_current(store)->node_id, print_value, NULL);
    return CLI_DONE;
}

int cli_addresses_parse(const char *list, struct ot_net_address *out, uint32_t max, char *why, size_t why_bytes)
{
    uint32_t count = 0;
    for (const char *at = list == NULL ? "" : list; *at != 0;) {
        size_t length = strcspn(at, ","), bytes = length;
        const char *from = at;
        while (bytes > 0 && *from == ' ') from++, bytes--;
        while (bytes > 0 && from[bytes - 1] == ' ') bytes--;
        if (bytes > 0 && count == max) {
            snprintf(why, why_bytes, "more than %u addresses", max);
            return -1;
        }
        if (bytes > 0 && ot_net_address_parse(from, bytes, &out[count++], why, why_bytes) != OT_OK) return -1;
        at += length + (at[length] == ',');
    }
    return (int)count;
}

uint32_t cli_dirs_split(const char *list, char *storage, size_t storage_bytes, const char **dirs, uint32_t max)
{
    uint32_t count = 0;
    snprintf(storage, storage_bytes, "%s", list);
    for (char *save = NULL, *dir = strtok_r(storage, ",", &save); dir != NULL && count < max; dir = strtok_r(NULL, ",", &save)) {
        while (*dir == ' ') dir++;
        size_t bytes = strlen(dir);
        while (bytes > 0 && (dir[bytes - 1] == ' ' || (dir[bytes - 1] == '/' && bytes > 1))) dir[--bytes] = 0;
        if (bytes > 0) dirs[count++] = dir;
    }
    return count;
}
