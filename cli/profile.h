/* Named places to speak to, for --profile: ~/.config/ottla/profiles.ini (or $XDG_CONFIG_HOME/ottla/profiles.ini).
 *
 *   [staging]
 *   api = http://10.0.0.2:9095
 *   bootstrap_server = 10.0.0.2:9092,10.0.0.3:9092
 *
 * # and ; begin comments. What a flag says is stronger, what the environment says weaker. */
#ifndef OT_CLI_PROFILE_H
#define OT_CLI_PROFILE_H

#include "cli/command.h"

#define CLI_PROFILE_VALUE_BYTES 512

/* A key of the profile that --profile names; out is empty when there is no --profile, or it does not have the key. -1: fine; else the exit code after a message. */
int cli_profile_value(const struct cli_args *args, const char *key, char out[static CLI_PROFILE_VALUE_BYTES]);

/* One value out of a text of that form. OK, NOT_FOUND (no such section: the names of all are in sections_out, separated by zeros, *section_count_out of them), MALFORMED with words in why. */
#define CLI_PROFILE_SECTIONS 64
struct cli_profile_names { char names[CLI_PROFILE_SECTIONS][64]; uint32_t count; };
OT_MUST_CHECK enum ot_err cli_profile_read(const char *text, const char *section, const char *key, char out[static CLI_PROFILE_VALUE_BYTES], struct cli_profile_names *names_out,
    char why[static 200]);

#endif
