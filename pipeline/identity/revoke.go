package identity

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Revoke removes a token, given by its name, its id or itself. No process accepts it once Revoke returns it, even
// with an error of log, which Revoke calls after the removal.
func (t *Tokens) Revoke(ctx context.Context, which string, log func(Token) error) (gone Token, err error) {
	if token, ok := FromE2B(which); ok {
		which = token
	}
	if id, ok := parseToken(which); ok {
		which = id
	}
	var last record
	err = t.change(ctx, func(all *content) error {
		i := slices.IndexFunc(all.Tokens, func(r record) bool { return r.Name == which || r.ID == which })
		if i < 0 {
			return ErrUnknown
		}
		last = all.Tokens[i]
		all.Tokens = slices.Delete(all.Tokens, i, i+1)
		return nil
	})
	if err != nil && last.ID != "" { // for example because the disk is full
		err = t.strike(ctx, last)
	}
	if err != nil {
		return Token{}, err
	}
	return last.Token, call(log, last.Token)
}

// struck replaces the hash of a token that was revoked on a full disk. No token has it.
var struck = make([]byte, hashSize)

// strike revokes a token by overwriting its hash in the file: most file systems need no space for that. The next
// change removes its record.
func (t *Tokens) strike(ctx context.Context, r record) error {
	lock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	return statefile.Overwrite(t.path(), hashText(r.Hash), hashText(struck))
}

// hashText returns a hash as it is in the file.
func hashText(hash []byte) []byte {
	return []byte(`"` + base64.StdEncoding.EncodeToString(hash) + `"`)
}

// withoutStruck drops the records of tokens that strike revoked.
func (c *content) withoutStruck() {
	c.Tokens = slices.DeleteFunc(c.Tokens, func(r record) bool { return bytes.Equal(r.Hash, struck) })
}
