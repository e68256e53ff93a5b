package config

import (
	"cmp"
	"strings"
)

// Entry documents one setting.
type Entry struct {
	Key     string // as in the file, with dots
	Env     string // the environment variable, "" where there is none
	Takes   string // the values that it may have
	Default string // on a machine where nothing is configured
	About   string // one sentence without a full stop
}

// Reference documents all settings, in the order of Origins, and the keys of a profile.
func Reference() []Entry {
	c := defaults(1)
	about := abouts()
	machine := map[string]string{ // defaults that depend on it
		"max_concurrent": "the cores of the machine",
		"caps.cpu_cores": "the cores of the machine",
		"pool.max":       "twice max_concurrent, 8 to 64",
		"state_dir":      "~/.local/state/sandboxmcp",
		"sqlite_path":    "sandboxmcp.db in state_dir",
	}
	var all []Entry
	for _, s := range settings() {
		e := Entry{Key: s.key, Takes: s.takes, Default: cmp.Or(machine[s.key], strings.Trim(s.show(&c), `"`)), About: about[s.key]}
		if s.env != "" {
			e.Env = "SANDBOXMCP_" + s.env
		}
		all = append(all, e)
	}
	return append(all,
		Entry{"http.certificates.NAME.kind", "", "agent, person", None, "what a client is whose certificate has NAME: uri:URI, dns:NAME or, without these, cn:NAME"},
		Entry{"http.certificates.NAME.namespaces", "", "a list", "[]", "namespaces that it may use; an agent needs one, and a person without any has all"},
		Entry{"http.templates.NAME.backend", "", strings.Join(backends(), ", "), "backend", "what contains sandboxes of E2B's template NAME, which SDKs ask for by this name"},
		Entry{"http.templates.NAME.profile", "", "text", "profile", "profile of sandboxes of this template"},
		Entry{"runtimes.NAME.extensions", "", "a list of extensions, such as .pl", "needed", "files of language NAME, which run, validate_code and the like take then as a language"},
		Entry{"runtimes.NAME.command", "", "a list of words", "needed", "program that runs the code, whose file is {file} or else the last word; with compile, {program}"},
		Entry{"runtimes.NAME.compile", "", "a list of words", "[]", "program that makes {program} of {file} in the same sandbox first"},
		Entry{"runtimes.NAME.check", "", "a list of words", "[]", "program that checks the syntax of the code without running it"},
		Entry{"runtimes.NAME.kernel", "", "a list of words", "[]", "program that keeps sessions of language NAME; {driver} is the file that driver names"},
		Entry{"runtimes.NAME.driver", "", "a path", None, "file of this machine that each session's sandbox gets for its kernel"},
		Entry{"data.NAME", "", "a path", None, "directory that runs and sessions which ask for NAME see, read-only, as /data/NAME"},
		Entry{"profiles.NAME.require", "", "a list of " + strings.Join(Layers(), ", "), "the containment layers", "layers without which a run of this profile is refused"},
		Entry{"profiles.NAME.layers", "", Hardened + ", " + Landlock, Hardened, "layers that this profile sets up"})
}

// abouts are the descriptions of the settings.
func abouts() map[string]string {
	return map[string]string{
		"backend":                     "what contains programs: a hardened process, containers of an engine, or pods of a cluster",
		"max_concurrent":              "runs at the same time",
		"max_queue":                   "runs that may wait; the next one is refused as busy",
		"network":                     "what happens to a name that is not allowed: it is denied, or a person is asked",
		"vault":                       "stores that lend secrets, in the order in which they are asked",
		"state_dir":                   "directory of the log, the keys, the vault and kept results",
		"sqlite_path":                 "database of the log",
		"profile":                     "profile of runs that name none",
		"git.name":                    "name of the author of commits that git makes in sandboxes",
		"git.email":                   "address of the author of commits that git makes in sandboxes",
		"skills":                      "directory of skills, each a directory with a SKILL.md, which a server gives its clients as resources and prompts",
		"structured":                  "a server gives structuredContent to every client",
		"limits.ram_mb":               "MB of memory of all processes of a run together, for runs that name no limit",
		"limits.timeout_seconds":      "seconds of wall time of a run",
		"limits.cpu_cores":            "cores that a run may use",
		"limits.processes":            "processes and threads of a run",
		"limits.output_bytes":         "bytes of stdout, and as many of stderr, that a result keeps",
		"limits.disk_mb":              "MB of /workspace, /tmp and /dev/shm together",
		"caps.ram_mb":                 "the highest limits.ram_mb that a caller can ask for",
		"caps.timeout_seconds":        "the highest limits.timeout_seconds that a caller can ask for",
		"caps.cpu_cores":              "the highest limits.cpu_cores that a caller can ask for",
		"caps.processes":              "the highest limits.processes that a caller can ask for",
		"caps.output_bytes":           "the highest limits.output_bytes that a caller can ask for",
		"caps.disk_mb":                "the highest limits.disk_mb that a caller can ask for",
		"http.page":                   "people have a page at the address, which sandboxmcp page opens",
		"audit.enabled":               "the log is always on: a run without a row has no result",
		"audit.capture":               "what rows hold beside hashes, redacted, 64 KiB of each",
		"audit.checkpoint_rows":       "rows after which the state of the log is signed",
		"audit.seal_after_days":       "days after which rows move into a sealed file; 0 is never",
		"audit.push":                  "places that checkpoints are pushed to: a file, git:REMOTE#BRANCH, https://HOST/PREFIX#KEY",
		"redact.unknown":              "what happens to text that looks like a token and is in no vault: nothing, a warning, or a mask",
		"events.webhook":              "URL that events are posted to",
		"events.webhook_secret":       "secret of the vault that signs these posts",
		"events.webhook_kinds":        "kinds of events that are posted; an empty list is all",
		"events.otlp":                 "OpenTelemetry collector that gets traces and metrics over HTTP",
		"approvals.timeout_seconds":   "seconds after which a question without an answer is denied",
		"approvals.confirm":           "who may approve what agents ask for: the user of the server, or root alone",
		"approvals.notify":            "questions are shown on the desktop, too",
		"packages.ask":                "a person approves each package that is installed",
		"egress.allow":                "names that runs may reach without asking for them, and that callers may name",
		"egress.deny":                 "names that nobody may reach",
		"egress.networks":             "private networks and addresses that names may lead to",
		"egress.local":                "ports of this machine's loopback that runs and the web tools may reach as localhost",
		"egress.resolver":             "DNS server that is asked for allowed names",
		"egress.idle_seconds":         "seconds after which a connection without traffic is ended",
		"egress.connections":          "connections of one sandbox at the same time",
		"artifacts.max_count":         "files of a run that are kept",
		"artifacts.max_mb":            "MB of the files of a run that are kept",
		"artifacts.withhold":          "files in which a lent secret is found are named and hashed, and not handed out",
		"sessions.per_namespace":      "sessions of one namespace at the same time",
		"sessions.per_identity":       "sessions at the same time that one identity has made over HTTP",
		"sessions.total":              "sessions at the same time",
		"sessions.paused_mb":          "MB of the files of all paused sessions, which are kept until sessions.lifetime_seconds have passed, or the server ends",
		"sessions.idle_seconds":       "seconds after which an unused session ends",
		"sessions.lifetime_seconds":   "seconds after which any session ends",
		"packages.scripts":            "packages may run install scripts and be built from source",
		"packages.max_mb":             "MB of the packages of one namespace and language",
		"packages.cache_mb":           "MB that are kept of packages that were fetched and unpacked, for whoever installs the same; 0 is none",
		"validate.reject_dangerous":   "severity from which dangerous patterns in code are refused",
		"validate.rules_off":          "rules that find nothing",
		"keep.max_mb":                 "MB of outputs and artifacts that are kept for get_artifacts",
		"keep.hours":                  "hours after which they are removed",
		"pool.enabled":                "a server keeps sandboxes ready for programs that may come",
		"pool.max":                    "sandboxes that are ready at the same time",
		"pool.memory_mb":              "MB of all that are ready",
		"pool.idle_seconds":           "seconds after which those of a kind end that no run has asked for",
		"web.enabled":                 "agents may use web_search, fetch_webpage and browser_fetch",
		"web.allow":                   "names that these reach; an empty list is every public host on ports 80 and 443",
		"web.searxng":                 "URL of a SearXNG that is asked first",
		"web.brave_key":               "secret of the vault with the key of Brave's search API, which is asked if SearXNG has not answered",
		"web.browser":                 "Chromium that browser_fetch starts",
		"web.timeout_seconds":         "seconds of one call",
		"web.max_mb":                  "MB of one page",
		"host.enabled":                "agents may use commands and files of this machine, as far as they are allowed",
		"host.allowed":                "commands that agents may run; a * is for programs whose options are known; @safe is a list of commands that change nothing",
		"host.blocked":                "patterns of commands that nobody may allow",
		"host.timeout_seconds":        "seconds of one command",
		"host.output_bytes":           "bytes of stdout, and as many of stderr, that are kept of a command",
		"host.ram_mb":                 "MB of memory of a command and all that it starts",
		"host.processes":              "processes and threads of a command",
		"host.cpu_cores":              "cores that a command may use; 0 is all",
		"host.environment":            "names of variables that commands get",
		"host.read":                   "directories that agents may read",
		"host.write":                  "directories that agents may read and write",
		"host.max_file_mb":            "MB of one file that is read, written or copied",
		"http.listen":                 "where a server takes requests over HTTP, as serve --listen says; other machines need http.tls_cert",
		"http.socket_group":           "group that may connect to the Unix socket of http.listen, besides its owner",
		"http.tls_cert":               "file of the server's certificate, which is read again when it changes",
		"http.tls_key":                "file of the certificate's key, likewise",
		"http.hosts":                  "names and addresses that requests may have in Host, besides the server's own address",
		"http.domain":                 "domain below which ports of sandboxes of E2B's protocol have the names PORT-ID.DOMAIN, and the server api.DOMAIN and sandbox.DOMAIN",
		"http.origins":                "origins of pages that may send requests, such as https://app.example.com",
		"http.drain_seconds":          "seconds that requests under way have to end when the server ends",
		"http.requests":               "requests a second that one identity may send to a server's HTTP address, and four times as many at once",
		"http.client_ca":              "file of the certificates that sign those of clients",
		"http.oauth.issuer":           "URL of the issuer whose JWTs are taken, as they have it",
		"http.oauth.resource":         "URL of the server's /mcp as clients have it",
		"http.oauth.audience":         "audience of JWTs; none is http.oauth.resource",
		"http.oauth.jwks":             "URL of the issuer's keys; none is where its metadata say",
		"http.oauth.namespaces_claim": "claim of a JWT that has the namespaces of an agent",
		"http.oauth.scopes":           "scopes that a JWT must have",
		"http.oauth.person_scope":     "scope of the JWTs of persons; none takes all for agents'",
		"images.python":               "image of Python's containers",
		"images.node":                 "image of Node's containers",
		"images.shell":                "image of shells' containers",
		"images.r":                    "image of R's containers",
		"containers.pull":             "an image that is missing is pulled, or the run is refused",
		"containers.podman":           "address of Podman; auto goes by its own settings",
		"containers.docker":           "address of Docker; auto goes by DOCKER_HOST, contexts and the usual sockets",
		"containers.binary":           "static sandboxmcp for Linux that is each container's first program; auto is this one",
		"containers.ahead":            "containers that a server keeps started, each for one run",
		"containers.labels":           "labels of all containers",
		"containers.gpus":             "graphics processors of runs that ask for none",
		"kubernetes.kubeconfig":       "file that says how to reach the cluster; auto is KUBECONFIG, the home directory, or the account of the server's own pod",
		"kubernetes.context":          "context of that file; none is its current one",
		"kubernetes.namespace":        "namespace of the pods; none is the context's",
		"kubernetes.image":            "image that has this version of sandboxmcp as /.sandboxmcp/init",
		"kubernetes.runtime_class":    "RuntimeClass of the pods; none is the cluster's default",
		"kubernetes.node_selector":    "labels of the nodes that may run sandboxes",
		"kubernetes.priority_class":   "PriorityClass of the pods, by which the cluster decides whose wait; none is the cluster's default",
		"kubernetes.service_account":  "account of the pods, of which they get no token; none is the namespace's default",
		"kubernetes.overcommit":       "sandboxes that share what each may use of the CPUs: pods request that part",
		"kubernetes.policy_seconds":   "seconds that a network policy may take to come into force for a new pod",
		"kubernetes.agent_sandbox":    "idle pods are had by claims of agents.x-k8s.io where it is installed: auto if nodes map users; always, too, where runtime_class gives each pod a kernel",
	}
}
