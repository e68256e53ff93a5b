package files

// Entry is one name in a folder.
type Entry struct {
	Path string // relative to the folder that was listed
	Kind string // "file", "folder", "link" or "other"
	Size int64  // bytes
}
