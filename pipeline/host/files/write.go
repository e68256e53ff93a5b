package files

// What Write does about a file that is there.
const (
	Create    = "create"    // refuses
	Overwrite = "overwrite" // replaces it as a whole
	Append    = "append"    // writes behind its end
)

// Written says what became of a file. Without Had there was none.
type Written struct {
	Path   string // as the kernel has it
	Had    bool
	Before []byte // what was in it, unless that is more than may be read: then Large
	Large  bool
	Size   int64    // of all of it now
	Notes  []string // what of the old file was not kept
}
