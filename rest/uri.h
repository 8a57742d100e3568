/* Request targets: the raw path is split on '/' first and each segment percent-decoded after that, so that a name may hold any byte. No state, any
 * thread; everything comes from the arena and lives as long. */
#ifndef OT_REST_URI_H
#define OT_REST_URI_H

#include "base/arena.h"

#define REST_SEGMENTS_MAX 16
#define REST_QUERY_MAX 32

struct rest_pair { struct ot_str name, value; };       /* value null: "?pretty" without '=' */
struct rest_uri {
    struct ot_str segments[REST_SEGMENTS_MAX];         /* decoded; "/a/b" has two, "/" none, "/a/" two of which the last is empty */
    uint32_t segment_count;
    struct rest_pair query[REST_QUERY_MAX];            /* decoded, in order; '+' is a space */
    uint32_t query_count;
};

/* MALFORMED: does not begin with '/', has a bad %xx, or names a query parameter twice. TOO_LARGE: more segments or parameters than above. NO_MEMORY.
 * text_out says what is wrong. */
OT_MUST_CHECK enum ot_err rest_uri_parse(struct ot_arena *arena, const char *target, size_t bytes, struct rest_uri *out, char *text_out, size_t text_bytes);

/* %xx decoded into out, which has room for as many bytes as text; '+' becomes a space when plus_is_space. False: a '%' without two hex digits. */
bool rest_percent_decode(struct ot_str text, bool plus_is_space, char *out, uint32_t *bytes_out);
/* Everything but unreserved characters (RFC 3986) as %XX; zero-terminated, from the arena; NULL: no memory. */
char *rest_percent_encode(struct ot_arena *arena, struct ot_str text);

/* base64url without padding (page tokens). NULL: no memory, or not base64url. */
char *rest_base64url(struct ot_arena *arena, const void *data, size_t bytes);
uint8_t *rest_base64url_decode(struct ot_arena *arena, struct ot_str text, size_t *bytes_out);
/* Standard base64 with padding (record bytes). Decoding refuses whatever encoding would not have made. */
size_t rest_base64_bytes(size_t bytes);                /* of the text for so many bytes, without a zero */
void rest_base64(const void *data, size_t bytes, char *out);
bool rest_base64_decode(struct ot_str text, uint8_t *out /* 3/4 of text, rounded up */, size_t *bytes_out);

#endif
