/* What lies in the files of a partition directory, row by row, without a server: `ottla log dump` and `ottla log verify`. Reads only.
 *
 * A row is a list of named fields under the names that Kafka's own dump tool uses, so that eyes and scripts trained there find them here; a printer makes text or
 * JSON of them. Damage never ends a dump: a fault is a row, and reading goes on where something sound may follow. Memory: one batch of the
 * log (at most ENG_DUMP_BATCH_BYTES_MAX) and a decoding window. One thread; may block. */
#ifndef OT_ENGINE_DUMP_H
#define OT_ENGINE_DUMP_H

#include "base/io.h"
#include "engine/record.h"

#define ENG_DUMP_BATCH_BYTES_MAX (256u << 20)

enum eng_dump_kind {
    ENG_DUMP_FILE,             /* begins a file: path, kind, bytes, baseOffset */
    ENG_DUMP_BATCH, ENG_DUMP_RECORD,           /* .log */
    ENG_DUMP_INDEX, ENG_DUMP_TIME_INDEX, ENG_DUMP_TXN_INDEX,
    ENG_DUMP_PRODUCER,         /* .snapshot */
    ENG_DUMP_EPOCH,            /* leader-epoch-checkpoint */
    ENG_DUMP_CHECKPOINT,       /* recovery-point-, log-start-, replication-offset-checkpoint */
    ENG_DUMP_PROPERTY,         /* partition.metadata, meta.properties */
    ENG_DUMP_FAULT             /* text, position: something is wrong */
};
enum eng_dump_type { ENG_DUMP_NUMBER, ENG_DUMP_BOOL, ENG_DUMP_WORD, ENG_DUMP_BYTES, ENG_DUMP_HEADERS, ENG_DUMP_ABSENT };
struct eng_dump_field {
    const char *name;
    enum eng_dump_type type;
    int64_t number;            /* NUMBER, BOOL */
    struct ot_blob bytes;      /* WORD: printable text; BYTES: anything, may be null; HEADERS: walk with eng_record_header */
};
#define ENG_DUMP_FIELDS_MAX 22u
struct eng_dump_row {
    enum eng_dump_kind kind;
    uint32_t field_count;
    struct eng_dump_field fields[ENG_DUMP_FIELDS_MAX];     /* all borrowed until row() returns */
};

struct eng_dump_summary {
    uint64_t files, bytes, batches, records, entries, faults;
    uint64_t sound_bytes;      /* of .log files: in whole batches with a right checksum */
};
struct eng_dump_options {
    bool records;              /* a row for each record; else only batches */
    bool deep;                 /* decode every record, also when none is shown, to find damage below the checksum */
    bool faults_only;          /* rows of kind FAULT and nothing else (verify) */
    int64_t from_offset, to_offset;            /* batches and records that touch [from, to); INT64_MAX: no end */
    void (*row)(void *arg, const struct eng_dump_row *row);
    void *arg;
};
struct eng_dump_options eng_dump_options_default(void);        /* batches of everything, row NULL */

/* One file, by its name. MALFORMED: not a name that is known here. NOT_FOUND, IO, NO_MEMORY: could not be read on. Damage is OT_OK with summary->faults. summary is added to,
 * so that several files may share it. */
OT_MUST_CHECK enum ot_err eng_dump_file(struct ot_io *io, const char *path, const struct eng_dump_options *options, struct eng_dump_summary *summary);
/* Every file of a partition directory, each for itself (as eng_dump_file), then against each other:
 *   - .log: offsets grow, leader epochs do not fall, each segment begins at or above its name and behind the one before
 *   - each .index entry names the batch at its position, each .timeindex entry the largest timestamp so far and the batch that has it
 *   - the .txnindex holds what a replay of the log aborts; the newest .snapshot agrees with that replay
 *   - leader-epoch-checkpoint agrees with the epochs in the batches
 * MALFORMED: not a partition directory (no .log in it and no epoch checkpoint). */
OT_MUST_CHECK enum ot_err eng_dump_verify(struct ot_io *io, const char *dir_path, const struct eng_dump_options *options, struct eng_dump_summary *summary);

/* A row as one line of text without line break, `name: value` pairs; control bytes and bytes that are no UTF-8 as \xNN. put gets it in pieces. */
void eng_dump_text(const struct eng_dump_row *row, void (*put)(void *arg, const char *text, size_t bytes), void *arg);
const char *eng_dump_kind_name(enum eng_dump_kind kind);       /* "batch", "record", … for JSON */

#endif
