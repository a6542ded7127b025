zl __man train
