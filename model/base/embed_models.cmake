# Writes OUT: one C file with the config.json text of every preset in NAMES, in that order. The files
# are DIR/NAME.json; a change of one of them configures again.
set(rows "")
set(count 0)
foreach(name IN LISTS NAMES)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${DIR}/${name}.json")
  file(READ "${DIR}/${name}.json" config)
  string(REPLACE "\\" "\\\\" config "${config}")
  string(REPLACE "\"" "\\\"" config "${config}")
  string(REGEX REPLACE "\n *" " " config "${config}")
  string(APPEND rows "    {\"${name}\", \"${config}\"},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(CONFIGURE OUTPUT "${OUT}" @ONLY CONTENT [[
/* Generated from model/data/models by model/base/embed_models.cmake. */
#include "model_config.h"

const zl_preset zl_presets[] = {
@rows@};

const size_t zl_preset_count = @count@;
]])
