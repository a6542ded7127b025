zl replay
