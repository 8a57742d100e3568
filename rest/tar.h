/* A tar.gz written file by file into a growing text. Names up to 99 bytes, plain files. One thread. Private to rest/. */
#ifndef OT_REST_TAR_H
#define OT_REST_TAR_H

#include "rest/json_out.h"

struct rest_tar;
struct rest_tar *rest_tar_begin(struct rest_json *out, int64_t mtime_s);      /* NULL: no memory */
void rest_tar_file(struct rest_tar *tar, const char *name, const char *data, size_t bytes);
/* Ends it and frees. False: something did not fit or memory gave out; what was written is of no use then. */
bool rest_tar_end(struct rest_tar *tar);

#endif
