# Commands after help, aliases of options; without a line it says how it is called.
zl __complete 2 zl help e
zl __complete 2 zl predict --gp
zl __complete 0
