/* What the files of the store and the log share behind engine/store.h. */
#ifndef OT_ENGINE_STORE_INNER_H
#define OT_ENGINE_STORE_INNER_H

#include "base/map.h"
#include "engine/store.h"
#include <pthread.h>
#include <stdatomic.h>

#define ENG_PATH_BYTES 4096u

struct eng_store_dir {
    char *path;
    int lock_fd;
    _Atomic bool offline;
    _Atomic uint32_t partition_count;
    pthread_mutex_t checkpoint_lock;       /* one checkpoint file of this directory at a time; guards open_logs */
    struct ot_map open_logs;               /* folder name -> const _Atomic int64_t *flushed_end */
};

struct eng_read_pin;
struct eng_segment;

struct eng_store {
    struct ot_io *io;
    struct eng_store_dir *dirs;
    uint32_t dir_count;
    struct eng_file_cache files;
    uint64_t append_mapped_bytes_max;
    _Atomic uint64_t mapped_append_bytes;
    _Atomic uint32_t open_maps, recovering;
    pthread_mutex_t lock;                  /* guards what follows */
    struct eng_read_pin *free_pins;
    struct eng_read_pin_chunk *pin_chunks;
    struct eng_segment *graveyard;         /* unlinked, unpinned, still open: to be shortened step by step and closed */
    void (*offline)(void *arg, uint32_t dir);
    void *offline_arg;
    pthread_mutex_t rebuild_lock;          /* one index is rebuilt at a time: bounds its memory */
};

/* "dir/name"; TOO_LARGE when it does not fit. */
OT_MUST_CHECK enum ot_err eng_path_join(char out[static ENG_PATH_BYTES], const char *dir, const char *name);
/* The files (or folders) of a folder, sorted so that every run does the same in the same order. Free it after an error too. */
struct eng_names { char **list; uint32_t count, cap; enum ot_err err; bool dirs; };
OT_MUST_CHECK enum ot_err eng_names_load(struct ot_io *io, const char *path, bool dirs, struct eng_names *names);
void eng_names_free(struct eng_names *names);
/* Removes a folder of plain files; what is missing already is fine. */
OT_MUST_CHECK enum ot_err eng_store_remove_tree(struct ot_io *io, const char *path);
/* "topic-N" -> its parts; false for other names. */
bool eng_store_parse_folder(const char *name, char topic_out[static 256], int32_t *partition_out);

OT_MUST_CHECK enum ot_err eng_partition_metadata_read(struct ot_io *io, const char *dir_path, struct ot_uuid *out);     /* NOT_FOUND, CORRUPT */
OT_MUST_CHECK enum ot_err eng_partition_metadata_write(struct ot_io *io, const char *dir_path, const struct ot_uuid *id, bool sync);
void eng_read_pins_free(struct eng_store *store);      /* engine/log_read.c */

#endif
