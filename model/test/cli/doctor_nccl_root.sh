# A folder that NCCL_ROOT names is looked into.
mkdir -p nccl/lib
touch nccl/lib/libnccl.so.2
NCCL_ROOT=$PWD/nccl zl doctor --format csv | grep "^libnccl" | sed "s,$PWD/,," | cut -d, -f1,2,4
