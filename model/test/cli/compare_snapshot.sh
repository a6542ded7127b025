echo '{"segments": [{"device": 0, "total_size": 6417285120, "allocated_size": 259513856, "requested_size": 254857988}], "device_traces": [[]]}' |
  zl compare - --model gpt2 --framework fsdp2 --ranks 8 --micro-batch 4 --at before_forward --units B
