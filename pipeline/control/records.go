package control

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/audit/facts"
	"github.com/sandboxmcp/sandboxmcp/pipeline/operation"
)

// Records is the readable audit log.
type Records interface {
	Rows(context.Context, audit.Filter) iter.Seq2[audit.Row, error]
	RowWithReceipt(ctx context.Context, run string) (audit.Row, []byte, error)
	Proof(ctx context.Context, id string) ([]byte, error)
}

// LogQuery selects rows of the audit log. Omitted fields select all rows.
type LogQuery struct {
	Namespace string   `json:"namespace,omitempty" about:"Only rows of this namespace. Default: all that the caller may see." range:"..64"`
	Since     string   `json:"since,omitempty" about:"Only rows from this time on, in RFC 3339." range:"..64"`
	Until     string   `json:"until,omitempty" about:"Only rows before this time." range:"..64"`
	Kinds     []string `json:"kind,omitempty" about:"Only rows of these kinds; may be repeated." range:"..64" each:"The kind of a row."`
	Run       string   `json:"run,omitempty" about:"Only rows of this run." range:"..64"`
	Session   string   `json:"session,omitempty" about:"Only rows of this session." range:"..64"`
	Agent     string   `json:"agent,omitempty" about:"Only rows of agents or identities whose name contains this." range:"..256"`
	Outcome   string   `json:"outcome,omitempty" about:"Only runs that ended in this way." oneof:"ok exit signal timeout oom limit refused cancelled lost"`
	Domain    string   `json:"domain,omitempty" about:"Only rows about this host name or its subdomains." range:"..256"`
	Secret    string   `json:"secret,omitempty" about:"Only rows about the secret of this name." range:"..256"`
	Artifact  string   `json:"artifact,omitempty" about:"Only rows about a file whose SHA-256 has this prefix, in hexadecimal." range:"..64"`
	Text      string   `json:"text,omitempty" about:"Only rows whose data contains this." range:"..256"`
	Before    int64    `json:"before,omitempty" about:"Only rows before this number: next of an earlier answer."`
	Limit     int      `json:"limit,omitempty" about:"Maximum number." default:"100" range:"1..1000"`
}

// FoundRows are rows of the log, the newest first.
type FoundRows struct {
	Rows []audit.Row `json:"rows"`
	Next int64       `json:"next,omitempty"` // Before of the next query for older rows; 0: there are none
}

// searchTime bounds a search; then the rows found so far are returned.
const searchTime = 3 * time.Second

func (a *API) search(ctx context.Context, q *LogQuery) (found FoundRows, err error) {
	found.Rows = []audit.Row{}
	by := requesterOf(ctx)
	f, err := q.filter()
	if err == nil && q.Namespace != "" {
		err = by.checkNamespace(q.Namespace)
	}
	if err != nil {
		return found, err
	}
	if !by.seesAll() {
		f.Namespaces = append([]string{}, by.own.Names()...) // the duration and the end of the search must not reveal others' rows
	}
	f.Limit = q.Limit // usually sufficient
	for until := time.Now().Add(searchTime); ; f.Limit = max(q.Limit, 200) {
		page, err := collect(a.c.Records.Rows(ctx, f))
		if err != nil {
			return found, err
		}
		for _, r := range slices.Backward(page) {
			f.Before = r.Seq
			if !by.sees(r.Namespace) || !q.chooses(r) {
				continue
			}
			if found.Rows = append(found.Rows, r); len(found.Rows) == q.Limit {
				found.Next = r.Seq
				return found, nil
			}
		}
		if len(page) < f.Limit {
			return found, nil
		}
		if time.Now().After(until) {
			found.Next = f.Before
			return found, nil
		}
	}
}

func collect(rows iter.Seq2[audit.Row, error]) (all []audit.Row, err error) {
	for r, err := range rows {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// filter returns a filter that selects at least the rows of the query.
func (q *LogQuery) filter() (audit.Filter, error) {
	f := audit.Filter{Namespace: q.Namespace, Kinds: q.Kinds, Run: strings.ToUpper(q.Run), Before: q.Before}
	for _, t := range []struct {
		name, text string
		to         *time.Time
	}{{"since", q.Since, &f.Since}, {"until", q.Until, &f.Until}} {
		if t.text == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339, t.text)
		if err != nil {
			return f, operation.ArgumentError(t.name, "%.40q is not a time such as 2026-01-31T12:00:00Z", t.text)
		}
		*t.to = at
	}
	for _, text := range []string{strings.ToUpper(q.Session), q.Secret, strings.ToLower(q.Artifact),
		strings.ToLower(strings.TrimPrefix(q.Domain, "*.")), q.Text} {
		if text != "" {
			f.Contains = append(f.Contains, inJSON(text))
		}
	}
	if q.Outcome != "" && q.Outcome != "refused" {
		f.Contains = append(f.Contains, `"ended":"`+q.Outcome+`"`)
	}
	return f, nil
}

// inJSON escapes a text as within a JSON string of the log.
func inJSON(text string) string {
	b, _ := json.Marshal(text) // never fails for a string
	return string(b[1 : len(b)-1])
}

// chooses reports whether the query selects a row that its filter selected.
func (q *LogQuery) chooses(r audit.Row) bool {
	f := facts.Parse(r)
	has := func(list []string, what string) bool { return slices.Contains(list, what) }
	agent := strings.ToLower(q.Agent)
	return (q.Session == "" || f.Session == strings.ToUpper(q.Session)) &&
		(agent == "" || strings.Contains(strings.ToLower(f.Client), agent) || strings.Contains(strings.ToLower(f.Identity), agent)) &&
		(q.Outcome == "" || f.Ended == q.Outcome || q.Outcome == "refused" && r.Kind == "execution.refused") &&
		(q.Domain == "" || q.names(r.Kind, f)) &&
		(q.Secret == "" || has(f.Secrets, q.Secret) || strings.HasPrefix(r.Kind, "vault.") && (f.Name == q.Secret || has(f.Names, q.Secret))) &&
		(q.Artifact == "" || slices.ContainsFunc(f.Files, func(file facts.File) bool {
			return strings.HasPrefix(file.SHA256, strings.ToLower(q.Artifact))
		}))
}

// names reports whether a row is about the domain of the query or a subdomain.
func (q *LogQuery) names(kind string, f facts.Facts) bool {
	domain := strings.ToLower(strings.TrimPrefix(q.Domain, "*."))
	is := func(name string) bool {
		name = strings.ToLower(strings.TrimPrefix(name, "*."))
		if host, _, ok := strings.Cut(name, ":"); ok && !strings.Contains(domain, ":") {
			name = host
		}
		return name == domain || strings.HasSuffix(name, "."+domain)
	}
	return strings.HasPrefix(kind, "egress.") && (is(f.Name) || is(f.What)) ||
		slices.ContainsFunc(f.Egress, func(d facts.Decision) bool { return is(d.Name) })
}

// Story has all rows of the log about one run.
type Story struct {
	Run       string      `json:"run"`
	Namespace string      `json:"namespace"`
	Rows      []audit.Row `json:"rows"`  // rows of the run, the oldest first
	About     []audit.Row `json:"about"` // questions about the run, their answers, and interrupts
}

// maxStory bounds the returned rows of a run: a program can cause very many decisions.
const maxStory = 1000

func (a *API) story(ctx context.Context, q *OfRun) (Story, error) {
	id := strings.ToUpper(q.ID)
	s := Story{Run: id, Rows: []audit.Row{}, About: []audit.Row{}}
	rows, err := collect(a.c.Records.Rows(ctx, audit.Filter{Run: id, Limit: maxStory}))
	if err != nil {
		return s, err
	}
	if len(rows) == 0 || !requesterOf(ctx).sees(rows[0].Namespace) { // nor is it told whether there is one
		return s, failure(http.StatusNotFound, "the log has no rows about %.40q", q.ID)
	}
	s.Namespace, s.Rows = rows[0].Namespace, rows
	of := audit.Filter{Namespace: s.Namespace, After: rows[0].Seq, Limit: maxStory, Contains: []string{`"` + id + `"`},
		Kinds: []string{"egress.requested", "approval.requested", "execution.interrupted"}}
	about, err := collect(a.c.Records.Rows(ctx, of))
	if err != nil {
		return s, err
	}
	for _, r := range about {
		more := []audit.Row{r}
		if strings.HasSuffix(r.Kind, ".requested") && r.Run != id {
			if more, err = collect(a.c.Records.Rows(ctx, audit.Filter{Run: r.Run, Limit: maxStory})); err != nil {
				return s, err
			}
		}
		s.About = append(s.About, more...)
	}
	return s, nil
}

// Evidence lets anybody verify a run without trusting this server, except for the key.
type Evidence struct {
	Run     string    `json:"run"`
	Receipt []byte    `json:"receipt"` // base64 of the DSSE envelope, byte for byte
	Row     audit.Row `json:"row"`     // row with the receipt
	Proof   string    `json:"proof"`   // C2SP tlog-proof that the row is in the log
	Keys    []KeyInfo `json:"keys"`    // signing keys of this server's receipts
}

// KeyInfo describes a public key.
type KeyInfo struct {
	ID    string    `json:"id"` // SHA-256 of the key as SubjectPublicKeyInfo
	PEM   string    `json:"pem"`
	Until time.Time `json:"until,omitzero"` // end of its use for signing
}

func (a *API) evidence(ctx context.Context, q *OfRun) (e Evidence, err error) {
	s, err := a.story(ctx, q)
	if err != nil {
		return e, err
	}
	e.Run, e.Keys = s.Run, []KeyInfo{}
	e.Row, e.Receipt, err = a.c.Records.RowWithReceipt(ctx, s.Run)
	if errors.Is(err, audit.ErrNoReceipt) {
		return e, failure(http.StatusNotFound, "this run has no receipt: it was refused, or has not ended")
	}
	if err != nil {
		return e, err
	}
	proof, err := a.c.Records.Proof(ctx, s.Run)
	if err != nil {
		return e, err
	}
	e.Proof = string(proof)
	trust, err := a.c.Keys.Trust()
	if err != nil {
		return e, err
	}
	for _, k := range trust.Keys() {
		e.Keys = append(e.Keys, KeyInfo{ID: k.ID(), PEM: string(k.PEM()), Until: k.ValidUntil()})
	}
	return e, nil
}
