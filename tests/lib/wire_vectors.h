/* The checks of one line of handed.jsonl, shared by the unit test and vectors_run. */
#ifndef OT_TESTS_WIRE_VECTORS_H
#define OT_TESTS_WIRE_VECTORS_H

#include "wire_json.h"

/* Decode with nothing left, compare every field, encode to the same bytes, build from the JSON to the same bytes, refuse
 * every proper prefix; the same with the prefix of records where there is one. */
bool wire_vector_check(json_t *line, struct wire_json_why *why);
/* With an arena of every size from nothing to enough: NO_MEMORY until it fits, never anything else. */
bool wire_vector_check_arena(json_t *line, struct wire_json_why *why);
/* Hex digits of a key into a new heap block of exactly that size (of one byte when there are none); NULL when there are no
 * hex digits. */
uint8_t *wire_vector_hex(json_t *line, const char *key, size_t *bytes_out);

#endif
