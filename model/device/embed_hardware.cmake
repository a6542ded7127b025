# Writes OUT: one C file with the bytes of every file in HARDWARE, in that order. A change of one of them configures again.
set(rows "")
set(bytes "")
set(index 0)
foreach(file IN LISTS HARDWARE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  cmake_path(GET file FILENAME name)
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
  string(APPEND bytes "static const unsigned char bytes_${index}[] = {${hex}};\n")
  string(APPEND rows "    {\"${name}\", bytes_${index}, sizeof bytes_${index}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT [[
/* Generated from model/data/hardware by model/device/embed_hardware.cmake. */
#include "device/hardware.h"

@bytes@
const zl_hardware_file zl_hardware_files[] = {
@rows@    {0},
};
]])
