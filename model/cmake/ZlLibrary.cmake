# libzeroledger: the installed library, its headers, its CMake package and its pkg-config file.
include(CMakePackageConfigHelpers)
set(map "${CMAKE_CURRENT_LIST_DIR}/zeroledger.map")
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/zeroledger")

add_library(zeroledger SHARED $<TARGET_OBJECTS:zl_base> $<TARGET_OBJECTS:zl_model>)
add_library(zeroledger::zeroledger ALIAS zeroledger)
set_target_properties(zeroledger PROPERTIES
  LINKER_LANGUAGE C
  VERSION "${PROJECT_VERSION}"
  SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}"
  LINK_DEPENDS "${map}")
target_include_directories(zeroledger INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
target_link_options(zeroledger PRIVATE "LINKER:--version-script=${map}" LINKER:--as-needed)
if(NOT ZL_SANITIZE)
  target_link_options(zeroledger PRIVATE "LINKER:-z,defs")
endif()
target_link_libraries(zeroledger PRIVATE zl_flags zl_cjson)

install(TARGETS zeroledger EXPORT zeroledger)
install(EXPORT zeroledger NAMESPACE zeroledger:: DESTINATION "${package}" FILE zeroledger-targets.cmake)
install(DIRECTORY include/zeroledger TYPE INCLUDE)
install(FILES "${PROJECT_BINARY_DIR}/include/zeroledger/version.h"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/zeroledger")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/zeroledger-config.cmake.in"
  "${PROJECT_BINARY_DIR}/package/zeroledger-config.cmake" INSTALL_DESTINATION "${package}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/zeroledger-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/zeroledger-config.cmake"
  "${PROJECT_BINARY_DIR}/package/zeroledger-config-version.cmake" DESTINATION "${package}")
# The installed folder may be moved: the prefix is found from the file's own place.
file(RELATIVE_PATH ZL_PC_PREFIX "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" ZL_PC_PREFIX "${ZL_PC_PREFIX}")
configure_file("${CMAKE_CURRENT_LIST_DIR}/zeroledger.pc.in" "${PROJECT_BINARY_DIR}/package/zeroledger.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/package/zeroledger.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
