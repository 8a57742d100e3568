# The descriptors of rpc/proto, for gRPC's reflection: protoc describes the files, and the bytes become a C array.
set(proto_dir ${CMAKE_SOURCE_DIR}/rpc/proto)
set(proto_files ottla/v1/log.proto grpc/health/v1/health.proto grpc/reflection/v1/reflection.proto grpc/reflection/v1alpha/reflection.proto)
set(proto_gen ${CMAKE_BINARY_DIR}/gen/rpc_grpc_private)
list(TRANSFORM proto_files PREPEND ${proto_dir}/ OUTPUT_VARIABLE proto_paths)
add_custom_command(OUTPUT ${proto_gen}/descriptors.inc
  COMMAND ${CMAKE_COMMAND} -E make_directory ${proto_gen}
  COMMAND ${PROTOC} -I ${proto_dir} --include_imports --descriptor_set_out=${proto_gen}/descriptors.pb ${proto_files}
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/rpc/proto/embed.py ${proto_gen}/descriptors.pb ${proto_gen}/descriptors.inc
  DEPENDS ${proto_paths} ${CMAKE_SOURCE_DIR}/rpc/proto/embed.py COMMENT "describing rpc/proto")
add_custom_target(proto_descriptors DEPENDS ${proto_gen}/descriptors.inc)
add_dependencies(ot_rpc_grpc proto_descriptors)
target_include_directories(ot_rpc_grpc PRIVATE ${proto_gen})
