#!/usr/bin/env bash
# The launcher with a stand-in for mpirun: what it starts, what it passes on, and what it says about every way a
# job can end. Needs no MPI, so that a sanitizer sees nothing but our code.
# usage: launch.sh ZL_TRAIN
set -uo pipefail
train=$1 bad=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/none"

# FAKE is what it does: shell text, with the words of mpirun's command line as arguments.
cat >"$work/bin/mpirun" <<'END'
#!/bin/bash
rule=--------------------------------------------------------------------------
banner() { printf '%s\n' $rule "$1" $rule >&2; }
eval "$FAKE"
END
chmod +x "$work/bin/mpirun"
export PATH="$work/bin:$PATH"

job=("$train" --model gpt2-tiny --seq 16 --ranks 3 --steps 2)

# expect CODE WORDS [OPTION...]: exit code and all of stderr ("" is nothing) of a job under $FAKE
expect() {
  local code=$1 words=$2 got=0
  shift 2
  "${job[@]}" "$@" >"$work/out" 2>"$work/err" || got=$?
  [ "$got" = "$code" ] && [ "$(cat "$work/err")" = "$words" ] && return
  printf '%s\n  exit %d, expected %d\n' "$FAKE" "$got" "$code"
  printf '  said:     %s\n  expected: %s\n' "$(cat "$work/err")" "$words"
  bad=1
}
printed() { # printed TEXT: all of stdout
  [ "$(cat "$work/out")" = "$1" ] || { printf '%s\n  printed: %s\n  expected: %s\n' "$FAKE" "$(cat "$work/out")" "$1"; bad=1; }
}

export FAKE='echo "$1 $2 $4 $5"'
expect 0 ''
printed '-np 3 --model gpt2-tiny'

FAKE='cmp -s "$3" /proc/$PPID/exe && [ -w "${ZR_WATCH#* }" ] && [ -d "$OMPI_MCA_orte_tmpdir_base" ] && echo ok'
expect 0 ''
printed ok

FAKE='echo "$OMPI_MCA_orte_tmpdir_base"'
expect 0 ''
[ ! -e "$(cat "$work/out")" ] || { echo "left behind: $(cat "$work/out")"; bad=1; }

FAKE='echo "$OMPI_MCA_btl $OMPI_MCA_mpi_yield_when_idle"'
OMPI_MCA_btl=mine expect 0 ''
printed 'mine 1'

FAKE='head -c 100000 /dev/zero | tr "\0" x; echo'
expect 0 ''
[ "$(wc -c <"$work/out")" = 100001 ] || { echo "$(wc -c <"$work/out") of 100001 bytes were passed on"; bad=1; }

FAKE='echo "zl-train: rank 1: out of memory" >&2; banner "mpirun has exited due to process rank 1"; exit 4'
expect 4 'zl-train: rank 1: out of memory'

FAKE='echo "zl-train: rank 1: a bug" >&2; exit 5'
expect 5 'zl-train: rank 1: a bug'

FAKE='printf "zl-train: rank 2: no newline at the end" >&2; exit 3'
expect 3 'zl-train: rank 2: no newline at the end'

FAKE='banner "mpirun noticed that process rank 2 with PID 7 on node n exited on signal 9 (Killed)."; exit 137'
expect 4 'zl-train: rank 2: killed by signal 9 (Killed) before its first phase'

FAKE='banner "mpirun noticed that process rank 9 with PID 7 on node n exited on signal 9 (Killed)."; exit 137'
expect 4 'zl-train: rank 9: killed by signal 9 (Killed)'

FAKE='exit 7'
expect 4 'zl-train: mpirun ended with exit code 7: it gave no reason'

FAKE='while :; do echo x || exit 1; done'
"${job[@]}" >/dev/full 2>"$work/err"
[ $? = 4 ] && [ "$(cat "$work/err")" = 'zl-train: standard output cannot be written; the job was ended' ] ||
  { echo "a full disk: $(cat "$work/err")"; bad=1; }

# stopped SIGNAL SECONDS: the launcher ends its job and says so, within that time
stopped() {
  local launcher begin=$SECONDS
  rm -f "$work/started"
  "${job[@]}" >"$work/out" 2>"$work/err" &
  launcher=$!
  until [ -e "$work/started" ] || ! kill -0 $launcher; do sleep 0.05; done
  kill "-$1" $launcher
  wait $launcher
  [ $? = 4 ] && [ "$(cat "$work/err")" = "zl-train: stopped by signal $(kill -l "$1")" ] && [ $((SECONDS - begin)) -le "$2" ] &&
    ! kill -0 "$(cat "$work/started")" 2>/dev/null && return
  printf 'SIG%s after %d s: %s\n' "$1" $((SECONDS - begin)) "$(cat "$work/err")"
  bad=1
}
FAKE="echo \$\$ >$work/begun; mv $work/begun $work/started; exec sleep 60"
stopped INT 5
stopped TERM 5
stopped HUP 5
FAKE="trap '' TERM; echo \$\$ >$work/begun; mv $work/begun $work/started; while :; do sleep 0.2; done"
stopped TERM 20

FAKE='there is no mpirun'
job=(env PATH="$work/none" "${job[@]}")
expect 4 'zl-train: mpirun is not found, and 3 ranks need it; install openmpi-bin, or start the ranks with srun'
exit $bad
