package page

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/export"
	"github.com/sandboxmcp/sandboxmcp/audit/safetext"
	"github.com/sandboxmcp/sandboxmcp/pipeline/control"
	"github.com/sandboxmcp/sandboxmcp/pipeline/door"
)

// evidence sends the data with which a browser verifies a run.
func (p *Page) evidence(w http.ResponseWriter, r *http.Request, _ *visitor) error {
	e, err := control.Call(r.Context(), p.c.Client, control.GetEvidence, control.OfRun{ID: r.URL.Query().Get("id")})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(e)
	return nil
}

// save makes a browser save the answer under a name, and never display it.
func save(h http.Header, name string) {
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename*=UTF-8''%s", strings.ReplaceAll(url.QueryEscape(fileName(name)), "+",
		"%20")))
}

// fileName returns a file name that is valid on any system and readable for people.
func fileName(name string) string {
	name = path.Base(strings.ToValidUTF8(name, "_"))
	name = strings.Map(func(r rune) rune {
		if safetext.Hidden(r) || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, name)
	return cmp.Or(strings.Trim(safetext.Clip(name, 120), ". "), "file")
}

// filePart is the size of the parts in which a file is fetched, in bytes.
const filePart = 1 << 20

// file sends a stored entry of a run, or its receipt.
func (p *Page) file(w http.ResponseWriter, r *http.Request, _ *visitor) error {
	ctx, id, name := r.Context(), r.URL.Query().Get("id"), r.URL.Query().Get("name")
	if name == "receipt" || name == "proof" {
		e, err := control.Call(ctx, p.c.Client, control.GetEvidence, control.OfRun{ID: id})
		if err != nil {
			return err
		}
		body, as := e.Receipt, e.Run+".receipt.intoto.json"
		if name == "proof" {
			body, as = []byte(e.Proof), e.Run+".tlog-proof"
		}
		save(w.Header(), as)
		_, _ = w.Write(body)
		return nil
	}
	for offset := int64(0); ; {
		part, err := control.Call(ctx, p.c.Client, control.ReadStored, control.PartQuery{OfRun: control.OfRun{ID: id}, Name: name, Offset: offset,
			Length: filePart})
		switch {
		case err != nil && offset == 0:
			return err
		case err != nil:
			panic(http.ErrAbortHandler) // otherwise the partial file would look complete
		case offset == 0:
			save(w.Header(), name)
			w.Header().Set("Content-Length", strconv.FormatInt(part.Size, 10))
		}
		if _, err := w.Write(part.Data); err != nil {
			return nil
		}
		if offset += int64(len(part.Data)); offset >= part.Size || len(part.Data) == 0 {
			return nil
		}
	}
}

// maxExport bounds the rows of one export.
const maxExport = 100_000

// export sends the rows of a search.
func (p *Page) export(w http.ResponseWriter, r *http.Request, _ *visitor) error {
	format := r.URL.Query().Get("format")
	q := query(r.URL.Query())
	q.Limit = 1000
	var buffer bytes.Buffer
	out, err := export.New(format, &buffer, export.About{Version: p.c.Version, Made: time.Now(), Scope: wordFor("export_scope")})
	if err != nil {
		return door.Refuse(http.StatusBadRequest, err.Error())
	}
	for n := 0; n < maxExport; {
		found, err := control.Call(r.Context(), p.c.Client, control.SearchLog, q)
		if err != nil && n == 0 {
			return err
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if n == 0 {
			save(w.Header(), "sandboxmcp-log."+format)
		}
		for _, row := range found.Rows {
			if err := out.Row(row); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
		if _, err := buffer.WriteTo(w); err != nil {
			return nil
		}
		if n, q.Before = n+len(found.Rows), found.Next; found.Next == 0 {
			break
		}
	}
	if out.Close() == nil {
		_, _ = buffer.WriteTo(w)
	}
	return nil
}
