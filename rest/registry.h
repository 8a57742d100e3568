/* One node of the registry view: what ZooKeeper would have held under its path. Private to rest/. */
#ifndef OT_REST_REGISTRY_H
#define OT_REST_REGISTRY_H

#include "rest/groups.h"

#define REST_REGISTRY_CHILDREN_MAX 200000u

struct rest_registry {
    struct rest_call *call;
    const struct ot_str *path; uint32_t depth;         /* segments below /v1/registry */
    int64_t watch, wait_until_us;                      /* version that is known already; -1: answer at once */
    bool all;                                          /* fenced brokers too, whose nodes would be gone */
    int32_t term; int64_t metadata_offset;             /* of the state when it was looked at */
    struct rest_group *group;                          /* asks to coordinators, of consumers/ */
    struct broker_group_calls lists;
    struct ot_arena_mark mark;                         /* of the call's arena, before the first look */
    /* the node, as found */
    bool found, ephemeral, too_many;
    struct rest_json data;                             /* one JSON value, or nothing: null */
    struct ot_str *children; uint32_t child_count, child_cap;
    int64_t version;                                   /* -1: by what it holds */
    int64_t modified_offset;                           /* of the metadata; -1: not known */
    char owner[300];                                   /* of an ephemeral one */
};
static inline bool rest_registry_is(const struct rest_registry *node, uint32_t index, const char *name) { return ot_str_equal(node->path[index], ot_str_of(name)); }
/* In any order; name is kept. */
void rest_registry_child(struct rest_registry *node, struct ot_str name);
void rest_registry_child_text(struct rest_registry *node, const char *name);       /* copied */
void rest_registry_child_int(struct rest_registry *node, int64_t number);
bool rest_registry_number(struct ot_str text, int64_t *out);                       /* as such a child is named: no sign, no zero in front */
/* The node is complete: answer, or wait for a change of it. */
void rest_registry_done(struct rest_registry *node);

/* registry_consumers.c: consumers/…, from the groups' coordinators; ends with rest_registry_done. */
void rest_registry_consumers(struct rest_registry *node);

#endif
