#!/usr/bin/env bash
# speed.json from the lines that gpu_speed.sh printed, for a run that ended before its results were packed.
#
#     bash validate/speed/from_lines.sh docs/results/2026-12-01-h200 >speed.json
#
# Reads speed*.log in that folder, in the order of their names, and beside them provenance.json and reference-here.json, which names PyTorch.
# A line has a name, the seconds of a step and the peak; the name says how the row ran. Batch and sequence are gpu_speed.sh's.
# Operations of a token depend on model and sequence alone, so they are those that zl-train wrote for the same model, batch and
# sequence in another folder: ../*/speed/*.train.json. A row says "from": "lines", and lacks what a line does not say.
set -euo pipefail
fail() { printf 'from_lines.sh: %s\n' "$1" >&2; exit 3; }
[ $# -eq 1 ] || { sed -n '4s/^# *//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
folder=${1%/}
script=$(dirname "${BASH_SOURCE[0]}")/../../runtime/test/gpu_speed.sh

member() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1" | head -n 1; } # member FILE NAME
size_of() { sed -n "s/^sizes=(.*'$1 \([0-9]* [0-9]*\)'.*/\1/p" "$script"; }             # "BATCH SEQ" of a model
operations() { # operations MODEL BATCH SEQ
  local file
  for file in "$(dirname "$folder")"/*/speed/"$1"-n*.train.json; do
    if [ -f "$file" ] && grep -qE "^  \"text\": \"$1 stage .* B $2, T $3," "$file"; then
      member "$file" operations_per_token
      return
    fi
  done
}

rows=''
row() { # row NAME SECONDS PEAK
  local name=$1 model ranks how what batch seq count chunk=0 gradients=model
  [[ $name =~ ^(.*)-n([0-9]+)-(torch-|z[0-9]-)(.*)$ ]] || fail "$name: not the name of a row"
  model=${BASH_REMATCH[1]} ranks=${BASH_REMATCH[2]} what=${BASH_REMATCH[3]%-} how=${BASH_REMATCH[4]}
  read -r batch seq <<<"$(size_of "$model")"
  count=$(operations "$model" "$batch" "$seq")
  [ -n "$count" ] || fail "$name: no train.json has its operations"
  rows+="${rows:+,
}    {\"name\": \"$name\", \"program\": \"$([ "$what" = torch ] && echo pytorch || echo zeroledger)\", \"from\": \"lines\", \"model\": \"$model\""
  rows+=", \"ranks\": $ranks, \"micro_batch\": $batch, \"seq\": $seq"
  if [ "$what" = torch ]; then
    [[ $how =~ ^(.*)-([a-z]*)-(eager|compiled)$ ]] || fail "$name: not a row of PyTorch"
    rows+=", \"mode\": \"${BASH_REMATCH[1]}\", \"recompute\": \"${BASH_REMATCH[2]}\", \"compiled\": $([ "${BASH_REMATCH[3]}" = compiled ] && echo true || echo false)"
  else
    [[ $how != *-fp32-gradients ]] || { gradients=fp32; how=${how%-fp32-gradients}; }
    [[ $how != *-chunk ]] || { chunk=$(sed -n 's/.*-chunk" .* --head-chunk \([0-9]*\)$/\1/p' "$script" | head -n 1); how=${how%-chunk}; }
    rows+=", \"stage\": ${what#z}, \"recompute\": \"$how\", \"grad_dtype\": \"$gradients\", \"head_chunk\": $chunk"
  fi
  rows+=", \"operations_per_token\": $count, \"step_seconds\": $2, \"peak_allocated\": $3}"
}
while read -r name seconds _ _ _ peak _; do
  row "$name" "$seconds" "$peak"
done < <(cat "$folder"/speed*.log | grep -E '^[^ ]+ +[0-9.e-]+ s a step, [0-9]+ B$')
[ -n "$rows" ] || fail 'no line has a speed'

provenance=$folder/provenance.json
printf '{\n  "schema": "zeroledger.speed/1",\n  "commit": "%s",\n  "date": "%s",\n  "gpu": "%s",\n  "gpus": %d,\n  "driver": "%s",\n  "torch": "%s",\n  "rows": [\n%s\n  ]\n}\n' \
  "$(member "$provenance" commit)" "$(member "$provenance" date)" "$(member "$provenance" gpu)" "$(member "$provenance" gpus)" \
  "$(member "$provenance" driver)" "$(sed -n 's/.*"torch": "\([^"]*\)".*/\1/p; s/.*"PyTorch \([^ "]*\).*/\1/p' "$folder/reference-here.json" | head -n 1)" "$rows"
