package audit

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/sandboxmcp/sandboxmcp/audit/merkle"
	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// compareExternal compares the tree, whose last row is r, with the external checkpoints that cover no more rows.
func (v *verification) compareExternal(r rowPosition) *Bad {
	for ; len(v.external) > 0 && v.external[0].Size <= v.tree.Size; v.external = v.external[1:] {
		if bad := v.compareCheckpoint(v.external[0], r); bad != nil {
			return bad
		}
	}
	return nil
}

// compareCheckpoint compares the tree with a checkpoint whose last row is r.
func (v *verification) compareCheckpoint(p namedCheckpoint, r rowPosition) *Bad {
	if v.tree.Size == p.Size && v.tree.Root() == p.Root {
		if err := p.CheckKeyAt(r.time); err != nil { // a newer key's checkpoint may cover it, too
			v.noteDoubt(p.Size, p.name, err)
			return nil
		}
		v.proven = verifiedPoint{p.Size, hex.EncodeToString(r.hash[:]), p.Root}
		return nil
	}
	if p.Size == 0 {
		return nil
	}
	first := v.proven.size + 1
	v.chain.next, v.chain.head = first, v.proven.head
	why := fmt.Sprintf("was rewritten, or one of those after it up to row %d: %s was made over other rows", p.Size, p.name)
	if len(v.keys) == 0 {
		why += ", or was changed itself, which the key would tell"
	}
	return &Bad{first, why}
}

// noteDoubt records a checkpoint that matches the rows, but whose key was not valid.
func (v *verification) noteDoubt(size int64, name string, why error) {
	v.doubts++
	v.doubtful = &Bad{size, fmt.Sprintf("is not vouched for: %s does not count: %v", name, why)}
}

func (v *verification) compareNode(ctx context.Context, n merkle.Node) (*Bad, error) {
	if (n.Position+1)<<n.Level > v.newest {
		return nil, nil // no checkpoint has covered it
	}
	stored, err := statefile.One[[]byte](ctx, v.l.db, merkle.SelectNode, n.Level, n.Position)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return &Bad{0, fmt.Sprintf("the stored tree has lost its hash over rows %d to %d", n.Position<<n.Level+1, (n.Position+1)<<n.Level)}, nil
	case err == nil && string(stored) != string(n.Hash[:]):
		return &Bad{0, fmt.Sprintf("the stored tree has another hash over rows %d to %d than the rows have", n.Position<<n.Level+1,
			(n.Position+1)<<n.Level)}, nil
	}
	return nil, err
}
