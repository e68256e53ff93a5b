package e2b

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit"
	"github.com/sandboxmcp/sandboxmcp/pipeline/response"
)

// Log reads the audit log.
type Log interface {
	Rows(ctx context.Context, f audit.Filter) iter.Seq2[audit.Row, error]
}

// logEntry is a row of the audit log as E2B's API has entries.
type logEntry struct {
	Timestamp time.Time         `json:"timestamp"`
	Level     string            `json:"level"`
	Message   string            `json:"message"`
	Fields    map[string]string `json:"fields"`
}

// maxLogs is the most entries of one answer.
const maxLogs = 1000

// logQuery is which entries a request asks for.
type logQuery struct {
	from   time.Time // the first moment
	takes  func(logEntry) bool
	most   int
	newest bool // the last of them, the newest first; else the first, the oldest first
}

// entries returns what the audit log has of a sandbox. It holds no more of them than it returns.
func (s *Server) entries(ctx context.Context, b *Sandbox, q logQuery) ([]logEntry, error) {
	list := []logEntry{}
	if s.cfg.Log == nil || q.most == 0 {
		return list, nil
	}
	since := b.Created.Add(-time.Second) // its first row is older than its session
	if q.from.After(since) {
		since = q.from
	}
	sessions := b.was()
	next := 0 // where the oldest is, once there are as many as may be
	for row, err := range s.cfg.Log.Rows(ctx, audit.Filter{Namespace: b.Namespace, Since: since}) {
		if err != nil {
			return nil, err
		}
		fields := fieldsOf(row)
		e := logEntry{row.Time, levelOf(row.Kind), row.Kind, fields}
		switch {
		case !slices.Contains(sessions, row.Run) && !slices.Contains(sessions, fields["session"]) || !q.takes(e):
		case len(list) < q.most:
			list = append(list, e)
		case !q.newest:
			return list, nil
		default:
			list[next] = e
			next = (next + 1) % q.most
		}
	}
	list = append(list[next:], list[:next]...)
	if q.newest {
		slices.Reverse(list)
	}
	return list, nil
}

// fieldsOf returns the facts of a row as text.
func fieldsOf(row audit.Row) map[string]string {
	var data map[string]json.RawMessage
	_ = json.Unmarshal(row.Data, &data) // the log holds only what we wrote
	fields := map[string]string{"request_id": row.Run}
	for name, value := range data {
		text := string(value)
		_ = json.Unmarshal(value, &text) // what is no string stays JSON
		fields[name] = text
	}
	return fields
}

var levels = []string{"debug", "info", "warn", "error"}

func levelOf(kind string) string {
	for suffix, level := range map[string]string{".failed": "error", ".refused": "warn", ".denied": "warn", ".exceeded": "warn"} {
		if strings.HasSuffix(kind, suffix) {
			return level
		}
	}
	return "info"
}

// number reads a number of a query, or has one for its lack.
func number(r *http.Request, name string, lack int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return lack, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s must be a number from 0 on", name)
	}
	return n, nil
}

// logs answers in the form of the API's first version.
func (s *Server) logs(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	list, err := s.logged(r, b, "start")
	if err != nil {
		return err
	}
	lines := []map[string]any{}
	for _, e := range list {
		line, _ := json.Marshal(e.Fields) // of strings
		lines = append(lines, map[string]any{"timestamp": e.Timestamp, "line": e.Message + " " + string(line)})
	}
	return response.Reply(w, http.StatusOK, map[string]any{"logs": lines, "logEntries": list})
}

func (s *Server) logsV2(w http.ResponseWriter, r *http.Request, b *Sandbox) error {
	list, err := s.logged(r, b, "cursor")
	if err != nil {
		return err
	}
	return response.Reply(w, http.StatusOK, map[string]any{"logs": list})
}

// logged returns the entries that a request asks for, whose first moment is in a parameter.
func (s *Server) logged(r *http.Request, b *Sandbox, moment string) ([]logEntry, error) {
	q := r.URL.Query()
	from, err := number(r, moment, 0)
	limit, wrong := number(r, "limit", maxLogs)
	least := max(0, slices.Index(levels, q.Get("level")))
	if err == nil {
		err = wrong
	}
	if err != nil {
		return nil, response.Refuse(http.StatusBadRequest, err.Error())
	}
	want := logQuery{from: time.UnixMilli(from), most: int(min(limit, maxLogs)), newest: q.Get("direction") == "backward"}
	if want.newest {
		want.from = time.Time{}
	}
	want.takes = func(e logEntry) bool {
		before := !want.newest || from == 0 || e.Timestamp.UnixMilli() <= from
		return before && slices.Index(levels, e.Level) >= least && strings.Contains(e.Message, q.Get("search"))
	}
	list, err := s.entries(r.Context(), b, want)
	if err != nil {
		s.log.Error("the log can't be read", "error", err)
		err = response.Refuse(http.StatusInternalServerError, "the log can't be read at the moment")
	}
	return list, err
}
