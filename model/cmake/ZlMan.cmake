# zl_man(PAGE.SECTION.scd ...): manual pages, built and installed where scdoc is. man_page.sh puts the
# options of the built programs in.
find_program(ZL_SCDOC scdoc)
zl_part("scdoc" AUTO "${ZL_SCDOC}" "${ZL_SCDOC}" "no manual pages; apt-get install scdoc")
set(ZL_MAN_PAGE "${CMAKE_CURRENT_LIST_DIR}/man_page.sh")

function(zl_man)
  if(NOT ZL_SCDOC)
    return()
  endif()
  foreach(page IN LISTS ARGN)
    get_filename_component(name "${page}" NAME_WLE)
    string(REGEX MATCH "[0-9]$" section "${name}")
    cmake_path(ABSOLUTE_PATH page)
    set(folder "${PROJECT_BINARY_DIR}/man/man${section}")
    add_custom_command(OUTPUT "${folder}/${name}" VERBATIM
      DEPENDS "${page}" "${ZL_MAN_PAGE}" zl zl-trace zl-train zl-validate
      COMMAND ${CMAKE_COMMAND} -E make_directory "${folder}"
      COMMAND bash -c "set -o pipefail; bash \"$1\" \"$2\" \"$3\" | \"$4\" > \"$5\"" bash
        "${ZL_MAN_PAGE}" $<TARGET_FILE_DIR:zl> "${page}" "${ZL_SCDOC}" "${folder}/${name}")
    list(APPEND outputs "${folder}/${name}")
    install(FILES "${folder}/${name}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}")
  endforeach()
  add_custom_target(zl_man ALL DEPENDS ${outputs})
endfunction()
