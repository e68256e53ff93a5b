package host

import "strings"

// Safe is the word that allows the commands of the safe list, without other words: they change nothing and show no
// file's content.
const Safe = "@safe"

// aroundThem are the commands of Safe that read their surroundings: they run only below directories that agents may
// access.
var aroundThem = []string{"ls", "du", "git"}

func safeCommands() (all []Pattern) {
	for command := range strings.SplitSeq("ls|ls -a|ls -l|ls -la|du -sh|git status|git status --short|git branch --show-current|df|df "+
		"-h|free|free -h|free -m|"+
		"uptime|uname|uname -a|uname -r|ps -ef|ps aux|id|date|date -u|hostname|nproc|nproc --all|lscpu|lsblk|whoami|groups|arch", "|") {
		all = append(all, Exactly(strings.Fields(command)))
	}
	return all
}
