# The help of a command that is another program is that program's.
mkdir bin
cp "$ZL" bin/zl
printf "#!/bin/sh\necho \"validate: \$*\"\n" >bin/zl-validate
chmod +x bin/zl-validate
bin/zl help validate
bin/zl validate --help
