/* Bodies of the REST API as tables. */
#ifndef OT_CLI_TOPIC_TABLE_H
#define OT_CLI_TOPIC_TABLE_H

#include "cli/api.h"
#include "cli/table.h"

/* A member of object as a cell: texts, numbers, booleans (yes, no), arrays (1,2,3), null and absent (unknown). */
void cli_table_member(struct cli_table *table, const json_t *object, const char *name);
/* Rows of items in the columns of the table, each column a member of that name. */
void cli_table_items(struct cli_table *table, const json_t *items);

/* Prints a list as --output says: the body as it is, one item a line, or a table of columns. Takes items and text over. The exit code. */
int cli_print_list(const struct cli_args *args, const struct cli_column *columns, uint32_t column_count, json_t *items, char *text);
/* The body as it is with a line break. Takes it over. */
int cli_print_body(char *text);

#endif
