# zl_flags carries the warnings and sanitizers of every target we compile; it is never installed.
add_library(zl_flags INTERFACE)

set(common -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wswitch-enum
  -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wundef -Wcast-qual -Wdouble-promotion
  -Wwrite-strings -Wnull-dereference)
set(gcc_only -Wlogical-op -Wduplicated-cond -Wduplicated-branches)

target_compile_options(zl_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:C>:${common}>"
  "$<$<COMPILE_LANG_AND_ID:C,GNU>:${gcc_only}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow>")
if(ZL_WERROR)
  target_compile_options(zl_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(ZL_SANITIZE)
  list(JOIN ZL_SANITIZE "," sanitizers)
  target_compile_options(zl_flags INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-fsanitize=${sanitizers}> $<$<COMPILE_LANGUAGE:C>:-fno-sanitize-recover=all>
    $<$<COMPILE_LANGUAGE:C>:-fno-omit-frame-pointer>)
  target_link_options(zl_flags INTERFACE -fsanitize=${sanitizers})
endif()
