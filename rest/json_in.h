/* JSON from outside: bounded before it is parsed, strict when it is read, and every fault has a JSON pointer (RFC 6901).
 *
 * rest_json_scan walks the bytes once without allocating: it enforces depth and the number of values, which is what bounds the memory that the
 * parser then takes. rest_members reads an object by a table of what it may hold. One thread per use. */
#ifndef OT_REST_JSON_IN_H
#define OT_REST_JSON_IN_H

#include "base/arena.h"
#include <jansson.h>

#define REST_JSON_DEPTH_MAX 64
#define REST_JSON_VALUES_MAX 200000u
#define REST_POINTER_MAX 192           /* a longer pointer is cut */
#define REST_FAULTS_MAX 16

struct rest_fault { char pointer[REST_POINTER_MAX]; char text[160]; bool is_query; };
struct rest_faults { struct rest_fault list[REST_FAULTS_MAX]; uint32_t count; };       /* count may exceed the list: those were dropped */
void rest_fault_add(struct rest_faults *faults, const char *pointer, const char *format, ...) OT_PRINTF(3, 4);

/* TOO_LARGE: deeper than depth_max, or more values; faults tells where. *values_out (may be NULL): how many there are, about. Only brackets, strings and commas are looked at: what passes is not yet JSON. */
OT_MUST_CHECK enum ot_err rest_json_scan(const char *text, size_t bytes, uint32_t depth_max, uint32_t values_max, uint32_t *values_out,
    struct rest_faults *faults);
/* The pointer of the value that stands at, or encloses, byte pos of text. */
void rest_json_pointer(const char *text, size_t bytes, size_t pos, char out[static REST_POINTER_MAX]);

/* The whole text is one JSON value without repeated names. MALFORMED with one fault: what is wrong and where. NO_MEMORY. json_decref what came. */
OT_MUST_CHECK enum ot_err rest_json_parse(const char *text, size_t bytes, json_t **out, struct rest_faults *faults);

enum rest_kind { REST_TEXT, REST_INT, REST_BOOL, REST_OBJECT, REST_ARRAY, REST_ANY };
/* out, by kind: struct ot_str, int64_t, bool, json_t * (borrowed from the object). An absent member or a permitted null leaves *out as it was. */
struct rest_member {
    const char *name;
    enum rest_kind kind;
    bool required, nullable;
    void *out;
    int64_t min, max;                  /* of INT, of the bytes of TEXT, of the length of ARRAY; both 0: any */
    bool *given;                       /* may be NULL; set when the member is there, null included */
};
/* False: faults were added, one for each member unknown, missing, of the wrong type or out of range. REST_INT also takes digits in a string, as ?int64=string
 * writes them. */
bool rest_members(json_t *object, const char *pointer, const struct rest_member *members, uint32_t count, struct rest_faults *faults);
/* pointer + "/" + name, escaped. */
void rest_pointer_join(char out[static REST_POINTER_MAX], const char *pointer, const char *name, size_t name_bytes);
void rest_pointer_index(char out[static REST_POINTER_MAX], const char *pointer, size_t index);
struct ot_str rest_json_string(const json_t *string);
/* Compact text of a value with every number exact: reals in the fewest digits that read back the same. */
struct rest_json;
void rest_json_copy(struct rest_json *out, const char *key, const json_t *value);

#endif
