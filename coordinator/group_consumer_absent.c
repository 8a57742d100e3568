/* Groups of the new protocol are not served yet: what asks for them is told so, their records are passed over. */
#include "coordinator/group_inner.h"

void group_consumer_ask(struct group_set *set, struct group_ask *ask) { group_answer(set, ask, OT_ERR_UNSUPPORTED_VERSION); }

enum ot_err group_consumer_replay(struct group_set *set, const struct group_set_record *record, int16_t type, struct ot_arena *arena)
{
    return (void)set, (void)record, (void)type, (void)arena, OT_ERR_NOT_FOUND;
}
