zl __man
