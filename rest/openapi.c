#include "rest/openapi.h"

/* The assembler reads the files where they lie: REST_OPENAPI is the folder (CMakeLists.txt). */
#define EMBED(name, file) \
    __asm__(".pushsection .rodata\n.global " #name "_text\n.global " #name "_end\n" #name "_text:\n.incbin \"" REST_OPENAPI "/" file "\"\n" #name "_end:\n.byte 0\n.popsection")

EMBED(rest_openapi_yaml, "ottla.yaml");
EMBED(rest_openapi_json, "ottla.json");
