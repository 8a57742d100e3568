/* Rows on the terminal: -o table|wide|json|ndjson|csv|name.
 *
 * Cells are gathered as text, then written at once. table: no borders, upper-case heads, numbers to the right, cut to the width of the terminal when it is
 * one; wide: not cut and with the columns meant for it; csv: RFC 4180 with the names of the fields; name: the first column; json and ndjson: objects by the
 * names of the fields (commands of the REST API print its body instead). */
#ifndef OT_CLI_TABLE_H
#define OT_CLI_TABLE_H

#include "cli/command.h"
#include <stdio.h>

enum cli_output { CLI_OUT_TABLE, CLI_OUT_WIDE, CLI_OUT_JSON, CLI_OUT_NDJSON, CLI_OUT_CSV, CLI_OUT_NAME };
extern const struct cli_flag cli_output_flags[]; /* --output, --no-headers, --bytes */

enum cli_column_kind { CLI_COLUMN_TEXT, CLI_COLUMN_NUMBER, CLI_COLUMN_BYTES, CLI_COLUMN_STATE };
struct cli_column {
    const char *name; /* as a JSON member; the head is it in upper case, without its unit */
    enum cli_column_kind kind;
    bool wide; /* only with -o wide, csv, json */
};
struct cli_table {
    enum cli_output output;
    bool heads, exact_bytes, colour;
    uint32_t width; /* 0: not cut */
    const struct cli_column *columns;
    uint32_t column_count;
    char **cells;
    size_t cell_count, cell_cap;
    bool failed; /* out of memory */
};

/* From the flags. -1: fine; else the exit code after a message. colour and width by whether stdout is a terminal. */
int cli_table_open(const struct cli_args *args, const struct cli_column *columns, uint32_t column_count, struct cli_table *out);
/* The next cell, row by row. NULL text: unknown (`-`, null in JSON). */
void cli_table_text(struct cli_table *table, const char *text);
void cli_table_number(struct cli_table *table, int64_t number);
/* Writes it and frees the cells. False: memory or the stream gave out. */
bool cli_table_print(struct cli_table *table, FILE *to);
enum cli_colour { CLI_COLOUR_AUTO, CLI_COLOUR_ALWAYS, CLI_COLOUR_NEVER };
void cli_colour_when(enum cli_colour when); /* of --color */
bool cli_colour_wanted(int fd);             /* auto: a terminal, no NO_COLOR, not TERM=dumb */
/* How many columns a UTF-8 text takes (every code point one). */
size_t cli_text_columns(const char *text);

#endif
