zl list phases --format csv
