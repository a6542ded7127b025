# shellcheck shell=bash disable=SC2154
# Sourced by gpu_build.sh, from the top of the repository: which files the programs are made of. with_nccl is 1 where NCCL is,
# mpicc the compiler of MPI or empty.

# Sources of a trainer that are none of a backend; then those of one.
common() {
  find runtime -name '*.c' -not -path '*/host/*' -not -path '*/cuda/*' -not -path 'runtime/test/*' -not -path 'runtime/bench/*' \
    -not -path 'runtime/fuzz/*' \
    -not -path 'runtime/trace/*' -not -path runtime/fault/on.c -not -path runtime/track/witness.c \
    -not -path 'runtime/comm/comm_[mn]*' -not -path runtime/train/launch.c -not -path runtime/train/mpirun.c
}
cuda_sources() {
  find runtime/{device,net,track,train}/cuda -name '*.c'
  if [ $with_nccl = 1 ]; then
    find runtime/comm/cuda -name '*.c' -not -name alone.c
  else
    printf 'runtime/comm/cuda/%s.c\n' lane alone
  fi
}
host_sources() {
  find runtime/{comm,device,kernel,net,track}/host -name '*.c'
  printf 'runtime/%s.c\n' track/witness train/launch train/mpirun comm/comm_"$([ -n "$mpicc" ] && echo mpi || echo none)"
}
model_sources() { # all but base and cli
  find model -name '*.c' -not -path 'model/base/*' -not -path 'model/cli/*' -not -path 'model/test/*' -not -path 'model/bench/*' \
    -not -path 'model/fuzz/*'
}

validate_sources() { # of the program
  find validate -name '*.c' -not -path 'validate/test/*' -not -path 'validate/speed/*' -not -path 'validate/fuzz/*'
}
