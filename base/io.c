/* Shorthands over any struct ot_io. */
#include "base/io.h"

#include <stdlib.h>
#include <string.h>

enum ot_err ot_io_write_all(struct ot_io *io, int fd, const void *data, size_t bytes, uint64_t pos)
{
    const uint8_t *at = data;
    while (bytes > 0) {
        const struct iovec iov = {.iov_base = (void *)(uintptr_t)at, .iov_len = bytes};
        size_t written = 0;
        const enum ot_err err = io->ops->pwritev(io, fd, &iov, 1, pos, &written);
        if (err != OT_OK) return err;
        if (written == 0) return OT_ERR_IO; /* a file that takes nothing and names no error: do not spin */
        at += written;
        pos += written;
        bytes -= written;
    }
    return OT_OK;
}

enum ot_err ot_io_read_exact(struct ot_io *io, int fd, void *data, size_t bytes, uint64_t pos)
{
    uint8_t *at = data;
    while (bytes > 0) {
        size_t got = 0;
        const enum ot_err err = io->ops->pread(io, fd, at, bytes, pos, &got);
        if (err != OT_OK) return err;
        if (got == 0) return OT_ERR_SHORT;
        at += got;
        pos += got;
        bytes -= got;
    }
    return OT_OK;
}

/* Reads to the end, growing, since files of /proc say they are empty. One byte is kept free for the zero. */
static enum ot_err read_growing(struct ot_io *io, int fd, size_t max_bytes, size_t first_cap, char **data, size_t *bytes)
{
    size_t cap = first_cap;
    if ((*data = malloc(cap)) == NULL) return OT_ERR_NO_MEMORY;
    for (;;) {
        size_t got = 0;
        const enum ot_err err = io->ops->pread(io, fd, *data + *bytes, cap - 1 - *bytes, *bytes, &got);
        if (err != OT_OK) return err;
        if (got == 0) return OT_OK;
        *bytes += got;
        if (*bytes > max_bytes) return OT_ERR_TOO_LARGE;
        if (*bytes < cap - 1) continue;
        cap *= 2;
        char *grown = realloc(*data, cap);
        if (grown == NULL) return OT_ERR_NO_MEMORY;
        *data = grown;
    }
}

enum ot_err ot_io_read_file(struct ot_io *io, const char *path, size_t max_bytes, char **data_out, size_t *bytes_out)
{
    int fd = -1;
    char *data = NULL;
    size_t bytes = 0;
    struct ot_io_stat stat;
    enum ot_err err = io->ops->open(io, path, OT_IO_READ, &fd);
    if (err != OT_OK) return err;
    if ((err = io->ops->fstat(io, fd, &stat)) != OT_OK) goto done;
    err = OT_ERR_TOO_LARGE;
    if (stat.bytes > max_bytes) goto done;
    err = read_growing(io, fd, max_bytes, (size_t)stat.bytes + 256, &data, &bytes);
done:
    io->ops->close(io, fd);
    if (err != OT_OK) {
        free(data);
        return err;
    }
    data[bytes] = '\0';
    *data_out = data;
    if (bytes_out != NULL) *bytes_out = bytes;
    return OT_OK;
}

static enum ot_err write_new(struct ot_io *io, const char *path, const void *data, size_t bytes, bool sync)
{
    int fd = -1;
    enum ot_err err = io->ops->open(io, path, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, &fd);
    if (err != OT_OK) return err;
    err = ot_io_write_all(io, fd, data, bytes, 0);
    if (err == OT_OK && sync) err = io->ops->fdatasync(io, fd);
    io->ops->close(io, fd);
    return err;
}

enum ot_err ot_io_replace_file(struct ot_io *io, const char *path, const void *data, size_t bytes, bool sync)
{
    static const char suffix[] = ".tmp";
    const size_t path_bytes = strlen(path);
    char *name = malloc(path_bytes + sizeof(suffix));
    if (name == NULL) return OT_ERR_NO_MEMORY;
    memcpy(name, path, path_bytes);
    memcpy(name + path_bytes, suffix, sizeof(suffix));
    enum ot_err err = write_new(io, name, data, bytes, sync);
    if (err == OT_OK) err = io->ops->rename(io, name, path);
    if (err != OT_OK)
        ot_ignore(io->ops->unlink(io, name), "the first failure is what matters; the next replacement truncates the rest");
    if (err == OT_OK && sync) {
        memcpy(name, path, path_bytes + 1);
        char *slash = strrchr(name, '/');
        if (slash == NULL)
            err = io->ops->sync_dir(io, ".");
        else {
            slash[slash == name] = '\0'; /* "/file" lies in "/" */
            err = io->ops->sync_dir(io, name);
        }
    }
    free(name);
    return err;
}
