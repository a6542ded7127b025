# The conformance test: the kernels of each backend in a shared module of their own, and a program
# that opens two of them and compares function by function.
if(ZL_TESTS STREQUAL "OFF")
  return()
endif()
set(test_dir "${CMAKE_CURRENT_SOURCE_DIR}/test")

function(conform_module name)
  add_library(${name} MODULE ${ARGN} "${test_dir}/conform_table.c")
  set_target_properties(${name} PROPERTIES C_VISIBILITY_PRESET default
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test")
  target_include_directories(${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/model/include")
  target_link_libraries(${name} PRIVATE zl_flags)
  # Calls inside a module stay inside: both modules have functions of the same names.
  target_link_options(${name} PRIVATE LINKER:-Bsymbolic)
endfunction()

get_target_property(host_kernels zr SOURCES)
list(FILTER host_kernels INCLUDE REGEX "/kernel/host/")
conform_module(zr-kernels-host ${host_kernels} "${test_dir}/conform_host.c")
target_link_libraries(zr-kernels-host PRIVATE zr_blas m)

set(conform_sources)
foreach(name IN ITEMS conform conform_attention conform_check conform_flat conform_products
    conform_refusals conform_rows)
  list(APPEND conform_sources "${test_dir}/${name}.c")
endforeach()
add_executable(conform ${conform_sources})
set_target_properties(conform PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/test")
target_include_directories(conform PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/model/include")
target_link_libraries(conform PRIVATE zl_flags m ${CMAKE_DL_LIBS})

zl_script_test(NAME conform.covers_every_kernel COMMAND bash "${test_dir}/conform_covers.sh"
  "${PROJECT_SOURCE_DIR}")
zl_script_test(NAME conform.notices_faults TIMEOUT 300 COMMAND bash "${test_dir}/conform_faults.sh"
  $<TARGET_FILE:conform> $<TARGET_FILE:zr-kernels-host>)
set_property(TEST conform.notices_faults PROPERTY ENVIRONMENT OPENBLAS_NUM_THREADS=1)

if(TARGET zr_cuda)
  conform_module(zr-kernels-cuda $<TARGET_OBJECTS:zr_cuda> "${test_dir}/conform_cuda.c")
  target_compile_definitions(zr-kernels-cuda PRIVATE ZR_WITH_NCCL=$<BOOL:${ZL_HAVE_NCCL}>)
  target_link_libraries(zr-kernels-cuda PRIVATE CUDA::cudart_static CUDA::cublasLt)
  if(ZL_HAVE_NCCL)
    target_link_libraries(zr-kernels-cuda PRIVATE NCCL::NCCL)
  endif()
  zl_script_test(NAME gpu.kernels_agree LABELS conform TIMEOUT 600 COMMAND
    $<TARGET_FILE:conform> $<TARGET_FILE:zr-kernels-host> $<TARGET_FILE:zr-kernels-cuda>)
  set_property(TEST gpu.kernels_agree PROPERTY ENVIRONMENT OPENBLAS_NUM_THREADS=1)
endif()
