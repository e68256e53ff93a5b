package host

import (
	"slices"
	"strings"
)

// Limit is a program that is of use, and dangerous: it can be allowed in these forms only. What is not listed is
// refused, so abbreviated, joined and new options are, too.
type Limit struct {
	Programs []string
	Why      string
	Before   string                       // options that may stand before the subcommand; they have no values
	Forms    []string                     // a subcommand, or a dot where there is none, and its options; see form
	operand  func(form, word string) bool // nil: any word
	every    func(i int, word string) bool
}

// Limits are the programs that can be allowed in part.
func Limits() []Limit {
	return []Limit{
		{Programs: []string{"git"}, Before: "--no-pager --no-optional-locks", operand: gitOperand,
			Why: "options such as -c, -C, --exec-path, --upload-pack and --output, and what a repository configures, run programs and write files",
			Forms: []string{
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
		{Programs: []string{"docker", "podman"},
			Why: "run, exec, create, cp, build, compose and the like reach all of the host: a mount of / or of the engine's socket, --privileged and --pid=host are root",
			Forms: []string{
				"ps -a -q -n* -l -s -f* --all --quiet --no-trunc --last=* --latest --size --filter=* --format=*",
				"images -a -q -f* --all --quiet --no-trunc --digests --filter=* --format=*",
				"logs -n* -t -f --tail=* --timestamps --since=* --until=* --details --follow", "inspect -s -f* --size --format=* --type=*",
				"stats -a --all --no-stream --no-trunc --format=*", "start", "stop -t* --time=* --timeout=* -s* --signal=*", "restart -t* --time=* --timeout=* -s* --signal=*",
				"version -f* --format=*", "info -f* --format=*", "port", "top", "diff",
			}},
		{Programs: []string{"kubectl"}, Why: "exec, run, cp, apply, edit, plugins and a --kubeconfig run programs, here or in the cluster",
			Forms: []string{
				"get -A -w -l* -o* -n* --all-namespaces --namespace=* --selector=* --output=* --show-labels --field-selector=* --sort-by=* --no-headers",
				"describe -A -l* -n* --namespace=* --selector=*", "logs -n* -c* -p --namespace=* --container=* --previous --tail=* --since=* --timestamps --all-containers",
				"top -A -n* --namespace=* --containers", "version --client --short", "cluster-info",
			}, every: func(_ int, word string) bool { return !strings.Contains(word, "-file") }},
		{Programs: []string{"systemctl"}, Before: "--user --system --no-pager --no-ask-password",
			Why: "edit, link, set-environment, -H, -M and --root run programs or change what others run",
			Forms: []string{
				"status " + systemctl, "show -p* --property=* --value " + systemctl, "cat " + systemctl, "is-active -q --quiet", "is-enabled -q --quiet", "is-failed -q --quiet", "list-units " + systemctl,
				"list-unit-files " + systemctl, "list-timers " + systemctl, "list-sockets " + systemctl, "list-dependencies " + systemctl, "start --no-block", "stop --no-block",
				"restart --no-block", "reload --no-block", "try-restart --no-block", "reset-failed", "is-system-running",
			}, operand: func(_, word string) bool { return !strings.Contains(word, "/") }},
		{Programs: []string{"journalctl"}, Why: "--cursor-file and --vacuum write files, -D, --file and --root read others, and a pager runs programs",
			Forms: []string{". -u* -n* -p* -b* -o* -S* -U* -t* -g* -k -r -q -e -x -a --unit=* --user-unit=* --lines=* --priority=* --boot=* --output=* --since=* --until=* --grep=* " +
				"--identifier=* --dmesg --reverse --quiet --no-pager --utc --no-hostname --disk-usage --list-boots --user --system"}},
		{Programs: []string{"find", "gfind"}, Why: "-exec, -execdir, -ok and -okdir run programs, -delete removes files, -fprint and -fls write them",
			Forms: []string{". -H -P -name* -iname* -path* -ipath* -wholename* -regex* -iregex* -type* -xtype* -maxdepth* -mindepth* -mtime* -mmin* -ctime* -cmin* -atime* -amin* -newer* " +
				"-size* -empty -user* -group* -uid* -gid* -perm* -readable -writable -executable -links* -inum* -mount -xdev -depth -prune -print -print0 -ls -not -a -o -and -or -quit -true -false -daystart"},
			every: func(_ int, word string) bool { return word != "--" }},
		{Programs: []string{"tar", "gtar", "bsdtar", "star"},
			Why:   "--to-command, -I, --use-compress-program, --checkpoint-action and a file on another host run programs, and extraction writes anywhere: it can be allowed to list",
			Forms: []string{". -t -v -z -j -J -f* --list --verbose --gzip --bzip2 --xz --file=*"},
			every: func(i int, word string) bool {
				return !strings.Contains(word, ":") && (i > 0 || strings.HasPrefix(word, "-"))
			}},
		{Programs: []string{"unzip", "zipinfo"}, Why: "it writes files anywhere: it can be allowed to list", Forms: []string{". -l -v -t -q -1"}, every: func(i int, word string) bool { return i > 0 || strings.HasPrefix(word, "-") }},
		{Programs: []string{"date", "gdate"}, Why: "-s and a plain number set the clock, and -f reads any file",
			Forms: []string{". -u -R -I* -d* --utc --universal --date=* --iso-8601=* --rfc-3339=* --rfc-email"}, operand: func(_, word string) bool { return strings.HasPrefix(word, "+") }},
		{Programs: []string{"diff"}, Why: "-l and --paginate start a program",
			Forms: []string{". -u -U* -c -C* -q -r -s -i -w -b -B -y -a -N -W* -x* --brief --unified=* --context=* --recursive --report-identical-files --ignore-case --ignore-all-space " +
				"--ignore-space-change --ignore-blank-lines --side-by-side --width=* --text --new-file --exclude=* --color=* --no-dereference --strip-trailing-cr"}},
		{Programs: []string{"which"}, Why: "it is a script on some systems", Forms: []string{". -a"}},
		{Programs: []string{"hostname"}, Why: "a word or -F sets the name", Forms: []string{". -f -s -d -i -I -A --fqdn --short --domain --ip-address --all-ip-addresses --all-fqdns"},
			operand: noOperand},
		{Programs: []string{"ss"}, Why: "-D and -F write and read any file, -K closes connections",
			Forms: []string{". -t -u -w -x -l -n -a -p -e -i -m -o -r -s -H -4 -6 --tcp --udp --raw --unix --listening --numeric --all --processes --extended --info --memory --options --resolve --summary --no-header --ipv4 --ipv6"}},
		{Programs: []string{"dmesg"}, Why: "-C and -c clear it, -D, -E and -n change the console", Forms: []string{". -T -H -k -u -x -r -l* -f* --ctime --kernel --userspace --level=* --facility=* --decode --nopager"}, operand: noOperand},
	}
}

const (
	gitDiff = "-p -u -s -w -b -z -R -U* -M* -C* -B* -S* -G* --stat=* --numstat --shortstat --name-only --name-status --summary --cached --staged --patch --no-patch --raw --unified=* " +
		"--no-ext-diff --no-textconv --no-color --color=* --word-diff=* --ignore-all-space --ignore-space-change --ignore-blank-lines --diff-filter=* --find-renames=* --find-copies=* --no-renames " +
		"--exit-code --quiet --check --minimal --patience --histogram --merge-base --relative=* --full-index --abbrev=*"
	gitLog = gitDiff + " -n* -i -E -F -g -L* --oneline --graph --decorate=* --no-decorate --all --branches=* --tags=* --remotes=* --author=* --committer=* --grep=* --since=* --until=* --after=* --before=* " +
		"--max-count=* --skip=* --merges --no-merges --first-parent --reverse --pretty=* --format=* --date=* --abbrev-commit --follow --topo-order --date-order --walk-reflogs --left-right --cherry-pick --name-only"
	systemctl = "-a -l -q -n* -o* -t* --all --full --quiet --lines=* --output=* --type=* --state=* --no-pager --no-legend --plain --failed --user"
)

func noOperand(string, string) bool { return false }

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

// limitOf is the limit of a program with these names.
func limitOf(names []string) (Limit, bool) {
	for _, l := range Limits() {
		for _, name := range names {
			for _, one := range spellings(name) {
				if slices.ContainsFunc(l.Programs, func(p string) bool {
					return p == one || strings.HasSuffix(p, "*") && strings.HasPrefix(one, p[:len(p)-1])
				}) {
					return l, true
				}
			}
		}
	}
	return Limit{}, false
}

// refused returns the word of args that no form has, and whether there is one. What is not whole is a beginning,
// of a pattern.
func (l Limit) refused(args []string, whole bool) (string, bool) {
	for i, word := range args {
		if l.every != nil && !l.every(i, word) {
			return word, true
		}
	}
	before := newForm(". " + l.Before)
	i := 0
	for l.Forms[0][0] != '.' && i < len(args) && strings.HasPrefix(args[i], "-") {
		if !before.takes(args[i]) {
			return args[i], true
		}
		i++
	}
	if l.Forms[0][0] == '.' {
		return newForm(l.Forms[0]).refused(args, l.operand)
	}
	if i == len(args) {
		return "no subcommand", whole
	}
	for _, text := range l.Forms {
		if f := newForm(text); f.name == args[i] {
			return f.refused(args[i+1:], l.operand)
		}
	}
	return args[i], true
}
