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

type hostExecArgs struct {
	Command   string  `json:"command" about:"The command as words, such as: git status --short" range:"1..32768" required:"true"`
	Directory string  `json:"directory" about:"The directory to run it in, absolute. Default: the first directory that is allowed." range:"..4096"`
	Stdin     string  `json:"stdin" about:"Text for its standard input. Default: empty."`
	Timeout   float64 `json:"timeout" about:"Seconds after which it is ended." range:"0.1..3600" default:"60"`
	inNamespace
}

type hostAccessArgs struct {
	Kind     string `json:"kind" about:"What is asked for: to run a command, or to read or write below a directory." oneof:"command read write" required:"true"`
	Pattern  string `json:"pattern" about:"The command, in which * stands for one word that is no option and a last ** for any more, or the directory's absolute path." range:"1..4096" required:"true"`
	Reason   string `json:"reason" about:"Why it is needed, in a sentence for the person who decides." range:"..1000"`
	Duration int    `json:"duration_seconds" about:"How long the approval is to hold." range:"60..86400" default:"3600"`
	inNamespace
}

type fileReadArgs struct {
	Path     string `json:"path" about:"The file's absolute path." range:"1..4096" required:"true"`
	Offset   int64  `json:"offset" about:"Bytes to leave out at its beginning." range:"0..1125899906842624" default:"0"`
	MaxBytes int64  `json:"max_bytes" about:"The most bytes to return." range:"1..1048576" default:"65536"`
	Encoding string `json:"encoding" about:"How the content is returned." oneof:"text base64" default:"text"`
	inNamespace
}

type fileWriteArgs struct {
	Path     string `json:"path" about:"The file's absolute path." range:"1..4096" required:"true"`
	Content  string `json:"content" about:"What to write." required:"true"`
	Encoding string `json:"encoding" about:"What content is." oneof:"text base64" default:"text"`
	Mode     string `json:"mode" about:"What to do about a file that is there: refuse, replace it, or write behind its end." oneof:"create overwrite append" default:"create"`
	inNamespace
}

type fileListArgs struct {
	Path      string `json:"path" about:"The directory's absolute path." range:"1..4096" required:"true"`
	Recursive bool   `json:"recursive" about:"Lists the directories below, too." default:"false"`
	Limit     int    `json:"limit" about:"The most entries to return." range:"1..10000" default:"1000"`
	inNamespace
}

type fileCopyArgs struct {
	Source      string `json:"source" about:"A path: absolute on the host, or relative to the working directory of session_id or among the artifacts of request_id." range:"1..4096" required:"true"`
	Destination string `json:"destination" about:"Likewise; without a session_id, a relative one is the name under which the copy is kept for files of execute_code." range:"1..4096" required:"true"`
	Session     string `json:"session_id" about:"The session that the relative path belongs to." range:"..64"`
	Run         string `json:"request_id" about:"The run whose artifact is the source." range:"..64"`
	Overwrite   bool   `json:"overwrite" about:"Replaces a file that is there." default:"false"`
	inNamespace
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
