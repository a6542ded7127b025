# zl_man(PAGE.SECTION.scd ...): manual pages, built and installed where scdoc is.
find_program(ZL_SCDOC scdoc)
zl_part("scdoc" AUTO "${ZL_SCDOC}" "${ZL_SCDOC}" "no manual pages; apt-get install scdoc")

function(zl_man)
  if(NOT ZL_SCDOC)
    return()
  endif()
  foreach(page IN LISTS ARGN)
    get_filename_component(name "${page}" NAME_WLE)
    string(REGEX MATCH "[0-9]$" section "${name}")
    cmake_path(ABSOLUTE_PATH page)
    set(output "${PROJECT_BINARY_DIR}/man/man${section}/${name}")
    add_custom_command(OUTPUT "${output}" DEPENDS "${page}" VERBATIM
      COMMAND ${CMAKE_COMMAND} -E make_directory "${PROJECT_BINARY_DIR}/man/man${section}"
      COMMAND sh -c "\"$1\" < \"$2\" > \"$3\"" sh "${ZL_SCDOC}" "${page}" "${output}")
    list(APPEND outputs "${output}")
    install(FILES "${output}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}")
  endforeach()
  add_custom_target(zl_man ALL DEPENDS ${outputs})
endfunction()
