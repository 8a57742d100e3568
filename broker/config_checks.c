#include "broker/config_checks.h"

#include "base/net/address.h"
#include "base/net/limits.h"
#include "broker/config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The next item of a list, trimmed; *at goes behind it. False: no more. */
static bool next_item(const char **at, const char **item, size_t *bytes)
{
    if (**at == 0) return false;
    size_t length = strcspn(*at, ",");
    *item = *at;
    *at += length + ((*at)[length] == ',');
    while (length > 0 && **item == ' ') (*item)++, length--;
    while (length > 0 && (*item)[length - 1] == ' ') length--;
    *bytes = length;
    return true;
}

bool broker_config_list_has(const char *list, const char *word)
{
    const char *item;
    size_t bytes;
    while (list != NULL && next_item(&list, &item, &bytes))
        if ((bytes == 1 && *item == '*') || (bytes == strlen(word) && memcmp(item, word, bytes) == 0)) return true;
    return false;
}

bool broker_config_protocol_of(const char *map, const char *listener, char out[static 16])
{
    const char *item;
    size_t bytes;
    while (map != NULL && next_item(&map, &item, &bytes)) {
        const char *colon = memchr(item, ':', bytes);
        if (colon == NULL || (size_t)(colon - item) != strlen(listener) || strncasecmp(item, listener, strlen(listener)) != 0) continue;
        (void)snprintf(out, 16, "%.*s", (int)(bytes - (size_t)(colon - item) - 1), colon + 1);
        return true;
    }
    return false;
}

bool broker_config_listener_is_controllers(const char *names, const char *listener)
{
    const char *item;
    size_t bytes;
    while (names != NULL && next_item(&names, &item, &bytes))
        if (bytes > 0 && bytes == strlen(listener) && strncasecmp(item, listener, bytes) == 0) return true;
    return false;
}

#define LISTENERS_MAX 16u

struct listener_list { struct ot_net_address items[LISTENERS_MAX]; uint32_t count; };

/* Without those of Kafka's controllers. */
static bool read_listeners(const struct broker_config *config, const char *text, struct listener_list *out, char *why, size_t why_bytes)
{
    const char *item;
    size_t bytes;
    out->count = 0;
    while (text != NULL && next_item(&text, &item, &bytes)) {
        struct ot_net_address one;
        if (bytes == 0) continue;
        if (ot_net_address_parse(item, bytes, &one, why, why_bytes) != OT_OK) return false;
        if (one.scheme[0] == 0) (void)snprintf(one.scheme, sizeof one.scheme, "PLAINTEXT");
        if (broker_config_listener_is_controllers(config->controller_listener_names, one.scheme)) continue;
        if (out->count == LISTENERS_MAX) {
            (void)snprintf(why, why_bytes, "more than %u listeners", LISTENERS_MAX);
            return false;
        }
        out->items[out->count++] = one;
    }
    return true;
}

static bool has_name(const struct listener_list *list, const char *name)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (strcasecmp(list->items[i].scheme, name) == 0) return true;
    return false;
}

static bool are_served(const struct listener_list *list, const char *map, char *why, size_t why_bytes)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct ot_net_address *one = &list->items[i];
        char protocol[16];
        if (!broker_config_protocol_of(map, one->scheme, protocol)) {
            (void)snprintf(why, why_bytes, "No security protocol defined for listener %s in listener.security.protocol.map", one->scheme);
            return false;
        }
        if (strcasecmp(protocol, "PLAINTEXT") != 0) {
            (void)snprintf(why, why_bytes, "listener %s: %s is not served yet", one->scheme, protocol);
            return false;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (one->port == 0 || one->port != list->items[k].port || strcmp(one->host, list->items[k].host) != 0) continue;
            (void)snprintf(why, why_bytes, "Each listener must have a different port");
            return false;
        }
    }
    return true;
}

bool broker_config_listeners_valid(const struct broker_config *config, const char *listeners, const char *map, char *why, size_t why_bytes)
{
    struct listener_list list, advertised;
    if (!read_listeners(config, listeners != NULL ? listeners : config->listeners, &list, why, why_bytes)) return false;
    if (list.count == 0) {
        (void)snprintf(why, why_bytes, "no listener is left for clients");
        return false;
    }
    if (!are_served(&list, map != NULL ? map : config->listener_security_protocol_map, why, why_bytes)) return false;
    if (!read_listeners(config, config->advertised_listeners, &advertised, why, why_bytes)) return false;
    for (uint32_t i = 0; i < advertised.count; i++) {
        if (has_name(&list, advertised.items[i].scheme)) continue;
        (void)snprintf(why, why_bytes, "advertised.listeners names %s, which would not be among the listeners", advertised.items[i].scheme);
        return false;
    }
    return true;
}

static bool map_valid(const char *map, char *why, size_t why_bytes)
{
    static const char *const protocols[] = { "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL" };
    const char *item;
    size_t bytes;
    while (next_item(&map, &item, &bytes)) {
        const char *colon = memchr(item, ':', bytes);
        bool good = false;
        for (size_t i = 0; i < OT_ARRAY_COUNT(protocols) && colon != NULL && colon != item; i++) {
            const size_t length = bytes - (size_t)(colon - item) - 1;
            good = good || (length == strlen(protocols[i]) && strncasecmp(colon + 1, protocols[i], length) == 0);
        }
        if (good) continue;
        (void)snprintf(why, why_bytes, "%.*s is not LISTENER:PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", (int)OT_MIN(bytes, (size_t)60), item);
        return false;
    }
    return true;
}

static bool overrides_valid(const char *text, char *why, size_t why_bytes)
{
    struct ot_net_ip_limits *limits = NULL;
    const bool good = ot_net_ip_limits_parse(text, &limits, why, why_bytes);
    ot_net_ip_limits_free(limits);
    return good;
}

static bool protocols_valid(const char *text, char *why, size_t why_bytes)
{
    if (broker_config_list_has(text, "classic")) return true;
    (void)snprintf(why, why_bytes, "Disabling the 'classic' protocol is not supported.");
    return false;
}

bool broker_config_form_valid(const char *key, const char *value, char *why, size_t why_bytes)
{
    static const struct { const char *key; bool (*valid)(const char *text, char *why, size_t why_bytes); } forms[] = {
        { "group.coordinator.rebalance.protocols", protocols_valid },
        { "listener.security.protocol.map", map_valid },
        { "max.connections.per.ip.overrides", overrides_valid },
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(forms); i++)
        if (strcmp(key, forms[i].key) == 0) return forms[i].valid(value, why, why_bytes);
    return true;
}
