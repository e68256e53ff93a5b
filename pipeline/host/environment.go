package host

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// obeyed are variables through which programs, their loaders or shells run code, read other files, or open our own
// access. A caller that sets one controls an allowed command (CVE-2026-22708).
var obeyed = strings.Fields(`LD_* DYLD_* GCONV_PATH GLIBC_* MALLOC_* LOCPATH NLSPATH LOCALDOMAIN HOSTALIASES RES_OPTIONS GETCONF_DIR TZDIR
	PATH IFS ENV BASH* SHELL* PS4 PROMPT_COMMAND ZDOTDIR FPATH KSH_ENV CDPATH GLOBIGNORE
	NODE_* NPM_* npm_* PYTHON* PERL* RUBY* GEM_* BUNDLE_* JAVA* _JAVA* JDK_* CLASSPATH LUA* PHP* DOTNET_* CORECLR_* COMPlus_* R_* JULIA_* GUILE_* TCL*
	GIT_* SSH_ASKPASS* SUDO_ASKPASS SSH_SK_* RSYNC_* CVS_* HG* SVN_* PAGER MANPAGER SYSTEMD_PAGER* SYSTEMD_EDITOR LESS* MANOPT MORE EDITOR VISUAL FCEDIT BROWSER
	TAR_OPTIONS GREP_OPTIONS GZIP XZ_* ZSTD_* BZIP* ZIPOPT UNZIP* POSIXLY_CORRECT TERMINFO* TERMCAP TERMPATH OPENSSL_* SSLKEYLOGFILE CURL_HOME WGETRC
	MAKE* CC CXX GCC_* CPATH LIBRARY_PATH GO* CARGO* RUST* SANDBOXMCP*`)

// CheckEnvironment returns an error if a variable can't be passed on.
func CheckEnvironment(names []string) error {
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, "=\x00 \t\n*") {
			return fmt.Errorf("%q is not a name of a variable", name)
		}
		for _, pattern := range obeyed {
			if ok, _ := path.Match(pattern, name); ok {
				return fmt.Errorf("%s can't be passed on: it makes programs run or read other files", name)
			}
		}
	}
	return nil
}

// Environment returns the environment of a command: ours, and the server's values of these variables.
func (p *Policy) Environment(names []string, lookup func(string) (string, bool)) []string {
	env := []string{"PATH=" + strings.Join(p.search(), ":"), "LANG=C.UTF-8", "TERM=dumb", "PAGER=cat", "MANPAGER=cat", "SYSTEMD_PAGER=cat",
		"SYSTEMD_PAGERSECURE=1", "LESSSECURE=1", "EDITOR=false", "VISUAL=false"}
	if home, err := os.UserHomeDir(); err == nil {
		env = append(env, "HOME="+home)
	}
	for _, name := range append([]string{"USER", "LOGNAME", "TZ"}, names...) {
		if value, ok := lookup(name); ok && CheckEnvironment([]string{name}) == nil {
			env = append(env, name+"="+value)
		}
	}
	return append(env, gitEnvironment(p.roots)...)
}
