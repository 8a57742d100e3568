#include "bugs.h"
#include "coordinator/bug.h"

#include <string.h>

enum coord_bug coord_bug;
uint64_t coord_bug_counter;
static const char *const names[] = {
#define X(name, text) [COORD_BUG_##name] = text,
    COORD_BUGS(X)
#undef X
};

bool coord_bug_choose(const char *name)
{
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], name) == 0) {
            coord_bug = (enum coord_bug)i;
            return true;
        }
    }
    return false;
}

void coord_bugs_print(FILE *out)
{
    for (size_t i = 1; i < sizeof names / sizeof names[0]; i++) {
        fprintf(out, " %s", names[i]);
    }
    fprintf(out, "\n");
}
