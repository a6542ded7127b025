# Delete this file and its calls as soon as every target has sources of its own.
# zl_under_construction(TARGET [CODE]): gives a target that has no source yet a generated one.
function(zl_under_construction target)
  get_target_property(sources ${target} SOURCES)
  if(NOT sources)
    message(WARNING "${target} has no sources yet")
    file(WRITE "${PROJECT_BINARY_DIR}/under_construction/${target}.c" "extern int zl_nothing;\n${ARGN}\n")
    target_sources(${target} PRIVATE "${PROJECT_BINARY_DIR}/under_construction/${target}.c")
  endif()
endfunction()
