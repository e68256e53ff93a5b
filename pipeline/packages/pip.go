package packages

import (
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/backends"
	"github.com/sandboxmcp/sandboxmcp/pipeline/remedy"
)

//go:embed install.py
var installScript string

// inPackages is the directory at which sandboxes see a layer.
const inPackages = "/packages"

// directories implements tool.
func (pip) directories() []string { return nil }

// show implements tool. Python looks for modules in PYTHONPATH, also in a virtual environment,
// where it would not look into a user's own directory. Two things of packages don't work this way:
// .pth files are not read there, and programs that packages bring are not on the PATH (python -m is).
func (pip) show(content string) View {
	return View{Mounts: []backends.Mount{{Host: content, Inside: inPackages}}, Env: []string{"PYTHONPATH=" + inPackages}}
}

// plan implements tool. pip installs into an empty directory, as if nothing were there: the layer's packages stay at
// their versions through constraints, unless the order names them.
func (pip) plan(o Order, base layer, set settings, scripts, dry bool) (installPlan, error) {
	r := installPlan{mounts: set.mounts, files: maps.Clone(set.files), env: append(slices.Clone(set.env),
		"PIP_CONFIG_FILE=/dev/null", "PIP_PROXY=http://127.0.0.1:"+strconv.Itoa(proxyPort), "PIP_CERT="+backends.TrustFile,
		"PIP_NO_INPUT=1", "PIP_NO_CACHE_DIR=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_NO_COLOR=1", "PIP_PROGRESS_BAR=off",
		"PIP_NO_WARN_SCRIPT_LOCATION=1", "PIP_ROOT_USER_ACTION=ignore", "PYTHONIOENCODING=utf-8")}
	if r.files == nil {
		r.files = map[string]string{}
	}
	install := []string{"python", "-I", "-c", pipScript + installScript, inTarget, inPackages, "install", "--target=" + inTarget, "--report=/workspace/" + reportFile, "--no-compile"}
	if dry {
		install = append(install, "--dry-run")
	}
	if !scripts {
		install = append(install, "--only-binary=:all:")
	}
	named := map[string]bool{}
	for _, spec := range o.Packages {
		named[pythonName(specName("python", spec))] = true
	}
	var pins strings.Builder
	for _, p := range base.packages {
		if !named[pythonName(p.Name)] {
			fmt.Fprintf(&pins, "%s==%s\n", p.Name, p.Version)
		}
	}
	if pins.Len() > 0 {
		r.files["constraints.txt"] = pins.String()
	}
	for _, name := range []string{"constraints.txt", operatorConstraints} {
		if r.files[name] != "" {
			install = append(install, "--constraint=/workspace/"+name)
		}
	}
	r.command = append(append(install, "--"), o.Packages...)
	r.hint = func(output string) string {
		switch {
		case pins.Len() > 0 && strings.Contains(output, "constraint"):
			return "packages that were installed before keep their versions; name those that may change in the same request"
		case !scripts && strings.Contains(output, "No matching distribution"):
			return "only wheels are installed: building a source package would run its code, which packages.scripts in the operator's configuration would allow"
		}
		return ""
	}
	return r, nil
}

// pipReport is pip's report of an install: https://pip.pypa.io/en/stable/reference/installation-report/
type pipReport struct {
	Install []struct {
		Requested bool
		Metadata  struct{ Name, Version string }
		Download  struct {
			Archive struct {
				Hash   string
				Hashes map[string]string
			} `json:"archive_info"`
		} `json:"download_info"`
	}
}

// read implements tool.
func (pip) read(o Order, base layer, h harvest) (all, brought []Package, err error) {
	if h.report == nil {
		return nil, nil, backends.Refuse("this pip is too old to say what it installs", remedy.Command.With("python3 -m pip install --upgrade 'pip>=22.2'"))
	}
	var report pipReport
	if err := json.Unmarshal(h.report, &report); err != nil {
		return nil, nil, fmt.Errorf("read pip's report: %w", err)
	}
	fresh := map[string]bool{}
	for _, i := range report.Install {
		p := Package{Name: i.Metadata.Name, Version: i.Metadata.Version, Requested: i.Requested}
		algorithm, sum, _ := strings.Cut(i.Download.Archive.Hash, "=")
		if v := i.Download.Archive.Hashes["sha256"]; v != "" {
			algorithm, sum = "sha256", v
		}
		if sum != "" {
			p.Hash = algorithm + ":" + sum
		}
		brought = append(brought, p)
		fresh[pythonName(p.Name)] = true
	}
	all = slices.Clone(brought)
	for _, p := range base.packages {
		if i := slices.IndexFunc(all, func(q Package) bool { return pythonName(q.Name) == pythonName(p.Name) }); i >= 0 {
			all[i].Requested = all[i].Requested || p.Requested
			continue
		}
		all = append(all, p)
	}
	return all, brought, nil
}

// retained implements tool: all files, except those of packages of which there is a fresh version.
func (pip) retained(base layer, fresh map[string]file) (map[string]file, error) {
	renewed := map[string]bool{}
	for name := range fresh {
		if dist := distribution(name); dist != "" {
			renewed[dist] = true
		}
	}
	retained := maps.Clone(base.files)
	for name := range base.files {
		if !renewed[distribution(name)] {
			continue
		}
		delete(retained, name)
		if path.Base(name) != "RECORD" {
			continue
		}
		owned, err := recorded(filepath.Join(base.content(), filepath.FromSlash(name)))
		if err != nil {
			return nil, fmt.Errorf("read what was installed before: %w", err)
		}
		for _, file := range owned {
			delete(retained, file)
		}
	}
	for name := range base.files {
		if py := compiledFrom(name); py != "" && retained[py] == (file{}) {
			delete(retained, name)
		}
	}
	for name := range fresh {
		delete(retained, name)
	}
	return retained, nil
}

// distribution returns the name of the package to whose metadata a file belongs, as in name-1.0.dist-info/RECORD, "" for
// other files.
func distribution(name string) string {
	dir, _, ok := strings.Cut(name, "/")
	about, is := strings.CutSuffix(dir, ".dist-info")
	if !ok || !is {
		return ""
	}
	dist, _, _ := strings.Cut(about, "-")
	return pythonName(dist)
}

// recorded returns the files that a RECORD lists, by path in the layer. It lists programs with a
// path that begins with ../, outside of the target directory.
func recorded(name string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord, r.LazyQuotes = -1, true
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, row := range rows {
		file := path.Clean(row[0])
		for strings.HasPrefix(file, "../") {
			file = file[len("../"):]
		}
		all = append(all, file)
	}
	return all, nil
}

// compiledFrom returns the source of a compiled file, "" for other files.
func compiledFrom(name string) string {
	dir, base := path.Split(name)
	stem, tag, _ := strings.Cut(base, ".")
	if path.Base(dir) != "__pycache__" || !strings.HasSuffix(tag, "pyc") {
		return ""
	}
	return path.Join(path.Dir(path.Clean(dir)), stem+".py")
}
