package backup

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// part is a kind of entry in the state directory.
type part struct {
	name     string // for people; a directory ends with a slash
	is       func() *regexp.Regexp
	included bool
	what     string // description, or the reason for which it is left out
}

// logName is the log's name in a backup, whatever its file is called.
const logName = "sandboxmcp.db"

// parts lists all entries of a state directory, and the log. A name without a row is a bug in this table, and backup
// reports it.
var parts = []part{
	row(logName, `sandboxmcp\.db`, true, "the log: its first file"),
	row(logName+"-files/", `sandboxmcp\.db-files(/sandboxmcp\.db\.[0-9]+)?`, true, "the log: the files that continue it"),
	row(logName+"-checkpoint", `sandboxmcp\.db-checkpoint`, true, "what was signed last"),
	row(logName+"-owed", `sandboxmcp\.db-owed`, true, "rows that could not be written yet"),
	row("keys/", `keys(/[^/]+\.(key|pub|next|revoked)|/\.spare)?`, true, "the key that signs, and what is known of those before it"),
	row("vault.db", `vault\.db`, true, "the secrets, as they are sealed"),
	row("vault.key", `vault\.key`, true, "the key that opens them, also where it is in the keyring of the operating system"),
	row("tokens.json", `tokens\.json`, true, "what tells tokens to be right; not the tokens themselves"),
	row("runs/", `runs(/[0-9A-Z]{26}(/.+)?)?`, true, "results, output and artifacts of runs that are kept"),
	row("history/", `history(/[^/]+)?`, true, "what was typed in sessions"),

	row("packages/", `packages(/.*)?`, false, "sandboxmcp install has them again"),
	row("vault.key.next", `vault\.key\.next`, false, "of a change of the key; the key in force is kept as vault.key"),
	row("server.log, server.json", `server\.(log|json)`, false, "of the server that start has started"),
	row("temporary", `(tmp|work|c|instances|run)(/.*)?|start\.lock|tokens\.lock|keys/lock|(.*/)?\.new-.*`, false,
		"locks, sockets and directories of what runs"),
	row(logName+"-...", `(sandboxmcp\.db(-files/sandboxmcp\.db\.[0-9]+)?|vault\.db)-(wal|shm|journal)`, false, "of the databases, whose copies are whole without"),
	row(logName+"-running/", `sandboxmcp\.db-(checkpoint\.new|running(/.*)?|reserve|acknowledged)`, false, "of what writes to the log now"),
}

func row(name, pattern string, included bool, what string) part {
	is := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)^(` + pattern + `)$`) }) // compiled on first use, since every command initialises this table
	return part{name, is, included, what}
}

// find returns the row that matches a name in the state directory, or nil.
func find(name string) *part {
	for i, p := range parts {
		if p.is().MatchString(name) {
			return &parts[i]
		}
	}
	return nil
}

// isIncluded reports whether a backup may contain a file of that name.
func isIncluded(name string) bool {
	p := find(name)
	return p != nil && p.included
}

// describe lists the rows for the help.
func describe(included bool) string {
	var b strings.Builder
	for _, p := range parts {
		if p.included == included {
			fmt.Fprintf(&b, "  %-28s %s\n", p.name, p.what)
		}
	}
	return b.String()
}
