package identity

import "net/http"

// CheckBlocked returns the error, a *door.Refused, for a request of an address of which too many tries failed: for proofs
// other than credentials, such as signed URLs, that are checked elsewhere. They lock nobody's credentials out.
func (c *Checker) CheckBlocked(r *http.Request) error {
	if wait := c.proofs.wait(c.cfg.Address(r)); wait > 0 {
		return tooMany("too many tries failed", wait)
	}
	return nil
}

// Fail counts a try of a request's address that failed.
func (c *Checker) Fail(r *http.Request) { c.proofs.consume(c.cfg.Address(r)) }
