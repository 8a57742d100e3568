#include "cli/profile.h"
#include "base/util.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (256 << 10)

static const char *const known_keys[] = {"api", "bootstrap_server"};

/* [from, from + bytes) without blanks at its ends. */
static size_t trimmed(const char **from, size_t bytes)
{
    while (bytes > 0 && (**from == ' ' || **from == '\t')) ++*from, bytes--;
    while (bytes > 0 && strchr(" \t\r", (*from)[bytes - 1]) != NULL) bytes--;
    return bytes;
}

static bool read_section(const char *line, size_t bytes, uint32_t number, struct cli_profile_names *names, char *why)
{
    if (line[bytes - 1] != ']' || bytes < 3 || bytes - 2 >= sizeof(names->names[0])) {
        snprintf(why, 200, "line %u: `%.*s` is not [name]", number, (int)OT_MIN(bytes, 60u), line);
        return false;
    }
    if (names->count == CLI_PROFILE_SECTIONS) {
        snprintf(why, 200, "line %u: more than %d profiles", number, CLI_PROFILE_SECTIONS);
        return false;
    }
    snprintf(names->names[names->count++], sizeof(names->names[0]), "%.*s", (int)bytes - 2, line + 1);
    return true;
}

/* key = value. False: why says. */
static bool read_pair(const char *line, size_t bytes, uint32_t number, bool here, const char *wanted, char *out, char *why)
{
    char key[64];
    const char *equals = memchr(line, '=', bytes);
    const size_t key_bytes = equals == NULL ? 0 : trimmed(&line, (size_t)(equals - line));
    if (key_bytes == 0 || key_bytes >= sizeof(key)) {
        snprintf(why, 200, "line %u: not key = value", number);
        return false;
    }
    snprintf(key, sizeof(key), "%.*s", (int)key_bytes, line);
    for (char *at = key; *at != 0; at++)
        if (*at == '-' || *at == '.') *at = '_';
    bool known = false;
    for (size_t i = 0; i < OT_ARRAY_COUNT(known_keys); i++) known |= strcmp(known_keys[i], key) == 0;
    if (!known) {
        const char *near = ot_nearest(key, known_keys, OT_ARRAY_COUNT(known_keys));
        snprintf(why, 200, "line %u: no key `%s`; there are api and bootstrap_server%s%s", number, key, near != NULL ? ", did you mean " : "", near != NULL ? near : "");
        return false;
    }
    if (!here || strcmp(key, wanted) != 0) return true;
    const char *value = equals + 1;
    const char *end = memchr(value, '\n', strlen(value));
    const size_t value_bytes = trimmed(&value, end == NULL ? strlen(value) : (size_t)(end - value));
    if (value_bytes >= CLI_PROFILE_VALUE_BYTES) {
        snprintf(why, 200, "line %u: the value is too long", number);
        return false;
    }
    snprintf(out, CLI_PROFILE_VALUE_BYTES, "%.*s", (int)value_bytes, value);
    return true;
}

enum ot_err cli_profile_read(const char *text, const char *section, const char *key, char out[static CLI_PROFILE_VALUE_BYTES], struct cli_profile_names *names_out,
    char why[static 200])
{
    bool here = false, found = false;
    uint32_t number = 0;
    names_out->count = 0;
    out[0] = 0;
    for (const char *at = text; *at != 0;) {
        const size_t length = strcspn(at, "\n");
        const char *line = at;
        const size_t bytes = trimmed(&line, length);
        number++;
        if (bytes > 0 && line[0] == '[') {
            if (!read_section(line, bytes, number, names_out, why)) return OT_ERR_MALFORMED;
            here = strcmp(names_out->names[names_out->count - 1], section) == 0;
            found |= here;
        } else if (bytes > 0 && line[0] != '#' && line[0] != ';') {
            if (!read_pair(line, bytes, number, here, key, out, why)) return OT_ERR_MALFORMED;
        }
        at += length + (at[length] == '\n');
    }
    return found ? OT_OK : OT_ERR_NOT_FOUND;
}

static bool path_of(char *out, size_t out_bytes)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config != NULL && config[0] == '/') return snprintf(out, out_bytes, "%s/ottla/profiles.ini", config) < (int)out_bytes;
    return home != NULL && home[0] != 0 && snprintf(out, out_bytes, "%s/.config/ottla/profiles.ini", home) < (int)out_bytes;
}

int cli_profile_value(const struct cli_args *args, const char *key, char out[static CLI_PROFILE_VALUE_BYTES])
{
    static char text[FILE_BYTES_MAX];
    static struct cli_profile_names names;
    const char *name = cli_flag_value(args, "profile"), *list[CLI_PROFILE_SECTIONS];
    char path[1024], why[200] = "", hint[128];
    out[0] = 0;
    if (name == NULL) return -1;
    if (!path_of(path, sizeof(path))) return cli_fail(CLI_USAGE, NULL, "--profile: there is no HOME to look in");
    FILE *file = fopen(path, "re");
    if (file == NULL) return cli_fail(CLI_USAGE, NULL, "--profile %s: there is no %s", name, path);
    const size_t bytes = fread(text, 1, sizeof(text) - 1, file);
    const bool whole = !ferror(file) && bytes < sizeof(text) - 1;
    (void)fclose(file);
    if (!whole) return cli_fail(CLI_USAGE, NULL, "%s: cannot be read, or is larger than %d KiB", path, FILE_BYTES_MAX >> 10);
    text[bytes] = 0;
    const enum ot_err err = cli_profile_read(text, name, key, out, &names, why);
    if (err == OT_OK) return -1;
    if (err == OT_ERR_MALFORMED) return cli_fail(CLI_USAGE, NULL, "%s: %s", path, why);
    for (uint32_t i = 0; i < names.count; i++) list[i] = names.names[i];
    const char *near = names.count == 0 ? NULL : ot_nearest(name, list, names.count);
    snprintf(hint, sizeof(hint), "--profile %s", near != NULL ? near : names.count > 0 ? names.names[0] : "");
    return cli_fail(CLI_USAGE, names.count > 0 ? hint : NULL, "%s has no profile [%s]", path, name);
}
