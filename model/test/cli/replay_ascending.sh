# Without recorded addresses nothing can differ but the statistics.
zl replay "${0%/*}/replay.trace.json" --addresses ascending --units MiB
zl replay "${0%/*}/replay.trace.json" --addresses descending --format json | sed -n 2,8p
