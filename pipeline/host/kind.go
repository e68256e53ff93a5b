package host

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// Kinds returns what programs of the system can't be allowed by what their files are, whatever they are called, and
// why.
func Kinds() []Block {
	return []Block{{[]string{"programs in " + strings.Join(systemDirectories, " and ") + " (but /usr/local)"}, "they are scripts, or start other programs or load code, as their files tell, or these don't tell"}}
}

var systemDirectories = []string{"/usr", "/bin", "/sbin", "/lib"}

// system reports whether a file is the distribution's. What else is installed is known to whoever allows it, and by
// name alone.
func system(path string) bool {
	return runtime.GOOS == "linux" && !within(path, []string{"/usr/local"}) && within(path, systemDirectories)
}

// starters are names of functions by which programs start others, or load code that does: those of exec(3), posix_spawn(3),
// system(3), popen(3), wordexp(3) and dlopen(3), and what libraries make of them (JLI_Launch, g_spawn_async, g_module_open,
// pipecmd_new, bfd_plugin_open, ENGINE_load_dynamic).
var starters = lazy.Regexp(`(?i)exec(l|v|ute)|spawn|popen|launch|dlm?open|^system$|wordexp|module|plugin|pipecmd|pager|^ENGINE_`)

// kind describes why a file's program could start others, "" if all that it calls is known and it can't: but by a
// library that does so under another name.
func kind(path string) string {
	const unknown = "its file does not tell what it starts"
	f, err := os.Open(path)
	if err != nil {
		return unknown
	}
	defer f.Close()
	head := make([]byte, 2)
	if _, err := io.ReadFull(f, head); err == nil && bytes.Equal(head, []byte("#!")) {
		return "it is a script, and nobody knows what its words become"
	}
	file, err := elf.NewFile(f)
	if err != nil || file.Section(".go.buildinfo") != nil { // Go calls the kernel by itself
		return unknown
	}
	called, err := file.ImportedSymbols()
	if err != nil || len(called) == 0 { // it is linked statically
		return unknown
	}
	for _, s := range called {
		if starters().MatchString(s.Name) {
			return "it can start other programs or load code, as it calls " + s.Name
		}
	}
	return ""
}
