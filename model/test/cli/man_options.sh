# What a manual page takes in: an option, what stands for its value, its text and the legal values.
zl __man list | sed -n 1,8p
zl __man fit | sed -n "/^\*--ranks\*/,/^\*--run\*/p" | head -2
zl __man fit | sed -n "/^\*--stage\*/,/^$/p"
