/* Header values: Accept, entity tags, Host, media types. No state, any thread. */
#ifndef OT_REST_ACCEPT_H
#define OT_REST_ACCEPT_H

#include "base/bytes.h"

/* Index of the offered media type that the client likes best (by q, then by the order offered); -1: none. accept NULL or empty: the first. */
int rest_accept_best(const char *accept, const char *const *offers, uint32_t count);
/* Is etag (with its quotes) in the list of an If-Match or If-None-Match header? "*" matches anything. weak: W/"x" counts as "x". */
bool rest_etag_in(const char *header, const char *etag, bool weak);
/* "application/json; charset=utf-8" is type "application/json". */
bool rest_media_is(const char *header, const char *type);
/* charset given and not UTF-8 */
bool rest_media_foreign_charset(const char *header);

/* May a browser that was led here by a foreign name be told from our clients? Ours: an IP address, localhost, the host configured for the listener, the
 * name of this machine. Port as it may be (ports are mapped). */
bool rest_host_is_ours(const char *host, const char *const *names, uint32_t count);
/* The origin of a page may write here when it is http(s)://HOST of the same request. */
bool rest_origin_is_ours(const char *origin, const char *host);
/* [A-Za-z0-9._-]{1,64} */
bool rest_request_id_valid(const char *id);

#endif
