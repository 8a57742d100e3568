/* Preloaded into a server: its wall clock is the machine's plus the nanoseconds in the file that WALL_CLOCK_FILE names, so that a test can set the clock of one broker. The monotonic clocks stay. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *shift_ns;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("WALL_CLOCK_FILE");
    const int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift_ns, PROT_READ, MAP_SHARED, file, 0);
    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (file >= 0) close(file);
    if (map != MAP_FAILED) shift_ns = map;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    if (real_gettime == NULL) real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const int status = real_gettime(id, now);
    if (status != 0 || shift_ns == NULL || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)) return status;
    const int64_t ns = now->tv_sec * 1000000000 + now->tv_nsec + __atomic_load_n(shift_ns, __ATOMIC_RELAXED);
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec at;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &at);
    now->tv_sec = at.tv_sec;
    now->tv_usec = at.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (out != NULL) *out = at.tv_sec;
    return at.tv_sec;
}
