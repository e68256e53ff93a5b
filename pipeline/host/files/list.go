package files

// Entry is one name in a directory.
type Entry struct {
	Path string // relative to the directory that was listed
	Kind string // "file", "directory", "link" or "other"
	Size int64  // bytes
}
