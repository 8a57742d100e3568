/* `ottla doctor`: what is or will be in the way, and what to do about it. Looks and changes nothing. */
#ifndef OT_CLI_DOCTOR_H
#define OT_CLI_DOCTOR_H

#include "cli/api.h"
#include "cli/table.h"
#include "broker/config.h"

extern const struct cli_flag cli_doctor_flags[];
int cli_doctor_run(const struct cli_args *args);

/* One run: the configuration of the server as it would start here, and the findings so far. */
struct cli_doctor {
    const struct cli_args *args;
    struct broker_config_store *store;
    const struct broker_config *config;
    json_t *findings;
    uint32_t problems, warnings;
};
enum cli_finding { CLI_FINDING_OK, CLI_FINDING_NOTE, CLI_FINDING_WARNING, CLI_FINDING_PROBLEM };
/* advice: what to do; NULL when there is nothing. */
void cli_doctor_tell(struct cli_doctor *doctor, enum cli_finding kind, const char *check, const char *advice, const char *format, ...) OT_PRINTF(5, 6);

/* By file: this machine; the configuration; the server that runs. */
void cli_doctor_machine(struct cli_doctor *doctor);
void cli_doctor_config(struct cli_doctor *doctor);
void cli_doctor_server(struct cli_doctor *doctor);
/* When nobody said which configuration is meant: that of the server on this machine that answers. False: there is none. */
bool cli_doctor_take_config(struct cli_doctor *doctor);

#endif
