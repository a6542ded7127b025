# Another depth, native and of a framework; the run is that of a config.json with this depth.
zl predict --model gpt2 --layers 24 --format json | grep -E '"(layers|width)"'
zl predict --model gpt2 --framework fsdp2 --ranks 2 --layers 24 --save-run run.json --format csv | head -n 2
grep n_layer run.json
zl predict --run run.json --format csv | head -n 2
