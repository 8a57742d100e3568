#include "broker/peers.h"
#include "base/wire/apis.h"
#include "base/wire/frame.h"
#include "coordinator/level.h"

bool broker_peer_api_own(int16_t key) { return key >= OT_API_PEER_HELLO; }

int16_t broker_peer_api_max(const struct ot_api *api) { return coord_level_version_max(api->request); }
