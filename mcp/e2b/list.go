package e2b

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
	"github.com/sandboxmcp/sandboxmcp/pipeline/identity"
	"github.com/sandboxmcp/sandboxmcp/pipeline/session"
)

// clientID is a field that current SDKs ignore.
const clientID = "sandboxmcp"

// detail is a sandbox in E2B's format.
type detail struct {
	SandboxID      string            `json:"sandboxID"`
	TemplateID     string            `json:"templateID"`
	Alias          string            `json:"alias,omitempty"`
	ClientID       string            `json:"clientID"`
	StartedAt      time.Time         `json:"startedAt"`
	EndAt          time.Time         `json:"endAt"`
	CPUCount       int               `json:"cpuCount"`
	MemoryMB       int64             `json:"memoryMB"`
	DiskSizeMB     int64             `json:"diskSizeMB"`
	Metadata       map[string]string `json:"metadata"`
	State          string            `json:"state"`
	EnvdVersion    string            `json:"envdVersion"`
	Access         string            `json:"envdAccessToken,omitempty"`
	InternetAccess *bool             `json:"allowInternetAccess,omitempty"`
	Network        *networkConfig    `json:"network,omitempty"`
	Lifecycle      *lifecycle        `json:"lifecycle,omitempty"`
}

// lifecycle is the action at a sandbox's timeout.
type lifecycle struct {
	AutoResume bool   `json:"autoResume"`
	OnTimeout  string `json:"onTimeout"`
}

// onTimeout returns the action at a sandbox's timeout.
func (b *Sandbox) onTimeout() string {
	if b.autoPause {
		return "pause"
	}
	return "kill"
}

// expiry returns when a session expires.
func expiry(info session.Info) time.Time {
	return info.Created.Add(time.Duration(info.Lifetime * float64(time.Second)))
}

// detail describes a sandbox and its session.
func (b *Sandbox) detail(info session.Info) detail {
	state := "running"
	if info.State == "dead" {
		state = "paused"
	}
	return detail{SandboxID: b.ID, TemplateID: b.Template, Alias: b.Template, ClientID: clientID, StartedAt: info.Created, EndAt: expiry(info),
		CPUCount: int(max(1, info.Limits.CPU)), MemoryMB: info.Limits.RAM, DiskSizeMB: info.Limits.Disk, Metadata: b.Metadata,
		State: state, EnvdVersion: envdVersion}
}

func (s *Server) getSandbox(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	info, ok := s.current(b)
	if !ok {
		return door.Refuse(http.StatusNotFound, "sandbox "+b.ID+" not found")
	}
	d := b.detail(info)
	internet, network := b.networkSettings()
	who, _ := identity.From(r.Context())
	d.Access, d.InternetAccess, d.Network, d.Lifecycle = s.passFor(b, who).access, internet, network.withoutValues(),
		&lifecycle{OnTimeout: b.onTimeout()}
	return door.Reply(w, http.StatusOK, d)
}

// current returns the session of a running or paused sandbox.
func (s *Server) current(b *Sandbox) (session.Info, bool) {
	id := b.session()
	if info, err := session.InfoOf(s.cfg.Pipeline, b.Namespace, id); err == nil && info.State != "dead" {
		return info, true
	}
	info, paused := session.PausedInfo(s.cfg.Pipeline, b.Namespace, id)
	info.State = "dead"
	return info, paused && s.exists(b)
}

// living returns the sandboxes that a caller may see, with the state of their sessions, in order of creation.
func (s *Server) living(c caller) []detail {
	var list []detail
	for _, b := range s.sandboxes() {
		if !s.canSee(c, b.Namespace) {
			continue
		}
		if info, ok := s.current(b); ok {
			list = append(list, b.detail(info))
		}
	}
	slices.SortFunc(list, compareDetails)
	return list
}

func compareDetails(a, b detail) int {
	return cmp.Or(a.StartedAt.Compare(b.StartedAt), strings.Compare(a.SandboxID, b.SandboxID))
}

// maxPage is the maximum, and default, number of sandboxes on a page.
const maxPage = 100

// filter narrows a list.
type filter struct {
	metadata  url.Values
	template  string
	states    []string
	after     time.Time
	ascending bool
	limit     int
	last      *detail // last entry of the page before; nil is the first page
	paged     bool
}

// filterOf parses the query of a list.
func filterOf(r *http.Request) (f filter, err error) {
	q := r.URL.Query()
	f.paged, f.template, f.ascending = strings.HasPrefix(r.URL.Path, "/v2/"), q.Get("template"), q.Get("order") == "asc"
	if f.metadata, err = metadataOf(q.Get("metadata")); err != nil {
		return f, fmt.Errorf("metadata: %w", err)
	}
	if text := strings.Join(q["state"], ","); text != "" {
		f.states = strings.Split(text, ",")
	}
	if text := q.Get("startedAfter"); text != "" {
		if f.after, err = time.Parse(time.RFC3339, text); err != nil {
			return f, fmt.Errorf("startedAfter: %w", err)
		}
	}
	if f.limit, err = limitOf(q); err != nil {
		return f, err
	}
	if text := q.Get("nextToken"); text != "" {
		f.last, err = cursorOf(text)
	}
	return f, err
}

// limitOf returns the requested number of entries.
func limitOf(q url.Values) (int, error) {
	n, err := strconv.Atoi(cmp.Or(q.Get("limit"), strconv.Itoa(maxPage)))
	if err != nil || n < 1 || n > maxPage {
		return 0, door.Refuse(http.StatusBadRequest, "limit must be a number from 1 to "+strconv.Itoa(maxPage))
	}
	return n, nil
}

// metadataOf parses pairs that were escaped before the query was.
func metadataOf(text string) (url.Values, error) {
	once, err := url.ParseQuery(text)
	if err != nil {
		return nil, err
	}
	pairs := url.Values{}
	for name, values := range once {
		key, err := url.QueryUnescape(name)
		if err != nil {
			return nil, err
		}
		for _, v := range values {
			value, err := url.QueryUnescape(v)
			if err != nil {
				return nil, err
			}
			pairs.Add(key, value)
		}
	}
	return pairs, nil
}

// cursor returns the start and id of a page's last sandbox.
func (d detail) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(d.StartedAt.Format(time.RFC3339Nano) + " " + d.SandboxID))
}

func cursorOf(text string) (*detail, error) {
	b, _ := base64.RawURLEncoding.DecodeString(text) // an invalid cursor has no time
	started, id, _ := strings.Cut(string(b), " ")
	at, err := time.Parse(time.RFC3339Nano, started)
	if err != nil || id == "" {
		return nil, fmt.Errorf("nextToken is invalid")
	}
	return &detail{StartedAt: at, SandboxID: id}, nil
}

// matches reports whether a sandbox passes the filter.
func (f filter) matches(d detail) bool {
	for key, values := range f.metadata {
		if value, ok := d.Metadata[key]; !ok || !slices.Contains(values, value) {
			return false
		}
	}
	return (f.template == "" || f.template == d.TemplateID) && (f.states == nil || slices.Contains(f.states, d.State)) &&
		!d.StartedAt.Before(f.after)
}

// isAfter reports whether a sandbox comes after the page before.
func (f filter) isAfter(d detail) bool {
	if f.last == nil {
		return true
	}
	order := compareDetails(d, *f.last)
	return f.ascending && order > 0 || !f.ascending && order < 0
}

// listSandboxes answers with the sandboxes that a caller may see, in pages.
func (s *Server) listSandboxes(w http.ResponseWriter, r *http.Request, c caller) error {
	f, err := filterOf(r)
	if err != nil {
		return door.Refuse(http.StatusBadRequest, err.Error())
	}
	all := s.living(c)
	if !f.ascending {
		slices.Reverse(all)
	}
	all = slices.DeleteFunc(all, func(d detail) bool { return !f.matches(d) })
	w.Header().Set("X-Total-Running", strconv.Itoa(len(all)))
	page := slices.DeleteFunc(all, func(d detail) bool { return !f.isAfter(d) })
	if f.paged && len(page) > f.limit {
		page = page[:f.limit]
		w.Header().Set("X-Next-Token", page[f.limit-1].cursor())
	}
	return door.Reply(w, http.StatusOK, append([]detail{}, page...))
}
