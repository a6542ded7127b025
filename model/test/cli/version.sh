[ "$(zl --version | sed -E "s/[0-9]+/0/g")" = "zl 0.0.0" ]
