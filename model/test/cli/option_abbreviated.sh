# An option may be cut short as long as it stays the only one.
zl predict --mod gpt2-tiny --micro 2 | sed -n 1p
