#!/usr/bin/env bash
# zl-trace on recordings, and where there is nothing to meter.
# usage: trace.sh ZL_TRACE      ZL_BLESS=1 writes the expected tables again
set -euo pipefail
[ $# = 1 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
trace=$(realpath "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset CUDA_INJECTION64_PATH
bad=0

try() { # try EXIT PATTERN OPTION...: exit status, and a pattern of what is said on standard error, or silence
  local wanted=$1 words=$2 rc=0
  shift 2
  "$trace" "$@" >out 2>err || rc=$?
  [ $rc -eq "$wanted" ] || { echo "$*: exit $rc, expected $wanted"; cat out err; bad=1; }
  { [ "$words" = silence ] && [ ! -s err ]; } || grep -qE -e "$words" err || { echo "$*: not said: $words"; cat err; bad=1; }
}

for name in warm leak; do
  rc=0
  "$trace" --read "$here/recordings/$name" >$name.out || rc=$?
  [ $rc -eq "$([ $name = warm ] && echo 0 || echo 1)" ] || { echo "$name: exit $rc"; bad=1; }
  [ "${ZL_BLESS-}" != 1 ] || cp $name.out "$here/recordings/$name.out"
  diff -u "$here/recordings/$name.out" $name.out || bad=1
done

# The same under other judgements.
try 0 silence --read "$here/recordings/leak" --warm nothing --tolerance 2GiB
try 1 silence --read "$here/recordings/leak" --warm nothing
"$trace" --read "$here/recordings/warm" --format json --timeline timeline.json >stdout.json
"$trace" --read "$here/recordings/warm" --output trace.json >/dev/null
diff stdout.json trace.json || bad=1
grep -q '{"ph":"C","pid":4242,' timeline.json || { echo 'no counter in the timeline'; bad=1; }
# A point is dropped only for a later one in the same microsecond; what a string says stays as it is.
mkdir quick
cat >quick/x.zltrace <<'END'
zltrace 1 7 1000 1 h a "b\
owner 0 x.so
create 500000 0 0 cuMemCreate a1 1
create 500600 0 0 cuMemCreate a2 2
create 501000 0 0 cuMemCreate a3 4
END
"$trace" --read quick --timeline quick.json >/dev/null
cat >quick.expected <<'END'
{"displayTimeUnit":"ms","traceEvents":[{"ph":"M","pid":7,"tid":7,"name":"process_name","args":{"name":"a \"b\\"}},{"ph":"C","pid":7,"tid":7,"name":"GPU 0 x.so cuMemCreate","ts":499.6,"args":{"bytes":3}},{"ph":"C","pid":7,"tid":7,"name":"GPU 0 x.so cuMemCreate","ts":500,"args":{"bytes":7}}]}
END
diff quick.expected quick.json || bad=1
try 4 'No such file' --read quick --timeline nowhere/timeline.json

# Errors.
try 2 'give a command' --read x -- true
try 2 'give a command'
try 2 'table or json' --format csv -- true
try 2 'tolerance' --tolerance much --read x
try 2 '--record is for a command' --read x --record y
try 3 'No such file' --read nowhere
mkdir empty damaged
try 4 'no recording in that folder' --read empty
echo 'hello' >damaged/x.zltrace
try 3 'x.zltrace: line 1 is none of a recording' --read damaged
printf 'zltrace 1 7 1 1 h p\nbroken MULTIPLE_SUBSCRIBERS\n' >damaged/x.zltrace
try 4 'p: CUPTI records nothing: MULTIPLE_SUBSCRIBERS' --read damaged
CUDA_INJECTION64_PATH=/other.so try 2 'CUDA_INJECTION64_PATH is /other.so already' -- true
if [ ! -e /proc/driver/nvidia/version ] && ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
  try 4 'no NVIDIA driver|libzltrace.so was not built' -- true
fi
exit $bad
