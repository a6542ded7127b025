zl predict --run missing.json
