#!/usr/bin/env bash
# Another validator agrees: every schema is one of JSON Schema's draft 2020-12, and describes its example.
# usage: schema_peer.sh SOURCE_DIR      exit 77 without Python's jsonschema
set -euo pipefail
[ $# = 1 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
python3 -W ignore -c 'from jsonschema import Draft202012Validator, RefResolver' 2>/dev/null ||
  { echo 'no jsonschema here: apt-get install python3-jsonschema'; exit 77; }
python3 -W ignore - "$1/docs/schema" <<'PYTHON'
import json
import pathlib
import sys

from jsonschema import Draft202012Validator, RefResolver

folder = pathlib.Path(sys.argv[1]).resolve()
schemas = {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("*.schema.json"))}
bad = 0
for name, schema in schemas.items():
    Draft202012Validator.check_schema(schema)
    example = folder / "examples" / name.replace(".schema.json", ".json")
    if not example.exists():
        continue
    base = folder.as_uri() + "/" + name
    store = {folder.as_uri() + "/" + other: text for other, text in schemas.items()}
    store.update({text["$id"]: text for text in schemas.values() if "$id" in text})
    resolver = RefResolver(schema.get("$id", base), schema, store=store)
    for error in Draft202012Validator(schema, resolver=resolver).iter_errors(json.loads(example.read_text())):
        print(f"{example.name}: {error.json_path}: {error.message[:200]}")
        bad = 1
print(f"{len(schemas)} schemas")
sys.exit(bad)
PYTHON
