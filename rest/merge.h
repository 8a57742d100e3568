/* Lists whose items lie at several brokers: each gives its page, and the pages are merged into one. Private to rest/. */
#ifndef OT_REST_MERGE_H
#define OT_REST_MERGE_H

#include "rest/hop.h"

struct rest_merging {
    char kind;                                 /* letter of the list's tokens */
    const char *keys[3];                       /* members by which it is sorted, ascending, texts by their bytes, numbers with a '#' before the name; NULL: no more */
    const char *token;                         /* the key of a token from those members, as the list's own pages have it: "0", "0:1", "0:2:1" (members by their place above) */
    bool repeats;                              /* the same key at two brokers is two items */
};
/* True: other brokers were asked and the call will be answered from all of them. False: this broker's list is all there is, or is what was asked for. */
bool rest_merge_list(struct rest_call *call, const struct rest_merging *how);

#endif
