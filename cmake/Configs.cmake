# Kafka's config tables as C rows, for broker/config_rows.c.
foreach(kind broker topic)
  set(configs_out ${CMAKE_BINARY_DIR}/gen/broker_private/kafka_${kind}_configs.inc)
  add_custom_command(OUTPUT ${configs_out}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/gen/broker_private
    COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/broker/kafka_configs.py ${CMAKE_SOURCE_DIR}/base/wire/configs-${kind}.txt ${configs_out}
    DEPENDS ${CMAKE_SOURCE_DIR}/broker/kafka_configs.py ${CMAKE_SOURCE_DIR}/base/wire/configs-${kind}.txt)
  list(APPEND configs_outs ${configs_out})
endforeach()
add_custom_target(broker_configs DEPENDS ${configs_outs})
add_dependencies(ot_broker broker_configs)
target_include_directories(ot_broker PRIVATE ${CMAKE_BINARY_DIR}/gen/broker_private)
