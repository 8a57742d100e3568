#include "cli/topic_table.h"
#include "cli/shared.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void join(const json_t *array, char *out, size_t out_bytes)
{
    size_t i, used = 0;
    const json_t *item;
    out[0] = 0;
    json_array_foreach(array, i, item)
    {
        if (used >= out_bytes) break;
        const char *comma = i > 0 ? "," : "";
        const int more = json_is_integer(item) ? snprintf(out + used, out_bytes - used, "%s%" PRId64, comma, (int64_t)json_integer_value(item))
                                               : snprintf(out + used, out_bytes - used, "%s%s", comma, json_is_string(item) ? json_string_value(item) : "?");
        used += more > 0 ? (size_t)more : 0;
    }
}

void cli_table_member(struct cli_table *table, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    char text[512];
    if (json_is_string(value)) {
        cli_table_text(table, json_string_value(value));
    } else if (json_is_number(value)) {
        cli_table_number(table, json_is_integer(value) ? json_integer_value(value) : (int64_t)json_real_value(value));
    } else if (json_is_boolean(value)) {
        cli_table_text(table, json_is_true(value) ? "yes" : "no");
    } else if (json_is_array(value)) {
        join(value, text, sizeof(text));
        cli_table_text(table, json_array_size(value) == 0 ? NULL : text);
    } else {
        cli_table_text(table, NULL);
    }
}

void cli_table_items(struct cli_table *table, const json_t *items)
{
    size_t i;
    const json_t *item;
    json_array_foreach(items, i, item)
        for (uint32_t column = 0; column < table->column_count; column++) cli_table_member(table, item, table->columns[column].name);
}

int cli_print_body(char *text)
{
    const size_t bytes = text == NULL ? 0 : strlen(text);
    if (text != NULL) printf("%s%s", text, bytes > 0 && text[bytes - 1] == '\n' ? "" : "\n");
    free(text);
    return fflush(stdout) == 0 ? CLI_DONE : cli_fail(CLI_FAILED, NULL, "standard output: it takes no more");
}

int cli_print_list(const struct cli_args *args, const struct cli_column *columns, uint32_t column_count, json_t *items, char *text)
{
    struct cli_table table;
    int code = cli_table_open(args, columns, column_count, &table);
    size_t i;
    const json_t *item;
    if (code < 0 && table.output == CLI_OUT_JSON) {
        code = cli_print_body(text);
        text = NULL;
    } else if (code < 0 && table.output == CLI_OUT_NDJSON) {
        json_array_foreach(items, i, item)
        {
            json_dumpf(item, stdout, JSON_COMPACT);
            fputc('\n', stdout);
        }
        code = cli_print_body(NULL);
    } else if (code < 0) {
        cli_table_items(&table, items);
        code = cli_table_print(&table, stdout) ? cli_print_body(NULL) : cli_fail(CLI_FAILED, NULL, "the table could not be written");
    }
    free(text);
    json_decref(items);
    return code;
}
