package command

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndOfWrites checks that a reader that does not read delays the end of the command only by writeLimit.
func TestEndOfWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, unread := io.Pipe()
		w := NewWriter(unread)
		failed := make(chan error)
		go func() {
			_, err := w.Write([]byte("x"))
			failed <- err
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case err := <-failed:
			t.Fatalf("a slow reader was not waited for: %v", err)
		default:
		}
		began := time.Now()
		w.LimitWrites()
		if err := <-failed; !errors.Is(err, ErrUnread) || time.Since(began) != writeLimit {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if _, err := w.Write([]byte("y")); !errors.Is(err, ErrUnread) {
			t.Errorf("a later write: %v", err)
		}
		if _, err := w.Write(nil); err != nil {
			t.Errorf("of nothing: %v", err)
		}
		w.Close()
		reader.Close() // ends the write
		synctest.Wait()
		<-w.done
		close(w.jobs)
	})
}

// TestSlowReaderAtTheEnd checks that a slow reader gets all output, even after End.
func TestSlowReaderAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, out := io.Pipe()
		w := NewWriter(out)
		w.LimitWrites()
		var got bytes.Buffer
		read := make(chan struct{})
		go func() {
			defer close(read)
			for b := make([]byte, 1); got.Len() < 9; {
				time.Sleep(writeLimit / 10)
				n, _ := reader.Read(b)
				got.Write(b[:n])
			}
		}()
		if n, err := w.Write([]byte("0123456789")[:9]); n != 9 || err != nil {
			t.Errorf("wrote %d: %v", n, err)
		}
		<-read
		w.Close()
	})
}
