#include "cli/version.h"
#include <stdio.h>

const struct cli_flag cli_version_flags[] = { { 0 } };

int cli_version_run(const struct cli_args *args)
{
    (void)args;
    printf("ottla %s (%s), Kafka protocol 4.4\n", OTTLA_VERSION, OTTLA_COMMIT);
    return CLI_DONE;
}
