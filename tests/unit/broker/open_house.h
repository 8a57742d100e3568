/* A broker as a whole on a real disk, in a directory of the test's own. */
#ifndef OT_OPEN_HOUSE_H
#define OT_OPEN_HOUSE_H

#include "broker/broker.h"

#include "base/os.h"
#include "base/util.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

struct house {
    char root[256], dirs[1024];
    struct ot_exec_pool *io, *flush;
    struct ot_exec_thread *background, *coord, *door;
    struct ot_pool *decode;
    struct ot_metrics *metrics;                /* a series that is not given back is a leak that the sanitizer tells */
    struct broker_config_store *config;
    struct broker *broker;
    int node_id;
    enum ot_err err;
    struct ot_io *disk;                        /* NULL: the real one */
    uint32_t start_wait_ms;
};

static const struct broker_listener listener = { "PLAINTEXT", "127.0.0.1", NULL, 9092, 0, "PLAINTEXT" };

static inline void set(struct house *house, const char *key, const char *value)
{
    char text[300];
    if (broker_config_set(house->config, BROKER_SOURCE_FLAG, "test", key, value, text, sizeof text) != OT_OK) {
        fail_msg("%s", text);
    }
}

static inline void start(struct house *house)
{
    char node[16];
    assert_int_equal(broker_config_store_new(&house->config), OT_OK);
    set(house, "log.dirs", house->dirs);
    snprintf(node, sizeof node, "%d", house->node_id);
    set(house, "node.id", node);
    set(house, "ottla.disk.reserve.bytes", "0");
    assert_int_equal(ot_exec_pool_start("io", 2, &house->io), OT_OK);
    assert_int_equal(ot_exec_pool_start("flush", 1, &house->flush), OT_OK);
    assert_int_equal(ot_exec_thread_start("background", &house->background), OT_OK);
    assert_int_equal(ot_exec_thread_start("coord", &house->coord), OT_OK);
    assert_int_equal(ot_exec_thread_start("door", &house->door), OT_OK);
    house->metrics = ot_metrics_new(1000);
    house->decode = ot_pool_new("decode", 64 << 20, 0);
    struct broker_setup setup = { .io = house->disk == NULL ? ot_io_real() : house->disk, .openings_max = 1, .start_wait_ms = house->start_wait_ms, .config = house->config, .io_exec = ot_exec_pool_exec(house->io), .flush_exec = ot_exec_pool_exec(house->flush),
        .background_exec = ot_exec_thread_exec(house->background), .coord_exec = ot_exec_thread_exec(house->coord), .decode_pool = house->decode, .metrics = house->metrics,
        .listeners = &listener, .listener_count = 1 };
    house->broker = NULL;
    house->err = broker_open(&setup, &house->broker);
}

static inline void stop(struct house *house)
{
    if (house->config == NULL) {
        return;
    }
    if (house->err == OT_OK) {
        broker_stop(house->broker);
        broker_close(house->broker);
    }
    ot_exec_thread_stop(house->door);
    ot_exec_thread_stop(house->coord);
    ot_exec_thread_stop(house->background);
    ot_exec_pool_stop(house->io);
    ot_exec_pool_stop(house->flush);
    ot_pool_free(house->decode);
    ot_metrics_free(house->metrics);
    broker_config_store_free(house->config);
    house->config = NULL;
}

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        char inner[4096];
        struct stat stat;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (lstat(inner, &stat) == 0 && S_ISDIR(stat.st_mode)) {
            remove_tree(inner);
        } else {
            unlink(inner);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    rmdir(path);
}

static inline int setup(void **state)
{
    struct house *house = calloc(1, sizeof *house);
    const char *tmp = getenv("TMPDIR");
    snprintf(house->root, sizeof house->root, "%s/ottla-open-XXXXXX", tmp == NULL ? "/tmp" : tmp);
    if (mkdtemp(house->root) == NULL) {
        return -1;
    }
    snprintf(house->dirs, sizeof house->dirs, "%s/a", house->root);
    house->node_id = 1;
    *state = house;
    return 0;
}

static inline int teardown(void **state)
{
    struct house *house = *state;
    stop(house);
    remove_tree(house->root);
    free(house);
    return 0;
}

/* ---- calls, waited for */

struct waited { pthread_mutex_t mutex; pthread_cond_t changed; bool done; };

static inline void wake(struct waited *waited)
{
    pthread_mutex_lock(&waited->mutex);
    waited->done = true;
    pthread_cond_signal(&waited->changed);
    pthread_mutex_unlock(&waited->mutex);
}

static inline void wait_for(struct waited *waited)
{
    pthread_mutex_lock(&waited->mutex);
    while (!waited->done) {
        pthread_cond_wait(&waited->changed, &waited->mutex);
    }
    pthread_mutex_unlock(&waited->mutex);
}

#endif
