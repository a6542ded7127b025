# Two dashes end the options.
zl list --format csv -- frameworks
