package door

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
)

// MaxParts bounds the parts of a form: each file is a row of the audit log.
const MaxParts = 10_000

// EachPart calls f with each part of a form and its file name, "" without one, including directories, which
// Part.FileName would strip. unread converts the error of a form that can't be read.
func EachPart(form *multipart.Reader, unread func(error) error, f func(name string, part *multipart.Part) error) error {
	for n := 0; ; n++ {
		part, err := form.NextPart()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return unread(err)
		case n == MaxParts:
			return Refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("a request can have %d files at most", MaxParts))
		}
		_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil {
			params = nil
		}
		if err := f(params["filename"], part); err != nil {
			return err
		}
	}
}

// BoundBody refuses a request that announces a body of more than most bytes. Reading a body that exceeds them
// nevertheless fails with a *[http.MaxBytesError].
func BoundBody(w http.ResponseWriter, r *http.Request, most int64, tooLarge string) error {
	if r.ContentLength > most {
		return Refuse(http.StatusRequestEntityTooLarge, tooLarge)
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	return nil
}
