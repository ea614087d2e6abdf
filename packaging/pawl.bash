# SPDX-License-Identifier: Apache-2.0
# bash completion of pawl. What is installed has its tables behind this, which `pages` of src/cli
# generates: _pawl_is_command, _pawl_next, _pawl_value.

_pawl_words()
{
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current")
}

_pawl_files()
{
    local files
    mapfile -t files < <(compgen -f -- "$current")
    COMPREPLY+=("${files[@]}")
    compopt -o filenames 2>/dev/null
    return 0
}

_pawl()
{
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command='' longer at
    COMPREPLY=()
    # `--flag=value` comes as three words.
    if [ "$current" = = ]; then
        current=''
    elif [ "$before" = = ]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((at = 1; at < COMP_CWORD; at++)); do
        longer=${command:+$command }${COMP_WORDS[at]}
        _pawl_is_command "$longer" || break
        command=$longer
        # A command follows `help`.
        if [ "$command" = help ] && ((at + 1 < COMP_CWORD)); then
            command=''
        fi
    done
    _pawl_value "$command $before" || _pawl_next "$command"
}
complete -F _pawl pawl

