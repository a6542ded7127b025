zl list models gpus
