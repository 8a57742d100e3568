/* The simulator's disk: struct ot_io over memory that loses, tears, refuses and fills up, all by one seed.
 *
 * A file has two contents: what programs see (the page cache) and what is on the platter. fdatasync copies the first to the second; a directory entry is on the
 * platter after sync_dir. sim_disk_crash_machine keeps, for each 4 KiB block that differs, the old or the new content, or a torn mix by 512-byte sectors, and for names
 * a prefix of the unsynced changes of each directory. sim_disk_crash_process keeps everything that programs saw.
 * Power off: from a chosen call on (sim_disk_power_off_after) every call fails with IO and changes nothing: a crash at that instruction. */
#ifndef OT_SIM_DISK_H
#define OT_SIM_DISK_H

#include "base/io.h"
#include "base/util.h"

struct sim_disk;
struct sim_faults {                    /* chances per call */
    double write_error, short_write, read_error, short_read, sync_error, open_error, name_error;
    uint64_t capacity_bytes;           /* 0: endless */
};
struct sim_disk *sim_disk_new(uint64_t seed);
void sim_disk_free(struct sim_disk *disk);
struct ot_io *sim_disk_io(struct sim_disk *disk);
void sim_disk_faults(struct sim_disk *disk, const struct sim_faults *faults);
void sim_disk_power_off_after(struct sim_disk *disk, uint64_t calls);      /* UINT64_MAX: never */
void sim_disk_break_dir(struct sim_disk *disk, const char *path);          /* all in it fails with IO, until another is named; NULL: none */
void sim_disk_look(struct sim_disk *disk, bool begins);     /* until it ends, calls are those of a test that looks at what programs see: none fails, none counts */
bool sim_disk_is_off(const struct sim_disk *disk);
bool sim_disk_sync_failed(const struct sim_disk *disk);                    /* an fdatasync was made to fail since the last crash */
void sim_disk_crash_process(struct sim_disk *disk);                        /* closes descriptors, drops maps and locks; power is on again */
void sim_disk_crash_machine(struct sim_disk *disk);
/* One bit in a file that lies there: false if it is not that long. Where a byte is, or behind it, is nothing written. */
bool sim_disk_flip(struct sim_disk *disk, const char *path, uint64_t pos, uint8_t bit);
uint64_t sim_disk_calls(const struct sim_disk *disk);
uint64_t sim_disk_hash(const struct sim_disk *disk);                       /* of all that programs see: for trace comparison */
void sim_disk_set_wall(struct sim_disk *disk, int64_t wall_ms);            /* mtimes come from here */
uint64_t sim_disk_used_bytes(const struct sim_disk *disk);

#endif
