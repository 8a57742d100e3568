#include "engine/dump_inner.h"
#include "base/util.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

struct eng_dump_options eng_dump_options_default(void)
{
    return (struct eng_dump_options){ .from_offset = 0, .to_offset = INT64_MAX };
}

const char *eng_dump_kind_name(enum eng_dump_kind kind)
{
    static const char *const names[] = { "file", "batch", "record", "index", "timeindex", "txnindex", "producer", "epoch", "checkpoint", "property", "fault" };
    return (size_t)kind < OT_ARRAY_COUNT(names) ? names[kind] : "unknown";
}

void eng_dump_begin(struct eng_dump_row *row, enum eng_dump_kind kind)
{
    row->kind = kind;
    row->field_count = 0;
}

static struct eng_dump_field *field_add(struct eng_dump_row *row, const char *name, enum eng_dump_type type)
{
    OT_ASSERT(row->field_count < ENG_DUMP_FIELDS_MAX);
    struct eng_dump_field *field = &row->fields[row->field_count++];
    *field = (struct eng_dump_field){ .name = name, .type = type };
    return field;
}

void eng_dump_number(struct eng_dump_row *row, const char *name, int64_t number)
{
    field_add(row, name, ENG_DUMP_NUMBER)->number = number;
}

void eng_dump_optional(struct eng_dump_row *row, const char *name, int64_t number)
{
    field_add(row, name, number < 0 ? ENG_DUMP_ABSENT : ENG_DUMP_NUMBER)->number = number;
}

void eng_dump_bool(struct eng_dump_row *row, const char *name, bool value)
{
    field_add(row, name, ENG_DUMP_BOOL)->number = value ? 1 : 0;
}

void eng_dump_word(struct eng_dump_row *row, const char *name, const char *text)
{
    field_add(row, name, ENG_DUMP_WORD)->bytes = (struct ot_blob){ (const uint8_t *)text, (uint32_t)strlen(text), false };
}

void eng_dump_bytes(struct eng_dump_row *row, const char *name, struct ot_blob bytes)
{
    field_add(row, name, ENG_DUMP_BYTES)->bytes = bytes;
}

void eng_dump_headers(struct eng_dump_row *row, const char *name, struct ot_blob headers)
{
    field_add(row, name, ENG_DUMP_HEADERS)->bytes = headers;
}

void eng_dump_emit(struct eng_dumper *dumper, const struct eng_dump_row *row)
{
    const struct eng_dump_options *options = dumper->options;
    if (row->kind == ENG_DUMP_FAULT) dumper->summary->faults++;
    if (options->row != NULL && (row->kind == ENG_DUMP_FAULT || !options->faults_only)) options->row(options->arg, row);
}

void eng_dump_fault(struct eng_dumper *dumper, uint64_t pos, const char *format, ...)
{
    char text[256];
    struct eng_dump_row row;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    eng_dump_begin(&row, ENG_DUMP_FAULT);
    eng_dump_word(&row, "path", dumper->path);
    eng_dump_number(&row, "position", (int64_t)pos);
    eng_dump_word(&row, "fault", text);
    eng_dump_emit(dumper, &row);
}

/* ---- text ---- */

struct printing { void (*put)(void *arg, const char *text, size_t bytes); void *arg; };

static void print_word(const struct printing *to, const char *text)
{
    to->put(to->arg, text, strlen(text));
}

/* What a terminal could take for a command, and what is no text at all, in figures. */
static void print_bytes(const struct printing *to, struct ot_blob bytes)
{
    bool utf8 = ot_utf8_valid(bytes.data, bytes.bytes);
    uint32_t from = 0;
    for (uint32_t i = 0; i < bytes.bytes; i++) {
        uint8_t byte = bytes.data[i];
        bool c1 = utf8 && byte == 0xc2 && i + 1 < bytes.bytes && bytes.data[i + 1] < 0xa0;
        if (byte >= 0x20 && byte != 0x7f && byte != '\\' && (byte < 0x80 || (utf8 && !c1))) continue;
        char hex[8];
        int count = snprintf(hex, sizeof hex, byte == '\\' ? "\\\\" : "\\x%02x", byte);
        if (i > from) to->put(to->arg, (const char *)bytes.data + from, i - from);
        to->put(to->arg, hex, (size_t)count);
        if (c1) {
            count = snprintf(hex, sizeof hex, "\\x%02x", bytes.data[++i]);
            to->put(to->arg, hex, (size_t)count);
        }
        from = i + 1;
    }
    if (bytes.bytes > from) to->put(to->arg, (const char *)bytes.data + from, bytes.bytes - from);
}

static void print_headers(const struct printing *to, struct ot_blob headers)
{
    struct ot_reader cursor = ot_reader_over(headers.data, headers.bytes);
    struct eng_record_header header;
    const char *before = "[";
    while (eng_record_header(&cursor, &header)) {
        print_word(to, before);
        print_bytes(to, header.key);
        before = ",";
    }
    print_word(to, before[0] == '[' ? "[]" : "]");
}

static void print_value(const struct printing *to, const struct eng_dump_field *field)
{
    char number[24];
    switch (field->type) {
    case ENG_DUMP_NUMBER:
        to->put(to->arg, number, (size_t)snprintf(number, sizeof number, "%" PRId64, field->number));
        break;
    case ENG_DUMP_BOOL: print_word(to, field->number != 0 ? "true" : "false"); break;
    case ENG_DUMP_WORD: print_bytes(to, field->bytes); break;
    case ENG_DUMP_BYTES:
        if (field->bytes.null) print_word(to, "null");
        else print_bytes(to, field->bytes);
        break;
    case ENG_DUMP_HEADERS: print_headers(to, field->bytes); break;
    case ENG_DUMP_ABSENT: print_word(to, "none"); break;
    }
}

void eng_dump_text(const struct eng_dump_row *row, void (*put)(void *arg, const char *text, size_t bytes), void *arg)
{
    struct printing to = { put, arg };
    if (row->kind == ENG_DUMP_RECORD) print_word(&to, "| ");
    for (uint32_t i = 0; i < row->field_count; i++) {
        if (i > 0) print_word(&to, " ");
        print_word(&to, row->fields[i].name);
        print_word(&to, ": ");
        print_value(&to, &row->fields[i]);
    }
}

/* ---- files ---- */

enum ot_err eng_dump_at(struct eng_dumper *dumper, struct eng_dump_buffer *buffer, uint64_t pos, size_t bytes, const uint8_t **out)
{
    if (pos > dumper->file_bytes || bytes > dumper->file_bytes - pos) return OT_ERR_SHORT;
    if (pos < buffer->pos || bytes > buffer->bytes || pos - buffer->pos > buffer->bytes - bytes) {
        size_t wanted = OT_MAX(bytes, (size_t)256 << 10);
        if ((uint64_t)wanted > dumper->file_bytes - pos) wanted = (size_t)(dumper->file_bytes - pos);
        buffer->bytes = 0;
        if (wanted > buffer->cap) {
            uint8_t *data = realloc(buffer->data, wanted);
            if (data == NULL) return OT_ERR_NO_MEMORY;
            buffer->data = data;
            buffer->cap = wanted;
        }
        enum ot_err err = wanted == 0 ? OT_OK : ot_io_read_exact(dumper->io, dumper->fd, buffer->data, wanted, pos);
        if (err != OT_OK) return err;
        buffer->pos = pos;
        buffer->bytes = wanted;
    }
    *out = buffer->data + (pos - buffer->pos);
    return OT_OK;
}

bool eng_dump_name(const char *leaf, int64_t *offset_out, const char **suffix_out)
{
    int64_t offset = 0;
    for (int i = 0; i < 20; i++) {
        if (leaf[i] < '0' || leaf[i] > '9' || offset > (INT64_MAX - (leaf[i] - '0')) / 10) return false;
        offset = offset * 10 + (leaf[i] - '0');
    }
    if (leaf[20] != '.') return false;
    *offset_out = offset;
    *suffix_out = leaf + 21;
    return true;
}

typedef enum ot_err dump_one(struct eng_dumper *dumper);
static const struct { const char *name; bool of_segment; dump_one *dump; } kinds[] = {
    { "log", true, eng_dump_log },
    { "index", true, eng_dump_index },
    { "timeindex", true, eng_dump_time_index },
    { "txnindex", true, eng_dump_txn_index },
    { "snapshot", true, eng_dump_snapshot },
    { "leader-epoch-checkpoint", false, eng_dump_epochs },
    { "recovery-point-offset-checkpoint", false, eng_dump_checkpoint },
    { "log-start-offset-checkpoint", false, eng_dump_checkpoint },
    { "replication-offset-checkpoint", false, eng_dump_checkpoint },
    { "partition.metadata", false, eng_dump_properties },
    { "meta.properties", false, eng_dump_properties },
};

static dump_one *kind_of(struct eng_dumper *dumper, const char **name_out)
{
    const char *slash = strrchr(dumper->path, '/');
    const char *leaf = slash == NULL ? dumper->path : slash + 1, *suffix = leaf;
    dumper->base_offset = -1;
    bool of_segment = eng_dump_name(leaf, &dumper->base_offset, &suffix);
    for (size_t i = 0; i < OT_ARRAY_COUNT(kinds); i++) {
        if (kinds[i].of_segment != of_segment || strcmp(kinds[i].name, suffix) != 0) continue;
        *name_out = kinds[i].name;
        return kinds[i].dump;
    }
    return NULL;
}

enum ot_err eng_dump_file(struct ot_io *io, const char *path, const struct eng_dump_options *options, struct eng_dump_summary *summary)
{
    struct eng_dumper dumper = { .io = io, .options = options, .summary = summary, .path = path, .fd = -1 };
    struct eng_dump_row row;
    struct ot_io_stat stat;
    const char *name;
    dump_one *dump = kind_of(&dumper, &name);
    if (dump == NULL) return OT_ERR_MALFORMED;
    enum ot_err err = io->ops->open(io, path, OT_IO_READ, &dumper.fd);
    if (err == OT_OK) err = io->ops->fstat(io, dumper.fd, &stat);
    if (err == OT_OK) {
        dumper.file_bytes = stat.bytes;
        summary->files++;
        summary->bytes += stat.bytes;
        eng_dump_begin(&row, ENG_DUMP_FILE);
        eng_dump_word(&row, "path", path);
        eng_dump_word(&row, "kind", name);
        eng_dump_number(&row, "bytes", (int64_t)stat.bytes);
        if (dumper.base_offset >= 0) eng_dump_number(&row, "baseOffset", dumper.base_offset);
        eng_dump_emit(&dumper, &row);
        err = dump(&dumper);
    }
    io->ops->close(io, dumper.fd);
    return err;
}
