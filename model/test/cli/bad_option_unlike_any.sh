zl predict --completely-different 3
