zl list visits --format csv
