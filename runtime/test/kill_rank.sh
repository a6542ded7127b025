#!/usr/bin/env bash
# A job that loses a process ends, says which one, and leaves nothing behind.
# usage: kill_rank.sh ZL_TRAIN [OPTION...]     (options replace the small model of this test)
# Exit 77 (skipped) where there is no Open MPI.
set -uo pipefail
train=$1
shift
[ $# -gt 0 ] || set -- --model gpt2-tiny --seq 64 --precision fp32
ranks=3 limit=30
mpirun --version 2>/dev/null | grep -q 'Open MPI' || { echo "no Open MPI here"; exit 77; }
work=$(mktemp -d)
failed=0 launcher='' mpirun='' members='' folder=''

finish() {
  local pid
  for pid in $launcher $mpirun $members; do kill -9 "$pid" 2>/dev/null; done
  rm -rf "$work"
}
trap finish EXIT

fail() {
  echo "$what: $*"
  sed 's/^/  stderr: /' "$work/err"
  failed=1
}

# A dead process that nobody has waited for is not alive.
alive() {
  local state
  state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) || return 1
  [ -n "$state" ] && [ "$state" != Z ]
}

# start CASE: sets launcher, mpirun, members (pids of the ranks), once all ranks are training.
start() {
  local _
  what=$1
  : >"$work/err"
  : >"$work/out"
  "$train" "${arguments[@]}" --ranks $ranks --steps 1000000 >"$work/out" 2>"$work/err" &
  launcher=$!
  for _ in $(seq 300); do
    [ "$(wc -l <"$work/out")" -ge 4 ] && break
    sleep 0.1
  done
  mpirun=$(pgrep -P "$launcher" | head -n 1)
  members=$(pgrep -P "${mpirun:-0}")
  folder=$(variable OMPI_MCA_orte_tmpdir_base "${mpirun:-0}")
  [ "$(wc -w <<<"$members")" -eq $ranks ] || { fail "did not start"; exit 1; }
}

variable() { # variable NAME PID: from the environment of a process
  tr '\0' '\n' <"/proc/$2/environ" | sed -n "s/^$1=//p"
}

# gone: every process of the job ends within the limit.
gone() {
  local deadline=$((SECONDS + limit)) pid left
  while :; do
    left=''
    for pid in $launcher $mpirun $members; do
      if alive "$pid"; then left="$left $pid"; fi
    done
    [ -z "$left" ] && return
    if [ $SECONDS -ge $deadline ]; then
      fail "after $limit s there is still$left"
      for pid in $left; do kill -9 "$pid" 2>/dev/null; done
      return
    fi
    sleep 0.1
  done
}

exit_code() { # exit_code WANTED
  local code=0
  wait "$launcher" || code=$?
  [ $code -eq "$1" ] || fail "exit code $code, expected $1"
}

one_line() { # one_line PATTERN
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one line on stderr"
  grep -qE "$1" "$work/err" || fail "no line like: $1"
}

arguments=("$@")

start "kill -9 of one rank"
victim=$(sed -n 2p <<<"$members")
number=$(variable OMPI_COMM_WORLD_RANK "$victim")
kill -9 "$victim"
gone
exit_code 4
one_line "^zl-train: rank $number: killed by signal 9 \(Killed\) in step [0-9]+, [a-z]+ \(steady[.a-z]*\)$"

start "a rank that stops answering, then the launcher's end by SIGTERM"
kill -STOP "$(sed -n 1p <<<"$members")"
kill -TERM "$launcher"
gone
exit_code 4
one_line '^zl-train: stopped by signal 15$'

start "SIGINT to the launcher"
kill -INT "$launcher"
gone
exit_code 4
one_line '^zl-train: stopped by signal 2$'

start "kill -9 of mpirun"
kill -9 "$mpirun"
gone
exit_code 4
[ ! -e "${folder:-none}" ] || fail "left behind: $folder"

start "kill -9 of the launcher"
kill -9 "$launcher"
gone
wait "$launcher" 2>/dev/null
if [ -e "${folder:-none}" ]; then # nobody was left to remove the folder; mpirun has emptied it
  find "$folder" -type f -size +0 | grep . && fail "left behind: $folder"
  rm -rf "$folder"
fi

exit $failed
