package host

import (
	"path/filepath"
	"slices"
	"strings"
)

// safe is what Safe allows: it changes nothing, and shows no file's content but what a repository below the directories
// that are allowed holds. host_file_read reads files, with the guarantees that it has.
var safe = []Limit{
	{Programs: []string{"git"}, Before: "--no-pager", operand: gitOperand, Forms: []string{
		"status -s -b --short --branch --porcelain=* --untracked-files=*", "log -n* -p --oneline --stat --graph --all --name-only --name-status --since=* --until=* --author=* --grep=* --max-count=* --no-ext-diff --no-textconv",
		"diff --stat --cached --staged --name-only --name-status --no-ext-diff --no-textconv", "show --stat --name-only --name-status --no-ext-diff --no-textconv", "blame -L*",
		"rev-parse --short=* --abbrev-ref --show-toplevel --is-inside-work-tree", "ls-files -m -o --modified --others --exclude-standard", "describe --tags --always --dirty", "remote -v",
	}},
	{Programs: []string{"ls"}, Forms: []string{". -l -a -A -h -1 -R -t -r -S -d -F -i -n -s --all --almost-all --human-readable --recursive --reverse --directory --color=* --full-time --time-style=*"}},
	{Programs: []string{"stat"}, Forms: []string{". -c* -f -t --format=* --terse"}},
	{Programs: []string{"du"}, Forms: []string{". -h -s -a -c -d* -k -m -x -b --human-readable --summarize --all --total --max-depth=* --apparent-size"}},
	{Programs: []string{"df"}, operand: noOperand, Forms: []string{". -h -T -i -k -m -P --human-readable --print-type --inodes --total --local"}},
	{Programs: []string{"free"}, operand: noOperand, Forms: []string{". -h -b -k -m -g -t -w --human --total --wide --si"}},
	{Programs: []string{"uptime"}, operand: noOperand, Forms: []string{". -p -s --pretty --since"}},
	{Programs: []string{"uname"}, operand: noOperand, Forms: []string{". -a -s -n -r -v -m -p -i -o --all"}},
	{Programs: []string{"ps"}, operand: func(_, w string) bool { return w == "aux" || w == "ax" }, Forms: []string{". -e -A -f -F -l -H --forest"}},
	{Programs: []string{"id"}, operand: noOperand, Forms: []string{". -u -g -G -n -r --user --group --groups --name"}},
	{Programs: []string{"date"}, operand: func(_, w string) bool { return strings.HasPrefix(w, "+") }, Forms: []string{". -u -R -I* --utc --iso-8601=* --rfc-3339=*"}},
	{Programs: []string{"hostname"}, operand: noOperand, Forms: []string{". -f -s -d -i -I --fqdn --short"}},
	{Programs: []string{"nproc"}, operand: noOperand, Forms: []string{". --all"}},
	{Programs: []string{"lscpu"}, operand: noOperand, Forms: []string{". -e* -p* -J --json"}},
	{Programs: []string{"lsblk"}, operand: noOperand, Forms: []string{". -f -a -l -p -J -o* --fs --all --json"}},
	{Programs: []string{"whoami"}, operand: noOperand, Forms: []string{"."}},
	{Programs: []string{"groups"}, operand: noOperand, Forms: []string{"."}},
	{Programs: []string{"arch"}, operand: noOperand, Forms: []string{"."}},
}

// safeForm reports whether the safe list has these words of a program, which bound it then whatever its file is.
func safeForm(names, args []string, whole bool) bool {
	return slices.ContainsFunc(safe, func(l Limit) bool {
		if !slices.Contains(names, l.Programs[0]) {
			return false
		}
		_, other := l.refused(args, whole)
		return !other
	})
}

// bound are those whose operands are paths, and those that look around them: they stay below the directories.
var bound = []string{"ls", "stat", "du", "git"}

// safePatterns are the patterns by which the safe list is shown.
func safePatterns() []Pattern {
	all := make([]Pattern, len(safe))
	for i, l := range safe {
		all[i] = Pattern{words: []token{{{text: l.Programs[0]}}}, variadic: true}
	}
	return all
}

// harmless reports whether the safe list has a command, and by which of its patterns.
func (p *Policy) harmless(prog Program, args []string, dir string) (Pattern, bool) {
	for i := range p.safe {
		name := p.safe[i].Program()
		own, err := p.Find(name)
		if err != nil || own.Entry != prog.Entry {
			continue
		}
		_, other := safe[i].refused(args, true)
		return p.safe[i], !other && p.inDirectories(name, args, dir)
	}
	return Pattern{}, false
}

func (p *Policy) inDirectories(name string, args []string, dir string) bool {
	if !slices.Contains(bound, name) {
		return true
	}
	if !within(dir, p.directories()) {
		return false
	}
	if name == "git" { // its words are paths in the repository, or no paths
		return repositoryWithin(dir, p.directories()) && !twoFiles(args)
	}
	ended := false
	for _, word := range args {
		if !ended && strings.HasPrefix(word, "-") {
			ended = word == "--"
			continue
		}
		if !filepath.IsAbs(word) {
			word = filepath.Join(dir, word)
		}
		// A directory may be exchanged for a link after this: names and sizes would be seen, no contents.
		if real, err := filepath.EvalSymlinks(word); err != nil || !within(real, p.directories()) {
			return false
		}
	}
	return true
}

// twoFiles reports whether git may take the words of diff for two files, which it compares by whatever links they go
// where it finds no repository. Two commits can be compared as A..B.
func twoFiles(args []string) bool {
	var operands []string
	ended := false
	for _, word := range args {
		if !ended && strings.HasPrefix(word, "-") {
			ended = word == "--"
			continue
		}
		operands = append(operands, word)
	}
	return len(operands) > 2 && operands[0] == "diff"
}
