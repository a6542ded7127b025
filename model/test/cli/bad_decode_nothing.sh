zl decode hello
