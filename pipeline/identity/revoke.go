package identity

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Revoke removes the token of a name or an id, or a token itself. No process accepts it when Revoke returns it, also
// with an error, which is that of log then: log is called once the token is gone.
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
	if err != nil && last.ID != "" { // as where the disk is full
		err = t.strike(ctx, last)
	}
	if err != nil {
		return Token{}, err
	}
	return last.Token, call(log, last.Token)
}

// struck is the hash in the place of that of a token which was revoked on a full disk. No token has it.
var struck = make([]byte, hashSize)

// strike revokes a token in the file as it is: most file systems need no space to write where something is. Its record
// goes with the next change.
func (t *Tokens) strike(ctx context.Context, r record) error {
	lock, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	return statefile.Overwrite(t.path(), hashText(r.Hash), hashText(struck))
}

// hashText is a hash as the file has it.
func hashText(hash []byte) []byte {
	return []byte(`"` + base64.StdEncoding.EncodeToString(hash) + `"`)
}

// withoutStruck drops the records of tokens that were revoked in place.
func (c *content) withoutStruck() {
	c.Tokens = slices.DeleteFunc(c.Tokens, func(r record) bool { return bytes.Equal(r.Hash, struck) })
}
