zl predict --run .
