/* JSON as it is written: compact text in one growing buffer. Keys are given where a member is meant and NULL where an array's element is.
 *
 * Commas are the writer's. Numbers that may leave 32 bits go through rest_json_big, which quotes them for clients that asked for ?int64=string. Texts that
 * are not UTF-8 lose their bad bytes to U+FFFD. At the cap, or without memory, the writer fails once and for all: ask rest_json_failed at the end. One thread. */
#ifndef OT_REST_JSON_OUT_H
#define OT_REST_JSON_OUT_H

#include "base/bytes.h"

struct rest_json {
    char *data;
    size_t bytes, cap_bytes, max_bytes;
    bool comma, failed, big_as_text;
};

void rest_json_init(struct rest_json *json, size_t max_bytes);
void rest_json_free(struct rest_json *json);
static inline bool rest_json_failed(const struct rest_json *json) { return json->failed; }

void rest_json_open(struct rest_json *json, const char *key, char bracket);       /* '{' or '[' */
void rest_json_close(struct rest_json *json, char bracket);                       /* '}' or ']' */
void rest_json_str(struct rest_json *json, const char *key, struct ot_str text);  /* null text: null */
void rest_json_text(struct rest_json *json, const char *key, const char *text);   /* NULL: null */
void rest_json_int(struct rest_json *json, const char *key, int64_t value);
void rest_json_big(struct rest_json *json, const char *key, int64_t value);
void rest_json_big_or_null(struct rest_json *json, const char *key, int64_t value);     /* negative: null */
void rest_json_real(struct rest_json *json, const char *key, double value);       /* whole numbers whole, others in 9 digits; not finite: null */
void rest_json_bool(struct rest_json *json, const char *key, bool value);
void rest_json_null(struct rest_json *json, const char *key);
void rest_json_time(struct rest_json *json, const char *key, int64_t wall_ms);    /* RFC 3339; negative: null */
void rest_json_uuid(struct rest_json *json, const char *key, const struct ot_uuid *id);
void rest_json_base64(struct rest_json *json, const char *key, struct ot_blob blob);
void rest_json_raw(struct rest_json *json, const char *key, const char *text, size_t bytes);      /* text that is JSON already */
void rest_json_put(struct rest_json *json, const char *text, size_t bytes);       /* bytes as they are: no key, no comma */
void rest_json_str_key(struct rest_json *json, struct ot_str key);                /* a member name from outside; a value with key NULL follows */

/* Indent valid compact JSON by two blanks. */
void rest_json_pretty(struct rest_json *out, const char *text, size_t bytes);

#endif
