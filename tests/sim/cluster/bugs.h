/* Bugs put into the coordinator on purpose, each a rule of the design left out; the simulator must find every one of them. COORD_BUG is false in every other build. */
#ifndef OT_SIM_CLUSTER_BUGS_H
#define OT_SIM_CLUSTER_BUGS_H

#include <stdbool.h>
#include <stdio.h>

bool coord_bug_choose(const char *name);
void coord_bugs_print(FILE *out);

#endif
