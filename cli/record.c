#include "cli/record.h"
#include "base/util.h"
#include "cli/text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const form_names[] = {"lines", "raw", "ndjson", "json", "csv"};

static enum ot_err add_piece(struct cli_format *format, char verb, const char *text, size_t bytes)
{
    struct cli_piece *piece = &format->pieces[format->piece_count];
    piece->verb = verb;
    piece->text = strndup(text, bytes);
    if (piece->text == NULL) return OT_ERR_NO_MEMORY;
    piece->bytes = verb == 0 ? cli_unescape(piece->text) : 0;
    format->piece_count++;
    return OT_OK;
}

/* Literals are unescaped one stretch at a time: `%%` splits them, which changes nothing. */
static enum ot_err parse_pattern(const char *text, struct cli_format *out, char why[static 160])
{
    enum ot_err err = OT_OK;
    for (const char *at = text; *at != 0 && err == OT_OK;) {
        if (out->piece_count == CLI_PIECES_MAX) {
            snprintf(why, 160, "more than %d parts in the pattern", CLI_PIECES_MAX);
            return OT_ERR_MALFORMED;
        }
        if (*at != '%') {
            const size_t bytes = strcspn(at, "%");
            err = add_piece(out, 0, at, bytes);
            at += bytes;
        } else if (at[1] == '%') {
            err = add_piece(out, 0, "%", 1);
            at += 2;
        } else if (at[1] != 0 && strchr("tpoTkvshKVSH", at[1]) != NULL) {
            const char verb = at[1] == 's' ? 'v' : at[1] == 'S' ? 'V' : at[1]; /* kcat's names */
            err = add_piece(out, verb, "", 0);
            at += 2;
        } else {
            snprintf(why, 160, "`%%%c` is no verb: %%t %%p %%o %%T %%k %%v %%h %%K %%V %%H, and %%%% for a percent sign", at[1] == 0 ? ' ' : at[1]);
            return OT_ERR_MALFORMED;
        }
    }
    return err;
}

enum ot_err cli_format_parse(const char *text, struct cli_format *out, char why[static 160])
{
    *out = (struct cli_format){.form = CLI_FORM_PATTERN};
    for (size_t i = 0; i < OT_ARRAY_COUNT(form_names); i++) {
        if (strcmp(text, form_names[i]) != 0) continue;
        out->form = (enum cli_form)i;
        return OT_OK;
    }
    if (strchr(text, '%') == NULL) {
        const char *near = ot_nearest(text, form_names, OT_ARRAY_COUNT(form_names));
        snprintf(why, 160, "`%.40s` is no format: lines, raw, ndjson, json, csv or a pattern with %% in it%s%s%s", text, near != NULL ? "; did you mean " : "",
            near != NULL ? near : "", near != NULL ? "?" : "");
        return OT_ERR_MALFORMED;
    }
    return parse_pattern(text, out, why);
}

void cli_format_free(struct cli_format *format)
{
    for (uint32_t i = 0; i < format->piece_count; i++) free(format->pieces[i].text);
    format->piece_count = 0;
}

static void put(FILE *to, struct ot_blob blob, const char *null_text)
{
    if (blob.null) {
        if (null_text != NULL) fputs(null_text, to);
    } else if (blob.bytes > 0) {
        fwrite(blob.data, 1, blob.bytes, to);
    }
}

static void put_pattern(struct cli_printer *printer, const struct cli_record *record)
{
    FILE *to = printer->to;
    const char *null_text = printer->format->null_text;
    for (uint32_t i = 0; i < printer->format->piece_count; i++) {
        const struct cli_piece *piece = &printer->format->pieces[i];
        switch (piece->verb) {
        case 0: fwrite(piece->text, 1, piece->bytes, to); break;
        case 't': fwrite(record->topic.data, 1, record->topic.bytes, to); break;
        case 'p': fprintf(to, "%d", record->partition); break;
        case 'o': fprintf(to, "%" PRId64, record->offset); break;
        case 'T': fprintf(to, "%" PRId64, record->timestamp_ms); break;
        case 'k': put(to, record->key, null_text); break;
        case 'v': put(to, record->value, null_text); break;
        case 'K': fprintf(to, "%" PRId64, record->key.null ? -1 : (int64_t)record->key.bytes); break;
        case 'V': fprintf(to, "%" PRId64, record->value.null ? -1 : (int64_t)record->value.bytes); break;
        case 'H': fprintf(to, "%u", record->header_count); break;
        default:
            for (uint32_t h = 0; h < record->header_count; h++) {
                if (h > 0) fputc(',', to);
                put(to, record->headers[h].key, NULL);
                fputc('=', to);
                put(to, record->headers[h].value, null_text);
            }
        }
    }
}

/* JSON as it lies there, if it can stand in one line; else text; else base64. The bytes can be told from each of them. */
static void put_data(FILE *to, struct ot_blob blob)
{
    if (blob.null) {
        fputs("null", to);
    } else if (blob.bytes > 0 && memchr(blob.data, '\n', blob.bytes) == NULL && memchr(blob.data, '\r', blob.bytes) == NULL &&
               memchr(" \t", blob.data[0], 2) == NULL && memchr(" \t", blob.data[blob.bytes - 1], 2) == NULL && cli_json_valid(blob.data, blob.bytes)) {
        fputs("{\"json\":", to);
        fwrite(blob.data, 1, blob.bytes, to);
        fputc('}', to);
    } else if (ot_utf8_valid(blob.data, blob.bytes)) {
        fputs("{\"string\":", to);
        cli_json_print(to, blob.data, blob.bytes);
        fputc('}', to);
    } else {
        fputs("{\"base64\":\"", to);
        cli_base64_print(to, blob.data, blob.bytes);
        fputs("\"}", to);
    }
}

static void put_json(FILE *to, const struct cli_record *record)
{
    fputs("{\"topic\":", to);
    cli_json_print(to, record->topic.data, record->topic.bytes);
    fprintf(to, ",\"partition\":%d,\"offset\":%" PRId64, record->partition, record->offset);
    if (record->timestamp_ms < 0) fputs(",\"timestamp_ms\":null", to);
    else fprintf(to, ",\"timestamp_ms\":%" PRId64, record->timestamp_ms);
    fprintf(to, ",\"timestamp_type\":\"%s\",\"key\":", record->append_time ? "append" : "create");
    put_data(to, record->key);
    fputs(",\"value\":", to);
    put_data(to, record->value);
    fputs(",\"headers\":[", to);
    for (uint32_t i = 0; i < record->header_count; i++) {
        fputs(i > 0 ? ",{\"name\":" : "{\"name\":", to);
        cli_json_print(to, record->headers[i].key.data, record->headers[i].key.bytes);
        fputs(",\"value\":", to);
        put_data(to, record->headers[i].value);
        fputc('}', to);
    }
    fprintf(to, "],\"size_bytes\":%u,\"producer_id\":", record->size_bytes);
    if (record->producer_id < 0) fputs("null", to);
    else fprintf(to, "%" PRId64, record->producer_id);
    fprintf(to, ",\"transactional\":%s,\"codec\":\"%s\"}", record->transactional ? "true" : "false", eng_codec_name(record->codec));
}

static void put_csv_cell(FILE *to, struct ot_blob blob)
{
    if (blob.null) return;
    fputc('"', to); /* quoted, so that an empty one differs from null */
    for (uint32_t i = 0; i < blob.bytes; i++) {
        if (blob.data[i] == '"') fputc('"', to);
        fputc(blob.data[i], to);
    }
    fputc('"', to);
}

static void put_csv(struct cli_printer *printer, const struct cli_record *record)
{
    FILE *to = printer->to;
    if (printer->count == 0 && printer->names) fputs("topic,partition,offset,timestamp_ms,key,value\r\n", to);
    fwrite(record->topic.data, 1, record->topic.bytes, to);
    fprintf(to, ",%d,%" PRId64 ",%" PRId64 ",", record->partition, record->offset, record->timestamp_ms);
    put_csv_cell(to, record->key);
    fputc(',', to);
    put_csv_cell(to, record->value);
    fputs("\r\n", to);
}

void cli_record_print(struct cli_printer *printer, const struct cli_record *record)
{
    FILE *to = printer->to;
    switch (printer->format->form) {
    case CLI_FORM_LINES:
        put(to, record->value, printer->format->null_text);
        fputc('\n', to);
        break;
    case CLI_FORM_RAW: put(to, record->value, NULL); break;
    case CLI_FORM_NDJSON:
        put_json(to, record);
        fputc('\n', to);
        break;
    case CLI_FORM_JSON:
        fputs(printer->count == 0 ? "[\n" : ",\n", to);
        put_json(to, record);
        break;
    case CLI_FORM_CSV: put_csv(printer, record); break;
    case CLI_FORM_PATTERN: put_pattern(printer, record); break;
    }
    printer->count++;
}

void cli_record_print_end(struct cli_printer *printer)
{
    if (printer->format->form == CLI_FORM_JSON) fputs(printer->count == 0 ? "[]\n" : "\n]\n", printer->to);
    if (printer->format->form == CLI_FORM_CSV && printer->count == 0 && printer->names) fputs("topic,partition,offset,timestamp_ms,key,value\r\n", printer->to);
}
