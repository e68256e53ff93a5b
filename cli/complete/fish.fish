# Completion of PROGRAM for fish, made by: PROGRAM completion fish
# For this shell: PROGRAM completion fish | source
# For all: PROGRAM completion fish > ~/.config/fish/completions/PROGRAM.fish

function __PROGRAM_words
    set -l tokens (commandline -opc)
    set -l current (commandline -ct)
    set -l found (printf '%s\0' $tokens[2..-1] "$current" | command $tokens[1] __complete words fish 2>/dev/null)
    set -l flag (string match -r '^-[^=]*=' -- "$current")
    set -l value (string replace -r '^-[^=]*=' '' -- "$current")
    switch "$found[1]"
        case files
            string join -- \n "$flag"(complete -C "'' $value")
        case dirs
            printf '%s\n' "$flag"(__fish_complete_directories "$value")
    end
    string join -- \n $found[2..-1]
end

complete -c PROGRAM -f -a '(__PROGRAM_words)'
