/* Who holds a port that we want, as far as we may see. Reads /proc. */
#ifndef OT_CLI_PORT_H
#define OT_CLI_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The socket that listens on a port, as an inode of /proc/net/tcp and tcp6; 0: none. */
unsigned long cli_port_inode(uint16_t port);
/* "ottla (pid 12)"; false: not ours to see. */
bool cli_port_holder(unsigned long inode, char *out, size_t out_bytes);
/* Where the process that holds a port is, for paths that it says: its working directory. False: not ours to see. */
bool cli_port_holder_cwd(uint16_t port, char *out, size_t out_bytes);
/* ": ottla (pid 12) has it" behind a message that the port is taken; "" when that is not known. Gives back out. */
#define CLI_PORT_TAKEN_BYTES 160
const char *cli_port_taken(uint16_t port, char out[static CLI_PORT_TAKEN_BYTES]);

#endif
