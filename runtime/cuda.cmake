# The trainer of the cuda backend: the same sources with other kernels, memory and communication. Its
# functions have the names of the host's, so it is a program of its own; zl-train finds it beside
# itself.
if(NOT TARGET zr_cuda)
  return()
endif()
get_target_property(sources zr SOURCES)
list(FILTER sources EXCLUDE REGEX "/host/|/track/witness\\.c$|/comm/comm_(mpi|none)\\.c$|/train/(launch|mpirun)\\.c$")
foreach(name IN ITEMS comm/cuda/lane device/cuda/device device/cuda/stage device/cuda/tick net/cuda/work track/cuda/memory track/cuda/witness
    train/cuda/launch)
  list(APPEND sources "${CMAKE_CURRENT_SOURCE_DIR}/${name}.c")
endforeach()
if(ZL_HAVE_NCCL)
  foreach(name IN ITEMS library nccl)
    list(APPEND sources "${CMAKE_CURRENT_SOURCE_DIR}/comm/cuda/${name}.c")
  endforeach()
else()
  list(APPEND sources "${CMAKE_CURRENT_SOURCE_DIR}/comm/cuda/alone.c")
endif()

add_library(zr_gpu STATIC ${sources} $<TARGET_OBJECTS:zr_cuda>)
target_include_directories(zr_gpu PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
target_compile_definitions(zr_gpu PRIVATE $<TARGET_PROPERTY:zr,COMPILE_DEFINITIONS>)
target_link_libraries(zr_gpu PRIVATE zl_flags
  PUBLIC zl_base CUDA::cudart_static CUDA::cublasLt Threads::Threads m ${CMAKE_DL_LIBS})
if(ZL_HAVE_NCCL) # its header; the library is opened when it is needed
  target_include_directories(zr_gpu SYSTEM PRIVATE "${NCCL_INCLUDE_DIR}")
endif()

add_executable(zl-train-cuda train/main.c)
set_target_properties(zl-train-cuda PROPERTIES LINKER_LANGUAGE CUDA)
target_link_libraries(zl-train-cuda PRIVATE zl_flags zr_gpu)
if(ZL_HAVE_NCCL)
  get_filename_component(nccl_folder "${NCCL_LIBRARY}" DIRECTORY)
  set_target_properties(zl-train-cuda PROPERTIES BUILD_RPATH "${nccl_folder}" INSTALL_RPATH "${nccl_folder}")
endif()
install(TARGETS zl-train-cuda)

zl_script_test(NAME gpu.train COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/test/gpu_smoke.sh"
  $<TARGET_FILE:zl> $<TARGET_FILE:zl-train>)
