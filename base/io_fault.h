/* A disk in front of another that fails on request, for unit tests: "by counter, every I/O call is made to fail once".
 *
 *     for (uint64_t n = 1; ; n++) {
 *         ot_io_fault_init(&fault, ot_io_real());
 *         ot_io_fault_at(&fault, OT_IO_CALL_ANY, n, OT_ERR_IO);
 *         …the thing under test, on &fault.io…
 *         if (!fault.fired) break;
 *     }
 *
 * Counts and settings are atomic one by one; a call under way while the settings change fails by the old ones or the new ones. */
#ifndef OT_BASE_IO_FAULT_H
#define OT_BASE_IO_FAULT_H

#include "base/io.h"
#include <stdatomic.h>

enum ot_io_call {
    OT_IO_CALL_ANY, OT_IO_CALL_OPEN, OT_IO_CALL_PWRITEV, OT_IO_CALL_PREAD, OT_IO_CALL_FDATASYNC, OT_IO_CALL_SYNC_DIR, OT_IO_CALL_TRUNCATE,
    OT_IO_CALL_PREALLOCATE, OT_IO_CALL_FSTAT, OT_IO_CALL_STAT, OT_IO_CALL_RENAME, OT_IO_CALL_UNLINK, OT_IO_CALL_MKDIR, OT_IO_CALL_RMDIR,
    OT_IO_CALL_LIST, OT_IO_CALL_SPACE, OT_IO_CALL_MAP, OT_IO_CALL_LOCK, OT_IO_CALL_SYNC_ALL, OT_IO_CALL_COUNT
};

struct ot_io_fault {
    struct ot_io io;                             /* hand this out */
    struct ot_io *under;
    _Atomic(enum ot_io_call) call;
    _Atomic uint64_t at;                                 /* the at-th call of that kind from now, counted from 1; 0: none */
    _Atomic(enum ot_err) err;                         /* OK: it is made short instead (pwritev and pread, to half; others pass) */
    _Atomic bool sticky;                          /* all later ones of the kind too */
    _Atomic bool fired;
    _Atomic uint64_t seen;                       /* of the chosen kind, since ot_io_fault_at */
    _Atomic uint64_t counts[OT_IO_CALL_COUNT];   /* since init; [ANY] counts all */
    _Atomic int64_t open_fds;                    /* of open and lock, less close: a leak shows as more than 0 */
    _Atomic int64_t open_maps;
};
void ot_io_fault_init(struct ot_io_fault *fault, struct ot_io *under);
void ot_io_fault_at(struct ot_io_fault *fault, enum ot_io_call call, uint64_t at, enum ot_err err);      /* resets fired, sticky and seen */
const char *ot_io_call_name(enum ot_io_call call);

#endif
