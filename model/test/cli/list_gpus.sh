zl list gpus
