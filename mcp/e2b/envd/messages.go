package envd

// The messages of process.Process.
type (
	processConfig struct {
		Cmd  string            `pb:"1" json:"cmd,omitempty"`
		Args []string          `pb:"2" json:"args,omitempty"`
		Envs map[string]string `pb:"3" json:"envs,omitempty"`
		Cwd  *string           `pb:"4" json:"cwd,omitempty"`
	}
	terminalSize struct {
		Cols uint32 `pb:"1" json:"cols,omitempty"`
		Rows uint32 `pb:"2" json:"rows,omitempty"`
	}
	terminal struct {
		Size *terminalSize `pb:"1" json:"size,omitempty"`
	}
	processInfo struct {
		Config *processConfig `pb:"1" json:"config,omitempty"`
		PID    uint32         `pb:"2" json:"pid,omitempty"`
		Tag    *string        `pb:"3" json:"tag,omitempty"`
	}
	listResponse struct {
		Processes []*processInfo `pb:"1" json:"processes,omitempty"`
	}
	startRequest struct {
		Process *processConfig `pb:"1" json:"process,omitempty"`
		PTY     *terminal      `pb:"2" json:"pty,omitempty"`
		Tag     *string        `pb:"3" json:"tag,omitempty"`
		Stdin   *bool          `pb:"4" json:"stdin,omitempty"` // nil means open
	}
	selector struct {
		PID *uint32 `pb:"1" json:"pid,omitempty"`
		Tag *string `pb:"2" json:"tag,omitempty"`
	}
	// selected is the first field of all requests about a process.
	selected struct {
		Process *selector `pb:"1" json:"process,omitempty"`
	}
	updateRequest struct {
		Process *selector `pb:"1" json:"process,omitempty"`
		PTY     *terminal `pb:"2" json:"pty,omitempty"`
	}
	processInput struct {
		Stdin []byte `pb:"1" json:"stdin,omitempty"`
		PTY   []byte `pb:"2" json:"pty,omitempty"`
	}
	inputRequest struct {
		Process *selector     `pb:"1" json:"process,omitempty"`
		Input   *processInput `pb:"2" json:"input,omitempty"`
	}
	inputData struct {
		Input *processInput `pb:"2" json:"input,omitempty"`
	}
	streamInputRequest struct {
		Start     *selected  `pb:"1" json:"start,omitempty"`
		Data      *inputData `pb:"2" json:"data,omitempty"`
		Keepalive *empty     `pb:"3" json:"keepalive,omitempty"`
	}
	signalRequest struct {
		Process *selector `pb:"1" json:"process,omitempty"`
		Signal  signal    `pb:"2" json:"signal,omitempty"`
	}
	startEvent struct {
		PID uint32 `pb:"1" json:"pid,omitempty"`
	}
	dataEvent struct {
		Stdout []byte `pb:"1" json:"stdout,omitempty"`
		Stderr []byte `pb:"2" json:"stderr,omitempty"`
		PTY    []byte `pb:"3" json:"pty,omitempty"`
	}
	endEvent struct {
		ExitCode int32   `pb:"1,zigzag" json:"exitCode,omitempty"`
		Exited   bool    `pb:"2" json:"exited,omitempty"`
		Status   string  `pb:"3" json:"status,omitempty"`
		Error    *string `pb:"4" json:"error,omitempty"`
	}
	processEvent struct {
		Start     *startEvent `pb:"1" json:"start,omitempty"`
		Data      *dataEvent  `pb:"2" json:"data,omitempty"`
		End       *endEvent   `pb:"3" json:"end,omitempty"`
		Keepalive *empty      `pb:"4" json:"keepalive,omitempty"`
	}
	processResponse struct {
		Event *processEvent `pb:"1" json:"event,omitempty"`
	}
	empty struct{}
)

// The messages of filesystem.Filesystem.
type (
	pathRequest struct {
		Path string `pb:"1" json:"path,omitempty"`
	}
	listDirRequest struct {
		Path  string `pb:"1" json:"path,omitempty"`
		Depth uint32 `pb:"2" json:"depth,omitempty"`
	}
	moveRequest struct {
		Source      string `pb:"1" json:"source,omitempty"`
		Destination string `pb:"2" json:"destination,omitempty"`
	}
	entryInfo struct {
		Name        string            `pb:"1" json:"name,omitempty"`
		Type        fileType          `pb:"2" json:"type,omitempty"`
		Path        string            `pb:"3" json:"path,omitempty"`
		Size        int64             `pb:"4" json:"size,omitempty,string"`
		Mode        uint32            `pb:"5" json:"mode,omitempty"`
		Permissions string            `pb:"6" json:"permissions,omitempty"`
		Owner       string            `pb:"7" json:"owner,omitempty"`
		Group       string            `pb:"8" json:"group,omitempty"`
		Modified    *timestamp        `pb:"9" json:"modifiedTime,omitempty"`
		Target      *string           `pb:"10" json:"symlinkTarget,omitempty"`
		Metadata    map[string]string `pb:"11" json:"metadata,omitempty"`
	}
	entryResponse struct {
		Entry *entryInfo `pb:"1" json:"entry,omitempty"`
	}
	listDirResponse struct {
		Entries []*entryInfo `pb:"1" json:"entries,omitempty"`
	}
	watchRequest struct {
		Path         string `pb:"1" json:"path,omitempty"`
		Recursive    bool   `pb:"2" json:"recursive,omitempty"`
		IncludeEntry bool   `pb:"3" json:"includeEntry,omitempty"`
	}
	fileEvent struct {
		Name  string     `pb:"1" json:"name,omitempty"`
		Type  eventType  `pb:"2" json:"type,omitempty"`
		Entry *entryInfo `pb:"3" json:"entry,omitempty"`
	}
	watchResponse struct {
		Start      *empty     `pb:"1" json:"start,omitempty"`
		Filesystem *fileEvent `pb:"2" json:"filesystem,omitempty"`
		Keepalive  *empty     `pb:"3" json:"keepalive,omitempty"`
	}
	watcherID struct {
		ID string `pb:"1" json:"watcherId,omitempty"`
	}
	watcherEvents struct {
		Events []*fileEvent `pb:"1" json:"events,omitempty"`
	}
)

type (
	signal    int32
	fileType  int32
	eventType int32
)

const (
	typeFile, typeDirectory, typeSymlink fileType = 1, 2, 3
)

func (signal) names() []string {
	return []string{0: "SIGNAL_UNSPECIFIED", 2: "SIGNAL_SIGINT", 9: "SIGNAL_SIGKILL", 15: "SIGNAL_SIGTERM"}
}
func (fileType) names() []string {
	return []string{"FILE_TYPE_UNSPECIFIED", "FILE_TYPE_FILE", "FILE_TYPE_DIRECTORY", "FILE_TYPE_SYMLINK"}
}
func (eventType) names() []string {
	return []string{"EVENT_TYPE_UNSPECIFIED", "EVENT_TYPE_CREATE", "EVENT_TYPE_WRITE", "EVENT_TYPE_REMOVE", "EVENT_TYPE_RENAME",
		"EVENT_TYPE_CHMOD"}
}

func (s *signal) UnmarshalJSON(b []byte) error { return unmarshalEnum(*s, b, (*int32)(s)) }

func (t fileType) MarshalJSON() ([]byte, error)  { return marshalEnum(t, int32(t)) }
func (t eventType) MarshalJSON() ([]byte, error) { return marshalEnum(t, int32(t)) }
