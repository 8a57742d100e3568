/* Windows of log files, mapped to be sent from: kept for a while, shared by all who read the same place, pinned by count.
 *
 * A window is 64 MiB of a file and a page more, so that a batch header that begins in it can be read whole. It may reach past the file's end: only ranges that a fetch
 * pinned are touched. A window keeps its file's blocks on disk even after the file is unlinked, so one that nobody used for ten seconds goes. */
#ifndef OT_RPC_GRPC_MAPS_H
#define OT_RPC_GRPC_MAPS_H

#include "base/exec.h"

#define RPCG_WINDOW_BYTES (UINT64_C(64) << 20)

struct rpcg_maps;
struct rpcg_map;
struct rpcg_maps *rpcg_maps_new(struct ot_exec *io_exec);      /* NULL: no memory */
void rpcg_maps_free(struct rpcg_maps *maps);                   /* nobody holds one any more */
/* The window of fd that holds pos, counted; *at_out points at pos and *bytes_out says how far the window goes from there. The owner's thread. NULL: it cannot be mapped. */
struct rpcg_map *rpcg_map_take(struct rpcg_maps *maps, int fd, uint64_t pos, int64_t now_us, const uint8_t **at_out, uint64_t *bytes_out);
void rpcg_map_give(struct rpcg_map *map);                      /* any thread */
void rpcg_maps_sweep(struct rpcg_maps *maps, int64_t now_us);  /* the owner's thread */
uint32_t rpcg_maps_count(const struct rpcg_maps *maps);

#endif
