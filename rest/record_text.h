/* Records as JSON: bytes become what they look like, or what was asked for. Private to rest/. */
#ifndef OT_REST_RECORD_TEXT_H
#define OT_REST_RECORD_TEXT_H

#include "broker/records.h"
#include "rest/call.h"

enum rest_data_form { REST_DATA_AUTO, REST_DATA_STRING, REST_DATA_JSON, REST_DATA_BASE64 };
struct rest_record_form { enum rest_data_form key, value; int64_t value_limit_bytes; };      /* limit: 0 none */

/* as, key_as, value_as, value_limit_bytes; wrong ones become faults of the call. */
void rest_record_form_read(struct rest_call *call, struct rest_record_form *out);
/* {"string":…}, {"json":…}, {"base64":…} or null. auto and json: JSON if it is JSON (as it is stored, byte for byte), else as string: a string if it
 * is UTF-8, else base64. Bytes beyond limit (0: none) are cut. True: they were. Any thread. */
bool rest_data_write(struct rest_json *out, const char *key, struct ot_blob data, enum rest_data_form form, int64_t limit_bytes);
/* partition: a member of that name, or -1 for none. */
void rest_record_write(struct rest_json *out, const struct broker_record_view *record, const struct rest_record_form *form, int32_t partition);
/* JSON is shown as it is stored, line breaks and all; where a record must be one line, those of what was written from `from` on become blanks. */
void rest_one_line(struct rest_json *out, size_t from);

#endif
