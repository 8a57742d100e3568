/* A voter's folder with anything in it: the first two bytes say how the input is cut into meta.term, meta.journal and a snapshot, a third how it is mended: frames get
 * right checksums and chains, so that the fuzzer reaches what lies behind them. Whatever is there, opening answers, a second opening answers the same,
 * and a coordinator that starts on it begins a term or halts. */
#include "base/log.h"
#include "base/util.h"
#include "broker/journal_file.h"
#include "memory_io.h"

#define DIR_PATH "/m"

/* Give every block-aligned record a right frame: length within the input, number and chain following. */
static void mend(uint8_t *data, size_t bytes, uint32_t magic)
{
    uint64_t sequence = 0, chain = 0;
    for (size_t pos = 0; pos + BROKER_JOURNAL_BLOCK <= bytes;) {
        struct frame frame = { .kind = (uint8_t)(data[pos + 8] % 6), .payload_bytes = ot_load_u32(data + pos + 12), .sequence = sequence++, .chain_hash = chain };
        if (frame_blocks(frame.payload_bytes) > bytes - pos || frame.payload_bytes > bytes) {
            frame.payload_bytes = data[pos + 15];
        }
        frame_put(data + pos, magic, &frame);
        chain = frame_chain(data + pos, &frame);
        pos += (size_t)frame_blocks(frame.payload_bytes);
    }
}

/* Blocks are sparse in the input: each 200 bytes of it become a block, so that small inputs hold many records. */
static uint8_t *spread(const uint8_t *data, size_t bytes, size_t *out_bytes)
{
    size_t blocks = (bytes + 199) / 200;
    uint8_t *out = calloc(OT_MAX(blocks, 1u), BROKER_JOURNAL_BLOCK);
    for (size_t i = 0; i < blocks; i++) {
        memcpy(out + i * BROKER_JOURNAL_BLOCK, data + i * 200, OT_MIN(bytes - i * 200, 200u));
    }
    *out_bytes = blocks * BROKER_JOURNAL_BLOCK;
    return out;
}

static void put(struct memory_io *disk, const char *name, const uint8_t *data, size_t bytes, uint32_t magic, bool mended)
{
    char path[64];
    size_t spread_bytes = bytes;
    uint8_t *out = magic == 0 ? memcpy(malloc(bytes + 1), data, bytes) : spread(data, bytes, &spread_bytes);
    if (mended && magic != 0) {
        mend(out, spread_bytes, magic);
    }
    snprintf(path, sizeof path, DIR_PATH "/%s", name);
    if (bytes > 0) {
        (void)memory_io_put(disk, path, out, spread_bytes);
    }
    free(out);
}

static void drain(struct coord *coord)
{
    struct coord_out out;
    for (int turns = 0; turns < 20; turns++) {
        uint64_t token = 0;
        while (coord_next(coord, &out)) {
            token = out.kind == COORD_STORE ? out.token : token;
        }
        if (token == 0) {
            return;
        }
        coord_step(coord, &(struct coord_in){ .kind = COORD_STORED, .token = token });
    }
}

static enum ot_err open_once(struct memory_io *disk, bool start, uint64_t *hash_out)
{
    struct coord_pages *pages = coord_pages_new(8 << 20);
    struct coord_disk_image image;
    struct broker_journal journal;
    char text[300];
    coord_image_init(&image, pages);
    enum ot_err err = broker_journal_open(&journal, &disk->io, DIR_PATH, &image, text, sizeof text);
    *hash_out = image.committed.state_hash;
    if (err == OT_OK && start) {
        struct coord *coord = NULL;
        struct coord_config config = { .node_id = image.blank ? 1 : image.format.node_id, .dir_id = image.format.dir_id, .cluster_id = { .null = true },
            .min_isr_default = 1, .partitions_max = 1000, .brokers_max = 8, .delta_bytes_max = 1 << 20 };
        if (image.blank) {
            config.cluster_id = ot_str_of("fuzz");
        }
        if (coord_new(&config, &image, 1, &coord, text, sizeof text) == OT_OK) {
            coord_step(coord, &(struct coord_in){ .kind = COORD_TICK });
            drain(coord);
            coord_free(coord);
        }
    }
    broker_journal_close(&journal);
    coord_image_free(&image);
    OT_ASSERT(coord_pages_used_bytes(pages) == 0);
    coord_pages_free(pages);
    return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct memory_io disk;
    uint64_t first_hash, second_hash;
    if (size < 3 || size > 1 << 16) {
        return 0;
    }
    ot_log_set_level(NULL, OT_LOG_ERROR);
    bool mended = (data[2] & 1) != 0;
    const uint8_t *at = data + 3;
    size_t left = size - 3, term_bytes = OT_MIN(left, (size_t)data[0] * 2), snapshot_bytes = OT_MIN(left - term_bytes, (size_t)data[1] * 16);
    memory_io_init(&disk);
    put(&disk, "meta.term", at, term_bytes, TERM_MAGIC, mended);
    put(&disk, "meta.snapshot.5", at + term_bytes, snapshot_bytes, 0, false);
    put(&disk, "meta.journal", at + term_bytes + snapshot_bytes, left - term_bytes - snapshot_bytes, JOURNAL_MAGIC, mended);
    enum ot_err first = open_once(&disk, false, &first_hash);
    enum ot_err second = open_once(&disk, true, &second_hash);
    OT_ASSERT(first == second || first == OT_OK);
    OT_ASSERT(first != OT_OK || (second == OT_OK && first_hash == second_hash));
    memory_io_free(&disk);
    return 0;
}
