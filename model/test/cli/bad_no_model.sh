zl predict --stage 3
