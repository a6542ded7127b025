# zl_part(NAME MODE FOUND WHERE REMEDY): one line about an optional part of the build. MODE is AUTO,
# ON or OFF as the user set it; a part that was asked for (ON) and is missing stops the configuration.
function(zl_part name mode found where remedy)
  if(mode STREQUAL "OFF")
    message(STATUS "${name}: switched off")
  elseif(found)
    message(STATUS "${name}: ${where}")
  elseif(mode STREQUAL "ON")
    message(FATAL_ERROR "${name}: missing; ${remedy}")
  else()
    message(STATUS "${name}: missing; ${remedy}")
  endif()
endfunction()
