/* What link.c and link_io.c share. Nobody else includes this. */
#ifndef OT_NET_LINK_INNER_H
#define OT_NET_LINK_INNER_H

#include "base/net/link.h"
#include "base/net/loop.h"
#include "base/net/transport.h"
#include "base/util.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

enum { LINK_ADDRESSES_MAX = 8, LINK_SCRATCH_BYTES = 65536, LINK_REQUEST_HEAD = 12 /* size, key, version, correlation id */, LINK_GREETING_BYTES = 2048 };

struct ot_links {
    struct ot_loop *loop;
    struct ot_exec *exec, *resolve_exec;
    struct ot_rng rng;                     /* of the loop's thread */
    pthread_mutex_t mutex; pthread_cond_t changed;
    uint32_t live;                         /* links not yet gone */
    uint8_t scratch[LINK_SCRATCH_BYTES];
};

enum link_state { LINK_IDLE, LINK_RESOLVING, LINK_CONNECTING, LINK_GREETING, LINK_UP };

/* Sent, and not answered. call NULL: nobody waits for it any more. */
struct link_slot { int32_t id; struct ot_link_call *call; int64_t sent_us; };

struct ot_link {
    struct ot_links *links;
    struct ot_link_setup setup;
    char *host;
    struct ot_task open_task, close_task, resolve_task, resolved_task, again_task;
    struct ot_timer timer;
    enum link_state state;
    _Atomic bool up;
    bool closing, resolving, again;        /* again: again_task is posted */
    int64_t due_us;                        /* connecting: give up; idle: not before */
    int64_t heard_us, up_since_us;
    int64_t pause_us;                      /* the next one */
    struct { struct sockaddr_storage name; socklen_t bytes; } addresses[LINK_ADDRESSES_MAX];
    uint32_t address_count, address_at;
    struct { struct sockaddr_storage name; socklen_t bytes; } was_up;  /* bytes 0: none was */
    struct ot_loop_fd event;
    struct ot_transport transport;
    bool readable, writable;
    int32_t last_id;
    struct ot_link_call *waiting, *waiting_last;
    uint32_t waiting_count;
    struct link_slot *slots; uint32_t slot_count;          /* oldest first */
    struct ot_buf **out; uint32_t out_count, out_first, out_pos;       /* a ring of calls_max + 1: requests that are being sent; out_pos of the first one is gone */
    /* input: 8 bytes of head, then a frame or what is thrown away */
    uint8_t head[8]; uint32_t head_got;
    struct ot_buf *frame; uint32_t frame_got; int32_t frame_id;
    uint32_t skip;
    uint8_t greet_memory[OT_LINK_GREET_BYTES];
    struct ot_link_call greet_call;
};

static inline int64_t link_now(const struct ot_link *link) { return ot_exec_now_us(link->links->exec); }

/* link.c */
void link_connected(struct ot_link *link);
void link_lost(struct ot_link *link, enum ot_link_event why);
void link_answer(struct ot_link *link, struct ot_link_call *call, enum ot_err error, struct ot_buf *answer);
struct link_slot *link_slot_find(struct ot_link *link, int32_t id);
void link_slot_answered(struct ot_link *link, int32_t id, enum ot_err error, struct ot_buf *answer);
void link_resolved(struct ot_link *link, enum ot_err err);

/* link_io.c */
enum ot_err link_numeric(struct ot_link *link);            /* NOT_FOUND: a name */
void link_resolve(struct ot_link *link);                   /* blocks; on resolve_exec */
void link_connect(struct ot_link *link);
void link_put(struct ot_link *link, struct ot_buf *request);   /* into the output ring; sent by link_run */
void link_run(struct ot_link *link);                       /* sends and receives what can be */
void link_close_fd(struct ot_link *link);

#endif
