/* Log lines: one event per line on stderr, `2026-05-02T08:11:03.120Z WARN replication isr_shrink topic=orders partition=0`.
 *
 * Event names are stable and listed in docs/logging.md. Fields are printf-formatted `key=value` pairs; a value with blanks or quotes is
 * quoted by the writer if passed through ot_log_field. Repeats of the same event and subsystem within a second collapse to
 * a count above a bound. Any thread; never blocks on more than one write(2). Record payloads and secrets never. */
#ifndef OT_BASE_LOG_H
#define OT_BASE_LOG_H

#include "base/err.h"

enum ot_log_level { OT_LOG_ERROR, OT_LOG_WARN, OT_LOG_INFO, OT_LOG_DEBUG, OT_LOG_TRACE };
enum ot_log_format { OT_LOG_TEXT, OT_LOG_JSON };

void ot_log_setup(enum ot_log_level level, enum ot_log_format format, int fd);       /* default: INFO, text, 2 */
void ot_log_set_level(const char *subsystem, enum ot_log_level level);               /* NULL: all */
bool ot_log_enabled(const char *subsystem, enum ot_log_level level);
void ot_log(enum ot_log_level level, const char *subsystem, const char *event, const char *format, ...) OT_PRINTF(4, 5);

#endif
