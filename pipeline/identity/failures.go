package identity

import "net/http"

// CheckBlocked returns an error, a *door.Refused, if the request's address has too many failed attempts with proofs
// that other packages check, such as signed URLs. These never block credentials.
func (c *Checker) CheckBlocked(r *http.Request) error {
	if wait := c.proofs.wait(c.cfg.Address(r)); wait > 0 {
		return tooMany("too many failed attempts", wait)
	}
	return nil
}

// Fail counts a failed attempt of a request's address.
func (c *Checker) Fail(r *http.Request) { c.proofs.consume(c.cfg.Address(r)) }
