# The stream of allocations that is predicted for a run against the recording of that run.
if(NOT ZL_TESTS STREQUAL "OFF")
  find_package(ZLIB REQUIRED)
  add_executable(torch_trace torch_trace.c "${PROJECT_SOURCE_DIR}/model/cli/gunzip.c")
  target_include_directories(torch_trace PRIVATE "${PROJECT_SOURCE_DIR}/model")
  target_link_libraries(torch_trace PRIVATE zl_flags zv ZLIB::ZLIB)
  set_target_properties(torch_trace PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test")
  set(records "${validate}/records/torch-h200.jsonl" "${validate}/records/torch-lora-h200.jsonl"
    "${validate}/records/extra/torch-extra.jsonl" "${validate}/records/extra/torch-arch.jsonl")
  file(GLOB recordings CONFIGURE_DEPENDS "${validate}/records/traces/*.trace.json.gz"
    "${validate}/records/extra/traces/*.trace.json.gz")
  foreach(recording IN LISTS recordings)
    get_filename_component(id "${recording}" NAME)
    string(REPLACE ".trace.json.gz" "" id "${id}")
    zl_script_test(NAME "torch.trace.${id}" COMMAND $<TARGET_FILE:torch_trace> "${validate}/records/setup.json"
      "${recording}" ${records})
  endforeach()
endif()
