#include "disk.h"
#include "mutations.h"
#include "base/map.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum sim_mutation sim_mutation;

#define BLOCK 4096u
#define SECTOR 512u
#define INODE_BYTES_MAX (48u << 20)        /* address space per file; touched only as far as used */
#define FDS_MAX 4096

struct inode {
    uint32_t links, opens, maps;
    bool is_dir, locked, short_written;
    uint8_t *seen, *platter;           /* INODE_BYTES_MAX each, reserved */
    uint64_t seen_bytes, platter_bytes, reserved_bytes;
    int64_t modified_ms, platter_modified_ms;
    uint64_t linked_group;             /* of the change that gave it its name on the platter */
    struct inode *next_all;
};
enum change_kind { LINK, UNLINK, MOVE };
struct change { struct change *next; enum change_kind kind; char *name, *to /* of a folder's MOVE */; struct inode *inode; uint64_t group; };     /* not on the platter yet, per directory, in order */
struct dir_state { struct change *first, *last; };
struct handle { struct inode *inode; bool used, writable; char *path; };

struct sim_disk {
    struct ot_io io;
    struct ot_rng rng;
    struct sim_faults faults;
    struct ot_map seen, platter;       /* path -> inode */
    struct ot_map changes;             /* directory path -> struct dir_state */
    struct inode *all;
    struct handle handles[FDS_MAX];
    uint64_t calls, off_after, groups;
    bool off, looked_at, sync_failed;
    int64_t wall_ms;
    char broken[64];                   /* the directory that answers nothing but errors; empty: none */
};

static struct sim_disk *disk_of(struct ot_io *io) { return OT_CONTAINER(io, struct sim_disk, io); }

static bool power(struct sim_disk *disk)
{
    if (disk->looked_at) return true;
    if (disk->calls >= disk->off_after) disk->off = true;
    disk->calls++;
    return !disk->off;
}

/* Is the power on, and the directory of this path whole? */
static bool works(struct sim_disk *disk, const char *path)
{
    bool on = power(disk);
    size_t bytes = strlen(disk->broken);
    return on && (bytes == 0 || strncmp(path, disk->broken, bytes) != 0 || (path[bytes] != '/' && path[bytes] != 0));
}

static bool works_fd(struct sim_disk *disk, int fd) { return works(disk, disk->handles[fd].path); }

static bool chance(struct sim_disk *disk, double probability) { return probability > 0 && !disk->looked_at && ot_rng_chance(&disk->rng, probability); }

static void *reserve(void)
{
    void *memory = mmap(NULL, INODE_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    OT_ASSERT(memory != MAP_FAILED);
    return memory;
}

static struct inode *inode_new(struct sim_disk *disk, bool is_dir)
{
    struct inode *inode = calloc(1, sizeof(*inode));
    OT_ASSERT(inode != NULL);
    inode->is_dir = is_dir;
    inode->modified_ms = disk->wall_ms;
    if (!is_dir) {
        inode->seen = reserve();
        inode->platter = reserve();
    }
    inode->next_all = disk->all;
    disk->all = inode;
    return inode;
}

static struct inode *look(const struct ot_map *map, const char *path) { return ot_map_get(map, path, strlen(path)); }

static void put(struct ot_map *map, const char *path, struct inode *inode)
{
    OT_ASSERT(ot_map_put(map, path, strlen(path), inode) == OT_OK);
}

static void parent_of(const char *path, char out[static 1024])
{
    snprintf(out, 1024, "%s", path);
    char *slash = strrchr(out, '/');
    if (slash == NULL) snprintf(out, 1024, ".");
    else if (slash == out) out[1] = 0;
    else *slash = 0;
}

static struct change *note(struct sim_disk *disk, const char *path, enum change_kind kind, struct inode *inode, uint64_t group)
{
    char parent[1024];
    parent_of(path, parent);
    struct dir_state *state = ot_map_get(&disk->changes, parent, strlen(parent));
    if (state == NULL) {
        state = calloc(1, sizeof(*state));
        OT_ASSERT(state != NULL && ot_map_put(&disk->changes, parent, strlen(parent), state) == OT_OK);
    }
    struct change *change = calloc(1, sizeof(*change));
    OT_ASSERT(change != NULL);
    *change = (struct change){ .kind = kind, .name = strdup(path), .inode = inode, .group = group };
    if (state->last != NULL) state->last->next = change;
    else state->first = change;
    state->last = change;
    return change;
}

/* A folder and all that got into it before the move did: what was linked later lies in a new folder of the name, whose names may have been synced before those of the folder around it. */
static void move_tree(struct ot_map *map, const char *from, const char *to, uint64_t group)
{
    char target[1024], child[1024], prefix[1024];
    size_t length = strlen(from);
    snprintf(prefix, sizeof(prefix), "%s/", from);
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < map->count && !again; i++) {
            const struct ot_map_entry *entry = &map->entries[i];
            if (entry->key_bytes <= length + 1 || memcmp(entry->key, prefix, length + 1) != 0) continue;
            if (((const struct inode *)entry->value)->linked_group > group) continue;
            snprintf(child, sizeof(child), "%.*s", (int)entry->key_bytes, (const char *)entry->key);
            snprintf(target, sizeof(target), "%s/%s", to, child + length + 1);
            struct inode *inode = entry->value;
            (void)ot_map_remove(map, child, strlen(child));
            put(map, target, inode);
            again = true;
        }
    }
    struct inode *folder = ot_map_remove(map, from, length);
    if (folder != NULL) put(map, to, folder);
}

static void apply(struct sim_disk *disk, struct change *change)
{
    if (change->kind == LINK) {
        put(&disk->platter, change->name, change->inode);
        change->inode->linked_group = change->group;
    } else if (change->kind == MOVE) {
        move_tree(&disk->platter, change->name, change->to, change->group);
    } else {
        (void)ot_map_remove(&disk->platter, change->name, strlen(change->name));
    }
}

static struct change *pop(struct dir_state *state)
{
    struct change *change = state->first;
    if (change == NULL) return NULL;
    state->first = change->next;
    if (state->first == NULL) state->last = NULL;
    return change;
}

static void change_free(struct change *change)
{
    free(change->name);
    free(change->to);
    free(change);
}

static void apply_group(struct sim_disk *disk, uint64_t group)
{
    for (uint32_t i = 0; i < disk->changes.count; i++) {
        struct dir_state *state = disk->changes.entries[i].value;
        while (state->first != NULL && state->first->group == group) {
            struct change *change = pop(state);
            apply(disk, change);
            change_free(change);
        }
    }
}

uint64_t sim_disk_used_bytes(const struct sim_disk *disk)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < disk->seen.count; i++) {
        const struct inode *inode = disk->seen.entries[i].value;
        if (!inode->is_dir) bytes += OT_MAX((inode->seen_bytes + BLOCK - 1) / BLOCK * BLOCK, inode->reserved_bytes);
    }
    return bytes;
}

/* Room for growing one file to bytes? */
static bool room(struct sim_disk *disk, const struct inode *inode, uint64_t bytes)
{
    if (disk->faults.capacity_bytes == 0) return true;
    uint64_t now = OT_MAX((inode->seen_bytes + BLOCK - 1) / BLOCK * BLOCK, inode->reserved_bytes);
    if (bytes <= now) return true;
    return sim_disk_used_bytes(disk) - now + (bytes + BLOCK - 1) / BLOCK * BLOCK <= disk->faults.capacity_bytes;
}

static struct inode *of_fd(struct sim_disk *disk, int fd)
{
    OT_ASSERT(fd >= 3 && fd < FDS_MAX && disk->handles[fd].used);
    return disk->handles[fd].inode;
}

/* ---- the table ---- */

static enum ot_err sim_open(struct ot_io *io, const char *path, int flags, int *fd_out)
{
    struct sim_disk *disk = disk_of(io);
    *fd_out = -1;
    if (!works(disk, path) || chance(disk, disk->faults.open_error)) return OT_ERR_IO;
    struct inode *inode = look(&disk->seen, path);
    if (inode != NULL && inode->is_dir) return OT_ERR_IO;
    if (inode != NULL && (flags & OT_IO_EXCLUSIVE)) return OT_ERR_EXISTS;
    if (inode == NULL) {
        char parent[1024];
        if (!(flags & OT_IO_CREATE)) return OT_ERR_NOT_FOUND;
        parent_of(path, parent);
        struct inode *dir = look(&disk->seen, parent);
        if (dir == NULL || !dir->is_dir) return OT_ERR_NOT_FOUND;
        inode = inode_new(disk, false);
        put(&disk->seen, path, inode);
        (void)note(disk, path, LINK, inode, ++disk->groups);
    }
    if ((flags & OT_IO_TRUNCATE) && inode->seen_bytes > 0) {
        memset(inode->seen, 0, inode->seen_bytes);
        inode->seen_bytes = inode->reserved_bytes = 0;
    }
    for (int fd = 3; fd < FDS_MAX; fd++) {
        if (disk->handles[fd].used) continue;
        disk->handles[fd] = (struct handle){ .inode = inode, .used = true, .writable = (flags & OT_IO_WRITE) != 0, .path = strdup(path) };
        inode->opens++;
        *fd_out = fd;
        return OT_OK;
    }
    return OT_ERR_NO_MEMORY;
}

static void sim_close(struct ot_io *io, int fd)
{
    struct sim_disk *disk = disk_of(io);
    if (fd < 0) return;
    struct inode *inode = of_fd(disk, fd);
    inode->opens--;
    inode->locked = false;
    free(disk->handles[fd].path);
    disk->handles[fd] = (struct handle){ 0 };
}

static enum ot_err sim_pwritev(struct ot_io *io, int fd, const struct iovec *iov, int iov_count, uint64_t pos, size_t *written_out)
{
    struct sim_disk *disk = disk_of(io);
    struct inode *inode = of_fd(disk, fd);
    size_t total = 0, done = 0;
    *written_out = 0;
    for (int i = 0; i < iov_count; i++) total += iov[i].iov_len;
    if (!works_fd(disk, fd) || chance(disk, disk->faults.write_error)) return OT_ERR_IO;
    OT_ASSERT(disk->handles[fd].writable);
    size_t asked = total;
    if (chance(disk, disk->faults.short_write) && total > 1) total = 1 + ot_rng_below(&disk->rng, total - 1);
    OT_ASSERT(pos + total <= INODE_BYTES_MAX);
    if (!room(disk, inode, pos + total)) {
        uint64_t fits = total;                             /* a full disk takes what fits, by blocks */
        while (fits > 0 && !room(disk, inode, pos + fits)) {
            uint64_t end = (pos + fits - 1) / BLOCK * BLOCK;
            fits = end > pos ? end - pos : 0;
        }
        if (fits == 0) return OT_ERR_NO_SPACE;
        total = fits;
    }
    for (int i = 0; i < iov_count && done < total; i++) {
        size_t bytes = OT_MIN(iov[i].iov_len, total - done);
        memcpy(inode->seen + pos + done, iov[i].iov_base, bytes);
        done += bytes;
    }
    inode->seen_bytes = OT_MAX(inode->seen_bytes, pos + done);
    inode->modified_ms = disk->wall_ms;
    inode->short_written = done < asked;       /* and stays so if the rest finds no room */
    *written_out = done;
    return OT_OK;
}

static enum ot_err sim_pread(struct ot_io *io, int fd, void *data, size_t bytes, uint64_t pos, size_t *got_out)
{
    struct sim_disk *disk = disk_of(io);
    struct inode *inode = of_fd(disk, fd);
    *got_out = 0;
    if (!works_fd(disk, fd) || chance(disk, disk->faults.read_error)) return OT_ERR_IO;
    if (pos >= inode->seen_bytes) return OT_OK;
    bytes = OT_MIN(bytes, inode->seen_bytes - pos);
    if (bytes > 1 && chance(disk, disk->faults.short_read)) bytes = 1 + ot_rng_below(&disk->rng, bytes - 1);
    memcpy(data, inode->seen + pos, bytes);
    *got_out = bytes;
    return OT_OK;
}

static void settle(struct inode *inode)
{
    uint64_t bytes = OT_MAX(inode->seen_bytes, inode->platter_bytes);
    memcpy(inode->platter, inode->seen, bytes);
    inode->platter_bytes = inode->seen_bytes;
    inode->platter_modified_ms = inode->modified_ms;
}

/* Seeded bugs: steps that the code under test left out. */
static bool lies(const struct sim_disk *disk, int fd)
{
    const char *path = disk->handles[fd].path;
    size_t length = strlen(path);
    if (sim_mutation == SIM_BUG_ACK_BEFORE_FLUSH) return length > 4 && strcmp(path + length - 4, ".log") == 0;
    return sim_mutation == SIM_BUG_NO_EPOCH_SYNC && strstr(path, "leader-epoch-checkpoint") != NULL;
}

static enum ot_err sim_fdatasync(struct ot_io *io, int fd)
{
    struct sim_disk *disk = disk_of(io);
    if (!works_fd(disk, fd)) return OT_ERR_IO;
    if (chance(disk, disk->faults.sync_error)) {
        disk->sync_failed = true;      /* the pages count as clean now and are not on the platter: a second sync would lie */
        return OT_ERR_IO;
    }
    if (!lies(disk, fd)) settle(of_fd(disk, fd));
    return OT_OK;
}

static enum ot_err sim_sync_dir(struct ot_io *io, const char *path)
{
    struct sim_disk *disk = disk_of(io);
    if (!works(disk, path) || chance(disk, disk->faults.sync_error)) return OT_ERR_IO;
    if (sim_mutation == SIM_BUG_NO_DIR_SYNC) return OT_OK;
    struct dir_state *state = ot_map_get(&disk->changes, path, strlen(path));
    for (struct change *change; state != NULL && (change = pop(state)) != NULL; change_free(change)) apply(disk, change);
    return OT_OK;
}

static enum ot_err sim_sync_all(struct ot_io *io, const char *path)
{
    struct sim_disk *disk = disk_of(io);
    if (!works(disk, path) || chance(disk, disk->faults.sync_error)) return OT_ERR_IO;
    if (sim_mutation == SIM_BUG_SETTLED_UNSYNCED) return OT_OK;
    for (struct inode *inode = disk->all; inode != NULL; inode = inode->next_all)
        if (!inode->is_dir) settle(inode);
    for (uint64_t group = 1; group <= disk->groups; group++) apply_group(disk, group);
    return OT_OK;
}

static enum ot_err sim_truncate(struct ot_io *io, int fd, uint64_t bytes)
{
    struct sim_disk *disk = disk_of(io);
    struct inode *inode = of_fd(disk, fd);
    if (!works_fd(disk, fd) || chance(disk, disk->faults.write_error)) return OT_ERR_IO;
    OT_ASSERT(bytes <= INODE_BYTES_MAX);
    if (sim_mutation == SIM_BUG_NO_CUT_BACK && inode->short_written) return OT_OK;
    if (bytes > inode->seen_bytes && !room(disk, inode, bytes)) return OT_ERR_NO_SPACE;
    if (bytes < inode->seen_bytes) memset(inode->seen + bytes, 0, inode->seen_bytes - bytes);
    inode->seen_bytes = bytes;
    inode->reserved_bytes = OT_MIN(inode->reserved_bytes, bytes);
    inode->modified_ms = disk->wall_ms;
    return OT_OK;
}

static enum ot_err sim_preallocate(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes, bool keep_size)
{
    struct sim_disk *disk = disk_of(io);
    struct inode *inode = of_fd(disk, fd);
    if (!works_fd(disk, fd) || chance(disk, disk->faults.write_error)) return OT_ERR_IO;
    OT_ASSERT(pos + bytes <= INODE_BYTES_MAX);
    if (!room(disk, inode, pos + bytes)) return OT_ERR_NO_SPACE;
    inode->reserved_bytes = OT_MAX(inode->reserved_bytes, pos + bytes);
    if (!keep_size) inode->seen_bytes = OT_MAX(inode->seen_bytes, pos + bytes);
    return OT_OK;
}

static enum ot_err fill_stat(const struct inode *inode, struct ot_io_stat *out)
{
    *out = (struct ot_io_stat){ inode->seen_bytes, inode->modified_ms, inode->is_dir };
    return OT_OK;
}

static enum ot_err sim_fstat(struct ot_io *io, int fd, struct ot_io_stat *out)
{
    struct sim_disk *disk = disk_of(io);
    if (!works_fd(disk, fd)) return OT_ERR_IO;
    return fill_stat(of_fd(disk, fd), out);
}

static enum ot_err sim_stat(struct ot_io *io, const char *path, struct ot_io_stat *out)
{
    struct sim_disk *disk = disk_of(io);
    if (!works(disk, path)) return OT_ERR_IO;
    struct inode *inode = look(&disk->seen, path);
    return inode == NULL ? OT_ERR_NOT_FOUND : fill_stat(inode, out);
}

static void move(struct sim_disk *disk, const char *from, const char *to, struct inode *inode, uint64_t group)
{
    char kept[1024];
    snprintf(kept, sizeof(kept), "%s", from);                  /* from may be a key of the map that shrinks below */
    (void)ot_map_remove(&disk->seen, kept, strlen(kept));
    put(&disk->seen, to, inode);
    (void)note(disk, kept, UNLINK, inode, group);
    (void)note(disk, to, LINK, inode, group);
}

static enum ot_err sim_rename(struct ot_io *io, const char *from, const char *to)
{
    struct sim_disk *disk = disk_of(io);
    if (!works(disk, from) || chance(disk, disk->faults.name_error)) return OT_ERR_IO;
    struct inode *inode = look(&disk->seen, from);
    uint64_t group = ++disk->groups;
    if (inode == NULL) return OT_ERR_NOT_FOUND;
    if (!inode->is_dir) {
        move(disk, from, to, inode, group);
        return OT_OK;
    }
    /* a folder takes what lies in it along; on the platter when its own entry gets there */
    if (look(&disk->seen, to) != NULL) return OT_ERR_EXISTS;
    struct dir_state *state = ot_map_get(&disk->changes, from, strlen(from));
    for (struct change *change; state != NULL && (change = pop(state)) != NULL; change_free(change)) apply(disk, change);     /* simplification: settles its children's names */
    note(disk, from, MOVE, inode, group)->to = strdup(to);
    move_tree(&disk->seen, from, to, UINT64_MAX);
    return OT_OK;
}

static enum ot_err sim_unlink(struct ot_io *io, const char *path)
{
    struct sim_disk *disk = disk_of(io);
    if (!works(disk, path) || chance(disk, disk->faults.name_error)) return OT_ERR_IO;
    struct inode *inode = look(&disk->seen, path);
    if (inode == NULL) return OT_ERR_NOT_FOUND;
    if (inode->is_dir) return OT_ERR_IO;
    (void)note(disk, path, UNLINK, inode, ++disk->groups);
    (void)ot_map_remove(&disk->seen, path, strlen(path));
    return OT_OK;
}

static enum ot_err sim_mkdir(struct ot_io *io, const char *path)
{
    struct sim_disk *disk = disk_of(io);
    char parent[1024];
    if (!works(disk, path) || chance(disk, disk->faults.name_error)) return OT_ERR_IO;
    if (look(&disk->seen, path) != NULL) return OT_ERR_EXISTS;
    parent_of(path, parent);
    if (strcmp(parent, "/") != 0 && look(&disk->seen, parent) == NULL) return OT_ERR_NOT_FOUND;
    struct inode *inode = inode_new(disk, true);
    put(&disk->seen, path, inode);
    (void)note(disk, path, LINK, inode, ++disk->groups);
    return OT_OK;
}

static bool has_children(const struct sim_disk *disk, const char *path)
{
    size_t length = strlen(path);
    for (uint32_t i = 0; i < disk->seen.count; i++) {
        const struct ot_map_entry *entry = &disk->seen.entries[i];
        if (entry->key_bytes > length + 1 && memcmp(entry->key, path, length) == 0 && entry->key[length] == '/') return true;
    }
    return false;
}

static enum ot_err sim_rmdir(struct ot_io *io, const char *path)
{
    struct sim_disk *disk = disk_of(io);
    if (!works(disk, path) || chance(disk, disk->faults.name_error)) return OT_ERR_IO;
    struct inode *inode = look(&disk->seen, path);
    if (inode == NULL) return OT_ERR_NOT_FOUND;
    if (!inode->is_dir || has_children(disk, path)) return OT_ERR_IO;
    (void)note(disk, path, UNLINK, inode, ++disk->groups);
    (void)ot_map_remove(&disk->seen, path, strlen(path));
    return OT_OK;
}

static enum ot_err sim_list(struct ot_io *io, const char *path, void (*each)(void *arg, const struct ot_io_entry *entry), void *arg)
{
    struct sim_disk *disk = disk_of(io);
    if (!works(disk, path) || chance(disk, disk->faults.read_error)) return OT_ERR_IO;
    struct inode *inode = look(&disk->seen, path);
    if (inode == NULL || !inode->is_dir) return OT_ERR_NOT_FOUND;
    size_t length = strlen(path), count = 0;
    char (*names)[256] = calloc(disk->seen.count + 1, sizeof(*names));
    bool *dirs = calloc(disk->seen.count + 1, sizeof(*dirs));
    OT_ASSERT(names != NULL && dirs != NULL);
    for (uint32_t i = 0; i < disk->seen.count; i++) {          /* copied first: each may unlink */
        const struct ot_map_entry *entry = &disk->seen.entries[i];
        if (entry->key_bytes <= length + 1 || memcmp(entry->key, path, length) != 0 || entry->key[length] != '/') continue;
        if (memchr(entry->key + length + 1, '/', entry->key_bytes - length - 1) != NULL) continue;
        snprintf(names[count], sizeof(names[0]), "%.*s", (int)(entry->key_bytes - length - 1), (const char *)entry->key + length + 1);
        dirs[count++] = ((struct inode *)entry->value)->is_dir;
    }
    for (size_t i = 0; i < count; i++) {
        struct ot_io_entry entry = { names[i], dirs[i] };
        each(arg, &entry);
    }
    free(names);
    free(dirs);
    return OT_OK;
}

static enum ot_err sim_space(struct ot_io *io, const char *path, struct ot_io_space *out)
{
    struct sim_disk *disk = disk_of(io);
    if (!works(disk, path)) return OT_ERR_IO;
    uint64_t total = disk->faults.capacity_bytes == 0 ? UINT64_C(1) << 40 : disk->faults.capacity_bytes, used = sim_disk_used_bytes(disk);
    *out = (struct ot_io_space){ total, used > total ? 0 : total - used };
    return OT_OK;
}

static enum ot_err sim_map(struct ot_io *io, int fd, uint64_t bytes, bool writable, void **out)
{
    struct sim_disk *disk = disk_of(io);
    (void)writable;
    if (!works_fd(disk, fd)) return OT_ERR_IO;
    OT_ASSERT(bytes <= INODE_BYTES_MAX);
    struct inode *inode = of_fd(disk, fd);
    inode->maps++;
    *out = inode->seen;
    return OT_OK;
}

static void sim_unmap(struct ot_io *io, void *map, uint64_t bytes)
{
    struct sim_disk *disk = disk_of(io);
    (void)bytes;
    for (struct inode *inode = disk->all; inode != NULL; inode = inode->next_all)
        if (inode->seen == map) inode->maps--;
}

static bool sim_is_cached(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes)
{
    (void)pos, (void)bytes, (void)fd;
    return ot_rng_chance(&disk_of(io)->rng, 0.8);
}

static void sim_advice(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes) { (void)io, (void)fd, (void)pos, (void)bytes; }

static enum ot_err sim_lock(struct ot_io *io, const char *path, int *fd_out)
{
    struct sim_disk *disk = disk_of(io);
    enum ot_err err = sim_open(io, path, OT_IO_READ | OT_IO_WRITE | OT_IO_CREATE, fd_out);
    if (err != OT_OK) return err;
    struct inode *inode = of_fd(disk, *fd_out);
    if (inode->locked) {
        disk->handles[*fd_out].used = false;
        free(disk->handles[*fd_out].path);
        inode->opens--;
        *fd_out = -1;
        return OT_ERR_LOCKED;
    }
    inode->locked = true;
    return OT_OK;
}

static const struct ot_io_ops ops = {
    .open = sim_open, .close = sim_close, .pwritev = sim_pwritev, .pread = sim_pread, .fdatasync = sim_fdatasync, .sync_dir = sim_sync_dir,
    .truncate = sim_truncate, .preallocate = sim_preallocate, .fstat = sim_fstat, .stat = sim_stat, .rename = sim_rename, .unlink = sim_unlink,
    .mkdir = sim_mkdir, .rmdir = sim_rmdir, .list = sim_list, .space = sim_space, .map = sim_map, .unmap = sim_unmap, .is_cached = sim_is_cached,
    .drop_cache = sim_advice, .will_need = sim_advice, .lock = sim_lock, .sync_all = sim_sync_all,
};

/* ---- crashes ---- */

struct sim_disk *sim_disk_new(uint64_t seed)
{
    struct sim_disk *disk = calloc(1, sizeof(*disk));
    OT_ASSERT(disk != NULL);
    disk->io.ops = &ops;
    disk->off_after = UINT64_MAX;
    disk->wall_ms = 1750000000000;
    ot_rng_seed(&disk->rng, seed);
    ot_map_init(&disk->seen);
    ot_map_init(&disk->platter);
    ot_map_init(&disk->changes);
    struct inode *root = inode_new(disk, true);
    put(&disk->seen, "/sim", root);
    put(&disk->platter, "/sim", root);
    return disk;
}

static void drop_handles(struct sim_disk *disk)
{
    for (int fd = 3; fd < FDS_MAX; fd++)
        if (disk->handles[fd].used) sim_close(&disk->io, fd);
    for (struct inode *inode = disk->all; inode != NULL; inode = inode->next_all) {
        inode->maps = 0;
        inode->locked = false;
    }
    disk->off = false;
    disk->off_after = UINT64_MAX;
}

static void drop_changes(struct sim_disk *disk)
{
    for (uint32_t i = 0; i < disk->changes.count; i++) {
        struct dir_state *state = disk->changes.entries[i].value;
        for (struct change *change; (change = pop(state)) != NULL;) change_free(change);
        free(state);
    }
    ot_map_free(&disk->changes);
    ot_map_init(&disk->changes);
}

void sim_disk_crash_process(struct sim_disk *disk) { drop_handles(disk); }

/* Of each block that differs: old, new, or a torn mix. The size that comes up is between the two. */
static void crash_content(struct sim_disk *disk, struct inode *inode)
{
    uint64_t bytes = OT_MAX(inode->seen_bytes, inode->platter_bytes), kept = inode->platter_bytes;
    if (inode->seen_bytes != inode->platter_bytes && ot_rng_chance(&disk->rng, 0.6)) {
        uint64_t low = OT_MIN(inode->seen_bytes, inode->platter_bytes), span = bytes - low;
        kept = ot_rng_chance(&disk->rng, 0.5) ? inode->seen_bytes : low + ot_rng_below(&disk->rng, span + 1);
    }
    uint32_t mode = (uint32_t)ot_rng_below(&disk->rng, 3);     /* whole files tend to fare alike */
    for (uint64_t pos = 0; pos < bytes; pos += BLOCK) {
        uint64_t end = OT_MIN(pos + BLOCK, bytes);
        if (memcmp(inode->seen + pos, inode->platter + pos, end - pos) == 0) continue;
        double survives = mode == 0 ? 0.1 : mode == 1 ? 0.5 : 0.9;
        if (ot_rng_chance(&disk->rng, survives)) memcpy(inode->platter + pos, inode->seen + pos, end - pos);
        else if (ot_rng_chance(&disk->rng, 0.2))
            for (uint64_t at = pos; at < end; at += SECTOR)
                if (ot_rng_chance(&disk->rng, 0.5)) memcpy(inode->platter + at, inode->seen + at, OT_MIN(SECTOR, end - at));
    }
    if (kept < bytes) memset(inode->platter + kept, 0, bytes - kept);
    memcpy(inode->seen, inode->platter, bytes);
    inode->seen_bytes = inode->platter_bytes = kept;
    inode->reserved_bytes = 0;
    inode->modified_ms = inode->platter_modified_ms != 0 ? inode->platter_modified_ms : inode->modified_ms;
}

void sim_disk_crash_machine(struct sim_disk *disk)
{
    drop_handles(disk);
    /* unsynced names: a prefix of all changes, in the order in which they were made (a journalling file system) */
    uint64_t upto = disk->groups == 0 ? 0 : ot_rng_below(&disk->rng, disk->groups + 1);
    if (ot_rng_chance(&disk->rng, 0.3)) upto = 0;
    for (uint64_t group = 1; group <= upto; group++) apply_group(disk, group);
    drop_changes(disk);
    ot_map_free(&disk->seen);
    ot_map_init(&disk->seen);
    for (uint32_t i = 0; i < disk->platter.count; i++) {
        const struct ot_map_entry *entry = &disk->platter.entries[i];
        char path[1024], parent[1024];
        snprintf(path, sizeof(path), "%.*s", (int)entry->key_bytes, (const char *)entry->key);
        parent_of(path, parent);
        if (strcmp(parent, "/") == 0 || ot_map_get(&disk->platter, parent, strlen(parent)) != NULL) put(&disk->seen, path, entry->value);
    }
    ot_map_free(&disk->platter);           /* what lay in a folder that is not there is gone for good */
    ot_map_init(&disk->platter);
    for (uint32_t i = 0; i < disk->seen.count; i++)
        OT_ASSERT(ot_map_put(&disk->platter, disk->seen.entries[i].key, disk->seen.entries[i].key_bytes, disk->seen.entries[i].value) == OT_OK);
    for (struct inode *inode = disk->all; inode != NULL; inode = inode->next_all)
        if (!inode->is_dir) crash_content(disk, inode);
    disk->sync_failed = false;
}

bool sim_disk_flip(struct sim_disk *disk, const char *path, uint64_t pos, uint8_t bit)
{
    struct inode *inode = look(&disk->seen, path);
    if (inode == NULL || inode->is_dir || pos >= inode->seen_bytes) return false;
    inode->seen[pos] ^= (uint8_t)(1u << bit);
    inode->platter[pos] = inode->seen[pos];
    return true;
}

struct ot_io *sim_disk_io(struct sim_disk *disk) { return &disk->io; }
void sim_disk_faults(struct sim_disk *disk, const struct sim_faults *faults) { disk->faults = *faults; }
void sim_disk_power_off_after(struct sim_disk *disk, uint64_t calls) { disk->off_after = calls == UINT64_MAX ? UINT64_MAX : disk->calls + calls; }
void sim_disk_break_dir(struct sim_disk *disk, const char *path) { snprintf(disk->broken, sizeof(disk->broken), "%s", path == NULL ? "" : path); }
void sim_disk_look(struct sim_disk *disk, bool begins) { disk->looked_at = begins; }
bool sim_disk_is_off(const struct sim_disk *disk) { return disk->off; }
bool sim_disk_sync_failed(const struct sim_disk *disk) { return disk->sync_failed; }
uint64_t sim_disk_calls(const struct sim_disk *disk) { return disk->calls; }
void sim_disk_set_wall(struct sim_disk *disk, int64_t wall_ms) { disk->wall_ms = wall_ms; }

static bool is_hex(const uint8_t *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f'))) return false;
    return true;
}

uint64_t sim_disk_hash(const struct sim_disk *disk)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < disk->seen.count; i++) {
        const struct ot_map_entry *entry = &disk->seen.entries[i];
        const struct inode *inode = entry->value;
        size_t name_bytes = entry->key_bytes;
        for (size_t at = 0; at + 32 < entry->key_bytes; at++)          /* a folder on its way out has a name of chance behind its dot */
            if (entry->key[at] == '.' && is_hex(entry->key + at + 1, 32) && at < name_bytes) name_bytes = at;
        uint64_t hash = ot_hash64(entry->key, name_bytes, 7);
        if (!inode->is_dir) hash = ot_hash64(inode->seen, inode->seen_bytes, hash);
        sum += hash;
    }
    return sum;
}

void sim_disk_free(struct sim_disk *disk)
{
    drop_handles(disk);
    drop_changes(disk);
    for (struct inode *inode = disk->all; inode != NULL;) {
        struct inode *next = inode->next_all;
        if (inode->seen != NULL) munmap(inode->seen, INODE_BYTES_MAX);
        if (inode->platter != NULL) munmap(inode->platter, INODE_BYTES_MAX);
        free(inode);
        inode = next;
    }
    ot_map_free(&disk->seen);
    ot_map_free(&disk->platter);
    ot_map_free(&disk->changes);
    free(disk);
}
