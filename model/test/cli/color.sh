# Bold titles only if asked for or on a terminal, and never with NO_COLOR.
zl list frameworks --color always | head -1
zl list frameworks | head -1
if script -qec true /dev/null >/dev/null 2>&1; then # a terminal is to be had
  NO_COLOR=1 script -qec "zl list frameworks" /dev/null | tr -d "\r" | head -1
else
  zl list frameworks | head -1
fi
