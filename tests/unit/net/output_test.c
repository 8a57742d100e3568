/* File ranges: warm, cold, short, and abandoned. */
#include "door.h"

#define FILE_BYTES (6u << 20)

static uint8_t file_byte(uint64_t pos) { return (uint8_t)((pos * 2654435761u) >> 16); }

/* The real disk, but what is cached is ours to say: a chunk is cached once it was read. */
static struct {
    struct ot_io io;
    struct ot_io_ops ops;
    _Atomic uint64_t read_in, dropped;
    _Atomic uint32_t probes;
    bool fail;
    pthread_mutex_t mutex;
    bool cached[(FILE_BYTES >> 20) + 1];   /* the last for what lies behind the end */
} disk;

static bool disk_is_cached(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes)
{
    (void)io, (void)fd;
    atomic_fetch_add(&disk.probes, 1);
    assert_true(bytes <= 1u << 20);
    assert_true(pos >> 20 == (pos + bytes - 1) >> 20);             /* one MiB at a time, aligned */
    pthread_mutex_lock(&disk.mutex);
    const bool cached = disk.cached[pos >> 20];
    pthread_mutex_unlock(&disk.mutex);
    return cached;
}

static enum ot_err disk_pread(struct ot_io *io, int fd, void *data, size_t bytes, uint64_t pos, size_t *got_out)
{
    if (disk.fail) return OT_ERR_IO;
    const enum ot_err err = ot_io_real()->ops->pread(io, fd, data, bytes, pos, got_out);
    atomic_fetch_add(&disk.read_in, *got_out);
    pthread_mutex_lock(&disk.mutex);
    disk.cached[pos >> 20] = true;
    pthread_mutex_unlock(&disk.mutex);
    return err;
}

static void disk_drop_cache(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes)
{
    (void)io, (void)fd, (void)pos;
    atomic_fetch_add(&disk.dropped, bytes);
}

static void file_init(void)
{
    char path[] = "/tmp/ottla-net-XXXXXX";
    door_init();
    memset(&disk, 0, sizeof disk);
    pthread_mutex_init(&disk.mutex, NULL);
    disk.ops = *ot_io_real()->ops;
    disk.ops.is_cached = disk_is_cached;
    disk.ops.pread = disk_pread;
    disk.ops.drop_cache = disk_drop_cache;
    disk.io.ops = &disk.ops;
    door.setup.io = &disk.io;
    door.file = mkstemp(path);
    assert_true(door.file >= 0);
    unlink(path);
    uint8_t *data = malloc(FILE_BYTES);
    for (uint32_t i = 0; i < FILE_BYTES; i++) data[i] = file_byte(i);
    assert_int_equal(pwrite(door.file, data, FILE_BYTES, 0), FILE_BYTES);
    free(data);
}

static void ask_file(int fd, uint32_t pos, uint32_t bytes)
{
    uint8_t ask[9] = { 'f' };
    ot_store_u32(ask + 1, pos);
    ot_store_u32(ask + 5, bytes);
    say_frame(fd, ask, 9);
}

static void hear_file(int fd, uint32_t pos, uint32_t bytes)
{
    uint32_t got = 0;
    uint8_t *data = hear(fd, &got);
    assert_int_equal(got, bytes);
    for (uint32_t i = 0; i < bytes; i++) {
        if (data[i] != file_byte(pos + i)) fail_msg("byte %u differs", i);
    }
    free(data);
}

static void warm_ranges_are_sent_between_memory(void **state)
{
    (void)state;
    file_init();
    door_start();
    const int fd = door_client();
    for (uint32_t i = 0; i < 20; i++) {
        ask_file(fd, i * 1000, 5000 + i * 100000);
        say_text(fd, "e");
    }
    for (uint32_t i = 0; i < 20; i++) {
        hear_file(fd, i * 1000, 5000 + i * 100000);
        hear_text(fd, "e");
    }
    assert_int_equal(atomic_load(&disk.probes), 0);                /* inside the window nobody asks */
    close(fd);
    door_stop();
}

static void cold_ranges_are_read_in_by_an_io_thread_and_dropped_behind(void **state)
{
    (void)state;
    file_init();
    door.cold = true;
    door_start();
    const int fd = door_client();
    ask_file(fd, 123, FILE_BYTES - 123);
    say_text(fd, "e");                     /* its answer waits behind */
    hear_file(fd, 123, FILE_BYTES - 123);
    hear_text(fd, "e");
    const uint64_t read_in = atomic_load(&disk.read_in);           /* the spans meet within a chunk, which counts as cached for the second */
    assert_in_range(read_in, FILE_BYTES - 123 - (1u << 20), FILE_BYTES - 123);
    struct ot_net_stats stats;
    ot_net_stats(door.net, &stats);
    assert_int_equal(stats.cold_read_bytes, read_in);
    /* again: now all is cached, and was not drawn in for us */
    ask_file(fd, 123, FILE_BYTES - 123);
    hear_file(fd, 123, FILE_BYTES - 123);
    assert_int_equal(atomic_load(&disk.read_in), read_in);
    close(fd);
    door_stop();                           /* waits for the drops that are on their way */
    /* all but the last chunk of the first span, whose pin comes with the second */
    assert_in_range(atomic_load(&disk.dropped), read_in - (1u << 20), read_in);
}

static void other_connections_go_on_while_one_is_parked(void **state)
{
    (void)state;
    file_init();
    door.cold = true;
    door.setup.loop_count = 1;
    door_start();
    const int slow = door_client(), other = door_client();
    for (int i = 0; i < 10; i++) {
        memset(disk.cached, 0, sizeof disk.cached);
        ask_file(slow, 0, FILE_BYTES);
        say_text(other, "e");
        hear_text(other, "e");
        hear_file(slow, 0, FILE_BYTES);
    }
    close(slow);
    close(other);
    door_stop();
}

static void a_range_that_turns_out_short_closes_the_connection(void **state)
{
    (void)state;
    for (int cold = 0; cold < 2; cold++) {
        file_init();
        door.cold = cold == 1;
        door_start();
        const int fd = door_client();
        ask_file(fd, FILE_BYTES - 1000, 5000);
        uint8_t head[1004];
        if (hear_bytes(fd, head, sizeof head)) hear_end(fd);       /* never a byte that is not the file's */
        struct ot_net_stats stats;
        ot_net_stats(door.net, &stats);
        assert_int_equal(stats.closed_short_range, 1);
        close(fd);
        door_stop();
    }
}

static void a_disk_error_while_reading_in_closes_the_connection(void **state)
{
    (void)state;
    file_init();
    door.cold = true;
    disk.fail = true;
    door_start();
    const int fd = door_client();
    ask_file(fd, 0, 5000);
    uint8_t head[8];
    assert_false(hear_bytes(fd, head, sizeof head));
    close(fd);
    door_stop();
}

static void pins_are_released_once_when_the_peer_leaves_in_the_middle(void **state)
{
    (void)state;
    file_init();
    for (uint32_t i = 0; i < FILE_BYTES >> 20; i += 2) disk.cached[i] = true;
    door.cold = true;
    door_start();
    for (int round = 0; round < 40; round++) {
        const int fd = door_client();
        for (int i = 0; i < 10; i++) ask_file(fd, (uint32_t)i * 1000, 3u << 20);
        uint8_t some[100000];
        assert_true(hear_bytes(fd, some, (size_t)(1 + round * 2000)));
        close(fd);
    }
    door_stop();                           /* checks the count of pins; releasing one twice aborts */
}

static void a_reader_without_progress_is_closed_and_its_pins_freed(void **state)
{
    (void)state;
    file_init();
    door.setup.progress_us = 40000;
    door_start();
    const int fd = door_client();
    for (int i = 0; i < 10; i++) ask_file(fd, 0, FILE_BYTES);
    until(&door.closed, 1);
    struct ot_net_stats stats;
    ot_net_stats(door.net, &stats);
    assert_int_equal(stats.closed_no_progress, 1);
    assert_int_equal(atomic_load(&door.pins_out), 0);
    close(fd);
    door_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_ranges_are_sent_between_memory),
        cmocka_unit_test(cold_ranges_are_read_in_by_an_io_thread_and_dropped_behind),
        cmocka_unit_test(other_connections_go_on_while_one_is_parked),
        cmocka_unit_test(a_range_that_turns_out_short_closes_the_connection),
        cmocka_unit_test(a_disk_error_while_reading_in_closes_the_connection),
        cmocka_unit_test(pins_are_released_once_when_the_peer_leaves_in_the_middle),
        cmocka_unit_test(a_reader_without_progress_is_closed_and_its_pins_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
