#include "cli/input.h"
#include "base/util.h"
#include "cli/text.h"
#include "cli/wait.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES  (256u << 10)
#define HEADERS_MAX 10000u

struct cli_input {
    const struct cli_format *format;
    const char *const *paths;
    uint32_t path_count, path_index;
    const char *path; /* of the file that is open */
    int fd;           /* -1: none */
    bool file_ended;
    uint8_t *data;
    size_t start, end, cap, scanned; /* data[start, end) is not handed out yet; data[start, scanned) holds no line break */
    size_t record_bytes_max;
    uint64_t bytes, records, line;
    uint8_t *scratch; /* decoded strings of one record */
    size_t scratch_cap, scratch_used;
    struct eng_record_header *headers;
    uint32_t header_count, header_cap;
    char why[256];
};

const char *cli_input_why(const struct cli_input *input)
{
    return input->why;
}

uint64_t cli_input_bytes(const struct cli_input *input)
{
    return input->bytes;
}

OT_PRINTF(3, 4) static enum ot_err wrong(struct cli_input *input, enum ot_err err, const char *format, ...)
{
    va_list list;
    const char *name = input->path == NULL || strcmp(input->path, "-") == 0 ? "standard input" : input->path;
    const bool has_lines = input->format->form == CLI_FORM_LINES || input->format->form == CLI_FORM_NDJSON;
    int used = has_lines ? snprintf(input->why, sizeof(input->why), "%.80s, line %llu: ", name, (unsigned long long)input->line + 1)
                         : snprintf(input->why, sizeof(input->why), "%.80s, record %llu: ", name, (unsigned long long)input->records + 1);
    va_start(list, format);
    vsnprintf(input->why + used, sizeof(input->why) - (size_t)used, format, list);
    va_end(list);
    return err;
}

/* A field followed by nothing that ends it cannot be told from the next one. */
static bool readable_pattern(const struct cli_format *format, char why[static 160])
{
    bool key_sized = false, value_sized = false;
    for (uint32_t i = 0; i < format->piece_count; i++) {
        const char verb = format->pieces[i].verb;
        const bool sized = (verb == 'k' && key_sized) || (verb == 'v' && value_sized);
        if (verb == 'K') key_sized = true;
        if (verb == 'V') value_sized = true;
        if (verb == 'H') {
            snprintf(why, 160, "%%H is only for consume");
            return false;
        }
        if (verb == 0 || sized || i + 1 == format->piece_count || format->pieces[i + 1].verb == 0) continue;
        snprintf(why, 160, "something must stand between %%%c and %%%c", verb, format->pieces[i + 1].verb);
        return false;
    }
    return true;
}

enum ot_err cli_input_open(const struct cli_format *format, const char *const *paths, uint32_t path_count, size_t record_bytes_max,
    struct cli_input **out, char why[static 160])
{
    static const char *const standard[] = {"-"};
    *out = NULL;
    if (format->form == CLI_FORM_CSV || format->form == CLI_FORM_JSON) {
        snprintf(why, 160, "records are read as lines, raw, ndjson or a pattern");
        return OT_ERR_MALFORMED;
    }
    if (format->form == CLI_FORM_PATTERN && !readable_pattern(format, why)) return OT_ERR_MALFORMED;
    struct cli_input *input = calloc(1, sizeof(*input));
    if (input == NULL) return OT_ERR_NO_MEMORY;
    input->format = format;
    input->paths = path_count == 0 ? standard : paths;
    input->path_count = path_count == 0 ? 1 : path_count;
    input->fd = -1;
    input->record_bytes_max = record_bytes_max;
    input->cap = READ_BYTES;
    if ((input->data = malloc(input->cap)) == NULL) {
        free(input);
        return OT_ERR_NO_MEMORY;
    }
    *out = input;
    return OT_OK;
}

void cli_input_close(struct cli_input *input)
{
    if (input == NULL) return;
    if (input->fd > 0) close(input->fd);
    free(input->data);
    free(input->scratch);
    free(input->headers);
    free(input);
}

/* NOT_FOUND: no more files. */
static enum ot_err next_file(struct cli_input *input)
{
    if (input->fd > 0) close(input->fd);
    input->fd = -1;
    if (input->path_index == input->path_count) return OT_ERR_NOT_FOUND;
    input->path = input->paths[input->path_index++];
    input->line = 0;
    input->file_ended = false;
    input->fd = strcmp(input->path, "-") == 0 ? 0 : open(input->path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0) return wrong(input, OT_ERR_IO, "%s", strerror(errno));
    return OT_OK;
}

/* More bytes behind data[end). file_ended is set at the end. BUSY, IO, TOO_LARGE, NO_MEMORY, CANCELLED. */
static enum ot_err fill(struct cli_input *input, int64_t deadline_us)
{
    const size_t held = input->end - input->start;
    if (held > input->record_bytes_max) return wrong(input, OT_ERR_TOO_LARGE, "longer than %zu bytes (--max-record-bytes)", input->record_bytes_max);
    if (input->cap - input->end < READ_BYTES) {
        if (input->start > 0) memmove(input->data, input->data + input->start, held);
        input->scanned -= OT_MIN(input->start, input->scanned);
        input->start = 0;
        input->end = held;
        if (input->cap - held < READ_BYTES) {
            uint8_t *more = realloc(input->data, input->cap * 2 + READ_BYTES);
            if (more == NULL) return wrong(input, OT_ERR_NO_MEMORY, "out of memory");
            input->data = more;
            input->cap = input->cap * 2 + READ_BYTES;
        }
    }
    for (;;) {
        const enum ot_err err = cli_wait_one(input->fd, POLLIN, deadline_us);
        if (err == OT_ERR_REQUEST_TIMED_OUT) return OT_ERR_BUSY;
        if (err != OT_OK) return err;
        const ssize_t got = read(input->fd, input->data + input->end, input->cap - input->end);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got < 0) return wrong(input, OT_ERR_IO, "%s", strerror(errno));
        if (got == 0) input->file_ended = true;
        input->end += (size_t)got;
        input->bytes += (uint64_t)got;
        return OT_OK;
    }
}

static struct ot_blob blob(const uint8_t *data, size_t bytes)
{
    return (struct ot_blob){data, (uint32_t)bytes, false};
}

static struct ot_blob null_or(const struct cli_input *input, struct ot_blob one)
{
    const char *null_text = input->format->null_text;
    const bool is_null = null_text != NULL && strlen(null_text) == one.bytes && memcmp(null_text, one.data, one.bytes) == 0;
    return is_null ? (struct ot_blob){NULL, 0, true} : one;
}

/* A line without its break, and where the next begins. SHORT: its end has not come; NOT_FOUND: the file is over. */
static enum ot_err line(struct cli_input *input, struct ot_blob *out)
{
    const size_t from = OT_MAX(input->start, input->scanned);
    const uint8_t *found = from < input->end ? memchr(input->data + from, '\n', input->end - from) : NULL;
    if (found == NULL && !input->file_ended) {
        input->scanned = input->end;
        return OT_ERR_SHORT;
    }
    if (input->start == input->end) return OT_ERR_NOT_FOUND;
    const size_t stop = found == NULL ? input->end : (size_t)(found - input->data);
    *out = blob(input->data + input->start, stop - input->start);
    input->start = stop + (found != NULL);
    return OT_OK;
}

static enum ot_err add_header(struct cli_input *input, struct eng_record_header header)
{
    if (input->header_count == HEADERS_MAX) return wrong(input, OT_ERR_INVALID_RECORD, "more than %u headers", HEADERS_MAX);
    if (input->header_count == input->header_cap) {
        const uint32_t cap = input->header_cap * 2 + 8;
        struct eng_record_header *more = realloc(input->headers, cap * sizeof(*more));
        if (more == NULL) return OT_ERR_NO_MEMORY;
        input->headers = more;
        input->header_cap = cap;
    }
    input->headers[input->header_count++] = header;
    return OT_OK;
}

bool cli_header_parse(const char *text, size_t bytes, struct eng_record_header *out)
{
    const char *equals = bytes == 0 ? NULL : memchr(text, '=', bytes);
    if (equals == NULL || equals == text) return false;
    out->key = blob((const uint8_t *)text, (size_t)(equals - text));
    out->value = blob((const uint8_t *)equals + 1, bytes - (size_t)(equals + 1 - text));
    return true;
}

static enum ot_err headers_of_text(struct cli_input *input, struct ot_blob field)
{
    const uint8_t *at = field.data, *end = field.data + field.bytes;
    while (at < end) {
        const uint8_t *comma = memchr(at, ',', (size_t)(end - at));
        const uint8_t *stop = comma == NULL ? end : comma;
        struct eng_record_header header;
        if (!cli_header_parse((const char *)at, (size_t)(stop - at), &header))
            return wrong(input, OT_ERR_INVALID_RECORD, "`%.*s` is no header: name=value,name=value", (int)OT_MIN(stop - at, 40), at);
        header.value = null_or(input, header.value);
        const enum ot_err err = add_header(input, header);
        if (err != OT_OK) return err;
        at = stop + (comma != NULL);
    }
    return OT_OK;
}

/* ---- ndjson */

static enum ot_err json_data(struct cli_input *input, struct ot_blob raw, struct ot_blob *out)
{
    struct ot_reader in = ot_reader_over(raw.data, raw.bytes);
    struct ot_blob name, value, end_name, end_value;
    uint8_t *to = input->scratch + input->scratch_used;
    uint32_t bytes = 0, text_bytes = 0;
    if (raw.data[0] == 'n') {
        *out = (struct ot_blob){NULL, 0, true};
        return OT_OK;
    }
    if (!cli_json_object_begin(&in) || cli_json_member(&in, true, &name, &value) != 1 || cli_json_member(&in, false, &end_name, &end_value) != 0)
        return wrong(input, OT_ERR_INVALID_RECORD, "data is null or {\"string\"|\"json\"|\"base64\": …}, not %.*s", (int)OT_MIN(raw.bytes, 40u), raw.data);
    const struct ot_str kind = {(const char *)name.data, name.bytes, false};
    if (ot_str_equal(kind, ot_str_of("\"json\""))) {
        *out = value;
        return OT_OK;
    }
    if (!cli_json_string(value, to, &bytes)) return wrong(input, OT_ERR_INVALID_RECORD, "%.*s wants a string", (int)OT_MIN(name.bytes, 40u), name.data);
    if (ot_str_equal(kind, ot_str_of("\"base64\""))) {
        text_bytes = bytes;
        if (!cli_base64_decode(to, text_bytes, to, &bytes)) return wrong(input, OT_ERR_INVALID_RECORD, "this is no base64");
    } else if (!ot_str_equal(kind, ot_str_of("\"string\""))) {
        return wrong(input, OT_ERR_INVALID_RECORD, "%.*s is none of string, json, base64", (int)OT_MIN(name.bytes, 40u), name.data);
    }
    *out = blob(to, bytes);
    input->scratch_used += OT_MAX(bytes, text_bytes);
    return OT_OK;
}

static enum ot_err json_header(struct cli_input *input, struct ot_blob raw)
{
    struct ot_reader in = ot_reader_over(raw.data, raw.bytes);
    struct eng_record_header header = {.value = {.null = true}};
    struct ot_blob name, value;
    bool named = false;
    int more = cli_json_object_begin(&in) ? cli_json_member(&in, true, &name, &value) : -1;
    for (; more == 1; more = cli_json_member(&in, false, &name, &value)) {
        const struct ot_str member = {(const char *)name.data, name.bytes, false};
        enum ot_err err = OT_OK;
        if (ot_str_equal(member, ot_str_of("\"name\""))) {
            uint32_t bytes;
            named = cli_json_string(value, input->scratch + input->scratch_used, &bytes);
            if (!named) break;
            header.key = blob(input->scratch + input->scratch_used, bytes);
            input->scratch_used += bytes;
        } else if (ot_str_equal(member, ot_str_of("\"value\""))) {
            err = json_data(input, value, &header.value);
        } else {
            err = wrong(input, OT_ERR_INVALID_RECORD, "a header has no member %.*s", (int)OT_MIN(name.bytes, 40u), name.data);
        }
        if (err != OT_OK) return err;
    }
    if (more != 0 || !named) return wrong(input, OT_ERR_INVALID_RECORD, "a header is {\"name\":\"…\",\"value\":…}");
    return add_header(input, header);
}

static enum ot_err json_headers(struct cli_input *input, struct ot_blob raw)
{
    struct ot_reader in = ot_reader_over(raw.data, raw.bytes);
    struct ot_blob value;
    if (!cli_json_array_begin(&in)) return wrong(input, OT_ERR_INVALID_RECORD, "headers are an array");
    for (int more = cli_json_element(&in, true, &value); more == 1; more = cli_json_element(&in, false, &value)) {
        const enum ot_err err = json_header(input, value);
        if (err != OT_OK) return err;
    }
    return OT_OK;
}

static enum ot_err json_member_of_record(struct cli_input *input, struct ot_blob name, struct ot_blob value, struct cli_record *out)
{
    static const char *const passed[] = {"topic", "offset", "timestamp_type", "size_bytes", "producer_id", "transactional", "codec"};
    const struct ot_str member = {(const char *)name.data + 1, name.bytes - 2, false};
    const bool is_null = value.data[0] == 'n';
    int64_t number;
    if (ot_str_equal(member, ot_str_of("key"))) return json_data(input, value, &out->key);
    if (ot_str_equal(member, ot_str_of("value"))) return json_data(input, value, &out->value);
    if (ot_str_equal(member, ot_str_of("headers"))) return json_headers(input, value);
    if (ot_str_equal(member, ot_str_of("partition"))) {
        if (is_null) return OT_OK;
        if (!cli_json_integer(value, &number) || number < 0 || number > INT32_MAX) return wrong(input, OT_ERR_INVALID_RECORD, "partition is a number");
        out->partition = (int32_t)number;
        return OT_OK;
    }
    if (ot_str_equal(member, ot_str_of("timestamp_ms"))) {
        if (is_null) return OT_OK;
        if (!cli_json_integer(value, &number)) return wrong(input, OT_ERR_INVALID_RECORD, "timestamp_ms is a number");
        out->timestamp_ms = number;
        return OT_OK;
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(passed); i++)
        if (ot_str_equal(member, ot_str_of(passed[i]))) return OT_OK;
    return wrong(input, OT_ERR_INVALID_RECORD, "a record has no member \"%.*s\"", (int)OT_MIN(member.bytes, 40u), member.data);
}

static enum ot_err parse_ndjson(struct cli_input *input, struct cli_record *out)
{
    struct ot_blob text, name, value;
    enum ot_err err;
    do {
        if ((err = line(input, &text)) != OT_OK) return err;
        if (text.bytes == 0 || (text.bytes == 1 && text.data[0] == '\r')) input->line++;
    } while (text.bytes == 0 || (text.bytes == 1 && text.data[0] == '\r')); /* blank lines mean nothing here */
    if (text.bytes > input->scratch_cap) { /* no decoded text is longer than what it is decoded from */
        uint8_t *more = realloc(input->scratch, text.bytes);
        if (more == NULL) return OT_ERR_NO_MEMORY;
        input->scratch = more;
        input->scratch_cap = text.bytes;
    }
    input->scratch_used = 0;
    if (!cli_json_valid(text.data, text.bytes)) return wrong(input, OT_ERR_INVALID_RECORD, "this is no JSON: %.*s", (int)OT_MIN(text.bytes, 60u), text.data);
    struct ot_reader in = ot_reader_over(text.data, text.bytes);
    if (!cli_json_object_begin(&in)) return wrong(input, OT_ERR_INVALID_RECORD, "a record is an object: {\"value\":{\"string\":\"…\"}}");
    for (bool first = true; cli_json_member(&in, first, &name, &value) == 1; first = false)
        if ((err = json_member_of_record(input, name, value, out)) != OT_OK) return err;
    return OT_OK;
}

/* ---- patterns */

struct field_sizes {
    int64_t key, value; /* INT64_MIN: not said; -1: null */
};

static enum ot_err take_field(struct cli_input *input, char verb, struct ot_blob field, struct field_sizes *sizes, struct cli_record *out)
{
    int64_t number = 0;
    const bool needs_number = strchr("poTKV", verb) != NULL;
    if (needs_number && !cli_json_integer(field, &number))
        return wrong(input, OT_ERR_INVALID_RECORD, "%%%c: `%.*s` is no number", verb, (int)OT_MIN(field.bytes, 40u), field.data);
    switch (verb) {
    case 'k': out->key = sizes->key == -1 ? (struct ot_blob){.null = true} : sizes->key >= 0 ? field : null_or(input, field); break;
    case 'v': out->value = sizes->value == -1 ? (struct ot_blob){.null = true} : sizes->value >= 0 ? field : null_or(input, field); break;
    case 'h': return headers_of_text(input, field);
    case 'T': out->timestamp_ms = number; break;
    case 'p':
        if (number < 0 || number > INT32_MAX) return wrong(input, OT_ERR_INVALID_RECORD, "%%p: there is no partition %lld", (long long)number);
        out->partition = (int32_t)number;
        break;
    case 'K':
    case 'V':
        if (number < -1 || number > (int64_t)input->record_bytes_max)
            return wrong(input, OT_ERR_TOO_LARGE, "%%%c: %lld is out of range (--max-record-bytes)", verb, (long long)number);
        *(verb == 'K' ? &sizes->key : &sizes->value) = number;
        break;
    default: break; /* topic and offset: what they were elsewhere */
    }
    return OT_OK;
}

/* Where the field of piece i ends: as long as was said, or before the literal behind it. SHORT: that has not come yet. */
static enum ot_err field_end(struct cli_input *input, uint32_t i, const struct field_sizes *sizes, size_t at, size_t *stop_out)
{
    const struct cli_format *format = input->format;
    const int64_t said = format->pieces[i].verb == 'k' ? sizes->key : format->pieces[i].verb == 'v' ? sizes->value : INT64_MIN;
    if (said >= -1) {
        *stop_out = at + (said > 0 ? (size_t)said : 0);
        if (*stop_out <= input->end) return OT_OK;
        return input->file_ended ? wrong(input, OT_ERR_INVALID_RECORD, "the input ends inside a field") : OT_ERR_SHORT;
    }
    const bool last = i + 1 == format->piece_count;
    const char *until = last ? "\n" : format->pieces[i + 1].text;
    const size_t until_bytes = last ? 1 : format->pieces[i + 1].bytes;
    const uint8_t *found = at < input->end ? memmem(input->data + at, input->end - at, until, until_bytes) : NULL;
    if (found == NULL && !input->file_ended) return OT_ERR_SHORT;
    if (found == NULL && !last && i + 2 != format->piece_count)
        return wrong(input, OT_ERR_INVALID_RECORD, "the input ends before the %u. part of the pattern", i + 2);
    *stop_out = found == NULL ? input->end : (size_t)(found - input->data);
    return OT_OK;
}

static enum ot_err parse_pattern(struct cli_input *input, struct cli_record *out)
{
    const struct cli_format *format = input->format;
    struct field_sizes sizes = {INT64_MIN, INT64_MIN};
    size_t at = input->start;
    if (input->file_ended && input->start == input->end) return OT_ERR_NOT_FOUND;
    for (uint32_t i = 0; i < format->piece_count; i++) {
        const struct cli_piece *piece = &format->pieces[i];
        size_t stop = at;
        enum ot_err err;
        if (piece->verb == 0) {
            const size_t there = input->end - at;
            if (memcmp(input->data + at, piece->text, OT_MIN(there, piece->bytes)) != 0)
                return wrong(input, OT_ERR_INVALID_RECORD, "does not follow the pattern at its %u. part", i + 1);
            if (there < piece->bytes && !input->file_ended) return OT_ERR_SHORT;
            if (there < piece->bytes && i + 1 != format->piece_count) return wrong(input, OT_ERR_INVALID_RECORD, "the input ends inside a record");
            at += OT_MIN(there, piece->bytes);
            continue;
        }
        if ((err = field_end(input, i, &sizes, at, &stop)) != OT_OK) return err;
        if ((err = take_field(input, piece->verb, blob(input->data + at, stop - at), &sizes, out)) != OT_OK) return err;
        at = stop;
        const bool sized = (piece->verb == 'k' && sizes.key >= -1) || (piece->verb == 'v' && sizes.value >= -1);
        if (i + 1 == format->piece_count && !sized && at < input->end) at++; /* the line break that was assumed */
    }
    input->start = at;
    return OT_OK;
}

static enum ot_err parse(struct cli_input *input, struct cli_record *out)
{
    *out = (struct cli_record){.partition = -1, .offset = -1, .timestamp_ms = -1, .key = {.null = true}, .value = {.null = true}, .producer_id = -1};
    input->header_count = 0;
    enum ot_err err;
    switch (input->format->form) {
    case CLI_FORM_RAW:
        if (!input->file_ended) return OT_ERR_SHORT;
        if (input->line > 0) return OT_ERR_NOT_FOUND; /* one record a file, an empty file too */
        out->value = blob(input->data + input->start, input->end - input->start);
        input->start = input->end;
        err = OT_OK;
        break;
    case CLI_FORM_NDJSON: err = parse_ndjson(input, out); break;
    case CLI_FORM_PATTERN: err = parse_pattern(input, out); break;
    default:
        err = line(input, &out->value);
        if (err == OT_OK) out->value = null_or(input, out->value);
        break;
    }
    out->headers = input->headers;
    out->header_count = input->header_count;
    return err;
}

enum ot_err cli_input_next(struct cli_input *input, int64_t deadline_us, struct cli_record *out)
{
    for (;;) {
        enum ot_err err = input->fd < 0 ? OT_ERR_NOT_FOUND : parse(input, out);
        if (err == OT_OK) {
            input->line++;
            input->records++;
            return OT_OK;
        }
        if (err == OT_ERR_NOT_FOUND) err = next_file(input);
        else if (err == OT_ERR_SHORT) err = fill(input, deadline_us);
        if (err != OT_OK) return err;
    }
}
