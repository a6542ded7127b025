zl list gpus --format md
