/* ustar (POSIX.1-1988): a header of 512 bytes, the file padded to 512, two empty blocks at the end; around it gzip.
 *
 *   0 name 100 │ 100 mode 8 │ 108 uid 8 │ 116 gid 8 │ 124 size 12 │ 136 mtime 12 │ 148 checksum 8 │ 156 type '0' │ 257 "ustar\0" "00" */
#include "rest/tar.h"
#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { BLOCK = 512, GZIP = 31 /* zlib's: a window of 32 KiB, with gzip's head and tail */ };

struct rest_tar { z_stream z; struct rest_json *out; int64_t mtime_s; bool failed; };

static void put(struct rest_tar *tar, const void *data, size_t bytes, int flush)
{
    uint8_t room[16384];
    tar->z.next_in = (Bytef *)(uintptr_t)data;
    tar->z.avail_in = (uInt)bytes;
    int code;
    do {
        tar->z.next_out = room;
        tar->z.avail_out = sizeof(room);
        code = deflate(&tar->z, flush);
        rest_json_put(tar->out, (const char *)room, sizeof(room) - tar->z.avail_out);
    } while (code == Z_OK && (tar->z.avail_in > 0 || tar->z.avail_out == 0));
    tar->failed |= (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) || rest_json_failed(tar->out);
}

struct rest_tar *rest_tar_begin(struct rest_json *out, int64_t mtime_s)
{
    struct rest_tar *tar = calloc(1, sizeof(*tar));
    if (tar == NULL) return NULL;
    tar->out = out;
    tar->mtime_s = mtime_s;
    if (deflateInit2(&tar->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) == Z_OK) return tar;
    free(tar);
    return NULL;
}

void rest_tar_file(struct rest_tar *tar, const char *name, const char *data, size_t bytes)
{
    char head[BLOCK] = { 0 }, number[24];
    unsigned sum = 0;
    tar->failed |= strlen(name) > 99 || bytes >= UINT32_MAX;
    if (tar->failed) return;
    memcpy(head, name, strlen(name));
    memcpy(head + 100, "0000644", 8);
    memcpy(head + 108, "0000000", 8);
    memcpy(head + 116, "0000000", 8);
    snprintf(number, sizeof(number), "%011zo", bytes);
    memcpy(head + 124, number, 12);
    snprintf(number, sizeof(number), "%011llo", (unsigned long long)tar->mtime_s);
    memcpy(head + 136, number, 12);
    memset(head + 148, ' ', 8);
    head[156] = '0';
    memcpy(head + 257, "ustar\00000", 8);
    for (size_t i = 0; i < BLOCK; i++) sum += (uint8_t)head[i];
    snprintf(number, sizeof(number), "%06o", sum);
    memcpy(head + 148, number, 7);
    put(tar, head, BLOCK, Z_NO_FLUSH);
    put(tar, data, bytes, Z_NO_FLUSH);
    memset(head, 0, sizeof(head));
    put(tar, head, (BLOCK - bytes % BLOCK) % BLOCK, Z_NO_FLUSH);
}

bool rest_tar_end(struct rest_tar *tar)
{
    const char zeros[2 * BLOCK] = { 0 };
    put(tar, zeros, sizeof(zeros), Z_FINISH);
    const bool good = !tar->failed;
    deflateEnd(&tar->z);
    free(tar);
    return good;
}
