# Message codecs: generated at build time from base/wire/schema/*.txt, base/wire/schema_ottla/*.txt and the tables beside them, into
# build/PRESET/gen/base/wire/. The generator names its outputs at configure time; a new schema file configures anew.
set(wire_dir ${CMAKE_SOURCE_DIR}/base/wire)
set(wire_gen ${CMAKE_BINARY_DIR}/gen/base/wire)
file(GLOB wire_inputs CONFIGURE_DEPENDS ${wire_dir}/schema/*.txt ${wire_dir}/schema_ottla/*.txt ${wire_dir}/*.txt ${wire_dir}/*.py)
execute_process(COMMAND ${Python3_EXECUTABLE} -B ${wire_dir}/generate.py --list ${wire_gen}
  OUTPUT_VARIABLE wire_outputs OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" wire_outputs "${wire_outputs}")
string(MD5 wire_list "${wire_inputs}")    # in the command line, so that a schema that went away makes it run again
add_custom_command(OUTPUT ${wire_outputs}
  COMMAND ${Python3_EXECUTABLE} -B ${wire_dir}/generate.py --inputs=${wire_list} ${wire_gen}
  DEPENDS ${wire_inputs} COMMENT "generating the codecs of the wire")
add_custom_target(wire_generated DEPENDS ${wire_outputs})
set(wire_sources ${wire_outputs})
list(FILTER wire_sources INCLUDE REGEX "\\.c$")
target_sources(ot_wire PRIVATE ${wire_sources})
target_include_directories(ot_wire PUBLIC ${CMAKE_BINARY_DIR}/gen)
add_dependencies(ot_wire wire_generated)
