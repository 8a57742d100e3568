#include "cli/doctor.h"
#include "cli/server_config.h"
#include "cli/shared.h"
#include "cli/topic_table.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const struct cli_flag cli_doctor_flags[] = {
    {"local", 0, NULL, false, "this machine and the configuration only, no server"},
    {"problems", 0, NULL, false, "only what is not as it should be"},
    {"config", 0, "FILE", false, "server.properties of the server"},
    {"data", 0, "DIR", false, "short for --set log.dirs=DIR; default: where the server that answers has them, else ./ottla-data"},
    {"set", 0, "KEY=VALUE", true, "one configuration value of the server"},
    {0},
};

void cli_doctor_tell(struct cli_doctor *doctor, enum cli_finding kind, const char *check, const char *advice, const char *format, ...)
{
    static const char *const states[] = {"ok", "note", "warning", "problem"};
    char text[700];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    doctor->problems += kind == CLI_FINDING_PROBLEM;
    doctor->warnings += kind == CLI_FINDING_WARNING;
    if (kind < CLI_FINDING_WARNING && cli_flag_given(doctor->args, "problems")) return;
    json_array_append_new(doctor->findings, json_pack("{s:s,s:s,s:s,s:s?}", "check", check, "state", states[kind], "finding", text, "advice", advice));
}

/* For people: a line for each finding, and what to do below it. */
static void print_findings(const struct cli_doctor *doctor)
{
    size_t i;
    const json_t *finding;
    const bool colour = cli_colour_wanted(1);
    json_array_foreach(doctor->findings, i, finding)
    {
        const char *state = cli_json_text(finding, "state", ""), *advice = cli_json_text(finding, "advice", NULL);
        const char *paint = !colour ? "" : strcmp(state, "problem") == 0 ? "\033[31m" : strcmp(state, "warning") == 0 ? "\033[33m" : strcmp(state, "ok") == 0 ? "\033[32m" : "";
        printf("%s%-8s%s %-14s %s\n", paint, state, paint[0] != 0 ? "\033[0m" : "", cli_json_text(finding, "check", ""), cli_json_text(finding, "finding", ""));
        if (advice != NULL) printf("%23s → %s\n", "", advice);
    }
}

static int print_all(struct cli_doctor *doctor)
{
    static const struct cli_column columns[] = {{"check", CLI_COLUMN_TEXT, false}, {"state", CLI_COLUMN_STATE, false}, {"finding", CLI_COLUMN_TEXT, false}, {"advice", CLI_COLUMN_TEXT, false}};
    struct cli_table table;
    int code = cli_table_open(doctor->args, columns, OT_ARRAY_COUNT(columns), &table);
    if (code >= 0) return code;
    if (table.output == CLI_OUT_TABLE || table.output == CLI_OUT_WIDE) {
        print_findings(doctor);
        code = cli_print_body(NULL);
    } else {
        json_t *whole = json_pack("{s:O,s:i,s:i}", "items", doctor->findings, "problems", (int)doctor->problems, "warnings", (int)doctor->warnings);
        code = cli_print_list(doctor->args, columns, OT_ARRAY_COUNT(columns), json_incref(doctor->findings), whole == NULL ? NULL : json_dumps(whole, JSON_COMPACT));
        json_decref(whole);
    }
    return code;
}

static bool names_config(const struct cli_args *args)
{
    return cli_flag_given(args, "data") || cli_flag_given(args, "set") || cli_server_config_file(args) != NULL || getenv("OTTLA_LOG_DIRS") != NULL;
}

static void load_config(struct cli_doctor *doctor)
{
    if (broker_config_store_new(&doctor->store) != OT_OK) return;
    if (!cli_flag_given(doctor->args, "local") && !names_config(doctor->args) && cli_doctor_take_config(doctor)) {
        doctor->config = broker_config_current(doctor->store);
        return;
    }
    const int code = cli_server_config(doctor->args, doctor->store);       /* tells what is wrong on stderr */
    if (code >= 0) cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "configuration", "ottla server --check, or ottla config import FILE, says it key by key", "it cannot be read: a server would not start with it");
    else doctor->config = broker_config_current(doctor->store);
}

int cli_doctor_run(const struct cli_args *args)
{
    struct cli_doctor doctor = {.args = args, .findings = json_array()};
    if (doctor.findings == NULL) return cli_fail(CLI_FAILED, NULL, "out of memory");
    load_config(&doctor);
    if (doctor.config != NULL) cli_doctor_config(&doctor);
    cli_doctor_machine(&doctor);
    if (!cli_flag_given(args, "local")) cli_doctor_server(&doctor);
    int code = print_all(&doctor);
    if (!cli_flag_given(args, "quiet")) fprintf(stderr, "%u problems, %u warnings\n", doctor.problems, doctor.warnings);
    broker_config_store_free(doctor.store);
    json_decref(doctor.findings);
    return code == CLI_DONE && doctor.problems > 0 ? CLI_PROBLEMS : code;
}
