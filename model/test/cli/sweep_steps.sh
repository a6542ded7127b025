# Fewer steps are walked sooner, and may miss a peak.
zl sweep --model gpt2 --framework single,ddp --optimizer adamw,adamw-fused --steps 1 --format csv
zl sweep --model gpt2 --framework single,ddp --optimizer adamw,adamw-fused --format csv
