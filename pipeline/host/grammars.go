package host

import (
	"slices"
	"strings"
)

// Grammars are all that we know. The facts are those of the programs' manuals and of https://gtfobins.github.io.
func Grammars() []Grammar {
	return []Grammar{
		// -c, -C, --exec-path, --upload-pack, --output and what a repository configures run programs and write files.
		{Programs: []string{"git"}, before: "--no-pager --no-optional-locks", operand: gitOperand, every: notSigned,
			safe: "status log show diff blame describe rev-parse ls-files remote", Forms: []string{
				"status -s -b -v -z -u* --short --branch --long --porcelain=* --show-stash --untracked-files=* --ignored=* --column --no-column --ahead-behind --no-renames",
				"log " + gitLog, "show " + gitLog, "shortlog -s -n -e -c --summary --numbered --email --all --since=* --until=* --author=*", "diff " + gitDiff,
				"blame -L* -l -t -s -e -w -M -C --porcelain --line-porcelain --date=*", "describe --tags --all --always --long --dirty --abbrev=* --match=*",
				"branch -a -r -v -l --all --remotes --verbose --list --show-current --contains=* --merged --no-merged --sort=* --format=*",
				"tag -l -n* --list --contains=* --sort=* --format=* --points-at=*",
				"rev-parse --short=* --abbrev-ref --verify --show-toplevel --show-prefix --is-inside-work-tree --git-dir --symbolic-full-name -q",
				"ls-files -c -d -m -o -s -z -t --cached --deleted --modified --others --stage --exclude-standard", "ls-tree -r -t -d -l -z --name-only --long --full-tree",
				"cat-file -t -s -p -e", "rev-list --count --all --max-count=* -n* --since=* --until=* --left-right", "merge-base --all --is-ancestor --octopus",
				"remote -v --verbose", "reflog -n* --date=*", "add -A -u -v -n --all --update --verbose --dry-run", "commit -m* -a -q -v --message=* --all --quiet --allow-empty --amend --no-edit",
				"restore --staged --worktree -S -W", "switch -c* --create=* --detach", "fetch -p -q -t -v --prune --quiet --tags --all --verbose --dry-run --no-recurse-submodules",
				"pull -q -v --ff-only --quiet --verbose --no-recurse-submodules", "push -u -q -v -n --set-upstream --quiet --verbose --dry-run --tags --no-recurse-submodules",
			}},
		// run, exec, create, cp, build and compose reach all of the host: a mount of / or of the engine's socket is root.
		{Programs: []string{"docker", "podman"}, Forms: []string{
			"ps -a -q -n* -l -s -f* --all --quiet --no-trunc --last=* --latest --size --filter=* --format=*",
			"images -a -q -f* --all --quiet --no-trunc --digests --filter=* --format=*",
			"logs -n* -t -f --tail=* --timestamps --since=* --until=* --details --follow", "inspect -s -f* --size --format=* --type=*",
			"stats -a --all --no-stream --no-trunc --format=*", "start", "stop -t* --time=* --timeout=* -s* --signal=*", "restart -t* --time=* --timeout=* -s* --signal=*",
			"version -f* --format=*", "info -f* --format=*", "port", "top", "diff",
		}},
		// exec, run, cp, apply, edit, plugins and a --kubeconfig run programs, here or in the cluster; -o go-template-file reads any file.
		{Programs: []string{"kubectl"}, every: func(_ bool, word string) bool { return !strings.Contains(word, "-file") }, Forms: []string{
			"get -A -w -l* -o* -n* --all-namespaces --namespace=* --selector=* --output=* --show-labels --field-selector=* --sort-by=* --no-headers",
			"describe -A -l* -n* --namespace=* --selector=*", "logs -n* -c* -p --namespace=* --container=* --previous --tail=* --since=* --timestamps --all-containers",
			"top -A -n* --namespace=* --containers", "version --client --short", "cluster-info",
		}},
		// edit, link, set-environment, -H, -M and --root run programs or change what others run.
		{Programs: []string{"systemctl"}, before: "--user --system --no-pager --no-ask-password", operand: func(_, word string) bool { return !strings.Contains(word, "/") },
			Forms: []string{
				"status " + systemctl, "show -p* --property=* --value " + systemctl, "cat " + systemctl, "is-active -q --quiet", "is-enabled -q --quiet", "is-failed -q --quiet", "list-units " + systemctl,
				"list-unit-files " + systemctl, "list-timers " + systemctl, "list-sockets " + systemctl, "list-dependencies " + systemctl, "start --no-block", "stop --no-block",
				"restart --no-block", "reload --no-block", "try-restart --no-block", "reset-failed", "is-system-running",
			}},
		// --cursor-file and --vacuum write files, -D, --file and --root read others.
		{Programs: []string{"journalctl"}, Forms: []string{". -u* -n* -p* -b* -o* -S* -U* -t* -g* -k -r -q -e -x -a --unit=* --user-unit=* --lines=* --priority=* --boot=* --output=* --since=* --until=* --grep=* " +
			"--identifier=* --dmesg --reverse --quiet --no-pager --utc --no-hostname --disk-usage --list-boots --user --system"}},
		// -exec, -execdir, -ok and -okdir run programs, -delete removes files, -fprint and -fls write them.
		{Programs: []string{"find", "gfind"}, every: func(_ bool, word string) bool { return word != "--" },
			Forms: []string{". -H -P -name* -iname* -path* -ipath* -wholename* -regex* -iregex* -type* -xtype* -maxdepth* -mindepth* -mtime* -mmin* -ctime* -cmin* -atime* -amin* -newer* " +
				"-size* -empty -user* -group* -uid* -gid* -perm* -readable -writable -executable -links* -inum* -mount -xdev -depth -prune -print -print0 -ls -not -a -o -and -or -quit -true -false -daystart"}},
		// --to-command, -I, --checkpoint-action and a file on another host run programs, and extraction writes anywhere: it lists.
		{Programs: []string{"tar", "gtar", "bsdtar", "star"}, every: func(first bool, word string) bool { return !strings.Contains(word, ":") && optionFirst(first, word) },
			Forms: []string{". -t -v -z -j -J -f* --list --verbose --gzip --bzip2 --xz --file=*"}},
		{Programs: []string{"unzip", "zipinfo"}, every: optionFirst, Forms: []string{". -l -v -t -q -1"}},
		// -l and --paginate start a program.
		{Programs: []string{"diff"}, Forms: []string{". -u -U* -c -C* -q -r -s -i -w -b -B -y -a -N -W* -x* --brief --unified=* --context=* --recursive --report-identical-files --ignore-case --ignore-all-space " +
			"--ignore-space-change --ignore-blank-lines --side-by-side --width=* --text --new-file --exclude=* --color=* --no-dereference --strip-trailing-cr"}},
		{Programs: []string{"which"}, Forms: []string{". -a"}},
		// -D and -F write and read any file, -K closes connections.
		{Programs: []string{"ss"}, Forms: []string{". -t -u -w -x -l -n -a -p -e -i -m -o -r -s -H -4 -6 --tcp --udp --raw --unix --listening --numeric --all --processes --extended --info --memory --options --resolve --summary --no-header --ipv4 --ipv6"}},
		// -C and -c clear it, -D, -E and -n change the console.
		{Programs: []string{"dmesg"}, operand: noOperand, Forms: []string{". -T -H -k -u -x -r -l* -f* --ctime --kernel --userspace --level=* --facility=* --decode --nopager"}},
		{Programs: []string{"echo"}, Forms: []string{". -n -e -E"}},
		{Programs: []string{"sleep"}, Forms: []string{"."}},
		{Programs: []string{"seq"}, Forms: []string{". -w -s* -f* --equal-width --separator=* --format=*"}},
		{Programs: []string{"cat"}, Forms: []string{". -A -b -e -E -n -s -t -T -u -v --number --number-nonblank --show-all --squeeze-blank"}},
		{Programs: []string{"head"}, Forms: []string{". -n* -c* -q -v -z --lines=* --bytes=* --quiet --verbose"}},
		{Programs: []string{"tail"}, Forms: []string{". -n* -c* -f -F -q -v -z --lines=* --bytes=* --follow=* --quiet --verbose"}},
		{Programs: []string{"wc"}, Forms: []string{". -c -l -L -m -w --bytes --chars --lines --words"}}, // --files0-from reads any file
		// -f reads any file.
		{Programs: []string{"grep"}, Forms: []string{". -A* -B* -C* -E -F -G -H -L -a -b -c -e* -h -i -l -m* -n -o -q -r -s -v -w -x -z --include=* --exclude=* --exclude-dir=* --color=* --count --ignore-case --invert-match " +
			"--line-number --word-regexp --recursive --max-count=* --context=* --after-context=* --before-context=* --extended-regexp --fixed-strings --only-matching"}},

		// Those of Safe: with any of their options they change nothing.
		{Programs: []string{"ls"}, safe: ".", Forms: []string{". -l -a -A -h -1 -R -t -r -S -d -F -i -n -s --all --almost-all --human-readable --recursive --reverse --directory --color=* --full-time --time-style=*"}},
		{Programs: []string{"stat"}, safe: ".", Forms: []string{". -c* -f -t --format=* --terse"}},
		{Programs: []string{"du"}, safe: ".", Forms: []string{". -h -s -a -c -d* -k -m -x -b --human-readable --summarize --all --total --max-depth=* --apparent-size"}},
		{Programs: []string{"df"}, safe: ".", operand: noOperand, Forms: []string{". -h -T -i -k -m -P --human-readable --print-type --inodes --total --local"}},
		{Programs: []string{"free"}, safe: ".", Forms: []string{". -h -b -k -m -g -t -w --human --total --wide --si"}},
		{Programs: []string{"uptime"}, safe: ".", Forms: []string{". -p -s --pretty --since"}},
		{Programs: []string{"uname"}, safe: ".", Forms: []string{". -a -s -n -r -v -m -p -i -o --all"}},
		{Programs: []string{"ps"}, safe: ".", operand: func(_, word string) bool { return word == "aux" || word == "ax" }, Forms: []string{". -e -A -f -F -l -H --forest"}},
		{Programs: []string{"id"}, safe: ".", operand: noOperand, Forms: []string{". -u -g -G -n -r --user --group --groups --name"}},
		// -s and a plain number set the clock, and -f reads any file.
		{Programs: []string{"date", "gdate"}, safe: ".", operand: func(_, word string) bool { return strings.HasPrefix(word, "+") },
			Forms: []string{". -u -R -I* -d* --utc --universal --date=* --iso-8601=* --rfc-3339=* --rfc-email"}},
		// A word or -F sets the name.
		{Programs: []string{"hostname"}, safe: ".", operand: noOperand, Forms: []string{". -f -s -d -i -I -A --fqdn --short --domain --ip-address --all-ip-addresses --all-fqdns"}},
		{Programs: []string{"nproc"}, safe: ".", Forms: []string{". --all"}},
		{Programs: []string{"lscpu"}, safe: ".", operand: noOperand, Forms: []string{". -e* -p* -J --json"}},
		{Programs: []string{"lsblk"}, safe: ".", operand: noOperand, Forms: []string{". -f -a -l -p -J -o* --fs --all --json"}},
		{Programs: []string{"whoami"}, safe: ".", Forms: []string{"."}},
		{Programs: []string{"groups"}, safe: ".", operand: noOperand, Forms: []string{"."}},
		{Programs: []string{"arch"}, safe: ".", Forms: []string{"."}},
	}
}

const (
	gitDiff = "-p -u -s -w -b -z -R -U* -M* -C* -B* -S* -G* --stat=* --numstat --shortstat --name-only --name-status --summary --cached --staged --patch --no-patch --raw --unified=* " +
		"--no-ext-diff --no-textconv --no-color --color=* --word-diff=* --ignore-all-space --ignore-space-change --ignore-blank-lines --diff-filter=* --find-renames=* --find-copies=* --no-renames " +
		"--exit-code --quiet --check --minimal --patience --histogram --merge-base --relative=* --full-index --abbrev=*"
	gitLog = gitDiff + " -n* -i -E -F -g -L* --oneline --graph --decorate=* --no-decorate --all --branches=* --tags=* --remotes=* --author=* --committer=* --grep=* --since=* --until=* --after=* --before=* " +
		"--max-count=* --skip=* --merges --no-merges --first-parent --reverse --pretty=* --format=* --date=* --abbrev-commit --follow --topo-order --date-order --walk-reflogs --left-right --cherry-pick"
	systemctl = "-a -l -q -n* -o* -t* --all --full --quiet --lines=* --output=* --type=* --state=* --no-pager --no-legend --plain --failed --user"
)

func noOperand(string, string) bool { return false }

// optionFirst refuses a first word without a dash, in which tar and unzip look for options as well.
func optionFirst(first bool, word string) bool { return !first || strings.HasPrefix(word, "-") }

// notSigned refuses formats with a signature, which git has gpg look at.
func notSigned(_ bool, word string) bool {
	return !strings.HasPrefix(word, "-") || !strings.Contains(word, "%G") && !strings.Contains(word, "signature")
}

// gitOperand refuses paths outside of the repository, which diff reads like any others, and what is no name of a
// remote: transports such as ext:: run programs.
func gitOperand(form, word string) bool {
	switch form {
	case "fetch", "pull", "push":
		return !strings.Contains(word, ":")
	case "remote":
		return false
	}
	return !strings.HasPrefix(word, "/") && !slices.Contains(strings.Split(word, "/"), "..")
}
