#!/usr/bin/env bash
# The meter on GPUs: planted leaks, zl-train on one GPU and two, and PyTorch's FSDP2. Part of gpu.sh.
#
#     bash runtime/test/gpu_trace.sh [leaks] [train] [torch]      all three if none is named
#
# OUT        where results go; build/gpu if not set: a JSON, a timeline, a table and the recordings (for zl trace --read)
#            of every traced program, and trace.txt
# Exit: 0 if every leak was named, every arena is the ledger's to the byte, and PyTorch's reserved bytes are those of its
# rows; 1 if not; 4 if nothing could be built; 77 without a GPU.
# shellcheck disable=SC2046,SC2154
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=${OUT:-build/gpu}
mkdir -p "$out"
out=$(realpath "$out")
status=0

# shellcheck source=runtime/test/gpu_build.sh
. runtime/test/gpu_build.sh

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(leaks train torch)
: >"$out/trace.txt"
say() { # say NAME VERDICT WORDS
  printf '%-24s %-5s %s\n' "$1" "$2" "$3" | tee -a "$out/trace.txt"
  [ "$2" != BAD ] || status=1
}

# ---------------------------------------------------------------------------------------------- build

# shellcheck source=runtime/test/gpu_meter.sh
. runtime/test/gpu_meter.sh

# traced NAME COMMAND...: runs it under the meter; $rc is the exit code
traced() {
  local name=$1
  shift
  rc=0
  rm -rf "$out/$name.rec"
  timeout -k 5 200 "$bin/zl-trace" --output "$out/$name.json" --timeline "$out/$name.timeline.json" \
    --record "$out/$name.rec" -- "$@" \
    >"$out/$name.txt" 2>"$out/$name.err" || rc=$?
}
words() { head -c 300 "$out/$1.err" | tr '\n' ' '; }

# --------------------------------------------------------------------------------------------- programs

data=$work/data.txt
cat docs/*.md model/include/zeroledger/*.h >"$data"

leaks() {
  local code=0
  bash $trace/test/leaks.sh "$bin/zl-trace" "$bin/leak" "$out/leaks" | tee "$out/leaks.txt" || code=$?
  say leaks "$([ $code = 0 ] && echo ok || echo BAD)" "$(tail -n 1 "$out/leaks.txt")"
}

train() { # train NAME RANKS OPTION...: the arena of every rank, to the byte
  local name=$1 ranks=$2 rank folder=$out/$1.run verdict
  shift 2
  [ "$ranks" -le "$gpus" ] || { say "$name" skip "needs $ranks GPUs"; return 0; }
  mkdir -p "$folder"
  traced "$name" "$bin/zl-train-cuda" --ranks "$ranks" "$@" --steps 12 --data "$data" --out "$folder" --quiet
  [ $rc = 0 ] || { say "$name" BAD "exit $rc: $(words "$name")$(tail -n 2 "$out/$name.txt" | tr '\n' ' ')"; return 0; }
  [ -x "$bin/zl-validate" ] || { say "$name" skip 'no GSL here, no zl-validate'; return 0; }
  for rank in $(seq 0 $((ranks - 1))); do
    verdict=ok
    "$bin/zl-validate" trace "$folder/ledger.rank$rank.json" "$out/$name.json" >"$out/$name.rank$rank.txt" 2>&1 || verdict=BAD
    say "$name rank $rank" $verdict "$(grep '^arena' "$out/$name.rank$rank.txt" || cat "$out/$name.rank$rank.txt")"
  done
}

# PyTorch's own figures against the rows of its allocator, and a leak that must be named.
torch() {
  local name reserved traced_peak
  python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null || { say torch skip 'no PyTorch with a GPU here'; return 0; }
  for name in torch-n1 torch-n2-fake; do
    traced "$name" python3 $trace/test/torch_fsdp2.py --ranks "$([ $name = torch-n1 ] && echo 1 || echo 2)"
    reserved=$(sed -n 's/.*"peak_reserved": \([0-9]*\).*/\1/p' "$out/$name.txt")
    traced_peak=$(python3 - "$out/$name.json" <<'PY'
import json, sys
rows = [r for p in json.load(open(sys.argv[1]))["processes"] for d in p["devices"] for r in d["owners"]]
print(sum(r["peak"] for r in rows if r["owner"] == "libc10_cuda.so" and r["call"] == "cuMemAlloc"))
PY
)
    say "$name" "$([ $rc = 0 ] && [ "$reserved" = "$traced_peak" ] && echo ok || echo BAD)" \
      "exit $rc, PyTorch reserved at most ${reserved:-?} bytes, traced $traced_peak; $(words "$name")$(grep 'grew by' "$out/$name.txt" | head -n 1)"
  done
  traced torch-leak python3 $trace/test/torch_fsdp2.py --leak 64
  say torch-leak "$([ $rc = 1 ] && grep -q 'cuMemAlloc of libc10_cuda.so grew by' "$out/torch-leak.txt" && echo ok || echo BAD)" \
    "exit $rc: $(grep 'grew by' "$out/torch-leak.txt" | head -n 1)"
}

for part in "${parts[@]}"; do
  case $part in
    leaks) leaks ;;
    train)
      train train-tiny-z0 1 --model gpt2-tiny --micro-batch 2 --seq 48
      train train-gpt2-z3 1 --model gpt2 --micro-batch 4 --seq 512 --stage 3
      train train-gpt2-z3-n2 2 --model gpt2 --micro-batch 4 --seq 512 --stage 3
      train train-gpt2-z0-n2 2 --model gpt2 --micro-batch 4 --seq 512 --stage 0
      ;;
    torch) torch ;;
    *) fail "no part is called $part: leaks, train, torch" ;;
  esac
done
exit $status
