/* Texts of the tools: JSON as it lies in a line (never rebuilt, so that bytes stay as they are), base64, escapes, numbers. No state. */
#ifndef OT_CLI_TEXT_H
#define OT_CLI_TEXT_H

#include "base/bytes.h"
#include <stdio.h>

/* One JSON value at the reader, RFC 8259 with UTF-8, at most CLI_JSON_DEPTH_MAX deep; the reader is left behind it and *out, which may be NULL,
 * is what lay there without the blanks around it. False: there is none; the reader is left anywhere. */
#define CLI_JSON_DEPTH_MAX 64
bool cli_json_value(struct ot_reader *in, struct ot_blob *out);
/* The whole of data is one JSON value, blanks around it allowed. */
bool cli_json_valid(const void *data, size_t bytes);
/* The members of an object: starts with the reader at `{`, after cli_json_object_begin; name and value are raw (name with its quotes).
 * 1: one more; 0: the end; -1: no JSON. */
bool cli_json_object_begin(struct ot_reader *in);
int cli_json_member(struct ot_reader *in, bool first, struct ot_blob *name, struct ot_blob *value);
/* Likewise the elements of an array. */
bool cli_json_array_begin(struct ot_reader *in);
int cli_json_element(struct ot_reader *in, bool first, struct ot_blob *value);
/* The bytes that a raw JSON string means, into to (at least raw.bytes long). False: no string, or a lone surrogate. */
bool cli_json_string(struct ot_blob raw, uint8_t *to, uint32_t *bytes_out);
bool cli_json_integer(struct ot_blob raw, int64_t *out);
void cli_json_print(FILE *to, const void *data, size_t bytes); /* as a quoted string; the bytes are UTF-8 */

void cli_base64_print(FILE *to, const void *data, size_t bytes); /* RFC 4648 with padding */
bool cli_base64_decode(const void *text, size_t bytes, uint8_t *to, uint32_t *bytes_out); /* to: at least bytes long */

/* \n \t \r \0 \\ \e and \xNN made real; other backslashes stay. In place; the new length. */
size_t cli_unescape(char *text);
/* A whole number and nothing else, with an optional sign. */
bool cli_number(const char *text, int64_t least, int64_t most, int64_t *out);
/* A size: digits with an optional k, m, g (1024). */
bool cli_size(const char *text, int64_t least, int64_t most, int64_t *out);
/* "1.2 GiB", "512 B" */
const char *cli_human_bytes(uint64_t bytes, char out[static 24]);

#endif
