# cpack: one archive and one Debian package with everything that `cmake --install` installs.
# `cmake --workflow --preset package` builds both; docs/install.md shows how to use them.
set(ZL_CONTACT "zeroledger contributors <zeroledger@users.noreply.invalid>" CACHE STRING
  "Maintainer in the Debian package")

set(CPACK_GENERATOR "TGZ;DEB")
set(CPACK_PACKAGE_NAME zeroledger)
set(CPACK_PACKAGE_VENDOR "zeroledger contributors")
set(CPACK_PACKAGE_CONTACT "${ZL_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "predict and check the memory of ZeRO training runs")
set(CPACK_PACKAGE_DESCRIPTION "zl predicts where every byte of a sharded data-parallel training run goes:
in which phase, for which buffer, by which formula, with the native trainer
and with PyTorch and DeepSpeed. It needs neither a GPU nor Python. zl-train
trains and measures, zl-validate compares, zl-trace meters other programs;
libzeroledger answers the same questions to C programs.")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_SOURCE_GENERATOR "")
install(FILES LICENSE TYPE DOC)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(package "${CMAKE_CURRENT_LIST_DIR}/package")
set(soname "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/package/shlibs" CONTENT
  "libzeroledger ${soname} zeroledger (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/package/shlibs;${package}/triggers")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libcjson-dev, openmpi-bin")

set(CPACK_PRE_BUILD_SCRIPTS "${package}/debian.cmake")
include(CPack)
