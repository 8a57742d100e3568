#include "coordinator/coord.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void coord_image_init(struct coord_disk_image *image, struct coord_pages *pages)
{
    *image = (struct coord_disk_image){ .pages = pages, .blank = true, .term = { 0, -1, 0 } };
    coord_value_init(&image->committed, pages);
}

void coord_image_free(struct coord_disk_image *image)
{
    coord_value_drop(&image->committed);
    free(image->delta);
    image->delta = NULL;
}

static bool same(struct coord_stamp a, struct coord_stamp b) { return a.term == b.term && a.version == b.version; }

static enum ot_err settle(struct coord_disk_image *image, char *text, size_t text_bytes)
{
    const struct coord_accept *accepted = &image->accepted;
    enum ot_err err = coord_delta_apply(&image->committed, accepted->delta);
    if (err == OT_OK && image->committed.state_hash != accepted->state_hash) {
        err = OT_ERR_CORRUPT;
    }
    if (err != OT_OK) {
        snprintf(text, text_bytes, "the change of version %lld does not lead to its state hash", (long long)accepted->stamp.version);
        return err == OT_ERR_NO_MEMORY ? err : OT_ERR_CORRUPT;
    }
    image->committed.stamp = accepted->stamp;
    image->has_accepted = false;
    return OT_OK;
}

static enum ot_err keep_accepted(struct coord_disk_image *image, const struct coord_accept *accept)
{
    if (accept->delta.bytes > image->delta_cap_bytes) {
        uint8_t *grown = realloc(image->delta, accept->delta.bytes);
        if (grown == NULL) {
            return OT_ERR_NO_MEMORY;
        }
        image->delta = grown;
        image->delta_cap_bytes = accept->delta.bytes;
    }
    if (accept->delta.bytes > 0) {
        memcpy(image->delta, accept->delta.data, accept->delta.bytes);
    }
    image->accepted = *accept;
    image->accepted.delta = coord_blob(image->delta, accept->delta.bytes);
    image->has_accepted = true;
    return OT_OK;
}

static enum ot_err take_accept(struct coord_disk_image *image, const struct coord_accept *accept, char *text, size_t text_bytes)
{
    enum ot_err err = OT_OK;
    if (image->has_accepted && same(accept->base, image->accepted.stamp) && (err = settle(image, text, text_bytes)) != OT_OK) {
        return err;
    }
    if (!same(accept->base, image->committed.stamp)) {
        snprintf(text, text_bytes, "the change of version %lld rests on version %lld of term %d, but the state before it is version %lld of term %d",
            (long long)accept->stamp.version, (long long)accept->base.version, accept->base.term, (long long)image->committed.stamp.version,
            image->committed.stamp.term);
        return OT_ERR_CORRUPT;
    }
    err = keep_accepted(image, accept);
    return err == OT_OK && accept->committed ? settle(image, text, text_bytes) : err;
}

enum ot_err coord_image_take(struct coord_disk_image *image, const struct coord_record *record, char *text_out, size_t text_bytes)
{
    if (image->blank != (record->kind == COORD_RECORD_FORMAT)) {
        snprintf(text_out, text_bytes, "the format record is not the first one");
        return OT_ERR_CORRUPT;
    }
    switch (record->kind) {
    case COORD_RECORD_FORMAT:
        snprintf(image->cluster_id, sizeof image->cluster_id, "%.*s", (int)record->u.format.cluster_id.bytes, record->u.format.cluster_id.data);
        image->format = record->u.format;
        image->format.cluster_id = ot_str_of(image->cluster_id);
        image->blank = false;
        return OT_OK;
    case COORD_RECORD_ACCEPT: return take_accept(image, &record->u.accept, text_out, text_bytes);
    case COORD_RECORD_COMMIT:
        if (image->has_accepted && same(record->u.commit, image->accepted.stamp)) {
            return settle(image, text_out, text_bytes);
        }
        if (same(record->u.commit, image->committed.stamp)) {
            return OT_OK;
        }
        snprintf(text_out, text_bytes, "version %lld is said to be committed and was never accepted", (long long)record->u.commit.version);
        return OT_ERR_CORRUPT;
    case COORD_RECORD_TERM:
    case COORD_RECORD_SNAPSHOT: break;
    }
    snprintf(text_out, text_bytes, "a record of kind %d has no place here", (int)record->kind);
    return OT_ERR_CORRUPT;
}
