zl list frameworks --format csv | cut -d, -f1-3
