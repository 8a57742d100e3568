/* The contract, openapi/ottla.yaml and the same as JSON, as they lie in the program. Private to rest/. */
#ifndef OT_REST_OPENAPI_H
#define OT_REST_OPENAPI_H

extern const char rest_openapi_yaml_text[], rest_openapi_yaml_end[], rest_openapi_json_text[], rest_openapi_json_end[];

#endif
