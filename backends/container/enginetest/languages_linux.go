package enginetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tools are the programs that scripts rely on, and that backendtest uses.
const tools = `bash sh dash [ arch b2sum base32 base64 basename cat chgrp chmod chown cksum comm cp csplit cut date dd df dir
dircolors dirname du echo env expand expr factor false fmt fold groups head hostid id install join link ln logname ls md5sum
mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk pinky pr printenv printf ptx pwd readlink realpath
rm rmdir runcon seq sha1sum sha256sum sha512sum shred shuf sleep sort split stat stdbuf stty sum sync tac tail tee test
timeout touch tr true truncate tsort tty uname unexpand uniq unlink users vdir wc who whoami yes
sed grep egrep find xargs tar gzip gunzip zcat awk mawk setsid script mount umount unshare su newgrp passwd chsh locale git hostname ps`

// addSystem adds the layer with a shell, tools, and files that libraries read.
func addSystem(l *layerWriter) {
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		l.seen[dir] = true
	}
	l.copyPrograms(findPrograms(strings.Fields(tools)...)...)
	for _, path := range []string{"/bin", "/sbin", "/lib", "/lib64", "/etc/nsswitch.conf", "/etc/ssl/openssl.cnf",
		"/etc/ssl/certs/ca-certificates.crt", "/usr/lib/ssl/cert.pem",
		"/usr/lib/ssl/certs", "/usr/lib/ssl/openssl.cnf", "/usr/share/zoneinfo/Europe/Berlin", "/usr/share/zoneinfo/UTC",
		"/usr/lib/git-core/git"} {
		l.add(path)
	}
	l.copyTree("/usr/lib/locale/C.utf8")
	addPerl(l)
	l.writeDir("/tmp", 0o1777)
	l.writeDir("/var/tmp", 0o1777)
	for _, dir := range []string{"/root", "/home", "/run", "/proc", "/sys", "/dev", "/srv", "/opt", "/mnt"} {
		l.writeDir(dir, 0o755)
	}
	l.writeText("/etc/passwd", 0o644, "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n")
	l.writeText("/etc/group", 0o644, "root:x:0:\nnogroup:x:65534:\n")
	l.writeText("/etc/hostname", 0o644, "image\n")
	l.writeText("/etc/os-release", 0o644, "ID=test\n")
}

// addPerl copies the system's Perl, if there is one, with the modules for the kernel in cli/examples.
func addPerl(l *layerWriter) {
	out, err := exec.Command("/usr/bin/perl", "-e", "use JSON::PP; use Data::Dumper; use IO::Handle; use POSIX; print join qq(\n), values "+
		"%INC, @DynaLoader::dl_shared_objects").Output()
	if err != nil {
		return
	}
	l.copyPrograms("/usr/bin/perl")
	for _, path := range strings.Fields(string(out)) {
		l.add(path)
	}
}

// addPython adds the layer with the system's Python, and numpy if it is installed.
func addPython(l *layerWriter) {
	standardPython(l)
	out, err := exec.Command("/usr/bin/python3", "-I", "-c", "import numpy; print(numpy.__path__[0])").Output()
	if err != nil {
		return
	}
	dir := strings.TrimSpace(string(out))
	l.copyTree(dir, "tests", "f2py", "doc")
	for _, pattern := range []string{"/*/*.so", ".libs/*"} {
		if objects, _ := filepath.Glob(dir + pattern); len(objects) > 0 {
			l.copyPrograms(objects...)
		}
	}
}

// standardPython copies the system's Python, its standard library, and their dependencies.
func standardPython(l *layerWriter) {
	programs := findPrograms("python3")
	if len(programs) == 0 {
		return
	}
	out, err := exec.Command(programs[0], "-I", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").Output()
	if err != nil {
		l.err = err
		return
	}
	dir := strings.TrimSpace(string(out))
	l.copyTree(dir, "config-*", "test", "tests", "lib2to3", "idlelib", "tkinter", "pydoc_data", "dist-packages", "site-packages")
	objects, _ := filepath.Glob(dir + "/lib-dynload/*.so")
	l.copyPrograms(append(programs, objects...)...)
}

// addNode adds the layer with Node and npm.
func addNode(l *layerWriter) {
	l.copyPrograms(findPrograms("node")...)
	if path := findPrograms("npm"); len(path) > 0 {
		l.add(path[0])
		if real, err := filepath.EvalSymlinks(path[0]); err == nil {
			root := filepath.Dir(filepath.Dir(real))
			if _, err := os.Stat(root + "/package.json"); err == nil {
				l.copyTree(root, "docs", "man")
			}
		}
	}
}
