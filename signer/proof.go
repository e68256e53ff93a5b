package signer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"github.com/sandboxmcp/sandboxmcp/audit/statefile"
)

// Proof is a receipt that a trusted key has signed.
type Proof struct {
	Receipt             // with the names and hashes of artifacts that were not withheld
	Key       PublicKey // the signing key
	Strangers []string  // ids of further signing keys, which are unknown
}

// VerifyReceipt checks an envelope against keys, and returns the receipt or the envelope's problems. It reads no files.
// A key counts up to its ValidUntil, by the date in the receipt. The key's owner chooses that date, so only the log
// proves that a receipt is older than the revocation of its key.
func VerifyReceipt(text []byte, t *Trust) (Proof, []Problem) {
	s, problems := t.openStatement(text)
	if len(problems) > 0 {
		return Proof{}, problems
	}
	p := Proof{Key: s.key, Strangers: s.strangers}
	if err := s.parsePredicate(ReceiptType, &p.Receipt); err != nil {
		return Proof{}, newProblems(BadStatement, "%v", err)
	}
	if end, why := s.key.expiry(); !end.IsZero() && p.Finished.After(end) {
		return Proof{}, newProblems(BadKey, "it is dated %s, and the key that signed it, %s, %s", p.Finished.Format(time.RFC3339), s.key.id, why)
	}
	if !isHash(p.CodeSHA256) {
		return Proof{}, newProblems(BadStatement, "it does not say which code ran")
	}
	code := Sum{Name: codePrefix + p.CodeSHA256, SHA256: p.CodeSHA256}
	if len(s.subjects) == 1 && s.subjects[0] == code {
		return p, nil
	}
	for _, sum := range s.subjects {
		p.Artifacts = append(p.Artifacts, Artifact{Name: sum.Name, SHA256: sum.SHA256})
	}
	return p, nil
}

// VerifyDirectory compares the directory of the run's artifacts, and its list of sums if it exists, with the receipt.
// An error means that the directory can't be read.
func (p Proof) VerifyDirectory(d Directory) ([]Problem, error) {
	list, hash, problems := readSumsFile(d.Path)
	sums, whole := p.completeSums(list, hash)
	if !whole {
		problems = append(problems, newProblems(BadList, "%d of the artifacts are named in %s only, which is not here as it was signed",
			p.ArtifactsUnlisted, sumsName)...)
	}
	differ, err := d.verify(sums)
	if err != nil {
		return differ, err
	}
	return slices.Concat(differ, problems, unsignedSums(list, sums)), nil
}

// ArtifactSums returns the sums of all artifacts that were not withheld: those of the receipt or, if they are too many
// for it, those of SHA256SUMS in the directory dir. whole is false if that list is missing or differs from the signed
// one.
func (p Proof) ArtifactSums(dir string) (sums []Sum, whole bool) {
	if p.ArtifactsUnlisted == 0 {
		return p.completeSums(nil, "")
	}
	list, hash, _ := readSumsFile(dir)
	return p.completeSums(list, hash)
}

// completeSums returns the sums in the receipt, or the list if the receipt refers to it.
func (p Proof) completeSums(list []Sum, hash string) (sums []Sum, whole bool) {
	if p.ArtifactsUnlisted > 0 && hash == p.ArtifactsSHA256 {
		return list, true
	}
	for _, a := range p.Artifacts {
		sums = append(sums, Sum{Name: a.Name, SHA256: a.SHA256})
	}
	return sums, p.ArtifactsUnlisted == 0
}

// readSumsFile reads the directory's SHA256SUMS, which is not signed, if it exists.
func readSumsFile(dir string) (list []Sum, hash string, problems []Problem) {
	top, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", []Problem{{Kind: Unreadable, Name: sumsName, Why: WithoutPaths(err).Error()}}
	}
	defer top.Close()
	f, _, err := statefile.OpenIn(top.Stat, top.OpenFile, sumsName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", []Problem{*openProblem(sumsName, err)}
	}
	defer f.Close()
	h := sha256.New()
	list, problems, err = ParseSums(io.TeeReader(f, h))
	if err != nil {
		return nil, "", []Problem{{Kind: Unreadable, Name: sumsName, Why: WithoutPaths(err).Error()}}
	}
	for i := range list {
		list[i].Name = path.Clean(list[i].Name)
	}
	return list, hex.EncodeToString(h.Sum(nil)), problems
}

// unsignedSums returns a problem for each unsigned sum of the list.
func unsignedSums(list, signed []Sum) (problems []Problem) {
	known := map[Sum]bool{}
	for _, s := range signed {
		known[s] = true
	}
	for _, s := range list {
		if !known[s] {
			problems = append(problems, newProblems(BadList, "%s says something of %q that the receipt does not", sumsName,
				clip(escapeInvalidUTF8(s.Name)))...)
		}
	}
	return problems
}

// PartWithHash names the part of the run with a hash: "the artifact a.txt", "the code", "its standard output"; "" if
// there is none. all are the artifacts, as All returns them.
func (p Proof) PartWithHash(sum string, all []Sum) string {
	for _, s := range all {
		if s.SHA256 == sum {
			return "the artifact " + escapeInvalidUTF8(s.Name)
		}
	}
	switch sum {
	case p.CodeSHA256:
		return "the code"
	case p.StdoutSHA256:
		return "its standard output"
	case p.StderrSHA256:
		return "its standard error"
	case p.ValueSHA256:
		return "its value"
	}
	return ""
}
