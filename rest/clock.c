#include "rest/checks.h"

#include <stdlib.h>

void rest_clock_look(struct rest_clock *clock, int64_t wall_ms, int64_t boot_us)
{
    const int64_t apart_ms = wall_ms - boot_us / 1000, step_ms = apart_ms - clock->apart_ms;
    if (clock->begun && llabs(step_ms) >= REST_CLOCK_STEP_MS) {
        clock->stepped_us = boot_us;
        clock->stepped_ms = step_ms;
    }
    clock->apart_ms = apart_ms;
    clock->begun = true;
}

bool rest_clock_steady(const struct rest_clock *clock, int64_t boot_us) { return clock->stepped_us == 0 || boot_us - clock->stepped_us > REST_CLOCK_TOLD_US; }
