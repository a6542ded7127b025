# Fuzz targets, with ZL_FUZZ=ON under clang (preset fuzz): programs in build/fuzz/fuzz, run by
# model/fuzz/run.sh.
#   zl_fuzz_target(NAME json SOURCES fuzz_json.c LIBS zeroledger_static)
# Its corpus is the folder corpus/NAME beside it, its dictionary, if there is one, NAME.dict.
option(ZL_FUZZ "Fuzz targets; they need clang's libFuzzer" OFF)
if(ZL_FUZZ AND NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "ZL_FUZZ needs clang, for its libFuzzer; cmake --preset fuzz")
endif()
if(ZL_FUZZ)
  add_custom_target(fuzz) # all of them
endif()

function(zl_fuzz_target)
  cmake_parse_arguments(PARSE_ARGV 0 T "" "NAME" "SOURCES;LIBS")
  set(program fuzz_${T_NAME})
  add_executable(${program} ${T_SOURCES})
  target_link_libraries(${program} PRIVATE zl_flags zl_fuzz ${T_LIBS} -fsanitize=fuzzer)
  add_dependencies(fuzz ${program})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
endfunction()
