# Completion of zl for fish: zl itself knows what can stand where, and what it means.
function __zl_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] __complete (math (count $words) - 1) $words 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c zl -f -a '(__zl_complete)'
