# Completion of zl for bash: zl itself knows what can stand where.
_zl()
{
    local IFS=$'\n'
    COMPREPLY=($("${COMP_WORDS[0]}" __complete "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]%%$'\t'*}")
}
complete -o bashdefault -o default -F _zl zl
