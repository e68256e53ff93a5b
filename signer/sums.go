package signer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// sumsName is the name of the list of sums, in its directory.
const sumsName = "SHA256SUMS"

// nameEscaper escapes names as GNU sha256sum does, which starts such a line with a backslash. Coreutils before 9.0
// don't support \r and report such a line as malformed.
var nameEscaper = strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`)

// SumsSHA256 returns the SHA-256 of the output of WriteSums, in lower-case hex.
func (m Manifest) SumsSHA256() string {
	h := sha256.New()
	_ = m.WriteSums(h) // a hash never fails
	return hex.EncodeToString(h.Sum(nil))
}

// WriteSums writes the artifacts that are not withheld as "sha256sum -c" reads them.
func (m Manifest) WriteSums(w io.Writer) error {
	for _, a := range m.Artifacts {
		if a.Withheld != "" {
			continue
		}
		name, mark := nameEscaper.Replace(a.Name), ""
		if name != a.Name {
			mark = `\`
		}
		if name == "-" {
			name = "./-" // sha256sum reads - as standard input
		}
		if _, err := fmt.Fprintf(w, "%s%s  %s\n", mark, a.SHA256, name); err != nil {
			return err
		}
	}
	return nil
}

// isHash reports whether s is a SHA-256 in lower-case hex.
func isHash(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && s == strings.ToLower(s)
}

// maxSums is the maximum size of a list of sums, in bytes: ten times that of DefaultMaxCount of the longest names.
const maxSums = 64 << 20

// ParseSums parses the output of sha256sum in its default format: lines "HASH  NAME", with a * instead of the second
// blank for binary mode, and with a leading \ if \n, \r and \\ in the name replace characters that would end the line.
// problems are about malformed lines and duplicate names.
func ParseSums(r io.Reader) (sums []Sum, problems []Problem, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxSums+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > maxSums {
		return nil, nil, fmt.Errorf("the list is larger than %d MiB", maxSums>>20)
	}
	seen := map[string]bool{}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		s, err := parseSum(strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"))
		if err == nil && seen[path.Clean(s.Name)] {
			err = fmt.Errorf("it lists %q once more", clip(s.Name))
		}
		if err != nil {
			problems = append(problems, newProblems(BadList, "line %d: %v", number, err)...)
			continue
		}
		seen[path.Clean(s.Name)] = true
		sums = append(sums, s)
	}
	if number == 0 {
		problems = newProblems(BadList, "it is empty")
	}
	return sums, problems, nil
}

func parseSum(line string) (Sum, error) {
	line, escaped := strings.CutPrefix(line, `\`)
	const digits = 64
	if len(line) < digits+3 || line[digits] != ' ' || line[digits+1] != ' ' && line[digits+1] != '*' {
		return Sum{}, errors.New("it is not of the form HASH  NAME")
	}
	s := Sum{Name: line[digits+2:], SHA256: strings.ToLower(line[:digits])}
	if !isHash(s.SHA256) {
		return Sum{}, errors.New("it does not begin with a SHA-256")
	}
	if escaped {
		var err error
		if s.Name, err = unescapeName(s.Name); err != nil {
			return Sum{}, err
		}
	}
	return s, nil
}

func unescapeName(name string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '\\' {
			b.WriteByte(name[i])
			continue
		}
		i++
		if i == len(name) {
			return "", errors.New(`its name ends in the middle of an escape`)
		}
		at := strings.IndexByte(`nr\`, name[i])
		if at < 0 {
			return "", fmt.Errorf(`its name has the escape \%c, which there is not`, name[i])
		}
		b.WriteByte("\n\r\\"[at])
	}
	return b.String(), nil
}

// VerifyManifest compares a directory with a list of sums, and returns the number of files in the list. An error means
// that the list or the directory can't be read.
func VerifyManifest(list io.Reader, d Directory) (files int, problems []Problem, err error) {
	sums, problems, err := ParseSums(list)
	if err != nil {
		return 0, nil, err
	}
	more, err := d.verify(sums)
	return len(sums), append(problems, more...), err
}
