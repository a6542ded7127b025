# The other run has no accumulation visits to compare with: each phase meets its largest.
zl explain --model llama-tiny --micro-batch 2 --seq 64 --stage 2 --ranks 4 --accumulation 3 | sed -n "/^Why not/,\$p"
