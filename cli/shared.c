#include "cli/shared.h"
#include "base/util.h"
#include "cli/api.h"
#include "cli/profile.h"
#include "cli/text.h"
#include "cli/wait.h"
#include <stdlib.h>
#include <string.h>

#define BOOTSTRAP_DEFAULT "127.0.0.1:9092"

const struct cli_flag cli_kafka_flags[] = {
    {"bootstrap-server", 'b', "HOST:PORT,…", false, "brokers to begin with ($OTTLA_BOOTSTRAP_SERVER, else what the API says, else " BOOTSTRAP_DEFAULT ")"},
    {"profile", 0, "NAME", false, "the one of that name in ~/.config/ottla/profiles.ini"},
    {"timeout-ms", 0, "MS", false, "give up on an answer after this long (30000)"},
    {"quiet", 'q', NULL, false, "no progress and no summary"},
    {0},
};

int cli_flag_number(const struct cli_args *args, const char *name, int64_t least, int64_t most, int64_t absent, int64_t *out)
{
    const char *text = cli_flag_value(args, name);
    *out = absent;
    if (text == NULL || cli_size(text, least, most, out) || cli_number(text, least, most, out)) return -1;
    if (most == INT64_MAX) return cli_fail(CLI_USAGE, NULL, "--%s: `%s` is not a number from %lld", name, text, (long long)least);
    return cli_fail(CLI_USAGE, NULL, "--%s: `%s` is not a number from %lld to %lld", name, text, (long long)least, (long long)most);
}

int cli_flag_choice(const struct cli_args *args, const char *name, const char *const *words, uint32_t count, uint32_t absent, uint32_t *out)
{
    const char *text = cli_flag_value(args, name);
    char hint[96], all[192] = "";
    *out = absent;
    if (text == NULL) return -1;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i;
            return -1;
        }
        const size_t used = strlen(all);
        snprintf(all + used, sizeof(all) - used, "%s%s", i > 0 ? ", " : "", words[i]);
    }
    const char *near = ot_nearest(text, words, count);
    snprintf(hint, sizeof(hint), "--%s %s", name, near != NULL ? near : words[absent]);
    return cli_fail(CLI_USAGE, hint, "--%s: `%s` is none of %s", name, text, all);
}

int cli_open_kafka(const struct cli_args *args, struct cli_kafka **out)
{
    static char profile[CLI_PROFILE_VALUE_BYTES], api[CLI_PROFILE_VALUE_BYTES], told[1024];
    const char *bootstrap = cli_flag_value(args, "bootstrap-server");
    int64_t timeout_ms;
    *out = NULL;
    int code = cli_flag_number(args, "timeout-ms", 1, INT32_MAX, 30000, &timeout_ms);
    if (code >= 0) return code;
    if ((code = cli_profile_value(args, "bootstrap_server", profile)) >= 0) return code;
    if ((code = cli_profile_value(args, "api", api)) >= 0) return code;
    if (bootstrap == NULL && profile[0] != 0) bootstrap = profile;
    if (bootstrap == NULL && api[0] == 0) bootstrap = getenv("OTTLA_BOOTSTRAP_SERVER");        /* a profile is stronger than the environment */
    if (bootstrap == NULL || bootstrap[0] == 0) {
        const char *named = api[0] != 0 ? api : getenv("OTTLA_API");
        if (named != NULL && named[0] == 0) named = NULL;
        bootstrap = cli_api_bootstrap(named, told, sizeof(told)) ? told : BOOTSTRAP_DEFAULT;
        if (named != NULL && bootstrap != told)        /* and what listens on this machine is another cluster */
            return cli_fail(CLI_UNREACHABLE, "name another broker's API, or the brokers with --bootstrap-server HOST:PORT", "%s: it does not say where Kafka clients connect", named);
    }
    if (cli_interrupt_install() != OT_OK) return cli_fail(CLI_FAILED, NULL, "no pipe");
    const enum ot_err err = cli_kafka_open(bootstrap, (int32_t)timeout_ms, out);
    if (err == OT_OK) return -1;
    if (err == OT_ERR_CANCELLED) return CLI_INTERRUPTED;
    const bool reached = err == OT_ERR_MALFORMED || err == OT_ERR_NO_MEMORY;
    return cli_fail((enum cli_exit)cli_exit_of(err), reached ? NULL : "ottla server, or name the brokers with --bootstrap-server HOST:PORT", "%s", cli_kafka_why(*out));
}

int cli_topic_fail(enum ot_err err, const char *topic, const struct cli_kafka *kafka)
{
    char hint[320];
    if (err == OT_ERR_CANCELLED) return CLI_INTERRUPTED;
    snprintf(hint, sizeof(hint), "ottla topic create %.249s", topic);
    if (err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION) return cli_fail(CLI_NOT_FOUND, hint, "no topic `%s`", topic);
    return cli_fail((enum cli_exit)cli_exit_of(err), NULL, "%s: %s%s%s", topic, cli_kafka_why(kafka)[0] == 0 ? ot_err_name(err) : cli_kafka_why(kafka),
        err < OT_ERR_HOUSE_FIRST && (int)err > 0 ? " " : "", err < OT_ERR_HOUSE_FIRST && (int)err > 0 ? ot_err_name(err) : "");
}
