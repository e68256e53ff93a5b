package control

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/pipeline/results"
	"github.com/sandboxmcp/sandboxmcp/signer"
)

// Stored is a run with a stored result.
type Stored struct {
	Run       string            `json:"run"`
	Namespace string            `json:"namespace"`
	Session   string            `json:"session,omitempty"`
	Language  string            `json:"language"`
	Name      string            `json:"name"`
	Ended     string            `json:"ended"`
	ExitCode  int               `json:"exit_code"`
	Time      time.Time         `json:"time"`
	Artifacts []signer.Artifact `json:"artifacts"`
	StdoutCut int64             `json:"stdout_cut,omitempty"` // bytes cut at the end
	StderrCut int64             `json:"stderr_cut,omitempty"`
}

type StoredQuery struct {
	InNamespace
	Run   string `json:"run,omitempty" about:"Only this run." range:"..64"`
	Limit int    `json:"limit,omitempty" about:"Maximum number, newest first." default:"100" range:"1..1000"`
}

func (a *API) stored(ctx context.Context, q *StoredQuery) ([]Stored, error) {
	list := []Stored{}
	var records []results.Record
	if q.Run == "" {
		records = a.c.Results.List(results.Filter{Namespace: q.Namespace})
	} else if r, err := a.c.Results.Metadata(strings.ToUpper(q.Run)); err == nil && (q.Namespace == "" || q.Namespace == r.Namespace) {
		records = []results.Record{r}
	}
	sees := requesterOf(ctx).sees
	records = slices.DeleteFunc(records, func(r results.Record) bool { return !sees(r.Namespace) })
	for _, r := range records[:min(len(records), q.Limit)] {
		list = append(list, Stored{r.ID, r.Namespace, r.Session, r.Language, r.Name, r.Ended, r.ExitCode, r.Time,
			append([]signer.Artifact{}, r.Artifacts...), r.StdoutCut, r.StderrCut})
	}
	return list, nil
}

type PartQuery struct {
	OfRun
	Name   string `json:"name" about:"The entry: stdout, stderr, result (JSON: value, images, error), or files/ and the name of an artifact." required:"true" range:"1..4096"`
	Offset int64  `json:"offset,omitempty" about:"Offset in bytes."`
	Length int64  `json:"length,omitempty" about:"Maximum number of bytes." default:"1048576" range:"1..4194304"`
}

// StoredPart is a piece of a stored entry.
type StoredPart struct {
	Data []byte `json:"data"` // base64
	Size int64  `json:"size"` // bytes of the whole
	MIME string `json:"mime"`
}

func (a *API) storedPart(ctx context.Context, q *PartQuery) (StoredPart, error) {
	unknown := failure(http.StatusNotFound, "no such entry is stored")
	r, err := a.c.Results.Metadata(strings.ToUpper(q.ID))
	if err != nil || !requesterOf(ctx).sees(r.Namespace) {
		return StoredPart{}, unknown
	}
	if q.Name == "result" {
		r, err := a.c.Results.Get(r.ID)
		if err != nil {
			return StoredPart{}, unknown
		}
		size := int64(len(r.Result))
		from := min(max(q.Offset, 0), size)
		return StoredPart{r.Result[from:min(from+q.Length, size)], size, "application/json"}, nil
	}
	p, err := a.c.Results.Read(r.ID, q.Name, q.Offset, q.Length)
	switch withheld := (*results.Withheld)(nil); {
	case errors.As(err, &withheld):
		return StoredPart{}, failure(http.StatusForbidden, "%v", withheld)
	case err != nil:
		return StoredPart{}, unknown
	}
	return StoredPart{p.Data, p.Size, p.MIME}, nil
}
