package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sandboxmcp/sandboxmcp/pipeline/event"
)

// How often a collector that is busy is asked again: at most for as long as one request may take.
const (
	firstPause   = time.Second
	longestPause = 4 * time.Second
)

// sender posts messages of one kind: OTLP over HTTP, in protobuf. The exporters that come with otel do the same, and
// bring gRPC along, whose tables every command would make and whose code is a seventh of the program.
//
// What goes wrong it writes to the log, and not too often. The SDK would write it to stderr by itself, by a handler that is global.
type sender struct {
	client *http.Client
	quit   context.Context // ends what is under way
	url    string
	header http.Header
	packed bool // with gzip

	log  *slog.Logger
	kind string // of the messages
	mu   sync.Mutex
	next time.Time // when something may be logged again
	more int       // what was not logged since
}

// newSender reads the variables of OpenTelemetry that say what is sent along. kind is traces or metrics; what is set for
// one goes before what is set for all.
func newSender(quit context.Context, client *http.Client, log *slog.Logger, base, kind string) *sender {
	w := &sender{client: client, quit: quit, url: base + "/v1/" + kind, header: http.Header{}, log: log, kind: kind}
	signal := strings.ToUpper(kind)
	for _, name := range []string{"OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_" + signal + "_"} {
		for pair := range strings.SplitSeq(os.Getenv(name+"HEADERS"), ",") {
			key, value, _ := strings.Cut(pair, "=")
			value, err := url.PathUnescape(strings.TrimSpace(value))
			if key = strings.TrimSpace(key); key != "" && err == nil {
				w.header.Set(key, value)
			}
		}
		if how := os.Getenv(name + "COMPRESSION"); how != "" {
			w.packed = how == "gzip"
		}
	}
	w.header.Set("Content-Type", "application/x-protobuf")
	w.header.Set("User-Agent", "sandboxmcp")
	if w.packed {
		w.header.Set("Content-Encoding", "gzip")
	}
	return w
}

// deliver reports whether the collector has taken all of m.
func (w *sender) deliver(ctx context.Context, m proto.Message) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.quit, cancel)()
	err := w.send(ctx, m)
	if err != nil {
		w.say(err)
	}
	return err == nil
}

func (w *sender) say(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.After(w.next) {
		w.log.Warn("otlp: the collector did not take "+w.kind, "error", err, "times_before", w.more)
		w.next, w.more = now.Add(time.Minute), 0
		return
	}
	w.more++
}

// send returns nil once the collector has taken all of m.
func (w *sender) send(ctx context.Context, m proto.Message) error {
	body, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	if w.packed {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(body) // a buffer takes everything
		z.Close()
		body = b.Bytes()
	}
	end := time.Now().Add(w.client.Timeout)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		again, wait, err := w.post(ctx, body)
		if wait = max(wait, pause); !again || time.Now().Add(wait).After(end) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// post sends one request. Where the collector may take it later, again says so, and wait is how long it wants to be
// left alone.
func (w *sender) post(ctx context.Context, body []byte) (again bool, wait time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	req.Header = w.header.Clone()
	resp, err := w.client.Do(req)
	if err != nil {
		return false, 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, event.MaxAnswer+1))
	if err == nil && len(text) > event.MaxAnswer {
		err = fmt.Errorf("%s answers more than %d bytes", w.url, event.MaxAnswer)
	}
	if err != nil {
		return false, 0, err
	}
	if resp.StatusCode/100 == 2 {
		if resp.Header.Get("Content-Type") != "application/x-protobuf" {
			return false, 0, nil
		}
		return false, 0, partly(text)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	wait = time.Duration(min(max(seconds, 0), 3600)) * time.Second
	return again, wait, fmt.Errorf("%s answers %s: %.500q", w.url, resp.Status, bytes.TrimSpace(text))
}

// partly returns an error that says what the collector threw away of what it took. Its answer has that as its first
// field: how many, and why.
func partly(answer []byte) error {
	inner := field(answer, 1)
	count, n := protowire.ConsumeVarint(field(inner, 1))
	why := field(inner, 2)
	if n > 0 && count > 0 || len(why) > 0 {
		return fmt.Errorf("it threw away %d of them: %.500q", count, why)
	}
	return nil
}

// field returns the last field of a message with this number, without its tag and length; nil if there is none, or it
// is no message.
func field(message []byte, number protowire.Number) (value []byte) {
	for len(message) > 0 {
		num, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(num, kind, message); n < 0 {
			return nil
		}
		if num == number {
			value = message[:n]
			if kind == protowire.BytesType {
				value, _ = protowire.ConsumeBytes(value)
			}
		}
		message = message[n:]
	}
	return value
}
