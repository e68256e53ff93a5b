# Completion of PROGRAM for fish, made by: PROGRAM completion fish
# For this shell: PROGRAM completion fish | source
# For all: PROGRAM completion fish > ~/.config/fish/completions/PROGRAM.fish

# Whether the words so far name just this command; "first": and nothing stands behind it yet.
function __PROGRAM_at
    set -l path
    set -l flag
    set -l ended
    set -l typed
    set -l tokens (commandline -opc)
    for word in $tokens[2..-1]
        if test -n "$flag"
            set flag
        else if test -n "$ended"
            continue
        else if test "$word" = --
            set ended 1
        else if string match -q -- '-*' $word
            if contains -- "$path $word" $__PROGRAM_valued; or contains -- "$word" $__PROGRAM_valued
                set flag $word
            end
        else if test -z "$typed"; and contains -- (string trim -- "$path $word") $__PROGRAM_commands
            set path (string trim -- "$path $word")
        else
            set typed 1
        end
    end
    test "$path" = "$argv[1]"; or return 1
    test "$argv[2]" != first; or test -z "$typed$ended"
end

# Words that only the program knows.
function __PROGRAM_ask
    set -l tokens (commandline -opc)
    command $tokens[1] __complete $argv[1] 2>/dev/null
end
