/* One record on its way through the terminal, and the ways to write it: docs of `ottla consume`.
 *
 *   lines    the value and a line break           raw     the value and nothing
 *   ndjson   one JSON object a line, as REST      json    the same as one array
 *   csv      RFC 4180, first line of names        '%k\t%v\n' and the like: a pattern
 * Verbs of a pattern: %t topic, %p partition, %o offset, %T time (epoch ms), %k key, %v value, %h headers (a=b,c=d); %K %V bytes of key and value,
 * -1 for null, %H how many headers; %% a percent sign; \n \t \r \0 \e \\ \xNN as in C. */
#ifndef OT_CLI_RECORD_H
#define OT_CLI_RECORD_H

#include "engine/record.h"
#include <stdio.h>

struct cli_record {
    struct ot_str topic;
    int32_t partition;       /* -1: not said */
    int64_t offset;          /* -1: not said */
    int64_t timestamp_ms;    /* -1: none */
    struct ot_blob key, value;
    struct eng_record_header *headers;
    uint32_t header_count;
    /* known of records that were read from a log */
    bool append_time, transactional;
    enum eng_codec codec;
    int64_t producer_id;
    uint32_t size_bytes;
};

enum cli_form { CLI_FORM_LINES, CLI_FORM_RAW, CLI_FORM_NDJSON, CLI_FORM_JSON, CLI_FORM_CSV, CLI_FORM_PATTERN };
struct cli_piece {
    char verb; /* 0: a literal */
    char *text;
    size_t bytes;
};
#define CLI_PIECES_MAX 64
struct cli_format {
    enum cli_form form;
    struct cli_piece pieces[CLI_PIECES_MAX];
    uint32_t piece_count;
    const char *null_text; /* what a null key or value looks like in lines and patterns; NULL: empty. Borrowed */
};

/* Forms by name, or a pattern if there is a % in it. MALFORMED with words in why. */
OT_MUST_CHECK enum ot_err cli_format_parse(const char *text, struct cli_format *out, char why[static 160]);
void cli_format_free(struct cli_format *format);

struct cli_printer {
    FILE *to;
    const struct cli_format *format;
    uint64_t count;
    bool names; /* csv begins with a line of names */
};
/* Errors of writing are left in the stream: ferror(to). */
void cli_record_print(struct cli_printer *printer, const struct cli_record *record);
void cli_record_print_end(struct cli_printer *printer); /* closes the array of json */

#endif
