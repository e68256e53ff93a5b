package mcp

import "github.com/sandboxmcp/sandboxmcp/pipeline/host/files"

const (
	aboutHostExec = `Runs one command on the host, outside of any sandbox, if the operator or a person has allowed exactly this. ` +
		`There is no shell: words and quotes only, no pipes, variables or redirections. Prefer execute_code.`
	aboutHostAccess = `Asks a person for access to the host: a command pattern, or a directory to read or write. ` +
		`The answer is approved, denied or pending, and covers exactly what was asked.`
	aboutHostList = `Lists the commands and directories of the host that are allowed now, and until when.`
	aboutFileRead = `Reads a file of the host below a directory that is allowed. Secrets are masked, links are not followed, ` +
		`and files with credentials are refused.`
	aboutFileWrite = `Writes a file of the host below a directory that is allowed for writing: as a whole or not at all. ` +
		`Hidden files (but .gitignore and its like), and others that the host may run or obey by itself, are refused.`
	aboutFileList = `Lists a directory of the host that is allowed.`
	aboutFileCopy = `Copies a file between the host and a session, an artifact of a run to the host, ` +
		`or a file of the host to where later runs can take it as one of their files, below directories that are allowed.`
)

func pathField(about string) field { return text("path", about).required().atLeast(1).upTo(4096) }

func hostExecIn() form {
	return form{
		text("command", `The command as words, such as: git status --short`).required().atLeast(1).upTo(32768),
		text("directory", "The directory to run it in, absolute. Default: the first directory that is allowed.").upTo(4096),
		text("stdin", "Text for its standard input. Default: empty."),
		number("timeout", "Seconds after which it is ended.", 0.1, 3600).or(60),
		namespaceField(),
	}
}

func hostAccessIn() form {
	return form{
		choice("kind", "What is asked for: to run a command, or to read or write below a directory.", "command", "read", "write").required(),
		text("pattern", `The command, in which * stands for one word and a last ** for any more, or the directory's absolute path.`).required().atLeast(1).upTo(4096),
		text("reason", "Why it is needed, in a sentence for the person who decides.").upTo(1000),
		integer("duration_seconds", "How long the approval is to hold.", 60, 86400).or(3600),
		namespaceField(),
	}
}

func hostListIn() form { return form{namespaceField()} }

func fileReadIn() form {
	return form{
		pathField("The file's absolute path."),
		integer("offset", "Bytes to leave out at its beginning.", 0, 1<<50).or(0),
		integer("max_bytes", "The most bytes to return.", 1, 1<<20).or(65536),
		choice("encoding", "How the content is returned.", "text", "base64").or("text"),
		namespaceField(),
	}
}

func fileWriteIn() form {
	return form{
		pathField("The file's absolute path."),
		text("content", "What to write.").required(),
		choice("encoding", "What content is.", "text", "base64").or("text"),
		choice("mode", "What to do about a file that is there: refuse, replace it, or write behind its end.", "create", "overwrite", "append").or("create"),
		namespaceField(),
	}
}

func fileListIn() form {
	return form{
		pathField("The directory's absolute path."),
		toggle("recursive", "Lists the directories below, too."),
		integer("limit", "The most entries to return.", 1, 10000).or(1000),
		namespaceField(),
	}
}

func fileCopyIn() form {
	return form{
		text("source", "A path: absolute on the host, or relative to the working directory of session_id or among the artifacts of request_id.").required().atLeast(1).upTo(4096),
		text("destination", "Likewise; without a session_id, a relative one is the name under which the copy is kept for files of execute_code.").required().atLeast(1).upTo(4096),
		sessionField("The session that the relative path belongs to."),
		text("request_id", "The run whose artifact is the source.").upTo(64),
		toggle("overwrite", "Replaces a file that is there."),
		namespaceField(),
	}
}

type hostExecFacts struct {
	common
	ExitCode int    `json:"exit_code" about:"The exit code; 0 is success."`
	Ended    string `json:"ended,omitempty" about:"How it ended: ok, exit, signal or timeout."`
	Stdout   string `json:"stdout,omitempty" about:"Its standard output, or head and tail of a long one."`
	Stderr   string `json:"stderr,omitempty" about:"Its standard error, or head and tail of a long one."`
	Pattern  string `json:"pattern,omitempty" about:"The pattern that allowed it."`
}

type hostListFacts struct {
	common
	Access []hostAccess `json:"access,omitempty" about:"What is allowed."`
}

type hostAccess struct {
	Kind    string `json:"kind" about:"command, read or write."`
	Pattern string `json:"pattern" about:"The command's pattern, or the directory."`
	Until   string `json:"until,omitempty" about:"When it ends; absent if the operator's configuration allows it."`
	From    string `json:"from" about:"Who allowed it: configuration or approval."`
}

type fileFacts struct {
	common
	Path   string `json:"path,omitempty" about:"The file that was written."`
	Size   int64  `json:"size,omitempty" about:"Its bytes."`
	SHA256 string `json:"sha256,omitempty" about:"Its SHA-256."`

	Notes     []string `json:"notes,omitempty" about:"What of the file that was replaced was not kept."`
	RequestID string   `json:"request_id,omitempty" about:"Under which a copy for later runs is kept."`
}

type fileReadFacts struct {
	common
	Path    string `json:"path,omitempty" about:"The file that was read."`
	Content string `json:"content,omitempty" about:"The part that was asked for."`
	Total   int64  `json:"total_bytes,omitempty" about:"Bytes of the whole file, in which secrets are masked if it is text."`
	Next    int64  `json:"next_offset,omitempty" about:"The offset to read on from, if there is more."`
	SHA256  string `json:"sha256,omitempty" about:"SHA-256 of the whole file as it is."`
}

type fileListFacts struct {
	common
	Entries []files.Entry `json:"entries,omitempty" about:"What is in the directory."`
	More    bool          `json:"more,omitempty" about:"True if there is more than limit."`
}
