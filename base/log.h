/* Log lines: one event per line on stderr, `2026-05-02T08:11:03.120Z WARN replication isr_shrink topic=orders partition=0`.
 *
 * Event names are stable and listed in docs/logging.md. Fields are printf-formatted `key=value` pairs; a value with blanks or quotes is
 * quoted by the writer if passed through ot_log_field. Repeats of the same event, subsystem and level within a second collapse above ten
 * to one line with repeated=N, except in the subsystem audit, where every line counts. As JSON a number that is not quoted becomes a number, words without `=` gather under "text". Any thread; never blocks on more than one write(2). Record payloads and secrets never. */
#ifndef OT_BASE_LOG_H
#define OT_BASE_LOG_H

#include "base/err.h"

enum ot_log_level { OT_LOG_ERROR, OT_LOG_WARN, OT_LOG_INFO, OT_LOG_DEBUG, OT_LOG_TRACE };
/* JOURNAL: text with the priority prefix `<4>` instead of a time, for a service whose stderr is the systemd journal. */
enum ot_log_format { OT_LOG_TEXT, OT_LOG_JSON, OT_LOG_JOURNAL };

void ot_log_setup(enum ot_log_level level, enum ot_log_format format, int fd);       /* default: INFO, text, 2 */
void ot_log_set_level(const char *subsystem, enum ot_log_level level);               /* NULL: all, at most 32 subsystems apart */
bool ot_log_enabled(const char *subsystem, enum ot_log_level level);
void ot_log(enum ot_log_level level, const char *subsystem, const char *event, const char *format, ...) OT_PRINTF(4, 5);
void ot_log_flush(void);                                       /* writes the counts of collapsed repeats; before exit */
/* The last lines as they were written, oldest first, whole ones only: at most RECENT and at most cap bytes; how many. For whoever asks what happened and has no other log. */
#define OT_LOG_RECENT_BYTES (256u << 10)
size_t ot_log_recent(char *out, size_t cap);
bool ot_log_is_journal(int fd);                                /* by JOURNAL_STREAM */
bool ot_log_level_parse(const char *text, enum ot_log_level *out);

/* A text from outside as the value of a field: `error=%s` with ot_log_field(buffer, text). Quoted and escaped when it is empty, looks like
 * a number, or holds blanks, quotes, `=` or control characters; cut with an ellipsis when long. NULL gives `null`. Answers out. */
#define OT_LOG_FIELD_BYTES 320
const char *ot_log_field(char out[static OT_LOG_FIELD_BYTES], const char *text);
const char *ot_log_field_n(char out[static OT_LOG_FIELD_BYTES], const char *text, size_t bytes);

#endif
