zl sweep --model gpt2 --precision fp32,bf17
