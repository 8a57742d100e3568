/* Lists: one way to page, shape and format them.
 *
 * A handler asks rest_list_begin for the limit and the place to go on, writes each item into call->out between rest_list_item and the next, and ends with
 * rest_list_reply. Pages are keyset pages: the token holds the key of the last item, so that items may come and go between them. */
#ifndef OT_REST_LIST_H
#define OT_REST_LIST_H

#include "base/bytes.h"

struct rest_call;
enum rest_format { REST_FORMAT_JSON, REST_FORMAT_NDJSON, REST_FORMAT_CSV, REST_FORMAT_TABLE, REST_FORMAT_HTML };

struct rest_list {
    uint32_t limit, count;
    struct ot_str after;           /* key of the last item of the page before; null: from the start */
    struct ot_str prefix;          /* empty: all */
    int64_t after_int;             /* the same as a number, for lists with numbers as keys; INT64_MIN: from the start */
    const char *items_name, *total_name;       /* in JSON; NULL: "items", "total" */
};

/* limit, page_token and prefix. False: answered (400). kind is one letter that keeps tokens of different lists apart; integers: keys are numbers. */
bool rest_list_begin(struct rest_call *call, char kind, bool integers);
void rest_list_item(struct rest_call *call);
/* next: key of the last item when more follow, else null; total < 0: unknown. extra: further members of the envelope ("\"partial\":true") or NULL. */
void rest_list_reply(struct rest_call *call, char kind, struct ot_str next, int64_t total, const char *extra);
void rest_list_reply_int(struct rest_call *call, char kind, bool more, int64_t next, int64_t total, const char *extra);

/* The page_token that goes on behind this key; NULL: no memory. */
const char *rest_list_token(struct rest_call *call, char kind, struct ot_str next);

/* Shapes a run of JSON objects, one a line: `fields` picks members ("a,b.c", NULL: all). False: out of memory, or fields names nothing. */
struct rest_json;
bool rest_list_shape(struct rest_json *out, const char *lines, size_t bytes, enum rest_format format, struct ot_str fields);

#endif
