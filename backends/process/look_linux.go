package process

import "os"

// pathState is how a path of the host looked when it was shown: a copy, or a mount of what stood there, would not
// follow when another is put in its place.
type pathState struct {
	path string
	at   func(string) (os.FileInfo, error)
	info os.FileInfo // nil where there was nothing
}

func stateOf(path string, at func(string) (os.FileInfo, error)) pathState {
	info, err := at(path)
	if err != nil {
		info = nil
	}
	return pathState{path, at, info}
}

// changed says whether something else stands there now. What a folder holds is seen through its mount.
func (l pathState) changed() bool {
	now := stateOf(l.path, l.at).info
	if now == nil || l.info == nil {
		return now != l.info
	}
	return !os.SameFile(now, l.info) || !now.IsDir() && (now.Size() != l.info.Size() || !now.ModTime().Equal(l.info.ModTime()))
}
