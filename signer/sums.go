package signer

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// sumsName is the list of sums, in the folder that it is about.
const sumsName = "SHA256SUMS"

// escaper is the escaping of GNU sha256sum, which marks a line that needs it with a backslash in
// front. Coreutils before 9.0 know no \r and call such a line malformed.
var escaper = strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`)

// SumsSHA256 is the SHA-256 of what WriteSums writes, in lower-case hex.
func (m Manifest) SumsSHA256() string {
	h := sha256.New()
	_ = m.WriteSums(h) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil))
}

// WriteSums writes the artifacts that are not withheld as "sha256sum -c" reads them.
func (m Manifest) WriteSums(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, a := range m.Artifacts {
		if a.Withheld != "" {
			continue
		}
		name, mark := escaper.Replace(a.Name), ""
		if name != a.Name {
			mark = `\`
		}
		if name == "-" {
			name = "./-" // a lone - is standard input to sha256sum
		}
		fmt.Fprintf(b, "%s%s  %s\n", mark, a.SHA256, name)
	}
	return b.Flush()
}
