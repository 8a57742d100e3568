#include "cli/table.h"
#include "base/util.h"
#include "cli/shared.h"
#include "cli/text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const struct cli_flag cli_output_flags[] = {
    {"output", 'o', "FORM", false, "table, wide, json, ndjson, csv, name (table)"},
    {"no-headers", 0, NULL, false, "without the line of column names"},
    {"bytes", 0, NULL, false, "sizes in bytes, not rounded"},
    {0},
};

static enum cli_colour colour_when;
void cli_colour_when(enum cli_colour when)
{
    colour_when = when;
}

bool cli_colour_wanted(int fd)
{
    if (colour_when != CLI_COLOUR_AUTO) return colour_when == CLI_COLOUR_ALWAYS;
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    return isatty(fd) && (no == NULL || no[0] == 0) && (term == NULL || strcmp(term, "dumb") != 0);
}

int cli_table_open(const struct cli_args *args, const struct cli_column *columns, uint32_t column_count, struct cli_table *out)
{
    static const char *const outputs[] = {"table", "wide", "json", "ndjson", "csv", "name"};
    struct winsize size;
    uint32_t output;
    *out = (struct cli_table){.columns = columns, .column_count = column_count, .heads = !cli_flag_given(args, "no-headers"), .exact_bytes = cli_flag_given(args, "bytes")};
    const int code = cli_flag_choice(args, "output", outputs, OT_ARRAY_COUNT(outputs), CLI_OUT_TABLE, &output);
    if (code >= 0) return code;
    out->output = (enum cli_output)output;
    out->colour = cli_colour_wanted(1);
    if (out->output == CLI_OUT_TABLE && isatty(1) && ioctl(1, TIOCGWINSZ, &size) == 0) out->width = size.ws_col;
    return -1;
}

static void add(struct cli_table *table, char *cell)
{
    if (table->cell_count == table->cell_cap) {
        const size_t cap = table->cell_cap * 2 + 64;
        char **more = realloc(table->cells, cap * sizeof(*more));
        if (more == NULL) {
            table->failed = true;
            free(cell);
            return;
        }
        table->cells = more;
        table->cell_cap = cap;
    }
    table->cells[table->cell_count++] = cell;
}

void cli_table_text(struct cli_table *table, const char *text)
{
    char *copy = text == NULL ? NULL : strdup(text);
    if (text != NULL && copy == NULL) table->failed = true;
    add(table, copy);
}

void cli_table_number(struct cli_table *table, int64_t number)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, number);
    cli_table_text(table, text);
}

size_t cli_text_columns(const char *text)
{
    size_t columns = 0;
    for (; *text != 0; text++) columns += ((uint8_t)*text & 0xc0) != 0x80;
    return columns;
}

/* The head of a column: RETENTION of retention_ms and SIZE of size_bytes, since the cells carry the unit. */
static const char *head(const struct cli_table *table, uint32_t column, char out[static 64])
{
    const struct cli_column *row = &table->columns[column];
    size_t bytes = strlen(row->name);
    if (row->kind == CLI_COLUMN_BYTES && bytes > 6 && strcmp(row->name + bytes - 6, "_bytes") == 0) bytes -= 6;
    bytes = OT_MIN(bytes, 63u);
    for (size_t i = 0; i < bytes; i++) {
        const char c = row->name[i];
        out[i] = (char)(c >= 'a' && c <= 'z' ? c - 32 : c == '_' ? '-' : c);
    }
    out[bytes] = 0;
    return out;
}

static bool shown(const struct cli_table *table, uint32_t column)
{
    return !table->columns[column].wide || table->output != CLI_OUT_TABLE;
}

/* What a cell looks like to people: control bytes never reach the terminal. */
static void cell_text(const struct cli_table *table, size_t cell, char *out, size_t out_bytes)
{
    const char *text = table->cells[cell];
    int64_t number;
    char human[24];
    if (text == NULL) text = "-";
    else if (table->columns[cell % table->column_count].kind == CLI_COLUMN_BYTES && !table->exact_bytes && cli_number(text, 0, INT64_MAX, &number))
        text = cli_human_bytes((uint64_t)number, human);
    snprintf(out, out_bytes, "%s", text);
    for (char *at = out; *at != 0; at++)
        if ((uint8_t)*at < 0x20 || *at == 0x7f) *at = '?';
}

static const char *colour_of(const char *state)
{
    static const char *const good[] = {"ok", "online", "running", "yes"}, *const bad[] = {"offline", "corrupt", "failed"};
    for (size_t i = 0; i < OT_ARRAY_COUNT(good); i++)
        if (strcmp(state, good[i]) == 0) return "\033[32m";
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++)
        if (strcmp(state, bad[i]) == 0) return "\033[31m";
    return strcmp(state, "-") == 0 ? "" : "\033[33m";
}

/* One line is put together, then cut as a whole. */
static void print_line(const struct cli_table *table, FILE *to, size_t row, const size_t *widths)
{
    char text[1024], head_text[64];
    size_t left = table->width == 0 ? SIZE_MAX : table->width;
    uint32_t last = 0;
    for (uint32_t i = 0; i < table->column_count; i++)
        if (shown(table, i)) last = i;
    for (uint32_t i = 0; i <= last && left > 0; i++) {
        if (!shown(table, i)) continue;
        if (row == SIZE_MAX) snprintf(text, sizeof(text), "%s", head(table, i, head_text));
        else cell_text(table, row * table->column_count + i, text, sizeof(text));
        const bool right = table->columns[i].kind == CLI_COLUMN_NUMBER || table->columns[i].kind == CLI_COLUMN_BYTES;
        const char *colour = table->colour && row != SIZE_MAX && table->columns[i].kind == CLI_COLUMN_STATE ? colour_of(text) : "";
        size_t columns = cli_text_columns(text), pad = widths[i] - OT_MIN(columns, widths[i]);
        if (right && row != SIZE_MAX && pad + columns > left) { /* a number is whole or not there */
            fprintf(to, "%*s…", (int)left - 1, "");
            break;
        }
        if (right && pad < left) fprintf(to, "%*s", (int)pad, ""), left -= pad;
        if (columns > left) {
            char *at = text;
            for (size_t kept = 0; *at != 0 && kept + 1 < left; kept++)
                do at++; while (((uint8_t)*at & 0xc0) == 0x80);
            *at = 0;
            fprintf(to, "%s…", text);
            break;
        }
        fprintf(to, "%s%s%s", colour, text, colour[0] != 0 ? "\033[0m" : "");
        left -= columns;
        if (i == last) break;
        pad = (right ? 0 : pad) + 2;
        if (pad >= left) break;
        fprintf(to, "%*s", (int)pad, "");
        left -= pad;
    }
    fputc('\n', to);
}

static void print_table(const struct cli_table *table, FILE *to)
{
    size_t widths[64] = {0};
    char text[1024], head_text[64];
    for (uint32_t i = 0; i < table->column_count; i++) widths[i] = table->heads ? strlen(head(table, i, head_text)) : 0;
    for (size_t cell = 0; cell < table->cell_count; cell++) {
        cell_text(table, cell, text, sizeof(text));
        const size_t columns = cli_text_columns(text);
        size_t *width = &widths[cell % table->column_count];
        *width = OT_MAX(*width, columns);
    }
    if (table->heads) print_line(table, to, SIZE_MAX, widths);
    for (size_t row = 0; row < table->cell_count / table->column_count; row++) print_line(table, to, row, widths);
}

static void print_csv(const struct cli_table *table, FILE *to)
{
    for (uint32_t i = 0; table->heads && i < table->column_count; i++) fprintf(to, "%s%s", i > 0 ? "," : "", table->columns[i].name);
    if (table->heads) fputs("\r\n", to);
    for (size_t cell = 0; cell < table->cell_count; cell++) {
        const char *text = table->cells[cell] == NULL ? "" : table->cells[cell];
        const bool quote = strpbrk(text, ",\"\r\n") != NULL;
        if (cell % table->column_count > 0) fputc(',', to);
        if (quote) fputc('"', to);
        for (; *text != 0; text++) {
            if (*text == '"') fputc('"', to);
            fputc(*text, to);
        }
        if (quote) fputc('"', to);
        if (cell % table->column_count == table->column_count - 1) fputs("\r\n", to);
    }
}

static void print_json(const struct cli_table *table, FILE *to)
{
    const bool array = table->output == CLI_OUT_JSON;
    const size_t rows = table->cell_count / table->column_count;
    if (array) fputs("[", to);
    for (size_t row = 0; row < rows; row++) {
        if (array) fputs(row > 0 ? ",\n " : "\n ", to);
        for (uint32_t i = 0; i < table->column_count; i++) {
            const char *text = table->cells[row * table->column_count + i];
            const bool number = table->columns[i].kind == CLI_COLUMN_NUMBER || table->columns[i].kind == CLI_COLUMN_BYTES;
            fprintf(to, "%s\"%s\":", i > 0 ? "," : "{", table->columns[i].name);
            if (text == NULL || number) fputs(text == NULL ? "null" : text, to);
            else cli_json_print(to, text, strlen(text));
        }
        fputs(array ? "}" : "}\n", to);
    }
    if (array) fputs(rows > 0 ? "\n]\n" : "]\n", to);
}

bool cli_table_print(struct cli_table *table, FILE *to)
{
    if (!table->failed && table->column_count > 0) {
        switch (table->output) {
        case CLI_OUT_TABLE:
        case CLI_OUT_WIDE: print_table(table, to); break;
        case CLI_OUT_CSV: print_csv(table, to); break;
        case CLI_OUT_JSON:
        case CLI_OUT_NDJSON: print_json(table, to); break;
        case CLI_OUT_NAME:
            for (size_t cell = 0; cell < table->cell_count; cell += table->column_count) fprintf(to, "%s\n", table->cells[cell] == NULL ? "" : table->cells[cell]);
            break;
        }
    }
    for (size_t cell = 0; cell < table->cell_count; cell++) free(table->cells[cell]);
    free(table->cells);
    table->cells = NULL;
    table->cell_count = table->cell_cap = 0;
    return !table->failed && !ferror(to);
}
