/* Texts with a form of their own, for the config table and for those who read them. */
#ifndef OT_BROKER_CONFIG_CHECKS_H
#define OT_BROKER_CONFIG_CHECKS_H

#include "base/bytes.h"

/* The protocol of a listener by listener.security.protocol.map ("NAME:PROTOCOL,…", names in any case), zero-terminated into out. False: the map does not have it. */
bool broker_config_protocol_of(const char *map, const char *listener, char out[static 16]);
/* Is it one of controller.listener.names (a list; NULL: none), in any case? Kafka's controllers speak there. */
bool broker_config_listener_is_controllers(const char *names, const char *listener);
struct broker_config;
/* May `listeners` (or the map of protocols, or both; NULL: as it is) become this while the broker runs? Every address can be read, no two are the same, each has a protocol that is
 * served, and what is advertised stays. False: why has words. */
bool broker_config_listeners_valid(const struct broker_config *config, const char *listeners, const char *map, char *why, size_t why_bytes);
/* Is this path among those of a comma separated list (or is the list "*")? */
bool broker_config_list_has(const char *list, const char *word);

/* Is the text one that this key may have? Keys without a form of their own: true. False: why has words. */
bool broker_config_form_valid(const char *key, const char *value, char *why, size_t why_bytes);

#endif
