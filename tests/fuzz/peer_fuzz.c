/* What other brokers send: requests to the coordinator (PeerAsk bodies) and coordinator messages (CoordPeerMessage), to a machine that leads a small cluster alone or is one of three.
 * The input is a mode and then pieces: a byte that says what it is, two for its length, and that many. Whatever comes, every request is answered once, and the value stays one
 * whose rows decode and agree. */
#include "base/log.h"
#include "base/util.h"
#include "base/wire/apis.h"
#include "broker/peer_ask.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 64, NODE = 1 };

struct asked { struct coord_request request; bool open; };
struct machine { struct coord_pages *pages; struct coord *coord; uint64_t now_us; struct asked asked[PIECES_MAX + 4]; uint32_t asked_count, owed; struct ot_arena arena; };

static void step(struct machine *machine, struct coord_in in)
{
    struct coord_out out;
    uint64_t stored = 0;
    in.now_us = machine->now_us;
    coord_step(machine->coord, &in);
    while (coord_next(machine->coord, &out)) {
        if (out.kind == COORD_STORE || out.kind == COORD_SNAPSHOT) stored = out.token;
        if (out.kind == COORD_REPLY) {
            struct asked *asked = OT_CONTAINER(out.request, struct asked, request);
            OT_ASSERT(asked->open);
            asked->open = false;
            machine->owed--;
        }
    }
    if (stored != 0) step(machine, (struct coord_in){ .kind = COORD_STORED, .token = stored });
}

static void ask(struct machine *machine, const struct coord_request *request)
{
    struct asked *asked = &machine->asked[machine->asked_count++];
    asked->request = *request;
    asked->open = true;
    machine->owed++;
    step(machine, (struct coord_in){ .kind = COORD_REQUEST, .request = &asked->request });
}

static void begin(struct machine *machine, bool alone)
{
    struct coord_disk_image image;
    char text[200];
    struct coord_config config = { .node_id = NODE, .dir_id = { { 1 } }, .cluster_id = ot_str_of("c"), .voter_host = ot_str_of("h"), .voter_port = 1, .min_isr_default = 1,
        .partitions_max = 1000, .brokers_max = 16, .delta_bytes_max = 65536, .snapshot_after_bytes = 1 << 20, .session_us = 9000000, .history_bytes = 65536 };
    for (int32_t i = 0; i < 3 && !alone; i++) config.voters[config.voter_count++] = (struct coord_listed_voter){ i + 1, ot_str_of("h"), 1 };
    memset(machine, 0, sizeof *machine);
    ot_arena_init(&machine->arena, 16 << 20);
    machine->pages = coord_pages_new(16 << 20);
    machine->now_us = 1000;
    coord_image_init(&image, machine->pages);
    OT_ASSERT(coord_new(&config, &image, 7, &machine->coord, text, sizeof text) == OT_OK);
    coord_image_free(&image);
    step(machine, (struct coord_in){ .kind = COORD_TICK });
    if (!alone) return;
    const struct ot_uuid dir = { { 1 } };
    ask(machine, &(struct coord_request){ .ask = COORD_ASK_REGISTER, .if_version = -1, .u.register_ = { .broker_id = NODE, .incarnation_id = { { 2 } }, .dir_ids = &dir, .dir_count = 1,
        .rack = { .null = true } } });
    const int64_t epoch = machine->asked[0].request.version;
    ask(machine, &(struct coord_request){ .ask = COORD_ASK_HEARTBEAT, .if_version = -1, .u.heartbeat = { NODE, epoch, epoch, false, false } });
    ask(machine, &(struct coord_request){ .ask = COORD_ASK_CREATE_TOPIC, .if_version = -1, .u.topic = { .name = ot_str_of("t"), .partition_count = 2, .replication_factor = 1 } });
    OT_ASSERT(machine->owed == 0 && machine->asked[2].request.error == OT_OK);
}

static void take(struct machine *machine, uint8_t what, const uint8_t *data, size_t bytes)
{
    const int32_t sender = what / 3 % 4;
    if (what % 3 == 2) {
        machine->now_us += bytes * 100000;
        step(machine, (struct coord_in){ .kind = COORD_TICK });
    } else if (what % 3 == 1) {
        step(machine, (struct coord_in){ .kind = COORD_MSG, .peer = (uint32_t)sender, .body = { .data = data, .bytes = (uint32_t)bytes } });
    } else {
        struct ot_peer_ask_request in;
        struct coord_request request;
        struct ot_reader reader = ot_reader_over(data, bytes);
        if (ot_wire_decode(ot_api_find(OT_API_PEER_ASK)->request, 0, &reader, &machine->arena, &in, NULL) != OT_OK) return;
        if (broker_peer_ask_read(&in, sender, &machine->arena, &request) == OT_OK) ask(machine, &request);
    }
}

static void end(struct machine *machine)
{
    char text[200];
    const struct coord_value *value = coord_view(machine->coord);
    OT_ASSERT(value->row_count == 0 || coord_rows_check(value, text, sizeof text) == OT_OK);
    step(machine, (struct coord_in){ .kind = COORD_STOP });
    OT_ASSERT(machine->owed == 0);
    coord_free(machine->coord);
    coord_pages_free(machine->pages);
    ot_arena_free(&machine->arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct machine machine;
    size_t at = 1;
    ot_log_set_level(NULL, OT_LOG_ERROR);
    if (size < 1) return 0;
    begin(&machine, (data[0] & 1) == 0);
    for (uint32_t i = 0; i < PIECES_MAX && at + 3 <= size; i++) {
        const size_t bytes = OT_MIN((size_t)ot_load_u16(data + at + 1), size - at - 3);
        take(&machine, data[at], data + at + 3, bytes);
        at += 3 + bytes;
    }
    end(&machine);
    return 0;
}
