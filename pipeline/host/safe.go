package host

import "strings"

// Safe is the word that allows what changes nothing and shows no file's content: the commands of the list, with no
// other words.
const Safe = "@safe"

// aroundThem are those of Safe that look around them: they run only below the directories that agents may reach.
var aroundThem = []string{"ls", "du", "git"}

func safeCommands() (all []Pattern) {
	for command := range strings.SplitSeq("ls|ls -a|ls -l|ls -la|du -sh|git status|git status --short|git branch --show-current|df|df -h|free|free -h|free -m|"+
		"uptime|uname|uname -a|uname -r|ps -ef|ps aux|id|date|date -u|hostname|nproc|nproc --all|lscpu|lsblk|whoami|groups|arch", "|") {
		all = append(all, Exactly(strings.Fields(command)))
	}
	return all
}
