# zl train is the program beside zl.
mkdir bin
cp "$ZL" bin/zl
printf "#!/bin/sh\necho \"train: \$*\"\nexit 7\n" >bin/zl-train
chmod +x bin/zl-train
bin/zl train --model gpt2 "two words"
