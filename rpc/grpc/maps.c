#include "rpc/grpc/maps.h"

#include "base/macros.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define KEPT_MAX 64u                       /* windows that stay without a user */
#define IDLE_US 10000000
#define TAIL_BYTES 4096u

struct rpcg_map {
    struct ot_task task;                   /* unmapping, which may take a while, is an I/O thread's */
    struct rpcg_map *next;                 /* most recently used first */
    dev_t dev;
    ino_t ino;
    uint64_t window;
    uint8_t *data;
    int64_t used_us;
    _Atomic uint32_t users;
};

struct rpcg_maps { struct ot_exec *io_exec; struct rpcg_map *first; uint32_t count; };

struct rpcg_maps *rpcg_maps_new(struct ot_exec *io_exec)
{
    struct rpcg_maps *maps = calloc(1, sizeof *maps);
    if (maps != NULL) maps->io_exec = io_exec;
    return maps;
}

static void unmap_run(struct ot_task *task)
{
    struct rpcg_map *map = OT_CONTAINER(task, struct rpcg_map, task);
    (void)munmap(map->data, RPCG_WINDOW_BYTES + TAIL_BYTES);
    free(map);
}

void rpcg_maps_free(struct rpcg_maps *maps)
{
    if (maps == NULL) return;
    for (struct rpcg_map *map = maps->first, *next; map != NULL; map = next) {
        next = map->next;
        OT_ASSERT(atomic_load(&map->users) == 0);
        unmap_run(&map->task);
    }
    free(maps);
}

static struct rpcg_map *map_new(int fd, const struct stat *file, uint64_t window)
{
    struct rpcg_map *map = calloc(1, sizeof *map);
    if (map == NULL) return NULL;
    void *data = mmap(NULL, RPCG_WINDOW_BYTES + TAIL_BYTES, PROT_READ, MAP_SHARED, fd, (off_t)(window * RPCG_WINDOW_BYTES));
    if (data == MAP_FAILED) {
        free(map);
        return NULL;
    }
    *map = (struct rpcg_map){ .task = { .run = unmap_run }, .dev = file->st_dev, .ino = file->st_ino, .window = window, .data = data };
    return map;
}

struct rpcg_map *rpcg_map_take(struct rpcg_maps *maps, int fd, uint64_t pos, int64_t now_us, const uint8_t **at_out, uint64_t *bytes_out)
{
    const uint64_t window = pos / RPCG_WINDOW_BYTES;
    struct stat file;
    if (fstat(fd, &file) != 0) return NULL;        /* a mapped file's number is not given to another one, so it names the window */
    struct rpcg_map **link = &maps->first;
    while (*link != NULL && ((*link)->ino != file.st_ino || (*link)->window != window || (*link)->dev != file.st_dev)) link = &(*link)->next;
    struct rpcg_map *map = *link;
    if (map != NULL) {
        *link = map->next;
    } else {
        if ((map = map_new(fd, &file, window)) == NULL) return NULL;
        maps->count++;
    }
    map->next = maps->first;
    maps->first = map;
    map->used_us = now_us;
    atomic_fetch_add_explicit(&map->users, 1, memory_order_relaxed);
    *at_out = map->data + (pos - window * RPCG_WINDOW_BYTES);
    *bytes_out = (window + 1) * RPCG_WINDOW_BYTES - pos;
    return map;
}

void rpcg_map_give(struct rpcg_map *map) { atomic_fetch_sub_explicit(&map->users, 1, memory_order_release); }

void rpcg_maps_sweep(struct rpcg_maps *maps, int64_t now_us)
{
    uint32_t place = 0;
    for (struct rpcg_map **link = &maps->first; *link != NULL;) {
        struct rpcg_map *map = *link;
        const bool idle = atomic_load_explicit(&map->users, memory_order_acquire) == 0;
        if (!idle || (place < KEPT_MAX && now_us - map->used_us < IDLE_US)) {
            place++;
            link = &map->next;
            continue;
        }
        *link = map->next;
        maps->count--;
        ot_exec_post(maps->io_exec, &map->task);
    }
}

uint32_t rpcg_maps_count(const struct rpcg_maps *maps) { return maps->count; }
