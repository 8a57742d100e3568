/* Records out of byte streams, as `ottla produce` reads them: exact bytes, bounded memory, one record in hand.
 *
 *   lines    a value a line; the line break is not part of it, nothing else is taken away; the last line may lack it
 *   raw      each file is one value
 *   ndjson   objects as `consume -o ndjson` writes them: key, value, headers, partition, timestamp_ms (the rest of what it writes is passed over)
 *   pattern  as cli/record.h; a field reaches to the first occurrence of the literal behind it, or is as long as %K or %V before it said. Without a
 *            literal at the end a line break stands there. Two fields need a literal or a size between them. */
#ifndef OT_CLI_INPUT_H
#define OT_CLI_INPUT_H

#include "cli/record.h"

struct cli_input;
/* paths: files in turn, "-" is standard input; count 0: standard input. record_bytes_max bounds one record with all that belongs to it. Borrows paths and
 * format. MALFORMED: the format cannot be read (csv, json, two fields with nothing between), words in why. NO_MEMORY. */
OT_MUST_CHECK enum ot_err cli_input_open(const struct cli_format *format, const char *const *paths, uint32_t path_count, size_t record_bytes_max,
    struct cli_input **out, char why[static 160]);
void cli_input_close(struct cli_input *input); /* NULL is fine */

/* The next record, borrowed until the next call. NOT_FOUND: the end. BUSY: nothing has come yet and deadline_us passed (the past: only what is there).
 * INVALID_RECORD, TOO_LARGE, IO, NO_MEMORY, CANCELLED: words in cli_input_why, which names file and line. */
OT_MUST_CHECK enum ot_err cli_input_next(struct cli_input *input, int64_t deadline_us, struct cli_record *out);
const char *cli_input_why(const struct cli_input *input);
uint64_t cli_input_bytes(const struct cli_input *input); /* read so far */

/* "name=value" into a header; both borrowed. False: no `=` or no name. */
bool cli_header_parse(const char *text, size_t bytes, struct eng_record_header *out);

#endif
